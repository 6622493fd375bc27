//! The ways in which a session starts a program. Each runs `driver.py` and gives all that was printed on the way.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::scene::{Scene, write_file};

/// A way to start a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Start {
    Bash,
    Job,
    Test,
    CommandTool,
    Hook,
    Git,
}

/// Every way at every level that it has.
pub(super) const STARTS: &[(Start, &[&str])] = &[
    (Start::Bash, &["read-only", "workspace", "staged"]),
    (Start::Job, &["read-only", "workspace", "staged"]),
    (Start::Test, &["read-only", "workspace", "staged"]),
    (Start::CommandTool, &["read-only", "workspace", "staged"]),
    (Start::Hook, &["read-only", "workspace"]),
    (Start::Git, &["read-only", "workspace", "staged"]),
];

impl Start {
    pub(super) fn run(self, scene: &Scene, level: &str) -> String {
        let driver = format!("{} driver.py", python().display());
        match self {
            Self::Bash => call(scene, level, "bash", &json!({"command": driver})),
            Self::Job => job(scene, level, &driver),
            // Only what fails is shown.
            Self::Test => {
                call(scene, level, "test", &json!({"command": format!("{driver} --stderr 1")}))
            }
            Self::CommandTool => command_tool(scene, level, &driver),
            Self::Hook => hook(scene, level, &driver),
            Self::Git => git(scene, level, &driver),
        }
    }

    /// Returns whether the program certainly runs. Git may refuse to start a program that a repository names.
    pub(super) fn certainly_runs(self) -> bool {
        self != Self::Git
    }
}

/// A Python of the system, which programs see: one in a person's home would not do.
pub(in crate::view) fn python() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin"];
    let places = std::env::split_paths(&path).chain(system.map(PathBuf::from));
    let is_of_system = |file: &PathBuf| {
        let real = file.canonicalize().unwrap_or_default();
        ["/usr", "/bin", "/opt", "/nix", "/gnu"].iter().any(|top| real.starts_with(top))
    };
    let found = places.map(|place| place.join("python3")).find(is_of_system);
    found.expect("Python 3 below /usr, /opt, /nix or /gnu: install the package `python3`")
}

fn options(level: &str) -> [&str; 4] {
    ["--mode", "auto", "--sandbox", level]
}

fn printed(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the binary runs");
    let (stdout, stderr) = (&output.stdout, &output.stderr);
    // JSON is for the machine: what was printed has to be seen as it was.
    let text = String::from_utf8_lossy(stdout).into_owned();
    format!("{text}\n{}", String::from_utf8_lossy(stderr))
}

fn call(scene: &Scene, level: &str, tool: &str, input: &Value) -> String {
    let input = input.to_string();
    let arguments = [&["call", tool, &input], options(level).as_slice()].concat();
    printed(scene.windlass(&arguments))
}

fn job(scene: &Scene, level: &str, driver: &str) -> String {
    let arguments = [&["run", "-"], options(level).as_slice()].concat();
    let mut run = Run::start(scene.windlass(&arguments));
    let mut answer = run.ask("bash", &json!({"command": driver, "background": true}));
    let mut all = text(&answer).to_owned();
    let job = answer["metadata"]["job"].clone();
    while job.is_string() && answer["metadata"]["running"] != json!(false) {
        answer = run.ask("output", &json!({"job": job, "wait": 60}));
        assert_eq!(answer["is_error"], json!(false), "{answer}");
        all += text(&answer);
    }
    all
}

/// `windlass run -` with its input open, so that jobs go on.
pub(super) struct Run {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Run {
    pub(super) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary runs");
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, stdin, lines }
    }

    /// Makes one call and waits for its answer.
    pub(super) fn ask(&mut self, tool: &str, input: &Value) -> Value {
        let call = json!({"type": "tool_use", "id": "1", "name": tool, "input": input});
        writeln!(self.stdin.as_mut().expect("a pipe"), "{call}").expect("a line");
        let line = self.lines.next().expect("an answer").expect("text");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.stdin.take());
        drop(self.child.wait());
    }
}

/// The text of an answer.
pub(super) fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap_or_default()
}

fn command_tool(scene: &Scene, level: &str, driver: &str) -> String {
    let file = format!("---\nname: attempt\ncommand: {driver}\n---\nTries something.\n");
    write_file(&scene.ground.home.config().join("tools/attempt.md"), &file);
    call(scene, level, "attempt", &json!({}))
}

/// A hook of the person's own that refuses, and gives what it found as the reason.
fn hook(scene: &Scene, level: &str, driver: &str) -> String {
    let config = scene.ground.home.config().join("config.toml");
    let command = format!("{driver} --stderr 2");
    let text = std::fs::read_to_string(&config).expect("a configuration");
    write_file(
        &config,
        &format!(
            "{text}[[hooks]]\nevent = \"pre_tool\"\ntimeout = 60\nsandbox = \"{level}\"\ncommand = \"{command}\"\n"
        ),
    );
    let trusted = scene.ground.home.run(&["trust"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    call(scene, "workspace", "list", &json!({}))
}

fn git(scene: &Scene, level: &str, driver: &str) -> String {
    make_repository(scene, driver);
    let calls = [
        json!({"command": "status"}),
        json!({"command": "diff"}),
        json!({"command": "log", "args": ["-p"]}),
        json!({"command": "add", "paths": ["new.txt"]}),
        json!({"command": "commit", "message": "two"}),
    ];
    calls.iter().map(|input| call(scene, level, "git", input)).collect()
}

/// A repository that names the program wherever git would run one.
pub(super) fn make_repository(scene: &Scene, driver: &str) {
    use std::fmt::Write as _;
    let workspace = scene.ground.path("work");
    let run = |words: &[&str]| {
        let mut command = Command::new("git");
        scene.ground.home.prepare(&mut command).args(words);
        assert!(command.output().expect("git runs").status.success(), "git {words:?}");
    };
    run(&["init", "-q"]);
    run(&["add", "driver.py"]);
    run(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one"]);
    write_file(&workspace.join(".gitattributes"), "* filter=attempt diff=attempt\n");
    for hook in ["pre-commit", "post-checkout", "post-index-change"] {
        executable(&workspace.join(".git/hooks").join(hook), &format!("#!/bin/sh\n{driver}\n"));
    }
    let config = workspace.join(".git/config");
    let mut text = std::fs::read_to_string(&config).expect("a configuration");
    for (section, key) in [
        ("core", "fsmonitor"),
        ("core", "pager"),
        ("core", "editor"),
        ("core", "sshCommand"),
        ("diff", "external"),
        ("diff \"attempt\"", "textconv"),
        ("filter \"attempt\"", "clean"),
        ("filter \"attempt\"", "smudge"),
        ("gpg", "program"),
    ] {
        writeln!(text, "[{section}]\n{key} = {driver}").expect("a text");
    }
    text += "[commit]\ngpgSign = true\n[user]\nname = a\nemail = a@b\n";
    write_file(&config, &text);
    write_file(&workspace.join("new.txt"), "new\n");
}

fn executable(path: &Path, content: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    write_file(path, content);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}
