//! The file beside the file: new content is written here, and takes its name only when all of it is safe.
//!
//! Where the file system can, it has no name at all until then. A program that is killed in the middle of writing leaves nothing
//! behind: the kernel forgets a file without a name. Elsewhere it has a name that nobody can foresee.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::path::Arg;

/// How often a name is drawn again that exists already.
const TRIES: usize = 16;

/// Whether a temporary file has a name from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// None until the content is safe. Where that is not possible, the answer is `EOPNOTSUPP`.
    Unnamed,
    Named,
}

/// A new file in a directory, which is gone again unless it gets its final name.
#[derive(Debug)]
pub(crate) struct Temporary<'d> {
    directory: BorrowedFd<'d>,
    /// The name that must be removed if all does not go well.
    name: Option<String>,
    pub(crate) file: File,
}

impl<'d> Temporary<'d> {
    /// A new, empty file.
    pub(crate) fn create(
        directory: BorrowedFd<'d>,
        mode: Mode,
        style: Style,
    ) -> Result<Self, Errno> {
        match style {
            Style::Unnamed => Self::create_unnamed(directory, mode),
            Style::Named => Self::create_named(directory, mode),
        }
    }

    fn create_unnamed(directory: BorrowedFd<'d>, mode: Mode) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::openat(directory, ".", flags, mode) {
            Ok(file) => Ok(Self { directory, name: None, file: file.into() }),
            // The answers of file systems, and of kernels, that do not know it.
            Err(Errno::ISDIR | Errno::INVAL | Errno::OPNOTSUPP) => Err(Errno::OPNOTSUPP),
            Err(errno) => Err(errno),
        }
    }

    fn create_named(directory: BorrowedFd<'d>, mode: Mode) -> Result<Self, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (name, file) = draw_name(|name| rustix::fs::openat(directory, name, flags, mode))?;
        Ok(Self { directory, name: Some(name), file: file.into() })
    }

    /// Writes all of the content.
    pub(crate) fn fill(&mut self, content: &[u8]) -> Result<(), Errno> {
        self.file.write_all(content).map_err(|why| as_errno(&why))
    }

    /// Waits until the disk has all of it.
    pub(crate) fn settle(&self) -> Result<(), Errno> {
        touch(&self.file)?;
        rustix::fs::fsync(&self.file)
    }

    /// Gets a name, if it has none, so that only a rename is left to do.
    pub(crate) fn get_ready(&mut self) -> Result<(), Errno> {
        if self.name.is_none() {
            let (name, ()) = draw_name(|name| self.link(name))?;
            self.name = Some(name);
        }
        Ok(())
    }

    /// Takes the place of what is called `name`.
    pub(crate) fn replace(&mut self, name: impl Arg) -> Result<(), Errno> {
        self.get_ready()?;
        if let Some(own) = &self.name {
            rustix::fs::renameat(self.directory, own.as_str(), self.directory, name)?;
        }
        self.name = None;
        Ok(())
    }

    /// Takes the name `name` if nothing has it.
    pub(crate) fn become_new(&mut self, name: impl Arg + Copy) -> Result<(), Errno> {
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
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
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

/// Tries names until one is free.
fn draw_name<T>(mut attempt: impl FnMut(&str) -> Result<T, Errno>) -> Result<(String, T), Errno> {
    for _ in 0..TRIES {
        let name = format!(".windlass-{:016x}.tmp", crate::random::number()?);
        match attempt(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST | Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

/// Sets the time of the last change to the nanosecond.
///
/// The kernel's own stamp can be milliseconds coarse. Two changes within that time, and the inode of the first used again for the
/// second, would have one fingerprint.
pub(crate) fn touch(file: &File) -> Result<(), Errno> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let modified = Timespec {
        tv_sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: now.subsec_nanos().into(),
    };
    let untouched = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    rustix::fs::futimens(file, &Timestamps { last_access: untouched, last_modification: modified })
}

/// What the kernel answered, out of an error of the standard library.
pub(crate) fn as_errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
