//! What happens around the calls: front doors and agents tell it, so that hooks hear of it.

use std::sync::Arc;

use super::{Engine, hooks};
use crate::{Happening, Heard, HookAnswer, HookVerdict, Session, ToolError};

impl Engine {
    /// Whether anybody would hear of anything.
    pub fn has_hooks(&self) -> bool {
        !self.0.hooks.is_empty()
    }

    /// Tells the hooks that a session begins.
    pub async fn session_started(&self, session: &Arc<Session>) -> Heard {
        self.happened(session, Happening::SessionStart).await
    }

    /// Tells the hooks that a session is over.
    pub async fn session_ended(&self, session: &Arc<Session>) -> Heard {
        self.happened(session, Happening::SessionEnd).await
    }

    /// Shows the hooks what a person has said, before a model sees it; the error is that one of them says no, or must have agreed
    /// and could not.
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
    ) -> Result<Heard, ToolError> {
        let heard = self.happened(session, Happening::PromptSubmit { text }).await;
        match heard.refused.as_ref().or(heard.stopped.as_ref()) {
            Some(why) => Err(ToolError::denied(why.clone())),
            None => Ok(heard),
        }
    }

    /// Tells the hooks that a person is told something.
    pub async fn notified(&self, session: &Arc<Session>, text: &str) -> Heard {
        self.happened(session, Happening::Notification { text }).await
    }

    /// Tells the hooks of anything that is not a call; those of calls are told by the engine itself.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use windlass_core::Happening;
    /// # use windlass_core::{Engine, testing::EmptyHost};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// # let session = engine.new_session();
    /// let heard = engine.happened(&session, Happening::Stop).await;
    /// assert_eq!(heard.refused, None, "no hook wants the agent to go on");
    /// # }
    /// ```
    pub async fn happened(&self, session: &Arc<Session>, what: Happening<'_>) -> Heard {
        let mut heard = Heard::default();
        if what.moment().is_in_turn() {
            self.ask_in_turn(session, what, &mut heard).await;
        } else {
            self.ask_together(session, what, &mut heard).await;
        }
        if heard.stopped.is_some() {
            session.cancel();
        }
        heard
    }

    /// One hook after the other, each with the words that the one before it made.
    async fn ask_in_turn(&self, session: &Session, what: Happening<'_>, heard: &mut Heard) {
        let engine = &self.0;
        for hook in &engine.hooks {
            let told = heard.text.clone();
            let what = told.as_deref().map_or(what, |text| what.with_text(text));
            match hooks::ask(engine, &**hook, hooks::event(engine, session, what)).await {
                Ok(Some(answer)) => hear(heard, &**hook, answer),
                Ok(None) => {}
                Err(error) => heard.refused = Some(error.to_string()),
            }
            if heard.refused.is_some() || heard.stopped.is_some() {
                return;
            }
        }
    }

    /// All at the same time; what they say counts in the order of the hooks.
    async fn ask_together(&self, session: &Session, what: Happening<'_>, heard: &mut Heard) {
        let engine = &self.0;
        let asked = engine.hooks.iter().map(|hook| async move {
            let answer = hooks::ask(engine, &**hook, hooks::event(engine, session, what)).await;
            (hook, answer)
        });
        for (hook, answer) in futures_util::future::join_all(asked).await {
            match answer {
                Ok(Some(answer)) => hear(heard, &**hook, answer),
                Ok(None) => {}
                Err(error) => heard.refused = Some(error.to_string()),
            }
        }
    }
}

/// Takes over what one hook says.
fn hear(heard: &mut Heard, hook: &dyn crate::Hook, answer: HookAnswer) {
    let name = hook.name();
    heard.text = answer.text.or(heard.text.take());
    heard.context.extend(answer.context.map(|context| hooks::marked(hook, &context)));
    match answer.verdict {
        HookVerdict::GoOn | HookVerdict::Allow => {}
        // There is nobody to ask about what is not a call.
        HookVerdict::Ask(why) | HookVerdict::Deny(why) => {
            heard.refused = Some(format!("the hook {name} says no: {why}"));
        }
        HookVerdict::Stop(why) => {
            heard.stopped = Some(format!("the hook {name} has ended the session: {why}"));
        }
    }
}
