//! `sed`: its script is parsed, because a script can write files (`w`), run programs (`e`) and read any file (`r`).

use windlass_core::OnlyReads;

use super::options;
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// The option table of `sed`.
const OPTIONS: &str = "\
    n,quiet,silent e,expression= E,r,regexp-extended l,line-length= posix s,separate u,unbuffered z,null-data sandbox debug \
    f,file=! i,in-place?^ follow-symlinks";

/// Reason for a script with other commands.
const SCRIPT_DOES_MORE: &str = "has a script that does more than print";

/// Adds the files that `sed` reads or edits in place, and a risk if its script may do more than print.
pub(super) fn sed(words: &[Word], facts: &mut CommandFacts) {
    facts.set_only_reads(OnlyReads::Always);
    let parsed = options::parse(&[OPTIONS], words, 1, facts);
    let in_place = parsed.has(&["i", "in-place"]);
    let has_script = parsed.has(&["e", "expression", "f", "file"]);
    let first = parsed.operands.first().filter(|_| !has_script);
    let first = first.and_then(|at| Some((*at, words.get(*at)?)));
    for (at, script) in parsed.values("e").chain(first) {
        if script.glob_at.is_some() || script.is_incomplete || !only_prints(&script.text) {
            facts.add_risk(at, SCRIPT_DOES_MORE);
            facts.mark_unseen(SCRIPT_DOES_MORE);
        }
    }
    for word in
        parsed.operands.iter().skip(usize::from(!has_script)).filter_map(|at| words.get(*at))
    {
        facts.add_read(word);
        if in_place {
            facts.add_write(word);
        }
    }
}

/// Returns whether a script only selects, changes and prints lines.
pub(super) fn only_prints(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '}']);
        if rest.is_empty() {
            return true;
        }
        match skip_command(rest) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
}

/// Skips one command and returns the rest; `None` if the command is not known to be harmless.
fn skip_command(text: &str) -> Option<&str> {
    let text = skip_addresses(text)?.trim_start_matches([' ', '\t', '!']);
    let mut characters = text.chars();
    let letter = characters.next()?;
    let rest = characters.as_str();
    match letter {
        '{' => Some(rest),
        'p' | 'd' | 'D' | 'P' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'l' => {
            require_separator(rest)
        }
        'q' | 'Q' => {
            require_separator(rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '))
        }
        's' => skip_substitution(rest),
        'y' => {
            let (delimiter, rest) = split_delimiter(rest)?;
            require_separator(after_delimiter(after_delimiter(rest, delimiter)?, delimiter)?)
        }
        _ => None,
    }
}

/// Returns the rest behind blanks if the command ends there; `None` if more text follows.
fn require_separator(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches([' ', '\t']);
    (rest.is_empty() || rest.starts_with(['\n', ';', '}'])).then_some(rest)
}

/// Skips up to two addresses: numbers, `$`, `/…/`, steps.
fn skip_addresses(text: &str) -> Option<&str> {
    let rest = skip_address(text)?;
    if rest.len() == text.len() {
        return Some(text);
    }
    let rest = rest.trim_start_matches([' ', '\t']);
    let Some(second) = rest.strip_prefix(',') else { return Some(rest) };
    let second = second.trim_start_matches([' ', '\t']);
    match second.strip_prefix(['+', '~']) {
        Some(number) => Some(skip_digits(number)),
        None => skip_address(second).filter(|behind| behind.len() < second.len()),
    }
}

/// Skips an address if there is one; `None` if it cannot be parsed.
fn skip_address(text: &str) -> Option<&str> {
    let behind_number = skip_digits(text);
    if behind_number.len() < text.len() {
        return Some(behind_number.strip_prefix('~').map_or(behind_number, skip_digits));
    }
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    match text.strip_prefix('/') {
        Some(pattern) => Some(after_delimiter(pattern, '/')?.trim_start_matches(['I', 'M'])),
        // `\cREGEXc` is not supported.
        None => (!text.starts_with('\\')).then_some(text),
    }
}

/// Returns the text behind its leading digits.
fn skip_digits(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_digit())
}

/// Skips the rest of `s/…/…/` with harmless flags.
fn skip_substitution(text: &str) -> Option<&str> {
    let (delimiter, rest) = split_delimiter(text)?;
    let rest = after_delimiter(after_delimiter(rest, delimiter)?, delimiter)?;
    require_separator(
        rest.trim_start_matches(|c: char| matches!(c, 'g' | 'p' | 'i' | 'I') || c.is_ascii_digit()),
    )
}

/// Splits off the delimiter of an `s` or `y` command.
fn split_delimiter(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    let delimiter = characters.next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
    Some((delimiter, characters.as_str()))
}

/// Returns the text behind the next delimiter. Returns `None` if a bracket expression contains the delimiter or a backslash, because
/// versions of `sed` read that differently.
fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => drop(characters.next()?),
            '\n' => return None,
            '[' => {
                // A bracket expression must end before the next delimiter.
                let inside = bracket_class(text.get(at + 1..)?)?;
                if inside.contains(delimiter) || inside.contains(['\\', '\n']) {
                    return None;
                }
                return after_delimiter(text.get(at + 1 + inside.len()..)?, delimiter);
            }
            c if c == delimiter => return text.get(at + c.len_utf8()..),
            _ => {}
        }
    }
    None
}

/// Returns the text of a bracket expression up to its closing bracket. A bracket at its start or in `[:alpha:]` does not close it.
fn bracket_class(text: &str) -> Option<&str> {
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
    fn sed_scripts_that_only_print_are_recognized() {
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
