//! Stage 9: what is about to change is saved, so that it can be taken back.

use super::{Call, Shared};
use crate::{BoxFuture, CallId, Effects, Kinds, SessionId, ToolError};

/// Saves what a call is about to change, before it begins.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use windlass_core::{BoxFuture, CallId, Checkpoints, Effects, SessionId, ToolError};
/// # use windlass_core::{Engine, Kinds, Mode, Policy, ToolCall, Toolbox, testing::{EmptyHost, MockTool}};
///
/// #[derive(Default)]
/// struct Saved(Mutex<Vec<String>>);
///
/// impl Checkpoints for Saved {
///     fn save<'a>(
///         &'a self,
///         _: &'a SessionId,
///         _: &'a CallId,
///         effects: &'a Effects,
///     ) -> BoxFuture<'a, Result<(), ToolError>> {
///         self.0.lock().unwrap().push(effects.to_string());
///         Box::pin(std::future::ready(Ok(())))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("publish").with_effects(Kinds::WRITE, |_| Effects::write("index.html")))?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).policy(Policy::new(Mode::Auto));
///
/// let saved = Arc::new(Saved::default());
/// let engine = builder.checkpoints(saved.clone()).build();
/// engine.call(&engine.new_session(), ToolCall::new("publish", serde_json::json!({}))).await;
/// assert_eq!(*saved.0.lock().unwrap(), ["write /w/index.html"]);
/// # Ok(())
/// # }
/// ```
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
