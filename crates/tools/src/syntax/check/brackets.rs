//! Brackets that do not come in pairs.
//!
//! Where a bracket is missing, a parser stumbles much later, or takes the whole file for one error. But what changed is known:
//! up to the change and behind it everything is as it was, so that the brackets that are open behind the change should be so,
//! too. Where they are not, the change is to blame, and which bracket it is about can be told.

use std::fmt;
use std::ops::Range;

use tree_sitter::Tree;

use super::difference::{Difference, line_around};
use super::languages::Trust;
use super::preprocessor;

/// How many open brackets are looked through for the one that is closed.
const NEAR: usize = 100;

/// A bracket, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bracket {
    pub(super) at: usize,
    sign: u8,
}

/// What is wrong with the brackets of a text that were right before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not closed.
    Open(Bracket),
    /// It does not close what is open there, if anything is.
    Stray(Bracket, Option<Bracket>),
    /// It closes what should stay open.
    Early(Bracket, Bracket),
    /// It is not there any more to open what is closed later.
    Lost(Bracket),
}

/// What a comparison of brackets says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As many are in pairs as before.
    NoWorse,
    /// The change did this.
    Worse(Fault),
    /// There are more without a partner, but brackets far from the change are others than before: a string or a comment
    /// has no end now.
    Unclear,
}

impl Bracket {
    fn opens(self) -> bool {
        matches!(self.sign, b'(' | b'[' | b'{')
    }

    /// The sign of the other one of a pair.
    pub(super) fn partner(self) -> char {
        match self.sign {
            b'(' => ')',
            b')' => '(',
            b'[' => ']',
            b']' => '[',
            b'{' => '}',
            _ => '{',
        }
    }

    fn fits(self, other: Self) -> bool {
        self.partner() == char::from(other.sign)
    }
}

impl fmt::Display for Bracket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        char::from(self.sign).fmt(f)
    }
}

/// The brackets of a text for which its grammar can speak.
pub(super) fn of(trust: Trust, tree: &Tree, text: &str) -> Vec<Bracket> {
    match trust {
        Trust::Everything => all(tree, text),
        Trust::Brackets => known(all(tree, text), &preprocessor::unknown_lines(text)),
        Trust::Grammar => Vec::new(),
    }
}

/// Those that are in none of these lines.
fn known(mut brackets: Vec<Bracket>, unknown: &[Range<usize>]) -> Vec<Bracket> {
    brackets.retain(|it| {
        let begun = unknown.partition_point(|line| line.start <= it.at);
        let last = unknown.get(..begun).unwrap_or_default().last();
        last.is_none_or(|line| line.end <= it.at)
    });
    brackets
}

/// All that mean something: not those in strings and comments, which are named in the tree.
fn all(tree: &Tree, text: &str) -> Vec<Bracket> {
    let mut brackets = Vec::new();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if node.child_count() == 0 && !node.is_named() {
            push(&mut brackets, text, node.byte_range());
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return brackets;
            }
        }
    }
}

/// Some tokens have a bracket among other signs: `#{`, `[[`, `%w(`.
fn push(brackets: &mut Vec<Bracket>, text: &str, range: Range<usize>) {
    let token = text.as_bytes().get(range.clone()).unwrap_or_default();
    let is_bracket = |sign: &u8| matches!(sign, b'(' | b')' | b'[' | b']' | b'{' | b'}');
    let found = (range.start..).zip(token).filter(|(_, sign)| is_bracket(sign));
    brackets.extend(found.map(|(at, sign)| Bracket { at, sign: *sign }));
}

/// What the change did to the brackets.
pub(super) fn compare(
    before: &[Bracket],
    after: &[Bracket],
    text: &str,
    difference: &Difference,
) -> Verdict {
    if alone(after) <= alone(before) {
        return Verdict::NoWorse;
    }
    let old = Parts::of(before, difference.start, difference.before_end);
    let new = Parts::of(after, difference.start, difference.after_end);
    let moved = old.tail.iter().map(|it| Bracket { at: difference.shift(it.at), ..*it });
    if old.head != new.head || !moved.eq(new.tail.iter().copied()) {
        return Verdict::Unclear;
    }
    fault(&old, &new, text).map_or(Verdict::Unclear, Verdict::Worse)
}

/// What went wrong in the difference.
fn fault(old: &Parts<'_>, new: &Parts<'_>, text: &str) -> Option<Fault> {
    let (old, new) = (old.stack(), new.stack());
    if new.faults.len() > old.faults.len() {
        return new.faults.first().copied();
    }
    let same = old.open.iter().zip(&new.open).take_while(|(a, b)| a.sign == b.sign).count();
    if new.open.len() >= old.open.len() {
        let left = new.open.get(same).copied()?;
        return Some(Fault::Open(new.misfit(text).unwrap_or(left)));
    }
    let gone = old.open.get(same).copied()?;
    let closed = new.pairs.iter().find(|(open, _)| *open == gone);
    Some(closed.map_or(Fault::Lost(gone), |(open, close)| Fault::Early(*close, *open)))
}

/// How many have no partner.
fn alone(brackets: &[Bracket]) -> usize {
    let mut stack = Stack::default();
    stack.take_all(brackets);
    stack.open.len() + stack.faults.len()
}

/// The brackets before, in and behind the difference.
struct Parts<'a> {
    head: &'a [Bracket],
    middle: &'a [Bracket],
    tail: &'a [Bracket],
}

impl<'a> Parts<'a> {
    fn of(brackets: &'a [Bracket], start: usize, end: usize) -> Self {
        let (rest, tail) = brackets.split_at(brackets.partition_point(|it| it.at < end));
        let (head, middle) = rest.split_at(rest.partition_point(|it| it.at < start));
        Self { head, middle, tail }
    }

    fn stack(&self) -> Stack {
        let mut stack = Stack::default();
        stack.take_all(self.head);
        stack.faults.clear();
        stack.pairs.clear();
        stack.take_all(self.middle);
        stack
    }
}

/// What is open, and what happened on the way there.
#[derive(Default)]
struct Stack {
    open: Vec<Bracket>,
    /// Those that are without a partner for certain.
    faults: Vec<Fault>,
    /// Which was open and was closed by which.
    pairs: Vec<(Bracket, Bracket)>,
}

impl Stack {
    fn take_all(&mut self, brackets: &[Bracket]) {
        for it in brackets {
            self.take(*it);
        }
    }

    fn take(&mut self, it: Bracket) {
        if it.opens() {
            return self.open.push(it);
        }
        let Some(at) = self.partner_of(it) else {
            return self.faults.push(Fault::Stray(it, self.open.last().copied()));
        };
        let mut closed = self.open.drain(at..);
        self.pairs.extend(closed.next().map(|open| (open, it)));
        self.faults.extend(closed.map(Fault::Open));
    }

    /// Where the open bracket is that this one closes. A brace ends what is open in it, other brackets do not end a brace.
    fn partner_of(&self, it: Bracket) -> Option<usize> {
        let near = (0..self.open.len()).zip(&self.open).rev().take(NEAR);
        let (at, open) = near.into_iter().find(|(_, open)| it.fits(**open) || open.sign == b'{')?;
        it.fits(*open).then_some(at)
    }

    /// An open bracket that was closed by one which stands further left than the line it is in: the one that it was meant for
    /// is open now instead.
    fn misfit(&self, text: &str) -> Option<Bracket> {
        let is_misfit = |(open, close): &&(Bracket, Bracket)| {
            let line = |it: &Bracket| text.get(line_around(text, it.at)).unwrap_or_default();
            is_first(text, close.at) && indentation(line(close)) < indentation(line(open))
        };
        self.pairs.iter().find(is_misfit).map(|(open, _)| *open)
    }
}

/// Whether nothing but white space stands before it in its line.
fn is_first(text: &str, at: usize) -> bool {
    let head = text.get(..at).unwrap_or_default().trim_end_matches([' ', '\t']);
    head.is_empty() || head.ends_with('\n')
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}
