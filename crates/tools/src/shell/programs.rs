//! What is known about programs: a file for each that has much to say, rows of one table for the others. What is not known here may
//! run anything: a rule can allow it by its words, and nothing is said about what it reads or changes.

mod awk;
mod bare;
mod builtins;
mod downloads;
mod files;
mod find;
mod git;
pub(super) mod options;
mod projects;
mod ripgrep;
mod sed;
pub(super) mod subcommands;
mod suspects;
pub(super) mod table;
mod tar;
mod text;
mod users;

use windlass_core::OnlyReads;

use self::table::{Kind, Program};
use super::found::Found;
use super::syntax::Word;

/// Finds out what a program does with these words. The tables know it by `name`.
pub(super) fn look(name: &str, words: &[Word], found: &mut Found) {
    if builtins::builtin(words, found) {
        return;
    }
    match name {
        "awk" | "gawk" | "mawk" | "nawk" => awk::awk(words, found),
        "cargo" => projects::cargo(words, found),
        "curl" => downloads::curl(words, found),
        "dd" => files::dd(words, found),
        "fd" | "fdfind" => find::fd(words, found),
        "find" => find::find(words, found),
        "git" => git::git(words, found),
        "make" | "gmake" => projects::make(words, found),
        "rg" => ripgrep::rg(words, found),
        "sed" | "gsed" => sed::sed(words, found),
        "su" | "runuser" | "sg" | "script" => users::other_user(name, words, found),
        "tar" | "gtar" | "bsdtar" => tar::tar(words, found),
        "wget" => downloads::wget(words, found),
        _ if files::changes(name, words, found) => {}
        _ => by_table(name, words, found),
    }
}

fn by_table(name: &str, words: &[Word], found: &mut Found) {
    if let Some(row) = table::find(name) {
        return by_row(name, row, words, found);
    }
    found.unseen("is not known here, and may run anything");
    bare::note(None, words, found);
}

fn by_row(name: &str, row: &'static Program, words: &[Word], found: &mut Found) {
    match row.kind {
        Kind::Reads(operands) => text::look(operands, row.options, words, found),
        Kind::ChangesShell => found.unclear(format!("`{name}` changes the shell itself")),
        // It is given no command.
        Kind::Wraps(_)
            if matches!(name, "command" | "builtin" | "exec")
                && found.only_reads == OnlyReads::No =>
        {
            found.unclear("it changes the shell itself");
        }
        Kind::Wraps(_) => {}
        Kind::Tool { .. } | Kind::Runs if projects::asks_for_version(name, words) => {
            // Some find out by files of the project which of their versions is meant.
            found.reads(OnlyReads::InSandbox);
        }
        Kind::Tool { runs } => projects::tool(name, row, runs, words, found),
        Kind::Runs => projects::interpreter(name, row, words, found),
    }
}
