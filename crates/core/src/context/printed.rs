//! The output of a program as it may be shown and kept: plain text without secrets, in pieces, whatever its size.

use std::ops::Range;

use super::Context;
use crate::Secrets;
use crate::TerminalText;
use crate::jobs::Job;
use crate::secrets::RedactionStream;

/// Maximum bytes of a piece.
const PIECE_BYTES: u64 = 1 << 20;
/// Maximum bytes of a line that is held back because the program may still overwrite it.
const MAX_HELD_LINE_BYTES: usize = 64 << 10;
/// Bytes before the start of a range that are searched for the beginning of a secret which reaches into the range.
const LOOKBACK_BYTES: u64 = 64 << 10;
/// Bytes at the end of an unfinished line that are examined one by one.
const BYTEWISE_BYTES: usize = 4 << 10;

/// The output of a program, in pieces. Blocking: the pieces may come from a file.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{CommandLine, Effect, EffectKinds, Output, ProcessRequest, Program, testing::MockTool};
/// # use windlass_core::{Engine, Mode, Policy, ToolCall, Toolbox, testing::EchoHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("make")
///     .with_effects(EffectKinds::EXEC, |_| Effect::Exec(CommandLine::words(["make", "all"])).into())
///     .answering(|cx, _| async move {
///         let directory = cx.files().resolve(".".as_ref())?;
///         let request = ProcessRequest::new(Program::words(["make", "all"]), directory);
///         let (job, end) = cx.processes()?.run(request, None, None).await?;
///         drop(end);
///         let text: String = cx.printed(&job, 0..job.printed()).map(|piece| piece.text).collect();
///         Ok(Output::text(text))
///     });
/// # let mut tools = Toolbox::new();
/// # tools.add(tool)?;
/// # let engine = Engine::builder(Arc::new(EchoHost::default())).toolbox(tools).policy(Policy::new(Mode::Yolo)).build();
/// // On this machine every program prints its own words.
/// let result = engine.call(&engine.new_session(), ToolCall::new("make", json!({}))).await;
/// assert_eq!(result.output.to_text(), "make all");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Printed<'a> {
    secrets: &'a Secrets,
    job: &'a Job,
    range: Range<u64>,
    plain: TerminalText,
    /// An unfinished line, which further output may overwrite.
    line: String,
    stream: RedactionStream,
    is_done: bool,
}

/// A piece of a program's output.
#[derive(Debug, PartialEq, Eq)]
pub struct PrintedPiece {
    /// Number of bytes before this piece that are no longer kept.
    pub missed: u64,
    /// Text of the piece.
    pub text: String,
}

impl Context {
    /// Returns the output of a program in a range of bytes.
    ///
    /// If a secret reaches across the start of the range, all of it is redacted, and the text begins before the range.
    pub fn printed<'a>(&'a self, job: &'a Job, range: Range<u64>) -> Printed<'a> {
        Printed::of(&self.0.secrets, job, range)
    }

    /// Returns the offset up to which the output from `from` on can be shown while the program runs: before the possible beginning
    /// of a secret, of a character or of a terminal sequence.
    pub fn settled(&self, job: &Job, from: u64) -> u64 {
        safe_end(&self.0.secrets, job, from..job.printed())
    }

    /// Redacts a text that may be continued. Leaves out the possible beginning of a secret at its end.
    pub fn redact_open(&self, text: &str) -> String {
        RedactionStream::default().push(&self.0.secrets, text).into_owned()
    }

    /// Keeps the whole output of a program under `output:CALL`, as far as there is room. Returns whether that succeeded.
    pub fn keep_transcript(&self, job: &Job) -> bool {
        self.keep_printed(job, 0..job.printed())
    }

    /// Keeps the output of a program in a range of bytes, like [`Context::keep_transcript`].
    pub fn keep_printed(&self, job: &Job, range: Range<u64>) -> bool {
        let mut pieces = self.printed(job, range);
        let mut next = || {
            let PrintedPiece { missed, text } = pieces.next()?;
            Some(match missed {
                0 => text,
                missed => format!("\n[… {missed} bytes were not kept …]\n{text}"),
            })
        };
        self.0.outputs.keep_pieces(self.0.session.id(), &self.0.call, &mut next).is_ok()
    }

    /// Redacts the secrets in a text. Call it before the text is cut, so that no part of a secret is left.
    pub fn redact<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        self.0.secrets.redact(text)
    }
}

/// Returns about `most` bytes of a program's output from an offset on, and the offset at which the next call continues.
pub(crate) fn look(secrets: &Secrets, job: &Job, from: u64, most: u64) -> (PrintedPiece, u64) {
    // Output that comes meanwhile belongs to the next call.
    let (is_over, printed) = (job.end().is_some(), job.printed());
    let from = from.min(printed);
    let mut most = most.max(1);
    let up_to = loop {
        let part = printed.min(from.saturating_add(most));
        if is_over && part == printed {
            break part;
        }
        let settled = safe_end(secrets, job, from..part);
        if settled > from || part == printed {
            break settled;
        }
        // A secret is longer than this.
        most = most.saturating_mul(2);
    };
    let mut whole = PrintedPiece { missed: 0, text: String::new() };
    let pieces = (up_to > from).then(|| Printed::of(secrets, job, from..up_to));
    for piece in pieces.into_iter().flatten() {
        whole.missed += piece.missed;
        whole.text.push_str(&piece.text);
    }
    (whole, up_to)
}

/// Returns the offset up to which the output in a range can be shown although more follows.
fn safe_end(secrets: &Secrets, job: &Job, range: Range<u64>) -> u64 {
    let start = range.end.saturating_sub(LOOKBACK_BYTES).max(range.start);
    let piece = job.since(start, usize::try_from(range.end - start).unwrap_or(0));
    let begin = piece.next - piece.bytes.len() as u64;
    let mut finder =
        CutFinder { secrets, plain: TerminalText::default(), stream: RedactionStream::default() };
    let last = piece.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (lines, rest) = piece.bytes.split_at(last);
    let (rest, slowly) = rest.split_at(rest.len().saturating_sub(BYTEWISE_BYTES));
    let parts = lines
        .split_inclusive(|byte| *byte == b'\n')
        .chain([rest])
        .chain(slowly.iter().map(std::slice::from_ref));
    let (mut at, mut settled) = (begin, begin.max(range.start));
    for part in parts {
        at += part.len() as u64;
        if finder.push(part) {
            settled = at;
        }
    }
    settled
}

impl Iterator for Printed<'_> {
    type Item = PrintedPiece;

    fn next(&mut self) -> Option<PrintedPiece> {
        if self.is_done {
            return None;
        }
        let left = self.range.end.saturating_sub(self.range.start);
        let limit = usize::try_from(left.min(PIECE_BYTES)).unwrap_or(0);
        let mut piece = self.job.since(self.range.start, limit);
        let mut missed = piece.missed.min(left);
        if missed > 0 {
            // Text that was held back comes before the gap; the next call finds the gap again.
            let text = self.finish();
            if !text.is_empty() {
                return Some(PrintedPiece { missed: 0, text });
            }
        }
        // After a gap there may be more bytes than requested.
        piece.bytes.truncate(usize::try_from(left - missed).unwrap_or(usize::MAX));
        if piece.bytes.is_empty() {
            self.is_done = true;
            let text = self.finish();
            return (missed > 0 || !text.is_empty()).then_some(PrintedPiece { missed, text });
        }
        self.range.start = piece.next;
        if missed > 0 {
            let broken = Self::broken_line(&piece.bytes);
            piece.bytes.drain(..broken);
            missed += broken as u64;
        }
        self.plain.push(&piece.bytes, &mut self.line);
        let rest = self.line.split_off(self.fixed_length());
        let settled = std::mem::replace(&mut self.line, rest);
        let text = self.stream.push(self.secrets, &settled).into_owned();
        Some(PrintedPiece { missed, text })
    }
}

/// Finds the offsets at which a program's output can be cut.
struct CutFinder<'a> {
    secrets: &'a Secrets,
    plain: TerminalText,
    stream: RedactionStream,
}

impl CutFinder<'_> {
    /// Adds bytes. Returns whether the output can be cut after them.
    fn push(&mut self, bytes: &[u8]) -> bool {
        let mut text = String::new();
        self.plain.push(bytes, &mut text);
        self.stream.push(self.secrets, &text);
        self.plain.is_at_boundary() && self.stream.is_at_boundary()
    }
}

impl<'a> Printed<'a> {
    /// Starts reading a range of a program's output.
    fn of(secrets: &'a Secrets, job: &'a Job, range: Range<u64>) -> Self {
        let mut printed = Self {
            secrets,
            job,
            range,
            plain: TerminalText::default(),
            line: String::new(),
            stream: RedactionStream::default(),
            is_done: false,
        };
        printed.read_lookback();
        printed
    }

    /// Feeds the bytes before the range to the filters, in case a secret or a terminal sequence reaches into the range.
    fn read_lookback(&mut self) {
        let start = self.range.start;
        if start == 0 || start == self.job.seen() {
            return;
        }
        let from = start.saturating_sub(LOOKBACK_BYTES);
        let before = self.job.since(from, usize::try_from(start - from).unwrap_or(0));
        if before.next != start {
            return;
        }
        let mut text = String::new();
        self.plain.push(&before.bytes, &mut text);
        self.stream.push(self.secrets, &text);
    }

    /// Returns the length of the rest of a line after a gap: its beginning is lost, so a secret in it cannot be recognized.
    fn broken_line(bytes: &[u8]) -> usize {
        let near = bytes.get(..BYTEWISE_BYTES).unwrap_or(bytes);
        near.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }

    /// Returns the length of the text that the program cannot overwrite any more.
    fn fixed_length(&self) -> usize {
        let whole = self.line.rfind('\n').map_or(0, |at| at + 1);
        if self.line.len() - whole > MAX_HELD_LINE_BYTES { self.line.len() } else { whole }
    }

    /// Returns the text that was held back, now that nothing follows it.
    fn finish(&mut self) -> String {
        self.plain.end(&mut self.line);
        self.plain = TerminalText::default();
        let line = std::mem::take(&mut self.line);
        let mut text = self.stream.push(self.secrets, &line).into_owned();
        text.push_str(&self.stream.end(self.secrets));
        text
    }
}
