//! Another process swaps a directory for a link to the outside, as fast as it can, while we read and write in it.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use windlass_core::{ExpectedState, FileError, Files, Walk};

use super::walk::visit_all;
use super::{LOOKUPS, TestWorkspace, alter, file};
use crate::LocalFiles;
use crate::kernel::Lookup;

#[test]
fn swapped_directory_never_leads_outside() {
    let racer = TestWorkspace::new();
    let program = racer.path("swap_race");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/swap_race.c");
    let compiled = Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(source).status();
    assert!(compiled.expect("this test needs a C compiler, `cc`").success());
    for lookup in LOOKUPS {
        run(&program, lookup);
    }
}

fn run(program: &Path, lookup: Lookup) {
    let ground = TestWorkspace::with(&[("sub/f", "inside")]);
    ground.put("outside/f", "OUTSIDE");
    ground.link(ground.path("outside"), "evil");
    let files = ground.files(lookup);
    // The program ends at a full second of the clock: 2 is at least one second, 1 may be no time at all.
    let mut swapping =
        Command::new(program).arg(ground.path("")).arg("2").stdout(Stdio::null()).spawn().unwrap();
    let mut seen = RaceCounts::default();
    while is_running(&mut swapping) {
        // Many reads per write, because a write waits for the disk and a read does not.
        (0..50).for_each(|_| try_to_read(&files, &mut seen));
        try_to_write(&files, &mut seen);
        try_to_walk(&files);
    }
    // Shows that there was a race: reads met both the directory and the link.
    assert!(seen.read > 0 && seen.outside + seen.failed > 0, "{seen:?}");
    assert_eq!(fs::read_to_string(ground.path("outside/f")).unwrap(), "OUTSIDE");
    assert_eq!(ground.names("outside"), ["f"]);
}

#[derive(Debug, Default)]
struct RaceCounts {
    read: usize,
    written: usize,
    outside: usize,
    failed: usize,
}

fn is_running(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

fn try_to_read(files: &LocalFiles, seen: &mut RaceCounts) {
    let Ok(path) = files.resolve(Path::new("sub/f")) else { return seen.failed += 1 };
    if path.inside.is_none() {
        // Policy would see a path outside the workspace, and refuse or ask.
        return seen.outside += 1;
    }
    let Ok(mut opened) = files.open(&path) else { return seen.failed += 1 };
    let mut text = String::new();
    opened.file.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("inside"), "read {text:?} by {path:?}");
    seen.read += 1;
}

fn try_to_write(files: &LocalFiles, seen: &mut RaceCounts) {
    match write(files, seen.written) {
        Ok(true) => seen.written += 1,
        Ok(false) => seen.outside += 1,
        Err(_) => seen.failed += 1,
    }
}

fn write(files: &LocalFiles, number: usize) -> Result<bool, FileError> {
    let path = files.resolve(Path::new("sub/f"))?;
    if path.inside.is_none() {
        return Ok(false);
    }
    let expect = match files.stat(&path) {
        Ok(stat) => ExpectedState::Same(stat.fingerprint),
        Err(_) => ExpectedState::Absent,
    };
    let content = format!("inside {number}");
    alter(files, &path, expect, file(content.as_bytes(), None))?;
    Ok(true)
}

fn try_to_walk(files: &LocalFiles) {
    let root = files.resolve(Path::new("")).unwrap();
    let walked = visit_all(files, &root, |entry| {
        let mut text = String::new();
        if let Ok(mut opened) = entry.opener.open() {
            opened.file.read_to_string(&mut text).unwrap();
        }
        assert!(!text.contains("OUTSIDE"));
        Walk::Continue
    });
    assert!(walked.is_ok());
}
