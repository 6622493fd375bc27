//! Makes a copy of the workspace, and returns it to the state before a session.

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

/// Copies the workspace into a temporary directory.
pub(super) fn copy(scratch: &Scratch, workspace: &Path, how: Isolation) -> Result<Isolated> {
    let copied = Isolated::create(workspace, &scratch.path().join("work"), how);
    copied.with_context(|| format!("{} cannot be copied", workspace.display()))
}

/// Restores in the copy the files as they were before the changes, which are given the oldest first. Returns a note for each path that
/// could not be restored.
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
    let restorer =
        Restorer { history, copy, current_contents: current_contents(copy, first.keys().copied()) };
    let mut notes = Vec::new();
    let mut restore_and_note = |inside: &Path, state: &FileState| {
        if let Err(why) = restorer.restore(inside, state) {
            let inside = quote::path(inside);
            notes.push(format!("{inside} is not as it was before the session: {why:#}"));
        }
    };
    // Removals come first, contents before their directory; then restored paths, a directory before its contents.
    for (inside, state) in first.iter().rev().filter(|(_, state)| **state == &FileState::Absent) {
        restore_and_note(inside, state);
    }
    for (inside, state) in first.iter().filter(|(_, state)| **state != &FileState::Absent) {
        restore_and_note(inside, state);
    }
    notes
}

/// Reads the current contents of the changed files, by hash: the undo history does not keep the content of a file that was only moved.
fn current_contents<'a>(
    copy: &Path,
    paths: impl Iterator<Item = &'a Path>,
) -> BTreeMap<ContentHash, Vec<u8>> {
    let content = |inside: &Path| {
        let dest = path_without_links(copy, inside)?;
        dest.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
        fs::read(dest).ok()
    };
    paths.filter_map(content).map(|bytes| (ContentHash::of(&bytes), bytes)).collect()
}

/// Returns a path inside the copy, or `None` if a link on the way leads elsewhere: nothing outside of the copy is ever touched.
fn path_without_links(copy: &Path, inside: &Path) -> Option<PathBuf> {
    let mut dest = copy.to_owned();
    let mut names = inside.components().peekable();
    while let Some(name) = names.next() {
        let std::path::Component::Normal(name) = name else { return None };
        dest.push(name);
        let is_last = names.peek().is_none();
        if !is_last && dest.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            return None;
        }
    }
    Some(dest)
}

/// The sources and the target of a restoration.
struct Restorer<'a> {
    history: &'a dyn History,
    copy: &'a Path,
    current_contents: BTreeMap<ContentHash, Vec<u8>>,
}

impl Restorer<'_> {
    /// Restores one path to a state.
    fn restore(&self, inside: &Path, state: &FileState) -> Result<()> {
        let dest = path_without_links(self.copy, inside).context("a link is in the way")?;
        match state {
            FileState::Absent => remove(&dest)?,
            FileState::File { hash, attributes, .. } => {
                let content = self.content(hash)?;
                prepare_path(&dest)?;
                fs::write(&dest, content)?;
                set_mode(&dest, attributes.mode)?;
            }
            FileState::Symlink { target, .. } => {
                prepare_path(&dest)?;
                std::os::unix::fs::symlink(target, &dest)?;
            }
            FileState::Directory { attributes } => {
                if !dest.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                    prepare_path(&dest)?;
                    fs::create_dir(&dest)?;
                }
                set_mode(&dest, attributes.mode)?;
            }
            FileState::Other => anyhow::bail!("it was neither file, link nor directory"),
        }
        Ok(())
    }

    /// Returns the content with this hash, from the undo history or from the current files.
    fn content(&self, hash: &ContentHash) -> Result<Vec<u8>> {
        match self.history.content(hash) {
            Ok(content) => Ok(content),
            Err(error) => self.current_contents.get(hash).cloned().ok_or(error.into()),
        }
    }
}

/// Removes a path and creates the directories above it.
fn prepare_path(dest: &Path) -> io::Result<()> {
    if let Some(above) = dest.parent() {
        fs::create_dir_all(above)?;
    }
    remove(dest)
}

/// Removes a file, link or directory tree; succeeds if there is none.
fn remove(dest: &Path) -> io::Result<()> {
    let removed = match dest.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(dest),
        Ok(_) => fs::remove_file(dest),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Sets permissions, if they are known.
fn set_mode(dest: &Path, mode: Option<u32>) -> io::Result<()> {
    mode.map_or(Ok(()), |mode| fs::set_permissions(dest, fs::Permissions::from_mode(mode & 0o7777)))
}
