//! Undo of commands that change many files, or files larger than the memory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;
use windlass::files::Durability;
use windlass::{Outcome, Undo};

use crate::support::{TestWorkspace, text};

/// A workspace whose commands work on a stage beside it, and whose changes are written to the disk.
fn test_workspace() -> TestWorkspace {
    TestWorkspace::outside_tmp(&[], |builder| builder.durability(Durability::Disk))
}

async fn run_command(test: &TestWorkspace, command: &str) {
    let done = test.call("bash", json!({"command": command})).await;
    assert_eq!(done.outcome, Outcome::Ok, "{command}: {}", text(&done));
}

/// Performs an undo that must work. Returns the undo of that undo.
async fn undo_ok(test: &TestWorkspace, what: Undo) -> Undo {
    let done = test.undo(what).await;
    assert_eq!(done.outcome, Outcome::Ok, "{}", text(&done));
    Undo::Call(done.call)
}

#[tokio::test]
async fn many_created_changed_and_removed_files_are_restored() {
    let test = test_workspace();
    for number in 0..200 {
        test.put(&format!("d{}/f{number}", number % 7), format!("content {number}\n"));
    }
    fs::hard_link(test.path("d0/f0"), test.path("d0/same")).unwrap();
    for command in [
        "for i in $(seq 150); do mkdir -p new/d$((i % 5)); echo new $i > new/d$((i % 5))/f$i; done",
        "for f in d[0-3]/f*; do echo more >> $f; done",
        "rm -r d1 d2 d3",
        "for f in d*/f*; do echo other > $f; chmod 600 $f; done; rm -r d4; mkdir d4; echo x > d4/x",
    ] {
        let before = test.tree();
        run_command(&test, command).await;
        let after = test.tree();
        assert!(before.describe_differences(&after).is_some(), "{command}");
        let mut what = Undo::Last;
        for expected in [&before, &after, &before] {
            what = undo_ok(&test, what).await;
            expected.assert_same(&test.tree(), command);
        }
    }
}

/// The sync to the disk must not follow a link that replaced a directory.
#[tokio::test]
async fn link_replaces_a_directory_that_a_command_moved_away() {
    for directories in [3, 30] {
        let test = test_workspace();
        for number in 0..60 {
            test.put(
                &format!("d/e{}/f{number}", number % directories),
                format!("content {number}\n"),
            );
        }
        for command in ["mv d D; ln -s D d", "mv D/e0 E; ln -s ../E D/e0; rm d; mv D d; ln -s d D"]
        {
            let before = test.tree();
            run_command(&test, command).await;
            let after = test.tree();
            assert!(before.describe_differences(&after).is_some(), "{command}");
            let mut what = Undo::Last;
            for expected in [&before, &after] {
                what = undo_ok(&test, what).await;
                expected.assert_same(&test.tree(), command);
            }
        }
    }
}

/// Each new hard link changes the ctime of the file; all of them take longer than a tick of the clock for ctimes.
#[tokio::test]
async fn new_file_with_many_hard_links_is_undone_and_restored() {
    let test = test_workspace();
    test.put("old", "old\n");
    for command in [
        "echo new > new; for i in $(seq 40); do ln new n$i; done",
        "echo more >> old; for i in $(seq 40); do ln old o$i; done",
    ] {
        let before = test.tree();
        run_command(&test, command).await;
        let after = test.tree();
        let mut what = Undo::Last;
        for expected in [&before, &after] {
            what = undo_ok(&test, what).await;
            expected.assert_same(&test.tree(), command);
        }
    }
}

/// Maps each file below a directory, by relative path, to its inode.
fn inodes(directory: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = PathBuf::from(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            let below = inodes(&entry.path()).into_iter();
            found.extend(below.map(|(path, inode)| (name.join(path), inode)));
        } else {
            found.insert(name, entry.metadata().unwrap().ino());
        }
    }
    found
}

/// A build directory has no history, but its new path after a move has one: an undo must not remove the only copy.
#[tokio::test]
async fn build_directory_that_a_command_moved_away_is_moved_back() {
    let test = test_workspace();
    test.put(".gitignore", "node_modules\n");
    for number in 0..100 {
        let path = format!("node_modules/d{}/f{number}", number % 5);
        test.put(&path, format!("content {number:03}\n"));
    }
    fs::create_dir(test.path("node_modules/empty")).unwrap();
    std::os::unix::fs::symlink("../d1/f1", test.path("node_modules/d0/link")).unwrap();
    for (command, to) in [
        ("mv node_modules x", "x"),
        ("mkdir y; mv node_modules y/z; echo more >> y/z/d1/f1; rm y/z/d2/f2", "y/z"),
        ("cp -a node_modules x; rm -rf node_modules", "x"),
    ] {
        let before = test.tree();
        run_command(&test, command).await;
        assert!(!test.path("node_modules").exists() && test.path(to).exists(), "{command}");
        let after = test.tree();
        let mut what = Undo::Last;
        for expected in [&before, &after, &before] {
            what = undo_ok(&test, what).await;
            expected.assert_same(&test.tree(), command);
        }
    }
    run_command(&test, "rm -rf node_modules; touch new").await;
    undo_ok(&test, Undo::Last).await;
    assert!(!test.path("node_modules").exists(), "what is only removed has no history");
}

#[tokio::test]
async fn moved_files_keep_their_inodes() {
    let test = test_workspace();
    for number in 0..100 {
        // Some have the same name, length and time, and differ in their content alone.
        let path = format!("old/d{}/f{}", number % 5, number / 5);
        test.put(&path, format!("content {number:03}\n"));
        let file = fs::File::options().write(true).open(test.path(&path)).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + number % 2);
        file.set_modified(time).unwrap();
    }
    fs::create_dir(test.path("old/empty")).unwrap();
    for (command, from, to) in [
        ("mv old new", "old", "new"),
        ("mkdir -p a/b; mv new a/b/c; chmod 555 a", "new", "a/b/c"),
        ("mv a/b/c/d0 a/b/c/d9; mv a/b/c/d1 a/b/c/d8; mv a/b/c x; chmod 500 x/d9", "a/b/c", "x"),
    ] {
        let (before, kept) = (test.tree(), inodes(&test.path(from)));
        run_command(&test, command).await;
        assert!(!test.path(from).exists(), "{command}");
        let (after, moved) = (test.tree(), inodes(&test.path(to)));
        let mut both = [&kept, &moved].map(|all| all.values().copied().collect::<Vec<_>>());
        for all in &mut both {
            all.sort_unstable();
        }
        assert_eq!(both[0], both[1], "{command}");
        let mut what = Undo::Last;
        for (expected, at, files) in [(&before, from, &kept), (&after, to, &moved)] {
            what = undo_ok(&test, what).await;
            expected.assert_same(&test.tree(), command);
            assert_eq!(inodes(&test.path(at)), *files, "{command}");
        }
    }
}

/// Maps a directory and each directory below it, by relative path, to its inode.
fn directories(directory: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::from([(PathBuf::new(), fs::metadata(directory).unwrap().ino())]);
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            let name = PathBuf::from(entry.file_name());
            let below = directories(&entry.path()).into_iter();
            found.extend(below.map(|(path, inode)| (name.join(path), inode)));
        }
    }
    found
}

#[tokio::test]
async fn wholly_moved_directories_keep_their_inodes() {
    let test = test_workspace();
    for number in 0..100 {
        test.put(&format!("old/d{}/e/f{number}", number % 5), format!("content {number:03}\n"));
    }
    fs::set_permissions(test.path("old/d1"), fs::Permissions::from_mode(0o750)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    fs::File::open(test.path("old/d2")).unwrap().set_modified(time).unwrap();
    for (command, from, to) in [
        ("mv old new", "old", "new"),
        ("mkdir -p a/b; mv new a/b/c; echo more > a/b/c/d3/more", "new", "a/b/c"),
        ("mv a/b/c x; rmdir a/b a; rm x/d3/more", "a/b/c", "x"),
    ] {
        let (before, kept) = (test.tree(), directories(&test.path(from)));
        run_command(&test, command).await;
        assert!(!test.path(from).exists(), "{command}");
        assert_eq!(directories(&test.path(to)), kept, "{command}");
        let after = test.tree();
        let mut what = Undo::Last;
        for (expected, at) in [(&before, from), (&after, to), (&before, from), (&after, to)] {
            what = undo_ok(&test, what).await;
            expected.assert_same(&test.tree(), command);
            assert_eq!(directories(&test.path(at)), kept, "{command}");
        }
    }
    let modified = fs::metadata(test.path("x/d2")).unwrap().modified().unwrap();
    assert_eq!(modified, time, "a move is no change of a directory");
}

/// Returns the changes that move the directory `old`, with two files and a directory in it, to `new`.
fn move_changes() -> Vec<serde_json::Value> {
    let moved = |path: &str| json!({"path": format!("new/{path}"), "to": "moved", "from": format!("old/{path}")});
    vec![
        json!({"path": "new", "to": "directory"}),
        moved("f"),
        json!({"path": "new/sub", "to": "directory"}),
        moved("sub/g"),
        json!({"path": "old/sub", "to": "nothing"}),
        json!({"path": "old", "to": "nothing"}),
    ]
}

#[tokio::test]
async fn a_directory_is_moved_whole_only_if_all_in_it_is_moved() {
    let file = |path| json!({"path": path, "to": "file", "content": "made"});
    for (extra, more, is_made, why) in [
        (None, None, true, "all of it"),
        (Some("old/extra"), None, false, "another process has put something there"),
        (Some("old/sub/extra"), None, false, "or below it"),
        (Some("new/extra"), None, false, "there is one of the new name"),
        (None, Some((6, file("new/made"))), true, "something new in it"),
        (None, Some((1, file("there"))), false, "a step fails right after"),
        (None, Some((6, file("there"))), false, "a step fails in the end"),
    ] {
        let test = test_workspace();
        test.put("old/f", "f");
        test.put("old/sub/g", "g");
        if let Some(path) = extra {
            test.put(path, "of another");
        }
        let (before, kept) = (test.tree(), directories(&test.path("old")));
        let mut changes = move_changes();
        if let Some((at, change)) = more {
            // At the second round, the target exists already.
            let is_twice = change["path"] == "there";
            changes.insert(at, change.clone());
            if is_twice {
                changes.insert(at, change);
            }
        }
        if extra == Some("new/extra") {
            changes[0]["unseen"] = json!(true);
        }
        let input = json!({"changes": changes});
        if is_made {
            let done = test.call("delta", input).await;
            assert_eq!(done.outcome, Outcome::Ok, "{why}: {}", text(&done));
            assert_eq!(directories(&test.path("new")), kept, "{why}");
            undo_ok(&test, Undo::Last).await;
            assert_eq!(directories(&test.path("old")), kept, "{why}");
        } else {
            let said = test.call_refused("delta", input).await;
            assert!(said.contains("nothing is changed"), "{why}: {said}");
        }
        before.assert_same(&test.tree(), why);
    }
}

#[tokio::test]
async fn replaced_file_is_not_moved() {
    let test = test_workspace();
    for command in [
        "cp -p old new; rm old; printf CONTENT > new; touch -r keep new",
        "mv old new; chmod 600 new",
        "mv old new; touch -d 2001-01-01 new",
        "mv old new; ln new other",
        "mkdir d; mv old d/new; mv d old",
        "mv old new; mkdir old; mv new old/old",
        "mkdir -p d/d; mv old d/d/f; mv d/d/f e; rm -r d; mv e d",
    ] {
        for name in ["old", "keep"] {
            test.put(name, "content");
            let file = fs::File::options().write(true).open(test.path(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
        }
        let before = test.tree();
        run_command(&test, command).await;
        let after = test.tree();
        let again = undo_ok(&test, Undo::Last).await;
        before.assert_same(&test.tree(), command);
        let back = undo_ok(&test, again).await;
        after.assert_same(&test.tree(), command);
        undo_ok(&test, back).await;
        before.assert_same(&test.tree(), command);
    }
}

#[tokio::test]
async fn many_files_on_another_file_system_are_restored() {
    let test = TestWorkspace::in_memory(&[]);
    for number in 0..100 {
        test.put(&format!("d/f{number}"), format!("content {number}\n"));
    }
    let before = test.tree();
    run_command(&test, "rm -r d; mkdir e; for i in $(seq 100); do echo $i > e/$i; done").await;
    undo_ok(&test, Undo::Last).await;
    before.assert_same(&test.tree(), "taken back");
}

#[tokio::test]
async fn many_changes_of_which_one_fails_leave_nothing_behind() {
    let test = test_workspace();
    for number in 0..100 {
        test.put(&format!("old/{number}"), format!("content {number}\n"));
    }
    let changed =
        |number| json!({"path": format!("old/{number}"), "to": "file", "content": "other"});
    let made = |number| {
        let path = format!("new/{}/{number}", number % 3);
        json!({"path": path, "to": "file", "content": "new", "mode": 0o640})
    };
    let mut changes: Vec<_> = (0..100).map(changed).chain((0..100).map(made)).collect();
    // At its second round, the target exists already.
    for at in [120, 150] {
        changes.insert(at, json!({"path": "twice", "to": "file", "content": "never"}));
    }
    let said = test.call_refused("delta", json!({"changes": changes})).await;
    assert!(said.contains("nothing is changed"), "{said}");
}

const GIB: u64 = 1 << 30;

/// Creates a sparse file of 200 GiB with these bytes at these offsets.
fn put_sparse(path: &Path, data: &[(u64, &[u8])]) {
    let file = fs::File::create(path).unwrap();
    file.set_len(200 * GIB).unwrap();
    for (at, bytes) in data {
        file.write_all_at(bytes, *at).unwrap();
    }
}

fn assert_sparse(path: &Path, data: &[(u64, &[u8])]) {
    let file = fs::File::open(path).unwrap();
    let facts = file.metadata().unwrap();
    assert_eq!(facts.len(), 200 * GIB);
    // The kernel copies a file of a lower layer up in pieces of several MiB.
    assert!(facts.blocks() * 512 < 16 << 20, "it takes {} blocks", facts.blocks());
    for (at, bytes) in data {
        let mut found = vec![0; bytes.len()];
        file.read_exact_at(&mut found, *at).unwrap();
        assert_eq!(found, *bytes);
    }
}

#[tokio::test]
async fn sparse_file_of_200_gib_takes_only_the_space_of_its_data() {
    let test = test_workspace();
    let old: &[(u64, &[u8])] = &[(0, b"begin"), (100 * GIB + 7, b"middle")];
    put_sparse(&test.path("old"), old);
    put_sparse(&test.path("linked"), old);
    fs::hard_link(test.path("linked"), test.path("other")).unwrap();

    run_command(
        &test,
        "truncate -s 200G new; printf data | dd of=new bs=1 seek=5G conv=notrunc status=none",
    )
    .await;
    assert_sparse(&test.path("new"), &[(5 * GIB, b"data")]);
    let again = undo_ok(&test, Undo::Last).await;
    assert!(!test.path("new").exists());
    undo_ok(&test, again).await;
    assert_sparse(&test.path("new"), &[(5 * GIB, b"data")]);

    run_command(&test, "rm old").await;
    undo_ok(&test, Undo::Last).await;
    assert_sparse(&test.path("old"), old);

    run_command(&test, "printf BEGIN | dd of=linked bs=1 conv=notrunc status=none").await;
    assert_sparse(&test.path("linked"), &[(0, b"BEGIN")]);
    undo_ok(&test, Undo::Last).await;
    assert_sparse(&test.path("linked"), old);
}
