//! The scanner: searches a text for secrets, whole or in pieces, with the same result however it is cut.
//!
//! An automaton finds the anchors at which a secret may begin; a matcher examines the text from there. It reads through a [`Cursor`],
//! which notes if a byte was needed that is not there yet. In this case the result does not count: the text is held back from the
//! anchor on until more of it comes. Otherwise the result depends on nothing that is still to come, which is why a text in pieces is
//! redacted like the whole. Every matcher reads a bounded number of bytes, so the amount held back is bounded too.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::anchor_filter::AnchorFilter;

/// Maximum bytes before the cursor that matchers may read.
const MAX_LOOK_BACK_BYTES: usize = 32;

/// A set of bytes, as a function.
pub(super) type Class = fn(u8) -> bool;

/// A search for one kind of secrets: anchors, and a matcher that examines the text at an anchor.
pub(super) trait SecretRules {
    /// Returns the anchors.
    fn anchors(&self) -> &Anchors;

    /// Examines the text at an anchor, where the cursor is. Returns the match, if there is one.
    fn match_at(&self, anchor: usize, cursor: &mut Cursor<'_>) -> Option<SecretMatch<'_>>;
}

/// A match in a text.
#[derive(Debug)]
pub(super) struct SecretMatch<'r> {
    /// The range to replace. It begins at the anchor or behind it.
    pub(super) secret: Range<usize>,
    /// The text to insert; `None` if the range stays as it is.
    pub(super) placeholder: Option<&'r str>,
    /// The bytes that directly follow the range and are replaced with it, however many they are.
    pub(super) tail: Class,
}

/// The empty class.
pub(super) fn empty_class(_: u8) -> bool {
    false
}

/// The first bytes of everything that is searched.
#[derive(Debug)]
pub(super) struct Anchors {
    /// The automaton; `None` if there are no anchors.
    automaton: Option<AhoCorasick>,
    /// The filter that rules out most short texts without the automaton.
    anchor_filter: AnchorFilter,
    /// All proper prefixes of anchors. At the end of a piece, a prefix may become an anchor.
    anchor_prefixes: HashSet<Box<[u8]>>,
    /// Number of bytes of the longest anchor.
    longest: usize,
}

impl Anchors {
    /// Prepares the search. No anchor may be the prefix of another.
    pub(super) fn new(anchors: &[impl AsRef<[u8]>]) -> Self {
        let longest = anchors.iter().map(|anchor| anchor.as_ref().len()).max().unwrap_or(0);
        let anchor_prefixes = anchors.iter().flat_map(|anchor| {
            let anchor = anchor.as_ref();
            (1..anchor.len()).filter_map(|end| anchor.get(..end).map(Box::from))
        });
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(anchors);
        Self {
            anchor_filter: AnchorFilter::new(anchors),
            anchor_prefixes: anchor_prefixes.collect(),
            longest,
            // Building fails only for an automaton that would be larger than 2 GiB.
            automaton: automaton.ok().filter(|_| longest > 0),
        }
    }

    /// Finds the next anchor. Returns its index and its position.
    fn find_anchor(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let found = self.automaton.as_ref()?.find(Input::new(text).range(from..text.len()))?;
        Some((found.pattern().as_usize(), found.start()))
    }

    /// Returns whether a text has an anchor in it.
    pub(super) fn has_any(&self, text: &[u8]) -> bool {
        !self.anchor_filter.rules_out(text) && self.find_anchor(text, 0).is_some()
    }

    /// Returns the filter that rules out most short texts without the automaton.
    pub(super) fn anchor_filter(&self) -> &AnchorFilter {
        &self.anchor_filter
    }

    /// Returns the position at the end of a text where an incomplete anchor begins, or the end of the text.
    fn incomplete_anchor(&self, text: &[u8], from: usize) -> usize {
        let first = (text.len() + 1).saturating_sub(self.longest).max(from);
        (first..text.len())
            .find(|at| text.get(*at..).is_some_and(|tail| self.anchor_prefixes.contains(tail)))
            .unwrap_or(text.len())
    }
}

/// A position in a text that may be incomplete.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
    /// The text is complete.
    is_end: bool,
    /// A byte was needed that is not there yet.
    needs_more: bool,
}

impl<'t> Cursor<'t> {
    /// Returns the position.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the byte at the cursor.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.byte_ahead(0)
    }

    /// Returns the byte `by` positions ahead. Notes if it is not there yet.
    pub(super) fn byte_ahead(&mut self, by: usize) -> Option<u8> {
        let byte = self.text.get(self.at + by).copied();
        self.needs_more |= byte.is_none() && !self.is_end;
        byte
    }

    /// Returns the byte `by` positions before; 1 is the one directly before the cursor.
    pub(super) fn byte_before(&self, by: usize) -> Option<u8> {
        debug_assert!(by <= MAX_LOOK_BACK_BYTES, "text further back is dropped");
        self.at.checked_sub(by).and_then(|at| self.text.get(at)).copied()
    }

    /// Moves the cursor ahead.
    pub(super) fn advance(&mut self, by: usize) {
        self.at += by;
    }

    /// Passes one byte of a class and returns it, if it is here.
    pub(super) fn eat_if(&mut self, class: impl Fn(u8) -> bool) -> Option<u8> {
        let byte = self.peek().filter(|byte| class(*byte))?;
        self.at += 1;
        Some(byte)
    }

    /// Passes these bytes, if all of them are here. Returns whether they are.
    pub(super) fn eat(&mut self, bytes: &[u8]) -> bool {
        let is_here = (0..).zip(bytes).all(|(by, byte)| self.byte_ahead(by) == Some(*byte));
        if is_here {
            self.at += bytes.len();
        }
        is_here
    }

    /// Passes at most `most` bytes of a class and returns them.
    pub(super) fn take_run(&mut self, class: impl Fn(u8) -> bool, most: usize) -> &'t [u8] {
        let from = self.at;
        while self.at - from < most && self.eat_if(&class).is_some() {}
        self.passed_since(from)
    }

    /// Returns the bytes from a position to the cursor.
    pub(super) fn passed_since(&self, from: usize) -> &'t [u8] {
        self.text.get(from..self.at).unwrap_or_default()
    }

    /// Moves to the position of another cursor, and notes if that one needed more bytes.
    pub(super) fn continue_from(&mut self, other: &Cursor<'_>) {
        self.at = other.at;
        self.needs_more |= other.needs_more;
    }

    /// Stays, and notes if another cursor needed more bytes.
    pub(super) fn note_need(&mut self, other: &Cursor<'_>) {
        self.needs_more |= other.needs_more;
    }
}

/// The result of a search for the next secret.
enum NextMatch<'r> {
    SecretMatch(SecretMatch<'r>),
    /// No match. All text before this position is decided.
    Nothing(usize),
}

/// Finds the next match from a position on.
fn find_next<'r>(
    rules: &'r dyn SecretRules,
    text: &[u8],
    mut from: usize,
    is_end: bool,
) -> NextMatch<'r> {
    // A longer anchor that is incomplete may turn out to contain a shorter one.
    let incomplete_anchor =
        if is_end { text.len() } else { rules.anchors().incomplete_anchor(text, from) };
    while let Some((anchor, at)) =
        rules.anchors().find_anchor(text, from).filter(|(_, at)| *at < incomplete_anchor)
    {
        let mut cursor = Cursor { text, at, is_end, needs_more: false };
        let found = rules.match_at(anchor, &mut cursor);
        if cursor.needs_more {
            return NextMatch::Nothing(at);
        }
        if let Some(found) = found {
            return NextMatch::SecretMatch(found);
        }
        from = at + 1;
    }
    NextMatch::Nothing(incomplete_anchor)
}

/// Returns the end of a run of bytes of a class.
fn run_end(text: &[u8], from: usize, class: Class) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.iter().position(|byte| !class(*byte)).unwrap_or(rest.len())
}

/// Redacts a whole text.
pub(super) fn redact<'t>(rules: &dyn SecretRules, text: &'t str) -> Cow<'t, str> {
    let (mut redacted, mut copied, mut at) = (String::new(), 0, 0);
    while let NextMatch::SecretMatch(found) = find_next(rules, text.as_bytes(), at, true) {
        at = run_end(text.as_bytes(), found.secret.end, found.tail);
        if let Some(placeholder) = found.placeholder {
            redacted.push_str(&text[copied..found.secret.start]);
            redacted.push_str(placeholder);
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    redacted.push_str(&text[copied..]);
    Cow::Owned(redacted)
}

/// A scan of a text that comes in pieces.
#[derive(Debug)]
pub(super) struct PieceScan {
    /// The last bytes of the decided text, which matchers may read, and all undecided text.
    text: String,
    /// The end of the decided text.
    decided: usize,
    /// The class of bytes that still belong to the last match.
    tail: Class,
}

impl Default for PieceScan {
    fn default() -> Self {
        Self { text: String::new(), decided: 0, tail: empty_class }
    }
}

impl PieceScan {
    /// Adds a piece, the last one if `is_end`. Returns the redacted text that is decided by now.
    pub(super) fn push(&mut self, rules: &dyn SecretRules, piece: &str, is_end: bool) -> String {
        self.text.push_str(piece);
        let (text, mut redacted) = (&*self.text, String::new());
        let mut at = run_end(text.as_bytes(), self.decided, self.tail);
        if at < text.len() {
            self.tail = empty_class;
        }
        let mut copied = at;
        let decided = loop {
            match find_next(rules, text.as_bytes(), at, is_end) {
                NextMatch::Nothing(decided) => break decided,
                NextMatch::SecretMatch(found) => {
                    at = run_end(text.as_bytes(), found.secret.end, found.tail);
                    if at == text.len() {
                        self.tail = found.tail;
                    }
                    if let Some(placeholder) = found.placeholder {
                        redacted.push_str(&text[copied..found.secret.start]);
                        redacted.push_str(placeholder);
                        copied = at;
                    }
                }
            }
        };
        redacted.push_str(&text[copied..decided]);
        self.decided = decided;
        self.drop_decided_text();
        redacted
    }

    /// Drops decided text that no matcher may read any more.
    fn drop_decided_text(&mut self) {
        let from = self.text.floor_char_boundary(self.decided.saturating_sub(MAX_LOOK_BACK_BYTES));
        self.text.drain(..from);
        self.decided -= from;
    }

    /// Returns whether all text is decided and the next bytes do not belong to a match.
    pub(super) fn is_at_boundary(&self) -> bool {
        // Functions cannot be compared, so all bytes are tried.
        self.decided == self.text.len() && !(0..=u8::MAX).any(self.tail)
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.text.len() - self.decided
    }
}
