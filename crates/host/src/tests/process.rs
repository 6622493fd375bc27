//! Starts another process of this test program, which runs one test that is otherwise ignored. For tests that need a second
//! process.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::TestWorkspace;

/// Environment variable with the workspace and file name for a process that a test starts.
const WORK: &str = "WINDLASS_TEST_WORK";

/// Starts an ignored test of this program on a file of the workspace.
pub(crate) fn start(test: &str, ground: &TestWorkspace, name: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    command(&program, test, ground, name).stdout(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn command(program: &Path, test: &str, ground: &TestWorkspace, name: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .arg(format!("tests::{test}"))
        .env(WORK, format!("{}\n{name}", ground.work("").display()));
    command
}

/// Returns the workspace and the file name that this process was started with.
pub(crate) fn workspace_and_name() -> (String, String) {
    let told = std::env::var(WORK).expect("only another test can start this one");
    let (workspace, name) = told.split_once('\n').unwrap();
    (workspace.to_owned(), name.to_owned())
}

#[expect(clippy::print_stdout, reason = "it is how a process tells the one that started it")]
pub(crate) fn tell_ready() {
    println!("\nready");
}

pub(crate) fn wait_until_ready(mut child: Child) -> Child {
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    // Reads the rest of the output, so that the process does not block on a full pipe.
    std::thread::spawn(move || lines.count());
    child
}
