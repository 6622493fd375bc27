//! Lets one change of an object happen at a time.
//!
//! Within this process, the key is device and inode, so that two names of one file exclude each other. Between processes, it is an advisory
//! lock on the file, which ends with its holder. Both work only among programs that take them: a change is safe because it checks the
//! object again before it replaces anything.
//!
//! A lock on a file that is then replaced does not cover the new file, and need not: a process that waited for the lock on the old file
//! finds at its next check that the file has lost its name, and a process that opens the new file has seen the new content.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Maximum attempts to lock a file that another process holds, about two seconds in all.
const MAX_LOCK_TRIES: u32 = 410;
/// Wait after the first attempt; it doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_micros(100);
/// Maximum wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// Object or path that is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockKey<'a> {
    /// An existing object, by device and inode.
    Object(u64, u64),
    /// A path at which nothing exists yet.
    Path(&'a Path),
}

/// Locks of objects and paths within this process.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Mutex<HeldKeys>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct HeldKeys {
    objects: HashSet<(u64, u64)>,
    paths: HashSet<PathBuf>,
    /// Number of threads that wait for a release. If it is 0, the kernel need not be asked to wake any.
    waiting: usize,
}

/// Lock of one or two keys, until it is dropped.
#[derive(Debug)]
pub(crate) struct LockGuard<'a> {
    locks: &'a Locks,
    keys: [Option<LockKey<'a>>; 2],
}

impl Locks {
    /// Waits until no other thread of this process holds any of the keys, and takes both at once, so that no thread holds one while it
    /// waits for the other.
    pub(crate) fn lock<'a>(
        &'a self,
        first: LockKey<'a>,
        second: Option<LockKey<'a>>,
    ) -> LockGuard<'a> {
        let keys = [Some(first), second.filter(|second| *second != first)];
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while keys.iter().flatten().any(|key| held.contains(*key)) {
            held.waiting += 1;
            held = self.released.wait(held).unwrap_or_else(PoisonError::into_inner);
            held.waiting -= 1;
        }
        keys.iter().flatten().for_each(|key| held.insert(*key));
        drop(held);
        LockGuard { locks: self, keys }
    }
}

impl HeldKeys {
    /// Returns whether a key is locked.
    fn contains(&self, key: LockKey<'_>) -> bool {
        match key {
            LockKey::Object(device, inode) => self.objects.contains(&(device, inode)),
            LockKey::Path(path) => self.paths.contains(path),
        }
    }

    /// Locks a key.
    fn insert(&mut self, key: LockKey<'_>) {
        match key {
            LockKey::Object(device, inode) => self.objects.insert((device, inode)),
            LockKey::Path(path) => self.paths.insert(path.to_owned()),
        };
    }

    /// Unlocks a key.
    fn remove(&mut self, key: LockKey<'_>) {
        match key {
            LockKey::Object(device, inode) => self.objects.remove(&(device, inode)),
            LockKey::Path(path) => self.paths.remove(path),
        };
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        let mut held = self.locks.held.lock().unwrap_or_else(PoisonError::into_inner);
        self.keys.iter().flatten().for_each(|key| held.remove(*key));
        let has_waiters = held.waiting > 0;
        drop(held);
        if has_waiters {
            self.locks.released.notify_all();
        }
    }
}

/// Locks an open file against other processes until it is closed. Fails after about two seconds if another process keeps the lock.
pub(crate) fn lock_between_processes(file: impl AsFd) -> io::Result<()> {
    let mut wait = FIRST_WAIT;
    for _ in 0..MAX_LOCK_TRIES {
        match rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => sleep(wait),
            // A file system without locks has none to respect.
            Ok(()) | Err(_) => return Ok(()),
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    Err(io::Error::other("another program keeps the file locked; try again when it is done"))
}
