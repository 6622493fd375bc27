//! Describes the end of a program for the person who is asked about its changes.

use std::sync::Arc;

use super::Context;
use crate::jobs::{CutOff, Job, ProgramEnd};
use crate::{CommandEnd, TerminalText};

/// Bytes at the end of the output of which the last lines are shown. A progress line that overwrites itself takes many of them.
const WINDOW_BYTES: u64 = 64 << 10;

impl Context {
    /// Returns the end of a program that has ended: its exit, and the last lines of its output with secrets redacted.
    pub(super) async fn command_end(&self, job: &Arc<Job>, end: &ProgramEnd) -> CommandEnd {
        let (how, cut_off) = (end.how, end.cut_off);
        let owner = job.clone();
        let read = self.blocking(move |cx| cx.end_of_output(&owner)).await;
        let (text, printed_bytes) = read.unwrap_or_default();
        let shown = CommandEnd::new(how, &text);
        CommandEnd {
            timed_out: cut_off == Some(CutOff::TimeLimit),
            is_interrupted: cut_off == Some(CutOff::Interrupt),
            printed_bytes: printed_bytes.or(shown.printed_bytes),
            ..shown
        }
    }

    /// Returns the end of a program's output and, if that is a part of it, the number of bytes of the whole. Blocking.
    fn end_of_output(&self, job: &Job) -> (String, Option<u64>) {
        let printed = job.printed();
        let from = printed.saturating_sub(WINDOW_BYTES);
        let pieces = self.printed(job, from..printed);
        let mut text = without_broken_line(pieces.map(|piece| piece.text).collect(), from);
        let errors = job.errors.as_ref().map_or(0, |errors| errors.lock().total());
        let errors_from = errors.saturating_sub(WINDOW_BYTES);
        if let Some(piece) =
            job.errors_since(errors_from, usize::try_from(WINDOW_BYTES).unwrap_or(0))
        {
            let (mut plain, mut errors) = (TerminalText::default(), String::new());
            plain.push(&piece.bytes, &mut errors);
            plain.end(&mut errors);
            text.push_str(&without_broken_line(self.redact(&errors).into_owned(), errors_from));
        }
        (text, (from > 0 || errors_from > 0).then_some(printed + errors))
    }
}

/// Removes the rest of a line at the beginning of a text that does not start at offset 0 of an output.
fn without_broken_line(text: String, from: u64) -> String {
    match text.split_once('\n') {
        Some((_, rest)) if from > 0 => rest.to_owned(),
        _ => text,
    }
}
