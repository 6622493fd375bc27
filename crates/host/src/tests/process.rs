//! Another process, for tests of what only another process can do: this very program, running one test that is ignored otherwise.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Ground;

/// Where a process that a test starts finds its work.
const WORK: &str = "WINDLASS_TEST_WORK";

/// Starts a test of this program on a file of the workspace.
pub(crate) fn start(test: &str, ground: &Ground, name: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    command(&program, test, ground, name).stdout(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn command(program: &Path, test: &str, ground: &Ground, name: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .arg(format!("tests::{test}"))
        .env(WORK, format!("{}\n{name}", ground.work("").display()));
    command
}

/// The workspace and the file on which a process was started.
pub(crate) fn work() -> (String, String) {
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
    // Whatever the process still says must find its way.
    std::thread::spawn(move || lines.count());
    child
}
