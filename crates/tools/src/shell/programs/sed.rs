//! `sed`: its script is read, since a script can write files (`w`), run programs (`e`) and read any file (`r`).

use windlass_core::OnlyReads;

use super::options;
use crate::shell::found::Found;
use crate::shell::syntax::Word;

const OPTIONS: &str = "\
    n,quiet,silent e,expression= E,r,regexp-extended l,line-length= posix s,separate u,unbuffered z,null-data sandbox debug \
    f,file=! i,in-place?^ follow-symlinks";

const DOES_MORE: &str = "has a script that does more than print";

pub(super) fn sed(words: &[Word], found: &mut Found) {
    found.reads(OnlyReads::Always);
    let sorted = options::sort(&[OPTIONS], words, 1, found);
    let in_place = sorted.has(&["i", "in-place"]);
    let has_script = sorted.has(&["e", "expression", "f", "file"]);
    let first = sorted.operands.first().filter(|_| !has_script);
    let first = first.and_then(|at| Some((*at, words.get(*at)?)));
    for (at, script) in sorted.values("e").chain(first) {
        if script.pattern.is_some() || script.is_open || !only_prints(&script.text) {
            found.risk(at, DOES_MORE);
            found.unseen(DOES_MORE);
        }
    }
    for word in
        sorted.operands.iter().skip(usize::from(!has_script)).filter_map(|at| words.get(*at))
    {
        found.read(word);
        if in_place {
            found.write(word);
        }
    }
}

/// Whether a script does nothing but choose, change and print lines.
pub(super) fn only_prints(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '}']);
        if rest.is_empty() {
            return true;
        }
        match command(rest) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
}

/// Passes over one command, if it is known to be harmless.
fn command(text: &str) -> Option<&str> {
    let text = addresses(text)?.trim_start_matches([' ', '\t', '!']);
    let mut characters = text.chars();
    let letter = characters.next()?;
    let rest = characters.as_str();
    match letter {
        '{' => Some(rest),
        'p' | 'd' | 'D' | 'P' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'l' => ends(rest),
        'q' | 'Q' => ends(rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')),
        's' => substitution(rest),
        'y' => {
            let (delimiter, rest) = delimiter(rest)?;
            ends(behind(behind(rest, delimiter)?, delimiter)?)
        }
        _ => None,
    }
}

/// A command ends at a separator.
fn ends(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches([' ', '\t']);
    (rest.is_empty() || rest.starts_with(['\n', ';', '}'])).then_some(rest)
}

/// Passes over none, one or two addresses: numbers, `$`, `/…/`, steps.
fn addresses(text: &str) -> Option<&str> {
    let rest = address(text)?;
    if rest.len() == text.len() {
        return Some(text);
    }
    let rest = rest.trim_start_matches([' ', '\t']);
    let Some(second) = rest.strip_prefix(',') else { return Some(rest) };
    let second = second.trim_start_matches([' ', '\t']);
    match second.strip_prefix(['+', '~']) {
        Some(number) => Some(digits(number)),
        None => address(second).filter(|behind| behind.len() < second.len()),
    }
}

/// Passes over an address, if there is one; `None` if it is not understood.
fn address(text: &str) -> Option<&str> {
    let behind_number = digits(text);
    if behind_number.len() < text.len() {
        return Some(behind_number.strip_prefix('~').map_or(behind_number, digits));
    }
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    match text.strip_prefix('/') {
        Some(pattern) => Some(behind(pattern, '/')?.trim_start_matches(['I', 'M'])),
        // `\cREGEXc` is left to people.
        None => (!text.starts_with('\\')).then_some(text),
    }
}

fn digits(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_digit())
}

fn substitution(text: &str) -> Option<&str> {
    let (delimiter, rest) = delimiter(text)?;
    let rest = behind(behind(rest, delimiter)?, delimiter)?;
    ends(
        rest.trim_start_matches(|c: char| matches!(c, 'g' | 'p' | 'i' | 'I') || c.is_ascii_digit()),
    )
}

fn delimiter(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    let delimiter = characters.next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
    Some((delimiter, characters.as_str()))
}

/// What stands behind the next delimiter. A class that holds it, or that holds a backslash, is read in more than one way: such a
/// text is not understood.
fn behind(text: &str, delimiter: char) -> Option<&str> {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => drop(characters.next()?),
            '\n' => return None,
            '[' => {
                // A class: it must end before the delimiter comes again.
                let inside = class(text.get(at + 1..)?)?;
                if inside.contains(delimiter) || inside.contains(['\\', '\n']) {
                    return None;
                }
                return behind(text.get(at + 1 + inside.len()..)?, delimiter);
            }
            c if c == delimiter => return text.get(at + c.len_utf8()..),
            _ => {}
        }
    }
    None
}

/// The inside of a class of characters, and its end. The first bracket in it closes nothing, and neither does the one of `[:alpha:]`.
fn class(text: &str) -> Option<&str> {
    let mut at = text.len() - text.strip_prefix('^').unwrap_or(text).len();
    at += usize::from(text.get(at..)?.starts_with(']'));
    loop {
        let rest = text.get(at..)?;
        let named = ["[:", "[.", "[="].iter().find(|open| rest.starts_with(**open));
        if let Some(open) = named {
            let close = [open.get(1..)?, "]"].concat();
            at += 2 + rest.get(2..)?.find(&close)? + close.len();
            continue;
        }
        let next = rest.chars().next()?;
        at += next.len_utf8();
        if next == ']' {
            return text.get(..at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_only_print() {
        for script in [
            "1,20p",
            "p",
            "$p",
            "$=",
            "/foo/p",
            "/a/,/b/p",
            "s/a/b/",
            "s/a/b/g;s/c/d/2",
            "1d;$d",
            "10q",
            "/x/I!d",
            "s|/a|/b|g",
            "y/abc/xyz/",
            "1~2p",
            "5,+3p",
            "/^$/d",
            "s/[^a]b//",
            "1{p;q}",
            "/a/{s/x/y/;p}",
            "n;d",
            "",
            "s/a\\/b/c/",
            "s/[[:space:]]*$//",
            "s/[^]]*]//;p",
            "/[]]/d",
        ] {
            assert!(only_prints(script), "{script}");
        }
        for script in [
            "w f",
            "1w f",
            "s/a/b/w f",
            "s/a/b/e",
            "e",
            "1e date",
            "e date",
            "r f",
            "R f",
            "W f",
            "F",
            "a text",
            "i\\\ntext",
            "c x",
            "s/a/b/gw f",
            "/x/e",
            "$!w f",
            "1,2w f",
            "p;w f",
            "{w f",
            "s/[/]/x/;w f",
            "s/a/b",
            "s\nanbn",
            "\\cxcw f",
            "T",
            "b",
            ":a",
            "v",
            "z",
            "p w f",
            "s/[\\]/]/e/",
            "s/[[:a]/]/b/e",
            "s/[^]/]x/g;/w f/p",
            "s/[]/]x/g;/w f/p",
            "s/[[:alpha:]/]x/g;/w f/p",
            "/[[.-.]/]/w f/p",
        ] {
            assert!(!only_prints(script), "{script}");
        }
    }
}
