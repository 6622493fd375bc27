//! The MCP server as real clients see it: the inspector, and the Python SDK. `cargo xtask test` installs both.

use std::process::Command;

use crate::support::{Home, RunResult, installed};

fn inspector(home: &Home, arguments: &[&str]) -> RunResult {
    let output = Command::new(installed("WINDLASS_TEST_NODE"))
        .arg(installed("WINDLASS_TEST_INSPECTOR"))
        .args(["--cli", env!("CARGO_BIN_EXE_windlass"), "mcp", "-C"])
        .arg(home.workspace())
        .arg("--state")
        .arg(home.state())
        .args(arguments)
        .output()
        .expect("the inspector runs");
    RunResult {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn the_inspector_finds_the_list_portable() {
    let home = Home::new();
    let ran = inspector(&home, &["--method", "tools/list", "--strict"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("\"grep\""), "{ran:?}");
}

#[test]
fn the_inspector_calls_a_tool() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let ran = inspector(
        &home,
        &["--method", "tools/call", "--tool-name", "read", "--tool-arg", "path=a"],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("hello"), "{ran:?}");
}

#[test]
fn the_python_sdk_lists_and_calls() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let output = Command::new(installed("WINDLASS_TEST_PYTHON"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/sdk.py"))
        .arg(env!("CARGO_BIN_EXE_windlass"))
        .arg(home.workspace())
        .arg(home.state())
        .output()
        .expect("python runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("read write edit patch list glob grep"), "{stdout}");
    assert!(stdout.contains("hello") && stdout.contains("in flight: 20"), "{stdout}");
}
