//! Turns the removal of a file and the creation of an equal one into a move.
//!
//! An overlay does not record renames: a file that a program moved is removed at one path and new at another. If it were committed
//! like that, an undo would read the old content from the history, the new content would have to be synced to the disk,
//! and the file would become another inode. A file that is equal in everything is renamed instead, which takes one system call in each
//! direction.
//!
//! A directory from which something is moved is removed after the moves.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{CommitStep, recorded_path};
use crate::{
    Attributes, ContentHash, ContentSource, ExpectedState, FileError, FileErrorKind, Files,
    Fingerprint, FoundBody, FoundEntry, TargetState,
};

/// Maximum number of removed files of one name, length and time whose content is compared with that of a new file.
const MAX_COMPARED_FILES: usize = 8;

/// Returns the steps with each removal and creation that can be one rename joined to one step, in an order in which they can be
/// performed. Not joined are files on two devices, files below a directory that is replaced, and files for which too many candidates
/// have the same length and time.
pub(crate) fn join_moves<'s>(
    files: &dyn Files,
    steps: &'s [CommitStep<'s>],
) -> Cow<'s, [CommitStep<'s>]> {
    let mut removed = RemovedFiles::among(steps);
    if removed.0.is_empty() {
        return Cow::Borrowed(steps);
    }
    let mut devices = DirectoryDevices { files, devices: HashMap::new() };
    let replaced_paths = replaced_paths(steps);
    // For each step that becomes a move, the step that removes the old path.
    let mut moves: HashMap<usize, usize> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        let Some(staged) = StagedFile::of(step) else { continue };
        let origin = removed.take_origin(steps, &staged, &mut |from, seen| {
            let is_free =
                from.path.path.ancestors().skip(1).all(|above| !replaced_paths.contains(above));
            is_free
                && devices.is_same_device(&step.path.path, seen)
                && staged.is_same_file(files, from, seen)
        });
        moves.extend(origin.map(|origin| (at, origin)));
    }
    if moves.is_empty() { Cow::Borrowed(steps) } else { Cow::Owned(with_moves(steps, &moves)) }
}

/// Removed files by length and time, then by name.
struct RemovedFiles<'s>(HashMap<(u64, i64), HashMap<&'s OsStr, Vec<usize>>>);

impl<'s> RemovedFiles<'s> {
    /// Collects the removals with a known fingerprint. [`StagedFile::is_same_file`] checks later that the object is a regular file.
    fn among(steps: &'s [CommitStep<'_>]) -> Self {
        let mut removed: HashMap<_, HashMap<_, Vec<usize>>> = HashMap::new();
        for (at, step) in steps.iter().enumerate() {
            if let (TargetState::Nothing, ExpectedState::Same(seen), Some(name)) =
                (&step.to, step.expect, step.path.path.file_name())
            {
                let alike = removed.entry((seen.len, seen.modified)).or_default();
                alike.entry(name).or_default().push(at);
            }
        }
        Self(removed)
    }

    /// Takes out the first candidate for a new file that `is_it` accepts. Tries only candidates of the same name or, if there are none,
    /// of one other name, and at most [`MAX_COMPARED_FILES`] of them.
    fn take_origin(
        &mut self,
        steps: &[CommitStep<'_>],
        staged: &StagedFile<'_>,
        is_it: &mut dyn FnMut(&CommitStep<'_>, Fingerprint) -> bool,
    ) -> Option<usize> {
        let alike = self.0.get_mut(&(staged.metadata.len(), staged.modified))?;
        let name = staged.name.filter(|name| alike.contains_key(name));
        let name = name.or_else(|| alike.keys().next().copied())?;
        let same_name = alike.get_mut(name)?;
        let is_origin = |at: &&usize| match steps.get(**at) {
            Some(from @ CommitStep { expect: ExpectedState::Same(seen), .. }) => is_it(from, *seen),
            _ => false,
        };
        let origin = *same_name.iter().take(MAX_COMPARED_FILES).find(is_origin)?;
        same_name.retain(|at| *at != origin);
        if same_name.is_empty() {
            alike.remove(name);
        }
        Some(origin)
    }
}

/// A new file on the stage.
struct StagedFile<'s> {
    /// Path on the stage.
    path: &'s Path,
    /// Name at its new path.
    name: Option<&'s OsStr>,
    attributes: &'s Attributes,
    modified: i64,
    /// Metadata of the file on the stage.
    metadata: Metadata,
}

impl<'s> StagedFile<'s> {
    /// Returns the staged file of a step that creates a regular file with one link at a free path. `None` for any other step, and for
    /// one that rewrites or separates the file, or sets no time.
    fn of(step: &'s CommitStep<'_>) -> Option<Self> {
        let TargetState::File { content: ContentSource::At(path), attributes: Some(attributes) } =
            step.to
        else {
            return None;
        };
        if step.expect != ExpectedState::Absent || step.rewrite.is_some() || step.is_apart {
            return None;
        }
        let metadata = std::fs::symlink_metadata(path).ok()?;
        let modified = attributes.modified?;
        let name = step.path.path.file_name();
        (metadata.is_file() && metadata.nlink() == 1).then_some(Self {
            path,
            name,
            attributes,
            modified,
            metadata,
        })
    }

    /// Returns whether the file that a step removes is still the one that was seen, has one link, and equals this one in content, mode,
    /// time, owner and extended attributes.
    fn is_same_file(&self, files: &dyn Files, from: &CommitStep<'_>, seen: Fingerprint) -> bool {
        let Ok(Some(FoundEntry { stat, attributes, body: FoundBody::File(file) })) =
            files.inspect(&from.path)
        else {
            return false;
        };
        let owner = self.attributes.owner.unwrap_or((self.metadata.uid(), self.metadata.gid()));
        let wanted = Attributes { owner: Some(owner), ..self.attributes.clone() };
        stat.fingerprint == seen
            && stat.links == 1
            && attributes == wanted
            && ContentHash::of_source(ContentSource::File(&file))
                .and_then(|old| Ok(old == ContentHash::of_source(ContentSource::At(self.path))?))
                .unwrap_or(false)
    }
}

/// Returns the paths where a step replaces an object by another. The object may be a directory, and nothing can be moved out of that
/// one any more.
fn replaced_paths<'s>(steps: &'s [CommitStep<'_>]) -> HashSet<&'s Path> {
    let is_blocked = |step: &&CommitStep<'_>| {
        step.expect != ExpectedState::Absent
            && !matches!(step.to, TargetState::Nothing | TargetState::Attributes(_))
    };
    steps.iter().filter(is_blocked).map(|step| step.path.path.as_path()).collect()
}

/// Device numbers of directories.
struct DirectoryDevices<'f, 's> {
    files: &'f dyn Files,
    devices: HashMap<&'s Path, Option<u64>>,
}

impl<'s> DirectoryDevices<'_, 's> {
    /// Returns whether a file can be renamed to the new path: both are on one device.
    fn is_same_device(&mut self, to: &'s Path, seen: Fingerprint) -> bool {
        let Some(directory) = to.parent() else { return false };
        let files = self.files;
        let device = self.devices.entry(directory).or_insert_with(|| device_at(files, directory));
        *device == Some(seen.device)
    }
}

/// Returns the device of a directory, or of the nearest existing one above it. `None` after an error.
fn device_at(files: &dyn Files, directory: &Path) -> Option<u64> {
    for above in directory.ancestors() {
        match files.stat(&recorded_path(files, above)) {
            Ok(stat) => return Some(stat.fingerprint.device),
            Err(FileError { kind: FileErrorKind::NotFound, .. }) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Returns the steps with the moves. Directories from which something is moved are removed after all moves, but before the changes of
/// attributes at the end, since a new mode could forbid the removal.
fn with_moves<'s>(
    steps: &'s [CommitStep<'s>],
    moves: &HashMap<usize, usize>,
) -> Vec<CommitStep<'s>> {
    let origins: HashSet<usize> = moves.values().copied().collect();
    let left: HashSet<&Path> = origins
        .iter()
        .filter_map(|at| steps.get(*at))
        .flat_map(|step| step.path.path.ancestors().skip(1))
        .collect();
    let is_left = |step: &CommitStep<'_>| {
        matches!(step.to, TargetState::Nothing) && left.contains(step.path.path.as_path())
    };
    let is_attributes = |step: &CommitStep<'_>| matches!(step.to, TargetState::Attributes(_));
    let end = steps.iter().rposition(|step| !is_attributes(step)).map_or(0, |last| last + 1);
    let (names, modes) = steps.split_at_checked(end).unwrap_or((steps, &[]));
    let mut ordered = Vec::with_capacity(steps.len() - moves.len());
    for (at, step) in names.iter().enumerate() {
        if origins.contains(&at) || is_left(step) {
            continue;
        }
        let origin = moves.get(&at).and_then(|origin| steps.get(*origin));
        ordered.push(match origin {
            Some(CommitStep { path: from, expect: ExpectedState::Same(seen), .. }) => {
                CommitStep { to: TargetState::Moved { from, seen: *seen }, ..step.clone() }
            }
            _ => step.clone(),
        });
    }
    ordered.extend(names.iter().filter(|step| is_left(step)).cloned());
    ordered.extend(modes.iter().cloned());
    ordered
}
