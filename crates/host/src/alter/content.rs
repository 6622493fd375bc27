//! Brings bytes into a file: from memory, or from another file without ever holding all of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use windlass_core::Source;

/// From here on it is worth asking whether two files can share their blocks.
const WORTH_SHARING: u64 = 128 << 10;

/// As much as one call of the kernel copies.
const AT_ONCE: usize = 1 << 30;

const BUFFER: usize = 128 << 10;

/// Writes all of the content over what is at the beginning of a file, and says how long it is. What was beyond stays.
pub(crate) fn write(to: &File, content: Source<'_>) -> io::Result<u64> {
    match content {
        Source::Bytes(bytes) => {
            to.write_all_at(bytes, 0)?;
            Ok(bytes.len() as u64)
        }
        Source::File(from) => copy(from, to),
        Source::At(path) => copy(&File::open(path)?, to),
    }
}

/// Copies a whole file. The kernel does it, without a copy of its own where the file system can share blocks.
pub(crate) fn copy(from: &File, to: &File) -> io::Result<u64> {
    let len = from.metadata()?.len();
    if len >= WORTH_SHARING && rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(len);
    }
    let (mut read, mut written) = (0, 0);
    loop {
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), AT_ONCE) {
            // Some file systems say that they have come to the end when they cannot tell.
            Ok(0) if written == 0 => return copy_by_hand(from, to, 0),
            // What came after it was opened is not looked for, if it was there to be copied.
            Ok(_) if written >= len && len > 0 => return Ok(written),
            Ok(0) => return Ok(written),
            Ok(_) | Err(Errno::INTR) => {}
            // A full disk, a broken one, or a file that may not grow: copying by hand does not help.
            Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::FBIG)) => {
                return Err(errno.into());
            }
            Err(_) => return copy_by_hand(from, to, written),
        }
    }
}

/// For file systems between which the kernel does not copy.
fn copy_by_hand(from: &File, to: &File, mut at: u64) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read_at(&mut buffer, at) {
            Ok(0) => return Ok(at),
            Ok(read) => {
                to.write_all_at(buffer.get(..read).unwrap_or_default(), at)?;
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
