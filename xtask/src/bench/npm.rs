//! Measures `npm ci` inside the sandbox: without `node_modules` and cache, and with both.
//!
//! The packages are tarballs that are made here, so that no network is needed. The peer is the same command without Windlass.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Bench;
use super::build::Pair;
use super::table::Row;
use crate::process;

pub(super) const ROWS: &[&str] = &["build/npm-ci-cold", "build/npm-ci-warm"];

/// The number of packages, and that of the files in each.
const PACKAGES: usize = 60;
const FILES: usize = 30;

const OPTIONS: &str = "--offline --no-audit --no-fund --ignore-scripts --loglevel=error";

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    process::capture(Command::new("npm").arg("--version"))
        .context("`build/npm-ci-*` needs `npm` and `tar` on the PATH: install Node.js with npm")?;
    let project = |name: &str| {
        let directory = bench.directory().join("npm").join(name);
        make_project(&directory).map(|()| directory)
    };
    let (plain, inside) = (project("plain")?, project("inside")?);
    let (mut cold, mut warm) = (Pair::default(), Pair::default());
    for _ in 0..bench.runs(10) {
        for directory in [&plain, &inside] {
            drop(fs::remove_dir_all(directory.join("node_modules")));
        }
        let command = format!("npm ci {OPTIONS} --cache \"$(mktemp -d)\"");
        cold.measure(bench, &command, &plain, &inside)?;
        let command = format!("npm ci {OPTIONS}");
        warm.measure(bench, &command, &plain, &inside)?;
    }
    let [cold_row, warm_row] = ROWS else { return Ok(Vec::new()) };
    Ok(vec![cold.row(cold_row, 1.3), warm.row(warm_row, 1.3)])
}

/// Makes a repository with tarballs of packages and a lock file that names them.
fn make_project(directory: &Path) -> Result<()> {
    drop(fs::remove_dir_all(directory));
    let tarballs = directory.join("tarballs");
    fs::create_dir_all(&tarballs)?;
    let mut dependencies = String::new();
    for number in 0..PACKAGES {
        make_package(&tarballs, number)?;
        let comma = if number == 0 { "" } else { ", " };
        write!(dependencies, "{comma}\"p{number}\": \"file:tarballs/p{number}.tgz\"")?;
    }
    let manifest = format!(
        "{{\"name\": \"project\", \"version\": \"1.0.0\", \"dependencies\": {{{dependencies}}}}}\n"
    );
    fs::write(directory.join("package.json"), manifest)?;
    fs::write(directory.join(".gitignore"), "node_modules/\n")?;
    let lock = format!(
        "git init -q . && npm install {OPTIONS} && git add . && \
         git -c user.name=bench -c user.email=bench@localhost commit -q -m all"
    );
    process::capture(Command::new("bash").args(["-c", &lock]).current_dir(directory))
        .context("making the lock file of a project")?;
    Ok(())
}

/// Makes the tarball of one package.
fn make_package(tarballs: &Path, number: usize) -> Result<()> {
    let package = tarballs.join("package");
    fs::create_dir_all(package.join("lib"))?;
    let manifest = format!("{{\"name\": \"p{number}\", \"version\": \"1.0.0\"}}\n");
    fs::write(package.join("package.json"), manifest)?;
    for file in 0..FILES {
        let line = format!("exports.f{file} = function (x) {{ return x + {number}; }};\n");
        fs::write(package.join(format!("lib/{file}.js")), line.repeat(file + 1))?;
    }
    let mut pack = Command::new("tar");
    pack.arg("-czf").arg(format!("p{number}.tgz")).arg("package").current_dir(tarballs);
    process::capture(&mut pack).context("packing a package")?;
    Ok(fs::remove_dir_all(package)?)
}
