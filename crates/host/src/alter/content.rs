//! Writes content to a file: from memory, or from another file without holding it in memory. Holes stay holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt as _};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use windlass_core::{ContentSource, Extent, OpenedContent};

/// Minimum bytes from which a copy first tries to share blocks with the original, and to keep holes.
const MIN_CLONE_BYTES: u64 = 128 << 10;

/// Maximum bytes of one `copy_file_range` call.
const MAX_BYTES_PER_CALL: usize = 1 << 30;

/// Writes all of the content at the beginning of a file, and returns its length. Bytes beyond that stay.
pub(crate) fn write(to: &File, content: ContentSource<'_>) -> io::Result<u64> {
    match content {
        ContentSource::Bytes(bytes) => {
            to.write_all_at(bytes, 0)?;
            Ok(bytes.len() as u64)
        }
        ContentSource::File(from) => copy(from, to),
        ContentSource::At(path) => copy(&File::open(path)?, to),
        ContentSource::Kept(kept) => match kept.open()? {
            OpenedContent::Bytes(bytes) => write(to, ContentSource::Bytes(&bytes)),
            OpenedContent::File(from) => copy(&from, to),
        },
    }
}

/// Copies a whole file and returns its length. The kernel copies, or shares the blocks where the file system can.
pub(crate) fn copy(from: &File, to: &File) -> io::Result<u64> {
    let facts = from.metadata()?;
    let len = facts.len();
    if len >= MIN_CLONE_BYTES && rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(len);
    }
    if len >= MIN_CLONE_BYTES && facts.blocks().saturating_mul(512) < len {
        return copy_extents(from, to);
    }
    let (mut read, mut written) = (0, 0);
    loop {
        match rustix::fs::copy_file_range(
            from,
            Some(&mut read),
            to,
            Some(&mut written),
            MAX_BYTES_PER_CALL,
        ) {
            // Some file systems report the end of the file when they cannot copy from it.
            Ok(0) if written == 0 => return copy_extents(from, to),
            // Bytes that were appended after the file was opened are not copied.
            Ok(_) if written >= len && len > 0 => return Ok(written),
            Ok(0) => return Ok(written),
            Ok(_) | Err(Errno::INTR) => {}
            // On a full or broken disk, or beyond the file size limit, copying by hand fails too.
            Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::FBIG)) => {
                return Err(errno.into());
            }
            Err(_) => return copy_extents(from, to),
        }
    }
}

/// Copies by reading and writing: for sparse files, and where the kernel cannot copy between the two file systems.
fn copy_extents(from: &File, to: &File) -> io::Result<u64> {
    let mut at = 0;
    let len = ContentSource::File(from).visit(&mut |extent| {
        match extent {
            Extent::Data(bytes) => {
                to.write_all_at(bytes, at)?;
                at += bytes.len() as u64;
            }
            Extent::Hole(length) => {
                zero_range(to, at, length)?;
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

/// Turns a range of a file into zeros, as a hole if possible. Does nothing beyond the end of the file.
fn zero_range(to: &File, at: u64, length: u64) -> io::Result<()> {
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

/// Writes zeros over a range, for file systems without holes.
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
    fn copy_has_the_bytes_and_the_holes() {
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
