//! Files with several hard links: identifies the file of a state, and finds its other paths.
//!
//! New content is put at one path only: that path gets a new file, and the other hard links keep the old one. Permissions, times
//! and attributes belong to the inode and so apply to all hard links. An undo links the paths together again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::changes::commit::recorded_path;
use crate::changes::state::{self, InspectedPath};
use crate::sync::Lock;
use crate::{
    Checkpoint, Entry, FileError, FileKind, FileObject, FileState, Files, Fingerprint, Resolved,
    Visitor, Walk, WalkOptions,
};

/// Identity of a file: device, inode number, creation time. The time is needed because inode numbers are reused.
pub(crate) type FileIdentity = (u64, u64, i64);

/// Returns the identity of the file, if the state is one.
pub(crate) fn identity_of(state: &FileState) -> Option<FileIdentity> {
    match state {
        FileState::File { object: Some(object), .. } => {
            Some((object.device, object.inode, object.born))
        }
        _ => None,
    }
}

/// Returns the number of hard links of the file; 0 if the state is no file.
pub(crate) fn link_count(state: &FileState) -> u64 {
    match state {
        FileState::File { object: Some(object), .. } => object.links,
        _ => 0,
    }
}

/// Returns the identity of the file, if it had other hard links.
pub(crate) fn shared_identity(state: &FileState) -> Option<FileIdentity> {
    identity_of(state).filter(|_| link_count(state) > 1)
}

/// Returns whether the present file has other hard links and the path must get another file.
pub(crate) fn must_detach(now: &FileState, then: &FileState) -> bool {
    shared_identity(now).zip(identity_of(then)).is_some_and(|(now, then)| now != then)
}

/// Maps the identities of restored files to those on record: a restored file is a new inode that stands for the recorded one. A
/// file may be lost and restored repeatedly, so one file can have many identities on record.
#[derive(Debug, Default)]
pub(crate) struct FileIdentities {
    /// For each identity, the earlier one that it replaced.
    older: HashMap<FileIdentity, FileIdentity>,
    /// For the first identity of a file, the one that it has on disk now.
    real: HashMap<FileIdentity, FileIdentity>,
}

impl FileIdentities {
    /// Collects the identities from a record, newest checkpoint first. If a change found a state like the one that the previous
    /// change left at the path, both are the same file.
    pub(crate) fn on_record(checkpoints: &[Checkpoint]) -> Self {
        let mut identities = Self::default();
        let mut left: HashMap<&Path, &FileState> = HashMap::new();
        for change in checkpoints.iter().rev().flat_map(|checkpoint| &checkpoint.changes) {
            if let Some(left) = left.insert(&change.path, &change.after)
                && left.is_like(&change.before)
            {
                identities.note(left, &change.before);
            }
        }
        identities
    }

    /// Notes that two states are of one file.
    fn note(&mut self, older: &FileState, newer: &FileState) {
        let (Some(older), Some(newer)) = (self.file_of(older), self.file_of(newer)) else { return };
        if older == newer {
            return;
        }
        self.older.insert(newer, older);
        if let Some(real) = self.real.remove(&newer) {
            self.real.insert(older, real);
        }
    }

    /// Notes the present identity of a recorded file.
    pub(crate) fn note_present(&mut self, recorded: &FileState, real: &FileState) {
        self.note(recorded, real);
        if let (Some(file), Some(real)) = (self.file_of(recorded), identity_of(real)) {
            self.real.insert(file, real);
        }
    }

    /// Returns the first recorded identity of the file of a state.
    pub(crate) fn file_of(&self, state: &FileState) -> Option<FileIdentity> {
        let mut object = identity_of(state)?;
        while let Some(older) = self.older.get(&object) {
            object = *older;
        }
        Some(object)
    }

    /// Returns the first recorded identity of the file of a state, if it had other hard links.
    pub(crate) fn shared_file_of(&self, state: &FileState) -> Option<FileIdentity> {
        self.file_of(state).filter(|_| link_count(state) > 1)
    }

    /// Returns the state with the first recorded identity of its file.
    pub(crate) fn with_first_identity(&self, state: &FileState) -> FileState {
        let mut named = state.clone();
        if let (FileState::File { object: Some(object), .. }, Some(first)) =
            (&mut named, self.file_of(state))
        {
            (object.device, object.inode, object.born) = first;
        }
        named
    }

    /// Returns the identity that a file has on disk now.
    pub(crate) fn present_identity(&self, file: FileIdentity) -> FileIdentity {
        self.real.get(&file).copied().unwrap_or(file)
    }
}

/// Finds a hard link of a file in the workspace, except the paths that are passed over, if its state is like `left`. Inode numbers
/// are reused: a file that is not like the recorded one is another file.
pub(crate) fn find_link(
    files: &dyn Files,
    object: FileIdentity,
    left: &FileState,
    is_passed_over: &(dyn Fn(&Path) -> bool + Sync),
) -> Result<Option<(Resolved, InspectedPath)>, FileError> {
    let found = Lock::new(None);
    let options = WalkOptions { ignore_files: false, ..WalkOptions::default() };
    let workspace = files.workspace();
    let visitors = || -> Box<dyn Visitor + '_> {
        Box::new(LinkSearch { object, workspace, is_passed_over, found: &found })
    };
    files.walk(&recorded_path(files, workspace), &options, &visitors)?;
    let Some(name) = found.lock().take() else { return Ok(None) };
    let name = recorded_path(files, &name);
    let seen = state::inspect(files, &name, None)?;
    // The creation time may have been unknown then, or be unknown now.
    let (device, inode, born) = object;
    let wanted = FileObject { device, inode, born, links: 0 };
    let is_same = state::file_object(&seen.state).is_some_and(|object| object.is_same(&wanted));
    Ok((is_same && seen.state.is_like(left)).then_some((name, seen)))
}

/// Searches for a file by device and inode number.
struct LinkSearch<'a> {
    object: FileIdentity,
    workspace: &'a Path,
    is_passed_over: &'a (dyn Fn(&Path) -> bool + Sync),
    found: &'a Lock<Option<PathBuf>>,
}

impl Visitor for LinkSearch<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if entry.kind != FileKind::File {
            return Walk::Continue;
        }
        let Ok(stat) = entry.opener.stat() else { return Walk::Continue };
        let path = self.workspace.join(entry.path);
        let Fingerprint { device, inode, .. } = stat.fingerprint;
        let (wanted_device, wanted_inode, _) = self.object;
        if (device, inode) != (wanted_device, wanted_inode) || (self.is_passed_over)(&path) {
            return Walk::Continue;
        }
        *self.found.lock() = Some(path);
        Walk::Stop
    }
}
