//! Detects projects with a `package.json`: their script `test`, run by the package manager of the project, or a test runner among the
//! dependencies.

use std::path::Path;

use serde_json::Value;

use super::super::command::{FilterForm, TestCommand};
use super::Candidate;

/// Variables that keep runners from watching files and asking questions.
const NON_INTERACTIVE: &[(&str, &str)] = &[("CI", "1")];

/// Detects a node project. The path of a requested file is passed to the runner.
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
    // A runner that takes a filter also takes file names.
    Some(match file {
        Some(file) if command.takes_filter() => command.with_words([file.to_owned()]),
        _ => command,
    })
}

/// Returns the command of a test runner that the project depends on, for a project without a script.
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

/// The commands of a package manager.
struct PackageManager {
    /// The command that runs the script `test`.
    script: &'static [&'static str],
    /// The command that runs an installed program.
    run: &'static [&'static str],
    /// True if words for the script have to stand behind `--`.
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

/// Returns the package manager that the project names, or whose lock file is in this directory or above.
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

/// Returns the filter form of the last runner in a script, because added words go to its end.
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
