//! Makes the lower layer of an overlay that hides masked entries of the workspace.
//!
//! The layer is mounted above the workspace (`lowerdir=LAYER:WORKSPACE`). It holds a whiteout for each masked entry, and the
//! directories that lead there. A merged directory shows the attributes of its upper-most layer, so each of these directories gets
//! the attributes of the workspace's own.

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

/// Prefixes of the attributes in which an overlay keeps its own state. An opaque mark would hide all of a directory.
const OVERLAY_STATE: [&str; 2] = ["user.overlay.", "trusted.overlay."];

/// Fills `layer`, which is made if it is missing and must be empty otherwise, with whiteouts for the masked entries of `root`.
///
/// An entry is left out if a directory on its way is gone or has become a link meanwhile. That shows nothing: the overlay has no
/// such path either. It shows the link itself, and wherever the link leads in the workspace is masked by its own path. A directory
/// in the layer would hide the link instead, and show the program another tree than the person's.
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
                .map_err(|errno| io::Error::other(layer.failed("mask", path, errno)))?;
        }
    }
    // The deepest first: below a directory that has its own mode, ours might not let us go.
    for (path, wanted) in parents.iter().rev() {
        if let Some(wanted) = wanted {
            give(&layer, path, wanted).map_err(|errno| {
                io::Error::other(layer.failed("give attributes to", path, errno))
            })?;
        }
    }
    Ok(())
}

/// Makes a directory and those above it. Of those that are not in the workspace any more, `None` is remembered.
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
                .map_err(|errno| io::Error::other(layer.failed("make", path, errno)))?;
        }
        known.insert(path.to_owned(), wanted);
    }
    Ok(())
}

fn read_unless_gone(workspace: &Tree, path: &Path) -> io::Result<Option<Attributes>> {
    match workspace.directory(path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(io::Error::other(workspace.failed("read", path, errno))),
        Ok(handle) => read_handle(&handle)
            .map(Some)
            .map_err(|errno| io::Error::other(workspace.failed("read", path, errno))),
    }
}

fn read(workspace: &Tree, path: &Path) -> io::Result<Attributes> {
    let gone = || io::Error::other(workspace.failed("read", path, Errno::NOENT));
    read_unless_gone(workspace, path)?.ok_or_else(gone)
}

fn read_handle(handle: &OwnedFd) -> Result<Attributes, Errno> {
    let mut found = attributes::read(handle, &rustix::fs::fstat(handle)?)?;
    let is_state = |name: &str| OVERLAY_STATE.iter().any(|prefix| name.starts_with(prefix));
    found.extended.iter_mut().for_each(|extended| extended.retain(|(name, _)| !is_state(name)));
    Ok(found)
}

fn make_directory(layer: &Tree, path: &Path) -> Result<(), Errno> {
    let (above, name) = split(layer, path)?;
    rustix::fs::mkdirat(above, name, Mode::RWXU)
}

/// A whiteout is a character device with the number 0, which everybody may make since Linux 5.8.
fn make_whiteout(layer: &Tree, path: &Path) -> Result<(), Errno> {
    let (above, name) = split(layer, path)?;
    rustix::fs::mknodat(above, name, FileType::CharacterDevice, Mode::empty(), 0)
}

fn split<'p>(layer: &Tree, path: &'p Path) -> Result<(OwnedFd, &'p std::ffi::OsStr), Errno> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    Ok((layer.directory(path.parent().unwrap_or(Path::new("")))?, name))
}

/// The time comes last: every other change would set it anew.
fn give(layer: &Tree, path: &Path, wanted: &Attributes) -> Result<(), Errno> {
    let directory = layer.directory(path)?;
    attributes::give(&directory, &rustix::fs::fstat(&directory)?, wanted)?;
    attributes::give_time(&directory, wanted.modified)
}
