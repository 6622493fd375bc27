//! A transaction that holds the write lock.

use rusqlite::Connection;

/// A transaction with the write lock; rolled back on drop unless it is committed. Unlike rusqlite's, its statements stay prepared.
#[derive(Debug)]
pub(crate) struct Transaction<'connection>(&'connection Connection);

impl<'connection> Transaction<'connection> {
    /// Begins a transaction with the write lock; fails if another connection holds it.
    pub(crate) fn begin(connection: &'connection Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Self(connection))
    }

    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        self.0.prepare_cached("COMMIT")?.execute([]).map(drop)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // After a commit, and after errors for which SQLite rolled back itself, there is no transaction. If this rollback fails, the
        // next transaction cannot begin and returns an error.
        if !self.0.is_autocommit() {
            drop(self.0.execute_batch("ROLLBACK"));
        }
    }
}
