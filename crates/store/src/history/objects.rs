//! Object files: each large content has a file, named by its hash, because it is too large for a slot or a database row.
//!
//! A file is written under another name, synced and renamed, so a file with its final name is complete. A writer of a checkpoint holds
//! the lock `objects/lock` shared, from checking that a file exists until its slot names it. A process that removes files holds the lock
//! exclusively and reads the slots. So no file in use is removed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use windlass_core::{ContentHash, ContentHasher, ContentSource, Extent, OpenedContent};

use super::compress;
use crate::StoreError;

/// The directory of object files.
#[derive(Debug, Clone)]
pub(super) struct Objects {
    dir: PathBuf,
    sync: bool,
    /// The files whose hashes were checked, with their stamps at that time.
    checked: Arc<Mutex<HashMap<ContentHash, FileStamp>>>,
}

/// Device, inode and change time of a file.
type FileStamp = (u64, u64, i64, i64);

/// The extension of compressed files.
const COMPRESSED: &str = "zst";
/// The extension of files that are being written.
const UNFINISHED: &str = "tmp";

impl Objects {
    pub(super) fn in_history(dir: &Path, sync: bool) -> Self {
        Self { dir: dir.join("objects"), sync, checked: Arc::default() }
    }

    /// Takes the shared lock: no file is removed while it is held.
    pub(super) fn lock(&self) -> Result<File, StoreError> {
        let lock = self.open_lock()?;
        lock.lock_shared().map_err(|why| self.lock_failed(why))?;
        Ok(lock)
    }

    /// Takes the exclusive lock for removing files; `None` if another process holds the lock.
    pub(super) fn try_lock_to_remove(&self) -> Result<Option<File>, StoreError> {
        let lock = self.open_lock()?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(why)) => Err(self.lock_failed(why)),
        }
    }

    /// Opens the lock file, created if it is missing.
    fn open_lock(&self) -> Result<File, StoreError> {
        let path = self.dir.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let opened = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_directory(&self.dir).and_then(|()| options.open(&path))
            }
            opened => opened,
        };
        opened.map_err(|why| self.lock_failed(why))
    }

    fn lock_failed(&self, why: io::Error) -> StoreError {
        StoreError::file("lock", &self.dir.join("lock"), why)
    }

    /// Writes a content to its file, unless the file exists.
    pub(super) fn keep(
        &self,
        hash: &ContentHash,
        source: ContentSource<'_>,
    ) -> Result<(), StoreError> {
        if self.size(hash)?.is_some() {
            return Ok(());
        }
        let path = self.path(hash);
        self.keep_at(&path, hash, source)
            .map_err(|why| StoreError::file("save a content in", &path, why))
    }

    /// Writes a content to its path and syncs the directories.
    fn keep_at(
        &self,
        path: &Path,
        hash: &ContentHash,
        source: ContentSource<'_>,
    ) -> io::Result<()> {
        let subdirectory = path.parent().unwrap_or(&self.dir);
        create_directory(subdirectory)?;
        self.write_then_rename(path, path, |file| copy(source, file, hash))?;
        if self.sync {
            for directory in [subdirectory, self.dir.as_path()] {
                File::open(directory)?.sync_all()?;
            }
        }
        Ok(())
    }

    /// Writes a file under another name, syncs it and renames it; removes it on a failure.
    fn write_then_rename(
        &self,
        path: &Path,
        to: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let unfinished = unfinished_path(path);
        let written = create(&unfinished).and_then(|mut file| {
            write(&mut file)?;
            if self.sync { file.sync_all() } else { Ok(()) }
        });
        let moved = written.and_then(|()| fs::rename(&unfinished, to));
        if moved.is_err() {
            // The file may not exist.
            drop(fs::remove_file(&unfinished));
        }
        moved
    }

    /// Reads a whole content into memory, as the base of a delta, and checks its hash.
    pub(super) fn read(&self, hash: &ContentHash) -> Result<Vec<u8>, StoreError> {
        let opened = self.open(hash)?;
        let read = opened.source().read().map(Cow::into_owned);
        read.map_err(|why| StoreError::file("read", &self.path(hash), why))
    }

    /// Opens a content, decompressed if necessary, and checks its hash.
    pub(super) fn open(&self, hash: &ContentHash) -> Result<OpenedContent, StoreError> {
        let failed = |path: &Path, why| StoreError::file("read", path, why);
        let (path, compressed) = (self.path(hash), self.compressed_path(hash));
        // The file may have been compressed meanwhile.
        let file = match open_if_there(&path).map_err(|why| failed(&path, why))? {
            Some(file) => Some(file),
            None => decompress_to_unnamed(&compressed).map_err(|why| failed(&compressed, why))?,
        };
        let Some(file) = file else { return Err(self.missing(hash)) };
        if self.matches_hash(&file, hash).map_err(|why| failed(&path, why))? {
            Ok(OpenedContent::File(file))
        } else {
            Err(self.damaged(hash))
        }
    }

    /// Returns whether a file matches its hash. It is read only once, unless its stamp changes.
    fn matches_hash(&self, file: &File, hash: &ContentHash) -> io::Result<bool> {
        let facts = file.metadata()?;
        let stamp = (facts.dev(), facts.ino(), facts.ctime(), facts.ctime_nsec());
        if crate::queue::lock(&self.checked).get(hash) == Some(&stamp) {
            return Ok(true);
        }
        let matches_hash = ContentHash::of_source(ContentSource::File(file))? == *hash;
        if matches_hash {
            crate::queue::lock(&self.checked).insert(*hash, stamp);
        }
        Ok(matches_hash)
    }

    /// The disk space of a content; `None` if there is no file.
    pub(super) fn size(&self, hash: &ContentHash) -> Result<Option<u64>, StoreError> {
        for path in [self.path(hash), self.compressed_path(hash)] {
            match fs::metadata(&path) {
                Ok(found) => return Ok(Some(disk_space(&found))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(StoreError::file("look for", &path, why)),
            }
        }
        Ok(None)
    }

    /// Compresses a file; returns the new size, or `None` if the file stays as it is because that saves less than an eighth.
    pub(super) fn compress(&self, hash: &ContentHash) -> io::Result<Option<u64>> {
        let (path, compressed) = (self.path(hash), self.compressed_path(hash));
        let Ok(mut from) = File::open(&path) else { return Ok(None) };
        let (length, size) = (from.metadata()?.len(), disk_space(&from.metadata()?));
        if length > Self::MAX_COMPRESSED || !is_compressible(&from)? {
            return Ok(None);
        }
        self.write_then_rename(&path, &compressed, |to| compress::compress_file(&mut from, to))?;
        let smaller = fs::metadata(&compressed)?.len();
        let larger = if smaller < size - size / 8 { &path } else { &compressed };
        fs::remove_file(larger)?;
        Ok((larger == &path).then_some(smaller))
    }

    /// Larger files are not compressed: most are media, and compression would delay the end of the process.
    const MAX_COMPRESSED: u64 = 256 << 20;

    /// Returns whether the directory exists.
    pub(super) fn exists(&self) -> bool {
        self.dir.exists()
    }

    /// Removes the file of a content. The caller holds the exclusive lock.
    pub(super) fn remove(&self, hash: &ContentHash) -> Result<(), StoreError> {
        for path in [self.path(hash), self.compressed_path(hash)] {
            remove_if_there(&path).map_err(|why| StoreError::file("remove", &path, why))?;
        }
        Ok(())
    }

    /// Removes every file that is not needed, and unfinished files of killed processes. The caller holds the exclusive lock.
    pub(super) fn sweep(&self, is_needed: impl Fn(&ContentHash) -> bool) -> Result<(), StoreError> {
        self.sweep_subdirectories(is_needed).map_err(|why| StoreError::file("tidy", &self.dir, why))
    }

    /// Removes all unneeded files in the subdirectories.
    fn sweep_subdirectories(&self, is_needed: impl Fn(&ContentHash) -> bool) -> io::Result<()> {
        for subdirectory in fs::read_dir(&self.dir)? {
            let subdirectory = subdirectory?;
            if !subdirectory.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(subdirectory.path())? {
                let path = file?.path();
                let hash = hash_of(&path);
                if hash.is_none_or(|hash| !is_needed(&hash)) {
                    remove_if_there(&path)?;
                }
            }
        }
        Ok(())
    }

    /// The error for a missing file.
    pub(super) fn missing(&self, hash: &ContentHash) -> StoreError {
        super::slot::damaged(&self.path(hash), "it is not there any more")
    }

    /// The error for a file that does not match its hash.
    pub(super) fn damaged(&self, hash: &ContentHash) -> StoreError {
        super::slot::damaged(&self.path(hash), "its content does not match its name")
    }

    /// The path of the uncompressed file.
    fn path(&self, hash: &ContentHash) -> PathBuf {
        let name = hash.to_string();
        self.dir.join(name.get(..2).unwrap_or_default()).join(name)
    }

    fn compressed_path(&self, hash: &ContentHash) -> PathBuf {
        self.path(hash).with_extension(COMPRESSED)
    }
}

/// The hash in the name of a file; `None` for unfinished and other files.
fn hash_of(path: &Path) -> Option<ContentHash> {
    match path.extension() {
        None => {}
        Some(ending) if ending == COMPRESSED => {}
        Some(_) => return None,
    }
    path.file_stem()?.to_str()?.parse().ok()
}

/// Returns whether the beginning of a file compresses well.
fn is_compressible(file: &File) -> io::Result<bool> {
    let start = crate::log_format::read_from(file, 0, 256 << 10)?;
    Ok(compress::compress_if_smaller(&start).is_some())
}

/// Longer files are cloned with shared blocks, if the file system can.
const MIN_CLONE_BYTES: u64 = 1 << 20;

/// Copies a content and checks its hash. Holes stay holes, and blocks are shared where the file system can.
fn copy(source: ContentSource<'_>, to: &mut File, hash: &ContentHash) -> io::Result<()> {
    match source {
        ContentSource::Bytes(bytes) => to.write_all(bytes),
        ContentSource::File(from) => copy_file(from, to, hash),
        ContentSource::At(path) => copy_file(&File::open(path)?, to, hash),
        ContentSource::Kept(kept) => match kept.open()? {
            OpenedContent::Bytes(bytes) => copy_pieces(ContentSource::Bytes(&bytes), to, hash),
            OpenedContent::File(from) => copy_file(&from, to, hash),
        },
    }
}

/// Clones or copies a file and checks its hash.
fn copy_file(from: &File, to: &File, hash: &ContentHash) -> io::Result<()> {
    let is_shared =
        from.metadata()?.len() > MIN_CLONE_BYTES && rustix::fs::ioctl_ficlone(to, from).is_ok();
    if !is_shared {
        return copy_pieces(ContentSource::File(from), to, hash);
    }
    if ContentHash::of_source(ContentSource::File(to))? == *hash {
        Ok(())
    } else {
        Err(changed_meanwhile())
    }
}

/// Copies extents, leaves holes, and checks the hash.
fn copy_pieces(source: ContentSource<'_>, to: &File, hash: &ContentHash) -> io::Result<()> {
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

/// Decompresses a file into a new file without a name; `None` if there is no compressed file.
fn decompress_to_unnamed(path: &Path) -> io::Result<Option<File>> {
    let Some(from) = open_if_there(path)? else { return Ok(None) };
    let unfinished = unfinished_path(path);
    let mut to = create(&unfinished)?;
    fs::remove_file(&unfinished)?;
    compress::decompress_file(from, &mut to)?;
    Ok(Some(to))
}

/// The disk space of a file, without its holes.
fn disk_space(facts: &fs::Metadata) -> u64 {
    facts.len().min(facts.blocks().saturating_mul(512))
}

/// A unique name for a file that is being written.
fn unfinished_path(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}-{number}.{UNFINISHED}", std::process::id()))
}

/// Creates or empties a file with mode 0600.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Opens a file; `None` if it does not exist.
fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// The error for a file that was changed while it was saved.
pub(super) fn changed_meanwhile() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file to be saved was changed at the same time")
}

/// Removes a file, if it exists.
fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates a directory with mode 0700, with its parents.
fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
