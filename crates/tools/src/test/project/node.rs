//! Projects with a `package.json`: its script `test`, by the package manager that the project uses, or a runner that it depends on.

use std::path::Path;

use serde_json::Value;

use super::super::command::{Filter, TestCommand};
use super::Here;

/// Runners that watch files stop doing so, and nothing asks.
const NOT_WATCHED: &[(&str, &str)] = &[("CI", "1")];

pub(super) fn node(here: &Here<'_>, below: &Path) -> Option<TestCommand> {
    let package: Value = serde_json::from_str(&here.text("package.json")?).ok()?;
    let manager = manager(here, &package);
    let script = package["scripts"]["test"].as_str();
    let script = script.filter(|script| !script.contains("no test specified"));
    let command = if let Some(script) = script {
        TestCommand::new(manager.script, filter_of(script)).with_separator(manager.separator)
    } else {
        let words = without_script(&manager, &package)?;
        TestCommand::new(&words, filter_of(&words.join(" ")))
    };
    let command = command.with_environment(NOT_WATCHED);
    let file = below.to_str().filter(|file| !file.starts_with('-') && below.extension().is_some());
    // Whoever takes a filter takes files too.
    Some(match file {
        Some(file) if command.takes_filter() => command.and([file.to_owned()]),
        _ => command,
    })
}

/// A runner that the project depends on.
fn without_script(manager: &Manager, package: &Value) -> Option<Vec<&'static str>> {
    let depends = |name: &&str| {
        ["dependencies", "devDependencies"].iter().any(|kind| package[kind].get(name).is_some())
    };
    match ["vitest", "jest", "mocha"].into_iter().find(depends) {
        Some("vitest") => Some([manager.run, &["vitest", "run"]].concat()),
        Some(runner) => Some([manager.run, &[runner]].concat()),
        None => (manager.script == BUN.script).then(|| vec!["bun", "test"]),
    }
}

/// How a package manager runs things.
struct Manager {
    /// The script `test`.
    script: &'static [&'static str],
    /// A program that the project has installed.
    run: &'static [&'static str],
    /// Whether what is meant for the script stands behind `--`.
    separator: bool,
}

const PNPM: Manager =
    Manager { script: &["pnpm", "test"], run: &["pnpm", "exec"], separator: false };
const YARN: Manager = Manager { script: &["yarn", "test"], run: &["yarn"], separator: false };
const BUN: Manager =
    Manager { script: &["bun", "run", "test"], run: &["bun", "x"], separator: false };
const NPM: Manager =
    Manager { script: &["npm", "test"], run: &["npx", "--no-install"], separator: true };

/// The one that the project names, or whose lock file is here or above.
fn manager(here: &Here<'_>, package: &Value) -> Manager {
    let named = package["packageManager"].as_str().and_then(|named| named.split('@').next());
    let has = |name| here.has_above(name);
    match named {
        Some("pnpm") => PNPM,
        Some("yarn") => YARN,
        Some("bun") => BUN,
        Some("npm") => NPM,
        _ if has("pnpm-lock.yaml") => PNPM,
        _ if has("yarn.lock") => YARN,
        _ if has("bun.lock") || has("bun.lockb") => BUN,
        _ => NPM,
    }
}

/// How the runner at the end of a script takes a filter: what is added to a script is added to its end.
fn filter_of(script: &str) -> Filter {
    let last = script.rsplit(['&', ';', '|']).next().unwrap_or(script);
    let has =
        |name: &str| last.split_whitespace().any(|word| word.rsplit('/').next() == Some(name));
    let by_title = ["vitest", "jest", "react-scripts"].into_iter().any(has);
    if by_title || (has("bun") && has("test")) {
        Filter::Behind(&["-t"])
    } else if has("mocha") {
        Filter::Behind(&["-g"])
    } else if has("node") && last.contains("--test") {
        Filter::Joined("--test-name-pattern=")
    } else if has("ava") {
        Filter::Joined("--match=")
    } else {
        Filter::None
    }
}
