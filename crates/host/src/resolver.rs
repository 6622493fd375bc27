//! Resolves paths to real paths, and opens exactly the object at a resolved path. All access to files goes through here.
//!
//! There are two steps, so that a decision can stand between them. [`PathResolver::resolve`] follows links like the kernel and returns the
//! real path. [`PathResolver::pin`] opens that real path from the workspace's handle (or from `/`, if it is outside) without following any
//! link. If another program put a link in the way in the meantime, the second step fails, so a path that was decided on never means another
//! object.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use windlass_core::{
    FileError, FileErrorKind, FileKind, OpenFile, Resolved, Stat, below_session_tmp, usual_tmp_path,
};

use crate::kernel::{
    FOR_READING, Lookup, MAX_PATH_BYTES, NAME_ONLY, as_path, errno_file_error, error_kind,
    file_error, openat2_retrying, real_path, reopen, stat, stat_child,
};
use crate::path_follower::{self, StartDirectory, TmpRedirect};
use crate::session_tmp::SessionTmp;

/// One workspace, held by a directory handle.
#[derive(Debug)]
pub(crate) struct PathResolver {
    workspace: PathBuf,
    root: Arc<OwnedFd>,
    slash: Arc<OwnedFd>,
    lookup: Lookup,
    /// The session's own directory, which is looked up instead of the machine's `/tmp`.
    tmp: Option<SessionTmp>,
}

/// An object held by an `O_PATH` handle, not opened for reading or writing.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) handle: OwnedFd,
    pub(crate) stat: Stat,
}

impl PathResolver {
    /// Opens a workspace. The path may be relative and may lead through links.
    pub(crate) fn open(workspace: &Path, lookup: Lookup) -> Result<Self, FileError> {
        let failed = |kind| FileError::new("open the workspace", workspace, kind);
        // Only this path may be relative to the current directory of the process, and only here.
        let absolute = std::path::absolute(workspace).map_err(|why| failed(io_error_kind(why)))?;
        check_path(&absolute).map_err(failed)?;
        let directory = NAME_ONLY | OFlags::DIRECTORY;
        let slash = rustix::fs::open("/", directory, Mode::empty())
            .map_err(|errno| failed(error_kind(errno)))?;
        let start = StartDirectory { handle: &slash, path: Path::new("/") };
        let end = path_follower::follow(&absolute, start, &slash, None).map_err(failed)?;
        let root = lookup
            .open(slash.as_fd(), below_slash(&end.path), directory)
            .map_err(|errno| failed(error_kind(errno)))?;
        let (root, slash) = (Arc::new(root), Arc::new(slash));
        Ok(Self { workspace: end.path, root, slash, lookup, tmp: None })
    }

    /// Returns the same workspace with the `/tmp` of a session.
    pub(crate) fn with_tmp(&self, tmp: SessionTmp) -> Self {
        Self {
            workspace: self.workspace.clone(),
            root: self.root.clone(),
            slash: self.slash.clone(),
            lookup: self.lookup,
            tmp: Some(tmp),
        }
    }

    /// Returns the session's own directory for temporary files, if there is one.
    pub(crate) fn tmp(&self) -> Option<&SessionTmp> {
        self.tmp.as_ref()
    }

    /// Returns the workspace's real path.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the way in which paths are looked up beneath a handle.
    pub(crate) fn lookup(&self) -> Lookup {
        self.lookup
    }

    /// Follows links and returns the real path, starting at the workspace if `path` is relative.
    pub(crate) fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        self.resolve_kind(path).map_err(|kind| FileError::new("find", shortened(path), kind))
    }

    /// Resolves a path by the fastest way that works for it, and returns the reason on failure.
    fn resolve_kind(&self, path: &Path) -> Result<Resolved, FileErrorKind> {
        check_path(path)?;
        if let Some(inside) = self.resolve_without_links(path) {
            // `Path::join` with an empty path would add a final slash.
            let is_root = inside.as_os_str().is_empty();
            let path = if is_root { self.workspace.clone() } else { self.workspace.join(&inside) };
            return Ok(Resolved { path, inside: Some(inside), exists: true });
        }
        if let Some(real) = self.resolve_by_openat2(path)? {
            return Ok(self.resolved(real, true));
        }
        let start = StartDirectory { handle: &self.root, path: &self.workspace };
        let tmp = self.tmp.as_ref();
        let tmp_redirect =
            tmp.map(|tmp| TmpRedirect { tmp, workspace: &self.workspace, lookup: self.lookup });
        let end = path_follower::follow(path, start, &self.slash, tmp_redirect)?;
        let real = match self.tmp {
            Some(_) => usual_tmp_path(end.path, &self.workspace),
            None => end.path,
        };
        Ok(self.resolved(real, end.exists))
    }

    /// Handles the usual case in at most two system calls: an existing path in the workspace without links, which is its own real path.
    /// Returns the path relative to the workspace; `None` if another way is needed.
    fn resolve_without_links(&self, path: &Path) -> Option<PathBuf> {
        if self.lookup == Lookup::ByComponent {
            return None;
        }
        if is_name(path) {
            // A single name has no directory on the way that could be a link, so one call suffices.
            let seen = stat_child(&*self.root, path).ok()?;
            return (seen.kind != FileKind::Symlink).then(|| path.to_owned());
        }
        if is_normal(path) {
            self.lookup.open(self.root.as_fd(), path, NAME_ONLY).ok()?;
            return Some(path.to_owned());
        }
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !path.components().all(plain) {
            return None;
        }
        // A path with a final slash must be a directory, so the kernel gets the path as it was written.
        let asked = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        self.lookup.open(self.root.as_fd(), asked, NAME_ONLY).ok()?;
        Some(path.components().filter(|part| *part != Component::CurDir).collect())
    }

    /// Handles existing absolute paths and paths through links in three system calls, and returns the real path; `None` if another way is
    /// needed. The kernel knows only the machine's `/tmp`, so with a session's `/tmp` it gets no path with a link or `..`.
    fn resolve_by_openat2(&self, path: &Path) -> Result<Option<PathBuf>, FileErrorKind> {
        if self.lookup == Lookup::ByComponent || self.may_lead_to_tmp(path) {
            return Ok(None);
        }
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let mut flags = ResolveFlags::NO_MAGICLINKS;
        flags.set(ResolveFlags::NO_SYMLINKS, self.tmp.is_some());
        match openat2_retrying(&*self.root, path, NAME_ONLY, flags) {
            Ok(handle) => Ok(real_path(&handle)),
            // The end is missing, a link is dangling or circular, or it is a magic link: the kernel does not tell these apart.
            Err(Errno::NOENT | Errno::LOOP) => Ok(None),
            Err(errno) => Err(error_kind(errno)),
        }
    }

    /// Returns whether a path could lead into the session's `/tmp`; always false without one.
    fn may_lead_to_tmp(&self, path: &Path) -> bool {
        let leads = || {
            path.components().any(|part| part == Component::ParentDir)
                || is_session_tmp(&self.workspace.join(path), &self.workspace)
        };
        self.tmp.is_some() && leads()
    }

    /// Returns a real path together with its path relative to the workspace, if it is inside.
    pub(crate) fn resolved(&self, path: PathBuf, exists: bool) -> Resolved {
        let inside = path.strip_prefix(&self.workspace).ok().map(Path::to_owned);
        Resolved { path, inside, exists }
    }

    /// Returns an `O_PATH` handle on exactly this path, with facts about the object.
    pub(crate) fn pin(&self, path: &Resolved) -> Result<Pinned, Errno> {
        let handle = self.open_place(path, NAME_ONLY)?;
        let stat = stat(&handle)?;
        Ok(Pinned { handle, stat })
    }

    /// Opens exactly this path, without following links.
    pub(crate) fn open_place(&self, path: &Resolved, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (from, path) = self.handle_and_path(path)?;
        self.lookup.open(from, path, flags)
    }

    /// Opens the parent directory of a path, without following links.
    pub(crate) fn open_parent(&self, path: &Resolved, flags: OFlags) -> Result<OwnedFd, Errno> {
        let parent = path.path.parent().ok_or(Errno::ACCESS)?;
        let (from, parent) = self.handle_and_path_above(path, parent)?;
        self.lookup.open(from, parent, flags)
    }

    /// Returns the handle from which a path is reached, and the path relative to it.
    pub(crate) fn handle_and_path<'a>(
        &'a self,
        path: &'a Resolved,
    ) -> Result<(BorrowedFd<'a>, &'a Path), Errno> {
        match &path.inside {
            Some(inside) => Ok((self.root.as_fd(), inside)),
            None => self.handle_and_path_above(path, &path.path),
        }
    }

    /// Does the same for `path` itself or a directory above it. If the workspace and `path` both lie in the session's `/tmp`, a directory
    /// above both means the session's one here.
    pub(crate) fn handle_and_path_above<'a>(
        &'a self,
        path: &Resolved,
        directory: &'a Path,
    ) -> Result<(BorrowedFd<'a>, &'a Path), Errno> {
        if let Some(tmp) = self.tmp_of(path) {
            return tmp.handle_and_path(directory);
        }
        Ok(match below(directory, &self.workspace) {
            Some(inside) => (self.root.as_fd(), inside),
            None => (self.slash.as_fd(), below_slash(directory)),
        })
    }

    /// Returns the session's own directory for temporary files, if `path` is in it.
    pub(crate) fn tmp_of(&self, path: &Resolved) -> Option<&SessionTmp> {
        self.tmp.as_ref().filter(|_| is_session_tmp(&path.path, &self.workspace))
    }

    /// Returns facts about the object at a path.
    pub(crate) fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        Ok(self.pin(path).map_err(|errno| errno_file_error("look at", path, errno))?.stat)
    }

    /// Opens a regular file for reading. Checks its kind before it opens it.
    pub(crate) fn read(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        match self.read_plain(path) {
            Some(opened) => Ok(opened),
            None => self.read_pinned(path),
        }
    }

    /// Handles the usual case: the path is a regular file, and the opened object is the same file. `None` if another way is needed.
    fn read_plain(&self, path: &Resolved) -> Option<OpenFile> {
        let (from, place) = self.handle_and_path(path).ok()?;
        let seen = stat_child(from, place).ok()?;
        if seen.kind != FileKind::File {
            return None;
        }
        let handle = self.open_place(path, FOR_READING).ok()?;
        let opened = stat(&handle).ok()?;
        let same = opened.kind == FileKind::File && same_object(&opened, &seen);
        same.then(|| OpenFile { file: handle.into(), stat: opened })
    }

    /// Handles the other cases: pins the object without opening it, checks its kind, and then opens that object.
    fn read_pinned(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        let pinned = self.pin(path).map_err(|errno| errno_file_error("read", path, errno))?;
        if pinned.stat.kind != FileKind::File {
            return Err(file_error("read", path, FileErrorKind::NotRegular(pinned.stat.kind)));
        }
        let file = self.open_pinned(path, &pinned, FOR_READING)?;
        Ok(OpenFile { file: file.into(), stat: pinned.stat })
    }

    /// Opens the pinned object, and no other that may have its path by now.
    pub(crate) fn open_pinned(
        &self,
        path: &Resolved,
        pinned: &Pinned,
        flags: OFlags,
    ) -> Result<OwnedFd, FileError> {
        let opened = match self.lookup {
            Lookup::Openat2 => reopen(&pinned.handle, flags),
            Lookup::ByComponent => self.open_same_again(path, pinned, flags),
        };
        opened.map_err(|errno| errno_file_error("read", path, errno))
    }

    /// Opens the path a second time, for use without `/proc`. Fails with `ELOOP` if another object is there.
    fn open_same_again(
        &self,
        path: &Resolved,
        pinned: &Pinned,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let opened = self.open_place(path, flags)?;
        if same_object(&stat(&opened)?, &pinned.stat) { Ok(opened) } else { Err(Errno::LOOP) }
    }
}

/// Returns whether an absolute path is in the session's own directory for temporary files, where there is one.
pub(crate) fn is_session_tmp(path: &Path, workspace: &Path) -> bool {
    below_session_tmp(path, workspace).is_some()
}

/// Returns whether two facts are about one object, regardless of content.
pub(crate) fn same_object(a: &Stat, b: &Stat) -> bool {
    (a.fingerprint.device, a.fingerprint.inode) == (b.fingerprint.device, b.fingerprint.inode)
}

/// Refuses a path with a NUL byte, or one that is too long.
fn check_path(path: &Path) -> Result<(), FileErrorKind> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        return Err(FileErrorKind::BadName("there is a NUL byte in the path"));
    }
    if bytes.len() >= MAX_PATH_BYTES {
        return Err(FileErrorKind::BadName("the path is longer than 4,095 bytes"));
    }
    Ok(())
}

/// Shortens a path for an error message.
fn shortened(path: &Path) -> PathBuf {
    const MAX_SHOWN_BYTES: usize = 512;
    let bytes = path.as_os_str().as_bytes();
    match bytes.get(..MAX_SHOWN_BYTES) {
        Some(start) => PathBuf::from(format!("{}…", String::from_utf8_lossy(start))),
        None => path.to_owned(),
    }
}

/// Returns whether a path is relative and made of names alone, so that its bytes are all there is to it.
fn is_normal(path: &Path) -> bool {
    path.as_os_str()
        .as_bytes()
        .split(|byte| *byte == b'/')
        .all(|part| !matches!(part, b"" | b"." | b".."))
}

/// Returns whether a path is the name of one entry of a directory.
fn is_name(path: &Path) -> bool {
    is_normal(path) && !path.as_os_str().as_bytes().contains(&b'/')
}
/// Returns the path relative to a directory, for a path at or below it.
/// Returns the way from a directory to a path that is at or below it.
fn below<'p>(path: &'p Path, directory: &Path) -> Option<&'p Path> {
    let rest = path.as_os_str().as_bytes().strip_prefix(directory.as_os_str().as_bytes());
    match rest {
        Some([]) => Some(Path::new("")),
        Some([b'/', rest @ ..]) if is_normal(as_path(rest)) => Some(as_path(rest)),
        _ => path.strip_prefix(directory).ok(),
    }
}

/// Removes the leading slash.
fn below_slash(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Converts an I/O error.
fn io_error_kind(error: std::io::Error) -> FileErrorKind {
    match Errno::from_io_error(&error) {
        Some(errno) => error_kind(errno),
        None => FileErrorKind::Io(error),
    }
}
