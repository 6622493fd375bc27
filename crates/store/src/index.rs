//! Full-text search in SQLite's FTS5, in a database of its own: it can be deleted and rebuilt.

mod passages;
mod query;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};
use windlass_core::{Document, IndexedDocuments, Passage, TextIndex, ToolError};

use self::passages::passages;
use crate::connection::CountedConnection;
use crate::database::{Database, Layout};
use crate::queue::lock;
use crate::transaction::Transaction;
use crate::{Store, StoreError};

/// The index database. A row of `passages` is a part of a document; a document has the rows `first` to `last`.
const INDEX: Layout = Layout {
    file: "index.db",
    version: 1,
    lock_file: "index.lock",
    lock_file_is_anchor: false,
    tables: "
    CREATE TABLE documents (
        store TEXT NOT NULL, id TEXT NOT NULL, fingerprint TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (store, id)) STRICT, WITHOUT ROWID;
    CREATE VIRTUAL TABLE passages USING fts5(
        store UNINDEXED, document UNINDEXED, line UNINDEXED, title, text,
        tokenize = \"porter unicode61 remove_diacritics 2 tokenchars '_'\");
",
};

/// SQL: the best passages for an FTS5 expression; a match in the title weighs four times as much.
const SEARCH: &str =
    "SELECT document, title, line, text, -bm25(passages, 0, 0, 0, 4, 1) FROM passages
    WHERE passages MATCH ? AND store = ? ORDER BY bm25(passages, 0, 0, 0, 4, 1), rowid LIMIT ?";

/// The full-text index of a state directory. The database is opened by the first access.
#[derive(Debug)]
pub(crate) struct IndexFile {
    database: Database,
    open: Mutex<IndexConnection>,
}

/// The connection, and a notice to give.
#[derive(Debug, Default)]
struct IndexConnection {
    connection: Option<CountedConnection>,
    /// The index was damaged and deleted, and the caller has not been told yet.
    was_damaged: bool,
}

impl IndexFile {
    /// The longest document, in bytes.
    const MAX_BYTES: usize = 8 << 20;

    /// The most passages that a search returns.
    const MAX_PASSAGES: usize = 200;

    pub(crate) fn in_state(dir: &Path, patience: Duration) -> Result<Self, StoreError> {
        let database = Database::of_layout(&INDEX, dir, patience)?;
        Ok(Self { database, open: Mutex::default() })
    }

    /// Runs `work` on the database. A damaged database is deleted, and `work` runs again on a new one.
    fn with_connection<T>(
        &self,
        doing: &'static str,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut open = lock(&self.open);
        match self.attempt(&mut open, doing, &mut work) {
            Err(StoreError::Damaged { .. }) => {
                self.delete_files(&mut open)?;
                self.attempt(&mut open, doing, &mut work)
            }
            done => done,
        }
    }

    /// Runs `work` once, on a connection that is opened if there is none.
    fn attempt<T>(
        &self,
        open: &mut IndexConnection,
        doing: &'static str,
        work: &mut impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let connection = match open.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let done = self.database.patiently(|| work(&connection));
        open.connection = Some(connection);
        done.map_err(|error| self.database.error(doing, &error))
    }

    /// Opens or creates the database.
    fn connect(&self) -> Result<CountedConnection, StoreError> {
        let connection = self.database.open_or_create()?;
        // No drain checkpoints this database, so each writer does.
        connection
            .execute_batch("PRAGMA wal_autocheckpoint = 1000")
            .map_err(|error| self.database.error("open", &error))?;
        Ok(connection)
    }

    /// Deletes the database files.
    fn delete_files(&self, open: &mut IndexConnection) -> Result<(), StoreError> {
        *open = IndexConnection { connection: None, was_damaged: true };
        for suffix in ["", "-wal", "-shm"] {
            let mut path = self.database.path.clone().into_os_string();
            path.push(suffix);
            match fs::remove_file(&path) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::file("remove", Path::new(&path), why));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The fingerprints of all indexed documents, and a notice if the index was damaged.
    fn indexed(&self, store: &str) -> Result<IndexedDocuments, StoreError> {
        let fingerprints = self.with_connection("read", |connection| {
            let select = "SELECT id, fingerprint FROM documents WHERE store = ?";
            let mut select = connection.prepare_cached(select)?;
            select.query_map([store], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })?;
        let was_damaged = std::mem::take(&mut lock(&self.open).was_damaged);
        let notice =
            was_damaged.then(|| "the full-text index was damaged and is rebuilt".to_owned());
        Ok(IndexedDocuments { fingerprints, notice })
    }

    /// Adds or replaces documents.
    fn put(&self, store: &str, documents: &[Document]) -> Result<(), StoreError> {
        self.with_connection("write to", |connection| {
            let transaction = Transaction::begin(connection)?;
            for document in documents {
                remove(connection, store, &document.id)?;
                insert(connection, store, document)?;
            }
            transaction.commit()
        })
    }

    /// Removes documents.
    fn remove(&self, store: &str, ids: &[String]) -> Result<(), StoreError> {
        self.with_connection("write to", |connection| {
            let transaction = Transaction::begin(connection)?;
            for id in ids {
                remove(connection, store, id)?;
            }
            transaction.commit()
        })
    }

    /// The best passages that have all terms, or if there are none, those that have some.
    fn search(&self, store: &str, query: &str, limit: usize) -> Result<Vec<Passage>, StoreError> {
        let limit = limit.min(Self::MAX_PASSAGES);
        let terms = query::terms(query);
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        for operator in [" AND ", " OR "] {
            let expression = terms.join(operator);
            let found: Vec<Passage> = self.with_connection("search", |connection| {
                let mut select = connection.prepare_cached(SEARCH)?;
                select.query_map(params![expression, store, limit], passage)?.collect()
            })?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }
}

/// Reads a row of [`SEARCH`].
fn passage(row: &rusqlite::Row<'_>) -> rusqlite::Result<Passage> {
    Ok(Passage {
        document: row.get(0)?,
        title: row.get(1)?,
        line: row.get(2)?,
        text: row.get(3)?,
        score: row.get(4)?,
    })
}

/// Inserts the passages of a document and its row.
fn insert(connection: &Connection, store: &str, document: &Document) -> rusqlite::Result<()> {
    let Document { id, fingerprint, title, text } = document;
    let mut insert = connection.prepare_cached(
        "INSERT INTO passages (store, document, line, title, text) VALUES (?, ?, ?, ?, ?)",
    )?;
    let (mut first, mut last) = (None, 0);
    for (line, text) in passages(text) {
        last = insert.insert(params![store, id, line, title, text])?;
        first = first.or(Some(last));
    }
    connection
        .prepare_cached("INSERT INTO documents VALUES (?, ?, ?, ?, ?)")?
        .execute(params![store, id, fingerprint, first.unwrap_or(1), last])
        .map(drop)
}

/// Removes a document and its passages, if it is there.
fn remove(connection: &Connection, store: &str, id: &str) -> rusqlite::Result<()> {
    let delete = "DELETE FROM documents WHERE store = ? AND id = ? RETURNING first, last";
    let rows: Option<(i64, i64)> = connection
        .prepare_cached(delete)?
        .query_row([store, id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((first, last)) = rows else { return Ok(()) };
    connection
        .prepare_cached("DELETE FROM passages WHERE rowid BETWEEN ? AND ?")?
        .execute([first, last])
        .map(drop)
}

/// Converts the error for the tool.
fn failed(error: &StoreError) -> ToolError {
    ToolError::host_failed(error.to_string())
}

impl TextIndex for Store {
    fn indexed(&self, store: &str) -> Result<IndexedDocuments, ToolError> {
        self.index.indexed(store).map_err(|error| failed(&error))
    }

    fn put(&self, store: &str, documents: &[Document]) -> Result<(), ToolError> {
        self.refuse_to_write().map_err(|error| failed(&error))?;
        let is_long = |document: &&Document| document.text.len() > IndexFile::MAX_BYTES;
        if let Some(long) = documents.iter().find(is_long) {
            return Err(ToolError::failed(format!(
                "the document `{}` is not indexed: it has {} bytes, and at most {} are taken",
                long.id,
                long.text.len(),
                IndexFile::MAX_BYTES
            )));
        }
        self.index.put(store, documents).map_err(|error| failed(&error))
    }

    fn remove(&self, store: &str, ids: &[String]) -> Result<(), ToolError> {
        self.refuse_to_write().map_err(|error| failed(&error))?;
        self.index.remove(store, ids).map_err(|error| failed(&error))
    }

    fn search(&self, store: &str, query: &str, limit: usize) -> Result<Vec<Passage>, ToolError> {
        self.index.search(store, query, limit).map_err(|error| failed(&error))
    }
}
