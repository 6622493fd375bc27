//! Follows a path one component at a time, as the kernel would, and records the real path of the current directory.
//!
//! It is used where the kernel's own lookup has no answer: a path whose end does not exist, a link that points to nothing or to
//! itself, a kernel without `openat2`. Its result may be outdated at once; code that opens the real path follows no links, so it
//! notices a change in the meantime.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::FileErrorKind;

use crate::kernel::{Lookup, NAME_ONLY, error_kind, is_on_proc};
use crate::resolver::is_session_tmp;
use crate::session_tmp::SessionTmp;

/// Maximum symbolic links in one path; the same as Linux allows.
const MAX_LINKS: usize = 40;

/// Inode of the root of every `/proc`.
const PROC_ROOT_INODE: u64 = 1;

/// The real path that a path leads to.
#[derive(Debug)]
pub(crate) struct FollowedPath {
    pub(crate) path: PathBuf,
    pub(crate) exists: bool,
}

/// Directory at which a relative path begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartDirectory<'a> {
    pub(crate) handle: &'a OwnedFd,
    /// Its real path.
    pub(crate) path: &'a Path,
}

/// The session's directory for temporary files, which is entered instead of the machine's `/tmp`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TmpRedirect<'a> {
    pub(crate) tmp: &'a SessionTmp,
    pub(crate) workspace: &'a Path,
    pub(crate) lookup: Lookup,
}

/// Returns the real path that `path` leads to.
pub(crate) fn follow(
    path: &Path,
    start: StartDirectory<'_>,
    slash: &OwnedFd,
    tmp_redirect: Option<TmpRedirect<'_>>,
) -> Result<FollowedPath, FileErrorKind> {
    let absolute = path.is_absolute();
    let mut follower = PathFollower {
        slash,
        tmp_redirect,
        directory: duplicate(if absolute { slash } else { start.handle })?,
        real: if absolute { PathBuf::from("/") } else { start.path.to_owned() },
        remaining: Vec::new(),
        links: 0,
    };
    follower.push_components(path.as_os_str());
    follower.follow()
}

/// A path that is being followed: the current directory and the remaining components.
struct PathFollower<'a> {
    /// Handle of `/`.
    slash: &'a OwnedFd,
    tmp_redirect: Option<TmpRedirect<'a>>,
    /// Handle of the current directory.
    directory: OwnedFd,
    /// Real path of the current directory, or of the object at the end.
    real: PathBuf,
    /// Components still to follow, the next one last. An empty one stands for a repeated or final slash.
    remaining: Vec<OsString>,
    /// Symbolic links followed so far.
    links: usize,
}

/// Result of following one component.
enum ComponentResult {
    Followed,
    Missing,
}

impl PathFollower<'_> {
    /// Adds the components of a path before the remaining ones.
    fn push_components(&mut self, path: &OsStr) {
        let parts = path.as_bytes().split(|byte| *byte == b'/');
        self.remaining.extend(parts.rev().map(|part| OsStr::from_bytes(part).to_owned()));
    }

    /// Follows all remaining components.
    fn follow(mut self) -> Result<FollowedPath, FileErrorKind> {
        while let Some(part) = self.remaining.pop() {
            match part.as_bytes() {
                b"" | b"." => {}
                b".." => self.enter_parent()?,
                _ => match self.follow_component(&part)? {
                    ComponentResult::Followed => {}
                    ComponentResult::Missing => return self.end_at_missing(part),
                },
            }
        }
        Ok(FollowedPath { path: self.real, exists: true })
    }

    /// Follows `..`.
    fn enter_parent(&mut self) -> Result<(), FileErrorKind> {
        let flags = NAME_ONLY | OFlags::DIRECTORY;
        let was_in_tmp = self.is_in_tmp();
        self.real.pop();
        let above = match self.tmp_redirect {
            // The directory above the session's directory is the one above the machine's `/tmp`.
            Some(tmp_redirect) if was_in_tmp && !self.is_in_tmp() => {
                let above = self.real.strip_prefix("/").unwrap_or(&self.real);
                tmp_redirect.lookup.open(self.slash.as_fd(), above, flags)
            }
            _ => rustix::fs::openat(&self.directory, "..", flags, Mode::empty()),
        };
        self.directory = above.map_err(error_kind)?;
        Ok(())
    }

    /// Returns whether the current directory is the session's `/tmp` or below it.
    fn is_in_tmp(&self) -> bool {
        self.tmp_redirect
            .is_some_and(|tmp_redirect| is_session_tmp(&self.real, tmp_redirect.workspace))
    }

    /// Follows one name: enters a directory, follows a link, or ends at a file.
    fn follow_component(&mut self, name: &OsStr) -> Result<ComponentResult, FileErrorKind> {
        let found = match self.open(name) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(ComponentResult::Missing),
            Err(errno) => return Err(error_kind(errno)),
        };
        let stat = rustix::fs::fstat(&found).map_err(error_kind)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                return self.follow_link(&found).map(|()| ComponentResult::Followed);
            }
            FileType::Directory => self.directory = found,
            _ if self.remaining.is_empty() => {}
            _ => return Err(FileErrorKind::NotADirectory),
        }
        self.real.push(name);
        Ok(ComponentResult::Followed)
    }

    /// Opens the next object, without following it if it is a link.
    fn open(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let flags = NAME_ONLY | OFlags::NOFOLLOW;
        let next = self.real.join(name);
        let Some(tmp_redirect) = self.tmp_redirect.filter(|tmp_redirect| {
            !self.is_in_tmp() && is_session_tmp(&next, tmp_redirect.workspace)
        }) else {
            return rustix::fs::openat(&self.directory, name, flags, Mode::empty());
        };
        let (tmp, below) = tmp_redirect.tmp.handle_and_path(&next)?;
        let directory = below.parent().unwrap_or(below);
        let directory = tmp_redirect.lookup.open(tmp, directory, NAME_ONLY | OFlags::DIRECTORY)?;
        let name = below.file_name().unwrap_or(OsStr::new("."));
        rustix::fs::openat(&directory, name, flags, Mode::empty())
    }

    /// Continues at the target of a link.
    fn follow_link(&mut self, link: &OwnedFd) -> Result<(), FileErrorKind> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(FileErrorKind::BadName("its symbolic links lead in a circle"));
        }
        if is_on_proc(link) && !self.at_root_of_proc()? {
            return Err(FileErrorKind::MagicLink);
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new()).map_err(error_kind)?;
        let target = OsString::from_vec(target.into_bytes());
        if target.as_bytes().starts_with(b"/") {
            self.directory = duplicate(self.slash)?;
            self.real = PathBuf::from("/");
        }
        self.push_components(&target);
        Ok(())
    }

    /// Returns whether the current directory is the root of `/proc`. The links right in `/proc` (`self`, `mounts`, `net`) are
    /// ordinary ones; those below it lead to wherever a process has its files.
    fn at_root_of_proc(&self) -> Result<bool, FileErrorKind> {
        let here = crate::kernel::stat(&self.directory).map_err(error_kind)?;
        Ok(is_on_proc(&self.directory) && here.fingerprint.inode == PROC_ROOT_INODE)
    }

    /// Ends at a missing component. The remaining components can only be names, because nothing exists below it.
    fn end_at_missing(mut self, name: OsString) -> Result<FollowedPath, FileErrorKind> {
        self.real.push(name);
        while let Some(part) = self.remaining.pop() {
            match part.as_bytes() {
                b"" | b"." => {}
                b".." => return Err(FileErrorKind::NotFound),
                _ => self.real.push(part),
            }
        }
        Ok(FollowedPath { path: self.real, exists: false })
    }
}

/// Duplicates a handle.
fn duplicate(handle: &OwnedFd) -> Result<OwnedFd, FileErrorKind> {
    handle.as_fd().try_clone_to_owned().map_err(FileErrorKind::Io)
}
