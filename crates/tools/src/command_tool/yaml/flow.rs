//! Reads lists and maps in brackets, over one line or several: all of JSON, and texts without quotes.

use super::YamlReader;
use super::scalar;
use crate::command_tool::DefinitionError;
use crate::command_tool::node::{MAX_NESTING, Node, NodeMap, NodeValue, SourcePosition};

impl<'t> YamlReader<'t> {
    /// Reads any value inside of brackets, or one that begins with a bracket.
    pub(super) fn flow(&mut self, depth: usize) -> Result<Node, DefinitionError> {
        let at = self.position();
        if depth > MAX_NESTING {
            return Err(at.error(format!("it is nested more than {MAX_NESTING} deep")));
        }
        let value = match self.rest().chars().next() {
            Some('[') => self.flow_list(depth)?,
            Some('{') => self.flow_map(depth)?,
            Some('"' | '\'') => NodeValue::Text(self.quoted()?),
            _ => {
                let text = self.flow_text()?;
                scalar::parse_plain(text, at)?
            }
        };
        Ok(Node { at, value })
    }

    /// Reads a list up to its closing bracket.
    fn flow_list(&mut self, depth: usize) -> Result<NodeValue, DefinitionError> {
        let start = self.open_bracket();
        let mut items = Vec::new();
        loop {
            self.skip_in_brackets(start)?;
            if self.consume(']') {
                return Ok(NodeValue::List(items));
            }
            items.push(self.flow(depth + 1)?);
            self.skip_in_brackets(start)?;
            if !self.consume(',') && !self.rest().starts_with(']') {
                return Err(self.error("`,` or `]` is expected here"));
            }
        }
    }

    /// Reads a map up to its closing bracket.
    fn flow_map(&mut self, depth: usize) -> Result<NodeValue, DefinitionError> {
        let start = self.open_bracket();
        let mut entries = NodeMap::default();
        loop {
            self.skip_in_brackets(start)?;
            if self.consume('}') {
                return Ok(NodeValue::Map(entries));
            }
            let at = self.position();
            let key = self.flow_key()?;
            self.skip_in_brackets(start)?;
            entries.add(key, at, self.flow(depth + 1)?)?;
            self.skip_in_brackets(start)?;
            if !self.consume(',') && !self.rest().starts_with('}') {
                return Err(self.error("`,` or `}` is expected here"));
            }
        }
    }

    /// Reads a key and its colon. Behind a quoted key no space is needed, as in JSON.
    fn flow_key(&mut self) -> Result<String, DefinitionError> {
        let is_quoted = self.rest().starts_with(['"', '\'']);
        let key = if is_quoted { self.quoted()? } else { self.flow_text()?.to_owned() };
        if key == "<<" && !is_quoted {
            return Err(self.error("this part of YAML is not known here: write `key: value`"));
        }
        self.skip_spaces();
        if self.consume(':') {
            return Ok(key);
        }
        Err(self.error("a colon is expected behind the key, and a space behind the colon"))
    }

    /// Reads a text without quotes: up to the next comma, bracket, colon with a space, comment or end of the line.
    fn flow_text(&mut self) -> Result<&'t str, DefinitionError> {
        let at = self.position();
        let rest = scalar::without_comment(self.rest());
        let bracket = rest.find([',', '[', ']', '{', '}']).unwrap_or(rest.len());
        let end = scalar::find_colon(rest).map_or(bracket, |colon| colon.min(bracket));
        let text = rest.get(..end).unwrap_or_default();
        // Parsers differ in reading these as the beginning or end of a key or as a part of the text.
        if text.starts_with(['?', ':']) || text.ends_with(':') {
            return Err(at.error("no text in brackets begins or ends like this: put it in quotes"));
        }
        let text = scalar::plain_text(text, at)?;
        self.at += text.len();
        Ok(text)
    }

    /// Skips an opening bracket. Returns its position.
    fn open_bracket(&mut self) -> SourcePosition {
        let start = self.position();
        self.at += 1;
        start
    }

    /// Skips a character if it is next. Returns whether it was.
    fn consume(&mut self, c: char) -> bool {
        let is_there = self.rest().starts_with(c);
        self.at += usize::from(is_there);
        is_there
    }

    /// Skips spaces, comments and line breaks. Returns an error at `start` if the block ends.
    fn skip_in_brackets(&mut self, start: SourcePosition) -> Result<(), DefinitionError> {
        loop {
            let is_apart = self.at == 0 || self.rest().starts_with([' ', '\t']);
            self.skip_spaces();
            let rest = self.rest();
            let is_comment = rest.starts_with('#') && is_apart;
            if !rest.is_empty() && !is_comment {
                return Ok(());
            }
            self.line += 1;
            self.at = 0;
            if self.is_end() {
                return Err(start.error("no bracket closes what is opened here"));
            }
        }
    }
}
