//! The tree of front matter, parsed from YAML or TOML: values with their positions.
//!
//! Numbers keep their spelling, because the variable of a program is a text, and `1.10` is not `1.1` there.

use serde_json::{Map, Number};

use super::DefinitionError;

/// Limit of nested values.
pub(super) const MAX_NESTING: usize = 32;

/// A position in the file. Line and column are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourcePosition {
    pub(super) line: usize,
    /// The column in characters.
    pub(super) column: usize,
}

impl SourcePosition {
    /// Returns an error at this position.
    pub(super) fn error(self, message: impl Into<String>) -> DefinitionError {
        DefinitionError { line: self.line, column: self.column, message: message.into() }
    }
}

/// A value with its position.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: SourcePosition,
    pub(super) value: NodeValue,
}

/// A parsed value.
#[derive(Debug, Clone)]
pub(super) enum NodeValue {
    Null,
    Bool(bool),
    Number { number: Number, spelling: String },
    Text(String),
    List(Vec<Node>),
    Map(NodeMap),
}

/// The entries of a map, in the order of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeMap(Vec<NodeEntry>);

/// An entry of a map. `at` is the position of the key.
#[derive(Debug, Clone)]
pub(super) struct NodeEntry {
    pub(super) key: String,
    pub(super) at: SourcePosition,
    pub(super) value: Node,
}

impl NodeMap {
    /// Adds an entry. Returns an error if the key exists, because it is unclear which value is meant.
    pub(super) fn add(
        &mut self,
        key: String,
        at: SourcePosition,
        value: Node,
    ) -> Result<(), DefinitionError> {
        if let Some(first) = self.0.iter().find(|entry| entry.key == key) {
            let line = first.at.line;
            return Err(at.error(format!("`{key}` is there already, on line {line}")));
        }
        self.0.push(NodeEntry { key, at, value });
        Ok(())
    }

    /// Returns the entries in order.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, NodeEntry> {
        self.0.iter()
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
}

impl Node {
    /// Returns the kind of the value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "empty",
            NodeValue::Bool(_) => "true or false",
            NodeValue::Number { .. } => "a number",
            NodeValue::Text(_) => "a text",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a map",
        }
    }

    /// Returns the value if it is a text.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value if it is a map.
    pub(super) fn map(&self) -> Option<&NodeMap> {
        match &self.value {
            NodeValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value if it is a list.
    pub(super) fn list(&self) -> Option<&[Node]> {
        match &self.value {
            NodeValue::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns a text, number or boolean as it was written; `None` for other values.
    pub(super) fn spelling(&self) -> Option<String> {
        match &self.value {
            NodeValue::Text(text) => Some(text.clone()),
            NodeValue::Number { spelling, .. } => Some(spelling.clone()),
            NodeValue::Bool(truth) => Some(truth.to_string()),
            NodeValue::Null | NodeValue::List(_) | NodeValue::Map(_) => None,
        }
    }

    /// Returns the value as JSON.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            NodeValue::Null => serde_json::Value::Null,
            NodeValue::Bool(truth) => (*truth).into(),
            NodeValue::Number { number, .. } => number.clone().into(),
            NodeValue::Text(text) => text.as_str().into(),
            NodeValue::List(items) => items.iter().map(Self::to_json).collect(),
            NodeValue::Map(entries) => {
                let pair = |entry: &NodeEntry| (entry.key.clone(), entry.value.to_json());
                serde_json::Value::Object(entries.iter().map(pair).collect::<Map<_, _>>())
            }
        }
    }
}
