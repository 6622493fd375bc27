//! Creates hard links and symbolic links.
//!
//! At a free path, the kernel itself refuses to replace anything. An existing object is replaced by one rename of a link with a temporary
//! name.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use windlass_core::{
    Alteration, Altered, ExpectedState, FileErrorKind, FileKind, Fingerprint, Resolved, Stat,
};

use super::parents::Parents;
use super::target::Target;
use super::temporary::try_free_names;
use super::{altered_whole, stale_if_missing, stat_failed, sync_failed};
use crate::files::LocalFiles;
use crate::kernel::{Lookup, NAME_ONLY, descriptor_path, error_kind, open_child, stat, stat_child};

/// Creates a symbolic link that points to `to`.
pub(super) fn symbolic(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
    to: &Path,
) -> Result<Altered, FileErrorKind> {
    if to.as_os_str().is_empty() {
        return Err(FileErrorKind::BadName("a symbolic link cannot point to an empty path"));
    }
    create_link(files, path, alteration, &|directory, name| {
        rustix::fs::symlinkat(to, directory, name)
    })
}

/// Creates a hard link to a file that is still the one that was seen.
pub(super) fn hard(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
    with: &Resolved,
    seen: Fingerprint,
) -> Result<Altered, FileErrorKind> {
    let source = Target::open(&files.resolver, with, seen)?;
    source.check_unchanged_file()?;
    let _locked = source.lock()?;
    let found = source.check_unchanged()?;
    if let ExpectedState::Same(there) = alteration.expect
        && there.is_same_object(&seen)
    {
        // The path is a name of that file already.
        return Target::open(&files.resolver, path, there)?
            .check_unchanged()
            .map(|_| altered_whole(found.stat));
    }
    let altered = create_link(files, path, alteration, &|directory, name| {
        link_seen(&source, files.resolver.lookup(), directory, name)
    })?;
    match altered.stat {
        Some(stat) if stat.fingerprint.is_same_object(&seen) => Ok(altered),
        _ => Err(FileErrorKind::Changed),
    }
}

/// Links exactly the file that was seen: by handle, where `/proc` can name one.
fn link_seen(
    source: &Target<'_>,
    lookup: Lookup,
    directory: BorrowedFd<'_>,
    name: &Path,
) -> Result<(), Errno> {
    if lookup == Lookup::ByComponent {
        return rustix::fs::linkat(
            source.directory(),
            source.name,
            directory,
            name,
            AtFlags::empty(),
        );
    }
    let handle = open_child(source.directory(), source.name, NAME_ONLY)?;
    if !stat(&handle)?.fingerprint.is_same_object(&source.seen) {
        return Err(Errno::LOOP);
    }
    rustix::fs::linkat(CWD, descriptor_path(&handle), directory, name, AtFlags::SYMLINK_FOLLOW)
}

/// Creates a link by `make` at the path of the alteration, free or not.
fn create_link(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
    make: &dyn Fn(BorrowedFd<'_>, &Path) -> Result<(), Errno>,
) -> Result<Altered, FileErrorKind> {
    match alteration.expect {
        ExpectedState::Absent => create_at_free_path(files, path, make),
        ExpectedState::Same(seen) => {
            let target = Target::open(&files.resolver, path, seen)?;
            replace_by_link(files, &target, alteration.temporary, make)
        }
    }
    .map(altered_whole)
}

/// Creates a link at a free path, and the missing directories above it.
fn create_at_free_path(
    files: &LocalFiles,
    path: &Resolved,
    make: &dyn Fn(BorrowedFd<'_>, &Path) -> Result<(), Errno>,
) -> Result<Stat, FileErrorKind> {
    let Some(name) = path.path.file_name() else {
        return Err(FileErrorKind::Exists);
    };
    let parents = Parents::open_or_create(&files.resolver, path).map_err(error_kind)?;
    make(parents.directory(), Path::new(name)).map_err(link_error)?;
    parents.sync(files.durability).map_err(sync_failed)?;
    stat_child(parents.directory(), name).map_err(stat_failed)
}

/// Replaces an existing file or link by a link.
fn replace_by_link(
    files: &LocalFiles,
    target: &Target<'_>,
    temporary: Option<&str>,
    make: &dyn Fn(BorrowedFd<'_>, &Path) -> Result<(), Errno>,
) -> Result<Stat, FileErrorKind> {
    let old = target.check_unchanged()?;
    let _locked = match old.stat.kind {
        FileKind::File => target.lock()?,
        FileKind::Symlink => None,
        other => return Err(FileErrorKind::NotRegular(other)),
    };
    let directory = target.directory();
    let (name, ()) =
        try_free_names(temporary, |name| make(directory, Path::new(name))).map_err(link_error)?;
    let create_link = target.check_unchanged().and_then(|_| {
        rustix::fs::renameat(directory, &name, directory, target.name).map_err(stale_if_missing)
    });
    create_link.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(directory, &name, AtFlags::empty());
    })?;
    files.durability.sync_directory(directory).map_err(sync_failed)?;
    stat_child(directory, target.name).map_err(stat_failed)
}

/// Converts the error of a link.
fn link_error(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::XDEV => FileErrorKind::Io(std::io::Error::other(
            "the two names would be on different file systems; copy the file instead",
        )),
        other => error_kind(other),
    }
}
