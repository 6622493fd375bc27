//! Wraps the system calls of path lookup and the meaning of their error numbers.
//!
//! Nothing here decides what is allowed. The one rule: a path is looked up beneath a directory handle, and no link in it is followed. Linux
//! does that in one call, `openat2`; where it is missing (before 5.6, or behind a filter) the same is done one component at a time.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use windlass_core::{FileError, FileErrorKind, FileKind, Fingerprint, Resolved, Stat};

/// Flags for a handle that names an object without opening it: nothing can block, and a device notices nothing.
pub(crate) const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Flags to open a regular file for reading. If it is a FIFO or a terminal after all, opening it neither waits nor takes it over.
pub(crate) const FOR_READING: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Flags to open a directory for listing it, or for syncing its entries to the disk.
pub(crate) const FOR_LISTING: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Maximum bytes of a path in one system call, with its final NUL.
pub(crate) const MAX_PATH_BYTES: usize = 4096;

/// Maximum repetitions of an `openat2` call that the kernel gave up because something was being moved.
const MAX_OPENAT2_TRIES: usize = 64;

/// Way to look up a path beneath a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// One `openat2` call of the kernel; `/proc` gives the real path of a handle.
    Openat2,
    /// One `openat` call per component. Slower, and needs neither `openat2` nor `/proc`.
    ByComponent,
}

impl Lookup {
    /// Returns the faster way that works on this machine. Success is remembered for the process, failure is tried again.
    pub(crate) fn available() -> Self {
        static OPENAT2_WORKS: AtomicBool = AtomicBool::new(false);
        if OPENAT2_WORKS.load(Ordering::Relaxed) {
            return Self::Openat2;
        }
        match openat2_retrying(rustix::fs::CWD, Path::new("."), NAME_ONLY, ResolveFlags::empty()) {
            Ok(handle) if real_path(&handle).is_some() => {
                OPENAT2_WORKS.store(true, Ordering::Relaxed);
                Self::Openat2
            }
            _ => Self::ByComponent,
        }
    }

    /// Opens the object at `path` beneath `from`, or `from` itself if the path is empty. A link anywhere in the path is `ELOOP`.
    pub(crate) fn open(
        self,
        from: BorrowedFd<'_>,
        path: &Path,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match self {
            Self::Openat2 if path.as_os_str().len() < MAX_PATH_BYTES => {
                // With `O_NOFOLLOW` a link at the end would be opened as itself or be reported as no directory. `NO_SYMLINKS` reports it as
                // a link.
                let flags = flags.difference(OFlags::NOFOLLOW);
                openat2_retrying(
                    from,
                    path,
                    flags,
                    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
                )
            }
            Self::Openat2 => self.open_long_path(from, path.as_os_str().as_bytes(), flags),
            Self::ByComponent => open_by_component(from, path, flags),
        }
    }

    /// Opens a path that is longer than one system call accepts, piece by piece.
    fn open_long_path(
        self,
        from: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let mut at: Option<OwnedFd> = None;
        let mut rest = path;
        while rest.len() >= MAX_PATH_BYTES {
            let cut = rest.iter().take(MAX_PATH_BYTES).rposition(|byte| *byte == b'/');
            let (head, tail) = rest.split_at(cut.ok_or(Errno::NAMETOOLONG)?);
            let here = at.as_ref().map_or(from, AsFd::as_fd);
            at = Some(self.open(here, as_path(head), NAME_ONLY | OFlags::DIRECTORY)?);
            rest = tail.strip_prefix(b"/").unwrap_or(tail);
        }
        self.open(at.as_ref().map_or(from, AsFd::as_fd), as_path(rest), flags)
    }
}

/// Calls `openat2`, repeated while the kernel gives up because something is being moved.
pub(crate) fn openat2_retrying(
    from: impl AsFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(from.as_fd(), path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < MAX_OPENAT2_TRIES => tries += 1,
            result => return result,
        }
    }
}

/// Opens a path one component at a time. A path that leads out from beneath `from` is `EXDEV`, as with `openat2`.
fn open_by_component(from: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => OsStr::new("."),
            // The kernel's error for a path that leads out from beneath its handle.
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV);
            }
        };
        let flags = if parts.peek().is_some() { NAME_ONLY.union(OFlags::DIRECTORY) } else { flags };
        let here = at.as_ref().map_or(from, AsFd::as_fd);
        at = Some(open_child(here, name, flags)?);
    }
    at.ok_or(Errno::NOENT)
}

/// Opens one name in a directory without following links: a link is `ELOOP`.
pub(crate) fn open_child(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW;
    let opened =
        rustix::io::retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::empty()));
    match opened {
        // With `O_PATH` a link is opened like any object; with `O_DIRECTORY` it is reported as no directory.
        Ok(handle) if flags.contains(OFlags::PATH) && is_link(&rustix::fs::fstat(&handle)?) => {
            Err(Errno::LOOP)
        }
        Err(Errno::NOTDIR)
            if is_link(&rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?) =>
        {
            Err(Errno::LOOP)
        }
        result => result,
    }
}

/// Returns whether facts are about a symbolic link.
fn is_link(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Opens the object of a handle again, for reading or writing, through `/proc`.
pub(crate) fn reopen(handle: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    // The entry in /proc is itself a link, which must be followed here.
    let flags = flags.difference(OFlags::NOFOLLOW);
    rustix::fs::open(descriptor_path(handle), flags, Mode::empty())
}

/// Returns the current path of a handle's object; `None` if it was deleted or its path is too long.
pub(crate) fn real_path(handle: &OwnedFd) -> Option<PathBuf> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); MAX_PATH_BYTES];
    let (path, _) =
        rustix::fs::readlinkat_raw(rustix::fs::CWD, descriptor_path(handle), &mut buffer).ok()?;
    // The kernel appends this text for a deleted object. A name may end like that too: then the lookup by component finds it.
    let usable =
        path.starts_with(b"/") && path.len() < MAX_PATH_BYTES && !path.ends_with(b" (deleted)");
    usable.then(|| as_path(path).to_owned())
}

/// Returns the path in `/proc` of an open handle of this process.
pub(crate) fn descriptor_path(handle: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Returns whether a handle's object is on `/proc`, whose links are made up by the kernel.
#[allow(clippy::useless_conversion, reason = "the kernel's types differ between architectures")]
pub(crate) fn is_on_proc(handle: &OwnedFd) -> bool {
    const PROC_MAGIC: i64 = 0x9fa0;
    rustix::fs::fstatfs(handle).is_ok_and(|found| i64::from(found.f_type) == PROC_MAGIC)
}

/// Returns facts about a handle's object.
pub(crate) fn stat(handle: impl AsFd) -> Result<Stat, Errno> {
    rustix::fs::fstat(handle).map(|raw| stat_from(&raw))
}

/// Returns facts about a name in a directory, without following a link.
pub(crate) fn stat_child(
    directory: impl AsFd,
    name: impl rustix::path::Arg,
) -> Result<Stat, Errno> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map(|raw| stat_from(&raw))
}

/// Converts the kernel's facts about an object.
#[allow(clippy::useless_conversion, reason = "the kernel's types differ between architectures")]
pub(crate) fn stat_from(raw: &rustix::fs::Stat) -> Stat {
    let nanoseconds = |seconds: i64, rest: u64| {
        seconds.saturating_mul(1_000_000_000).saturating_add(i64::try_from(rest).unwrap_or(0))
    };
    let len = u64::try_from(raw.st_size).unwrap_or(0);
    Stat {
        kind: kind(FileType::from_raw_mode(raw.st_mode)).unwrap_or(FileKind::Device),
        len,
        mode: raw.st_mode & 0o7777,
        links: u64::from(raw.st_nlink),
        fingerprint: Fingerprint {
            device: u64::from(raw.st_dev),
            inode: u64::from(raw.st_ino),
            len,
            modified: nanoseconds(raw.st_mtime.into(), raw.st_mtime_nsec.into()),
            changed: nanoseconds(raw.st_ctime.into(), raw.st_ctime_nsec.into()),
        },
    }
}

/// Converts the kernel's kind of object; `None` if the kernel does not report it.
pub(crate) fn kind(of: FileType) -> Option<FileKind> {
    Some(match of {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        FileType::Unknown => return None,
    })
}

/// Converts an error number for an object that was resolved before.
pub(crate) fn error_kind(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::NOENT => FileErrorKind::NotFound,
        Errno::NOTDIR => FileErrorKind::NotADirectory,
        Errno::ISDIR => FileErrorKind::NotRegular(FileKind::Directory),
        Errno::ACCESS | Errno::PERM => FileErrorKind::Permission,
        Errno::ROFS => FileErrorKind::ReadOnly,
        Errno::NOSPC | Errno::DQUOT => FileErrorKind::NoSpace,
        Errno::NAMETOOLONG => FileErrorKind::BadName("the path, or a name in it, is too long"),
        Errno::EXIST => FileErrorKind::Exists,
        // A resolved path has no links and leads straight down, so another program put something in its way.
        Errno::LOOP | Errno::XDEV => FileErrorKind::Changed,
        other => FileErrorKind::Io(other.into()),
    }
}

/// Returns the error about `path` for an error number.
pub(crate) fn errno_file_error(verb: &'static str, path: &Resolved, errno: Errno) -> FileError {
    file_error(verb, path, error_kind(errno))
}

/// Returns an error about `path`, which is named relative to the workspace if it is inside.
pub(crate) fn file_error(verb: &'static str, path: &Resolved, kind: FileErrorKind) -> FileError {
    let shortest = match &path.inside {
        Some(inside) if inside.as_os_str().is_empty() => Path::new("."),
        Some(inside) => inside,
        None => &path.path,
    };
    FileError::new(verb, shortest, kind)
}

/// Views bytes from the kernel as a path.
pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
