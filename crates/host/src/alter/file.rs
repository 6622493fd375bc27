//! A regular file with new content, whether or not there is one.

use rustix::io::Errno;
use windlass_core::{Altered, Attributes, Expect, FileErrorKind, Resolved, Source};

use super::temporary::{Style, as_errno};
use super::{create, replace};
use crate::files::LocalFiles;
use crate::kernel::Lookup;

/// What a file will be.
#[derive(Debug, Clone, Copy)]
pub(super) struct New<'a> {
    pub(super) content: Source<'a>,
    pub(super) attributes: Option<&'a Attributes>,
    /// The name to have before it has its own.
    pub(super) temporary: Option<&'a str>,
}

impl New<'_> {
    /// When it was last changed, if it shall not be now.
    pub(super) fn modified(&self) -> Option<i64> {
        self.attributes.and_then(|attributes| attributes.modified)
    }
}

/// Writes a file.
pub(super) fn write(
    files: &LocalFiles,
    path: &Resolved,
    expect: Expect,
    new: &New<'_>,
) -> Result<Altered, FileErrorKind> {
    let attempt = |style| match expect {
        Expect::Absent => create::create(files, path, new, style),
        Expect::Same(seen) => replace::replace(files, path, seen, new, style),
    };
    let style = best_style(files.resolver.lookup(), new);
    match attempt(style) {
        Err(FileErrorKind::Io(why))
            if style == Style::Unnamed && as_errno(&why) == Errno::OPNOTSUPP =>
        {
            attempt(Style::Named)
        }
        written => written,
    }
}

/// A name from the beginning is faster. But somebody must know it, to clean up after us should we be killed.
fn best_style(lookup: Lookup, new: &New<'_>) -> Style {
    match (lookup, new.temporary) {
        (Lookup::AtOnce, None) => Style::Unnamed,
        // A file without a name needs `/proc` to get one.
        _ => Style::Named,
    }
}
