//! Makes one object what it should be, if it still is what was seen.
//!
//! Every change goes the same way: the place is opened by the handle of its directory, what is there is held against what was
//! expected, the new object is made whole beside it and takes its name in one step, after a last look. What fails on the way
//! leaves what was there. This file only says who does what.

mod adopt;
mod attributes;
mod content;
mod create;
mod directory;
mod file;
mod in_place;
mod link;
pub(crate) mod locks;
mod moved;
mod parents;
mod prepare;
mod remove;
mod replace;
mod target;
mod temporary;

use rustix::io::Errno;
use windlass_core::{Alteration, Altered, Expect, FileError, FileErrorKind, Resolved, Stat, To};

use crate::files::LocalFiles;
use crate::kernel::{meaning, refusal};
pub(crate) use content::copy as copy_content;
pub(crate) use create::new_file_mode;
use locks::Key;
pub(crate) use prepare::prepare;
pub(crate) use temporary::as_errno;

/// Makes a change, or leaves everything as it was.
pub(crate) fn alter(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
) -> Result<Altered, FileError> {
    let _held = files.locks.hold(own_key(path, alteration.expect), other_key(&alteration.to));
    let altered = match alteration.to {
        To::File { content, attributes } => {
            let new = file::New { content, attributes, temporary: alteration.temporary };
            file::write(files, path, alteration.expect, &new)
        }
        To::Attributes(attributes) => {
            attributes::change(files, path, alteration.expect, attributes)
        }
        To::Moved { from, seen } => {
            return moved::move_here(files, path, alteration.expect, from, seen);
        }
        To::Linked { with, seen } => link::hard(files, path, alteration, with, seen),
        To::Symlink(target) => link::symbolic(files, path, alteration, target),
        To::Directory { attributes } => directory::make(files, path, alteration.expect, attributes),
        To::Nothing => remove::remove(files, path, alteration.expect),
    };
    altered.map_err(|kind| refusal(doing(&alteration.to), path, kind))
}

/// What an error says was tried.
fn doing(to: &To<'_>) -> &'static str {
    match to {
        To::File { .. } => "write",
        To::Attributes(_) => "change the attributes of",
        To::Moved { .. } => "move",
        To::Linked { .. } | To::Symlink(_) => "link",
        To::Directory { .. } => "make",
        To::Nothing => "remove",
    }
}

/// What is there is locked by what it is, under whichever name; what is not there, by its place.
fn own_key(path: &Resolved, expect: Expect) -> Key<'_> {
    match expect {
        Expect::Absent => Key::Place(&path.path),
        Expect::Same(seen) => Key::Object(seen.device, seen.inode),
    }
}

fn other_key(to: &To<'_>) -> Option<Key<'static>> {
    match to {
        To::Moved { seen, .. } | To::Linked { seen, .. } => {
            Some(Key::Object(seen.device, seen.inode))
        }
        _ => None,
    }
}

/// An object that is new under its name, or was replaced whole.
fn whole(stat: Stat) -> Altered {
    Altered { stat: Some(stat), in_place: false }
}

/// What was there to be changed is gone.
fn stale_if_missing(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::NOENT | Errno::NOTDIR => FileErrorKind::Stale,
        other => meaning(other),
    }
}

/// The change is made, but nobody can say whether it survives a power cut.
fn unconfirmed(errno: Errno) -> FileErrorKind {
    FileErrorKind::Io(std::io::Error::other(format!(
        "the change is made, but the disk did not confirm it ({errno})"
    )))
}

/// The change is made, but what is there now could not be looked at.
fn unseen(errno: Errno) -> FileErrorKind {
    FileErrorKind::Io(std::io::Error::other(format!(
        "the change is made, but it could not be looked at afterwards ({errno})"
    )))
}
