//! Changes a file so that it holds all of the new bytes or all of the old ones, whatever happens.
//!
//! New content goes to a temporary file in the same directory, to the disk, and then under the final name, by one rename. What is
//! there is compared with what was expected before anything is written and once more right before the rename.
//!
//! A file that is more than one name can say (it has several hard links, or an owner whom we cannot give the new one to) keeps its
//! inode and is written in place instead; the old bytes are put back if that fails, but a crash in the middle can leave a mixture.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use windlass_core::{
    Change, Expect, FileError, FileErrorKind, FileKind, Fingerprint, Resolved, Stat, Written,
};

use crate::attributes;
use crate::kernel::{
    FOR_READING, Lookup, meaning, open_child, refusal, stat, stat_child, stat_from,
};
use crate::locks::{Locks, lock_between_processes};
use crate::parents::{Parents, open_directory};
use crate::resolver::{Resolver, same_object};
use crate::temporary::{Style, Temporary, as_errno, touch};

/// For writing a file in place.
const FOR_WRITING: OFlags = FOR_READING.union(OFlags::RDWR);

/// Makes a change, or leaves everything as it was.
pub(crate) fn change(
    resolver: &Resolver,
    locks: &Locks,
    path: &Resolved,
    change: &Change<'_>,
) -> Result<Written, FileError> {
    let _held = locks.hold(&path.path);
    // A file without a name needs `/proc` to get one.
    let style = match resolver.lookup() {
        Lookup::AtOnce => Style::Unnamed,
        Lookup::ByComponent => Style::Named,
    };
    let changed = match attempt(resolver, path, change, style) {
        Err(FileErrorKind::Io(why)) if as_errno(&why) == Errno::OPNOTSUPP => {
            attempt(resolver, path, change, Style::Named)
        }
        changed => changed,
    };
    changed.map_err(|kind| refusal("write", path, kind))
}

fn attempt(
    resolver: &Resolver,
    path: &Resolved,
    change: &Change<'_>,
    style: Style,
) -> Result<Written, FileErrorKind> {
    let (Some(parent), Some(name)) = (path.path.parent(), path.path.file_name()) else {
        return Err(FileErrorKind::NotRegular(FileKind::Directory));
    };
    match change.expect {
        Expect::Absent => {
            let parents = Parents::make(resolver, parent).map_err(meaning)?;
            create(&parents, name, change.content, style)
        }
        Expect::Same(seen) => {
            let parent = resolver.resolved(parent.to_owned(), true);
            let directory = open_directory(resolver, &parent).map_err(stale_if_missing)?;
            let target = Target { directory: &directory, name, seen };
            target.replace(change.content, style)
        }
    }
}

fn create(
    parents: &Parents,
    name: &OsStr,
    content: &[u8],
    style: Style,
) -> Result<Written, FileErrorKind> {
    let directory = parents.directory();
    if stat_child(directory, name).is_ok() {
        return Err(FileErrorKind::Exists);
    }
    // The final mode from the beginning: so the kernel applies the umask, or the directory's own default.
    let mode = Mode::from_raw_mode(0o666);
    let mut temporary = Temporary::create(directory, mode, style).map_err(meaning)?;
    temporary.fill(content).map_err(meaning)?;
    temporary.settle().map_err(meaning)?;
    temporary.become_new(name).map_err(meaning)?;
    parents.settle().map_err(unconfirmed)?;
    written(&temporary.file, true)
}

/// Does something to the name of a regular file that is still what it was when it was seen, while nobody who knows our locks can
/// change it.
pub(crate) fn with_seen<T>(
    resolver: &Resolver,
    path: &Resolved,
    seen: Fingerprint,
    act: impl FnOnce(&OwnedFd, &OsStr) -> Result<T, FileErrorKind>,
) -> Result<T, FileErrorKind> {
    let (Some(parent), Some(name)) = (path.path.parent(), path.path.file_name()) else {
        return Err(FileErrorKind::NotRegular(FileKind::Directory));
    };
    let parent = resolver.resolved(parent.to_owned(), true);
    let directory = open_directory(resolver, &parent).map_err(stale_if_missing)?;
    let target = Target { directory: &directory, name, seen };
    target.look()?;
    let _locked = target.lock()?;
    // Whoever held the lock may have changed it.
    target.look()?;
    act(&directory, name)
}

/// A file that is to be replaced, moved or removed.
struct Target<'a> {
    directory: &'a OwnedFd,
    name: &'a OsStr,
    seen: Fingerprint,
}

/// What was found in its place.
struct Old {
    stat: Stat,
    owner: Uid,
    group: Gid,
}

impl Target<'_> {
    fn replace(&self, content: &[u8], style: Style) -> Result<Written, FileErrorKind> {
        self.look()?;
        self.check_writable()?;
        let reader = self.lock()?;
        // Whoever held the lock may have changed it.
        let old = self.look()?;
        if old.stat.links > 1 {
            return self.write_in_place(&old, reader.as_ref(), content);
        }
        let mode = Mode::from_raw_mode(0o600);
        let mut temporary =
            Temporary::create(self.directory.as_fd(), mode, style).map_err(meaning)?;
        if !old.give_owner_to(&temporary.file).map_err(meaning)? {
            return self.write_in_place(&old, reader.as_ref(), content);
        }
        temporary.fill(content).map_err(meaning)?;
        old.give_mode_to(&temporary.file).map_err(meaning)?;
        if let Some(reader) = &reader {
            attributes::copy(reader, &temporary.file);
        }
        temporary.settle().map_err(meaning)?;
        temporary.get_ready().map_err(meaning)?;
        self.look()?;
        temporary.replace(self.name).map_err(meaning)?;
        sync_directory(self.directory).map_err(unconfirmed)?;
        written(&temporary.file, false)
    }

    /// Makes sure that the file is still what was expected.
    fn look(&self) -> Result<Old, FileErrorKind> {
        let raw = rustix::fs::statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(stale_if_missing)?;
        let stat = stat_from(&raw);
        match stat.kind {
            FileKind::File if stat.fingerprint == self.seen => {}
            FileKind::File => return Err(FileErrorKind::Stale),
            FileKind::Symlink => return Err(FileErrorKind::Changed),
            other => return Err(FileErrorKind::NotRegular(other)),
        }
        Ok(Old { stat, owner: Uid::from_raw(raw.st_uid), group: Gid::from_raw(raw.st_gid) })
    }

    /// A rename needs no right to the file itself. That it is read-only still means something.
    fn check_writable(&self) -> Result<(), FileErrorKind> {
        let access =
            rustix::fs::accessat(self.directory, self.name, Access::WRITE_OK, AtFlags::EACCESS);
        match access {
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(meaning(errno)),
            _ => Ok(()),
        }
    }

    /// Locks the file against other processes, if it can be opened for that.
    fn lock(&self) -> Result<Option<File>, FileErrorKind> {
        match open_child(self.directory.as_fd(), self.name, FOR_READING) {
            Ok(file) => {
                lock_between_processes(&file).map_err(FileErrorKind::Io)?;
                Ok(Some(file.into()))
            }
            Err(Errno::ACCESS | Errno::PERM) => Ok(None),
            Err(errno) => Err(stale_if_missing(errno)),
        }
    }

    fn write_in_place(
        &self,
        old: &Old,
        reader: Option<&File>,
        content: &[u8],
    ) -> Result<Written, FileErrorKind> {
        let file = open_child(self.directory.as_fd(), self.name, FOR_WRITING).map_err(meaning)?;
        if !same_object(&stat(&file).map_err(meaning)?, &old.stat) {
            return Err(FileErrorKind::Stale);
        }
        let file = File::from(file);
        let before = reader.map(|reader| whole(reader, old.stat.len)).transpose();
        let before = before.map_err(|why| meaning(as_errno(&why)))?;
        if let Err(why) = overwrite(&file, content) {
            if let Some(before) = before {
                // The first error is the one to tell, whether or not this helps.
                drop(overwrite(&file, &before));
            }
            return Err(meaning(as_errno(&why)));
        }
        written(&file, false)
    }
}

impl Old {
    /// Whether the new file has the old one's owner and group, or could be given them.
    fn give_owner_to(&self, new: &File) -> Result<bool, Errno> {
        let raw = rustix::fs::fstat(new)?;
        if (raw.st_uid, raw.st_gid) == (self.owner.as_raw(), self.group.as_raw()) {
            return Ok(true);
        }
        match rustix::fs::fchown(new, Some(self.owner), Some(self.group)) {
            Ok(()) => Ok(true),
            Err(Errno::PERM | Errno::INVAL) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn give_mode_to(&self, new: &File) -> Result<(), Errno> {
        rustix::fs::fchmod(new, Mode::from_raw_mode(self.stat.mode))
    }
}

fn overwrite(file: &File, content: &[u8]) -> io::Result<()> {
    file.write_all_at(content, 0)?;
    file.set_len(content.len() as u64)?;
    touch(file)?;
    file.sync_all()
}

fn whole(file: &File, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn written(file: &File, created: bool) -> Result<Written, FileErrorKind> {
    Ok(Written { created, stat: stat(file).map_err(meaning)? })
}

/// Makes a rename durable. Not every file system, and not every handle, can say that it is.
pub(crate) fn sync_directory(directory: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::fsync(directory) {
        Err(Errno::INVAL | Errno::BADF | Errno::OPNOTSUPP) | Ok(()) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// What was there to be replaced is gone.
pub(crate) fn stale_if_missing(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::NOENT | Errno::NOTDIR => FileErrorKind::Stale,
        other => meaning(other),
    }
}

fn unconfirmed(errno: Errno) -> FileErrorKind {
    FileErrorKind::Io(io::Error::other(format!(
        "the new content is in place, but the disk did not confirm it ({errno})"
    )))
}
