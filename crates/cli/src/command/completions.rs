//! `windlass completions`: a script for a shell. It knows the names that options take, also where an option reads its value by itself.

use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, CommandFactory as _};
use serde_json::json;
use windlass::people::Scope;
use windlass::process::Level;
use windlass::tool::{BUILTIN, Role};
use windlass::{Mode, Outcome};

use crate::options::{Arguments, Global};
use crate::terminal;

/// `windlass completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    shell: clap_complete::Shell,
}

pub(super) fn run(global: &Global, completions: &Completions) -> Result<ExitCode> {
    let shell = completions.shell;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut with_names(), "windlass", &mut script);
    let script = String::from_utf8_lossy(&script);
    if global.json {
        terminal::print_json(&json!({"shell": shell.to_string(), "script": script}))?;
    } else {
        terminal::print(&script)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The commands, with the names that each option takes. Only for completions: the options themselves read more than these, such as
/// lists, and say better what is wrong.
fn with_names() -> Command {
    let tools: Vec<&'static str> = BUILTIN.iter().map(|tool| tool.name()).collect();
    Arguments::command()
        .mut_arg("mode", naming(names(&Mode::NAMES)))
        .mut_arg("role", naming(names(&Role::NAMES)))
        .mut_arg("sandbox", naming(names(&Level::NAMES)))
        .mut_arg("net", naming(vec!["none", "full"]))
        .mut_arg("tools", naming(tools.clone()))
        .mut_arg("without", naming(tools.clone()))
        .mut_subcommand("call", |call| takes_tool(call, tools.clone()))
        .mut_subcommand("log", |log| {
            log.mut_arg("tool", naming(tools.clone()))
                .mut_arg("outcome", naming(Outcome::ALL.map(Outcome::as_str).to_vec()))
        })
        .mut_subcommand("policy", |policy| {
            policy
                .mut_subcommand("explain", |explain| takes_tool(explain, tools))
                .mut_subcommand("approve", |it| it.mut_arg("scope", naming(names(&Scope::NAMES))))
                .mut_subcommand("deny", |it| it.mut_arg("scope", naming(names(&Scope::NAMES))))
        })
}

/// A command whose first argument is a tool. An argument that is changed comes last, so that the one after it is put there again.
fn takes_tool(command: Command, tools: Vec<&'static str>) -> Command {
    command.mut_arg("tool", naming(tools)).mut_arg("input", |input| input)
}

fn naming(names: Vec<&'static str>) -> impl FnOnce(Arg) -> Arg {
    |arg| arg.value_parser(PossibleValuesParser::new(names))
}

fn names<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
    table.iter().map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn every_shell_is_told_the_names_that_options_take() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut with_names(), "windlass", &mut script);
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
