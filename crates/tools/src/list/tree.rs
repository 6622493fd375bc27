//! A tree of names, and which part of it to show when all of it is too much.
//!
//! Every directory is cut to the same number of entries, the largest with which the whole fits; so no directory hides another,
//! and the last one is seen as well as the first. Where that would leave only one or two names in each, the deepest level is
//! left out instead.

use std::fmt::Write as _;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    /// Anything else, with what to say about it.
    Other(String),
}

/// A directory with what is in it. The first node is the root.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The chain of directories that the last entry is in, the root first.
    open: Vec<usize>,
    /// How many entries of one directory are kept: more are never shown.
    limit: usize,
}

#[derive(Debug)]
struct Node {
    name: String,
    kind: Kind,
    children: Vec<usize>,
    /// How many entries it has, kept or not.
    entries: usize,
    /// Whether its entries were left out for their number.
    closed: bool,
}

impl Node {
    fn new(name: String, kind: Kind) -> Self {
        Self { name, kind, children: Vec::new(), entries: 0, closed: false }
    }
}

/// How much of a tree is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    depth: usize,
    per_directory: usize,
}

/// The text of a tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Drawing {
    pub(super) text: String,
    /// Entries shown.
    pub(super) count: usize,
    /// Whether something was left out for its number.
    pub(super) truncated: bool,
}

impl Tree {
    /// How many entries are kept in all: enough for every sensible question, bounded for the others.
    const MOST: usize = 100_000;
    /// A directory cut to fewer entries than this says less than the level above it.
    const FEWEST: usize = 4;

    pub(super) fn new(limit: usize) -> Self {
        let root = Node::new(String::new(), Kind::Directory);
        Self { nodes: vec![root], open: vec![0], limit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Adds an entry, in the order in which a sorted walk finds them: a directory, then what is in it. `name` and `kind` are
    /// asked for only if the entry is kept. Answers whether what is in it is wanted.
    pub(super) fn add(&mut self, depth: usize, entry: impl FnOnce() -> (String, Kind)) -> bool {
        self.open.truncate(depth.max(1));
        let at = self.nodes.len();
        let Some(parent) = self.open.last().and_then(|parent| self.nodes.get_mut(*parent)) else {
            return false;
        };
        parent.entries += 1;
        if parent.children.len() >= self.limit {
            return false;
        }
        parent.children.push(at);
        let (name, kind) = entry();
        let mut node = Node::new(name, kind);
        node.closed = node.kind == Kind::Directory && at >= Self::MOST;
        let wanted = !node.closed;
        self.nodes.push(node);
        self.open.push(at);
        wanted
    }

    /// The tree as an indented text of at most `limit` entries.
    pub(super) fn draw(&self) -> Drawing {
        let extent = self.fitting();
        let mut drawing = Drawing { text: String::new(), count: 0, truncated: false };
        self.draw_directory(0, 0, extent, &mut drawing);
        drawing
    }

    /// The most that can be shown.
    fn fitting(&self) -> Extent {
        for depth in (1..=self.depth()).rev() {
            let per_directory = self.largest_cut(depth);
            if per_directory >= Self::FEWEST.min(self.limit) {
                return Extent { depth, per_directory };
            }
        }
        Extent { depth: 1, per_directory: self.limit }
    }

    /// The largest number of entries per directory with which so many levels fit; 0 if none does.
    fn largest_cut(&self, depth: usize) -> usize {
        // Shows more the larger it is, so the largest that fits is found by halving.
        let (mut fits, mut too_many) = (0, self.limit + 1);
        while too_many - fits > 1 {
            let per_directory = usize::midpoint(fits, too_many);
            if self.visible(0, Extent { depth, per_directory }) <= self.limit {
                fits = per_directory;
            } else {
                too_many = per_directory;
            }
        }
        fits
    }

    fn visible(&self, at: usize, extent: Extent) -> usize {
        let Some(below) = extent.below() else { return 0 };
        self.children(at, extent).map(|child| 1 + self.visible(child, below)).sum()
    }

    fn children(&self, at: usize, extent: Extent) -> impl Iterator<Item = usize> {
        let children = self.nodes.get(at).map_or(&[][..], |node| &node.children);
        children.iter().copied().take(extent.per_directory)
    }

    fn depth(&self) -> usize {
        fn below(tree: &Tree, at: usize) -> usize {
            let children = tree.nodes.get(at).map_or(&[][..], |node| &node.children);
            children.iter().map(|child| 1 + below(tree, *child)).max().unwrap_or(0)
        }
        below(self, 0)
    }

    fn draw_directory(&self, at: usize, indent: usize, extent: Extent, drawing: &mut Drawing) {
        let Some(below) = extent.below() else { return };
        let mut shown = 0;
        for child in self.children(at, extent) {
            let Some(node) = self.nodes.get(child) else { continue };
            let left_out = node.closed || (below.depth == 0 && node.entries > 0);
            drawing.truncated |= left_out;
            drawing.line(indent, &node.describe(left_out));
            shown += 1;
            self.draw_directory(child, indent + 1, below, drawing);
        }
        drawing.count += shown;
        let more = self.nodes.get(at).map_or(0, |node| node.entries) - shown;
        if more > 0 {
            drawing.line(indent, &format!("… {more} more"));
            drawing.truncated = true;
        }
    }
}

impl Extent {
    /// What is left of it one level further down.
    fn below(self) -> Option<Self> {
        Some(Self { depth: self.depth.checked_sub(1)?, ..self })
    }
}

impl Node {
    fn describe(&self, left_out: bool) -> String {
        match &self.kind {
            Kind::Directory if left_out => format!("{}/ …", self.name),
            Kind::Directory => format!("{}/", self.name),
            Kind::Other(what) => format!("{} {what}", self.name),
        }
    }
}

impl Drawing {
    fn line(&mut self, indent: usize, line: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let written = write!(self.text, "{:1$}{line}", "", indent * 2);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A tree out of its drawing: two spaces of indentation per level.
    fn tree(limit: usize, drawing: &str) -> Tree {
        let mut tree = Tree::new(limit);
        for line in drawing.lines() {
            let name = line.trim_start();
            let kind = match name.strip_suffix('/') {
                Some(_) => Kind::Directory,
                None => Kind::Other("(1 B)".into()),
            };
            let depth = (line.len() - name.len()) / 2 + 1;
            tree.add(depth, || (name.trim_end_matches('/').into(), kind));
        }
        tree
    }

    fn check(limit: usize, all: &str, expected: &str) {
        let drawing = tree(limit, all).draw();
        assert_eq!(drawing.text.replace(" (1 B)", ""), expected, "limit {limit}");
        assert_eq!(drawing.truncated, expected.contains('…'), "limit {limit}");
        let names = expected.lines().filter(|line| !line.trim_start().starts_with('…')).count();
        assert_eq!(drawing.count, names, "limit {limit}");
    }

    #[test]
    fn what_fits_is_shown() {
        let all = "a/\n  b/\n    c\n  d\ne";
        for limit in 5..8 {
            check(limit, all, all);
        }
        check(5, "", "");
    }

    #[test]
    fn every_directory_is_cut_alike() {
        let all = "a/\n  1\n  2\n  3\n  4\n  5\n  6\nb/\n  1\n  2\n  3\n  4\n  5\n  6\nc";
        check(11, all, "a/\n  1\n  2\n  3\n  4\n  … 2 more\nb/\n  1\n  2\n  3\n  4\n  … 2 more\nc");
    }

    #[test]
    fn levels_go_before_names() {
        let all = "a/\n  1\n  2\n  3\n  4\n  5\n  6\nb/\n  1\n  2\n  3\n  4\n  5\n  6\nc";
        check(10, all, "a/ …\nb/ …\nc");
        check(2, all, "a/ …\nb/ …\n… 1 more");
    }

    #[test]
    fn more_than_the_limit_in_one_directory() {
        let mut tree = Tree::new(2);
        for name in 0..1000 {
            let wanted = tree.add(1, || (name.to_string(), Kind::Directory));
            assert_eq!(wanted, name < 2, "what is not shown is not looked into");
        }
        assert_eq!(tree.nodes.len(), 3);
        assert_eq!(tree.draw().text, "0/\n1/\n… 998 more");
    }

    proptest! {
        #[test]
        fn never_more_than_the_limit(depths in proptest::collection::vec(1usize..5, 0..60), limit in 1usize..40) {
            let mut all = Tree::new(limit);
            let mut last = 0;
            for (at, depth) in depths.iter().enumerate() {
                let depth = (*depth).min(last + 1);
                if all.add(depth, || (at.to_string(), Kind::Directory)) {
                    last = depth;
                } else {
                    last = depth - 1;
                }
            }
            let drawing = all.draw();
            prop_assert!(drawing.count <= limit);
            prop_assert!(drawing.count > 0 || depths.is_empty());
            prop_assert!(drawing.truncated || drawing.count == depths.len());
        }
    }
}
