//! Commands that write more than their quota.

use windlass_core::{Confinement, ProcessEnd, Processes as _, SandboxLevel};

use super::processes::ProcessTestWorkspace;
use crate::ProcessSettings;

const QUOTA: u64 = 8 << 20;

fn ground() -> ProcessTestWorkspace {
    ProcessTestWorkspace::with(ProcessSettings {
        confinement: Confinement { level: SandboxLevel::Workspace, ..Confinement::default() },
        disk: Some(QUOTA),
        ..ProcessSettings::default()
    })
}

/// Each script would run for longer than the test waits.
#[test]
fn a_command_that_uses_too_much_disk_is_ended() {
    for script in [
        "head -c 32M /dev/zero > big; sleep 100",
        "for i in {1..64}; do head -c 512K /dev/zero > small-$i; done; sleep 100",
        "exec 7> gone; rm gone; head -c 32M /dev/zero >&7; sleep 100",
        "mkdir closed; head -c 32M /dev/zero > closed/big; chmod 0 closed; sleep 100",
        "while :; do head -c 1M /dev/zero >> big; done",
    ] {
        let ground = ground();
        let (end, _, changes) = ground.shell(script);
        assert_eq!(end, ProcessEnd::OutOfDisk(QUOTA), "{script}");
        assert_eq!(changes, <[String; 0]>::default(), "{script}");
        let stages = ground.directory.path().join("state/stages");
        let left: Vec<_> = std::fs::read_dir(stages).unwrap().flatten().collect();
        assert!(left.is_empty(), "{script}: {left:?}");
    }
}

/// The command runs for long enough that its disk use is measured twice.
#[test]
fn command_below_its_quota_is_not_ended() {
    let ground = ground();
    let (end, _, changes) =
        ground.shell("head -c 1M /dev/zero > small; truncate -s 1G sparse; sleep 2.5");
    assert_eq!(end, ProcessEnd::Exited(0));
    assert_eq!(changes.len(), 2, "{changes:?}");
}

#[test]
fn end_and_notes_name_the_quota() {
    let ground = ground();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = ground.request("head -c 32M /dev/zero > big; sleep 100");
    runtime.block_on(async {
        let process = ground.processes.start(&request).unwrap();
        let end = process.ended().await;
        assert_eq!(end.to_string(), "ended because it used more than 8 MiB of disk");
        let notes = process.changes().unwrap().notes;
        assert!(notes.contains(&"what the command changed was dropped".to_owned()), "{notes:?}");
    });
}
