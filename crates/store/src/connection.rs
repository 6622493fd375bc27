//! Connections to the database, counted: the file may be looked into by others than SQLite only while this process has none.
//!
//! POSIX locks belong to the process. Closing any handle on a file drops all locks that the process has on it, also those of SQLite,
//! and then another process may take the WAL away.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::OpenFlags;

/// How many this process has.
static COUNT: Mutex<usize> = Mutex::new(0);

/// A connection that is counted as long as it is there.
#[derive(Debug)]
pub(crate) struct Counted {
    inner: rusqlite::Connection,
    /// Dropped after the connection.
    _count: One,
}

impl Counted {
    pub(crate) fn open(path: impl AsRef<Path>, flags: OpenFlags) -> rusqlite::Result<Self> {
        let count = One::new();
        let inner = rusqlite::Connection::open_with_flags(path, flags)?;
        Ok(Self { inner, _count: count })
    }

    /// Closes it, and says if that fails.
    pub(crate) fn close(self) -> rusqlite::Result<()> {
        let Self { inner, _count } = self;
        inner.close().map_err(|(_, error)| error)
    }
}

impl Deref for Counted {
    type Target = rusqlite::Connection;
    fn deref(&self) -> &rusqlite::Connection {
        &self.inner
    }
}

#[derive(Debug)]
struct One;

impl One {
    fn new() -> Self {
        *count() += 1;
        Self
    }
}

impl Drop for One {
    fn drop(&mut self) {
        *count() -= 1;
    }
}

fn count() -> MutexGuard<'static, usize> {
    COUNT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this file begins as a database does, if that can be told now.
pub(crate) fn begins_as_database(path: &Path) -> io::Result<Option<bool>> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let count = count();
    if *count > 0 {
        return Ok(None);
    }
    let mut start = [0; MAGIC.len()];
    let read = File::open(path)?.read_exact(&mut start);
    drop(count);
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(false)),
        read => read.map(|()| Some(start == *MAGIC)),
    }
}
