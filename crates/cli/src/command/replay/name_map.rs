//! Maps names between a recorded session and its replay: the workspace, and ids of calls, turns and jobs.

use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass::CallResult;
use windlass::session::JobId;

use crate::command::recorded::RecordedCall;

/// Pairs of recorded and replayed names.
pub(super) struct NameMap {
    workspace: PathBuf,
    copy: PathBuf,
    /// Recorded and replayed ids.
    pairs: Vec<(String, String)>,
}

impl NameMap {
    /// Creates a map of the workspace's path to the copy's.
    pub(super) fn new(workspace: &Path, copy: &Path) -> Self {
        Self { workspace: workspace.to_owned(), copy: copy.to_owned(), pairs: Vec::new() }
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    pub(super) fn copy(&self) -> &Path {
        &self.copy
    }

    /// Adds a pair of names, unless they are equal.
    fn add(&mut self, then: &str, now: &str) {
        if then.len() > 1 && then != now {
            self.pairs.push((then.to_owned(), now.to_owned()));
        }
    }

    /// Adds the ids of a call, its turn and its job.
    pub(super) fn add_call(&mut self, then: &RecordedCall, now: &CallResult) {
        self.add(then.id.as_str(), now.call.as_str());
        self.add(JobId::of_call(&then.id).as_str(), JobId::of_call(&now.call).as_str());
        if let Some(turn) = then.metadata["turn"].as_str() {
            self.add(turn, now.turn.as_str());
        }
    }

    /// Replaces recorded names in arguments by replayed ones.
    pub(super) fn to_replayed(&self, input: &Value) -> Value {
        match input {
            Value::String(text) => Value::String(self.text_to_replayed(text)),
            Value::Array(values) => values.iter().map(|value| self.to_replayed(value)).collect(),
            Value::Object(map) => {
                map.iter().map(|(name, value)| (name.clone(), self.to_replayed(value))).collect()
            }
            other => other.clone(),
        }
    }

    /// Replaces recorded names in a text by replayed ones.
    fn text_to_replayed(&self, text: &str) -> String {
        let (then, now) = (self.workspace.to_string_lossy(), self.copy.to_string_lossy());
        let placed = replace_name(text, &then, &now);
        self.pairs.iter().fold(placed, |text, (then, now)| replace_name(&text, then, now))
    }

    /// Replaces replayed names in a text by recorded ones.
    pub(super) fn to_recorded(&self, text: &str) -> String {
        let (then, now) = (self.workspace.to_string_lossy(), self.copy.to_string_lossy());
        let placed = replace_name(text, &now, &then);
        self.pairs.iter().fold(placed, |text, (then, now)| replace_name(&text, now, then))
    }
}

/// Replaces a name where it is a whole word: `/w` in `/w/a`, not in `/work` or `/v/w`.
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

/// Replaces durations in a text by `#`, because they differ each time.
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

/// Returns whether a text begins with a unit of time.
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
    fn names_are_replaced_only_as_whole_words() {
        let mut names = NameMap::new("/w".as_ref(), "/tmp/copy/work".as_ref());
        names.add("c12", "c99");
        let replaced = names.to_replayed(
            &json!({"a": ["/w/x", "cat /w", "/work/x", "/v/w"], "b": "output:c12 c123"}),
        );
        let expected = json!({
            "a": ["/tmp/copy/work/x", "cat /tmp/copy/work", "/work/x", "/v/w"],
            "b": "output:c99 c123",
        });
        assert_eq!(replaced, expected);
        assert_eq!(names.to_recorded("/tmp/copy/work/x, c99"), "/w/x, c12");
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
