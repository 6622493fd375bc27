//! Routes approvals and questions to the attendants of a session, and turns their answers into grants.

use super::BookError;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use tokio::sync::watch;

use super::attendant::{Attendants, RegisteredAttendant};
use super::desk::{AskFuture, Desk, WaitResult};
use super::record::{AnswerQuery, EXPIRES_AFTER, find_answers};
use super::{
    Answer, AnswerError, Approval, ApprovalRequest, ApprovalState, Attendant,
    AttendantRegistration, AttendantReply, Inquiry as _, InquiryBook, InquiryState, QuestionAnswer,
    QuestionRequest, Scope, WaitGuard,
};
use crate::recorder::Recorder;
use crate::sync::Lock;
use crate::{
    ApprovalId, Clock, ContentHash, DecidedBy, Effect, FailureReason, Grant, Host, IdSource,
    QuestionId, Session, SessionId, ToolError, Verdict, id,
};

/// Asks people about calls and tools' questions, and keeps the records of both.
pub(crate) struct Broker {
    approvals: Desk<Approval>,
    questions: Desk<QuestionRequest>,
    attendants: Arc<Attendants>,
    settings: Settings,
    host: Arc<dyn Host>,
    ids: Arc<dyn IdSource>,
    /// Approvals that calls of this process wait for.
    shared: Lock<HashMap<ApprovalId, SharedApproval>>,
    /// The version of the book in which no denial is remembered. Most books hold none, so that most calls look no further.
    without_denials: Lock<u64>,
}

/// Settings for asking people.
pub(crate) struct Settings {
    pub(crate) approvals: Option<Arc<dyn InquiryBook<Approval>>>,
    pub(crate) questions: Option<Arc<dyn InquiryBook<QuestionRequest>>>,
    /// Attendants of all sessions.
    pub(crate) attendants: Vec<Arc<dyn Attendant>>,
    /// True if a person approved everything in advance.
    pub(crate) is_beforehand: bool,
    /// Time in which a question has to be answered.
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

/// An open approval that other calls of the same session with the same subject share.
struct SharedApproval {
    subject: ContentHash,
    session: SessionId,
    result: watch::Sender<Option<WaitResult<Approval>>>,
}

/// Role of a call in an approval.
enum ApprovalRole<'a> {
    /// It asks the person.
    Asks(AskingCall<'a>),
    /// Another call already asks the same; this one waits for that answer.
    Shares(watch::Receiver<Option<WaitResult<Approval>>>),
}

/// The call that asks. When it is dropped, the next call that shares the approval asks.
struct AskingCall<'a> {
    broker: &'a Broker,
    id: ApprovalId,
}

/// The permission that a person's approval gives.
#[derive(Debug)]
pub(crate) enum Permission {
    /// The grant to run, and a note of the person for the model.
    Granted(Grant, Option<String>),
    /// The call may run with other arguments, after a decision about them.
    Edited(Box<Approval>),
}

impl Broker {
    /// Makes a broker with the books and attendants of the settings.
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
            without_denials: Lock::default(),
        }
    }

    /// Returns a new id for an approval.
    pub(crate) fn next_approval(&self) -> ApprovalId {
        ApprovalId::new(id::mint('a', &*self.ids))
    }

    /// Returns a new id for a set of questions.
    pub(crate) fn next_question(&self) -> QuestionId {
        QuestionId::new(id::mint('q', &*self.ids))
    }

    /// Returns the time after which a question that was asked at `asked` can no longer be answered.
    pub(crate) fn expiry(&self, asked: SystemTime) -> SystemTime {
        let expires = asked.checked_add(self.settings.expire_after);
        expires.or_else(|| asked.checked_add(EXPIRES_AFTER)).unwrap_or(asked)
    }

    /// Returns the time in which a question has to be answered, in words.
    pub(crate) fn answer_limit(&self) -> String {
        duration_words(self.settings.expire_after)
    }

    /// Returns the approvals on record, the oldest first, after recent withdrawals of this process are done.
    pub(crate) async fn approvals(&self) -> Result<Vec<Approval>, BookError> {
        self.approvals.catch_up().await;
        self.approvals.list().await
    }

    /// Returns the questions of tools on record, the oldest first.
    pub(crate) async fn questions(&self) -> Result<Vec<QuestionRequest>, BookError> {
        self.questions.catch_up().await;
        self.questions.list().await
    }

    /// Removes an approval. Returns whether there was one.
    pub(crate) async fn revoke(&self, id: &ApprovalId) -> Result<bool, BookError> {
        self.approvals.remove(id.as_str()).await
    }

    /// Waits, for a short time at most, until the questions of stopped calls are withdrawn.
    pub(crate) async fn catch_up(&self) {
        self.approvals.catch_up().await;
        self.questions.catch_up().await;
    }

    /// Claims an approval as soon as no other call, in any process, waits for it or is made from it. Returns the claim, and whether
    /// another call held it before.
    pub(crate) async fn claim(&self, id: &ApprovalId) -> Result<(WaitGuard, bool), BookError> {
        self.approvals.claim(id.as_str()).await
    }

    /// Claims an approval, or returns `None` if another call holds it.
    pub(crate) async fn try_claim(&self, id: &ApprovalId) -> Result<Option<WaitGuard>, BookError> {
        self.approvals.try_claim(id.as_str()).await
    }

    /// Writes the answer of an approval to the journal unless it is there.
    pub(crate) async fn journal_answer(&self, approval: &mut Approval) {
        self.approvals.journal(approval).await;
    }

    /// Registers an attendant for a session, or for all.
    pub(crate) fn attend(
        &self,
        session: Option<SessionId>,
        attendant: Arc<dyn Attendant>,
    ) -> AttendantRegistration {
        AttendantRegistration::new(&self.attendants, self.attendants.add(session, attendant))
    }

    /// Returns whether an attendant can be asked about the calls of a session; false if everything was approved in advance.
    pub(crate) fn is_attended(&self, session: &Session) -> bool {
        !self.settings.is_beforehand && !self.attendants.for_session(session).is_empty()
    }

    /// Returns the permission or denial of an earlier answer, if there is one, and records that answer in the journal. A denial that counts
    /// once is removed; after a permission, [`Broker::use_up`] must follow before the call runs.
    pub(crate) async fn use_earlier_answer(
        &self,
        verdict: &Verdict,
        request: &ApprovalRequest,
    ) -> Option<Result<Permission, ToolError>> {
        let mut before = self.find_earlier_answer(request).await?;
        self.approvals.journal(&mut before).await;
        let id = &before.id;
        if let ApprovalState::Denied(why) = &before.settled {
            if before.scope != Scope::Once {
                return Some(Err(denial_by_answer(verdict, &before)));
            }
            // If two calls find the answer at the same time, both are denied.
            drop(self.approvals.remove(id.as_str()).await);
            return Some(Err(verdict.denial(Some(&earlier_refusal(id, why)))));
        }
        Some(Ok(permission_of(verdict, &before, Some(before.scope))))
    }

    /// Finds an earlier answer that counts, without waiting for the lock of the book. Does not use it up.
    pub(crate) async fn find_earlier_answer(&self, request: &ApprovalRequest) -> Option<Approval> {
        let asked = AnswerQuery::by(request, self.clock().now());
        let found = self.approvals.read(move |book| find_answers(book, &asked)).await.ok()?;
        let counts = |one: &Approval| one.scope == Scope::Once || request.can_be_remembered;
        found.into_iter().next().filter(counts)
    }

    /// Returns whether no denial is remembered for any call. Cheap: the book is not read.
    pub(crate) fn has_no_denials(&self) -> bool {
        self.approvals.version() == *self.without_denials.lock()
    }

    /// Finds the remembered denial of a call that the rules or the mode allow: a person's no counts whatever they say by now.
    pub(crate) async fn find_denial(&self, request: &ApprovalRequest) -> Option<Approval> {
        let version = self.approvals.version();
        let all = self.approvals.list().await.ok()?;
        if !all.iter().any(Approval::is_remembered_no) {
            *self.without_denials.lock() = version;
            return None;
        }
        self.find_earlier_answer(request).await.filter(Approval::is_remembered_no)
    }

    /// Uses up the earlier answer that a grant comes from, if any: an answer that counts once is removed, and a remembered one notes that
    /// its call was made. If the process is killed before this, the answer is still there; if it is killed after, it is not.
    pub(crate) async fn use_up(&self, grant: &Grant) -> Result<(), ToolError> {
        let Some(DecidedBy::Approval { id, scope: Some(scope), .. }) = &grant.decided().settled_by
        else {
            return Ok(());
        };
        // Boxed, because few calls have one and each would have to reserve the room for the future.
        match scope {
            Scope::Once => Box::pin(self.use_once(id)).await,
            Scope::Session | Scope::Project | Scope::Always => {
                check_used(id, Box::pin(self.mark_made(id)).await)
            }
        }
    }

    /// Removes an answer that counts once. Fails if it is gone.
    pub(crate) async fn use_once(&self, id: &ApprovalId) -> Result<(), ToolError> {
        check_used(id, self.approvals.remove(id.as_str()).await)
    }

    /// Uses up an answer about changes that are now committed. The rules that it gave stay with the session.
    pub(crate) async fn use_up_held(&self, id: &ApprovalId) -> Result<(), BookError> {
        let id = id.clone();
        self.approvals.change(move |book| book.use_up(id.as_str())).await.map(drop)
    }

    /// Reopens an approval whose answer could not be carried out. Returns whether it is on record.
    pub(crate) async fn reopen(&self, id: &ApprovalId) -> Result<bool, BookError> {
        let id = id.clone();
        let reopen =
            move |book: &dyn InquiryBook<Approval>| book.update(id.as_str(), &mut Approval::reopen);
        self.approvals.change(reopen).await
    }

    /// Returns the record of a request without an answer, for [`Broker::open_again`].
    pub(crate) fn open_record(&self, request: &ApprovalRequest) -> Approval {
        new_record(request, self.expiry(request.at))
    }

    /// Puts an approval on record again, whose yes could not be carried out for the reason in `error`. Returns the error of the call: it
    /// says that the approval waits for another answer, if it does.
    pub(crate) async fn open_again(&self, record: Approval, error: ToolError) -> ToolError {
        let id = record.id.clone();
        let put = self.approvals.change(move |book| book.put(&record)).await;
        if put.is_err() {
            return error;
        }
        ToolError::failed(format!(
            "{}, so that the yes could not be carried out; it waits for another answer as {id}",
            error.message().text
        ))
        .hint(format!(
            "`windlass policy diff {id}` shows what the command found: put that back, then `windlass policy approve {id}` keeps what it \
             changed; `windlass policy deny {id}` drops it"
        ))
        .because(FailureReason::WaitsForApproval(id))
    }

    /// Notes that the call of a remembered answer was made, and returns whether the answer is on record. Usually it was noted before, which
    /// is found without waiting for the lock.
    pub(crate) async fn mark_made(&self, id: &ApprovalId) -> Result<bool, BookError> {
        let all = self.approvals.list().await?;
        let Some(found) = all.into_iter().find(|one| one.id == *id) else { return Ok(false) };
        if found.input.is_none() {
            return Ok(true);
        }
        let id = id.clone();
        let mark = move |book: &dyn InquiryBook<Approval>| {
            book.update(id.as_str(), &mut |one| one.input = None)
        };
        self.approvals.change(mark).await
    }

    /// Returns the grant of an approval with other arguments, after these were decided on.
    pub(crate) fn grant_edited(verdict: &Verdict, approval: &Approval) -> Grant {
        verdict.grant_by_person(decided_by(approval, None))
    }

    /// Asks the attendants of a session for an approval. `announce` publishes the request once it is on record. Grants without asking if
    /// everything was approved in advance, and fails without an attendant. Calls of the session with the same subject share one answer,
    /// unless it allows one call only.
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
            return Err(verdict.denial(Some("no person is available to ask")));
        }
        let request = Arc::new(request);
        let result = loop {
            match self.role_of_call(&request) {
                ApprovalRole::Asks(asking) => {
                    let result = self.wait_for_approval(&request, session, &announce).await;
                    asking.share_result(&result);
                    break result;
                }
                ApprovalRole::Shares(mut receiver) => {
                    // If the asking call is dropped without an answer, or with an approval that counts once, the next call asks.
                    if let Ok(result) = receiver.wait_for(Option::is_some).await
                        && let Some(result) = result.clone()
                        && !is_for_one_call(&result)
                    {
                        break result;
                    }
                    // The asking call removes the question before it goes on.
                    while receiver.changed().await.is_ok() {}
                }
            }
        };
        self.permission_from(verdict, session, result)
    }

    /// Asks a set of questions, and returns the answer.
    pub(crate) async fn ask_questions(
        &self,
        request: QuestionRequest,
        session: &Session,
        announce: impl Fn(&Arc<QuestionRequest>) + Sync,
    ) -> Result<QuestionAnswer, ToolError> {
        if let Some(answer) = self.take_earlier_answer(&request).await {
            return Ok(answer);
        }
        if self.attendants.for_session(session).is_empty() {
            return Err(ToolError::failed("no person is available to answer the question"));
        }
        let request = Arc::new(request);
        let asked = request.clone();
        let ask = move |one: Arc<RegisteredAttendant>| -> AskFuture<QuestionAnswer> {
            let request = asked.clone();
            Box::pin(async move { one.answer(&request).await })
        };
        let ask_new_attendants = self.ask_new_attendants(session, || announce(&request), ask);
        let arrivals = self.attendants.arrivals();
        let result = self.questions.ask((*request).clone(), ask_new_attendants, arrivals).await;
        match result {
            WaitResult::Answered(QuestionRequest { answer: Some(answer), .. }) => Ok(answer),
            WaitResult::Answered(_) | WaitResult::Withdrawn => {
                Err(ToolError::failed("the question was taken back"))
            }
            WaitResult::Unavailable(why) => Err(ToolError::failed(format!(
                "no person answered the question: {}",
                why.join("; ")
            ))),
            WaitResult::Expired => Err(ToolError::failed(format!(
                "no person answered the question within {}",
                duration_words(self.settings.expire_after)
            ))),
            WaitResult::Deferred(record) => Err(ToolError::denied(format!(
                "the question waits for a person's answer as {}; ask it again once it is answered",
                record.id
            ))
            .because(FailureReason::WaitsForQuestion(record.id))),
        }
    }

    /// Returns an answer that came after the call that asked had ended, and uses it up.
    async fn take_earlier_answer(&self, request: &QuestionRequest) -> Option<QuestionAnswer> {
        let (subject, now) = (request.subject(), self.clock().now());
        let use_earlier_answer = |one: &QuestionRequest| {
            one.state(now) == InquiryState::Answered && one.subject() == subject
        };
        let id = self.questions.list().await.ok()?.into_iter().find(use_earlier_answer)?.id;
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

    /// Puts an approval on record, asks the attendants, and waits for the first answer.
    async fn wait_for_approval(
        &self,
        request: &Arc<ApprovalRequest>,
        session: &Session,
        announce: &(impl Fn(&Arc<ApprovalRequest>) + Sync),
    ) -> WaitResult<Approval> {
        let asked = request.clone();
        let ask = move |one: Arc<RegisteredAttendant>| -> AskFuture<Answer> {
            let request = asked.clone();
            Box::pin(async move {
                match one.approve(&request).await {
                    // The changes of a command that cannot be held are dropped when its call ends.
                    AttendantReply::Deferred if !request.can_wait => AttendantReply::Unavailable(
                        "what it changed cannot wait for an answer".to_owned(),
                    ),
                    reply => reply,
                }
            })
        };
        let ask_new_attendants = self.ask_new_attendants(session, || announce(request), ask);
        let record = new_record(request, self.expiry(request.at));
        self.approvals.ask(record, ask_new_attendants, self.attendants.arrivals()).await
    }

    /// Returns a closure that asks each attendant of a session which has not been asked yet. Its first run announces the question.
    fn ask_new_attendants<A: Send + 'static>(
        &self,
        session: &Session,
        announce: impl FnOnce(),
        mut ask: impl FnMut(Arc<RegisteredAttendant>) -> AskFuture<A>,
    ) -> impl FnMut() -> Vec<AskFuture<A>> {
        let mut announce = Some(announce);
        let mut asked: Vec<Arc<RegisteredAttendant>> = Vec::new();
        move || {
            if let Some(announce) = announce.take() {
                announce();
            }
            let mut there = self.attendants.for_session(session);
            there.retain(|one| !asked.iter().any(|before| Arc::ptr_eq(before, one)));
            asked.extend(there.iter().cloned());
            there.into_iter().map(|one| catch_panic(ask(one))).collect()
        }
    }

    /// Returns the role of this call: it asks, or it shares the approval of a call that asks the same.
    fn role_of_call(&self, request: &ApprovalRequest) -> ApprovalRole<'_> {
        let mut shared = self.shared.lock();
        let same = |one: &&SharedApproval| {
            one.subject == request.subject && one.session == request.session
        };
        if let Some(one) = shared.values().find(same) {
            return ApprovalRole::Shares(one.result.subscribe());
        }
        let (subject, session) = (request.subject, request.session.clone());
        let one = SharedApproval { subject, session, result: watch::Sender::new(None) };
        shared.insert(request.id.clone(), one);
        ApprovalRole::Asks(AskingCall { broker: self, id: request.id.clone() })
    }

    /// Turns the end of waiting into a permission or a denial. Adds the rules that came with an answer to the session.
    fn permission_from(
        &self,
        verdict: &Verdict,
        session: &Session,
        result: WaitResult<Approval>,
    ) -> Result<Permission, ToolError> {
        let approval = match result {
            WaitResult::Answered(approval) => approval,
            WaitResult::Deferred(approval) => return Err(self.deferred_denial(verdict, &approval)),
            WaitResult::Unavailable(why) => return Err(verdict.denial(Some(&why.join("; ")))),
            WaitResult::Withdrawn => {
                return Err(
                    verdict.denial(Some("the question was answered or taken back elsewhere"))
                );
            }
            WaitResult::Expired => {
                let limit = self.answer_limit();
                return Err(verdict.denial(Some(&format!("no person answered within {limit}"))));
            }
        };
        match approval.settled {
            ApprovalState::Denied(why) => Err(verdict.denial(Some(&why))),
            ApprovalState::Allowed if approval.edited.is_some() => {
                Ok(Permission::Edited(Box::new(approval)))
            }
            ApprovalState::Allowed => {
                session.allow(&approval.rules);
                Ok(permission_of(verdict, &approval, None))
            }
            ApprovalState::Pending => Err(verdict.denial(Some("no person answered"))),
        }
    }

    /// Makes the denial of a call whose approval stays on record, with the commands to answer it.
    fn deferred_denial(&self, verdict: &Verdict, approval: &Approval) -> ToolError {
        let id = approval.id.clone();
        let limit = self.answer_limit();
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

impl AskingCall<'_> {
    /// Passes the result to the calls that share the approval.
    fn share_result(&self, result: &WaitResult<Approval>) {
        if let Some(shared) = self.broker.shared.lock().get(&self.id) {
            shared.result.send_replace(Some(result.clone()));
        }
    }
}

impl Drop for AskingCall<'_> {
    fn drop(&mut self) {
        self.broker.shared.lock().remove(&self.id);
    }
}

/// Returns whether an answer allows only the call that asked.
fn is_for_one_call(result: &WaitResult<Approval>) -> bool {
    matches!(result, WaitResult::Answered(one) if one.settled == ApprovalState::Allowed && one.scope == Scope::Once)
}

/// Returns the permission that an approval gives.
fn permission_of(verdict: &Verdict, approval: &Approval, scope: Option<Scope>) -> Permission {
    let grant = verdict.grant_by_person(decided_by(approval, scope));
    Permission::Granted(grant, approval.note_for_model())
}

/// Returns the approval as the cause of a decision.
pub(crate) fn decided_by(approval: &Approval, scope: Option<Scope>) -> DecidedBy {
    DecidedBy::Approval { id: approval.id.clone(), scope, who: approval.who.clone() }
}

/// Makes the record of a request.
fn new_record(request: &ApprovalRequest, expires: SystemTime) -> Approval {
    Approval {
        id: request.id.clone(),
        call: Some(request.call.clone()),
        subject: request.subject,
        settled: ApprovalState::Pending,
        scope: Scope::Once,
        session: request.session.clone(),
        workspace: request.workspace.clone(),
        tool: request.tool.clone(),
        input: request.is_whole.then(|| request.input.clone()),
        shown: Some(request.short_form()),
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
        ended: request.ended.clone(),
        call_subject: request.call_subject,
        can_be_remembered: request.can_be_remembered,
        made: request.made.clone(),
        is_journaled: false,
    }
}

/// Makes the denial by a remembered answer, with the command that forgets it. No rule and no mode would allow the call before.
pub(crate) fn denial_by_answer(verdict: &Verdict, denied: &Approval) -> ToolError {
    let ApprovalState::Denied(why) = &denied.settled else { return verdict.denial(None) };
    let id = &denied.id;
    let by = verdict.clone().denied_by(decided_by(denied, Some(denied.scope)));
    ToolError::denied(format!("{}: {}", by.refusal(), earlier_refusal(id, why)))
        .hint(format!("a person can take that back: `windlass policy revoke {id}`"))
}

/// Returns the reason of a denial by an earlier answer.
fn earlier_refusal(id: &ApprovalId, why: &str) -> String {
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("a person said no before, in {id}{why}")
}

/// Turns the result of using an answer up into an error if another call has it.
fn check_used(id: &ApprovalId, is_used: Result<bool, BookError>) -> Result<(), ToolError> {
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

/// Returns a time in the largest unit that fits.
fn duration_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let (count, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

/// Turns a panic of an attendant into the reply that it cannot ask, so that the others still can.
fn catch_panic<A: Send + 'static>(asking: AskFuture<A>) -> AskFuture<A> {
    Box::pin(AssertUnwindSafe(asking).catch_unwind().map(|reply| {
        reply.unwrap_or_else(|_| {
            AttendantReply::Unavailable("the attendant that was to ask panicked".to_owned())
        })
    }))
}
