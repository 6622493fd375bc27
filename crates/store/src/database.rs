//! A database file: created whole or not at all, and opened with little work, because every command opens it.
//!
//! It is in WAL mode and a closing connection makes no checkpoint, so that a short command never waits for the disk; a drain makes
//! one when the WAL is large.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::anchor::Anchor;
use crate::connection::{CountedConnection, begins_as_database};
use crate::error::is_busy;
use crate::{StoreError, filesystem};

/// The `application_id` of our databases: "Wndl".
const APPLICATION_ID: i32 = 0x576e_646c;

/// The file name, version and tables of one kind of database.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The name of its file.
    pub(crate) file: &'static str,
    /// The version of the tables, stored as `user_version`.
    pub(crate) version: i32,
    pub(crate) tables: &'static str,
    /// The name of a file beside it, which is locked while the database is created.
    pub(crate) lock_file: &'static str,
    /// The lock file is also the anchor of a chain.
    pub(crate) lock_file_is_anchor: bool,
}

/// The journal database. Only the table `journal` is authoritative; the others are derived. The body comes last, so that reading a hash
/// never walks the pages of a long body.
///
/// Every page that a record changes has to be written, so there are few derived rows: one in `sessions` for each session, one in
/// `open_calls` for each call that has begun and not ended, and one in `calls` for each ended call, by which the records of a session are
/// found. `spools` holds the drained position of each spool.
const JOURNAL: Layout = Layout {
    file: "journal.db",
    version: 2,
    lock_file: "journal.head",
    lock_file_is_anchor: true,
    tables: "
    CREATE TABLE journal (
        seq INTEGER PRIMARY KEY, at INTEGER NOT NULL,
        session TEXT NOT NULL, turn TEXT NOT NULL, call TEXT NOT NULL, tool TEXT NOT NULL,
        kind TEXT NOT NULL, outcome TEXT, body_hash BLOB NOT NULL, hash BLOB NOT NULL, body TEXT) STRICT;
    CREATE INDEX journal_session ON journal (session) WHERE call = '';
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, workspace TEXT NOT NULL, parent TEXT, created INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE calls (
        session TEXT NOT NULL, finished INTEGER NOT NULL, started INTEGER,
        id TEXT NOT NULL, tool TEXT NOT NULL, outcome TEXT NOT NULL,
        PRIMARY KEY (session, finished)) STRICT, WITHOUT ROWID;
    CREATE TABLE open_calls (
        id TEXT PRIMARY KEY, session TEXT NOT NULL, turn TEXT NOT NULL, tool TEXT NOT NULL,
        started INTEGER NOT NULL, slot INTEGER NOT NULL, process INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE spools (
        slot INTEGER PRIMARY KEY, generation BLOB NOT NULL, bytes INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;
",
};

/// The paths of a database, and the longest wait for other processes that hold it.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    layout: &'static Layout,
    pub(crate) dir: PathBuf,
    pub(crate) path: PathBuf,
    /// The lock file; for the journal also its anchor.
    pub(crate) anchor_path: PathBuf,
    /// A second anchor, outside the state directory.
    pub(crate) outside_anchor_path: Option<PathBuf>,
    pub(crate) patience: Duration,
}

/// The access mode of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    Read,
    /// Reading a file that no process changes, in a directory where SQLite cannot create the shared memory of readers.
    Frozen,
}

impl Database {
    /// The journal of a state directory.
    pub(crate) fn in_state(dir: &Path, patience: Duration) -> Result<Self, StoreError> {
        Self::of_layout(&JOURNAL, dir, patience)
    }

    /// The database of this layout in a directory. The path is made absolute, so that it stays the same when the process changes its
    /// directory, and so that SQLite does not take it for a URI.
    pub(crate) fn of_layout(
        layout: &'static Layout,
        dir: &Path,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let dir = std::path::absolute(dir).map_err(|why| StoreError::file("find", dir, why))?;
        let (path, anchor_path) = (dir.join(layout.file), dir.join(layout.lock_file));
        Ok(Self { layout, dir, path, anchor_path, outside_anchor_path: None, patience })
    }

    /// Creates the directory and checks that it can hold a database, without opening one.
    pub(crate) fn prepare(&self) -> Result<(), StoreError> {
        create_private_directory(&self.dir)
            .map_err(|why| StoreError::file("create the directory", &self.dir, why))?;
        filesystem::refuse_network(&self.dir)?;
        match fs::metadata(&self.path) {
            Ok(found) if found.is_dir() => {
                Err(StoreError::file("open", &self.path, io::ErrorKind::IsADirectory.into()))
            }
            Ok(found) if found.len() == 0 => Err(self.damaged("it is empty")),
            Ok(_) => self.check_beginning(),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(why) => Err(StoreError::file("look for", &self.path, why)),
        }
    }

    /// Fails if the file does not begin with SQLite's magic.
    fn check_beginning(&self) -> Result<(), StoreError> {
        match begins_as_database(&self.path) {
            Ok(Some(false)) => Err(self.damaged("it does not begin as a database does")),
            Ok(_) => Ok(()),
            Err(why) => Err(StoreError::file("read", &self.path, why)),
        }
    }

    /// Opens the database for writing, created if it is missing.
    pub(crate) fn open_or_create(&self) -> Result<CountedConnection, StoreError> {
        if !self.exists()? {
            self.create()?;
        }
        self.connect(Access::ReadWrite)
    }

    /// Opens a connection to an existing database and checks its layout.
    pub(crate) fn connect(&self, access: Access) -> Result<CountedConnection, StoreError> {
        let connection = self.connect_bare(access).map_err(|error| self.error("open", &error))?;
        // SQLite falls back to read-only when it may not write. Report it now and not at the first record.
        if access == Access::ReadWrite && self.is_read_only(&connection)? {
            let why = "it is read-only".to_owned();
            return Err(StoreError::Denied { doing: "write to", path: self.path.clone(), why });
        }
        self.set_up(&connection).map_err(|error| self.error("open", &error))?;
        self.check_layout(&connection)?;
        Ok(connection)
    }

    /// Opens a connection for queries, also in a directory that cannot be written.
    pub(crate) fn connect_to_read(&self) -> Result<(CountedConnection, Access), StoreError> {
        match self.connect(Access::Read) {
            // A frozen connection does not read the WAL, so there must be none.
            Err(StoreError::Denied { .. }) if !self.has_wal() => {
                Ok((self.connect(Access::Frozen)?, Access::Frozen))
            }
            connected => Ok((connected?, Access::Read)),
        }
    }

    /// Opens a connection without any check or setting: nothing is read from the file yet.
    pub(crate) fn connect_bare(&self, access: Access) -> rusqlite::Result<CountedConnection> {
        let read = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let write = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        match access {
            Access::ReadWrite => CountedConnection::open(&self.path, write),
            Access::Read => CountedConnection::open(&self.path, read),
            Access::Frozen => {
                CountedConnection::open(self.uri(access), read | OpenFlags::SQLITE_OPEN_URI)
            }
        }
    }

    /// Copies all tables into a database in memory; empty tables if `access` is `None` because there is no database.
    pub(crate) fn copy_in_memory(
        &self,
        access: Option<Access>,
    ) -> rusqlite::Result<CountedConnection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let copy = CountedConnection::open(":memory:", flags)?;
        copy.execute_batch(self.layout.tables)?;
        let Some(access) = access else { return Ok(copy) };
        copy.execute("ATTACH ? AS disk", [self.uri(access)])?;
        copy.execute_batch(
            "BEGIN;
                 INSERT INTO journal SELECT * FROM disk.journal;
                 INSERT INTO sessions SELECT * FROM disk.sessions;
                 INSERT INTO calls SELECT * FROM disk.calls;
                 INSERT INTO open_calls SELECT * FROM disk.open_calls;
                 INSERT INTO spools SELECT * FROM disk.spools;
                 COMMIT",
        )?;
        copy.execute_batch("DETACH disk")?;
        Ok(copy)
    }

    /// Repeats an attempt while the database is busy, at most for the wait of the settings.
    pub(crate) fn patiently<T>(
        &self,
        attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        patiently(self.patience, attempt)
    }

    /// The store error for an error of SQLite.
    pub(crate) fn error(&self, doing: &'static str, error: &rusqlite::Error) -> StoreError {
        StoreError::database(doing, &self.path, self.patience, error)
    }

    /// The URI to attach the file read-only or immutable.
    fn uri(&self, access: Access) -> String {
        let how = match access {
            Access::ReadWrite | Access::Read => "mode=ro",
            Access::Frozen => "immutable=1",
        };
        format!("file:{}?{how}", percent_encode(&self.path))
    }

    /// Returns whether the database file exists.
    pub(crate) fn exists(&self) -> Result<bool, StoreError> {
        self.path.try_exists().map_err(|why| StoreError::file("look for", &self.path, why))
    }

    /// Returns whether there is a WAL with content.
    fn has_wal(&self) -> bool {
        fs::metadata(self.beside("-wal")).is_ok_and(|found| found.len() > 0)
    }

    /// The path of the database with a suffix.
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    /// Opens the lock file, which for the journal is also the anchor.
    pub(crate) fn open_anchor(&self) -> Result<Anchor, StoreError> {
        Anchor::open(&self.anchor_path)
            .map_err(|why| StoreError::file("open", &self.anchor_path, why))
    }

    /// Opens the outside anchor; `None` if there is none in the settings or it cannot be opened.
    pub(crate) fn open_outside_anchor(&self) -> Option<Anchor> {
        let path = self.outside_anchor_path.as_deref()?;
        create_private_directory(path.parent()?).ok()?;
        Anchor::open(path).ok()
    }

    fn is_read_only(&self, connection: &Connection) -> Result<bool, StoreError> {
        connection.is_readonly("main").map_err(|error| self.error("open", &error))
    }

    /// Sets the pragmas of a connection.
    fn set_up(&self, connection: &Connection) -> rusqlite::Result<()> {
        // `patiently` waits instead.
        connection.busy_timeout(Duration::ZERO)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        self.patiently(|| {
            connection.execute_batch(
                "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = FAST",
            )
        })
    }

    /// Fails if the database has another version, or is of another program.
    fn check_layout(&self, connection: &Connection) -> Result<(), StoreError> {
        let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let layout = self
            .patiently(|| number("user_version"))
            .map_err(|error| self.error("read", &error))?;
        let known = self.layout.version;
        if layout == known {
            return Ok(());
        }
        let application = number("application_id").map_err(|error| self.error("read", &error))?;
        let empty = fs::metadata(&self.path).is_ok_and(|found| found.len() == 0);
        Err(match (application, layout) {
            (APPLICATION_ID, _) => self.foreign(format!(
                "has layout {layout}, which another version of windlass made; this one knows {known}"
            )),
            _ if empty => self.damaged("it is empty"),
            _ => self.foreign("is a database of another program".into()),
        })
    }

    /// The error for a damaged database.
    fn damaged(&self, why: &str) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), why: why.to_owned() }
    }

    /// The error for a database of another program or version.
    fn foreign(&self, what: String) -> StoreError {
        StoreError::Foreign { path: self.path.clone(), what }
    }

    /// Creates the database under another name and renames it when it is complete, with the lock file locked. So an empty or torn file
    /// under the final name is always damage.
    fn create(&self) -> Result<(), StoreError> {
        let anchor = self.open_anchor()?;
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |why| StoreError::file(doing, &path, why)
        };
        let guard = anchor.lock().map_err(failed("lock", &self.anchor_path))?;
        if self.exists()? {
            return Ok(());
        }
        let new = self.beside(".new");
        remove_if_there(&new).map_err(failed("remove", &new))?;
        create_private_file(&new).map_err(failed("create", &new))?;
        create_tables_in(&new, self.layout).map_err(|error| {
            StoreError::database("create the tables of", &new, self.patience, &error)
        })?;
        self.set_stale_wal_aside()?;
        if self.layout.lock_file_is_anchor {
            guard.begin().map_err(failed("write", &self.anchor_path))?;
        }
        fs::rename(&new, &self.path).map_err(failed("create", &self.path))
    }

    /// Renames a WAL without a database: it belongs to one that was moved away, and SQLite would apply it to the new one.
    fn set_stale_wal_aside(&self) -> Result<(), StoreError> {
        for suffix in ["-wal", "-shm"] {
            let (stale, aside) = (self.beside(suffix), self.beside(&format!("{suffix}.stale")));
            match fs::rename(&stale, aside) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::file("set aside", &stale, why));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Repeats an attempt until it succeeds, fails for another reason, or the database was busy for `patience`.
///
/// SQLite's own waiting begins at a millisecond; a transaction here takes less than a tenth of that.
pub(crate) fn patiently<T>(
    patience: Duration,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    const MAX_PAUSE: Duration = Duration::from_millis(2);
    let mut pause = Duration::from_micros(20);
    let mut since = None;
    loop {
        match attempt() {
            Err(error) if is_busy(&error) => {
                if since.get_or_insert_with(Instant::now).elapsed() >= patience {
                    return Err(error);
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(MAX_PAUSE);
            }
            done => return done,
        }
    }
}

/// Percent-encodes a path for a URI.
fn percent_encode(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_".contains(&byte);
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut text, &byte| {
        if plain(byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02x}");
        }
        text
    })
}

/// Creates a directory with mode 0700, with its parents.
pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes a file, if it exists.
fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates an empty file with mode 0600.
fn create_private_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Creates the tables in an empty file.
fn create_tables_in(path: &Path, layout: &Layout) -> rusqlite::Result<()> {
    let connection = CountedConnection::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    create_tables(&connection, layout)?;
    connection.close()
}

/// Runs the SQL of a layout without a rollback journal on disk: a kill in the middle leaves a file that no process opens. WAL mode comes
/// last, because closing a connection does not report whether the checkpoint succeeded.
fn create_tables(connection: &Connection, layout: &Layout) -> rusqlite::Result<()> {
    let Layout { tables, version, .. } = layout;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = MEMORY; BEGIN; {tables} \
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}; COMMIT"
    ))?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
    let why = format!("its journal stays in mode `{mode}`");
    Err(rusqlite::Error::SqliteFailure(code, Some(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_database_is_complete_before_its_connection_closes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, alone) = (dir.path().join("new"), dir.path().join("alone"));
        let connection = Connection::open(&path).unwrap();
        create_tables(&connection, &JOURNAL).unwrap();
        fs::copy(&path, &alone).unwrap();
        let alone = Connection::open(&alone).unwrap();
        let version: i32 =
            alone.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        let mode: String =
            alone.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!((version, mode.as_str()), (JOURNAL.version, "wal"));
    }
}
