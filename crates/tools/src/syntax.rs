//! Finds syntax errors that a change introduced into a file.
//!
//! An error is a hint for the model, not a reason to refuse: in doubt none is reported. Errors that were there before the change are not
//! reported again, nor is text that a grammar has never understood. Without the feature `syntax` there are no grammars, and no error is
//! found.

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

/// A syntax error that was not in the file before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewSyntaxError {
    /// Line, counted from 1.
    pub(crate) line: usize,
    /// Column in characters, counted from 1.
    pub(crate) column: usize,
    /// Description of the error, as the end of a sentence about the line.
    pub(crate) message: String,
}

/// Finds no error, because this build has no grammars.
#[cfg(not(feature = "syntax"))]
pub(crate) fn new_error(_: &Path, _: &str, _: &str) -> Option<NewSyntaxError> {
    None
}

/// Returns a line about the error for the end of a headline; empty if there is none.
pub(crate) fn note(error: Option<&NewSyntaxError>) -> String {
    error.map_or(String::new(), |NewSyntaxError { line, message, .. }| {
        format!("\nnote: line {line} has a new syntax error: {message}")
    })
}

/// Adds the error to the metadata of an output.
pub(crate) fn attach(output: Output, error: Option<NewSyntaxError>) -> Output {
    match error {
        Some(error) => output.with("syntax_error", error),
        None => output,
    }
}

impl From<NewSyntaxError> for Value {
    fn from(NewSyntaxError { line, column, message }: NewSyntaxError) -> Self {
        json!({"line": line, "column": column, "message": message})
    }
}
