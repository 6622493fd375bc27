//! Whether a change made a file that its language cannot read, and where.
//!
//! It is a hint for whoever made the change, not a judgement: nothing is refused for it, and in doubt nothing is said. What
//! was broken before and is broken the same way is not told again, nor is what a grammar has never understood. Without the
//! feature `syntax` there are no grammars, and nothing is ever found.

#[cfg(feature = "syntax")]
mod check;
#[cfg(all(test, feature = "syntax"))]
mod tests;

#[cfg(not(feature = "syntax"))]
use std::path::Path;

use serde_json::{Value, json};
use windlass_core::Output;

#[cfg(feature = "syntax")]
pub(crate) use self::check::new_error;

/// A syntax error that was not there before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewError {
    /// Counted from 1.
    pub(crate) line: usize,
    /// In characters, counted from 1.
    pub(crate) column: usize,
    /// What is wrong with the line.
    pub(crate) message: String,
}

/// Nothing: there are no grammars.
#[cfg(not(feature = "syntax"))]
pub(crate) fn new_error(_: &Path, _: &str, _: &str) -> Option<NewError> {
    None
}

/// For the end of a headline: a line of its own that tells of an error, or nothing at all.
pub(crate) fn note(error: Option<&NewError>) -> String {
    error.map_or(String::new(), |NewError { line, message, .. }| {
        format!("\nnote: line {line} has a new syntax error: {message}")
    })
}

/// The answer of a tool, with the error for programs to find.
pub(crate) fn attach(output: Output, error: Option<NewError>) -> Output {
    match error {
        Some(error) => output.with("syntax_error", error),
        None => output,
    }
}

impl From<NewError> for Value {
    fn from(NewError { line, column, message }: NewError) -> Self {
        json!({"line": line, "column": column, "message": message})
    }
}
