//! The contents that the history must keep: those present before a commit, and new ones.
//!
//! Small contents are held in memory, up to a bound for all of them. All others are opened again when the history reads them, and
//! must be unchanged.

use std::{fmt, io};

use crate::changes::state::{self, InspectedPath};
use crate::{
    ContentHash, ContentSource, FileError, FileState, Files, Fingerprint, KeptContent, OpenFile,
    OpenedContent, Resolved,
};

/// Maximum bytes of a file that is held in memory.
const MAX_HELD_FILE_BYTES: u64 = 64 << 10;

/// Maximum bytes that are held in memory for one commit.
const MAX_HELD_BYTES: u64 = 8 << 20;

/// The contents present before a commit.
pub(super) struct OldContents<'f> {
    files: &'f dyn Files,
    pub(super) all: Vec<OldContent<'f>>,
    held: u64,
}

impl<'f> OldContents<'f> {
    pub(super) fn new(files: &'f dyn Files) -> Self {
        Self { files, all: Vec::new(), held: 0 }
    }

    /// Allocates exactly this number of further entries: a vector that grows can take twice the memory.
    pub(super) fn reserve(&mut self, count: usize) {
        self.all.reserve_exact(count);
    }

    /// Inspects a path. Keeps the bytes of a small file.
    pub(super) fn inspect(
        &self,
        path: &Resolved,
        known: Option<(Fingerprint, &[u8])>,
    ) -> Result<InspectedPath, FileError> {
        state::inspect_keeping(self.files, path, known, self.held_file_limit())
    }

    /// Inspects a path whose state is known if it still has this fingerprint. Keeps the bytes of a small file.
    pub(super) fn inspect_known(
        &self,
        path: &Resolved,
        expected: Fingerprint,
        known: &FileState,
    ) -> Result<InspectedPath, FileError> {
        let mut bytes = None;
        let found = match known {
            FileState::File { hash, len, .. } if *len <= self.held_file_limit() => {
                let opened = self.files.open(path).ok();
                bytes = opened.as_ref().and_then(|opened| read_hashed(opened, *hash));
                opened.map(|opened| opened.stat).filter(|_| bytes.is_some())
            }
            _ => self.files.stat(path).ok(),
        };
        let Some(stat) = found.filter(|stat| stat.fingerprint == expected) else {
            return self.inspect(path, None);
        };
        let (state, entries) = (known.clone(), Vec::new());
        Ok(InspectedPath {
            state,
            fingerprint: Some(expected),
            kind: Some(stat.kind),
            bytes,
            entries,
        })
    }

    /// Hashes new content. Keeps the bytes of a small file on a stage.
    pub(super) fn read_new(&mut self, source: ContentSource<'_>) -> io::Result<NewBytes> {
        let ContentSource::At(place) = source else {
            let (hash, length) = ContentHash::measure(source)?;
            return Ok(NewBytes { hash, length, bytes: None });
        };
        let file = std::fs::File::open(place)?;
        let facts = file.metadata()?;
        if !facts.is_file() || facts.len() > self.held_file_limit() {
            let (hash, length) = ContentHash::measure(ContentSource::File(&file))?;
            return Ok(NewBytes { hash, length, bytes: None });
        }
        let bytes = ContentSource::File(&file).read()?.into_owned().into_boxed_slice();
        let (hash, length) = (ContentHash::of(&bytes), bytes.len() as u64);
        self.held += length;
        Ok(NewBytes { hash, length, bytes: Some(bytes) })
    }

    /// Returns the maximum bytes of the next file that is held in memory.
    fn held_file_limit(&self) -> u64 {
        MAX_HELD_FILE_BYTES.min(MAX_HELD_BYTES.saturating_sub(self.held))
    }

    /// Adds the content of an inspected path, if it is a file.
    pub(super) fn add(&mut self, path: &Resolved, seen: &mut InspectedPath) {
        let FileState::File { hash, len, .. } = seen.state else { return };
        let body = match seen.bytes.take() {
            Some(bytes) => OldBody::Held(bytes.into_boxed_slice()),
            None => OldBody::At(self.files, Box::new(path.clone())),
        };
        if let OldBody::Held(bytes) = &body {
            self.held += bytes.len() as u64;
        }
        self.all.push(OldContent { hash, length: len, body });
    }

    /// Frees the contents that are held in memory.
    pub(super) fn free(&mut self) {
        self.all = Vec::new();
        self.held = 0;
    }
}

/// Reads an open file; `None` if its bytes do not have this hash.
fn read_hashed(opened: &OpenFile, hash: ContentHash) -> Option<Vec<u8>> {
    let bytes = ContentSource::File(&opened.file).read().ok()?;
    (ContentHash::of(&bytes) == hash).then(|| bytes.into_owned())
}

/// Content that a step writes.
pub(super) struct NewBytes {
    pub(super) hash: ContentHash,
    pub(super) length: u64,
    /// The bytes themselves, if they are few.
    pub(super) bytes: Option<Box<[u8]>>,
}

/// Content present before a commit.
pub(super) struct OldContent<'f> {
    pub(super) hash: ContentHash,
    length: u64,
    body: OldBody<'f>,
}

/// Location of a content's bytes.
enum OldBody<'f> {
    /// In memory.
    Held(Box<[u8]>),
    /// In the file at this path.
    At(&'f dyn Files, Box<Resolved>),
}

impl OldContent<'_> {
    /// Returns the content as a source.
    pub(super) fn source(&self) -> ContentSource<'_> {
        match &self.body {
            OldBody::Held(bytes) => ContentSource::Bytes(bytes),
            OldBody::At(..) => ContentSource::Kept(self),
        }
    }
}

impl KeptContent for OldContent<'_> {
    fn hash(&self) -> ContentHash {
        self.hash
    }

    fn length(&self) -> u64 {
        self.length
    }

    /// Opens the bytes. The history compares their hash, since the file may have changed.
    fn open(&self) -> io::Result<OpenedContent> {
        match &self.body {
            OldBody::Held(bytes) => Ok(OpenedContent::Bytes(bytes.to_vec())),
            OldBody::At(files, place) => {
                match state::open(*files, place).map_err(io::Error::other)? {
                    Some(file) => Ok(OpenedContent::File(file)),
                    None => Err(io::Error::new(io::ErrorKind::NotFound, "the file is gone by now")),
                }
            }
        }
    }
}

impl fmt::Debug for OldContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OldContent").field("hash", &self.hash).finish_non_exhaustive()
    }
}
