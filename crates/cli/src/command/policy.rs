//! `windlass policy`: what would be decided and by which rule, what people have decided, and whether a policy does what it says.

mod answer;
mod approvals;
mod diff;
mod explain;
mod replay;
mod revoke;
mod show;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use windlass::people::{Answer, Scope};
use windlass::policy::Decision;
use windlass::session::SessionId;
use windlass::{Session, ToolCall, ToolError, Windlass};

use super::call;
use crate::options::{Global, parse_session_id};

/// `windlass policy`
#[derive(Debug, Args)]
pub(crate) struct PolicyCommand {
    #[command(subcommand)]
    what: PolicyWhat,
}

/// What to ask the policy.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyWhat {
    /// What would happen to a call, and which rule decides.
    Explain {
        /// The tool's name.
        tool: String,
        /// Its arguments as JSON.
        #[arg(default_value = "{}", value_name = "JSON", allow_hyphen_values = true)]
        input: String,
    },
    /// The mode and the rules in force.
    Show,
    /// List the questions that are open and the answers that are remembered.
    Approvals,
    /// Show every line that the call of an open question changed, or would change.
    Diff {
        /// The question's id.
        id: String,
    },
    /// Say yes to an open question, and make its call at once in its session.
    Approve {
        /// The question's id.
        id: String,
        /// For how long the answer counts: once, session, project, always.
        #[arg(long, default_value = "once")]
        scope: Scope,
        /// A reason for the model to read.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Other arguments for the call, as JSON or `-`. They are decided on anew.
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
    /// Say no to an open question; its call ends as denied in its session.
    Deny {
        /// The question's id.
        id: String,
        /// What the model is told.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
        /// For how long the answer counts: once, session, project, always.
        #[arg(long, default_value = "once")]
        scope: Scope,
    },
    /// Forget remembered answers and open questions.
    Revoke {
        /// Their ids.
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// All of them, of every workspace.
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
    /// Run the examples that policy files carry; exit code 1 when one is decided otherwise.
    #[command(after_help = "A policy file is a configuration file with examples:\n\n\
        mode = \"ask\"\n\
        allow = [\"exec git status\"]\n\n\
        [[example]]\n\
        tool = \"bash\"\n\
        input = { command = \"git status\" }\n\
        expect = \"allow\"                  # or ask, or deny\n\
        rule = \"allow exec git status\"    # what must decide; may be left out\n\n\
        A file is tested alone: with the options of the command line, without other configuration.")]
    Test {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// What would be decided now about each call of an earlier session.
    Replay {
        /// The session's id.
        #[arg(value_parser = parse_session_id)]
        id: SessionId,
    },
}

pub(super) fn run(global: &Global, policy: PolicyCommand) -> Result<ExitCode> {
    match policy.what {
        PolicyWhat::Explain { tool, input } => explain::run(global, tool, &input),
        PolicyWhat::Show => show::run(global),
        PolicyWhat::Approvals => approvals::run(global),
        PolicyWhat::Diff { id } => diff::run(global, &id),
        PolicyWhat::Approve { id, scope, reason, input } => {
            let mut answer = Answer::allow_for(scope);
            answer.reason = reason;
            answer.input = input.map(|input| call::parse_input(&input)).transpose()?;
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
    match windlass.engine().explain(session, call).await {
        Ok(verdict) => Ok(Decided { decision: verdict.decision(), rule: verdict.rule() }),
        Err(error) if error.code() == "denied" => {
            Ok(Decided { decision: Decision::Deny, rule: error.message().text.to_string() })
        }
        Err(error) => Err(error),
    }
}
