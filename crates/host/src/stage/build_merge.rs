//! Brings what a program changed in build directories, or beside the workspace, from a stage to where it belongs, without history.
//!
//! What is new moves by rename: a tree of 30,000 files costs as much as one. Each step can be repeated, so the next process finishes
//! a merge that was interrupted (see [`Stage::sweep`](super::Stage::sweep)).
//!
//! Both sides are reached by handle and through no link: a program that runs meanwhile could replace a directory of the workspace
//! by a link.

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
use super::gone::Gone;
use super::marks;
use crate::attributes;
use crate::isolate::clear::remove_tree;
use crate::isolate::copy::{Selection, copy};
use crate::isolate::tree::{Tree, names};
use crate::kernel::{FOR_LISTING, NAME_ONLY, descriptor_path, open_child, stat, stat_from};

const OPAQUE: &str = "user.overlay.opaque";

/// The two sides of a merge.
pub(super) struct BuildMerge {
    upper: Tree,
    workspace: Tree,
    /// Holds old trees until they are removed.
    trash: Holder,
    /// Holds copies of new objects until they are complete; only if the layers are on two file systems.
    copies: Option<Holder>,
    /// The target is itself an upper layer of overlays: whiteouts and other notes of overlayfs mean something there.
    is_upper_layer: bool,
}

/// A directory for objects on their way.
struct Holder {
    path: PathBuf,
    handle: OwnedFd,
}

impl BuildMerge {
    /// `holder` is a directory beside the upper layer, made if it is missing. `name` is a name that no directory of the workspace
    /// has.
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
        // An object can only be renamed to where its file system goes.
        let beside = workspace.path.join(name);
        let trash = Holder::make(if is_one_device { holder } else { &beside })?;
        let copies = (!is_one_device).then(|| Holder::make(&beside)).transpose()?;
        Ok(Self { upper, workspace, trash, copies, is_upper_layer: false })
    }

    /// The same into a directory that is an upper layer of overlays, on the same file system.
    pub(super) fn into_upper_layer(mut self) -> Self {
        self.is_upper_layer = true;
        self
    }

    /// Brings over all that is in the layer.
    pub(super) fn merge_all(&self) -> io::Result<()> {
        self.merge_from(Path::new(""), None)
    }

    /// Brings over one build directory, by its path relative to the workspace.
    pub(super) fn merge(&self, path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("the workspace itself is no build directory"));
        };
        self.merge_from(parent, Some(name))
    }

    /// Brings over the entries of a directory, or one of them, with all that is below.
    fn merge_from(&self, path: &Path, only: Option<&OsStr>) -> io::Result<()> {
        let failed = |path: &Path, errno| {
            io::Error::other(self.workspace.failed("keep the changes of", path, errno))
        };
        let mut merging = Merging {
            merge: self,
            waiting: Vec::new(),
            attributes: Vec::new(),
            closed: Vec::new(),
        };
        merging.enter(path, only).map_err(|errno| failed(path, errno))?;
        while let Some((path, wanted)) = merging.waiting.pop() {
            merging.enter_merged(&path, wanted).map_err(|errno| failed(&path, errno))?;
        }
        merging.give_attributes().map_err(|errno| failed(path, errno))
    }

    /// Tells whether a build directory is none any more in the workspace, although the program left it one: it, or a directory above
    /// it, is a link now, say. The overlay notes where the program itself put a directory in place of something else.
    pub(super) fn is_replaced(&self, path: &Path) -> bool {
        let Ok(upper) = self.upper.directory(path) else { return false };
        // What cannot be found out fails in the merge.
        if is_opaque(upper.as_fd()).unwrap_or(true) {
            return false;
        }
        match self.workspace.directory(path) {
            Ok(_) | Err(Errno::NOENT) => false,
            Err(_) => true,
        }
    }

    /// Adds every path that changed in a build directory, removed ones included. All paths are relative to the workspace.
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

    fn removed_below(&self, path: &Path, changed: &mut Vec<PathBuf>) -> io::Result<()> {
        match Gone::below(&self.workspace, path) {
            Ok(gone) => changed.extend(gone.objects.into_iter().map(|(path, _)| path)),
            Err((_, Errno::NOTDIR | Errno::NOENT | Errno::LOOP)) => {}
            Err((path, errno)) => {
                return Err(io::Error::other(self.workspace.failed("list", &path, errno)));
            }
        }
        Ok(())
    }
}

impl Drop for BuildMerge {
    fn drop(&mut self) {
        // The trash goes with the stage unless it is in the workspace.
        if let Some(copies) = &self.copies {
            drop(remove_tree(&copies.path));
        }
    }
}

impl Holder {
    fn make(path: &Path) -> io::Result<Self> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => made?,
        }
        let handle = rustix::fs::open(path, FOR_LISTING, Mode::empty())?;
        Ok(Self { path: path.to_owned(), handle })
    }

    /// A name that nothing in it has.
    fn name() -> io::Result<String> {
        Ok(format!("{:016x}", crate::random::number()?))
    }
}

/// The state of one merge.
struct Merging<'a> {
    merge: &'a BuildMerge,
    /// Directories that are there on both sides, relative to the workspace, and what the program made of them.
    waiting: Vec<(PathBuf, rustix::fs::Stat)>,
    /// Modes and times that directories get in the end.
    attributes: Vec<(OwnedFd, rustix::fs::Stat)>,
    /// Directories of the upper layer that get their modes back in the end: the merge may be repeated.
    closed: Vec<(OwnedFd, Mode)>,
}

impl Merging<'_> {
    /// Merges the entries of a directory, or one of them.
    fn enter(&mut self, path: &Path, only: Option<&OsStr>) -> Result<(), Errno> {
        let upper = self.merge.upper.directory(path)?;
        let Some(only) = only else { return self.enter_merged(path, rustix::fs::fstat(&upper)?) };
        let lower = self.merge.workspace.directory(path)?;
        self.merge_entry(&upper, &lower, only, path)
    }

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

    fn merge_entry(
        &mut self,
        upper: &OwnedFd,
        lower: &OwnedFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), Errno> {
        let raw = match rustix::fs::statat(upper, name, AtFlags::SYMLINK_NOFOLLOW) {
            // It was brought over before an interruption.
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
            // It gets the mode that it has on the stage when all is in it.
            drop(open_up(lower, name, present)?);
            self.waiting.push((path.join(name), raw));
            return Ok(());
        }
        let is_kept = matches!(kind, FileKind::File | FileKind::Symlink | FileKind::Directory)
            || (is_whiteout && self.merge.is_upper_layer);
        // Sockets and the like belong to processes that have ended.
        if !is_kept && !is_whiteout {
            return Ok(());
        }
        // A file that replaces another by rename is written to disk at once by ext4, which takes longer than both steps.
        if before.is_some() {
            self.discard(lower, name)?;
        }
        if kind == FileKind::Directory && was_whiteout {
            // The kernel need not have noted that nothing shines through: to the program, there was nothing below.
            let directory = open_child(upper.as_fd(), name, FOR_LISTING)?;
            rustix::fs::fsetxattr(directory, OPAQUE, b"y", XattrFlags::empty())?;
        }
        if is_kept { self.put(upper, lower, name, path) } else { Ok(()) }
    }

    /// Opens a directory of the upper layer. One that the program closed to its owner is open until the merge has ended.
    fn open_layer(
        &mut self,
        upper: &OwnedFd,
        name: &OsStr,
        raw: &rustix::fs::Stat,
    ) -> Result<OwnedFd, Errno> {
        let (directory, was_closed) = open_up(upper, name, raw)?;
        if was_closed {
            let mode = Mode::from_raw_mode(raw.st_mode & 0o7777);
            self.closed.push((open_child(upper.as_fd(), name, FOR_LISTING)?, mode));
        }
        Ok(directory)
    }

    /// Moves an object into the workspace.
    fn put(
        &self,
        upper: &OwnedFd,
        lower: &OwnedFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), Errno> {
        if !self.merge.is_upper_layer {
            // On the stage, which is ours alone: a merge that is killed here is repeated.
            marks::forget(&self.merge.upper, &path.join(name));
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

    /// Takes an object out of the workspace. It goes with the stage.
    fn discard(&self, lower: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        make_movable(lower, name)?;
        let own = Holder::name().map_err(|error| as_errno(&error))?;
        rustix::fs::renameat(lower, name, &self.merge.trash.handle, &own)
    }

    /// From the bottom up: until now we had to be able to write to all of them.
    fn give_attributes(&mut self) -> Result<(), Errno> {
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

/// Opens a directory, and tells whether its mode had to be changed for that.
fn open_up(
    parent: &OwnedFd,
    name: &OsStr,
    raw: &rustix::fs::Stat,
) -> Result<(OwnedFd, bool), Errno> {
    match open_child(parent.as_fd(), name, FOR_LISTING) {
        Err(Errno::ACCESS) => Ok((file::open(parent.as_fd(), name, raw, FOR_LISTING)?, true)),
        opened => Ok((opened?, false)),
    }
}

/// Copies an object to the workspace's file system, under its name into a new directory; that directory.
fn copy_aside(copies: &Holder, upper: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let own = Holder::name().map_err(|error| as_errno(&error))?;
    rustix::fs::mkdirat(&copies.handle, &own, Mode::RWXU)?;
    // By handle: a program that runs meanwhile could put a link in the place of the directory of copies.
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

/// Lets us change the entries of a directory. An error tells that it belongs to another user; then the change itself fails.
fn make_writable(directory: &OwnedFd) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode & 0o7777);
    if !mode.contains(Mode::RWXU) {
        let _: Result<(), Errno> = rustix::fs::fchmod(directory, mode | Mode::RWXU);
    }
    Ok(())
}

/// Lets us move a directory to another parent, which writes its entry `..`. The mode that it had, if it had to be changed.
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

/// Tells whether nothing of the lower layer is seen in a directory.
pub(super) fn is_opaque(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut value = [0; 1];
    match rustix::fs::fgetxattr(directory, OPAQUE, &mut value) {
        Ok(length) => Ok(length > 0 && value == *b"y"),
        // A longer value is not the mark.
        Err(Errno::NODATA | Errno::RANGE) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn as_errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_cannot_be_read_is_not_taken_for_absent() {
        let open = |path: &Path| rustix::fs::open(path, FOR_LISTING, Mode::empty()).unwrap();
        let ground = tempfile::tempdir().unwrap();
        assert_eq!(is_opaque(open(ground.path()).as_fd()), Ok(false));
        let flags = rustix::fs::XattrFlags::empty();
        for (value, expected) in [(&b"y"[..], Ok(true)), (b"x", Ok(false)), (b"yes", Ok(false))] {
            rustix::fs::setxattr(ground.path(), OPAQUE, value, flags).unwrap();
            assert_eq!(is_opaque(open(ground.path()).as_fd()), expected, "{value:?}");
        }
        // A file system that keeps no attributes cannot tell.
        assert!(is_opaque(open(Path::new("/proc")).as_fd()).is_err());
    }
}
