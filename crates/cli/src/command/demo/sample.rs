//! The sample project of the tour: a few files, a neighbour project that no call may change, and a state directory, all in one temporary
//! directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use windlass::Mode;
use windlass::quote;
use windlass_hub::{ConfigOverrides, Hub, HubSettings, OnWarning, People, Places, Workspace};

use crate::scratch::Scratch;
use crate::terminal;

/// The value in `.env`. It is no real secret.
pub(super) const SECRET: &str = "sample-secret-4711";

/// The files of the project and their contents.
const FILES: &[(&str, &str)] = &[
    ("README.md", "# Paint\n\nThe sample project of `windlass demo`.\n"),
    (".env", "API_TOKEN=sample-secret-4711\n"),
    (
        "src/paint.rs",
        "/// The colour of a line.\npub struct Colour {\n    pub red: u8,\n    pub green: u8,\n    pub blue: u8,\n}\n",
    ),
    (
        "src/line.rs",
        "/// A line from here to there, in one colour.\npub struct Line {\n    pub length: u32,\n    pub width: u32,\n}\n",
    ),
];

/// The content of the neighbour's file.
const NEIGHBOUR: &str = "not yours\n";

/// The sample project. Dropping it removes its files.
pub(super) struct Sample {
    scratch: Scratch,
    project: PathBuf,
}

impl Sample {
    /// Creates the project and its neighbour.
    pub(super) fn new() -> Result<Self> {
        let scratch = Scratch::new("demo")?;
        let project = scratch.directory("paint")?;
        fs::create_dir(project.join("src"))?;
        for (name, content) in FILES {
            fs::write(project.join(name), content)?;
        }
        let neighbour = scratch.directory("neighbour")?;
        fs::write(neighbour.join("notes.txt"), NEIGHBOUR)?;
        Ok(Self { scratch, project })
    }

    /// Returns the directory of project, neighbour and state.
    pub(super) fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Writes a file into the project.
    pub(super) fn write_file(&self, name: &str, content: &str) -> Result<()> {
        Ok(fs::write(self.project.join(name), content)?)
    }

    /// Returns whether the neighbour's file has its original content.
    pub(super) fn neighbour_is_untouched(&self) -> bool {
        fs::read_to_string(self.path().join("neighbour/notes.txt"))
            .is_ok_and(|text| text == NEIGHBOUR)
    }

    /// Opens the project in this mode, as every command does, but without the person's configuration, state and environment.
    pub(super) fn open_workspace(&self, mode: Mode, people: People) -> Result<Arc<Workspace>> {
        let overrides = ConfigOverrides { mode: Some(mode), ..ConfigOverrides::default() };
        Ok(Hub::new(HubSettings { overrides, people, ..self.settings() }).open(&self.project)?)
    }

    /// Returns a hub for reading the journal.
    pub(super) fn hub(&self) -> Hub {
        Hub::new(self.settings())
    }

    /// Returns a hub's settings with the sample project's own state and data directories.
    fn settings(&self) -> HubSettings {
        let data = Some(self.path().join("data"));
        HubSettings {
            places: Places { data, ..Places::default() },
            on_warning: OnWarning::call(terminal::print_to_stderr),
            ..HubSettings::new(self.state())
        }
    }

    /// Returns the state directory of the tour.
    pub(super) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Reads the names and contents of all files of the project.
    pub(super) fn tree(&self) -> Result<Tree> {
        let mut tree = Tree { names: Vec::new(), hash: blake3::Hasher::new() };
        tree.add(&self.project, &self.project)?;
        Ok(tree)
    }

    /// Removes the directory, and returns an error if that fails.
    pub(super) fn remove(self) -> Result<()> {
        self.scratch.remove()
    }
}

/// The names of a directory's files, and one hash of their names, modes and contents.
pub(super) struct Tree {
    names: Vec<String>,
    hash: blake3::Hasher,
}

impl Tree {
    /// Adds the files below a directory, in the order of their names.
    fn add(&mut self, directory: &Path, root: &Path) -> Result<()> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory)? {
            paths.push(entry?.path());
        }
        paths.sort();
        for path in paths {
            let found = path.symlink_metadata()?;
            let name = quote::path(path.strip_prefix(root).unwrap_or(&path)).into_owned();
            let header = format!("{name}\0{:o}\0{}\0", found.permissions().mode(), found.len());
            if found.is_dir() {
                self.hash.update(name.as_bytes());
                self.add(&path, root)?;
            } else {
                self.hash.update(header.as_bytes()).update(&fs::read(&path)?);
                self.names.push(name);
            }
        }
        Ok(())
    }

    /// Returns the first 12 digits of the hash.
    pub(super) fn hash(&self) -> String {
        self.hash.finalize().to_hex().chars().take(12).collect()
    }

    /// Returns the names of the files on one line.
    pub(super) fn names(&self) -> String {
        self.names.join("  ")
    }

    /// Returns whether a file has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|one| one == name)
    }
}
