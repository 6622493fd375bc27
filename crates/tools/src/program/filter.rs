//! Selects lines of a program's output: those that match a pattern, the last few, or all.

use std::collections::VecDeque;

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use windlass_core::ToolError;

use super::excerpt::Excerpt;

/// Limit of a compiled pattern's size, because the pattern comes from a model.
const MAX_PATTERN_BYTES: usize = 8 << 20;
/// A longer line is matched in parts.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Passes the selected lines of a text on to an excerpt.
#[derive(Debug, Default)]
pub(crate) struct LineFilter {
    pattern: Option<RegexMatcher>,
    tail: Option<usize>,
    /// The last line so far, which has not ended.
    line: String,
    /// The last selected lines, held back if `tail` is set.
    last: VecDeque<String>,
}

impl LineFilter {
    /// Selects the lines that match `pattern`, and of them the last `tail`. Without an argument, that condition does not apply.
    pub(crate) fn new(pattern: Option<&str>, tail: Option<usize>) -> Result<Self, ToolError> {
        let pattern = pattern.map(compile_pattern).transpose()?;
        Ok(Self { pattern, tail, ..Self::default() })
    }

    /// Returns whether all lines pass.
    pub(super) fn passes_all(&self) -> bool {
        self.pattern.is_none() && self.tail.is_none()
    }

    /// Adds the next piece of the text.
    pub(super) fn push(&mut self, text: &str, excerpt: &mut Excerpt) {
        if self.passes_all() {
            return excerpt.push(text);
        }
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') || self.line.len() > MAX_LINE_BYTES {
                let line = std::mem::take(&mut self.line);
                self.push_line(line, excerpt);
            }
        }
    }

    /// Ends the text: passes on the last line and the lines that were held back.
    pub(super) fn finish(&mut self, excerpt: &mut Excerpt) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.push_line(line, excerpt);
        }
        self.last.drain(..).for_each(|line| excerpt.push(&line));
    }

    /// Passes on a whole line, or holds it back for `tail`, if it matches.
    fn push_line(&mut self, line: String, excerpt: &mut Excerpt) {
        let is_wanted = |pattern: &RegexMatcher| {
            let text = line.strip_suffix('\n').unwrap_or(&line);
            pattern.is_match(text.as_bytes()).unwrap_or(false)
        };
        if !self.pattern.as_ref().is_none_or(is_wanted) {
            return;
        }
        let Some(tail) = self.tail else { return excerpt.push(&line) };
        self.last.push_back(line);
        if self.last.len() > tail {
            self.last.pop_front();
        }
    }
}

/// Compiles a regular expression, or returns an error for the model.
fn compile_pattern(pattern: &str) -> Result<RegexMatcher, ToolError> {
    RegexMatcherBuilder::new().size_limit(MAX_PATTERN_BYTES).build(pattern).map_err(|error| {
        ToolError::invalid_args(format!("`filter` is not a regular expression: {error}"))
            .hint("write `\\` before a character that is meant literally, such as `\\[`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_selects_matching_and_last_lines() {
        const TEXT: &str = "one\ntwo\nthree\n\nlast";
        for (pattern, tail, expected) in [
            (None, None, TEXT),
            (Some("^t"), None, "two\nthree\n"),
            (Some("e$"), None, "one\nthree\n"),
            (Some("^$"), None, "\n"),
            (Some("last"), None, "last"),
            (Some("nowhere"), None, ""),
            (None, Some(2), "\nlast"),
            (None, Some(100), TEXT),
            (Some("o"), Some(1), "two\n"),
        ] {
            for size in [1, 3, 100] {
                let mut filter = LineFilter::new(pattern, tail).unwrap();
                let mut excerpt = Excerpt::new(1_000);
                for piece in TEXT.as_bytes().chunks(size) {
                    filter.push(std::str::from_utf8(piece).unwrap(), &mut excerpt);
                }
                filter.finish(&mut excerpt);
                assert_eq!(excerpt.finish(""), expected, "{pattern:?} {tail:?}");
            }
        }
    }

    #[test]
    fn invalid_pattern_is_refused() {
        let error = LineFilter::new(Some("["), None).unwrap_err();
        assert_eq!(error.code(), "invalid_args");
        assert!(error.to_string().contains("unclosed character class"), "{error}");
    }
}
