//! The index file: one record for each directory of a surveyed tree, in the order of a depth-first walk.
//!
//! A header (magic string with version, checksum) is followed by the key (root, rule and names the index was made for), the inputs
//! from above the root, and the records. Numbers are LEB128, byte strings are preceded by their length. A file that differs in any
//! byte from what was written is not used.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::Mode;
use windlass_core::{FileKind, Fingerprint};

use super::encode::{put_bytes, put_length};
use crate::inputs::InputState;
use crate::kernel::{FOR_READING, as_path};

/// Changes with every change of the format or of the meaning of a finding.
pub(super) const MAGIC: &[u8] = b"windlass survey 2\n";
/// Length of the checksum in the header.
pub(super) const CHECKSUM_BYTES: usize = blake3::OUT_LEN;

/// Maximum bytes of an index file that is read. An index of ten million directories is smaller.
const MAX_BYTES: u64 = 1 << 30;

/// Change time that marks a directory to be listed again.
pub(super) const LIST_AGAIN: i64 = i64::MIN;

/// All kinds of findings. The position in the list is the number in the file.
pub(super) const KINDS: [FindingKind; 11] = [
    FindingKind::Masked(FileKind::File),
    FindingKind::Masked(FileKind::Directory),
    FindingKind::Masked(FileKind::Symlink),
    FindingKind::Masked(FileKind::Fifo),
    FindingKind::Masked(FileKind::Socket),
    FindingKind::Masked(FileKind::Device),
    FindingKind::BuildDirectory,
    FindingKind::Socket,
    FindingKind::Git,
    FindingKind::BareRepository,
    FindingKind::Protected,
];

/// Kind of a finding about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FindingKind {
    Masked(FileKind),
    BuildDirectory,
    Socket,
    Git,
    /// The directory itself is a bare repository; the finding has no name.
    BareRepository,
    Protected,
}

/// The tree, rule and names that an index is valid for, encoded.
pub(super) struct IndexKey(pub(super) Vec<u8>);

/// A decoded index. Borrows from the bytes of the file.
#[derive(Default)]
pub(super) struct Index<'a> {
    /// Everything after the key, as in the file.
    pub(super) records: &'a [u8],
    /// The encoded inputs from above the root.
    pub(super) above_bytes: &'a [u8],
    pub(super) above: Range<usize>,
    nodes: Vec<IndexNode<'a>>,
    inputs: Vec<(&'a Path, InputState)>,
    findings: Vec<(FindingKind, &'a [u8])>,
}

/// One decoded record.
#[derive(Clone)]
pub(super) struct IndexNode<'a> {
    pub(super) name: &'a [u8],
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) changed: i64,
    pub(super) rule_inputs: Range<usize>,
    pub(super) inputs: Range<usize>,
    pub(super) findings: Range<usize>,
    /// The whole record as in the file.
    pub(super) bytes: &'a [u8],
    /// Number of the first node after those below this one.
    end: usize,
}

impl IndexKey {
    pub(super) fn new(root: &Path, rule: u64, build_names: &[String]) -> Self {
        let mut key = rule.to_le_bytes().to_vec();
        put_bytes(&mut key, root.as_os_str().as_bytes());
        put_length(&mut key, build_names.len());
        for name in build_names {
            put_bytes(&mut key, name.as_bytes());
        }
        Self(key)
    }
}

impl<'a> Index<'a> {
    /// Returns the node of this number.
    pub(super) fn get(&self, at: usize) -> Option<&IndexNode<'a>> {
        self.nodes.get(at)
    }

    /// Iterates over the numbers of the directories right below one.
    pub(super) fn children(&self, at: usize) -> impl Iterator<Item = usize> {
        let end = self.nodes.get(at).map_or(0, |node| node.end);
        let next =
            move |at: &usize| self.nodes.get(*at).map(|node| node.end).filter(|at| *at < end);
        std::iter::successors(Some(at + 1).filter(|first| *first < end), next)
    }

    /// Returns the inputs in a range of a node.
    pub(super) fn inputs(&self, range: &Range<usize>) -> &[(&'a Path, InputState)] {
        self.inputs.get(range.clone()).unwrap_or_default()
    }

    /// Returns the findings in a range of a node.
    pub(super) fn findings(&self, range: &Range<usize>) -> &[(FindingKind, &'a [u8])] {
        self.findings.get(range.clone()).unwrap_or_default()
    }

    /// Returns whether all these files are unchanged.
    pub(super) fn are_current(&self, range: &Range<usize>) -> bool {
        self.inputs(range).iter().all(|(path, state)| state.is_current(path))
    }
}

/// Reads an index file; `None` if it does not exist or cannot be used.
pub(super) fn load(path: &Path) -> Option<Vec<u8>> {
    let file = std::fs::File::from(rustix::fs::open(path, FOR_READING, Mode::empty()).ok()?);
    let found = file.metadata().ok()?;
    if !found.is_file() || found.len() > MAX_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or(0) + 1);
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Replaces an index file atomically. If two processes do so at once, the last one wins.
pub(super) fn save(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let mut temporary = name.to_owned();
    temporary.push(format!(".{:016x}.tmp", crate::random::number()?));
    let temporary = parent.join(temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    // A sweep for leftovers removes temporary files that are not locked.
    drop(file.try_lock());
    // Not synced: if a crash loses a part of it, the checksum fails.
    let saved = file.write_all(bytes).and_then(|()| std::fs::rename(&temporary, path));
    if saved.is_err() {
        // The first failure is the one to report.
        drop(std::fs::remove_file(&temporary));
    }
    saved
}

/// Decodes the bytes of an index file; `None` if it was made for another key or is damaged.
pub(super) fn decode<'a>(bytes: &'a [u8], key: &IndexKey) -> Option<Index<'a>> {
    let (checksum, rest) = bytes.strip_prefix(MAGIC)?.split_at_checked(CHECKSUM_BYTES)?;
    if blake3::hash(rest).as_bytes() != checksum {
        return None;
    }
    let records = rest.strip_prefix(key.0.as_slice())?;
    let mut index = Index { records, ..Index::default() };
    let mut reader = RecordReader { rest: records };
    index.above = reader.inputs(&mut index.inputs)?;
    index.above_bytes = records.get(..records.len() - reader.rest.len())?;
    let mut open: Vec<(usize, u64)> = Vec::new();
    while !reader.rest.is_empty() {
        let at = index.nodes.len();
        match open.last_mut() {
            Some((_, left)) => *left = left.checked_sub(1)?,
            None if at > 0 => return None,
            None => {}
        }
        let children = reader.node(&mut index)?;
        open.push((at, children));
        while let Some((at, 0)) = open.last() {
            let end = index.nodes.len();
            index.nodes.get_mut(*at)?.end = end;
            open.pop();
        }
    }
    open.is_empty().then_some(index)
}

/// Reads encoded values from the rest of an index file.
struct RecordReader<'a> {
    rest: &'a [u8],
}

impl<'a> RecordReader<'a> {
    /// Decodes one record, and returns the number of directories directly below it.
    fn node(&mut self, index: &mut Index<'a>) -> Option<u64> {
        let before = self.rest;
        let name = self.bytes()?;
        let (device, inode, changed) = (self.number()?, self.number()?, self.time_stamp()?);
        let rule_inputs = self.inputs(&mut index.inputs)?;
        let inputs = self.inputs(&mut index.inputs)?;
        let first = index.findings.len();
        for _ in 0..self.number()? {
            let kind = KINDS.get(usize::try_from(self.number()?).ok()?)?;
            index.findings.push((*kind, self.bytes()?));
        }
        let findings = first..index.findings.len();
        let children = self.number()?;
        let bytes = before.get(..before.len() - self.rest.len())?;
        let node = IndexNode {
            name,
            device,
            inode,
            changed,
            rule_inputs,
            inputs,
            findings,
            bytes,
            end: 0,
        };
        index.nodes.push(node);
        Some(children)
    }

    fn inputs(&mut self, to: &mut Vec<(&'a Path, InputState)>) -> Option<Range<usize>> {
        let first = to.len();
        for _ in 0..self.number()? {
            let path = as_path(self.bytes()?);
            let state = match self.byte()? {
                0 => InputState::Unknown,
                1 => InputState::Exists(false),
                2 => InputState::Exists(true),
                3 => InputState::Followed(None),
                4 => InputState::Named(None),
                5 => InputState::Followed(Some(self.fingerprint()?)),
                6 => InputState::Named(Some(self.fingerprint()?)),
                _ => return None,
            };
            to.push((path, state));
        }
        Some(first..to.len())
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let (device, inode, len) = (self.number()?, self.number()?, self.number()?);
        Some(Fingerprint {
            device,
            inode,
            len,
            modified: self.time_stamp()?,
            changed: self.time_stamp()?,
        })
    }

    /// Reads a byte string after its length.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Reads a time stamp of 8 bytes.
    fn time_stamp(&mut self) -> Option<i64> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(i64::from_le_bytes(*bytes))
    }

    /// Reads a LEB128 number.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }
}
