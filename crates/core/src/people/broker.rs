//! Routes approvals and questions to the attendants of a session, and turns their answers into grants.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use tokio::sync::watch;

use super::attendant::{Attendants, Registered};
use super::desk::{AskingOne, Desk, Waited};
use super::record::{Asked, EXPIRES_AFTER, answers};
use super::{
    Answer, AnswerError, Approval, ApprovalRequest, Attendance, Attendant, Book, Held,
    Inquiry as _, InquiryState, QuestionAnswer, QuestionRequest, Reply, Scope, Settled,
};
use crate::recorder::Recorder;
use crate::sync::Lock;
use crate::{
    ApprovalId, Clock, ContentHash, DecidedBy, Effect, FailureReason, Grant, Host, IdSource,
    QuestionId, Session, SessionId, ToolError, Verdict, id,
};

pub(crate) struct Broker {
    approvals: Desk<Approval>,
    questions: Desk<QuestionRequest>,
    attendants: Arc<Attendants>,
    settings: Settings,
    host: Arc<dyn Host>,
    ids: Arc<dyn IdSource>,
    /// The approvals that calls of this process wait for.
    shared: Lock<HashMap<ApprovalId, Shared>>,
}

/// The settings of asking people.
pub(crate) struct Settings {
    pub(crate) approvals: Option<Arc<dyn Book<Approval>>>,
    pub(crate) questions: Option<Arc<dyn Book<QuestionRequest>>>,
    /// Attendants of all sessions.
    pub(crate) attendants: Vec<Arc<dyn Attendant>>,
    /// A person agreed to everything in advance.
    pub(crate) is_beforehand: bool,
    /// The time in which a question has to be answered.
    pub(crate) expire_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            approvals: None,
            questions: None,
            attendants: Vec::new(),
            is_beforehand: false,
            expire_after: EXPIRES_AFTER,
        }
    }
}

/// An approval that other calls of the same session, which ask the very same, may share.
struct Shared {
    subject: ContentHash,
    session: SessionId,
    waited: watch::Sender<Option<Waited<Approval>>>,
}

/// A call's part in an approval.
enum Part<'a> {
    /// It asks.
    Asks(Asks<'a>),
    /// Another call has asked the same.
    Shares(watch::Receiver<Option<Waited<Approval>>>),
}

/// The call that asks. When it goes away, the next one that shares the approval asks.
struct Asks<'a> {
    broker: &'a Broker,
    id: ApprovalId,
}

/// The permission that a person's yes gives.
#[derive(Debug)]
pub(crate) enum Permission {
    /// The right to run, and what the person wants the model to know.
    Granted(Grant, Option<String>),
    /// The call may run with other arguments, after a decision about them.
    Edited(Box<Approval>),
}

impl Broker {
    pub(crate) fn new(
        mut settings: Settings,
        host: Arc<dyn Host>,
        ids: Arc<dyn IdSource>,
        recorder: Arc<Recorder>,
    ) -> Self {
        let attendants = Arc::<Attendants>::default();
        for attendant in settings.attendants.drain(..) {
            attendants.add(None, attendant);
        }
        let (approvals, questions) = (recorder.clone(), recorder);
        let on_approval = move |approval: &Approval| approvals.approval_answered(approval);
        let on_questions = move |request: &QuestionRequest| questions.question_answered(request);
        let (approval_book, question_book) = (settings.approvals.take(), settings.questions.take());
        Self {
            approvals: Desk::new(approval_book, host.clone(), Box::new(on_approval)),
            questions: Desk::new(question_book, host.clone(), Box::new(on_questions)),
            attendants,
            settings,
            host,
            ids,
            shared: Lock::default(),
        }
    }

    pub(crate) fn next_approval(&self) -> ApprovalId {
        ApprovalId::new(id::mint('a', &*self.ids))
    }

    pub(crate) fn next_question(&self) -> QuestionId {
        QuestionId::new(id::mint('q', &*self.ids))
    }

    /// The time from which something that was asked can no longer be answered.
    pub(crate) fn expiry(&self, asked: SystemTime) -> SystemTime {
        let expires = asked.checked_add(self.settings.expire_after);
        expires.or_else(|| asked.checked_add(EXPIRES_AFTER)).unwrap_or(asked)
    }

    /// The approvals on record, the oldest first, without those that calls of this process have just taken back.
    pub(crate) async fn approvals(&self) -> Result<Vec<Approval>, String> {
        self.approvals.catch_up().await;
        self.approvals.list().await
    }

    /// The questions of tools on record, the oldest first.
    pub(crate) async fn questions(&self) -> Result<Vec<QuestionRequest>, String> {
        self.questions.catch_up().await;
        self.questions.list().await
    }

    /// Forgets an approval. Returns whether there was one.
    pub(crate) async fn revoke(&self, id: &ApprovalId) -> Result<bool, String> {
        self.approvals.remove(id.as_str()).await
    }

    /// Waits, for a short time at most, until the questions of calls that were stopped are taken back.
    pub(crate) async fn catch_up(&self) {
        self.approvals.catch_up().await;
        self.questions.catch_up().await;
    }

    /// Marks an approval as waited for once no other call waits for it or is made from it, in whichever process. Returns whether one
    /// did or was.
    pub(crate) async fn claim(&self, id: &ApprovalId) -> Result<(Held, bool), String> {
        self.approvals.claim(id.as_str()).await
    }

    /// Marks an approval as waited for, unless another one does.
    pub(crate) async fn try_claim(&self, id: &ApprovalId) -> Result<Option<Held>, String> {
        self.approvals.try_claim(id.as_str()).await
    }

    /// Puts the answer of an approval into the journal unless it is there.
    pub(crate) async fn journal_answer(&self, approval: &mut Approval) {
        self.approvals.journal(approval).await;
    }

    /// Registers an attendant for a session, or for all.
    pub(crate) fn attend(
        &self,
        session: Option<SessionId>,
        attendant: Arc<dyn Attendant>,
    ) -> Attendance {
        Attendance::new(&self.attendants, self.attendants.add(session, attendant))
    }

    /// Returns whether a person can be asked about the calls of a session.
    pub(crate) fn is_attended(&self, session: &Session) -> bool {
        !self.settings.is_beforehand && !self.attendants.of(session).is_empty()
    }

    /// Finds the answer that was given before. [`Broker::use_up`] has to follow before the call runs.
    pub(crate) async fn answered(
        &self,
        verdict: &Verdict,
        request: &ApprovalRequest,
    ) -> Option<Result<Permission, ToolError>> {
        let mut before = self.earlier(request).await?;
        self.approvals.journal(&mut before).await;
        let id = &before.id;
        if let Settled::Denied(why) = &before.settled {
            if before.scope == Scope::Once {
                // Of two that find it, both are denied.
                drop(self.approvals.remove(id.as_str()).await);
            }
            return Some(Err(verdict.denial(Some(&said_no(id, why)))));
        }
        Some(Ok(granted(verdict, &before, Some(before.scope))))
    }

    /// Finds an answer that was given before and counts, without waiting for the lock of the book. Nothing is used up.
    pub(crate) async fn earlier(&self, request: &ApprovalRequest) -> Option<Approval> {
        let asked = Asked::by(request, self.clock().now());
        let found = self.approvals.read(move |book| answers(book, &asked)).await.ok()?;
        let counts = |one: &Approval| one.scope == Scope::Once || request.can_be_remembered;
        found.into_iter().next().filter(counts)
    }

    /// Uses up the earlier answer that a grant comes from, if it comes from one: an answer that counts once goes away, and of one that
    /// is remembered the call of its question counts as made. A kill before this leaves the answer to be used; one after it does not.
    pub(crate) async fn use_up(&self, grant: &Grant) -> Result<(), ToolError> {
        let Some(DecidedBy::Approval { id, scope: Some(scope), .. }) = &grant.decided().settled_by
        else {
            return Ok(());
        };
        // In a box, since nearly no call has one, and each has to carry the room for it.
        match scope {
            Scope::Once => Box::pin(self.use_once(id)).await,
            Scope::Session | Scope::Project | Scope::Always => {
                used(id, Box::pin(self.mark_made(id)).await)
            }
        }
    }

    /// Uses up an answer that counts once.
    pub(crate) async fn use_once(&self, id: &ApprovalId) -> Result<(), ToolError> {
        used(id, self.approvals.remove(id.as_str()).await)
    }

    /// Uses up an answer about changes that are made now. The rules that it gave stay with the session.
    pub(crate) async fn use_up_held(&self, id: &ApprovalId) -> Result<(), String> {
        let id = id.clone();
        self.approvals.change(move |book| book.use_up(id.as_str())).await.map(drop)
    }

    /// Takes back an answer that could not be carried out, so that its question can be answered again. Returns whether it is there.
    pub(crate) async fn reopen(&self, id: &ApprovalId) -> Result<bool, String> {
        let id = id.clone();
        let reopen =
            move |book: &dyn Book<Approval>| book.update(id.as_str(), &mut Approval::reopen);
        self.approvals.change(reopen).await
    }

    /// Notes that the call of a remembered answer is made. Most are: that is found without waiting for the lock of the book.
    pub(crate) async fn mark_made(&self, id: &ApprovalId) -> Result<bool, String> {
        let all = self.approvals.list().await?;
        let Some(found) = all.into_iter().find(|one| one.id == *id) else { return Ok(false) };
        if found.input.is_none() {
            return Ok(true);
        }
        let id = id.clone();
        let mark =
            move |book: &dyn Book<Approval>| book.update(id.as_str(), &mut |one| one.input = None);
        self.approvals.change(mark).await
    }

    /// The right to run that an approval with other arguments gives, once these are decided on.
    pub(crate) fn grant_edited(verdict: &Verdict, approval: &Approval) -> Grant {
        verdict.grant_by_person(decided_by(approval, None))
    }

    /// Asks the attendants of a session. `announce` tells of the question once it is on record.
    pub(crate) async fn ask(
        &self,
        verdict: &Verdict,
        request: ApprovalRequest,
        session: &Session,
        announce: impl Fn(&Arc<ApprovalRequest>) + Sync,
    ) -> Result<Permission, ToolError> {
        if self.settings.is_beforehand {
            let grant = verdict.grant_by_person(DecidedBy::Beforehand);
            return Ok(Permission::Granted(grant, None));
        }
        if !self.is_attended(session) {
            return Err(verdict.denial(Some("nobody is there to ask")));
        }
        let request = Arc::new(request);
        let waited = loop {
            match self.part(&request) {
                Part::Asks(asks) => {
                    let waited = self.wait_for_approval(&request, session, &announce).await;
                    asks.tell(&waited);
                    break waited;
                }
                Part::Shares(mut receiver) => {
                    // If the call that asked goes away without an answer, or with a yes that counts once, the next one asks.
                    if let Ok(waited) = receiver.wait_for(Option::is_some).await
                        && let Some(waited) = waited.clone()
                        && !is_for_one_call(&waited)
                    {
                        break waited;
                    }
                    // The call that asked removes the question before it goes on.
                    while receiver.changed().await.is_ok() {}
                }
            }
        };
        self.conclude(verdict, session, waited)
    }

    /// Asks a set of questions, and returns the answer.
    pub(crate) async fn ask_questions(
        &self,
        request: QuestionRequest,
        session: &Session,
        announce: impl Fn(&Arc<QuestionRequest>) + Sync,
    ) -> Result<QuestionAnswer, ToolError> {
        if let Some(answer) = self.answered_before(&request).await {
            return Ok(answer);
        }
        if self.attendants.of(session).is_empty() {
            return Err(ToolError::failed("nobody is there to answer the question"));
        }
        let request = Arc::new(request);
        let asked = request.clone();
        let ask = move |one: Arc<Registered>| -> AskingOne<QuestionAnswer> {
            let request = asked.clone();
            Box::pin(async move { one.answer(&request).await })
        };
        let begin = self.begin(session, || announce(&request), ask);
        let arrivals = self.attendants.arrivals();
        let waited = self.questions.ask((*request).clone(), begin, arrivals).await;
        match waited {
            Waited::Answered(QuestionRequest { answer: Some(answer), .. }) => Ok(answer),
            Waited::Answered(_) | Waited::Withdrawn => {
                Err(ToolError::failed("the question was taken back"))
            }
            Waited::Unavailable(why) => {
                Err(ToolError::failed(format!("nobody answered the question: {}", why.join("; "))))
            }
            Waited::Expired => Err(ToolError::failed(format!(
                "nobody answered the question within {}",
                in_words(self.settings.expire_after)
            ))),
            Waited::Deferred(record) => Err(ToolError::denied(format!(
                "the question waits for a person's answer as {}; ask it again once it is answered",
                record.id
            ))
            .because(FailureReason::WaitsForQuestion(record.id))),
        }
    }

    /// An answer that came after the call that asked had ended. It is used up.
    async fn answered_before(&self, request: &QuestionRequest) -> Option<QuestionAnswer> {
        let (subject, now) = (request.subject(), self.clock().now());
        let answered = |one: &QuestionRequest| {
            one.state(now) == InquiryState::Answered && one.subject() == subject
        };
        let id = self.questions.list().await.ok()?.into_iter().find(answered)?.id;
        let taken = self.questions.change(move |book| book.take(id.as_str())).await;
        let mut taken = taken.ok()??;
        self.questions.journal(&mut taken).await;
        taken.answer
    }

    /// Writes an answer to an approval, and wakes the call that waits for it, in whichever process.
    pub(crate) async fn answer(&self, id: &ApprovalId, answer: Answer) -> Result<(), AnswerError> {
        self.approvals.answer(id.as_str(), answer).await
    }

    /// Writes an answer to a set of questions, and wakes the call that waits for it, in whichever process.
    pub(crate) async fn answer_questions(
        &self,
        id: &QuestionId,
        answer: QuestionAnswer,
    ) -> Result<(), AnswerError> {
        self.questions.answer(id.as_str(), answer).await
    }

    fn clock(&self) -> &dyn Clock {
        self.host.clock()
    }

    async fn wait_for_approval(
        &self,
        request: &Arc<ApprovalRequest>,
        session: &Session,
        announce: &(impl Fn(&Arc<ApprovalRequest>) + Sync),
    ) -> Waited<Approval> {
        let asked = request.clone();
        let ask = move |one: Arc<Registered>| -> AskingOne<Answer> {
            let request = asked.clone();
            Box::pin(async move {
                match one.approve(&request).await {
                    // What a command changed and cannot be held is dropped when its call ends.
                    Reply::Deferred if !request.can_wait => {
                        Reply::Unavailable("what it changed cannot wait for an answer".to_owned())
                    }
                    reply => reply,
                }
            })
        };
        let begin = self.begin(session, || announce(request), ask);
        let record = on_record(request, self.expiry(request.at));
        self.approvals.ask(record, begin, self.attendants.arrivals()).await
    }

    /// Asks each attendant of a session once, whenever it comes. What is asked is announced before.
    fn begin<A: Send + 'static>(
        &self,
        session: &Session,
        announce: impl FnOnce(),
        mut ask: impl FnMut(Arc<Registered>) -> AskingOne<A>,
    ) -> impl FnMut() -> Vec<AskingOne<A>> {
        let mut announce = Some(announce);
        let mut asked: Vec<Arc<Registered>> = Vec::new();
        move || {
            if let Some(announce) = announce.take() {
                announce();
            }
            let mut there = self.attendants.of(session);
            there.retain(|one| !asked.iter().any(|before| Arc::ptr_eq(before, one)));
            asked.extend(there.iter().cloned());
            there.into_iter().map(|one| contained(ask(one))).collect()
        }
    }

    fn part(&self, request: &ApprovalRequest) -> Part<'_> {
        let mut shared = self.shared.lock();
        let same = |one: &&Shared| one.subject == request.subject && one.session == request.session;
        if let Some(one) = shared.values().find(same) {
            return Part::Shares(one.waited.subscribe());
        }
        let (subject, session) = (request.subject, request.session.clone());
        let one = Shared { subject, session, waited: watch::Sender::new(None) };
        shared.insert(request.id.clone(), one);
        Part::Asks(Asks { broker: self, id: request.id.clone() })
    }

    fn conclude(
        &self,
        verdict: &Verdict,
        session: &Session,
        waited: Waited<Approval>,
    ) -> Result<Permission, ToolError> {
        let approval = match waited {
            Waited::Answered(approval) => approval,
            Waited::Deferred(approval) => return Err(self.deferred(verdict, &approval)),
            Waited::Unavailable(why) => return Err(verdict.denial(Some(&why.join("; ")))),
            Waited::Withdrawn => {
                return Err(
                    verdict.denial(Some("the question was answered or taken back elsewhere"))
                );
            }
            Waited::Expired => {
                let limit = in_words(self.settings.expire_after);
                return Err(verdict.denial(Some(&format!("nobody answered within {limit}"))));
            }
        };
        match approval.settled {
            Settled::Denied(why) => Err(verdict.denial(Some(&why))),
            Settled::Allowed if approval.edited.is_some() => {
                Ok(Permission::Edited(Box::new(approval)))
            }
            Settled::Allowed => {
                session.allow(&approval.rules);
                Ok(granted(verdict, &approval, None))
            }
            Settled::Pending => Err(verdict.denial(Some("nobody answered"))),
        }
    }

    fn deferred(&self, verdict: &Verdict, approval: &Approval) -> ToolError {
        let id = approval.id.clone();
        let limit = in_words(self.settings.expire_after);
        let remedy = verdict.remedy().map(|remedy| format!("\n{remedy}")).unwrap_or_default();
        let is_job = |effect: &Effect| matches!(effect, Effect::Exec(line) if line.is_job);
        let is_of_model =
            !approval.has_run && (approval.input.is_none() || verdict.effects().iter().any(is_job));
        let (yes, next) = if approval.has_run {
            ("keeps what its command has changed", "do not make it again before")
        } else if is_of_model {
            ("allows it", "make it again once a person has answered, and not before")
        } else {
            ("makes the call", "do not make it again before")
        };
        let hint = format!(
            "a person can answer within {limit}: `windlass policy approve {id}` {yes}; `windlass policy deny {id}` ends it; {next}{remedy}"
        );
        ToolError::denied(format!("{}: it waits for a person's answer as {id}", verdict.refusal()))
            .hint(hint)
            .because(FailureReason::WaitsForApproval(id))
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Asks<'_> {
    /// Tells those who share the approval.
    fn tell(&self, waited: &Waited<Approval>) {
        if let Some(shared) = self.broker.shared.lock().get(&self.id) {
            shared.waited.send_replace(Some(waited.clone()));
        }
    }
}

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.broker.shared.lock().remove(&self.id);
    }
}

/// Returns whether an answer is a yes to one call, and so to the call that asked alone.
fn is_for_one_call(waited: &Waited<Approval>) -> bool {
    matches!(waited, Waited::Answered(one) if one.settled == Settled::Allowed && one.scope == Scope::Once)
}

fn granted(verdict: &Verdict, approval: &Approval, scope: Option<Scope>) -> Permission {
    let grant = verdict.grant_by_person(decided_by(approval, scope));
    Permission::Granted(grant, approval.said())
}

fn decided_by(approval: &Approval, scope: Option<Scope>) -> DecidedBy {
    DecidedBy::Approval { id: approval.id.clone(), scope, who: approval.who.clone() }
}

/// An approval as it is written down.
fn on_record(request: &ApprovalRequest, expires: SystemTime) -> Approval {
    Approval {
        id: request.id.clone(),
        call: Some(request.call.clone()),
        subject: request.subject,
        settled: Settled::Pending,
        scope: Scope::Once,
        session: request.session.clone(),
        workspace: request.workspace.clone(),
        tool: request.tool.clone(),
        input: request.is_whole.then(|| request.input.clone()),
        shown: Some(request.in_short()),
        effects: request.effects.to_string(),
        rule: request.by.to_string(),
        at: request.at,
        asker: request.asker.clone(),
        directory: request.directory.clone(),
        expires: Some(expires),
        who: None,
        reason: None,
        edited: None,
        rights: Some(request.rights),
        denies: request.denies.clone(),
        offers: request.offers.clone(),
        rules: Vec::new(),
        has_run: request.has_run,
        call_subject: request.call_subject,
        can_be_remembered: request.can_be_remembered,
        made: request.made.clone(),
        is_journaled: false,
    }
}

/// The words of a no that was given before.
fn said_no(id: &ApprovalId, why: &str) -> String {
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("a person said no before, in {id}{why}")
}

/// The right to use an answer: one call has it.
fn used(id: &ApprovalId, is_used: Result<bool, String>) -> Result<(), ToolError> {
    match is_used {
        Ok(true) => Ok(()),
        Ok(false) => Err(ToolError::denied(format!(
            "not allowed: another call used the answer to {id}, or a person took it back"
        ))),
        Err(why) => {
            Err(ToolError::host_failed(format!("the answer to {id} cannot be used: {why}")))
        }
    }
}

/// A time in the largest unit that fits.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let (count, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

/// Contains a panic of an attendant: it then cannot ask, and the others can.
fn contained<A: Send + 'static>(asking: AskingOne<A>) -> AskingOne<A> {
    Box::pin(AssertUnwindSafe(asking).catch_unwind().map(|reply| {
        reply.unwrap_or_else(|_| Reply::Unavailable("the one who was to ask panicked".to_owned()))
    }))
}
