//! Appends records to the journal, and publishes each event once its record is safe.
//!
//! Appending a record and queueing its event are one step, so that events come in the order of the numbers of their records. Without a
//! listener, no event is made.

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt as _;
use serde::Serialize;

use crate::event::{Bus, EventSubject, PendingReceipt};
use crate::sync::Lock;
use crate::{
    Approval, ApprovalAnswered, ApprovalAsked, ApprovalRequest, BoxFuture, CallId, Event,
    EventKind, Host, Journal, JournalError, QuestionAnswered, QuestionAsked, QuestionRequest,
    Record, RecordKind, RecordReceipt, Secrets, Session, SessionId, SessionNote, StateNote, TurnId,
};

/// Appends to the journal and publishes to the listeners.
pub(crate) struct Recorder {
    journal: Option<Arc<dyn Journal>>,
    bus: Arc<Bus>,
    host: Arc<dyn Host>,
    secrets: Arc<Secrets>,
    /// Held while a record is appended and its event is queued.
    order: Lock<()>,
}

/// The source of an event.
#[derive(Debug, Clone)]
pub(crate) struct EventSource {
    pub(crate) session: Option<SessionId>,
    /// The sessions above this one, whose listeners get the event too.
    pub(crate) above: Arc<[SessionId]>,
    pub(crate) call: Option<CallId>,
    pub(crate) parent: Option<CallId>,
}

impl EventSource {
    /// Makes the source of an event of no session.
    pub(crate) fn engine() -> Self {
        Self { session: None, above: Arc::default(), call: None, parent: None }
    }

    /// Makes the source of an event of a session.
    pub(crate) fn session(session: &Session) -> Self {
        Self {
            session: Some(session.id().clone()),
            above: session.ancestors().clone(),
            call: None,
            parent: None,
        }
    }

    /// Makes the source of an event of a call.
    pub(crate) fn call(session: &Session, call: &CallId, parent: Option<CallId>) -> Self {
        Self { call: Some(call.clone()), parent, ..Self::session(session) }
    }

    /// Returns the data by which filters select events.
    fn subject(&self) -> EventSubject<'_> {
        EventSubject {
            session: self.session.as_ref(),
            above: &self.above,
            call: self.call.as_ref(),
        }
    }
}

/// A record that was appended and may not be safe yet.
pub(crate) enum Appended {
    /// It has no event. Only the caller waits for it.
    WithoutEvent(BoxFuture<'static, Result<RecordReceipt, JournalError>>),
    /// It has an event, which waits for it too.
    WithEvent(PendingReceipt),
}

impl Appended {
    /// Waits until the record is safe, or fails.
    pub(crate) async fn safe(self) -> Result<(), JournalError> {
        match self {
            Self::WithoutEvent(writing) => writing.await.map(drop),
            Self::WithEvent(written) => written.await.map(drop),
        }
    }
}

impl Recorder {
    /// Makes a recorder without listeners. Without a journal it records nothing.
    pub(crate) fn new(
        journal: Option<Arc<dyn Journal>>,
        host: Arc<dyn Host>,
        secrets: Arc<Secrets>,
    ) -> Self {
        Self { journal, bus: Arc::default(), host, secrets, order: Lock::default() }
    }

    /// Makes a recorder without a journal and without listeners.
    pub(crate) fn silent(&self) -> Self {
        Self::new(None, self.host.clone(), self.secrets.clone())
    }

    pub(crate) fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    pub(crate) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Returns whether events of this source are recorded or have a listener.
    pub(crate) fn is_observed(&self, source: &EventSource) -> bool {
        self.journal.is_some() || self.bus.has_listener(&source.subject())
    }

    /// Returns whether output and progress of a call have a listener.
    pub(crate) fn has_live_listener(&self, session: &Session, call: &CallId) -> bool {
        let (session, above) = (Some(session.id()), &**session.ancestors());
        self.bus.has_live_listener(&EventSubject { session, above, call: Some(call) })
    }

    /// Appends a record and queues its event. The record counts as safe once `after` is safe too. The event is published after a call
    /// of [`Recorder::publish_ready`] or [`Recorder::start_pump`]. Returns `None` without a journal; the event is published at once then.
    pub(crate) fn append(
        &self,
        record: Record,
        after: Option<Appended>,
        source: &EventSource,
        event: impl FnOnce() -> EventKind,
    ) -> Option<Appended> {
        let Some(journal) = &self.journal else {
            self.publish(source, event);
            return None;
        };
        if !self.bus.has_listener(&source.subject()) {
            return Some(Appended::WithoutEvent(after_record(after, journal.append(record))));
        }
        let event = event_at(record.at, source, event());
        let _order = self.order.lock();
        let written = after_record(after, journal.append(record)).shared();
        self.bus.publish_recorded(event, source.above.clone(), written.clone());
        Some(Appended::WithEvent(written))
    }

    /// Appends a record that has no event. Returns `None` without a journal.
    pub(crate) fn append_without_event(&self, record: Record) -> Option<Appended> {
        Some(Appended::WithoutEvent(self.journal.as_ref()?.append(record)))
    }

    /// Publishes an event that has no record.
    pub(crate) fn publish(&self, source: &EventSource, event: impl FnOnce() -> EventKind) {
        if self.bus.has_listener(&source.subject()) {
            self.bus.publish_unrecorded(&event_at(self.now(), source, event()), &source.above);
        }
    }

    /// Publishes output or progress of a call. The caller has checked that there is a listener.
    pub(crate) fn publish_live(&self, source: &EventSource, kind: EventKind) {
        self.bus.publish_unrecorded(&event_at(self.now(), source, kind), &source.above);
    }

    /// Publishes the queued events whose records are safe.
    pub(crate) fn publish_ready(&self) {
        self.bus.publish_ready();
    }

    /// Has the event of an appended record published in the background once the record is safe.
    pub(crate) fn start_pump(&self, appended: Option<&Appended>) {
        if let Some(Appended::WithEvent(_)) = appended {
            self.bus.start_pump();
        }
    }

    /// Records and publishes that a person is asked for an approval.
    pub(crate) fn approval_asked(&self, request: &Arc<ApprovalRequest>, source: &EventSource) {
        let (kind, body) = (RecordKind::Approval, ApprovalAsked::of(request));
        let event = || EventKind::Approval(request.clone());
        self.record_in_background(kind, &request.tool, &body, source, event);
    }

    /// Records and publishes a person's answer to an approval. The future returns whether the record is safe.
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
        self.record_and_confirm(kind, &approval.tool, &body, &source, event)
    }

    /// Records and publishes that a tool asks a person questions.
    pub(crate) fn question_asked(&self, request: &Arc<QuestionRequest>, source: &EventSource) {
        let (kind, body) = (RecordKind::Question, QuestionAsked::of(request));
        let event = || EventKind::Question(request.clone());
        self.record_in_background(kind, &request.tool, &body, source, event);
    }

    /// Records and publishes a person's answer to questions. The future returns whether the record is safe.
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
        self.record_and_confirm(kind, &request.tool, &body, &source, event)
    }

    /// Records and publishes that a call changed a value of the state.
    pub(crate) fn state_changed(&self, tool: &str, note: &StateNote, source: &EventSource) {
        let event = || EventKind::State(Arc::new(note.clone()));
        self.record_in_background(RecordKind::State, tool, note, source, event);
    }

    /// Records and publishes a note of a front door or an agent. Waits until the record is safe.
    pub(crate) async fn note(
        &self,
        session: &Session,
        note: SessionNote,
    ) -> Result<(), JournalError> {
        let note = note.redacted(&self.secrets);
        let source = EventSource { call: note.call().cloned(), ..EventSource::session(session) };
        let turn = note.turn().cloned();
        let record = self.session_record(note.kind(), turn, "", &note, &source);
        let appended = self.append(record, None, &source, || note.into());
        let safe = match appended {
            Some(appended) => appended.safe().await,
            None => Ok(()),
        };
        self.publish_ready();
        safe
    }

    /// Records and publishes. The future returns whether the record is safe.
    fn record_and_confirm(
        &self,
        kind: RecordKind,
        tool: &str,
        body: &impl Serialize,
        source: &EventSource,
        event: impl FnOnce() -> EventKind,
    ) -> BoxFuture<'static, bool> {
        let record = self.session_record(kind, None, tool, body, source);
        let appended = self.append(record, None, source, event);
        let bus = self.bus.clone();
        Box::pin(async move {
            let Some(appended) = appended else { return true };
            let is_safe = appended.safe().await.is_ok();
            bus.publish_ready();
            is_safe
        })
    }

    /// Records and publishes without waiting until the record is safe.
    fn record_in_background(
        &self,
        kind: RecordKind,
        tool: &str,
        body: &impl Serialize,
        source: &EventSource,
        event: impl FnOnce() -> EventKind,
    ) {
        let record = self.session_record(kind, None, tool, body, source);
        match self.append(record, None, source, event) {
            // One poll writes it in most journals. The journal writes the record in any case.
            Some(Appended::WithoutEvent(writing)) => drop(writing.now_or_never()),
            Some(Appended::WithEvent(_)) => self.publish_ready(),
            None => {}
        }
    }

    /// Makes a record that belongs to a session and names no call.
    fn session_record(
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
            body: body_json(body),
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

/// Makes an event of a source. It gets the number of its record later.
fn event_at(at: SystemTime, source: &EventSource, kind: EventKind) -> Event {
    let EventSource { session, call, parent, .. } = source.clone();
    Event { seq: None, at, session, call, parent, kind }
}

/// Returns a future that ends when both records are safe.
fn after_record(
    before: Option<Appended>,
    writing: BoxFuture<'static, Result<RecordReceipt, JournalError>>,
) -> BoxFuture<'static, Result<RecordReceipt, JournalError>> {
    match before {
        None => writing,
        Some(before) => Box::pin(async move {
            before.safe().await?;
            writing.await
        }),
    }
}

/// Initial capacity of a body. Fits most bodies, so that they are not copied to grow.
const USUAL_BODY_BYTES: usize = 1000;

/// Serializes a body as JSON text, or as `{}` if that fails. Bodies are maps with text keys, which always can be written as JSON.
pub(crate) fn body_json(body: &impl Serialize) -> String {
    let mut text = Vec::with_capacity(USUAL_BODY_BYTES);
    let written = serde_json::to_writer(&mut text, body).ok();
    written.and_then(|()| String::from_utf8(text).ok()).unwrap_or_else(|| "{}".to_owned())
}
