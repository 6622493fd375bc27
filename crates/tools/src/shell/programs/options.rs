//! Option tables of programs, and a parser that applies them to the words of a command.
//!
//! A table is a text with an entry for each option that lists its names: `n,lines=` takes a value, `color?` may have one joined to it,
//! `bind==` takes two. A mark behind that tells the effect of the option: `=<` reads the file that it names, `=>` writes it, `=$` gives a
//! script to a shell, `^` reads or writes files that are not named, `!` runs or loads something else. A long option may be abbreviated as
//! long as it stays unique in the table. An option that is not in the table is a risk, because programs get new ones.
//!
//! Some entries apply to all options. With `NUMBER`, an option can be a number: `-20`. With `@FILE`, a word `@path` stands for the words in
//! that file. With `WORDS`, long names follow one dash or two (`-json`), and are neither abbreviated nor joined. With `APART`, the value of
//! a short option is always the next word, so an option with a value must stand alone.

use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// The form in which an option takes its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    /// No value.
    Nothing,
    /// The rest of the word or the next word.
    Value,
    /// The next two words, of which the first may be joined.
    TwoValues,
    /// The rest of the word, if there is one.
    MaybeValue,
}

/// The effect of an option beyond the usual work of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionEffect {
    Nothing,
    /// Reads the file that its value names.
    Reads,
    /// Writes the file that its value names.
    Writes,
    /// Gives its value as a script to a shell.
    Script,
    /// Reads or writes files that are not named.
    UnnamedFiles,
    /// Runs or loads something else.
    Runs,
}

/// One entry of an option table.
#[derive(Clone, Copy)]
struct OptionRow {
    /// All names of the option, separated by commas.
    names: &'static str,
    value_form: ValueForm,
    effect: OptionEffect,
}

impl OptionRow {
    /// Parses an entry such as `o,output=>`.
    fn parse(row: &'static str) -> Self {
        const EFFECT_MARKS: [(char, OptionEffect); 5] = [
            ('<', OptionEffect::Reads),
            ('>', OptionEffect::Writes),
            ('$', OptionEffect::Script),
            ('^', OptionEffect::UnnamedFiles),
            ('!', OptionEffect::Runs),
        ];
        // A value that may or may not be joined is left to the words.
        const VALUE_MARKS: [(&str, ValueForm); 4] = [
            ("==", ValueForm::TwoValues),
            ("=", ValueForm::Value),
            ("?", ValueForm::MaybeValue),
            ("~", ValueForm::MaybeValue),
        ];
        let (row, does) = EFFECT_MARKS
            .into_iter()
            .find_map(|(mark, does)| Some((row.strip_suffix(mark)?, does)))
            .unwrap_or((row, OptionEffect::Nothing));
        let (names, takes) = VALUE_MARKS
            .into_iter()
            .find_map(|(mark, takes)| Some((row.strip_suffix(mark)?, takes)))
            .unwrap_or((row, ValueForm::Nothing));
        Self { names, value_form: takes, effect: does }
    }

    /// Returns whether this is one of the option's names.
    fn is_named(self, name: &str) -> bool {
        self.names.split(',').any(|known| known == name)
    }

    /// Returns whether one of the option's long names begins with this text.
    fn begins_with(self, text: &str) -> bool {
        self.names.split(',').any(|name| name.len() > 1 && name.starts_with(text))
    }
}

/// The words of a command, sorted into options and operands.
#[derive(Debug, Default)]
pub(in crate::shell) struct ParsedOptions {
    /// Indexes of the words that are no options.
    pub(in crate::shell) operands: Vec<usize>,
    /// Index of the `--` behind which nothing is an option.
    pub(in crate::shell) dashes: Option<usize>,
    /// True if a word is an unknown option or could become one, so that the meaning of the other words is uncertain.
    pub(in crate::shell) has_unknown: bool,
    /// All names of each option that was given.
    given: Vec<&'static str>,
    /// The values of options: the option's names, the index of the word and the value.
    values: Vec<(&'static str, usize, Word)>,
}

impl ParsedOptions {
    /// Returns whether one of these options was given.
    pub(in crate::shell) fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|given| given.split(',').any(|name| names.contains(&name)))
    }

    /// Returns the values of an option, joined or not, each with the index of its word.
    pub(in crate::shell) fn values<'s>(
        &'s self,
        name: &'s str,
    ) -> impl Iterator<Item = (usize, &'s Word)> + 's {
        let is = move |names: &str| names.split(',').any(|known| known == name);
        self.values.iter().filter(move |(names, ..)| is(names)).map(|(_, at, value)| (*at, value))
    }
}

// Reasons of risks, and of programs that are not known.
const UNKNOWN: &str = "is an option that is not known here";
const HAS_UNKNOWN: &str = "has options that are not known here";
const RUNS: &str = "makes it run or load something else";
const IS_TOLD: &str = "is told to run or load something else";
const READS_UNNAMED: &str = "makes it read or write files that are not named";
const WORDS_FROM_FILE: &str = "takes further words from a file";
const WRITES: &str = "writes a file";
const COULD_BE_OPTION: &str = "could become an option";

/// Parses the words from index `skip` on by these tables, and notes the effects of the options.
pub(in crate::shell) fn parse(
    tables: &[&'static str],
    words: &[Word],
    skip: usize,
    facts: &mut CommandFacts,
) -> ParsedOptions {
    parse_until(tables, words, skip, Until::End, facts)
}

/// Parses like [`parse`], but the first operand ends the options: it and all words behind it are operands.
pub(in crate::shell) fn parse_leading(
    tables: &[&'static str],
    words: &[Word],
    skip: usize,
    facts: &mut CommandFacts,
) -> ParsedOptions {
    parse_until(tables, words, skip, Until::Operand, facts)
}

/// The end of the options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The last word, or `--`.
    End,
    /// The first operand.
    Operand,
}

/// Parses the words from index `skip` up to the chosen end of the options.
fn parse_until(
    tables: &[&'static str],
    words: &[Word],
    skip: usize,
    until: Until,
    facts: &mut CommandFacts,
) -> ParsedOptions {
    let mut parsed = ParsedOptions::default();
    let rows = || tables.iter().flat_map(|table| table.split_whitespace()).map(OptionRow::parse);
    let is_risky = rows().any(|row| {
        matches!(row.effect, OptionEffect::Writes | OptionEffect::Runs | OptionEffect::Script)
    });
    let may_run = rows().any(|row| matches!(row.effect, OptionEffect::Runs | OptionEffect::Script));
    let takes_files = rows().any(|row| row.names == "@FILE");
    let is_apart = rows().any(|row| row.names == "APART");
    let are_words = rows().any(|row| row.names == "WORDS");
    let mut at = skip;
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        if text == "--" {
            parsed.dashes = Some(at);
            parsed.operands.extend(at + 1..words.len());
            break;
        }
        parsed.has_unknown |= word.could_be_option();
        if word.could_be_option() && is_risky {
            facts.add_risk(at, COULD_BE_OPTION);
            if may_run {
                facts.mark_unseen("gets arguments that could become options");
            }
        }
        if until == Until::Operand && (!text.starts_with('-') || text == "-") {
            parsed.operands.extend(at..words.len());
            break;
        }
        if !text.starts_with('-') || text == "-" {
            if let Some(path) = text.strip_prefix('@').filter(|_| takes_files) {
                facts.add_risk(at, WORDS_FROM_FILE);
                facts.add_read(&Word { text: path.to_owned(), ..word.clone() });
            } else {
                parsed.operands.push(at);
            }
            at += 1;
            continue;
        }
        let number =
            text.get(1..).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        if number && rows().any(|row| row.names == "NUMBER") {
            at += 1;
            continue;
        }
        let named = |name: &str| rows().find(|row| row.is_named(name));
        let next = match text.strip_prefix("--") {
            _ if are_words => {
                let text = text.strip_prefix("--").or(text.strip_prefix('-')).unwrap_or(text);
                let row = named(text.split('=').next().unwrap_or(text));
                parse_long(text, row, words, at, &mut parsed, facts)
            }
            Some(long) => {
                let name = long.split('=').next().unwrap_or(long);
                // A single letter is no long option.
                let row = named(name).filter(|_| name.len() > 1);
                let row = row.or_else(|| find_abbreviated(name, rows()));
                parse_long(long, row, words, at, &mut parsed, facts)
            }
            None if is_apart && !stands_apart(named, text) => note_unknown(at, &mut parsed, facts),
            None => parse_cluster(named, words, at, &mut parsed, facts),
        };
        // An option, or its value, is a glob pattern that may become several words: later words may then have another meaning.
        let taken = words.get(at..next.min(words.len())).unwrap_or_default();
        if is_risky && taken.iter().any(|word| word.glob_at.is_some()) {
            parsed.has_unknown = true;
            facts.add_risk(at, COULD_BE_OPTION);
            if may_run {
                facts.mark_unseen("gets arguments that could become options");
            }
        }
        at = next;
    }
    parsed
}

/// Returns whether a cluster of letters contains no option with a value, or is a single letter.
fn stands_apart(find: impl Fn(&str) -> Option<OptionRow>, text: &str) -> bool {
    let mut letters = text.chars().skip(1);
    let takes_value = |letter: char| {
        find(letter.encode_utf8(&mut [0; 4]))
            .is_some_and(|row| row.value_form != ValueForm::Nothing)
    };
    text.chars().count() == 2 || !letters.any(takes_value)
}

/// Returns the option that an abbreviated long name means; `None` if several match.
fn find_abbreviated(text: &str, rows: impl Iterator<Item = OptionRow>) -> Option<OptionRow> {
    let mut meant = rows.filter(|row| !text.is_empty() && row.begins_with(text));
    let first = meant.next()?;
    meant.all(|other| other.names == first.names).then_some(first)
}

/// Handles a long option `--name` or `--name=value`. Returns the index of the next word.
fn parse_long(
    text: &str,
    row: Option<OptionRow>,
    words: &[Word],
    at: usize,
    parsed: &mut ParsedOptions,
    facts: &mut CommandFacts,
) -> usize {
    let value = text.split_once('=').map(|(_, value)| value);
    match row {
        Some(row) if value.is_none() || row.value_form != ValueForm::Nothing => {
            note_option(row, value, words, at, parsed, facts)
        }
        _ => note_unknown(at, parsed, facts),
    }
}

/// Handles short options in one word: `-la`, `-n5`, `-n 5`. Returns the index of the next word.
fn parse_cluster(
    find: impl Fn(&str) -> Option<OptionRow>,
    words: &[Word],
    at: usize,
    parsed: &mut ParsedOptions,
    facts: &mut CommandFacts,
) -> usize {
    let text = words.get(at).map_or("", |word| word.text.as_str());
    let mut rest = text.get(1..).unwrap_or_default();
    while let Some(letter) = rest.chars().next() {
        let (name, behind) = rest.split_at(letter.len_utf8());
        let Some(row) = find(name) else {
            return note_unknown(at, parsed, facts);
        };
        if row.value_form != ValueForm::Nothing {
            let joined = (!behind.is_empty()).then_some(behind);
            return note_option(row, joined, words, at, parsed, facts);
        }
        note_option(row, None, words, at, parsed, facts);
        rest = behind;
    }
    at + 1
}

/// Notes the risk of an unknown option. Returns the index of the next word.
fn note_unknown(at: usize, parsed: &mut ParsedOptions, facts: &mut CommandFacts) -> usize {
    parsed.has_unknown = true;
    facts.add_risk(at, UNKNOWN);
    facts.mark_unseen(HAS_UNKNOWN);
    at + 1
}

/// Notes an option, its value and its effect. Returns the index of the next word.
fn note_option(
    row: OptionRow,
    joined: Option<&str>,
    words: &[Word],
    at: usize,
    parsed: &mut ParsedOptions,
    facts: &mut CommandFacts,
) -> usize {
    parsed.given.push(row.names);
    let behind = match row.value_form {
        ValueForm::Nothing | ValueForm::MaybeValue => 0,
        ValueForm::Value => usize::from(joined.is_none()),
        ValueForm::TwoValues => 2 - usize::from(joined.is_some()),
    };
    let own = words.get(at);
    let value = match joined {
        // A joined value inherits the glob and the unknown expansion of its word.
        Some(value) => Some(Word {
            text: value.to_owned(),
            is_incomplete: own.is_some_and(|word| word.is_incomplete),
            glob_at: own.and_then(|word| word.glob_at).map(|_| 0),
            ..Word::default()
        }),
        None => words.get(at + 1).filter(|_| behind > 0).cloned(),
    };
    if let Some(value) = &value {
        parsed.values.push((row.names, at + usize::from(joined.is_none()), value.clone()));
    }
    match row.effect {
        OptionEffect::Nothing => {}
        OptionEffect::Runs => {
            facts.add_risk(at, RUNS);
            facts.mark_unseen(IS_TOLD);
        }
        OptionEffect::UnnamedFiles => facts.add_risk(at, READS_UNNAMED),
        OptionEffect::Script => {
            facts.add_risk(at, RUNS);
            facts.scripts.extend(value);
        }
        OptionEffect::Reads => {
            if let Some(value) = value.filter(|value| value.text != "-") {
                facts.add_read(&value);
            }
        }
        OptionEffect::Writes => {
            facts.add_risk(at, WRITES);
            if let Some(value) = value.filter(|value| value.text != "-") {
                facts.add_write(&value);
            }
        }
    }
    at + 1 + behind
}
