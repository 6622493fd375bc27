//! Values that last from call to call, and the full-text index: their use in tools, and stores of your own.
//!
//! ```
//! use std::sync::Arc;
//! use windlass::Windlass;
//! use windlass::state::{MemoryState, StateOwner, StateStore};
//! # let folder = tempfile::tempdir().unwrap();
//! let store = Arc::new(MemoryState::default());
//! store.replace(&StateOwner::Person, "motto", 0, Some(&"slowly, but well".into()))?;
//! let windlass = Windlass::builder(folder.path()).state_store(store).build()?;
//! # drop(windlass);
//! # Ok::<(), windlass::Error>(())
//! ```
//!
//! | to | see |
//! |---|---|
//! | keep a value in a tool | [`StateDoor`], [`StateScope`] |
//! | keep values elsewhere | [`StateStore`], [`StateOwner`], [`StateEntry`], [`Builder::state_store`](crate::Builder::state_store) |
//! | search documents in a tool | [`IndexDoor`], [`Document`], [`Passage`] |
//! | keep the index elsewhere | [`TextIndex`], [`IndexedDocuments`], [`Builder::text_index`](crate::Builder::text_index) |

pub use windlass_core::{
    Document, IndexDoor, IndexedDocuments, MemoryState, Passage, StateDoor, StateEntry, StateOwner,
    StateScope, StateStore, TextIndex,
};
