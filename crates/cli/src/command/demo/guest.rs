//! The person on the tour: at the terminal they answer themselves, elsewhere the tour answers for them.

use std::sync::{Arc, Mutex, PoisonError};

use windlass::people::{Answer, ApprovalRequest, Attendant, Reply};
use windlass::tool::BoxFuture;

use crate::person::{self, Person};
use crate::terminal::Paint;

/// The one who is asked. Clones are the same.
#[derive(Clone)]
pub(super) struct Guest(Arc<Inner>);

struct Inner {
    person: Option<Person>,
    paint: Paint,
    /// The questions, as a person sees them.
    questions: Mutex<Vec<String>>,
}

impl Guest {
    pub(super) fn new(person: Option<Person>, paint: Paint) -> Self {
        Self(Arc::new(Inner { person, paint, questions: Mutex::default() }))
    }

    /// Returns whether a person answers.
    pub(super) fn is_person(&self) -> bool {
        self.0.person.is_some()
    }

    /// The questions so far.
    pub(super) fn questions(&self) -> Vec<String> {
        self.0.questions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Attendant for Guest {
    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Reply<Answer>> {
        let question = person::approval_prompt(request, self.0.paint);
        self.0.questions.lock().unwrap_or_else(PoisonError::into_inner).push(question);
        match &self.0.person {
            Some(person) => person.approve(request),
            None => Box::pin(std::future::ready(Reply::Answered(Answer::allow()))),
        }
    }
}
