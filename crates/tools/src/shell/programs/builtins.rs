//! What the shell does itself, and small programs with a rule of their own.

use windlass_core::OnlyReads;

use crate::shell::found::Found;
use crate::shell::syntax::Word;

pub(super) fn builtin(words: &[Word], found: &mut Found) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    match program.text.as_str() {
        "set" => set(arguments, found),
        "test" | "[" => test(words, found),
        "printf" => printf(words, found),
        "date" => date(words, found),
        "cd" => found.unclear("it changes the directory in an unusual way"),
        _ => return false,
    }
    true
}

/// `set -e`, `set -euo pipefail`: how the shell ends, not what it runs.
fn set(arguments: &[Word], found: &mut Found) {
    let is_known = |word: &Word| {
        matches!(word.text.as_str(), "pipefail" | "errexit" | "nounset" | "xtrace")
            || word.text.strip_prefix(['-', '+']).is_some_and(|letters| {
                !letters.is_empty() && letters.chars().all(|c| matches!(c, 'e' | 'u' | 'x' | 'o'))
            })
    };
    if arguments.is_empty() || !arguments.iter().all(is_known) {
        return found.unclear("`set` changes the shell itself");
    }
    found.reads(OnlyReads::Always);
}

/// `-v` and `-R` read the name of a variable, and calculate what is in its brackets: that may run anything.
fn test(words: &[Word], found: &mut Found) {
    found.reads(OnlyReads::Always);
    let evaluates =
        |word: &Word| matches!(word.text.as_str(), "-v" | "-R") || word.could_be_option();
    if let Some(at) = words.iter().skip(1).position(evaluates) {
        found.risk(at + 1, "reads a word as code");
        found.unclear("a word is read as code");
    }
}

/// `-v` and `%n` set variables.
fn printf(words: &[Word], found: &mut Found) {
    found.reads(OnlyReads::Always);
    let Some(first) = words.get(1) else { return };
    let format = if first.text == "--" { words.get(2).unwrap_or(first) } else { first };
    let sets = |directive: &str| directive.chars().find(char::is_ascii_alphabetic) == Some('n');
    let is_option = first.text.starts_with('-') && first.text != "--";
    if is_option
        || format.could_be_option()
        || format.pattern.is_some()
        || format.text.split('%').skip(1).any(sets)
    {
        found.risk(1, "may set a variable");
        found.unclear("`printf` may set a variable");
    }
}

fn date(words: &[Word], found: &mut Found) {
    found.reads(OnlyReads::Always);
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        let is_known = text.starts_with('+')
            || matches!(text, "-u" | "--utc" | "--universal" | "-R" | "--rfc-email")
            || ["-I", "--iso-8601", "--rfc-3339=", "--date=", "-d"]
                .iter()
                .any(|option| text.starts_with(option));
        if !is_known || word.could_be_option() {
            found.risk(at, "may set the clock, or read a file");
        }
        let takes_word = matches!(text, "-d" | "--date");
        if takes_word && words.get(at + 1).is_some_and(|value| value.pattern.is_some()) {
            found.risk(at + 1, "could be more than one word");
        }
        at += if takes_word { 2 } else { 1 };
    }
}
