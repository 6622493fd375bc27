//! Batches of changes that wait for the disk once.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use windlass_core::{Alteration, Attributes, ContentSource, ExpectedState, Files, TargetState};

use super::{LOOKUPS, TestWorkspace, expect, place, read};

fn written<'a>(
    expect: ExpectedState,
    content: &'a [u8],
    attributes: Option<&'a Attributes>,
) -> Alteration<'a> {
    let to = TargetState::File { content: ContentSource::Bytes(content), attributes };
    Alteration { expect, to, temporary: Some(".windlass-c-0.tmp") }
}

/// Returns the mode of a new file for which no mode is given.
fn usual_mode() -> u32 {
    let ground = TestWorkspace::with(&[("plain", "")]);
    fs::metadata(ground.work("plain")).unwrap().mode() & 0o777
}

#[test]
fn prepared_content_is_not_written_again() {
    let usual = usual_mode();
    for lookup in LOOKUPS {
        for (target, attributes, mode) in [
            ("new", true, 0o640),
            ("new", false, usual),
            ("old", true, 0o600),
            ("old", false, 0o755),
        ] {
            let ground = TestWorkspace::with(&[("old", "old")]);
            fs::set_permissions(ground.work("old"), fs::Permissions::from_mode(0o755)).unwrap();
            let files = ground.files(lookup);
            let at = place(&files, target);
            let expect = expect(&files, &at);
            let batch = files.batch(&[]).unwrap().unwrap();
            let told = attributes.then(|| Attributes { mode: Some(mode), ..Attributes::default() });
            let prepared = batch.prepare(&at, &written(expect, b"new", told.as_ref())).unwrap();
            let prepared = prepared.unwrap();
            batch.sync_contents().unwrap();
            assert_eq!(read(&files, "old").unwrap(), "old", "nothing has happened yet");
            let number = fs::metadata(&prepared).unwrap().ino();
            let to = TargetState::File {
                content: ContentSource::At(&prepared),
                attributes: told.as_ref(),
            };
            let alteration = Alteration { expect, to, temporary: Some(".windlass-c-0.tmp") };
            batch.alter(&at, &alteration).unwrap();
            batch.sync_all().unwrap();
            let facts = fs::metadata(&at.path).unwrap();
            assert_eq!((facts.ino(), facts.mode() & 0o777), (number, mode));
            assert_eq!(read(&files, target).unwrap(), "new");
            let expected: &[&str] = if target == "new" { &["new", "old"] } else { &["old"] };
            assert_eq!(ground.names("work"), expected);
        }
    }
}

#[test]
fn file_in_missing_directory_is_not_prepared() {
    let ground = TestWorkspace::new();
    let files = ground.files(LOOKUPS[0]);
    let batch = files.batch(&[]).unwrap().unwrap();
    let at = place(&files, "not/yet");
    assert_eq!(batch.prepare(&at, &written(ExpectedState::Absent, b"x", None)).unwrap(), None);
    assert_eq!(ground.names("work"), [""; 0]);
}

#[test]
fn existing_temporary_name_is_not_overwritten() {
    let ground = TestWorkspace::with(&[(".windlass-c-0.tmp", "another's")]);
    let files = ground.files(LOOKUPS[0]);
    let batch = files.batch(&[]).unwrap().unwrap();
    let at = place(&files, "new");
    batch.prepare(&at, &written(ExpectedState::Absent, b"x", None)).unwrap_err();
    assert_eq!(read(&files, ".windlass-c-0.tmp").unwrap(), "another's");
    assert_eq!(ground.names("work"), [".windlass-c-0.tmp"]);
}

#[test]
fn removed_directories_do_not_fail_the_final_sync() {
    let ground = TestWorkspace::with(&[("a/b/c", "c")]);
    let files = ground.files(LOOKUPS[0]);
    let batch = files.batch(&[]).unwrap().unwrap();
    for path in ["a/b/c", "a/b", "a"] {
        let at = place(&files, path);
        let ExpectedState::Same(seen) = expect(&files, &at) else { panic!("{path} is not there") };
        let gone = Alteration {
            expect: ExpectedState::Same(seen),
            to: TargetState::Nothing,
            temporary: None,
        };
        batch.alter(&at, &gone).unwrap();
    }
    batch.sync_all().unwrap();
    assert_eq!(ground.names("work"), [""; 0]);
}
