//! Builtins of the shell and small programs with a rule of their own.

use windlass_core::OnlyReads;

use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// Adds the facts about a builtin. Returns whether the command is one.
pub(super) fn builtin(words: &[Word], facts: &mut CommandFacts) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    match program.text.as_str() {
        "set" => set(arguments, facts),
        "test" | "[" => test(words, facts),
        "printf" => printf(words, facts),
        "date" => date(words, facts),
        "cd" => facts.mark_unclear("it changes the directory in an unusual way"),
        _ => return false,
    }
    true
}

/// `set` with options that only decide when the shell ends, such as `-e` or `-o pipefail`. Others change the shell.
fn set(arguments: &[Word], facts: &mut CommandFacts) {
    let is_known = |word: &Word| {
        matches!(word.text.as_str(), "pipefail" | "errexit" | "nounset" | "xtrace")
            || word.text.strip_prefix(['-', '+']).is_some_and(|letters| {
                !letters.is_empty() && letters.chars().all(|c| matches!(c, 'e' | 'u' | 'x' | 'o'))
            })
    };
    if arguments.is_empty() || !arguments.iter().all(is_known) {
        return facts.mark_unclear("`set` changes the shell itself");
    }
    facts.set_only_reads(OnlyReads::Always);
}

/// `test`: its options `-v` and `-R` evaluate the brackets behind a variable's name, which may run anything.
fn test(words: &[Word], facts: &mut CommandFacts) {
    facts.set_only_reads(OnlyReads::Always);
    let evaluates =
        |word: &Word| matches!(word.text.as_str(), "-v" | "-R") || word.could_be_option();
    if let Some(at) = words.iter().skip(1).position(evaluates) {
        facts.add_risk(at + 1, "evaluates a word as code");
        facts.mark_unclear("`test` evaluates a word as code");
    }
}

/// `printf`: its option `-v` and the format `%n` set variables.
fn printf(words: &[Word], facts: &mut CommandFacts) {
    facts.set_only_reads(OnlyReads::Always);
    let Some(first) = words.get(1) else { return };
    let format = if first.text == "--" { words.get(2).unwrap_or(first) } else { first };
    let sets = |directive: &str| directive.chars().find(char::is_ascii_alphabetic) == Some('n');
    let is_option = first.text.starts_with('-') && first.text != "--";
    if is_option
        || format.could_be_option()
        || format.glob_at.is_some()
        || format.text.split('%').skip(1).any(sets)
    {
        facts.add_risk(1, "may set a variable");
        facts.mark_unclear("`printf` may set a variable");
    }
}

/// `date`: options other than those for the output may set the clock or read a file.
fn date(words: &[Word], facts: &mut CommandFacts) {
    facts.set_only_reads(OnlyReads::Always);
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        let is_known = text.starts_with('+')
            || matches!(text, "-u" | "--utc" | "--universal" | "-R" | "--rfc-email")
            || ["-I", "--iso-8601", "--rfc-3339=", "--date=", "-d"]
                .iter()
                .any(|option| text.starts_with(option));
        if !is_known || word.could_be_option() {
            facts.add_risk(at, "may set the clock, or read a file");
        }
        let takes_word = matches!(text, "-d" | "--date");
        if takes_word && words.get(at + 1).is_some_and(|value| value.glob_at.is_some()) {
            facts.add_risk(at + 1, "could be more than one word");
        }
        at += if takes_word { 2 } else { 1 };
    }
}
