//! A thousand random sessions. An undo of the session restores the tree exactly as it was before; an undo of that undo restores the tree as
//! the session had left it; undos of one call after the other restore each state on the way.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass::{Outcome, ToolCall, Undo};

use super::player::Player;
use crate::support::{Random, TestWorkspace, text};

/// Minimum number of sessions. `WINDLASS_SESSIONS` raises it.
const SESSIONS: u64 = 1_000;
/// Number of sessions that follow each other in one workspace.
const SESSIONS_PER_WORKSPACE: u64 = 8;
const CALLS: usize = 12;
const THREADS: usize = 4;
const SEED: u64 = 0x0005_E551_0115;

/// Returns the seed. `UNDO_SEED=0x5e5510115` selects other sessions, or repeats those of a failure.
fn seed() -> u64 {
    let Ok(given) = std::env::var("UNDO_SEED") else { return SEED };
    u64::from_str_radix(given.trim_start_matches("0x"), 16).expect("a hexadecimal number")
}

/// Returns the number of workspaces that are needed for all sessions.
fn workspaces() -> u64 {
    let given = std::env::var("WINDLASS_SESSIONS").ok();
    let given = given.map(|given| given.parse::<u64>().expect("WINDLASS_SESSIONS is a number"));
    given.map_or(SESSIONS, |given| given.max(SESSIONS)).div_ceil(SESSIONS_PER_WORKSPACE)
}

#[test]
fn un_1_un_5_full_undo_restores_the_exact_tree_in_1_000_sessions() {
    let (seed, next, workspaces) = (seed(), AtomicU64::new(0), workspaces());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.expect("a runtime");
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= workspaces {
                        break;
                    }
                    let report = SeedReport { seed: seed ^ number, next: &next };
                    runtime.block_on(play_sessions(report.seed));
                    drop(report);
                }
            });
        }
    });
}

/// Prints the seed if a check fails, and stops the other threads.
struct SeedReport<'n> {
    seed: u64,
    next: &'n AtomicU64,
}

impl Drop for SeedReport<'_> {
    #[expect(clippy::print_stderr, reason = "it is how a failing test is repeated")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {:#x}", self.seed);
            self.next.store(u64::MAX / 2, Ordering::Relaxed);
        }
    }
}

/// Plays sessions one after the other in one workspace, in which a person changes files between them.
async fn play_sessions(seed: u64) {
    let mut random = Random::new(seed);
    let mut test = create_workspace(&mut random);
    for _ in 0..SESSIONS_PER_WORKSPACE {
        change_as_other_process(&test, &mut random);
        let before = test.tree();
        let mut player = Player::new(&test, &mut random);
        player.play(CALLS).await;
        player.check_record();
        let (stack, session) = (std::mem::take(&mut player.stack), player.session.clone());
        let (log, after) = (player.failure_message("the session was not restored"), test.tree());
        if random.one_in(5) {
            test = test.restart();
        }
        if stack.is_empty() {
            before.assert_same(&after, &log);
            continue;
        }
        if random.one_in(2) {
            let undone = test.undo(Undo::Session(session.id().clone())).await;
            assert_eq!(undone.outcome, Outcome::Ok, "{}\n{log}", text(&undone));
            before.assert_same(&test.tree(), &log);
            let again = test.undo(Undo::Call(undone.call.clone())).await;
            assert_eq!(again.outcome, Outcome::Ok, "{}\n{log}", text(&again));
            after.assert_same(&test.tree(), &format!("the undo was not undone: {log}"));
            if random.one_in(2) {
                let undone = test.undo(Undo::Session(session.id().clone())).await;
                assert_eq!(undone.outcome, Outcome::Ok, "{}\n{log}", text(&undone));
                before.assert_same(&test.tree(), &format!("the second time: {log}"));
            }
        } else {
            let by_model = random.one_in(2);
            for (call, then) in stack.into_iter().rev() {
                let undone = if by_model {
                    let undo = ToolCall::new("undo", serde_json::json!({}));
                    test.windlass.call(&session, undo).await
                } else {
                    test.undo(Undo::Last).await
                };
                assert_eq!(undone.outcome, Outcome::Ok, "{}\n{log}", text(&undone));
                assert_eq!(undone.output.metadata["undone"], serde_json::json!([call]), "{log}");
                then.assert_same(&test.tree(), &format!("before {call}: {log}"));
            }
        }
    }
}

/// Creates a workspace with files and directories of many kinds.
fn create_workspace(random: &mut Random) -> TestWorkspace {
    // A disk reuses inode numbers, memory does not.
    let new = if random.one_in(5) { TestWorkspace::with } else { TestWorkspace::in_memory };
    let test = new(&[
        ("readme.md", "# Words\n\nSome of them\nare here\n"),
        ("src/main.rs", "fn main() {\n    work();\n}\n"),
        ("src/deep/er/lib.rs", "pub fn work() {}\n"),
        ("windows.txt", "one\r\ntwo\r\nthree\r\n"),
        ("mixed.txt", "one\r\ntwo\nthree"),
        ("empty", ""),
        ("bom.txt", "\u{feff}mark\n"),
        (".gitignore", "ignored/\n*.log\n"),
        ("ignored/file.log", "ignored\nall the same\n"),
        ("$'caf\\xe9.txt'", "its name is in Latin-1\n"),
        ("with space.txt", "a\nb\n"),
        ("hollow/", ""),
    ]);
    test.put("binary", [0, 159, 146, 150, 0, 255, 10, 13]);
    test.put("latin.txt", b"d\xe9j\xe0 vu, \xe0 l'\xe9t\xe9\nno\n");
    let script = test.path("script.sh");
    fs::write(&script, "#!/bin/sh\necho hi\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permissions");
    fs::write(test.path("twin"), "one file\nof two names\n").expect("a file");
    fs::hard_link(test.path("twin"), test.path("src/twin")).expect("a link");
    test.put("links/", "");
    symlink("../readme.md", test.path("links/file")).expect("a link");
    symlink("nowhere", test.path("links/dangling")).expect("a link");
    symlink("../src", test.path("links/directory")).expect("a link");
    let bytes: Vec<u8> = (0..random.below(5_000)).map(|_| random.byte()).collect();
    test.put("random.bin", bytes);
    // Times that no file has by chance.
    for name in ["readme.md", "twin", "binary", "src/main.rs"] {
        let file = fs::File::options().append(true).open(test.path(name)).expect("a file");
        let then = std::time::SystemTime::UNIX_EPOCH
            + std::time::Duration::new(1_000_000_000 + random.below(1_000_000) as u64, 123_456_789);
        file.set_modified(then).expect("a time");
    }
    test
}

/// Makes random changes as another process, between the sessions.
fn change_as_other_process(test: &TestWorkspace, random: &mut Random) {
    let tree = test.tree();
    let files: Vec<PathBuf> = tree.files();
    for _ in 0..random.below(4) {
        let Some(file) = random.pick(&files) else { continue };
        let path = test.workspace().join(&file);
        match random.below(4) {
            0 => drop(fs::remove_file(&path)),
            1 if path.exists() => fs::write(&path, "by a person\n").expect("a file"),
            2 if path.exists() => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).expect("permissions");
            }
            _ => test.put(&format!("person{}.txt", random.below(100)), "new\nby a person\n"),
        }
    }
}
