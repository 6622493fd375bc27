//! What a grammar cannot make sense of, and what of it is new.
//!
//! Two trees of nearly the same text have nearly the same errors, but not at the same places, and an error can grow, shrink or
//! fall apart because of a change that has nothing to do with it. So errors are held against each other by what they are about,
//! and in doubt one is not new.

use std::ops::Range;

use tree_sitter::{Node, Tree};

use super::Side;
use super::difference::{Difference, line_around};

/// How many errors of a text are compared.
const MAX_ERRORS: usize = 200;

/// A place that the grammar cannot make sense of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Error {
    pub(super) range: Range<usize>,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// Something that does not fit.
    Unexpected,
    /// Something that should be here: a token as it is written, or the grammar's name for it.
    Missing { kind: String, is_token: bool },
}

/// The outermost errors of a tree, in order.
pub(super) fn of(tree: &Tree) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut cursor = tree.walk();
    while errors.len() < MAX_ERRORS {
        let node = cursor.node();
        if node.is_error() || node.is_missing() {
            errors.push(Error { range: node.byte_range(), what: What::of(&node) });
        } else if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return errors;
            }
        }
    }
    errors
}

impl What {
    fn of(node: &Node<'_>) -> Self {
        if node.is_missing() {
            Self::Missing { kind: node.kind().to_owned(), is_token: !node.is_named() }
        } else {
            Self::Unexpected
        }
    }
}

/// Those of the new text that the change made.
pub(super) fn new(old: &Side<'_>, new: &Side<'_>, difference: &Difference) -> Vec<Error> {
    let (mut gone, mut left) = (old.errors.clone(), new.errors.clone());
    // The same trouble in the same line, or about the same words, was there before.
    drop_pairs(&mut gone, &mut left, |error, old_error| {
        error.what == old_error.what && error.line(new.text) == old_error.line(old.text)
    });
    drop_pairs(&mut gone, &mut left, |error, old_error| {
        error.what == old_error.what && error.words(new.text) == old_error.words(old.text)
    });
    // What was one large error can fall apart into small ones.
    let covered: Vec<Range<usize>> =
        old.errors.iter().map(|error| still_covered(error, difference)).collect();
    left.retain(|error| {
        !covered
            .iter()
            .any(|range| range.start <= error.range.start && error.range.end <= range.end)
    });
    // An error that is gone from a line that nobody changed has gone somewhere else: a parser that is lost can be lost in many
    // ways. Then only what is in the changed lines is new for certain.
    if gone.iter().any(|error| !difference.touched(old.text, error.range.start)) {
        left.retain(|error| difference.touches(new.text, error.range.start));
    }
    left
}

/// Takes out of both lists what is in both, as often as it is.
fn drop_pairs(
    gone: &mut Vec<Error>,
    left: &mut Vec<Error>,
    is_same: impl Fn(&Error, &Error) -> bool,
) {
    left.retain(|error| match gone.iter().position(|old| is_same(error, old)) {
        Some(at) => {
            gone.swap_remove(at);
            false
        }
        None => true,
    });
}

/// The part of the new text that was in an old error already. The difference itself is in it only if all of it was.
fn still_covered(error: &Error, difference: &Difference) -> Range<usize> {
    let Range { start, end } = error.range;
    let start = match start {
        start if start < difference.start => start,
        start if start >= difference.before_end => difference.shift(start),
        _ => difference.after_end,
    };
    let end = match end {
        end if end > difference.before_end => difference.shift(end),
        end if end <= difference.start => end,
        _ => difference.start,
    };
    start..end
}

impl Error {
    /// The line in which it begins.
    fn line<'t>(&self, text: &'t str) -> &'t str {
        text.get(line_around(text, self.range.start)).unwrap_or_default().trim()
    }

    fn words<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.range.clone()).unwrap_or_default()
    }
}
