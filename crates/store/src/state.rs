//! Values that last from call to call, in a database of their own: the journal is a chain that only grows, and these change.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;
use windlass_core::{SessionId, StateEntry, StatePlace, StateStore, ToolError};

use crate::connection::Counted;
use crate::database::{Access, Database, Layout};
use crate::queue::lock;
use crate::transaction::Transaction;
use crate::{Store, StoreError};

/// A version is given out once, so that a value that was removed and made again is not taken for the old one.
const STATE: Layout = Layout {
    file: "state.db",
    version: 1,
    head: "state.lock",
    is_chain: false,
    tables: "
    CREATE TABLE entries (
        kind TEXT NOT NULL, owner BLOB NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (kind, owner, key)) STRICT, WITHOUT ROWID;
    CREATE TABLE versions (last INTEGER NOT NULL) STRICT;
    INSERT INTO versions VALUES (0);
",
};

/// The values of a state directory. The database is opened when it is first needed.
#[derive(Debug)]
pub(crate) struct StateFile {
    database: Database,
    access: Access,
    connection: Mutex<Option<Counted>>,
}

impl StateFile {
    /// The longest value, in bytes.
    const MAX_BYTES: usize = 4 << 20;

    pub(crate) fn in_state(
        dir: &Path,
        patience: Duration,
        access: Access,
    ) -> Result<Self, StoreError> {
        let database = Database::of_layout(&STATE, dir, patience)?;
        Ok(Self { database, access, connection: Mutex::new(None) })
    }

    fn get(&self, place: &StatePlace, key: &str) -> Result<Option<StateEntry>, StoreError> {
        if !self.database.exists()? {
            return Ok(None);
        }
        let (kind, owner) = spelled(place);
        let found: Option<(u64, String)> = self.with("read", |connection| {
            let select =
                "SELECT version, value FROM entries WHERE kind = ? AND owner = ? AND key = ?";
            let mut select = connection.prepare_cached(select)?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            select.query_row(params![kind, owner, key], row).optional()
        })?;
        let Some((version, text)) = found else { return Ok(None) };
        let value = serde_json::from_str(&text).map_err(|error| StoreError::Damaged {
            path: self.database.path.clone(),
            why: format!("the value of `{key}` is no JSON: {error}"),
        })?;
        Ok(Some(StateEntry { value, version }))
    }

    fn replace(
        &self,
        place: &StatePlace,
        key: &str,
        version: u64,
        text: Option<&str>,
    ) -> Result<bool, StoreError> {
        let (kind, owner) = spelled(place);
        self.with("write to", |connection| {
            let transaction = Transaction::begin(connection)?;
            let at = params![kind, owner, key];
            let select = "SELECT version FROM entries WHERE kind = ? AND owner = ? AND key = ?";
            let found: Option<u64> =
                connection.prepare_cached(select)?.query_row(at, |row| row.get(0)).optional()?;
            if found.unwrap_or(0) != version {
                return Ok(false);
            }
            let next = "UPDATE versions SET last = last + 1 RETURNING last";
            let next: u64 = connection.prepare_cached(next)?.query_row([], |row| row.get(0))?;
            if let Some(text) = text {
                let insert = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)";
                let row = params![kind, owner, key, next, text];
                connection.prepare_cached(insert)?.execute(row)?;
            } else {
                let delete = "DELETE FROM entries WHERE kind = ? AND owner = ? AND key = ?";
                connection.prepare_cached(delete)?.execute(at)?;
            }
            transaction.commit()?;
            Ok(true)
        })
    }

    /// Removes all values of a session.
    pub(crate) fn delete_session(&self, session: &SessionId) -> Result<(), StoreError> {
        if !self.database.exists()? {
            return Ok(());
        }
        let (kind, owner) = spelled(&StatePlace::Session(session.clone()));
        self.with("write to", |connection| {
            let delete = "DELETE FROM entries WHERE kind = ? AND owner = ?";
            connection.prepare_cached(delete)?.execute(params![kind, owner]).map(drop)
        })
    }

    fn open(&self) -> Result<Counted, StoreError> {
        if self.access != Access::ReadWrite {
            return Ok(self.database.connect_to_read()?.0);
        }
        let open = self.database.open_or_create()?;
        // Nobody drains this database, so each writer empties the WAL.
        open.execute_batch("PRAGMA wal_autocheckpoint = 200")
            .map_err(|error| self.database.error("open", &error))?;
        Ok(open)
    }

    fn with<T>(
        &self,
        doing: &'static str,
        mut work: impl FnMut(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut connection = lock(&self.connection);
        let open = match connection.take() {
            Some(open) => open,
            None => self.open()?,
        };
        let done = self.database.patiently(|| work(&open));
        *connection = Some(open);
        done.map_err(|error| self.database.error(doing, &error))
    }
}

fn spelled(place: &StatePlace) -> (&'static str, Vec<u8>) {
    match place {
        StatePlace::Session(id) => ("session", id.as_str().as_bytes().to_vec()),
        StatePlace::Workspace(path) => ("workspace", path.as_os_str().as_bytes().to_vec()),
        StatePlace::Person => ("person", Vec::new()),
    }
}

fn failed(error: &StoreError) -> ToolError {
    ToolError::host_failed(error.to_string())
}

impl StateStore for Store {
    fn get(&self, place: &StatePlace, key: &str) -> Result<Option<StateEntry>, ToolError> {
        self.state.get(place, key).map_err(|error| failed(&error))
    }

    fn replace(
        &self,
        place: &StatePlace,
        key: &str,
        version: u64,
        value: Option<&Value>,
    ) -> Result<bool, ToolError> {
        self.refuse_to_write().map_err(|error| failed(&error))?;
        let text = value.map(Value::to_string);
        let bytes = text.as_ref().map_or(0, String::len);
        if bytes > StateFile::MAX_BYTES {
            return Err(ToolError::failed(format!(
                "the state `{key}` has {bytes} bytes; at most {} are kept",
                StateFile::MAX_BYTES
            )));
        }
        let replaced = self.state.replace(place, key, version, text.as_deref());
        replaced.map_err(|error| failed(&error))
    }
}
