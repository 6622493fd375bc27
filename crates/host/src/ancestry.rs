//! Reads the ignore rules that a path inherits from the directories above it.
//!
//! A walk below `src/` obeys the workspace's ignore files too, and a file below an excluded directory is excluded. `.aiexclude`
//! files apply from the workspace down (for a path outside the workspace, from `/` down). The other ignore files apply from the
//! workspace or from the root of the repository around it, whichever is higher, so that a walk of a part shows the same as a walk
//! of the whole.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use windlass_core::{FileKind, Fingerprint, Resolved, SESSION_TMP};

use crate::ignore_files::{AI_EXCLUDE, IgnoreFileReader, PresentNames, UnusableExcludeFile};
use crate::ignore_rules::IgnoreRules;
use crate::inputs::{Input, InputState};
use crate::kernel::{NAME_ONLY, as_path, stat};
use crate::resolver::PathResolver;

/// Rules that apply in the parent directory of a path.
#[derive(Debug)]
pub(crate) struct Ancestry {
    pub(crate) rules: IgnoreRules,
    /// The `.aiexclude` file that hides a directory above the path, if one does.
    pub(crate) excluded_by: Option<PathBuf>,
    /// Ignore files that were read and directories that were searched for them, with their fingerprints at that time.
    pub(crate) fingerprints: Vec<(PathBuf, Fingerprint)>,
    /// Every file above the path whose presence, absence or content decided something.
    pub(crate) inputs: Vec<Input>,
}

/// Reads the ignore files above `place`. Reads only `.aiexclude` files unless `ignoring` is set.
pub(crate) fn read(
    resolver: &PathResolver,
    place: &Resolved,
    ignoring: bool,
) -> Result<Ancestry, UnusableExcludeFile> {
    let mut ancestry = Ancestry {
        rules: IgnoreRules::default(),
        excluded_by: None,
        fingerprints: Vec::new(),
        inputs: Vec::new(),
    };
    // All candidates are prefixes of one path, so comparing lengths tells which contains which.
    let length = |path: &Path| path.as_os_str().len();
    let exclude_from = place.inside.as_ref().map_or(0, |_| length(resolver.workspace()));
    let ignore_from =
        ignoring.then(|| ignore_root(resolver, place, &mut ancestry.inputs)).flatten();
    let ignore_from = ignore_from.map(length);
    let first = ignore_from.map_or(exclude_from, |from| from.min(exclude_from));
    let mut parents: Vec<&Path> = path_and_parents(resolver, place)
        .skip(1)
        .take_while(|parent| length(parent) >= first)
        .collect();
    parents.reverse();
    for parent in parents {
        let ignoring = ignore_from.is_some_and(|from| length(parent) >= from);
        ancestry.add_parent(resolver, place, parent, ignoring)?;
        if ancestry.excluded_by.is_some() {
            break;
        }
    }
    Ok(ancestry)
}

/// Returns the `.aiexclude` file that hides an object, if one does.
pub(crate) fn excluded_by(
    resolver: &PathResolver,
    place: &Resolved,
) -> Result<Option<PathBuf>, UnusableExcludeFile> {
    let ancestry = read(resolver, place, false)?;
    if ancestry.excluded_by.is_some() || ancestry.rules.is_empty() {
        return Ok(ancestry.excluded_by);
    }
    let kind = resolver.pin(place).map_or(FileKind::File, |pinned| pinned.stat.kind);
    Ok(ancestry.excluding(&place.path, kind))
}

impl Ancestry {
    /// Adds the rules of one directory above the path. Called from the topmost directory down.
    fn add_parent(
        &mut self,
        resolver: &PathResolver,
        place: &Resolved,
        parent: &Path,
        ignoring: bool,
    ) -> Result<(), UnusableExcludeFile> {
        self.excluded_by = self.excluding(parent, FileKind::Directory);
        let (from, within) = resolver.handle_and_path_above(place, parent).map_err(|errno| {
            UnusableExcludeFile { path: parent.join(AI_EXCLUDE), why: errno.into() }
        })?;
        let mut files = IgnoreFileReader::new(resolver.lookup(), ignoring);
        let opened = ignoring.then(|| resolver.lookup().open(from, within, NAME_ONLY));
        if let Some(Ok(directory)) = opened
            && let Ok(found) = stat(directory)
        {
            self.fingerprints.push((parent.to_owned(), found.fingerprint));
        }
        let path = without_final_slash(parent);
        let added = files.read(from, within, path, PresentNames::UNKNOWN)?;
        self.rules = self.rules.with(path, added);
        self.fingerprints.append(&mut files.fingerprints);
        self.inputs.append(&mut files.inputs);
        Ok(())
    }

    /// Returns the `.aiexclude` file that hides this very object, which must lie directly in the parent that the rules were read
    /// for.
    pub(crate) fn excluding(&self, path: &Path, kind: FileKind) -> Option<PathBuf> {
        let directory = self.rules.excluded(path.as_os_str().as_bytes(), kind)?;
        Some(as_path(if directory.is_empty() { b"/" } else { directory }).join(AI_EXCLUDE))
    }
}

/// Returns the topmost directory whose ignore files (other than `.aiexclude`) apply to a path.
fn ignore_root<'a>(
    resolver: &'a PathResolver,
    place: &'a Resolved,
    inputs: &mut Vec<Input>,
) -> Option<&'a Path> {
    let repository = path_and_parents(resolver, place).find(|directory| {
        let found = is_repository(resolver, place, directory);
        inputs.push(Input::new(directory.join(".git"), InputState::Exists(found)));
        found
    });
    let workspace = place.inside.as_ref().map(|_| resolver.workspace());
    match (workspace, repository) {
        (Some(workspace), Some(repository)) if workspace.starts_with(repository) => {
            Some(repository)
        }
        (Some(workspace), _) => Some(workspace),
        (None, repository) => repository,
    }
}

/// Iterates over the path itself and all directories above it. For a path in a session's own `/tmp` it ends at `/tmp`: the
/// directories around the session's directory do not apply.
fn path_and_parents<'p>(
    resolver: &PathResolver,
    place: &'p Resolved,
) -> impl Iterator<Item = &'p Path> {
    let is_in_tmp = resolver.tmp_of(place).is_some();
    let is_tmp = |path: &Path| SESSION_TMP.iter().any(|tmp| path.starts_with(tmp));
    place.path.ancestors().take_while(move |path| !is_in_tmp || is_tmp(path))
}

/// Returns whether a directory has an entry `.git`.
fn is_repository(resolver: &PathResolver, place: &Resolved, directory: &Path) -> bool {
    let git = directory.join(".git");
    let found = resolver.handle_and_path_above(place, &git);
    found.is_ok_and(|(from, within)| {
        rustix::fs::statat(from, within, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    })
}

/// Returns the bytes of a directory's path without a final slash, so that a slash and a name can follow.
pub(crate) fn without_final_slash(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes)
}
