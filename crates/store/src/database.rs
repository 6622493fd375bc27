//! The database file: made whole or not at all, opened with as little work as possible, because every command opens it.
//!
//! It is in WAL mode and a closing connection leaves the WAL as it is, so that a short command never waits for the disk; who
//! drains empties it when it is large.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::connection::{Counted, begins_as_database};
use crate::error::is_busy;
use crate::head::Anchor;
use crate::{StoreError, filesystem};

/// "Wndl": tells our files from those of other programs.
const APPLICATION: i32 = 0x576e_646c;

/// What a database is called and holds.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The name of its file.
    pub(crate) file: &'static str,
    /// Which layout its tables have.
    pub(crate) version: i32,
    pub(crate) tables: &'static str,
    /// A file beside it: locked while the database is made.
    pub(crate) head: &'static str,
    /// Whether that file also says where its chain ends.
    pub(crate) is_chain: bool,
}

/// `journal` alone is the record. Its body comes last, so that reading a hash never walks the pages of a long body.
///
/// Each page that a record changes is written, so the rest is kept to what cannot be had otherwise: `sessions` is written once for
/// each, `open_calls` holds the few calls that have begun and not ended, and a call gets its row in `calls` when it ends. That
/// row is also how the records of a session are found. `spools` says how far each is drained.
const JOURNAL: Layout = Layout {
    file: "journal.db",
    version: 2,
    head: "journal.head",
    is_chain: true,
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

/// Where a store keeps its records, and how long it waits for others.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    layout: &'static Layout,
    pub(crate) dir: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) head: PathBuf,
    /// A second anchor, outside of the directory.
    pub(crate) outside: Option<PathBuf>,
    pub(crate) patience: Duration,
}

/// Whether a connection may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadWrite,
    Read,
    /// Nothing and nobody changes the file: it may lie where not even the shared memory of readers can be made.
    Frozen,
}

impl Database {
    /// The journal of a state directory.
    pub(crate) fn in_state(dir: &Path, patience: Duration) -> Result<Self, StoreError> {
        Self::of_layout(&JOURNAL, dir, patience)
    }

    /// The files in a directory. The path is made absolute, so that it stays the same when the process changes its
    /// directory, and so that SQLite does not take it for a URI.
    pub(crate) fn of_layout(
        layout: &'static Layout,
        dir: &Path,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let dir = std::path::absolute(dir).map_err(|why| StoreError::file("find", dir, why))?;
        let (path, head) = (dir.join(layout.file), dir.join(layout.head));
        Ok(Self { layout, dir, path, head, outside: None, patience })
    }

    /// Makes the directory, and sees whether there can be a database in it, without opening one.
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

    fn check_beginning(&self) -> Result<(), StoreError> {
        match begins_as_database(&self.path) {
            Ok(Some(false)) => Err(self.damaged("it does not begin as a database does")),
            Ok(_) => Ok(()),
            Err(why) => Err(StoreError::file("read", &self.path, why)),
        }
    }

    /// Opens what is there, or makes it.
    pub(crate) fn open_or_create(&self) -> Result<Counted, StoreError> {
        if !self.exists()? {
            self.create()?;
        }
        self.connect(Access::ReadWrite)
    }

    /// One more connection to a database that is there.
    pub(crate) fn connect(&self, access: Access) -> Result<Counted, StoreError> {
        let connection = self.connect_bare(access).map_err(|error| self.error("open", &error))?;
        // SQLite falls back to reading when it may not write; better to say so now than at the first record.
        if access == Access::ReadWrite && self.is_read_only(&connection)? {
            let why = "it is read-only".to_owned();
            return Err(StoreError::Denied { doing: "write to", path: self.path.clone(), why });
        }
        self.set_up(&connection).map_err(|error| self.error("open", &error))?;
        self.check_layout(&connection)?;
        Ok(connection)
    }

    /// A connection to look back with, also where nothing can be written.
    pub(crate) fn connect_to_read(&self) -> Result<(Counted, Access), StoreError> {
        match self.connect(Access::Read) {
            // What is only in a WAL would be missed.
            Err(StoreError::Denied { .. }) if !self.has_wal() => {
                Ok((self.connect(Access::Frozen)?, Access::Frozen))
            }
            connected => Ok((connected?, Access::Read)),
        }
    }

    /// A connection as it comes: nothing is read yet, so nothing is known of the file.
    pub(crate) fn connect_bare(&self, access: Access) -> rusqlite::Result<Counted> {
        let read = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let write = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        match access {
            Access::ReadWrite => Counted::open(&self.path, write),
            Access::Read => Counted::open(&self.path, read),
            Access::Frozen => Counted::open(self.uri(access), read | OpenFlags::SQLITE_OPEN_URI),
        }
    }

    /// All there is, where it can be written and is gone with the connection; nothing if there is no database.
    pub(crate) fn copy_in_memory(&self, access: Option<Access>) -> rusqlite::Result<Counted> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let copy = Counted::open(":memory:", flags)?;
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

    /// Tries for as long as the store has patience.
    pub(crate) fn patiently<T>(
        &self,
        attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        patiently(self.patience, attempt)
    }

    pub(crate) fn error(&self, doing: &'static str, error: &rusqlite::Error) -> StoreError {
        StoreError::database(doing, &self.path, self.patience, error)
    }

    fn uri(&self, access: Access) -> String {
        let how = match access {
            Access::ReadWrite | Access::Read => "mode=ro",
            Access::Frozen => "immutable=1",
        };
        format!("file:{}?{how}", escape(&self.path))
    }

    pub(crate) fn exists(&self) -> Result<bool, StoreError> {
        self.path.try_exists().map_err(|why| StoreError::file("look for", &self.path, why))
    }

    fn has_wal(&self) -> bool {
        fs::metadata(self.beside("-wal")).is_ok_and(|found| found.len() > 0)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    pub(crate) fn open_anchor(&self) -> Result<Anchor, StoreError> {
        Anchor::open(&self.head).map_err(|why| StoreError::file("open", &self.head, why))
    }

    /// Opens the anchor outside of the directory. That there can be none is no reason not to work.
    pub(crate) fn open_outside_anchor(&self) -> Option<Anchor> {
        let path = self.outside.as_deref()?;
        create_private_directory(path.parent()?).ok()?;
        Anchor::open(path).ok()
    }

    fn is_read_only(&self, connection: &Connection) -> Result<bool, StoreError> {
        connection.is_readonly("main").map_err(|error| self.error("open", &error))
    }

    fn set_up(&self, connection: &Connection) -> rusqlite::Result<()> {
        // We wait ourselves, see `patiently`.
        connection.busy_timeout(Duration::ZERO)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        self.patiently(|| {
            connection.execute_batch(
                "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = FAST",
            )
        })
    }

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
            (APPLICATION, _) => self.foreign(format!(
                "has layout {layout}, which another version of windlass made; this one knows {known}"
            )),
            _ if empty => self.damaged("it is empty"),
            _ => self.foreign("is a database of another program".into()),
        })
    }

    fn damaged(&self, why: &str) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), why: why.to_owned() }
    }

    fn foreign(&self, what: String) -> StoreError {
        StoreError::Foreign { path: self.path.clone(), what }
    }

    /// Makes the database under another name and moves it into place when it is whole, with all others kept out: so whatever
    /// stands at its place, empty or torn, is damage and not a beginning.
    fn create(&self) -> Result<(), StoreError> {
        let anchor = self.open_anchor()?;
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |why| StoreError::file(doing, &path, why)
        };
        let guard = anchor.lock().map_err(failed("lock", &self.head))?;
        if self.exists()? {
            return Ok(());
        }
        let new = self.beside(".new");
        remove_if_there(&new).map_err(failed("remove", &new))?;
        make_private(&new).map_err(failed("create", &new))?;
        lay_out(&new, self.layout).map_err(|error| {
            StoreError::database("create the tables of", &new, self.patience, &error)
        })?;
        self.set_stale_wal_aside()?;
        if self.layout.is_chain {
            guard.begin().map_err(failed("write", &self.head))?;
        }
        fs::rename(&new, &self.path).map_err(failed("create", &self.path))
    }

    /// A WAL without its database is of one that was moved away, and would be applied to the new one.
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

/// Tries until it works, fails for good, or others have held the database for too long.
///
/// SQLite's own waiting begins at a millisecond; a transaction here takes less than a tenth of that.
pub(crate) fn patiently<T>(
    patience: Duration,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    const LONGEST_PAUSE: Duration = Duration::from_millis(2);
    let mut pause = Duration::from_micros(20);
    let mut since = None;
    loop {
        match attempt() {
            Err(error) if is_busy(&error) => {
                if since.get_or_insert_with(Instant::now).elapsed() >= patience {
                    return Err(error);
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            done => return done,
        }
    }
}

/// A path as part of a URI: all but plain letters by their numbers.
fn escape(path: &Path) -> String {
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

/// Makes a directory that is the person's alone, with those above it.
pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

fn lay_out(path: &Path, layout: &Layout) -> rusqlite::Result<()> {
    let connection = Counted::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    make_tables(&connection, layout)?;
    connection.close()
}

/// Whoever is killed or fails in the middle leaves a file that nobody opens, so nothing is kept to go back to. WAL mode comes
/// last, because a closing connection does not say whether it could bring the WAL into the database.
fn make_tables(connection: &Connection, layout: &Layout) -> rusqlite::Result<()> {
    let Layout { tables, version, .. } = layout;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = MEMORY; BEGIN; {tables} \
         PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version}; COMMIT"
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
    fn a_new_database_is_whole_before_its_connection_closes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, alone) = (dir.path().join("new"), dir.path().join("alone"));
        let connection = Connection::open(&path).unwrap();
        make_tables(&connection, &JOURNAL).unwrap();
        fs::copy(&path, &alone).unwrap();
        let alone = Connection::open(&alone).unwrap();
        let version: i32 =
            alone.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        let mode: String =
            alone.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!((version, mode.as_str()), (JOURNAL.version, "wal"));
    }
}
