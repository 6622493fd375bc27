//! Small JSON values that outlive a call: todo lists, memory, titles.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::sync::Lock;
use crate::{SessionId, ToolError};

/// The owner of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StateOwner {
    /// One session.
    Session(SessionId),
    /// All sessions of one workspace.
    Workspace(PathBuf),
    /// The person, in all sessions on this machine.
    Person,
}

/// A stored value and its version.
#[derive(Debug, Clone, PartialEq)]
pub struct StateEntry {
    /// The value.
    pub value: Value,
    /// The version, larger than that of every value written before, also under other keys. Never 0.
    pub version: u64,
}

/// Stores one JSON value for each owner and key. A writer names the version that it replaces, so two writers, also in different
/// processes, never overwrite each other's values.
///
/// ```
/// use serde_json::json;
/// use windlass_core::{MemoryState, StateOwner, StateStore};
/// let (store, place) = (MemoryState::default(), StateOwner::Person);
/// assert!(store.replace(&place, "todo", 0, Some(&json!(["test"])))?, "there was none");
/// let seen = store.get(&place, "todo")?.expect("it was just written");
/// assert!(store.replace(&place, "todo", seen.version, Some(&json!(["test", "write"])))?);
/// assert!(!store.replace(&place, "todo", seen.version, None)?, "another writer was first");
/// # Ok::<(), windlass_core::ToolError>(())
/// ```
pub trait StateStore: Send + Sync {
    /// Returns the value, if there is one.
    fn get(&self, place: &StateOwner, key: &str) -> Result<Option<StateEntry>, ToolError>;

    /// Replaces or removes the value if it still has this version; version 0 stands for no value. Returns whether it had that version.
    fn replace(
        &self,
        place: &StateOwner,
        key: &str,
        version: u64,
        value: Option<&Value>,
    ) -> Result<bool, ToolError>;
}

/// Keeps values in memory as long as the process lives. Embedders without a store get this one.
#[derive(Debug, Default)]
pub struct MemoryState(Lock<Memory>);

/// The entries, and the last version that was given out.
#[derive(Debug, Default)]
struct Memory {
    last: u64,
    entries: HashMap<(StateOwner, String), StateEntry>,
}

impl StateStore for MemoryState {
    fn get(&self, place: &StateOwner, key: &str) -> Result<Option<StateEntry>, ToolError> {
        Ok(self.0.lock().entries.get(&(place.clone(), key.to_owned())).cloned())
    }

    fn replace(
        &self,
        place: &StateOwner,
        key: &str,
        version: u64,
        value: Option<&Value>,
    ) -> Result<bool, ToolError> {
        let at = (place.clone(), key.to_owned());
        let mut memory = self.0.lock();
        if memory.entries.get(&at).map_or(0, |entry| entry.version) != version {
            return Ok(false);
        }
        memory.last += 1;
        let version = memory.last;
        match value {
            Some(value) => {
                memory.entries.insert(at, StateEntry { value: value.clone(), version });
            }
            None => drop(memory.entries.remove(&at)),
        }
        Ok(true)
    }
}
