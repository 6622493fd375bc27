//! Directories that can be made again: what builds put there is not on the record.
//!
//! A name alone does not say so: `build` can hold sources. It must be one that never does, or be ignored, or be tagged as a cache.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Mode, RenameFlags};
use rustix::io::Errno;
use windlass_core::FileKind;

use super::Stage;
use super::entries::Entries;
use super::ignoring::{Standing, above_workspace};
use crate::ancestry::without_final_slash;
use crate::isolate::clear::remove_tree;
use crate::isolate::copy::{Selection, copy};
use crate::isolate::tree::Tree;
use crate::kernel::{FOR_LISTING, FOR_READING, open_child, stat_child};
use crate::rule_files::{RuleFiles, Signs};

/// The usual names of directories that can be made again.
pub const PASS_THROUGH: [&str; 14] = [
    "target",
    "node_modules",
    ".venv",
    "venv",
    "dist",
    "build",
    "__pycache__",
    ".tox",
    ".gradle",
    ".next",
    ".cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
];

/// Those that nobody writes by hand, ignored or not.
const NEVER_SOURCE: [&str; 7] =
    ["node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache", ".pytest_cache", ".ruff_cache"];

/// How deep they are looked for.
const MAX_DEPTH: usize = 8;

/// Directories in which nothing is looked for.
const NOT_ENTERED: [&str; 3] = [".git", ".jj", ".hg"];

/// How the file begins that makes a directory a cache.
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

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
        waiting: vec![Place { path: PathBuf::new(), depth: 1, parent: None }],
        found: Vec::new(),
    };
    while let Some(place) = search.waiting.pop() {
        // What cannot be listed has nothing that could be written to.
        let _: Result<(), Errno> = search.look_into(place);
    }
    search.found.sort_unstable();
    search.found
}

/// A directory that is still to be looked into.
struct Place {
    path: PathBuf,
    /// How deep its entries are: 1 in the root.
    depth: usize,
    parent: Option<Rc<Seen>>,
}

/// One that was. How it stands to the rules is found out when somebody asks: of most, a name says enough.
struct Seen {
    place: Place,
    signs: Signs,
    standing: OnceCell<Standing>,
}

struct Search<'a> {
    tree: &'a Tree,
    names: &'a [String],
    entries: Entries,
    waiting: Vec<Place>,
    found: Vec<PathBuf>,
}

impl Search<'_> {
    fn look_into(&mut self, place: Place) -> Result<(), Errno> {
        let directory = self.tree.directory(&place.path)?;
        let (mut signs, mut names) = (Signs::default(), Vec::new());
        self.entries.each(directory.as_fd(), |name, kind| {
            signs.see(name.as_bytes());
            if kind == FileKind::Directory && !is_one_of(name, &NOT_ENTERED) {
                names.push(name.to_owned());
            }
        })?;
        if names.is_empty() {
            return Ok(());
        }
        let depth = place.depth;
        let here = Rc::new(Seen { place, signs, standing: OnceCell::new() });
        for name in names {
            let path = here.place.path.join(&name);
            let absolute = self.tree.path.join(&path);
            if is_named(&name, self.names)
                && (is_never_source(&name)
                    || is_tagged(directory.as_fd(), &name)
                    || self.standing(&here).ignores(&absolute))
            {
                self.found.push(absolute);
            } else if depth < MAX_DEPTH {
                self.waiting.push(Place { path, depth: depth + 1, parent: Some(here.clone()) });
            }
        }
        Ok(())
    }

    fn standing<'b>(&self, seen: &'b Seen) -> &'b Standing {
        seen.standing.get_or_init(|| {
            let place = self.tree.path.join(&seen.place.path);
            let above = match &seen.place.parent {
                None => Standing { rules: above_workspace(&self.tree.path), ignored: false },
                Some(parent) => {
                    let above = self.standing(parent);
                    Standing { rules: above.rules.clone(), ignored: above.ignores(&place) }
                }
            };
            self.with_own_rules(seen, &place, above)
        })
    }

    fn with_own_rules(&self, seen: &Seen, place: &Path, above: Standing) -> Standing {
        if above.ignored || seen.signs == Signs::default() {
            return above;
        }
        // Rules that cannot be read hide nothing: then more is on the record than need be.
        let Ok(directory) = self.tree.directory(&seen.place.path) else { return above };
        let place = without_final_slash(place);
        let mut files = RuleFiles::new(self.tree.lookup, true);
        let added = files.read(directory.as_fd(), Path::new(""), place, seen.signs);
        Standing { rules: above.rules.with(place, added.unwrap_or_default()), ignored: false }
    }
}

/// Whether a directory has one of the names.
pub(super) fn is_named(name: &OsStr, names: &[String]) -> bool {
    names.iter().any(|known| known.as_bytes() == name.as_bytes())
}

pub(super) fn is_never_source(name: &OsStr) -> bool {
    is_one_of(name, &NEVER_SOURCE)
}

fn is_one_of(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|known| known.as_bytes() == name.as_bytes())
}

/// Whether a directory in a directory says of itself that it is a cache.
pub(super) fn is_tagged(parent: BorrowedFd<'_>, name: &OsStr) -> bool {
    let tag = Path::new(name).join("CACHEDIR.TAG");
    let Ok(file) = open_child(parent, tag.as_os_str(), FOR_READING) else { return false };
    let mut begin = Vec::with_capacity(TAG.len());
    let read = std::fs::File::from(file).take(TAG.len() as u64).read_to_end(&mut begin);
    read.is_ok() && begin == TAG
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
