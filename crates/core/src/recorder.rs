//! Puts on record what happens, and tells it once it is safe.
//!
//! Appending a record and putting its event in the line are one step, so that events come in the order of the numbers of their
//! records. Without a listener, an event is not made at all.

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt as _;
use serde::Serialize;

use crate::event::{Bus, Place, Written};
use crate::sync::Lock;
use crate::{
    Approval, ApprovalAnswered, ApprovalAsked, ApprovalRequest, BoxFuture, CallId, Event,
    EventKind, Host, Journal, JournalError, QuestionAnswered, QuestionAsked, QuestionRequest,
    Receipt, Record, RecordKind, Secrets, Session, SessionId, SessionNote, StateNote, TurnId,
};

/// Writes to the journal and tells the listeners.
pub(crate) struct Recorder {
    journal: Option<Arc<dyn Journal>>,
    bus: Arc<Bus>,
    host: Arc<dyn Host>,
    secrets: Arc<Secrets>,
    /// Held while a record is appended and its event put in the line.
    order: Lock<()>,
}

/// The source of an event.
#[derive(Debug, Clone)]
pub(crate) struct EventSource {
    pub(crate) session: Option<SessionId>,
    /// The sessions above it, whose listeners hear of it too.
    pub(crate) above: Arc<[SessionId]>,
    pub(crate) call: Option<CallId>,
    pub(crate) parent: Option<CallId>,
}

impl EventSource {
    /// No session in particular.
    pub(crate) fn engine() -> Self {
        Self { session: None, above: Arc::default(), call: None, parent: None }
    }

    /// A session.
    pub(crate) fn session(session: &Session) -> Self {
        Self {
            session: Some(session.id().clone()),
            above: session.ancestors().clone(),
            call: None,
            parent: None,
        }
    }

    /// A call of a session.
    pub(crate) fn call(session: &Session, call: &CallId, parent: Option<CallId>) -> Self {
        Self { call: Some(call.clone()), parent, ..Self::session(session) }
    }

    fn place(&self) -> Place<'_> {
        Place { session: self.session.as_ref(), above: &self.above, call: self.call.as_ref() }
    }
}

/// A record that was appended.
pub(crate) enum Appended {
    /// Nothing listens, so only the caller waits for it.
    Alone(BoxFuture<'static, Result<Receipt, JournalError>>),
    /// Its event waits for it, too.
    Heard(Written),
}

impl Appended {
    /// Waits until the record is safe.
    pub(crate) async fn safe(self) -> Result<(), JournalError> {
        match self {
            Self::Alone(writing) => writing.await.map(drop),
            Self::Heard(written) => written.await.map(drop),
        }
    }
}

impl Recorder {
    pub(crate) fn new(
        journal: Option<Arc<dyn Journal>>,
        host: Arc<dyn Host>,
        secrets: Arc<Secrets>,
    ) -> Self {
        Self { journal, bus: Arc::default(), host, secrets, order: Lock::default() }
    }

    /// A recorder that writes nothing and that nothing listens to.
    pub(crate) fn silent(&self) -> Self {
        Self::new(None, self.host.clone(), self.secrets.clone())
    }

    pub(crate) fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    pub(crate) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Returns whether anything of what happens here is recorded or listened to.
    pub(crate) fn concerns(&self, source: &EventSource) -> bool {
        self.journal.is_some() || self.bus.hears(&source.place())
    }

    /// Returns whether output and progress of a call are listened to.
    pub(crate) fn hears_live(&self, session: &Session, call: &CallId) -> bool {
        let (session, above) = (Some(session.id()), &**session.ancestors());
        self.bus.hears_live(&Place { session, above, call: Some(call) })
    }

    /// Appends a record, and puts its event in the line. `after` is a record that has to be safe before, besides this one. The event
    /// is published by [`Recorder::move_on`] or [`Recorder::leave_to_pump`].
    pub(crate) fn append(
        &self,
        record: Record,
        after: Option<Appended>,
        source: &EventSource,
        event: impl FnOnce() -> EventKind,
    ) -> Option<Appended> {
        let Some(journal) = &self.journal else {
            self.tell(source, event);
            return None;
        };
        if !self.bus.hears(&source.place()) {
            return Some(Appended::Alone(both(after, journal.append(record))));
        }
        let event = event_at(record.at, source, event());
        let _order = self.order.lock();
        let written = both(after, journal.append(record)).shared();
        self.bus.publish_recorded(event, source.above.clone(), written.clone());
        Some(Appended::Heard(written))
    }

    /// Appends a record that no event tells of.
    pub(crate) fn append_untold(&self, record: Record) -> Option<Appended> {
        Some(Appended::Alone(self.journal.as_ref()?.append(record)))
    }

    /// Tells something that is not on record.
    pub(crate) fn tell(&self, source: &EventSource, event: impl FnOnce() -> EventKind) {
        if self.bus.hears(&source.place()) {
            self.bus.publish_unrecorded(&event_at(self.now(), source, event()), &source.above);
        }
    }

    /// Tells output or progress of a call, to those who listen.
    pub(crate) fn tell_live(&self, source: &EventSource, kind: EventKind) {
        self.bus.publish_unrecorded(&event_at(self.now(), source, kind), &source.above);
    }

    /// Publishes the events whose records are safe.
    pub(crate) fn move_on(&self) {
        self.bus.move_on();
    }

    /// Has events published when their records are safe, without looking now.
    pub(crate) fn leave_to_pump(&self, appended: Option<&Appended>) {
        if let Some(Appended::Heard(_)) = appended {
            self.bus.leave_to_pump();
        }
    }

    /// Records and tells that a person is asked whether a call may run.
    pub(crate) fn approval_asked(&self, request: &Arc<ApprovalRequest>, source: &EventSource) {
        let (kind, body) = (RecordKind::Approval, ApprovalAsked::of(request));
        let event = || EventKind::Approval(request.clone());
        self.note_later(kind, &request.tool, &body, source, event);
    }

    /// Records and tells the answer of a person to an approval.
    pub(crate) fn approval_answered(&self, approval: &Approval) -> BoxFuture<'static, bool> {
        let body = ApprovalAnswered::of(approval, &self.secrets);
        let source = EventSource {
            session: Some(approval.session.clone()),
            above: approval.asker.parent.iter().cloned().collect(),
            call: approval.call.clone(),
            parent: None,
        };
        let kind = RecordKind::ApprovalAnswered;
        let event = || EventKind::ApprovalAnswered(Arc::new(body.clone()));
        self.note_safely(kind, &approval.tool, &body, &source, event)
    }

    /// Records and tells that a tool asks a person something.
    pub(crate) fn question_asked(&self, request: &Arc<QuestionRequest>, source: &EventSource) {
        let (kind, body) = (RecordKind::Question, QuestionAsked::of(request));
        let event = || EventKind::Question(request.clone());
        self.note_later(kind, &request.tool, &body, source, event);
    }

    /// Records and tells the answer of a person to questions.
    pub(crate) fn question_answered(&self, request: &QuestionRequest) -> BoxFuture<'static, bool> {
        let Some(body) = QuestionAnswered::of(request, &self.secrets) else {
            return Box::pin(std::future::ready(true));
        };
        let source = EventSource {
            session: Some(request.session.clone()),
            above: request.asker.parent.iter().cloned().collect(),
            call: Some(request.call.clone()),
            parent: None,
        };
        let kind = RecordKind::QuestionAnswered;
        let event = || EventKind::QuestionAnswered(Arc::new(body.clone()));
        self.note_safely(kind, &request.tool, &body, &source, event)
    }

    /// Records and tells that a call changed a value that lasts.
    pub(crate) fn state_changed(&self, tool: &str, note: &StateNote, source: &EventSource) {
        let event = || EventKind::State(Arc::new(note.clone()));
        self.note_later(RecordKind::State, tool, note, source, event);
    }

    /// Records and tells something that the engine does not itself produce; waits until it is safe.
    pub(crate) async fn note(
        &self,
        session: &Session,
        note: SessionNote,
    ) -> Result<(), JournalError> {
        let note = note.redacted(&self.secrets);
        let source = EventSource { call: note.call().cloned(), ..EventSource::session(session) };
        let turn = note.turn().cloned();
        let record = self.record(note.kind(), turn, "", &note, &source);
        let appended = self.append(record, None, &source, || note.into());
        let safe = match appended {
            Some(appended) => appended.safe().await,
            None => Ok(()),
        };
        self.move_on();
        safe
    }

    /// Records and tells something. The future returns whether it is safe.
    fn note_safely(
        &self,
        kind: RecordKind,
        tool: &str,
        body: &impl Serialize,
        source: &EventSource,
        event: impl FnOnce() -> EventKind,
    ) -> BoxFuture<'static, bool> {
        let record = self.record(kind, None, tool, body, source);
        let appended = self.append(record, None, source, event);
        let bus = self.bus.clone();
        Box::pin(async move {
            let Some(appended) = appended else { return true };
            let is_safe = appended.safe().await.is_ok();
            bus.move_on();
            is_safe
        })
    }

    /// Records and tells something without waiting for it.
    fn note_later(
        &self,
        kind: RecordKind,
        tool: &str,
        body: &impl Serialize,
        source: &EventSource,
        event: impl FnOnce() -> EventKind,
    ) {
        let record = self.record(kind, None, tool, body, source);
        match self.append(record, None, source, event) {
            // One look writes it in most journals. A record that is not waited for is written in any case.
            Some(Appended::Alone(writing)) => drop(writing.now_or_never()),
            Some(Appended::Heard(_)) => self.move_on(),
            None => {}
        }
    }

    fn record(
        &self,
        kind: RecordKind,
        turn: Option<TurnId>,
        tool: &str,
        body: &impl Serialize,
        source: &EventSource,
    ) -> Record {
        Record {
            at: self.now(),
            session: source.session.clone().unwrap_or_else(|| SessionId::new("")),
            turn: turn.unwrap_or_else(|| TurnId::new("")),
            call: CallId::new(""),
            tool: tool.to_owned(),
            kind,
            body: text(body),
        }
    }

    fn now(&self) -> SystemTime {
        self.host.clock().now()
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

fn event_at(at: SystemTime, source: &EventSource, kind: EventKind) -> Event {
    let EventSource { session, call, parent, .. } = source.clone();
    Event { seq: None, at, session, call, parent, kind }
}

/// A record that is safe when another one is, too.
fn both(
    before: Option<Appended>,
    writing: BoxFuture<'static, Result<Receipt, JournalError>>,
) -> BoxFuture<'static, Result<Receipt, JournalError>> {
    match before {
        None => writing,
        Some(before) => Box::pin(async move {
            before.safe().await?;
            writing.await
        }),
    }
}

/// The room that most bodies need: one that grows is copied each time.
const USUAL_BODY: usize = 1000;

/// A body as it is stored. Bodies are maps with keys of text: there is nothing in them that cannot be written as JSON.
pub(crate) fn text(body: &impl Serialize) -> String {
    let mut text = Vec::with_capacity(USUAL_BODY);
    let written = serde_json::to_writer(&mut text, body).ok();
    written.and_then(|()| String::from_utf8(text).ok()).unwrap_or_else(|| "{}".to_owned())
}
