//! The errors in the tree of a grammar, and those of them that a change introduced.
//!
//! Trees of similar texts have similar errors, but at other positions, and an error can grow, shrink or split because of an unrelated
//! change. So errors are compared by their text rather than by their positions, and in doubt an error does not count
//! as new.

use std::ops::Range;

use tree_sitter::{Node, Tree};

use super::ParsedVersion;
use super::span::{ChangedSpan, line_around};

/// Limit of the compared errors of a text.
const MAX_ERRORS: usize = 200;

/// A part of the text that the grammar does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) range: Range<usize>,
    pub(super) kind: ErrorKind,
}

/// The kind of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ErrorKind {
    /// The text does not fit.
    Unexpected,
    /// A node is missing here: a token as it is written, or the grammar's name for it.
    Missing { kind: String, is_token: bool },
}

/// Returns the outermost errors of a tree, in order.
pub(super) fn errors_of(tree: &Tree) -> Vec<SyntaxError> {
    let mut errors = Vec::new();
    let mut cursor = tree.walk();
    while errors.len() < MAX_ERRORS {
        let node = cursor.node();
        if node.is_error() || node.is_missing() {
            errors.push(SyntaxError { range: node.byte_range(), kind: ErrorKind::of(&node) });
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

impl ErrorKind {
    /// Returns the kind of an error node.
    fn of(node: &Node<'_>) -> Self {
        if node.is_missing() {
            Self::Missing { kind: node.kind().to_owned(), is_token: !node.is_named() }
        } else {
            Self::Unexpected
        }
    }
}

/// Returns the errors of the new text that the change introduced.
pub(super) fn new_errors(
    old: &ParsedVersion<'_>,
    new: &ParsedVersion<'_>,
    span: &ChangedSpan,
) -> Vec<SyntaxError> {
    let (mut gone, mut left) = (old.errors.clone(), new.errors.clone());
    // The same error in the same line, or with the same text, was there before.
    drop_equal_errors(&mut gone, &mut left, |error, old_error| {
        error.kind == old_error.kind && error.line(new.text) == old_error.line(old.text)
    });
    drop_equal_errors(&mut gone, &mut left, |error, old_error| {
        error.kind == old_error.kind && error.words(new.text) == old_error.words(old.text)
    });
    // A large error can split into small ones.
    let covered: Vec<Range<usize>> =
        old.errors.iter().map(|error| still_covered(error, span)).collect();
    left.retain(|error| {
        !covered
            .iter()
            .any(|range| range.start <= error.range.start && error.range.end <= range.end)
    });
    // If an error disappeared from an unchanged line, the parser has recovered in another way, and errors elsewhere may be old ones.
    // Then only errors in changed lines are certainly new.
    if gone.iter().any(|error| !span.touches_old_line(old.text, error.range.start)) {
        left.retain(|error| span.touches_new_line(new.text, error.range.start));
    }
    left
}

/// Removes pairs of equal errors from both lists.
fn drop_equal_errors(
    gone: &mut Vec<SyntaxError>,
    left: &mut Vec<SyntaxError>,
    is_same: impl Fn(&SyntaxError, &SyntaxError) -> bool,
) {
    left.retain(|error| match gone.iter().position(|old| is_same(error, old)) {
        Some(at) => {
            gone.swap_remove(at);
            false
        }
        None => true,
    });
}

/// Returns the part of the new text that was in an old error. The changed span belongs to it only if all of it was in the error.
fn still_covered(error: &SyntaxError, span: &ChangedSpan) -> Range<usize> {
    let Range { start, end } = error.range;
    let start = match start {
        start if start < span.start => start,
        start if start >= span.before_end => span.shift(start),
        _ => span.after_end,
    };
    let end = match end {
        end if end > span.before_end => span.shift(end),
        end if end <= span.start => end,
        _ => span.start,
    };
    start..end
}

impl SyntaxError {
    /// Returns the line in which the error begins.
    fn line<'t>(&self, text: &'t str) -> &'t str {
        text.get(line_around(text, self.range.start)).unwrap_or_default().trim()
    }

    /// Returns the text of the error.
    fn words<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.range.clone()).unwrap_or_default()
    }
}
