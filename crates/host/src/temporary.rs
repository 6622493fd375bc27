//! The file beside the file: new content is written here, and takes the old one's name only when all of it is safe.

use std::fs::File;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::path::Arg;

/// How often a name is drawn again that exists already.
const TRIES: usize = 16;

/// A new file in a directory, which is gone again unless it gets its final name.
#[derive(Debug)]
pub(crate) struct Temporary<'d> {
    directory: BorrowedFd<'d>,
    name: String,
    pub(crate) file: File,
    kept: bool,
}

impl<'d> Temporary<'d> {
    /// A new, empty file under a name that nobody can foresee.
    pub(crate) fn create(directory: BorrowedFd<'d>, mode: Mode) -> Result<Self, Errno> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..TRIES {
            let name = format!(".windlass-{:016x}.tmp", crate::random::number()?);
            match rustix::fs::openat(directory, name.as_str(), flags, mode) {
                Ok(file) => return Ok(Self { directory, name, file: file.into(), kept: false }),
                Err(Errno::EXIST | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
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

    /// Takes the place of what is called `name`.
    pub(crate) fn replace(&mut self, name: impl Arg) -> Result<(), Errno> {
        rustix::fs::renameat(self.directory, self.name.as_str(), self.directory, name)?;
        self.kept = true;
        Ok(())
    }

    /// Takes the name `name` if nothing has it.
    pub(crate) fn become_new(&mut self, name: impl Arg + Copy) -> Result<(), Errno> {
        let (directory, own) = (self.directory, self.name.as_str());
        match rustix::fs::renameat_with(directory, own, directory, name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.kept = true;
                Ok(())
            }
            // Some file systems cannot promise that. A second name can only be a new one too; the first one goes as usual.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::linkat(directory, own, directory, name, AtFlags::empty())
            }
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing is left to do about a failure here; the error that led here is the one to tell.
            let _ = rustix::fs::unlinkat(self.directory, self.name.as_str(), AtFlags::empty());
        }
    }
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
