//! The door to full-text search.

use super::Context;
use crate::{Document, IndexedDocuments, Passage, TextIndex, ToolError};

/// The door to one store of the full-text index. Blocking: call it in [`Context::blocking`].
///
/// ```
/// use windlass_core::{Context, Output, ToolError};
///
/// /// The plan declared the state `index:manual`.
/// fn find(cx: &Context, query: &str) -> Result<Output, ToolError> {
///     let hits = cx.index("manual")?.search(query, 5)?;
///     let lines = hits.iter().map(|hit| format!("{}:{}: {}", hit.document, hit.line, hit.text));
///     Ok(Output::text(lines.collect::<Vec<_>>().join("\n")))
/// }
/// ```
pub struct IndexDoor<'a> {
    cx: &'a Context,
    index: &'a dyn TextIndex,
    store: String,
}

impl std::fmt::Debug for IndexDoor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexDoor").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Context {
    /// Returns the door to a store of the full-text index; needs the effect `State("index:NAME")`.
    pub fn index(&self, store: &str) -> Result<IndexDoor<'_>, ToolError> {
        if !self.0.grant.may_use_state(&format!("index:{store}")) {
            return Err(ToolError::undeclared_effect(format!(
                "the tool used the index `{store}` without having declared the state `index:{store}`"
            )));
        }
        let index = self.0.engine.text_index().ok_or_else(|| {
            ToolError::host_failed("there is no full-text index here")
                .hint("it needs a state directory")
        })?;
        Ok(IndexDoor { cx: self, index, store: store.to_owned() })
    }
}

impl IndexDoor<'_> {
    /// Returns the ids and fingerprints of the stored documents, so that the caller can find new, changed and removed ones.
    pub fn indexed(&self) -> Result<IndexedDocuments, ToolError> {
        self.index.indexed(&self.store)
    }

    /// Adds documents, or replaces those with the same ids. Redacts secrets before anything is stored.
    pub fn put(&self, documents: &[Document]) -> Result<(), ToolError> {
        self.check_changes()?;
        let secrets = &self.cx.0.secrets;
        let clean = |document: &Document| Document {
            title: secrets.redact(&document.title).into_owned(),
            text: secrets.redact(&document.text).into_owned(),
            ..document.clone()
        };
        let documents: Vec<Document> = documents.iter().map(clean).collect();
        self.index.put(&self.store, &documents)
    }

    /// Removes documents by id.
    pub fn remove(&self, ids: &[String]) -> Result<(), ToolError> {
        self.check_changes()?;
        self.index.remove(&self.store, ids)
    }

    /// Returns the best passages for a query; see [`TextIndex::search`].
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<Passage>, ToolError> {
        self.index.search(&self.store, query, limit)
    }

    /// Fails if the call may not change the index: it has ended, or is a trial.
    fn check_changes(&self) -> Result<(), ToolError> {
        self.cx.0.lineage.check_open()?;
        if self.cx.0.grant.is_trial() {
            return Err(ToolError::denied("not allowed: the call is only tried out"));
        }
        Ok(())
    }
}
