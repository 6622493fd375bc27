//! A transaction that writes.

use rusqlite::Connection;

/// A transaction that has the write lock; undone unless it is committed. Its statements are kept prepared, as rusqlite's are not.
#[derive(Debug)]
pub(crate) struct Transaction<'connection>(&'connection Connection);

impl<'connection> Transaction<'connection> {
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
        // After a commit, and after errors that SQLite undid itself, there is none. If undoing fails, the next one cannot begin
        // and says so.
        if !self.0.is_autocommit() {
            drop(self.0.execute_batch("ROLLBACK"));
        }
    }
}
