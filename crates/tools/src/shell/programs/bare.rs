//! The words of a command without the options around its subcommands: `git -C . push` is `git push` to a rule that denies that.

use super::options;
use super::table::Program;
use crate::shell::found::Found;
use crate::shell::syntax::Word;

/// Notes the other forms of a command. Of a program without a row it is not known which options take a word, so both ways count.
pub(super) fn note(global: Option<&'static str>, words: &[Word], found: &mut Found) {
    let is_option = |word: &Word| word.text.len() > 1 && word.text.starts_with(['-', '+']);
    if !words.iter().skip(1).any(is_option) {
        return;
    }
    let Some(program) = words.first() else { return };
    let begin = global.map_or(1, |global| subcommand(global, words));
    let rest = words.get(begin..).unwrap_or_default();
    add(program, rest.iter(), found);
    add(program, rest.iter().filter(|word| !is_option(word)), found);
    let mut is_value = false;
    let alone = rest.iter().filter(|word| {
        let takes_word = is_option(word) && !word.text.contains('=');
        let was_value = std::mem::replace(&mut is_value, takes_word);
        !is_option(word) && !was_value
    });
    add(program, alone, found);
}

/// Where the subcommand of a program stands.
pub(super) fn subcommand(global: &'static str, words: &[Word]) -> usize {
    let mut begin = 1;
    // A toolchain: `cargo +nightly`.
    while words.get(begin).is_some_and(|word| word.text.starts_with('+')) {
        begin += 1;
    }
    let sorted = options::sort_leading(&[global], words, begin, &mut Found::default());
    sorted.operands.first().copied().unwrap_or(words.len())
}

/// Adds the words as far as they are literal.
fn add<'w>(program: &'w Word, rest: impl Iterator<Item = &'w Word>, found: &mut Found) {
    let words = std::iter::once(program).chain(rest).take_while(|word| !word.is_open);
    let words: Vec<String> = words.map(|word| word.text.clone()).collect();
    if words.len() > 1 && !found.bare.contains(&words) {
        found.bare.push(words);
    }
}

/// A command that a tool runs.
pub(super) struct Inner {
    /// Where it begins.
    pub(super) at: usize,
    /// Whether no option before it is unknown, so that it does begin there.
    pub(super) is_certain: bool,
}

/// Returns the command that a tool runs behind one of these subcommands.
pub(super) fn inner_command(row: &Program, runs: &str, words: &[Word]) -> Option<Inner> {
    let sorted = options::sort_leading(&[row.options], words, 1, &mut Found::default());
    let begin = *sorted.operands.first()?;
    if runs == "*" {
        return Some(Inner { at: begin, is_certain: !sorted.has_unknown });
    }
    let verb = words.get(begin)?;
    runs.split(' ').find(|known| *known == verb.text)?;
    let options = words.iter().skip(begin + 1).take_while(|word| word.text.starts_with('-'));
    let options: Vec<&str> = options.map(|word| word.text.as_str()).collect();
    let is_closed = options.iter().all(|option| *option == "--" || option.contains('='));
    let at = begin + 1 + options.len();
    words.get(at).map(|_| Inner { at, is_certain: is_closed && !sorted.has_unknown })
}
