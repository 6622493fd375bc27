//! The command `windlass`: maps flags to the settings of a hub, and prints.
//!
//! stdout is data; logs, progress and questions go to stderr. Nothing is opened that a command does not need: no database for
//! `tools`, no runtime for `config`.

mod command;
mod ids;
mod options;
mod person;
mod scratch;
mod setup;
mod terminal;
mod user_dirs;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // Programs that we start must not read our memory. If the kernel refuses that, the sandbox still separates them from us.
    drop(windlass::process::hide_memory());
    windlass::process::share_heap();
    let arguments = match options::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && wants_json() => {
            let text = error.render().to_string();
            return report_failure(true, "usage", text.trim_start_matches("error: ").trim_end());
        }
        Err(error) => error.exit(),
    };
    let is_json = arguments.global.json;
    match command::run(arguments) {
        Ok(code) => code,
        Err(error) if error.is::<command::Interrupted>() => {
            terminal::print_to_stderr(&error.to_string());
            ExitCode::from(windlass::Outcome::Cancelled.exit_code())
        }
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => report_failure(is_json, "failed", &format!("{error:#}")),
    }
}

/// Returns whether `--json` is among the arguments, which could not be parsed.
fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|one| one != "--").any(|one| one == "--json")
}

/// Reports why a command failed: as data on stdout with `--json`, otherwise on stderr. Returns exit code 2.
fn report_failure(is_json: bool, code: &str, why: &str) -> ExitCode {
    if !is_json || terminal::print_json(&terminal::error_line(code, why)).is_err() {
        terminal::print_to_stderr(why);
    }
    ExitCode::from(2)
}

/// Returns whether an error comes from a closed pipe on stdout: a reader such as `head` has seen enough, which is not an error.
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
