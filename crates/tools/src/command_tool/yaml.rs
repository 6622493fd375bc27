//! Parses front matter in YAML, limited to the syntax that it needs.
//!
//! Supported are maps and lists by indentation, lists and maps in brackets (so all of JSON), plain and quoted texts, `|` and `>`, numbers
//! as in JSON, `true`, `false`, `null` and comments. Everything else is refused with its position, also values that YAML parsers read
//! differently (`yes`, `0755`): the meaning of a file that runs programs is never guessed. Accepted text has the meaning of YAML 1.2.

mod block_text;
mod flow;
mod scalar;
#[cfg(test)]
mod tests;

use super::DefinitionError;
use super::node::{MAX_NESTING, Node, NodeMap, NodeValue, SourcePosition};

/// Parses the block between the lines `---`, which begins on line 2 of the file.
pub(super) fn parse(block: &str) -> Result<Node, DefinitionError> {
    let block = block.strip_suffix('\n').unwrap_or(block);
    let mut reader = YamlReader { lines: block.split('\n').collect(), line: 0, at: 0 };
    reader.skip_blank_lines()?;
    let at = reader.position();
    if reader.is_end() {
        return Ok(Node {
            at: SourcePosition { line: 2, column: 1 },
            value: NodeValue::Map(NodeMap::default()),
        });
    }
    if reader.at > 0 {
        return Err(at.error("the first key is indented"));
    }
    let value = reader.map(0)?;
    if reader.is_end() { Ok(Node { at, value }) } else { Err(reader.indentation_error()) }
}

/// The lines of the block and the present position.
struct YamlReader<'t> {
    /// The lines of the block.
    lines: Vec<&'t str>,
    /// Index of the present line.
    line: usize,
    /// Index of the next byte in the line. At the first word of a line this is its indentation. The text behind the `-` of a list item
    /// counts as a line with that indentation.
    at: usize,
}

impl<'t> YamlReader<'t> {
    /// Returns whether all lines have been read.
    fn is_end(&self) -> bool {
        self.line >= self.lines.len()
    }

    /// Returns the present line.
    fn current(&self) -> &'t str {
        self.lines.get(self.line).copied().unwrap_or_default()
    }

    /// Returns the rest of the present line.
    fn rest(&self) -> &'t str {
        self.current().get(self.at..).unwrap_or_default()
    }

    /// Returns the present position in the file.
    fn position(&self) -> SourcePosition {
        let before = self.current().get(..self.at).unwrap_or_default();
        SourcePosition { line: self.line + 2, column: before.chars().count() + 1 }
    }

    /// Returns an error at the present position.
    fn error(&self, message: impl Into<String>) -> DefinitionError {
        self.position().error(message)
    }

    /// Goes to the first word of the next line that is not blank.
    fn next_line(&mut self) -> Result<(), DefinitionError> {
        self.line += 1;
        self.skip_blank_lines()
    }

    /// Goes to the first word of this line, or of the next line that is not blank.
    fn skip_blank_lines(&mut self) -> Result<(), DefinitionError> {
        while let Some(line) = self.lines.get(self.line) {
            self.at = line.len() - line.trim_start_matches(' ').len();
            let rest = self.rest();
            if !is_blank(rest) {
                let is_tab = rest.starts_with('\t');
                let wrong = || Err(self.error("a tab: lines are indented by spaces"));
                return if is_tab { wrong() } else { Ok(()) };
            }
            self.line += 1;
        }
        self.at = 0;
        Ok(())
    }

    /// Skips spaces and tabs in the line.
    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    /// Returns whether a list item begins here.
    fn is_dash(&self) -> bool {
        let rest = self.rest();
        rest == "-" || rest.starts_with("- ") || rest.starts_with("-\t")
    }

    /// Reads a list or map that begins here and continues on lines with the same indentation.
    fn node(&mut self, depth: usize) -> Result<Node, DefinitionError> {
        let at = self.position();
        if depth > MAX_NESTING {
            return Err(at.error(format!("it is nested more than {MAX_NESTING} deep")));
        }
        let value = if self.is_dash() {
            self.list(depth)?
        } else if scalar::key_length(self.rest()).is_some() {
            self.map(depth)?
        } else {
            return Err(at.error("a value on a line of its own: it belongs behind its key"));
        };
        Ok(Node { at, value })
    }

    /// Reads the entries of a map that have the present indentation.
    fn map(&mut self, depth: usize) -> Result<NodeValue, DefinitionError> {
        let indent = self.at;
        let mut entries = NodeMap::default();
        while !self.is_end() && self.at == indent {
            if self.is_dash() {
                return Err(self.error("an item of a list where a key is expected"));
            }
            let at = self.position();
            let key = self.key()?;
            let value = self.value_of_key(indent, depth)?;
            entries.add(key, at, value)?;
        }
        self.check_not_deeper(indent)?;
        Ok(NodeValue::Map(entries))
    }

    /// Reads `key:` and the spaces behind it.
    fn key(&mut self) -> Result<String, DefinitionError> {
        let at = self.position();
        let rest = self.rest();
        let is_of_documents = self.at == 0 && (rest.starts_with("---") || rest.starts_with("..."));
        if is_of_documents || rest.starts_with("? ") || rest.starts_with("<<:") {
            return Err(at.error("this part of YAML is not known here: write `key: value`"));
        }
        let Some(end) = scalar::key_length(rest) else { return Err(at.error(no_key(rest))) };
        let key = match rest.chars().next() {
            Some('"' | '\'') => self.quoted()?,
            _ => scalar::plain_text(rest.get(..end).unwrap_or_default(), at)?.to_owned(),
        };
        // `end` is the index of the colon, counted from the beginning of the key.
        self.at = byte_of_column(self.current(), at) + end + 1;
        self.skip_spaces();
        Ok(key)
    }

    /// Reads the value of a key, on its line or on those below.
    fn value_of_key(&mut self, indent: usize, depth: usize) -> Result<Node, DefinitionError> {
        let at = self.position();
        if !is_blank(self.rest()) {
            return self.inline_value(indent, depth);
        }
        self.next_line()?;
        if !self.is_end() && self.at > indent {
            return self.node(depth + 1);
        }
        // The items of a list may have the same indentation as their key.
        if !self.is_end() && self.at == indent && self.is_dash() {
            return self.node(depth + 1);
        }
        Ok(Node { at, value: NodeValue::Null })
    }

    /// Reads the items of a list that have the present indentation.
    fn list(&mut self, depth: usize) -> Result<NodeValue, DefinitionError> {
        let indent = self.at;
        let mut items = Vec::new();
        while !self.is_end() && self.at == indent && self.is_dash() {
            let at = self.position();
            self.at += 1;
            self.skip_spaces();
            items.push(if is_blank(self.rest()) {
                self.next_line()?;
                let is_below = !self.is_end() && self.at > indent;
                if is_below { self.node(depth + 1)? } else { Node { at, value: NodeValue::Null } }
            } else if self.is_dash() || scalar::key_length(self.rest()).is_some() {
                self.node(depth + 1)?
            } else {
                self.inline_value(indent, depth)?
            });
        }
        self.check_not_deeper(indent)?;
        Ok(NodeValue::List(items))
    }

    /// Reads a value that begins on the line of its key or dash.
    fn inline_value(&mut self, indent: usize, depth: usize) -> Result<Node, DefinitionError> {
        let at = self.position();
        let value = match self.rest().chars().next() {
            Some('|' | '>') => return Ok(Node { at, value: self.block_text(indent)? }),
            Some('[' | '{') => self.flow(depth + 1)?.value,
            Some('"' | '\'') => NodeValue::Text(self.quoted()?),
            _ => self.plain_value()?,
        };
        self.expect_end_of_line()?;
        Ok(Node { at, value })
    }

    /// Reads a text without quotes, up to the end of its line.
    fn plain_value(&mut self) -> Result<NodeValue, DefinitionError> {
        let at = self.position();
        let rest = self.rest();
        if self.is_dash() {
            return Err(at.error("a list begins on the line below its key"));
        }
        let text = scalar::without_comment(rest);
        if let Some(colon) = scalar::find_colon(text) {
            self.at += colon;
            return Err(self.error("a colon and a space in a text: put the text in quotes"));
        }
        self.at += text.len();
        scalar::parse_plain(scalar::plain_text(text, at)?, at)
    }

    /// Skips spaces and a comment. Returns an error if more text follows on the line.
    fn expect_end_of_line(&mut self) -> Result<(), DefinitionError> {
        let rest = self.rest();
        let is_apart = rest.starts_with([' ', '\t']);
        self.skip_spaces();
        match self.rest() {
            "" => self.next_line(),
            comment if comment.starts_with('#') && is_apart => self.next_line(),
            _ => Err(self.error("nothing is expected behind this value")),
        }
    }

    /// Returns an error if the present line is indented further than a finished map or list.
    fn check_not_deeper(&self, indent: usize) -> Result<(), DefinitionError> {
        if self.is_end() || self.at <= indent { Ok(()) } else { Err(self.indentation_error()) }
    }

    /// Returns an error about a line with a wrong indentation.
    fn indentation_error(&self) -> DefinitionError {
        self.error(
            "this line belongs to nothing above it: check how far it is indented, and begin a text of several lines with `|`",
        )
    }
}

/// Returns whether a text is empty or a comment.
fn is_blank(rest: &str) -> bool {
    let rest = rest.trim_matches([' ', '\t']);
    rest.is_empty() || rest.starts_with('#')
}

/// Returns the byte index of a column.
fn byte_of_column(line: &str, position: SourcePosition) -> usize {
    line.char_indices().nth(position.column - 1).map_or(line.len(), |(at, _)| at)
}

/// Returns a message about a line without a key.
fn no_key(line: &str) -> String {
    match line.split_once('=') {
        Some(_) => "this is not `key: value`; TOML stands between lines `+++`".into(),
        None => "this is not `key: value`; a colon is followed by a space".into(),
    }
}
