//! One change of an object at a time.
//!
//! Within this process by what the object is, so that two names of one file exclude each other; between processes by an advisory
//! lock on the file itself, which dies with its holder. Both are courtesy among those who know them: what makes a change safe is
//! that it looks again before it replaces anything.
//!
//! A lock on a file that is then replaced locks nobody out of its successor, and need not: whoever waited for the lock on the old
//! file finds, at the look that follows, that it no longer has its name; and whoever opens the new one has seen the new content.

use std::collections::HashSet;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// How long another process may take for its change: about two seconds, and a little longer between looks each time.
const TRIES: u32 = 410;
const FIRST_WAIT: Duration = Duration::from_micros(100);
const LONGEST_WAIT: Duration = Duration::from_millis(5);

/// What is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key<'a> {
    /// A thing, by device and inode.
    Object(u64, u64),
    /// A place at which nothing is yet.
    Place(&'a Path),
}

/// The objects and places that are being changed by this process.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Mutex<Taken>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    objects: HashSet<(u64, u64)>,
    places: HashSet<PathBuf>,
    /// How many wait for something to be released: if nobody does, the kernel need not be asked to wake them.
    waiting: usize,
}

/// The right to change one or two things, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    locks: &'a Locks,
    keys: [Option<Key<'a>>; 2],
}

impl Locks {
    /// Waits until nobody else in this process changes any of it. Both are taken at once, so that nobody who holds one of them
    /// waits for the other.
    pub(crate) fn hold<'a>(&'a self, first: Key<'a>, second: Option<Key<'a>>) -> Held<'a> {
        let keys = [Some(first), second.filter(|second| *second != first)];
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while keys.iter().flatten().any(|key| held.contains(*key)) {
            held.waiting += 1;
            held = self.released.wait(held).unwrap_or_else(PoisonError::into_inner);
            held.waiting -= 1;
        }
        keys.iter().flatten().for_each(|key| held.insert(*key));
        drop(held);
        Held { locks: self, keys }
    }
}

impl Taken {
    fn contains(&self, key: Key<'_>) -> bool {
        match key {
            Key::Object(device, inode) => self.objects.contains(&(device, inode)),
            Key::Place(path) => self.places.contains(path),
        }
    }

    fn insert(&mut self, key: Key<'_>) {
        match key {
            Key::Object(device, inode) => self.objects.insert((device, inode)),
            Key::Place(path) => self.places.insert(path.to_owned()),
        };
    }

    fn remove(&mut self, key: Key<'_>) {
        match key {
            Key::Object(device, inode) => self.objects.remove(&(device, inode)),
            Key::Place(path) => self.places.remove(path),
        };
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.locks.held.lock().unwrap_or_else(PoisonError::into_inner);
        self.keys.iter().flatten().for_each(|key| held.remove(*key));
        let somebody_waits = held.waiting > 0;
        drop(held);
        if somebody_waits {
            self.locks.released.notify_all();
        }
    }
}

/// Locks an open file against other processes, until it is closed. A holder that does not let go is an error, not a hang.
pub(crate) fn lock_between_processes(file: impl AsFd) -> io::Result<()> {
    let mut wait = FIRST_WAIT;
    for _ in 0..TRIES {
        match rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => sleep(wait),
            // Not every file system has locks; then there is none to respect.
            Ok(()) | Err(_) => return Ok(()),
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    Err(io::Error::other("another program keeps the file locked; try again when it is done"))
}
