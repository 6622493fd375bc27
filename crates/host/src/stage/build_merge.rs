//! Moves the changes of build directories, or of directories beside the workspace, from a stage to their place, without history.
//!
//! New objects move by rename: a tree of 30,000 files costs as much as one file. Each step can be repeated, so the next process finishes an
//! interrupted merge (see [`Stage::sweep`](super::Stage::sweep)).
//!
//! Both sides are reached by handles, without following links, because a program that runs meanwhile could replace a directory of the
//! workspace by a link.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use windlass_core::FileKind;

use super::delta::is_whiteout;
use super::file;
use super::marks;
use super::removed_tree::RemovedTree;
use crate::attributes;
use crate::isolate::copy::{Selection, copy};
use crate::isolate::remove_tree::remove_tree;
use crate::isolate::tree::{Tree, names};
use crate::kernel::{FOR_LISTING, NAME_ONLY, descriptor_path, open_child, stat, stat_from};

/// Extended attribute that overlayfs sets to `y` on a directory that hides the lower one.
const OPAQUE_MARK: &str = "user.overlay.opaque";

/// The two sides of a merge, and directories for objects on their way.
pub(super) struct BuildMerge {
    upper: Tree,
    workspace: Tree,
    /// Directory for replaced objects until they are removed.
    trash: HoldingDirectory,
    /// Directory for copies of new objects until they are complete; only if the layers are on two file systems.
    copies: Option<HoldingDirectory>,
    /// True if the target is itself an upper layer of overlays, in which whiteouts and overlay attributes keep their meaning.
    is_upper_layer: bool,
}

/// A directory for objects on their way.
struct HoldingDirectory {
    path: PathBuf,
    handle: OwnedFd,
}

impl BuildMerge {
    /// Opens both sides. `holder` is a directory beside the upper layer, created if it is missing. `name` must be a name that no entry of
    /// the workspace has.
    pub(super) fn new(
        upper: &Path,
        workspace: &Path,
        holder: &Path,
        name: &str,
    ) -> io::Result<Self> {
        let upper = Tree::open(upper).map_err(io::Error::other)?;
        let workspace = Tree::open(workspace).map_err(io::Error::other)?;
        let device = |tree: &Tree| stat(tree.root()).map(|stat| stat.fingerprint.device);
        let is_one_device = device(&upper)? == device(&workspace)?;
        // An object can only be renamed within its file system.
        let beside = workspace.path.join(name);
        let trash = HoldingDirectory::open_or_create(if is_one_device { holder } else { &beside })?;
        let copies =
            (!is_one_device).then(|| HoldingDirectory::open_or_create(&beside)).transpose()?;
        Ok(Self { upper, workspace, trash, copies, is_upper_layer: false })
    }

    /// Changes the merge to one into an upper layer of overlays on the same file system.
    pub(super) fn into_upper_layer(mut self) -> Self {
        self.is_upper_layer = true;
        self
    }

    /// Moves everything in the layer.
    pub(super) fn merge_all(&self) -> io::Result<()> {
        self.merge_from(Path::new(""), None)
    }

    /// Moves the changes of one build directory, by its path relative to the workspace.
    pub(super) fn merge(&self, path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("the workspace itself is no build directory"));
        };
        self.merge_from(parent, Some(name))
    }

    /// Moves the entries of a directory, or one of them, with everything below.
    fn merge_from(&self, path: &Path, only: Option<&OsStr>) -> io::Result<()> {
        let failed = |path: &Path, errno| {
            io::Error::other(self.workspace.errno_error("keep the changes of", path, errno))
        };
        let mut merging = MergeState {
            merge: self,
            waiting: Vec::new(),
            attributes: Vec::new(),
            closed: Vec::new(),
        };
        merging.enter(path, only).map_err(|errno| failed(path, errno))?;
        while let Some((path, wanted)) = merging.waiting.pop() {
            merging.enter_merged(&path, wanted).map_err(|errno| failed(&path, errno))?;
        }
        merging.set_attributes().map_err(|errno| failed(path, errno))
    }

    /// Returns whether a build directory that the program kept was replaced in the workspace by another program, for example by a link at
    /// it or above it. A directory that the program itself put there is marked as opaque by the overlay.
    pub(super) fn is_replaced(&self, path: &Path) -> bool {
        let Ok(upper) = self.upper.directory(path) else { return false };
        // If this is unknown, the merge reports the error.
        if is_opaque(upper.as_fd()).unwrap_or(true) {
            return false;
        }
        match self.workspace.directory(path) {
            Ok(_) | Err(Errno::NOENT) => false,
            Err(_) => true,
        }
    }

    /// Adds every path that changed in a build directory, including removed ones, relative to the workspace.
    pub(super) fn changed(&self, path: &Path, changed: &mut Vec<PathBuf>) -> io::Result<()> {
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            changed.push(path.clone());
            let Ok(upper) = self.upper.directory(&path) else {
                self.removed_below(&path, changed)?;
                continue;
            };
            let here = names(&upper)?;
            if is_opaque(upper.as_fd())? {
                let kept: HashSet<&OsString> = here.iter().collect();
                let lower = self.workspace.directory(&path).ok().map(names).transpose()?;
                for name in lower.unwrap_or_default().iter().filter(|name| !kept.contains(name)) {
                    changed.push(path.join(name));
                    self.removed_below(&path.join(name), changed)?;
                }
            }
            waiting.extend(here.iter().map(|name| path.join(name)));
        }
        Ok(())
    }

    /// Adds everything below a directory of the workspace as removed.
    fn removed_below(&self, path: &Path, changed: &mut Vec<PathBuf>) -> io::Result<()> {
        match RemovedTree::below(&self.workspace, path) {
            Ok(gone) => changed.extend(gone.objects.into_iter().map(|(path, _)| path)),
            Err((_, Errno::NOTDIR | Errno::NOENT | Errno::LOOP)) => {}
            Err((path, errno)) => {
                return Err(io::Error::other(self.workspace.errno_error("list", &path, errno)));
            }
        }
        Ok(())
    }
}

impl Drop for BuildMerge {
    fn drop(&mut self) {
        // The trash is removed with the stage unless it is in the workspace.
        if let Some(copies) = &self.copies {
            drop(remove_tree(&copies.path));
        }
    }
}

impl HoldingDirectory {
    /// Opens the directory, and creates it if it is missing.
    fn open_or_create(path: &Path) -> io::Result<Self> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => made?,
        }
        let handle = rustix::fs::open(path, FOR_LISTING, Mode::empty())?;
        Ok(Self { path: path.to_owned(), handle })
    }

    /// Returns a random name.
    fn name() -> io::Result<String> {
        Ok(format!("{:016x}", crate::random::number()?))
    }
}

/// State of one merge.
struct MergeState<'a> {
    merge: &'a BuildMerge,
    /// Directories that exist on both sides, relative to the workspace, with the facts that the program gave them.
    waiting: Vec<(PathBuf, rustix::fs::Stat)>,
    /// Directories with the mode and time that they get in the end.
    attributes: Vec<(OwnedFd, rustix::fs::Stat)>,
    /// Directories of the upper layer that get their modes back in the end, because the merge may be repeated.
    closed: Vec<(OwnedFd, Mode)>,
}

impl MergeState<'_> {
    /// Merges the entries of a directory, or one of them.
    fn enter(&mut self, path: &Path, only: Option<&OsStr>) -> Result<(), Errno> {
        let upper = self.merge.upper.directory(path)?;
        let Some(only) = only else { return self.enter_merged(path, rustix::fs::fstat(&upper)?) };
        let lower = self.merge.workspace.directory(path)?;
        self.merge_entry(&upper, &lower, only, path)
    }

    /// Merges the entries of a directory that exists on both sides.
    fn enter_merged(&mut self, path: &Path, wanted: rustix::fs::Stat) -> Result<(), Errno> {
        let upper = self.merge.upper.directory(path)?;
        let lower = self.merge.workspace.directory(path)?;
        make_writable(&lower)?;
        for name in names(&upper)? {
            self.merge_entry(&upper, &lower, &name, path)?;
        }
        self.attributes.push((lower, wanted));
        Ok(())
    }

    /// Merges one entry: queues a directory that exists on both sides, otherwise removes the old object and moves the new one.
    fn merge_entry(
        &mut self,
        upper: &OwnedFd,
        lower: &OwnedFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), Errno> {
        let raw = match rustix::fs::statat(upper, name, AtFlags::SYMLINK_NOFOLLOW) {
            // It was moved before an interruption.
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        let present = match rustix::fs::statat(lower, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            found => Some(found?),
        };
        let before = present.as_ref().map(|raw| stat_from(raw).kind);
        let was_whiteout = self.merge.is_upper_layer && present.as_ref().is_some_and(is_whiteout);
        let is_whiteout = is_whiteout(&raw);
        let kind = stat_from(&raw).kind;
        if let (FileKind::Directory, Some(FileKind::Directory), Some(present)) =
            (kind, before, &present)
            && !is_opaque(self.open_layer(upper, name, &raw)?.as_fd())?
        {
            // It gets the mode that it has on the stage once all its entries are moved.
            drop(open_readable(lower, name, present)?);
            self.waiting.push((path.join(name), raw));
            return Ok(());
        }
        let is_kept = matches!(kind, FileKind::File | FileKind::Symlink | FileKind::Directory)
            || (is_whiteout && self.merge.is_upper_layer);
        // Sockets, FIFOs and devices belong to processes that have ended.
        if !is_kept && !is_whiteout {
            return Ok(());
        }
        // Ext4 writes a file that replaces another by rename to the disk at once, which takes longer than both steps.
        if before.is_some() {
            self.move_to_trash(lower, name)?;
        }
        if kind == FileKind::Directory && was_whiteout {
            // The kernel may not have marked the directory as opaque, because to the program there was nothing below it.
            let directory = open_child(upper.as_fd(), name, FOR_LISTING)?;
            rustix::fs::fsetxattr(directory, OPAQUE_MARK, b"y", XattrFlags::empty())?;
        }
        if is_kept { self.move_to_workspace(upper, lower, name, path) } else { Ok(()) }
    }

    /// Opens a directory of the upper layer. One that is closed to its owner is opened until the merge has ended.
    fn open_layer(
        &mut self,
        upper: &OwnedFd,
        name: &OsStr,
        raw: &rustix::fs::Stat,
    ) -> Result<OwnedFd, Errno> {
        let (directory, was_closed) = open_readable(upper, name, raw)?;
        if was_closed {
            let mode = Mode::from_raw_mode(raw.st_mode & 0o7777);
            self.closed.push((open_child(upper.as_fd(), name, FOR_LISTING)?, mode));
        }
        Ok(directory)
    }

    /// Moves an object into the workspace, through a copy if it is on another file system.
    fn move_to_workspace(
        &self,
        upper: &OwnedFd,
        lower: &OwnedFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), Errno> {
        if !self.merge.is_upper_layer {
            // Done on the stage, which only we use, because a killed merge is repeated.
            marks::remove_below(&self.merge.upper, &path.join(name));
        }
        let copied = self.merge.copies.as_ref().map(|copies| copy_aside(copies, upper, name));
        let copied = copied.transpose()?;
        let from = copied.as_ref().unwrap_or(upper);
        let mode = make_movable(from, name)?;
        rustix::fs::renameat(from, name, lower, name)?;
        match mode {
            Some(mode) => rustix::fs::fchmod(open_child(lower.as_fd(), name, FOR_LISTING)?, mode),
            None => Ok(()),
        }
    }

    /// Moves an object of the workspace to the trash.
    fn move_to_trash(&self, lower: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        make_movable(lower, name)?;
        let own = HoldingDirectory::name().map_err(|error| as_errno(&error))?;
        rustix::fs::renameat(lower, name, &self.merge.trash.handle, &own)
    }

    /// Sets modes and times from the bottom up; until now all directories had to be writable.
    fn set_attributes(&mut self) -> Result<(), Errno> {
        for (directory, wanted) in self.attributes.iter().rev() {
            let now = rustix::fs::fstat(directory)?;
            let wanted = stat_from(wanted);
            attributes::give_mode(directory, now.st_mode, wanted.mode)?;
            attributes::give_time(directory, Some(wanted.fingerprint.modified))?;
        }
        for (directory, mode) in self.closed.iter().rev() {
            rustix::fs::fchmod(directory, *mode)?;
        }
        Ok(())
    }
}

/// Opens a directory, and returns whether its mode had to be changed for that.
fn open_readable(
    parent: &OwnedFd,
    name: &OsStr,
    raw: &rustix::fs::Stat,
) -> Result<(OwnedFd, bool), Errno> {
    match open_child(parent.as_fd(), name, FOR_LISTING) {
        Err(Errno::ACCESS) => Ok((file::open(parent.as_fd(), name, raw, FOR_LISTING)?, true)),
        opened => Ok((opened?, false)),
    }
}

/// Copies an object to the workspace's file system, under its name in a new directory, and returns that directory.
fn copy_aside(copies: &HoldingDirectory, upper: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let own = HoldingDirectory::name().map_err(|error| as_errno(&error))?;
    rustix::fs::mkdirat(&copies.handle, &own, Mode::RWXU)?;
    // By handle: a program that runs meanwhile could replace the directory of copies by a link.
    let open = |directory: &OwnedFd, name: &str| {
        Tree::open(&Path::new(&descriptor_path(directory)).join(name)).map_err(|_| Errno::IO)
    };
    let (from, to) = (open(upper, ".")?, open(&copies.handle, &own)?);
    let only = PathBuf::from(name);
    let paths = HashSet::from([only.clone()]);
    let selection = Selection::Only { paths, whole: vec![only] };
    copy(&from, &to, &selection).map_err(|_| Errno::IO)?;
    let holder = open_child(copies.handle.as_fd(), own.as_ref(), FOR_LISTING)?;
    make_writable(&holder)?;
    Ok(holder)
}

/// Adds the owner's permissions to a directory. Ignores an error, which means that it belongs to another user: then the change itself
/// fails.
fn make_writable(directory: &OwnedFd) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode & 0o7777);
    if !mode.contains(Mode::RWXU) {
        let _: Result<(), Errno> = rustix::fs::fchmod(directory, mode | Mode::RWXU);
    }
    Ok(())
}

/// Makes a directory movable to another parent, which writes its entry `..`. Returns the old mode if it had to be changed.
fn make_movable(parent: &OwnedFd, name: &OsStr) -> Result<Option<Mode>, Errno> {
    let flags = NAME_ONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let directory = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        opened => opened?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode & 0o7777);
    if mode.contains(Mode::WUSR) {
        return Ok(None);
    }
    let path = descriptor_path(&directory);
    rustix::fs::chmodat(CWD, path, mode | Mode::RWXU, AtFlags::empty())?;
    Ok(Some(mode))
}

/// Returns whether a directory is marked as opaque, so that nothing of the lower layer is visible in it.
pub(super) fn is_opaque(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut value = [0; 1];
    match rustix::fs::fgetxattr(directory, OPAQUE_MARK, &mut value) {
        Ok(length) => Ok(length > 0 && value == *b"y"),
        // A longer value is not this mark.
        Err(Errno::NODATA | Errno::RANGE) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Returns the error number of an I/O error; `EIO` if it has none.
fn as_errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_mark_is_an_error() {
        let open = |path: &Path| rustix::fs::open(path, FOR_LISTING, Mode::empty()).unwrap();
        let ground = tempfile::tempdir().unwrap();
        assert_eq!(is_opaque(open(ground.path()).as_fd()), Ok(false));
        let flags = rustix::fs::XattrFlags::empty();
        for (value, expected) in [(&b"y"[..], Ok(true)), (b"x", Ok(false)), (b"yes", Ok(false))] {
            rustix::fs::setxattr(ground.path(), OPAQUE_MARK, value, flags).unwrap();
            assert_eq!(is_opaque(open(ground.path()).as_fd()), expected, "{value:?}");
        }
        // A file system without extended attributes cannot tell.
        assert!(is_opaque(open(Path::new("/proc")).as_fd()).is_err());
    }
}
