//! State values of sessions, workspaces and persons, such as todo lists and memory, in a database of their own: unlike records they
//! change.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;
use windlass_core::{SessionId, StateEntry, StateOwner, StateStore, ToolError};

use crate::connection::CountedConnection;
use crate::database::{Access, Database, Layout};
use crate::queue::lock;
use crate::transaction::Transaction;
use crate::{Store, StoreError};

/// The state database. A version number is used once, so that a removed and re-created value has another version than the old one.
const STATE: Layout = Layout {
    file: "state.db",
    version: 1,
    lock_file: "state.lock",
    lock_file_is_anchor: false,
    tables: "
    CREATE TABLE entries (
        kind TEXT NOT NULL, owner BLOB NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (kind, owner, key)) STRICT, WITHOUT ROWID;
    CREATE TABLE versions (last INTEGER NOT NULL) STRICT;
    INSERT INTO versions VALUES (0);
",
};

/// The state values of a state directory. The database is opened by the first access.
#[derive(Debug)]
pub(crate) struct StateFile {
    database: Database,
    access: Access,
    connection: Mutex<Option<CountedConnection>>,
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

    /// Reads a value with its version.
    fn get(&self, place: &StateOwner, key: &str) -> Result<Option<StateEntry>, StoreError> {
        if !self.database.exists()? {
            return Ok(None);
        }
        let (kind, owner) = kind_and_owner(place);
        let found: Option<(u64, String)> = self.with_connection("read", |connection| {
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

    /// Sets or removes a value if it has this version (0: it is missing). Returns false if it has another.
    fn replace(
        &self,
        place: &StateOwner,
        key: &str,
        version: u64,
        text: Option<&str>,
    ) -> Result<bool, StoreError> {
        let (kind, owner) = kind_and_owner(place);
        self.with_connection("write to", |connection| {
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
        let (kind, owner) = kind_and_owner(&StateOwner::Session(session.clone()));
        self.with_connection("write to", |connection| {
            let delete = "DELETE FROM entries WHERE kind = ? AND owner = ?";
            connection.prepare_cached(delete)?.execute(params![kind, owner]).map(drop)
        })
    }

    /// Opens the database, read-only if the store is.
    fn open(&self) -> Result<CountedConnection, StoreError> {
        if self.access != Access::ReadWrite {
            return Ok(self.database.connect_to_read()?.0);
        }
        let open = self.database.open_or_create()?;
        // No drain checkpoints this database, so each writer does.
        open.execute_batch("PRAGMA wal_autocheckpoint = 200")
            .map_err(|error| self.database.error("open", &error))?;
        Ok(open)
    }

    /// Runs `work` on the connection, which is opened if there is none.
    fn with_connection<T>(
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

/// The columns `kind` and `owner` of a place.
fn kind_and_owner(place: &StateOwner) -> (&'static str, Vec<u8>) {
    match place {
        StateOwner::Session(id) => ("session", id.as_str().as_bytes().to_vec()),
        StateOwner::Workspace(path) => ("workspace", path.as_os_str().as_bytes().to_vec()),
        StateOwner::Person => ("person", Vec::new()),
    }
}

/// Converts the error for the tool.
fn failed(error: &StoreError) -> ToolError {
    ToolError::host_failed(error.to_string())
}

impl StateStore for Store {
    fn get(&self, place: &StateOwner, key: &str) -> Result<Option<StateEntry>, ToolError> {
        self.state.get(place, key).map_err(|error| failed(&error))
    }

    fn replace(
        &self,
        place: &StateOwner,
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
