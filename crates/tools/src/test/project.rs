//! Detects the test command of a project by its files.
//!
//! The search starts in the given directory and goes up to the workspace; the first directory with recognized files is the project. In it,
//! files of one language come before general ones (`make`, `just`).

mod build;
mod node;
mod python;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use windlass_core::{FileKind, PlanContext, ToolError, quote};

use super::command::{FilterForm, TestCommand};
use build::{cmake, just, make};
use node::node;
use python::python;

/// Bytes of a file that are read.
const MAX_READ_BYTES: u64 = 256 << 10;

/// A project and its test command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Project {
    /// Working directory of the command.
    pub(super) directory: PathBuf,
    pub(super) command: TestCommand,
    /// Other test commands for the same directory.
    pub(super) others: Vec<TestCommand>,
}

/// Finds the project of a path. `path` is absolute and in the workspace.
pub(super) fn find(
    scene: &PlanContext<'_>,
    path: &Path,
    is_file: bool,
) -> Result<Project, ToolError> {
    let start = if is_file { path.parent().unwrap_or(path) } else { path };
    let mut candidates: Vec<Candidate<'_>> = start
        .ancestors()
        .take_while(|directory| directory.starts_with(scene.workspace()))
        .map(|directory| Candidate { scene, directory, names: scene.names(directory) })
        .collect();
    for candidate in &candidates {
        if let Some(project) = candidate.project(path, PROJECT_KINDS) {
            return Ok(project);
        }
        if let Some(error) = build::unbuilt(candidate) {
            return Err(error);
        }
    }
    // Test files without a project belong to the outermost directory, from which the tested code can be imported.
    candidates.reverse();
    if let Some(project) =
        candidates.iter().find_map(|candidate| candidate.project(path, &[python::python_tests]))
    {
        return Ok(project);
    }
    Err(ToolError::failed(format!(
        "no tests were found for `{}`: neither in it nor above it is {RECOGNIZED_FILES}",
        quote::path(path),
    ))
    .hint("give the `command` that runs them"))
}

/// The files that are recognized, for the error message.
const RECOGNIZED_FILES: &str = "a Cargo.toml, go.mod, deno.json, package.json with a test script, pom.xml, build.gradle, mix.exs, \
    *.sln or *.csproj, a CMake build, a Makefile or justfile with `test` in it, or a Python test";

/// A directory that may be a project.
struct Candidate<'a> {
    scene: &'a PlanContext<'a>,
    directory: &'a Path,
    /// The entries of the directory.
    names: Vec<(OsString, FileKind)>,
}

impl Candidate<'_> {
    /// Returns the project in this directory, if it is of one of these kinds. `path` is the path that the model asked for.
    fn project(&self, path: &Path, kinds: &[ProjectKind]) -> Option<Project> {
        let below = path.strip_prefix(self.directory).unwrap_or(Path::new(""));
        let mut commands = kinds.iter().filter_map(|kind| kind(self, below));
        let command = commands.next()?;
        Some(Project { directory: self.directory.to_owned(), command, others: commands.collect() })
    }

    /// Returns whether the directory has an entry of this name.
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|(known, _)| known == name)
    }

    /// Returns whether the directory has one of these entries.
    fn has_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name))
    }

    /// Returns whether the directory has a file with this extension.
    fn has_ending(&self, ending: &str) -> bool {
        self.names
            .iter()
            .any(|(name, _)| Path::new(name).extension().is_some_and(|have| have == ending))
    }

    /// Returns whether a subdirectory has an entry of this name.
    fn has_in(&self, directory: &str, name: &str) -> bool {
        let names = self.scene.names(&self.directory.join(directory));
        names.iter().any(|(known, _)| known == name)
    }

    /// Returns whether this directory or one above it, up to the workspace, has an entry of this name.
    fn has_above(&self, name: &str) -> bool {
        self.ancestors()
            .any(|directory| self.scene.names(directory).iter().any(|(known, _)| known == name))
    }

    /// Returns this directory and those above it, up to the workspace.
    fn ancestors(&self) -> impl Iterator<Item = &Path> {
        self.directory
            .ancestors()
            .take_while(|directory| directory.starts_with(self.scene.workspace()))
    }

    /// Returns the beginning of a file in this directory.
    fn read_text(&self, name: &str) -> Option<String> {
        if self.has(name) { self.read_beginning(&self.directory.join(name)) } else { None }
    }

    /// Returns the beginning of a file by its path.
    fn read_beginning(&self, path: &Path) -> Option<String> {
        let bytes = self.scene.peek(path, MAX_READ_BYTES)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns whether a file in this directory contains a word.
    fn file_contains(&self, name: &str, word: &str) -> bool {
        self.read_text(name).is_some_and(|text| text.contains(word))
    }
}

/// A detector for one kind of project: returns the test command, or `None`. The path is the requested one, relative to the directory.
type ProjectKind = fn(&Candidate<'_>, &Path) -> Option<TestCommand>;

/// All detectors, in the order in which they are tried.
const PROJECT_KINDS: &[ProjectKind] =
    &[cargo, go, deno, node, python, maven, gradle, mix, dotnet, cmake, just, make];

/// Detects Cargo, with nextest if it is configured.
fn cargo(candidate: &Candidate<'_>, _: &Path) -> Option<TestCommand> {
    if !candidate.has("Cargo.toml") {
        return None;
    }
    let is_configured = |directory: &Path| {
        candidate
            .scene
            .names(&directory.join(".config"))
            .iter()
            .any(|(name, _)| name == "nextest.toml")
    };
    let words: &[&str] = if candidate.ancestors().any(is_configured) {
        &["cargo", "nextest", "run", "--no-fail-fast"]
    } else {
        &["cargo", "test", "--no-fail-fast"]
    };
    Some(TestCommand::new(words, FilterForm::Word))
}

/// Detects a Go module, limited to the packages of the requested path.
fn go(candidate: &Candidate<'_>, below: &Path) -> Option<TestCommand> {
    candidate.has("go.mod").then(|| {
        let is_file = below.extension().is_some_and(|ending| ending == "go");
        let below = if is_file { below.parent().unwrap_or(below) } else { below };
        let packages = match below.to_str() {
            None | Some("") => "./...".to_owned(),
            Some(below) if is_file => format!("./{below}"),
            Some(below) => format!("./{below}/..."),
        };
        TestCommand::new(&["go", "test", "-v", &packages], FilterForm::Joined("-run="))
    })
}

/// Detects Deno.
fn deno(candidate: &Candidate<'_>, _: &Path) -> Option<TestCommand> {
    candidate
        .has_one_of(&["deno.json", "deno.jsonc"])
        .then(|| TestCommand::new(&["deno", "test"], FilterForm::Joined("--filter=")))
}

/// Detects Maven.
fn maven(candidate: &Candidate<'_>, _: &Path) -> Option<TestCommand> {
    candidate.has("pom.xml").then(|| {
        let program = if candidate.has("mvnw") { "./mvnw" } else { "mvn" };
        TestCommand::new(
            &[program, "-B", "--no-transfer-progress", "test"],
            FilterForm::Joined("-Dtest="),
        )
    })
}

/// Detects Gradle.
fn gradle(candidate: &Candidate<'_>, _: &Path) -> Option<TestCommand> {
    const FILES: [&str; 4] =
        ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
    candidate.has_one_of(&FILES).then(|| {
        let program = if candidate.has("gradlew") { "./gradlew" } else { "gradle" };
        TestCommand::new(
            &[program, "test", "--continue", "--console=plain"],
            FilterForm::Behind(&["--tests"]),
        )
    })
}

/// Detects mix (Elixir).
fn mix(candidate: &Candidate<'_>, _: &Path) -> Option<TestCommand> {
    candidate.has("mix.exs").then(|| TestCommand::new(&["mix", "test"], FilterForm::None))
}

/// Detects dotnet.
fn dotnet(candidate: &Candidate<'_>, _: &Path) -> Option<TestCommand> {
    let is_here =
        ["sln", "slnx", "csproj", "fsproj"].iter().any(|ending| candidate.has_ending(ending));
    is_here.then(|| {
        TestCommand::new(&["dotnet", "test", "--nologo"], FilterForm::Behind(&["--filter"]))
    })
}
