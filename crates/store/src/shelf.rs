//! Proposals and the bytes that they and snapshots name, in plain files: few, looked at by people, and gone when they are applied.
//!
//! `proposals/objects/ab/<hash>` are contents, written once; `proposals/<session>.json` is the list of a session, replaced as a
//! whole; `proposals/lock` is locked while a list is changed or applied.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use windlass_core::{ContentHash, Exclusive, HistoryError, Proposal, SessionId, Shelf};

use crate::liveness::lock_file;
use crate::outputs::file_name;

/// Proposals and snapshots of one state directory.
///
/// ```
/// use windlass_core::{ContentHash, Shelf};
/// use windlass_store::ProposalShelf;
/// # let dir = tempfile::tempdir()?;
/// # let state = dir.path();
/// let shelf = ProposalShelf::in_state(state);
/// let hash = ContentHash::of(b"hello");
/// shelf.keep(&hash, b"hello")?;
/// assert_eq!(shelf.open(&hash)?.metadata()?.len(), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ProposalShelf {
    dir: PathBuf,
}

impl ProposalShelf {
    /// The shelf of a state directory. Nothing is made before something is kept.
    pub fn in_state(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("proposals") }
    }

    /// The shelf of the snapshots in a state directory.
    pub fn for_snapshots(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("snapshots") }
    }

    fn object(&self, hash: &ContentHash) -> PathBuf {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        self.dir.join("objects").join(first).join(rest)
    }

    fn list(&self, session: &SessionId) -> PathBuf {
        self.dir.join(format!("{}.json", file_name(session.as_str())))
    }

    /// Removes contents that no list names any more.
    fn sweep(&self) -> io::Result<()> {
        let mut named = std::collections::HashSet::new();
        for session in self.lists()? {
            let list: List = serde_json::from_slice(&fs::read(session)?)?;
            let states = list.proposals.iter().flat_map(|one| [one.base.hash(), one.then.hash()]);
            named.extend(states.flatten().map(|hash| self.object(&hash)));
        }
        for entry in fs::read_dir(self.dir.join("objects"))? {
            for object in fs::read_dir(entry?.path())? {
                let object = object?.path();
                if !named.contains(&object) {
                    fs::remove_file(object)?;
                }
            }
        }
        Ok(())
    }

    fn lists(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut lists = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                lists.push(path);
            }
        }
        lists.sort();
        Ok(lists)
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct List {
    session: SessionId,
    proposals: Vec<Proposal>,
}

impl Shelf for ProposalShelf {
    fn keep(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), HistoryError> {
        let path = self.object(hash);
        if path.exists() {
            return Ok(());
        }
        put(&path, bytes).map_err(|why| failed("keep", &path, &why))
    }

    fn open(&self, hash: &ContentHash) -> Result<File, HistoryError> {
        let path = self.object(hash);
        File::open(&path).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => HistoryError::Dropped(*hash),
            _ => failed("open", &path, &why),
        })
    }

    fn load(&self, session: &SessionId) -> Result<Vec<Proposal>, HistoryError> {
        let path = self.list(session);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(|why| failed("read", &path, &why))?,
        };
        let list: List = serde_json::from_slice(&bytes)
            .map_err(|why| failed("understand", &path, &why.into()))?;
        Ok(list.proposals)
    }

    fn save(&self, session: &SessionId, proposals: &[Proposal]) -> Result<(), HistoryError> {
        let path = self.list(session);
        if proposals.is_empty() {
            return match fs::remove_file(&path) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => {
                    Err(failed("remove", &path, &why))
                }
                _ => {
                    // Contents that cannot be swept now are swept with the next list.
                    drop(self.sweep());
                    Ok(())
                }
            };
        }
        let list = List { session: session.clone(), proposals: proposals.to_vec() };
        let bytes = serde_json::to_vec_pretty(&list);
        let bytes = bytes.map_err(|why| failed("write", &path, &why.into()))?;
        put(&path, &bytes).map_err(|why| failed("write", &path, &why))
    }

    fn exclusive(&self) -> Result<Exclusive<'_>, HistoryError> {
        Ok(Exclusive::by_file(lock_file(&self.dir.join("lock"))?))
    }

    fn stamp(&self, session: &SessionId) -> u64 {
        match fs::metadata(self.list(session)) {
            Ok(file) => {
                file.ino() ^ file.mtime().cast_unsigned() << 20 ^ file.mtime_nsec().cast_unsigned()
            }
            Err(_) => 0,
        }
    }

    fn sessions(&self) -> Result<Vec<SessionId>, HistoryError> {
        let lists = self.lists().map_err(|why| failed("list", &self.dir, &why))?;
        let mut sessions = Vec::with_capacity(lists.len());
        for path in lists {
            let bytes = fs::read(&path).map_err(|why| failed("read", &path, &why))?;
            let list: List = serde_json::from_slice(&bytes)
                .map_err(|why| failed("understand", &path, &why.into()))?;
            sessions.push(list.session);
        }
        Ok(sessions)
    }
}

/// Written aside, made safe and moved into place, so that a kill leaves no half of a file.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let aside = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = OpenOptions::new();
    let written = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&aside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_data()))
        .and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        // It may not have been made at all.
        drop(fs::remove_file(&aside));
    }
    written
}

fn failed(doing: &str, path: &Path, why: &io::Error) -> HistoryError {
    HistoryError::Failed(format!("cannot {doing} {}: {why}", path.display()))
}
