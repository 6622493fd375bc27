//! Events around the calls (session start and end, prompts, notifications) that front doors and agents report to hooks.

use std::sync::Arc;

use super::{Engine, hooks};
use crate::{HookAnswer, HookOutcome, HookPayload, HookVerdict, Session, ToolError};

impl Engine {
    /// Returns whether any hook is registered.
    pub fn has_hooks(&self) -> bool {
        !self.0.hooks.is_empty()
    }

    /// Reports to the hooks that a session begins.
    pub async fn session_started(&self, session: &Arc<Session>) -> HookOutcome {
        self.report_event(session, HookPayload::SessionStart).await
    }

    /// Reports to the hooks that a session is over.
    pub async fn session_ended(&self, session: &Arc<Session>) -> HookOutcome {
        self.report_event(session, HookPayload::SessionEnd).await
    }

    /// Shows a person's message to the hooks before a model sees it. Fails if a hook refuses it or ends the session, or if a hook that
    /// must agree fails.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_core::{Engine, testing::EmptyHost};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_core::ToolError> {
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// # let session = engine.new_session();
    /// let heard = engine.prompt_submitted(&session, "mend the tests").await?;
    /// let prompt = heard.text.unwrap_or_else(|| "mend the tests".into());
    /// # assert_eq!(prompt, "mend the tests");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn prompt_submitted(
        &self,
        session: &Arc<Session>,
        text: &str,
    ) -> Result<HookOutcome, ToolError> {
        let heard = self.report_event(session, HookPayload::PromptSubmit { text }).await;
        match heard.refused.as_ref().or(heard.stopped.as_ref()) {
            Some(why) => Err(ToolError::denied(why.clone())),
            None => Ok(heard),
        }
    }

    /// Reports to the hooks a notification that a person receives.
    pub async fn notified(&self, session: &Arc<Session>, text: &str) -> HookOutcome {
        self.report_event(session, HookPayload::Notification { text }).await
    }

    /// Reports any event other than a call to the hooks; the engine itself reports calls. Hooks that may change the text are asked one
    /// after the other, otherwise all at the same time. Cancels the session if a hook ends it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use windlass_core::HookPayload;
    /// # use windlass_core::{Engine, testing::EmptyHost};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// # let session = engine.new_session();
    /// let heard = engine.report_event(&session, HookPayload::Stop).await;
    /// assert_eq!(heard.refused, None, "no hook wants the agent to go on");
    /// # }
    /// ```
    pub async fn report_event(&self, session: &Arc<Session>, what: HookPayload<'_>) -> HookOutcome {
        let mut heard = HookOutcome::default();
        if what.point().is_in_turn() {
            self.ask_in_turn(session, what, &mut heard).await;
        } else {
            self.ask_concurrently(session, what, &mut heard).await;
        }
        if heard.stopped.is_some() {
            session.cancel();
        }
        heard
    }

    /// Asks one hook after the other. Each sees the text as the hook before it left it. Stops after a hook that refuses or ends the
    /// session, or that must agree and fails.
    async fn ask_in_turn(&self, session: &Session, what: HookPayload<'_>, heard: &mut HookOutcome) {
        let engine = &self.0;
        for hook in &engine.hooks {
            let text_so_far = heard.text.clone();
            let what = text_so_far.as_deref().map_or(what, |text| what.with_text(text));
            match hooks::ask_hook(engine, &**hook, hooks::event(engine, session, what)).await {
                Ok(Some(answer)) => merge_answer(heard, &**hook, answer),
                Ok(None) => {}
                Err(error) => heard.refused = Some(error.to_string()),
            }
            if heard.refused.is_some() || heard.stopped.is_some() {
                return;
            }
        }
    }

    /// Asks all hooks at the same time, and merges their answers in the order of the hooks. A hook that must agree and fails counts as a
    /// refusal; of several refusals the last one stays.
    async fn ask_concurrently(
        &self,
        session: &Session,
        what: HookPayload<'_>,
        heard: &mut HookOutcome,
    ) {
        let engine = &self.0;
        let asked = engine.hooks.iter().map(|hook| async move {
            let answer =
                hooks::ask_hook(engine, &**hook, hooks::event(engine, session, what)).await;
            (hook, answer)
        });
        for (hook, answer) in futures_util::future::join_all(asked).await {
            match answer {
                Ok(Some(answer)) => merge_answer(heard, &**hook, answer),
                Ok(None) => {}
                Err(error) => heard.refused = Some(error.to_string()),
            }
        }
    }
}

/// Adds the answer of one hook to the combined answers. Its text and refusal replace earlier ones; contexts are collected.
fn merge_answer(heard: &mut HookOutcome, hook: &dyn crate::Hook, answer: HookAnswer) {
    let name = hook.name();
    heard.text = answer.text.or(heard.text.take());
    heard.context.extend(answer.context.map(|context| hooks::quote_hook(hook, &context)));
    match answer.verdict {
        HookVerdict::GoOn | HookVerdict::Allow => {}
        // Only a call can ask a person, so a wish to ask counts as a refusal here.
        HookVerdict::Ask(why) | HookVerdict::Deny(why) => {
            heard.refused = Some(format!("the hook {name} says no: {why}"));
        }
        HookVerdict::Stop(why) => {
            heard.stopped = Some(format!("the hook {name} has ended the session: {why}"));
        }
    }
}
