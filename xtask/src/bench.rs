//! `cargo xtask bench`: measures Windlass beside well-known programs.
//!
//! A number of seconds means little on another machine, so each row is a ratio to a peer or to a floor, measured in the same run
//! with the contenders in turn. Inputs are made by a fixed recipe under `target/bench` and kept for the next run. Every comparison
//! first checks that both sides give the same answer.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process as command;
use crate::setup::{self, BenchTools};
use crate::workspace::Workspace;
use table::Row;

mod build;
mod change;
mod engine;
mod flight;
mod large_file;
mod many;
mod mcp;
mod measure;
mod npm;
mod policy;
mod process;
mod read;
mod redact;
mod search;
mod server;
mod start;
mod table;
mod tree;

/// Rows that are measured together.
struct Group {
    /// The names of its rows, so that a filter can be applied without measuring.
    rows: &'static [&'static str],
    measure: fn(&Bench) -> Result<Vec<Row>>,
}

const GROUPS: &[Group] = &[
    Group { rows: start::ROWS, measure: start::measure },
    Group { rows: engine::ROWS, measure: engine::measure },
    Group { rows: flight::ROWS, measure: flight::measure },
    Group { rows: policy::ROWS, measure: policy::measure },
    Group { rows: redact::ROWS, measure: redact::measure },
    Group { rows: change::ROWS, measure: change::measure },
    Group { rows: many::ROWS, measure: many::measure },
    Group { rows: build::ROWS, measure: build::measure },
    Group { rows: npm::ROWS, measure: npm::measure },
    Group { rows: process::ROWS, measure: process::measure },
    Group { rows: search::SMALL_ROWS, measure: search::measure_small },
    Group { rows: search::LARGE_ROWS, measure: search::measure_large },
    Group { rows: large_file::ROWS, measure: large_file::measure },
    Group { rows: mcp::ROWS, measure: mcp::measure },
    Group { rows: read::ROWS, measure: read::measure },
];

/// The repository, the tools and the options of a run.
#[derive(Debug)]
struct Bench<'a> {
    workspace: &'a Workspace,
    tools: BenchTools,
    options: Options,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    quick: bool,
    filter: String,
}

/// `cargo xtask bench [--quick] [FILTER]`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    let groups: Vec<&Group> = GROUPS.iter().filter(|group| options.wants_any(group.rows)).collect();
    if groups.is_empty() {
        let names: Vec<&str> = GROUPS.iter().flat_map(|group| group.rows).copied().collect();
        bail!("no row has `{}` in its name; there are: {}", options.filter, names.join(", "));
    }
    let tools = command::step("setup", || setup::for_bench(workspace))?;
    command::step("release build", || build(workspace))?;
    let bench = Bench { workspace, tools, options };
    bench.forget_state()?;
    let mut rows = Vec::new();
    for group in groups {
        let measured = command::step(&group.rows.join(", "), || (group.measure)(&bench))?;
        rows.extend(measured.into_iter().filter(|row| bench.options.wants(row.name)));
    }
    print!("{}", table::render(&rows));
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options::default();
    for argument in arguments {
        match argument.as_str() {
            "--quick" => options.quick = true,
            option if option.starts_with('-') => {
                bail!("there is no option `{option}`; `--quick` is")
            }
            filter if options.filter.is_empty() => filter.clone_into(&mut options.filter),
            more => bail!("one filter at a time, please: `{}` or `{more}`", options.filter),
        }
    }
    Ok(options)
}

/// Builds all programs in one command: built separately, they would select different features of the libraries and build them again.
fn build(workspace: &Workspace) -> Result<()> {
    let packages =
        ["build", "--release", "--package", "windlass-cli", "--package", "xtask", "--bins"];
    command::run(workspace.cargo(&packages).args(["--features", "xtask/engine"]))
}

impl Options {
    fn wants(&self, row: &str) -> bool {
        row.contains(&self.filter)
    }

    fn wants_any(&self, rows: &[&str]) -> bool {
        rows.iter().any(|row| self.wants(row))
    }
}

impl Bench<'_> {
    /// The number of runs, reduced by `--quick`.
    fn runs(&self, many: usize) -> usize {
        if self.options.quick { (many / 5).max(3) } else { many }
    }

    fn directory(&self) -> PathBuf {
        self.workspace.target("bench")
    }

    /// A directory of inputs, filled by `fill` unless an earlier run did so. The stamp is written last, so that an interrupted run is
    /// repeated.
    fn input(
        &self,
        name: &str,
        recipe: &str,
        fill: impl FnOnce(&PathBuf) -> Result<()>,
    ) -> Result<PathBuf> {
        let directory = self.directory().join(name);
        let stamp = self.directory().join(format!("{name}.stamp"));
        if fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == recipe) {
            return Ok(directory);
        }
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        command::step(&format!("making {name}"), || fill(&directory))?;
        fs::write(&stamp, recipe).with_context(|| format!("writing {}", stamp.display()))?;
        Ok(directory)
    }

    /// The command `windlass ARGUMENTS` in `workspace`, with a home directory and a state directory of the bench.
    fn windlass(&self, workspace: &PathBuf, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.workspace.target("release/windlass"));
        let home = self.directory().join("home");
        command.arg("-C").arg(workspace).arg("--state").arg(self.state()).args(arguments);
        command.env("HOME", &home).env("XDG_CONFIG_HOME", &home).current_dir(workspace);
        command
    }

    fn state(&self) -> PathBuf {
        self.directory().join("state")
    }

    /// Removes the state directory of the bench.
    fn forget_state(&self) -> Result<()> {
        if self.state().exists() {
            fs::remove_dir_all(self.state())?;
        }
        fs::create_dir_all(self.directory().join("home"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_or_refused() {
        let parsed = |arguments: &[&str]| {
            parse(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let options = |quick, filter: &str| Options { quick, filter: filter.into() };
        assert_eq!(parsed(&[]).unwrap(), options(false, ""));
        assert_eq!(parsed(&["mcp", "--quick"]).unwrap(), options(true, "mcp"));
        assert!(parsed(&["--fast"]).is_err());
        assert!(parsed(&["a", "b"]).is_err());
    }

    #[test]
    fn row_names_are_unique() {
        let mut names: Vec<&str> = GROUPS.iter().flat_map(|group| group.rows).copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
