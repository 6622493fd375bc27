//! The shown tree, built level by level until it is complete or has as many entries as requested.
//!
//! A level is complete before the next begins. If a level has more entries than remain, its directories get shares, so that none hides
//! another. Entries of a shown directory are counted even if they are not shown; directories that are not shown are not read.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::shares::LineShares;

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeKind {
    Directory,
    /// Another kind of entry, with its description.
    Other(String),
}

/// The shown part of a directory tree. The first node is the root.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Shown directories, by their paths below the root.
    directories: HashMap<PathBuf, usize>,
    /// Directories of the deepest level, which are not read yet.
    deepest: Vec<usize>,
    /// Number of entries that can still be shown.
    left: usize,
}

/// An entry of the tree.
#[derive(Debug)]
struct Node {
    name: String,
    kind: NodeKind,
    /// Shown entries of a directory.
    children: Vec<usize>,
    /// Number of entries of a directory, shown or not.
    entries: usize,
}

/// The text of a tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TreeDrawing {
    pub(super) text: String,
    /// Number of shown entries.
    pub(super) count: usize,
    /// True if entries were left out because of the limit.
    pub(super) truncated: bool,
}

impl Tree {
    /// Makes an empty tree that will have at most `limit` entries.
    pub(super) fn new(limit: usize) -> Self {
        let root = Node::new(String::new(), NodeKind::Directory);
        let directories = HashMap::from([(PathBuf::new(), 0)]);
        Self { nodes: vec![root], directories, deepest: vec![0], left: limit }
    }

    /// Returns whether the tree has no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Returns whether no directory is left to read.
    pub(super) fn is_complete(&self) -> bool {
        self.deepest.is_empty()
    }

    /// Returns whether this is a shown directory.
    pub(super) fn has_directory(&self, path: &Path) -> bool {
        self.directories.contains_key(path)
    }

    /// Returns the next level, without entries.
    pub(super) fn next_level(&self) -> TreeLevel {
        let places = self.deepest.iter().enumerate().map(|(place, node)| (*node, place));
        let places: HashMap<usize, usize> = places.collect();
        let found = self.deepest.iter().map(|node| FoundDirectory::of(*node)).collect();
        let directories = self.directories.iter();
        let by_path = directories
            .filter_map(|(path, node)| Some((path.clone(), *places.get(node)?)))
            .collect();
        TreeLevel { by_path, found, lines: self.left, largest_share: self.left, kept: 0 }
    }

    /// Adds a level, cut to the entries that remain.
    pub(super) fn add(&mut self, mut level: TreeLevel) {
        level.drop_surplus();
        self.left -= level.kept;
        self.deepest.clear();
        for found in level.found {
            let at = self.nodes.len();
            let Some(directory) = self.nodes.get_mut(found.node) else { continue };
            directory.entries = found.entries;
            directory.children = (at..at + found.kept.len()).collect();
            for (at, (path, name, kind)) in (at..).zip(found.kept) {
                if kind == NodeKind::Directory {
                    self.directories.insert(path, at);
                    self.deepest.push(at);
                }
                self.nodes.push(Node::new(name, kind));
            }
        }
    }

    /// Draws the tree as indented text.
    pub(super) fn draw(&self) -> TreeDrawing {
        let mut drawing = TreeDrawing { text: String::new(), count: 0, truncated: false };
        self.draw_directory(0, 0, &mut drawing);
        drawing
    }

    /// Draws the entries of a directory, with a line for those that are left out.
    fn draw_directory(&self, at: usize, indent: usize, drawing: &mut TreeDrawing) {
        let Some(directory) = self.nodes.get(at) else { return };
        for child in &directory.children {
            let Some(node) = self.nodes.get(*child) else { continue };
            match &node.kind {
                NodeKind::Directory => drawing.push_line(indent, &format!("{}/", node.name)),
                NodeKind::Other(what) => {
                    drawing.push_line(indent, &format!("{} {what}", node.name));
                }
            }
            drawing.count += 1;
            self.draw_directory(*child, indent + 1, drawing);
        }
        let more = directory.entries.saturating_sub(directory.children.len());
        if more > 0 {
            drawing.push_line(indent, &format!("… {more} more"));
            drawing.truncated = true;
        }
    }
}

impl Node {
    fn new(name: String, kind: NodeKind) -> Self {
        Self { name, kind, children: Vec::new(), entries: 0 }
    }
}

impl TreeDrawing {
    /// Adds an indented line.
    fn push_line(&mut self, indent: usize, line: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let written = write!(self.text, "{:1$}{line}", "", indent * 2);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
}

/// The entries that a sorted walk finds in the deepest directories of a tree. Little more is kept than can be shown.
#[derive(Debug)]
pub(super) struct TreeLevel {
    /// Positions of the directories in `found`.
    by_path: HashMap<PathBuf, usize>,
    found: Vec<FoundDirectory>,
    /// Number of entries that can be shown.
    lines: usize,
    /// Largest number of entries of one directory that can be shown, as far as is known.
    largest_share: usize,
    /// Number of kept entries.
    kept: usize,
}

/// The entries found in one directory.
#[derive(Debug)]
struct FoundDirectory {
    node: usize,
    /// Number of entries, kept or not.
    entries: usize,
    /// First entries: path, name and kind.
    kept: Vec<(PathBuf, String, NodeKind)>,
}

impl FoundDirectory {
    fn of(node: usize) -> Self {
        Self { node, entries: 0, kept: Vec::new() }
    }
}

impl TreeLevel {
    /// Counts an entry; `entry` is called only if it may be shown.
    pub(super) fn add(&mut self, path: &Path, entry: impl FnOnce() -> (String, NodeKind)) {
        let place = path.parent().and_then(|parent| self.by_path.get(parent));
        let Some(found) = place.and_then(|place| self.found.get_mut(*place)) else { return };
        found.entries += 1;
        if found.kept.len() >= self.largest_share {
            return;
        }
        let (name, kind) = entry();
        found.kept.push((path.to_owned(), name, kind));
        self.kept += 1;
        if self.kept > self.lines.saturating_mul(2) {
            self.drop_surplus();
        }
    }

    /// Drops entries that cannot be shown by the present counts: the more entries there are, the fewer of each directory are shown.
    fn drop_surplus(&mut self) {
        let mut shares = LineShares::new(self.lines, &self.found.iter().map(|found| found.entries));
        self.largest_share = shares.largest();
        self.kept = 0;
        for found in &mut self.found {
            found.kept.truncate(shares.take(found.entries));
            self.kept += found.kept.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The entries of a test tree, by path, in the order of a walk. The value is true for directories, which end in `/`.
    type EntryPaths = BTreeMap<PathBuf, bool>;

    /// Parses a drawing: two spaces of indentation per level.
    fn parse_drawing(drawing: &str) -> EntryPaths {
        let (mut all, mut open) = (EntryPaths::new(), Vec::new());
        for line in drawing.lines() {
            let name = line.trim_start();
            open.truncate((line.len() - name.len()) / 2);
            open.push(name.trim_end_matches('/'));
            all.insert(open.iter().collect(), name.ends_with('/'));
        }
        all
    }

    /// Builds a tree as `list` does. Also returns the number of requested names and sizes.
    fn build(all: &EntryPaths, depth: usize, limit: usize) -> (Tree, usize) {
        let mut tree = Tree::new(limit);
        let asked = Cell::new(0);
        for deepest in 1..=depth {
            let mut level = tree.next_level();
            for (path, is_directory) in all {
                if path.components().count() == deepest {
                    level.add(path, || {
                        asked.set(asked.get() + 1);
                        let kind = if *is_directory {
                            NodeKind::Directory
                        } else {
                            NodeKind::Other("(1 B)".into())
                        };
                        (path.file_name().unwrap().to_str().unwrap().to_owned(), kind)
                    });
                }
            }
            tree.add(level);
            if tree.is_complete() {
                break;
            }
        }
        (tree, asked.get())
    }

    /// Builds a tree with this limit and checks its drawing.
    fn check(limit: usize, drawn: &str, expected: &str) {
        let drawing = build(&parse_drawing(drawn), 10, limit).0.draw();
        assert_eq!(drawing.text.replace(" (1 B)", ""), expected, "limit {limit}");
        assert_eq!(drawing.truncated, expected.contains('…'), "limit {limit}");
        let names = expected.lines().filter(|line| !line.trim_start().starts_with('…')).count();
        assert_eq!(drawing.count, names, "limit {limit}");
    }

    #[test]
    fn small_tree_is_shown_whole() {
        let all = "a/\n  b/\n    c\n  d\ne";
        for limit in 5..8 {
            check(limit, all, all);
        }
        check(5, "", "");
    }

    #[test]
    fn a_level_comes_before_the_next() {
        let all = "a/\n  b/\n    1\n    2\n  c\nd/\n  e/\n    1\n  f\ng";
        check(10, all, all);
        check(9, all, "a/\n  b/\n    1\n    … 1 more\n  c\nd/\n  e/\n    1\n  f\ng");
        check(7, all, "a/\n  b/\n    … 2 more\n  c\nd/\n  e/\n    … 1 more\n  f\ng");
        check(6, all, "a/\n  b/\n    … 2 more\n  c\nd/\n  e/\n    … 1 more\n  … 1 more\ng");
        check(4, all, "a/\n  b/\n    … 2 more\n  … 1 more\nd/\n  … 2 more\ng");
        check(3, all, "a/\n  … 2 more\nd/\n  … 2 more\ng");
        check(1, all, "a/\n  … 2 more\n… 2 more");
    }

    #[test]
    fn remaining_lines_are_shared() {
        let drawn = "a/\n  1\n  2\n  3\n  4\n  5\n  6\nb/\n  1\nc/\n  1\n  2\n  3\n  4\n  5\nd";
        check(16, drawn, drawn);
        check(
            12,
            drawn,
            "a/\n  1\n  2\n  3\n  4\n  … 2 more\nb/\n  1\nc/\n  1\n  2\n  3\n  … 2 more\nd",
        );
    }

    #[test]
    fn few_more_names_are_requested_than_shown() {
        let names = |directories: usize, entries: usize| {
            let mut all = EntryPaths::new();
            for directory in 0..directories {
                let directory = PathBuf::from(format!("{directory:04}"));
                all.extend(
                    (0..entries).map(|entry| (directory.join(format!("{entry:04}")), false)),
                );
                all.insert(directory, true);
            }
            all
        };
        for (directories, entries, limit) in [(1, 5000, 50), (100, 1000, 200), (300, 100, 300)] {
            let (tree, asked) = build(&names(directories, entries), 2, limit);
            assert_eq!(tree.draw().count, limit);
            let rounds = usize::try_from(directories.ilog2()).unwrap() + 2;
            assert!(asked <= limit * rounds, "{asked} for {directories} × {entries}");
        }
    }

    /// Parses a drawing into the shown paths and the number of left-out entries in each directory.
    fn read(drawing: &str) -> (Vec<PathBuf>, BTreeMap<PathBuf, usize>) {
        let (mut shown, mut more, mut open) = (Vec::new(), BTreeMap::new(), Vec::<&str>::new());
        for line in drawing.lines() {
            let name = line.trim_start();
            open.truncate((line.len() - name.len()) / 2);
            if let Some(number) = name.strip_prefix("… ") {
                let number = number.trim_end_matches(" more").parse().unwrap();
                more.insert(open.iter().collect(), number);
            } else {
                open.push(name.trim_end_matches(" (1 B)").trim_end_matches('/'));
                shown.push(open.iter().collect());
            }
        }
        (shown, more)
    }

    /// Returns the number of entries directly in a directory.
    fn below(all: &EntryPaths, directory: &Path) -> usize {
        all.keys().filter(|path| path.parent() == Some(directory)).count()
    }

    /// Returns the number of paths with this number of components.
    fn of_level<'a>(paths: impl Iterator<Item = &'a PathBuf>, level: usize) -> usize {
        paths.filter(|path| path.components().count() == level).count()
    }

    proptest! {
        #[test]
        fn drawing_follows_the_rules(
            depths in proptest::collection::vec((1usize..5, any::<bool>()), 0..60),
            limit in 1usize..40,
            depth in 1usize..6,
        ) {
            let (mut there, mut open) = (EntryPaths::new(), Vec::<String>::new());
            for (at, (depth, is_directory)) in depths.iter().enumerate() {
                open.truncate(depth - 1);
                open.push(format!("{at:02}"));
                there.insert(open.iter().collect(), *is_directory);
                if !is_directory {
                    open.pop();
                }
            }
            let drawing = build(&there, depth, limit).0.draw();
            let (shown, more) = read(&drawing.text);
            let wanted = there.keys().filter(|path| path.components().count() <= depth).count();

            // All lines are used, and counts are true.
            prop_assert_eq!(drawing.count, shown.len());
            prop_assert_eq!(shown.len(), limit.min(wanted), "{}", drawing.text);
            prop_assert_eq!(drawing.truncated, shown.len() < wanted);

            // A level is complete before the next begins.
            for level in 1..depth {
                if of_level(shown.iter(), level + 1) > 0 {
                    prop_assert_eq!(of_level(shown.iter(), level), of_level(there.keys(), level));
                }
            }

            // Every directory above the deepest level says how many entries are left out; the first ones are shown.
            let root = PathBuf::new();
            let directories = shown.iter().filter(|path| there[*path]).chain([&root]);
            for directory in directories.filter(|path| path.components().count() < depth) {
                let children: Vec<_> =
                    shown.iter().filter(|path| path.parent() == Some(directory.as_path())).collect();
                let has: Vec<_> = there
                    .keys()
                    .filter(|path| path.parent() == Some(directory.as_path()))
                    .take(children.len())
                    .collect();
                prop_assert_eq!(&children, &has);
                let left_out = below(&there, directory) - children.len();
                prop_assert_eq!(more.get(directory).copied().unwrap_or(0), left_out);
                // Directories that are cut differ by at most one entry from others of their level.
                for other in &shown {
                    if left_out > 0 && other.components().count() == directory.components().count() {
                        let others = shown.iter().filter(|path| path.parent() == Some(other.as_path()));
                        prop_assert!(others.count() <= children.len() + 1, "{}", drawing.text);
                    }
                }
            }
        }
    }
}
