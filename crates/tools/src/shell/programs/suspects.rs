//! Suspects: words with which a program does more than its name says, such as run another program or write elsewhere.
//!
//! A list of suspects is a text of patterns. `-o*` matches every word with this beginning. A pattern of one letter also matches inside a
//! cluster (`-vt/dir`), unless the list begins with `WORDS` because the program has no clusters. A long option also matches if it is
//! abbreviated. A `!` behind a pattern says that the word runs or loads something.

use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// Reason of the risk of a suspect.
const MAY_DO_MORE: &str = "can make the program run another one, or read or write other files";
/// Reason for programs that a suspect runs.
const IS_TOLD: &str = "is told to run or load something else";

/// Adds a risk for each word of a command that matches a suspect.
pub(super) fn note(suspects: &str, words: &[Word], facts: &mut CommandFacts) {
    let in_clusters = !suspects.starts_with("WORDS");
    let may_run = suspects.contains('!');
    for (at, word) in words.iter().enumerate().skip(1) {
        let mut meant =
            suspects.split_whitespace().filter(|it| matches_suspect(it, &word.text, in_clusters));
        let first = meant.next();
        let could_be = word.could_be_option() && !suspects.is_empty();
        if first.is_some() || could_be {
            facts.add_risk(at, MAY_DO_MORE);
        }
        let runs = first.into_iter().chain(meant).any(|suspect| suspect.ends_with('!'));
        if runs || (could_be && may_run) {
            facts.mark_unseen(IS_TOLD);
        }
    }
}

/// Returns whether a word matches one pattern. `in_clusters` is true if letters may be clustered behind one dash.
fn matches_suspect(suspect: &str, word: &str, in_clusters: bool) -> bool {
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

/// Returns whether a word abbreviates a long option: `--fil` for `--file`.
fn is_cut_short(word: &str, long: &str) -> bool {
    let given = word.split('=').next().unwrap_or(word);
    given.len() > 3 && given.starts_with("--") && long.starts_with(given)
}
