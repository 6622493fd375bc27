//! Finds the files that no tool may see and that a searching command (`grep -r`, `cat *`) may read.
//!
//! Needed only without a sandbox: in a sandbox, a program has a view without such files. Links count by their targets.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::policy::Withheld;
use crate::sync::Lock;
use crate::{
    CommandSearch, Effect, Effects, Entry, FileError, FileErrorKind, FileKind, Files, Resolved,
    Verdict, Visitor, Walk, WalkOptions,
};

/// Maximum files and directories that are searched. Takes about a second; the command itself would take minutes.
const MAX_SEARCHED_ENTRIES: usize = 2_000_000;

/// File systems that are not searched, because a program has others in its view.
const KERNEL_FILE_SYSTEMS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Finds the first command among the effects that searches, that is, reads files whose names are known only while it runs.
pub(crate) fn search_effect(effects: &Effects) -> Option<&Effect> {
    effects.iter().find(|effect| matches!(effect, Effect::Exec(line) if !line.searches.is_empty()))
}

/// Returns whether any of the searched paths exists. A missing path cannot be read, so nothing has to be found below it.
pub(crate) fn any_searched_path_exists(files: &dyn Files, verdict: &Verdict) -> bool {
    let is_there = |search: &CommandSearch| {
        files.resolve(&search.place.path).is_ok_and(|place| files.stat(&place).is_ok())
    };
    searches(verdict.effects()).any(is_there)
}

/// Lists the searches of all commands among the effects.
fn searches(effects: &Effects) -> impl Iterator<Item = &CommandSearch> {
    let lines = effects.iter().filter_map(|effect| {
        let Effect::Exec(line) = effect else { return None };
        Some(&line.searches)
    });
    lines.flatten()
}

/// Finds all hidden paths that the commands of these effects may read, sorted, without paths below another. The error says why the
/// search failed, for example that there are too many files. Blocking.
pub(crate) fn find_hidden_paths(
    files: &dyn Files,
    effects: &Effects,
    withheld: Withheld<'_>,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<PathBuf>, String> {
    let mut search = HiddenPathSearch {
        files,
        withheld,
        cancelled,
        visited: AtomicUsize::new(0),
        walked: vec![],
    };
    let mut hidden = Vec::new();
    for CommandSearch { place, depth } in searches(effects) {
        if let Ok(root) = files.resolve(&place.path) {
            search.search_tree(root, depth.unwrap_or(usize::MAX), &mut hidden)?;
        }
    }
    hidden.sort();
    hidden.dedup_by(|next: &mut PathBuf, kept| next.starts_with(kept));
    Ok(hidden)
}

/// One search for hidden files, with its limits and what it has walked.
struct HiddenPathSearch<'a> {
    files: &'a dyn Files,
    withheld: Withheld<'a>,
    cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Number of files and directories walked so far.
    visited: AtomicUsize,
    /// The directories walked so far, each with its maximum depth.
    walked: Vec<(PathBuf, usize)>,
}

impl HiddenPathSearch<'_> {
    /// Searches a tree, and the directories of the workspace to which links in it lead.
    fn search_tree(
        &mut self,
        root: Resolved,
        depth: usize,
        hidden: &mut Vec<PathBuf>,
    ) -> Result<(), String> {
        let mut pending = vec![root];
        while let Some(root) = pending.pop() {
            let is_known = |(known, reach): &(PathBuf, usize)| {
                *reach >= depth
                    && (root.path == *known || *reach == usize::MAX && root.path.starts_with(known))
            };
            if self.walked.iter().any(is_known) {
                continue;
            }
            for link in self.walk_tree(&root, depth, hidden)? {
                let Ok(target) = self.files.resolve(&link) else { continue };
                if self.is_hidden(&target) {
                    hidden.push(target.path);
                } else if target.inside.is_some() && self.is_directory(&target) {
                    pending.push(target);
                }
            }
            self.walked.push((root.path, depth));
        }
        Ok(())
    }

    /// Adds the hidden paths below a directory and returns the links found. A path that cannot be read counts as hidden.
    fn walk_tree(
        &self,
        root: &Resolved,
        depth: usize,
        hidden: &mut Vec<PathBuf>,
    ) -> Result<Vec<PathBuf>, String> {
        let (found, links) = (Lock::new(Vec::new()), Lock::new(Vec::new()));
        let left_out = |path: &Path, kind: FileKind| {
            let list = if kind == FileKind::Symlink { &links } else { &found };
            list.lock().push(path.to_owned());
        };
        let options = WalkOptions {
            max_depth: depth,
            ignore_files: false,
            version_control: true,
            hidden: &|path| self.withheld.hides_entry(path) || self.withheld.hides_all_below(path),
            left_out: &left_out,
            cancelled: self.cancelled,
            ..WalkOptions::default()
        };
        let visitors = || -> Box<dyn Visitor + '_> {
            Box::new(EntryCounter { root: &root.path, visited: &self.visited, links: &links })
        };
        let walked = self.files.walk(root, &options, &visitors);
        let notes = match walked {
            Ok(report) => report.notes,
            Err(FileError { kind: FileErrorKind::NotFound, .. }) => Vec::new(),
            Err(error) => return Err(error.to_string()),
        };
        if self.visited.load(Ordering::Relaxed) > MAX_SEARCHED_ENTRIES {
            return Err(format!(
                "it looks through more than {MAX_SEARCHED_ENTRIES} files and directories"
            ));
        }
        hidden.append(&mut found.lock());
        // A directory that could not be listed may hold hidden files.
        hidden.extend(notes.into_iter().map(|note| root.path.join(note.path)));
        Ok(std::mem::take(&mut *links.lock()))
    }

    /// Returns whether no tool may see this path, by policy or by an exclude file. An unreadable exclude file counts as hiding it.
    fn is_hidden(&self, target: &Resolved) -> bool {
        self.withheld.hides(&target.path) || !matches!(self.files.excluded_by(target), Ok(None))
    }

    /// Returns whether a path is a directory.
    fn is_directory(&self, target: &Resolved) -> bool {
        self.files.stat(target).is_ok_and(|stat| stat.kind == FileKind::Directory)
    }
}

/// Counts the entries of a walk, collects links and skips the file systems of the kernel.
struct EntryCounter<'a> {
    root: &'a Path,
    visited: &'a AtomicUsize,
    links: &'a Lock<Vec<PathBuf>>,
}

impl Visitor for EntryCounter<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if self.visited.fetch_add(1, Ordering::Relaxed) >= MAX_SEARCHED_ENTRIES {
            return Walk::Stop;
        }
        if entry.kind == FileKind::Symlink {
            self.links.lock().push(self.root.join(entry.path));
        }
        let is_root = self.root.parent().is_none();
        let is_other = |name: &&str| Path::new(name).strip_prefix("/") == Ok(entry.path);
        if is_root && KERNEL_FILE_SYSTEMS.iter().any(is_other) {
            return Walk::Skip;
        }
        Walk::Continue
    }
}
