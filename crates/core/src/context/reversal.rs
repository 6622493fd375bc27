//! The door to the undo history.

use std::path::{Path, PathBuf};

use super::Inner;
use super::files::{FilesDoor, undeclared};
use crate::changes::{commit, state, undo};
use crate::{ContentHash, FileState, ToolError, UndoPlan, UndoStep, quote};

/// The door to the undo history.
///
/// ```
/// use windlass_core::{Context, Output, ToolError, UndoPlan};
///
/// /// `plan` was made by [`PlanContext::undo_plan`](windlass_core::PlanContext::undo_plan), and its ways were granted.
/// fn take_back(cx: &Context, plan: &UndoPlan) -> Result<Output, ToolError> {
///     let restored = cx.undo()?.perform(plan)?;
///     Ok(Output::text(format!("restored {} paths", restored.len())))
/// }
/// ```
#[derive(Clone, Copy)]
pub struct UndoDoor<'a> {
    pub(super) cx: &'a Inner,
}

impl std::fmt::Debug for UndoDoor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UndoDoor").finish_non_exhaustive()
    }
}

impl UndoDoor<'_> {
    /// Performs an undo plan, all of it or nothing. Returns the changed paths. Every path must be granted, or be hidden from all
    /// tools, unless the plan [leaves hidden paths out](UndoPlan::leave_out_hidden). Fails for a plan with conflicts, and for one
    /// whose calls another undo took back since.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn perform(&self, plan: &UndoPlan) -> Result<Vec<PathBuf>, ToolError> {
        if !plan.conflicts.is_empty() {
            return Err(ToolError::failed("files were changed since; nothing was undone"));
        }
        let files = FilesDoor { cx: self.cx };
        for way in plan.declared() {
            self.check_way(way, plan.spares_hidden)?;
        }
        files.check_not_stopped()?;
        let history = self.cx.history();
        let _alone = history.exclusive()?;
        plan.check_in_effect(history)?;
        let origin = files.origin(plan.calls());
        let done = undo::perform(&*self.cx.files(), history, &origin, plan)?;
        for (path, _) in &done {
            // The session has not seen the restored content.
            self.cx.session.forget(path);
        }
        Ok(done.into_iter().map(|(path, _)| path).collect())
    }

    /// Maximum bytes of a content that is shown; a longer one is not read.
    pub const MAX_SHOWN: u64 = 16 << 20;

    /// Returns an earlier content of a file, all in memory.
    pub fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, ToolError> {
        let opened = self.cx.history.open(hash)?;
        let failed = |error: std::io::Error| ToolError::host_failed(error.to_string());
        if opened.length().map_err(failed)? > Self::MAX_SHOWN {
            return Err(ToolError::failed(format!("the content {hash} is too long to be shown")));
        }
        Ok(opened.source().read().map_err(failed)?.into_owned())
    }

    /// Returns the present bytes of a file in a plan; `None` if it is no regular file, is too long to be shown, or is hidden from
    /// all tools.
    pub fn present(&self, path: &Path) -> Result<Option<Vec<u8>>, ToolError> {
        if self.is_hidden(path) {
            return Ok(None);
        }
        let files = self.cx.files();
        let place = commit::recorded_path(&*files, path);
        Ok(state::inspect_keeping(&*files, &place, None, Self::MAX_SHOWN)?.bytes)
    }

    /// Returns whether the content of this file is hidden from all tools.
    pub fn is_hidden(&self, path: &Path) -> bool {
        FilesDoor { cx: self.cx }.is_hidden(path)
    }

    /// Checks a way against the grant.
    fn check_way(self, way: &UndoStep, spares_hidden: bool) -> Result<(), ToolError> {
        let is_hidden = self.is_hidden(&way.path);
        if is_hidden && spares_hidden {
            return Err(ToolError::denied(format!(
                "not allowed: {} was hidden in the meantime; nothing was undone",
                quote::path(&way.path)
            )));
        }
        let grant = &self.cx.grant;
        let may = match way.then {
            FileState::Absent => grant.may_delete(&way.path),
            _ => grant.may_write(&way.path),
        };
        if may || is_hidden {
            return Ok(());
        }
        Err(undeclared("restore", &commit::recorded_path(self.cx.session_files.get(), &way.path)))
    }
}
