//! Forms of a command without the options around its subcommands: a rule that denies `git push` also denies `git -C . push`.

use super::options;
use super::table::Program;
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// Adds the bare forms of a command. `global` is the option table of the program; without one it is not known which options take a value,
/// so both readings are added.
pub(super) fn note(global: Option<&'static str>, words: &[Word], facts: &mut CommandFacts) {
    let is_option = |word: &Word| word.text.len() > 1 && word.text.starts_with(['-', '+']);
    if !words.iter().skip(1).any(is_option) {
        return;
    }
    let Some(program) = words.first() else { return };
    let begin = global.map_or(1, |global| subcommand_index(global, words));
    let rest = words.get(begin..).unwrap_or_default();
    add(program, rest.iter(), facts);
    add(program, rest.iter().filter(|word| !is_option(word)), facts);
    let mut is_value = false;
    let alone = rest.iter().filter(|word| {
        let takes_word = is_option(word) && !word.text.contains('=');
        let was_value = std::mem::replace(&mut is_value, takes_word);
        !is_option(word) && !was_value
    });
    add(program, alone, facts);
}

/// Returns the index of the subcommand, behind toolchains and global options.
pub(super) fn subcommand_index(global: &'static str, words: &[Word]) -> usize {
    let mut begin = 1;
    // A toolchain: `cargo +nightly`.
    while words.get(begin).is_some_and(|word| word.text.starts_with('+')) {
        begin += 1;
    }
    let parsed = options::parse_leading(&[global], words, begin, &mut CommandFacts::default());
    parsed.operands.first().copied().unwrap_or(words.len())
}

/// Adds a form of the command, up to the first incomplete word.
fn add<'w>(program: &'w Word, rest: impl Iterator<Item = &'w Word>, facts: &mut CommandFacts) {
    let words = std::iter::once(program).chain(rest).take_while(|word| !word.is_incomplete);
    let words: Vec<String> = words.map(|word| word.text.clone()).collect();
    if words.len() > 1 && !facts.bare.contains(&words) {
        facts.bare.push(words);
    }
}

/// The position of a command in the words of a tool that runs it.
pub(super) struct InnerCommandStart {
    /// Index of its first word.
    pub(super) at: usize,
    /// True if all options before it are known, so that the position is certain.
    pub(super) is_certain: bool,
}

/// Finds the command behind a subcommand that runs one, such as `npm exec`. `runs` lists these subcommands; `*` stands for the tool itself.
pub(super) fn inner_command(
    row: &Program,
    runs: &str,
    words: &[Word],
) -> Option<InnerCommandStart> {
    let parsed = options::parse_leading(&[row.options], words, 1, &mut CommandFacts::default());
    let begin = *parsed.operands.first()?;
    if runs == "*" {
        return Some(InnerCommandStart { at: begin, is_certain: !parsed.has_unknown });
    }
    let verb = words.get(begin)?;
    runs.split(' ').find(|known| *known == verb.text)?;
    let options = words.iter().skip(begin + 1).take_while(|word| word.text.starts_with('-'));
    let options: Vec<&str> = options.map(|word| word.text.as_str()).collect();
    let is_closed = options.iter().all(|option| *option == "--" || option.contains('='));
    let at = begin + 1 + options.len();
    words.get(at).map(|_| InnerCommandStart { at, is_certain: is_closed && !parsed.has_unknown })
}
