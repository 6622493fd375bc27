//! Computes the changes of a program on a stage from the overlay's upper directory, after the program has ended.
//!
//! Only the objects on the stage are visited, and those that were removed from the workspace. The changes are in an order in which they can
//! be applied: directories that become writable, removals (the content of a directory first), new and changed objects (the directory
//! first), and directories that become read-only.
//!
//! A move is a removal and a creation, because overlayfs records no more.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use windlass_core::{Attributes, ChangedTo, FileKind, Fingerprint, ProcessChange, Stat, quote};

use super::Stage;
use super::build_directory::Candidate;
use super::file;
use super::moved_build::ArrivedFiles;
use super::recorded_changes::{Change, RecordedChanges, join};
use super::removed_tree::RemovedTree;
use super::staged_ignore_rules::StagedIgnoreRules;
use crate::isolate::copy::link_target;
use crate::isolate::tree::{Tree, names};
use crate::kernel::{FOR_LISTING, FOR_READING, MAX_PATH_BYTES, stat_child, stat_from};

/// Set-user-ID and set-group-ID bits of a file's mode.
const SET_ID: u32 = 0o6000;

/// Changes that a program on a stage made to the workspace.
#[derive(Debug, Default)]
pub struct Delta {
    /// The changes, in an order in which they can be applied.
    pub changes: Vec<ProcessChange>,
    /// Sentences about objects that cannot be expressed as a change.
    pub notes: Vec<String>,
    /// Paths that another program changed in the workspace while the program ran, absolute.
    pub conflicts: Vec<PathBuf>,
    /// Build directories that changed, were created or were removed, by absolute path. The changes in them are not listed.
    pub built: Vec<PathBuf>,
}

/// Compares a stage with the workspace over which it was mounted (with the option `userxattr`), once no process uses it any more.
///
/// An object with a time stamp later than `since`, in nanoseconds since 1970, was changed by another program: see [`Stage::created`].
/// `names` are the names of build directories.
///
/// ```
/// use windlass_host::{Stage, delta};
/// # let ground = tempfile::tempdir()?;
/// # let (state, workspace) = (ground.path().join("state"), ground.path().join("workspace"));
/// # std::fs::create_dir(&workspace)?;
/// let stage = Stage::create(&state)?;
/// // A program on the stage does this:
/// std::fs::write(stage.upper().join("new.txt"), "hello")?;
///
/// let delta = delta(&stage, &workspace, stage.created(), &[])?;
/// assert_eq!(delta.changes.len(), 1);
/// assert_eq!(delta.changes[0].path, workspace.join("new.txt"));
/// assert!(delta.changes[0].before.is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn delta(stage: &Stage, workspace: &Path, since: i64, names: &[String]) -> io::Result<Delta> {
    let layers = Layers { upper: stage.upper(), lower: workspace };
    delta_of(layers, since, BuildDirectories { names, known: &[] })
}

/// The two layers of an overlay that are compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layers<'a> {
    /// Upper layer, with the changes.
    pub(crate) upper: &'a Path,
    /// Lower layer, without the changes.
    pub(crate) lower: &'a Path,
}

/// Build directories of a workspace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BuildDirectories<'a> {
    /// Names that a new directory must have to be a build directory.
    pub(crate) names: &'a [String],
    /// Build directories that existed before, relative to the workspace.
    pub(crate) known: &'a [PathBuf],
}

/// Compares any two layers of an overlay.
pub(crate) fn delta_of(
    layers: Layers<'_>,
    since: i64,
    build: BuildDirectories<'_>,
) -> io::Result<Delta> {
    let workspace = layers.lower;
    let upper = Tree::open(layers.upper).map_err(io::Error::other)?;
    let lower = Tree::open(workspace).map_err(io::Error::other)?;
    let mut reader = StageReader {
        upper: &upper,
        lower: &lower,
        since,
        own: file::own_ids(),
        names: build.names,
        known_build: build.known.iter().map(PathBuf::as_path).collect(),
        ignoring: StagedIgnoreRules::new(&upper, &lower),
        waiting: vec![WaitingDirectory { path: PathBuf::new(), merged: true }],
        modes: HashMap::new(),
        gone_builds: Vec::new(),
        found: RecordedChanges::default(),
    };
    while let Some(place) = reader.waiting.pop() {
        reader.read_directory(&place)?;
    }
    reader.record_builds()?;
    Ok(reader.found.into_delta(workspace))
}

/// A directory on the stage that is still to be read.
struct WaitingDirectory {
    /// Path relative to the workspace.
    path: PathBuf,
    /// True if the workspace's directory of that path is visible through it.
    merged: bool,
}

/// State of one reading of a stage.
struct StageReader<'a> {
    upper: &'a Tree,
    lower: &'a Tree,
    since: i64,
    /// User and group of objects that this process creates.
    own: (u32, u32),
    names: &'a [String],
    /// Build directories that existed before.
    known_build: HashSet<&'a Path>,
    ignoring: StagedIgnoreRules<'a>,
    waiting: Vec<WaitingDirectory>,
    /// Original modes of files that were made readable for this comparison, by device and inode.
    modes: HashMap<(u64, u64), u32>,
    /// Removed build directories, with facts about them.
    gone_builds: Vec<(PathBuf, Stat)>,
    found: RecordedChanges,
}

/// One entry of a directory on the stage.
struct Entry<'a> {
    upper: BorrowedFd<'a>,
    /// The workspace's directory of the same path, if there is one.
    lower: Option<BorrowedFd<'a>>,
    name: &'a OsStr,
    path: PathBuf,
    merged: bool,
    raw: rustix::fs::Stat,
    /// Facts about the workspace's object of the same path.
    before: Option<Stat>,
}

impl StageReader<'_> {
    /// Reads the entries of a directory on the stage. In a directory that hides the workspace's, all other entries count as removed.
    fn read_directory(&mut self, place: &WaitingDirectory) -> io::Result<()> {
        let failed = |errno| io::Error::other(self.upper.errno_error("list", &place.path, errno));
        let upper = self.upper.directory(&place.path).map_err(failed)?;
        let here = names(&upper).map_err(failed)?;
        let lower = self.lower_directory(&place.path)?;
        for name in &here {
            let path = place.path.join(name);
            self.check_length(&path)?;
            let read = self.read_name(&upper, lower.as_ref(), name, path.clone(), place.merged);
            read.map_err(|error| self.failed(&path, error))?;
        }
        match lower {
            Some(lower) if !place.merged => self.remove_others(&lower, &place.path, &here),
            _ => Ok(()),
        }
    }

    /// Fails for a path that is too long for the kernel on the stage or in the workspace, because such an object could not be copied or
    /// created. To visit its content would also be slow, because each directory is opened from the root.
    fn check_length(&self, path: &Path) -> io::Result<()> {
        let length = |root: &Tree| root.path.as_os_str().len() + 1 + path.as_os_str().len();
        let length = length(self.upper).max(length(self.lower));
        if length < MAX_PATH_BYTES {
            return Ok(());
        }
        let top: PathBuf = path.iter().take(1).collect();
        Err(io::Error::other(format!(
            "below {} a path is too long to be kept: it has {length} bytes, and {} are the most",
            quoted(&top),
            MAX_PATH_BYTES - 1
        )))
    }

    /// Opens the workspace's directory of a path; `None` if there is none.
    fn lower_directory(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        match self.lower.directory(path) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(io::Error::other(self.lower.errno_error("list", path, errno))),
        }
    }

    /// Adds the path to an error number from the kernel. Other errors name their path already.
    fn failed(&self, path: &Path, error: io::Error) -> io::Error {
        match Errno::from_io_error(&error) {
            Some(errno) => io::Error::other(self.upper.errno_error("read", path, errno)),
            None => error,
        }
    }

    /// Reads one entry of a directory on the stage.
    fn read_name(
        &mut self,
        upper: &OwnedFd,
        lower: Option<&OwnedFd>,
        name: &OsStr,
        path: PathBuf,
        merged: bool,
    ) -> io::Result<()> {
        let raw = rustix::fs::statat(upper, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let before = match lower.map(|lower| stat_child(lower, name)) {
            None | Some(Err(Errno::NOENT)) => None,
            Some(stat) => Some(stat?),
        };
        let (upper, lower) = (upper.as_fd(), lower.map(AsFd::as_fd));
        self.read_entry(&Entry { upper, lower, name, path, merged, raw, before })
    }

    /// Records the change that one entry of the stage stands for.
    fn read_entry(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let kind = stat_from(&entry.raw).kind;
        let is_gone = is_whiteout(&entry.raw);
        if (is_gone || kind == FileKind::Directory) && self.is_known_build(entry) {
            match entry.before.filter(|_| is_gone) {
                Some(before) => self.gone_builds.push((entry.path.clone(), before)),
                None => self.found.built.push(entry.path.clone()),
            }
            return Ok(());
        }
        if is_gone {
            return self.remove_before(entry);
        }
        if matches!(kind, FileKind::File | FileKind::Symlink | FileKind::Directory) {
            if !self.remove_replaced(entry, kind)? {
                return Ok(());
            }
        } else {
            self.found.notes.push(format!("{} is {kind}, which is left out", quoted(&entry.path)));
            return self.remove_before(entry);
        }
        match kind {
            FileKind::Directory => self.read_subdirectory(entry),
            FileKind::Symlink => self.read_link(entry),
            _ => self.read_file(entry),
        }
    }

    /// Records the removal of everything below a directory that is replaced by another kind of object. Returns false, with a note, if the
    /// directory contains objects that cannot be restored.
    fn remove_replaced(&mut self, entry: &Entry<'_>, kind: FileKind) -> io::Result<bool> {
        let Some(before) = entry.before.filter(|before| before.kind != kind) else {
            return Ok(true);
        };
        let in_the_way = match before.kind {
            FileKind::File | FileKind::Symlink => None,
            FileKind::Directory => {
                let gone = self.list_below(&entry.path)?;
                let special = gone.special.first().cloned();
                if special.is_none() {
                    self.remove_all(gone);
                }
                special
            }
            other => Some((entry.path.clone(), other)),
        };
        let Some((path, special)) = in_the_way else { return Ok(true) };
        self.found.notes.push(format!(
            "{} is left as it is, because {} is {special}, which cannot be brought back",
            quoted(&entry.path),
            quoted(&path),
        ));
        Ok(false)
    }

    /// Records the removal of the workspace's object, if there is one.
    fn remove_before(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        match entry.before {
            Some(before) => self.remove(entry.path.clone(), before),
            None => Ok(()),
        }
    }

    /// Records the removal of an object with everything below it.
    fn remove(&mut self, path: PathBuf, before: Stat) -> io::Result<()> {
        let mut gone = match before.kind {
            FileKind::Directory => self.list_below(&path)?,
            _ => RemovedTree::default(),
        };
        match before.kind {
            FileKind::File | FileKind::Symlink | FileKind::Directory => {
                gone.objects.push((path, before));
            }
            other => gone.special.push((path, other)),
        }
        for (path, kind) in &gone.special {
            let path = quoted(path);
            let note = format!("{path} is left there: it is {kind}, which cannot be brought back");
            self.found.notes.push(note);
        }
        self.remove_all(gone.removable());
        Ok(())
    }

    /// Lists everything below a directory of the workspace.
    fn list_below(&self, path: &Path) -> io::Result<RemovedTree> {
        RemovedTree::below(self.lower, path)
            .map_err(|(path, errno)| io::Error::other(self.lower.errno_error("list", &path, errno)))
    }

    /// Records the removal of all listed objects, and their conflicts.
    fn remove_all(&mut self, gone: RemovedTree) {
        for (path, before) in gone.objects {
            self.record_conflict(&path, &before);
            self.record_moved_directory(&path, &before);
            let change = Change { path, before: Some(before), to: ChangedTo::Nothing };
            self.found.removed.push(change);
        }
    }

    /// Records the changed build directories, which have no history. Objects that were moved out of one are recorded as removed.
    fn record_builds(&mut self) -> io::Result<()> {
        let (gone_builds, built) =
            (std::mem::take(&mut self.gone_builds), std::mem::take(&mut self.found.built));
        let arrived = if gone_builds.is_empty() && built.is_empty() {
            ArrivedFiles::default()
        } else {
            ArrivedFiles::among(&self.found.made, self.since)
        };
        for path in built {
            let found = arrived.moved_out_of(self.upper, self.lower, &path)?;
            for (path, before) in found.moved {
                self.remove(path, before)?;
            }
            if found.has_others {
                self.found.built.push(path);
            }
        }
        for (path, before) in gone_builds {
            if arrived.has_any_of(self.lower, &path, before)? {
                self.remove(path, before)?;
            } else {
                self.found.built.push(path);
            }
        }
        Ok(())
    }

    /// Records all entries of the workspace's directory that are not on the stage as removed.
    fn remove_others(&mut self, lower: &OwnedFd, path: &Path, here: &[OsString]) -> io::Result<()> {
        let failed = |errno| io::Error::other(self.lower.errno_error("list", path, errno));
        let here: HashSet<&OsString> = here.iter().collect();
        for name in names(lower).map_err(failed)? {
            if here.contains(&name) {
                continue;
            }
            let inside = path.join(&name);
            match stat_child(lower, &name) {
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
                Ok(before) => self.remove(inside, before)?,
            }
        }
        Ok(())
    }

    /// Records a conflict if an object other than a directory has a stamp later than the beginning: another program changed it or moved it
    /// here. The stamp of a directory also changes with its entries.
    fn record_conflict(&mut self, path: &Path, before: &Stat) {
        if before.kind != FileKind::Directory && before.fingerprint.changed > self.since {
            self.found.conflicts.push(path.to_owned());
        }
    }

    /// Records a directory that another program moved here, as far as stamps tell: its own stamp is later than the beginning, that of its
    /// entries is not. Its content has old stamps, so the changes that the program made there were made to other objects. (In a user
    /// namespace, overlayfs does not record which object it copied.)
    fn record_moved_directory(&mut self, path: &Path, before: &Stat) {
        let Fingerprint { modified, changed, .. } = before.fingerprint;
        if before.kind == FileKind::Directory && changed > self.since && modified <= self.since {
            self.found.moved.push(path.to_owned());
        }
    }

    /// Records a new or changed object, and its conflicts.
    fn record_made(&mut self, entry: &Entry<'_>, to: ChangedTo) {
        if let Some(before) = &entry.before {
            self.record_conflict(&entry.path, before);
            self.record_moved_directory(&entry.path, before);
        }
        let change = Change { path: entry.path.clone(), before: entry.before, to };
        self.found.made.push(change);
    }

    /// Reads a directory on the stage, and queues it for reading unless it is a new build directory.
    fn read_subdirectory(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let directory = file::open(entry.upper, entry.name, &entry.raw, FOR_LISTING)?;
        let (attributes, marks) = file::attributes(&directory, &entry.raw)?;
        check_supported(marks)?;
        // A directory's own stamp only shows that entries came or went.
        let attributes = Attributes { modified: None, ..attributes };
        let path = entry.path.clone();
        if let Some(before) = entry.before.filter(|before| before.kind == FileKind::Directory) {
            self.record_moved_directory(&entry.path, &before);
            self.compare_directory(entry, before, &attributes)?;
            self.waiting.push(WaitingDirectory { path, merged: entry.merged && !marks.opaque });
            return Ok(());
        }
        if entry.before.is_none() {
            if self.is_new_build(entry) {
                self.found.built.push(path);
                return Ok(());
            }
            if marks.copied && entry.merged {
                // It existed when the program began, and another program removed it in the meantime.
                self.found.conflicts.push(path.clone());
            }
        }
        self.record_made(entry, ChangedTo::Directory(file::as_new(attributes, self.own)));
        self.waiting.push(WaitingDirectory { path, merged: false });
        Ok(())
    }

    /// Records the changed attributes of a directory that exists in both layers.
    fn compare_directory(
        &mut self,
        entry: &Entry<'_>,
        before: Stat,
        now: &Attributes,
    ) -> io::Result<()> {
        let old = match entry.lower.map(|lower| {
            let old = crate::kernel::open_child(lower, entry.name, FOR_LISTING)?;
            let raw = rustix::fs::fstat(&old)?;
            Ok(Attributes { modified: None, ..file::attributes_below(&old, &raw)? })
        }) {
            Some(Ok(old)) => old,
            // A directory that cannot be listed has at least a mode.
            Some(Err(Errno::ACCESS)) | None => Attributes {
                mode: Some(before.mode),
                owner: now.owner,
                extended: now.extended.clone(),
                ..Attributes::default()
            },
            Some(Err(errno)) => return Err(errno.into()),
        };
        let difference = file::changed_attributes(&old, now);
        if difference == Attributes::default() {
            return Ok(());
        }
        let writable = now.mode.is_none_or(|mode| mode & 0o300 == 0o300);
        let group = if writable { &mut self.found.opened } else { &mut self.found.closed };
        let to = ChangedTo::Attributes(difference);
        group.push(Change { path: entry.path.clone(), before: Some(before), to });
        Ok(())
    }

    /// Returns whether an entry was a build directory before. The removal of one that is replaced by a file is recorded.
    fn is_known_build(&self, entry: &Entry<'_>) -> bool {
        let was_directory = entry.before.is_some_and(|before| before.kind == FileKind::Directory);
        was_directory && self.known_build.contains(&*entry.path)
    }

    /// Returns whether a new directory is a build directory.
    fn is_new_build(&mut self, entry: &Entry<'_>) -> bool {
        let path = self.lower.path.join(&entry.path);
        let ignore_rules = self.ignoring.around(&entry.path);
        let (parent, name) = (entry.upper, entry.name);
        Candidate { parent, name, path: &path, ignore_rules: &ignore_rules }
            .is_build_directory(self.names, &mut Vec::new())
    }

    /// Reads a symbolic link on the stage.
    fn read_link(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let target = link_target(entry.upper, entry.name)?;
        let modified = Some(stat_from(&entry.raw).fingerprint.modified);
        let time = Attributes { modified, ..Attributes::default() };
        let was_link = entry.before.is_some_and(|before| before.kind == FileKind::Symlink);
        if was_link
            && let Some(lower) = entry.lower
            && link_target(lower, entry.name)? == target
        {
            // A symbolic link has no other attribute than its time.
            if entry.before.is_some_and(|before| Some(before.fingerprint.modified) != modified) {
                self.record_made(entry, ChangedTo::Attributes(time));
            }
            return Ok(());
        }
        self.record_made(entry, ChangedTo::Symlink(target, time));
        Ok(())
    }

    /// Reads a regular file on the stage and compares it with the workspace's.
    fn read_file(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let seen = stat_from(&entry.raw);
        let handle = file::open(entry.upper, entry.name, &entry.raw, FOR_READING)?;
        let (mut attributes, marks) = file::attributes(&handle, &entry.raw)?;
        check_supported(marks)?;
        attributes.mode = Some(self.original_mode(&seen));
        if seen.links > 1 {
            let object = (seen.fingerprint.device, seen.fingerprint.inode);
            let names = self.found.linked.entry(object).or_default();
            names.push((entry.path.clone(), entry.before));
            if let Some(before) = &entry.before {
                self.record_conflict(&entry.path, before);
            }
        }
        let was_file = entry.before.filter(|before| before.kind == FileKind::File);
        let (Some(_), Some(lower)) = (was_file, entry.lower) else {
            self.drop_set_id(entry, &mut attributes, 0);
            let to = ChangedTo::File(self.staged(entry), file::as_new(attributes, self.own));
            self.record_made(entry, to);
            return Ok(());
        };
        match file::compare(&handle, lower, entry.name)? {
            None => {
                // The set-ID bits were given to other content.
                self.drop_set_id(entry, &mut attributes, 0);
                let to = ChangedTo::File(self.staged(entry), attributes);
                self.record_made(entry, to);
            }
            Some(old) => {
                self.drop_set_id(entry, &mut attributes, old.mode.unwrap_or(0));
                let difference = file::changed_attributes(&old, &attributes);
                if difference != Attributes::default() {
                    // With hard links, only this name gets the new attributes.
                    let is_shared = entry.before.is_some_and(|before| before.links > 1);
                    let to = if is_shared {
                        ChangedTo::File(self.staged(entry), attributes)
                    } else {
                        ChangedTo::Attributes(difference)
                    };
                    self.record_made(entry, to);
                }
            }
        }
        Ok(())
    }

    /// Removes the set-user-ID and set-group-ID bits of a file, except those in `kept`, with a note.
    ///
    /// On a directory these bits give no rights to a program: they only pass on its group, and new directories inherit them.
    fn drop_set_id(&mut self, entry: &Entry<'_>, attributes: &mut Attributes, kept: u32) {
        let Some(mode) = &mut attributes.mode else { return };
        let dropped = *mode & SET_ID & !kept;
        if dropped != 0 {
            *mode &= !dropped;
            let path = quoted(&entry.path);
            let note =
                format!("{path} is not made set-user-ID or set-group-ID: no program may do that");
            self.found.notes.push(note);
        }
    }

    /// Returns the mode of a file before it was made readable here, perhaps under another name.
    fn original_mode(&mut self, seen: &Stat) -> u32 {
        let object = (seen.fingerprint.device, seen.fingerprint.inode);
        match self.modes.get(&object) {
            Some(mode) => *mode,
            None if seen.links > 1 && seen.mode & 0o400 == 0 => {
                self.modes.insert(object, seen.mode);
                seen.mode
            }
            None => seen.mode,
        }
    }

    /// Returns the absolute path of an entry on the stage.
    fn staged(&self, entry: &Entry<'_>) -> PathBuf {
        join(&self.upper.path, &entry.path)
    }
}

/// Returns whether an object of the upper layer is a whiteout.
pub(super) fn is_whiteout(raw: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(raw.st_mode) == FileType::CharacterDevice && raw.st_rdev == 0
}

/// Fails if the overlay was mounted with options that this module does not support.
fn check_supported(marks: file::Marks) -> io::Result<()> {
    if marks.elsewhere {
        return Err(io::Error::other(
            "the overlay was mounted with `redirect_dir` or `metacopy`, which is not understood here",
        ));
    }
    Ok(())
}

/// Returns a path for messages.
fn quoted(path: &Path) -> std::borrow::Cow<'_, str> {
    quote::path(path)
}
