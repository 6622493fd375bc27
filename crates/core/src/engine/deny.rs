//! Stage 4: what a project hides from every tool. (Secret files and our own places are denied by the policy itself, whose verdict
//! is the same in every mode.)

use std::path::PathBuf;

use super::Call;
use crate::{Resolved, ToolError, quote};

/// Refuses what an `.aiexclude` hides, in every mode and for every tool.
pub(super) fn check(call: &Call, resolved: &[(PathBuf, Resolved)]) -> Result<(), ToolError> {
    for (_, path) in resolved {
        if let Some(by) = call.files.get().excluded_by(path)? {
            let (what, by) = (path.display(), quote::path(&by));
            return Err(ToolError::denied(format!(
                "not allowed: {what} (hard deny: hidden by {by})"
            )));
        }
    }
    Ok(())
}
