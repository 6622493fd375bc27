//! States of paths: reads them, compares them, and makes the steps that restore them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::Path;

use crate::changes::commit::{self, CommitStep, recorded_path};
use crate::changes::hard_links;
use crate::host::is_mixture;
use crate::{
    Attributes, ContentHash, ContentSource, ExpectedState, FileError, FileErrorKind, FileKind,
    FileObject, FileState, Files, Fingerprint, FoundBody, FoundEntry, OpenedContent,
    RecordedChange, Resolved, TargetState, ToolError,
};

/// Result of an inspection of a path.
#[derive(Debug)]
pub(crate) struct InspectedPath {
    pub(crate) state: FileState,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) kind: Option<FileKind>,
    /// Bytes of a small file, if the caller asked for them.
    pub(crate) bytes: Option<Vec<u8>>,
    /// Names in a directory.
    pub(crate) entries: Vec<OsString>,
}

impl InspectedPath {
    /// Makes the result for a path without an object.
    pub(crate) fn absent() -> Self {
        Self {
            state: FileState::Absent,
            fingerprint: None,
            kind: None,
            bytes: None,
            entries: Vec::new(),
        }
    }

    /// Returns the precondition that the object is still the inspected one.
    pub(crate) fn expect(&self) -> ExpectedState {
        self.fingerprint.map_or(ExpectedState::Absent, ExpectedState::Same)
    }

    /// Returns the state with its precondition.
    pub(crate) fn present(&self) -> PresentState<'_> {
        PresentState { state: &self.state, expect: self.expect() }
    }
}

/// The latest change times that were seen, by device.
///
/// The kernel's clock for file times advances only every few milliseconds: two changes within that time can leave one fingerprint.
/// If a file's change time is older than another one that was seen on the same device, its next change gets a newer time.
#[derive(Debug, Default)]
pub(crate) struct LatestStamps(HashMap<u64, i64>);

impl LatestStamps {
    /// Notes a fingerprint that was read just now. Returns whether each later change of the file will give it another one.
    pub(crate) fn note(&mut self, seen: Fingerprint) -> bool {
        let latest = self.0.entry(seen.device).or_insert(i64::MIN);
        let is_settled = seen.changed < *latest;
        *latest = seen.changed.max(*latest);
        is_settled
    }
}

/// Present state of a path, and the expectation that a change of it must state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PresentState<'a> {
    pub(crate) state: &'a FileState,
    pub(crate) expect: ExpectedState,
}

/// Inspects a path. `known` are bytes that were read from it when it had that fingerprint.
pub(crate) fn inspect(
    files: &dyn Files,
    path: &Resolved,
    known: Option<(Fingerprint, &[u8])>,
) -> Result<InspectedPath, FileError> {
    inspect_keeping(files, path, known, 0)
}

/// Inspects a recorded path. A recorded path has no symbolic link above it: if there is one now, the recorded object is absent.
pub(crate) fn inspect_recorded(files: &dyn Files, path: &Path) -> Result<InspectedPath, FileError> {
    match inspect(files, &recorded_path(files, path), None) {
        Err(error) if is_below_link(files, path, &error) => Ok(InspectedPath::absent()),
        seen => seen,
    }
}

/// Returns whether an inspection failed because a symbolic link is above the path.
pub(crate) fn is_below_link(files: &dyn Files, path: &Path, error: &FileError) -> bool {
    let is_link = |above: &Path| {
        let found = files.inspect(&recorded_path(files, above)).ok().flatten();
        found.is_some_and(|found| found.stat.kind == FileKind::Symlink)
    };
    matches!(error.kind, FileErrorKind::Changed) && path.ancestors().skip(1).any(is_link)
}

/// Inspects a path, and keeps the bytes of a file of at most `keep` bytes. All other files are hashed in pieces.
pub(crate) fn inspect_keeping(
    files: &dyn Files,
    path: &Resolved,
    known: Option<(Fingerprint, &[u8])>,
    keep: u64,
) -> Result<InspectedPath, FileError> {
    let Some(FoundEntry { stat, attributes, body }) = files.inspect(path)? else {
        return Ok(InspectedPath::absent());
    };
    let (mut bytes, mut entries) = (None, Vec::new());
    let state = match body {
        FoundBody::File(file) => {
            let known = known.filter(|(fingerprint, _)| *fingerprint == stat.fingerprint);
            if known.is_none() && stat.len <= keep {
                let read = ContentSource::File(&file).read();
                bytes = Some(read.map_err(|error| unreadable(path, error))?.into_owned());
            }
            let hash = match known.map(|(_, known)| known).or(bytes.as_deref()) {
                Some(bytes) => ContentHash::of(bytes),
                None => ContentHash::of_source(ContentSource::File(&file))
                    .map_err(|error| unreadable(path, error))?,
            };
            let Fingerprint { device, inode, .. } = stat.fingerprint;
            let born = creation_time(&file).map_err(|error| unreadable(path, error))?;
            let object = Some(FileObject { device, inode, born, links: stat.links });
            FileState::File { hash, len: stat.len, attributes, object }
        }
        FoundBody::Symlink(target) => {
            let attributes = Attributes { modified: attributes.modified, ..Attributes::default() };
            FileState::Symlink { target, attributes }
        }
        FoundBody::Directory(names) => {
            entries = names;
            FileState::Directory { attributes }
        }
        FoundBody::Other => FileState::Other,
    };
    Ok(InspectedPath {
        state,
        fingerprint: Some(stat.fingerprint),
        kind: Some(stat.kind),
        bytes,
        entries,
    })
}

/// Reads the file at a path, which must have this hash; `None` if it is no file.
pub(crate) fn read(
    files: &dyn Files,
    path: &Resolved,
    hash: ContentHash,
) -> Result<Option<Vec<u8>>, FileError> {
    let Some(file) = open(files, path)? else { return Ok(None) };
    let bytes = ContentSource::File(&file).read().map_err(|error| unreadable(path, error))?;
    if ContentHash::of(&bytes) == hash {
        return Ok(Some(bytes.into_owned()));
    }
    Err(FileError::new("read", &path.path, FileErrorKind::Changed))
}

/// Opens the file at a path; `None` if it is no file.
pub(crate) fn open(files: &dyn Files, path: &Resolved) -> Result<Option<std::fs::File>, FileError> {
    Ok(match files.inspect(path)? {
        Some(FoundEntry { body: FoundBody::File(file), .. }) => Some(file),
        _ => None,
    })
}

/// Returns the creation time of a file, in nanoseconds since 1970; zero if the file system does not record it. A read error is
/// returned, not turned into zero: with different times, an undo would not recognize two hard links of one file.
fn creation_time(file: &std::fs::File) -> std::io::Result<i64> {
    let made = file.metadata()?.created().ok();
    let since = made.and_then(|made| made.duration_since(std::time::UNIX_EPOCH).ok());
    Ok(since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0))
}

fn unreadable(path: &Resolved, error: std::io::Error) -> FileError {
    FileError::new("read", &path.path, FileErrorKind::Io(error))
}

/// Returns whether an object equals its earlier state except for times and inode: it was touched, written anew with the same bytes,
/// or restored.
pub(crate) fn is_unchanged(before: &FileState, now: &FileState) -> bool {
    let timeless = |state: &FileState| {
        let mut state = state.clone();
        if let FileState::File { attributes, .. }
        | FileState::Directory { attributes }
        | FileState::Symlink { attributes, .. } = &mut state
        {
            attributes.modified = None;
        }
        if let FileState::File { object: Some(object), .. } = &mut state {
            // The number of hard links must be equal: with a new hard link, a later change would alter both paths.
            *object = FileObject { device: 0, inode: 0, born: 0, links: object.links };
        }
        state
    };
    timeless(before) == timeless(now)
}

/// Maximum bytes of a git index that is compared entry by entry.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Returns whether a path is the index of a git repository.
pub(crate) fn is_git_index(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "index")
        && path.components().any(|part| part.as_os_str() == ".git")
}

/// Returns a hash of the entries of the git index at a path, which must have this state; `None` if there is no index of a usual size.
pub(crate) fn hash_index_at(
    files: &dyn Files,
    path: &Path,
    state: &FileState,
) -> Option<ContentHash> {
    let FileState::File { hash, len, .. } = state else { return None };
    if !is_git_index(path) || *len > MAX_INDEX_BYTES {
        return None;
    }
    let bytes = read(files, &recorded_path(files, path), *hash).ok()??;
    files.hash_index_entries(&bytes)
}

/// Returns whether a file differs from an earlier state in its bytes only, so that the entries decide if it is a git index.
pub(crate) fn differs_in_bytes_only(before: &FileState, now: &FileState) -> bool {
    let (FileState::File { hash, len, .. }, FileState::File { attributes, object, .. }) =
        (now, before)
    else {
        return false;
    };
    let (attributes, object) = (attributes.clone(), *object);
    is_as_left(now, &FileState::File { hash: *hash, len: *len, attributes, object })
}

/// Returns the attributes of an object.
pub(crate) fn attributes_of(state: &FileState) -> Option<&Attributes> {
    match state {
        FileState::File { attributes, .. }
        | FileState::Directory { attributes }
        | FileState::Symlink { attributes, .. } => Some(attributes),
        FileState::Absent | FileState::Other => None,
    }
}

/// Returns the attributes of a file. A file that replaces a directory does not inherit the directory's attributes.
pub(crate) fn attributes_of_file(state: &FileState) -> Option<&Attributes> {
    match state {
        FileState::File { attributes, .. } => Some(attributes),
        _ => None,
    }
}

/// Computes the attributes of a file with new content: new values, otherwise the old ones, but not the old time of the last change.
pub(crate) fn merged_attributes(new: Option<&Attributes>, old: Option<&Attributes>) -> Attributes {
    let kept = Attributes { modified: None, ..old.cloned().unwrap_or_default() };
    match new {
        Some(new) => merge_attributes(new, &kept),
        None => kept,
    }
}

/// Returns the state with the given attributes replaced.
pub(crate) fn with_attributes(state: &FileState, new: &Attributes) -> FileState {
    let mut state = state.clone();
    if let FileState::File { attributes, .. }
    | FileState::Directory { attributes }
    | FileState::Symlink { attributes, .. } = &mut state
    {
        *attributes = merge_attributes(new, attributes);
    }
    state
}

/// Merges attributes: new values, otherwise the old ones.
fn merge_attributes(new: &Attributes, old: &Attributes) -> Attributes {
    Attributes {
        mode: new.mode.or(old.mode),
        modified: new.modified.or(old.modified),
        owner: new.owner.or(old.owner),
        extended: new.extended.as_ref().or(old.extended.as_ref()).cloned(),
    }
}

/// Makes the step from the present state to the target state; `None` if there is nothing to do. `content` must have the bytes of a
/// file whose content differs.
pub(crate) fn step_to<'a>(
    path: Resolved,
    now: PresentState<'_>,
    target: &'a FileState,
    content: Option<ContentSource<'a>>,
) -> Option<CommitStep<'a>> {
    let to = match (now.state, target) {
        (FileState::Absent, FileState::Absent) | (_, FileState::Other) => return None,
        (_, FileState::Absent) => TargetState::Nothing,
        (
            FileState::File { hash: a, attributes: have, .. },
            FileState::File { hash: b, attributes, .. },
        ) if a == b => {
            if have == attributes {
                return None;
            }
            TargetState::Attributes(attributes)
        }
        (_, FileState::File { attributes, .. }) => {
            TargetState::File { content: content?, attributes: Some(attributes) }
        }
        (
            FileState::Symlink { target: a, attributes: have },
            FileState::Symlink { target: b, attributes },
        ) if a == b => {
            if has_attributes(have, attributes) {
                return None;
            }
            TargetState::Attributes(attributes)
        }
        (_, FileState::Symlink { target, .. }) => TargetState::Symlink(target),
        (FileState::Directory { attributes: have }, FileState::Directory { attributes }) => {
            if has_attributes(have, attributes) {
                return None;
            }
            TargetState::Attributes(attributes)
        }
        (_, FileState::Directory { attributes }) => {
            TargetState::Directory { attributes: Some(attributes) }
        }
    };
    let rewrite = match (to, target) {
        (TargetState::Symlink(_), FileState::Symlink { attributes, .. })
            if !attributes.is_empty() =>
        {
            Some(TargetState::Attributes(attributes))
        }
        _ => None,
    };
    Some(CommitStep {
        rewrite,
        stands_for: file_object(target),
        ..CommitStep::new(path, now.expect, to)
    })
}

/// Returns whether an object has the given mode, time and extended attributes. Ignores the owner, which is restored only as far as
/// the process may.
pub(crate) fn has_attributes(have: &Attributes, said: &Attributes) -> bool {
    let is_mode = said.mode.is_none() || said.mode == have.mode;
    let is_time = said.modified.is_none() || said.modified == have.modified;
    let is_extended = said.extended.is_none() || settable_extended(said) == settable_extended(have);
    is_mode && is_time && is_extended
}

/// Returns whether a state is as a change left it. Permissions and `user.` extended attributes count like the content; access
/// control lists are covered by the mode.
pub(crate) fn is_as_left(now: &FileState, left: &FileState) -> bool {
    let is_users = |name: &str| name.starts_with("user.") && !name.starts_with("user.overlay.");
    let users = |of: &Attributes| {
        let all = of.extended.as_ref()?.iter().filter(|(name, _)| is_users(name));
        Some(all.cloned().collect::<BTreeSet<_>>())
    };
    let attributes = attributes_of(now).zip(attributes_of(left));
    let are_same = |(now, left)| users(now).zip(users(left)).is_none_or(|(now, left)| now == left);
    now.is_like(left) && attributes.is_none_or(are_same)
}

/// Returns the extended attributes that a change can set, sorted. Security labels belong to the system.
fn settable_extended(of: &Attributes) -> Option<Vec<&(String, Vec<u8>)>> {
    let is_given = |name: &str| name.starts_with("user.") || name.starts_with("system.posix_acl_");
    let mut all: Vec<_> = of.extended.as_ref()?.iter().filter(|(name, _)| is_given(name)).collect();
    all.sort();
    Some(all)
}

/// Makes the step that replaces a hard link by a file of its own. The present file stays unchanged under its other hard links.
pub(crate) fn step_with_own_file<'a>(
    path: Resolved,
    now: PresentState<'_>,
    target: &'a FileState,
    content: Option<ContentSource<'a>>,
) -> Option<CommitStep<'a>> {
    let attributes = attributes_of(target);
    let to = TargetState::File { content: content?, attributes };
    let stands_for = file_object(target);
    Some(CommitStep { stands_for, is_apart: true, ..CommitStep::new(path, now.expect, to) })
}

/// Returns the identity of the file, if the state is one.
pub(crate) fn file_object(state: &FileState) -> Option<FileObject> {
    match state {
        FileState::File { object, .. } => *object,
        _ => None,
    }
}

/// Result of restoring one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestoreResult {
    /// It already had its earlier state.
    AsBefore,
    /// It was restored.
    Restored,
    /// It has neither its earlier state nor the one that the change would have given it.
    ChangedByOthers,
}

/// Part of a change in a move.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MoveRole<'a> {
    /// The change is no part of a move.
    None,
    /// The object was moved here; this is the change of the path from which it came.
    From(&'a RecordedChange),
    /// The object was moved away; this is the change of the path to which it went.
    To(&'a RecordedChange),
}

/// Moves of a checkpoint, by path.
#[derive(Debug, Default)]
pub(crate) struct CheckpointMoves<'a> {
    origins: HashMap<&'a Path, &'a RecordedChange>,
    destinations: HashMap<&'a Path, &'a RecordedChange>,
}

impl<'a> CheckpointMoves<'a> {
    /// Collects the moves among these changes.
    pub(crate) fn among(all: &'a [RecordedChange]) -> Self {
        let mut moves = Self::default();
        for change in all {
            if let Some(from) = &change.moved_from {
                moves.destinations.entry(from).or_insert(change);
            }
        }
        if moves.destinations.is_empty() {
            return moves;
        }
        for change in all.iter().filter(|change| change.after == FileState::Absent) {
            moves.origins.entry(&change.path).or_insert(change);
        }
        moves
    }

    /// Returns the part of a change in a move.
    pub(crate) fn of(&self, change: &RecordedChange) -> MoveRole<'a> {
        let origin = change.moved_from.as_deref().and_then(|from| self.origins.get(from));
        let is_gone = change.after == FileState::Absent;
        let destination = self.destinations.get(change.path.as_path()).filter(|_| is_gone);
        match (origin, destination) {
            (Some(origin), _) => MoveRole::From(origin),
            (None, Some(destination)) => MoveRole::To(destination),
            (None, None) => MoveRole::None,
        }
    }
}

/// Opens the bytes of a file as it was before the change or should be after it.
pub(crate) type ContentOpener<'a> = &'a dyn Fn(&ContentHash) -> Result<OpenedContent, ToolError>;

/// Restores one object of an interrupted change to its earlier state.
pub(crate) fn restore_before(
    files: &dyn Files,
    change: &RecordedChange,
    moved: &MoveRole<'_>,
    content: ContentOpener<'_>,
) -> Result<RestoreResult, ToolError> {
    let path = recorded_path(files, &change.path);
    let now = inspect_recorded(files, &change.path)?;
    let is_directory = matches!(now.state, FileState::Directory { .. });
    let is_as_before = match attributes_of(&now.state).zip(attributes_of(&change.before)) {
        Some((have, before)) if change.is_directory_time() => has_attributes(have, before),
        _ => now.state.is_like(&change.before),
    };
    // If the object is no longer a directory, there is no directory time to restore.
    if is_as_before || (change.is_directory_time() && !is_directory) {
        return Ok(RestoreResult::AsBefore);
    }
    if let MoveRole::From(origin) = moved {
        return move_back(files, &path, &now, change, origin, content);
    }
    if !is_our_result(files, &path, &now, change, moved, content)? {
        return Ok(RestoreResult::ChangedByOthers);
    }
    restore(files, path, &now, change, content)
}

/// Restores the earlier state at the path of a change.
fn restore(
    files: &dyn Files,
    path: Resolved,
    now: &InspectedPath,
    change: &RecordedChange,
    content: ContentOpener<'_>,
) -> Result<RestoreResult, ToolError> {
    // A change of one file in place is restored in that file, even if its inode number is another one now: the workspace may have
    // been copied.
    let stays = hard_links::identity_of(&change.before) == hard_links::identity_of(&change.after);
    let is_apart = !stays && hard_links::must_detach(&now.state, &change.before);
    let bytes = match &change.before {
        FileState::File { hash, .. } if is_apart || now.state.hash() != Some(*hash) => {
            Some(content(hash)?)
        }
        _ => None,
    };
    let name = match hard_links::shared_identity(&change.before) {
        Some(object) if !stays && hard_links::identity_of(&now.state) != Some(object) => {
            hard_links::find_link(files, object, &change.before, &|_| false)?
        }
        _ => None,
    };
    let step = match &name {
        Some((with, InspectedPath { fingerprint: Some(seen), .. })) => {
            Some(CommitStep::new(path, now.expect(), TargetState::Linked { with, seen: *seen }))
        }
        _ if is_apart => step_with_own_file(
            path,
            now.present(),
            &change.before,
            bytes.as_ref().map(OpenedContent::source),
        ),
        _ => {
            step_to(path, now.present(), &change.before, bytes.as_ref().map(OpenedContent::source))
        }
    };
    let Some(step) = step else { return Ok(RestoreResult::AsBefore) };
    match commit::perform_step(files, &step, now.kind, change.temporary.as_deref()) {
        Ok(_) => Ok(RestoreResult::Restored),
        // A directory that the change made and that now contains another program's files stays.
        Err(FileError { kind: FileErrorKind::NotEmpty, .. }) => Ok(RestoreResult::AsBefore),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether the present object is a complete or partial result of the change.
fn is_our_result(
    files: &dyn Files,
    path: &Resolved,
    now: &InspectedPath,
    change: &RecordedChange,
    moved: &MoveRole<'_>,
    content: ContentOpener<'_>,
) -> Result<bool, ToolError> {
    if now.state.is_like(&change.after) {
        return Ok(true);
    }
    if now.state == FileState::Absent {
        // An object of another kind was in the way and is removed already.
        return Ok(true);
    }
    if let FileState::Directory { .. } = now.state {
        // A new directory gets its permissions after it was made.
        let is_directory = |state: &FileState| matches!(state, FileState::Directory { .. });
        return Ok(is_directory(&change.before) || is_directory(&change.after));
    }
    let after = match moved {
        // The file was moved back already, but its content was not fully restored yet.
        MoveRole::To(destination) => &destination.after,
        MoveRole::From(_) | MoveRole::None => &change.after,
    };
    match (change.before.hash(), after.hash()) {
        (Some(old), Some(new)) => is_old_new_or_mixture(files, path, now, old, new, content),
        _ => Ok(false),
    }
}

/// Returns whether a file has the bytes of one of two states, or a mixture of both: a file that is written in place has a mixture
/// for a moment. Ignores attributes.
fn is_old_new_or_mixture(
    files: &dyn Files,
    path: &Resolved,
    now: &InspectedPath,
    old: ContentHash,
    new: ContentHash,
    content: ContentOpener<'_>,
) -> Result<bool, ToolError> {
    let Some(hash) = now.state.hash() else { return Ok(false) };
    if hash == old || hash == new {
        return Ok(true);
    }
    let Some(file) = open(files, path)? else { return Ok(false) };
    let mixed = is_mixture(&OpenedContent::File(file), &content(&old)?, &content(&new)?);
    Ok(mixed.map_err(|error| unreadable(path, error))?)
}

/// Takes back a move, and what was written to the file after the move.
fn move_back(
    files: &dyn Files,
    path: &Resolved,
    now: &InspectedPath,
    change: &RecordedChange,
    origin: &RecordedChange,
    content: ContentOpener<'_>,
) -> Result<RestoreResult, ToolError> {
    let (Some(seen), Some(new), Some(old)) =
        (now.fingerprint, change.after.hash(), origin.before.hash())
    else {
        return Ok(RestoreResult::ChangedByOthers);
    };
    if !is_old_new_or_mixture(files, path, now, old, new, content)? {
        return Ok(RestoreResult::ChangedByOthers);
    }
    let home = recorded_path(files, &origin.path);
    if inspect_recorded(files, &home.path)?.state.is_like(&origin.before) {
        // An earlier attempt could not reach the file here and restored its old path from the history.
        return restore(files, path.clone(), now, change, content);
    }
    let bytes = if now.state.hash() == Some(old) { None } else { Some(content(&old)?) };
    let attributes = attributes_of(&origin.before);
    let rewrite =
        bytes.as_ref().map(|bytes| TargetState::File { content: bytes.source(), attributes });
    let moved = TargetState::Moved { from: path, seen };
    let step = CommitStep { rewrite, ..CommitStep::new(home, ExpectedState::Absent, moved) };
    commit::perform_step(files, &step, None, change.temporary.as_deref())?;
    if change.before == FileState::Absent {
        return Ok(RestoreResult::Restored);
    }
    restore(files, path.clone(), &InspectedPath::absent(), change, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_conclusive_if_a_later_one_was_seen_on_its_device() {
        let mut stamps = LatestStamps::default();
        for (device, changed, is_settled, why) in [
            (1, 50, false, "the first"),
            (1, 50, false, "of the same moment"),
            (1, 49, true, "older than the first"),
            (2, 10, false, "the first of another device"),
            (1, 60, false, "later than all"),
            (1, 50, true, "older by now"),
            (2, 9, true, "older on its own device"),
        ] {
            let seen = Fingerprint { device, inode: 1, len: 0, modified: 0, changed };
            assert_eq!(stamps.note(seen), is_settled, "{why}");
        }
    }
}
