//! The options of a program as a table, and its words sorted by it.
//!
//! A table is a text with a word for each option, all names of it: `n,lines=` needs a value, `color?` may have one joined to it.
//! Behind that stands what the option does beyond the usual: `=<` reads the file that it names, `=>` writes it, `!` is a risk.
//! `NUMBER` is an option too: `-20`. What is not in the table is a risk: the names of long options can be cut short, and new ones come.

use crate::shell::found::Found;
use crate::shell::syntax::Word;

/// How the value of an option is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    MaybeValue,
}

/// What an option does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Nothing,
    Reads,
    Writes,
    Risk,
}

#[derive(Clone, Copy)]
struct Choice {
    names: &'static str,
    takes: Takes,
    does: Does,
}

impl Choice {
    fn of(row: &'static str) -> Self {
        let (row, does) = [('<', Does::Reads), ('>', Does::Writes), ('!', Does::Risk)]
            .into_iter()
            .find_map(|(mark, does)| Some((row.strip_suffix(mark)?, does)))
            .unwrap_or((row, Does::Nothing));
        // A value that may follow or not is left to the words.
        let (names, takes) =
            [('=', Takes::Value), ('?', Takes::MaybeValue), ('~', Takes::MaybeValue)]
                .into_iter()
                .find_map(|(mark, takes)| Some((row.strip_suffix(mark)?, takes)))
                .unwrap_or((row, Takes::Nothing));
        Self { names, takes, does }
    }

    fn is_named(self, name: &str) -> bool {
        self.names.split(',').any(|known| known == name)
    }
}

/// The words of a command, sorted.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// Where the words stand that are no options.
    pub(super) operands: Vec<usize>,
    /// All names of each option that was given.
    given: Vec<&'static str>,
    /// Where the values of options stand that are words of their own.
    values: Vec<(&'static str, usize)>,
}

impl Sorted {
    /// Whether one of these options was given.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| given.split(',').any(|name| names.contains(&name)))
    }

    /// The words that are values of this option.
    pub(super) fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = usize> + 's {
        let is = move |names: &str| names.split(',').any(|known| known == name);
        self.values.iter().filter(move |(names, _)| is(names)).map(|(_, at)| *at)
    }
}

const UNKNOWN: &str = "is an option that is not known here";
const RISKY: &str = "makes it run, load or write something else";
const WRITES: &str = "writes a file";
const COULD_BE: &str = "could become an option";

/// Sorts the words behind the first `skip` by these tables, and notes what the options do.
pub(super) fn sort(
    tables: &[&'static str],
    words: &[Word],
    skip: usize,
    found: &mut Found,
) -> Sorted {
    let mut sorted = Sorted::default();
    let choices = || tables.iter().flat_map(|table| table.split_whitespace()).map(Choice::of);
    let is_risky = choices().any(|choice| matches!(choice.does, Does::Risk | Does::Writes));
    let mut at = skip;
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        if text == "--" {
            sorted.operands.extend(at + 1..words.len());
            break;
        }
        if word.could_be_option() && is_risky {
            found.risk(at, COULD_BE);
        }
        if !text.starts_with('-') || text == "-" {
            sorted.operands.push(at);
            at += 1;
            continue;
        }
        let number =
            text.get(1..).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        if number && choices().any(|choice| choice.names == "NUMBER") {
            at += 1;
            continue;
        }
        let long = |name: &str| choices().find(|choice| choice.is_named(name));
        at = match text.strip_prefix("--") {
            Some(long_name) => sort_long(long_name, long, words, at, &mut sorted, found),
            None => sort_cluster(long, words, at, &mut sorted, found),
        };
    }
    sorted
}

fn sort_long(
    text: &str,
    find: impl Fn(&str) -> Option<Choice>,
    words: &[Word],
    at: usize,
    sorted: &mut Sorted,
    found: &mut Found,
) -> usize {
    let (name, value) =
        text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    // A single letter is no long option.
    match find(name).filter(|_| name.len() > 1) {
        Some(choice) if value.is_none() || choice.takes != Takes::Nothing => {
            note(choice, value, words, at, sorted, found)
        }
        _ => {
            found.risk(at, UNKNOWN);
            at + 1
        }
    }
}

/// Short options in one word: `-la`, `-n5`, `-n 5`.
fn sort_cluster(
    find: impl Fn(&str) -> Option<Choice>,
    words: &[Word],
    at: usize,
    sorted: &mut Sorted,
    found: &mut Found,
) -> usize {
    let text = words.get(at).map_or("", |word| word.text.as_str());
    let mut rest = text.get(1..).unwrap_or_default();
    while let Some(letter) = rest.chars().next() {
        let (name, behind) = rest.split_at(letter.len_utf8());
        let Some(choice) = find(name) else {
            found.risk(at, UNKNOWN);
            return at + 1;
        };
        if choice.takes != Takes::Nothing {
            let joined = (!behind.is_empty()).then_some(behind);
            return note(choice, joined, words, at, sorted, found);
        }
        note(choice, None, words, at, sorted, found);
        rest = behind;
    }
    at + 1
}

/// Notes an option and what it does; the answer is where the next word stands.
fn note(
    choice: Choice,
    joined: Option<&str>,
    words: &[Word],
    at: usize,
    sorted: &mut Sorted,
    found: &mut Found,
) -> usize {
    sorted.given.push(choice.names);
    let apart = choice.takes == Takes::Value && joined.is_none();
    let value = match joined {
        Some(value) => Some(Word::literal(value)),
        None if apart => words.get(at + 1).cloned(),
        None => None,
    };
    if apart {
        sorted.values.push((choice.names, at + 1));
    }
    match choice.does {
        Does::Nothing => {}
        Does::Risk => found.risk(at, RISKY),
        Does::Reads => {
            if let Some(value) = value.filter(|value| value.text != "-") {
                found.read(&value);
            }
        }
        Does::Writes => {
            found.risk(at, WRITES);
            if let Some(value) = value.filter(|value| value.text != "-") {
                found.write(&value);
            }
        }
    }
    at + 1 + usize::from(apart)
}
