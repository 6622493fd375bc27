//! The output of a replay: a line for each call, and below it the differences.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use windlass::changes::FileState;
use windlass::quote;
use windlass::tool::diff::{Diff, DiffFormat, FileVersion, render, render_file};

use super::compare::{Difference, FileDifference, Replayed};
use crate::command::log;
use crate::command::recorded::RecordedCall;
use crate::options::Global;
use crate::terminal::{self, Paint, add};

/// The numbers of calls by result.
#[derive(Default)]
pub(super) struct Tally {
    same: usize,
    pub(super) differ: usize,
    skipped: usize,
}

impl Tally {
    /// Counts a replayed call.
    pub(super) fn count(&mut self, replayed: &Replayed) {
        match replayed {
            Replayed::Same => self.same += 1,
            Replayed::Differs(_) => self.differ += 1,
            Replayed::Skipped(_) => self.skipped += 1,
        }
    }

    /// Prints the numbers.
    pub(super) fn print(&self, global: &Global) -> Result<()> {
        let Self { same, differ, skipped } = self;
        if global.json {
            return terminal::print_json(
                &json!({"same": same, "differ": differ, "skipped": skipped}),
            );
        }
        terminal::print(&format!("{same} the same, {differ} differ, {skipped} skipped\n"))
    }
}

/// Prints a replayed call and its differences.
pub(super) fn print_call(global: &Global, call: &RecordedCall, replayed: &Replayed) -> Result<()> {
    if global.json {
        return terminal::print_json(&as_json(call, replayed));
    }
    let paint = Paint::of(global);
    let what = format!(
        "{} {}  {}",
        paint.bold(&quote::visible(&call.tool)),
        log::one_line(&call.input),
        paint.dim(call.id.as_str())
    );
    let text = match replayed {
        Replayed::Same => format!("{} {what}\n", paint.green("=")),
        Replayed::Skipped(why) => {
            format!("{} {what}\n    skipped: {}\n", paint.yellow("-"), quote::visible(why))
        }
        Replayed::Differs(difference) => {
            format!("{} {what}\n{}", paint.red("≠"), differences_text(difference, paint))
        }
    };
    terminal::print_painted(&text)
}

/// Returns the differences of a call as indented text.
fn differences_text(difference: &Difference, paint: Paint) -> String {
    let look = if paint.is_on() { DiffFormat::colour().words(true) } else { DiffFormat::plain() };
    let mut text = String::new();
    if let Some((was, now)) = &difference.shell {
        let (was, now) = (quote::visible(was), quote::visible(now));
        add(&mut text, format_args!("shell: was {was}, is {now}\n"));
    }
    if let Some((was, now)) = difference.outcome {
        let (was, now) = (was.as_str(), now.as_str());
        add(&mut text, format_args!("outcome: was {was}, is {now}\n"));
    }
    if let Some((was, now)) = &difference.text {
        add(&mut text, format_args!("answer:\n{}", render(&Diff::between(was, now), &look)));
    }
    for file in &difference.files {
        text.push_str(&file_difference_text(file, &look));
    }
    let mut indented = String::new();
    for line in text.lines() {
        add(&mut indented, format_args!("    {line}\n"));
    }
    indented
}

/// Returns the difference of a file: both states, and a diff if both contents are known.
fn file_difference_text(file: &FileDifference, look: &DiffFormat) -> String {
    let name = quote::path(&file.path);
    let facts = format!(
        "{name}: was {}, is {}\n",
        state_text(file.was.as_ref()),
        state_text(file.now.as_ref())
    );
    let (Some(was), Some(now)) = (&file.was_content, &file.now_content) else { return facts };
    let shown = PathBuf::from(name.into_owned());
    let (was, now) = (FileVersion::of(&shown, was), FileVersion::of(&shown, now));
    format!("{facts}{}\n", render_file(Some(&was), Some(&now), look))
}

/// Describes the state of a file after a call.
fn state_text(state: Option<&FileState>) -> String {
    match state {
        None => "not touched".to_owned(),
        Some(FileState::Absent) => "removed".to_owned(),
        Some(FileState::File { hash, len, attributes, .. }) => {
            let mode = attributes.mode.map(|mode| format!(", mode {:o}", mode & 0o7777));
            let hash: String = hash.to_string().chars().take(12).collect();
            format!("left with {len} bytes {hash}{}", mode.unwrap_or_default())
        }
        Some(FileState::Symlink { target, .. }) => {
            format!("left as a link to {}", quote::path(target))
        }
        Some(FileState::Directory { .. }) => "left as a directory".to_owned(),
        Some(FileState::Other) => "left as something else".to_owned(),
    }
}

/// Returns a replayed call as its JSON object.
fn as_json(call: &RecordedCall, replayed: &Replayed) -> Value {
    let mut value = json!({"call": call.id, "tool": call.tool, "input": call.input});
    match replayed {
        Replayed::Same => value["replayed"] = "same".into(),
        Replayed::Skipped(why) => {
            value["replayed"] = "skipped".into();
            value["why"] = why.as_str().into();
        }
        Replayed::Differs(difference) => {
            value["replayed"] = "differs".into();
            if let Some((was, now)) = &difference.shell {
                value["shell"] = json!({"was": was, "now": now});
            }
            if let Some((was, now)) = &difference.outcome {
                value["outcome"] = json!({"was": was, "now": now});
            }
            if let Some((was, now)) = &difference.text {
                value["text"] = json!({"was": was, "now": now});
            }
            let file = |file: &FileDifference| json!({"path": quote::path(&file.path), "was": state_text(file.was.as_ref()), "now": state_text(file.now.as_ref())});
            value["files"] = difference.files.iter().map(file).collect();
        }
    }
    value
}
