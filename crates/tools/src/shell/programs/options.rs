//! The options of a program as a table, and its words sorted by it.
//!
//! A table is a text with a word for each option, all names of it: `n,lines=` needs a value, `color?` may have one joined to it.
//! `bind==` has two. Behind that stands what the option does beyond the usual: `=<` reads the file that it names, `=>` writes it,
//! `=$` gives a script to a shell, `^` reads or writes files that are not named, `!` runs or loads something else. The names of long
//! options can be cut short as far as one of the table is meant; what is not in the table is a risk, because new ones come.
//!
//! Some words of a table are about all options. With `NUMBER`, one can be a number: `-20`. With `@FILE`, a word `@path` stands for
//! the words in that file. With `WORDS`, long names stand behind one dash or two (`-json`), and are neither cut short nor joined. With
//! `APART`, the value of a short option is the next word, also where letters follow, so one that has a value must stand alone.

use crate::shell::found::Found;
use crate::shell::syntax::Word;

/// How the value of an option is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    TwoValues,
    MaybeValue,
}

/// What an option does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Nothing,
    Reads,
    Writes,
    Script,
    More,
    Runs,
}

#[derive(Clone, Copy)]
struct Choice {
    names: &'static str,
    takes: Takes,
    does: Does,
}

impl Choice {
    fn of(row: &'static str) -> Self {
        const DOES: [(char, Does); 5] = [
            ('<', Does::Reads),
            ('>', Does::Writes),
            ('$', Does::Script),
            ('^', Does::More),
            ('!', Does::Runs),
        ];
        // A value that may follow or not is left to the words.
        const TAKES: [(&str, Takes); 4] = [
            ("==", Takes::TwoValues),
            ("=", Takes::Value),
            ("?", Takes::MaybeValue),
            ("~", Takes::MaybeValue),
        ];
        let (row, does) = DOES
            .into_iter()
            .find_map(|(mark, does)| Some((row.strip_suffix(mark)?, does)))
            .unwrap_or((row, Does::Nothing));
        let (names, takes) = TAKES
            .into_iter()
            .find_map(|(mark, takes)| Some((row.strip_suffix(mark)?, takes)))
            .unwrap_or((row, Takes::Nothing));
        Self { names, takes, does }
    }

    fn is_named(self, name: &str) -> bool {
        self.names.split(',').any(|known| known == name)
    }

    /// Whether a long name of it begins like this.
    fn begins_with(self, text: &str) -> bool {
        self.names.split(',').any(|name| name.len() > 1 && name.starts_with(text))
    }
}

/// The words of a command, sorted.
#[derive(Debug, Default)]
pub(in crate::shell) struct Sorted {
    /// Where the words stand that are no options.
    pub(in crate::shell) operands: Vec<usize>,
    /// Where the dashes stand behind which nothing is an option.
    pub(in crate::shell) dashes: Option<usize>,
    /// Whether a word is an option that is not known, or could become one, so that it is not certain what the others are.
    pub(in crate::shell) has_unknown: bool,
    /// All names of each option that was given.
    given: Vec<&'static str>,
    /// The values of options, with where they stand.
    values: Vec<(&'static str, usize, Word)>,
}

impl Sorted {
    /// Whether one of these options was given.
    pub(in crate::shell) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| given.split(',').any(|name| names.contains(&name)))
    }

    /// The values of this option, joined or not, with where they stand.
    pub(in crate::shell) fn values<'s>(
        &'s self,
        name: &'s str,
    ) -> impl Iterator<Item = (usize, &'s Word)> + 's {
        let is = move |names: &str| names.split(',').any(|known| known == name);
        self.values.iter().filter(move |(names, ..)| is(names)).map(|(_, at, value)| (*at, value))
    }
}

const UNKNOWN: &str = "is an option that is not known here";
const HAS_UNKNOWN: &str = "has options that are not known here";
const RUNS: &str = "makes it run or load something else";
const IS_TOLD: &str = "is told to run or load something else";
const MORE: &str = "makes it read or write what is not named";
const FURTHER: &str = "takes further words from a file";
const WRITES: &str = "writes a file";
const COULD_BE: &str = "could become an option";

/// Sorts the words behind the first `skip` by these tables, and notes what the options do.
pub(in crate::shell) fn sort(
    tables: &[&'static str],
    words: &[Word],
    skip: usize,
    found: &mut Found,
) -> Sorted {
    sort_by(tables, words, skip, Until::End, found)
}

/// The same, but the first word that is no option and all behind it are operands.
pub(in crate::shell) fn sort_leading(
    tables: &[&'static str],
    words: &[Word],
    skip: usize,
    found: &mut Found,
) -> Sorted {
    sort_by(tables, words, skip, Until::Operand, found)
}

/// How far options are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    Operand,
}

fn sort_by(
    tables: &[&'static str],
    words: &[Word],
    skip: usize,
    until: Until,
    found: &mut Found,
) -> Sorted {
    let mut sorted = Sorted::default();
    let choices = || tables.iter().flat_map(|table| table.split_whitespace()).map(Choice::of);
    let is_risky =
        choices().any(|choice| matches!(choice.does, Does::Writes | Does::Runs | Does::Script));
    let may_run = choices().any(|choice| matches!(choice.does, Does::Runs | Does::Script));
    let takes_files = choices().any(|choice| choice.names == "@FILE");
    let is_apart = choices().any(|choice| choice.names == "APART");
    let are_words = choices().any(|choice| choice.names == "WORDS");
    let mut at = skip;
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        if text == "--" {
            sorted.dashes = Some(at);
            sorted.operands.extend(at + 1..words.len());
            break;
        }
        sorted.has_unknown |= word.could_be_option();
        if word.could_be_option() && is_risky {
            found.risk(at, COULD_BE);
            if may_run {
                found.unseen("is given words that could become options");
            }
        }
        if until == Until::Operand && (!text.starts_with('-') || text == "-") {
            sorted.operands.extend(at..words.len());
            break;
        }
        if !text.starts_with('-') || text == "-" {
            if let Some(path) = text.strip_prefix('@').filter(|_| takes_files) {
                found.risk(at, FURTHER);
                found.read(&Word { text: path.to_owned(), ..word.clone() });
            } else {
                sorted.operands.push(at);
            }
            at += 1;
            continue;
        }
        let number =
            text.get(1..).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        if number && choices().any(|choice| choice.names == "NUMBER") {
            at += 1;
            continue;
        }
        let named = |name: &str| choices().find(|choice| choice.is_named(name));
        let next = match text.strip_prefix("--") {
            _ if are_words => {
                let text = text.strip_prefix("--").or(text.strip_prefix('-')).unwrap_or(text);
                let choice = named(text.split('=').next().unwrap_or(text));
                sort_long(text, choice, words, at, &mut sorted, found)
            }
            Some(long) => {
                let name = long.split('=').next().unwrap_or(long);
                // A single letter is no long option.
                let choice = named(name).filter(|_| name.len() > 1);
                let choice = choice.or_else(|| cut_short(name, choices()));
                sort_long(long, choice, words, at, &mut sorted, found)
            }
            None if is_apart && !stands_apart(named, text) => unknown(at, &mut sorted, found),
            None => sort_cluster(named, words, at, &mut sorted, found),
        };
        // An option, or its value, that becomes several words: whatever follows may be something else.
        let taken = words.get(at..next.min(words.len())).unwrap_or_default();
        if is_risky && taken.iter().any(|word| word.pattern.is_some()) {
            sorted.has_unknown = true;
            found.risk(at, COULD_BE);
            if may_run {
                found.unseen("is given words that could become options");
            }
        }
        at = next;
    }
    sorted
}

/// Whether no letter of these takes a value, or there is only one.
fn stands_apart(find: impl Fn(&str) -> Option<Choice>, text: &str) -> bool {
    let mut letters = text.chars().skip(1);
    let takes_value = |letter: char| {
        find(letter.encode_utf8(&mut [0; 4])).is_some_and(|choice| choice.takes != Takes::Nothing)
    };
    text.chars().count() == 2 || !letters.any(takes_value)
}

/// The option whose name is cut short like this, if only one can be meant.
fn cut_short(text: &str, choices: impl Iterator<Item = Choice>) -> Option<Choice> {
    let mut meant = choices.filter(|choice| !text.is_empty() && choice.begins_with(text));
    let first = meant.next()?;
    meant.all(|other| other.names == first.names).then_some(first)
}

fn sort_long(
    text: &str,
    choice: Option<Choice>,
    words: &[Word],
    at: usize,
    sorted: &mut Sorted,
    found: &mut Found,
) -> usize {
    let value = text.split_once('=').map(|(_, value)| value);
    match choice {
        Some(choice) if value.is_none() || choice.takes != Takes::Nothing => {
            note(choice, value, words, at, sorted, found)
        }
        _ => unknown(at, sorted, found),
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
            return unknown(at, sorted, found);
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

fn unknown(at: usize, sorted: &mut Sorted, found: &mut Found) -> usize {
    sorted.has_unknown = true;
    found.risk(at, UNKNOWN);
    found.unseen(HAS_UNKNOWN);
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
    let behind = match choice.takes {
        Takes::Nothing | Takes::MaybeValue => 0,
        Takes::Value => usize::from(joined.is_none()),
        Takes::TwoValues => 2 - usize::from(joined.is_some()),
    };
    let own = words.get(at);
    let value = match joined {
        // What is joined to an option shares what is not known of the word.
        Some(value) => Some(Word {
            text: value.to_owned(),
            is_open: own.is_some_and(|word| word.is_open),
            pattern: own.and_then(|word| word.pattern).map(|_| 0),
            ..Word::default()
        }),
        None => words.get(at + 1).filter(|_| behind > 0).cloned(),
    };
    if let Some(value) = &value {
        sorted.values.push((choice.names, at + usize::from(joined.is_none()), value.clone()));
    }
    match choice.does {
        Does::Nothing => {}
        Does::Runs => {
            found.risk(at, RUNS);
            found.unseen(IS_TOLD);
        }
        Does::More => found.risk(at, MORE),
        Does::Script => {
            found.risk(at, RUNS);
            found.scripts.extend(value);
        }
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
    at + 1 + behind
}
