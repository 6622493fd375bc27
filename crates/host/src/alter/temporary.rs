//! The file beside the file: new content is written here, and takes its name only when all of it is safe.
//!
//! Where the file system can, it has no name at all until then. A program that is killed in the middle of writing leaves nothing
//! behind: the kernel forgets a file without a name. Elsewhere it has a name that nobody can foresee, or one that was written down
//! beforehand, so that whoever starts next can remove it.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use windlass_core::{Attributes, Source};

use super::adopt::{self, Adopted, Known};
use super::content;
use crate::attributes;
use crate::durability::Settling;
use crate::kernel::{descriptor_path, stat_from};

/// How often a name is drawn again that exists already.
const TRIES: usize = 16;

/// Whether a temporary file has a name from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// None until the content is safe. Where that is not possible, the answer is `EOPNOTSUPP`.
    Unnamed,
    Named,
}

/// A new file in a directory, which is gone again unless it gets its final name.
#[derive(Debug)]
pub(super) struct Temporary<'d> {
    directory: BorrowedFd<'d>,
    /// The name that must be removed if all does not go well.
    name: Option<String>,
    /// The place of a file of ours elsewhere that is moved here.
    elsewhere: Option<&'d Path>,
    /// Whether it has its content since before.
    is_adopted: bool,
    /// What is known of a file of ours elsewhere.
    known: Option<Known>,
    pub(super) file: File,
}

impl<'d> Temporary<'d> {
    /// A new, empty file. If it needs a name and none of the name `wanted` exists, that is its name.
    pub(super) fn create(
        directory: BorrowedFd<'d>,
        mode: Mode,
        style: Style,
        wanted: Option<&str>,
    ) -> Result<Self, Errno> {
        match style {
            Style::Unnamed => Self::create_unnamed(directory, mode),
            Style::Named => Self::create_named(directory, mode, wanted),
        }
    }

    fn create_unnamed(directory: BorrowedFd<'d>, mode: Mode) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::openat(directory, ".", flags, mode) {
            Ok(file) => Ok(Self::empty(directory, None, file.into())),
            // The answers of file systems, and of kernels, that do not know it.
            Err(Errno::ISDIR | Errno::INVAL | Errno::OPNOTSUPP) => Err(Errno::OPNOTSUPP),
            Err(errno) => Err(errno),
        }
    }

    fn create_named(
        directory: BorrowedFd<'d>,
        mode: Mode,
        wanted: Option<&str>,
    ) -> Result<Self, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (name, file) =
            with_name(wanted, |name| rustix::fs::openat(directory, name, flags, mode))?;
        Ok(Self::empty(directory, Some(name), file.into()))
    }

    fn empty(directory: BorrowedFd<'d>, name: Option<String>, file: File) -> Self {
        Self { directory, name, elsewhere: None, is_adopted: false, known: None, file }
    }

    /// A file that has the content already and only needs its name, if it can be used as it is: one that was prepared beside
    /// `target`, or one of ours elsewhere.
    pub(super) fn adopt(
        directory: BorrowedFd<'d>,
        target: &Path,
        content: Source<'d>,
        told: Option<&Attributes>,
    ) -> Result<Option<Self>, Errno> {
        let Source::At(place) = content else { return Ok(None) };
        if place.parent() == target.parent() {
            return Self::take_prepared(directory, place).map(Some);
        }
        let Some(told) = told else { return Ok(None) };
        let adopted = adopt::open(place, directory, told)?;
        Ok(adopted.map(|Adopted { file, known }| Self {
            directory,
            name: None,
            elsewhere: Some(place),
            is_adopted: true,
            known: Some(known),
            file,
        }))
    }

    fn take_prepared(directory: BorrowedFd<'d>, place: &Path) -> Result<Self, Errno> {
        let name = place.file_name().and_then(|name| name.to_str()).ok_or(Errno::INVAL)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name, flags, Mode::empty())?.into();
        let name = Some(name.to_owned());
        Ok(Self { directory, name, elsewhere: None, is_adopted: true, known: None, file })
    }

    /// Whether it has its content since before.
    pub(super) fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// Gives a new file what it is to have: what one of ours has already is not set again.
    pub(super) fn give(&self, wanted: Option<&Attributes>) -> Result<(), Errno> {
        let modified = wanted.and_then(|wanted| wanted.modified);
        let Some(wanted) = wanted else { return attributes::give_time(&self.file, modified) };
        let Some(Known { raw, is_bare }) = self.known else {
            let now = rustix::fs::fstat(&self.file)?;
            attributes::give(&self.file, &now, wanted)?;
            return attributes::give_time(&self.file, modified);
        };
        if is_bare && wanted.extended.as_ref().is_none_or(Vec::is_empty) {
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

    /// Leaves the file under the name that it has, for later.
    pub(super) fn leave(mut self) {
        self.name = None;
    }

    /// Whether it has this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }

    /// Waits until the disk has it.
    pub(super) fn settle(&self, durability: Settling) -> Result<(), Errno> {
        if self.is_adopted {
            durability.settle_adopted(&self.file)
        } else {
            durability.settle_file(&self.file)
        }
    }

    /// Writes all of the content.
    pub(super) fn fill(&mut self, content: Source<'_>) -> Result<(), Errno> {
        if self.is_adopted {
            return Ok(());
        }
        content::write(&self.file, content).map(drop).map_err(|why| as_errno(&why))
    }

    /// Gets a name, if it has none, so that only a rename is left to do.
    pub(super) fn get_ready(&mut self) -> Result<(), Errno> {
        if self.name.is_none() && self.elsewhere.is_none() {
            let (name, ()) = with_name(None, |name| self.link(name))?;
            self.name = Some(name);
        }
        Ok(())
    }

    /// Takes the place of what is called `name`.
    pub(super) fn replace(&mut self, name: impl Arg) -> Result<(), Errno> {
        self.get_ready()?;
        if let Some(place) = self.elsewhere {
            return rustix::fs::renameat(CWD, place, self.directory, name);
        }
        if let Some(own) = &self.name {
            rustix::fs::renameat(self.directory, own.as_str(), self.directory, name)?;
        }
        self.name = None;
        Ok(())
    }

    /// Takes the name `name` if nothing has it.
    pub(super) fn become_new(&mut self, name: impl Arg + Copy) -> Result<(), Errno> {
        if let Some(place) = self.elsewhere {
            return move_new(place, self.directory, name);
        }
        let Some(own) = self.name.as_deref() else { return self.link(name) };
        let directory = self.directory;
        match rustix::fs::renameat_with(directory, own, directory, name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.name = None;
                Ok(())
            }
            // Some file systems cannot promise that. A second name can only be a new one too; the first one goes as usual.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::linkat(directory, own, directory, name, AtFlags::empty())
            }
            Err(errno) => Err(errno),
        }
    }

    /// Gives a file without a name its first one, which nothing may have.
    fn link(&self, name: impl Arg) -> Result<(), Errno> {
        let own = descriptor_path(&self.file);
        match rustix::fs::linkat(CWD, own, self.directory, name, AtFlags::SYMLINK_FOLLOW) {
            Err(Errno::PERM | Errno::NOENT | Errno::XDEV | Errno::INVAL) => Err(Errno::OPNOTSUPP),
            linked => linked,
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing is left to do about a failure here; the error that led here is the one to tell.
            let _ = rustix::fs::unlinkat(self.directory, name.as_str(), AtFlags::empty());
        }
    }
}

/// Moves a file to a name that nothing may have.
fn move_new(from: &Path, to: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<(), Errno> {
    match rustix::fs::renameat_with(CWD, from, to, name, RenameFlags::NOREPLACE) {
        // Some file systems cannot promise that. A second name can only be a new one too; the first one goes as usual.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(CWD, from, to, name, AtFlags::empty())?;
            rustix::fs::unlinkat(CWD, from, AtFlags::empty())
        }
        moved => moved,
    }
}

/// Does something with a name that is free: the one that is wanted, or one that nobody can foresee.
pub(super) fn with_name<T>(
    wanted: Option<&str>,
    mut attempt: impl FnMut(&str) -> Result<T, Errno>,
) -> Result<(String, T), Errno> {
    let wanted = wanted.filter(|name| is_name(name)).map(str::to_owned);
    for number in 0..TRIES {
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

/// Whether it names something in a directory, and nothing elsewhere.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// What the kernel answered, out of an error of the standard library.
pub(crate) fn as_errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
