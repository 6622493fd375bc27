//! Random sessions of commands with hard links, extended attributes, moved directories, build directories and jobs. Undo restores the
//! exact tree except for build directories. If run by root, the tests run once more as an ordinary user.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use windlass::{Outcome, Undo};
use windlass_core::{CallId, Checkpoint, CheckpointQuery};

use crate::support::{Random, TestWorkspace, Tree, text};

const SEED: u64 = 0x0C03_3A4D;
/// Number of sessions. `WINDLASS_SESSIONS` overrides it; `UNDO_SEED=0x…` selects other sessions.
const SESSIONS: u64 = 6;
const COMMANDS: usize = 7;
/// User and group id of an account without rights.
const UNPRIVILEGED_ID: u32 = 65_534;

#[tokio::test]
async fn un_1_random_commands() {
    let seed = number_from_env("UNDO_SEED", 16).unwrap_or(SEED);
    for number in 0..number_from_env("WINDLASS_SESSIONS", 10).unwrap_or(SESSIONS) {
        play(seed ^ number).await;
    }
}

/// Parses a number from an environment variable.
fn number_from_env(name: &str, radix: u32) -> Option<u64> {
    let number_from_env = std::env::var(name).ok()?;
    Some(u64::from_str_radix(number_from_env.trim_start_matches("0x"), radix).expect("a number"))
}

/// Runs one random session of commands and checks its undo.
async fn play(seed: u64) {
    let (test, mut random) = (create_workspace(), Random::new(seed));
    let mut session = CommandSession::new(&test, format!("seed {seed:#x}"));
    for _ in 0..COMMANDS {
        // A job works on the real workspace, so its files are visible while it runs; undo does not know them.
        let is_job = random.one_in(4);
        let command = if is_job {
            build_script(&mut random)
        } else {
            command(&mut random, &compared_tree(&test))
        };
        session.run(&command, is_job).await;
    }
    session.check().await;
}

/// Sessions for which undo was wrong once.
#[tokio::test]
async fn un_1_commands_that_undo_once_got_wrong() {
    let set_attribute = |name: &str| {
        format!("python3 -c 'import os; os.setxattr(\"{name}\", \"user.new\", b\"1\")'")
    };
    for commands in [
        &["ln a.txt new", &set_attribute("a.txt"), "touch -d 2001-01-01 d/twin"][..],
        &["ln -f d/deep/e.txt d/twin", "rm -r d; ln -s a.txt d"],
        // A directory of moved files takes the place of a file or of a link.
        &["rm b.txt; mkdir b.txt; mv f/g.txt b.txt"],
        &["rm b.txt; mkdir -p b.txt/in; mv f/g.txt b.txt/in; echo x > b.txt/x"],
        &["rm b.txt; mkdir b.txt; mv f/g.txt b.txt; chmod 555 b.txt"],
        &["rm b.txt; mv f b.txt", "mv b.txt/g.txt g; echo more >> g"],
        &["rm b.txt; mv d b.txt; rm -r f; ln -s b.txt f"],
        &["rm link; mv d link"],
        &["rm a.txt; mkdir a.txt; mv f/g.txt a.txt; ln a.txt/g.txt new"],
        &["rm a.txt d/twin; mkdir a.txt; mv f/g.txt a.txt"],
        &["rm a.txt d/twin; mkdir a.txt d/twin; mv f/g.txt a.txt; mv b.txt d/twin"],
    ] {
        let test = create_workspace();
        let mut session = CommandSession::new(&test, String::new());
        for command in commands {
            session.run(command, false).await;
        }
        session.check().await;
    }
}

/// A change that a command of a session made.
enum Change {
    /// Has a history; the tree before it.
    Recorded(Tree),
    /// A change of build directories only, or by a job: undo skips it.
    WithoutHistory,
}

/// A session of commands, and the changes that they made.
struct CommandSession<'p> {
    test: &'p TestWorkspace,
    before: Tree,
    stack: Vec<Change>,
    log: Vec<String>,
}

impl<'p> CommandSession<'p> {
    fn new(test: &'p TestWorkspace, title: String) -> Self {
        Self { test, before: compared_tree(test), stack: Vec::new(), log: vec![title] }
    }

    async fn run(&mut self, command: &str, is_job: bool) {
        let (then, whole) = (compared_tree(self.test), self.test.tree());
        let input = json!({"command": command, "background": is_job});
        let done = self.test.call_ok("bash", input).await;
        if is_job {
            for job in self.test.session.all_jobs() {
                let end = job.wait().await;
                assert!(end.changed.is_ok(), "{command}: {:?}", end.changed);
            }
        }
        let how = if is_job { "job" } else { "call" };
        self.log.push(format!("{how} {} {command}", done.call));
        let is_changed = then.describe_differences(&compared_tree(self.test)).is_some();
        if is_changed || self.is_recorded(&done.call) == Some(true) {
            self.stack.push(Change::Recorded(then));
        } else if self.is_recorded(&done.call) == Some(false) {
            self.stack.push(Change::WithoutHistory);
        } else {
            // Changes of a job in a build directory are not recorded.
            assert!(
                is_job || whole.describe_differences(&self.test.tree()).is_none(),
                "{:?}",
                self.log
            );
        }
    }

    /// Returns whether the changes of a call have a history; `None` if the call has no checkpoint.
    fn is_recorded(&self, call: &CallId) -> Option<bool> {
        let history = self.test.windlass.history();
        let recorded =
            history.checkpoints(&CheckpointQuery::Call(call.clone())).expect("a history");
        let has_changes = |one: &Checkpoint| !one.changes.is_empty();
        (!recorded.is_empty()).then(|| recorded.iter().any(has_changes))
    }

    /// Undoes the whole session, undoes that undo, and then undoes call by call; compares the tree each time.
    async fn check(self) {
        let Self { test, before, stack, log } = self;
        let (log, after) = (log.join("\n"), compared_tree(test));
        let is_recorded = |change: &Change| matches!(change, Change::Recorded(_));
        if !stack.iter().any(is_recorded) {
            return;
        }
        let undone = test.undo(Undo::Session(test.session.id().clone())).await;
        assert_eq!(undone.outcome, Outcome::Ok, "{}\n{log}", text(&undone));
        before.assert_same(&compared_tree(test), &format!("{}\n{log}", text(&undone)));
        let again = test.undo(Undo::Call(undone.call)).await;
        assert_eq!(again.outcome, Outcome::Ok, "{}\n{log}", text(&again));
        after.assert_same(&compared_tree(test), &format!("the undo was not undone:\n{log}"));
        for change in stack.into_iter().rev() {
            // Undo skips it: the undo of the change before names it.
            let Change::Recorded(then) = change else { continue };
            let undone = test.undo(Undo::Last).await;
            assert_eq!(undone.outcome, Outcome::Ok, "{}\n{log}", text(&undone));
            then.assert_same(
                &compared_tree(test),
                &format!("one by one, {}:\n{log}", text(&undone)),
            );
        }
    }
}

fn create_workspace() -> TestWorkspace {
    let test = TestWorkspace::with(&[
        (".gitignore", "target/\n"),
        ("a.txt", "a\n"),
        ("b.txt", "b\n"),
        ("d/c.txt", "c\n"),
        ("d/deep/e.txt", "e\n"),
        ("f/g.txt", "g\n"),
        ("target/debug/old", "old\n"),
    ]);
    std::fs::hard_link(test.path("a.txt"), test.path("d/twin")).expect("a link");
    std::os::unix::fs::symlink("a.txt", test.path("link")).expect("a link");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(test.path("b.txt"), "user.old", b"1", flags).expect("an attribute");
    test
}

fn compared_tree(test: &TestWorkspace) -> Tree {
    test.tree().without("target".as_ref())
}

/// Returns the script of a job, which writes to the build directory.
fn build_script(random: &mut Random) -> String {
    let number = random.below(1_000);
    format!("mkdir -p target/debug; cat a.txt link > target/debug/j{number}; echo built || true")
}

/// Returns a random command that uses names of the tree.
fn command(random: &mut Random, compared_tree: &Tree) -> String {
    let all: Vec<PathBuf> = [compared_tree.files(), compared_tree.directories()].concat();
    let files: Vec<PathBuf> =
        compared_tree.files().into_iter().filter(|file| !file.starts_with(".git")).collect();
    let mut file = || random.pick(&files).map_or("a.txt".into(), |file| file.display().to_string());
    let (one, other) = (file(), file());
    let directory = random
        .pick(&compared_tree.directories())
        .map_or("d".into(), |one| one.display().to_string());
    let mut new = format!("n{}", random.below(1_000));
    while all.iter().any(|path| path.as_os_str() == new.as_str()) {
        new.push('x');
    }
    let python = |text: &str| format!("python3 -c 'import os; {text}'");
    // The first file or directory that the build directory has then.
    let built = "\"$(ls -d target/debug/* target/* | head -n 1)\"";
    let done = match random.below(19) {
        0 => format!("ln {one} {new}"),
        1 => format!("ln -f {one} {other}"),
        2 => python(&format!("os.setxattr(\"{one}\", \"user.new\", b\"{new}\")")),
        3 => python("os.removexattr(\"b.txt\", \"user.old\")"),
        4 => format!("mv {directory} {new}"),
        5 => format!("mv {one} {new}"),
        6 => format!("rm -r {directory}"),
        7 => format!("echo {new} >> {one}; ln {one} {new}"),
        8 => format!("rm -r {directory}; ln -s {other} {directory}"),
        9 => format!("rm {one}; mkdir {one}; echo x > {one}/{new}"),
        10 => format!("mkdir {new}; echo x > {new}/x; ln {new}/x {new}/y; chmod 555 {new}"),
        11 => format!("mkdir -p target/debug; echo {new} > target/debug/{new}; cp {one} {new}"),
        12 => format!("chmod 640 {one}; touch -d 2001-01-01 {other}"),
        13 => format!("mv {built} {new}"),
        14 => format!("mv {one} target/{new}"),
        15 => format!("rm {one}; mkdir {one}; mv {other} {one}"),
        16 => format!("rm {one}; mv {directory} {one}"),
        17 => format!("mv {directory} {new}; ln -s {new} {directory}"),
        _ => format!("rm -rf target; mkdir target; echo x > target/{new}; echo {new} > {one}"),
    };
    // A command may fail, for example because both names are of one file.
    format!("{done} || true")
}

/// Runs the tests again as an ordinary user, if this is root.
#[test]
fn un_1_commands_of_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let program = std::env::current_exe().expect("the test program");
    for directory in program.ancestors().skip(1) {
        let mode = std::fs::metadata(directory).expect("a directory").mode();
        assert!(mode & 1 == 1, "{} must be open to others", directory.display());
    }
    let base = tempfile::tempdir().expect("a folder");
    chown(base.path(), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).expect("another owner");
    let mut command = Command::new("setpriv");
    command.args([
        &format!("--reuid={UNPRIVILEGED_ID}"),
        &format!("--regid={UNPRIVILEGED_ID}"),
        "--clear-groups",
    ]);
    command.arg(program).args(["--exact", "undo::commands::un_1_random_commands"]);
    command.arg("undo::commands::un_1_commands_that_undo_once_got_wrong");
    command.arg("undo::kinds::un_1_changes_of_commands_are_undone").env("TMPDIR", base.path());
    command.arg("undo::kinds::un_1_a_file_that_its_owner_cannot_read");
    let ran = command.env("HOME", base.path()).output().expect("setpriv, of util-linux");
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("4 passed"), "{said}");
}

#[tokio::test]
async fn time_that_a_command_gives_a_link_is_committed_and_undone() {
    const TIME: i64 = 1_000_000_000;
    for (link, command) in [
        ("link", ""),
        ("link", "ln -sfn b.txt link"),
        ("d/new", "ln -s nowhere d/new"),
        ("a.txt", "rm a.txt; ln -s b.txt a.txt"),
        ("d", "rm -r d; ln -s f d"),
        ("moved", "mv link moved"),
    ] {
        let test = create_workspace();
        let before = test.tree();
        let command = format!("{command}\ntouch -h -d @{TIME} {link}");
        let done = test.call("bash", json!({"command": command})).await;
        assert_eq!(done.outcome, Outcome::Ok, "{command}: {}", text(&done));
        let facts = std::fs::symlink_metadata(test.path(link)).expect("a link");
        assert_eq!((facts.is_symlink(), facts.mtime()), (true, TIME), "{command}");
        let after = test.tree();
        let mut what = Undo::Last;
        for expected in [&before, &after, &before] {
            let undone = test.undo(what).await;
            assert_eq!(undone.outcome, Outcome::Ok, "{command}: {}", text(&undone));
            expected.assert_same(&test.tree(), &command);
            what = Undo::Call(undone.call);
        }
    }
}
