//! Full-text search over documents that a caller gathered: the trait of an index, and its data.

use std::collections::BTreeMap;

use crate::ToolError;

/// A document for the index.
///
/// ```
/// let guide = windlass_core::Document {
///     id: "docs/guide.md".into(),
///     fingerprint: "1718000000-2048".into(),
///     title: "Guide".into(),
///     text: "How to begin.".into(),
/// };
/// assert_eq!(guide.id, "docs/guide.md");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The name of the document in its store: a path, an address.
    pub id: String,
    /// A text that changes when the document does: a hash, or time and size.
    pub fingerprint: String,
    /// The title. Words in it count more than words in the text.
    pub title: String,
    /// The text.
    pub text: String,
}

/// A part of a document that matches a query.
///
/// ```
/// let hit = windlass_core::Passage {
///     document: "docs/guide.md".into(), title: "Guide".into(), line: 12, text: "How to begin.".into(), score: 1.5,
/// };
/// assert_eq!(format!("{}:{}", hit.document, hit.line), "docs/guide.md:12");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// The id of the document.
    pub document: String,
    /// The title of the document.
    pub title: String,
    /// The first line of the passage in the document, counted from 1.
    pub line: u64,
    /// The text of the passage.
    pub text: String,
    /// The rank by BM25. A higher score is better.
    pub score: f64,
}

/// The documents that a store has, as [`TextIndex::indexed`] lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexedDocuments {
    /// The fingerprints, by document id. A document whose fingerprint differs now has to be put again.
    pub fingerprints: BTreeMap<String, String>,
    /// A message for a person: the index was damaged and is empty now.
    pub notice: Option<String>,
}

/// Finds passages of documents by their words. Documents are in named stores, which are independent of each other.
///
/// An index holds nothing that cannot be gathered again. A damaged index starts empty, and [`TextIndex::indexed`] says so.
///
/// ```
/// use windlass_core::{Document, IndexedDocuments, Passage, TextIndex, ToolError};
///
/// /// An index that holds no documents.
/// struct Nothing;
///
/// impl TextIndex for Nothing {
///     fn indexed(&self, _: &str) -> Result<IndexedDocuments, ToolError> {
///         Ok(IndexedDocuments::default())
///     }
///     fn put(&self, store: &str, _: &[Document]) -> Result<(), ToolError> {
///         Err(ToolError::failed(format!("`{store}` takes no documents")))
///     }
///     fn remove(&self, _: &str, _: &[String]) -> Result<(), ToolError> {
///         Ok(())
///     }
///     fn search(&self, _: &str, _: &str, _: usize) -> Result<Vec<Passage>, ToolError> {
///         Ok(Vec::new())
///     }
/// }
/// assert!(Nothing.search("manual", "\"an unclosed quote", 5)?.is_empty());
/// # Ok::<(), ToolError>(())
/// ```
pub trait TextIndex: Send + Sync {
    /// Lists the documents of a store.
    fn indexed(&self, store: &str) -> Result<IndexedDocuments, ToolError>;

    /// Adds documents, or replaces those with the same ids. Stores all of them or none.
    fn put(&self, store: &str, documents: &[Document]) -> Result<(), ToolError>;

    /// Removes documents. Ignores ids that are not in the store.
    fn remove(&self, store: &str, ids: &[String]) -> Result<(), ToolError>;

    /// Returns at most `limit` passages for a query, the best first. A passage has all words of the query, or some of them if no
    /// passage has all. `"two words"` is a phrase and `wor*` a prefix; no other character has a meaning, and no query is an error.
    fn search(&self, store: &str, query: &str, limit: usize) -> Result<Vec<Passage>, ToolError>;
}
