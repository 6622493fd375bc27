//! The output of an applied patch: each file with a diff of bounded size.

use serde_json::{Value, json};
use windlass_core::Output;

use super::stage::{FileChange, PatchStage, StagedFile};
use crate::cut::Cutter;
use crate::diff;
use crate::edit::plan::MatchStrategy;
use crate::format;
use crate::syntax;

/// Limit of the bytes of all diffs together.
const MAX_DIFF_BYTES: usize = 24_000;

/// Makes the output of a call whose patch was applied.
pub(super) fn report(stage: &PatchStage, cutter: Cutter<'_>) -> Output {
    let hunks: usize = stage.files.iter().map(|file| file.hunks).sum();
    let strategy =
        stage.files.iter().map(|file| file.strategy).max().unwrap_or(MatchStrategy::Exact);
    let mut text = String::new();
    let mut files: Vec<Value> = Vec::new();
    let mut left = MAX_DIFF_BYTES;
    for (at, file) in stage.files.iter().enumerate() {
        let Some(file_report) = report_file(stage, at, file, cutter) else { continue };
        format::push_line(&mut text, &file_report.headline);
        match left.checked_sub(file_report.diff.len()) {
            Some(less) => {
                left = less;
                format::push_line(&mut text, &file_report.diff);
            }
            None => {
                format::push_line(&mut text, "[its diff is left out: the answer is long enough]");
            }
        }
        text.push_str(&file.how_written);
        files.push(file_report.entry);
    }
    if files.is_empty() {
        text = "unchanged: all is as the patch wants it already".into();
    } else {
        let is_same = |(at, file): &(usize, &StagedFile)| {
            file.hunks > 0
                && file.after.is_some()
                && stage.file_change(*at) == FileChange::Unchanged
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

/// The report of one file.
struct PatchedFileReport {
    headline: String,
    diff: String,
    entry: Value,
}

/// Makes the report of one file; `None` if it is unchanged or reported at its new path.
fn report_file(
    stage: &PatchStage,
    at: usize,
    file: &StagedFile,
    cutter: Cutter<'_>,
) -> Option<PatchedFileReport> {
    let name = &file.name;
    let (action, old) = match stage.file_change(at) {
        FileChange::Unchanged => return None,
        FileChange::Added => ("added", None),
        FileChange::Changed => ("changed", None),
        FileChange::Deleted => ("deleted", None),
        FileChange::Moved(from) => ("moved", stage.files.get(from)),
    };
    let (before, after) = file.texts(old);
    let changes = diff::unified_diff(&before, &after, cutter);
    let error = syntax::new_error(&file.path, &before, &after);
    let lines = format!("+{} -{}", changes.added, changes.removed);
    let mut headline = match old {
        Some(old) => format!("moved {} to {name}: {lines}", old.name),
        None => format!("{action} {name}: {lines}"),
    };
    headline.push_str(match file.strategy {
        MatchStrategy::Exact => "",
        MatchStrategy::Whitespace => ", found apart from white space",
        MatchStrategy::Indentation => ", found apart from indentation, new lines indented to fit",
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
    // The patch itself contains the text of a new file, and a deleted file has nothing left to show.
    let is_shown = matches!(action, "changed" | "moved");
    let diff = if is_shown { changes.text } else { String::new() };
    Some(PatchedFileReport { headline, diff, entry })
}
