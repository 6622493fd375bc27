//! Checkpoints of a WAL into its database file. A commit never does one by itself, because its caller would wait for the disk;
//! checkpoints run at moments when no caller waits.

use rusqlite::Connection;

use crate::transaction::Transaction;

/// A running process checkpoints a WAL with this many pages (32 MiB). A smaller one costs no time while the database is open.
const RUNNING_CHECKPOINT_PAGES: u64 = 8192;
/// A closing process checkpoints a WAL with this many pages: the next process has to read all of them at its first statement.
const CLOSING_CHECKPOINT_PAGES: u64 = 128;

/// Checkpoints the WAL if it has `RUNNING_CHECKPOINT_PAGES` pages to move, and starts a new one. This waits for the disk.
pub(crate) fn checkpoint_if_large(connection: &Connection) {
    let is_large =
        |wal: WalState| wal.pages.saturating_sub(wal.checkpointed) >= RUNNING_CHECKPOINT_PAGES;
    if checkpoint(connection, "NOOP").is_some_and(is_large) {
        checkpoint(connection, "PASSIVE");
        write_first_transaction(connection);
    }
}

/// Checkpoints and truncates the WAL if it has `CLOSING_CHECKPOINT_PAGES` pages, so that the next process opens the database quickly.
pub(crate) fn checkpoint_before_close(connection: &Connection) {
    if checkpoint(connection, "NOOP").is_some_and(|wal| wal.pages >= CLOSING_CHECKPOINT_PAGES) {
        checkpoint_and_truncate(connection);
    }
}

/// Moves the whole WAL into the database and truncates it. The passive step does most of the work while others may write; the second step
/// locks them out and has little left to do.
pub(crate) fn checkpoint_and_truncate(connection: &Connection) {
    checkpoint(connection, "PASSIVE");
    checkpoint(connection, "TRUNCATE");
    write_first_transaction(connection);
}

/// Writes a transaction without changes. The first transaction in a new WAL waits for the disk, and no caller waits for this one.
fn write_first_transaction(connection: &Connection) {
    let written = Transaction::begin(connection).and_then(|transaction| {
        let layout: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        connection.pragma_update(None, "user_version", layout)?;
        transaction.commit()
    });
    // If it fails, the next transaction waits for the disk instead.
    drop(written);
}

/// The pages of a WAL, and the number of them that are in the database already.
struct WalState {
    pages: u64,
    checkpointed: u64,
}

/// Runs a checkpoint of this mode and returns the state of the WAL afterwards. It does not wait for locks; if it fails, the pages stay in
/// the WAL.
fn checkpoint(connection: &Connection, mode: &str) -> Option<WalState> {
    connection
        .prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))
        .and_then(|mut statement| {
            statement
                .query_row([], |row| Ok(WalState { pages: row.get(1)?, checkpointed: row.get(2)? }))
        })
        .ok()
}
