//! Files that have several names: which object a file is, and where else it can be found.
//!
//! New content comes under one name only: the file that gets it is another object from then on, and the other names keep the old
//! one. Permissions, times and attributes are of the object, under all its names. Taking back a change joins the names again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::changes::commit::beside;
use crate::changes::state::{self, Seen};
use crate::sync::Lock;
use crate::{
    Checkpoint, Entry, FileError, FileKind, FileObject, FileState, Files, Fingerprint, Resolved,
    Visitor, Walk, WalkOptions,
};

/// A file, whatever it is called: its device, its number there, and when it was made, since numbers are used again.
pub(crate) type Object = (u64, u64, i64);

/// Which object a state was of.
pub(crate) fn object_of(state: &FileState) -> Option<Object> {
    match state {
        FileState::File { object: Some(object), .. } => {
            Some((object.device, object.inode, object.born))
        }
        _ => None,
    }
}

/// How many names the object of a state had.
pub(crate) fn links(state: &FileState) -> u64 {
    match state {
        FileState::File { object: Some(object), .. } => object.links,
        _ => 0,
    }
}

/// Which object a state was of, if it had other names.
pub(crate) fn shared_object(state: &FileState) -> Option<Object> {
    object_of(state).filter(|_| links(state) > 1)
}

/// Whether a file has other names and another file is to be in the place of this one.
pub(crate) fn are_apart(now: &FileState, then: &FileState) -> bool {
    shared_object(now).zip(object_of(then)).is_some_and(|(now, then)| now != then)
}

/// Which objects are one file: what was restored is a new object, and is meant where the old one is on record. It may be lost and
/// restored again, so one file can have many numbers on record.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    /// The object in whose place another one is.
    older: HashMap<Object, Object>,
    /// The object that is there, by the first one of the file.
    real: HashMap<Object, Object>,
}

impl Identities {
    /// What a record tells, the newest checkpoint first. What one change left at a place is what the next one found there, if it is
    /// like it.
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

    /// Notes that what is on record is there.
    pub(crate) fn note_real(&mut self, recorded: &FileState, real: &FileState) {
        self.note(recorded, real);
        if let (Some(file), Some(real)) = (self.file_of(recorded), object_of(real)) {
            self.real.insert(file, real);
        }
    }

    /// Which file a state was of: the first object on record that was this file.
    pub(crate) fn file_of(&self, state: &FileState) -> Option<Object> {
        let mut object = object_of(state)?;
        while let Some(older) = self.older.get(&object) {
            object = *older;
        }
        Some(object)
    }

    /// Which file a state was of, if it had other names.
    pub(crate) fn shared_file_of(&self, state: &FileState) -> Option<Object> {
        self.file_of(state).filter(|_| links(state) > 1)
    }

    /// A state, of the first object that was its file.
    pub(crate) fn as_first(&self, state: &FileState) -> FileState {
        let mut named = state.clone();
        if let (FileState::File { object: Some(object), .. }, Some(first)) =
            (&mut named, self.file_of(state))
        {
            (object.device, object.inode, object.born) = first;
        }
        named
    }

    /// The object that is there for a file.
    pub(crate) fn real(&self, file: Object) -> Object {
        self.real.get(&file).copied().unwrap_or(file)
    }
}

/// A name that an object has in the workspace, other than those that are passed over, if it is like what was left of it there.
/// Numbers are used again: what is not like it is another file.
pub(crate) fn find(
    files: &dyn Files,
    object: Object,
    left: &FileState,
    is_passed_over: &(dyn Fn(&Path) -> bool + Sync),
) -> Result<Option<(Resolved, Seen)>, FileError> {
    let found = Lock::new(None);
    let options = WalkOptions {
        max_depth: usize::MAX,
        ignore_files: false,
        version_control: false,
        threads: 0,
        hidden: &|_| false,
        left_out: &|_, _| {},
        cancelled: &|| false,
    };
    let workspace = files.workspace();
    let visitors = || -> Box<dyn Visitor + '_> {
        Box::new(Search { object, workspace, is_passed_over, found: &found })
    };
    files.walk(&beside(files, workspace), &options, &visitors)?;
    let Some(name) = found.lock().take() else { return Ok(None) };
    let name = beside(files, &name);
    let seen = state::see(files, &name, None)?;
    // When it was made may have been unknown then, or now.
    let (device, inode, born) = object;
    let wanted = FileObject { device, inode, born, links: 0 };
    let is_same = state::object(&seen.state).is_some_and(|object| object.is_same(&wanted));
    Ok((is_same && seen.state.is_like(left)).then_some((name, seen)))
}

/// Looks for an object by its number.
struct Search<'a> {
    object: Object,
    workspace: &'a Path,
    is_passed_over: &'a (dyn Fn(&Path) -> bool + Sync),
    found: &'a Lock<Option<PathBuf>>,
}

impl Visitor for Search<'_> {
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
