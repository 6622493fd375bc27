//! Reports the longest files and functions. Nothing fails here.

use super::File;
use super::source::{self, Part};

const SHOWN: usize = 10;

/// Something with a length in lines.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    lines: usize,
    place: String,
}

pub(super) fn report(files: &[File]) -> String {
    let rust: Vec<&File> = files.iter().filter(|file| file.is_rust()).collect();
    let long_files =
        rust.iter().map(|file| Item { lines: file.text.lines().count(), place: file.path.clone() });
    let long_functions = rust.iter().flat_map(|file| functions(file));
    list("longest files", long_files.collect())
        + &list("longest functions", long_functions.collect())
}

fn list(title: &str, mut items: Vec<Item>) -> String {
    items.sort_by(|a, b| b.lines.cmp(&a.lines).then_with(|| a.place.cmp(&b.place)));
    let line = |Item { lines, place }: &Item| format!("{lines:>6}  {place}\n");
    let lines: String = items.iter().take(SHOWN).map(line).collect();
    format!("{title}, in lines:\n{lines}")
}

fn functions(file: &File) -> Vec<Item> {
    let code = source::only(Part::Code, &file.text);
    source::occurrences(&code, "fn").filter_map(|at| function(file, &code, at)).collect()
}

/// The function whose `fn` stands at `at`; nothing for function types and for declarations without a body.
fn function(file: &File, code: &str, at: usize) -> Option<Item> {
    let after = code.get(at + "fn".len()..)?.trim_start();
    let name: String = after.chars().take_while(|c| source::is_name(*c)).collect();
    if name.is_empty() {
        return None;
    }
    let end = body_end(code.get(at..)?)? + at;
    let (first, last) = (source::line_of(code, at), source::line_of(code, end));
    Some(Item { lines: last - first + 1, place: format!("{}:{first} {name}", file.path) })
}

/// The position of the brace that closes a function's body, which is the first brace outside of parentheses and brackets.
fn body_end(code: &str) -> Option<usize> {
    let (mut round, mut curly) = (0_i32, 0_i32);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => round += 1,
            b')' | b']' => round -= 1,
            b';' if round == 0 && curly == 0 => return None,
            b'{' if round == 0 || curly > 0 => curly += 1,
            b'}' if curly > 0 => {
                curly -= 1;
                if curly == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn functions_are_measured_from_their_name_to_their_last_brace() {
        let source = "trait A { fn no_body(&self) -> [u8; 4]; }\n\
                      fn short() {}\n\
                      // fn comment() {}\n\
                      fn long(\n    f: fn(u8) -> u8,\n) -> bool\nwhere\n{\n    if true { \"}\" } else { '}' }\n}\n";
        let items = functions(&file("a.rs", source));
        let found: Vec<(usize, &str)> =
            items.iter().map(|item| (item.lines, item.place.as_str())).collect();
        assert_eq!(found, [(1, "a.rs:2 short"), (7, "a.rs:4 long")]);
    }

    #[test]
    fn the_report_is_sorted_and_cut() {
        let files: Vec<File> =
            (1..=12).map(|n| file(&format!("{n}.rs"), &"x\n".repeat(n))).collect();
        let report = report(&files);
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!(lines[..2], ["longest files, in lines:", "    12  12.rs"]);
        assert_eq!(lines.len(), 1 + SHOWN + 1);
    }
}
