//! Temporary files: new content is written to one beside the final path, and gets its name only when all of it is safe.
//!
//! Where the file system can, the file has no name until then, so a killed program leaves nothing behind: the kernel frees a file without a
//! name. Elsewhere it has an unpredictable name, or one that the caller recorded beforehand so that a later start can remove it.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use windlass_core::{Attributes, ContentSource};

use super::adopt::{self, Adopted, AdoptedFacts};
use super::content;
use crate::attributes;
use crate::durability::SyncPolicy;
use crate::kernel::{descriptor_path, stat_from};

/// Maximum attempts to find a free name.
const MAX_NAME_TRIES: usize = 16;

/// Way in which a temporary file is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TemporaryStyle {
    /// No name until the content is safe. Fails with `EOPNOTSUPP` where that is not possible.
    Unnamed,
    /// A name from the beginning.
    Named,
}

/// A new file in a directory. It is removed on drop unless it gets its final name.
#[derive(Debug)]
pub(super) struct TemporaryFile<'d> {
    directory: BorrowedFd<'d>,
    /// Name that is removed on drop.
    name: Option<String>,
    /// Path of a file of ours elsewhere that is moved here instead of a new file.
    adopted_path: Option<&'d Path>,
    /// True if the file has its content already.
    is_adopted: bool,
    /// Facts about the file elsewhere.
    facts: Option<AdoptedFacts>,
    pub(super) file: File,
}

impl<'d> TemporaryFile<'d> {
    /// Creates an empty file. A named one gets the name `wanted` if that is free, otherwise a random one.
    pub(super) fn create(
        directory: BorrowedFd<'d>,
        mode: Mode,
        style: TemporaryStyle,
        wanted: Option<&str>,
    ) -> Result<Self, Errno> {
        match style {
            TemporaryStyle::Unnamed => Self::create_unnamed(directory, mode),
            TemporaryStyle::Named => Self::create_named(directory, mode, wanted),
        }
    }

    /// Creates a file without a name; `EOPNOTSUPP` if the file system or kernel cannot.
    fn create_unnamed(directory: BorrowedFd<'d>, mode: Mode) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::openat(directory, ".", flags, mode) {
            Ok(file) => Ok(Self::new(directory, None, file.into())),
            // Error numbers of file systems and kernels without unnamed files.
            Err(Errno::ISDIR | Errno::INVAL | Errno::OPNOTSUPP) => Err(Errno::OPNOTSUPP),
            Err(errno) => Err(errno),
        }
    }

    /// Creates a file with a name.
    fn create_named(
        directory: BorrowedFd<'d>,
        mode: Mode,
        wanted: Option<&str>,
    ) -> Result<Self, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (name, file) =
            try_free_names(wanted, |name| rustix::fs::openat(directory, name, flags, mode))?;
        Ok(Self::new(directory, Some(name), file.into()))
    }

    /// Wraps a new, empty file.
    fn new(directory: BorrowedFd<'d>, name: Option<String>, file: File) -> Self {
        Self { directory, name, adopted_path: None, is_adopted: false, facts: None, file }
    }

    /// Returns a file that has the content already, if it can be used as it is: one that was prepared beside `target`, or one of ours
    /// elsewhere.
    pub(super) fn adopt(
        directory: BorrowedFd<'d>,
        target: &Path,
        content: ContentSource<'d>,
        wanted: Option<&Attributes>,
    ) -> Result<Option<Self>, Errno> {
        let ContentSource::At(place) = content else { return Ok(None) };
        if place.parent() == target.parent() {
            return Self::open_prepared(directory, place).map(Some);
        }
        let Some(wanted) = wanted else { return Ok(None) };
        let adopted = adopt::open(place, directory, wanted)?;
        Ok(adopted.map(|Adopted { file, facts }| Self {
            directory,
            name: None,
            adopted_path: Some(place),
            is_adopted: true,
            facts: Some(facts),
            file,
        }))
    }

    /// Opens a file that was prepared in the same directory.
    fn open_prepared(directory: BorrowedFd<'d>, place: &Path) -> Result<Self, Errno> {
        let name = place.file_name().and_then(|name| name.to_str()).ok_or(Errno::INVAL)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name, flags, Mode::empty())?.into();
        let name = Some(name.to_owned());
        Ok(Self { directory, name, adopted_path: None, is_adopted: true, facts: None, file })
    }

    /// Returns whether the file has its content already.
    pub(super) fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// Sets the wanted attributes; leaves out those that an adopted file has already.
    pub(super) fn set_attributes(&self, wanted: Option<&Attributes>) -> Result<(), Errno> {
        let modified = wanted.and_then(|wanted| wanted.modified);
        let Some(wanted) = wanted else { return attributes::give_time(&self.file, modified) };
        let Some(AdoptedFacts { raw, has_no_attributes }) = self.facts else {
            let now = rustix::fs::fstat(&self.file)?;
            attributes::give(&self.file, &now, wanted)?;
            return attributes::give_time(&self.file, modified);
        };
        if has_no_attributes && wanted.extended.as_ref().is_none_or(Vec::is_empty) {
            let wanted = Attributes { extended: None, ..wanted.clone() };
            attributes::give(&self.file, &raw, &wanted)?;
        } else {
            attributes::give(&self.file, &raw, wanted)?;
        }
        if modified == Some(stat_from(&raw).fingerprint.modified) {
            return Ok(());
        }
        attributes::give_time(&self.file, modified)
    }

    /// Keeps the file under its temporary name on drop, for later use.
    pub(super) fn keep_for_later(mut self) {
        self.name = None;
    }

    /// Returns whether the temporary file has this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }

    /// Waits until the disk has the file.
    pub(super) fn sync(&self, durability: SyncPolicy) -> Result<(), Errno> {
        if self.is_adopted {
            durability.sync_adopted(&self.file)
        } else {
            durability.sync_file(&self.file)
        }
    }

    /// Writes all of the content, unless the file has it already.
    pub(super) fn write_content(&mut self, content: ContentSource<'_>) -> Result<(), Errno> {
        if self.is_adopted {
            return Ok(());
        }
        content::write(&self.file, content).map(drop).map_err(|why| as_errno(&why))
    }

    /// Gives the file a temporary name if it has none, so that only a rename is left to do.
    pub(super) fn ensure_named(&mut self) -> Result<(), Errno> {
        if self.name.is_none() && self.adopted_path.is_none() {
            let (name, ()) = try_free_names(None, |name| self.link(name))?;
            self.name = Some(name);
        }
        Ok(())
    }

    /// Renames the file over the existing object `name`.
    pub(super) fn rename_over(&mut self, name: impl Arg) -> Result<(), Errno> {
        self.ensure_named()?;
        if let Some(place) = self.adopted_path {
            return rustix::fs::renameat(CWD, place, self.directory, name);
        }
        if let Some(own) = &self.name {
            rustix::fs::renameat(self.directory, own.as_str(), self.directory, name)?;
        }
        self.name = None;
        Ok(())
    }

    /// Gives the file the final name `name`, which must be free.
    pub(super) fn take_free_name(&mut self, name: impl Arg + Copy) -> Result<(), Errno> {
        if let Some(place) = self.adopted_path {
            return move_to_free_name(place, self.directory, name);
        }
        let Some(own) = self.name.as_deref() else { return self.link(name) };
        let directory = self.directory;
        match rustix::fs::renameat_with(directory, own, directory, name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.name = None;
                Ok(())
            }
            // Some file systems cannot refuse a taken name. A hard link can only be made under a free name; the temporary name is removed
            // on drop.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::linkat(directory, own, directory, name, AtFlags::empty())
            }
            Err(errno) => Err(errno),
        }
    }

    /// Gives a file without a name its first one, which must be free.
    fn link(&self, name: impl Arg) -> Result<(), Errno> {
        let own = descriptor_path(&self.file);
        match rustix::fs::linkat(CWD, own, self.directory, name, AtFlags::SYMLINK_FOLLOW) {
            Err(Errno::PERM | Errno::NOENT | Errno::XDEV | Errno::INVAL) => Err(Errno::OPNOTSUPP),
            linked => linked,
        }
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // A failure here cannot be handled; the error that led here is reported.
            let _ = rustix::fs::unlinkat(self.directory, name.as_str(), AtFlags::empty());
        }
    }
}

/// Moves a file to a name that must be free.
fn move_to_free_name(from: &Path, to: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<(), Errno> {
    match rustix::fs::renameat_with(CWD, from, to, name, RenameFlags::NOREPLACE) {
        // Some file systems cannot refuse a taken name. A hard link can only be made under a free name.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(CWD, from, to, name, AtFlags::empty())?;
            rustix::fs::unlinkat(CWD, from, AtFlags::empty())
        }
        moved => moved,
    }
}

/// Calls `attempt` with names until one is free: first the wanted one, then random ones. Returns the name and the result.
pub(super) fn try_free_names<T>(
    wanted: Option<&str>,
    mut attempt: impl FnMut(&str) -> Result<T, Errno>,
) -> Result<(String, T), Errno> {
    let wanted = wanted.filter(|name| is_name(name)).map(str::to_owned);
    for number in 0..MAX_NAME_TRIES {
        let name = match &wanted {
            Some(wanted) if number == 0 => wanted.clone(),
            _ => format!(".windlass-{:016x}.tmp", crate::random::number()?),
        };
        match attempt(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

/// Returns whether a text is a plain name in a directory, without `/`.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// Returns the error number of an I/O error; `EIO` if it has none.
pub(crate) fn as_errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
