//! I-59 to I-64, as far as one process can show them: calls that never ended, and unlimited memory. Tests with killed programs, several
//! processes and the environment are in `cli`.

use std::fs;
use std::time::Duration;

use serde_json::json;
use windlass::Outcome;
use windlass::process::SandboxLevel;

use super::{at_level, bash_arguments};
use crate::support::{TestWorkspace, text};

/// Timeout of a test: long enough for the slowest machine, so that a test which reaches it hangs.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns whether a process with this argument runs on the machine.
fn has_process(word: &str) -> bool {
    let commands = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    commands
        .into_iter()
        .any(|words| words.split(|byte| *byte == 0).any(|one| one == word.as_bytes()))
}

/// Returns a unique number of seconds for `sleep`, by which the process is found.
fn unique_seconds(which: u32) -> String {
    format!("{}.{which}", 100_000 + std::process::id())
}

#[tokio::test]
async fn i_59_grandchild_that_holds_the_pipe_does_not_delay_the_call() {
    for (level, which) in [(SandboxLevel::Workspace, 1), (SandboxLevel::Off, 2)] {
        let test = TestWorkspace::with_builder(&[], |builder| builder.processes(at_level(level)));
        for (way, more) in ["sleep {}", "setsid sleep {}", "nohup sleep {}", "(setsid sleep {} &)"]
            .into_iter()
            .zip(1..)
        {
            let seconds = unique_seconds(which * 10 + more);
            let command = format!("{} & echo done", way.replace("{}", &seconds));
            let call = test.call("bash", bash_arguments(&command));
            let result = tokio::time::timeout(TEST_TIMEOUT, call).await.expect("it hangs");
            assert_eq!(result.outcome, Outcome::Ok, "{way}: {}", text(&result));
            assert!(text(&result).starts_with("done\n"), "{way}: {}", text(&result));
            assert!(!has_process(&seconds), "sandbox {level}: {way} lives on");
        }
    }
}

#[tokio::test]
async fn i_59_time_limit_ends_every_process() {
    let test = TestWorkspace::new();
    for (way, more) in [
        "sleep {}",
        "setsid -w sleep {}",
        "(setsid sleep {} &); sleep {}",
        "trap '' TERM; sleep {}",
    ]
    .into_iter()
    .zip(1..)
    {
        let seconds = unique_seconds(more);
        let command = format!("echo begun; {}", way.replace("{}", &seconds));
        let call = test.call("bash", json!({"command": command, "timeout": 0.5}));
        let result = tokio::time::timeout(TEST_TIMEOUT, call).await.expect("it hangs");
        assert_eq!(result.outcome, Outcome::TimedOut, "{way}");
        assert!(text(&result).starts_with("begun\n"), "{way}: {}", text(&result));
        assert!(!has_process(&seconds), "{way} lives on");
    }
}

/// Returns the peak memory of this process in kilobytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn i_61_endless_output_takes_bounded_memory() {
    const BYTES: u64 = 250_000_000;
    let test = TestWorkspace::new();
    test.call_ok("bash", bash_arguments("echo warm")).await;
    let before = peak_memory();
    let command = format!("head -c {BYTES} /dev/zero | tr '\\0' y; echo; echo the end");
    let result = test.call_ok("bash", bash_arguments(&command)).await;
    let grown = peak_memory() - before;
    assert!(grown < 180_000, "{grown} kB for {BYTES} bytes");
    let said = text(&result);
    assert!(said.len() < 60_000 && said.contains("the end"), "{} bytes", said.len());
    assert_eq!(result.output.metadata["truncated"], json!(true));
}

#[tokio::test]
async fn i_63_pipes_and_devices_do_not_block_a_call() {
    let test = TestWorkspace::new();
    let make = "mkfifo pipe; ln -s pipe link; mkdir d; mkfifo d/pipe; ln -s /dev/zero zero; ln -s /dev/tty tty";
    let made = std::process::Command::new("bash")
        .args(["-c", make])
        .current_dir(test.workspace())
        .status()
        .unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(test.path("socket")).unwrap();
    for path in ["pipe", "link", "d/pipe", "zero", "tty", "socket", "/dev/zero", "/proc/kmsg"] {
        for (tool, input) in [
            ("read", json!({"path": path})),
            ("grep", json!({"pattern": "x", "path": path})),
            ("edit", json!({"path": path, "old_string": "a", "new_string": "b"})),
            ("write", json!({"path": path, "content": "x"})),
        ] {
            let call = test.call(tool, input);
            let result = tokio::time::timeout(TEST_TIMEOUT, call);
            let result = result.await.unwrap_or_else(|_| panic!("{tool} {path} hangs"));
            assert_ne!(result.outcome, Outcome::TimedOut, "{tool} {path}");
            assert!(
                tool == "grep" || result.outcome != Outcome::Ok,
                "{tool} {path}: {}",
                text(&result)
            );
        }
    }
    let walk = test.call("grep", json!({"pattern": "x", "all": true}));
    let result = tokio::time::timeout(TEST_TIMEOUT, walk).await.expect("it hangs");
    assert_ne!(result.outcome, Outcome::TimedOut);
}
