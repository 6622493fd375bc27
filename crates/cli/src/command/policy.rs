//! `windlass policy`: explains decisions, lists and answers approvals, and tests policies.

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
    subcommand: PolicySubcommand,
}

/// The subcommands of `windlass policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicySubcommand {
    /// Explain the decision about a call, and the rule behind it, without running it.
    Explain {
        /// The name of the tool.
        tool: String,
        /// The arguments of the call, as JSON.
        #[arg(default_value = "{}", value_name = "JSON", allow_hyphen_values = true)]
        input: String,
    },
    /// Show the mode and the rules in force.
    Show,
    /// List open approvals and remembered answers.
    Approvals,
    /// Show every line that the call of an open approval has changed or would change.
    Diff {
        /// The approval's id.
        id: String,
    },
    /// Allow the call of an open approval and make it at once, in its session.
    Approve {
        /// The approval's id.
        id: String,
        /// The lifetime of the answer: once, session, project, always.
        #[arg(long, default_value = "once")]
        scope: Scope,
        /// A reason, which the model reads.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Other arguments for the call, as JSON, @FILE or `-`. The policy decides on them again.
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
    /// Deny the call of an open approval; it ends as denied in its session.
    Deny {
        /// The approval's id.
        id: String,
        /// A reason, which the model reads.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
        /// The lifetime of the answer: once, session, project, always.
        #[arg(long, default_value = "once")]
        scope: Scope,
    },
    /// Forget remembered answers and open approvals.
    Revoke {
        /// The ids of the approvals.
        #[arg(required_unless_present = "all")]
        ids: Vec<String>,
        /// Forget all approvals, of every workspace.
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
    /// Run the examples in policy files; exit code 1 when a decision differs from an example.
    #[command(after_help = "A policy file is a configuration file with examples:\n\n\
        mode = \"ask\"\n\
        allow = [\"exec git status\"]\n\n\
        [[example]]\n\
        tool = \"bash\"\n\
        input = { command = \"git status\" }\n\
        expect = \"allow\"                  # or ask, or deny\n\
        rule = \"allow exec git status\"    # the rule that must decide; optional\n\n\
        Each file is tested alone, with the options of the command line and without other configuration.")]
    Test {
        /// The policy files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Decide again about each call of a recorded session, and show the decisions that differ.
    Replay {
        /// The session's id, or a beginning of it that no other id has.
        #[arg(value_parser = parse_session_id)]
        id: SessionId,
    },
}

/// Runs the subcommand.
pub(super) fn run(global: &Global, policy: PolicyCommand) -> Result<ExitCode> {
    match policy.subcommand {
        PolicySubcommand::Explain { tool, input } => explain::run(global, tool, &input),
        PolicySubcommand::Show => show::run(global),
        PolicySubcommand::Approvals => approvals::run(global),
        PolicySubcommand::Diff { id } => diff::run(global, &id),
        PolicySubcommand::Approve { id, scope, reason, input } => {
            let mut answer = Answer::allow_for(scope);
            answer.reason = reason;
            answer.input = input.map(|input| call::parse_input(&input)).transpose()?;
            answer::run(global, &id, &answer)
        }
        PolicySubcommand::Deny { id, why, scope } => {
            answer::run(global, &id, &Answer::deny_for(scope, why.unwrap_or_default()))
        }
        PolicySubcommand::Revoke { ids, all } => revoke::run(global, &ids, all),
        PolicySubcommand::Test { files } => test::run(global, &files),
        PolicySubcommand::Replay { id } => replay::run(global, &id),
    }
}

/// A decision about a call, and the rule behind it.
struct Decided {
    decision: Decision,
    rule: String,
}

/// Returns the decision that a call would get, without running it. A path that an `.aiexclude` hides is denied before the policy is asked.
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
