//! Finds files that a searching command (`grep -r`, `cat *`) may come upon and that no tool may see.
//!
//! Only where there is no sandbox: a program in one has a view without such files. Links count by what they lead to.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::policy::Withheld;
use crate::sync::Lock;
use crate::{
    Effect, Effects, Entry, FileError, FileErrorKind, FileKind, Files, Resolved, Search, Verdict,
    Visitor, Walk, WalkOptions,
};

/// So many files and directories are looked at: about a second, where the command itself will take minutes.
const MOST_ENTRIES: usize = 2_000_000;

/// File systems that are another in the view of a program.
const OF_THE_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Whether it is known only while it runs what a call reads, and by which effect.
pub(crate) fn searching(effects: &Effects) -> Option<&Effect> {
    effects.iter().find(|effect| matches!(effect, Effect::Exec(line) if !line.searches.is_empty()))
}

/// Whether any of the places that a call looks through is there: what is not cannot be read either.
pub(crate) fn is_needed(files: &dyn Files, verdict: &Verdict) -> bool {
    let is_there = |search: &Search| {
        files.resolve(&search.place.path).is_ok_and(|place| files.stat(&place).is_ok())
    };
    searches(verdict.effects()).any(is_there)
}

fn searches(effects: &Effects) -> impl Iterator<Item = &Search> {
    let lines = effects.iter().filter_map(|effect| {
        let Effect::Exec(line) = effect else { return None };
        Some(&line.searches)
    });
    lines.flatten()
}

/// All that is hidden in the places that these effects look through, each once and nothing below another. The error says what
/// was too much. Blocking.
pub(crate) fn find(
    files: &dyn Files,
    effects: &Effects,
    withheld: Withheld<'_>,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<PathBuf>, String> {
    let mut look = Look { files, withheld, cancelled, seen: AtomicUsize::new(0), walked: vec![] };
    let mut hidden = Vec::new();
    for Search { place, depth } in searches(effects) {
        if let Ok(root) = files.resolve(&place.path) {
            look.tree(root, depth.unwrap_or(usize::MAX), &mut hidden)?;
        }
    }
    hidden.sort();
    hidden.dedup_by(|next: &mut PathBuf, kept| next.starts_with(kept));
    Ok(hidden)
}

struct Look<'a> {
    files: &'a dyn Files,
    withheld: Withheld<'a>,
    cancelled: &'a (dyn Fn() -> bool + Sync),
    seen: AtomicUsize,
    /// Where it has been, and how deep.
    walked: Vec<(PathBuf, usize)>,
}

impl Look<'_> {
    /// Looks through a place, and through those of the workspace that links in it lead to.
    fn tree(
        &mut self,
        root: Resolved,
        depth: usize,
        hidden: &mut Vec<PathBuf>,
    ) -> Result<(), String> {
        let mut left = vec![root];
        while let Some(root) = left.pop() {
            let is_known = |(known, reach): &(PathBuf, usize)| {
                *reach >= depth
                    && (root.path == *known || *reach == usize::MAX && root.path.starts_with(known))
            };
            if self.walked.iter().any(is_known) {
                continue;
            }
            for link in self.walk(&root, depth, hidden)? {
                let Ok(target) = self.files.resolve(&link) else { continue };
                if self.is_hidden(&target) {
                    hidden.push(target.path);
                } else if target.inside.is_some() && self.is_directory(&target) {
                    left.push(target);
                }
            }
            self.walked.push((root.path, depth));
        }
        Ok(())
    }

    /// Adds what is hidden below a place; the links that were met.
    fn walk(
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
            threads: 0,
            hidden: &|path| self.withheld.hides_entry(path) || self.withheld.hides_all_below(path),
            left_out: &left_out,
            cancelled: self.cancelled,
        };
        let visitors = || -> Box<dyn Visitor + '_> {
            Box::new(Counter { root: &root.path, seen: &self.seen, links: &links })
        };
        let walked = self.files.walk(root, &options, &visitors);
        let notes = match walked {
            Ok(report) => report.notes,
            Err(FileError { kind: FileErrorKind::NotFound, .. }) => Vec::new(),
            Err(error) => return Err(error.to_string()),
        };
        if self.seen.load(Ordering::Relaxed) > MOST_ENTRIES {
            return Err(format!("it looks through more than {MOST_ENTRIES} files and directories"));
        }
        hidden.append(&mut found.lock());
        // What could not be looked at may hold anything.
        hidden.extend(notes.into_iter().map(|note| root.path.join(note.path)));
        Ok(std::mem::take(&mut *links.lock()))
    }

    fn is_hidden(&self, target: &Resolved) -> bool {
        self.withheld.hides(&target.path) || !matches!(self.files.excluded_by(target), Ok(None))
    }

    fn is_directory(&self, target: &Resolved) -> bool {
        self.files.stat(target).is_ok_and(|stat| stat.kind == FileKind::Directory)
    }
}

/// Counts what there is, and notes links.
struct Counter<'a> {
    root: &'a Path,
    seen: &'a AtomicUsize,
    links: &'a Lock<Vec<PathBuf>>,
}

impl Visitor for Counter<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if self.seen.fetch_add(1, Ordering::Relaxed) >= MOST_ENTRIES {
            return Walk::Stop;
        }
        if entry.kind == FileKind::Symlink {
            self.links.lock().push(self.root.join(entry.path));
        }
        let is_root = self.root.parent().is_none();
        let is_other = |name: &&str| Path::new(name).strip_prefix("/") == Ok(entry.path);
        if is_root && OF_THE_KERNEL.iter().any(is_other) {
            return Walk::Skip;
        }
        Walk::Continue
    }
}
