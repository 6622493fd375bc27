//! Front matter that is TOML.

use serde_json::Number;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::DefinitionError;
use super::node::{DEEPEST, Entries, Node, Place, Value};

/// Parses what is between the lines `+++`. It begins on the second line of its file.
pub(super) fn parse(block: &str) -> Result<Node, DefinitionError> {
    let source = Source(block);
    let table = DeTable::parse(block).map_err(|error| {
        let at = source.place(error.span().map_or(0, |span| span.start));
        at.wrong(error.message().replace('\n', ", "))
    })?;
    let value = source.table(table.get_ref(), 0)?;
    Ok(Node { at: Place { line: 2, column: 1 }, value })
}

struct Source<'t>(&'t str);

impl Source<'_> {
    fn place(&self, at: usize) -> Place {
        let before = self.0.get(..self.0.floor_char_boundary(at)).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Place { line: before.matches('\n').count() + 2, column: line.chars().count() + 1 }
    }

    fn node(&self, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, DefinitionError> {
        let at = self.place(value.span().start);
        if depth > DEEPEST {
            return Err(at.wrong(format!("it is nested more than {DEEPEST} deep")));
        }
        let number = |spelling: String| match serde_json::from_str::<Number>(&spelling) {
            Ok(number) => Ok(Value::Number { number, spelling }),
            Err(_) => Err(at.wrong(format!("`{spelling}` is not a number that JSON has"))),
        };
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(truth) => Value::Bool(*truth),
            DeValue::Integer(integer) => {
                let digits = i64::from_str_radix(integer.as_str(), integer.radix());
                let digits = digits.map_err(|_| at.wrong("the number is too large"))?;
                number(digits.to_string())?
            }
            DeValue::Float(float) => number(float.as_str().trim_start_matches('+').to_owned())?,
            DeValue::Datetime(_) => return Err(at.wrong("a date must be in quotes")),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| self.node(item, depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => self.table(table, depth)?,
        };
        Ok(Node { at, value })
    }

    /// The entries in the order in which they were written, which is not the one that the parser keeps them in.
    fn table(&self, table: &DeTable<'_>, depth: usize) -> Result<Value, DefinitionError> {
        let mut pairs: Vec<(&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)> =
            table.iter().collect();
        pairs.sort_by_key(|(key, _)| key.span().start);
        let mut entries = Entries::default();
        for (key, value) in pairs {
            let at = self.place(key.span().start);
            entries.add(key.get_ref().to_string(), at, self.node(value, depth + 1)?)?;
        }
        Ok(Value::Map(entries))
    }
}
