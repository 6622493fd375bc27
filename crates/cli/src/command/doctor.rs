//! `windlass doctor`: what works here, found out by trying it.

use std::os::unix::fs::DirBuilderExt as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use windlass::{RandomIds, Windlass};
use windlass_core::{IdSource as _, Mode, Outcome, ToolCall};

use super::block_on;
use crate::options::Global;
use crate::setup;
use crate::terminal::{self, Paint};

/// One thing that was tried.
struct Check {
    name: &'static str,
    /// What was tried, for the person who wants to know how we know.
    how: &'static str,
    found: Found,
}

/// What came of it.
enum Found {
    Works(String),
    /// This version has no such thing: nothing is wrong, and nothing is promised.
    Absent(&'static str),
    Broken(String),
}

impl Found {
    fn text(&self) -> &str {
        match self {
            Self::Works(text) | Self::Broken(text) => text,
            Self::Absent(text) => text,
        }
    }
}

impl From<Result<String>> for Found {
    fn from(result: Result<String>) -> Self {
        result.map_or_else(|error| Self::Broken(format!("{error:#}")), Self::Works)
    }
}

pub(super) fn run(global: &Global) -> Result<ExitCode> {
    let tried = |name, how, found: Result<String>| Check { name, how, found: found.into() };
    let absent = |name, text| Check { name, how: "", found: Found::Absent(text) };
    let checks = [
        tried("workspace", "opened it and resolved a path in it", workspace(global)),
        tried("configuration", "read every layer", configuration(global)),
        tried("journal", "opened it and followed its chain", journal(global)),
        tried(
            "confinement",
            "tried to read a file outside through a link and through /proc",
            confinement(),
        ),
        tried(
            "atomic writes",
            "replaced a file and looked for what was left behind",
            atomic_writes(),
        ),
        absent("processes", "no tool of this version starts a process: nothing to confine"),
        absent("undo", "not in this version: changes cannot be taken back yet"),
    ];
    if global.json {
        let report: Vec<_> = checks.iter().map(as_json).collect();
        terminal::print_json(&json!({"version": env!("CARGO_PKG_VERSION"), "checks": report}))?;
    } else {
        print(&checks, Paint::of(global))?;
    }
    let broken = checks.iter().any(|check| matches!(check.found, Found::Broken(_)));
    Ok(ExitCode::from(u8::from(broken)))
}

fn as_json(check: &Check) -> serde_json::Value {
    let status = match check.found {
        Found::Works(_) => "works",
        Found::Absent(_) => "absent",
        Found::Broken(_) => "broken",
    };
    json!({"name": check.name, "status": status, "found": check.found.text(), "how": check.how})
}

fn print(checks: &[Check], paint: Paint) -> Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    for check in checks {
        let mark = match check.found {
            Found::Works(_) => paint.green("ok "),
            Found::Absent(_) => paint.dim("-- "),
            Found::Broken(_) => paint.red("NOT"),
        };
        let found = windlass_core::quote::visible(check.found.text());
        writeln!(out, "{mark} {:<14} {found}", check.name)?;
        if !check.how.is_empty() {
            writeln!(out, "    {:<14} {}", "", paint.dim(check.how))?;
        }
    }
    Ok(())
}

fn workspace(global: &Global) -> Result<String> {
    let workspace = setup::workspace(global)?;
    Windlass::builder(&workspace).build()?;
    Ok(workspace.display().to_string())
}

fn configuration(global: &Global) -> Result<String> {
    let mut config = setup::config(global, &setup::workspace(global)?, &setup::state(global)?)?;
    let (mode, rules) = (config.mode()?, config.rules().len());
    let warnings = if config.warnings.is_empty() {
        String::new()
    } else {
        format!("; {}", config.warnings.join("; "))
    };
    Ok(format!("mode {mode}, {rules} rules{warnings}"))
}

fn journal(global: &Global) -> Result<String> {
    let state = setup::state(global)?;
    let verified = setup::store(global)?.verify()?;
    Ok(format!("{} records in {}, whole", verified.records, state.display()))
}

/// A workspace of its own in the place for temporary files, gone when it is dropped.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        // Nobody can have put anything there before us: the name is unknown, and a directory that exists is refused.
        let name = format!("windlass-doctor-{:x}", RandomIds::default().next());
        let path = std::env::temp_dir().join(name);
        let mut private = std::fs::DirBuilder::new();
        private.mode(0o700);
        private
            .create(&path)
            .and_then(|()| private.create(path.join("work")))
            .with_context(|| format!("cannot create {} for trying things out", path.display()))?;
        Ok(Self(path))
    }

    fn call(
        &self,
        mode: Mode,
        tool: &str,
        input: serde_json::Value,
    ) -> Result<windlass_core::CallResult> {
        let windlass = Windlass::builder(self.0.join("work")).mode(mode).build()?;
        let session = Arc::new(windlass_core::Session::new(windlass.new_session_id()));
        block_on(windlass.call(&session, ToolCall::new(tool, input)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is in the place for temporary files, which the system cleans.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn confinement() -> Result<String> {
    let scratch = Scratch::new()?;
    std::fs::write(scratch.0.join("outside"), "outside")?;
    std::os::unix::fs::symlink("../outside", scratch.0.join("work/link"))?;
    for path in ["link", "../outside", "/proc/self/root/etc/hostname"] {
        let result = scratch.call(Mode::Auto, "read", json!({"path": path}))?;
        ensure!(result.outcome != Outcome::Ok, "{path} could be read: nothing here is confined");
    }
    Ok("no link, no `..` and no /proc leads out".into())
}

fn atomic_writes() -> Result<String> {
    let scratch = Scratch::new()?;
    let result =
        scratch.call(Mode::Auto, "write", json!({"path": "new.txt", "content": "new\n"}))?;
    ensure!(result.outcome == Outcome::Ok, "{}", result.output.to_text());
    let left: Vec<_> = std::fs::read_dir(scratch.0.join("work"))?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    ensure!(left.iter().all(|name| name == "new.txt"), "something was left behind: {left:?}");
    Ok("a file is wholly old or wholly new".into())
}
