//! The system calls that everything here stands on, and what their answers mean.
//!
//! Nothing in this file decides anything. It knows one rule: a path is looked up beneath a handle, and no link in it is followed.
//! Linux does that in one call; where it is missing (before 5.6, or behind a filter) the same is done one component at a time.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use windlass_core::{FileError, FileErrorKind, FileKind, Fingerprint, Resolved, Stat};

/// A handle that names an object without opening it: nothing can block, and a device notices nothing.
pub(crate) const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// For reading a regular file. Should it be a FIFO or a terminal after all, opening it neither waits nor takes it over.
pub(crate) const FOR_READING: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// For listing a directory, or for making what happened in it durable.
pub(crate) const FOR_LISTING: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The longest path that one call of the kernel takes, with its final NUL.
pub(crate) const MAX_PATH: usize = 4096;

/// How often a call is repeated that the kernel gave up because something moved meanwhile.
const MAX_TRIES: usize = 64;

/// How a path is looked up beneath a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// By the kernel, in one call; `/proc` tells where a handle really is.
    AtOnce,
    /// By us, one component at a time. Slower, and needs neither.
    ByComponent,
}

impl Lookup {
    /// The better one that works here. What works once goes on working.
    pub(crate) fn available() -> Self {
        static WORKS: AtomicBool = AtomicBool::new(false);
        if WORKS.load(Ordering::Relaxed) {
            return Self::AtOnce;
        }
        match open_at_once(rustix::fs::CWD, Path::new("."), NAME_ONLY, ResolveFlags::empty()) {
            Ok(handle) if real_path(&handle).is_some() => {
                WORKS.store(true, Ordering::Relaxed);
                Self::AtOnce
            }
            _ => Self::ByComponent,
        }
    }

    /// Opens what is at `path` beneath `from`, itself if the path is empty. Any link on the way is `ELOOP`.
    pub(crate) fn open(
        self,
        from: BorrowedFd<'_>,
        path: &Path,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match self {
            Self::AtOnce if path.as_os_str().len() < MAX_PATH => {
                // With `O_NOFOLLOW` a link at the end would be no directory, or a thing to be opened, and not what it is: a link.
                let flags = flags.difference(OFlags::NOFOLLOW);
                open_at_once(from, path, flags, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
            }
            Self::AtOnce => self.open_in_pieces(from, path.as_os_str().as_bytes(), flags),
            Self::ByComponent => open_by_component(from, path, flags),
        }
    }

    /// A tree can be deeper than a path can be long.
    fn open_in_pieces(
        self,
        from: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let mut at: Option<OwnedFd> = None;
        let mut rest = path;
        while rest.len() >= MAX_PATH {
            let cut = rest.iter().take(MAX_PATH).rposition(|byte| *byte == b'/');
            let (head, tail) = rest.split_at(cut.ok_or(Errno::NAMETOOLONG)?);
            let here = at.as_ref().map_or(from, AsFd::as_fd);
            at = Some(self.open(here, as_path(head), NAME_ONLY | OFlags::DIRECTORY)?);
            rest = tail.strip_prefix(b"/").unwrap_or(tail);
        }
        self.open(at.as_ref().map_or(from, AsFd::as_fd), as_path(rest), flags)
    }
}

/// `openat2`, repeated when the kernel could not tell because something was being moved.
pub(crate) fn open_at_once(
    from: impl AsFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(from.as_fd(), path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < MAX_TRIES => tries += 1,
            result => return result,
        }
    }
}

fn open_by_component(from: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut at: Option<OwnedFd> = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => OsStr::new("."),
            // The kernel's answer to a path that leads out from beneath its handle.
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

/// Opens one name in a directory, following no link: a link is `ELOOP`.
pub(crate) fn open_child(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW;
    let opened =
        rustix::io::retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::empty()));
    match opened {
        // With `O_PATH` a link is opened like anything else, with `O_DIRECTORY` it is merely no directory.
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

fn is_link(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Opens the very object of a handle again, for reading or writing.
pub(crate) fn reopen(handle: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    // The entry in /proc is itself a link, and the one that must be followed here.
    let flags = flags.difference(OFlags::NOFOLLOW);
    rustix::fs::open(descriptor_path(handle), flags, Mode::empty())
}

/// Where a handle's object is now; `None` if that cannot be said (it was deleted, or is beyond what a path can name).
pub(crate) fn real_path(handle: &OwnedFd) -> Option<PathBuf> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); MAX_PATH];
    let (path, _) =
        rustix::fs::readlinkat_raw(rustix::fs::CWD, descriptor_path(handle), &mut buffer).ok()?;
    // The kernel marks a deleted object in the text. A name may end like that too: then the slow way finds it.
    let usable = path.starts_with(b"/") && path.len() < MAX_PATH && !path.ends_with(b" (deleted)");
    usable.then(|| as_path(path).to_owned())
}

/// The name that `/proc` has for a handle of ours.
pub(crate) fn descriptor_path(handle: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Whether a handle's object is on `/proc`, whose links are made up by the kernel.
#[allow(clippy::useless_conversion, reason = "the kernel's types differ between architectures")]
pub(crate) fn is_on_proc(handle: &OwnedFd) -> bool {
    const PROC_MAGIC: i64 = 0x9fa0;
    rustix::fs::fstatfs(handle).is_ok_and(|found| i64::from(found.f_type) == PROC_MAGIC)
}

/// Facts about a handle's object.
pub(crate) fn stat(handle: impl AsFd) -> Result<Stat, Errno> {
    rustix::fs::fstat(handle).map(|raw| stat_from(&raw))
}

/// Facts about a name in a directory, following no link.
pub(crate) fn stat_child(
    directory: impl AsFd,
    name: impl rustix::path::Arg,
) -> Result<Stat, Errno> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map(|raw| stat_from(&raw))
}

/// The same facts in our words.
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

/// What kind of thing the kernel says it is; `None` if it does not say.
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

/// What an answer of the kernel means for an object that was resolved before.
pub(crate) fn meaning(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::NOENT => FileErrorKind::NotFound,
        Errno::NOTDIR => FileErrorKind::NotADirectory,
        Errno::ISDIR => FileErrorKind::NotRegular(FileKind::Directory),
        Errno::ACCESS | Errno::PERM => FileErrorKind::Permission,
        Errno::ROFS => FileErrorKind::ReadOnly,
        Errno::NOSPC | Errno::DQUOT => FileErrorKind::NoSpace,
        Errno::NAMETOOLONG => FileErrorKind::BadName("the path, or a name in it, is too long"),
        Errno::EXIST => FileErrorKind::Exists,
        // A resolved path has no links and leads straight down: something was put in its way.
        Errno::LOOP | Errno::XDEV => FileErrorKind::Changed,
        other => FileErrorKind::Io(other.into()),
    }
}

/// The same, as an error about `path`.
pub(crate) fn failure(doing: &'static str, path: &Resolved, errno: Errno) -> FileError {
    refusal(doing, path, meaning(errno))
}

/// An error about `path`, by its shortest name.
pub(crate) fn refusal(doing: &'static str, path: &Resolved, kind: FileErrorKind) -> FileError {
    let shortest = match &path.inside {
        Some(inside) if inside.as_os_str().is_empty() => Path::new("."),
        Some(inside) => inside,
        None => &path.path,
    };
    FileError::new(doing, shortest, kind)
}

/// A name or path as the kernel has it: bytes.
pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
