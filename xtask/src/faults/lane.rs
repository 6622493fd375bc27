//! A lane: a directory in which one thread tries faults one after another, with a fresh workspace and state directory for each.
//!
//! Their paths are always the same, because recorded paths are absolute.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::fault::{Failure, Fault, Thread};
use super::scenario::{self, AllowedStates, Call, KilledCommand, Scenario, ScenarioStep};
use super::trace::{Program, RunResult};
use super::tree::Tree;
use crate::process;

/// Options to use the same session in several calls.
const CONTINUED: &[&str] = &["--session", "continued"];
/// Options for a session whose changes become proposals.
const PROPOSING: &[&str] = &["--session", "proposing", "--proposals"];

/// Options to show the changes of a command to a person, and to approve them.
const APPROVING: &[&str] = &["--sandbox", "staged", "--yes"];
/// The command that undoes the newest change, also of a protected path.
pub(super) const UNDO: &[&str] = &["--yes", "undo"];

/// A directory for faults, and the program to run there.
#[derive(Debug)]
pub(super) struct Lane {
    directory: PathBuf,
    program: PathBuf,
}

/// A scenario with its prepared state and its expected results.
#[derive(Debug)]
pub(super) struct Prepared {
    step: ScenarioStep,
    /// The command under faults.
    arguments: Vec<String>,
    /// The command that makes the change; most often the same.
    change: Vec<String>,
    pub(super) old: Tree,
    pub(super) new: Tree,
    /// The workspace after an undo of the change.
    pub(super) undone: Tree,
    pub(super) allowed_states: AllowedStates,
}

impl Prepared {
    /// Returns whether the program under faults reported that the change was made.
    pub(super) fn reported_success(&self, result: &RunResult) -> bool {
        !self.is_recovery() && self.succeeded(result)
    }

    /// Returns whether the command that makes the change reported success.
    pub(super) fn succeeded(&self, result: &RunResult) -> bool {
        let is_error = || {
            let last = result.stdout.lines().last().unwrap_or_default();
            serde_json::from_str(last).ok().and_then(|last: Value| last.get("is_error")?.as_bool())
        };
        match self.step {
            ScenarioStep::Calls(_) => result.is_success() && is_error() == Some(false),
            _ => result.is_success(),
        }
    }

    /// Returns whether the program under faults is the start after a kill, which recovers the change.
    pub(super) fn is_recovery(&self) -> bool {
        matches!(self.step, ScenarioStep::Recover(_))
    }

    /// Returns whether only build directories are not as they should become, and the program reported that. After a kill they must be
    /// merged, because their record is older than the other changes.
    pub(super) fn lacks_build_only(&self, result: &RunResult, now: &Tree) -> bool {
        let sources = |tree: &Tree| tree.without(scenario::BUILD_DIRECTORY.as_ref());
        self.allowed_states == AllowedStates::Built
            && sources(now) == sources(&self.new)
            && result.stdout.contains("not kept: ")
    }

    /// Returns whether the step runs programs, which leave stages behind when they are killed.
    pub(super) fn runs_programs(&self) -> bool {
        let is_program = |call: Call| call.tool == "bash";
        match self.step {
            ScenarioStep::Call(call) | ScenarioStep::Job(call) | ScenarioStep::Approve(call) => {
                is_program(call)
            }
            _ => false,
        }
    }

    /// Returns whether the step is an undo: it is undone by the id of its call, every other change by being the last.
    pub(super) fn is_undo(&self) -> bool {
        let step = match self.step {
            ScenarioStep::Recover(killed) => killed.step,
            step => step,
        };
        matches!(step, ScenarioStep::Undo | ScenarioStep::UndoSession | ScenarioStep::UndoUndo)
    }
}

impl Lane {
    pub(super) fn make(directory: PathBuf, program: PathBuf) -> Result<Self> {
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        Ok(Self { directory: fs::canonicalize(directory)?, program })
    }

    /// Runs the steps before the scenario's command, keeps a copy of that state, and finds the results of the command without faults.
    pub(super) fn prepare(&self, scenario: &Scenario) -> Result<Prepared> {
        clear(&self.current())?;
        fs::create_dir_all(self.workspace())?;
        fs::create_dir_all(self.home())?;
        scenario::make_workspace(&self.workspace(), scenario.huge)?;
        for step in scenario.before {
            let arguments = self.arguments(*step)?;
            let result = self.run(&arguments)?;
            ensure!(result.is_success(), "{arguments:?}: {}{}", result.stdout, result.stderr);
        }
        let old = self.read_workspace()?;
        let (arguments, change) = match scenario.step {
            ScenarioStep::Recover(killed) => (next_start(), self.kill(killed)?),
            step => (self.arguments(step)?, self.arguments(step)?),
        };
        clear(&self.prepared())?;
        copy(&self.current(), &self.prepared())?;
        // On a copy like all other runs: undo knows hard links by inode numbers, which a copy does not share.
        self.reset()?;
        let result = self.run(&change)?;
        let new = self.read_workspace()?;
        let Scenario { name, step, allowed_states, .. } = *scenario;
        let undone = match allowed_states {
            AllowedStates::OldOrNew => old.clone(),
            AllowedStates::Built | AllowedStates::Planted => self.undone()?,
        };
        let prepared = Prepared { step, arguments, change, old, new, undone, allowed_states };
        let is_change = match allowed_states {
            AllowedStates::OldOrNew | AllowedStates::Built => prepared.new != prepared.old,
            AllowedStates::Planted => {
                prepared.new == prepared.old && prepared.undone != prepared.old
            }
        };
        ensure!(
            prepared.succeeded(&result) && is_change,
            "{name} does nothing: {}{}",
            result.stdout,
            result.stderr
        );
        Ok(prepared)
    }

    /// Undoes the newest change and reads the workspace.
    fn undone(&self) -> Result<Tree> {
        let result = self.run(UNDO)?;
        ensure!(result.is_success(), "the undo: {}{}", result.stdout, result.stderr);
        self.read_workspace()
    }

    /// Runs a command and kills it at a call; returns the arguments of the command.
    fn kill(&self, killed: &KilledCommand) -> Result<Vec<String>> {
        clear(&self.prepared())?;
        copy(&self.current(), &self.prepared())?;
        let arguments = self.arguments(killed.step)?;
        let thread = Thread::Worker;
        let calls_made = self.windlass(&arguments).trace(thread, None)?.calls_made(thread);
        let last = calls_made.iter().rfind(|calls_made| calls_made.call == killed.at);
        let last = last.with_context(|| format!("it never calls {}", killed.at))?;
        self.reset()?;
        let fault = Fault { thread, call: killed.at, failure: Failure::Killed, nth: last.nth };
        let result = self.windlass(&arguments).trace(thread, Some(&fault))?;
        ensure!(result.was_killed(), "it was not killed: {}", result.log);
        Ok(arguments)
    }

    /// Restores the prepared state.
    pub(super) fn reset(&self) -> Result<()> {
        clear(&self.current())?;
        copy(&self.prepared(), &self.current())
    }

    /// Reads the workspace.
    pub(super) fn read_workspace(&self) -> Result<Tree> {
        Tree::read(&self.workspace())
    }

    /// Runs the scenario's command under strace, with a fault or without.
    pub(super) fn trace(
        &self,
        prepared: &Prepared,
        thread: Thread,
        fault: Option<&Fault>,
    ) -> Result<RunResult> {
        self.windlass(&prepared.arguments).trace(thread, fault)
    }

    /// Runs the change again, without faults.
    pub(super) fn repeat_change(&self, prepared: &Prepared) -> Result<RunResult> {
        self.run(&prepared.change)
    }

    /// Counts the threads of the scenario's command that make traced calls.
    pub(super) fn count_threads(&self, prepared: &Prepared) -> Result<usize> {
        self.windlass(&prepared.arguments).count_threads()
    }

    /// Runs `windlass ARGUMENTS` without faults.
    pub(super) fn run<S: AsRef<str>>(&self, arguments: &[S]) -> Result<RunResult> {
        self.windlass(arguments).run()
    }

    /// The call that made the newest change.
    pub(super) fn newest_call(&self) -> Result<String> {
        let result = self.run(&["--json", "undo", "--list"])?;
        let newest: Option<Value> =
            result.stdout.lines().next().and_then(|line| serde_json::from_str(line).ok());
        let call = newest.as_ref().and_then(|newest| newest.get("call")?.as_str());
        let call = call.with_context(|| format!("no change is listed: {}", result.stderr))?;
        Ok(call.to_owned())
    }

    /// Copies the whole lane to a directory, for inspection.
    pub(super) fn keep(&self, place: &Path) -> Result<()> {
        fs::create_dir_all(place.parent().unwrap_or(place))?;
        copy(&self.directory, place)
    }

    fn windlass<S: AsRef<str>>(&self, arguments: &[S]) -> Program {
        let mut words: Vec<OsString> = vec![self.program.clone().into(), "-C".into()];
        words.extend([self.workspace().into(), "--state".into(), self.state().into()]);
        words.extend(["--mode".into(), "auto".into()]);
        words.extend(arguments.iter().map(|argument| argument.as_ref().into()));
        Program {
            words,
            directory: self.directory.clone(),
            home: self.home(),
            place: self.directory.clone(),
        }
    }

    /// The arguments of a step's command.
    fn arguments(&self, step: ScenarioStep) -> Result<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let call =
            |call: Call| vec!["call".to_owned(), call.tool.to_owned(), call.input().to_string()];
        let job = |call: Call| {
            let mut input = call.input();
            input["background"] = true.into();
            vec!["call".to_owned(), call.tool.to_owned(), input.to_string()]
        };
        Ok(match step {
            ScenarioStep::Call(one) => call(one),
            ScenarioStep::Calls(calls) => vec!["run".to_owned(), self.lines(calls)?],
            ScenarioStep::Job(one) => job(one),
            ScenarioStep::Approve(one) => [words(APPROVING), call(one)].concat(),
            ScenarioStep::Continue(one) => [words(CONTINUED), call(one)].concat(),
            ScenarioStep::Propose(one) => [words(PROPOSING), call(one)].concat(),
            ScenarioStep::Apply => words(&["proposals", "apply"]),
            ScenarioStep::Undo => words(UNDO),
            ScenarioStep::UndoSession => [words(CONTINUED), words(&["undo"])].concat(),
            ScenarioStep::UndoUndo => words(&["undo", "--call", &self.newest_call()?]),
            ScenarioStep::Recover(_) => next_start(),
        })
    }

    /// Writes calls in the form of a model's tool calls to a file; returns its path.
    fn lines(&self, calls: &[Call]) -> Result<String> {
        let line = |(number, call): (usize, &Call)| {
            let id = format!("call_{number}");
            let input = call.input();
            let line = serde_json::json!({"type": "tool_use", "id": id, "name": call.tool, "input": input});
            format!("{line}\n")
        };
        let lines: String = calls.iter().enumerate().map(line).collect();
        let path = self.directory.join("calls.jsonl");
        fs::write(&path, lines)?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn current(&self) -> PathBuf {
        self.directory.join("current")
    }

    fn prepared(&self) -> PathBuf {
        self.directory.join("prepared")
    }

    fn workspace(&self) -> PathBuf {
        self.current().join("workspace")
    }

    fn state(&self) -> PathBuf {
        self.current().join("state")
    }

    fn home(&self) -> PathBuf {
        self.current().join("home")
    }
}

/// A command that recovers unfinished changes, as every command does that reads the history.
pub(super) fn next_start() -> Vec<String> {
    ["undo", "--list"].map(String::from).into()
}

/// A command that runs a program, which finishes the merge of build directories.
pub(super) fn next_program() -> Vec<String> {
    ["call", "bash", r#"{"command": "true"}"#].map(String::from).into()
}

fn clear(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("removing {}", directory.display()))?;
    }
    Ok(())
}

/// Copies a directory with modes, times and links.
fn copy(from: &Path, to: &Path) -> Result<()> {
    process::output(Command::new("cp").arg("-a").arg(from).arg(to)).map(drop)
}
