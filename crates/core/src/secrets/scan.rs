//! Looking for secrets in a text, whole or in pieces, with the same answer however it is cut.
//!
//! An automaton finds where something may begin; a judge looks on from there. It looks through a [`Cursor`], which notes whether
//! it was asked for more than there is yet. A judgement for which that was so is no judgement: the text is held back from there on
//! until more of it comes. One for which it was not so depends on nothing that is still to come, which is why a text in pieces
//! comes out like the whole. Every judge looks at a bounded number of bytes, so what is held back is bounded too.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::glance::Glance;

/// How far judges may look back.
const BEHIND: usize = 32;

/// A set of bytes.
pub(super) type Class = fn(u8) -> bool;

/// What to look for.
pub(super) trait Rules {
    /// Where something may begin.
    fn anchors(&self) -> &Anchors;

    /// Whether something is where the cursor is, at this anchor.
    fn judge(&self, anchor: usize, cursor: &mut Cursor<'_>) -> Option<Found<'_>>;
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found<'r> {
    /// What is taken out. It begins at the anchor or behind it.
    pub(super) secret: Range<usize>,
    /// What takes its place; `None` if it is to be left as it is.
    pub(super) says: Option<&'r str>,
    /// What else belongs to it, however much of that follows.
    pub(super) goes_on: Class,
}

/// Nothing else.
pub(super) fn nothing(_: u8) -> bool {
    false
}

/// The first bytes of all that is looked for.
#[derive(Debug)]
pub(super) struct Anchors {
    /// `None` if there is nothing to look for.
    automaton: Option<AhoCorasick>,
    /// The table that rules out most short texts without the automaton.
    glance: Glance,
    /// All proper beginnings of anchors: at the end of a piece, one of them may become an anchor.
    beginnings: HashSet<Box<[u8]>>,
    longest: usize,
}

impl Anchors {
    /// None may be the beginning of another.
    pub(super) fn new(anchors: &[impl AsRef<[u8]>]) -> Self {
        let longest = anchors.iter().map(|anchor| anchor.as_ref().len()).max().unwrap_or(0);
        let beginnings = anchors.iter().flat_map(|anchor| {
            let anchor = anchor.as_ref();
            (1..anchor.len()).filter_map(|end| anchor.get(..end).map(Box::from))
        });
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(anchors);
        Self {
            glance: Glance::new(anchors),
            beginnings: beginnings.collect(),
            longest,
            // It cannot be built only if it would be larger than 2 GiB.
            automaton: automaton.ok().filter(|_| longest > 0),
        }
    }

    /// The next anchor, and where it is.
    fn next(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let found = self.automaton.as_ref()?.find(Input::new(text).range(from..text.len()))?;
        Some((found.pattern().as_usize(), found.start()))
    }

    /// Returns whether a text has an anchor in it.
    pub(super) fn has_any(&self, text: &[u8]) -> bool {
        !self.glance.rules_out(text) && self.next(text, 0).is_some()
    }

    /// The table that rules out most short texts without the automaton.
    pub(super) fn glance(&self) -> &Glance {
        &self.glance
    }

    /// Where the end of a text may be the beginning of an anchor.
    fn begun(&self, text: &[u8], from: usize) -> usize {
        let first = (text.len() + 1).saturating_sub(self.longest).max(from);
        (first..text.len())
            .find(|at| text.get(*at..).is_some_and(|tail| self.beginnings.contains(tail)))
            .unwrap_or(text.len())
    }
}

/// A place in a text of which more may come.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
    /// Whether no more comes.
    is_end: bool,
    /// Whether a byte was asked for that is not there yet.
    ran_out: bool,
}

impl<'t> Cursor<'t> {
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The byte here.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.ahead(0)
    }

    /// The byte so many places on.
    pub(super) fn ahead(&mut self, by: usize) -> Option<u8> {
        let byte = self.text.get(self.at + by).copied();
        self.ran_out |= byte.is_none() && !self.is_end;
        byte
    }

    /// The byte so many places back, 1 for the one before this.
    pub(super) fn behind(&self, by: usize) -> Option<u8> {
        debug_assert!(by <= BEHIND, "nobody remembers that much");
        self.at.checked_sub(by).and_then(|at| self.text.get(at)).copied()
    }

    pub(super) fn go_on(&mut self, by: usize) {
        self.at += by;
    }

    /// Passes one byte of this kind, if it is here.
    pub(super) fn eat_if(&mut self, class: impl Fn(u8) -> bool) -> Option<u8> {
        let byte = self.peek().filter(|byte| class(*byte))?;
        self.at += 1;
        Some(byte)
    }

    /// Passes these bytes, if all of them are here.
    pub(super) fn eat(&mut self, bytes: &[u8]) -> bool {
        let is_here = (0..).zip(bytes).all(|(by, byte)| self.ahead(by) == Some(*byte));
        if is_here {
            self.at += bytes.len();
        }
        is_here
    }

    /// Passes bytes of a kind, at most so many.
    pub(super) fn run(&mut self, class: impl Fn(u8) -> bool, most: usize) -> &'t [u8] {
        let from = self.at;
        while self.at - from < most && self.eat_if(&class).is_some() {}
        self.since(from)
    }

    /// What was passed since a place.
    pub(super) fn since(&self, from: usize) -> &'t [u8] {
        self.text.get(from..self.at).unwrap_or_default()
    }

    /// Goes on from what another has found out, ahead of this one.
    pub(super) fn follow(&mut self, other: &Cursor<'_>) {
        self.at = other.at;
        self.ran_out |= other.ran_out;
    }

    /// Notes what another has asked for, and stays.
    pub(super) fn learn(&mut self, other: &Cursor<'_>) {
        self.ran_out |= other.ran_out;
    }
}

/// What comes next in a text.
enum Next<'r> {
    Found(Found<'r>),
    /// Nothing; all before this place is judged.
    Nothing(usize),
}

fn next<'r>(rules: &'r dyn Rules, text: &[u8], mut from: usize, is_end: bool) -> Next<'r> {
    // A longer anchor that has begun may turn out to be around a shorter one.
    let begun = if is_end { text.len() } else { rules.anchors().begun(text, from) };
    while let Some((anchor, at)) = rules.anchors().next(text, from).filter(|(_, at)| *at < begun) {
        let mut cursor = Cursor { text, at, is_end, ran_out: false };
        let found = rules.judge(anchor, &mut cursor);
        if cursor.ran_out {
            return Next::Nothing(at);
        }
        if let Some(found) = found {
            return Next::Found(found);
        }
        from = at + 1;
    }
    Next::Nothing(begun)
}

/// Where a run of bytes of a kind ends.
fn end_of_run(text: &[u8], from: usize, class: Class) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.iter().position(|byte| !class(*byte)).unwrap_or(rest.len())
}

/// A whole text without what is looked for.
pub(super) fn clean<'t>(rules: &dyn Rules, text: &'t str) -> Cow<'t, str> {
    let (mut clean, mut copied, mut at) = (String::new(), 0, 0);
    while let Next::Found(found) = next(rules, text.as_bytes(), at, true) {
        at = end_of_run(text.as_bytes(), found.secret.end, found.goes_on);
        if let Some(says) = found.says {
            clean.push_str(&text[copied..found.secret.start]);
            clean.push_str(says);
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    clean.push_str(&text[copied..]);
    Cow::Owned(clean)
}

/// A text that comes in pieces.
#[derive(Debug)]
pub(super) struct Pieces {
    /// The last of what was judged, for those who look back, and all that is not judged yet.
    text: String,
    judged: usize,
    /// What belongs to the last that was found.
    goes_on: Class,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { text: String::new(), judged: 0, goes_on: nothing }
    }
}

impl Pieces {
    /// What can be told now that this piece has come, and perhaps was the last.
    pub(super) fn push(&mut self, rules: &dyn Rules, piece: &str, is_end: bool) -> String {
        self.text.push_str(piece);
        let (text, mut clean) = (&*self.text, String::new());
        let mut at = end_of_run(text.as_bytes(), self.judged, self.goes_on);
        if at < text.len() {
            self.goes_on = nothing;
        }
        let mut copied = at;
        let judged = loop {
            match next(rules, text.as_bytes(), at, is_end) {
                Next::Nothing(judged) => break judged,
                Next::Found(found) => {
                    at = end_of_run(text.as_bytes(), found.secret.end, found.goes_on);
                    if at == text.len() {
                        self.goes_on = found.goes_on;
                    }
                    if let Some(says) = found.says {
                        clean.push_str(&text[copied..found.secret.start]);
                        clean.push_str(says);
                        copied = at;
                    }
                }
            }
        };
        clean.push_str(&text[copied..judged]);
        self.judged = judged;
        self.forget();
        clean
    }

    /// Keeps no more than somebody may look back at.
    fn forget(&mut self) {
        let from = self.text.floor_char_boundary(self.judged.saturating_sub(BEHIND));
        self.text.drain(..from);
        self.judged -= from;
    }

    /// Whether nothing that came has to do with what comes.
    pub(super) fn is_at_boundary(&self) -> bool {
        // Functions cannot be compared, but this one wants nothing.
        self.judged == self.text.len() && !(0..=u8::MAX).any(self.goes_on)
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.text.len() - self.judged
    }
}
