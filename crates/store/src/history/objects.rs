//! Large contents: a file each, named by its hash, because neither a slot nor a row of a database is a good place for them.
//!
//! A file is written aside, made safe and moved into place, so what has the name is whole. Whoever records takes the shared lock from
//! looking whether a file is there until a slot says that it is needed; whoever removes files takes it alone and looks into the
//! slots. So none is removed that somebody counts on.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use windlass_core::{ContentHash, ContentHasher, Extent, Opened, Source};

use super::compress;
use crate::StoreError;

/// The directory of large contents.
#[derive(Debug, Clone)]
pub(super) struct Objects {
    dir: PathBuf,
    sync: bool,
    /// Files that were found to have the content that their names say, as they were then.
    checked: Arc<Mutex<HashMap<ContentHash, Stamp>>>,
}

/// What a file is, and when it was changed.
type Stamp = (u64, u64, i64, i64);

const COMPRESSED: &str = "zst";
const ASIDE: &str = "tmp";

impl Objects {
    pub(super) fn in_history(dir: &Path, sync: bool) -> Self {
        Self { dir: dir.join("objects"), sync, checked: Arc::default() }
    }

    /// Held while files are looked for and counted on.
    pub(super) fn lock(&self) -> Result<File, StoreError> {
        let lock = self.open_lock()?;
        lock.lock_shared().map_err(|why| self.lock_failed(why))?;
        Ok(lock)
    }

    /// Held while files are removed; nothing if somebody counts on files just now.
    pub(super) fn try_lock_to_remove(&self) -> Result<Option<File>, StoreError> {
        let lock = self.open_lock()?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(why)) => Err(self.lock_failed(why)),
        }
    }

    fn open_lock(&self) -> Result<File, StoreError> {
        let path = self.dir.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let opened = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_directory(&self.dir).and_then(|()| options.open(&path))
            }
            opened => opened,
        };
        opened.map_err(|why| self.lock_failed(why))
    }

    fn lock_failed(&self, why: io::Error) -> StoreError {
        StoreError::file("lock", &self.dir.join("lock"), why)
    }

    /// Keeps a content, unless it is kept already.
    pub(super) fn keep(&self, hash: &ContentHash, source: Source<'_>) -> Result<(), StoreError> {
        if self.size(hash)?.is_some() {
            return Ok(());
        }
        let path = self.path(hash);
        self.keep_at(&path, hash, source)
            .map_err(|why| StoreError::file("save a content in", &path, why))
    }

    fn keep_at(&self, path: &Path, hash: &ContentHash, source: Source<'_>) -> io::Result<()> {
        let shelf = path.parent().unwrap_or(&self.dir);
        make_directory(shelf)?;
        self.write_aside(path, path, |file| copy(source, file, hash))?;
        if self.sync {
            for directory in [shelf, self.dir.as_path()] {
                File::open(directory)?.sync_all()?;
            }
        }
        Ok(())
    }

    /// Writes a file under another name, makes it safe, and moves it into place; nothing is left of it if that fails.
    fn write_aside(
        &self,
        path: &Path,
        to: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let aside = aside(path);
        let written = create(&aside).and_then(|mut file| {
            write(&mut file)?;
            if self.sync { file.sync_all() } else { Ok(()) }
        });
        let moved = written.and_then(|()| fs::rename(&aside, to));
        if moved.is_err() {
            // It may not have been made at all.
            drop(fs::remove_file(&aside));
        }
        moved
    }

    /// A content that was kept, all in memory: the base of one that was changed in memory.
    pub(super) fn read(&self, hash: &ContentHash) -> Result<Vec<u8>, StoreError> {
        let opened = self.open(hash)?;
        let read = opened.source().read().map(Cow::into_owned);
        read.map_err(|why| StoreError::file("read", &self.path(hash), why))
    }

    /// Opens a content that was kept, which is what its hash says.
    pub(super) fn open(&self, hash: &ContentHash) -> Result<Opened, StoreError> {
        let failed = |path: &Path, why| StoreError::file("read", path, why);
        let (path, compressed) = (self.path(hash), self.compressed_path(hash));
        // In between it may have been compressed.
        let file = match open_if_there(&path).map_err(|why| failed(&path, why))? {
            Some(file) => Some(file),
            None => expand(&compressed).map_err(|why| failed(&compressed, why))?,
        };
        let Some(file) = file else { return Err(self.missing(hash)) };
        if self.is_as_named(&file, hash).map_err(|why| failed(&path, why))? {
            Ok(Opened::File(file))
        } else {
            Err(self.damaged(hash))
        }
    }

    /// Returns whether a file has the content that its name says. It is read once, as long as it is not changed.
    fn is_as_named(&self, file: &File, hash: &ContentHash) -> io::Result<bool> {
        let facts = file.metadata()?;
        let stamp = (facts.dev(), facts.ino(), facts.ctime(), facts.ctime_nsec());
        if crate::queue::lock(&self.checked).get(hash) == Some(&stamp) {
            return Ok(true);
        }
        let is_as_named = ContentHash::of_source(Source::File(file))? == *hash;
        if is_as_named {
            crate::queue::lock(&self.checked).insert(*hash, stamp);
        }
        Ok(is_as_named)
    }

    /// How much space a content takes, if it is kept.
    pub(super) fn size(&self, hash: &ContentHash) -> Result<Option<u64>, StoreError> {
        for path in [self.path(hash), self.compressed_path(hash)] {
            match fs::metadata(&path) {
                Ok(found) => return Ok(Some(space(&found))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(StoreError::file("look for", &path, why)),
            }
        }
        Ok(None)
    }

    /// Makes a file smaller if that is worth it; its new size then.
    pub(super) fn compress(&self, hash: &ContentHash) -> io::Result<Option<u64>> {
        let (path, compressed) = (self.path(hash), self.compressed_path(hash));
        let Ok(mut from) = File::open(&path) else { return Ok(None) };
        let (length, size) = (from.metadata()?.len(), space(&from.metadata()?));
        if length > Self::MAX_COMPRESSED || !is_compressible(&from)? {
            return Ok(None);
        }
        self.write_aside(&path, &compressed, |to| compress::copy(&mut from, to))?;
        let smaller = fs::metadata(&compressed)?.len();
        let useless = if smaller < size - size / 8 { &path } else { &compressed };
        fs::remove_file(useless)?;
        Ok((useless == &path).then_some(smaller))
    }

    /// Larger files are most often media, and would keep whoever ends the process waiting.
    const MAX_COMPRESSED: u64 = 256 << 20;

    pub(super) fn exists(&self) -> bool {
        self.dir.exists()
    }

    /// Removes a file that nobody needs; with the lock held.
    pub(super) fn remove(&self, hash: &ContentHash) -> Result<(), StoreError> {
        for path in [self.path(hash), self.compressed_path(hash)] {
            remove_if_there(&path).map_err(|why| StoreError::file("remove", &path, why))?;
        }
        Ok(())
    }

    /// Removes every file that nobody needs, and what was left by those who were killed while writing; with the lock held.
    pub(super) fn sweep(&self, is_needed: impl Fn(&ContentHash) -> bool) -> Result<(), StoreError> {
        self.sweep_shelves(is_needed).map_err(|why| StoreError::file("tidy", &self.dir, why))
    }

    fn sweep_shelves(&self, is_needed: impl Fn(&ContentHash) -> bool) -> io::Result<()> {
        for shelf in fs::read_dir(&self.dir)? {
            let shelf = shelf?;
            if !shelf.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(shelf.path())? {
                let path = file?.path();
                let hash = hash_of(&path);
                if hash.is_none_or(|hash| !is_needed(&hash)) {
                    remove_if_there(&path)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn missing(&self, hash: &ContentHash) -> StoreError {
        super::slot::damaged(&self.path(hash), "it is not there any more")
    }

    pub(super) fn damaged(&self, hash: &ContentHash) -> StoreError {
        super::slot::damaged(&self.path(hash), "it does not have the content that its name says")
    }

    fn path(&self, hash: &ContentHash) -> PathBuf {
        let name = hash.to_string();
        self.dir.join(name.get(..2).unwrap_or_default()).join(name)
    }

    fn compressed_path(&self, hash: &ContentHash) -> PathBuf {
        self.path(hash).with_extension(COMPRESSED)
    }
}

/// The content that a file holds, unless it is one that was never completed.
fn hash_of(path: &Path) -> Option<ContentHash> {
    match path.extension() {
        None => {}
        Some(ending) if ending == COMPRESSED => {}
        Some(_) => return None,
    }
    path.file_stem()?.to_str()?.parse().ok()
}

/// Tells by the beginning of a file.
fn is_compressible(file: &File) -> io::Result<bool> {
    let start = crate::spool::read_from(file, 0, 256 << 10)?;
    Ok(compress::shrink(&start).is_some())
}

/// Files that are longer may share their blocks.
const WORTH_SHARING: u64 = 1 << 20;

/// Copies a content, which must be what its hash says. Holes stay holes, and blocks are shared where the file system can.
fn copy(source: Source<'_>, to: &mut File, hash: &ContentHash) -> io::Result<()> {
    match source {
        Source::Bytes(bytes) => to.write_all(bytes),
        Source::File(from) => copy_file(from, to, hash),
        Source::At(path) => copy_file(&File::open(path)?, to, hash),
        Source::Kept(kept) => match kept.open()? {
            Opened::Bytes(bytes) => copy_pieces(Source::Bytes(&bytes), to, hash),
            Opened::File(from) => copy_file(&from, to, hash),
        },
    }
}

fn copy_file(from: &File, to: &File, hash: &ContentHash) -> io::Result<()> {
    let is_shared =
        from.metadata()?.len() > WORTH_SHARING && rustix::fs::ioctl_ficlone(to, from).is_ok();
    if !is_shared {
        return copy_pieces(Source::File(from), to, hash);
    }
    if ContentHash::of_source(Source::File(to))? == *hash {
        Ok(())
    } else {
        Err(changed_meanwhile())
    }
}

fn copy_pieces(source: Source<'_>, to: &File, hash: &ContentHash) -> io::Result<()> {
    let mut hasher = ContentHasher::default();
    let mut at = 0;
    let length = source.visit(&mut |extent| {
        hasher.update(extent);
        match extent {
            Extent::Hole(length) => at += length,
            Extent::Data(bytes) => {
                to.write_all_at(bytes, at)?;
                at += bytes.len() as u64;
            }
        }
        Ok(())
    })?;
    to.set_len(length)?;
    if hasher.finish() == *hash { Ok(()) } else { Err(changed_meanwhile()) }
}

/// Expands a compressed file, if it is there, into one without a name.
fn expand(path: &Path) -> io::Result<Option<File>> {
    let Some(from) = open_if_there(path)? else { return Ok(None) };
    let aside = aside(path);
    let mut to = create(&aside)?;
    fs::remove_file(&aside)?;
    compress::expand_to(from, &mut to)?;
    Ok(Some(to))
}

/// The space that a file takes: a hole takes none.
fn space(facts: &fs::Metadata) -> u64 {
    facts.len().min(facts.blocks().saturating_mul(512))
}

/// The name of a file that is not completed.
fn aside(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}-{number}.{ASIDE}", std::process::id()))
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

pub(super) fn changed_meanwhile() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file to be saved was changed at the same time")
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
