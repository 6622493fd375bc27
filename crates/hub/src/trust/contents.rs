//! Copies of trusted files, stored in the state directory by their hashes. When a file in the workspace changes or disappears, its
//! restrictions stay in force from the copy.

use std::collections::HashSet;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use windlass::changes::ContentHash;

use super::TrustError;

/// Directory of the copies: one file for each, named by its hash.
pub(crate) struct TrustedContents(PathBuf);

impl TrustedContents {
    /// Returns the directory of copies in a state directory, which need not exist.
    pub(crate) fn in_state(state: &Path) -> Self {
        Self(state.join("trusted"))
    }

    /// Returns a content; `None` if it is missing or does not match its hash.
    pub(crate) fn get(&self, hash: ContentHash) -> Option<Vec<u8>> {
        let bytes = std::fs::read(self.0.join(hash.to_string())).ok()?;
        (ContentHash::of(&bytes) == hash).then_some(bytes)
    }

    /// Stores a content. It is complete and on the disk before its file name exists.
    pub(super) fn keep(&self, bytes: &[u8]) -> Result<(), TrustError> {
        let hash = ContentHash::of(bytes);
        if self.get(hash).is_some() {
            return Ok(());
        }
        let path = self.0.join(hash.to_string());
        let tried = format!("cannot keep the trusted content in {}", path.display());
        self.write(&path, bytes).map_err(TrustError::state(tried))
    }

    /// Writes a file under a temporary name, syncs it, and renames it.
    fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let new = path.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(new, path)
    }

    /// Removes copies that are no longer needed, and temporary files of a killed process. A file that cannot be removed is tried
    /// again the next time.
    pub(super) fn retain(&self, needed: &HashSet<String>) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let is_needed = entry.file_name().to_str().is_some_and(|name| needed.contains(name));
            if !is_needed {
                drop(std::fs::remove_file(entry.path()));
            }
        }
    }
}
