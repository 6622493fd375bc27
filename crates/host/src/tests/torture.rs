//! Random sequences of alterations: the tree always equals a simple model of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use windlass_core::{Attributes, ExpectedState, Files, Fingerprint, Resolved, TargetState};

use super::{LOOKUPS, TestWorkspace, alter, file, place};
use crate::{Durability, LocalFiles};

const PLACES: [&str; 8] = ["a", "b", "c", "a/x", "a/y", "b/x", "a/x/z", "c/d/e"];

#[derive(Debug, Clone)]
enum TreeAction {
    Write(&'static str, Option<u32>),
    Attributes(u32),
    Move(&'static str),
    Link(&'static str),
    Symlink(&'static str),
    Directory,
    Remove,
}

/// Expectation that an alteration claims about the object.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ExpectationClaim {
    Truth,
    Nothing,
    Nonsense,
}

fn act() -> impl Strategy<Value = TreeAction> {
    let place = || prop::sample::select(PLACES.as_slice());
    let mode = || prop::sample::select(vec![0o700, 0o755, 0o750]);
    let content = prop::sample::select(vec!["", "one", "two", "a longer text than the others"]);
    prop_oneof![
        4 => (content, prop::option::of(mode())).prop_map(|(content, mode)| TreeAction::Write(content, mode)),
        1 => mode().prop_map(TreeAction::Attributes),
        2 => place().prop_map(TreeAction::Move),
        2 => place().prop_map(TreeAction::Link),
        1 => prop::sample::select(vec!["a", "..", "/nowhere"]).prop_map(TreeAction::Symlink),
        1 => Just(TreeAction::Directory),
        2 => Just(TreeAction::Remove),
    ]
}

fn claim() -> impl Strategy<Value = ExpectationClaim> {
    prop_oneof![8 => Just(ExpectationClaim::Truth), 1 => Just(ExpectationClaim::Nothing), 1 => Just(ExpectationClaim::Nonsense)]
}

#[derive(Debug, Clone, PartialEq)]
enum ModelNode {
    /// Index of its file; several names may share one.
    File(usize),
    Symlink(&'static str),
    Directory(u32),
}

/// The expected tree.
#[derive(Debug, Clone)]
struct TreeModel {
    nodes: BTreeMap<PathBuf, ModelNode>,
    /// The content and mode of each file.
    files: Vec<(&'static str, u32)>,
    /// Modes of new files and directories.
    modes: (u32, u32),
}

impl TreeModel {
    /// Returns the tree after an alteration; `None` if the alteration must be refused.
    fn after(&self, path: &Path, act: &TreeAction, claim: ExpectationClaim) -> Option<Self> {
        let there = self.nodes.get(path).cloned();
        match claim {
            ExpectationClaim::Nonsense => return None,
            ExpectationClaim::Nothing if there.is_some() => return None,
            ExpectationClaim::Nothing | ExpectationClaim::Truth => {}
        }
        let mut after = self.clone();
        match (act, there) {
            (TreeAction::Write(content, mode), None) => {
                after.make_parents(path)?;
                after.files.push((content, mode.unwrap_or(self.modes.0)));
                after.nodes.insert(path.into(), ModelNode::File(after.files.len() - 1));
            }
            (TreeAction::Write(content, mode), Some(ModelNode::File(number))) => {
                // The other hard links keep the old file.
                after.files.push((content, mode.unwrap_or(self.files[number].1)));
                after.nodes.insert(path.into(), ModelNode::File(after.files.len() - 1));
            }
            (TreeAction::Attributes(mode), Some(ModelNode::File(number))) => {
                after.files[number].1 = *mode;
            }
            (TreeAction::Attributes(mode), Some(ModelNode::Directory(_))) => {
                after.nodes.insert(path.into(), ModelNode::Directory(*mode));
            }
            (TreeAction::Move(from), there) => {
                let moved = self.nodes.get(Path::new(from))?.clone();
                let is_free = there.is_none();
                match (&moved, there) {
                    (_, None) => after.make_parents(path)?,
                    (ModelNode::File(one), Some(ModelNode::File(other))) if *one == other => {
                        return None;
                    }
                    (_, Some(ModelNode::File(_))) => {}
                    _ => return None,
                }
                let from = Path::new(from);
                let is_directory = matches!(moved, ModelNode::Directory(_));
                if from == path || is_directory && (!is_free || path.starts_with(from)) {
                    return None;
                }
                let below: Vec<_> =
                    after.nodes.keys().filter(|node| node.starts_with(from)).cloned().collect();
                for old in below {
                    let node = after.nodes.remove(&old)?;
                    let inside = old.strip_prefix(from).ok()?;
                    let new = path.join(inside).components().collect();
                    after.nodes.insert(new, node);
                }
            }
            (TreeAction::Link(with), there) => {
                let ModelNode::File(number) = self.nodes.get(Path::new(with))? else { return None };
                match there {
                    None => after.make_parents(path)?,
                    Some(ModelNode::Directory(_)) => return None,
                    Some(_) => {}
                }
                after.nodes.insert(path.into(), ModelNode::File(*number));
            }
            (TreeAction::Symlink(target), there) => {
                match there {
                    None => after.make_parents(path)?,
                    Some(ModelNode::Directory(_)) => return None,
                    Some(_) => {}
                }
                after.nodes.insert(path.into(), ModelNode::Symlink(target));
            }
            (TreeAction::Directory, None) => {
                after.make_parents(path)?;
                after.nodes.insert(path.into(), ModelNode::Directory(self.modes.1));
            }
            (TreeAction::Directory, Some(ModelNode::Directory(_))) => {}
            (TreeAction::Remove, None) => {
                let through_link = path
                    .ancestors()
                    .skip(1)
                    .any(|above| matches!(self.nodes.get(above), Some(ModelNode::Symlink(_))));
                if through_link {
                    return None;
                }
            }
            (TreeAction::Remove, Some(_)) => {
                let is_below = |other: &&PathBuf| other.starts_with(path) && *other != path;
                if self.nodes.keys().any(|other| is_below(&other)) {
                    return None;
                }
                after.nodes.remove(path);
            }
            _ => return None,
        }
        Some(after)
    }

    /// Adds the missing parents; `None` if one of them is not a directory.
    fn make_parents(&mut self, path: &Path) -> Option<()> {
        for above in path.ancestors().skip(1).filter(|above| *above != Path::new("")) {
            match self.nodes.get(above) {
                Some(ModelNode::Directory(_)) => return Some(()),
                Some(_) => return None,
                None => drop(self.nodes.insert(above.into(), ModelNode::Directory(self.modes.1))),
            }
        }
        Some(())
    }

    /// Describes every path; a file also by its first name.
    fn describe(&self) -> BTreeMap<PathBuf, String> {
        let describe = |(path, node): (&PathBuf, &ModelNode)| {
            let text = match node {
                ModelNode::Symlink(target) => format!("-> {target}"),
                ModelNode::Directory(mode) => format!("directory {mode:o}"),
                ModelNode::File(number) => {
                    let (content, mode) = self.files[*number];
                    let mut names = self.nodes.iter();
                    let first = names.find(|(_, other)| *other == node).unwrap().0;
                    format!("{content:?} {mode:o} {}", first.display())
                }
            };
            (path.clone(), text)
        };
        self.nodes.iter().map(describe).collect()
    }
}

/// Describes the real tree in the same way.
fn describe(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut paths = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
            paths.push(entry.path());
        }
    }
    paths.sort();
    let inside = |path: &Path| path.strip_prefix(root).unwrap().to_owned();
    let mut first_names = BTreeMap::new();
    let mut described = BTreeMap::new();
    for path in &paths {
        let metadata = fs::symlink_metadata(path).unwrap();
        let mode = metadata.mode() & 0o7777;
        let text = if metadata.is_symlink() {
            format!("-> {}", fs::read_link(path).unwrap().display())
        } else if metadata.is_dir() {
            format!("directory {mode:o}")
        } else {
            let content = fs::read_to_string(path).unwrap();
            let first = first_names.entry(metadata.ino()).or_insert_with(|| inside(path));
            format!("{content:?} {mode:o} {}", first.display())
        };
        described.insert(inside(path), text);
    }
    described
}

fn perform(files: &LocalFiles, path: &Resolved, act: &TreeAction, claim: ExpectationClaim) -> bool {
    let nonsense = Fingerprint { device: 0, inode: 0, len: 0, modified: 0, changed: 0 };
    let seen = |path: &Resolved| {
        let found = files.inspect(path).ok().flatten();
        found.map_or(nonsense, |found| found.stat.fingerprint)
    };
    let expect = match (claim, seen(path)) {
        (ExpectationClaim::Nonsense, _) => ExpectedState::Same(nonsense),
        (ExpectationClaim::Nothing, _) => ExpectedState::Absent,
        (ExpectationClaim::Truth, there) if there == nonsense => ExpectedState::Absent,
        (ExpectationClaim::Truth, there) => ExpectedState::Same(there),
    };
    let other = place(
        files,
        if let TreeAction::Move(from) | TreeAction::Link(from) = act { from } else { "a" },
    );
    let attributes = |mode: Option<u32>| {
        mode.map(|mode| Attributes { mode: Some(mode), ..Attributes::default() })
    };
    let result = match act {
        TreeAction::Write(content, mode) => {
            let attributes = attributes(*mode);
            alter(files, path, expect, file(content.as_bytes(), attributes.as_ref()))
        }
        TreeAction::Attributes(mode) => {
            alter(files, path, expect, TargetState::Attributes(&attributes(Some(*mode)).unwrap()))
        }
        TreeAction::Move(_) => {
            alter(files, path, expect, TargetState::Moved { from: &other, seen: seen(&other) })
        }
        TreeAction::Link(_) => {
            alter(files, path, expect, TargetState::Linked { with: &other, seen: seen(&other) })
        }
        TreeAction::Symlink(target) => {
            alter(files, path, expect, TargetState::Symlink(Path::new(target)))
        }
        TreeAction::Directory => {
            alter(files, path, expect, TargetState::Directory { attributes: None })
        }
        TreeAction::Remove => alter(files, path, expect, TargetState::Nothing),
    };
    if let Ok(altered) = &result {
        let now = files.inspect(path).unwrap().map(|found| found.stat);
        assert_eq!(altered.stat, now, "what is told is what is there");
    }
    result.is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tree_equals_the_model(
        acts in prop::collection::vec((prop::sample::select(PLACES.as_slice()), act(), claim()), 1..50),
        lookup in prop::sample::select(LOOKUPS.as_slice()),
    ) {
        let ground = TestWorkspace::new();
        ground.put("outside/file", "");
        let mode = |name: &str| fs::metadata(ground.path(name)).unwrap().mode() & 0o7777;
        let modes = (mode("outside/file"), mode("outside"));
        let mut model = TreeModel { nodes: BTreeMap::new(), files: Vec::new(), modes };
        let files = LocalFiles::open_by(&ground.work(""), lookup, Durability::Kernel).unwrap();
        for (path, act, claim) in acts {
            let expected = model.after(Path::new(path), &act, claim);
            let done = perform(&files, &place(&files, path), &act, claim);
            prop_assert_eq!(done, expected.is_some(), "{:?} at {} by {:?} in {:?}", act, path, claim, model);
            model = expected.unwrap_or(model);
            prop_assert_eq!(describe(&ground.work("")), model.describe(), "{:?} at {}", act, path);
        }
    }
}
