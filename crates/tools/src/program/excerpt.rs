//! The beginning and the end of a long text that comes in pieces; what lies between is counted.
//!
//! Takes no more memory than a few times its limit, however long the text is. Cuts fall between lines where one ends nearby.

/// How far a cut may move to fall between two lines.
const SLACK: usize = 400;

/// Collects the beginning and the end of a text.
#[derive(Debug)]
pub(crate) struct Excerpt {
    limit: usize,
    head: String,
    /// What came last: the last `limit` bytes and up to as many before them.
    tail: String,
    /// Bytes of all that came, and of what was skipped.
    bytes: u64,
    /// Line ends in it.
    lines: u64,
    /// Whether it is known how many lines were skipped.
    has_all_lines: bool,
}

impl Excerpt {
    /// Of at most so many bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let (head, tail) = (String::new(), String::new());
        Self { limit, head, tail, bytes: 0, lines: 0, has_all_lines: true }
    }

    /// Takes the next piece.
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

    fn count(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.lines += newlines(text);
    }

    /// Notes that so many bytes are missing here.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.has_all_lines = false;
        self.tail.clear();
    }

    /// Says how many line ends there were in all, where something was skipped.
    pub(crate) fn had_lines(&mut self, lines: u64) {
        (self.lines, self.has_all_lines) = (self.lines.max(lines), true);
    }

    /// Whether something must be left out.
    pub(crate) fn is_cut(&self) -> bool {
        let held = self.head.len() + self.tail.len();
        self.bytes != held as u64 || held > self.limit
    }

    /// The text, with a line that says what was left out; `rest` says where it is.
    pub(crate) fn finish(self, rest: &str) -> String {
        if !self.is_cut() {
            return self.head + &self.tail;
        }
        let head = &self.head[..back_to_line(&self.head)];
        let from = self.tail.len().saturating_sub(self.limit / 2);
        let from = if from == 0 { 0 } else { on_to_line(&self.tail, from) };
        let tail = &self.tail[from..];
        let bytes = self.bytes - head.len() as u64 - tail.len() as u64;
        let lines = self.lines.saturating_sub(newlines(head) + newlines(tail));
        let lines = if self.has_all_lines { format!(", {lines} lines") } else { String::new() };
        let start = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        format!("{head}{start}[… {bytes} bytes{lines} left out here; {rest} …]\n{tail}")
    }
}

fn newlines(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// The end of the last whole line, if it is near the end.
fn back_to_line(text: &str) -> usize {
    let from = text.floor_char_boundary(text.len() - SLACK.min(text.len() / 2));
    text[from..].rfind('\n').map_or(text.len(), |found| from + found + 1)
}

/// The beginning of the next line behind a place, if it is near.
fn on_to_line(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    let to = text.ceil_char_boundary((at + SLACK.min((text.len() - at) / 2)).min(text.len()));
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
        /// What is shown and what is counted make up the whole, wherever the pieces are cut.
        #[test]
        fn nothing_is_lost_uncounted(pieces in prop::collection::vec("(\\PC|\n){0,40}", 0..12), limit in 8usize..200) {
            let (whole, shown) = (pieces.concat(), excerpt(&pieces, limit));
            if whole.len() <= limit {
                prop_assert_eq!(shown, whole);
                return Ok(());
            }
            let (before, after) = shown.split_once("[… ").unwrap();
            let (notice, tail) = after.split_once(" …]\n").unwrap();
            // The line break before the notice may be its own.
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
    fn what_was_skipped_counts() {
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
        excerpt.had_lines(42);
        assert!(excerpt.finish("gone").contains(" bytes, 41 lines left out"), "first is cut");
    }

    #[test]
    fn memory_is_bounded() {
        let mut excerpt = Excerpt::new(1_000);
        let piece = "0123456789\n".repeat(100);
        (0..1_000).for_each(|_| excerpt.push(&piece));
        assert!(excerpt.head.capacity() + excerpt.tail.capacity() < 10_000);
        assert_eq!((excerpt.bytes, excerpt.lines), (1_100_000, 100_000));
    }
}
