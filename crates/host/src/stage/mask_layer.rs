//! Creates the lower layer of an overlay that hides masked entries of the workspace.
//!
//! The layer is mounted above the workspace (`lowerdir=LAYER:WORKSPACE`). It holds a whiteout for each masked entry, and the directories
//! above it. A merged directory shows the attributes of its topmost layer, so each of these directories gets the attributes of the
//! workspace's directory.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use windlass_core::{Attributes, FileKind};

use crate::attributes;
use crate::isolate::tree::Tree;

/// Prefixes of the extended attributes in which an overlay keeps its own state. An opaque mark would hide all of a directory.
const OVERLAY_PREFIXES: [&str; 2] = ["user.overlay.", "trusted.overlay."];

/// Fills `layer` with whiteouts for the masked entries of `root`. The layer is created if it is missing and must be empty otherwise.
///
/// An entry is skipped if a directory above it is gone or has become a link. That reveals nothing: through a missing directory there is no
/// path either, and wherever a link leads in the workspace is masked by its own path. A directory in the layer would hide the link instead,
/// and the program would see another tree than the person.
pub(crate) fn build(root: &Path, masked: &[(PathBuf, FileKind)], layer: &Path) -> io::Result<()> {
    let workspace = Tree::open(root).map_err(io::Error::other)?;
    match DirBuilder::new().mode(0o700).create(layer) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let layer = Tree::open(layer).map_err(io::Error::other)?;
    let mut parents = BTreeMap::from([(PathBuf::new(), Some(read(&workspace, Path::new(""))?))]);
    for (path, _) in masked {
        let (Some(parent), Some(_)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("the workspace itself cannot be masked"));
        };
        make_parents(&workspace, &layer, parent, &mut parents)?;
        if parents.get(parent).is_some_and(Option::is_some) {
            make_whiteout(&layer, path)
                .map_err(|errno| io::Error::other(layer.errno_error("mask", path, errno)))?;
        }
    }
    // The deepest first: a directory that has its final mode may not let us enter it any more.
    for (path, wanted) in parents.iter().rev() {
        if let Some(wanted) = wanted {
            set_attributes(&layer, path, wanted).map_err(|errno| {
                io::Error::other(layer.errno_error("give attributes to", path, errno))
            })?;
        }
    }
    Ok(())
}

/// Creates a directory and those above it. Records `None` for those that do not exist in the workspace any more.
fn make_parents(
    workspace: &Tree,
    layer: &Tree,
    parent: &Path,
    known: &mut BTreeMap<PathBuf, Option<Attributes>>,
) -> io::Result<()> {
    let mut missing: Vec<&Path> =
        parent.ancestors().take_while(|path| !known.contains_key(*path)).collect();
    while let Some(path) = missing.pop() {
        let above = path.parent().and_then(|above| known.get(above));
        let wanted = match above {
            Some(None) => None,
            _ => read_unless_gone(workspace, path)?,
        };
        if wanted.is_some() {
            make_directory(layer, path)
                .map_err(|errno| io::Error::other(layer.errno_error("make", path, errno)))?;
        }
        known.insert(path.to_owned(), wanted);
    }
    Ok(())
}

/// Reads the attributes of a workspace directory; `None` if it is gone or a link.
fn read_unless_gone(workspace: &Tree, path: &Path) -> io::Result<Option<Attributes>> {
    match workspace.directory(path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(io::Error::other(workspace.errno_error("read", path, errno))),
        Ok(handle) => read_handle(&handle)
            .map(Some)
            .map_err(|errno| io::Error::other(workspace.errno_error("read", path, errno))),
    }
}

/// Reads the attributes of a workspace directory that must exist.
fn read(workspace: &Tree, path: &Path) -> io::Result<Attributes> {
    let gone = || io::Error::other(workspace.errno_error("read", path, Errno::NOENT));
    read_unless_gone(workspace, path)?.ok_or_else(gone)
}

/// Reads the attributes of an open directory, without those of an overlay.
fn read_handle(handle: &OwnedFd) -> Result<Attributes, Errno> {
    let mut found = attributes::read(handle, &rustix::fs::fstat(handle)?)?;
    let is_state = |name: &str| OVERLAY_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    found.extended.iter_mut().for_each(|extended| extended.retain(|(name, _)| !is_state(name)));
    Ok(found)
}

/// Creates a directory in the layer. Its parent exists.
fn make_directory(layer: &Tree, path: &Path) -> Result<(), Errno> {
    let (above, name) = split(layer, path)?;
    rustix::fs::mkdirat(above, name, Mode::RWXU)
}

/// Creates a whiteout: a character device with the number 0, which every user may create since Linux 5.8.
fn make_whiteout(layer: &Tree, path: &Path) -> Result<(), Errno> {
    let (above, name) = split(layer, path)?;
    rustix::fs::mknodat(above, name, FileType::CharacterDevice, Mode::empty(), 0)
}

/// Returns the handle of the parent directory in the layer, and the name in it.
fn split<'p>(layer: &Tree, path: &'p Path) -> Result<(OwnedFd, &'p std::ffi::OsStr), Errno> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    Ok((layer.directory(path.parent().unwrap_or(Path::new("")))?, name))
}

/// Sets the attributes of a directory in the layer. Sets the time last, because every other change would reset it.
fn set_attributes(layer: &Tree, path: &Path, wanted: &Attributes) -> Result<(), Errno> {
    let directory = layer.directory(path)?;
    attributes::give(&directory, &rustix::fs::fstat(&directory)?, wanted)?;
    attributes::give_time(&directory, wanted.modified)
}
