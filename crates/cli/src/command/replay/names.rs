//! What is called otherwise in a replay: the workspace, and everything that got a name of its own.

use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass::CallResult;
use windlass::session::JobId;

use crate::command::recorded::Recorded;

/// Names of then and of now.
pub(super) struct Names {
    workspace: PathBuf,
    copy: PathBuf,
    /// Then and now.
    pairs: Vec<(String, String)>,
}

impl Names {
    pub(super) fn new(workspace: &Path, copy: &Path) -> Self {
        Self { workspace: workspace.to_owned(), copy: copy.to_owned(), pairs: Vec::new() }
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    pub(super) fn copy(&self) -> &Path {
        &self.copy
    }

    fn learn(&mut self, then: &str, now: &str) {
        if then.len() > 1 && then != now {
            self.pairs.push((then.to_owned(), now.to_owned()));
        }
    }

    /// A call, its turn and its job have other names now.
    pub(super) fn learn_call(&mut self, then: &Recorded, now: &CallResult) {
        self.learn(then.id.as_str(), now.call.as_str());
        self.learn(JobId::of_call(&then.id).as_str(), JobId::of_call(&now.call).as_str());
        if let Some(turn) = then.metadata["turn"].as_str() {
            self.learn(turn, now.turn.as_str());
        }
    }

    /// Arguments of then, as they are now.
    pub(super) fn there(&self, input: &Value) -> Value {
        match input {
            Value::String(text) => Value::String(self.text_there(text)),
            Value::Array(values) => values.iter().map(|value| self.there(value)).collect(),
            Value::Object(map) => {
                map.iter().map(|(name, value)| (name.clone(), self.there(value))).collect()
            }
            other => other.clone(),
        }
    }

    fn text_there(&self, text: &str) -> String {
        let (then, now) = (self.workspace.to_string_lossy(), self.copy.to_string_lossy());
        let placed = replace_name(text, &then, &now);
        self.pairs.iter().fold(placed, |text, (then, now)| replace_name(&text, then, now))
    }

    /// A text of now, as it would have been then.
    pub(super) fn back(&self, text: &str) -> String {
        let (then, now) = (self.workspace.to_string_lossy(), self.copy.to_string_lossy());
        let placed = replace_name(text, &now, &then);
        self.pairs.iter().fold(placed, |text, (then, now)| replace_name(&text, now, then))
    }
}

/// Replaces a name where it stands as a whole: `/w` in `/w/a`, not in `/work` or `/v/w`.
fn replace_name(text: &str, name: &str, by: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, found) = rest.split_at(at);
        let after = found.get(name.len()..).unwrap_or_default();
        result.push_str(before);
        let is_whole = !result.chars().next_back().is_some_and(is_part)
            && !after.chars().next().is_some_and(is_part);
        result.push_str(if is_whole { by } else { name });
        rest = after;
    }
    result.push_str(rest);
    result
}

/// A text without what differs each time: how long something took.
pub(super) fn without_durations(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        let (digits, after) = number.split_at(end);
        result.push_str(before);
        let is_word = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        result.push_str(if !is_word && is_unit(after) { "#" } else { digits });
        rest = after;
    }
    result.push_str(rest);
    result
}

/// Whether a unit of time follows.
fn is_unit(after: &str) -> bool {
    let word = after.strip_prefix(' ').unwrap_or(after);
    let end = word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len());
    let unit = word.get(..end).unwrap_or_default();
    matches!(unit, "s" | "ms" | "µs" | "us" | "ns" | "min" | "sec" | "seconds" | "milliseconds")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_replaced_where_they_are_whole() {
        let mut names = Names::new("/w".as_ref(), "/tmp/copy/work".as_ref());
        names.learn("c12", "c99");
        let there = names
            .there(&json!({"a": ["/w/x", "cat /w", "/work/x", "/v/w"], "b": "output:c12 c123"}));
        let expected = json!({
            "a": ["/tmp/copy/work/x", "cat /tmp/copy/work", "/work/x", "/v/w"],
            "b": "output:c99 c123",
        });
        assert_eq!(there, expected);
        assert_eq!(names.back("/tmp/copy/work/x, c99"), "/w/x, c12");
    }

    #[test]
    fn durations_are_not_compared() {
        for (text, expected) in [
            ("done in 0.52 s", "done in # s"),
            ("took 12ms, 3 files", "took #ms, 3 files"),
            ("line 3 of 4", "line 3 of 4"),
            ("a1 s", "a1 s"),
            ("3 sides", "3 sides"),
            ("v1.2", "v1.2"),
            ("7", "7"),
        ] {
            assert_eq!(without_durations(text), expected);
        }
    }
}
