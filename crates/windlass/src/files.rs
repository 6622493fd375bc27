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
//! | change | [`Alteration`], [`Expect`], [`To`], [`Batch`] |
//! | choose whether a change survives a loss of power | [`Durability`], [`Builder::durability`](crate::Builder::durability) |

pub use windlass_core::{
    Alteration, Altered, Attributes, Batch, Entry, Expect, Extent, FileError, FileErrorKind,
    FileKind, Files, Fingerprint, Found, FoundBody, KeptContent, Note, OpenFile, Opened, Opener,
    Resolved, Source, Stat, To, Visitor, Walk, WalkOptions, WalkReport,
};
pub use windlass_host::Durability;
