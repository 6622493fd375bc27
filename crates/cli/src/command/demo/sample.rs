//! The sample project of the tour: a few files, a neighbour that no call may touch, and a state of its own, all in one directory that
//! goes away.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use windlass::Mode;
use windlass::quote;
use windlass_hub::{ConfigOverrides, Hub, OnWarning, People, Places, Settings, Workspace};

use crate::scratch::Scratch;
use crate::terminal;

/// The value in `.env`. It opens nothing.
pub(super) const SECRET: &str = "sample-secret-4711";

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

/// The sample project. It is removed when it is dropped.
pub(super) struct Sample {
    scratch: Scratch,
    project: PathBuf,
}

impl Sample {
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

    /// The directory of everything.
    pub(super) fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Puts a file into the project.
    pub(super) fn add(&self, name: &str, content: &str) -> Result<()> {
        Ok(fs::write(self.project.join(name), content)?)
    }

    /// Returns whether the neighbour is as it was.
    pub(super) fn neighbour_is_untouched(&self) -> bool {
        fs::read_to_string(self.path().join("neighbour/notes.txt"))
            .is_ok_and(|text| text == NEIGHBOUR)
    }

    /// Opens the project as every command does, in this mode. Nothing of the person's configuration, state or environment is in it.
    pub(super) fn engine(&self, mode: Mode, people: People) -> Result<Arc<Workspace>> {
        let overrides = ConfigOverrides { mode: Some(mode), ..ConfigOverrides::default() };
        Ok(Hub::new(Settings { overrides, people, ..self.settings() }).open(&self.project)?)
    }

    /// A hub to look back with.
    pub(super) fn hub(&self) -> Hub {
        Hub::new(self.settings())
    }

    fn settings(&self) -> Settings {
        let data = Some(self.path().join("data"));
        Settings {
            places: Places { data, ..Places::default() },
            on_warning: OnWarning::call(terminal::print_to_stderr),
            ..Settings::new(self.state())
        }
    }

    pub(super) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// The project as it is now.
    pub(super) fn tree(&self) -> Result<Tree> {
        let mut tree = Tree { names: Vec::new(), hash: blake3::Hasher::new() };
        tree.add(&self.project, &self.project)?;
        Ok(tree)
    }

    pub(super) fn remove(self) -> Result<()> {
        self.scratch.remove()
    }
}

/// The files of a directory, with one hash of their names, modes and contents.
pub(super) struct Tree {
    names: Vec<String>,
    hash: blake3::Hasher,
}

impl Tree {
    fn add(&mut self, directory: &Path, root: &Path) -> Result<()> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory)? {
            paths.push(entry?.path());
        }
        paths.sort();
        for path in paths {
            let found = path.symlink_metadata()?;
            let name = quote::path(path.strip_prefix(root).unwrap_or(&path)).into_owned();
            let head = format!("{name}\0{:o}\0{}\0", found.permissions().mode(), found.len());
            if found.is_dir() {
                self.hash.update(name.as_bytes());
                self.add(&path, root)?;
            } else {
                self.hash.update(head.as_bytes()).update(&fs::read(&path)?);
                self.names.push(name);
            }
        }
        Ok(())
    }

    /// The hash, as much of it as a person can compare.
    pub(super) fn hash(&self) -> String {
        self.hash.finalize().to_hex().chars().take(12).collect()
    }

    /// The names of the files.
    pub(super) fn names(&self) -> String {
        self.names.join("  ")
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|one| one == name)
    }
}
