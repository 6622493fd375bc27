//! Small values that last from call to call: todo lists, memory, titles.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::sync::Lock;
use crate::{SessionId, ToolError};

/// The owner of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StatePlace {
    /// One conversation.
    Session(SessionId),
    /// All conversations about one workspace.
    Workspace(PathBuf),
    /// Everything that a person does on this machine.
    Person,
}

/// A value, and the version that it has been since it was last written.
#[derive(Debug, Clone, PartialEq)]
pub struct StateEntry {
    /// The value.
    pub value: Value,
    /// Larger than that of every value before it, also of one under another key. Never 0.
    pub version: u64,
}

/// Keeps one JSON value for each place and key. Values are replaced by comparison, so that of two writers, in whichever process, none
/// loses what the other wrote.
///
/// ```
/// use serde_json::json;
/// use windlass_core::{MemoryState, StatePlace, StateStore};
/// let (store, place) = (MemoryState::default(), StatePlace::Person);
/// assert!(store.replace(&place, "todo", 0, Some(&json!(["test"])))?, "there was none");
/// let seen = store.get(&place, "todo")?.expect("it was just written");
/// assert!(store.replace(&place, "todo", seen.version, Some(&json!(["test", "write"])))?);
/// assert!(!store.replace(&place, "todo", seen.version, None)?, "another writer was first");
/// # Ok::<(), windlass_core::ToolError>(())
/// ```
pub trait StateStore: Send + Sync {
    /// The value, if there is one.
    fn get(&self, place: &StatePlace, key: &str) -> Result<Option<StateEntry>, ToolError>;

    /// Replaces the value of this version, 0 standing for none, or removes it. Returns whether the value had that version.
    fn replace(
        &self,
        place: &StatePlace,
        key: &str,
        version: u64,
        value: Option<&Value>,
    ) -> Result<bool, ToolError>;
}

/// Keeps values as long as the process lives: what an embedder without a store gets.
#[derive(Debug, Default)]
pub struct MemoryState(Lock<Memory>);

#[derive(Debug, Default)]
struct Memory {
    last: u64,
    entries: HashMap<(StatePlace, String), StateEntry>,
}

impl StateStore for MemoryState {
    fn get(&self, place: &StatePlace, key: &str) -> Result<Option<StateEntry>, ToolError> {
        Ok(self.0.lock().entries.get(&(place.clone(), key.to_owned())).cloned())
    }

    fn replace(
        &self,
        place: &StatePlace,
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
