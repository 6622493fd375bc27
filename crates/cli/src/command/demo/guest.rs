//! The attendant of the tour: a person at the terminal answers, without one the tour answers yes.

use std::sync::{Arc, Mutex, PoisonError};

use windlass::people::{Answer, ApprovalRequest, Attendant, AttendantReply};
use windlass::tool::BoxFuture;

use crate::person::{self, Person};
use crate::terminal::Paint;

/// The attendant that answers the tour's approvals. Clones share their questions.
#[derive(Clone)]
pub(super) struct Guest(Arc<Inner>);

/// State that clones share.
struct Inner {
    person: Option<Person>,
    paint: Paint,
    /// The texts of the approvals so far, as a person sees them.
    questions: Mutex<Vec<String>>,
}

impl Guest {
    /// Creates an attendant; without a person the tour answers.
    pub(super) fn new(person: Option<Person>, paint: Paint) -> Self {
        Self(Arc::new(Inner { person, paint, questions: Mutex::default() }))
    }

    /// Returns whether a person answers, not the tour.
    pub(super) fn is_person(&self) -> bool {
        self.0.person.is_some()
    }

    /// Returns the texts of the approvals so far.
    pub(super) fn questions(&self) -> Vec<String> {
        self.0.questions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Attendant for Guest {
    fn approve<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, AttendantReply<Answer>> {
        let question = person::approval_prompt(request, self.0.paint);
        self.0.questions.lock().unwrap_or_else(PoisonError::into_inner).push(question);
        match &self.0.person {
            Some(person) => person.approve(request),
            None => Box::pin(std::future::ready(AttendantReply::Answered(Answer::allow()))),
        }
    }
}
