//! Reads texts of several lines: `|` keeps line breaks, `>` folds lines into paragraphs. A `-` or `+` behind it drops or keeps the empty
//! lines at the end.

use super::{YamlReader, is_blank};
use crate::command_tool::DefinitionError;
use crate::command_tool::node::NodeValue;

impl<'t> YamlReader<'t> {
    /// Reads a text from the `|` or `>` on. Its lines are indented further than `indent`.
    pub(super) fn block_text(&mut self, indent: usize) -> Result<NodeValue, DefinitionError> {
        let header = self.rest();
        let is_folded = header.starts_with('>');
        let (end, rest) = match header.get(1..).unwrap_or_default() {
            rest if rest.starts_with('-') => {
                (TrailingLines::Dropped, rest.get(1..).unwrap_or_default())
            }
            rest if rest.starts_with('+') => {
                (TrailingLines::Kept, rest.get(1..).unwrap_or_default())
            }
            rest => (TrailingLines::One, rest),
        };
        let is_apart = rest.is_empty() || rest.starts_with([' ', '\t']);
        if !is_apart || !is_blank(rest) {
            return Err(
                self.error("behind `|` or `>` the line ends; the text begins on the next one")
            );
        }
        self.line += 1;
        self.at = 0;
        let lines = self.block_lines(indent)?;
        self.skip_blank_lines()?;
        Ok(NodeValue::Text(join_lines(&lines, is_folded, end)))
    }

    /// Reads the lines of the text, without their common indentation.
    fn block_lines(&mut self, indent: usize) -> Result<Vec<&'t str>, DefinitionError> {
        let mut depth = None;
        let mut longest_empty = 0;
        let mut lines = Vec::new();
        while let Some(line) = self.lines.get(self.line).copied() {
            let spaces = line.len() - line.trim_start_matches(' ').len();
            self.at = spaces;
            if spaces == line.len() {
                longest_empty = longest_empty.max(if depth.is_none() { spaces } else { 0 });
                lines.push(line.get(depth.unwrap_or(spaces)..).unwrap_or_default());
            } else if spaces <= indent {
                break;
            } else {
                let first = *depth.get_or_insert(spaces);
                if spaces < first || longest_empty > first {
                    return Err(self.error("this line is indented less than the first of its text"));
                }
                longest_empty = 0;
                lines.push(line.get(first..).unwrap_or_default());
            }
            self.line += 1;
        }
        self.at = 0;
        Ok(lines)
    }
}

/// The number of line breaks at the end of a text: one, none, or all.
#[derive(Clone, Copy)]
enum TrailingLines {
    One,
    Dropped,
    Kept,
}

/// Joins the lines into the text.
fn join_lines(lines: &[&str], is_folded: bool, end: TrailingLines) -> String {
    let content = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let (content, empty) = lines.split_at(content);
    let mut text = if is_folded { fold_lines(content) } else { content.join("\n") };
    let ends = match end {
        TrailingLines::Dropped => 0,
        TrailingLines::One => usize::from(!content.is_empty()),
        TrailingLines::Kept => empty.len() + usize::from(!content.is_empty()),
    };
    push_ends(&mut text, ends);
    text
}

/// Appends line breaks.
fn push_ends(text: &mut String, count: usize) {
    text.extend(std::iter::repeat_n('\n', count));
}

/// Folds lines: adjacent lines become one, empty lines become line breaks, and lines with more indentation stay as they are.
fn fold_lines(lines: &[&str]) -> String {
    let mut text = String::new();
    let mut before: Option<&str> = None;
    let mut empty = 0;
    for line in lines {
        if line.is_empty() {
            empty += 1;
            continue;
        }
        let is_deeper = |line: &str| line.starts_with([' ', '\t']);
        match before {
            Some(before) if is_deeper(before) || is_deeper(line) => push_ends(&mut text, empty + 1),
            Some(_) if empty == 0 => text.push(' '),
            _ => push_ends(&mut text, empty),
        }
        text.push_str(line);
        before = Some(line);
        empty = 0;
    }
    text
}
