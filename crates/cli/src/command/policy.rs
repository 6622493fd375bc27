//! `windlass policy`: what would be decided and by which rule, what people have decided, and whether a policy does what it says.

mod answer;
mod approvals;
mod explain;
mod replay;
mod revoke;
mod show;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use windlass::Windlass;
use windlass_core::{Answer, Decision, Session, ToolCall, ToolError};

use super::call;
use crate::options::{Global, PolicyCommand, PolicyWhat};

pub(super) fn run(global: &Global, policy: PolicyCommand) -> Result<ExitCode> {
    match policy.what {
        PolicyWhat::Explain { tool, input } => explain::run(global, tool, &input),
        PolicyWhat::Show => show::run(global),
        PolicyWhat::Approvals => approvals::run(global),
        PolicyWhat::Approve { id, scope, reason, input } => {
            let mut answer = Answer::allow_for(scope);
            answer.reason = reason;
            answer.input = input.map(|input| call::input(&input)).transpose()?;
            answer::run(global, &id, &answer)
        }
        PolicyWhat::Deny { id, why, scope } => {
            answer::run(global, &id, &Answer::deny_for(scope, why.unwrap_or_default()))
        }
        PolicyWhat::Revoke { ids, all } => revoke::run(global, &ids, all),
        PolicyWhat::Test { files } => test::run(global, &files),
        PolicyWhat::Replay { id } => replay::run(global, &id),
    }
}

/// A decision about a call and what made it.
struct Decided {
    decision: Decision,
    rule: String,
}

/// What would be decided about a call. What an `.aiexclude` hides is denied before the policy is asked.
async fn decide(
    windlass: &Windlass,
    session: &std::sync::Arc<Session>,
    call: ToolCall,
) -> Result<Decided, ToolError> {
    match windlass.explain(session, call).await {
        Ok(verdict) => Ok(Decided { decision: verdict.decision(), rule: verdict.rule() }),
        Err(error) if error.code() == "denied" => {
            Ok(Decided { decision: Decision::Deny, rule: error.message().text.to_string() })
        }
        Err(error) => Err(error),
    }
}
