//! The command `windlass`: the one place where all parts meet.
//!
//! stdout is data; logs, progress and questions go to stderr. Nothing is opened that a command does not need: no database for
//! `tools`, no runtime for `config`.

mod command;
mod config;
mod job_socket;
mod options;
mod places;
mod secrets;
mod setup;
mod terminal;
mod trust;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = options::Arguments::parse();
    match command::run(arguments) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::report(&error);
            ExitCode::from(2)
        }
    }
}

/// Whoever read our output has seen enough (`windlass log | head`): that is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
