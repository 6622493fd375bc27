//! `windlass call`: runs one call; stdout is the result as a model would see it, the exit code tells the outcome.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use windlass::{CallResult, ToolCall, wire};
use windlass_hub::Recording;

use super::{block_on, read_text, until_interrupted};
use crate::options::Global;
use crate::setup::Setup;
use crate::terminal;

/// `windlass call`
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The name of the tool.
    tool: String,
    /// The arguments of the call: JSON, @FILE for a file with JSON, or - for standard input.
    #[arg(default_value = "{}", value_name = "JSON", allow_hyphen_values = true)]
    input: String,
}

/// Runs the call between the hooks of session start and end, and prints its result.
pub(super) fn run(global: &Global, call: &Call) -> Result<ExitCode> {
    let input = parse_input(&call.input)?;
    let call = ToolCall::new(call.tool.clone(), input);
    let result = block_on(async {
        let setup = Setup::for_one_call(global, Recording::Brief)?;
        let session = &setup.session;
        let work = async {
            setup.run_start_hooks(global).await;
            let result = setup.windlass.call(session, call).await;
            setup.run_end_hooks(global).await;
            result
        };
        until_interrupted(setup.windlass.engine(), session, work).await
    })??;
    print_result(global, &result)
}

/// Prints a call's result, and returns the exit code of its outcome.
pub(super) fn print_result(global: &Global, result: &CallResult) -> Result<ExitCode> {
    print(global, result)?;
    Ok(ExitCode::from(result.outcome.exit_code()))
}

/// Parses the arguments of a call: JSON, `@FILE`, or `-` for standard input.
pub(super) fn parse_input(text: &str) -> Result<serde_json::Value> {
    let read;
    let text = match (text, text.strip_prefix('@')) {
        ("-", _) => {
            read = read_text(std::io::stdin().lock(), "standard input")?;
            &read
        }
        (_, Some(path)) => {
            let file = std::fs::File::open(path).with_context(|| format!("cannot read {path}"))?;
            read = read_text(file, path)?;
            &read
        }
        _ => text,
    };
    serde_json::from_str(text).context("the arguments are not JSON")
}

/// Prints a result as text, or as a JSON line with `--json`.
fn print(global: &Global, result: &CallResult) -> Result<()> {
    if global.json {
        return terminal::print_json(&wire::to_line(wire::Format::Plain, result));
    }
    terminal::print(&result.output.to_text())
}
