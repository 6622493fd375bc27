//! The command `windlass`: maps flags to the settings of a hub, and prints.
//!
//! stdout is data; logs, progress and questions go to stderr. Nothing is opened that a command does not need: no database for
//! `tools`, no runtime for `config`.

mod command;
mod options;
mod person;
mod places;
mod setup;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // What we know is not for the programs that we start. Where that cannot be had, the sandbox still stands between them and us.
    drop(windlass::process::hide_memory());
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
