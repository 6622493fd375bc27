//! Programs that change files: that is what they are for, so it is no risk but an effect, by the paths that they name.

use windlass_core::PathPattern;

use crate::shell::found::{Found, Touch};
use crate::shell::syntax::Word;

/// The words that are no options.
fn operands(words: &[Word]) -> Vec<&Word> {
    let mut only_operands = false;
    let mut operands = Vec::new();
    for word in words.iter().skip(1) {
        if !only_operands && word.text == "--" {
            only_operands = true;
        } else if only_operands || !word.text.starts_with('-') || word.text == "-" {
            operands.push(word);
        }
    }
    operands
}

/// `rm`, `rmdir`, `unlink`, `shred`.
pub(super) fn remove(words: &[Word], found: &mut Found) {
    // What removes nothing but empty directories is another thing.
    if words.first().is_some_and(|program| program.text != "rmdir") {
        found.acts_as.push("rm");
    }
    for word in operands(words) {
        found.delete(word);
    }
}

/// `mkdir`, `touch`, `tee`, `truncate`, `mkfifo`.
pub(super) fn create(words: &[Word], found: &mut Found) {
    for word in operands(words) {
        found.write(word);
    }
}

/// `chmod`, `chown`, `chgrp`: the first word is no file.
pub(super) fn attributes(words: &[Word], found: &mut Found) {
    for word in operands(words).into_iter().skip(1) {
        found.write_tree(word);
    }
}

/// `cp`, `mv`, `ln`, `install`: the last word is where it goes, unless an option says it.
pub(super) fn copy(words: &[Word], found: &mut Found) {
    let is_move = words.first().is_some_and(|program| program.text == "mv");
    let mut operands = operands(words);
    for (at, word) in words.iter().enumerate() {
        let joined =
            word.text.strip_prefix("--target-directory=").or_else(|| word.text.strip_prefix("-t"));
        if let Some(place) = joined {
            found.risk(at, "names where it goes");
            let place = if place.is_empty() {
                words.get(at + 1).map_or("", |next| &next.text)
            } else {
                place
            };
            found.touch(Touch::Write, PathPattern::tree(place));
        }
    }
    if operands.len() > 1
        && let Some(to) = operands.pop()
    {
        found.write_tree(to);
    }
    for from in operands {
        found.read_tree(from);
        if is_move {
            found.delete(from);
        }
    }
}

/// `dd`.
pub(super) fn dd(words: &[Word], found: &mut Found) {
    for (at, word) in words.iter().enumerate().skip(1) {
        if let Some(from) = word.text.strip_prefix("if=") {
            found.read(&Word::literal(from));
        }
        if let Some(to) = word.text.strip_prefix("of=") {
            found.risk(at, "writes a file");
            found.write(&Word::literal(to));
        }
    }
}
