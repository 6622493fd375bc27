//! Judges a program's changes of protected paths, so that `git init` or `git worktree add` need no approval and a hook does.
//!
//! A change is inert if git would run no program and read no further configuration because of it: configuration with inert keys only,
//! sample hooks, pointers to git directories of the workspace. Each changed file is judged by its old and new content. A change that
//! makes a directory into a git directory is judged by everything that the directory then holds, since a `config` that was there
//! before was not configuration when it was written.

mod details;
mod obeyed;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub(super) use self::obeyed::paths as obeyed_paths;
use self::obeyed::{OBEYED_REASON, leads_to_protected};
use crate::changes::commit;
use crate::git_config::{self, ConfigPaths, is_inert_change};
use crate::protected::{GIT_REASON, is_git_directory, table_reason};
use crate::{
    Attributes, ChangedTo, FileChange, FileKind, Files, FoundBody, GitPart, GitPath, PASS_THROUGH,
    ProcessChange, git_place, normalize, quote,
};

/// Maximum bytes of a file that is judged; a larger one is not inert.
const MAX_JUDGED_BYTES: u64 = 1 << 20;
/// Maximum bytes of a file whose content is shown; of a larger one, size and hash are shown.
const MAX_SHOWN_FILE_BYTES: u64 = 16 << 20;

/// Maximum number of files whose diff is shown. The other files are only named.
const MAX_SHOWN_FILES: usize = 2_000;
/// Once so many bytes of contents are held, the other files are only named. Two versions of one file always fit.
const MAX_SHOWN_BYTES: usize = 32 << 20;

/// The changes that need an approval, with the reason for each.
#[derive(Debug, Default)]
pub(super) struct ChangeJudgement {
    asks: BTreeMap<PathBuf, &'static str>,
    /// These changes, or all if that was asked for, with old and new content as far as the limits allow.
    pub(super) shown: Vec<FileChange>,
}

impl ChangeJudgement {
    /// Returns the reason why a changed path needs an approval; `None` if it is neither protected nor masked, or the change is inert.
    pub(super) fn reason(&self, path: &Path) -> Option<&'static str> {
        self.asks.get(path).copied()
    }
}

/// Paths that the judgement needs and cannot find out by itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JudgeInputs<'a> {
    /// Home directories of users.
    pub(super) homes: &'a [PathBuf],
    /// Files and directories that were masked from the program.
    pub(super) masked: &'a [PathBuf],
}

/// Reason for the approval of a masked file. The program saw it as absent, so it overwrote or removed content that it could not
/// see.
const MASKED_REASON: &str = "a file that is masked from commands";

/// Judges the changes of a stage, and collects the content of those that need an approval, or of all. Masked files and files past the
/// limits are collected without content. Blocking.
pub(super) fn judge(
    changes: &[ProcessChange],
    files: &dyn Files,
    unseen: JudgeInputs<'_>,
    shows_all: bool,
) -> ChangeJudgement {
    let by_path = changes.iter().map(|change| (change.path.as_path(), change)).collect();
    let judge = ChangeJudge {
        changes: by_path,
        files,
        git_directories: RefCell::default(),
        masked: unseen.masked.iter().map(PathBuf::as_path).collect(),
        obeyed: obeyed::paths(files),
        hash_budget: Cell::new(details::MAX_HASHED_BYTES),
    };
    let (mut judgement, mut bytes) = (ChangeJudgement::default(), 0);
    for change in changes {
        if judge.replaces_masked(change) {
            judgement.asks.insert(change.path.clone(), MASKED_REASON);
            // The old content of a masked file is masked from people's screens, too.
            judgement.shown.push(without_content(change));
            continue;
        }
        let reason = judge.reason(change, unseen.homes);
        judgement.asks.extend(reason.map(|reason| (change.path.clone(), reason)));
        if reason.is_none() && !shows_all {
            continue;
        }
        let has_room = judgement.shown.len() < MAX_SHOWN_FILES && bytes < MAX_SHOWN_BYTES;
        let shown = if has_room { judge.with_content(change) } else { without_content(change) };
        bytes += [&shown.before, &shown.after].into_iter().flatten().map(Vec::len).sum::<usize>();
        judgement.shown.push(shown);
    }
    judgement
}

/// Returns all changes with old and new content; masked files and files past the limits without it. Blocking.
pub(crate) fn show_changes(
    changes: &[ProcessChange],
    masked: &[PathBuf],
    files: &dyn Files,
) -> Vec<FileChange> {
    judge(changes, files, JudgeInputs { homes: &[], masked }, true).shown
}

/// Mode bits of a new file that a person is shown: it is executable, or set-id.
const NOTABLE_MODE: u32 = 0o7111;

/// Describes a change without its content.
fn without_content(change: &ProcessChange) -> FileChange {
    let verb = match (&change.to, change.before) {
        (ChangedTo::Nothing, _) => "delete",
        (ChangedTo::Directory(_), None) => "make",
        (ChangedTo::Attributes(Attributes { mode: None, .. }), _) => "set attributes of",
        (ChangedTo::Attributes(_), _) => "set mode of",
        (_, None) => "create",
        _ => "change",
    };
    let detail = match &change.to {
        ChangedTo::Symlink(target, _) => Some(format!("a link to {}", quote::path(target))),
        ChangedTo::Linked(with) => Some(format!("another name of {}", quote::path(with))),
        ChangedTo::Attributes(Attributes { mode: Some(mode), .. }) => {
            Some(format!("mode {:o}", mode & 0o7777))
        }
        ChangedTo::File(_, Attributes { mode: Some(mode), .. })
            if change.before.is_none() && mode & NOTABLE_MODE != 0 =>
        {
            Some(format!("mode {:o}", mode & 0o7777))
        }
        _ => None,
    };
    FileChange { verb, before: None, after: None, path: change.path.clone(), detail }
}

/// The workspace before and after the changes.
struct ChangeJudge<'c> {
    changes: HashMap<&'c Path, &'c ProcessChange>,
    files: &'c dyn Files,
    /// Cache: for each inspected directory, whether it is a git directory before or after the changes.
    git_directories: RefCell<HashMap<PathBuf, bool>>,
    masked: HashSet<&'c Path>,
    /// Paths that other programs act on because an earlier link or configuration leads to them.
    obeyed: Vec<PathBuf>,
    /// Remaining bytes of long contents that may be hashed.
    hash_budget: Cell<u64>,
}

impl ChangeJudge<'_> {
    /// Returns the reason why a change needs an approval; `None` if it needs none. Masked files are not considered.
    fn reason(&self, change: &ProcessChange, homes: &[PathBuf]) -> Option<&'static str> {
        if let Some(reason) = table_reason(&change.path, homes) {
            return Some(reason);
        }
        if self.obeyed.iter().any(|obeyed| change.path.starts_with(obeyed)) {
            return Some(OBEYED_REASON);
        }
        if matches!(change.to, ChangedTo::Symlink(..)) && leads_to_protected(&change.path) {
            return Some(OBEYED_REASON);
        }
        let place = git_place(&change.path, &|directory| self.is_git(directory));
        let is_obeyed = place
            .is_some_and(|place| place.part != GitPart::Other && !self.is_inert(change, &place));
        (is_obeyed || self.activates_configuration(change)).then_some(GIT_REASON)
    }

    /// Returns whether a change of a part of a git directory is inert.
    fn is_inert(&self, change: &ProcessChange, place: &GitPath) -> bool {
        let is_sample = || {
            let hooks = place.directory.join("hooks");
            change.path.parent() == Some(&hooks) && is_sample(change.path.file_name())
        };
        match (&change.to, place.part) {
            (ChangedTo::Symlink(..) | ChangedTo::Linked(_), _)
            | (ChangedTo::Directory(_), GitPart::Config) => false,
            // Git rewrites a configuration file even if its content stays the same.
            (ChangedTo::Attributes(to), GitPart::Config) => to.mode.is_none() && to.owner.is_none(),
            (ChangedTo::Nothing | ChangedTo::Attributes(_), GitPart::Hook) => {
                is_sample() || self.was_directory(&change.path)
            }
            // Configuration may be removed together with its repository, except that of the workspace itself.
            (ChangedTo::Nothing, GitPart::Config) => {
                place.directory != self.files.workspace().join(".git")
                    && !is_git_directory(&place.directory, &|path| self.is_there(path))
            }
            (ChangedTo::Nothing | ChangedTo::Attributes(_) | ChangedTo::Directory(_), _) => true,
            (ChangedTo::File(..), GitPart::Hook) => is_sample(),
            (ChangedTo::File(..), GitPart::Config) => {
                let (old, new) =
                    (self.judged_before(&change.path), self.judged_after(&change.path));
                let old = old.ok().flatten();
                matches!(new, Ok(Some(new)) if self.is_inert_config(old.as_deref(), &new, &place.directory))
            }
            (ChangedTo::File(..), _) => {
                matches!(self.judged_after(&change.path), Ok(Some(text)) if self.is_inert_pointer(change, place, &text))
            }
        }
    }

    /// Returns whether a change of git's configuration is inert.
    fn is_inert_config(&self, old: Option<&[u8]>, new: &[u8], directory: &Path) -> bool {
        let places = ConfigPaths { directory, workspace: self.files.workspace() };
        is_inert_change(old, new, places).unwrap_or(false)
            && self.has_worktrees_inside(new, directory)
    }

    /// Returns whether each working tree that a configuration names is in the workspace and is reached without a link.
    fn has_worktrees_inside(&self, config: &[u8], directory: &Path) -> bool {
        let entries = git_config::parse(config).unwrap_or_default();
        let mut named =
            entries.iter().filter(|entry| entry.section == "core" && entry.key == "worktree");
        named.all(|entry| {
            let path = directory.join(entry.value.as_deref().unwrap_or_default());
            self.is_real_inside(&normalize(&path))
        })
    }

    /// Returns whether a change replaces or removes an existing file that was masked from the program.
    fn replaces_masked(&self, change: &ProcessChange) -> bool {
        !self.masked.is_empty()
            && change.before.is_some()
            && change.path.ancestors().any(|path| self.masked.contains(path))
    }

    /// Returns whether the content of a `.git` file, a `commondir` or a `gitdir` points to where git itself would make it point.
    fn is_inert_pointer(&self, change: &ProcessChange, place: &GitPath, text: &[u8]) -> bool {
        // Like git, ignores line ends but keeps all spaces.
        let end = text.iter().rposition(|c| !matches!(c, b'\n' | b'\r')).map_or(0, |last| last + 1);
        let text = text.get(..end).unwrap_or_default();
        let is =
            |name: &str| change.path.file_name().is_some_and(|it| it.eq_ignore_ascii_case(name));
        let leads_to = |from: Option<&Path>, text: &[u8]| {
            let is_path = !text.is_empty() && !text.iter().any(u8::is_ascii_control);
            let path = from?.join(OsStr::from_bytes(text));
            is_path.then(|| normalize(&path)).filter(|path| self.is_real_inside(path))
        };
        if is(".git") {
            let target = text.strip_prefix(b"gitdir: ");
            let target = target.and_then(|target| leads_to(change.path.parent(), target));
            return target.is_some_and(|target| self.is_own_git_directory(&target));
        }
        let Some(target) = leads_to(Some(&place.directory), text) else { return false };
        if is("commondir") {
            let worktrees = target.join("worktrees");
            return place.directory.parent() == Some(&worktrees) && self.is_git(&target);
        }
        // The pointer back from `worktrees/NAME` to the working tree.
        let is_worktree = || {
            let above = place.directory.parent().and_then(Path::file_name);
            above.is_some_and(|name| name == "worktrees")
        };
        target.file_name().is_some_and(|name| name == ".git") && is_worktree()
    }

    /// Returns whether a path is inside the workspace, outside build directories, and is reached without a link, before and after the
    /// changes.
    fn is_real_inside(&self, path: &Path) -> bool {
        let workspace = self.files.workspace();
        let is_link = |path: &Path| {
            let to = self.changes.get(path).map(|change| &change.to);
            matches!(to, Some(ChangedTo::Symlink(..)))
        };
        let resolves = || self.files.resolve(path).is_ok_and(|resolved| resolved.path == path);
        // Changes in build directories are not judged.
        let is_built = |path: &Path| {
            let inside = path.strip_prefix(workspace).unwrap_or(path);
            inside.iter().any(|name| PASS_THROUGH.iter().any(|built| name == *built))
        };
        path.starts_with(workspace)
            && !path.ancestors().any(is_link)
            && !is_built(path)
            && resolves()
    }

    /// Returns whether a directory was a git directory before, or is a new worktree or module of one.
    fn is_own_git_directory(&self, target: &Path) -> bool {
        if is_git_directory(target, &|path| self.was_there(path)) {
            return true;
        }
        let is_owner = |above: &Path| {
            let is_below = ["worktrees", "modules"]
                .iter()
                .any(|name| target.starts_with(above.join(name)) && target != above.join(name));
            is_below && self.is_git(above)
        };
        is_git_directory(target, &|path| self.is_there(path))
            && target.ancestors().skip(1).any(is_owner)
    }

    /// Returns whether a change makes a directory into a git directory that holds configuration or hooks which are not inert.
    fn activates_configuration(&self, change: &ProcessChange) -> bool {
        let is_sign = |name: &OsStr| {
            ["HEAD", "objects", "refs", "commondir"].iter().any(|sign| name == *sign)
        };
        let (Some(directory), Some(name)) = (change.path.parent(), change.path.file_name()) else {
            return false;
        };
        if !is_sign(name)
            || !is_git_directory(directory, &|path| self.is_there(path))
            || is_git_directory(directory, &|path| self.was_there(path))
        {
            return false;
        }
        // A new configuration file is judged by itself.
        let is_loud = |name: &&str| {
            let path = directory.join(name);
            let after = self.judged_after(&path);
            self.was_there(&path)
                && !matches!(&after, Ok(None))
                && !matches!(after, Ok(Some(text)) if self.is_inert_config(None, &text, directory))
        };
        ["config", "config.worktree"].iter().any(is_loud)
            || self.has_hooks(&directory.join("hooks"))
    }

    /// Returns whether hooks other than samples existed before the changes and stay. True also if they cannot be listed.
    fn has_hooks(&self, hooks: &Path) -> bool {
        if !self.was_there(hooks) || !self.is_there(hooks) {
            return false;
        }
        match self
            .files
            .inspect(&commit::recorded_path(self.files, hooks))
            .ok()
            .flatten()
            .map(|found| found.body)
        {
            Some(FoundBody::Directory(names)) => {
                names.iter().any(|name| !is_sample(Some(name)) && self.is_there(&hooks.join(name)))
            }
            _ => true,
        }
    }

    /// Returns whether a directory is a git directory before or after the changes.
    fn is_git(&self, directory: &Path) -> bool {
        if let Some(known) = self.git_directories.borrow().get(directory) {
            return *known;
        }
        let is = is_git_directory(directory, &|path| self.is_there(path))
            || is_git_directory(directory, &|path| self.was_there(path));
        self.git_directories.borrow_mut().insert(directory.to_owned(), is);
        is
    }

    /// Returns whether the path existed before the changes.
    fn was_there(&self, path: &Path) -> bool {
        match self.changes.get(path) {
            Some(change) => change.before.is_some(),
            None => self.files.stat(&commit::recorded_path(self.files, path)).is_ok(),
        }
    }

    /// Returns whether the path exists after the changes.
    fn is_there(&self, path: &Path) -> bool {
        match self.changes.get(path) {
            Some(change) => !matches!(change.to, ChangedTo::Nothing),
            None => self.was_there(path),
        }
    }

    /// Returns whether the path is a directory in the workspace.
    fn was_directory(&self, path: &Path) -> bool {
        let stat = self.files.stat(&commit::recorded_path(self.files, path));
        stat.is_ok_and(|stat| stat.kind == FileKind::Directory)
    }

    /// Reads the old content of a file that is judged.
    fn judged_before(&self, path: &Path) -> Result<Option<Vec<u8>>, NoContent> {
        self.content_before(path, MAX_JUDGED_BYTES)
    }

    /// Reads the new content of a file that is judged.
    fn judged_after(&self, path: &Path) -> Result<Option<Vec<u8>>, NoContent> {
        self.content_after(path, MAX_JUDGED_BYTES)
    }

    /// Reads the old content of a file; `None` if it did not exist.
    fn content_before(&self, path: &Path, max: u64) -> Result<Option<Vec<u8>>, NoContent> {
        if self.was_there(path) { self.workspace_content(path, max) } else { Ok(None) }
    }

    /// Reads the content of a file in the workspace; `None` if it does not exist.
    fn workspace_content(&self, path: &Path, max: u64) -> Result<Option<Vec<u8>>, NoContent> {
        let found = self.files.inspect(&commit::recorded_path(self.files, path));
        match found.map_err(|_| NoContent::Unread)?.map(|found| found.body) {
            None => Ok(None),
            Some(FoundBody::File(file)) => read_bounded(&file, max).map(Some),
            Some(_) => Err(NoContent::NoFile),
        }
    }

    /// Reads the new content of a file; `None` if it does not exist any more.
    fn content_after(&self, path: &Path, max: u64) -> Result<Option<Vec<u8>>, NoContent> {
        match self.changes.get(path).map(|change| &change.to) {
            None | Some(ChangedTo::Attributes(_)) => self.content_before(path, max),
            Some(ChangedTo::Nothing) => Ok(None),
            // Without a stage, the new content is in the workspace.
            Some(ChangedTo::File(staged, _)) if staged.as_os_str().is_empty() => {
                self.workspace_content(path, max)
            }
            Some(ChangedTo::File(staged, _)) => {
                let file = File::open(staged).map_err(|_| NoContent::Unread)?;
                read_bounded(&file, max).map(Some)
            }
            // The content of the file with the other name.
            Some(ChangedTo::Linked(_)) => Err(NoContent::Unread),
            Some(_) => Err(NoContent::NoFile),
        }
    }

    /// Describes a change with its old and new content; a content that is absent, too large or not of a file is left out.
    fn with_content(&self, change: &ProcessChange) -> FileChange {
        let before = self.content_before(&change.path, MAX_SHOWN_FILE_BYTES);
        let after = self.content_after(&change.path, MAX_SHOWN_FILE_BYTES);
        // With one of two contents, all lines would count as added or removed.
        let is_unread = [&before, &after].into_iter().any(|one| *one == Err(NoContent::Unread));
        let [before, after] = [before, after].map(|one| one.ok().flatten().filter(|_| !is_unread));
        let named = without_content(change);
        let details = self.details(change, before.is_some() && before == after);
        let details: Vec<String> = named.detail.into_iter().chain(details).collect();
        let detail = (!details.is_empty()).then(|| details.join(", "));
        FileChange { before, after, detail, ..named }
    }

    /// Describes the changes of a file other than its text; for content that is not shown, its size and hash.
    fn details(&self, change: &ProcessChange, is_same: bool) -> Vec<String> {
        let old = change.before.and_then(|_| {
            self.files.inspect(&commit::recorded_path(self.files, &change.path)).ok().flatten()
        });
        let old = old.as_ref();
        let long = |staged| {
            details::describe_long_content(old, staged, MAX_SHOWN_FILE_BYTES, &self.hash_budget)
        };
        let new = match &change.to {
            ChangedTo::Nothing => return long(None).into_iter().collect(),
            ChangedTo::File(_, new) | ChangedTo::Attributes(new) => new,
            _ => return Vec::new(),
        };
        let mut details = Vec::new();
        if let ChangedTo::File(staged, _) = &change.to {
            details.extend(long(Some(staged)));
            let links = old.map_or(1, |old| old.stat.links);
            details.extend(old.and_then(|old| details::mode_change(&old.attributes, new)));
            if is_same && links > 1 {
                details.push("no name of the same file as others any more".to_owned());
            }
        }
        details.extend(details::attribute_changes(old.map(|old| &old.attributes), new));
        details
    }
}

/// Returns whether a file name is that of one of git's sample hooks.
fn is_sample(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| name.as_bytes().ends_with(b".sample"))
}

/// The reason why there is no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoContent {
    /// It is a directory, a link or another object that is no file.
    NoFile,
    /// It is a file that cannot be read, or is too large.
    Unread,
}

/// Reads a file. Fails if it exceeds `max` bytes.
fn read_bounded(file: &File, max: u64) -> Result<Vec<u8>, NoContent> {
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).map_err(|_| NoContent::Unread)?;
    if bytes.len() as u64 > max { Err(NoContent::Unread) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests;
