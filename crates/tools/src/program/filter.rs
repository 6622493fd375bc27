//! Which lines of what a program printed are wanted: those that a pattern matches, the last so many, or all.

use std::collections::VecDeque;

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use windlass_core::ToolError;

use super::excerpt::Excerpt;

/// What a compiled pattern may take, in bytes: a pattern is somebody's input.
const MOST_PATTERN: usize = 8 << 20;
/// A longer line is looked at in parts.
const LONGEST_LINE: usize = 1 << 20;

/// Passes on the lines that are wanted.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pattern: Option<RegexMatcher>,
    tail: Option<usize>,
    /// A line that has not ended.
    line: String,
    /// The last lines so far.
    last: VecDeque<String>,
}

impl Filter {
    /// Lines that match `pattern`, if one is given; of them the last `tail`, if that is given.
    pub(crate) fn new(pattern: Option<&str>, tail: Option<usize>) -> Result<Self, ToolError> {
        let pattern = pattern.map(compile).transpose()?;
        Ok(Self { pattern, tail, ..Self::default() })
    }

    /// Whether everything passes.
    pub(super) fn is_wide(&self) -> bool {
        self.pattern.is_none() && self.tail.is_none()
    }

    /// Takes the next piece of the text.
    pub(super) fn push(&mut self, text: &str, excerpt: &mut Excerpt) {
        if self.is_wide() {
            return excerpt.push(text);
        }
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') || self.line.len() > LONGEST_LINE {
                let line = std::mem::take(&mut self.line);
                self.pass(line, excerpt);
            }
        }
    }

    /// Takes the last line, if it has no end, and passes on what was held back.
    pub(super) fn end(&mut self, excerpt: &mut Excerpt) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.pass(line, excerpt);
        }
        self.last.drain(..).for_each(|line| excerpt.push(&line));
    }

    fn pass(&mut self, line: String, excerpt: &mut Excerpt) {
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

fn compile(pattern: &str) -> Result<RegexMatcher, ToolError> {
    RegexMatcherBuilder::new().size_limit(MOST_PATTERN).build(pattern).map_err(|error| {
        ToolError::invalid_args(format!("`filter` is not a regular expression: {error}"))
            .hint("write `\\` before a character that is meant literally, such as `\\[`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_lines_pass() {
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
                let mut filter = Filter::new(pattern, tail).unwrap();
                let mut excerpt = Excerpt::new(1_000);
                for piece in TEXT.as_bytes().chunks(size) {
                    filter.push(std::str::from_utf8(piece).unwrap(), &mut excerpt);
                }
                filter.end(&mut excerpt);
                assert_eq!(excerpt.finish(""), expected, "{pattern:?} {tail:?}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern() {
        let error = Filter::new(Some("["), None).unwrap_err();
        assert_eq!(error.code(), "invalid_args");
        assert!(error.to_string().contains("unclosed character class"), "{error}");
    }
}
