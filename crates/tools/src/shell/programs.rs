//! What is known about programs: a file for each that has much to say, tables for the others. What is not known here is a
//! program like any other: a rule can allow it by its words, and nothing is said about what it reads or changes.

mod awk;
mod builtins;
mod files;
mod find;
mod git;
mod interpreters;
mod options;
mod ripgrep;
mod sed;
mod tar;
mod text;

use super::found::Found;
use super::syntax::Word;

/// Finds out what a program does with these words, of which the first is its name.
pub(super) fn look(words: &[Word], found: &mut Found) {
    let Some(program) = words.first() else { return };
    if builtins::builtin(words, found) || interpreters::interpreter(words, found) {
        return;
    }
    match program.text.as_str() {
        "awk" | "gawk" | "mawk" | "nawk" => awk::awk(words, found),
        "cp" | "mv" | "ln" | "install" => files::copy(words, found),
        "chmod" | "chown" | "chgrp" => files::attributes(words, found),
        "dd" => files::dd(words, found),
        "fd" | "fdfind" => find::fd(words, found),
        "find" => find::find(words, found),
        "git" => git::git(words, found),
        "mkdir" | "touch" | "tee" | "truncate" | "mkfifo" => files::create(words, found),
        "rg" => ripgrep::rg(words, found),
        "rm" | "rmdir" | "unlink" | "shred" => files::remove(words, found),
        "sed" | "gsed" => sed::sed(words, found),
        "tar" | "gtar" | "bsdtar" => tar::tar(words, found),
        name => {
            if let Some(reader) = text::find(name) {
                reader.look(words, found);
            }
        }
    }
}

/// Whether a program only reads whatever further words it is given: there is no option with which it does more.
pub(super) fn takes_any_words(program: &str) -> bool {
    matches!(
        program,
        "cat"
            | "head"
            | "tail"
            | "wc"
            | "ls"
            | "stat"
            | "du"
            | "grep"
            | "egrep"
            | "fgrep"
            | "echo"
            | "basename"
            | "dirname"
            | "md5sum"
            | "sha1sum"
            | "sha256sum"
            | "realpath"
            | "readlink"
            | "cut"
            | "nl"
    )
}
