//! Writes a regular file, new or existing.

use rustix::io::Errno;
use windlass_core::{Altered, Attributes, ContentSource, ExpectedState, FileErrorKind, Resolved};

use super::temporary::{TemporaryStyle, as_errno};
use super::{create, replace};
use crate::files::LocalFiles;
use crate::kernel::Lookup;

/// Content and attributes that a file will have.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewFile<'a> {
    pub(super) content: ContentSource<'a>,
    pub(super) attributes: Option<&'a Attributes>,
    /// Name for the temporary file; `None` for a random one.
    pub(super) temporary: Option<&'a str>,
}

impl NewFile<'_> {
    /// Returns the modification time to set; `None` for the present time.
    pub(super) fn modified(&self) -> Option<i64> {
        self.attributes.and_then(|attributes| attributes.modified)
    }
}

/// Writes a file: creates it if nothing is expected, replaces it otherwise.
pub(super) fn write(
    files: &LocalFiles,
    path: &Resolved,
    expect: ExpectedState,
    new: &NewFile<'_>,
) -> Result<Altered, FileErrorKind> {
    let attempt = |style| match expect {
        ExpectedState::Absent => create::create(files, path, new, style),
        ExpectedState::Same(seen) => replace::replace(files, path, seen, new, style),
    };
    let style = best_style(files.resolver.lookup(), new);
    match attempt(style) {
        Err(FileErrorKind::Io(why))
            if style == TemporaryStyle::Unnamed && as_errno(&why) == Errno::OPNOTSUPP =>
        {
            attempt(TemporaryStyle::Named)
        }
        written => written,
    }
}

/// Returns the better style of temporary file. A file that is named from the beginning is chosen only if the caller recorded the name, so
/// that it can be removed after a crash, or if there is no other way.
fn best_style(lookup: Lookup, new: &NewFile<'_>) -> TemporaryStyle {
    match (lookup, new.temporary) {
        (Lookup::Openat2, None) => TemporaryStyle::Unnamed,
        // A file without a name needs `/proc` to get one.
        _ => TemporaryStyle::Named,
    }
}
