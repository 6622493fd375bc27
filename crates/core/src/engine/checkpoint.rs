//! Stage 9: what is about to change is saved, so that it can be taken back.

use super::{Call, Shared};
use crate::{BoxFuture, CallId, Effects, Kinds, SessionId, ToolError};

/// Saves what a call is about to change, before it begins.
pub trait Checkpoints: Send + Sync {
    /// Saves the present state of everything that `effects` may write or delete. An error keeps the call from running.
    fn save<'a>(
        &'a self,
        session: &'a SessionId,
        call: &'a CallId,
        effects: &'a Effects,
    ) -> BoxFuture<'a, Result<(), ToolError>>;
}

pub(super) async fn before(
    engine: &Shared,
    call: &Call,
    effects: &Effects,
) -> Result<(), ToolError> {
    const CHANGES: Kinds = Kinds::WRITE.with(Kinds::DELETE).with(Kinds::EXEC);
    match &engine.checkpoints {
        Some(checkpoints) if effects.kinds().intersects(CHANGES) => {
            checkpoints.save(call.session.id(), &call.id, effects).await
        }
        _ => Ok(()),
    }
}
