//! Converts a Jupyter notebook to text: its cells in order, each with its outputs.
//!
//! Long outputs are cut and images only named, because readers mainly need the code.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

/// Limit of the shown bytes of one output.
const MAX_OUTPUT_BYTES: usize = 4_000;

/// A notebook file.
#[derive(Deserialize)]
struct Notebook {
    cells: Vec<Cell>,
    #[serde(default)]
    metadata: Value,
}

/// A cell of a notebook.
#[derive(Deserialize)]
struct Cell {
    #[serde(rename = "cell_type")]
    kind: String,
    #[serde(default)]
    source: NotebookText,
    #[serde(default)]
    execution_count: Option<u64>,
    #[serde(default)]
    outputs: Vec<Output>,
}

/// A text in a notebook file: one string or a list of strings.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum NotebookText {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

/// An output of a cell.
#[derive(Deserialize)]
struct Output {
    #[serde(rename = "output_type")]
    kind: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    text: NotebookText,
    #[serde(default)]
    data: serde_json::Map<String, Value>,
    #[serde(default)]
    ename: Option<String>,
    #[serde(default)]
    evalue: Option<String>,
    #[serde(default)]
    traceback: Vec<String>,
}

/// Converts a notebook to text; `None` if the file is not a valid notebook.
pub(crate) fn to_text(json: &str) -> Option<String> {
    let notebook: Notebook = serde_json::from_str(json).ok()?;
    let mut text = String::with_capacity(json.len() / 2);
    let language = notebook
        .metadata
        .pointer("/language_info/name")
        .or_else(|| notebook.metadata.pointer("/kernelspec/language"))
        .and_then(Value::as_str);
    push_line(&mut text, format_args!("# notebook, {} cells", notebook.cells.len()));
    if let Some(language) = language {
        text.pop();
        push_line(&mut text, format_args!(", {language}"));
    }
    for (at, cell) in notebook.cells.iter().enumerate() {
        push_cell(&mut text, at + 1, cell);
    }
    Some(text)
}

/// Adds a cell with its outputs.
fn push_cell(text: &mut String, number: usize, cell: &Cell) {
    let count = cell.execution_count.map(|count| format!(" [{count}]")).unwrap_or_default();
    push_line(text, format_args!("\n## cell {number}: {}{count}", cell.kind));
    push_lines(text, &cell.source.joined());
    for output in &cell.outputs {
        push_output(text, output);
    }
}

/// Adds an output: text, error and data.
fn push_output(text: &mut String, output: &Output) {
    let kind = output.name.as_deref().unwrap_or(&output.kind);
    push_line(text, format_args!("### output: {kind}"));
    push_bounded(text, &output.text.joined());
    if let Some(name) = &output.ename {
        push_line(text, format_args!("{name}: {}", output.evalue.as_deref().unwrap_or_default()));
        push_bounded(text, &output.traceback.join("\n"));
    }
    push_data(text, &output.data);
}

/// Adds the plain text of a result that has several forms, and the names and sizes of other forms.
fn push_data(text: &mut String, data: &serde_json::Map<String, Value>) {
    let plain = data.get("text/plain").or_else(|| data.get("text/markdown"));
    if let Some(plain) = plain.and_then(|plain| NotebookText::deserialize(plain).ok()) {
        push_bounded(text, &plain.joined());
    }
    for (kind, value) in data.iter().filter(|(kind, _)| !kind.starts_with("text/")) {
        let size = value.as_str().map_or(0, |value| value.len() / 4 * 3);
        push_line(text, format_args!("[{kind}, {size} bytes]"));
    }
}

/// Adds a text without escape sequences, cut to the limit.
fn push_bounded(text: &mut String, output: &str) {
    let plain = without_escapes(output);
    let shown = plain.get(..plain.floor_char_boundary(MAX_OUTPUT_BYTES)).unwrap_or_default();
    push_lines(text, shown);
    if shown.len() < plain.len() {
        push_line(text, format_args!("[{} more bytes]", plain.len() - shown.len()));
    }
}

/// Adds lines, and a line feed at the end if it is missing.
fn push_lines(text: &mut String, lines: &str) {
    text.push_str(lines);
    if !lines.is_empty() && !lines.ends_with('\n') {
        text.push('\n');
    }
}

/// Adds formatted text and a line feed.
fn push_line(text: &mut String, words: std::fmt::Arguments<'_>) {
    let written = writeln!(text, "{words}");
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

/// Removes escape sequences for colours: `ESC [ … letter`.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split("\x1b[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| matches!(c, '@'..='~')).map_or(part.len(), |at| at + 1);
        plain.push_str(part.get(end..).unwrap_or_default());
    }
    plain
}

impl NotebookText {
    /// Returns the text as one string.
    fn joined(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::None => "".into(),
            Self::One(text) => text.into(),
            Self::Many(lines) => lines.concat().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_and_outputs_become_text() {
        let notebook = json!({
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "cells": [
                {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "words"]},
                {"cell_type": "code", "execution_count": 3, "metadata": {}, "source": "1 / 0", "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": ["one\n"]},
                    {"output_type": "display_data", "data": {"image/png": "AAAAAAAA", "text/plain": ["<Figure>"]}},
                    {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero",
                     "traceback": ["\u{1b}[0;31mTraceback\u{1b}[0m", "line 1"]},
                ]},
            ],
        });
        insta::assert_snapshot!(to_text(&notebook.to_string()).unwrap(), @"
        # notebook, 2 cells, python

        ## cell 1: markdown
        # Title
        words

        ## cell 2: code [3]
        1 / 0
        ### output: stdout
        one
        ### output: display_data
        <Figure>
        [image/png, 6 bytes]
        ### output: error
        ZeroDivisionError: division by zero
        Traceback
        line 1
        ");
    }

    #[test]
    fn long_outputs_are_cut_at_a_character() {
        let notebook = json!({"cells": [{"cell_type": "code", "outputs": [
            {"output_type": "stream", "text": "é".repeat(5_000)},
        ]}]});
        let text = to_text(&notebook.to_string()).unwrap();
        assert!(text.ends_with("é\n[6000 more bytes]\n"));
    }

    #[test]
    fn other_json_is_not_converted() {
        for json in ["", "{}", "[1]", r#"{"cells": 3}"#, "not json"] {
            assert_eq!(to_text(json), None, "{json}");
        }
    }
}
