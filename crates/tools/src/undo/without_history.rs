//! Words about changes that have no history: those of build directories, and those that jobs made on the real directory. An undo leaves
//! them as they are and says so.

use std::path::{Path, PathBuf};

use windlass_core::{BuiltChange, Context, Output, ToolError, UndoPlan, WithoutHistory};

use super::{MAX_NAMED, described};
use crate::shown::{self, Root};

/// The answer where nothing that is meant can be taken back. The last change is passed over with it, so that the next undo is about the
/// one before.
pub(super) fn refusal(cx: &Context, plan: &UndoPlan, is_dry: bool) -> Result<Output, ToolError> {
    let base = cx.files().resolve(Path::new("."))?.path;
    let names = named(&base, plan);
    let which = if plan.is_last { "the last change, " } else { "" };
    let mut lines = vec![format!(
        "nothing {} undone: {which}{}, {}: {}",
        if is_dry { "would be" } else { "was" },
        described(plan),
        reason(&plan.without_history),
        listed(&names)
    )];
    if plan.is_last {
        let next = if is_dry { "the undo after that takes" } else { "undo again to take" };
        lines.push(format!(
            "{next} back the change before it, or undo a call by its id (`windlass undo --list` shows them)"
        ));
    }
    Ok(Output::error(lines.join("\n")).with("without_history", names))
}

/// Says of the places with these names that they stay as they are.
pub(super) fn stays(names: &[String]) -> String {
    let verb = if names.len() == 1 {
        "stays as it is, since it has"
    } else {
        "stay as they are, since they have"
    };
    format!("[{} {verb} no history]", listed(names))
}

/// The places that stay as they are, each with the number and size of its files.
pub(super) fn named(base: &Path, plan: &UndoPlan) -> Vec<String> {
    let name = |path: &PathBuf| Root::recorded(base, path).show(Path::new(""));
    let all = plan.without_history.iter().map(|change| match change {
        WithoutHistory::BuildDirectory(BuiltChange { path, files: 0, .. }) => {
            format!("{}/ (files removed)", name(path))
        }
        WithoutHistory::BuildDirectory(BuiltChange { path, files, bytes }) => {
            let count =
                shown::count(usize::try_from(*files).unwrap_or(usize::MAX), "file", "files");
            format!("{}/ ({count}, {})", name(path), shown::size(*bytes))
        }
        WithoutHistory::Direct(path) => format!("{} (changed by a job)", name(path)),
    });
    all.collect()
}

/// The reason for which nothing of it can be taken back.
fn reason(all: &[WithoutHistory]) -> &'static str {
    let is_direct = |change: &WithoutHistory| matches!(change, WithoutHistory::Direct(_));
    if all.iter().any(is_direct) {
        "changed only what has no history, so it cannot be taken back"
    } else {
        "changed only build directories, which have no history, so it cannot be taken back"
    }
}

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let named = names.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}
