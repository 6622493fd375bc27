//! Walks a tree depth first, and reuses the records of the index for directories that did not change.
//!
//! A walk without an index is a walk with an empty one; there is no second code path. The walk keeps its own stack, so a tree may
//! be deeper than the thread's stack allows for.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use windlass_core::FileKind;

use super::encode::{IndexRecord, put_inputs, put_record};
use super::examine::{ExaminedDirectory, ExaminedEntries};
use super::index::{FindingKind, Index, IndexNode, LIST_AGAIN};
use super::status::{self, DirectoryStatus};
use super::{MaskRule, Survey};
use crate::ignore_files::PresentNames;
use crate::inputs::{Input, InputState, is_settled};
use crate::isolate::tree::Tree;
use crate::kernel::as_path;
use crate::stage::entries::Entries;
use crate::stage::lineage::Lineage;

/// One walk of a tree.
pub(super) struct SurveyWalker<'a> {
    tree: &'a Tree,
    rule: &'a dyn MaskRule,
    build_names: &'a [String],
    clock: &'a dyn Fn() -> i64,
    old: Index<'a>,
    root_device: u64,
    entries: Entries,
    lineage: Lineage<'a>,
    /// Directories still to visit, the next one last.
    pending: Vec<PendingDirectory<'a>>,
    /// Relative path of the directory that is being visited.
    path: Vec<u8>,
    survey: Survey,
    /// Encoded records of the new index.
    records: Vec<u8>,
    listed: usize,
}

/// A directory still to visit.
struct PendingDirectory<'a> {
    /// Number of directories above it, up to the root.
    depth: usize,
    /// Length of its parent's relative path.
    parent_length: usize,
    name: Cow<'a, [u8]>,
    /// Its node in the old index.
    old: Option<usize>,
}

/// A directory that was opened and listed.
struct OpenedDirectory {
    handle: OwnedFd,
    status: DirectoryStatus,
    entries: Vec<(OsString, FileKind)>,
    present: PresentNames,
    /// The time before it was listed.
    now: i64,
}

impl<'a> SurveyWalker<'a> {
    pub(super) fn new(
        tree: &'a Tree,
        rule: &'a dyn MaskRule,
        build_names: &'a [String],
        clock: &'a dyn Fn() -> i64,
        old: Index<'a>,
    ) -> Self {
        Self {
            tree,
            rule,
            build_names,
            clock,
            old,
            root_device: 0,
            entries: Entries::new(),
            lineage: Lineage::new(tree),
            pending: Vec::new(),
            path: Vec::new(),
            survey: Survey::default(),
            records: Vec::new(),
            listed: 0,
        }
    }

    /// Walks the tree. Returns the survey, the records of the new index, and the number of directories that were listed.
    pub(super) fn walk(mut self) -> io::Result<(Survey, Vec<u8>, usize)> {
        let root = status::status_of_path(self.tree, as_path(b""));
        self.root_device = root.ok().flatten().map_or(0, |status| status.device);
        let above_is_known =
            self.old.get(0).is_some() && self.old.are_current(&self.old.above.clone());
        if above_is_known {
            self.records.extend_from_slice(self.old.above_bytes);
        } else {
            let now = (self.clock)();
            let mut inputs = self.lineage.above().inputs.clone();
            for input in &mut inputs {
                input.distrust_if_recent(now);
            }
            put_inputs(&mut self.records, &inputs);
        }
        let old = above_is_known.then_some(0);
        self.pending.push(PendingDirectory {
            depth: 0,
            parent_length: 0,
            name: Cow::Borrowed(b""),
            old,
        });
        while let Some(next) = self.pending.pop() {
            self.visit(&next)?;
        }
        self.sort();
        Ok((self.survey, self.records, self.listed))
    }

    /// Visits a directory: reuses its record if it is current, lists it otherwise.
    fn visit(&mut self, at: &PendingDirectory<'a>) -> io::Result<()> {
        self.path.truncate(at.parent_length);
        if at.depth > 1 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&at.name);
        let found = status::status_of_path(self.tree, as_path(&self.path));
        let Some(status) = self.unless_unreachable(at, found)? else {
            return Ok(());
        };
        if self.is_mount_point(at, &status) {
            return Ok(());
        }
        // Another directory of the same name: no record below it applies.
        let old = at.old.filter(|old| {
            self.old.get(*old).is_some_and(|node| status.is_same_directory(node.device, node.inode))
        });
        match old.and_then(|old| self.current(old, &status)) {
            Some((number, node)) => {
                self.reuse(at, number, &node);
                Ok(())
            }
            None => self.list(at, old),
        }
    }

    /// Returns the record of a directory if neither it nor its inputs changed.
    fn current(&self, old: usize, status: &DirectoryStatus) -> Option<(usize, IndexNode<'a>)> {
        let node = self.old.get(old)?;
        let is_current = node.changed == status.changed
            && node.changed != LIST_AGAIN
            && self.old.are_current(&node.rule_inputs)
            && self.old.are_current(&node.inputs);
        is_current.then(|| (old, node.clone()))
    }

    /// Copies the findings and the record of an unchanged directory, and queues its subdirectories.
    fn reuse(&mut self, at: &PendingDirectory<'a>, number: usize, node: &IndexNode<'a>) {
        self.records.extend_from_slice(node.bytes);
        for (kind, name) in self.old.findings(&node.findings) {
            add_finding(&mut self.survey, &self.path, *kind, name);
        }
        let present = if node.rule_inputs.is_empty() {
            PresentNames::default()
        } else {
            PresentNames::UNKNOWN
        };
        self.lineage.enter(at.depth, self.path.len(), present);
        let first = self.pending.len();
        let children = self.old.children(number).filter_map(|child| {
            let name = Cow::Borrowed(self.old.get(child)?.name);
            let (depth, parent_length) = (at.depth + 1, self.path.len());
            Some(PendingDirectory { depth, parent_length, name, old: Some(child) })
        });
        self.pending.extend(children);
        self.reverse_from(first);
    }

    /// Lists a directory that has no current record. `old` is its record if it is still the same directory.
    fn list(&mut self, at: &PendingDirectory<'a>, old: Option<usize>) -> io::Result<()> {
        let opened = self.open_current();
        let Some(listing) = self.unless_unreachable(at, opened)? else { return Ok(()) };
        if self.is_mount_point(at, &listing.status) {
            return Ok(());
        }
        self.listed += 1;
        self.lineage.enter(at.depth, self.path.len(), listing.present);
        let absolute = self.tree.path.join(as_path(&self.path));
        // If the whole tree is excluded, only the root is listed. At any other depth this means that ignore files above could not
        // be read this time, although they are unchanged according to the index.
        let hides_all = self.lineage.above().hides_all;
        let rules = match self.lineage.rules(&self.path) {
            Ok(rules) => rules,
            Err(errno) => {
                return self.unless_unreachable(at, Err::<Option<()>, _>(errno)).map(drop);
            }
        };
        let directory = ExaminedDirectory {
            handle: listing.handle.as_fd(),
            path: &absolute,
            depth: at.depth,
            rules,
            masks_all: hides_all || rules.unusable,
            rule: self.rule,
            build_names: self.build_names,
        };
        let mut contents = directory.examine(listing.entries);
        let mut rule_inputs = rules.inputs.clone();
        for input in rule_inputs.iter_mut().chain(&mut contents.inputs) {
            input.distrust_if_recent(listing.now);
        }
        // A directory that was masked because of a failure must not be recorded as known.
        let is_unknown = |input: &Input| input.state == InputState::Unknown;
        let is_sure = !self.lineage.above().inputs.iter().any(is_unknown)
            && is_settled(listing.status.changed, listing.now);
        self.record_directory(at, &listing.status, is_sure, &rule_inputs, &contents);
        for (kind, name) in &contents.findings {
            add_finding(&mut self.survey, &self.path, *kind, name);
        }
        self.queue_children(
            at,
            old.filter(|old| self.has_rules(*old, &rule_inputs)),
            contents.children,
        );
        Ok(())
    }

    /// Opens and lists the directory at the current path; `None` if it no longer exists.
    fn open_current(&mut self) -> Result<Option<OpenedDirectory>, Errno> {
        let handle = self.tree.directory(as_path(&self.path))?;
        let now = (self.clock)();
        // Taken before the listing: a change meanwhile gives the directory another time than the recorded one.
        let Some(status) = status::status_of_handle(handle.as_fd())? else { return Ok(None) };
        let (mut present, mut entries) = (PresentNames::default(), Vec::new());
        self.entries.each(handle.as_fd(), |name, kind| {
            present.add(name.as_bytes());
            entries.push((name.to_owned(), kind));
        })?;
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Some(OpenedDirectory { handle, status, entries, present, now }))
    }

    /// Writes the record of a listed directory. Unless `is_sure`, the next survey lists it again.
    fn record_directory(
        &mut self,
        at: &PendingDirectory<'_>,
        status: &DirectoryStatus,
        is_sure: bool,
        rule_inputs: &[Input],
        contents: &ExaminedEntries,
    ) {
        let record = IndexRecord {
            name: &at.name,
            device: status.device,
            inode: status.inode,
            changed: if is_sure { status.changed } else { LIST_AGAIN },
            rule_inputs,
            inputs: &contents.inputs,
            findings: &contents.findings,
            children: contents.children.len(),
        };
        put_record(&mut self.records, &record);
    }

    /// Returns whether the ignore files of a directory are the same ones, unchanged, as in its old record.
    fn has_rules(&self, old: usize, rule_inputs: &[Input]) -> bool {
        let Some(node) = self.old.get(old) else { return false };
        let known = self.old.inputs(&node.rule_inputs);
        let is_same = |((path, state), now): (&(&Path, InputState), &Input)| {
            *state != InputState::Unknown && (*path, *state) == (now.path.as_path(), now.state)
        };
        known.len() == rule_inputs.len() && known.iter().zip(rule_inputs).all(is_same)
    }

    /// Queues the subdirectories of a listed directory, with their old records if these still apply.
    fn queue_children(
        &mut self,
        at: &PendingDirectory<'a>,
        old: Option<usize>,
        children: Vec<Vec<u8>>,
    ) {
        let known: HashMap<&[u8], usize> = old
            .into_iter()
            .flat_map(|old| self.old.children(old))
            .filter_map(|child| Some((self.old.get(child)?.name, child)))
            .collect();
        let first = self.pending.len();
        let (depth, parent_length) = (at.depth + 1, self.path.len());
        self.pending.extend(children.into_iter().map(|name| {
            let old = known.get(name.as_slice()).copied();
            PendingDirectory { depth, parent_length, name: Cow::Owned(name), old }
        }));
        self.reverse_from(first);
    }

    /// Reverses the children that were pushed from `first` on, so that the first one found is visited first.
    fn reverse_from(&mut self, first: usize) {
        if let Some(children) = self.pending.get_mut(first..) {
            children.reverse();
        }
    }

    /// Returns whether the directory is a mount point, and reports it as one.
    fn is_mount_point(&mut self, at: &PendingDirectory<'_>, status: &DirectoryStatus) -> bool {
        let is_mount_point = at.depth > 0 && status.is_mounted(self.root_device);
        if is_mount_point {
            self.survey.other_devices.push(as_path(&self.path).to_owned());
            self.record_unknown(at);
        }
        is_mount_point
    }

    /// Returns `None` for a directory below the root that no longer exists or that we may not list, and masks the latter. Returns
    /// any other failure as an error.
    fn unless_unreachable<T>(
        &mut self,
        at: &PendingDirectory<'_>,
        found: Result<Option<T>, Errno>,
    ) -> io::Result<Option<T>> {
        let errno = match found {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => Errno::NOENT,
            Err(errno) => errno,
        };
        let is_gone = matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP);
        let is_closed = matches!(errno, Errno::ACCESS | Errno::PERM);
        if at.depth > 0 && (is_gone || is_closed) {
            if is_closed {
                // A program could still open a file in it by name, or give itself the right to list it.
                self.survey.masked.push((as_path(&self.path).to_owned(), FileKind::Directory));
            }
            self.record_unknown(at);
            return Ok(None);
        }
        Err(io::Error::other(self.tree.errno_error("list", as_path(&self.path), errno)))
    }

    /// Writes a record for a directory that every survey must list again. Needed because its parent's record counts it.
    fn record_unknown(&mut self, at: &PendingDirectory<'_>) {
        let record = IndexRecord {
            name: &at.name,
            device: 0,
            inode: 0,
            changed: LIST_AGAIN,
            rule_inputs: &[],
            inputs: &[],
            findings: &[],
            children: 0,
        };
        put_record(&mut self.records, &record);
    }

    /// Sorts all findings by path.
    fn sort(&mut self) {
        let Survey { masked, build_directories, sockets, git, other_devices, protected } =
            &mut self.survey;
        masked.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for paths in [build_directories, sockets, git, other_devices, protected] {
            paths.sort_unstable();
        }
    }
}

/// Adds a finding about an entry of the directory at `path`, or about the directory itself if `name` is empty.
fn add_finding(survey: &mut Survey, path: &[u8], kind: FindingKind, name: &[u8]) {
    let directory = as_path(path);
    let path = if name.is_empty() { directory.to_owned() } else { directory.join(as_path(name)) };
    let paths: &mut Vec<PathBuf> = match kind {
        FindingKind::Masked(kind) => return survey.masked.push((path, kind)),
        FindingKind::BuildDirectory => &mut survey.build_directories,
        FindingKind::Socket => &mut survey.sockets,
        FindingKind::Git | FindingKind::BareRepository => &mut survey.git,
        FindingKind::Protected => &mut survey.protected,
    };
    paths.push(path);
}
