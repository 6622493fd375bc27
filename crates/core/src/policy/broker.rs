//! Keeps the questions that are open, and turns answers into grants.
//!
//! A question is written down before anybody is asked, so that it outlives the program: an answer that is given later counts once, when
//! the call is made again. Two who ask the very same thing at the same time share one question.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::book::{self, Approval, ApprovalBook, MemoryBook, Scope, Settled};
use super::{Answer, ApprovalRequest, Approvals, DecidedBy, Grant, Verdict};
use crate::sync::Lock;
use crate::{ApprovalId, ContentHash, IdSource, SessionId, ToolError, id};

pub(crate) struct Broker {
    approvals: Approvals,
    book: Arc<dyn ApprovalBook>,
    ids: Arc<dyn IdSource>,
    open: Lock<HashMap<ApprovalId, Open>>,
}

/// A question that somebody in this process waits for.
struct Open {
    subject: ContentHash,
    session: SessionId,
    answer: watch::Sender<Option<Answer>>,
}

/// Whether somebody else has asked the same already.
enum Turn {
    Ask(watch::Receiver<Option<Answer>>),
    Share(watch::Receiver<Option<Answer>>),
}

impl Broker {
    pub(crate) fn new(
        approvals: Approvals,
        book: Option<Arc<dyn ApprovalBook>>,
        ids: Arc<dyn IdSource>,
    ) -> Self {
        let book = book.unwrap_or_else(|| Arc::new(MemoryBook::default()));
        Self { approvals, book, ids, open: Lock::default() }
    }

    pub(crate) fn next_id(&self) -> ApprovalId {
        ApprovalId::new(id::mint('a', &*self.ids))
    }

    pub(crate) fn book(&self) -> &dyn ApprovalBook {
        &*self.book
    }

    /// Whether there is anybody to ask.
    pub(crate) fn is_attended(&self) -> bool {
        matches!(self.approvals, Approvals::From(_) | Approvals::Listeners { .. })
    }

    /// What was answered before, as a grant or a denial. What counts once is used up.
    pub(crate) fn answered(
        &self,
        verdict: &Verdict,
        request: &ApprovalRequest,
    ) -> Option<Result<Grant, ToolError>> {
        let ApprovalRequest { subject, session, workspace, .. } = request;
        let before = book::answered(&*self.book, subject, session, workspace).ok()??;
        if before.scope != Scope::Once && !request.can_be_remembered {
            return None;
        }
        let id = &before.id;
        Some(match before.settled {
            Settled::Allowed => {
                let (id, scope) = (id.clone(), Some(before.scope));
                Ok(verdict.grant_settled(Some(DecidedBy::Approval { id, scope, who: None })))
            }
            Settled::Denied(why) => {
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                Err(denied(verdict, &format!("a person said no before, in {id}{why}")))
            }
            Settled::Pending => return None,
        })
    }

    /// Asks. `announce` tells the listeners and says how many there are.
    pub(crate) async fn ask(
        &self,
        verdict: &Verdict,
        request: ApprovalRequest,
        announce: impl Fn(&ApprovalRequest) -> usize,
    ) -> Result<Grant, ToolError> {
        let answer = loop {
            match self.turn(&request) {
                Turn::Ask(receiver) => break self.put(&request, receiver, &announce).await,
                Turn::Share(mut receiver) => {
                    // If the one who asked goes away without an answer, the next one asks.
                    if let Ok(answer) = receiver.wait_for(Option::is_some).await
                        && let Some(answer) = answer.clone()
                    {
                        break answer;
                    }
                }
            }
        };
        match answer {
            Answer::Allow | Answer::AllowFor(_) => {
                let settled_by = match self.approvals {
                    Approvals::Beforehand => DecidedBy::Beforehand,
                    _ => DecidedBy::Approval { id: request.id.clone(), scope: None, who: None },
                };
                Ok(verdict.grant_settled(Some(settled_by)))
            }
            Answer::Deny(why) | Answer::DenyFor(_, why) => Err(denied(verdict, &why)),
        }
    }

    fn turn(&self, request: &ApprovalRequest) -> Turn {
        let mut open = self.open.lock();
        let same = |one: &&Open| one.subject == request.subject && one.session == request.session;
        if let Some(one) = open.values().find(same) {
            return Turn::Share(one.answer.subscribe());
        }
        let (answer, receiver) = watch::channel(None);
        let (subject, session) = (request.subject, request.session.clone());
        open.insert(request.id.clone(), Open { subject, session, answer });
        Turn::Ask(receiver)
    }

    /// Asks whoever is there, with the question on record until it is answered or nobody wants to know any more.
    async fn put(
        &self,
        request: &ApprovalRequest,
        mut receiver: watch::Receiver<Option<Answer>>,
        announce: impl Fn(&ApprovalRequest) -> usize,
    ) -> Answer {
        // Whatever happens, also if this future is dropped, the question does not stay open.
        let closing = Closing { broker: self, request };
        let is_written = self.is_attended()
            && self.book.put(&written(request, Settled::Pending, Scope::Once)).is_ok();
        let answer = match &self.approvals {
            Approvals::Nobody => Answer::Deny("nobody is there to ask".into()),
            Approvals::Beforehand => Answer::Allow,
            Approvals::From(approver) => {
                announce(request);
                tokio::select! {
                    biased;
                    answer = told(&mut receiver) => answer,
                    answer = approver.ask(request) => answer,
                }
            }
            Approvals::Listeners { timeout } => {
                if announce(request) == 0 {
                    Answer::Deny("nobody is listening".into())
                } else {
                    within(*timeout, told(&mut receiver)).await
                }
            }
        };
        let answer =
            if is_written { self.unless_answered_elsewhere(request, answer) } else { answer };
        closing.with(&answer);
        answer
    }

    /// A question that is on record can be answered there from another process, which then makes the call. Taking it from the record
    /// decides which of the two answers is used: what counts once must not count in both processes.
    fn unless_answered_elsewhere(&self, request: &ApprovalRequest, answer: Answer) -> Answer {
        let Ok(found) = self.book.take(&request.id) else { return answer };
        let Some(found) = found else {
            return Answer::Deny("the question was answered or taken back elsewhere".into());
        };
        match found.settled {
            Settled::Pending => answer,
            Settled::Allowed => Answer::AllowFor(found.scope),
            Settled::Denied(why) => Answer::DenyFor(found.scope, why),
        }
    }

    /// Takes an answer: for whoever waits, or for the record if the question has outlived the one who asked. `false` if there is no
    /// such question.
    pub(crate) fn answer(&self, id: &ApprovalId, answer: Answer) -> bool {
        if let Some(open) = self.open.lock().get(id) {
            return open.answer.send_if_modified(|given| {
                let is_first = given.is_none();
                *given = Some(given.take().unwrap_or(answer));
                is_first
            });
        }
        self.settle(id, answer).unwrap_or(false)
    }

    fn settle(&self, id: &ApprovalId, answer: Answer) -> Result<bool, String> {
        let (settled, scope) = match answer {
            Answer::Allow => (Settled::Allowed, Scope::Once),
            Answer::AllowFor(scope) => (Settled::Allowed, scope),
            Answer::Deny(why) => (Settled::Denied(why), Scope::Once),
            Answer::DenyFor(scope, why) => (Settled::Denied(why), scope),
        };
        self.book.settle(id, settled, scope)
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("approvals", &self.approvals).finish_non_exhaustive()
    }
}

/// The answer that comes through [`Broker::answer`].
async fn told(receiver: &mut watch::Receiver<Option<Answer>>) -> Answer {
    let gone = || Answer::Deny("the one who was asked went away".into());
    match receiver.wait_for(Option::is_some).await {
        Ok(answer) => answer.clone().unwrap_or_else(gone),
        Err(_) => gone(),
    }
}

async fn within(limit: Duration, answer: impl Future<Output = Answer>) -> Answer {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Answer::Deny(format!("no answer within {} s", limit.as_secs())),
    }
}

fn denied(verdict: &Verdict, why: &str) -> ToolError {
    let error = ToolError::denied(format!("{}: {why}", verdict.refusal()));
    match verdict.remedy() {
        Some(remedy) => error.hint(remedy),
        None => error,
    }
}

/// A question as it is written down.
fn written(request: &ApprovalRequest, settled: Settled, scope: Scope) -> Approval {
    Approval {
        id: request.id.clone(),
        subject: request.subject,
        settled,
        scope,
        session: request.session.clone(),
        workspace: request.workspace.clone(),
        tool: request.tool.clone(),
        input: request.is_whole.then(|| request.input.clone()),
        effects: request.effects.to_string(),
        rule: request.by.to_string(),
        at: request.at,
        asker: request.asker.clone(),
        directory: request.directory.clone(),
    }
}

/// Closes a question, with its answer if there is one.
struct Closing<'a> {
    broker: &'a Broker,
    request: &'a ApprovalRequest,
}

impl Closing<'_> {
    /// Tells those who share the question, and writes down what is to be remembered.
    fn with(self, answer: &Answer) {
        if let Some(open) = self.broker.open.lock().get(&self.request.id) {
            open.answer.send_replace(Some(answer.clone()));
        }
        let (settled, scope) = match answer {
            Answer::AllowFor(scope) => (Settled::Allowed, *scope),
            Answer::DenyFor(scope, why) => (Settled::Denied(why.clone()), *scope),
            Answer::Allow | Answer::Deny(_) => return,
        };
        if scope != Scope::Once && self.request.can_be_remembered {
            let kept = Approval { input: None, ..written(self.request, settled, scope) };
            if self.broker.book.put(&kept).is_ok() {
                self.broker.open.lock().remove(&self.request.id);
                std::mem::forget(self);
            }
        }
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.broker.open.lock().remove(&self.request.id);
        if self.broker.is_attended() {
            drop(self.broker.book.remove(&self.request.id));
        }
    }
}
