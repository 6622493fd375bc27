//! Knowledge about programs: a module for each program with rules of its own, and rows of one table for the others. An unknown program may
//! run anything: a rule can allow it by its words, but nothing is assumed about the files that it reads or changes.

mod awk;
mod bare_forms;
mod builtins;
mod downloads;
mod files;
mod find;
mod git;
pub(super) mod options;
mod projects;
mod read_only;
mod ripgrep;
mod sed;
pub(super) mod subcommands;
mod suspects;
pub(super) mod table;
mod tar;
mod user_shells;

use windlass_core::OnlyReads;

use self::table::{Program, ProgramKind};
use super::command_facts::CommandFacts;
use super::syntax::Word;

/// Adds the facts about a program with these words. `name` is its name in the tables.
pub(super) fn note_facts(name: &str, words: &[Word], facts: &mut CommandFacts) {
    if builtins::builtin(words, facts) {
        return;
    }
    match name {
        "awk" | "gawk" | "mawk" | "nawk" => awk::awk(words, facts),
        "cargo" => projects::cargo(words, facts),
        "curl" => downloads::curl(words, facts),
        "dd" => files::dd(words, facts),
        "fd" | "fdfind" => find::fd(words, facts),
        "find" => find::find(words, facts),
        "git" => git::git(words, facts),
        "make" | "gmake" => projects::make(words, facts),
        "rg" => ripgrep::rg(words, facts),
        "sed" | "gsed" => sed::sed(words, facts),
        "su" | "runuser" | "sg" | "script" => user_shells::other_user(name, words, facts),
        "tar" | "gtar" | "bsdtar" => tar::tar(words, facts),
        "wget" => downloads::wget(words, facts),
        _ => note_by_table(name, words, facts),
    }
}

/// Adds the facts of the program's row in the table. An unknown program may run anything.
fn note_by_table(name: &str, words: &[Word], facts: &mut CommandFacts) {
    if let Some(row) = table::find(name) {
        return note_by_row(name, row, words, facts);
    }
    facts.mark_unseen("is not known here, and may run anything");
    bare_forms::note(None, words, facts);
}

/// Adds the facts that follow from the kind of the program.
fn note_by_row(name: &str, row: &'static Program, words: &[Word], facts: &mut CommandFacts) {
    match row.kind {
        ProgramKind::Reads(operands) => read_only::note_reads(operands, row.options, words, facts),
        ProgramKind::ChangesFiles(file_use) => {
            files::note_changes(name, file_use, row.options, words, facts);
        }
        ProgramKind::ChangesShell => {
            facts.mark_unclear(format!("`{name}` changes the shell itself"));
        }
        // A wrapper reaches this arm only without a command.
        ProgramKind::Wraps(_)
            if matches!(name, "command" | "builtin" | "exec")
                && facts.only_reads == OnlyReads::No =>
        {
            facts.mark_unclear("it changes the shell itself");
        }
        ProgramKind::Wraps(_) => {}
        ProgramKind::Tool { .. } | ProgramKind::RunsCode
            if projects::asks_for_version(name, words) =>
        {
            // Some programs read files of the project to choose their version.
            facts.set_only_reads(OnlyReads::InSandbox);
        }
        ProgramKind::Tool { runs } => projects::project_tool(name, row, runs, words, facts),
        ProgramKind::RunsCode => projects::interpreter(name, row, words, facts),
    }
}
