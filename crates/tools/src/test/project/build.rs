//! Projects whose tests belong to how they are built: `CMake`, make, just.

use std::path::Path;

use windlass_core::{FileKind, ToolError, quote};

use super::super::command::{Filter, TestCommand};
use super::Here;

/// `CMake`. What is tested is what was built last, so it is built first.
pub(super) fn cmake(here: &Here<'_>, _: &Path) -> Option<TestCommand> {
    let build = build_directory(here)?;
    let test = ["ctest", "--test-dir", build, "--output-on-failure"];
    Some(TestCommand::new(&test, Filter::Behind(&["-R"])).after(&["cmake", "--build", build]))
}

/// The directory in which `CMake` has set up tests.
fn build_directory<'h>(here: &'h Here<'_>) -> Option<&'h str> {
    if !here.has("CMakeLists.txt") {
        return None;
    }
    let is_candidate =
        |name: &str| ["build", "cmake-build", "out"].iter().any(|begin| name.starts_with(begin));
    let directories = here.names.iter().filter(|(_, kind)| *kind == FileKind::Directory);
    directories
        .filter_map(|(name, _)| name.to_str())
        .find(|name| is_candidate(name) && here.has_in(name, "CTestTestfile.cmake"))
}

/// Why tests that are there cannot be run yet.
pub(super) fn unbuilt(here: &Here<'_>) -> Option<ToolError> {
    here.says("CMakeLists.txt", "enable_testing").then(|| {
        ToolError::failed(format!(
            "`{}` has tests for CMake, but no directory in which they are built",
            quote::path(here.directory)
        ))
        .hint("run `cmake -S . -B build` there first")
    })
}

/// A makefile that makes `test` or `check`.
pub(super) fn make(here: &Here<'_>, _: &Path) -> Option<TestCommand> {
    let text = ["GNUmakefile", "makefile", "Makefile"].iter().find_map(|name| here.text(name))?;
    let target = one_of(&text, is_target)?;
    Some(TestCommand::new(&["make", target], Filter::None))
}

/// A justfile with a recipe `test` or `check`.
pub(super) fn just(here: &Here<'_>, _: &Path) -> Option<TestCommand> {
    let text = ["justfile", "Justfile", ".justfile"].iter().find_map(|name| here.text(name))?;
    let recipe = one_of(&text, is_recipe)?;
    Some(TestCommand::new(&["just", recipe], Filter::None))
}

fn one_of(text: &str, defines: fn(&str, &str) -> bool) -> Option<&'static str> {
    ["test", "check"].into_iter().find(|name| text.lines().any(|line| defines(line, name)))
}

/// Whether a line of a makefile says how something is made: `test: build`, `all test:`, not `test := x`.
fn is_target(line: &str, name: &str) -> bool {
    let Some((targets, rest)) = line.split_once(':') else { return false };
    !line.starts_with(['\t', '#', '.'])
        && !rest.starts_with('=')
        && targets.split_whitespace().any(|target| target == name)
}

/// The same for a justfile: `test:`, `@test *args: build`, not `test := "x"`.
fn is_recipe(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix('@').unwrap_or(line).strip_prefix(name).unwrap_or_default();
    rest.starts_with([':', ' ']) && rest.contains(':') && !rest.contains(":=")
}
