//! `cargo xtask tidy`: checks rules of this repository that no compiler checks.
//!
//! Each check is a function that returns its findings, one line each, so that one run shows all of them. Reports (long files, long
//! functions, words) are printed and never fail.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::docs;
use crate::workspace::Workspace;

mod architecture;
mod edges;
mod examples;
mod guarantees;
mod lengths;
mod lockfile;
mod plain_words;
mod source;
mod tools;
mod unsafety;
mod words;

/// A tracked text file.
#[derive(Debug)]
struct File {
    /// Relative to the root, with forward slashes.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    fn is_page(&self) -> bool {
        self.has_extension("md")
    }

    fn has_extension(&self, wanted: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == wanted)
    }
}

/// An entry of the table of checks.
struct Check {
    name: &'static str,
    find: fn(&Workspace, &[File]) -> Result<Vec<String>>,
}

const CHECKS: &[Check] = &[
    Check { name: "edges between crates", find: |workspace, _| edges::find(&workspace.metadata) },
    Check { name: "forgotten tool files", find: |_, files| Ok(tools::find(files)) },
    Check { name: "unsafe code", find: |_, files| Ok(unsafety::find(files)) },
    Check { name: "examples in the docs", find: |_, files| Ok(examples::find(files)) },
    Check { name: "words that must not stay", find: |_, files| Ok(words::find(files)) },
    Check { name: "guarantees", find: |_, files| Ok(guarantees::find(files)) },
    Check { name: "ARCHITECTURE.md", find: |_, files| Ok(architecture::find(files)) },
    Check { name: "Cargo.lock", find: |_, files| Ok(lockfile::find(files)) },
    Check { name: "generated docs", find: |workspace, _| docs::stale(workspace) },
];

/// `cargo xtask tidy`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    crate::no_arguments(arguments)?;
    let files = text_files(workspace)?;
    print!("{}{}", lengths::report(&files), plain_words::report(&files));
    let mut found = 0;
    for check in CHECKS {
        let findings =
            (check.find)(workspace, &files).with_context(|| format!("checking {}", check.name))?;
        for finding in &findings {
            println!("{}: {finding}", check.name);
        }
        found += findings.len();
    }
    if found > 0 {
        bail!("tidy found {found} things to mend");
    }
    println!("tidy: {} checks, nothing found", CHECKS.len());
    Ok(())
}

/// Every tracked file that is text.
fn text_files(workspace: &Workspace) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in workspace.tracked_files()? {
        let bytes = fs::read(workspace.file(&path))
            .with_context(|| format!("reading {}", path.display()))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path: with_slashes(&path), text });
        }
    }
    Ok(files)
}

fn with_slashes(path: &Path) -> String {
    path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/")
}

/// Lines with their numbers, counted from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}
