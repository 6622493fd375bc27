//! Attendants of an engine, and the answers that people give to approvals and questions.

use std::sync::Arc;

use super::Engine;
use crate::{
    Answer, AnswerError, Approval, ApprovalId, Attendant, AttendantRegistration, BookError,
    QuestionAnswer, QuestionId, QuestionRequest, SessionId, ToolError,
};

impl Engine {
    /// Registers a front door where people can be asked about the calls of a session and of those below it, for as long as the
    /// returned value lives.
    pub fn attend(&self, session: &SessionId, attendant: impl Attendant) -> AttendantRegistration {
        self.0.broker.attend(Some(session.clone()), Arc::new(attendant))
    }

    /// Registers an attendant for the calls of all sessions.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use windlass_core::{Engine, EventAttendant, testing::EmptyHost};
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
    /// let attendance = engine.attend_all(EventAttendant::default());
    /// drop(attendance); // No attendant is left: a call that needs a person is denied at once.
    /// ```
    pub fn attend_all(&self, attendant: impl Attendant) -> AttendantRegistration {
        self.0.broker.attend(None, Arc::new(attendant))
    }

    /// Answers an approval that came as [`EventKind::Approval`](crate::EventKind::Approval). The first answer counts, whichever process
    /// gives it, and wakes the call that waits for it.
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

    /// Returns the questions of tools that are on record, the oldest first.
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
        self.0.broker.questions().await.map_err(|why| approvals_unusable(&why))
    }

    /// Returns the open approvals on record and the remembered answers, the oldest first.
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
        self.0.broker.approvals().await.map_err(|why| approvals_unusable(&why))
    }

    /// Removes an open approval or a remembered answer. Returns false if there is none with this id. Drops changes of a command that were
    /// held for the answer.
    pub async fn revoke(&self, id: &ApprovalId) -> Result<bool, ToolError> {
        let is_there = self.0.broker.revoke(id).await.map_err(|why| approvals_unusable(&why))?;
        if is_there {
            self.drop_held(id).await?;
        }
        Ok(is_there)
    }
}

/// Makes the error for a book of approvals that cannot be read or written.
pub(super) fn approvals_unusable(why: &BookError) -> ToolError {
    ToolError::host_failed(format!("the record of approvals cannot be used: {why}"))
}
