//! Many files, and files that are larger than any memory: what a command did to them, there and back.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use serde_json::json;
use windlass::{Durability, Outcome, Undo};

use crate::support::{Place, text};

/// A place whose programs work on a stage beside the workspace, and whose changes wait for the disk.
fn place() -> Place {
    Place::in_sight(&[], |builder| builder.durability(Durability::Disk))
}

async fn run(place: &Place, command: &str) {
    let done = place.call("bash", json!({"command": command})).await;
    assert_eq!(done.outcome, Outcome::Ok, "{command}: {}", text(&done));
}

/// Takes the last call back, and that again.
async fn undo(place: &Place, what: Undo) -> Undo {
    let done = place.undo(what).await;
    assert_eq!(done.outcome, Outcome::Ok, "{}", text(&done));
    Undo::Call(done.call)
}

#[tokio::test]
async fn many_files_that_a_command_made_changed_and_removed_come_back() {
    let place = place();
    for number in 0..200 {
        place.put(&format!("d{}/f{number}", number % 7), format!("content {number}\n"));
    }
    fs::hard_link(place.path("d0/f0"), place.path("d0/same")).unwrap();
    for command in [
        "for i in $(seq 150); do mkdir -p new/d$((i % 5)); echo new $i > new/d$((i % 5))/f$i; done",
        "for f in d[0-3]/f*; do echo more >> $f; done",
        "rm -r d1 d2 d3",
        "for f in d*/f*; do echo other > $f; chmod 600 $f; done; rm -r d4; mkdir d4; echo x > d4/x",
    ] {
        let before = place.tree();
        run(&place, command).await;
        let after = place.tree();
        assert!(before.difference(&after).is_some(), "{command}");
        let mut what = Undo::Last;
        for expected in [&before, &after, &before] {
            what = undo(&place, what).await;
            expected.assert_is(&place.tree(), command);
        }
    }
}

#[tokio::test]
async fn many_files_on_another_file_system_come_back() {
    let place = Place::in_memory(&[]);
    for number in 0..100 {
        place.put(&format!("d/f{number}"), format!("content {number}\n"));
    }
    let before = place.tree();
    run(&place, "rm -r d; mkdir e; for i in $(seq 100); do echo $i > e/$i; done").await;
    undo(&place, Undo::Last).await;
    before.assert_is(&place.tree(), "taken back");
}

#[tokio::test]
async fn many_changes_of_which_one_fails_leave_nothing_behind() {
    let place = place();
    for number in 0..100 {
        place.put(&format!("old/{number}"), format!("content {number}\n"));
    }
    let changed =
        |number| json!({"path": format!("old/{number}"), "to": "file", "content": "other"});
    let made = |number| {
        let path = format!("new/{}/{number}", number % 3);
        json!({"path": path, "to": "file", "content": "new", "mode": 0o640})
    };
    let mut changes: Vec<_> = (0..100).map(changed).chain((0..100).map(made)).collect();
    // At its second turn something is there already.
    for at in [120, 150] {
        changes.insert(at, json!({"path": "twice", "to": "file", "content": "never"}));
    }
    let said = place.refused("delta", json!({"changes": changes})).await;
    assert!(said.contains("nothing is changed"), "{said}");
}

const GIB: u64 = 1 << 30;

/// Makes a sparse file of 200 GiB with a few bytes at these places.
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
async fn a_sparse_file_of_200_gib_costs_what_its_data_costs() {
    let place = place();
    let old: &[(u64, &[u8])] = &[(0, b"begin"), (100 * GIB + 7, b"middle")];
    put_sparse(&place.path("old"), old);
    put_sparse(&place.path("linked"), old);
    fs::hard_link(place.path("linked"), place.path("other")).unwrap();

    run(
        &place,
        "truncate -s 200G new; printf data | dd of=new bs=1 seek=5G conv=notrunc status=none",
    )
    .await;
    assert_sparse(&place.path("new"), &[(5 * GIB, b"data")]);
    let again = undo(&place, Undo::Last).await;
    assert!(!place.path("new").exists());
    undo(&place, again).await;
    assert_sparse(&place.path("new"), &[(5 * GIB, b"data")]);

    run(&place, "rm old").await;
    undo(&place, Undo::Last).await;
    assert_sparse(&place.path("old"), old);

    run(&place, "printf BEGIN | dd of=linked bs=1 conv=notrunc status=none").await;
    assert_sparse(&place.path("linked"), &[(0, b"BEGIN")]);
    undo(&place, Undo::Last).await;
    assert_sparse(&place.path("linked"), old);
}
