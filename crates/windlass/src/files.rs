//! Files, as tools and hosts use them: resolved paths, facts, walks, and changes that are made completely or not at all.
//!
//! A tool uses them through [`FilesDoor`](crate::tool::FilesDoor):
//!
//! ```
//! use std::path::Path;
//! use windlass::{Context, ToolError};
//! fn note(cx: &Context, text: &str) -> Result<(), ToolError> {
//!     cx.files().create(Path::new("note.md"), text.as_bytes())?;
//!     Ok(())
//! }
//! ```
//!
//! | to | see |
//! |---|---|
//! | read and walk | [`Files`], [`Stat`], [`WalkOptions`], [`Entry`] |
//! | change | [`Alteration`], [`ExpectedState`], [`TargetState`], [`Batch`] |
//! | choose whether a change survives a loss of power | [`Durability`], [`Builder::durability`](crate::Builder::durability) |

pub use windlass_core::{
    Alteration, Altered, Attributes, Batch, ContentSource, Entry, ExpectedState, Extent, FileError,
    FileErrorKind, FileKind, Files, Fingerprint, FoundBody, FoundEntry, KeptContent, OpenFile,
    OpenedContent, Opener, Resolved, SkippedPath, Stat, TargetState, Visitor, Walk, WalkOptions,
    WalkReport,
};
pub use windlass_host::Durability;
