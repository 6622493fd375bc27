//! Whole outputs, one file for each call: apart from the journal, because they are long and may be dropped.
//!
//! An output is written in `unfinished/` and moved into place when it is whole. Its writer holds a lock on it, so that the next one
//! can tell what was left by a process that was killed, and remove it.
//!
//! How much there is in all is kept in a small file, so that keeping one more does not list the directory; it may be too high after
//! a kill or a deletion, never too low, and is put right whenever the oldest are dropped.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::SystemTime;

use windlass_core::CallId;

use crate::StoreError;

const TALLY_DIGITS: usize = 20;

/// The directory of outputs that are being written.
const UNFINISHED: &str = "unfinished";

/// The directory of kept outputs.
#[derive(Debug)]
pub(crate) struct KeptOutputs {
    dir: PathBuf,
    limit_of_one: usize,
    limit_of_all: u64,
    swept: Once,
}

impl KeptOutputs {
    pub(crate) fn in_state(dir: &Path, limit_of_one: usize, limit_of_all: u64) -> Self {
        Self { dir: dir.join("outputs"), limit_of_one, limit_of_all, swept: Once::new() }
    }

    /// Keeps the text of a call, cut with a note if it is too long.
    pub(crate) fn keep(&self, call: &CallId, text: &str) -> Result<(), StoreError> {
        let path = self.path(call);
        let text = cut(text, self.limit_of_one);
        self.keep_in(&path, &text).map_err(|why| StoreError::file("keep the output in", &path, why))
    }

    /// The same for a text that comes in pieces, none of which is held longer than it takes to write it.
    pub(crate) fn keep_pieces(
        &self,
        call: &CallId,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), StoreError> {
        let path = self.path(call);
        self.aside(&path, |file| self.write_pieces(file, next))
            .map_err(|why| StoreError::file("keep the output in", &path, why))
    }

    fn write_pieces(
        &self,
        mut file: &File,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> io::Result<()> {
        let (mut room, mut left_out) = (self.limit_of_one, 0);
        while let Some(piece) = next() {
            // What follows something that had no room has none either.
            let fits = if left_out == 0 { piece.floor_char_boundary(room) } else { 0 };
            let (kept, rest) = piece.split_at(fits);
            self.reserve(kept.len() as u64)?;
            file.write_all(kept.as_bytes())?;
            room -= kept.len();
            left_out += rest.len();
        }
        if left_out > 0 {
            let note = not_kept(left_out);
            self.reserve(note.len() as u64)?;
            file.write_all(note.as_bytes())?;
        }
        Ok(())
    }

    /// The text of a call, if it is still there.
    pub(crate) fn get(&self, call: &CallId) -> Result<Option<String>, StoreError> {
        let path = self.path(call);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(StoreError::file("read the output in", &path, why)),
        }
    }

    /// Forgets the text of a call.
    pub(crate) fn remove(&self, call: &CallId) -> Result<(), StoreError> {
        let path = self.path(call);
        match fs::remove_file(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::file("remove the output in", &path, why))
            }
            _ => Ok(()),
        }
    }

    fn path(&self, call: &CallId) -> PathBuf {
        self.dir.join(format!("{}.txt", file_name(call.as_str())))
    }

    fn keep_in(&self, path: &Path, text: &str) -> io::Result<()> {
        self.reserve(text.len() as u64)?;
        self.aside(path, |mut file| file.write_all(text.as_bytes()))
    }

    /// Written aside and moved into place, so that a kill leaves no half of an output.
    fn aside(&self, path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let unfinished = self.dir.join(UNFINISHED);
        DirBuilder::new().recursive(true).mode(0o700).create(&unfinished)?;
        self.swept.call_once(|| sweep(&unfinished));
        let name = path.file_name().unwrap_or_default();
        let aside = unfinished.join(name).with_extension(std::process::id().to_string());
        let file = create_locked(&aside)?;
        let written = write(&file).and_then(|()| fs::rename(&aside, path));
        if written.is_err() {
            drop(fs::remove_file(&aside));
        }
        written
    }

    /// Counts what is about to be written, and makes room for it.
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let tally = self.open_tally()?;
        tally.lock()?;
        let mut total = match read_tally(&tally) {
            Some(total) => total,
            None => sizes(&self.list()?),
        };
        if total.saturating_add(bytes) > self.limit_of_all {
            // An eighth more than needed, so that the directory is listed once in a while and not each time.
            let room = (self.limit_of_all - self.limit_of_all / 8).saturating_sub(bytes);
            total = self.drop_oldest(room)?;
        }
        let total = total.saturating_add(bytes);
        tally.write_all_at(format!("{total:0TALLY_DIGITS$}").as_bytes(), 0)
    }

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

    /// Drops the oldest until the rest fits; the size of the rest.
    fn drop_oldest(&self, room: u64) -> io::Result<u64> {
        let mut kept = self.list()?;
        kept.sort();
        let mut total = sizes(&kept);
        for Kept { path, bytes, is_unfinished, .. } in kept {
            if total <= room {
                break;
            }
            if is_unfinished && !is_left_behind(&path) {
                continue;
            }
            fs::remove_file(path)?;
            total -= bytes;
        }
        Ok(total)
    }

    /// All files with outputs. Earlier versions wrote unfinished ones as `*.tmp` beside the others.
    fn list(&self) -> io::Result<Vec<Kept>> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == "txt" || ending == "tmp") {
                kept.extend(Kept::look(&entry, false)?);
            }
        }
        let unfinished = match fs::read_dir(self.dir.join(UNFINISHED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(kept),
            entries => entries?,
        };
        for entry in unfinished {
            kept.extend(Kept::look(&entry?, true)?);
        }
        Ok(kept)
    }
}

/// A kept file. The order is by age, then by name, which has the time in it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    modified: SystemTime,
    path: PathBuf,
    bytes: u64,
    is_unfinished: bool,
}

impl Kept {
    /// `None` if another process dropped it.
    fn look(entry: &fs::DirEntry, is_unfinished: bool) -> io::Result<Option<Self>> {
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

/// Removes what processes left behind which were killed while they wrote. What cannot be removed is tried again by the next one.
fn sweep(unfinished: &Path) {
    for entry in fs::read_dir(unfinished).into_iter().flatten().flatten() {
        if is_left_behind(&entry.path()) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Tells whether the writer of an unfinished output is gone: it holds a lock for as long as it lives.
fn is_left_behind(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Makes a file that no sweep takes for one that was left behind. A sweep may come between the making and the lock: then it is made
/// again.
fn create_locked(path: &Path) -> io::Result<File> {
    loop {
        let file = create_private(path)?;
        file.lock()?;
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

fn sizes(kept: &[Kept]) -> u64 {
    kept.iter().map(|kept| kept.bytes).sum()
}

fn read_tally(tally: &File) -> Option<u64> {
    let mut digits = [0; TALLY_DIGITS];
    tally.read_exact_at(&mut digits, 0).ok()?;
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Our own ids are names already; an id that a caller made may hold anything and is named by its hash.
pub(crate) fn file_name(id: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=128).contains(&id.len()) && id.bytes().all(plain) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(format!("hash-{}", blake3::hash(id.as_bytes()).to_hex()))
    }
}

fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let (kept, left_out) = text.split_at(text.floor_char_boundary(limit));
    Cow::Owned(format!("{kept}{}", not_kept(left_out.len())))
}

fn not_kept(bytes: usize) -> String {
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
    fn what_is_kept_comes_back() {
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
    fn a_long_one_is_cut_between_letters() {
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
    fn pieces_are_kept_as_the_whole_would_be() {
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
    fn what_the_dead_left_unfinished_is_removed_and_what_the_living_write_is_not() {
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
    fn what_is_being_written_makes_no_room() {
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
    fn the_oldest_make_room() {
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
    fn a_lost_tally_is_counted_anew() {
        let (dir, outputs) = outputs(100, 100);
        outputs.keep(&call("a"), &"x".repeat(60)).unwrap();
        fs::write(dir.path().join("outputs/tally"), "nonsense").unwrap();
        outputs.keep(&call("b"), &"x".repeat(60)).unwrap();
        assert_eq!(outputs.get(&call("a")).unwrap(), None);
    }
}
