//! The scene of an attempt: a workspace, a home, another project and places of the host with canaries in them, and a process outside.
//! A scene is used for one start, so that no attempt sees the traces of another.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use super::attempts::{
    Attempt, CANARY_FILES, Evidence, OutsideResult, all_attempts, canary_text, target_files,
};
use super::outside::{Process, Report};
use super::starts::python;
use crate::support::{Home, binary};

/// The value of a variable that windlass has, and no program.
pub(super) const ENVIRONMENT_CANARY: &str = "canary in the environment";

/// The directories of a scene.
pub(super) struct SceneDirectories {
    pub(super) home: Home,
    /// Directories of the host that programs have their own of.
    temporary: TempDir,
    memory: TempDir,
    lasting: TempDir,
    /// A socket below `/run`, which only root can make.
    run: Option<PathBuf>,
    handles: Vec<(i32, String)>,
}

impl SceneDirectories {
    fn new() -> Self {
        let temporary = |place: &str| tempfile::tempdir_in(place).expect("a directory");
        let home = Home::new_outside_tmp();
        let id = home.workspace().parent().and_then(Path::file_name).map(ToOwned::to_owned);
        let id = id.expect("a name").to_string_lossy().into_owned();
        let mut ground = Self {
            home,
            temporary: temporary("/tmp"),
            memory: temporary("/dev/shm"),
            lasting: temporary("/var/tmp"),
            run: is_root().then(|| PathBuf::from(format!("/run/windlass-test{id}.socket"))),
            handles: Vec::new(),
        };
        ground.write_canaries();
        ground
    }

    fn write_canaries(&mut self) {
        for (number, name) in CANARY_FILES.iter().enumerate() {
            write_file(&self.path(name), &format!("{}\n", canary_text(number)));
        }
        for (place, way, _) in target_files() {
            write_file(&self.target_file(place, way), "as it was\n");
        }
        write_file(&self.path("work/.aiexclude"), "private.txt\n");
        write_file(&self.path("work/driver.py"), include_str!("driver.py"));
        write_file(
            &self.path("home/.config/windlass/config.toml"),
            "deny = [\"read denied.txt\"]\n",
        );
        for place in ["home/.cargo/bin/cargo", "home/.rustup/toolchains/stable/bin/rustc"] {
            write_file(&self.path(place), "#!/bin/sh\n");
        }
        let paths = CANARY_FILES.iter().map(|name| self.path(name));
        let mut command = Command::new(python());
        command.arg(self.path("work/driver.py")).arg("--handles").args(paths);
        let output = command.output().expect("Python runs").stdout;
        let parse = |line: &str| {
            let (kind, handle) = line.split_once(' ')?;
            Some((kind.parse().ok()?, handle.to_owned()))
        };
        self.handles = String::from_utf8_lossy(&output).lines().filter_map(parse).collect();
        assert_eq!(self.handles.len(), CANARY_FILES.len(), "a handle, or none, for each file");
    }

    /// `work/…`, `home/…` and `other/…`, and directories of the host: `tmp/…`, `shm/…`, `var/…`.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let (top, rest) = name.split_once('/').unwrap_or((name, ""));
        match top {
            "tmp" => self.temporary.path().join(rest),
            "shm" => self.memory.path().join(rest),
            "var" => self.lasting.path().join(rest),
            _ => self.home.workspace().parent().expect("a parent").join(name),
        }
    }

    /// The file that belongs to one attempt to change something.
    pub(super) fn target_file(&self, place: usize, way: usize) -> PathBuf {
        let is_meant = |one: &(usize, usize, &str)| (one.0, one.1) == (place, way);
        let (_, _, directory) = target_files().find(is_meant).expect("an attempt");
        self.path(directory).join(format!("victim-{way}/file"))
    }

    pub(super) fn handle(&self, target: &str) -> (i32, &str) {
        let at = CANARY_FILES.iter().position(|name| *name == target).expect("a canary");
        (self.handles[at].0, &self.handles[at].1)
    }

    pub(super) fn streams(&self) -> Vec<(&'static str, PathBuf)> {
        let mut all = vec![
            ("the workspace", self.path("work/app.socket")),
            ("home", self.path("home/.gnupg/S.gpg-agent")),
            ("the host's /tmp", self.path("tmp/agent.socket")),
            ("the state", self.path("home/.local/state/windlass/jobs.socket")),
        ];
        all.extend(self.run.clone().map(|path| ("/run", path)));
        all
    }

    pub(super) fn datagrams(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("the workspace", self.path("work/log.socket")),
            ("the host's /tmp", self.path("tmp/log.socket")),
        ]
    }

    pub(super) fn abstract_stream(&self) -> String {
        format!("@{}", self.unique("stream"))
    }

    pub(super) fn abstract_datagram(&self) -> String {
        format!("@{}", self.unique("datagram"))
    }

    /// A name that no other scene has.
    pub(super) fn unique(&self, word: &str) -> String {
        let own = self.temporary.path().file_name().expect("a name").to_string_lossy();
        format!("windlass-{word}{own}")
    }
}

impl Drop for SceneDirectories {
    fn drop(&mut self) {
        if let Some(path) = &self.run {
            // The process outside may not have got as far as making it.
            drop(std::fs::remove_file(path));
        }
    }
}

pub(super) struct Scene {
    pub(super) ground: SceneDirectories,
    pub(super) attempts: Vec<Attempt>,
    process: Process,
    before: Vec<String>,
}

impl Scene {
    pub(super) fn new() -> Self {
        let ground = SceneDirectories::new();
        let (process, reachable) = Process::start(&ground);
        let attempts = all_attempts(&ground, &reachable);
        let list: Vec<_> = attempts
            .iter()
            .map(|one| json!({"name": one.name, "op": one.operation, "with": one.arguments}))
            .collect();
        write_file(&ground.path("work/attempts.json"), &json!(list).to_string());
        let before = attempts.iter().map(Self::attempt_trace).collect();
        Self { ground, attempts, process, before }
    }

    /// Leaves out what is not tried outside.
    pub(super) fn without_harmful(self) -> Self {
        let list: Vec<_> = self
            .attempts
            .iter()
            .filter(|one| one.outside != OutsideResult::NotTried)
            .map(|one| json!({"name": one.name, "op": one.operation, "with": one.arguments}))
            .collect();
        write_file(&self.ground.path("work/attempts.json"), &json!(list).to_string());
        self
    }

    /// A command that starts windlass with a variable and two descriptors that no program should get.
    pub(super) fn windlass(&self, arguments: &[&str]) -> Command {
        let mut command = self.with_descriptors();
        command.arg(binary()).args(arguments).env("CANARY_ENVIRONMENT", ENVIRONMENT_CANARY);
        command
    }

    /// The same for any program.
    pub(super) fn with_descriptors(&self) -> Command {
        let mut command = Command::new("sh");
        self.ground.home.prepare(&mut command);
        let script = "exec 7<\"$1\" 8<\"$2\"; shift 2; exec \"$@\"";
        command.args(["-c", script, "sh"]);
        command.arg(self.ground.path("other")).arg(self.ground.path("other/secret.txt"));
        command
    }

    /// Ends the scene: the names of all attempts that succeeded, by what can be seen of them from here.
    pub(super) fn end(self, printed: &str) -> Vec<String> {
        let loot = std::fs::read_to_string(self.ground.path("work/loot.txt")).unwrap_or_default();
        let printed = format!("{printed}\n{loot}");
        let report = self.process.end();
        let lines: HashSet<&str> = printed.lines().collect();
        let mut found = Vec::new();
        for (attempt, before) in self.attempts.iter().zip(&self.before) {
            if has_succeeded(attempt, before, &lines, &report) {
                found.push(attempt.name.clone());
            }
            if let Evidence::Changed(path) = &attempt.evidence
                && path.starts_with("/")
                && before.is_empty()
                && attempt.outside == OutsideResult::NotTried
            {
                // What should not be there does not stay.
                drop(std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path)));
            }
        }
        found.extend(unattributed_canaries(&self.attempts, &printed, &found));
        found
    }

    fn attempt_trace(attempt: &Attempt) -> String {
        let mut text = String::new();
        if let Evidence::Changed(path) = &attempt.evidence {
            describe(path, &mut text);
        }
        text
    }
}

fn has_succeeded(attempt: &Attempt, before: &str, lines: &HashSet<&str>, report: &Report) -> bool {
    let got = format!("{}: got ", attempt.name);
    let own = || lines.iter().filter_map(|line| line.strip_prefix(&*got));
    match &attempt.evidence {
        Evidence::Canary(text) => own().any(|line| line.contains(&reversed(text))),
        Evidence::Changed(_) => Scene::attempt_trace(attempt) != before,
        Evidence::Heard => report.heard.contains(&attempt.name),
        Evidence::Noted(field) => report.has_noted(field),
        Evidence::Said => own().next().is_some(),
    }
}

/// Canaries in the output that no attempt which is known to have succeeded accounts for.
fn unattributed_canaries(attempts: &[Attempt], printed: &str, found: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for attempt in attempts {
        let Evidence::Canary(text) = &attempt.evidence else { continue };
        let is_known = || {
            found.iter().any(|name| {
                attempts.iter().any(|one| {
                    one.name == *name
                        && matches!(&one.evidence, Evidence::Canary(other) if other == text)
                })
            })
        };
        let is_there = printed.contains(text.as_str()) || printed.contains(&reversed(text));
        if is_there && !is_known() {
            all.push(format!("`{text}` was printed"));
        }
    }
    all.dedup();
    all
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

/// The first line of `/etc/shadow`, if we may read it.
pub(super) fn shadow_line() -> Option<String> {
    let text = std::fs::read_to_string("/etc/shadow").ok()?;
    text.lines().next().map(|line| line.chars().take(60).collect())
}

/// An address of this machine that is not loopback.
pub(super) fn own_address() -> Option<String> {
    // Nothing is sent: the kernel only chooses the address that it would send from.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// Everything about a file or a tree that can change, the time of its last change included.
pub(super) fn describe(path: &Path, text: &mut String) {
    let Ok(found) = path.symlink_metadata() else { return };
    let (mode, links, size) = (found.mode(), found.nlink(), found.size());
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    writeln!(text, "{} {mode:o} {links} {size} {} {times:?}", path.display(), found.uid())
        .expect("a text");
    if found.is_dir() {
        let entries = std::fs::read_dir(path).expect("a directory");
        let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        entries.sort();
        for entry in entries {
            describe(&entry, text);
        }
    }
}

pub(super) fn write_file(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    std::fs::write(path, content).expect("a file");
}

pub(in crate::view) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
