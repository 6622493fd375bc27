//! The same project twice: worked on by a plain shell, and by a confined one. Both must come to the same result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::{system_path, write_file};
use crate::support::{Home, RunResult, repository};

pub(super) struct Project {
    outside: Home,
    inside: Home,
    /// Beginnings of paths whose files are named by chance or by where the project lies.
    ignored: &'static [&'static str],
    /// Files whose contents must be the same.
    same: &'static [&'static str],
}

impl Project {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let [outside, inside] = [(), ()].map(|()| {
            let home = Home::new_outside_tmp().with_files(files);
            write_file(
                &home_of(&home).join(".gitconfig"),
                "[user]\n\tname = Ada\n\temail = ada@example.org\n",
            );
            home
        });
        Self { outside, inside, ignored: &[], same: &[] }
    }

    pub(super) fn ignoring(mut self, ignored: &'static [&'static str]) -> Self {
        self.ignored = ignored;
        self
    }

    pub(super) fn comparing(mut self, same: &'static [&'static str]) -> Self {
        self.same = same;
        self
    }

    /// Runs a script in both without confinement, before the work begins.
    pub(super) fn prepared(self, script: &str) -> Self {
        for home in [&self.outside, &self.inside] {
            let ran = run_plain(home, script);
            assert_eq!(ran.code, 0, "{ran:#?}");
        }
        self
    }

    /// Prepares both home directories before the work begins.
    pub(super) fn with_home(self, prepare: impl Fn(&Path)) -> Self {
        for home in [&self.outside, &self.inside] {
            prepare(&home_of(home));
        }
        self
    }

    /// Runs a script outside and inside. It ends well, makes the same files and changes nothing in the person's home. Returns what
    /// the confined one printed.
    pub(super) fn run(&self, script: &str) -> String {
        let before = personal_files(&self.inside);
        let outside = run_plain(&self.outside, script);
        assert_eq!(outside.code, 0, "outside: {script}\n{outside:#?}");
        let inside = run_confined(&self.inside, script);
        assert_eq!(inside.code, 0, "inside: {script}\n{}\n{}", inside.stdout, inside.stderr);
        let [expected, made] = [&self.outside, &self.inside].map(|home| self.workspace_files(home));
        assert_eq!(made, expected, "inside and outside differ: {script}\n{}", inside.stdout);
        assert_eq!(personal_files(&self.inside), before, "the person's home changed: {script}");
        inside.stdout
    }

    /// The files of a workspace, with contents where these are compared.
    fn workspace_files(&self, home: &Home) -> BTreeMap<String, Option<String>> {
        let workspace = home.workspace();
        let is_compared =
            |name: &String| !self.ignored.iter().any(|ignored| name.starts_with(ignored));
        let content = |name: &str| {
            let read = || std::fs::read_to_string(workspace.join(name)).expect("a text file");
            self.same.contains(&name).then(read)
        };
        let names = files_below(&workspace).into_iter().filter(is_compared);
        names.map(|name| (name.clone(), content(&name))).collect()
    }
}

/// Runs a script in a plain shell.
fn run_plain(home: &Home, script: &str) -> RunResult {
    // Programs leave things in the temporary directory, and the machine's is not ours.
    let temporary = home.workspace().with_file_name("tmp");
    std::fs::create_dir_all(&temporary).expect("a folder");
    let mut command = Command::new("bash");
    home.prepare(&mut command).args(["-c", script]);
    command.env("PATH", search_path(home)).env("TMPDIR", temporary);
    RunResult::from_output(command.output().expect("the shell runs"))
}

/// Runs a script in a confined shell, in a session of its own.
fn run_confined(home: &Home, script: &str) -> RunResult {
    let input = json!({"command": script}).to_string();
    let mut command = home.command(&["--mode", "auto", "call", "bash", &input]);
    command.env("PATH", search_path(home));
    RunResult::from_output(command.output().expect("the binary runs"))
}

fn search_path(home: &Home) -> std::ffi::OsString {
    let mut path = home_of(home).join(".cargo/bin").into_os_string();
    path.push(":");
    path.push(system_path());
    path
}

fn home_of(home: &Home) -> PathBuf {
    home.workspace().parent().expect("a parent").join("home")
}

/// The files of the home directory but the state.
fn personal_files(home: &Home) -> Vec<String> {
    let mut files = files_below(&home_of(home));
    // Our own state, and the anchors of its journal.
    let own = [".local/state/", ".local/share/windlass/anchors/"];
    files.retain(|name| !own.iter().any(|place| name.starts_with(place)));
    files
}

/// The paths of all files and links below a directory, sorted.
fn files_below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                directories.push(entry.path());
            } else {
                let path = entry.path();
                let name = path.strip_prefix(root).expect("a path below").to_string_lossy();
                found.push(name.into_owned());
            }
        }
    }
    found.sort();
    found
}

/// Puts Rust's toolchain into a home directory, as rustup has it: the toolchain in `.rustup`, its programs in `.cargo/bin`.
pub(super) fn add_rust(home: &Path) {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(repository())
        .output()
        .expect("rustc runs");
    let sysroot = PathBuf::from(RunResult::from_output(output).stdout.trim());
    let toolchain = home.join(".rustup/toolchains/test");
    let is_needed = |name: &str| {
        let library = name.strip_prefix("lib/").unwrap_or_default();
        ["bin/cargo", "bin/rustc"].contains(&name)
            || (!library.is_empty() && !library.contains('/'))
            || library.strip_prefix("rustlib/").is_some_and(|rest| rest.contains("-linux-"))
    };
    for directory in ["bin", "lib"] {
        for name in files_below(&sysroot.join(directory)) {
            let name = format!("{directory}/{name}");
            if is_needed(&name) {
                link_or_copy(&sysroot.join(&name), &toolchain.join(&name));
            }
        }
    }
    let programs = home.join(".cargo/bin");
    std::fs::create_dir_all(&programs).expect("a folder");
    for program in ["cargo", "rustc"] {
        let target = format!("../../.rustup/toolchains/test/bin/{program}");
        std::os::unix::fs::symlink(target, programs.join(program)).expect("a link");
    }
}

/// A hard link where it can be made: toolchains are large.
pub(super) fn link_or_copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().expect("a parent")).expect("a folder");
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }
}
