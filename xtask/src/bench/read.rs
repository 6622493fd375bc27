//! Measures `read` of 200 lines from the middle of two million, beside sed; the same again in one process; and its memory.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Bench;
use super::measure::{Samples, alternate, time};
use super::server::Server;
use super::table::{Row, Target, Unit};
use crate::process;

pub(super) const ROWS: &[&str] = &["read/middle", "read/again", "read/memory"];

const LINES: u64 = 2_000_000;
const FIRST: u64 = LINES / 2;
const COUNT: u64 = 200;

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.input("read", "read 1", |directory| {
        fs::write(directory.join("small.txt"), "one\ntwo\nthree\n")?;
        let mut file = BufWriter::new(File::create(directory.join("lines.txt"))?);
        for number in 1..=LINES {
            let padding = "lorem ipsum dolor sit amet ".repeat(usize::try_from(number % 4)?);
            writeln!(file, "line {number} {padding}end")?;
        }
        Ok(file.flush()?)
    })?;
    Ok(vec![middle(bench, &directory)?, again(bench, &directory)?, memory(bench, &directory)?])
}

fn middle(bench: &Bench, directory: &PathBuf) -> Result<Row> {
    let input = input(FIRST).to_string();
    let call = || bench.windlass(directory, &["call", "read", &input]);
    let expected = process::capture(&mut sed(directory, FIRST))?;
    let answer = process::capture(&mut call())?;
    ensure!(answer.contains(expected.trim_end()), "the lines that sed prints are not in: {answer}");
    let [ours, peer] = alternate(
        bench.runs(30),
        [&mut || time(&mut call()), &mut || time(&mut sed(directory, FIRST))],
    )?;
    Ok(row("read/middle", ours, peer, 0.5))
}

/// Reads another range each time, so that the file is known but the result is not cached.
fn again(bench: &Bench, directory: &PathBuf) -> Result<Row> {
    let mut server = Server::spawn(&mut bench.windlass(directory, &["run", "-"]))?;
    let first = FIRST;
    read_lines(&mut server, "lines.txt", first)?;
    let mut at = first;
    let [ours, peer] = alternate(
        bench.runs(30),
        [
            &mut || {
                at += COUNT;
                let start = Instant::now();
                read_lines(&mut server, "lines.txt", at)?;
                Ok(start.elapsed().as_secs_f64())
            },
            &mut || time(&mut sed(directory, FIRST)),
        ],
    )?;
    Ok(row("read/again", ours, peer, 0.1))
}

/// The peak memory of a process that read from the large file, beside one that read from a small file.
fn memory(bench: &Bench, directory: &PathBuf) -> Result<Row> {
    let peak = |path: &str, offset: u64| -> Result<Samples> {
        let mut server = Server::spawn(&mut bench.windlass(directory, &["run", "-"]))?;
        read_lines(&mut server, path, offset)?;
        Ok(Samples::one(server.memory("VmHWM")?))
    };
    Ok(Row {
        name: "read/memory",
        unit: Unit::Bytes,
        ours: peak("lines.txt", FIRST)?,
        peer: Some(("a small file", peak("small.txt", 1)?)),
        target: Target::AtMostTimes(1.5),
    })
}

fn row(name: &'static str, ours: Samples, peer: Samples, times: f64) -> Row {
    let target = Target::AtMostTimes(times);
    Row { name, unit: Unit::Seconds, ours, peer: Some(("sed", peer)), target }
}

fn input(offset: u64) -> Value {
    json!({"path": "lines.txt", "offset": offset, "limit": COUNT, "numbers": false})
}

/// One call as a line to `windlass run`.
fn read_lines(server: &mut Server, path: &str, offset: u64) -> Result<()> {
    let mut input = input(offset);
    if let Some(input) = input.as_object_mut() {
        input.insert("path".into(), path.into());
    }
    let call = json!({"type": "tool_use", "id": "a", "name": "read", "input": input});
    server.exchange(&format!("{call}\n")).map(drop)
}

fn sed(directory: &PathBuf, first: u64) -> Command {
    let last = first + COUNT - 1;
    let mut command = Command::new("sed");
    command
        .arg("-n")
        .arg(format!("{first},{last}p;{last}q"))
        .arg("lines.txt")
        .current_dir(directory);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_asked_for_the_same_lines() {
        let command = process::line(&sed(&PathBuf::from("/"), 1_000_000));
        assert_eq!(command, "`sed -n '1000000,1000199p;1000199q' lines.txt`");
        assert_eq!(input(1_000_000)["limit"], 200);
    }
}
