//! Sentences about changes without undo history: those of build directories, those that jobs made on the real directory, and those of
//! commands whose changes are not tracked. An undo leaves these changes as they are and says so.

use std::path::{Path, PathBuf};

use windlass_core::{
    BuiltChange, ChangeWithoutHistory, Context, Origin, Output, ToolError, UndoPlan,
};

use super::{Asker, MAX_NAMED, describe_calls};
use crate::format::{self, Root};

/// Returns the output if none of the selected changes can be undone. If the last change ran without tracking, a person's next undo
/// takes the change before it; a model has to name that change.
pub(super) fn refusal(
    cx: &Context,
    plan: &UndoPlan,
    is_dry: bool,
    asker: Asker,
) -> Result<Output, ToolError> {
    let base = cx.files().resolve(Path::new("."))?.path;
    let names = names_without_history(&base, plan);
    let which = if plan.is_last { "the last change, " } else { "" };
    let places = match join_names(&names) {
        _ if any_is_untracked(&plan.without_history) => String::new(),
        listed => format!(": {listed}"),
    };
    let mut lines = vec![format!(
        "nothing {} undone: {which}{}, {}{places}",
        if is_dry { "would be" } else { "was" },
        describe_calls(plan),
        reason_for_refusal(&plan.without_history),
    )];
    match (&plan.previous, asker) {
        (Some(Origin { call, tool, .. }), Asker::Model) => {
            lines
                .push(format!("to take back the change before it, name its call: {call} ({tool})"));
        }
        (Some(_), Asker::Person) => {
            let next = if is_dry { "the undo after that takes" } else { "undo again to take" };
            lines.push(format!(
                "{next} back the change before it, or undo a call by its id (`windlass undo --list` shows them)"
            ));
        }
        (None, _) if plan.is_last => lines.push("there is no earlier change to undo".to_owned()),
        (None, _) => {}
    }
    Ok(Output::error(lines.join("\n")).with("without_history", names))
}

/// Says that the paths with these names stay as they are or, in a dry run, would stay.
pub(super) fn unchanged_remark(names: &[String], is_dry: bool) -> String {
    let verb = match (names.len(), is_dry) {
        (1, true) => "would stay as it is, since it has",
        (1, false) => "stays as it is, since it has",
        (_, true) => "would stay as they are, since they have",
        (_, false) => "stay as they are, since they have",
    };
    format!("[{} {verb} no history]", join_names(names))
}

/// Returns the names of the paths that stay as they are, each with the number and size of its files.
pub(super) fn names_without_history(base: &Path, plan: &UndoPlan) -> Vec<String> {
    let name = |path: &PathBuf| Root::recorded(base, path).show(Path::new(""));
    let all = plan.without_history.iter().map(|change| match change {
        ChangeWithoutHistory::BuildDirectory(BuiltChange { path, files: 0, .. }) => {
            format!("{}/ (files removed)", name(path))
        }
        ChangeWithoutHistory::BuildDirectory(BuiltChange { path, files, bytes }) => {
            let count =
                format::count(usize::try_from(*files).unwrap_or(usize::MAX), "file", "files");
            format!("{}/ ({count}, {})", name(path), format::size(*bytes))
        }
        ChangeWithoutHistory::Direct(path) => format!("{} (changed by a job)", name(path)),
        ChangeWithoutHistory::Untracked(_) => {
            "whatever a command changed without tracking".to_owned()
        }
    });
    all.collect()
}

/// Returns the reason for which none of the changes can be undone.
fn reason_for_refusal(all: &[ChangeWithoutHistory]) -> &'static str {
    if any_is_untracked(all) {
        return "ran without tracking, so what it changed is not known and cannot be taken back";
    }
    let is_direct =
        |change: &ChangeWithoutHistory| matches!(change, ChangeWithoutHistory::Direct(_));
    if all.iter().any(is_direct) {
        "changed only what has no history, so it cannot be taken back"
    } else {
        "changed only build directories, which have no history, so it cannot be taken back"
    }
}

/// Returns whether one of the changes was made without tracking.
fn any_is_untracked(all: &[ChangeWithoutHistory]) -> bool {
    all.iter().any(|change| matches!(change, ChangeWithoutHistory::Untracked(_)))
}

/// Joins names with commas, up to a limit.
fn join_names(names: &[String]) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let named = names.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}
