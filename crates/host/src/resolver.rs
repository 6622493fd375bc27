//! Where a path really leads, and the handle on exactly that place: the heart of everything that touches a file.
//!
//! Two steps, so that a decision can stand between them. [`Resolver::resolve`] follows links like the kernel and says what the real
//! path is. [`Resolver::pin`] takes that real path and opens it from the workspace's handle (or from `/`, if it is outside) without
//! following any link. If somebody put a link in the way meanwhile, the second step fails; there is no moment in which a path that
//! was decided on can mean another object.

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
    FOR_READING, Lookup, MAX_PATH, NAME_ONLY, as_path, failure, meaning, open_at_once, real_path,
    refusal, reopen, stat, stat_child,
};
use crate::session_tmp::SessionTmp;
use crate::trail::{self, Detour, Start};

/// One workspace, by handle.
#[derive(Debug)]
pub(crate) struct Resolver {
    workspace: PathBuf,
    root: Arc<OwnedFd>,
    slash: Arc<OwnedFd>,
    lookup: Lookup,
    /// The session's own directory, which is looked up instead of the machine's `/tmp`.
    tmp: Option<SessionTmp>,
}

/// An object by handle, not yet opened.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) handle: OwnedFd,
    pub(crate) stat: Stat,
}

impl Resolver {
    /// Takes hold of a workspace. The path may be relative and may lead through links.
    pub(crate) fn open(workspace: &Path, lookup: Lookup) -> Result<Self, FileError> {
        let failed = |kind| FileError::new("open the workspace", workspace, kind);
        // Only this path may be relative to the process's own directory, and only here.
        let absolute = std::path::absolute(workspace).map_err(|why| failed(io_meaning(why)))?;
        check(&absolute).map_err(failed)?;
        let directory = NAME_ONLY | OFlags::DIRECTORY;
        let slash = rustix::fs::open("/", directory, Mode::empty())
            .map_err(|errno| failed(meaning(errno)))?;
        let start = Start { handle: &slash, path: Path::new("/") };
        let end = trail::follow(&absolute, start, &slash, None).map_err(failed)?;
        let root = lookup
            .open(slash.as_fd(), below_slash(&end.path), directory)
            .map_err(|errno| failed(meaning(errno)))?;
        let (root, slash) = (Arc::new(root), Arc::new(slash));
        Ok(Self { workspace: end.path, root, slash, lookup, tmp: None })
    }

    /// The same workspace with the `/tmp` of a session.
    pub(crate) fn with_tmp(&self, tmp: SessionTmp) -> Self {
        Self {
            workspace: self.workspace.clone(),
            root: self.root.clone(),
            slash: self.slash.clone(),
            lookup: self.lookup,
            tmp: Some(tmp),
        }
    }

    /// The session's own directory for temporary files.
    pub(crate) fn tmp(&self) -> Option<&SessionTmp> {
        self.tmp.as_ref()
    }

    /// The workspace's real path.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// How paths are looked up beneath a handle.
    pub(crate) fn lookup(&self) -> Lookup {
        self.lookup
    }

    /// Where a path really leads, from the workspace if it is relative.
    pub(crate) fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        self.find(path).map_err(|kind| FileError::new("find", shown(path), kind))
    }

    fn find(&self, path: &Path) -> Result<Resolved, FileErrorKind> {
        check(path)?;
        if let Some(inside) = self.find_plain(path) {
            // Joined with nothing, a path would end in a slash.
            let is_root = inside.as_os_str().is_empty();
            let path = if is_root { self.workspace.clone() } else { self.workspace.join(&inside) };
            return Ok(Resolved { path, inside: Some(inside), exists: true });
        }
        if let Some(real) = self.find_at_once(path)? {
            return Ok(self.resolved(real, true));
        }
        let start = Start { handle: &self.root, path: &self.workspace };
        let tmp = self.tmp.as_ref();
        let detour = tmp.map(|tmp| Detour { tmp, workspace: &self.workspace, lookup: self.lookup });
        let end = trail::follow(path, start, &self.slash, detour)?;
        let real = match self.tmp {
            Some(_) => usual_tmp_path(end.path, &self.workspace),
            None => end.path,
        };
        Ok(self.resolved(real, end.exists))
    }

    /// The usual case, at most two calls of the kernel: it exists in the workspace and no link is on the way, so it is where it says.
    /// `None` if it takes a closer look.
    fn find_plain(&self, path: &Path) -> Option<PathBuf> {
        if self.lookup == Lookup::ByComponent {
            return None;
        }
        if is_name(path) {
            // There is no directory on the way that could be a link, so one call tells.
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
        // What ends in a slash must be a directory: the kernel looks at the path as it was written.
        let asked = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        self.lookup.open(self.root.as_fd(), asked, NAME_ONLY).ok()?;
        Some(path.components().filter(|part| *part != Component::CurDir).collect())
    }

    /// Also usual, three calls of the kernel: it exists, by way of links or of an absolute path. `None` if it takes a closer look.
    /// The kernel knows no `/tmp` but the machine's, so in a session nothing that could lead there is left to it: no link, no `..`.
    fn find_at_once(&self, path: &Path) -> Result<Option<PathBuf>, FileErrorKind> {
        if self.lookup == Lookup::ByComponent || self.may_lead_to_tmp(path) {
            return Ok(None);
        }
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let mut flags = ResolveFlags::NO_MAGICLINKS;
        flags.set(ResolveFlags::NO_SYMLINKS, self.tmp.is_some());
        match open_at_once(&*self.root, path, NAME_ONLY, flags) {
            Ok(handle) => Ok(real_path(&handle)),
            // Missing at its end, a dangling link, a circle or a magic link: the kernel does not say which.
            Err(Errno::NOENT | Errno::LOOP) => Ok(None),
            Err(errno) => Err(meaning(errno)),
        }
    }

    fn may_lead_to_tmp(&self, path: &Path) -> bool {
        let leads = || {
            path.components().any(|part| part == Component::ParentDir)
                || is_session_tmp(&self.workspace.join(path), &self.workspace)
        };
        self.tmp.is_some() && leads()
    }

    /// Puts a real path, as the kernel has it, in relation to the workspace.
    pub(crate) fn resolved(&self, path: PathBuf, exists: bool) -> Resolved {
        let inside = path.strip_prefix(&self.workspace).ok().map(Path::to_owned);
        Resolved { path, inside, exists }
    }

    /// A handle on exactly this place, by which nothing is opened yet.
    pub(crate) fn pin(&self, path: &Resolved) -> Result<Pinned, Errno> {
        let handle = self.open_place(path, NAME_ONLY)?;
        let stat = stat(&handle)?;
        Ok(Pinned { handle, stat })
    }

    /// Opens exactly this place, following no link.
    pub(crate) fn open_place(&self, path: &Resolved, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (from, path) = self.place(path)?;
        self.lookup.open(from, path, flags)
    }

    /// Opens the directory that something is in, following no link.
    pub(crate) fn open_parent(&self, path: &Resolved, flags: OFlags) -> Result<OwnedFd, Errno> {
        let parent = path.path.parent().ok_or(Errno::ACCESS)?;
        let (from, parent) = self.place_around(path, parent)?;
        self.lookup.open(from, parent, flags)
    }

    /// The handle from which a place is reached, and the way from there.
    pub(crate) fn place<'a>(
        &'a self,
        path: &'a Resolved,
    ) -> Result<(BorrowedFd<'a>, &'a Path), Errno> {
        match &path.inside {
            Some(inside) => Ok((self.root.as_fd(), inside)),
            None => self.place_around(path, &path.path),
        }
    }

    /// The same for a directory that `path` is in, or for `path` itself. The workspace may lie beside `path` in the session's
    /// `/tmp`: a directory that both are in is then the machine's by its own path, and the session's as one that `path` is in.
    pub(crate) fn place_around<'a>(
        &'a self,
        path: &Resolved,
        directory: &'a Path,
    ) -> Result<(BorrowedFd<'a>, &'a Path), Errno> {
        if let Some(tmp) = self.tmp_of(path) {
            return tmp.place(directory);
        }
        Ok(match below(directory, &self.workspace) {
            Some(inside) => (self.root.as_fd(), inside),
            None => (self.slash.as_fd(), below_slash(directory)),
        })
    }

    /// The session's own directory, if `path` is in there.
    pub(crate) fn tmp_of(&self, path: &Resolved) -> Option<&SessionTmp> {
        self.tmp.as_ref().filter(|_| is_session_tmp(&path.path, &self.workspace))
    }

    /// Facts about an object.
    pub(crate) fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        Ok(self.pin(path).map_err(|errno| failure("look at", path, errno))?.stat)
    }

    /// Opens a regular file for reading. What it is, is asked before it is opened.
    pub(crate) fn read(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        match self.read_plain(path) {
            Some(opened) => Ok(opened),
            None => self.read_pinned(path),
        }
    }

    /// The usual case: there is a regular file, and what is then opened is that very file. `None` if it takes a closer look.
    fn read_plain(&self, path: &Resolved) -> Option<OpenFile> {
        let (from, place) = self.place(path).ok()?;
        let seen = stat_child(from, place).ok()?;
        if seen.kind != FileKind::File {
            return None;
        }
        let handle = self.open_place(path, FOR_READING).ok()?;
        let opened = stat(&handle).ok()?;
        let same = opened.kind == FileKind::File && same_object(&opened, &seen);
        same.then(|| OpenFile { file: handle.into(), stat: opened })
    }

    /// The careful way: a handle that names the object without opening it, and then opens that very object.
    fn read_pinned(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        let pinned = self.pin(path).map_err(|errno| failure("read", path, errno))?;
        if pinned.stat.kind != FileKind::File {
            return Err(refusal("read", path, FileErrorKind::NotRegular(pinned.stat.kind)));
        }
        let file = self.open_pinned(path, &pinned, FOR_READING)?;
        Ok(OpenFile { file: file.into(), stat: pinned.stat })
    }

    /// Opens the very object that was pinned.
    pub(crate) fn open_pinned(
        &self,
        path: &Resolved,
        pinned: &Pinned,
        flags: OFlags,
    ) -> Result<OwnedFd, FileError> {
        let opened = match self.lookup {
            Lookup::AtOnce => reopen(&pinned.handle, flags),
            Lookup::ByComponent => self.open_again(path, pinned, flags),
        };
        opened.map_err(|errno| failure("read", path, errno))
    }

    /// Without `/proc` the place is looked up a second time, and must hold the same object.
    fn open_again(
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

/// Whether two looks saw one object, whatever was written to it meanwhile.
pub(crate) fn same_object(a: &Stat, b: &Stat) -> bool {
    (a.fingerprint.device, a.fingerprint.inode) == (b.fingerprint.device, b.fingerprint.inode)
}

/// Refuses what cannot be a path before anything is done with it.
fn check(path: &Path) -> Result<(), FileErrorKind> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        return Err(FileErrorKind::BadName("there is a NUL byte in the path"));
    }
    if bytes.len() >= MAX_PATH {
        return Err(FileErrorKind::BadName("the path is longer than 4,095 bytes"));
    }
    Ok(())
}

/// As much of a path as is worth repeating in an error.
fn shown(path: &Path) -> PathBuf {
    const ENOUGH: usize = 512;
    let bytes = path.as_os_str().as_bytes();
    match bytes.get(..ENOUGH) {
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

/// Returns the way from a directory to a path that is at or below it.
fn below<'p>(path: &'p Path, directory: &Path) -> Option<&'p Path> {
    let rest = path.as_os_str().as_bytes().strip_prefix(directory.as_os_str().as_bytes());
    match rest {
        Some([]) => Some(Path::new("")),
        Some([b'/', rest @ ..]) if is_normal(as_path(rest)) => Some(as_path(rest)),
        _ => path.strip_prefix(directory).ok(),
    }
}

fn below_slash(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn io_meaning(error: std::io::Error) -> FileErrorKind {
    match Errno::from_io_error(&error) {
        Some(errno) => meaning(errno),
        None => FileErrorKind::Io(error),
    }
}
