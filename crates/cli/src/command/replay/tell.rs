//! A replay as it is shown: a line for each call, and below it what differs.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use windlass::changes::FileState;
use windlass::quote;
use windlass::tool::diff::{Diff, Look, Version, render, render_file};

use super::compare::{Difference, FileDifference, Replayed};
use crate::command::log;
use crate::command::recorded::Recorded;
use crate::options::Global;
use crate::terminal::{self, Paint, add};

/// How many calls ended how.
#[derive(Default)]
pub(super) struct Tally {
    same: usize,
    pub(super) differ: usize,
    skipped: usize,
}

impl Tally {
    pub(super) fn count(&mut self, replayed: &Replayed) {
        match replayed {
            Replayed::Same => self.same += 1,
            Replayed::Differs(_) => self.differ += 1,
            Replayed::Skipped(_) => self.skipped += 1,
        }
    }

    pub(super) fn tell(&self, global: &Global) -> Result<()> {
        let Self { same, differ, skipped } = self;
        if global.json {
            return terminal::print_json(
                &json!({"same": same, "differ": differ, "skipped": skipped}),
            );
        }
        terminal::print(&format!("{same} the same, {differ} differ, {skipped} skipped\n"))
    }
}

pub(super) fn call(global: &Global, call: &Recorded, replayed: &Replayed) -> Result<()> {
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
            format!("{} {what}\n{}", paint.red("≠"), shown(difference, paint))
        }
    };
    terminal::print_painted(&text)
}

fn shown(difference: &Difference, paint: Paint) -> String {
    let look = if paint.is_on() { Look::colour().words(true) } else { Look::plain() };
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
        text.push_str(&shown_file(file, &look));
    }
    let mut indented = String::new();
    for line in text.lines() {
        add(&mut indented, format_args!("    {line}\n"));
    }
    indented
}

/// A file, with its content where both are there to be compared.
fn shown_file(file: &FileDifference, look: &Look) -> String {
    let name = quote::path(&file.path);
    let facts =
        format!("{name}: was {}, is {}\n", left(file.was.as_ref()), left(file.now.as_ref()));
    let (Some(was), Some(now)) = (&file.was_content, &file.now_content) else { return facts };
    let shown = PathBuf::from(name.into_owned());
    let (was, now) = (Version::of(&shown, was), Version::of(&shown, now));
    format!("{facts}{}\n", render_file(Some(&was), Some(&now), look))
}

/// How a call left a file, in words.
fn left(state: Option<&FileState>) -> String {
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

fn as_json(call: &Recorded, replayed: &Replayed) -> Value {
    let mut told = json!({"call": call.id, "tool": call.tool, "input": call.input});
    match replayed {
        Replayed::Same => told["replayed"] = "same".into(),
        Replayed::Skipped(why) => {
            told["replayed"] = "skipped".into();
            told["why"] = why.as_str().into();
        }
        Replayed::Differs(difference) => {
            told["replayed"] = "differs".into();
            if let Some((was, now)) = &difference.shell {
                told["shell"] = json!({"was": was, "now": now});
            }
            if let Some((was, now)) = &difference.outcome {
                told["outcome"] = json!({"was": was, "now": now});
            }
            if let Some((was, now)) = &difference.text {
                told["text"] = json!({"was": was, "now": now});
            }
            let file = |file: &FileDifference| json!({"path": quote::path(&file.path), "was": left(file.was.as_ref()), "now": left(file.now.as_ref())});
            told["files"] = difference.files.iter().map(file).collect();
        }
    }
    told
}
