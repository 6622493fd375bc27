//! Describes a syntax error: its line, and the problem there.

use std::ops::Range;

use windlass_core::quote;

use super::brackets::BracketFault;
use super::errors::{ErrorKind, SyntaxError};
use super::span::{ChangedSpan, line_and_column, line_around};
use crate::format;
use crate::syntax::NewSyntaxError;

/// Limit of the shown characters of a line.
const MAX_CHARACTERS: usize = 60;
/// Limit of the named further lines.
const MAX_OTHER_LINES: usize = 3;

/// Describes a bracket error.
pub(super) fn describe_bracket_fault(
    fault: BracketFault,
    text: &str,
    span: &ChangedSpan,
) -> NewSyntaxError {
    match fault {
        BracketFault::Open(it) => error_at(text, it.at, format!("its `{it}` is not closed")),
        BracketFault::Stray(it, None) => {
            error_at(text, it.at, format!("its `{it}` closes nothing"))
        }
        BracketFault::Stray(it, Some(open)) => {
            let (line, _) = line_and_column(text, open.at);
            error_at(text, it.at, format!("its `{it}` does not close the `{open}` of line {line}"))
        }
        BracketFault::Early(it, open) => {
            let (line, _) = line_and_column(text, open.at);
            error_at(
                text,
                it.at,
                format!("its `{it}` closes the `{open}` of line {line} too early"),
            )
        }
        BracketFault::Lost(open) => {
            let message = format!("`{open}` is missing for a later `{}`", open.partner());
            error_at(text, span.start, message)
        }
    }
}

/// Describes the first of some errors, with the lines of others.
pub(super) fn describe_errors(
    errors: &[SyntaxError],
    text: &str,
    span: &ChangedSpan,
) -> Option<NewSyntaxError> {
    let (first, more) = errors.split_first()?;
    let error = describe_error(first, text, span);
    let mut lines: Vec<usize> =
        more.iter().map(|error| describe_error(error, text, span).line).collect();
    lines.retain(|line| *line != error.line);
    lines.dedup();
    let lines: Vec<String> = lines.iter().take(MAX_OTHER_LINES).map(ToString::to_string).collect();
    let others = match &*lines {
        [] => String::new(),
        [one] => format!("; another in line {one}"),
        _ => format!("; others in lines {}", lines.join(", ")),
    };
    let message =
        format!("{}{}{others}", error.message, changed_line_remark(first, &error, text, span));
    Some(NewSyntaxError { message, ..error })
}

/// Names the changed line, if the error is in another one.
fn changed_line_remark(
    error: &SyntaxError,
    new_error: &NewSyntaxError,
    text: &str,
    span: &ChangedSpan,
) -> String {
    let Range { start, end } = error.range;
    let (first, _) = line_and_column(text, span.start);
    let (last, _) = line_and_column(text, span.after_end);
    if start <= span.after_end && span.start <= end || (first..=last).contains(&new_error.line) {
        String::new()
    } else {
        format!(", since line {first} was changed")
    }
}

/// Describes one error of the grammar.
fn describe_error(error: &SyntaxError, text: &str, span: &ChangedSpan) -> NewSyntaxError {
    let Range { start, end } = error.range;
    match &error.kind {
        ErrorKind::Missing { kind, is_token } => {
            error_at(text, end_of_token(text, start), missing_node(kind, *is_token))
        }
        // The change is inside the part that does not parse, so it is the cause.
        ErrorKind::Unexpected if start < span.start && span.start <= end => {
            let at = end_of_token(text, span.start);
            let line = text.get(line_around(text, at)).unwrap_or_default();
            error_at(text, at, format!("`{}` does not parse", shown_beginning(line)))
        }
        ErrorKind::Unexpected => {
            let line_end = line_around(text, start).end;
            let rest = shown_beginning(text.get(start..line_end).unwrap_or_default());
            let is_short = end <= line_end;
            let message = if is_short {
                format!("unexpected `{rest}`")
            } else {
                format!("`{rest}` does not parse")
            };
            error_at(text, start, message)
        }
    }
}

/// Makes an error at a position.
fn error_at(text: &str, at: usize, message: String) -> NewSyntaxError {
    let (line, column) = line_and_column(text, at);
    NewSyntaxError { line, column, message }
}

/// Returns the end of the token at or before a position that may be in white space.
fn end_of_token(text: &str, at: usize) -> usize {
    let line = line_around(text, at);
    let is_blank = |range: Range<usize>| text.get(range).is_none_or(|part| part.trim().is_empty());
    if !is_blank(line.start..at) && !is_blank(at..line.end) {
        return at;
    }
    match text.get(..at).unwrap_or_default().trim_end() {
        "" => at,
        head => head.len(),
    }
}

/// Says which node is missing.
fn missing_node(kind: &str, is_token: bool) -> String {
    match kind {
        kind if kind.trim().is_empty() => "a line end is missing".into(),
        kind if is_token => format!("`{kind}` is missing"),
        kind => format!("{} is missing", kind.replace('_', " ")),
    }
}

/// Returns the beginning of a line, with invisible characters escaped.
fn shown_beginning(line: &str) -> String {
    format::short(&quote::visible(line.trim()), MAX_CHARACTERS).into_owned()
}
