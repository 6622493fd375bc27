//! The directories for temporary files of sessions: one for each, which its programs see as `/tmp` and its file tools mean by it.
//!
//! They are made when they are first needed. Each is named by a hash of the session's id, so that another process with the same
//! state finds it again.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use windlass_core::{ContentHash, SessionId};

use crate::kernel::FOR_LISTING;
use crate::random;

/// Temporary files of a session that nobody has used for so long are removed.
const KEPT_FOR: Duration = Duration::from_hours(3 * 24);

/// Another process may remove an empty directory before it is opened; then it is made again, this often at most.
const MAX_TRIES: usize = 16;

/// Directories that are removed in the end if they are empty. More are left to [`sweep`].
const MOST_MADE: usize = 1024;

/// The directories for temporary files of all sessions. Those that are empty go when this is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryDirectories {
    state: Option<PathBuf>,
    base: OnceLock<PathBuf>,
    made: Mutex<HashSet<PathBuf>>,
}

/// The directory for temporary files of one session. While this is held, no process of ours removes it.
#[derive(Debug)]
pub(crate) struct TemporaryDirectory {
    pub(crate) path: PathBuf,
    pub(crate) handle: OwnedFd,
}

impl TemporaryDirectories {
    /// The directories in a state. Without one, no other process continues our sessions, and all of them go with us.
    pub(crate) fn new(state: Option<PathBuf>) -> Self {
        Self { state, base: OnceLock::new(), made: Mutex::default() }
    }

    /// Opens the directory of a session, or of what this process runs without one. Makes it if it is not there.
    pub(crate) fn open(&self, session: Option<&SessionId>) -> io::Result<TemporaryDirectory> {
        let path = self.base()?.join(directory_name(session));
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() < MOST_MADE {
            made.insert(path.clone());
        }
        drop(made);
        for _ in 0..MAX_TRIES {
            private(&path)?;
            match take_hold(&path) {
                Ok(Some(handle)) => return Ok(TemporaryDirectory { path, handle }),
                Ok(None) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(io::Error::other(format!("{} is removed again and again", path.display())))
    }

    fn base(&self) -> io::Result<&Path> {
        if let Some(known) = self.base.get() {
            return Ok(known);
        }
        let path = match &self.state {
            Some(state) => state.join("tmp"),
            None => stateless().join("tmp").join(random::name()?),
        };
        Ok(self.base.get_or_init(|| path))
    }
}

impl Drop for TemporaryDirectories {
    fn drop(&mut self) {
        // What a program left unreadable stays until it is swept.
        if let (None, Some(base)) = (&self.state, self.base.get()) {
            drop(fs::remove_dir_all(base));
            return;
        }
        for path in self.made.get_mut().unwrap_or_else(PoisonError::into_inner).drain() {
            let _ = remove_if_unused(&path);
        }
    }
}

/// The directory for everything that would be in the state, if there is none.
pub(crate) fn stateless() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("windlass-{user}"))
}

/// Makes a directory that is nobody else's, with those above it.
pub(crate) fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes the directories of sessions that have not been used for days.
pub(crate) fn sweep(state: &Path) {
    let Ok(entries) = fs::read_dir(state.join("tmp")) else { return };
    let now = SystemTime::now();
    for entry in entries.flatten() {
        let used = entry.metadata().and_then(|found| found.modified());
        let age = used.ok().and_then(|used| now.duration_since(used).ok()).unwrap_or_default();
        if age > KEPT_FOR && lock_alone(&entry.path()).is_ok() {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// Returns the name of a session's directory. Ids are chosen by people and are no file names.
fn directory_name(session: Option<&SessionId>) -> String {
    let Some(id) = session else { return format!("process-{}", std::process::id()) };
    let mut name = ContentHash::of(id.as_str().as_bytes()).to_string();
    name.truncate(32);
    name
}

/// Opens a directory that is ours and keeps others from removing it; `None` if it was removed meanwhile.
fn take_hold(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    let open = || rustix::fs::open(path, FOR_LISTING, Mode::empty());
    let handle = match open() {
        // A program may have closed it.
        Err(Errno::ACCESS) => {
            rustix::fs::chmod(path, Mode::RWXU)?;
            open()?
        }
        other => other?,
    };
    // Not every file system has locks, and a program that locks its `/tmp` must not stop us.
    let _ = rustix::fs::flock(&handle, FlockOperation::NonBlockingLockShared);
    let found = rustix::fs::fstat(&handle)?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    if found.st_nlink == 0 {
        return Ok(None);
    }
    rustix::fs::fchmod(&handle, Mode::RWXU)?;
    Ok(Some(handle))
}

/// Removes a directory that is empty, unless a process holds it.
fn remove_if_unused(path: &Path) -> Result<(), Errno> {
    let _locked = lock_alone(path)?;
    rustix::fs::rmdir(path)
}

/// Locks a directory, unless a process holds it.
fn lock_alone(path: &Path) -> Result<OwnedFd, Errno> {
    let handle = rustix::fs::open(path, FOR_LISTING, Mode::empty())?;
    rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive)?;
    Ok(handle)
}
