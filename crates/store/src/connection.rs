//! Connections to databases, counted: this process may open a database file without SQLite only while it has no connection.
//!
//! POSIX locks belong to the process. Closing any handle on a file drops all locks that the process has on it, also those of SQLite,
//! and then another process may remove the WAL.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::OpenFlags;

/// The number of connections that this process has open.
static OPEN_CONNECTIONS: Mutex<usize> = Mutex::new(0);

/// A connection that counts in `OPEN_CONNECTIONS` until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection {
    inner: rusqlite::Connection,
    /// Dropped after the connection.
    _count: CountGuard,
}

impl CountedConnection {
    /// Opens a connection and counts it.
    pub(crate) fn open(path: impl AsRef<Path>, flags: OpenFlags) -> rusqlite::Result<Self> {
        let open_connections = CountGuard::new();
        let inner = rusqlite::Connection::open_with_flags(path, flags)?;
        Ok(Self { inner, _count: open_connections })
    }

    /// Closes the connection and returns the error if that fails.
    pub(crate) fn close(self) -> rusqlite::Result<()> {
        let Self { inner, _count } = self;
        inner.close().map_err(|(_, error)| error)
    }
}

impl Deref for CountedConnection {
    type Target = rusqlite::Connection;
    fn deref(&self) -> &rusqlite::Connection {
        &self.inner
    }
}

/// Adds one to `OPEN_CONNECTIONS` until it is dropped.
#[derive(Debug)]
struct CountGuard;

impl CountGuard {
    fn new() -> Self {
        *open_connections() += 1;
        Self
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        *open_connections() -= 1;
    }
}

/// Locks the number of open connections.
fn open_connections() -> MutexGuard<'static, usize> {
    OPEN_CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a file begins with SQLite's magic; `None` while this process has a connection open, because then the file must not be
/// read.
pub(crate) fn begins_as_database(path: &Path) -> io::Result<Option<bool>> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let open_connections = open_connections();
    if *open_connections > 0 {
        return Ok(None);
    }
    let mut start = [0; MAGIC.len()];
    let read = File::open(path)?.read_exact(&mut start);
    drop(open_connections);
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(false)),
        read => read.map(|()| Some(start == *MAGIC)),
    }
}
