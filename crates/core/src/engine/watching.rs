//! Event subscriptions of an engine, and records that front doors add to those of calls.

use super::Engine;
use crate::{EventFilter, JournalError, Session, SessionNote, Subscription};

impl Engine {
    /// Subscribes to all events.
    pub fn subscribe(&self) -> Subscription {
        self.subscribe_to(EventFilter::all())
    }

    /// Subscribes to the events of a session or of a call.
    pub fn subscribe_to(&self, filter: EventFilter) -> Subscription {
        self.0.recorder.bus().subscribe(filter)
    }

    /// Adds a record that does not come from a call: a message, a request to a model, state, a task. Secrets are redacted. The record is
    /// safe and published as an event when the future ends.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use windlass_core::{Engine, EventKind, MessageNote, RecordKind, MessageAuthor};
    /// # use windlass_core::testing::{EmptyHost, MemoryJournal};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_core::JournalError> {
    /// # let journal = Arc::new(MemoryJournal::default());
    /// let engine = Engine::builder(Arc::new(EmptyHost::default())).journal(journal.clone()).build();
    /// let (session, mut events) = (engine.new_session(), engine.subscribe());
    /// engine.record(&session, MessageNote::new(MessageAuthor::Person, "make it green")).await?;
    /// assert_eq!(journal.records()[0].kind, RecordKind::Message);
    /// let event = events.next().await;
    /// assert_eq!((event.seq, event.kind.name()), (Some(1), "message"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn record(
        &self,
        session: &Session,
        note: impl Into<SessionNote>,
    ) -> Result<(), JournalError> {
        self.0.recorder.note(session, note.into()).await
    }
}
