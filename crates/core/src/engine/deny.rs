//! Stage 4: what a project hides from every tool. (Secret files and our own places are denied by the policy itself, whose verdict
//! is the same in every mode.)

use std::path::PathBuf;

use super::Call;
use crate::{Decided, DecidedBy, Resolved, ToolError, quote};

/// Refuses what an `.aiexclude` hides, in every mode and for every tool.
pub(super) fn check(call: &mut Call, resolved: &[(PathBuf, Resolved)]) -> Result<(), ToolError> {
    for (_, path) in resolved {
        if let Some(by) = call.files.get().excluded_by(path)? {
            let by = DecidedBy::HardDeny { reason: format!("hidden by {}", quote::path(&by)) };
            let refusal = format!("not allowed: {} ({by})", path.display());
            call.decided = Some(Decided::denied(by));
            return Err(ToolError::denied(refusal));
        }
    }
    Ok(())
}
