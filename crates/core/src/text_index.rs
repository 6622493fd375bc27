//! Full-text search over documents that somebody gathered: what an index must offer.

use std::collections::BTreeMap;

use crate::ToolError;

/// A document to be found.
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
    /// Its name in its store: a path, an address.
    pub id: String,
    /// Changes when the document does: a hash, or time and size.
    pub fingerprint: String,
    /// Its title. Words in it count more than words in the text.
    pub title: String,
    /// Its text.
    pub text: String,
}

/// A part of a document that fits a query.
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
    /// The rank by BM25: the higher, the better.
    pub score: f64,
}

/// The documents that a store has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexed {
    /// The fingerprints, by id: a document whose fingerprint is another now has to be put again.
    pub fingerprints: BTreeMap<String, String>,
    /// What a person should know: that the index was damaged and is empty now.
    pub notice: Option<String>,
}

/// Finds passages of documents by their words. Documents are in named stores, which know nothing of each other.
///
/// An index holds nothing that cannot be gathered again: one that is damaged begins anew, and [`TextIndex::indexed`] says so.
///
/// ```
/// use windlass_core::{Document, Indexed, Passage, TextIndex, ToolError};
///
/// /// For those who have nothing to find.
/// struct Nothing;
///
/// impl TextIndex for Nothing {
///     fn indexed(&self, _: &str) -> Result<Indexed, ToolError> {
///         Ok(Indexed::default())
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
    /// The documents of a store.
    fn indexed(&self, store: &str) -> Result<Indexed, ToolError>;

    /// Adds documents, or replaces those of the same ids: all of them or none.
    fn put(&self, store: &str, documents: &[Document]) -> Result<(), ToolError>;

    /// Removes documents. Ids that are not there are passed over.
    fn remove(&self, store: &str, ids: &[String]) -> Result<(), ToolError>;

    /// The best passages for a query, the best first. All words must occur, or some of them where no passage has all. `"two words"`
    /// is a phrase and `wor*` the beginning of a word; nothing else has a meaning of its own, and no text is an error.
    fn search(&self, store: &str, query: &str, limit: usize) -> Result<Vec<Passage>, ToolError>;
}
