//! Measures a whole `windlass call read`, beside the start of a program that does nothing.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};

use super::Bench;
use super::measure::{alternate, time};
use super::table::{Row, Target, Unit};
use crate::process;

pub(super) const ROWS: &[&str] = &["start/read"];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.input("start", "start 1", |directory| {
        Ok(fs::write(directory.join("small.txt"), "one\ntwo\nthree\n")?)
    })?;
    let call = || bench.windlass(&directory, &["call", "read", r#"{"path":"small.txt"}"#]);
    let answer = process::capture(&mut call())?;
    ensure!(answer.contains("three"), "`windlass call read` answered: {answer}");
    let [ours, peer] = alternate(
        bench.runs(100),
        [&mut || time(&mut call()), &mut || {
            time(Command::new(&bench.tools.ripgrep).arg("--version"))
        }],
    )?;
    Ok(vec![Row {
        name: "start/read",
        unit: Unit::Seconds,
        ours,
        peer: Some(("rg --version", peer)),
        target: Target::AtMostTimes(2.0),
    }])
}
