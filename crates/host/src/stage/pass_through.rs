//! Finds the build directories of a workspace, and moves new ones from a stage into it.
//!
//! They can be made again, so their content is not on the record.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, RenameFlags};
use rustix::io::Errno;
use windlass_core::FileKind;

use super::Stage;
use super::build_directory::{MAX_DEPTH, is_named, is_never_source, is_not_entered, is_tagged};
use super::entries::Entries;
use super::lineage::Lineage;
use crate::isolate::clear::remove_tree;
use crate::isolate::copy::{Selection, copy};
use crate::isolate::tree::Tree;
use crate::kernel::{FOR_LISTING, open_child, stat_child};
use crate::rule_files::Signs;

/// What overlayfs notes about a directory.
const MARKS: [&str; 3] = ["user.overlay.opaque", "user.overlay.origin", "user.overlay.impure"];

/// The directories of a workspace that have one of the names and can be made again, by absolute path, in order.
///
/// ```
/// use windlass_host::{PASS_THROUGH, pass_through};
/// # let ground = tempfile::tempdir()?;
/// # let workspace = std::fs::canonicalize(ground.path())?;
/// std::fs::create_dir_all(workspace.join("app/node_modules/left-pad"))?;
/// std::fs::create_dir(workspace.join("build"))?;
/// let names = PASS_THROUGH.map(str::to_owned);
/// assert_eq!(pass_through(&workspace, &names), [workspace.join("app/node_modules")]);
///
/// std::fs::write(workspace.join(".gitignore"), "/build\n")?;
/// assert_eq!(pass_through(&workspace, &names).len(), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pass_through(workspace: &Path, names: &[String]) -> Vec<PathBuf> {
    let Ok(tree) = Tree::open(workspace) else { return Vec::new() };
    let mut search = Search {
        tree: &tree,
        names,
        entries: Entries::new(),
        lineage: Lineage::new(&tree),
        waiting: vec![Waiting { path: PathBuf::new(), depth: 0 }],
        found: Vec::new(),
    };
    while let Some(directory) = search.waiting.pop() {
        // A directory that cannot be listed holds nothing that a program could write to.
        let _: Result<(), Errno> = search.look_into(&directory);
    }
    search.found.sort_unstable();
    search.found
}

/// A directory that is still to be listed.
struct Waiting {
    path: PathBuf,
    depth: usize,
}

struct Search<'a> {
    tree: &'a Tree,
    names: &'a [String],
    entries: Entries,
    lineage: Lineage<'a>,
    waiting: Vec<Waiting>,
    found: Vec<PathBuf>,
}

impl Search<'_> {
    fn look_into(&mut self, at: &Waiting) -> Result<(), Errno> {
        let directory = self.tree.directory(&at.path)?;
        let (mut signs, mut names) = (Signs::default(), Vec::new());
        self.entries.each(directory.as_fd(), |name, kind| {
            signs.see(name.as_bytes());
            if kind == FileKind::Directory && !is_not_entered(name) {
                names.push(name.to_owned());
            }
        })?;
        self.lineage.enter(at.depth, at.path.as_os_str().len(), signs);
        for name in names {
            let path = at.path.join(&name);
            if self.is_build_directory(directory.as_fd(), &name, &at.path) {
                self.found.push(self.tree.path.join(path));
            } else if at.depth + 1 < MAX_DEPTH {
                self.waiting.push(Waiting { path, depth: at.depth + 1 });
            }
        }
        Ok(())
    }

    fn is_build_directory(&mut self, parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> bool {
        if !is_named(name, self.names) {
            return false;
        }
        if is_never_source(name) || is_tagged(parent, name) {
            return true;
        }
        let absolute = self.tree.path.join(path).join(name);
        // Rules that cannot be read hide nothing: then more is on the record than need be.
        let rules = self.lineage.rules(path.as_os_str().as_bytes());
        rules.is_ok_and(|rules| rules.standing.ignores(&absolute))
    }
}

/// Brings a directory that was [passed](super::Delta::passed) from its stage into the workspace. If there is something of that name
/// by now it stays, and the new one is left behind: either can be made again.
///
/// ```
/// use windlass_host::{Stage, move_passed};
/// # let ground = tempfile::tempdir()?;
/// # let (state, workspace) = (ground.path().join("state"), ground.path().join("workspace"));
/// # std::fs::create_dir(&workspace)?;
/// let stage = Stage::create(&state)?;
/// // A program on the stage does this:
/// std::fs::create_dir_all(stage.upper().join("target/debug"))?;
///
/// move_passed(&stage, &workspace, &workspace.join("target"))?;
/// assert!(workspace.join("target/debug").is_dir());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn move_passed(stage: &Stage, workspace: &Path, path: &Path) -> io::Result<()> {
    let inside = path.strip_prefix(workspace).unwrap_or(path);
    let (Some(parent), Some(name)) = (inside.parent(), inside.file_name()) else {
        return Err(io::Error::other("the workspace itself cannot be passed through"));
    };
    let upper = Tree::open(stage.upper()).map_err(io::Error::other)?;
    let lower = Tree::open(workspace).map_err(io::Error::other)?;
    let failed = |errno| io::Error::other(lower.failed("bring", inside, errno));
    let from = upper.directory(parent).map_err(failed)?;
    let to = lower.directory(parent).map_err(failed)?;
    let moved = match move_directory(&from, &to, name) {
        Err(Errno::XDEV) => {
            return copy_directory(&upper.path.join(inside), &lower.path.join(inside), &to);
        }
        moved => moved,
    };
    unless_there(moved).map_err(failed)
}

fn move_directory(from: &OwnedFd, to: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let directory = open_child(from.as_fd(), name, FOR_LISTING)?;
    for mark in MARKS {
        // Most have none of them, and nobody minds one in the workspace.
        let _: Result<(), Errno> = rustix::fs::fremovexattr(&directory, mark);
    }
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode & 0o7777);
    if mode.contains(Mode::WUSR) {
        return rename_new(from, name, to, name);
    }
    // A directory that goes elsewhere is written to: it has another parent then.
    rustix::fs::fchmod(&directory, mode | Mode::WUSR)?;
    let moved = rename_new(from, name, to, name);
    rustix::fs::fchmod(&directory, mode)?;
    moved
}

/// Between file systems: under another name until all of it is there.
fn copy_directory(from: &Path, to: &Path, parent: &OwnedFd) -> io::Result<()> {
    let own = format!(".windlass-{:016x}.tmp", crate::random::number()?);
    let temporary = to.with_file_name(&own);
    std::fs::create_dir(&temporary)?;
    let copied = fill_copy(from, &temporary).and_then(|()| {
        let name = to.file_name().unwrap_or_default();
        Ok(rename_new(parent, own.as_ref(), parent, name)?)
    });
    if copied.is_err() {
        remove_tree(&temporary)?;
    }
    match copied {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        copied => copied,
    }
}

fn fill_copy(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) =
        (Tree::open(from).map_err(io::Error::other)?, Tree::open(to).map_err(io::Error::other)?);
    copy(&from, &to, &Selection::Everything).map(drop).map_err(io::Error::other)
}

fn rename_new(from: &OwnedFd, old: &OsStr, to: &OwnedFd, new: &OsStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // Some file systems cannot promise that. A directory never replaces one in which something is.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match stat_child(to, new) {
            Err(Errno::NOENT) => rustix::fs::renameat(from, old, to, new),
            Err(errno) => Err(errno),
            Ok(_) => Err(Errno::EXIST),
        },
        moved => moved,
    }
}

/// That something is there already is as good.
fn unless_there(moved: Result<(), Errno>) -> Result<(), Errno> {
    match moved {
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(()),
        moved => moved,
    }
}
