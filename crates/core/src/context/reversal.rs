//! The door to what was changed before.

use std::path::{Path, PathBuf};

use super::Inner;
use super::files::{FilesDoor, undeclared};
use crate::changes::{commit, state, undo};
use crate::{ContentHash, FileState, ToolError, UndoPlan, Way, quote};

/// The door to what was changed before.
///
/// ```
/// use windlass_core::{Context, Output, ToolError, UndoPlan};
///
/// /// `plan` was made by [`Scene::undo_plan`](windlass_core::Scene::undo_plan), and its ways were granted.
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
    /// Takes back what the plan says, all of it or nothing; the places that were touched. Every place must have been granted, or
    /// be one that no tool may see, unless the plan [leaves those out](UndoPlan::leave_out_hidden). A plan with conflicts is refused, and one whose calls another undo took back since.
    ///
    /// Blocking: call it in [`Context::blocking`](crate::Context::blocking).
    pub fn perform(&self, plan: &UndoPlan) -> Result<Vec<PathBuf>, ToolError> {
        if !plan.conflicts.is_empty() {
            return Err(ToolError::failed("files were changed since; nothing was undone"));
        }
        let files = FilesDoor { cx: self.cx };
        for way in plan.declared() {
            self.check(way, plan.spares_hidden)?;
        }
        files.go_on()?;
        let history = self.cx.history();
        let _alone = history.exclusive()?;
        plan.check_in_effect(history)?;
        let origin = files.origin(plan.calls());
        let done = undo::perform(&*self.cx.files(), history, &origin, plan)?;
        for (path, _) in &done {
            // What the session had seen is not what is there now.
            self.cx.session.forget(path);
        }
        Ok(done.into_iter().map(|(path, _)| path).collect())
    }

    /// The longest content that is shown, in bytes: a longer one is not read for that.
    pub const MAX_SHOWN: u64 = 16 << 20;

    /// Earlier bytes of a file, all in memory.
    pub fn content(&self, hash: &ContentHash) -> Result<Vec<u8>, ToolError> {
        let opened = self.cx.history.open(hash)?;
        let failed = |error: std::io::Error| ToolError::host_failed(error.to_string());
        if opened.length().map_err(failed)? > Self::MAX_SHOWN {
            return Err(ToolError::failed(format!("the content {hash} is too long to be shown")));
        }
        Ok(opened.source().read().map_err(failed)?.into_owned())
    }

    /// Bytes of a file that a plan is about, as they are now; `None` if it is no regular file, if it is too
    /// long to be shown, or if no tool may see it.
    pub fn present(&self, path: &Path) -> Result<Option<Vec<u8>>, ToolError> {
        if self.is_hidden(path) {
            return Ok(None);
        }
        let files = self.cx.files();
        let place = commit::beside(&*files, path);
        Ok(state::see_with(&*files, &place, None, Self::MAX_SHOWN)?.bytes)
    }

    /// Whether no tool may see what is in this file.
    pub fn is_hidden(&self, path: &Path) -> bool {
        FilesDoor { cx: self.cx }.is_hidden(path)
    }

    fn check(self, way: &Way, spares_hidden: bool) -> Result<(), ToolError> {
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
        Err(undeclared("restore", &commit::beside(self.cx.session_files.get(), &way.path)))
    }
}
