//! Measures everyday work in a project inside the sandbox: a clean build, a build after an edit, and a `git mv` of a directory.
//!
//! The peer is the same command without Windlass, in a project of its own.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::Bench;
use super::measure::{Samples, time};
use super::table::{Row, Target, Unit};
use crate::process;

pub(super) const ROWS: &[&str] = &["build/cargo-cold", "build/cargo-edited", "build/git-mv-1000"];

const BUILD: &str = "cargo build --offline --quiet";

/// The number of functions of the program that is built.
const FUNCTIONS: usize = 1_500;

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let project = |name: &str| {
        let directory = bench.directory().join("build").join(name);
        make_project(&directory).map(|()| directory)
    };
    let (plain, inside) = (project("plain")?, project("inside")?);
    let (mut cold, mut edited, mut moved) = (Pair::default(), Pair::default(), Pair::default());
    for number in 0..bench.runs(10) {
        for directory in [&plain, &inside] {
            drop(fs::remove_dir_all(directory.join("target")));
        }
        cold.measure(bench, BUILD, &plain, &inside)?;
        for directory in [&plain, &inside] {
            write_program(directory, number)?;
        }
        edited.measure(bench, BUILD, &plain, &inside)?;
        let (from, to) = if number % 2 == 0 { ("many", "moved") } else { ("moved", "many") };
        moved.measure(bench, &format!("git mv {from} {to}"), &plain, &inside)?;
    }
    Ok(vec![
        cold.row("build/cargo-cold", 1.1),
        edited.row("build/cargo-edited", 1.1),
        moved.row("build/git-mv-1000", 2.0),
    ])
}

/// Seconds of one command inside and outside.
#[derive(Default)]
pub(super) struct Pair {
    inside: Vec<f64>,
    plain: Vec<f64>,
}

impl Pair {
    pub(super) fn measure(
        &mut self,
        bench: &Bench,
        command: &str,
        plain: &Path,
        inside: &PathBuf,
    ) -> Result<()> {
        let mut outside = Command::new("bash");
        self.plain.push(time(outside.args(["-c", command]).current_dir(plain))?);
        let input = json!({"command": command, "timeout": 600}).to_string();
        let mut call = bench.windlass(inside, &["--mode", "yolo", "call", "bash", &input]);
        for (variable, directory) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let usual = std::env::home_dir().unwrap_or_default().join(directory);
            call.env(variable, std::env::var_os(variable).unwrap_or_else(|| usual.into()));
        }
        self.inside.push(time(&mut call)?);
        Ok(())
    }

    pub(super) fn row(self, name: &'static str, times: f64) -> Row {
        Row {
            name,
            unit: Unit::Seconds,
            ours: Samples::new(self.inside),
            peer: Some(("outside", Samples::new(self.plain))),
            target: Target::AtMostTimes(times),
        }
    }
}

/// Makes a repository with a program of many functions and a directory of 1,000 files.
fn make_project(directory: &Path) -> Result<()> {
    drop(fs::remove_dir_all(directory));
    fs::create_dir_all(directory.join("src"))?;
    fs::create_dir_all(directory.join("many"))?;
    let manifest =
        "[package]\nname = \"built\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::write(directory.join("Cargo.toml"), manifest)?;
    fs::write(directory.join(".gitignore"), "/target\n")?;
    write_program(directory, usize::MAX)?;
    for number in 0..1_000 {
        fs::write(directory.join(format!("many/{number}.txt")), format!("file {number}\n"))?;
    }
    let git = "git init -q . && git add . && git -c user.name=bench -c user.email=bench@localhost commit -q -m all";
    process::capture(Command::new("bash").args(["-c", git]).current_dir(directory))
        .context("making a repository")?;
    Ok(())
}

fn write_program(directory: &Path, edit: usize) -> Result<()> {
    let mut text =
        format!("//! Edit {edit}.\nfn main() {{ println!(\"{{}}\", f0({edit} as u64 % 7)); }}\n");
    for number in 0..FUNCTIONS {
        let next = number + 1;
        let more = if next < FUNCTIONS { format!("f{next}(x / 2)") } else { "0".to_owned() };
        writeln!(
            text,
            "fn f{number}(x: u64) -> u64 {{ let v: Vec<u64> = (0..x).map(|y| y * {number}).collect(); v.len() as u64 + {more} }}"
        )?;
    }
    Ok(fs::write(directory.join("src/main.rs"), text)?)
}
