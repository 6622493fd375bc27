//! The development tasks of this repository: `cargo xtask COMMAND`.
//!
//! One file per command. It has only tasks that cargo cannot do. It uses none of our crates
//! (only `bin/engine_overhead.rs` does, behind a feature), so it builds in seconds and runs also while they do not compile.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program for developers prints its results"
)]

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

mod bench;
mod docs;
mod faults;
mod pictures;
mod process;
mod setup;
mod test;
mod tidy;
mod workspace;

/// An entry of the table of commands.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&Workspace, &[String]) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        arguments: "",
        about: "everything that must hold before a change lands; installs what is missing",
        run: test::run,
    },
    Command {
        name: "setup",
        arguments: "",
        about: "only install what the tests need, into target/tools",
        run: setup::run,
    },
    Command {
        name: "tidy",
        arguments: "",
        about: "the rules of the house that no compiler checks",
        run: tidy::run,
    },
    Command {
        name: "docs",
        arguments: "[--check]",
        about: "write the generated pages anew; with --check only say which are stale",
        run: docs::run,
    },
    Command {
        name: "pictures",
        arguments: "",
        about: "capture what a person sees at a terminal anew, as the images of the manual",
        run: pictures::run,
    },
    Command {
        name: "faults",
        arguments: "[--sample N] [FILTER]",
        about: "fail or kill the program at every system call, and see that no file is lost",
        run: faults::run,
    },
    Command {
        name: "bench",
        arguments: "[--quick] [FILTER]",
        about: "measure against peers, in one run; FILTER is a part of a row's name",
        run: bench::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", usage());
        return Ok(());
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        print!("{}", usage());
        return Ok(());
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        bail!("there is no `cargo xtask {name}`\n\n{}", usage());
    };
    (command.run)(&Workspace::find()?, rest)
}

fn usage() -> String {
    let line = |Command { name, arguments, about, .. }: &Command| {
        let call = format!("{name} {arguments}");
        format!("  {call:<29} {about}\n")
    };
    let lines: String = COMMANDS.iter().map(line).collect();
    format!("usage: cargo xtask COMMAND\n\n{lines}")
}

/// Fails if there are arguments, for commands that take none.
fn no_arguments(arguments: &[String]) -> Result<()> {
    match arguments.first() {
        None => Ok(()),
        Some(unknown) => {
            bail!("`{unknown}` is not understood here: this command takes no arguments")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_names_every_command() {
        let usage = usage();
        for command in COMMANDS {
            assert!(usage.contains(&format!("\n  {}", command.name)), "{usage}");
        }
    }

    #[test]
    fn an_unknown_command_is_refused_with_the_list() {
        let error = dispatch(&["tets".into()]).unwrap_err().to_string();
        assert!(error.starts_with("there is no `cargo xtask tets`"), "{error}");
        assert!(error.contains("  test "), "{error}");
    }
}
