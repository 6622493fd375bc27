//! Stores the workspaces that a person has trusted, in the state directory: private, replaced atomically, one writer at a time.
//! Copies of the trusted files are stored next to it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde_json::{Map, Value, json};
use windlass::changes::ContentHash;

use super::{ActingFiles, TrustError, Trusted, TrustedContents, quoted_path};

/// All trusted workspaces.
#[derive(Debug, Default)]
pub struct TrustedWorkspaces(Map<String, Value>);

impl TrustedWorkspaces {
    /// Reads the trust file of a state directory. A file that cannot be understood trusts nothing.
    pub fn load(state: &Path) -> Self {
        let read = std::fs::read_to_string(state.join("trust.json"));
        let parsed = read.ok().and_then(|text| serde_json::from_str(&text).ok());
        Self(parsed.unwrap_or_default())
    }

    /// Returns the trusted files of a workspace; `None` if it is not trusted. An entry of an earlier version, which has no hashes
    /// of single files, does not count.
    pub fn get(&self, workspace: &Path) -> Option<Trusted> {
        parse_entry(self.0.get(&quoted_path(workspace))?)
    }

    /// Returns the paths of the workspaces in quoted form.
    pub fn workspaces(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Stores that a person trusts exactly these files.
    pub fn trust(state: &Path, workspace: &Path, found: &ActingFiles) -> Result<(), TrustError> {
        let trusted = Trusted::of(found);
        let hashes = |hashes: &BTreeMap<String, ContentHash>| -> Map<String, Value> {
            hashes.iter().map(|(path, hash)| (path.clone(), hash.to_string().into())).collect()
        };
        let (files, scripts) = (hashes(&trusted.files), hashes(&trusted.scripts));
        let entry = json!({
            "files": files, "scripts": scripts, "gates": trusted.gates,
            "reached": trusted.reached, "unaccepted": trusted.unaccepted,
        });
        update(state, |known| {
            let contents = TrustedContents::in_state(state);
            for file in &found.files {
                contents.keep(&file.bytes)?;
            }
            known.insert(quoted_path(workspace), entry);
            Ok(())
        })
    }

    /// Removes a workspace. Returns false if it was not trusted.
    pub fn revoke(state: &Path, workspace: &Path) -> Result<bool, TrustError> {
        let mut was_known = false;
        update(state, |known| {
            was_known = known.remove(&quoted_path(workspace)).is_some();
            Ok(())
        })?;
        Ok(was_known)
    }
}

/// Parses the entry of one workspace; `None` if it is incomplete.
fn parse_entry(entry: &Value) -> Option<Trusted> {
    let hashes = |key: &str| -> Option<BTreeMap<String, ContentHash>> {
        let entries = entry.get(key)?.as_object()?;
        entries
            .iter()
            .map(|(path, hash)| Some((path.clone(), hash.as_str()?.parse().ok()?)))
            .collect()
    };
    let names = |key: &str| -> Option<BTreeSet<String>> {
        let names = entry.get(key)?.as_array()?.iter();
        names.map(|path| Some(path.as_str()?.to_owned())).collect()
    };
    Some(Trusted {
        files: hashes("files")?,
        scripts: hashes("scripts")?,
        gates: names("gates")?,
        reached: names("reached")?,
        unaccepted: serde_json::from_value(entry.get("unaccepted")?.clone()).ok()?,
    })
}

/// Returns the hashes in all entries, also in those of other versions.
fn named_hashes(known: &Map<String, Value>) -> HashSet<String> {
    let entries = known.values().flat_map(|entry| [&entry["files"], &entry["scripts"]]);
    let hashes = entries.filter_map(Value::as_object).flat_map(Map::values);
    hashes.filter_map(|hash| hash.as_str().map(str::to_owned)).collect()
}

/// Changes the trust file under its lock, and removes copies that are no longer needed.
fn update(
    state: &Path,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<(), TrustError>,
) -> Result<(), TrustError> {
    let cannot = TrustError::state;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)
        .map_err(cannot(format!("cannot create {}", state.display())))?;
    // Two commands that trust two workspaces at once must both take effect.
    let lock = std::fs::File::create(state.join("trust.lock"))
        .map_err(cannot("cannot create the lock of the trust file".to_owned()))?;
    lock.lock().map_err(cannot("cannot lock the trust file".to_owned()))?;
    let mut known = TrustedWorkspaces::load(state);
    change(&mut known.0)?;
    let path = state.join("trust.json");
    write(&path, &known.0).map_err(cannot(format!("cannot write {}", path.display())))?;
    TrustedContents::in_state(state).retain(&named_hashes(&known.0));
    Ok(())
}

/// Replaces the file atomically.
fn write(path: &Path, known: &Map<String, Value>) -> std::io::Result<()> {
    let new = path.with_extension("json.new");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(serde_json::to_string_pretty(known)?.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(new, path)
}
