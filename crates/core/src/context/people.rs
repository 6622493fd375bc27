//! The door to people: a tool's questions to a person.

use std::sync::Arc;

use super::Context;
use crate::engine::asker;
use crate::{Question, QuestionAnswer, QuestionOption, QuestionRequest, Secrets, ToolError};

/// State that a tool declares in order to ask questions.
pub(super) const QUESTION_STATE: &str = "question";

/// The door to the people at the front doors of a session.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Effects, EffectKinds, Output, Question, QuestionAnswer, Selection, testing::MockTool};
/// # use windlass_core::{ApprovalRequest, Answer, Attendant, BoxFuture, Engine, QuestionRequest, AttendantReply, ToolCall, Toolbox};
/// # use windlass_core::testing::EmptyHost;
/// # struct First;
/// # impl Attendant for First {
/// #     fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
/// #         Box::pin(std::future::ready(AttendantReply::Deferred))
/// #     }
/// #     fn answer<'a>(&'a self, request: &'a QuestionRequest) -> BoxFuture<'a, AttendantReply<QuestionAnswer>> {
/// #         let chosen = request.questions.iter().map(|one| Selection::of(&one.options[0].label));
/// #         Box::pin(std::future::ready(AttendantReply::Answered(QuestionAnswer::new(chosen))))
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let choose = MockTool::named("choose")
///     .with_effects(EffectKinds::STATE, |_| Effects::state("question"))
///     .answering(|cx, _| async move {
///         let answer = cx.people()?.ask(&[Question::new("Which colour?", ["red", "blue"])]).await?;
///         Ok(Output::text(answer.selections[0].selected.join(", ")))
///     });
/// # let mut tools = Toolbox::new();
/// # tools.add(choose)?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).attendant(First).build();
/// let result = engine.call(&engine.new_session(), ToolCall::new("choose", json!({}))).await;
/// assert_eq!(result.output.to_text(), "red");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PeopleDoor<'a>(&'a Context);

impl Context {
    /// Returns the door to people; needs the effect `State("question")`.
    pub fn people(&self) -> Result<PeopleDoor<'_>, ToolError> {
        if self.0.grant.may_use_state(QUESTION_STATE) {
            return Ok(PeopleDoor(self));
        }
        Err(ToolError::undeclared_effect(
            "the tool wanted to ask a person without declaring state `question`",
        ))
    }
}

impl PeopleDoor<'_> {
    /// Asks questions at every front door of the session, and waits for the first answer: one selection for each question. The time
    /// limit of the call is suspended meanwhile. Fails at once if there is no attendant.
    pub async fn ask(&self, questions: &[Question]) -> Result<QuestionAnswer, ToolError> {
        let inner = &(self.0).0;
        let clean = |question: &Question| redacted_question(question, &inner.secrets);
        let at = inner.host.clock().now();
        let request = QuestionRequest {
            id: inner.broker.next_question(),
            call: inner.call.clone(),
            session: inner.session.id().clone(),
            tool: inner.tool.clone(),
            questions: questions.iter().map(clean).collect(),
            asker: asker(&inner.session, &inner.overrides),
            at,
            expires: inner.broker.expiry(at),
            answer: None,
            is_journaled: false,
        };
        let source = self.0.source();
        let announce =
            |request: &Arc<QuestionRequest>| inner.recorder.question_asked(request, &source);
        let _asking = inner.lineage.clock.pause_while_asking();
        tokio::select! {
            biased;
            () = inner.cancel.cancelled() => {
                inner.broker.catch_up().await;
                Err(ToolError::cancelled("the call was stopped before a person answered"))
            }
            answer = inner.broker.ask_questions(request, &inner.session, announce) => answer,
        }
    }
}

/// Returns the question with secrets redacted: it is shown and kept.
fn redacted_question(question: &Question, secrets: &Secrets) -> Question {
    let clean = |text: &str| secrets.redact(text).into_owned();
    let option = |option: &QuestionOption| QuestionOption {
        label: clean(&option.label),
        description: option.description.as_deref().map(clean),
    };
    Question {
        question: clean(&question.question),
        header: question.header.as_deref().map(clean),
        options: question.options.iter().map(option).collect(),
        multi_select: question.multi_select,
    }
}
