//! Measures running a command through Windlass, beside starting it directly and beside other sandboxes.
//!
//! `process_overhead DIRECTORY COUNT [CODEX]` prints the seconds of each run as JSON; `CODEX` is the program of that name. The
//! contenders take turns, so that other work of the machine affects all alike.
#![allow(clippy::print_stdout, reason = "the bench reads the numbers from stdout")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use windlass::files::Durability;
use windlass::process::{Confinement, ProcessSettings, SandboxLevel};
use windlass::{Mode, Outcome, Session, ToolCall, Windlass};

/// Runs that are not counted.
const UNCOUNTED: usize = 5;
/// The output of a command that prints much.
const LONG_OUTPUT_BYTES: u64 = 1 << 30;
/// The number of files in a large workspace, twenty in each directory.
const LARGE_WORKSPACE_FILES: usize = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // The command line program does this too.
    windlass::process::hide_memory()?;
    let usage = "usage: process_overhead DIRECTORY COUNT [CODEX]";
    let mut arguments = std::env::args_os().skip(1);
    let directory = PathBuf::from(arguments.next().context(usage)?);
    let count: usize =
        arguments.next().and_then(|count| count.to_str()?.parse().ok()).context(usage)?;
    let codex = arguments.next().map(PathBuf::from);
    let small = directory.join("small");
    fs::create_dir_all(&small)?;
    let large = directory.join("large");
    fill(&large)?;
    let off = WindlassRunner::new(&small, &directory.join("state-off"), SandboxLevel::Off)?;
    let confined = WindlassRunner::new(&small, &directory.join("state"), SandboxLevel::Workspace)?;
    let staged =
        WindlassRunner::new(&large, &directory.join("state-large"), SandboxLevel::Workspace)?;
    let mut seconds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for turn in 0..UNCOUNTED + count {
        let mut note = |name, value| {
            if turn >= UNCOUNTED {
                seconds.entry(name).or_default().push(value);
            }
        };
        note("plain", timed(Command::new("sh").args(["-c", "true"]))?);
        note("off", off.bash("true").await?);
        note("bwrap", timed(&mut bubblewrap(&small))?);
        note("confined", confined.bash("true").await?);
        note("confined_large", staged.bash("true").await?);
        // Each run takes a tenth of a second, so only a few are made.
        if let Some(codex) = codex.as_ref().filter(|_| turn % 5 == 0) {
            note("codex", timed(&mut in_codex(codex, &small))?);
        }
    }
    for turn in 0..UNCOUNTED + count / 2 {
        let change = format!("for n in 0 1 2 3 4 5 6 7 8 9; do echo {turn} > dir0/new$n; done");
        let ours = staged.bash(&change).await?;
        let plain = timed(Command::new("bash").args(["-c", &change]).current_dir(&large))?;
        if turn >= UNCOUNTED {
            seconds.entry("staged").or_default().push(ours);
            seconds.entry("staged_plain").or_default().push(plain);
        }
    }
    for _ in 0..(count / 20).max(3) {
        let talk = format!("head -c {LONG_OUTPUT_BYTES} /dev/zero");
        let piped = format!("{talk} | cat > /dev/null");
        seconds
            .entry("talk_plain")
            .or_default()
            .push(timed(Command::new("sh").args(["-c", &piped]))?);
        seconds.entry("talk").or_default().push(confined.bash(&talk).await?);
    }
    println!("{}", serde_json::to_string(&seconds)?);
    Ok(())
}

/// Creates a workspace of many files, unless it exists already.
fn fill(directory: &Path) -> Result<()> {
    if directory.exists() {
        return Ok(());
    }
    for number in 0..LARGE_WORKSPACE_FILES {
        let folder = directory.join(format!("dir{}", number / 20));
        if number % 20 == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("file{number}.txt")), format!("file {number}\n"))?;
    }
    Ok(())
}

/// The seconds of a program from start to end, with its output dropped.
fn timed(command: &mut Command) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().with_context(|| format!("running {command:?}"))?;
    let elapsed = start.elapsed().as_secs_f64();
    ensure!(status.success(), "{command:?}: {status}");
    Ok(elapsed)
}

fn bubblewrap(workspace: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--ro-bind", "/", "/", "--bind"]).arg(workspace).arg(workspace);
    command.args([
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--unshare-all",
        "--die-with-parent",
        "true",
    ]);
    command
}

fn in_codex(codex: &Path, workspace: &Path) -> Command {
    let mut command = Command::new(codex);
    command.args(["sandbox", "--", "true"]).current_dir(workspace);
    command
}

/// Calls `bash` of Windlass, with journal and undo record, and returns the seconds.
struct WindlassRunner {
    windlass: Windlass,
    session: Arc<Session>,
}

impl WindlassRunner {
    fn new(workspace: &Path, state: &Path, level: SandboxLevel) -> Result<Self> {
        let confinement = Confinement { level, ..Confinement::default() };
        let windlass = Windlass::builder(workspace)
            .state(state)
            .mode(Mode::Yolo)
            .durability(Durability::Kernel)
            .processes(ProcessSettings { confinement, ..ProcessSettings::default() })
            .build()?;
        let session = windlass.new_session();
        Ok(Self { windlass, session })
    }

    async fn bash(&self, command: &str) -> Result<f64> {
        let call = ToolCall::new("bash", json!({"command": command}));
        let start = Instant::now();
        let result = self.windlass.call(&self.session, call).await;
        let elapsed = start.elapsed().as_secs_f64();
        ensure!(result.outcome == Outcome::Ok, "{command}: {}", result.output.to_text());
        Ok(elapsed)
    }
}
