//! Which command tests a project: told by the files that lie in it.
//!
//! Looked for in the directory that is asked about and then upwards to the workspace; the first directory that has something is the
//! project. Within it, what belongs to a language comes before what could be anything (`make`, `just`).

mod build;
mod node;
mod python;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use windlass_core::{FileKind, Scene, ToolError, quote};

use super::command::{Filter, TestCommand};
use build::{cmake, just, make};
use node::node;
use python::python;

/// How much of a file is looked at.
const LOOKED_AT: u64 = 256 << 10;

/// A project and how it is tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Project {
    /// Where the command runs.
    pub(super) directory: PathBuf,
    pub(super) command: TestCommand,
    /// What else could be run there.
    pub(super) others: Vec<TestCommand>,
}

/// Finds the project that a path belongs to. `path` is absolute and in the workspace.
pub(super) fn find(scene: &Scene<'_>, path: &Path, is_file: bool) -> Result<Project, ToolError> {
    let start = if is_file { path.parent().unwrap_or(path) } else { path };
    let mut places: Vec<Here<'_>> = start
        .ancestors()
        .take_while(|directory| directory.starts_with(scene.workspace()))
        .map(|directory| Here { scene, directory, names: scene.names(directory) })
        .collect();
    for here in &places {
        if let Some(project) = here.project(path, KINDS) {
            return Ok(project);
        }
        if let Some(error) = build::unbuilt(here) {
            return Err(error);
        }
    }
    // Tests that lie around belong to the outermost directory, where what they test can be found.
    places.reverse();
    if let Some(project) = places.iter().find_map(|here| here.project(path, &[python::loose])) {
        return Ok(project);
    }
    Err(ToolError::failed(format!(
        "no tests were found for `{}`: neither in it nor above it is {LOOKED_FOR}",
        quote::path(path),
    ))
    .hint("give the `command` that runs them"))
}

/// What was looked for.
const LOOKED_FOR: &str = "a Cargo.toml, go.mod, deno.json, package.json with a test script, pom.xml, build.gradle, mix.exs, \
    *.sln or *.csproj, a CMake build, a Makefile or justfile with `test` in it, or a Python test";

/// A directory that may be a project.
struct Here<'a> {
    scene: &'a Scene<'a>,
    directory: &'a Path,
    names: Vec<(OsString, FileKind)>,
}

impl Here<'_> {
    /// The project that this directory is, if it is one of these kinds.
    fn project(&self, path: &Path, kinds: &[Kind]) -> Option<Project> {
        let below = path.strip_prefix(self.directory).unwrap_or(Path::new(""));
        let mut commands = kinds.iter().filter_map(|kind| kind(self, below));
        let command = commands.next()?;
        Some(Project { directory: self.directory.to_owned(), command, others: commands.collect() })
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|(known, _)| known == name)
    }

    fn has_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name))
    }

    fn has_ending(&self, ending: &str) -> bool {
        self.names
            .iter()
            .any(|(name, _)| Path::new(name).extension().is_some_and(|have| have == ending))
    }

    /// Whether a directory in here has something in it.
    fn has_in(&self, directory: &str, name: &str) -> bool {
        let names = self.scene.names(&self.directory.join(directory));
        names.iter().any(|(known, _)| known == name)
    }

    /// Whether something is here or above, up to the workspace.
    fn has_above(&self, name: &str) -> bool {
        self.up().any(|place| self.scene.names(place).iter().any(|(known, _)| known == name))
    }

    /// Every directory from here up to the workspace.
    fn up(&self) -> impl Iterator<Item = &Path> {
        self.directory.ancestors().take_while(|place| place.starts_with(self.scene.workspace()))
    }

    fn text(&self, name: &str) -> Option<String> {
        if self.has(name) { self.beginning_of(&self.directory.join(name)) } else { None }
    }

    fn beginning_of(&self, path: &Path) -> Option<String> {
        let bytes = self.scene.peek(path, LOOKED_AT)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether a file has a word in it.
    fn says(&self, name: &str, word: &str) -> bool {
        self.text(name).is_some_and(|text| text.contains(word))
    }
}

/// How each kind of project is recognised; `below` is what was asked about, from here.
type Kind = fn(&Here<'_>, &Path) -> Option<TestCommand>;

const KINDS: &[Kind] =
    &[cargo, go, deno, node, python, maven, gradle, mix, dotnet, cmake, just, make];

fn cargo(here: &Here<'_>, _: &Path) -> Option<TestCommand> {
    if !here.has("Cargo.toml") {
        return None;
    }
    let is_configured = |place: &Path| {
        here.scene.names(&place.join(".config")).iter().any(|(name, _)| name == "nextest.toml")
    };
    let words: &[&str] = if here.up().any(is_configured) {
        &["cargo", "nextest", "run", "--no-fail-fast"]
    } else {
        &["cargo", "test", "--no-fail-fast"]
    };
    Some(TestCommand::new(words, Filter::Word))
}

fn go(here: &Here<'_>, below: &Path) -> Option<TestCommand> {
    here.has("go.mod").then(|| {
        let is_file = below.extension().is_some_and(|ending| ending == "go");
        let below = if is_file { below.parent().unwrap_or(below) } else { below };
        let packages = match below.to_str() {
            None | Some("") => "./...".to_owned(),
            Some(below) if is_file => format!("./{below}"),
            Some(below) => format!("./{below}/..."),
        };
        TestCommand::new(&["go", "test", "-v", &packages], Filter::Joined("-run="))
    })
}

fn deno(here: &Here<'_>, _: &Path) -> Option<TestCommand> {
    here.has_one_of(&["deno.json", "deno.jsonc"])
        .then(|| TestCommand::new(&["deno", "test"], Filter::Joined("--filter=")))
}

fn maven(here: &Here<'_>, _: &Path) -> Option<TestCommand> {
    here.has("pom.xml").then(|| {
        let program = if here.has("mvnw") { "./mvnw" } else { "mvn" };
        TestCommand::new(
            &[program, "-B", "--no-transfer-progress", "test"],
            Filter::Joined("-Dtest="),
        )
    })
}

fn gradle(here: &Here<'_>, _: &Path) -> Option<TestCommand> {
    const FILES: [&str; 4] =
        ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
    here.has_one_of(&FILES).then(|| {
        let program = if here.has("gradlew") { "./gradlew" } else { "gradle" };
        TestCommand::new(
            &[program, "test", "--continue", "--console=plain"],
            Filter::Behind(&["--tests"]),
        )
    })
}

fn mix(here: &Here<'_>, _: &Path) -> Option<TestCommand> {
    here.has("mix.exs").then(|| TestCommand::new(&["mix", "test"], Filter::None))
}

fn dotnet(here: &Here<'_>, _: &Path) -> Option<TestCommand> {
    let is_here = ["sln", "slnx", "csproj", "fsproj"].iter().any(|ending| here.has_ending(ending));
    is_here
        .then(|| TestCommand::new(&["dotnet", "test", "--nologo"], Filter::Behind(&["--filter"])))
}
