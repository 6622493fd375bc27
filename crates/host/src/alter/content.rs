//! Brings bytes into a file: from memory, or from another file without ever holding all of it. Holes stay holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt as _};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use windlass_core::{Extent, Opened, Source};

/// From here on it is worth asking whether two files can share their blocks.
const WORTH_SHARING: u64 = 128 << 10;

/// As much as one call of the kernel copies.
const AT_ONCE: usize = 1 << 30;

/// Writes all of the content over what is at the beginning of a file, and says how long it is. What was beyond stays.
pub(crate) fn write(to: &File, content: Source<'_>) -> io::Result<u64> {
    match content {
        Source::Bytes(bytes) => {
            to.write_all_at(bytes, 0)?;
            Ok(bytes.len() as u64)
        }
        Source::File(from) => copy(from, to),
        Source::At(path) => copy(&File::open(path)?, to),
        Source::Kept(kept) => match kept.open()? {
            Opened::Bytes(bytes) => write(to, Source::Bytes(&bytes)),
            Opened::File(from) => copy(&from, to),
        },
    }
}

/// Copies a whole file. The kernel does it, without a copy of its own where the file system can share blocks.
pub(crate) fn copy(from: &File, to: &File) -> io::Result<u64> {
    let facts = from.metadata()?;
    let len = facts.len();
    if len >= WORTH_SHARING && rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(len);
    }
    if len >= WORTH_SHARING && facts.blocks().saturating_mul(512) < len {
        return copy_extents(from, to);
    }
    let (mut read, mut written) = (0, 0);
    loop {
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), AT_ONCE) {
            // Some file systems say that they have come to the end when they cannot tell.
            Ok(0) if written == 0 => return copy_extents(from, to),
            // What came after it was opened is not looked for, if it was there to be copied.
            Ok(_) if written >= len && len > 0 => return Ok(written),
            Ok(0) => return Ok(written),
            Ok(_) | Err(Errno::INTR) => {}
            // A full disk, a broken one, or a file that may not grow: copying by hand does not help.
            Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::FBIG)) => {
                return Err(errno.into());
            }
            Err(_) => return copy_extents(from, to),
        }
    }
}

/// Copies by hand: sparse files, and where the kernel does not copy from one file system to the other.
fn copy_extents(from: &File, to: &File) -> io::Result<u64> {
    let mut at = 0;
    let len = Source::File(from).visit(&mut |extent| {
        match extent {
            Extent::Data(bytes) => {
                to.write_all_at(bytes, at)?;
                at += bytes.len() as u64;
            }
            Extent::Hole(length) => {
                clear(to, at, length)?;
                at += length;
            }
        }
        Ok(())
    })?;
    if to.metadata()?.len() < len {
        to.set_len(len)?;
    }
    Ok(len)
}

/// Makes zeros of what is at a place of a file. Beyond its end there is nothing to be cleared.
fn clear(to: &File, at: u64, length: u64) -> io::Result<()> {
    let length = length.min(to.metadata()?.len().saturating_sub(at));
    if length == 0 {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(to, flags, at, length) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => write_zeros(to, at, length),
        cleared => Ok(cleared?),
    }
}

fn write_zeros(to: &File, mut at: u64, length: u64) -> io::Result<()> {
    let zeros = vec![0; 64 << 10];
    let end = at.saturating_add(length);
    while at < end {
        let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(zeros.len());
        to.write_all_at(zeros.get(..count).unwrap_or(&zeros), at)?;
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_bytes_and_the_holes() {
        const MIB: u64 = 1 << 20;
        let old = vec![b'x'; 9 << 20];
        for before in [&[], old.as_slice()] {
            let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
            from.set_len(1 << 40).unwrap();
            from.write_all_at(b"data", 3 * MIB + 1).unwrap();
            from.write_all_at(b"end", (1 << 40) - 3).unwrap();
            to.write_all_at(before, 0).unwrap();
            assert_eq!(copy(&from, &to).unwrap(), 1 << 40);
            let facts = to.metadata().unwrap();
            assert_eq!(facts.len(), 1 << 40);
            assert!(facts.blocks() * 512 < MIB, "{} blocks", facts.blocks());
            let mut start = vec![1; 9 << 20];
            to.read_exact_at(&mut start, 0).unwrap();
            let mut expected = vec![0; 9 << 20];
            expected[(3 << 20) + 1..][..4].copy_from_slice(b"data");
            assert!(start == expected);
            let mut end = [0; 4];
            to.read_exact_at(&mut end, (1 << 40) - 4).unwrap();
            assert_eq!(&end, b"\0end");
        }
    }
}
