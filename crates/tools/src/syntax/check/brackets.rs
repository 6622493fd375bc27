//! Finds brackets without a partner.
//!
//! If a bracket is missing, a parser reports an error much later, or takes the whole file for one error. But the change is known:
//! text before and behind it is the same, so the same brackets should be open behind the change. If others are, the change is the
//! cause, and the bracket can be named.

use std::fmt;
use std::ops::Range;

use tree_sitter::Tree;

use super::languages::GrammarTrust;
use super::preprocessor;
use super::span::{ChangedSpan, line_around};

/// Number of open brackets that are searched for the partner of a closing one.
const MAX_SEARCH_DEPTH: usize = 100;

/// A bracket and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bracket {
    /// Position in bytes.
    pub(super) at: usize,
    /// The character.
    sign: u8,
}

/// A bracket error that a change introduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BracketFault {
    /// This bracket is not closed.
    Open(Bracket),
    /// This bracket does not close the open one, if there is one.
    Stray(Bracket, Option<Bracket>),
    /// The first bracket closes the second, which should stay open.
    Early(Bracket, Bracket),
    /// This bracket was removed, but its partner is still there.
    Lost(Bracket),
}

/// The result of a comparison of brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BracketVerdict {
    /// The number of brackets without a partner did not grow.
    NoWorse,
    /// The change introduced this error.
    Worse(BracketFault),
    /// More brackets have no partner, but brackets far from the change differ, too: the change opened a string or a comment that has
    /// no end.
    Unclear,
}

impl Bracket {
    /// Returns whether this is an opening bracket.
    fn opens(self) -> bool {
        matches!(self.sign, b'(' | b'[' | b'{')
    }

    /// Returns the character of the partner.
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

    /// Returns whether two brackets are a pair by their characters.
    fn is_partner_of(self, other: Self) -> bool {
        self.partner() == char::from(other.sign)
    }
}

impl fmt::Display for Bracket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        char::from(self.sign).fmt(f)
    }
}

/// Returns the brackets of a text that are reliable for its grammar.
pub(super) fn brackets_of(trust: GrammarTrust, tree: &Tree, text: &str) -> Vec<Bracket> {
    match trust {
        GrammarTrust::Everything => all_brackets(tree, text),
        GrammarTrust::Brackets => {
            without_ranges(all_brackets(tree, text), &preprocessor::unknown_lines(text))
        }
        GrammarTrust::Grammar => Vec::new(),
    }
}

/// Removes the brackets in these ranges.
fn without_ranges(mut brackets: Vec<Bracket>, unknown: &[Range<usize>]) -> Vec<Bracket> {
    brackets.retain(|it| {
        let begun = unknown.partition_point(|line| line.start <= it.at);
        let last = unknown.get(..begun).unwrap_or_default().last();
        last.is_none_or(|line| line.end <= it.at)
    });
    brackets
}

/// Returns all brackets except those in strings and comments, which are inside named nodes of the tree.
fn all_brackets(tree: &Tree, text: &str) -> Vec<Bracket> {
    let mut brackets = Vec::new();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if node.child_count() == 0 && !node.is_named() {
            push_brackets(&mut brackets, text, node.byte_range());
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

/// Adds the brackets of a token, which may have other characters, too: `#{`, `[[`, `%w(`.
fn push_brackets(brackets: &mut Vec<Bracket>, text: &str, range: Range<usize>) {
    let token = text.as_bytes().get(range.clone()).unwrap_or_default();
    let is_bracket = |sign: &u8| matches!(sign, b'(' | b')' | b'[' | b']' | b'{' | b'}');
    let found = (range.start..).zip(token).filter(|(_, sign)| is_bracket(sign));
    brackets.extend(found.map(|(at, sign)| Bracket { at, sign: *sign }));
}

/// Compares the brackets before and after the change.
pub(super) fn compare_brackets(
    before: &[Bracket],
    after: &[Bracket],
    text: &str,
    span: &ChangedSpan,
) -> BracketVerdict {
    if count_unpaired(after) <= count_unpaired(before) {
        return BracketVerdict::NoWorse;
    }
    let old = BracketSections::of(before, span.start, span.before_end);
    let new = BracketSections::of(after, span.start, span.after_end);
    let moved = old.tail.iter().map(|it| Bracket { at: span.shift(it.at), ..*it });
    if old.head != new.head || !moved.eq(new.tail.iter().copied()) {
        return BracketVerdict::Unclear;
    }
    find_fault(&old, &new, text).map_or(BracketVerdict::Unclear, BracketVerdict::Worse)
}

/// Returns the error in the changed span; `None` if it is unclear.
fn find_fault(
    old: &BracketSections<'_>,
    new: &BracketSections<'_>,
    text: &str,
) -> Option<BracketFault> {
    let (old, new) = (old.stack(), new.stack());
    if new.faults.len() > old.faults.len() {
        return new.faults.first().copied();
    }
    let same = old.open.iter().zip(&new.open).take_while(|(a, b)| a.sign == b.sign).count();
    if new.open.len() >= old.open.len() {
        let left = new.open.get(same).copied()?;
        return Some(BracketFault::Open(new.closed_by_outer_bracket(text).unwrap_or(left)));
    }
    let gone = old.open.get(same).copied()?;
    let closed = new.pairs.iter().find(|(open, _)| *open == gone);
    Some(
        closed.map_or(BracketFault::Lost(gone), |(open, close)| BracketFault::Early(*close, *open)),
    )
}

/// Returns the number of brackets without a partner.
fn count_unpaired(brackets: &[Bracket]) -> usize {
    let mut stack = BracketStack::default();
    stack.process_all(brackets);
    stack.open.len() + stack.faults.len()
}

/// The brackets before, in and behind the changed span.
struct BracketSections<'a> {
    head: &'a [Bracket],
    middle: &'a [Bracket],
    tail: &'a [Bracket],
}

impl<'a> BracketSections<'a> {
    /// Splits brackets by the start and the end of a span.
    fn of(brackets: &'a [Bracket], start: usize, end: usize) -> Self {
        let (rest, tail) = brackets.split_at(brackets.partition_point(|it| it.at < end));
        let (head, middle) = rest.split_at(rest.partition_point(|it| it.at < start));
        Self { head, middle, tail }
    }

    /// Returns the open brackets at the end of the span; faults and pairs are those of the span.
    fn stack(&self) -> BracketStack {
        let mut stack = BracketStack::default();
        stack.process_all(self.head);
        stack.faults.clear();
        stack.pairs.clear();
        stack.process_all(self.middle);
        stack
    }
}

/// The open brackets at a position, with the faults and pairs found on the way.
#[derive(Default)]
struct BracketStack {
    /// Open brackets, the outermost first.
    open: Vec<Bracket>,
    /// Brackets that certainly have no partner.
    faults: Vec<BracketFault>,
    /// Pairs of an opening and a closing bracket.
    pairs: Vec<(Bracket, Bracket)>,
}

impl BracketStack {
    /// Processes brackets in order.
    fn process_all(&mut self, brackets: &[Bracket]) {
        for it in brackets {
            self.process(*it);
        }
    }

    /// Processes one bracket.
    fn process(&mut self, it: Bracket) {
        if it.opens() {
            return self.open.push(it);
        }
        let Some(at) = self.partner_of(it) else {
            return self.faults.push(BracketFault::Stray(it, self.open.last().copied()));
        };
        let mut closed = self.open.drain(at..);
        self.pairs.extend(closed.next().map(|open| (open, it)));
        self.faults.extend(closed.map(BracketFault::Open));
    }

    /// Returns the position of the open bracket that this one closes. A brace closes brackets inside it; other brackets do not close a
    /// brace.
    fn partner_of(&self, it: Bracket) -> Option<usize> {
        let near = (0..self.open.len()).zip(&self.open).rev().take(MAX_SEARCH_DEPTH);
        let (at, open) =
            near.into_iter().find(|(_, open)| it.is_partner_of(**open) || open.sign == b'{')?;
        it.is_partner_of(*open).then_some(at)
    }

    /// Returns an open bracket that was closed by one in a line with less indentation: the bracket that should have been closed there is
    /// now open instead.
    fn closed_by_outer_bracket(&self, text: &str) -> Option<Bracket> {
        let is_misfit = |(open, close): &&(Bracket, Bracket)| {
            let line = |it: &Bracket| text.get(line_around(text, it.at)).unwrap_or_default();
            is_first_in_line(text, close.at) && indentation(line(close)) < indentation(line(open))
        };
        self.pairs.iter().find(is_misfit).map(|(open, _)| *open)
    }
}

/// Returns whether only white space stands before a position in its line.
fn is_first_in_line(text: &str, at: usize) -> bool {
    let head = text.get(..at).unwrap_or_default().trim_end_matches([' ', '\t']);
    head.is_empty() || head.ends_with('\n')
}

/// Returns the number of spaces and tabs at the start of a line.
fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}
