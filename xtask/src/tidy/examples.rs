//! Checks that public items of the embeddable libraries have an example.
//!
//! An example is a block of the item's doc comment that `cargo test --doc` runs. Whether an item can be reached from outside is
//! not asked: the lint `unreachable_pub` sees to it that `pub` means just that. Methods and the items inside of macros are not
//! looked at.

use super::source::is_name;
use super::{File, numbered};

/// Of the tools, only what the facade re-exports.
const DIRECTORIES: &[&str] =
    &["crates/core/src/", "crates/hooks/src/", "crates/windlass/src/", "crates/tools/src/diff"];

/// The kinds of items that need an example; modules, constants and re-exports need none.
const KINDS: &[&str] = &["struct", "enum", "trait", "fn", "type"];

/// Words between `pub` and the kind of an item.
const QUALIFIERS: &[&str] = &["async", "const"];

/// The public top-level items that have no example.
pub(super) fn find(files: &[File]) -> Vec<String> {
    let is_library = |file: &&File| DIRECTORIES.iter().any(|place| file.path.starts_with(place));
    files.iter().filter(|file| file.is_rust()).filter(is_library).flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    let mut comment = Vec::new();
    for (number, line) in numbered(&file.text) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text);
        } else if !is_between(line) {
            if let Some(item) = item(line).filter(|_| !has_example(&comment)) {
                findings.push(format!("{}:{number}: {item} has no example that runs", file.path));
            }
            comment.clear();
        }
    }
    findings
}

/// Returns whether a line may be between a doc comment and its item: a comment, an attribute or its continuation.
fn is_between(line: &str) -> bool {
    line.starts_with(['/', '#', ' ', ')', ']'])
}

/// The kind and the name of the public item that begins on a line.
fn item(line: &str) -> Option<String> {
    let mut words = line.strip_prefix("pub ")?.split(|c: char| !is_name(c));
    let kind = words.find(|word| !QUALIFIERS.contains(word)).filter(|word| KINDS.contains(word))?;
    Some(format!("{kind} {}", words.next()?))
}

/// Returns whether a comment has a code block that runs as a doc test. Every second fence closes a block.
fn has_example(comment: &[&str]) -> bool {
    let fences = comment.iter().filter_map(|line| line.trim().strip_prefix("```"));
    fences.step_by(2).any(|language| matches!(language, "" | "rust"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const EXAMPLE: &str = "/// Text.\n///\n/// ```\n/// assert!(true);\n/// ```\n";

    fn check(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(find(&[file(path, text)]), expected, "{path}: {text}");
    }

    #[test]
    fn an_item_without_an_example_is_found() {
        for (line, name) in [
            ("pub struct A;", "struct A"),
            ("pub struct A<'a, T>(&'a T);", "struct A"),
            ("pub enum A {", "enum A"),
            ("pub trait A: Send {", "trait A"),
            ("pub fn a(b: u8) -> u8 {", "fn a"),
            ("pub async fn a() {", "fn a"),
            ("pub const fn a() {", "fn a"),
            ("pub type A<T> = Vec<T>;", "type A"),
        ] {
            let finding = format!("crates/core/src/a.rs:2: {name} has no example that runs");
            check("crates/core/src/a.rs", &format!("/// Text.\n{line}"), &[&finding]);
            check("crates/core/src/a.rs", &format!("{EXAMPLE}{line}"), &[]);
        }
    }

    #[test]
    fn private_items_and_other_crates_need_no_example() {
        for line in [
            "struct A;",
            "pub(crate) struct A;",
            "pub use a::A;",
            "pub mod a;",
            "pub const A: u8 = 1;",
            "    pub fn method(&self) {",
            "/// pub struct A;",
        ] {
            check("crates/core/src/a.rs", line, &[]);
        }
        check("crates/host/src/a.rs", "pub struct A;", &[]);
        check("crates/core/tests/a.rs", "pub struct A;", &[]);
        check("crates/core/src/a.md", "pub struct A;", &[]);
    }

    #[test]
    fn an_example_counts_for_its_own_item_only() {
        let attributes = "#[derive(Debug)]\n// Why.\n#[error(\n    \"{0}\"\n)]\n";
        check("crates/windlass/src/lib.rs", &format!("{EXAMPLE}{attributes}pub struct A;"), &[]);
        for between in ["", "\n", "struct Other {\n    a: u8,\n}\n\n/// Text.\n", "mod other;\n"] {
            let text = format!("{EXAMPLE}pub struct A;\n{between}pub struct B;");
            let found = find(&[file("crates/windlass/src/lib.rs", &text)]);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found.iter().all(|finding| finding.contains("struct B ")), "{found:?}");
        }
    }

    #[test]
    fn an_example_must_run() {
        for (fences, findings) in [
            ("/// ```rust\n/// ```", 0),
            ("/// ```text\n/// ```\n/// ```\n/// ```", 0),
            ("/// ```text\n/// ```", 1),
            ("/// ```ignore\n/// ```", 1),
            ("/// ```no_run\n/// ```", 1),
            ("/// ```compile_fail\n/// ```", 1),
        ] {
            let text = format!("{fences}\npub struct A;");
            assert_eq!(find(&[file("crates/core/src/a.rs", &text)]).len(), findings, "{text}");
        }
    }
}
