//! `windlass call`: one call; stdout is what a model would see, the exit code how it ended.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use windlass::{CallResult, ToolCall, wire};
use windlass_hub::Recording;

use super::{block_on, read_all, until_interrupted};
use crate::options::Global;
use crate::setup::Setup;
use crate::terminal;

/// `windlass call`
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The tool's name.
    tool: String,
    /// Its arguments: JSON, @FILE, or - for standard input.
    #[arg(default_value = "{}", value_name = "JSON", allow_hyphen_values = true)]
    input: String,
}

pub(super) fn run(global: &Global, call: &Call) -> Result<ExitCode> {
    let input = input(&call.input)?;
    let call = ToolCall::new(call.tool.clone(), input);
    let result = block_on(async {
        let setup = Setup::for_one_call(global, Recording::Brief)?;
        let session = &setup.session;
        let work = async {
            setup.begin(global).await;
            let result = setup.windlass.call(session, call).await;
            setup.end(global).await;
            result
        };
        until_interrupted(setup.windlass.engine(), session, work).await
    })??;
    show(global, &result)
}

/// Prints a result; the exit code says how the call ended.
pub(super) fn show(global: &Global, result: &CallResult) -> Result<ExitCode> {
    print(global, result)?;
    Ok(ExitCode::from(result.outcome.exit_code()))
}

/// JSON, `@FILE`, or `-`.
pub(super) fn input(text: &str) -> Result<serde_json::Value> {
    let read;
    let text = match (text, text.strip_prefix('@')) {
        ("-", _) => {
            read = read_all(std::io::stdin().lock(), "standard input")?;
            &read
        }
        (_, Some(path)) => {
            let file = std::fs::File::open(path).with_context(|| format!("cannot read {path}"))?;
            read = read_all(file, path)?;
            &read
        }
        _ => text,
    };
    serde_json::from_str(text).context("the arguments are not JSON")
}

fn print(global: &Global, result: &CallResult) -> Result<()> {
    if global.json {
        return terminal::print_json(&wire::to_line(wire::Format::Plain, result));
    }
    terminal::print(&result.output.to_text())
}
