//! When the WAL of a database is brought into it. A commit never does that by itself: it would make whoever commits wait for the
//! disk, so it is left for moments when nobody waits.

use rusqlite::Connection;

use crate::transaction::Transaction;

/// Pages that a running writer lets the WAL gather (32 MiB). It costs nobody time while the database is open.
const WHILE_RUNNING: u64 = 8192;
/// Pages that are left for the next process to read through at its first statement, when no other has the database open.
const AT_REST: u64 = 128;

/// If the WAL has gathered much, brings it into the database and begins it anew. This waits for the disk.
pub(crate) fn checkpoint_if_large(connection: &Connection) {
    let is_large = |wal: Wal| wal.pages.saturating_sub(wal.done) >= WHILE_RUNNING;
    if checkpoint(connection, "NOOP").is_some_and(is_large) {
        checkpoint(connection, "PASSIVE");
        begin(connection);
    }
}

/// Leaves a WAL that the next process can open quickly.
pub(crate) fn checkpoint_at_rest(connection: &Connection) {
    if checkpoint(connection, "NOOP").is_some_and(|wal| wal.pages >= AT_REST) {
        checkpoint_and_truncate(connection);
    }
}

/// The first step does most of the work while others may write; the second, which keeps them out, has little left to do.
pub(crate) fn checkpoint_and_truncate(connection: &Connection) {
    checkpoint(connection, "PASSIVE");
    checkpoint(connection, "TRUNCATE");
    begin(connection);
}

/// The first transaction in a new WAL waits for the disk, so it had better be one that nobody waits for: this one writes
/// what is there already.
fn begin(connection: &Connection) {
    let written = Transaction::begin(connection).and_then(|transaction| {
        let layout: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        connection.pragma_update(None, "user_version", layout)?;
        transaction.commit()
    });
    // Then somebody else does it, who may have to wait.
    drop(written);
}

/// How many pages the WAL has, and how many of them are in the database already.
struct Wal {
    pages: u64,
    done: u64,
}

/// Runs a checkpoint and says how the WAL is then. It waits for nobody; if it fails, all stays in the WAL for another time.
fn checkpoint(connection: &Connection, mode: &str) -> Option<Wal> {
    connection
        .prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))
        .and_then(|mut statement| {
            statement.query_row([], |row| Ok(Wal { pages: row.get(1)?, done: row.get(2)? }))
        })
        .ok()
}
