//! What a program on a stage made of the workspace, read off the overlay's upper directory when it has ended.
//!
//! Only what is on the stage is walked, and what was removed of the workspace. The order of the changes is one in which they can be
//! made: directories that can be written to from now on, what is removed (what is in a directory first), what is new or other (the
//! directory first), and directories that cannot be written to any more.
//!
//! A move is a removal and a creation: overlayfs does not say more.

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
use super::found::{Change, Found, join};
use super::gone::Gone;
use super::ignoring::Ignoring;
use super::moved_build::Arrived;
use crate::isolate::copy::link_target;
use crate::isolate::tree::{Tree, names};
use crate::kernel::{FOR_LISTING, FOR_READING, MAX_PATH, stat_child, stat_from};

/// The bits of a file's mode with which it runs as its owner or in its group.
const SET_ID: u32 = 0o6000;

/// What a program on a stage made of the workspace.
#[derive(Debug, Default)]
pub struct Delta {
    /// What changed, in an order in which it can be made.
    pub changes: Vec<ProcessChange>,
    /// What could not be told as a change.
    pub notes: Vec<String>,
    /// What somebody else changed in the workspace while the program ran, by absolute path.
    pub conflicts: Vec<PathBuf>,
    /// Build directories that changed, new and removed ones included, by absolute path. What changed in them is not told.
    pub built: Vec<PathBuf>,
}

/// Holds a stage against the workspace over which it was mounted, with the option `userxattr`, when nobody uses it any more.
///
/// What has a stamp later than `since`, in nanoseconds since 1970, was changed by somebody else: see [`Stage::created`].
/// `names` are those of build directories.
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

/// The two directories of an overlay that are held against each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layers<'a> {
    /// The one that took the changes.
    pub(crate) upper: &'a Path,
    /// The one that was changed.
    pub(crate) lower: &'a Path,
}

/// The build directories of a workspace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BuildDirectories<'a> {
    /// Names that a new directory must have to be one.
    pub(crate) names: &'a [String],
    /// Those that were there before, relative to the workspace.
    pub(crate) known: &'a [PathBuf],
}

/// The same for any two layers.
pub(crate) fn delta_of(
    layers: Layers<'_>,
    since: i64,
    build: BuildDirectories<'_>,
) -> io::Result<Delta> {
    let workspace = layers.lower;
    let upper = Tree::open(layers.upper).map_err(io::Error::other)?;
    let lower = Tree::open(workspace).map_err(io::Error::other)?;
    let mut reader = Reader {
        upper: &upper,
        lower: &lower,
        since,
        own: file::own_ids(),
        names: build.names,
        known_build: build.known.iter().map(PathBuf::as_path).collect(),
        ignoring: Ignoring::new(&upper, &lower),
        waiting: vec![Place { path: PathBuf::new(), merged: true }],
        modes: HashMap::new(),
        gone_builds: Vec::new(),
        found: Found::default(),
    };
    while let Some(place) = reader.waiting.pop() {
        reader.read_directory(&place)?;
    }
    reader.settle_builds()?;
    Ok(reader.found.into_delta(workspace))
}

/// A directory on the stage that is still to be read.
struct Place {
    /// Relative to the workspace.
    path: PathBuf,
    /// Whether the workspace's directory of that name shines through.
    merged: bool,
}

/// Everything about one reading of a stage.
struct Reader<'a> {
    upper: &'a Tree,
    lower: &'a Tree,
    since: i64,
    /// The numbers of user and group that whatever we make has.
    own: (u32, u32),
    names: &'a [String],
    /// Build directories that were there before.
    known_build: HashSet<&'a Path>,
    ignoring: Ignoring<'a>,
    waiting: Vec<Place>,
    /// The modes of files that could not be read before they were given another.
    modes: HashMap<(u64, u64), u32>,
    /// Build directories that are gone, and what they were.
    gone_builds: Vec<(PathBuf, Stat)>,
    found: Found,
}

/// One name on the stage.
struct Entry<'a> {
    upper: BorrowedFd<'a>,
    /// The workspace's directory of that path, if there is one.
    lower: Option<BorrowedFd<'a>>,
    name: &'a OsStr,
    path: PathBuf,
    merged: bool,
    raw: rustix::fs::Stat,
    /// What is there in the workspace.
    before: Option<Stat>,
}

impl Reader<'_> {
    fn read_directory(&mut self, place: &Place) -> io::Result<()> {
        let failed = |errno| io::Error::other(self.upper.failed("list", &place.path, errno));
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

    /// Refuses a path that is too long for the kernel on the stage or in the workspace: nothing could be copied from there or be made
    /// there. A look at what is below would take long, too, since each directory is opened from the root.
    fn check_length(&self, path: &Path) -> io::Result<()> {
        let length = |root: &Tree| root.path.as_os_str().len() + 1 + path.as_os_str().len();
        let length = length(self.upper).max(length(self.lower));
        if length < MAX_PATH {
            return Ok(());
        }
        let top: PathBuf = path.iter().take(1).collect();
        Err(io::Error::other(format!(
            "below {} a path is too long to be kept: it has {length} bytes, and {} are the most",
            shown(&top),
            MAX_PATH - 1
        )))
    }

    /// The workspace's directory of a path, if it is one.
    fn lower_directory(&self, path: &Path) -> io::Result<Option<OwnedFd>> {
        match self.lower.directory(path) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(io::Error::other(self.lower.failed("list", path, errno))),
        }
    }

    /// Says about what the kernel answered that; other errors say it themselves.
    fn failed(&self, path: &Path, error: io::Error) -> io::Error {
        match Errno::from_io_error(&error) {
            Some(errno) => io::Error::other(self.upper.failed("read", path, errno)),
            None => error,
        }
    }

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
            if !self.make_room(entry, kind)? {
                return Ok(());
            }
        } else {
            self.found.notes.push(format!("{} is {kind}, which is left out", shown(&entry.path)));
            return self.remove_before(entry);
        }
        match kind {
            FileKind::Directory => self.read_subdirectory(entry),
            FileKind::Symlink => self.read_link(entry),
            _ => self.read_file(entry),
        }
    }

    /// Takes away what is below a directory in whose place something else comes. Says no if that cannot be.
    fn make_room(&mut self, entry: &Entry<'_>, kind: FileKind) -> io::Result<bool> {
        let Some(before) = entry.before.filter(|before| before.kind != kind) else {
            return Ok(true);
        };
        let in_the_way = match before.kind {
            FileKind::File | FileKind::Symlink => None,
            FileKind::Directory => {
                let gone = self.gone(&entry.path)?;
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
            shown(&entry.path),
            shown(&path),
        ));
        Ok(false)
    }

    fn remove_before(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        match entry.before {
            Some(before) => self.remove(entry.path.clone(), before),
            None => Ok(()),
        }
    }

    /// Tells that something is gone, with all that was below it.
    fn remove(&mut self, path: PathBuf, before: Stat) -> io::Result<()> {
        let mut gone = match before.kind {
            FileKind::Directory => self.gone(&path)?,
            _ => Gone::default(),
        };
        match before.kind {
            FileKind::File | FileKind::Symlink | FileKind::Directory => {
                gone.objects.push((path, before));
            }
            other => gone.special.push((path, other)),
        }
        for (path, kind) in &gone.special {
            let path = shown(path);
            let note = format!("{path} is left there: it is {kind}, which cannot be brought back");
            self.found.notes.push(note);
        }
        self.remove_all(gone.without_those_that_stay());
        Ok(())
    }

    fn gone(&self, path: &Path) -> io::Result<Gone> {
        Gone::below(self.lower, path)
            .map_err(|(path, errno)| io::Error::other(self.lower.failed("list", &path, errno)))
    }

    fn remove_all(&mut self, gone: Gone) {
        for (path, before) in gone.objects {
            self.check(&path, &before);
            self.check_directory(&path, &before);
            let change = Change { path, before: Some(before), to: ChangedTo::Nothing };
            self.found.removed.push(change);
        }
    }

    /// Tells of build directories: without history, but for what seems to have been moved to a place that has one.
    fn settle_builds(&mut self) -> io::Result<()> {
        let (gone_builds, built) =
            (std::mem::take(&mut self.gone_builds), std::mem::take(&mut self.found.built));
        let arrived = if gone_builds.is_empty() && built.is_empty() {
            Arrived::default()
        } else {
            Arrived::among(&self.found.made, self.since)
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

    /// In a directory through which nothing shines, what is not on the stage is gone.
    fn remove_others(&mut self, lower: &OwnedFd, path: &Path, here: &[OsString]) -> io::Result<()> {
        let failed = |errno| io::Error::other(self.lower.failed("list", path, errno));
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

    /// Notes a conflict for what has a stamp later than the beginning: a person changed it, or moved it here. A directory that stays
    /// gets one with all that comes and goes in it.
    fn check(&mut self, path: &Path, before: &Stat) {
        if before.kind != FileKind::Directory && before.fingerprint.changed > self.since {
            self.found.conflicts.push(path.to_owned());
        }
    }

    /// Notes a directory that was moved here since, as far as stamps can tell: its own is later, that of its entries is not. What is
    /// in it has old stamps, so all that the program did there, it did to others. (In a user namespace, overlayfs does not note
    /// which object it copied.)
    fn check_directory(&mut self, path: &Path, before: &Stat) {
        let Fingerprint { modified, changed, .. } = before.fingerprint;
        if before.kind == FileKind::Directory && changed > self.since && modified <= self.since {
            self.found.moved.push(path.to_owned());
        }
    }

    fn make(&mut self, entry: &Entry<'_>, to: ChangedTo) {
        if let Some(before) = &entry.before {
            self.check(&entry.path, before);
            self.check_directory(&entry.path, before);
        }
        let change = Change { path: entry.path.clone(), before: entry.before, to };
        self.found.made.push(change);
    }

    fn read_subdirectory(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let directory = file::open(entry.upper, entry.name, &entry.raw, FOR_LISTING)?;
        let (attributes, marks) = file::attributes(&directory, &entry.raw)?;
        understood(marks)?;
        // Its own stamp says only that something came or went in it.
        let attributes = Attributes { modified: None, ..attributes };
        let path = entry.path.clone();
        if let Some(before) = entry.before.filter(|before| before.kind == FileKind::Directory) {
            self.check_directory(&entry.path, &before);
            self.compare_directory(entry, before, &attributes)?;
            self.waiting.push(Place { path, merged: entry.merged && !marks.opaque });
            return Ok(());
        }
        if entry.before.is_none() {
            if self.is_new_build(entry) {
                self.found.built.push(path);
                return Ok(());
            }
            if marks.copied && entry.merged {
                // It was there when the program began, and somebody removed it meanwhile.
                self.found.conflicts.push(path.clone());
            }
        }
        self.make(entry, ChangedTo::Directory(file::as_new(attributes, self.own)));
        self.waiting.push(Place { path, merged: false });
        Ok(())
    }

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
            // What cannot be listed has a mode at least.
            Some(Err(Errno::ACCESS)) | None => Attributes {
                mode: Some(before.mode),
                owner: now.owner,
                extended: now.extended.clone(),
                ..Attributes::default()
            },
            Some(Err(errno)) => return Err(errno.into()),
        };
        let difference = file::difference(&old, now);
        if difference == Attributes::default() {
            return Ok(());
        }
        let writable = now.mode.is_none_or(|mode| mode & 0o300 == 0o300);
        let group = if writable { &mut self.found.opened } else { &mut self.found.closed };
        let to = ChangedTo::Attributes(difference);
        group.push(Change { path: entry.path.clone(), before: Some(before), to });
        Ok(())
    }

    /// Tells whether an entry was a build directory before. What becomes of one that is replaced by a file is recorded.
    fn is_known_build(&self, entry: &Entry<'_>) -> bool {
        let was_directory = entry.before.is_some_and(|before| before.kind == FileKind::Directory);
        was_directory && self.known_build.contains(&*entry.path)
    }

    fn is_new_build(&mut self, entry: &Entry<'_>) -> bool {
        let path = self.lower.path.join(&entry.path);
        let standing = self.ignoring.around(&entry.path);
        let (parent, name) = (entry.upper, entry.name);
        Candidate { parent, name, path: &path, standing: &standing }
            .is_build_directory(self.names, &mut Vec::new())
    }

    fn read_link(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let target = link_target(entry.upper, entry.name)?;
        let modified = Some(stat_from(&entry.raw).fingerprint.modified);
        let time = Attributes { modified, ..Attributes::default() };
        let was_link = entry.before.is_some_and(|before| before.kind == FileKind::Symlink);
        if was_link
            && let Some(lower) = entry.lower
            && link_target(lower, entry.name)? == target
        {
            // A time is all that a link has besides.
            if entry.before.is_some_and(|before| Some(before.fingerprint.modified) != modified) {
                self.make(entry, ChangedTo::Attributes(time));
            }
            return Ok(());
        }
        self.make(entry, ChangedTo::Symlink(target, time));
        Ok(())
    }

    fn read_file(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let seen = stat_from(&entry.raw);
        let handle = file::open(entry.upper, entry.name, &entry.raw, FOR_READING)?;
        let (mut attributes, marks) = file::attributes(&handle, &entry.raw)?;
        understood(marks)?;
        attributes.mode = Some(self.own_mode(&seen));
        if seen.links > 1 {
            let object = (seen.fingerprint.device, seen.fingerprint.inode);
            let names = self.found.linked.entry(object).or_default();
            names.push((entry.path.clone(), entry.before));
            if let Some(before) = &entry.before {
                self.check(&entry.path, before);
            }
        }
        let was_file = entry.before.filter(|before| before.kind == FileKind::File);
        let (Some(_), Some(lower)) = (was_file, entry.lower) else {
            self.drop_set_id(entry, &mut attributes, 0);
            let to = ChangedTo::File(self.staged(entry), file::as_new(attributes, self.own));
            self.make(entry, to);
            return Ok(());
        };
        match file::compare(&handle, lower, entry.name)? {
            None => {
                // The bits were given to another content.
                self.drop_set_id(entry, &mut attributes, 0);
                let to = ChangedTo::File(self.staged(entry), attributes);
                self.make(entry, to);
            }
            Some(old) => {
                self.drop_set_id(entry, &mut attributes, old.mode.unwrap_or(0));
                let difference = file::difference(&old, &attributes);
                if difference != Attributes::default() {
                    // Other names of the file keep what they have.
                    let is_shared = entry.before.is_some_and(|before| before.links > 1);
                    let to = if is_shared {
                        ChangedTo::File(self.staged(entry), attributes)
                    } else {
                        ChangedTo::Attributes(difference)
                    };
                    self.make(entry, to);
                }
            }
        }
        Ok(())
    }

    /// Takes away the set-user-ID and set-group-ID bits of a file, except those in `kept`, and notes it.
    ///
    /// On a directory these bits run nothing: they only pass on its group, and new directories inherit that.
    fn drop_set_id(&mut self, entry: &Entry<'_>, attributes: &mut Attributes, kept: u32) {
        let Some(mode) = &mut attributes.mode else { return };
        let dropped = *mode & SET_ID & !kept;
        if dropped != 0 {
            *mode &= !dropped;
            let path = shown(&entry.path);
            let note =
                format!("{path} is not made set-user-ID or set-group-ID: no program may do that");
            self.found.notes.push(note);
        }
    }

    /// The mode of a file before it was made readable, which can have happened under another name.
    fn own_mode(&mut self, seen: &Stat) -> u32 {
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

    fn staged(&self, entry: &Entry<'_>) -> PathBuf {
        join(&self.upper.path, &entry.path)
    }
}

/// Tells whether an object of the upper layer stands for one that is gone.
pub(super) fn is_whiteout(raw: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(raw.st_mode) == FileType::CharacterDevice && raw.st_rdev == 0
}

fn understood(marks: file::Marks) -> io::Result<()> {
    if marks.elsewhere {
        return Err(io::Error::other(
            "the overlay was mounted with `redirect_dir` or `metacopy`, which is not understood here",
        ));
    }
    Ok(())
}

fn shown(path: &Path) -> std::borrow::Cow<'_, str> {
    quote::path(path)
}
