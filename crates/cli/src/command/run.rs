//! `windlass run`: reads calls as JSON lines and prints results as JSON lines, each line answered before the next is read.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use windlass::event::{EventFilter, EventKind, Subscription};
use windlass::{Event, ToolCall, wire};
use windlass_hub::Recording;

use super::{block_on, end_jobs, interrupted_exit_code, until_interrupted};
use crate::options::Global;
use crate::setup::Setup;
use crate::terminal;

/// The maximum length of an input line; a longer one is answered with an error.
const MAX_LINE_BYTES: usize = 64 << 20;

/// The wait for late events at the end: longer than a journal waits for other processes that have its database locked.
const LATE_EVENTS_TIMEOUT: Duration = Duration::from_secs(15);

/// `windlass run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A file of JSON lines, or - for standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print events as JSON lines, too.
    #[arg(long)]
    events: bool,
}

/// Answers all lines, then ends the jobs of the session.
pub(super) fn run(global: &Global, run: &Run) -> Result<ExitCode> {
    let lines = open(&run.file)?;
    block_on(async {
        let setup = Setup::open(global, Recording::Whole)?;
        let _jobs = setup.windlass.serve_jobs(&setup.session);
        setup.run_start_hooks(global).await;
        let work = async {
            let answered = answer_all(&setup, lines, run.events).await;
            end_jobs(&setup.session).await;
            setup.run_end_hooks(global).await;
            answered
        };
        until_interrupted(setup.windlass.engine(), &setup.session, work).await?
    })?
}

/// Answers all lines, and then prints the remaining events.
async fn answer_all(setup: &Setup, lines: Input, events: bool) -> Result<ExitCode> {
    let mut events = EventPrinter::new(setup, events);
    let answered = answer_lines(setup, lines, &mut events).await;
    events.print_rest().await?;
    answered
}

/// Answers lines until the input ends or an interrupt comes.
async fn answer_lines(setup: &Setup, lines: Input, events: &mut EventPrinter) -> Result<ExitCode> {
    let mut reader = Some((lines, Vec::new()));
    while let Some((mut lines, mut line)) = reader.take() {
        // On another thread: the output of jobs must be read while we wait for the next line.
        let read = tokio::task::spawn_blocking(move || {
            let kind = read_line(&mut *lines, &mut line);
            (kind, lines, line)
        });
        let read = events.print_during(async {
            tokio::select! {
                biased;
                read = read => Some(read),
                () = setup.session.interrupted() => None,
            }
        });
        let Some(read) = read.await? else { return Ok(interrupted_exit_code()) };
        let (kind, lines, line) = read?;
        let Some(kind) = kind.context("cannot read the input")? else { break };
        match kind {
            LineKind::TooLong(bytes) => {
                print_error(&format!("the line has {bytes} bytes; {MAX_LINE_BYTES} are the most"))?;
            }
            LineKind::Whole if line.iter().all(u8::is_ascii_whitespace) => {}
            LineKind::Whole => answer_line(setup, &line, events).await?,
        }
        if setup.session.is_interrupted() {
            return Ok(interrupted_exit_code());
        }
        reader = Some((lines, line));
    }
    Ok(ExitCode::SUCCESS)
}

/// The input.
type Input = Box<dyn BufRead + Send>;

/// Opens a file, or standard input for `-`.
fn open(path: &Path) -> Result<Input> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// The kind of a line that was read.
enum LineKind {
    /// The line is in the buffer.
    Whole,
    /// The line was longer than the limit, with its length; the buffer is empty.
    TooLong(usize),
}

/// Reads one line into the buffer; `None` at the end of the input. A line that is too long is read and discarded.
fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<Option<LineKind>> {
    line.clear();
    let mut bytes = 0;
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            return Ok((bytes > 0).then(|| kind(bytes)));
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        bytes += part.len();
        if bytes <= MAX_LINE_BYTES {
            line.extend_from_slice(part);
        } else {
            line.clear();
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(Some(kind(bytes)));
        }
    }
}

/// Returns the kind of a line of this length.
fn kind(bytes: usize) -> LineKind {
    if bytes > MAX_LINE_BYTES { LineKind::TooLong(bytes) } else { LineKind::Whole }
}

/// Runs the calls of one line as a turn, and prints a result or an error for each item in its place.
async fn answer_line(setup: &Setup, line: &[u8], events: &mut EventPrinter) -> Result<()> {
    let items = match read_items(line) {
        Ok(items) => items,
        Err(error) => return print_error(&format!("{error:#}")),
    };
    let mut calls: Vec<ToolCall> = Vec::new();
    let mut formats = Vec::new();
    for item in items {
        formats.push(item.as_ref().map(|asked| asked.format).map_err(ToString::to_string));
        calls.extend(item.map(wire::RequestedCall::into_call));
    }
    let results = if calls.is_empty() {
        Vec::new()
    } else {
        let turn = events.print_during(setup.windlass.turn(&setup.session, calls));
        turn.await?
    };
    let mut results = results.iter();
    for format in formats {
        match format.map(|format| results.next().map(|result| wire::to_line(format, result))) {
            Ok(Some(line)) => terminal::print_json(&line)?,
            Ok(None) => {}
            Err(error) => print_error(&error)?,
        }
    }
    Ok(())
}

/// Parses a line into its calls; an item that is not a call is an error of its own.
fn read_items(line: &[u8]) -> Result<Vec<Result<wire::RequestedCall, wire::WireError>>> {
    let value = serde_json::from_slice(line).context("the line is not JSON")?;
    Ok(wire::read_turn(value)?)
}

/// Prints the events of the session while other work runs, if events are wanted. An event is published when the journal has numbered its
/// record, which is later than the result of a quick call. No result waits for that.
struct EventPrinter(Option<Subscription>);

impl EventPrinter {
    /// Subscribes to the session, if events are wanted.
    fn new(setup: &Setup, are_wanted: bool) -> Self {
        let listen =
            || setup.windlass.engine().subscribe_to(EventFilter::session(setup.session.id()));
        Self(are_wanted.then(listen))
    }

    /// Runs work, and prints the events that come meanwhile.
    async fn print_during<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
        let Some(subscription) = &mut self.0 else { return Ok(work.await) };
        let mut work = std::pin::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                event = subscription.next() => print_event(&event)?,
            }
        };
        while let Some(event) = subscription.try_next() {
            print_event(&event)?;
        }
        Ok(done)
    }

    /// Waits for late events, at most `LATE_EVENTS_TIMEOUT`, and prints them.
    async fn print_rest(&mut self) -> Result<()> {
        let Some(subscription) = &mut self.0 else { return Ok(()) };
        let rest = tokio::time::timeout(LATE_EVENTS_TIMEOUT, subscription.drain()).await;
        rest.unwrap_or_default().iter().try_for_each(print_event)
    }
}

/// Prints an event as a JSON line.
fn print_event(event: &Event) -> Result<()> {
    let mut line = serde_json::to_value(event)?;
    match &event.kind {
        EventKind::Finished(_) => {
            // The result has a line of its own.
            for name in ["content", "metadata"] {
                line.as_object_mut().and_then(|line| line.remove(name));
            }
        }
        EventKind::Tools(_) => line["event"] = "tools_changed".into(),
        _ => {}
    }
    terminal::print_json(&line)
}

/// Prints the error for a line or an item that is not a call.
fn print_error(why: &str) -> Result<()> {
    terminal::print_json(&terminal::error_line("not_a_call", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_and_without_a_final_line_break() {
        let mut input = BufReader::with_capacity(3, &b"one\n\ntwo three\nlast"[..]);
        let (mut line, mut lines) = (Vec::new(), Vec::new());
        while let Some(kind) = read_line(&mut input, &mut line).expect("readable") {
            assert!(matches!(kind, LineKind::Whole));
            lines.push(String::from_utf8_lossy(&line).into_owned());
        }
        assert_eq!(lines, ["one", "", "two three", "last"]);
    }
}
