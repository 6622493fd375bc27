//! What is said of an error: where to look, and what is wrong there.

use std::ops::Range;

use windlass_core::quote;

use super::brackets::Fault;
use super::difference::{Difference, line_around, place};
use super::errors::{Error, What};
use crate::syntax::NewError;

/// How many characters of a line are shown.
const MAX_CHARACTERS: usize = 60;
/// How many further lines are named.
const MAX_LINES: usize = 3;

/// What is wrong with a bracket.
pub(super) fn of_fault(fault: Fault, text: &str, difference: &Difference) -> NewError {
    match fault {
        Fault::Open(it) => at_place(text, it.at, format!("its `{it}` is not closed")),
        Fault::Stray(it, None) => at_place(text, it.at, format!("its `{it}` closes nothing")),
        Fault::Stray(it, Some(open)) => {
            let (line, _) = place(text, open.at);
            at_place(text, it.at, format!("its `{it}` does not close the `{open}` of line {line}"))
        }
        Fault::Early(it, open) => {
            let (line, _) = place(text, open.at);
            at_place(
                text,
                it.at,
                format!("its `{it}` closes the `{open}` of line {line} too early"),
            )
        }
        Fault::Lost(open) => {
            let message = format!("`{open}` is missing for a later `{}`", open.partner());
            at_place(text, difference.start, message)
        }
    }
}

/// The first of some errors, with the lines of the next.
pub(super) fn of_errors(errors: &[Error], text: &str, difference: &Difference) -> Option<NewError> {
    let (first, more) = errors.split_first()?;
    let error = of_error(first, text, difference);
    let mut lines: Vec<usize> =
        more.iter().map(|error| of_error(error, text, difference).line).collect();
    lines.retain(|line| *line != error.line);
    lines.dedup();
    let lines: Vec<String> = lines.iter().take(MAX_LINES).map(ToString::to_string).collect();
    let others = match &*lines {
        [] => String::new(),
        [one] => format!("; another in line {one}"),
        _ => format!("; others in lines {}", lines.join(", ")),
    };
    let message = format!("{}{}{others}", error.message, cause(first, &error, text, difference));
    Some(NewError { message, ..error })
}

/// The change, if the error is somewhere else.
fn cause(error: &Error, told: &NewError, text: &str, difference: &Difference) -> String {
    let Range { start, end } = error.range;
    let (first, _) = place(text, difference.start);
    let (last, _) = place(text, difference.after_end);
    if start <= difference.after_end && difference.start <= end
        || (first..=last).contains(&told.line)
    {
        String::new()
    } else {
        format!(", since line {first} was changed")
    }
}

fn of_error(error: &Error, text: &str, difference: &Difference) -> NewError {
    let Range { start, end } = error.range;
    match &error.what {
        What::Missing { kind, is_token } => {
            at_place(text, end_of_token(text, start), missing(kind, *is_token))
        }
        // The change is in the midst of what cannot be read, so it is to blame.
        What::Unexpected if start < difference.start && difference.start <= end => {
            let at = end_of_token(text, difference.start);
            let line = text.get(line_around(text, at)).unwrap_or_default();
            at_place(text, at, format!("`{}` does not parse", shown(line)))
        }
        What::Unexpected => {
            let line_end = line_around(text, start).end;
            let rest = shown(text.get(start..line_end).unwrap_or_default());
            let is_short = end <= line_end;
            let message = if is_short {
                format!("unexpected `{rest}`")
            } else {
                format!("`{rest}` does not parse")
            };
            at_place(text, start, message)
        }
    }
}

fn at_place(text: &str, at: usize, message: String) -> NewError {
    let (line, column) = place(text, at);
    NewError { line, column, message }
}

/// The nearest end of something at or before a place that may be in white space.
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

fn missing(kind: &str, is_token: bool) -> String {
    match kind {
        kind if kind.trim().is_empty() => "a line end is missing".into(),
        kind if is_token => format!("`{kind}` is missing"),
        kind => format!("{} is missing", kind.replace('_', " ")),
    }
}

/// The beginning of a line, for people.
fn shown(line: &str) -> String {
    let visible = quote::visible(line.trim());
    match visible.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", visible.get(..end).unwrap_or_default()),
        None => visible.into_owned(),
    }
}
