//! Measures a command that creates 50,000 files, until they are committed and recorded, and its undo.
//!
//! The floor is the same loop in the same shell without Windlass, which does not wait for the disk.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Bench;
use super::measure::{self, Samples};
use super::table::{Row, Target, Unit};

pub(super) const ROWS: &[&str] = &["commit/50000-new", "undo/50000-new"];

/// 500 files in each of 100 directories.
const LOOP: &str = "for d in {0..99}; do mkdir -p new/d$d; done; \
                    for i in {0..49999}; do echo \"the content of file $i\" > new/d$((i % 100))/f$i; done";

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.directory().join("many");
    let (mut floor, mut commit, mut undo) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.runs(15) {
        let (plain, workspace) = (directory.join("plain"), directory.join("workspace"));
        for place in [&plain, &workspace] {
            if place.exists() {
                fs::remove_dir_all(place)?;
            }
            fs::create_dir_all(place)?;
        }
        floor.push(measure::time(Command::new("bash").args(["-c", LOOP]).current_dir(&plain))?);
        let input = json!({"command": LOOP, "timeout": 600}).to_string();
        let call = ["--mode", "yolo", "call", "bash", &input];
        commit.push(measure::time(&mut bench.windlass(&workspace, &call))?);
        ensure!(count(&workspace)? == 50_000, "not all files are in the workspace");
        undo.push(measure::time(&mut bench.windlass(&workspace, &["--mode", "yolo", "undo"]))?);
        ensure!(!workspace.join("new").exists(), "the undo left files");
    }
    let row = |name, ours, times| Row {
        name,
        unit: Unit::Seconds,
        ours: Samples::new(ours),
        peer: Some(("the same loop", Samples::new(floor.clone()))),
        target: Target::AtMostTimes(times),
    };
    // The first row includes the command itself.
    Ok(vec![row("commit/50000-new", commit, 4.0), row("undo/50000-new", undo, 3.0)])
}

fn count(workspace: &Path) -> Result<usize> {
    let mut files = 0;
    for directory in fs::read_dir(workspace.join("new")).context("what the command made")? {
        files += fs::read_dir(directory?.path())?.count();
    }
    Ok(files)
}
