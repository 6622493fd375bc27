//! The errors of a store. Each message names the attempt, the file, the reason and the next step.
//!
//! The reason is part of the text and not a `source`: most of these become a [`windlass_core::JournalError`], which is text alone.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;
use windlass_core::{CallId, ContentHash, HistoryError, JournalError, SessionId};

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused an operation on a file.
    #[error("cannot {doing} {}: {why}; {}", path.display(), advice_for(why))]
    File {
        /// The attempted operation, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// The file system has no reliable locks.
    #[error(
        "cannot keep a journal in {}: it is on a network file system ({kind}), where several writers can damage a database; \
         choose a directory on a local disk with --state DIR",
        path.display()
    )]
    NetworkFileSystem {
        /// The state directory.
        path: PathBuf,
        /// The name of the file system.
        kind: &'static str,
    },
    /// A file is damaged. Nothing was changed.
    #[error(
        "{} is damaged: {why}; {}",
        path.display(),
        remedy_for(path)
    )]
    Damaged {
        /// The database, or another file of the state directory.
        path: PathBuf,
        /// The damage.
        why: String,
    },
    /// The database is of another program, or of a later version of this one.
    #[error("{} {what}; choose another directory with --state DIR", path.display())]
    Foreign {
        /// The database.
        path: PathBuf,
        /// A description of the file.
        what: String,
    },
    /// Another process held the database too long.
    #[error(
        "{} was locked by another process for {} ms; try again, or find the process that holds it with `fuser`",
        path.display(),
        patience.as_millis()
    )]
    Busy {
        /// The database.
        path: PathBuf,
        /// The time waited.
        patience: Duration,
    },
    /// There is no space left.
    #[error(
        "cannot write to {}: the disk is full; nothing recorded earlier is lost. Free some space and try again, or choose \
         another directory with --state DIR",
        path.display()
    )]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// The database may not be opened or written.
    #[error(
        "cannot {doing} {}: {why}; make it writable for this user, or choose another directory with --state DIR",
        path.display()
    )]
    Denied {
        /// The attempted operation, as a verb.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// The message of SQLite.
        why: String,
    },
    /// Any other error of SQLite.
    #[error("cannot {doing} {}: {why}; choose another directory with --state DIR if this stays", path.display())]
    Database {
        /// The attempted operation, as a verb.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// The message of SQLite.
        why: String,
    },
    /// The store was opened read-only.
    #[error("cannot write to {}: it was opened for reading only", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// The store was closed, or its writer panicked.
    #[error("cannot write to {}: the store is closed", path.display())]
    Closed {
        /// The database.
        path: PathBuf,
    },
    /// The body of a record is too long.
    #[error("cannot record {bytes} bytes for call {call}: a record has at most {limit}")]
    TooLong {
        /// The call of the record.
        call: CallId,
        /// Its length.
        bytes: usize,
        /// The longest allowed body.
        limit: usize,
    },
    /// A file content was damaged in its slot, or its object file was missing, before it came into the database.
    #[error(
        "the earlier content {0} was damaged on the disk and is lost; all other changes can still be undone"
    )]
    Lost(ContentHash),
    /// One change is larger than the quota of the history.
    #[error(
        "cannot save what call {call} is about to change: it takes {bytes} bytes, and the history keeps at most {quota}; \
         raise undo_megabytes in the configuration"
    )]
    OverQuota {
        /// The call that makes the change.
        call: CallId,
        /// The space it takes.
        bytes: u64,
        /// The quota of the history.
        quota: u64,
    },
    /// There is no such session.
    #[error("there is no session {0}; `windlass sessions` lists those there are")]
    UnknownSession(SessionId),
    /// The session has a call that has not ended.
    #[error(
        "cannot delete session {session}: its call {call} is still running in process {process}; end it first"
    )]
    Running {
        /// The session.
        session: SessionId,
        /// The call.
        call: CallId,
        /// The id of the process that runs it.
        process: u32,
    },
}

impl StoreError {
    /// The error for a failed operation on a file.
    pub(crate) fn file(doing: &'static str, path: &Path, why: io::Error) -> Self {
        Self::File { doing, path: path.to_owned(), why }
    }

    /// Returns whether the database can probably still be read, though it could not be written.
    pub(crate) fn allows_looking_back(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Full { .. } | Self::Denied { .. } | Self::Database { .. } => {
                true
            }
            Self::File { why, .. } => matches!(
                why.kind(),
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::ReadOnlyFilesystem
            ),
            _ => false,
        }
    }

    /// Converts an error of SQLite into the variant with the right advice.
    pub(crate) fn database(
        doing: &'static str,
        path: &Path,
        patience: Duration,
        error: &rusqlite::Error,
    ) -> Self {
        let path = path.to_owned();
        let why = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path, why }
            }
            Some(_) if is_busy(error) => Self::Busy { path, patience },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::Denied { doing, path, why }
            }
            None if is_foreign_value(error) => Self::Damaged { path, why },
            _ => Self::Database { doing, path, why },
        }
    }
}

impl From<StoreError> for HistoryError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

/// Returns whether the error is a lock of another connection, so that a retry may succeed.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

/// Returns whether a stored value has a type or range that we never store.
fn is_foreign_value(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
    };
    matches!(
        error,
        FromSqlConversionFailure(..)
            | IntegralValueOutOfRange(..)
            | InvalidColumnType(..)
            | Utf8Error(..)
    )
}

/// The advice for a damaged file, by its name.
fn remedy_for(path: &Path) -> &'static str {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("undo.db") => {
            "nothing was changed. Move undo.db, undo.db-wal and undo.db-shm elsewhere to begin a new history; earlier changes \
             cannot be undone without them"
        }
        Some(name) if name.starts_with("journal.") => {
            "nothing was changed. Move journal.db, journal.db-wal, journal.db-shm and journal.head elsewhere to begin a new \
             journal, or choose another directory with --state DIR"
        }
        Some(name) if name.contains(".damaged-") => {
            "it was renamed to this name. Try again: changes recorded in it after the damage cannot be undone, all others can"
        }
        _ => {
            "nothing was changed. Move it elsewhere to go on; changes that need it cannot be undone then"
        }
    }
}

/// The advice for an error of the system.
fn advice_for(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or choose another directory with --state DIR"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "make it writable for this user, or choose another directory with --state DIR"
        }
        _ => "choose another directory with --state DIR",
    }
}
