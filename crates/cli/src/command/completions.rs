//! `windlass completions`: prints a completion script for a shell. It also completes option values that clap does not know.

use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, CommandFactory as _};
use serde_json::json;
use windlass::people::Scope;
use windlass::process::SandboxLevel;
use windlass::tool::{BUILTIN, Role};
use windlass::{Mode, Outcome};

use crate::options::{Arguments, Global};
use crate::terminal;

/// `windlass completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell to complete for.
    shell: clap_complete::Shell,
}

/// Prints the script, or a JSON object with it.
pub(super) fn run(global: &Global, completions: &Completions) -> Result<ExitCode> {
    let shell = completions.shell;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_with_values(), "windlass", &mut script);
    let script = String::from_utf8_lossy(&script);
    if global.json {
        terminal::print_json(&json!({"shell": shell.to_string(), "script": script}))?;
    } else {
        terminal::print(&script)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the command line with the known values of each option. Only for completions: the options themselves accept more, such as
/// lists, and give better errors.
fn command_with_values() -> Command {
    let tools: Vec<&'static str> = BUILTIN.iter().map(|tool| tool.name()).collect();
    Arguments::command()
        .mut_arg("mode", with_values(names(&Mode::NAMES)))
        .mut_arg("role", with_values(names(&Role::NAMES)))
        .mut_arg("sandbox", with_values(names(&SandboxLevel::NAMES)))
        .mut_arg("net", with_values(vec!["none", "full"]))
        .mut_arg("tools", with_values(tools.clone()))
        .mut_arg("without", with_values(tools.clone()))
        .mut_subcommand("call", |call| takes_tool(call, tools.clone()))
        .mut_subcommand("log", |log| {
            log.mut_arg("tool", with_values(tools.clone()))
                .mut_arg("outcome", with_values(Outcome::ALL.map(Outcome::as_str).to_vec()))
        })
        .mut_subcommand("policy", |policy| {
            policy
                .mut_subcommand("explain", |explain| takes_tool(explain, tools))
                .mut_subcommand("approve", |it| {
                    it.mut_arg("scope", with_values(names(&Scope::NAMES)))
                })
                .mut_subcommand("deny", |it| it.mut_arg("scope", with_values(names(&Scope::NAMES))))
        })
}

/// Adds tool names to a command whose first argument is a tool. `mut_arg` moves an argument to the end, so `input` is put after it again.
fn takes_tool(command: Command, tools: Vec<&'static str>) -> Command {
    command.mut_arg("tool", with_values(tools)).mut_arg("input", |input| input)
}

/// Returns a change of an argument that gives it these possible values.
fn with_values(names: Vec<&'static str>) -> impl FnOnce(Arg) -> Arg {
    |arg| arg.value_parser(PossibleValuesParser::new(names))
}

/// Returns the names of a table of named values.
fn names<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
    table.iter().map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn scripts_complete_the_values_of_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command_with_values(), "windlass", &mut script);
            let script = String::from_utf8(script).expect("UTF-8");
            // The last two complete names of options alone.
            if matches!(shell, Shell::Elvish | Shell::PowerShell) {
                continue;
            }
            for name in ["yolo", "planner", "discard", "none", "timed_out", "project", "patch"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
        }
    }
}
