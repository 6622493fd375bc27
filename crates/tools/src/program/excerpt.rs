//! Keeps the beginning and the end of a long text that comes in pieces, and counts the rest.
//!
//! Takes no more memory than a few times its limit, however long the text is. A cut falls between two lines if a line ends nearby.

/// Bytes by which a cut may move to fall between two lines.
const MAX_CUT_SHIFT: usize = 400;

/// Collects the beginning and the end of a text.
#[derive(Debug)]
pub(crate) struct Excerpt {
    limit: usize,
    head: String,
    /// The end of the text: the last `limit` bytes and up to as many before them.
    tail: String,
    /// Bytes of the whole text, with those that were skipped.
    bytes: u64,
    /// Line ends in the whole text, as far as known.
    lines: u64,
    /// True unless text with an unknown number of lines was skipped.
    has_all_lines: bool,
}

impl Excerpt {
    /// Returns an empty excerpt of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let (head, tail) = (String::new(), String::new());
        Self { limit, head, tail, bytes: 0, lines: 0, has_all_lines: true }
    }

    /// Adds the next piece of the text.
    pub(crate) fn push(&mut self, text: &str) {
        let mut text = text;
        if self.bytes == self.head.len() as u64 {
            let room = (self.limit / 2).saturating_sub(self.head.len());
            let (head, rest) = text.split_at(text.floor_char_boundary(room));
            self.head.push_str(head);
            self.count(head);
            text = rest;
        }
        self.count(text);
        self.tail.push_str(text);
        if self.tail.len() > 2 * self.limit {
            let from = self.tail.floor_char_boundary(self.tail.len() - self.limit);
            self.tail.drain(..from);
        }
    }

    /// Adds the bytes and line ends of a piece to the totals.
    fn count(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.lines += newlines(text);
    }

    /// Notes that this many bytes are missing here.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.has_all_lines = false;
        self.tail.clear();
    }

    /// Sets the number of line ends in the whole text, if it is known although text was skipped.
    pub(crate) fn set_line_count(&mut self, lines: u64) {
        (self.lines, self.has_all_lines) = (self.lines.max(lines), true);
    }

    /// Returns whether a part of the text has to be left out.
    pub(crate) fn is_cut(&self) -> bool {
        let held = self.head.len() + self.tail.len();
        self.bytes != held as u64 || held > self.limit
    }

    /// Returns the text, with a line in place of the part that was left out; `rest` says how to get it.
    pub(crate) fn finish(self, rest: &str) -> String {
        if !self.is_cut() {
            return self.head + &self.tail;
        }
        let head = &self.head[..last_line_end(&self.head)];
        let from = self.tail.len().saturating_sub(self.limit / 2);
        let from = if from == 0 { 0 } else { next_line_start(&self.tail, from) };
        let tail = &self.tail[from..];
        let bytes = self.bytes - head.len() as u64 - tail.len() as u64;
        let lines = self.lines.saturating_sub(newlines(head) + newlines(tail));
        let lines = if self.has_all_lines { format!(", {lines} lines") } else { String::new() };
        let start = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        format!("{head}{start}[… {bytes} bytes{lines} left out here; {rest} …]\n{tail}")
    }
}

/// Counts line ends.
fn newlines(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// Returns the end of the last whole line, if it is near the end of the text; otherwise the length of the text.
fn last_line_end(text: &str) -> usize {
    let from = text.floor_char_boundary(text.len() - MAX_CUT_SHIFT.min(text.len() / 2));
    text[from..].rfind('\n').map_or(text.len(), |found| from + found + 1)
}

/// Returns the beginning of the next line behind `at`, if it is near; otherwise `at`.
fn next_line_start(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    let to =
        text.ceil_char_boundary((at + MAX_CUT_SHIFT.min((text.len() - at) / 2)).min(text.len()));
    text[at..to].find('\n').map_or(at, |found| at + found + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn excerpt(pieces: &[String], limit: usize) -> String {
        let mut excerpt = Excerpt::new(limit);
        for piece in pieces {
            excerpt.push(piece);
        }
        excerpt.finish("gone")
    }

    proptest! {
        /// The shown bytes and lines and the counted ones make up the whole, for all boundaries of pieces.
        #[test]
        fn every_byte_is_shown_or_counted(pieces in prop::collection::vec("(\\PC|\n){0,40}", 0..12), limit in 8usize..200) {
            let (whole, shown) = (pieces.concat(), excerpt(&pieces, limit));
            if whole.len() <= limit {
                prop_assert_eq!(shown, whole);
                return Ok(());
            }
            let (before, after) = shown.split_once("[… ").unwrap();
            let (notice, tail) = after.split_once(" …]\n").unwrap();
            // The line break before the notice may belong to it.
            let is_right = |head: &str| {
                let middle = whole.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
                let middle = middle.unwrap_or_default();
                let lines = middle.matches('\n').count();
                head.len() + tail.len() <= limit
                    && notice == format!("{} bytes, {lines} lines left out here; gone", middle.len())
            };
            prop_assert!(is_right(before) || is_right(before.strip_suffix('\n').unwrap()), "{}", shown);
        }
    }

    #[test]
    fn skipped_bytes_are_counted() {
        let mut excerpt = Excerpt::new(100);
        excerpt.push("first\n");
        excerpt.skip(1_000);
        excerpt.push("last\n");
        assert!(excerpt.is_cut());
        let text = excerpt.finish("gone");
        assert_eq!(text, "first\n[… 1000 bytes left out here; gone …]\nlast\n");
        let mut excerpt = Excerpt::new(10);
        excerpt.push("first\n");
        excerpt.skip(1_000);
        excerpt.push("last\n");
        excerpt.set_line_count(42);
        assert!(excerpt.finish("gone").contains(" bytes, 41 lines left out"), "first is cut");
    }

    #[test]
    fn memory_stays_bounded() {
        let mut excerpt = Excerpt::new(1_000);
        let piece = "0123456789\n".repeat(100);
        (0..1_000).for_each(|_| excerpt.push(&piece));
        assert!(excerpt.head.capacity() + excerpt.tail.capacity() < 10_000);
        assert_eq!((excerpt.bytes, excerpt.lines), (1_100_000, 100_000));
    }
}
