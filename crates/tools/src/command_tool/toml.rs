//! Parses front matter in TOML.

use serde_json::Number;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::DefinitionError;
use super::node::{MAX_NESTING, Node, NodeMap, NodeValue, SourcePosition};

/// Parses the block between the lines `+++`, which begins on line 2 of the file.
pub(super) fn parse(block: &str) -> Result<Node, DefinitionError> {
    let source = Source(block);
    let table = DeTable::parse(block).map_err(|error| {
        let at = source.position(error.span().map_or(0, |span| span.start));
        at.error(error.message().replace('\n', ", "))
    })?;
    let value = source.table(table.get_ref(), 0)?;
    Ok(Node { at: SourcePosition { line: 2, column: 1 }, value })
}

/// The text of the block, to find positions.
struct Source<'t>(&'t str);

impl Source<'_> {
    /// Returns the position of a byte in the file.
    fn position(&self, at: usize) -> SourcePosition {
        let before = self.0.get(..self.0.floor_char_boundary(at)).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        SourcePosition { line: before.matches('\n').count() + 2, column: line.chars().count() + 1 }
    }

    /// Converts a value of the TOML parser.
    fn node(&self, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, DefinitionError> {
        let at = self.position(value.span().start);
        if depth > MAX_NESTING {
            return Err(at.error(format!("it is nested more than {MAX_NESTING} deep")));
        }
        let number = |spelling: String| match serde_json::from_str::<Number>(&spelling) {
            Ok(number) => Ok(NodeValue::Number { number, spelling }),
            Err(_) => Err(at.error(format!("`{spelling}` is not a number that JSON has"))),
        };
        let value = match value.get_ref() {
            DeValue::String(text) => NodeValue::Text(text.to_string()),
            DeValue::Boolean(truth) => NodeValue::Bool(*truth),
            DeValue::Integer(integer) => {
                let digits = i64::from_str_radix(integer.as_str(), integer.radix());
                let digits = digits.map_err(|_| at.error("the number is too large"))?;
                number(digits.to_string())?
            }
            DeValue::Float(float) => number(float.as_str().trim_start_matches('+').to_owned())?,
            DeValue::Datetime(_) => return Err(at.error("a date must be in quotes")),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| self.node(item, depth + 1));
                NodeValue::List(items.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => self.table(table, depth)?,
        };
        Ok(Node { at, value })
    }

    /// Converts a table. Its entries are sorted by position, because the parser does not keep their order.
    fn table(&self, table: &DeTable<'_>, depth: usize) -> Result<NodeValue, DefinitionError> {
        let mut pairs: Vec<(&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)> =
            table.iter().collect();
        pairs.sort_by_key(|(key, _)| key.span().start);
        let mut entries = NodeMap::default();
        for (key, value) in pairs {
            let at = self.position(key.span().start);
            entries.add(key.get_ref().to_string(), at, self.node(value, depth + 1)?)?;
        }
        Ok(NodeValue::Map(entries))
    }
}
