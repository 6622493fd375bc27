//! Contents of files, read in pieces: a file may be larger than the memory of the machine.
//!
//! A sparse file costs only as much as its data. Its holes are found with `SEEK_DATA` and `SEEK_HOLE` and passed on as lengths,
//! never as zeros.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::ContentHash;

/// The bytes of a file: in memory, in another file, or kept elsewhere and opened when they are needed.
///
/// ```
/// use windlass_core::ContentSource;
/// let content = ContentSource::from(b"hello".as_slice());
/// assert_eq!(content.read()?, b"hello".as_slice());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum ContentSource<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// All bytes of an open file.
    File(&'a File),
    /// All bytes of the file at this path, which no other program may change.
    At(&'a Path),
    /// Bytes kept elsewhere, and opened anew for each read.
    Kept(&'a dyn KeptContent),
}

/// A content that is kept elsewhere. It is opened when it is needed, so that thousands of them take no memory and no file handles.
///
/// ```
/// use windlass_core::{ContentHash, KeptContent, OpenedContent, ContentSource};
///
/// #[derive(Debug)]
/// struct Hello;
///
/// impl KeptContent for Hello {
///     fn hash(&self) -> ContentHash {
///         ContentHash::of(b"hello")
///     }
///     fn length(&self) -> u64 {
///         5
///     }
///     fn open(&self) -> std::io::Result<OpenedContent> {
///         Ok(OpenedContent::Bytes(b"hello".to_vec()))
///     }
/// }
/// assert_eq!(ContentSource::Kept(&Hello).read()?, b"hello".as_slice());
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait KeptContent: fmt::Debug + Sync {
    /// Returns the hash of the bytes.
    fn hash(&self) -> ContentHash;

    /// Returns the number of bytes.
    fn length(&self) -> u64;

    /// Opens the bytes for reading.
    fn open(&self) -> io::Result<OpenedContent>;
}

/// A content that is open for reading.
///
/// ```
/// use windlass_core::OpenedContent;
/// let opened = OpenedContent::Bytes(b"hello".to_vec());
/// assert_eq!(opened.length()?, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub enum OpenedContent {
    /// Bytes in memory: few enough for that.
    Bytes(Vec<u8>),
    /// All bytes of a file.
    File(File),
}

impl OpenedContent {
    /// Returns the bytes as a source.
    pub fn source(&self) -> ContentSource<'_> {
        match self {
            Self::Bytes(bytes) => ContentSource::Bytes(bytes),
            Self::File(file) => ContentSource::File(file),
        }
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> io::Result<u64> {
        self.source().length()
    }

    /// Fills the buffer with the bytes from an offset on, up to the end of the content. Returns the number of bytes read.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => read_full(file, buffer, at),
            Self::Bytes(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                let rest = rest.unwrap_or_default();
                let count = rest.len().min(buffer.len());
                if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
                    to.copy_from_slice(from);
                }
                Ok(count)
            }
        }
    }
}

/// A piece of a file's content.
///
/// ```
/// use windlass_core::Extent;
/// let length = |piece: &Extent<'_>| match piece {
///     Extent::Data(bytes) => bytes.len() as u64,
///     Extent::Hole(length) => *length,
/// };
/// assert_eq!(length(&Extent::Hole(1 << 40)), 1 << 40);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent<'a> {
    /// Bytes of data.
    Data(&'a [u8]),
    /// Number of zeros that take no space on the disk.
    Hole(u64),
}

/// Bytes of a piece in which files are read.
const PIECE_BYTES: usize = 128 << 10;

/// Bytes of a block in which file systems store data.
const BLOCK_BYTES: usize = 4 << 10;

/// Minimum bytes of a file whose holes are searched for.
const MIN_SPARSE_BYTES: u64 = 1 << 20;

impl<'a> ContentSource<'a> {
    /// Returns the number of bytes.
    pub fn length(self) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::At(path) => Ok(std::fs::symlink_metadata(path)?.len()),
            Self::Kept(kept) => Ok(kept.length()),
        }
    }

    /// Reads all bytes into memory. For contents that are known to be short; use [`ContentSource::visit`] for all others.
    pub fn read(self) -> io::Result<Cow<'a, [u8]>> {
        match self {
            Self::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::At(path) => Ok(Cow::Owned(read_whole(&File::open(path)?)?)),
            Self::File(file) => Ok(Cow::Owned(read_whole(file)?)),
            Self::Kept(kept) => match kept.open()? {
                OpenedContent::Bytes(bytes) => Ok(Cow::Owned(bytes)),
                OpenedContent::File(file) => Ok(Cow::Owned(read_whole(&file)?)),
            },
        }
    }

    /// Passes all bytes in order to `visit`, a piece at a time. Returns their number.
    pub fn visit(self, visit: &mut dyn FnMut(Extent<'_>) -> io::Result<()>) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => {
                visit(Extent::Data(bytes))?;
                Ok(bytes.len() as u64)
            }
            Self::File(file) => visit_file(file, visit),
            Self::At(path) => visit_file(&File::open(path)?, visit),
            Self::Kept(kept) => kept.open()?.source().visit(visit),
        }
    }

    /// Returns the space that the bytes take on the disk: holes take none.
    pub fn space(self) -> io::Result<u64> {
        let of = |facts: std::fs::Metadata| facts.len().min(facts.blocks().saturating_mul(512));
        match self {
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::File(file) => Ok(of(file.metadata()?)),
            Self::At(path) => Ok(of(std::fs::symlink_metadata(path)?)),
            Self::Kept(kept) if kept.length() < MIN_SPARSE_BYTES => Ok(kept.length()),
            Self::Kept(kept) => kept.open()?.source().space(),
        }
    }
}

impl<'a> From<&'a [u8]> for ContentSource<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

/// Reads a file into memory.
fn read_whole(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    // A content that does not fit into memory must be an error, not an abort.
    bytes.try_reserve_exact(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut buffer = vec![0; PIECE_BYTES.min(length.saturating_add(1))];
    read_pieces(file, &mut buffer, 0, u64::MAX, &mut |piece| {
        if let Extent::Data(data) = piece {
            bytes.extend_from_slice(data);
        }
        Ok(())
    })?;
    Ok(bytes)
}

/// Passes the pieces of a file to `visit`, holes of sparse files as lengths.
fn visit_file(file: &File, visit: &mut dyn FnMut(Extent<'_>) -> io::Result<()>) -> io::Result<u64> {
    let facts = file.metadata()?;
    let length = facts.len();
    let mut buffer = vec![
        0;
        usize::try_from(length.saturating_add(1))
            .map_or(PIECE_BYTES, |all| all.min(PIECE_BYTES))
    ];
    let is_sparse = length >= MIN_SPARSE_BYTES && facts.blocks().saturating_mul(512) < length;
    let mut at = 0;
    while is_sparse && at < length {
        let Some(data) = next_data(file, at, length) else { break };
        if data.start > at {
            visit(Extent::Hole(data.start - at))?;
        }
        let mut split = |extent: Extent<'_>| split_zeros(extent, visit);
        at = read_pieces(file, &mut buffer, data.start, data.end, &mut split)?;
        if at < data.end {
            return Ok(at);
        }
    }
    read_pieces(file, &mut buffer, at, u64::MAX, visit)
}

/// Passes on data of a sparse file without blocks that are all zeros: right after a write, file systems report data in larger
/// units.
fn split_zeros(
    extent: Extent<'_>,
    visit: &mut dyn FnMut(Extent<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let Extent::Data(mut rest) = extent else { return visit(extent) };
    let is_zeros = |page: &[u8]| page.iter().all(|byte| *byte == 0);
    while !rest.is_empty() {
        let is_hole = rest.chunks(BLOCK_BYTES).next().is_some_and(is_zeros);
        let alike = rest.chunks(BLOCK_BYTES).take_while(|page| is_zeros(page) == is_hole);
        let (run, later) = rest.split_at(alike.map(<[u8]>::len).sum());
        visit(if is_hole { Extent::Hole(run.len() as u64) } else { Extent::Data(run) })?;
        rest = later;
    }
    Ok(())
}

/// Returns the range of the next data of a sparse file, from `at` on: an empty range at the end of the file if there is none.
/// `None` if the file system does not report it.
fn next_data(file: &File, at: u64, length: u64) -> Option<std::ops::Range<u64>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return Some(length..length),
        found => found.ok()?.max(at),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start)).ok()?;
    (end > start).then_some(start..end)
}

/// Passes on the bytes between two offsets, or up to the end of the file. Returns the offset at which it stopped.
fn read_pieces(
    file: &File,
    buffer: &mut [u8],
    mut at: u64,
    end: u64,
    visit: &mut dyn FnMut(Extent<'_>) -> io::Result<()>,
) -> io::Result<u64> {
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        let read = read_full(file, buffer.get_mut(..most).unwrap_or_default(), at)?;
        if read > 0 {
            visit(Extent::Data(buffer.get(..read).unwrap_or_default()))?;
            at += read as u64;
        }
        if read < most {
            break;
        }
    }
    Ok(at)
}

/// Reads until the buffer is full or the file ends.
fn read_full(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        let rest = buffer.get_mut(filled..).unwrap_or_default();
        match file.read_at(rest, at + filled as u64) {
            Ok(0) => return Ok(filled),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether every byte of `content` equals the byte at the same offset in `old` or `new`. False if it is longer than both.
pub(crate) fn is_mixture(
    content: &OpenedContent,
    old: &OpenedContent,
    new: &OpenedContent,
) -> io::Result<bool> {
    let length = content.length()?;
    if length > old.length()?.max(new.length()?) {
        return Ok(false);
    }
    let mut buffers = [vec![0; PIECE_BYTES], vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]];
    let mut at = 0;
    while at < length {
        match compare_piece(&mut buffers, [content, old, new], at)? {
            ControlFlow::Continue(read) => at += read as u64,
            ControlFlow::Break(is_mixture) => return Ok(is_mixture),
        }
    }
    Ok(true)
}

/// Compares one piece. Continues after the returned number of bytes.
fn compare_piece(
    buffers: &mut [Vec<u8>; 3],
    [content, old, new]: [&OpenedContent; 3],
    at: u64,
) -> io::Result<ControlFlow<bool, usize>> {
    let [here, before, after] = buffers;
    let read = content.read_at(here, at)?;
    if read == 0 {
        return Ok(ControlFlow::Break(true));
    }
    let (old_read, new_read) = (old.read_at(before, at)?, new.read_at(after, at)?);
    let here = here.get(..read).unwrap_or_default();
    let before = before.get(..old_read).unwrap_or_default();
    let after = after.get(..new_read).unwrap_or_default();
    let is_of_either =
        |(at, byte): (usize, &u8)| before.get(at) == Some(byte) || after.get(at) == Some(byte);
    let is_mixture = here.iter().enumerate().all(is_of_either);
    Ok(if is_mixture { ControlFlow::Continue(read) } else { ControlFlow::Break(false) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a sparse file of this length with these bytes at these offsets.
    fn sparse(length: u64, data: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        for (at, bytes) in data {
            file.write_all_at(bytes, *at).unwrap();
        }
        file
    }

    #[test]
    fn a_visit_of_a_sparse_file_reads_only_its_data() {
        const GIB: u64 = 1 << 30;
        for (length, data) in [
            (200 * GIB, vec![]),
            (200 * GIB, vec![(0, b"begin".as_slice())]),
            (200 * GIB, vec![(100 * GIB + 5, b"middle".as_slice()), (200 * GIB - 3, b"end")]),
            (5, vec![(1, b"abc".as_slice())]),
            (0, vec![]),
        ] {
            let file = sparse(length, &data);
            let (mut at, mut read) = (0, 0);
            let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
            let visited = ContentSource::File(&file).visit(&mut |piece| {
                match piece {
                    Extent::Hole(hole) => at += hole,
                    Extent::Data(bytes) => {
                        read += bytes.len();
                        if let Some(first) = bytes.iter().position(|byte| *byte != 0) {
                            let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
                            found.push((at + first as u64, bytes[first..=last].to_vec()));
                        }
                        at += bytes.len() as u64;
                    }
                }
                Ok(())
            });
            assert_eq!((visited.unwrap(), at), (length, length));
            let data: Vec<(u64, Vec<u8>)> =
                data.into_iter().map(|(at, bytes)| (at, bytes.to_vec())).collect();
            assert_eq!(found, data);
            assert!(read < 1 << 20, "{read} bytes of {length} were read");
            assert!(ContentSource::File(&file).space().unwrap() < 1 << 20);
        }
    }

    #[test]
    fn a_mixture_has_each_byte_from_one_of_two() {
        let long = vec![b'x'; 3 * PIECE_BYTES];
        let mut mixed = long.clone();
        mixed[2 * PIECE_BYTES + 1] = b'y';
        let other = vec![b'y'; 3 * PIECE_BYTES];
        let opened = |bytes: &[u8]| OpenedContent::Bytes(bytes.to_vec());
        for (content, old, new, expected) in [
            (b"".as_slice(), b"old".as_slice(), b"new".as_slice(), true),
            (b"nld", b"old", b"new", true),
            (b"nxd", b"old", b"new", false),
            (b"longer", b"old", b"new", false),
            (b"newer", b"old", b"newer!", true),
            (&mixed, &long, &other, true),
            (&mixed, &long, &long, false),
        ] {
            assert_eq!(is_mixture(&opened(content), &opened(old), &opened(new)).unwrap(), expected);
        }
    }

    #[test]
    fn a_file_that_does_not_fit_into_memory_is_an_error() {
        let file = sparse(1 << 43, &[]);
        let error = ContentSource::File(&file).read().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
