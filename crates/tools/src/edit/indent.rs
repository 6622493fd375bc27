//! Finds whole lines that differ only in white space, and adapts the indentation of the new lines.

use std::ops::Range;

use super::fold::{indentation, same_words, trim_end};

/// The difference between the indentation in the file and in the searched text; it is the same rule for every line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndentationRule {
    /// The file has this additional prefix.
    More(String),
    /// The file lacks this prefix.
    Less(String),
    /// Each indentation of the searched text maps to another one in the file: tabs for spaces, or another width.
    Other(Vec<(String, String)>),
}

/// A match of whole lines, apart from white space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineMatch {
    /// Range from the start of the first line to the end of the last; includes the last line ending if `old` has one there.
    pub(super) range: Range<usize>,
    /// Rule for the different indentation; `None` if no single rule fits all lines.
    pub(super) indentation_rule: Option<IndentationRule>,
}

/// Finds all places where the lines of `old` are, apart from white space.
pub(super) fn find_lines(text: &[u8], old: &str) -> Vec<LineMatch> {
    let closed = old.ends_with('\n');
    let old: Vec<&[u8]> =
        old.strip_suffix('\n').unwrap_or(old).as_bytes().split(|byte| *byte == b'\n').collect();
    let Some(anchor) = old.iter().position(|line| !trim_end(line).is_empty()) else {
        return Vec::new();
    };
    let lines = line_ranges(text);
    let line = |at: usize| {
        let line = lines.get(at).and_then(|range| text.get(range.clone()));
        line.map(trim_line_ending).unwrap_or_default()
    };
    let anchor_line = old.get(anchor).copied().unwrap_or_default();
    (0..(lines.len() + 1).saturating_sub(old.len()))
        .filter(|at| same_words(line(at + anchor), anchor_line))
        .filter(|at| old.iter().enumerate().all(|(nth, old)| same_words(line(at + nth), old)))
        .filter_map(|at| {
            let pairs: Vec<_> =
                old.iter().enumerate().map(|(nth, old)| (*old, line(at + nth))).collect();
            let indentation_rule = IndentationRule::between(&pairs);
            let start = lines.get(at)?.start;
            let last = lines.get(at + old.len() - 1)?;
            // The line ending is kept, unless it is a part of the searched text.
            let end = if closed {
                last.end
            } else {
                last.start + trim_line_ending(text.get(last.clone())?).len()
            };
            let has_end = !closed || text.get(..end)?.ends_with(b"\n");
            has_end.then_some(LineMatch { range: start..end, indentation_rule })
        })
        .collect()
}

/// Returns the range of each line, with its line ending.
fn line_ranges(text: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| {
            start += line.len();
            start - line.len()..start
        })
        .collect()
}

/// Returns the line without its line feed and carriage return.
fn trim_line_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl IndentationRule {
    /// Finds the rule from the indentations of searched lines to those of the file; `None` if no single rule fits. Pairs are (searched,
    /// file).
    pub(crate) fn between(pairs: &[(&[u8], &[u8])]) -> Option<Self> {
        let mut rules: Vec<(&str, &str)> = Vec::new();
        for (old, file) in pairs.iter().filter(|(old, _)| !trim_end(old).is_empty()) {
            let pair = (
                std::str::from_utf8(indentation(old)).ok()?,
                std::str::from_utf8(indentation(file)).ok()?,
            );
            if !rules.contains(&pair) {
                rules.push(pair);
            }
        }
        let (old, file) = *rules.first()?;
        if let Some(more) = file.strip_suffix(old)
            && rules.iter().all(|(old, file)| file.strip_suffix(old) == Some(more))
        {
            return Some(Self::More(more.into()));
        }
        if let Some(less) = old.strip_suffix(file)
            && rules.iter().all(|(old, file)| old.strip_suffix(file) == Some(less))
        {
            return Some(Self::Less(less.into()));
        }
        Self::mapping(rules)
    }

    /// Makes a map of indentations; `None` if a deeper one does not map to a deeper one.
    fn mapping(mut rules: Vec<(&str, &str)>) -> Option<Self> {
        rules.sort_by_key(|(old, _)| old.len());
        let grows = rules.windows(2).all(|pair| match pair {
            [(old_a, file_a), (old_b, file_b)] => {
                old_a.len() < old_b.len() && file_a.len() < file_b.len()
            }
            _ => true,
        });
        let owned = |(old, file): (&str, &str)| (old.to_owned(), file.to_owned());
        grows.then(|| Self::Other(rules.into_iter().map(owned).collect()))
    }

    /// Returns new lines with the indentation of the file.
    pub(crate) fn apply(&self, new: &str) -> String {
        new.split_inclusive('\n')
            .map(|line| {
                let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
                let (indentation, rest) = line.split_at(indentation);
                let is_blank = rest.trim_end().is_empty();
                if is_blank { rest.to_owned() } else { self.indent(indentation) + rest }
            })
            .collect()
    }

    /// Maps one indentation.
    fn indent(&self, indentation: &str) -> String {
        match self {
            Self::More(more) => format!("{more}{indentation}"),
            Self::Less(less) => indentation.strip_prefix(less.as_str()).unwrap_or_default().into(),
            Self::Other(pairs) => {
                let known = pairs.iter().rev().find_map(|(old, file)| {
                    indentation.strip_prefix(old.as_str()).map(|rest| (file, rest))
                });
                match known {
                    Some((file, rest)) => format!("{file}{}", convert_indentation(rest, pairs)),
                    None => convert_indentation(indentation, pairs),
                }
            }
        }
    }
}

/// Converts indentation beyond a known level to the unit of the file, if the unit can be derived.
fn convert_indentation(rest: &str, pairs: &[(String, String)]) -> String {
    let unit = match pairs {
        [.., (old_a, file_a), (old_b, file_b)] => {
            old_b.strip_prefix(old_a.as_str()).zip(file_b.strip_prefix(file_a.as_str()))
        }
        [(old, file)] => Some((old.as_str(), file.as_str())),
        [] => None,
    };
    match unit {
        Some((old, file)) if !old.is_empty() && rest.len().is_multiple_of(old.len()) => {
            file.repeat(rest.len() / old.len())
        }
        _ => rest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces the only match, with the new lines indented like the file.
    fn replaced(text: &str, old: &str, new: &str) -> Option<String> {
        match &find_lines(text.as_bytes(), old)[..] {
            [only] => {
                let mut text = text.to_owned();
                text.replace_range(only.range.clone(), &only.indentation_rule.as_ref()?.apply(new));
                Some(text)
            }
            _ => None,
        }
    }

    #[test]
    fn new_lines_are_indented_as_the_file_is() {
        for (text, old, new, expected) in [
            // The file is indented more.
            (
                "{\n    a\n        b\n}\n",
                "a\n    b",
                "a\n    c\n\nd",
                Some("{\n    a\n        c\n\n    d\n}\n"),
            ),
            // The file is indented less.
            ("a\n  b\n", "    a\n      b\n", "    x\n      y\n", Some("x\n  y\n")),
            ("a\n  b\n", "    a\n      b\n", "  x\n", Some("x\n")),
            // Tabs replace spaces.
            (
                "\ta\n\t\tb\n",
                "    a\n        b",
                "    a\n        c\n            d",
                Some("\ta\n\t\tc\n\t\t\td\n"),
            ),
            // Another width.
            (
                "a:\n  b:\n    c\n",
                "    b:\n        c",
                "    b:\n        c:\n            d",
                Some("a:\n  b:\n    c:\n      d\n"),
            ),
            // No single rule fits.
            ("  a\nb\n", "a\n  b", "x", None),
            // Blank lines match blank lines.
            ("  a\n\n  b\n", "a\n   \nb", "c", Some("  c\n")),
            // White space at the end of lines is ignored.
            ("  a  \r\n  b\r\n", "a\nb", "c", Some("  c\r\n")),
            // The searched line ending is not in the file.
            ("  a\n  b", "a\nb\n", "c\n", None),
            ("  a", "", "x", None),
            ("", "a", "x", None),
        ] {
            assert_eq!(replaced(text, old, new).as_deref(), expected, "{text:?} {old:?}");
        }
    }

    #[test]
    fn every_place_is_found() {
        assert_eq!(find_lines(b"  a\n  b\n\n    a\n    b\n", "a\nb").len(), 2);
    }
}
