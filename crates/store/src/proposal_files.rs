//! Proposals of sessions, and the file contents that they and snapshots name, in plain files. They are few and removed when they are
//! applied, so they need no database.
//!
//! `proposals/objects/ab/<hash>` are contents, written once; `proposals/<session>.json` is the list of a session, replaced as a
//! whole; `proposals/lock` is locked while a list is changed or applied.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use windlass_core::{ContentHash, HistoryError, HistoryLock, Proposal, ProposalStore, SessionId};

use crate::outputs::file_name;
use crate::writer_slots::lock_file;

/// The proposals or the snapshots of one state directory.
///
/// ```
/// use windlass_core::{ContentHash, ProposalStore};
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
    /// The proposals of a state directory. Files are created when something is kept.
    pub fn in_state(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("proposals") }
    }

    /// The snapshots of a state directory.
    pub fn for_snapshots(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("snapshots") }
    }

    /// The path of a content.
    fn object_path(&self, hash: &ContentHash) -> PathBuf {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        self.dir.join("objects").join(first).join(rest)
    }

    /// The path of the list of a session.
    fn list_path(&self, session: &SessionId) -> PathBuf {
        self.dir.join(format!("{}.json", file_name(session.as_str())))
    }

    /// Removes contents that no list names any more.
    fn sweep(&self) -> io::Result<()> {
        let mut named = std::collections::HashSet::new();
        for session in self.list_paths()? {
            let list_path: ProposalList = serde_json::from_slice(&fs::read(session)?)?;
            let states =
                list_path.proposals.iter().flat_map(|one| [one.base.hash(), one.then.hash()]);
            named.extend(states.flatten().map(|hash| self.object_path(&hash)));
        }
        for entry in fs::read_dir(self.dir.join("objects"))? {
            for object_path in fs::read_dir(entry?.path())? {
                let object_path = object_path?.path();
                if !named.contains(&object_path) {
                    fs::remove_file(object_path)?;
                }
            }
        }
        Ok(())
    }

    /// The paths of all lists, sorted.
    fn list_paths(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut list_paths = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                list_paths.push(path);
            }
        }
        list_paths.sort();
        Ok(list_paths)
    }
}

/// The content of the list of a session.
#[derive(serde::Serialize, serde::Deserialize)]
struct ProposalList {
    session: SessionId,
    proposals: Vec<Proposal>,
}

impl ProposalStore for ProposalShelf {
    fn keep(&self, hash: &ContentHash, bytes: &[u8]) -> Result<(), HistoryError> {
        let path = self.object_path(hash);
        if path.exists() {
            return Ok(());
        }
        write_atomically(&path, bytes).map_err(|why| history_error("keep", &path, &why))
    }

    fn open(&self, hash: &ContentHash) -> Result<File, HistoryError> {
        let path = self.object_path(hash);
        File::open(&path).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => HistoryError::Dropped(*hash),
            _ => history_error("open", &path, &why),
        })
    }

    fn load(&self, session: &SessionId) -> Result<Vec<Proposal>, HistoryError> {
        let path = self.list_path(session);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(|why| history_error("read", &path, &why))?,
        };
        let list_path: ProposalList = serde_json::from_slice(&bytes)
            .map_err(|why| history_error("understand", &path, &why.into()))?;
        Ok(list_path.proposals)
    }

    fn save(&self, session: &SessionId, proposals: &[Proposal]) -> Result<(), HistoryError> {
        let path = self.list_path(session);
        if proposals.is_empty() {
            return match fs::remove_file(&path) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => {
                    Err(history_error("remove", &path, &why))
                }
                _ => {
                    // Contents that cannot be removed now are removed with the next list.
                    drop(self.sweep());
                    Ok(())
                }
            };
        }
        let list_path = ProposalList { session: session.clone(), proposals: proposals.to_vec() };
        let bytes = serde_json::to_vec_pretty(&list_path);
        let bytes = bytes.map_err(|why| history_error("write", &path, &why.into()))?;
        write_atomically(&path, &bytes).map_err(|why| history_error("write", &path, &why))
    }

    fn exclusive(&self) -> Result<HistoryLock<'_>, HistoryError> {
        Ok(HistoryLock::by_file(lock_file(&self.dir.join("lock"))?))
    }

    fn stamp(&self, session: &SessionId) -> u64 {
        match fs::metadata(self.list_path(session)) {
            Ok(file) => {
                file.ino() ^ file.mtime().cast_unsigned() << 20 ^ file.mtime_nsec().cast_unsigned()
            }
            Err(_) => 0,
        }
    }

    fn sessions(&self) -> Result<Vec<SessionId>, HistoryError> {
        let list_paths = self.list_paths().map_err(|why| history_error("list", &self.dir, &why))?;
        let mut sessions = Vec::with_capacity(list_paths.len());
        for path in list_paths {
            let bytes = fs::read(&path).map_err(|why| history_error("read", &path, &why))?;
            let list_path: ProposalList = serde_json::from_slice(&bytes)
                .map_err(|why| history_error("understand", &path, &why.into()))?;
            sessions.push(list_path.session);
        }
        Ok(sessions)
    }
}

/// Writes a file under another name, syncs it and renames it, so that a kill leaves no partial file.
fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
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
        // The file may not exist.
        drop(fs::remove_file(&aside));
    }
    written
}

fn history_error(doing: &str, path: &Path, why: &io::Error) -> HistoryError {
    HistoryError::Failed(format!("cannot {doing} {}: {why}", path.display()))
}
