//! A copy of the workspace as it was before a session.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use windlass::changes::{Checkpoint, ContentHash, FileState, History};
use windlass::host::{Isolated, Isolation};
use windlass::quote;

use crate::scratch::Scratch;

/// Copies the workspace into a directory that is thrown away.
pub(super) fn copy(scratch: &Scratch, workspace: &Path, how: Isolation) -> Result<Isolated> {
    let copied = Isolated::create(workspace, &scratch.path().join("work"), how);
    copied.with_context(|| format!("{} cannot be copied", workspace.display()))
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
