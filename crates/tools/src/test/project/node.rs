//! Projects with a `package.json`: its script `test`, by the package manager that the project uses, or a runner that it depends on.

use std::path::Path;

use serde_json::Value;

use super::super::command::{FilterForm, TestCommand};
use super::Candidate;

/// Runners that watch files stop doing so, and nothing asks.
const NON_INTERACTIVE: &[(&str, &str)] = &[("CI", "1")];

pub(super) fn node(candidate: &Candidate<'_>, below: &Path) -> Option<TestCommand> {
    let package: Value = serde_json::from_str(&candidate.read_text("package.json")?).ok()?;
    let manager = package_manager(candidate, &package);
    let script = package["scripts"]["test"].as_str();
    let script = script.filter(|script| !script.contains("no test specified"));
    let command = if let Some(script) = script {
        TestCommand::new(manager.script, filter_form(script))
            .with_separator(manager.needs_separator)
    } else {
        let words = runner_command(&manager, &package)?;
        TestCommand::new(&words, filter_form(&words.join(" ")))
    };
    let command = command.with_environment(NON_INTERACTIVE);
    let file = below.to_str().filter(|file| !file.starts_with('-') && below.extension().is_some());
    // Whoever takes a filter takes files too.
    Some(match file {
        Some(file) if command.takes_filter() => command.with_words([file.to_owned()]),
        _ => command,
    })
}

/// A runner that the project depends on.
fn runner_command(manager: &PackageManager, package: &Value) -> Option<Vec<&'static str>> {
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
struct PackageManager {
    /// The script `test`.
    script: &'static [&'static str],
    /// A program that the project has installed.
    run: &'static [&'static str],
    /// Whether what is meant for the script stands behind `--`.
    needs_separator: bool,
}

const PNPM: PackageManager =
    PackageManager { script: &["pnpm", "test"], run: &["pnpm", "exec"], needs_separator: false };
const YARN: PackageManager =
    PackageManager { script: &["yarn", "test"], run: &["yarn"], needs_separator: false };
const BUN: PackageManager =
    PackageManager { script: &["bun", "run", "test"], run: &["bun", "x"], needs_separator: false };
const NPM: PackageManager = PackageManager {
    script: &["npm", "test"],
    run: &["npx", "--no-install"],
    needs_separator: true,
};

/// The one that the project names, or whose lock file is here or above.
fn package_manager(candidate: &Candidate<'_>, package: &Value) -> PackageManager {
    let named = package["packageManager"].as_str().and_then(|named| named.split('@').next());
    let has = |name| candidate.has_above(name);
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
fn filter_form(script: &str) -> FilterForm {
    let last = script.rsplit(['&', ';', '|']).next().unwrap_or(script);
    let has =
        |name: &str| last.split_whitespace().any(|word| word.rsplit('/').next() == Some(name));
    let by_title = ["vitest", "jest", "react-scripts"].into_iter().any(has);
    if by_title || (has("bun") && has("test")) {
        FilterForm::Behind(&["-t"])
    } else if has("mocha") {
        FilterForm::Behind(&["-g"])
    } else if has("node") && last.contains("--test") {
        FilterForm::Joined("--test-name-pattern=")
    } else if has("ava") {
        FilterForm::Joined("--match=")
    } else {
        FilterForm::None
    }
}
