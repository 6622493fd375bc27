//! The last record that a writer made safe, told in a file outside of the state directory when the writer closes.
//!
//! Records lie in spools for a while before they come into the chain, and the anchors speak of the chain only. The witness names one record by
//! its time and its fields: if that record is neither in the chain nor in a spool, the state directory is not the one that was left.
//! Of several writers the last one to close is the witness; each of their records must be there. It is one small write, without a lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use windlass_core::Record;

use crate::chain::{Fields, Hash, Kind};
use crate::head::read_start;
use crate::timestamp::to_nanos;

const PREFIX: &str = "windlass last 1 ";
const AT_DIGITS: usize = 20;
const LENGTH: usize = PREFIX.len() + AT_DIGITS + 1 + 64 + 1;

/// One record by its time and a hash of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) at: i64,
    names: Hash,
}

impl Witness {
    pub(crate) fn of(record: &Record) -> Self {
        let kind = Kind::from(record.kind);
        let (session, turn) = (record.session.as_str(), record.turn.as_str());
        let texts = [session, turn, record.call.as_str(), &record.tool, kind.as_str()];
        Self { at: to_nanos(record.at), names: hash(texts.map(str::as_bytes)) }
    }

    /// The same of a record in the chain.
    pub(crate) fn of_fields(fields: &Fields<'_>) -> Self {
        let texts = [fields.session, fields.turn, fields.call, fields.tool, fields.kind];
        Self { at: fields.at, names: hash(texts) }
    }

    /// The file beside an anchor outside of the state directory.
    pub(crate) fn path(anchor: &Path) -> PathBuf {
        anchor.with_extension("last")
    }

    /// Reads the file; `None` if there is none or it is not ours.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let mut line = [0; LENGTH + 1];
        let length = read_start(&File::open(path).ok()?, &mut line).ok()?;
        let line = std::str::from_utf8(line.get(..length)?).ok()?;
        let (at, names) = line.strip_prefix(PREFIX)?.strip_suffix('\n')?.split_once(' ')?;
        let names = *blake3::Hash::from_hex(names).ok()?.as_bytes();
        Some(Self { at: at.parse().ok()?, names })
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let names = blake3::Hash::from_bytes(self.names).to_hex();
        let line = format!("{PREFIX}{:0AT_DIGITS$} {names}\n", self.at);
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

fn hash(texts: [&[u8]; 5]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    *hasher.finalize().as_bytes()
}
