//! Stage 4: refuses files that an `.aiexclude` of the workspace hides from every tool. (The policy itself denies secret files and our
//! own directories, in every mode.)

use std::path::PathBuf;

use super::Call;
use crate::{DecidedBy, ExplainedDecision, Resolved, ToolError, quote};

/// Fails if a path of the call is hidden by an `.aiexclude`, in every mode and for every tool.
pub(super) fn check_not_excluded(
    call: &mut Call,
    resolved: &[(PathBuf, Resolved)],
) -> Result<(), ToolError> {
    for (_, path) in resolved {
        if let Some(by) = call.files.get().excluded_by(path)? {
            let by = DecidedBy::HardDeny { reason: format!("hidden by {}", quote::path(&by)) };
            let refusal = format!("not allowed: {} ({by})", path.display());
            call.decided = Some(ExplainedDecision::denied(by));
            return Err(ToolError::denied(refusal));
        }
    }
    Ok(())
}
