//! Stages 5 and 10: what a person has put before and after every call.

use serde_json::Value;

use super::{Call, Shared};
use crate::{BoxFuture, CallId, Output, SessionId, ToolError};

/// Looks at every call before the policy decides, and at every output before anybody sees it.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{BoxFuture, Hook, HookAnswer, HookCall, Outcome};
/// # use windlass_core::{Engine, ToolCall, Toolbox, testing::{EmptyHost, MockTool}};
///
/// struct NoForce;
///
/// impl Hook for NoForce {
///     fn name(&self) -> &str {
///         "no-force"
///     }
///     fn before<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookAnswer> {
///         let answer = match call.input["force"].as_bool() {
///             Some(true) => HookAnswer::Deny("nothing is forced here".into()),
///             _ => HookAnswer::Continue,
///         };
///         Box::pin(std::future::ready(answer))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("push"))?;
/// # let builder = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools);
///
/// let engine = builder.hook(Arc::new(NoForce)).build();
/// let result = engine.call(&engine.new_session(), ToolCall::new("push", json!({"force": true}))).await;
/// assert_eq!(result.outcome, Outcome::Denied);
/// # Ok(())
/// # }
/// ```
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
///
/// ```
/// use serde_json::json;
/// use windlass_core::{CallId, HookCall, SessionId};
///
/// fn line(told: HookCall<'_>) -> String {
///     format!("{} {} {}", told.call, told.tool, told.input)
/// }
///
/// let (call, session, input) = (CallId::new("c1"), SessionId::new("s1"), json!({"path": "a.md"}));
/// let told = HookCall { call: &call, session: &session, tool: "read", input: &input };
/// assert_eq!(line(told), r#"c1 read {"path":"a.md"}"#);
/// ```
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
///
/// ```
/// use serde_json::{Value, json};
/// use windlass_core::HookAnswer;
///
/// fn at_most_100(input: &Value) -> HookAnswer {
///     match input["limit"].as_u64() {
///         Some(limit) if limit > 100 => HookAnswer::Replace(json!({"limit": 100})),
///         _ => HookAnswer::Continue,
///     }
/// }
/// assert_eq!(at_most_100(&json!({"limit": 7})), HookAnswer::Continue);
/// assert_eq!(at_most_100(&json!({"limit": 700})), HookAnswer::Replace(json!({"limit": 100})));
/// ```
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
