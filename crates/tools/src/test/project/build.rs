//! Detectors for build systems with tests: `CMake`, make, just.

use std::path::Path;

use windlass_core::{FileKind, ToolError, quote};

use super::super::command::{FilterForm, TestCommand};
use super::Candidate;

/// Detects a `CMake` build. The tests of the last build would run, so the command builds first.
pub(super) fn cmake(candidate: &Candidate<'_>, _: &Path) -> Option<TestCommand> {
    let build = build_directory(candidate)?;
    let test = ["ctest", "--test-dir", build, "--output-on-failure"];
    Some(TestCommand::new(&test, FilterForm::Behind(&["-R"])).after(&["cmake", "--build", build]))
}

/// Returns the directory in which `CMake` has configured tests.
fn build_directory<'h>(candidate: &'h Candidate<'_>) -> Option<&'h str> {
    if !candidate.has("CMakeLists.txt") {
        return None;
    }
    let is_candidate =
        |name: &str| ["build", "cmake-build", "out"].iter().any(|begin| name.starts_with(begin));
    let directories = candidate.names.iter().filter(|(_, kind)| *kind == FileKind::Directory);
    directories
        .filter_map(|(name, _)| name.to_str())
        .find(|name| is_candidate(name) && candidate.has_in(name, "CTestTestfile.cmake"))
}

/// Returns an error if `CMake` tests exist but are not configured in a build directory.
pub(super) fn unbuilt(candidate: &Candidate<'_>) -> Option<ToolError> {
    candidate.file_contains("CMakeLists.txt", "enable_testing").then(|| {
        ToolError::failed(format!(
            "`{}` has tests for CMake, but no directory in which they are built",
            quote::path(candidate.directory)
        ))
        .hint("run `cmake -S . -B build` there first")
    })
}

/// Detects a makefile with a target `test` or `check`.
pub(super) fn make(candidate: &Candidate<'_>, _: &Path) -> Option<TestCommand> {
    let text = ["GNUmakefile", "makefile", "Makefile"]
        .iter()
        .find_map(|name| candidate.read_text(name))?;
    let target = defined_target(&text, is_target)?;
    Some(TestCommand::new(&["make", target], FilterForm::None))
}

/// Detects a justfile with a recipe `test` or `check`.
pub(super) fn just(candidate: &Candidate<'_>, _: &Path) -> Option<TestCommand> {
    let text =
        ["justfile", "Justfile", ".justfile"].iter().find_map(|name| candidate.read_text(name))?;
    let recipe = defined_target(&text, is_recipe)?;
    Some(TestCommand::new(&["just", recipe], FilterForm::None))
}

/// Returns the first of `test` and `check` that a file defines.
fn defined_target(text: &str, defines: fn(&str, &str) -> bool) -> Option<&'static str> {
    ["test", "check"].into_iter().find(|name| text.lines().any(|line| defines(line, name)))
}

/// Returns whether a line of a makefile defines a target: `test: build`, `all test:`, but not `test := x`.
fn is_target(line: &str, name: &str) -> bool {
    let Some((targets, rest)) = line.split_once(':') else { return false };
    !line.starts_with(['\t', '#', '.'])
        && !rest.starts_with('=')
        && targets.split_whitespace().any(|target| target == name)
}

/// Returns whether a line of a justfile defines a recipe: `test:`, `@test *args: build`, but not `test := "x"`.
fn is_recipe(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix('@').unwrap_or(line).strip_prefix(name).unwrap_or_default();
    rest.starts_with([':', ' ']) && rest.contains(':') && !rest.contains(":=")
}
