//! The anchor: the number and the hash of the last record, in a file of its own beside the database, and in another one outside the
//! state directory if the settings name one.
//!
//! Without it, a journal whose last records were removed would be a valid shorter chain. It is written after the commit of a drain, so
//! it may be behind the journal (a process was killed in between) but never ahead of it.
//! It is one line of fixed length, replaced in place: a single small `pwrite` that a kill cannot split.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::chain::ChainHead;

/// The beginning of an anchor file, with the version of its format.
const PREFIX: &str = "windlass journal 1 ";
const SEQ_DIGITS: usize = 20;
const HASH_DIGITS: usize = 64;
/// The length of an anchor file.
const LINE_BYTES: usize = PREFIX.len() + SEQ_DIGITS + 1 + HASH_DIGITS + 1;

/// The open anchor file.
#[derive(Debug)]
pub(crate) struct Anchor(File);

/// The content of an anchor file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchored {
    /// The journal reached at least this record.
    At(ChainHead),
    /// There is no such file.
    Missing,
    /// The file is empty.
    Empty,
    /// The file does not hold one line of our format.
    Unreadable,
}

impl Anchored {
    /// Treats an empty file as a missing one: an outside anchor may not have been written yet.
    pub(crate) fn unless_empty(self) -> Self {
        if self == Self::Empty { Self::Missing } else { self }
    }
}

impl Anchor {
    /// Opens the file, created empty if there is none; [`AnchorGuard::begin`] fills it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.open(path).map(Self)
    }

    /// Locks the file until the guard is dropped; waits for other processes.
    pub(crate) fn lock(&self) -> io::Result<AnchorGuard<'_>> {
        self.0.lock()?;
        Ok(AnchorGuard(&self.0))
    }

    /// Moves the anchor forward to this record; an anchor at this or a later record stays.
    pub(crate) fn advance(&self, head: ChainHead) -> io::Result<()> {
        let guard = self.lock()?;
        match guard.read()? {
            Anchored::At(there) if there.seq >= head.seq => Ok(()),
            _ => guard.write(head),
        }
    }

    /// Moves the anchor to this record, also backward: for use after a loss was recorded.
    pub(crate) fn reset(&self, head: ChainHead) -> io::Result<()> {
        self.lock()?.write(head)
    }
}

/// A locked anchor.
#[derive(Debug)]
pub(crate) struct AnchorGuard<'file>(&'file File);

impl AnchorGuard<'_> {
    /// Writes the anchor of a journal without records into an empty file. A file with content stays: it belongs to a lost journal, and
    /// the loss is to be detected.
    pub(crate) fn begin(&self) -> io::Result<()> {
        if self.0.metadata()?.len() == 0 { self.write(ChainHead::START) } else { Ok(()) }
    }

    /// Reads and parses the file.
    pub(crate) fn read(&self) -> io::Result<Anchored> {
        let mut line = [0; LINE_BYTES + 1];
        let length = read_start(self.0, &mut line)?;
        if length == 0 {
            return Ok(Anchored::Empty);
        }
        let line = line.get(..length).unwrap_or_default();
        Ok(std::str::from_utf8(line)
            .ok()
            .and_then(parse)
            .map_or(Anchored::Unreadable, Anchored::At))
    }

    /// Replaces the content of the file in one `pwrite`.
    fn write(&self, head: ChainHead) -> io::Result<()> {
        self.0.write_all_at(line(head).as_bytes(), 0)
    }
}

impl Drop for AnchorGuard<'_> {
    fn drop(&mut self) {
        // Unlocking fails only for a file that is not open.
        drop(self.0.unlock());
    }
}

/// Reads the anchor file at this path under a shared lock, without creating it.
pub(crate) fn read_at(path: &Path) -> io::Result<Anchored> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Anchored::Missing),
        Err(error) => return Err(error),
    };
    file.lock_shared()?;
    AnchorGuard(&file).read()
}

/// The line of an anchor file.
fn line(head: ChainHead) -> String {
    let hash = blake3::Hash::from_bytes(head.hash).to_hex();
    format!("{PREFIX}{:0SEQ_DIGITS$} {hash}\n", head.seq)
}

/// Parses the line of an anchor file.
fn parse(line: &str) -> Option<ChainHead> {
    let (seq, hash) = line.strip_prefix(PREFIX)?.strip_suffix('\n')?.split_once(' ')?;
    if seq.len() != SEQ_DIGITS {
        return None;
    }
    Some(ChainHead { seq: seq.parse().ok()?, hash: *blake3::Hash::from_hex(hash).ok()?.as_bytes() })
}

/// Reads the first bytes of a short file in one call, repeated only if a signal interrupts it.
pub(crate) fn read_start(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: ChainHead = ChainHead { seq: 2, hash: [0xa5; 32] };

    fn anchor() -> (tempfile::TempDir, std::path::PathBuf, Anchor) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.head");
        let anchor = Anchor::open(&path).unwrap();
        (dir, path, anchor)
    }

    #[test]
    fn an_anchor_moves_forward_only() {
        let (_dir, path, anchor) = anchor();
        anchor.lock().unwrap().begin().unwrap();
        assert_eq!(read_at(&path).unwrap(), Anchored::At(ChainHead::START));
        anchor.advance(SECOND).unwrap();
        anchor.advance(ChainHead { seq: 1, hash: [1; 32] }).unwrap();
        anchor.lock().unwrap().begin().unwrap();
        assert_eq!(read_at(&path).unwrap(), Anchored::At(SECOND));
        anchor.reset(ChainHead { seq: 1, hash: [1; 32] }).unwrap();
        assert_eq!(read_at(&path).unwrap(), Anchored::At(ChainHead { seq: 1, hash: [1; 32] }));
    }

    #[test]
    fn a_file_of_another_format_is_unreadable() {
        let (_dir, path, _anchor) = anchor();
        let good = line(SECOND);
        assert_eq!(good.len(), LINE_BYTES);
        let cases = [
            "garbage".to_owned(),
            good.replace("windlass", "Windlass"),
            good.replace('a', "g"),
            good.trim_end().to_owned(),
            format!("{good}x"),
            good.replacen("00000000000000000002", "-0000000000000000002", 1),
        ];
        for case in cases {
            std::fs::write(&path, &case).unwrap();
            assert_eq!(read_at(&path).unwrap(), Anchored::Unreadable, "{case:?}");
        }
        std::fs::write(&path, "").unwrap();
        assert_eq!(read_at(&path).unwrap(), Anchored::Empty);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read_at(&path).unwrap(), Anchored::Missing);
    }
}
