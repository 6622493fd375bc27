//! Files as tools and machines see them: resolved paths, facts, walks, and changes that are all of the new or all of the old.
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
//! | choose how safe a change is from a loss of power | [`Durability`], [`Builder::durability`](crate::Builder::durability) |

pub use windlass_core::{
    Alteration, Altered, Attributes, Batch, Entry, Expect, Extent, FileError, FileErrorKind,
    FileKind, Files, Fingerprint, Found, FoundBody, KeptContent, Note, OpenFile, Opened, Opener,
    Resolved, Source, Stat, To, Visitor, Walk, WalkOptions, WalkReport,
};
pub use windlass_host::Durability;
