//! Links: one more name for a file, and symbolic links.
//!
//! Where nothing is, the kernel itself makes sure of that. What is to be replaced is replaced by one rename: a link of another name
//! comes over it.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use windlass_core::{
    Alteration, Altered, Expect, FileErrorKind, FileKind, Fingerprint, Resolved, Stat,
};

use super::parents::Parents;
use super::target::Target;
use super::temporary::with_name;
use super::{stale_if_missing, unconfirmed, unseen, whole};
use crate::files::LocalFiles;
use crate::kernel::{Lookup, NAME_ONLY, descriptor_path, meaning, open_child, stat, stat_child};

/// A symbolic link.
pub(super) fn symbolic(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
    to: &Path,
) -> Result<Altered, FileErrorKind> {
    if to.as_os_str().is_empty() {
        return Err(FileErrorKind::BadName("a symbolic link cannot point to an empty path"));
    }
    put(files, path, alteration, &|directory, name| rustix::fs::symlinkat(to, directory, name))
}

/// One more name for a file that is still what was seen.
pub(super) fn hard(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
    with: &Resolved,
    seen: Fingerprint,
) -> Result<Altered, FileErrorKind> {
    let source = Target::open(&files.resolver, with, seen)?;
    source.look_at_file()?;
    let _locked = source.lock()?;
    let found = source.look()?;
    if let Expect::Same(there) = alteration.expect
        && there.is_same_object(&seen)
    {
        // It has that name already.
        return Target::open(&files.resolver, path, there)?.look().map(|_| whole(found.stat));
    }
    let altered = put(files, path, alteration, &|directory, name| {
        link_seen(&source, files.resolver.lookup(), directory, name)
    })?;
    match altered.stat {
        Some(stat) if stat.fingerprint.is_same_object(&seen) => Ok(altered),
        _ => Err(FileErrorKind::Changed),
    }
}

/// Links exactly what was seen: by handle where `/proc` can name one.
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

/// Makes a link in its place.
fn put(
    files: &LocalFiles,
    path: &Resolved,
    alteration: &Alteration<'_>,
    make: &dyn Fn(BorrowedFd<'_>, &Path) -> Result<(), Errno>,
) -> Result<Altered, FileErrorKind> {
    match alteration.expect {
        Expect::Absent => put_new(files, path, make),
        Expect::Same(seen) => {
            let target = Target::open(&files.resolver, path, seen)?;
            put_over(files, &target, alteration.temporary, make)
        }
    }
    .map(whole)
}

fn put_new(
    files: &LocalFiles,
    path: &Resolved,
    make: &dyn Fn(BorrowedFd<'_>, &Path) -> Result<(), Errno>,
) -> Result<Stat, FileErrorKind> {
    let Some(name) = path.path.file_name() else {
        return Err(FileErrorKind::Exists);
    };
    let parents = Parents::make(&files.resolver, path).map_err(meaning)?;
    make(parents.directory(), Path::new(name)).map_err(not_linked)?;
    parents.settle(files.durability).map_err(unconfirmed)?;
    stat_child(parents.directory(), name).map_err(unseen)
}

fn put_over(
    files: &LocalFiles,
    target: &Target<'_>,
    temporary: Option<&str>,
    make: &dyn Fn(BorrowedFd<'_>, &Path) -> Result<(), Errno>,
) -> Result<Stat, FileErrorKind> {
    let old = target.look()?;
    let _locked = match old.stat.kind {
        FileKind::File => target.lock()?,
        FileKind::Symlink => None,
        other => return Err(FileErrorKind::NotRegular(other)),
    };
    let directory = target.directory();
    let (name, ()) =
        with_name(temporary, |name| make(directory, Path::new(name))).map_err(not_linked)?;
    let put = target.look().and_then(|_| {
        rustix::fs::renameat(directory, &name, directory, target.name).map_err(stale_if_missing)
    });
    put.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(directory, &name, AtFlags::empty());
    })?;
    files.durability.settle_directory(directory).map_err(unconfirmed)?;
    stat_child(directory, target.name).map_err(unseen)
}

fn not_linked(errno: Errno) -> FileErrorKind {
    match errno {
        Errno::XDEV => FileErrorKind::Io(std::io::Error::other(
            "the two names would be on different file systems; copy the file instead",
        )),
        other => meaning(other),
    }
}
