//! Programs that only read and print, by the meaning of their operands.

use windlass_core::OnlyReads;

use super::options::{self, ParsedOptions};
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// The meaning of a program's operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::shell) enum OperandKind {
    /// Words that are no file names, for a program without options.
    Anything,
    /// Words that are no file names.
    Words,
    /// Files to read.
    Files,
    /// Files or directories that are read with all their content; the working directory if there are none.
    Trees,
    /// Files or directories of which only the names are read; the whole tree with `-r` or `-R`.
    Listed,
    /// A pattern, then files or, with `-r`, directory trees.
    Pattern,
    /// A program such as that of `jq`, then files.
    Program,
    /// A file to read, then one to write.
    InAndOut,
    /// No operands: one would change something.
    None,
}

/// Adds the reads of such a program. `table` is its option table.
pub(super) fn note_reads(
    kind: OperandKind,
    table: &'static str,
    words: &[Word],
    facts: &mut CommandFacts,
) {
    facts.set_only_reads(OnlyReads::Always);
    if kind == OperandKind::Anything {
        return;
    }
    let parsed = options::parse(&[table], words, 1, facts);
    let at = |index: &usize| words.get(*index).filter(|word| word.text != "-");
    let operands: Vec<&Word> = parsed.operands.iter().filter_map(at).collect();
    match kind {
        OperandKind::Anything | OperandKind::Words => {}
        OperandKind::Files => operands.iter().for_each(|word| facts.add_read(word)),
        OperandKind::Trees => note_tree_searches(&operands, facts),
        OperandKind::Listed if parsed.has(&["R", "recursive"]) => {
            note_tree_searches(&operands, facts);
        }
        OperandKind::Listed => operands.iter().for_each(|word| facts.add_tree_read(word)),
        OperandKind::Pattern => note_grep_reads(words, &parsed, facts),
        OperandKind::Program => note_jq_reads(words, &parsed, facts),
        OperandKind::InAndOut => note_in_and_out(words, &parsed, facts),
        OperandKind::None => {
            if let Some(first) = parsed.operands.first() {
                facts.add_risk(*first, "would change something");
            }
        }
    }
}

/// Adds the files and trees that `grep` reads behind its pattern.
fn note_grep_reads(words: &[Word], parsed: &ParsedOptions, facts: &mut CommandFacts) {
    let skip = usize::from(!parsed.has(&["e", "regexp", "f", "file"]));
    // `-d recurse` is the same as `-r`.
    let is_recursive = parsed.has(&["r", "R", "recursive", "d", "directories"]);
    let paths = parsed.operands.get(skip..).unwrap_or_default();
    for word in paths.iter().filter_map(|at| words.get(*at)).filter(|word| word.text != "-") {
        if is_recursive { facts.add_tree_search(word) } else { facts.add_read(word) }
    }
    if is_recursive && paths.is_empty() {
        facts.add_search_here();
    }
}

/// Adds the files that `jq` reads, and a risk if its program may include others.
fn note_jq_reads(words: &[Word], parsed: &ParsedOptions, facts: &mut CommandFacts) {
    const INCLUDES: [&str; 3] = ["import", "include", "modulemeta"];
    let mut operands = parsed.operands.iter();
    if let Some(at) = operands.next()
        && words.get(*at).is_none_or(|word| {
            word.glob_at.is_some() || INCLUDES.iter().any(|it| word.text.contains(it))
        })
    {
        facts.add_risk(*at, "is a program that may read other files");
    }
    operands.filter_map(|at| words.get(*at)).for_each(|word| facts.add_read(word));
}

/// Adds a recursive search of each directory, or of the working directory if there are none.
fn note_tree_searches(paths: &[&Word], facts: &mut CommandFacts) {
    for word in paths {
        facts.add_tree_search(word);
    }
    if paths.is_empty() {
        facts.add_search_here();
    }
}

/// Adds a read of the first operand and a write to the others.
fn note_in_and_out(words: &[Word], parsed: &ParsedOptions, facts: &mut CommandFacts) {
    if let Some(word) = parsed.operands.first().and_then(|at| words.get(*at)) {
        facts.add_read(word);
    }
    for at in parsed.operands.iter().skip(1) {
        facts.add_risk(*at, "is the file that it writes");
        if let Some(word) = words.get(*at) {
            facts.add_write(word);
        }
    }
    // A glob pattern may become two words, of which the second is written.
    if let Some(at) = words.iter().position(|word| word.glob_at.is_some()) {
        facts.add_risk(at, "could be more than one file, of which the second is written");
    }
}
