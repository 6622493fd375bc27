//! `windlass run`: JSON lines in, JSON lines out, each line answered before the next is read.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use windlass::event::{EventKind, Filter, Subscription};
use windlass::{Event, ToolCall, wire};
use windlass_hub::Recording;

use super::{block_on, end_jobs, interrupted_exit_code, until_interrupted};
use crate::options::Global;
use crate::setup::Setup;
use crate::terminal;

/// A longer line is not a call.
const LONGEST_LINE: usize = 64 << 20;

/// The time for which an event may be late: longer than a journal waits for others who hold its database.
const LATE_EVENTS: Duration = Duration::from_secs(15);

/// `windlass run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A file of JSON lines, or - for standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print what happens meanwhile, too.
    #[arg(long)]
    events: bool,
}

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

async fn answer_all(setup: &Setup, lines: Lines, events: bool) -> Result<ExitCode> {
    let mut events = Events::of(setup, events);
    let answered = answer_lines(setup, lines, &mut events).await;
    events.print_rest().await?;
    answered
}

async fn answer_lines(setup: &Setup, lines: Lines, events: &mut Events) -> Result<ExitCode> {
    let mut reader = Some((lines, Vec::new()));
    while let Some((mut lines, mut line)) = reader.take() {
        // Elsewhere: what jobs print must be taken while we wait for the next line.
        let read = tokio::task::spawn_blocking(move || {
            let kind = read_line(&mut *lines, &mut line);
            (kind, lines, line)
        });
        let read = events.printed_during(async {
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
            Line::TooLong(bytes) => {
                print_error(&format!("the line has {bytes} bytes; {LONGEST_LINE} are the most"))?;
            }
            Line::Whole if line.iter().all(u8::is_ascii_whitespace) => {}
            Line::Whole => answer(setup, &line, events).await?,
        }
        if setup.session.is_interrupted() {
            return Ok(interrupted_exit_code());
        }
        reader = Some((lines, line));
    }
    Ok(ExitCode::SUCCESS)
}

type Lines = Box<dyn BufRead + Send>;

fn open(path: &Path) -> Result<Lines> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

/// What kind of line was read.
enum Line {
    Whole,
    TooLong(usize),
}

/// Reads one line; one that is too long is passed over, not kept.
fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<Option<Line>> {
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
        if bytes <= LONGEST_LINE {
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

fn kind(bytes: usize) -> Line {
    if bytes > LONGEST_LINE { Line::TooLong(bytes) } else { Line::Whole }
}

/// Runs the calls of one line as a turn, and answers each item of it in its place.
async fn answer(setup: &Setup, line: &[u8], events: &mut Events) -> Result<()> {
    let items = match read_items(line) {
        Ok(items) => items,
        Err(error) => return print_error(&error),
    };
    let mut calls: Vec<ToolCall> = Vec::new();
    let mut formats = Vec::new();
    for item in items {
        formats.push(item.as_ref().map(|asked| asked.format).map_err(ToString::to_string));
        calls.extend(item.map(wire::Asked::into_call));
    }
    let results = if calls.is_empty() {
        Vec::new()
    } else {
        let turn = events.printed_during(setup.windlass.turn(&setup.session, calls));
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

fn read_items(line: &[u8]) -> Result<Vec<Result<wire::Asked, wire::WireError>>, String> {
    let value =
        serde_json::from_slice(line).map_err(|error| format!("the line is not JSON: {error}"))?;
    wire::read_turn(value).map_err(|error| error.to_string())
}

/// The events of the session, printed beside whatever else is done. An event is told when the journal has numbered its record, which is
/// later than the result of a quick call. No result waits for that.
struct Events(Option<Subscription>);

impl Events {
    /// Listens to the session, if events are wanted.
    fn of(setup: &Setup, are_wanted: bool) -> Self {
        let listen = || setup.windlass.engine().subscribe_to(Filter::session(setup.session.id()));
        Self(are_wanted.then(listen))
    }

    /// Does something, and prints what happens meanwhile.
    async fn printed_during<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
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

    /// Prints what has happened and was not told yet.
    async fn print_rest(&mut self) -> Result<()> {
        let Some(subscription) = &mut self.0 else { return Ok(()) };
        let rest = tokio::time::timeout(LATE_EVENTS, subscription.drain()).await;
        rest.unwrap_or_default().iter().try_for_each(print_event)
    }
}

/// Prints an event as a line.
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

/// The answer to a line that is no call.
fn print_error(why: &str) -> Result<()> {
    terminal::print_json(&terminal::error_line("not_a_call", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_an_end() {
        let mut input = BufReader::with_capacity(3, &b"one\n\ntwo three\nlast"[..]);
        let (mut line, mut lines) = (Vec::new(), Vec::new());
        while let Some(kind) = read_line(&mut input, &mut line).expect("readable") {
            assert!(matches!(kind, Line::Whole));
            lines.push(String::from_utf8_lossy(&line).into_owned());
        }
        assert_eq!(lines, ["one", "", "two three", "last"]);
    }
}
