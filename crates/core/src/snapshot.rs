//! The state of some paths at one moment, to come back to.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::commit::{Step, beside};
use crate::names;
use crate::state::{self, Seen};
use crate::sync::Lock;
use crate::{
    ContentHash, Entry, FileState, Files, Opened, Shelf, Source, ToolError, Visitor, Walk,
    WalkOptions,
};

/// What was at some paths, and below them. The bytes are on a [`Shelf`]; the rest is here, and can be stored anywhere.
///
/// ```
/// use windlass_core::Snapshot;
/// let snapshot = Snapshot::default();
/// let text = serde_json::to_string(&snapshot)?;
/// assert_eq!(serde_json::from_str::<Snapshot>(&text)?, snapshot);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The paths that were asked for: absolute and real.
    pub paths: Vec<PathBuf>,
    /// What was there: each of those paths, and all that was below them and is not ignored.
    pub states: Vec<(PathBuf, FileState)>,
}

impl Snapshot {
    /// Looks at the paths and keeps their bytes.
    pub fn take(
        files: &dyn Files,
        shelf: &dyn Shelf,
        paths: &[PathBuf],
    ) -> Result<Self, ToolError> {
        let mut snapshot = Self::default();
        for path in paths {
            let path = files.resolve(path)?.path;
            for (below, seen) in tree(files, &path)? {
                if let Some(hash) = seen.state.hash()
                    && let Some(bytes) = state::read(files, &beside(files, &below), hash)?
                {
                    shelf.keep(&hash, &bytes)?;
                }
                snapshot.states.push((below, seen.state));
            }
            snapshot.paths.push(path);
        }
        Ok(snapshot)
    }
}

/// What is at a path and below it, the outer before the inner.
fn tree(files: &dyn Files, root: &Path) -> Result<BTreeMap<PathBuf, Seen>, ToolError> {
    let mut found = BTreeMap::new();
    let place = beside(files, root);
    let seen = state::see(files, &place, None)?;
    let is_directory = matches!(seen.state, FileState::Directory { .. });
    found.insert(root.to_owned(), seen);
    if !is_directory {
        return Ok(found);
    }
    let names = Lock::new(Vec::new());
    let options = WalkOptions {
        max_depth: usize::MAX,
        ignore_files: true,
        version_control: false,
        threads: 0,
        hidden: &|_| false,
        left_out: &|_, _| {},
        cancelled: &|| false,
    };
    files.walk(&place, &options, &|| Box::new(Names(&names)))?;
    for name in names.lock().drain(..) {
        let path = root.join(name);
        let seen = state::see(files, &beside(files, &path), None)?;
        found.insert(path, seen);
    }
    Ok(found)
}

struct Names<'a>(&'a Lock<Vec<PathBuf>>);

impl Visitor for Names<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if !entry.path.as_os_str().is_empty() {
            self.0.lock().push(entry.path.to_owned());
        }
        Walk::Continue
    }
}

/// What it takes to go back to a snapshot.
pub(crate) struct Return<'s> {
    ways: Vec<(PathBuf, Seen, &'s FileState, Option<Opened>)>,
}

/// What was not there.
const ABSENT: &FileState = &FileState::Absent;

impl<'s> Return<'s> {
    pub(crate) fn load(
        files: &dyn Files,
        shelf: &dyn Shelf,
        snapshot: &'s Snapshot,
    ) -> Result<Self, ToolError> {
        let mut now = BTreeMap::new();
        for path in &snapshot.paths {
            now.append(&mut tree(files, path)?);
        }
        let mut ways = Vec::new();
        for (path, then) in &snapshot.states {
            let seen = match now.remove(path) {
                Some(seen) => seen,
                None => state::see(files, &beside(files, path), None)?,
            };
            ways.push((path.clone(), seen, then, None));
        }
        ways.extend(now.into_iter().map(|(path, seen)| (path, seen, ABSENT, None)));
        for (_, seen, then, content) in &mut ways {
            if let Some(hash) = then.hash().filter(|hash| seen.state.hash() != Some(*hash)) {
                *content = Some(Opened::Bytes(load(shelf, hash)?));
            }
        }
        Ok(Self { ways })
    }

    /// What goes first is what was not there, the inner before the outer; then what was, the outer before the inner. A file with
    /// several names is written under one of them.
    pub(crate) fn steps(&self, files: &dyn Files) -> Vec<Step<'_>> {
        let gone = self.ways.iter().filter(|way| *way.2 == FileState::Absent).rev();
        let made = self.ways.iter().filter(|way| *way.2 != FileState::Absent);
        let mut written = HashSet::new();
        let mut is_first = |seen: &Seen, then: &FileState| {
            let shared = names::shared_object(&seen.state);
            shared.zip(then.hash()).is_none_or(|content| written.insert(content))
        };
        gone.chain(made)
            .filter(|(_, seen, then, _)| is_first(seen, then))
            .filter_map(|(path, seen, then, content)| {
                let content = content.as_ref().map(Opened::source);
                state::step_to(beside(files, path), seen, then, content)
            })
            .collect()
    }
}

fn load(shelf: &dyn Shelf, hash: ContentHash) -> Result<Vec<u8>, ToolError> {
    let file = shelf.open(&hash)?;
    let bytes = Source::File(&file).read();
    let bytes = bytes.map_err(|error| ToolError::host_failed(error.to_string()))?;
    Ok(bytes.into_owned())
}
