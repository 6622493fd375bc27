//! Follows a path one component at a time, as the kernel would, and keeps the real name of the place it has come to.
//!
//! It serves where the kernel's own lookup has no answer: a path whose end is missing, a link that leads nowhere or in a circle,
//! a kernel without `openat2`. What it finds is only a statement; whoever opens the place follows no link any more, so a change in
//! the meantime is noticed there.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::FileErrorKind;

use crate::kernel::{Lookup, NAME_ONLY, is_on_proc, meaning};
use crate::resolver::is_session_tmp;
use crate::session_tmp::SessionTmp;

/// As many links as Linux follows in one path.
const MAX_LINKS: usize = 40;

/// The inode of the root of every `/proc`.
const PROC_ROOT_INODE: u64 = 1;

/// The real path at the end of a trail.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) path: PathBuf,
    pub(crate) exists: bool,
}

/// The directory that relative paths begin in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) handle: &'a OwnedFd,
    /// Its real path.
    pub(crate) path: &'a Path,
}

/// The directory of a session that is entered instead of the machine's `/tmp`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Detour<'a> {
    pub(crate) tmp: &'a SessionTmp,
    pub(crate) workspace: &'a Path,
    pub(crate) lookup: Lookup,
}

/// Where `path` leads.
pub(crate) fn follow(
    path: &Path,
    start: Start<'_>,
    slash: &OwnedFd,
    detour: Option<Detour<'_>>,
) -> Result<End, FileErrorKind> {
    let absolute = path.is_absolute();
    let mut trail = Trail {
        slash,
        detour,
        at: clone(if absolute { slash } else { start.handle })?,
        real: if absolute { PathBuf::from("/") } else { start.path.to_owned() },
        ahead: Vec::new(),
        links: 0,
    };
    trail.plan(path.as_os_str());
    trail.follow()
}

struct Trail<'a> {
    slash: &'a OwnedFd,
    detour: Option<Detour<'a>>,
    /// The directory it has come to.
    at: OwnedFd,
    /// Its real path, or that of the object at the end.
    real: PathBuf,
    /// The components still to go, the next one last. An empty one stands for a slash too many: only a directory has one.
    ahead: Vec<OsString>,
    links: usize,
}

/// What one component turned out to be.
enum Step {
    Taken,
    Missing,
}

impl Trail<'_> {
    fn plan(&mut self, path: &OsStr) {
        let parts = path.as_bytes().split(|byte| *byte == b'/');
        self.ahead.extend(parts.rev().map(|part| OsStr::from_bytes(part).to_owned()));
    }

    fn follow(mut self) -> Result<End, FileErrorKind> {
        while let Some(part) = self.ahead.pop() {
            match part.as_bytes() {
                b"" | b"." => {}
                b".." => self.up()?,
                _ => match self.down(&part)? {
                    Step::Taken => {}
                    Step::Missing => return self.end_at_missing(part),
                },
            }
        }
        Ok(End { path: self.real, exists: true })
    }

    fn up(&mut self) -> Result<(), FileErrorKind> {
        let flags = NAME_ONLY | OFlags::DIRECTORY;
        let was_in_tmp = self.is_in_tmp();
        self.real.pop();
        let above = match self.detour {
            // Around the session's directory there is what is around the machine's.
            Some(detour) if was_in_tmp && !self.is_in_tmp() => {
                let above = self.real.strip_prefix("/").unwrap_or(&self.real);
                detour.lookup.open(self.slash.as_fd(), above, flags)
            }
            _ => rustix::fs::openat(&self.at, "..", flags, Mode::empty()),
        };
        self.at = above.map_err(meaning)?;
        Ok(())
    }

    /// Whether it has come to the session's directory for temporary files, or below.
    fn is_in_tmp(&self) -> bool {
        self.detour.is_some_and(|detour| is_session_tmp(&self.real, detour.workspace))
    }

    fn down(&mut self, name: &OsStr) -> Result<Step, FileErrorKind> {
        let found = match self.open(name) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(Step::Missing),
            Err(errno) => return Err(meaning(errno)),
        };
        let stat = rustix::fs::fstat(&found).map_err(meaning)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => return self.turn(&found).map(|()| Step::Taken),
            FileType::Directory => self.at = found,
            _ if self.ahead.is_empty() => {}
            _ => return Err(FileErrorKind::NotADirectory),
        }
        self.real.push(name);
        Ok(Step::Taken)
    }

    /// Opens the next object, without following it if it is a link.
    fn open(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let flags = NAME_ONLY | OFlags::NOFOLLOW;
        let next = self.real.join(name);
        let Some(detour) = self
            .detour
            .filter(|detour| !self.is_in_tmp() && is_session_tmp(&next, detour.workspace))
        else {
            return rustix::fs::openat(&self.at, name, flags, Mode::empty());
        };
        let (tmp, below) = detour.tmp.place(&next)?;
        let directory = below.parent().unwrap_or(below);
        let directory = detour.lookup.open(tmp, directory, NAME_ONLY | OFlags::DIRECTORY)?;
        let name = below.file_name().unwrap_or(OsStr::new("."));
        rustix::fs::openat(&directory, name, flags, Mode::empty())
    }

    /// Goes on where a link points to.
    fn turn(&mut self, link: &OwnedFd) -> Result<(), FileErrorKind> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(FileErrorKind::BadName("its symbolic links lead in a circle"));
        }
        if is_on_proc(link) && !self.at_root_of_proc()? {
            return Err(FileErrorKind::MagicLink);
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new()).map_err(meaning)?;
        let target = OsString::from_vec(target.into_bytes());
        if target.as_bytes().starts_with(b"/") {
            self.at = clone(self.slash)?;
            self.real = PathBuf::from("/");
        }
        self.plan(&target);
        Ok(())
    }

    /// The links right in `/proc` (`self`, `mounts`, `net`) are ordinary ones; those below it lead wherever a process is.
    fn at_root_of_proc(&self) -> Result<bool, FileErrorKind> {
        let here = crate::kernel::stat(&self.at).map_err(meaning)?;
        Ok(is_on_proc(&self.at) && here.fingerprint.inode == PROC_ROOT_INODE)
    }

    /// Below a missing directory there is nothing: the rest can only be names.
    fn end_at_missing(mut self, name: OsString) -> Result<End, FileErrorKind> {
        self.real.push(name);
        while let Some(part) = self.ahead.pop() {
            match part.as_bytes() {
                b"" | b"." => {}
                b".." => return Err(FileErrorKind::NotFound),
                _ => self.real.push(part),
            }
        }
        Ok(End { path: self.real, exists: false })
    }
}

fn clone(handle: &OwnedFd) -> Result<OwnedFd, FileErrorKind> {
    handle.as_fd().try_clone_to_owned().map_err(FileErrorKind::Io)
}
