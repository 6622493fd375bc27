//! Stages 5 and 10: what a person has put before and after every call.

use serde_json::Value;

use super::{Call, Shared};
use crate::{BoxFuture, CallId, Output, SessionId, ToolError};

/// Looks at every call before the policy decides, and at every output before anybody sees it.
pub trait Hook: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Before the decision: may change the arguments or deny the call.
    fn before<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookAnswer> {
        let _ = call;
        Box::pin(std::future::ready(HookAnswer::Continue))
    }

    /// After the run: may change the output.
    fn after<'a>(
        &'a self,
        call: HookCall<'a>,
        output: &'a mut Output,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = (call, output);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What a hook is told.
#[derive(Debug, Clone, Copy)]
pub struct HookCall<'a> {
    /// The call.
    pub call: &'a CallId,
    /// Its session.
    pub session: &'a SessionId,
    /// The tool.
    pub tool: &'a str,
    /// Its arguments.
    pub input: &'a Value,
}

/// What a hook wants to happen.
#[derive(Debug, Clone, PartialEq)]
pub enum HookAnswer {
    /// Nothing special.
    Continue,
    /// The call goes on with these arguments, and is looked at from the beginning.
    Replace(Value),
    /// The call does not happen; the text says why.
    Deny(String),
}

/// Asks every hook; whether one changed the arguments.
pub(super) async fn before(engine: &Shared, call: &mut Call) -> Result<bool, ToolError> {
    let mut changed = false;
    for hook in &engine.hooks {
        match hook.before(told(call)).await {
            HookAnswer::Continue => {}
            HookAnswer::Replace(input) => {
                call.input = input;
                changed = true;
            }
            HookAnswer::Deny(why) => {
                return Err(ToolError::denied(format!(
                    "not allowed: the hook {} says no: {why}",
                    hook.name()
                )));
            }
        }
    }
    Ok(changed)
}

pub(super) async fn after(
    engine: &Shared,
    call: &Call,
    output: &mut Output,
) -> Result<(), ToolError> {
    for hook in &engine.hooks {
        hook.after(told(call), output).await?;
    }
    Ok(())
}

fn told(call: &Call) -> HookCall<'_> {
    HookCall { call: &call.id, session: call.session.id(), tool: &call.name, input: &call.input }
}
