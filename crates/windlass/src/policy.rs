//! Policy: modes, rules and decisions, secrets and protected paths.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use windlass::policy::{Decision, Mode};
//! use windlass::{ToolCall, Windlass};
//! # let folder = tempfile::tempdir()?;
//! let builder = Windlass::builder(folder.path()).mode(Mode::Auto).deny("write infra/**".parse()?);
//! let windlass = builder.build()?;
//! let write = ToolCall::new("write", serde_json::json!({"path": "infra/main.tf", "content": ""}));
//! let verdict = windlass.engine().explain(&windlass.new_session(), write).await?;
//! assert_eq!(verdict.decision(), Decision::Deny);
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | choose the decision without a rule | [`Mode`], [`Builder::mode`](crate::Builder::mode) |
//! | write rules | [`Rule`], [`ActiveRule`], [`Decision`], [`Builder::rule`](crate::Builder::rule) |
//! | ask for the decision about a call, and its reason | [`Engine::explain`](crate::engine::Engine::explain), [`Verdict`], [`ExplainedDecision`] |
//! | redact values | [`Secrets`], [`SecretValue`], [`Builder::secrets`](crate::Builder::secrets) |
//! | deny access to files | [`HardDenies`], [`PathGlob`], [`Builder::protect`](crate::Builder::protect) |

pub use windlass_core::{
    ActiveRule, AskTime, DecidedBy, Decision, DecisionContext, DirectWrites, ExplainedDecision,
    FileRights, GitPart, GitPath, Grant, HardDenies, KeptChanges, Layer, Mode, OutsidePaths,
    PASS_THROUGH, PROTECTED_PLACES, PathGlob, Policy, ProtectedPath, ProtectedScope, Resource,
    RiskLevel, Rule, RuleError, SecretName, SecretValue, Secrets, Verdict, begins_protected_place,
    git_place, holds_credential, is_protected_when_absent, protected_beginning_with,
    protected_entries, protected_reason, system_directory,
};
