//! Surveys a tree before a program starts: finds the entries to mask in its view, build directories, sockets, repositories and
//! mounts.
//!
//! Programs start often and trees change little, so findings are stored in an index file with each directory's inode and change
//! time. The next survey makes one `statx` for each known directory and lists only those that changed. A change of a file's content
//! or mode does not touch its directory, so findings depend on names and kinds only; the few files whose content decides something
//! (ignore files, cache tags, files that may hold a credential) are checked one by one.
//!
//! The result describes one moment. Entries that appear later are not in it.

mod credential;
mod encode;
mod examine;
mod index;
mod status;
mod walker;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use windlass_core::FileKind;

use crate::isolate::tree::Tree;
use index::IndexKey;
use walker::SurveyWalker;

/// Decides which entries of a tree are masked.
pub(crate) trait MaskRule: Sync {
    /// Changes whenever the rule's answers may change although the tree did not. An index made under another value is not used.
    fn fingerprint(&self) -> u64;

    /// Returns whether to mask an entry. Called for every entry whose parent directory is not masked; the path is absolute.
    fn masks(&self, path: &Path, kind: FileKind) -> Masking;
}

/// Answer of a [`MaskRule`] about one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Masking {
    Show,
    Mask,
    /// Mask a regular file if its content has a credential, as `.npmrc` may. Show other kinds.
    IfCredential,
}

/// Findings about a tree. All paths are relative to its root and sorted; a masked entry is in `masked` and, apart from that, at
/// most in `protected`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Masked entries with their kind, none below another.
    pub(crate) masked: Vec<(PathBuf, FileKind)>,
    /// Directories that hold build results. They are not entered.
    pub(crate) build_directories: Vec<PathBuf>,
    /// Unix sockets.
    pub(crate) sockets: Vec<PathBuf>,
    /// Entries named `.git` (directory, file or link), directories named `.jj` or `.hg`, and directories that look like a bare
    /// repository. The named ones are not entered.
    pub(crate) git: Vec<PathBuf>,
    /// Mount points. They are not entered; an overlay does not show their contents either.
    pub(crate) other_devices: Vec<PathBuf>,
    /// Entries that are protected paths by their name, or contain one. They may be masked, too.
    pub(crate) protected: Vec<PathBuf>,
}

impl Survey {
    /// Adds the findings about a directory of the tree, given by its path.
    pub(crate) fn add(&mut self, directory: &Path, found: Survey) {
        let inside = |path: PathBuf| directory.join(path);
        let Survey { masked, build_directories, sockets, git, other_devices, protected } = found;
        self.masked.extend(masked.into_iter().map(|(path, kind)| (inside(path), kind)));
        for (to, paths) in [
            (&mut self.build_directories, build_directories),
            (&mut self.sockets, sockets),
            (&mut self.git, git),
            (&mut self.other_devices, other_devices),
            (&mut self.protected, protected),
        ] {
            to.extend(paths.into_iter().map(inside));
        }
    }
}

/// Work that one survey did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SurveyEffort {
    /// Directories that were listed because the index had no current record of them.
    pub(crate) listed: usize,
    /// True if the index file was written.
    pub(crate) saved: bool,
}

/// Surveys the tree at `root`, an absolute path without links, using the index file `index`.
///
/// An index that is missing or damaged, or was made for another tree, rule or list of names, costs a full walk and is no error.
pub(crate) fn survey(
    root: &Path,
    rule: &dyn MaskRule,
    build_names: &[String],
    index: &Path,
) -> io::Result<Survey> {
    survey_at(root, rule, build_names, index, &wall_clock).map(|(survey, _)| survey)
}

/// Surveys like [`survey`], with a given clock in nanoseconds since 1970, and also returns the effort.
pub(crate) fn survey_at(
    root: &Path,
    rule: &dyn MaskRule,
    build_names: &[String],
    index: &Path,
    clock: &dyn Fn() -> i64,
) -> io::Result<(Survey, SurveyEffort)> {
    let tree = Tree::open(root).map_err(io::Error::other)?;
    let key = IndexKey::new(root, rule.fingerprint(), build_names);
    let file = index::load(index).unwrap_or_default();
    let old = index::decode(&file, &key).unwrap_or_default();
    let known = old.records;
    let walker = SurveyWalker::new(&tree, rule, build_names, clock, old);
    let (survey, records, listed) = walker.walk()?;
    // A survey without an index is slower, not wrong: a failure to write it must not prevent the program's start.
    let saved = records != known && index::save(index, &encode::encode(&key, &records)).is_ok();
    Ok((survey, SurveyEffort { listed, saved }))
}

/// Returns the time in nanoseconds since 1970.
fn wall_clock() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}
