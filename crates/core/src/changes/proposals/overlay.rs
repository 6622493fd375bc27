//! The files of a machine as they would be with the proposals of a session applied.

mod walk;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use self::walk::{NewObjects, OverlayVisitor};
use super::{Proposal, Proposals, ProposedBy};
use crate::changes::state;
use crate::{
    Alteration, Altered, Attributes, ContentHash, ExpectedState, FileError, FileErrorKind,
    FileKind, FileState, Files, Fingerprint, FoundBody, FoundEntry, HistoryError, OpenFile,
    Resolved, SessionId, Stat, TargetState, Visitor, WalkOptions, WalkReport,
};

/// The files of a machine with proposals applied. Changes become proposals.
pub(crate) struct Overlay<'a> {
    pub(crate) inner: &'a dyn Files,
    pub(crate) proposals: &'a Proposals,
    pub(crate) by: ProposedBy,
}

impl Overlay<'_> {
    /// Returns the proposed state of a path; absent if a directory above it would be removed or replaced. `None` if nothing is
    /// proposed.
    fn proposed_state(&self, path: &Path) -> Option<FileState> {
        let held = &self.proposals.held.lock().by_path;
        if let Some(proposal) = held.get(path) {
            return Some(proposal.then.clone());
        }
        let is_gone = |above: &Path| held.get(above).is_some_and(|one| !is_directory(&one.then));
        path.ancestors().skip(1).any(is_gone).then_some(FileState::Absent)
    }

    /// Converts a proposed state to the result of an inspection.
    fn as_found(&self, path: &Path, state: FileState) -> Result<Option<FoundEntry>, FileError> {
        let cannot = |error: HistoryError| failed("look at", path, error);
        let (kind, body, attributes) = match state {
            FileState::Absent => return Ok(None),
            FileState::File { hash, attributes, .. } => {
                let file = self.proposals.shelf.open(&hash).map_err(cannot)?;
                (FileKind::File, FoundBody::File(file), attributes)
            }
            FileState::Symlink { target, .. } => {
                (FileKind::Symlink, FoundBody::Symlink(target), Attributes::default())
            }
            FileState::Directory { attributes } => {
                (FileKind::Directory, FoundBody::Directory(Vec::new()), attributes)
            }
            FileState::Other => (FileKind::Device, FoundBody::Other, Attributes::default()),
        };
        let fingerprint = fingerprint(path, &body, attributes.mode);
        let len = fingerprint.len;
        let mode = attributes.mode.unwrap_or(0o644);
        let stat = Stat { kind, len, mode, links: 1, fingerprint };
        Ok(Some(FoundEntry { stat, attributes, body }))
    }

    /// Opens a file with proposed content.
    fn open_proposed(&self, path: &Resolved, state: FileState) -> Result<OpenFile, FileError> {
        match self.as_found(&path.path, state)? {
            Some(FoundEntry { stat, body: FoundBody::File(file), .. }) => {
                Ok(OpenFile { file, stat })
            }
            Some(found) => Err(refused("read", path, FileErrorKind::NotRegular(found.stat.kind))),
            None => Err(refused("read", path, FileErrorKind::NotFound)),
        }
    }

    /// Checks that the object at a path, proposals included, is the expected one.
    fn check_expected(&self, path: &Resolved, expect: ExpectedState) -> Result<(), FileError> {
        let now = self.inspect(path)?.map(|found| found.stat.fingerprint);
        match (expect, now) {
            (ExpectedState::Absent, None) => Ok(()),
            (ExpectedState::Absent, Some(_)) => Err(refused("write", path, FileErrorKind::Exists)),
            (ExpectedState::Same(seen), Some(now)) if seen == now => Ok(()),
            (ExpectedState::Same(_), _) => Err(refused("write", path, FileErrorKind::Stale)),
        }
    }

    /// Fails for a directory. A proposal is about one path, so the caller must move each object in a directory by itself.
    fn check_is_single(&self, from: &Resolved) -> Result<(), FileError> {
        match self.stat(from)?.kind {
            FileKind::Directory => {
                Err(refused("move", from, FileErrorKind::NotRegular(FileKind::Directory)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the state of a path after an alteration.
    fn state_after(&self, path: &Resolved, to: TargetState<'_>) -> Result<FileState, FileError> {
        Ok(match to {
            TargetState::Nothing => FileState::Absent,
            TargetState::Symlink(target) => {
                FileState::Symlink { target: target.to_owned(), attributes: Attributes::default() }
            }
            TargetState::Directory { attributes } => {
                FileState::Directory { attributes: attributes.cloned().unwrap_or_default() }
            }
            TargetState::File { content, attributes } => {
                let bytes = content.read();
                let bytes = bytes.map_err(|why| refused("read", path, FileErrorKind::Io(why)))?;
                let old = self.inspect(path)?.map(|found| found.attributes);
                let attributes = state::merged_attributes(attributes, old.as_ref());
                let (hash, len) = (self.keep(path, &bytes)?, bytes.len() as u64);
                FileState::File { hash, len, attributes, object: None }
            }
            TargetState::Attributes(attributes) => {
                state::with_attributes(&self.read_state(path)?, attributes)
            }
            TargetState::Moved { from, .. } | TargetState::Linked { with: from, .. } => {
                self.read_state(from)?
            }
        })
    }

    /// Reads the state of a path, proposals included, and keeps its bytes on the shelf.
    fn read_state(&self, path: &Resolved) -> Result<FileState, FileError> {
        let seen = state::inspect_keeping(self, path, None, u64::MAX)?;
        if let Some(bytes) = &seen.bytes {
            self.keep(path, bytes)?;
        }
        Ok(seen.state)
    }

    /// Keeps a content on the shelf, and returns its hash.
    fn keep(&self, path: &Resolved, bytes: &[u8]) -> Result<ContentHash, FileError> {
        let hash = ContentHash::of(bytes);
        let kept = self.proposals.shelf.keep(&hash, bytes);
        kept.map_err(|error| failed("hold a change of", &path.path, error))?;
        Ok(hash)
    }

    /// Records a proposal for a path. Removes the proposal if the new state equals the real one.
    fn record_proposal(&self, path: &Resolved, then: FileState) -> Result<(), FileError> {
        let cannot = |error: HistoryError| failed("hold a change of", &path.path, error);
        let _alone = self.proposals.exclusive().map_err(cannot)?;
        let known = self.proposals.held.lock().by_path.get(&path.path).map(|one| one.base.clone());
        let base = match known {
            Some(base) => base,
            None => self.real_state(path)?,
        };
        let mut held = self.proposals.held.lock();
        if then.is_like(&base) {
            held.by_path.remove(&path.path);
        } else {
            let entry = held.by_path.entry(path.path.clone()).or_insert_with(|| Proposal {
                path: path.path.clone(),
                base,
                then: FileState::Absent,
                by: Vec::new(),
            });
            entry.then = then;
            if entry.by.last().is_none_or(|last| last.call != self.by.call) {
                entry.by.push(self.by.clone());
            }
        }
        self.proposals.save(&mut held).map_err(cannot)
    }

    /// Reads the real state of a path, and keeps its bytes on the shelf so that the difference can be shown.
    fn real_state(&self, path: &Resolved) -> Result<FileState, FileError> {
        let seen = state::inspect_keeping(self.inner, path, None, u64::MAX)?;
        if let Some(bytes) = &seen.bytes {
            self.keep(path, bytes)?;
        }
        Ok(seen.state)
    }
}

impl Files for Overlay<'_> {
    fn workspace(&self) -> &Path {
        self.inner.workspace()
    }

    fn session_tmp(&self) -> Option<&SessionId> {
        self.inner.session_tmp()
    }

    fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        let mut resolved = self.inner.resolve(path)?;
        if let Some(state) = self.proposed_state(&resolved.path) {
            resolved.exists = state != FileState::Absent;
        }
        Ok(resolved)
    }

    fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        let Some(state) = self.proposed_state(&path.path) else { return self.inner.stat(path) };
        match self.as_found(&path.path, state)? {
            Some(found) => Ok(found.stat),
            None => Err(refused("look at", path, FileErrorKind::NotFound)),
        }
    }

    fn open(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        match self.proposed_state(&path.path) {
            Some(state) => self.open_proposed(path, state),
            None => self.inner.open(path),
        }
    }

    fn walk<'a>(
        &self,
        root: &Resolved,
        options: &WalkOptions<'a>,
        visitors: &(dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a),
    ) -> Result<WalkReport, FileError> {
        if self.proposed_state(&root.path) == Some(FileState::Absent) {
            return Err(refused("list", root, FileErrorKind::NotFound));
        }
        let new = NewObjects::below(self, root, options);
        let over = || -> Box<dyn Visitor + '_> {
            Box::new(OverlayVisitor { new: &new, inner: visitors() })
        };
        let mut report = match self.inner.walk(root, options, &over) {
            // The root itself exists only as a proposal.
            Err(FileError { kind: FileErrorKind::NotFound, .. })
                if self.proposed_state(&root.path).is_some() =>
            {
                WalkReport::default()
            }
            walked => walked?,
        };
        report.observed = None;
        new.show_rest(&mut *visitors());
        Ok(report)
    }

    fn hash_index_entries(&self, index: &[u8]) -> Option<ContentHash> {
        self.inner.hash_index_entries(index)
    }

    fn inspect(&self, path: &Resolved) -> Result<Option<FoundEntry>, FileError> {
        match self.proposed_state(&path.path) {
            Some(state) => self.as_found(&path.path, state),
            None => self.inner.inspect(path),
        }
    }

    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError> {
        self.check_expected(path, alteration.expect)?;
        if let TargetState::Moved { from, seen } = alteration.to {
            self.check_expected(from, ExpectedState::Same(seen))?;
            self.check_is_single(from)?;
        }
        let then = self.state_after(path, alteration.to)?;
        if let TargetState::Moved { from, .. } = alteration.to {
            self.record_proposal(from, FileState::Absent)?;
        }
        self.record_proposal(path, then)?;
        let stat = self.inspect(path)?.map(|found| found.stat);
        Ok(Altered { stat, in_place: false })
    }

    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError> {
        self.inner.excluded_by(path)
    }

    fn nearest(&self, path: &Path) -> Option<PathBuf> {
        self.inner.nearest(path)
    }
}

fn is_directory(state: &FileState) -> bool {
    matches!(state, FileState::Directory { .. })
}

/// Makes a fingerprint for a proposed object. Files on the shelf are named by their hash, so one shelf file stands for all equal
/// contents; the hash of the path takes the place of the device number, so that equal contents at different paths differ.
fn fingerprint(path: &Path, body: &FoundBody, mode: Option<u32>) -> Fingerprint {
    let name = ContentHash::of(path.as_os_str().as_encoded_bytes());
    let (prefix, _) = name.as_bytes().split_at(8);
    let device = prefix.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let metadata = match body {
        FoundBody::File(file) => file.metadata().ok(),
        _ => None,
    };
    let changed = i64::from(mode.unwrap_or(0));
    match metadata {
        Some(file) => Fingerprint {
            device,
            inode: file.ino(),
            len: file.len(),
            modified: file.mtime().saturating_mul(1_000_000_000).saturating_add(file.mtime_nsec()),
            changed,
        },
        None => Fingerprint { device, inode: 0, len: 0, modified: 0, changed },
    }
}

fn refused(doing: &'static str, path: &Resolved, kind: FileErrorKind) -> FileError {
    FileError::new(doing, path.inside.as_ref().unwrap_or(&path.path), kind)
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn failed(doing: &'static str, path: &Path, error: HistoryError) -> FileError {
    FileError::new(doing, path, FileErrorKind::Io(std::io::Error::other(error.to_string())))
}
