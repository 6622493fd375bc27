//! `windlass log`: prints the journal as a timeline, and verifies that its records were not changed.

mod filter;
mod note;

use std::collections::{BTreeSet, VecDeque};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::journal::{
    CallExtended, CallFinished, CallStarted, JobEnded, JournalRow, Recovery, Store, StoredKind,
    VerifyError, utc,
};
use windlass::policy::{Decision, ExplainedDecision, Secrets};
use windlass::tool::{BUILTIN, nearest};
use windlass::{Outcome, quote};

pub(super) use self::filter::Filter;
use self::filter::{Since, parse_outcome};
use super::export::{self, ExportFormat};
use crate::ids;
use crate::options::Global;
use crate::setup;
use crate::terminal::{self, Paint};

/// The number of records that are read at a time.
const PAGE_SIZE: usize = 1_000;
/// The pause between two reads with `--follow`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// `windlass log`
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(subcommand)]
    subcommand: Option<LogCommand>,
    /// Keep printing new records until interrupted.
    #[arg(long)]
    follow: bool,
    /// Show only the last N records.
    #[arg(short = 'n', long = "last", value_name = "N")]
    last: Option<usize>,
    /// Show only the records of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Show only ends of calls with this outcome: ok, error, fault, denied, `timed_out`, cancelled.
    #[arg(long, value_name = "OUTCOME", value_parser = parse_outcome)]
    outcome: Option<Outcome>,
    /// Show only records from this time on: 30s, 10m, 2h or 3d ago, or a date or time in UTC such as 2026-11-18 or 2026-11-18T16:30.
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
}

/// The subcommands of `windlass log`.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Verify the chain of records: if a record was changed, name the first bad one and exit with code 1.
    Verify,
    /// Print all records, or those of --session ID, in a form for other programs.
    Export {
        /// The form: JSON lines, or OpenTelemetry spans as OTLP/JSON.
        #[arg(long, default_value = "jsonl")]
        format: ExportFormat,
    },
}

/// Runs the subcommand; without one, prints the records that the options select.
pub(super) fn run(global: &Global, log: &Log) -> Result<ExitCode> {
    let store = setup::hub(global)?.store()?;
    if let Some(LogCommand::Verify) = log.subcommand {
        return verify(global, &store);
    }
    let session = global.session.as_ref().map(|id| ids::expand_session(&store, id)).transpose()?;
    if let Some(session) = &session {
        store.session(session)?;
    }
    if let Some(LogCommand::Export { format }) = log.subcommand {
        return export::run(global, &store, session.as_ref(), format);
    }
    let (tool, outcome, since) = (log.tool.clone(), log.outcome, log.since.clone());
    let filter = &Filter { session, tool, outcome, since };
    let mut after = match log.last {
        Some(count) => print_last(global, &store, filter, count)?,
        None => print_records(global, &store, filter, 0)?,
    };
    if !log.follow {
        if let Some(tool) = &log.tool {
            note_if_unknown(global, &store, tool)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    // Until an interrupt ends the process.
    loop {
        std::thread::sleep(FOLLOW_INTERVAL);
        after = print_records(global, &store, filter, after)?;
    }
}

/// Prints a note if no record is of this tool, with the nearest known name.
fn note_if_unknown(global: &Global, store: &Store, tool: &str) -> Result<()> {
    let mut known: BTreeSet<String> = BUILTIN.iter().map(|tool| tool.name().to_owned()).collect();
    let is_builtin = known.contains(tool);
    let mut has_record = false;
    for_each_page(store, &Filter::default(), 0, |rows| {
        known.extend(rows.into_iter().filter_map(|row| row.tool).inspect(|name| {
            has_record |= name == tool;
        }));
        Ok(())
    })?;
    if has_record {
        return Ok(());
    }
    let near = nearest(tool, known.iter().map(String::as_str)).filter(|_| !is_builtin);
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    terminal::note(global, &format!("no call of `{}` is on record{near}", quote::visible(tool)));
    Ok(())
}

/// Prints the records after number `after` that the filter admits, and returns the number of the last record read.
pub(super) fn print_records(
    global: &Global,
    store: &Store,
    filter: &Filter,
    after: u64,
) -> Result<u64> {
    let printer = Printer::new(global)?;
    for_each_page(store, filter, after, |rows| printer.print(rows))
}

/// Prints the last `count` records that the filter admits, and returns the number of the last record read.
fn print_last(global: &Global, store: &Store, filter: &Filter, count: usize) -> Result<u64> {
    let mut last = VecDeque::new();
    let after = for_each_page(store, filter, 0, |rows| {
        last.extend(rows);
        last.drain(..last.len().saturating_sub(count));
        Ok(())
    })?;
    Printer::new(global)?.print(last.into())?;
    Ok(after)
}

/// Reads the records after number `after`, calls a function with each page of those that the filter admits, and returns the number of the
/// last record read.
fn for_each_page(
    store: &Store,
    filter: &Filter,
    mut after: u64,
    mut handle: impl FnMut(Vec<JournalRow>) -> Result<()>,
) -> Result<u64> {
    loop {
        let mut rows = store.records(filter.session.as_ref(), after, PAGE_SIZE)?;
        let Some(last) = rows.last() else { return Ok(after) };
        after = last.seq;
        rows.retain(|row| filter.admits(row));
        handle(rows)?;
    }
}

/// Prints records as text or JSON lines, without secrets.
struct Printer {
    paint: Paint,
    is_json: bool,
    secrets: Secrets,
}

impl Printer {
    /// Reads the options and the secrets to redact.
    fn new(global: &Global) -> Result<Self> {
        let secrets = setup::hub(global)?.secrets(&global.workspace)?;
        Ok(Self { paint: Paint::of(global), is_json: global.json, secrets })
    }

    /// Prints records, one per line.
    fn print(&self, rows: Vec<JournalRow>) -> Result<()> {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        for mut row in rows {
            export::redact_record(&mut row, &self.secrets);
            if self.is_json {
                serde_json::to_writer(&mut out, &row)?;
                writeln!(out)?;
            } else {
                writeln!(out, "{}", line(&row, self.paint))?;
            }
        }
        Ok(out.flush()?)
    }
}

/// Returns a record as a line of text: number, time, session, and a description by its kind.
fn line(row: &JournalRow, paint: Paint) -> String {
    let name = |id: Option<String>| id.unwrap_or_default();
    let session = name(row.session.as_ref().map(ToString::to_string));
    let tool = row.tool.as_deref().unwrap_or_default();
    let head = format!(
        "{:>6}  {}  {}",
        row.seq,
        paint.dim(&utc(row.at)),
        paint.dim(&quote::visible(&session))
    );
    let description = match row.kind {
        StoredKind::Started => format!(
            "{} {} {}",
            paint.dim("▶"),
            paint.bold(&quote::visible(tool)),
            row.body_as::<CallStarted<'_>>().map_or_else(String::new, |body| begun(&body, paint))
        ),
        StoredKind::Finished => finished(row, tool, paint),
        StoredKind::JobEnded => job_ended(row, tool, paint),
        StoredKind::Extended => extended(row, tool, paint),
        StoredKind::Recovered => format!(
            "{} {}",
            paint.yellow("recovered"),
            row.body_as::<Recovery>().map_or_else(String::new, |body| one_line(&body.text.into()))
        ),
        kind => match note::describe(row, paint) {
            Some(note) => note,
            None => paint.yellow(kind.as_str()),
        },
    };
    format!("{head}  {description}")
}

/// Describes the start of a call: its arguments, the shell of its command if that is not bash, and the decision.
fn begun(body: &CallStarted<'_>, paint: Paint) -> String {
    let input = one_line(&body.input);
    let decided = paint.dim(&one_line(&decision_text(&body.decided).into()));
    match body.effects.shell() {
        Some(shell) => {
            let shell = paint.dim(&format!("(in {})", quote::visible(shell)));
            format!("{input} {shell}  {decided}")
        }
        None => format!("{input}  {decided}"),
    }
}

/// Describes the decision that let a call begin. An ask without an answer then is about the changes, after the command has run.
fn decision_text(decided: &ExplainedDecision) -> String {
    match (decided.decision, &decided.settled_by) {
        (Decision::Ask, None) => format!("{decided}, about what it changes"),
        _ => decided.to_string(),
    }
}

/// Describes the effects that a running call requested beyond its plan, and the decision.
fn extended(row: &JournalRow, tool: &str, paint: Paint) -> String {
    let told = row.body_as::<CallExtended>().map_or_else(String::new, |body| {
        format!("{} ({})", one_line(&body.effects.to_string().into()), body.decided)
    });
    format!("+ {} {told}", paint.bold(&quote::visible(tool)))
}

/// Describes the end of a job: the files that it changed, or its notes if there are none.
fn job_ended(row: &JournalRow, tool: &str, paint: Paint) -> String {
    let body: JobEnded = row.body_as().unwrap_or_default();
    let job = format!("□ {} job {}", paint.bold(&quote::visible(tool)), quote::visible(&body.job));
    if body.changed_count == 0 {
        return format!("{job}: {}", one_line(&Value::from(body.notes.join("; "))));
    }
    let paths: Vec<&str> = body.changed.iter().map(|file| file.path.as_str()).collect();
    let paths = one_line(&Value::from(paths.join(", ")));
    format!("{job} changed {}: {paths}", body.changed_count)
}

/// Describes the end of a call: outcome, duration, id, and the first line of the result unless it is `ok`.
fn finished(row: &JournalRow, tool: &str, paint: Paint) -> String {
    let body: CallFinished<'_> = row.body_as().unwrap_or_default();
    let outcome = row.outcome.unwrap_or(Outcome::Fault);
    let word = match outcome {
        Outcome::Ok => paint.green("ok"),
        Outcome::Error => paint.yellow("error"),
        other => paint.red(other.as_str()),
    };
    let millis = body
        .duration_us
        .map_or_else(String::new, |micros| format!(" {}.{:03} ms", micros / 1000, micros % 1000));
    let refusal = body.refusal().filter(|_| outcome == Outcome::Denied);
    let text = refusal.or_else(|| body.first_line()).unwrap_or_default();
    let said = if outcome == Outcome::Ok {
        String::new()
    } else {
        format!("  {}", one_line(&Value::from(text)))
    };
    let call = row.call.as_ref().map(ToString::to_string).unwrap_or_default();
    format!(
        "■ {} {word}{}{said}  {}",
        paint.bold(&quote::visible(tool)),
        paint.dim(&millis),
        paint.dim(&call)
    )
}

/// Returns a value on one line, at most 120 characters.
pub(super) fn one_line(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let visible = quote::visible(&text).replace(['\n', '\t'], " ");
    match visible.char_indices().nth(120) {
        Some((at, _)) => format!("{}…", &visible[..at]),
        None => visible,
    }
}

/// Verifies the journal and prints the result. Exit code 1 if a record was changed.
fn verify(global: &Global, store: &Store) -> Result<ExitCode> {
    match store.verify() {
        Ok(verified) if global.json => {
            terminal::print_json(
                &json!({"ok": true, "records": verified.records, "head": verified.head}),
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(verified) => {
            terminal::print(&format!(
                "whole: {} records, head {}",
                verified.records, verified.head
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(VerifyError::Broken(broken)) => {
            if global.json {
                terminal::print_json(
                    &json!({"ok": false, "first": broken, "why": broken.to_string()}),
                )?;
            } else {
                terminal::print(&format!("not whole: {broken}"))?;
            }
            Ok(ExitCode::from(1))
        }
        Err(VerifyError::Rows(wrong)) => {
            let why = format!(
                "the journal is whole, but rows beside it do not say what its records say:\n{wrong}"
            );
            if global.json {
                terminal::print_json(&json!({
                    "ok": false, "first": wrong.rows.first(), "rows": wrong.rows, "count": wrong.count, "why": why,
                }))?;
            } else {
                terminal::print(&format!("not whole: {why}"))?;
            }
            Ok(ExitCode::from(1))
        }
        Err(VerifyError::Store(error)) => Err(error.into()),
    }
}
