//! The people of an engine: front doors that ask them, and the answers that they give.

use std::sync::Arc;

use super::Engine;
use crate::{
    Answer, AnswerError, Approval, ApprovalId, Attendance, Attendant, QuestionAnswer, QuestionId,
    QuestionRequest, SessionId, ToolError,
};

impl Engine {
    /// Registers a front door where people can be asked about the calls of a session and of those below it, for as long as the
    /// returned value lives.
    pub fn attend(&self, session: &SessionId, attendant: impl Attendant) -> Attendance {
        self.0.broker.attend(Some(session.clone()), Arc::new(attendant))
    }

    /// The same for the calls of all sessions.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use windlass_core::{Engine, Listening, testing::EmptyHost};
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// let there = engine.attend_all(Listening::default());
    /// drop(there); // Nobody is there any more: what needs a person is denied at once.
    /// ```
    pub fn attend_all(&self, attendant: impl Attendant) -> Attendance {
        self.0.broker.attend(None, Arc::new(attendant))
    }

    /// Answers an approval that came as [`EventKind::Approval`](crate::EventKind::Approval). The first answer counts, in whichever process
    /// it is given, and wakes the call that waits for it.
    ///
    /// An approval may outlive the call that asked. Then the answer stays on record, and counts once, when the call is made again by
    /// [`Engine::resume`] or by the model.
    pub async fn answer(&self, id: &ApprovalId, answer: Answer) -> Result<(), AnswerError> {
        self.0.broker.answer(id, answer).await
    }

    /// Answers questions that came as [`EventKind::Question`](crate::EventKind::Question), in the same way.
    pub async fn answer_questions(
        &self,
        id: &QuestionId,
        answer: QuestionAnswer,
    ) -> Result<(), AnswerError> {
        self.0.broker.answer_questions(id, answer).await
    }

    /// The questions of tools that are on record, the oldest first.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_core::{Engine, testing::EmptyHost};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_core::ToolError> {
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// assert!(engine.questions().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn questions(&self) -> Result<Vec<QuestionRequest>, ToolError> {
        self.0.broker.questions().await.map_err(|why| unreadable(&why))
    }

    /// The questions that are on record, and the answers that are remembered, the oldest first.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_core::{Engine, testing::EmptyHost};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_core::ToolError> {
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// assert!(engine.approvals().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn approvals(&self) -> Result<Vec<Approval>, ToolError> {
        self.0.broker.approvals().await.map_err(|why| unreadable(&why))
    }

    /// Forgets a question or a remembered answer; `false` if there is none of that name. What a command changed and was held for the
    /// answer is dropped.
    pub async fn revoke(&self, id: &ApprovalId) -> Result<bool, ToolError> {
        let is_there = self.0.broker.revoke(id).await.map_err(|why| unreadable(&why))?;
        if is_there {
            self.drop_held(id).await?;
        }
        Ok(is_there)
    }
}

pub(super) fn unreadable(why: &str) -> ToolError {
    ToolError::host_failed(format!("the record of approvals cannot be used: {why}"))
}
