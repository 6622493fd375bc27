//! Words with which a program does more than its name says: runs something else, reads or writes elsewhere.
//!
//! A list of suspects is a text with a pattern for each: `-o*` means every word that begins like this, and one letter also where it
//! stands among others (`-vt/dir`), unless the list begins with `WORDS` because the options of the program are whole words.
//! The name of a long option is also meant where it is cut short. A `!` behind a pattern says that it runs or loads something.

use crate::shell::found::Found;
use crate::shell::syntax::Word;

const WHY: &str = "can make the program run another one, or read or write other files";
const IS_TOLD: &str = "is told to run or load something else";

/// Notes the suspects among the words of a command.
pub(super) fn note(suspects: &str, words: &[Word], found: &mut Found) {
    let in_clusters = !suspects.starts_with("WORDS");
    let may_run = suspects.contains('!');
    for (at, word) in words.iter().enumerate().skip(1) {
        let mut meant = suspects.split_whitespace().filter(|it| fits(it, &word.text, in_clusters));
        let first = meant.next();
        let could_be = word.could_be_option() && !suspects.is_empty();
        if first.is_some() || could_be {
            found.risk(at, WHY);
        }
        let runs = first.into_iter().chain(meant).any(|suspect| suspect.ends_with('!'));
        if runs || (could_be && may_run) {
            found.unseen(IS_TOLD);
        }
    }
}

fn fits(suspect: &str, word: &str, in_clusters: bool) -> bool {
    let suspect = suspect.strip_suffix('!').unwrap_or(suspect);
    let is_letter = suspect.len() == 3 && suspect.starts_with('-') && suspect.ends_with('*');
    if in_clusters && is_letter && word.starts_with('-') && !word.starts_with("--") {
        return suspect.chars().nth(1).is_some_and(|letter| word.contains(letter));
    }
    match suspect.split_once('*') {
        Some((head, "")) => word.starts_with(head) || is_cut_short(word, head),
        Some((head, tail)) => word.starts_with(head) && word.contains(tail.trim_end_matches('*')),
        None => word == suspect,
    }
}

/// `--fil` for `--file`.
fn is_cut_short(word: &str, long: &str) -> bool {
    let given = word.split('=').next().unwrap_or(word);
    given.len() > 3 && given.starts_with("--") && long.starts_with(given)
}
