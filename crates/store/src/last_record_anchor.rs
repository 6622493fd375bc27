//! The anchor of the last record: a file outside the state directory that names the last record that a closing writer wrote.
//!
//! Records are in spools for a while before they come into the chain, and the other anchors cover the chain only. This one names a record
//! by its time and its fields: if that record is neither in the chain nor in a spool, the state directory was replaced by an older copy.
//! Of several writers the last one to close writes the file. It is one small write, without a lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use windlass_core::Record;

use crate::anchor::read_start;
use crate::chain::{Hash, HashedFields, StoredKind};
use crate::timestamp::to_nanos;

/// The beginning of the file, with the version of its format.
const PREFIX: &str = "windlass last 1 ";
const TIME_DIGITS: usize = 20;
/// The length of the file.
const LINE_BYTES: usize = PREFIX.len() + TIME_DIGITS + 1 + 64 + 1;

/// The identity of a record: its time and a hash of session, turn, call, tool and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastRecordAnchor {
    pub(crate) at: i64,
    names: Hash,
}

impl LastRecordAnchor {
    /// The identity of a record that is written.
    pub(crate) fn of(record: &Record) -> Self {
        let kind = StoredKind::from(record.kind);
        let (session, turn) = (record.session.as_str(), record.turn.as_str());
        let texts = [session, turn, record.call.as_str(), &record.tool, kind.as_str()];
        Self { at: to_nanos(record.at), names: hash(texts.map(str::as_bytes)) }
    }

    /// The identity of a record in the chain.
    pub(crate) fn of_fields(fields: &HashedFields<'_>) -> Self {
        let texts = [fields.session, fields.turn, fields.call, fields.tool, fields.kind];
        Self { at: fields.at, names: hash(texts) }
    }

    /// The path of the file: beside the outside anchor, with the ending `last`.
    pub(crate) fn path(anchor: &Path) -> PathBuf {
        anchor.with_extension("last")
    }

    /// Reads the file; `None` if there is none or it has another format.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let mut line = [0; LINE_BYTES + 1];
        let length = read_start(&File::open(path).ok()?, &mut line).ok()?;
        let line = std::str::from_utf8(line.get(..length)?).ok()?;
        let (at, names) = line.strip_prefix(PREFIX)?.strip_suffix('\n')?.split_once(' ')?;
        let names = *blake3::Hash::from_hex(names).ok()?.as_bytes();
        Some(Self { at: at.parse().ok()?, names })
    }

    /// Writes the file, and creates it and its directory if they are missing.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let names = blake3::Hash::from_bytes(self.names).to_hex();
        let line = format!("{PREFIX}{:0TIME_DIGITS$} {names}\n", self.at);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = match (options.open(path), path.parent()) {
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
                crate::database::create_private_directory(parent)?;
                options.open(path)?
            }
            (opened, _) => opened?,
        };
        file.write_all_at(line.as_bytes(), 0)
    }
}

/// Hashes texts, each with its length.
fn hash(texts: [&[u8]; 5]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    *hasher.finalize().as_bytes()
}
