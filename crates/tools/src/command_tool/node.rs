//! The tree that front matter is, in whichever language it was written: values, each with the place that it stands at.
//!
//! Numbers keep their spelling, because a variable of a program is a text: `1.10` is not `1.1` there.

use serde_json::{Map, Number};

use super::DefinitionError;

/// How deep values may lie in each other.
pub(super) const MAX_NESTING: usize = 32;

/// A place in the file, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourcePosition {
    pub(super) line: usize,
    /// In characters.
    pub(super) column: usize,
}

impl SourcePosition {
    /// What is wrong here.
    pub(super) fn error(self, message: impl Into<String>) -> DefinitionError {
        DefinitionError { line: self.line, column: self.column, message: message.into() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: SourcePosition,
    pub(super) value: NodeValue,
}

#[derive(Debug, Clone)]
pub(super) enum NodeValue {
    Null,
    Bool(bool),
    Number { number: Number, spelling: String },
    Text(String),
    List(Vec<Node>),
    Map(NodeMap),
}

/// The entries of a map, in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeMap(Vec<NodeEntry>);

#[derive(Debug, Clone)]
pub(super) struct NodeEntry {
    pub(super) key: String,
    pub(super) at: SourcePosition,
    pub(super) value: Node,
}

impl NodeMap {
    /// Adds one; the same key twice is somebody's mistake, and nobody can know which one is meant.
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

    pub(super) fn iter(&self) -> std::slice::Iter<'_, NodeEntry> {
        self.0.iter()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }
}

impl Node {
    /// What it is, for messages.
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

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn map(&self) -> Option<&NodeMap> {
        match &self.value {
            NodeValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> Option<&[Node]> {
        match &self.value {
            NodeValue::List(items) => Some(items),
            _ => None,
        }
    }

    /// A value that is one word or text, as it was written.
    pub(super) fn spelling(&self) -> Option<String> {
        match &self.value {
            NodeValue::Text(text) => Some(text.clone()),
            NodeValue::Number { spelling, .. } => Some(spelling.clone()),
            NodeValue::Bool(truth) => Some(truth.to_string()),
            NodeValue::Null | NodeValue::List(_) | NodeValue::Map(_) => None,
        }
    }

    /// The same as JSON.
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
