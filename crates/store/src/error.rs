//! What can go wrong with a store: what was tried, on which file, why it failed, what to do next.
//!
//! The reason is part of the text and not a `source`: most of these end as a [`windlass_core::JournalError`], which is text alone.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;
use windlass_core::{CallId, ContentHash, HistoryError, JournalError, SessionId};

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused an operation on a file.
    #[error("cannot {doing} {}: {why}; {}", path.display(), advice_for(why))]
    File {
        /// What was tried, as a verb.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The file system has no locks to rely on.
    #[error(
        "cannot keep a journal in {}: it is on a network file system ({kind}), where several writers can damage a database; \
         choose a directory on a local disk with --state DIR",
        path.display()
    )]
    NetworkFileSystem {
        /// The state directory.
        path: PathBuf,
        /// What it is on.
        kind: &'static str,
    },
    /// A file cannot be trusted. Nothing was changed.
    #[error(
        "{} is damaged: {why}; {}",
        path.display(),
        remedy_for(path)
    )]
    Damaged {
        /// The database, or another file of the state directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The database is of another program, or of a later version of this one.
    #[error("{} {what}; choose another directory with --state DIR", path.display())]
    Foreign {
        /// The database.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// Another process held the database too long.
    #[error(
        "{} was locked by another process for {} ms; try again, or find who holds it with `fuser`",
        path.display(),
        patience.as_millis()
    )]
    Busy {
        /// The database.
        path: PathBuf,
        /// How long it was waited for.
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
        /// What was tried, as a verb.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What the database said.
        why: String,
    },
    /// Anything else that the database refused.
    #[error("cannot {doing} {}: {why}; choose another directory with --state DIR if this stays", path.display())]
    Database {
        /// What was tried, as a verb.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What the database said.
        why: String,
    },
    /// The store was opened for looking back only.
    #[error("cannot write to {}: it was opened for reading only", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// The store was closed, or its writer is gone.
    #[error("cannot write to {}: the store is closed", path.display())]
    Closed {
        /// The database.
        path: PathBuf,
    },
    /// A record is longer than the journal takes.
    #[error("cannot record {bytes} bytes for call {call}: a record has at most {limit}")]
    TooLong {
        /// Whose record.
        call: CallId,
        /// Its length.
        bytes: usize,
        /// What would be taken.
        limit: usize,
    },
    /// A content was damaged in its slot, or its file was missing, before it came into the database.
    #[error(
        "the earlier content {0} was damaged on the disk and cannot be had any more; what else was changed can still be undone"
    )]
    Lost(ContentHash),
    /// A change is larger than all that the history may keep.
    #[error(
        "cannot save what call {call} is about to change: it takes {bytes} bytes, and the history keeps at most {quota}; \
         raise undo_megabytes in the configuration"
    )]
    OverQuota {
        /// Whose change.
        call: CallId,
        /// What it takes.
        bytes: u64,
        /// What there may be in all.
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
        /// Which session.
        session: SessionId,
        /// Which call.
        call: CallId,
        /// Where it runs.
        process: u32,
    },
}

impl StoreError {
    pub(crate) fn file(doing: &'static str, path: &Path, why: io::Error) -> Self {
        Self::File { doing, path: path.to_owned(), why }
    }

    /// Whether the database is in order as far as is known, and just cannot be written.
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

    /// Tells apart what a person has to do.
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
            None if is_misfit(error) => Self::Damaged { path, why },
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

/// Whether it may work when tried again a little later.
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

/// Whether a stored value cannot be what we stored.
fn is_misfit(error: &rusqlite::Error) -> bool {
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

/// What to do about a file that cannot be trusted.
fn remedy_for(path: &Path) -> &'static str {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("undo.db") => {
            "nothing was changed. Move undo.db, undo.db-wal and undo.db-shm elsewhere to begin a new history; what was changed \
             before cannot be undone without them"
        }
        Some(name) if name.starts_with("journal.") => {
            "nothing was changed. Move journal.db, journal.db-wal, journal.db-shm and journal.head elsewhere to begin a new \
             journal, or choose another directory with --state DIR"
        }
        Some(name) if name.contains(".damaged-") => {
            "it was set aside under this name. Try again: what was recorded in it after that place cannot be undone, all else can"
        }
        _ => {
            "nothing was changed. Move it elsewhere to go on; what was changed with it cannot be undone then"
        }
    }
}

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
