//! A Jupyter notebook as text: its cells in order, each with what it printed.
//!
//! Long outputs are cut, pictures named and not shown: the code is what a reader is after.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

/// How many bytes of one output are shown.
const MAX_OUTPUT: usize = 4_000;

#[derive(Deserialize)]
struct Notebook {
    cells: Vec<Cell>,
    #[serde(default)]
    metadata: Value,
}

#[derive(Deserialize)]
struct Cell {
    #[serde(rename = "cell_type")]
    kind: String,
    #[serde(default)]
    source: Lines,
    #[serde(default)]
    execution_count: Option<u64>,
    #[serde(default)]
    outputs: Vec<Output>,
}

/// Texts in notebooks are one string or a list of them.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Lines {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "output_type")]
    kind: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    text: Lines,
    #[serde(default)]
    data: serde_json::Map<String, Value>,
    #[serde(default)]
    ename: Option<String>,
    #[serde(default)]
    evalue: Option<String>,
    #[serde(default)]
    traceback: Vec<String>,
}

/// The notebook as text; `None` if it is none, so that it is shown as the JSON it may be.
pub(crate) fn to_text(json: &str) -> Option<String> {
    let notebook: Notebook = serde_json::from_str(json).ok()?;
    let mut text = String::with_capacity(json.len() / 2);
    let language = notebook
        .metadata
        .pointer("/language_info/name")
        .or_else(|| notebook.metadata.pointer("/kernelspec/language"))
        .and_then(Value::as_str);
    line(&mut text, format_args!("# notebook, {} cells", notebook.cells.len()));
    if let Some(language) = language {
        text.pop();
        line(&mut text, format_args!(", {language}"));
    }
    for (at, cell) in notebook.cells.iter().enumerate() {
        push_cell(&mut text, at + 1, cell);
    }
    Some(text)
}

fn push_cell(text: &mut String, number: usize, cell: &Cell) {
    let count = cell.execution_count.map(|count| format!(" [{count}]")).unwrap_or_default();
    line(text, format_args!("\n## cell {number}: {}{count}", cell.kind));
    push_lines(text, &cell.source.joined());
    for output in &cell.outputs {
        push_output(text, output);
    }
}

fn push_output(text: &mut String, output: &Output) {
    let kind = output.name.as_deref().unwrap_or(&output.kind);
    line(text, format_args!("### output: {kind}"));
    push_bounded(text, &output.text.joined());
    if let Some(name) = &output.ename {
        line(text, format_args!("{name}: {}", output.evalue.as_deref().unwrap_or_default()));
        push_bounded(text, &output.traceback.join("\n"));
    }
    push_data(text, &output.data);
}

/// The plain form of a result that comes in several; the others by name.
fn push_data(text: &mut String, data: &serde_json::Map<String, Value>) {
    let plain = data.get("text/plain").or_else(|| data.get("text/markdown"));
    if let Some(plain) = plain.and_then(|plain| Lines::deserialize(plain).ok()) {
        push_bounded(text, &plain.joined());
    }
    for (kind, value) in data.iter().filter(|(kind, _)| !kind.starts_with("text/")) {
        let size = value.as_str().map_or(0, |value| value.len() / 4 * 3);
        line(text, format_args!("[{kind}, {size} bytes]"));
    }
}

fn push_bounded(text: &mut String, output: &str) {
    let plain = without_escapes(output);
    let shown = plain.get(..plain.floor_char_boundary(MAX_OUTPUT)).unwrap_or_default();
    push_lines(text, shown);
    if shown.len() < plain.len() {
        line(text, format_args!("[{} more bytes]", plain.len() - shown.len()));
    }
}

fn push_lines(text: &mut String, lines: &str) {
    text.push_str(lines);
    if !lines.is_empty() && !lines.ends_with('\n') {
        text.push('\n');
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    let written = writeln!(text, "{words}");
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

/// Leaves out the colours of tracebacks: `ESC [ … letter`.
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

impl Lines {
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
    fn what_is_no_notebook_stays_as_it_is() {
        for json in ["", "{}", "[1]", r#"{"cells": 3}"#, "not json"] {
            assert_eq!(to_text(json), None, "{json}");
        }
    }
}
