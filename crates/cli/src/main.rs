//! The command `windlass`: maps flags to the settings of a hub, and prints.
//!
//! stdout is data; logs, progress and questions go to stderr. Nothing is opened that a command does not need: no database for
//! `tools`, no runtime for `config`.

mod command;
mod ids;
mod options;
mod person;
mod places;
mod scratch;
mod setup;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // What we know is not for the programs that we start. Where that cannot be had, the sandbox still stands between them and us.
    drop(windlass::process::hide_memory());
    windlass::process::share_heap();
    let arguments = match options::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && wants_json() => {
            let text = error.render().to_string();
            return failed(true, "usage", text.trim_start_matches("error: ").trim_end());
        }
        Err(error) => error.exit(),
    };
    let is_json = arguments.global.json;
    match command::run(arguments) {
        Ok(code) => code,
        Err(error) if error.is::<command::Interrupted>() => {
            terminal::tell(&error.to_string());
            ExitCode::from(windlass::Outcome::Cancelled.exit_code())
        }
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => failed(is_json, "failed", &format!("{error:#}")),
    }
}

/// Returns whether `--json` is among the arguments, which could not be parsed.
fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|one| one != "--").any(|one| one == "--json")
}

/// Tells why a command failed: as data on stdout with `--json`, otherwise on stderr.
fn failed(is_json: bool, code: &str, why: &str) -> ExitCode {
    if !is_json || terminal::print_json(&terminal::error_line(code, why)).is_err() {
        terminal::tell(why);
    }
    ExitCode::from(2)
}

/// Whoever read our output has seen enough (`windlass log | head`): that is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| {
            let json = cause.downcast_ref::<serde_json::Error>();
            json.and_then(serde_json::Error::io_error_kind)
                .or_else(|| Some(cause.downcast_ref::<std::io::Error>()?.kind()))
        })
        .any(|kind| kind == std::io::ErrorKind::BrokenPipe)
}
