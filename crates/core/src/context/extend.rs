//! Further effects for a call that already runs.
//!
//! Conflicting calls run in the order of the queue, and the queue only knows the effects of a call's plan. So only effects without
//! a footprint can be added later, since no other call can conflict with them: `net`, `secret` and `agent`. Files, state, programs
//! and MCP tools must be in the plan, or be a call of their own ([`Context::call`]).

use std::sync::Arc;

use super::Context;
use super::approval::unanswered_error;
use crate::effects::Footprint;
use crate::engine::{ask_about_added_effects, record_extension, situation};
use crate::people::Permission;
use crate::{
    CallExtended, Decision, Effect, Effects, ExplainedDecision, Grant, HookCall, ToolError, Verdict,
};

impl Context {
    /// Requests effects that the plan of this call did not declare. They must be of the kinds that the tool declares, and are decided on
    /// like those of a plan: by hard denies, the rights of the session, rules, the mode and hooks, and by a person if these ask. The
    /// decision is in the journal before this returns. If it is to allow, the doors of this context are open for the effects; otherwise
    /// this fails.
    ///
    /// Only `net`, `secret` and `agent` effects can be added: no other call can conflict with them. Effects that are already
    /// granted are not decided on again. The time limit of the call is suspended while a person is asked.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::json;
    /// use windlass_core::{Effect, Effects, EffectKinds, Output, testing::MockTool};
    /// # use windlass_core::{Engine, Mode, Policy, ToolCall, Toolbox, testing::EmptyHost};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let net = |origin: &str| Effect::Net { origin: origin.into(), method: "GET".into() };
    /// let tool = MockTool::named("fetch")
    ///     .with_effects(EffectKinds::NET, move |_| net("https://docs.rs:443").into())
    ///     .answering(move |cx, _| async move {
    ///         // The answer redirects to another host.
    ///         cx.extend(net("https://static.docs.rs:443")).await?;
    ///         assert!(cx.grant().covers(&net("https://static.docs.rs:443")));
    ///         cx.extend(net("https://example.org:443")).await?;
    ///         Ok(Output::text("not reached"))
    ///     });
    /// # let mut tools = Toolbox::new();
    /// # tools.add(tool)?;
    /// let policy = Policy::new(Mode::Auto).deny("net example.org".parse()?);
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).policy(policy).build();
    /// let result = engine.call(&engine.new_session(), ToolCall::new("fetch", json!({}))).await;
    /// assert!(result.output.to_text().starts_with("not allowed: net GET https://example.org:443"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, effects: impl Into<Effects>) -> Result<(), ToolError> {
        let inner = &self.0;
        let new = |effect: &&Effect| !inner.grant.covers(effect);
        let effects: Effects = effects.into().iter().filter(new).cloned().collect();
        if effects.is_empty() {
            return Ok(());
        }
        self.check_extension(&effects)?;
        // The result depends on more than files now, so it cannot be cached.
        self.forget_observed();
        let effects = Arc::new(effects);
        let files = inner.session_files.get();
        let situation = situation(&*inner.host, files, &inner.session);
        let policy = &inner.policy;
        let verdict = policy.decide_in(&inner.tool, effects.clone(), files.workspace(), &situation);
        let (verdict, settled) = self.decide_extension(verdict).await;
        let decided = match &settled {
            Ok((grant, _)) => grant.decided().clone(),
            Err(_) => ExplainedDecision { decision: Decision::Deny, ..verdict.decided(None) },
        };
        self.record_extension(&effects, &decided).await?;
        let (grant, said) = settled?;
        inner.grant.add(grant);
        let mut more = inner.lineage.more.lock();
        more.effects.extend(effects.iter().cloned());
        more.said.extend(said);
        Ok(())
    }

    /// Fails for a call that is only tried out, for effects of a kind that the tool does not declare, and for effects with which other
    /// calls could conflict.
    fn check_extension(&self, effects: &Effects) -> Result<(), ToolError> {
        let inner = &self.0;
        if inner.grant.is_trial() {
            return Err(ToolError::denied("not allowed: the call is only tried out"));
        }
        if !inner.kinds.contains(effects.kinds()) {
            return Err(ToolError::undeclared_effect(format!(
                "`{}` wants to {effects}, but says that its calls are only of the kinds {}",
                inner.tool,
                inner.kinds.names().join(", ")
            )));
        }
        let shares = |effect: &&Effect| !matches!(effect.footprint(), Footprint::None);
        match effects.iter().find(shares) {
            None => Ok(()),
            Some(effect) => Err(ToolError::undeclared_effect(format!(
                "`{}` runs and wants to {effect}, which its plan has to declare: other calls may wait for it or be in its way",
                inner.tool
            ))
            .hint("a running call can ask for net, secret and agent effects only")),
        }
    }

    /// Returns the final verdict and the grant, with texts for the model. Denied effects fail without asking. For others, asks the hooks
    /// and, if needed, a person, unless an earlier answer counts. An answer with other arguments counts as a refusal.
    async fn decide_extension(
        &self,
        verdict: Verdict,
    ) -> (Verdict, Result<(Grant, Vec<String>), ToolError>) {
        let inner = &self.0;
        if verdict.decision() == Decision::Deny {
            let denial = verdict.denial(None);
            return (verdict, Err(denial));
        }
        let effects = verdict.effects().clone();
        let call =
            HookCall { id: &inner.call, tool: &inner.tool, input: &inner.input, effects: &effects };
        let asked = tokio::select! {
            biased;
            asked = ask_about_added_effects(&inner.engine, &inner.session, call, verdict.clone()) => asked,
            () = inner.cancel.cancelled() => Err(unanswered_error()),
        };
        let (verdict, granted, mut said) = match asked {
            Ok(asked) => asked,
            Err(refusal) => return (verdict, Err(refusal)),
        };
        if let Some(grant) = granted.or_else(|| verdict.grant()) {
            return (verdict, Ok((grant, said)));
        }
        let request = self.approval_request(&verdict);
        let before = if inner.is_whole {
            inner.broker.use_earlier_answer(&verdict, &request).await
        } else {
            None
        };
        if let Some(Ok(Permission::Granted(grant, _))) = &before
            && let Err(refusal) = inner.broker.use_up(grant).await
        {
            return (verdict, Err(refusal));
        }
        let answer = match before {
            Some(answer) => answer,
            None => self.ask_people(&verdict, request, &inner.cancel).await,
        };
        let settled = answer.and_then(|permission| match permission {
            Permission::Granted(grant, reason) => {
                said.extend(reason);
                Ok((grant, said))
            }
            Permission::Edited(_) => Err(ToolError::denied(
                "not allowed: a person wants other arguments, and the call already runs",
            )
            .hint("make the call again with the arguments that the person wants")),
        });
        (verdict, settled)
    }

    /// Records the requested effects and the decision in the journal, with secrets redacted.
    async fn record_extension(
        &self,
        effects: &Arc<Effects>,
        decided: &ExplainedDecision,
    ) -> Result<(), ToolError> {
        let inner = &self.0;
        let effects = inner.secrets.redact_effects(effects);
        let decided = inner.secrets.redact_decided(decided);
        let body = CallExtended::new(inner.call.clone(), Effects::clone(&effects), decided);
        record_extension(&inner.engine, self.files().origin(Vec::new()), &body).await
    }
}
