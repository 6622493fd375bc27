//! What a patch did, file by file, with a diff of bounded size.

use serde_json::{Value, json};
use windlass_core::Output;

use super::stage::{Fate, Stage, Staged};
use crate::cut::Cutter;
use crate::diff;
use crate::edit::plan::Strategy;
use crate::format;
use crate::syntax;

/// How many bytes of diffs are shown in all.
const MAX_DIFF: usize = 24_000;

/// The answer to a call whose patch was applied.
pub(super) fn report(stage: &Stage, cutter: Cutter<'_>) -> Output {
    let hunks: usize = stage.files.iter().map(|file| file.hunks).sum();
    let strategy = stage.files.iter().map(|file| file.strategy).max().unwrap_or(Strategy::Exact);
    let mut text = String::new();
    let mut files: Vec<Value> = Vec::new();
    let mut left = MAX_DIFF;
    for (at, file) in stage.files.iter().enumerate() {
        let Some(told) = tell(stage, at, file, cutter) else { continue };
        format::push_line(&mut text, &told.headline);
        match left.checked_sub(told.diff.len()) {
            Some(less) => {
                left = less;
                format::push_line(&mut text, &told.diff);
            }
            None => {
                format::push_line(&mut text, "[its diff is left out: the answer is long enough]");
            }
        }
        text.push_str(&file.how_written);
        files.push(told.entry);
    }
    if files.is_empty() {
        text = "unchanged: all is as the patch wants it already".into();
    } else {
        let is_same = |(at, file): &(usize, &Staged)| {
            file.hunks > 0 && file.after.is_some() && stage.fate(*at) == Fate::Unchanged
        };
        for (_, file) in stage.files.iter().enumerate().filter(is_same) {
            let line = format!("unchanged {}: it is as the patch wants it already", file.name);
            format::push_line(&mut text, &line);
        }
    }
    let headline = format!(
        "patched {}, {}\n",
        format::count(files.len(), "file", "files"),
        format::count(hunks, "hunk", "hunks")
    );
    let headline = if files.is_empty() { String::new() } else { headline };
    Output::text(format!("{headline}{text}"))
        .with("files", files)
        .with("hunks", hunks)
        .with("strategy", strategy.as_str())
}

/// What there is to say of one file.
struct Told {
    headline: String,
    diff: String,
    entry: Value,
}

fn tell(stage: &Stage, at: usize, file: &Staged, cutter: Cutter<'_>) -> Option<Told> {
    let name = &file.name;
    let (action, old) = match stage.fate(at) {
        Fate::Unchanged => return None,
        Fate::Added => ("added", None),
        Fate::Changed => ("changed", None),
        Fate::Deleted => ("deleted", None),
        Fate::Moved(from) => ("moved", stage.files.get(from)),
    };
    let (before, after) = file.texts(old);
    let changes = diff::unified(&before, &after, cutter);
    let error = syntax::new_error(&file.path, &before, &after);
    let lines = format!("+{} -{}", changes.added, changes.removed);
    let mut headline = match old {
        Some(old) => format!("moved {} to {name}: {lines}", old.name),
        None => format!("{action} {name}: {lines}"),
    };
    headline.push_str(match file.strategy {
        Strategy::Exact => "",
        Strategy::Whitespace => ", found apart from white space",
        Strategy::Indentation => ", found apart from indentation, new lines indented to fit",
    });
    for note in &file.notes {
        headline.push_str("; ");
        headline.push_str(note);
    }
    headline.push_str(&syntax::note(error.as_ref()));
    let mut entry = json!({"path": name, "action": action});
    if let (Some(old), Value::Object(entry)) = (old, &mut entry) {
        entry.insert("from".into(), old.name.clone().into());
    }
    if let (Some(error), Value::Object(entry)) = (error, &mut entry) {
        entry.insert("syntax_error".into(), error.into());
    }
    // The patch itself says what a new file holds, and nothing is left to look at of one that is gone.
    let is_shown = matches!(action, "changed" | "moved");
    let diff = if is_shown { changes.text } else { String::new() };
    Some(Told { headline, diff, entry })
}
