//! A place in which faults are tried one after the other: a workspace and a state that are made new for each.
//!
//! They are always at the same paths, because what is recorded of files names them by their whole paths.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::fault::{Fault, How, Thread};
use super::scenario::{self, Call, Killed, Promise, Scenario, Step};
use super::trace::{Program, Ran};
use super::tree::Tree;
use crate::process;

/// The session that goes on from call to call.
const CONTINUED: &[&str] = &["--session", "continued"];
/// The session whose changes are held.
const PROPOSING: &[&str] = &["--session", "proposing", "--proposals"];

/// A person sees what a command changed, and says yes.
const APPROVING: &[&str] = &["--sandbox", "staged", "--yes"];
/// The newest change is taken back, be it of a protected place.
pub(super) const UNDO: &[&str] = &["--yes", "undo"];

#[derive(Debug)]
pub(super) struct Lane {
    directory: PathBuf,
    program: PathBuf,
}

/// A scenario, ready to be run again and again.
#[derive(Debug)]
pub(super) struct Prepared {
    step: Step,
    /// The command under faults.
    arguments: Vec<String>,
    /// The command that makes the change; most often the same.
    change: Vec<String>,
    pub(super) old: Tree,
    pub(super) new: Tree,
    /// What an undo of the change leaves.
    pub(super) undone: Tree,
    pub(super) promise: Promise,
}

impl Prepared {
    /// Whether the program under faults said that the change is made.
    pub(super) fn is_said_to_be_made(&self, ran: &Ran) -> bool {
        !self.is_recovery() && self.is_made(ran)
    }

    /// Whether the command that makes the change says that all is well.
    pub(super) fn is_made(&self, ran: &Ran) -> bool {
        let is_error = || {
            let last = ran.stdout.lines().last().unwrap_or_default();
            serde_json::from_str(last).ok().and_then(|last: Value| last.get("is_error")?.as_bool())
        };
        match self.step {
            Step::Calls(_) => ran.is_success() && is_error() == Some(false),
            _ => ran.is_success(),
        }
    }

    /// What was cut off is taken back by whoever starts next.
    pub(super) fn is_recovery(&self) -> bool {
        matches!(self.step, Step::Recover(_))
    }

    /// Whether all but build directories is as it should become, and the program said that these are not merged. After a kill they
    /// must be: the record of them is older than the other changes.
    pub(super) fn lacks_build_only(&self, ran: &Ran, now: &Tree) -> bool {
        let sources = |tree: &Tree| tree.without(scenario::BUILD_DIRECTORY.as_ref());
        self.promise == Promise::Built
            && sources(now) == sources(&self.new)
            && ran.stdout.contains("not kept: ")
    }

    /// Whether programs run in it, which leave stages behind when they are killed.
    pub(super) fn runs_programs(&self) -> bool {
        let is_program = |call: Call| call.tool == "bash";
        match self.step {
            Step::Call(call) | Step::Job(call) | Step::Approve(call) => is_program(call),
            _ => false,
        }
    }

    /// An undo is taken back by its name, everything else by being the last change.
    pub(super) fn is_undo(&self) -> bool {
        let step = match self.step {
            Step::Recover(killed) => killed.step,
            step => step,
        };
        matches!(step, Step::Undo | Step::UndoSession | Step::UndoUndo)
    }
}

impl Lane {
    pub(super) fn make(directory: PathBuf, program: PathBuf) -> Result<Self> {
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        Ok(Self { directory: fs::canonicalize(directory)?, program })
    }

    /// Brings the lane to where the scenario's command begins, and sees what the command does without faults.
    pub(super) fn prepare(&self, scenario: &Scenario) -> Result<Prepared> {
        clear(&self.current())?;
        fs::create_dir_all(self.workspace())?;
        fs::create_dir_all(self.home())?;
        scenario::make_workspace(&self.workspace(), scenario.huge)?;
        for step in scenario.before {
            let arguments = self.arguments(*step)?;
            let ran = self.run(&arguments)?;
            ensure!(ran.is_success(), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        }
        let old = self.look()?;
        let (arguments, change) = match scenario.step {
            Step::Recover(killed) => (next_start(), self.kill(killed)?),
            step => (self.arguments(step)?, self.arguments(step)?),
        };
        clear(&self.prepared())?;
        copy(&self.current(), &self.prepared())?;
        // On a copy, as all others: undo knows hard links by inode numbers, which a copy does not share.
        self.reset()?;
        let ran = self.run(&change)?;
        let new = self.look()?;
        let Scenario { name, step, promise, .. } = *scenario;
        let undone = match promise {
            Promise::Whole => old.clone(),
            Promise::Built | Promise::Planted => self.undone()?,
        };
        let prepared = Prepared { step, arguments, change, old, new, undone, promise };
        let is_change = match promise {
            Promise::Whole | Promise::Built => prepared.new != prepared.old,
            Promise::Planted => prepared.new == prepared.old && prepared.undone != prepared.old,
        };
        ensure!(
            prepared.is_made(&ran) && is_change,
            "{name} does nothing: {}{}",
            ran.stdout,
            ran.stderr
        );
        Ok(prepared)
    }

    /// What the newest undo leaves.
    fn undone(&self) -> Result<Tree> {
        let ran = self.run(UNDO)?;
        ensure!(ran.is_success(), "the undo: {}{}", ran.stdout, ran.stderr);
        self.look()
    }

    /// Runs a command and kills it in the middle; the words that make the change.
    fn kill(&self, killed: &Killed) -> Result<Vec<String>> {
        clear(&self.prepared())?;
        copy(&self.current(), &self.prepared())?;
        let arguments = self.arguments(killed.step)?;
        let thread = Thread::Worker;
        let made = self.windlass(&arguments).trace(thread, None)?.made(thread);
        let last = made.iter().rfind(|made| made.call == killed.at);
        let last = last.with_context(|| format!("it never calls {}", killed.at))?;
        self.reset()?;
        let fault = Fault { thread, call: killed.at, how: How::Killed, nth: last.nth };
        let ran = self.windlass(&arguments).trace(thread, Some(&fault))?;
        ensure!(ran.was_killed(), "it was not killed: {}", ran.log);
        Ok(arguments)
    }

    /// Everything as it was when the scenario was prepared.
    pub(super) fn reset(&self) -> Result<()> {
        clear(&self.current())?;
        copy(&self.prepared(), &self.current())
    }

    /// What is in the workspace.
    pub(super) fn look(&self) -> Result<Tree> {
        Tree::look(&self.workspace())
    }

    /// The scenario's command, traced.
    pub(super) fn trace(
        &self,
        prepared: &Prepared,
        thread: Thread,
        fault: Option<&Fault>,
    ) -> Result<Ran> {
        self.windlass(&prepared.arguments).trace(thread, fault)
    }

    /// The change once more, without faults.
    pub(super) fn again(&self, prepared: &Prepared) -> Result<Ran> {
        self.run(&prepared.change)
    }

    /// How many threads of the scenario's command make calls.
    pub(super) fn count_threads(&self, prepared: &Prepared) -> Result<usize> {
        self.windlass(&prepared.arguments).count_threads()
    }

    /// `windlass ARGUMENTS`, without faults.
    pub(super) fn run<S: AsRef<str>>(&self, arguments: &[S]) -> Result<Ran> {
        self.windlass(arguments).run()
    }

    /// The call that made the newest change.
    pub(super) fn newest_call(&self) -> Result<String> {
        let ran = self.run(&["--json", "undo", "--list"])?;
        let newest: Option<Value> =
            ran.stdout.lines().next().and_then(|line| serde_json::from_str(line).ok());
        let call = newest.as_ref().and_then(|newest| newest.get("call")?.as_str());
        let call = call.with_context(|| format!("no change is listed: {}", ran.stderr))?;
        Ok(call.to_owned())
    }

    /// Keeps all of the lane for a look.
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

    /// The words of a step's command.
    fn arguments(&self, step: Step) -> Result<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let call =
            |call: Call| vec!["call".to_owned(), call.tool.to_owned(), call.input().to_string()];
        let job = |call: Call| {
            let mut input = call.input();
            input["background"] = true.into();
            vec!["call".to_owned(), call.tool.to_owned(), input.to_string()]
        };
        Ok(match step {
            Step::Call(one) => call(one),
            Step::Calls(calls) => vec!["run".to_owned(), self.lines(calls)?],
            Step::Job(one) => job(one),
            Step::Approve(one) => [words(APPROVING), call(one)].concat(),
            Step::Continue(one) => [words(CONTINUED), call(one)].concat(),
            Step::Propose(one) => [words(PROPOSING), call(one)].concat(),
            Step::Apply => words(&["proposals", "apply"]),
            Step::Undo => words(UNDO),
            Step::UndoSession => [words(CONTINUED), words(&["undo"])].concat(),
            Step::UndoUndo => words(&["undo", "--call", &self.newest_call()?]),
            Step::Recover(_) => next_start(),
        })
    }

    /// A file with calls as a model sends them.
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

/// Any command will do that looks at changes.
pub(super) fn next_start() -> Vec<String> {
    ["undo", "--list"].map(String::from).into()
}

/// The next start of a program, which finishes what was merged into build directories.
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

/// With modes, times and links.
fn copy(from: &Path, to: &Path) -> Result<()> {
    process::output(Command::new("cp").arg("-a").arg(from).arg(to)).map(drop)
}
