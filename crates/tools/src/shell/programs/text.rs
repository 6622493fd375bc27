//! Programs that only print, by what their words are.

use windlass_core::OnlyReads;

use super::options::{self, Sorted};
use crate::shell::found::Found;
use crate::shell::syntax::Word;

/// What the words are that are no options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::shell) enum Operands {
    /// Not names of files; there are no options either.
    Anything,
    /// Not names of files.
    Words,
    /// Files.
    Files,
    /// Directories with all that is in them, or files; the present one if there are none.
    Trees,
    /// The same, but only with `-r` or `-R` more than the names in them.
    Listed,
    /// A pattern, then files or, with `-r`, trees.
    Pattern,
    /// A program, then files.
    Program,
    /// A file; a second one is written.
    InAndOut,
    /// None: one would change something.
    None,
}

/// Notes what such a program reads.
pub(super) fn look(kind: Operands, table: &'static str, words: &[Word], found: &mut Found) {
    found.reads(OnlyReads::Always);
    if kind == Operands::Anything {
        return;
    }
    let sorted = options::sort(&[table], words, 1, found);
    let at = |index: &usize| words.get(*index).filter(|word| word.text != "-");
    let operands: Vec<&Word> = sorted.operands.iter().filter_map(at).collect();
    match kind {
        Operands::Anything | Operands::Words => {}
        Operands::Files => operands.iter().for_each(|word| found.read(word)),
        Operands::Trees => look_through(&operands, found),
        Operands::Listed if sorted.has(&["R", "recursive"]) => look_through(&operands, found),
        Operands::Listed => operands.iter().for_each(|word| found.read_tree(word)),
        Operands::Pattern => look_with_pattern(words, &sorted, found),
        Operands::Program => look_by_program(words, &sorted, found),
        Operands::InAndOut => in_and_out(words, &sorted, found),
        Operands::None => {
            if let Some(first) = sorted.operands.first() {
                found.risk(*first, "would change something");
            }
        }
    }
}

fn look_with_pattern(words: &[Word], sorted: &Sorted, found: &mut Found) {
    let skip = usize::from(!sorted.has(&["e", "regexp", "f", "file"]));
    // `-d recurse` is the same as `-r`.
    let is_recursive = sorted.has(&["r", "R", "recursive", "d", "directories"]);
    let places = sorted.operands.get(skip..).unwrap_or_default();
    for word in places.iter().filter_map(|at| words.get(*at)).filter(|word| word.text != "-") {
        if is_recursive { found.search(word) } else { found.read(word) }
    }
    if is_recursive && places.is_empty() {
        found.search_here();
    }
}

/// A program can read what it includes.
fn look_by_program(words: &[Word], sorted: &Sorted, found: &mut Found) {
    const INCLUDES: [&str; 3] = ["import", "include", "modulemeta"];
    let mut operands = sorted.operands.iter();
    if let Some(at) = operands.next()
        && words.get(*at).is_none_or(|word| {
            word.pattern.is_some() || INCLUDES.iter().any(|it| word.text.contains(it))
        })
    {
        found.risk(*at, "is a program that may read other files");
    }
    operands.filter_map(|at| words.get(*at)).for_each(|word| found.read(word));
}

fn look_through(places: &[&Word], found: &mut Found) {
    for word in places {
        found.search(word);
    }
    if places.is_empty() {
        found.search_here();
    }
}

fn in_and_out(words: &[Word], sorted: &Sorted, found: &mut Found) {
    if let Some(word) = sorted.operands.first().and_then(|at| words.get(*at)) {
        found.read(word);
    }
    for at in sorted.operands.iter().skip(1) {
        found.risk(*at, "is the file that it writes");
        if let Some(word) = words.get(*at) {
            found.write(word);
        }
    }
    // A word may become two, of which the second is written.
    if let Some(at) = words.iter().position(|word| word.pattern.is_some()) {
        found.risk(at, "could be more than one file, of which the second is written");
    }
}
