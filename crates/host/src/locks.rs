//! One change of a file at a time.
//!
//! Within this process by name, and between processes by an advisory lock on the file itself, which dies with its holder. Both are
//! courtesy among those who know them: what makes a change safe is that it looks again before it replaces anything.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// How long another process may take for its change, and how often we look.
const TRIES: u32 = 400;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// The files that are being changed by this process.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Mutex<HashSet<PathBuf>>,
    released: Condvar,
}

/// The right to change one file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    locks: &'a Locks,
    path: &'a Path,
}

impl Locks {
    /// Waits until nobody else in this process changes the file.
    pub(crate) fn hold<'a>(&'a self, path: &'a Path) -> Held<'a> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = self
            .released
            .wait_while(held, |held| held.contains(path))
            .unwrap_or_else(PoisonError::into_inner);
        held.insert(path.to_owned());
        drop(held);
        Held { locks: self, path }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.locks.held.lock().unwrap_or_else(PoisonError::into_inner).remove(self.path);
        self.locks.released.notify_all();
    }
}

/// Locks an open file against other processes, until it is closed. A holder that does not let go is an error, not a hang.
pub(crate) fn lock_between_processes(file: impl AsFd) -> io::Result<()> {
    for _ in 0..TRIES {
        match rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => sleep(BETWEEN_TRIES),
            // Not every file system has locks; then there is none to respect.
            Ok(()) | Err(_) => return Ok(()),
        }
    }
    Err(io::Error::other("another program keeps the file locked; try again when it is done"))
}
