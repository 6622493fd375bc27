//! The kept outputs of calls, one file each. They are not in the journal, because they are long and may be dropped.
//!
//! An output is written in `unfinished/` and renamed when it is complete. Its writer holds a lock on it, so that a later writer can
//! detect and remove the files of killed processes.
//!
//! The total size is kept in the small file `tally`, so that adding an output does not list the directory. It may be too high after
//! a kill or a deletion, never too low, and is corrected when the oldest outputs are dropped.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::SystemTime;

use windlass_core::CallId;

use crate::StoreError;

/// The number of digits in the file `tally`.
const TALLY_DIGITS: usize = 20;

/// The directory of outputs that are being written.
const UNFINISHED: &str = "unfinished";

/// The directory of kept outputs.
#[derive(Debug)]
pub(crate) struct KeptOutputs {
    dir: PathBuf,
    max_output_bytes: usize,
    max_total_bytes: u64,
    leftovers_removed: Once,
}

impl KeptOutputs {
    pub(crate) fn in_state(dir: &Path, max_output_bytes: usize, max_total_bytes: u64) -> Self {
        Self {
            dir: dir.join("outputs"),
            max_output_bytes,
            max_total_bytes,
            leftovers_removed: Once::new(),
        }
    }

    /// Keeps the output of a call, truncated with a note if it is too long.
    pub(crate) fn keep(&self, call: &CallId, text: &str) -> Result<(), StoreError> {
        let path = self.path(call);
        let text = truncate(text, self.max_output_bytes);
        self.keep_in(&path, &text).map_err(|why| StoreError::file("keep the output in", &path, why))
    }

    /// Keeps an output that comes in pieces, and frees each piece once it is written.
    pub(crate) fn keep_pieces(
        &self,
        call: &CallId,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), StoreError> {
        let path = self.path(call);
        self.write_then_rename(&path, |file| self.write_pieces(file, next))
            .map_err(|why| StoreError::file("keep the output in", &path, why))
    }

    /// Writes pieces up to the limit of one output, then the note of the rest.
    fn write_pieces(
        &self,
        mut file: &File,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> io::Result<()> {
        let (mut room, mut left_out) = (self.max_output_bytes, 0);
        while let Some(piece) = next() {
            // After the first cut nothing more is written.
            let fits = if left_out == 0 { piece.floor_char_boundary(room) } else { 0 };
            let (kept, rest) = piece.split_at(fits);
            self.reserve(kept.len() as u64)?;
            file.write_all(kept.as_bytes())?;
            room -= kept.len();
            left_out += rest.len();
        }
        if left_out > 0 {
            let note = truncation_note(left_out);
            self.reserve(note.len() as u64)?;
            file.write_all(note.as_bytes())?;
        }
        Ok(())
    }

    /// The kept output of a call, if it is still there.
    pub(crate) fn get(&self, call: &CallId) -> Result<Option<String>, StoreError> {
        let path = self.path(call);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(StoreError::file("read the output in", &path, why)),
        }
    }

    /// Removes the kept output of a call, if there is one.
    pub(crate) fn remove(&self, call: &CallId) -> Result<(), StoreError> {
        let path = self.path(call);
        match fs::remove_file(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::file("remove the output in", &path, why))
            }
            _ => Ok(()),
        }
    }

    /// The file of the output of a call.
    fn path(&self, call: &CallId) -> PathBuf {
        self.dir.join(format!("{}.txt", file_name(call.as_str())))
    }

    /// Reserves space and writes a text.
    fn keep_in(&self, path: &Path, text: &str) -> io::Result<()> {
        self.reserve(text.len() as u64)?;
        self.write_then_rename(path, |mut file| file.write_all(text.as_bytes()))
    }

    /// Writes a file in `unfinished/` and renames it, so that a kill leaves no partial output.
    fn write_then_rename(
        &self,
        path: &Path,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let unfinished = self.dir.join(UNFINISHED);
        DirBuilder::new().recursive(true).mode(0o700).create(&unfinished)?;
        self.leftovers_removed.call_once(|| remove_leftovers(&unfinished));
        let name = path.file_name().unwrap_or_default();
        let write_then_rename =
            unfinished.join(name).with_extension(std::process::id().to_string());
        let file = create_locked(&write_then_rename)?;
        let written = write(&file).and_then(|()| fs::rename(&write_then_rename, path));
        if written.is_err() {
            drop(fs::remove_file(&write_then_rename));
        }
        written
    }

    /// Adds bytes to the tally before they are written, and drops the oldest outputs if they exceed the limit.
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let tally = self.open_tally()?;
        tally.lock()?;
        let mut total = match read_tally(&tally) {
            Some(total) => total,
            None => total_bytes(&self.list()?),
        };
        if total.saturating_add(bytes) > self.max_total_bytes {
            // Frees an eighth more than needed, so that the directory is not listed for each output.
            let room = (self.max_total_bytes - self.max_total_bytes / 8).saturating_sub(bytes);
            total = self.drop_oldest(room)?;
        }
        let total = total.saturating_add(bytes);
        tally.write_all_at(format!("{total:0TALLY_DIGITS$}").as_bytes(), 0)
    }

    /// Opens the file `tally`, created if it is missing.
    fn open_tally(&self) -> io::Result<File> {
        let path = self.dir.join("tally");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
                options.open(&path)
            }
            opened => opened,
        }
    }

    /// Removes the oldest outputs until the rest fits; returns the size of the rest.
    fn drop_oldest(&self, room: u64) -> io::Result<u64> {
        let mut kept = self.list()?;
        kept.sort();
        let mut total = total_bytes(&kept);
        for OutputFile { path, bytes, is_unfinished, .. } in kept {
            if total <= room {
                break;
            }
            if is_unfinished && !is_writer_gone(&path) {
                continue;
            }
            fs::remove_file(path)?;
            total -= bytes;
        }
        Ok(total)
    }

    /// All output files, also unfinished ones. Earlier versions wrote unfinished ones as `*.tmp` beside the others.
    fn list(&self) -> io::Result<Vec<OutputFile>> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == "txt" || ending == "tmp") {
                kept.extend(OutputFile::read_metadata(&entry, false)?);
            }
        }
        let unfinished = match fs::read_dir(self.dir.join(UNFINISHED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(kept),
            entries => entries?,
        };
        for entry in unfinished {
            kept.extend(OutputFile::read_metadata(&entry?, true)?);
        }
        Ok(kept)
    }
}

/// An output file with its metadata. The order is by age, then by name, which contains the time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OutputFile {
    modified: SystemTime,
    path: PathBuf,
    bytes: u64,
    is_unfinished: bool,
}

impl OutputFile {
    /// Reads the metadata; `None` if another process removed the file.
    fn read_metadata(entry: &fs::DirEntry, is_unfinished: bool) -> io::Result<Option<Self>> {
        match entry.metadata() {
            Ok(found) => Ok(Some(Self {
                modified: found.modified()?,
                path: entry.path(),
                bytes: found.len(),
                is_unfinished,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Removes unfinished outputs of killed processes. A file that cannot be removed is left for the next process.
fn remove_leftovers(unfinished: &Path) {
    for entry in fs::read_dir(unfinished).into_iter().flatten().flatten() {
        if is_writer_gone(&entry.path()) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Returns whether the writer of an unfinished output is gone, which is so if the file can be locked.
fn is_writer_gone(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Creates and locks a file. If another process removed it as a leftover before it was locked, it is created again.
fn create_locked(path: &Path) -> io::Result<File> {
    loop {
        let file = create_private(path)?;
        file.lock()?;
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

/// The total size of these files.
fn total_bytes(kept: &[OutputFile]) -> u64 {
    kept.iter().map(|kept| kept.bytes).sum()
}

/// The total size in the file `tally`; `None` if it is damaged.
fn read_tally(tally: &File) -> Option<u64> {
    let mut digits = [0; TALLY_DIGITS];
    tally.read_exact_at(&mut digits, 0).ok()?;
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

/// Creates or empties a file with mode 0600.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// A file name for an id: the id itself if it has only plain letters, as our own ids do, else its hash.
pub(crate) fn file_name(id: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=128).contains(&id.len()) && id.bytes().all(plain) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(format!("hash-{}", blake3::hash(id.as_bytes()).to_hex()))
    }
}

/// Truncates a text to `limit` bytes, between letters, with a note.
fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let (kept, left_out) = text.split_at(text.floor_char_boundary(limit));
    Cow::Owned(format!("{kept}{}", truncation_note(left_out.len())))
}

/// The note at the end of a truncated output.
fn truncation_note(bytes: usize) -> String {
    format!("\n[{bytes} bytes more were not kept]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(of_one: usize, of_all: u64) -> (tempfile::TempDir, KeptOutputs) {
        let dir = tempfile::tempdir().unwrap();
        let outputs = KeptOutputs::in_state(dir.path(), of_one, of_all);
        (dir, outputs)
    }

    fn call(name: &str) -> CallId {
        CallId::new(name)
    }

    #[test]
    fn a_kept_output_is_read_back_for_any_id() {
        let (_dir, outputs) = outputs(100, 1000);
        for id in ["c1", "..", "", "a/b", "../../etc/passwd", "nul\0", &"long".repeat(100)] {
            assert_eq!(outputs.get(&call(id)).unwrap(), None, "{id:?}");
            outputs.keep(&call(id), "all of it").unwrap();
            assert_eq!(outputs.get(&call(id)).unwrap().as_deref(), Some("all of it"), "{id:?}");
        }
        outputs.remove(&call("c1")).unwrap();
        outputs.remove(&call("c1")).unwrap();
        assert_eq!(outputs.get(&call("c1")).unwrap(), None);
    }

    #[test]
    fn a_long_output_is_truncated_between_letters() {
        let (_dir, outputs) = outputs(4, 1000);
        let cases = [
            ("1234", "1234"),
            ("12345", "1234\n[1 bytes more were not kept]\n"),
            ("123äöü", "123\n[6 bytes more were not kept]\n"),
        ];
        for (text, kept) in cases {
            outputs.keep(&call("c"), text).unwrap();
            assert_eq!(outputs.get(&call("c")).unwrap().as_deref(), Some(kept));
        }
    }

    #[test]
    fn pieces_are_kept_like_one_text() {
        let (dir, outputs) = outputs(9, 10_000);
        for text in ["", "123456789", "1234567890", "äöüäöüäöü", "12345678ä1"] {
            let letters: Vec<String> = text.chars().map(String::from).collect();
            for at_once in 1..=letters.len().max(1) {
                let mut pieces = letters.chunks(at_once).map(<[String]>::concat);
                outputs.keep_pieces(&call("pieces"), &mut || pieces.next()).unwrap();
                outputs.keep(&call("whole"), text).unwrap();
                let [pieces, whole] = ["pieces", "whole"].map(|id| outputs.get(&call(id)).unwrap());
                assert_eq!(pieces, whole, "{text} {at_once}");
            }
        }
        let names = fs::read_dir(dir.path().join("outputs")).unwrap();
        assert_eq!(names.count(), 4, "two outputs, the tally and a directory");
        let unfinished = fs::read_dir(dir.path().join("outputs/unfinished")).unwrap();
        assert_eq!(unfinished.count(), 0);
    }

    #[test]
    fn unfinished_outputs_of_dead_writers_are_removed_and_those_of_living_ones_stay() {
        let (dir, of_dead) = outputs(100, 1000);
        let unfinished = dir.path().join("outputs/unfinished");
        of_dead.keep(&call("whole"), "x").unwrap();
        fs::write(unfinished.join("dead.1"), "half of").unwrap();
        let living = create_locked(&unfinished.join("living.2")).unwrap();
        let next = KeptOutputs::in_state(dir.path(), 100, 1000);
        next.keep(&call("next"), "y").unwrap();
        let left = || -> Vec<_> {
            fs::read_dir(&unfinished).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(left(), ["living.2"]);
        drop(living);
        KeptOutputs::in_state(dir.path(), 100, 1000).keep(&call("third"), "z").unwrap();
        assert!(left().is_empty(), "{:?}", left());
    }

    #[test]
    fn an_output_that_is_being_written_is_not_dropped() {
        let (dir, outputs) = outputs(100, 100);
        outputs.keep(&call("old"), &"x".repeat(40)).unwrap();
        let writing = dir.path().join("outputs/unfinished/living.2");
        let living = create_locked(&writing).unwrap();
        (&living).write_all(&[b'x'; 40]).unwrap();
        living.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        outputs.reserve(40).unwrap();
        outputs.keep(&call("new"), &"x".repeat(60)).unwrap();
        assert!(writing.exists());
        assert_eq!(outputs.get(&call("old")).unwrap(), None);
    }

    #[test]
    fn the_oldest_outputs_are_dropped_first() {
        let (dir, outputs) = outputs(100, 100);
        for (at, id) in ["b", "a", "d", "c"].into_iter().enumerate() {
            outputs.keep(&call(id), &"x".repeat(25)).unwrap();
            let file = File::open(dir.path().join(format!("outputs/{id}.txt"))).unwrap();
            let age = std::time::Duration::from_secs(at as u64);
            file.set_modified(SystemTime::UNIX_EPOCH + age).unwrap();
        }
        outputs.keep(&call("e"), &"x".repeat(25)).unwrap();
        let there: Vec<&str> = ["a", "b", "c", "d", "e"]
            .into_iter()
            .filter(|id| outputs.get(&call(id)).unwrap().is_some())
            .collect();
        assert_eq!(there, ["c", "d", "e"]);
        outputs.keep(&call("huge"), &"x".repeat(100)).unwrap();
        assert!(outputs.get(&call("huge")).unwrap().is_some());
        assert!(outputs.get(&call("e")).unwrap().is_none());
    }

    #[test]
    fn a_damaged_tally_is_counted_again() {
        let (dir, outputs) = outputs(100, 100);
        outputs.keep(&call("a"), &"x".repeat(60)).unwrap();
        fs::write(dir.path().join("outputs/tally"), "nonsense").unwrap();
        outputs.keep(&call("b"), &"x".repeat(60)).unwrap();
        assert_eq!(outputs.get(&call("a")).unwrap(), None);
    }
}
