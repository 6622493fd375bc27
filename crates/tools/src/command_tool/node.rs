//! The tree that front matter is, in whichever language it was written: values, each with the place that it stands at.
//!
//! Numbers keep their spelling, because a variable of a program is a text: `1.10` is not `1.1` there.

use serde_json::{Map, Number};

use super::DefinitionError;

/// How deep values may lie in each other.
pub(super) const DEEPEST: usize = 32;

/// A place in the file, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    /// In characters.
    pub(super) column: usize,
}

impl Place {
    /// What is wrong here.
    pub(super) fn wrong(self, message: impl Into<String>) -> DefinitionError {
        DefinitionError { line: self.line, column: self.column, message: message.into() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number { number: Number, spelling: String },
    Text(String),
    List(Vec<Node>),
    Map(Entries),
}

/// The entries of a map, in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries(Vec<Entry>);

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Place,
    pub(super) value: Node,
}

impl Entries {
    /// Adds one; the same key twice is somebody's mistake, and nobody can know which one is meant.
    pub(super) fn add(
        &mut self,
        key: String,
        at: Place,
        value: Node,
    ) -> Result<(), DefinitionError> {
        if let Some(first) = self.0.iter().find(|entry| entry.key == key) {
            let line = first.at.line;
            return Err(at.wrong(format!("`{key}` is there already, on line {line}")));
        }
        self.0.push(Entry { key, at, value });
        Ok(())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Entry> {
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
            Value::Null => "empty",
            Value::Bool(_) => "true or false",
            Value::Number { .. } => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn map(&self) -> Option<&Entries> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// A value that is one word or text, as it was written.
    pub(super) fn spelling(&self) -> Option<String> {
        match &self.value {
            Value::Text(text) => Some(text.clone()),
            Value::Number { spelling, .. } => Some(spelling.clone()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The same as JSON.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(truth) => (*truth).into(),
            Value::Number { number, .. } => number.clone().into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                let pair = |entry: &Entry| (entry.key.clone(), entry.value.to_json());
                serde_json::Value::Object(entries.iter().map(pair).collect::<Map<_, _>>())
            }
        }
    }
}
