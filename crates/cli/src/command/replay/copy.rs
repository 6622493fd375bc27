//! A folder that is thrown away, with a copy of the workspace in it as it was before a session.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use windlass::changes::{Checkpoint, ContentHash, FileState, History};
use windlass::host::{Isolated, Isolation};
use windlass::quote;
use windlass::session::{IdSource as _, RandomIds};

use crate::places;

/// A folder of our own that goes when this goes.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Self> {
        let name = format!("windlass-replay-{:x}", RandomIds::default().next());
        let path = places::temporary().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make {}", path.display()))?;
        // Rules are about real places.
        Ok(Self(path.canonicalize().unwrap_or(path)))
    }

    pub(super) fn copy(&self, workspace: &Path, how: Isolation) -> Result<Isolated> {
        let copied = Isolated::create(workspace, &self.0.join("work"), how);
        copied.with_context(|| format!("{} cannot be copied", workspace.display()))
    }

    pub(super) fn state(&self) -> PathBuf {
        self.0.join("state")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in a directory for temporary files is taken away by others.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Brings back in the copy what was there before the changes, which are given the oldest first. What could not be brought back, and
/// why.
pub(super) fn rewind(
    history: &dyn History,
    changes: &[Checkpoint],
    workspace: &Path,
    copy: &Path,
) -> Vec<String> {
    let mut first: BTreeMap<&Path, &FileState> = BTreeMap::new();
    let changes = changes.iter().flat_map(|checkpoint| &checkpoint.changes);
    for change in changes.filter(|change| !change.is_directory_time()) {
        if let Ok(inside) = change.path.strip_prefix(workspace) {
            first.entry(inside).or_insert(&change.before);
        }
    }
    let here = Here { history, copy, kept: kept(copy, first.keys().copied()) };
    let mut notes = Vec::new();
    let mut bring = |inside: &Path, state: &FileState| {
        if let Err(why) = here.bring_back(inside, state) {
            let inside = quote::path(inside);
            notes.push(format!("{inside} is not as it was before the session: {why:#}"));
        }
    };
    // What is to go goes first, the deepest before what it is in; what is to come needs its directory.
    for (inside, state) in first.iter().rev().filter(|(_, state)| **state == &FileState::Absent) {
        bring(inside, state);
    }
    for (inside, state) in first.iter().filter(|(_, state)| **state != &FileState::Absent) {
        bring(inside, state);
    }
    notes
}

/// What the changed files hold now: a file that was only moved is not kept elsewhere.
fn kept<'a>(copy: &Path, paths: impl Iterator<Item = &'a Path>) -> BTreeMap<ContentHash, Vec<u8>> {
    let content = |inside: &Path| {
        let place = real_place(copy, inside)?;
        place.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
        fs::read(place).ok()
    };
    paths.filter_map(content).map(|bytes| (ContentHash::of(&bytes), bytes)).collect()
}

/// The place of a path in the copy, unless a link on the way leads elsewhere: nothing outside of the copy is ever touched.
fn real_place(copy: &Path, inside: &Path) -> Option<PathBuf> {
    let mut place = copy.to_owned();
    let mut names = inside.components().peekable();
    while let Some(name) = names.next() {
        let std::path::Component::Normal(name) = name else { return None };
        place.push(name);
        let is_last = names.peek().is_none();
        if !is_last && place.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            return None;
        }
    }
    Some(place)
}

struct Here<'a> {
    history: &'a dyn History,
    copy: &'a Path,
    kept: BTreeMap<ContentHash, Vec<u8>>,
}

impl Here<'_> {
    fn bring_back(&self, inside: &Path, state: &FileState) -> Result<()> {
        let place = real_place(self.copy, inside).context("a link is in the way")?;
        match state {
            FileState::Absent => remove(&place)?,
            FileState::File { hash, attributes, .. } => {
                let content = self.content(hash)?;
                make_room(&place)?;
                fs::write(&place, content)?;
                set_mode(&place, attributes.mode)?;
            }
            FileState::Symlink { target, .. } => {
                make_room(&place)?;
                std::os::unix::fs::symlink(target, &place)?;
            }
            FileState::Directory { attributes } => {
                if !place.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                    make_room(&place)?;
                    fs::create_dir(&place)?;
                }
                set_mode(&place, attributes.mode)?;
            }
            FileState::Other => anyhow::bail!("it was neither file, link nor directory"),
        }
        Ok(())
    }

    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>> {
        match self.history.content(hash) {
            Ok(content) => Ok(content),
            Err(error) => self.kept.get(hash).cloned().ok_or(error.into()),
        }
    }
}

/// Takes away what is at a place and makes the directories above it.
fn make_room(place: &Path) -> io::Result<()> {
    if let Some(above) = place.parent() {
        fs::create_dir_all(above)?;
    }
    remove(place)
}

fn remove(place: &Path) -> io::Result<()> {
    let removed = match place.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(place),
        Ok(_) => fs::remove_file(place),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn set_mode(place: &Path, mode: Option<u32>) -> io::Result<()> {
    mode.map_or(Ok(()), |mode| {
        fs::set_permissions(place, fs::Permissions::from_mode(mode & 0o7777))
    })
}
