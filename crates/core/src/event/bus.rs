//! Delivers events to subscriptions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::Event;
use super::outbox::Outbox;
use crate::sync::Lock;
use crate::{CallId, SessionId};

/// Maximum waiting events of one listener above which output and progress are lost.
pub(super) const MAX_WAITING_EVENTS: usize = 1024;

/// Selects the events that a listener gets.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{EventFilter, ToolCall};
/// # use windlass_core::{Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("ping"))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let (mine, other) = (engine.new_session(), engine.new_session());
/// let mut events = engine.subscribe_to(EventFilter::session(mine.id()));
/// engine.call(&other, ToolCall::new("ping", json!({}))).await;
/// assert!(events.try_next().is_none());
/// engine.call(&mine, ToolCall::new("ping", json!({}))).await;
/// assert_eq!(events.next().await.session.as_ref(), Some(mine.id()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    target: FilterTarget,
    only_live: bool,
}

/// The session or call whose events are selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum FilterTarget {
    #[default]
    Everything,
    Session(SessionId),
    Call(CallId),
}

impl EventFilter {
    /// Selects all events.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects the events of a session and of the sessions below it, and those that concern all sessions.
    pub fn session(id: &SessionId) -> Self {
        Self { target: FilterTarget::Session(id.clone()), only_live: false }
    }

    /// Selects the events of one call.
    pub fn call(id: &CallId) -> Self {
        Self { target: FilterTarget::Call(id.clone()), only_live: false }
    }

    /// Restricts the filter to output and progress. These are not recorded, so such a listener does not cost the journal anything.
    #[must_use]
    pub fn only_live(self) -> Self {
        Self { only_live: true, ..self }
    }

    /// Returns whether the filter selects an event. `is_live` says that it is output or progress.
    fn wants(&self, event: &EventSubject<'_>, is_live: bool) -> bool {
        if self.only_live && !is_live {
            return false;
        }
        match &self.target {
            FilterTarget::Everything => true,
            FilterTarget::Session(id) => {
                event.session.is_none_or(|session| session == id || event.above.contains(id))
            }
            FilterTarget::Call(id) => event.call == Some(id),
        }
    }
}

/// The session and call of an event, by which filters select it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventSubject<'a> {
    pub(crate) session: Option<&'a SessionId>,
    /// The sessions above this session.
    pub(crate) above: &'a [SessionId],
    pub(crate) call: Option<&'a CallId>,
}

impl<'a> EventSubject<'a> {
    /// Returns the subject of an event of a session with these sessions above it.
    fn of(event: &'a Event, above: &'a [SessionId]) -> Self {
        Self { session: event.session.as_ref(), above, call: event.call.as_ref() }
    }
}

/// Delivers events to all listeners.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    listeners: Lock<Vec<Weak<Inbox>>>,
    /// The number of listeners, so that the usual case without any takes no lock.
    count: AtomicU64,
    /// The number of listeners that have ever subscribed.
    ever_subscribed: AtomicU64,
    pub(super) outbox: Outbox,
}

impl Bus {
    /// Adds a listener. It gets events from now on.
    pub(crate) fn subscribe(self: &Arc<Self>, filter: EventFilter) -> Subscription {
        let inbox =
            Arc::new(Inbox::new(filter, self.ever_subscribed.fetch_add(1, Ordering::AcqRel)));
        self.listeners.lock().push(Arc::downgrade(&inbox));
        self.count.fetch_add(1, Ordering::Release);
        Subscription { inbox, bus: self.clone() }
    }

    /// Returns whether there is any listener.
    fn has_listeners(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Returns whether a listener wants output and progress of this session and call.
    pub(crate) fn has_live_listener(&self, subject: &EventSubject<'_>) -> bool {
        self.is_wanted(subject, true)
    }

    /// Returns whether a listener wants the other events of this session and call.
    pub(crate) fn has_listener(&self, subject: &EventSubject<'_>) -> bool {
        self.is_wanted(subject, false)
    }

    /// Returns whether a listener wants such an event.
    fn is_wanted(&self, subject: &EventSubject<'_>, is_live: bool) -> bool {
        self.has_listeners() && self.any_interested(subject, is_live, |_| true)
    }

    /// Returns the number of the next listener. An event that waits to be published goes only to listeners with smaller numbers, which
    /// were there when it happened.
    pub(super) fn next_listener(&self) -> u64 {
        self.ever_subscribed.load(Ordering::Acquire)
    }

    /// Delivers an event to the listeners of an audience that want it and whose number is smaller than `listeners_before`.
    pub(super) fn publish(
        &self,
        event: &Event,
        above: &[SessionId],
        audience: Audience,
        listeners_before: u64,
    ) {
        self.any_interested(&EventSubject::of(event, above), event.kind.may_be_lost(), |inbox| {
            if audience.has(inbox) && inbox.number < listeners_before {
                inbox.push(event);
            }
            false
        });
    }

    /// Counts an event as lost for the listeners of an audience that wanted it.
    pub(super) fn count_lost(&self, event: &Event, above: &[SessionId], audience: Audience) {
        self.any_interested(&EventSubject::of(event, above), event.kind.may_be_lost(), |inbox| {
            if audience.has(inbox) {
                inbox.lost.fetch_add(1, Ordering::Relaxed);
            }
            false
        });
    }

    /// Calls `stop` for each listener that wants an event, until it returns true. Returns whether it did. Forgets listeners that were
    /// dropped.
    fn any_interested(
        &self,
        subject: &EventSubject<'_>,
        is_live: bool,
        mut stop: impl FnMut(&Inbox) -> bool,
    ) -> bool {
        let mut found = false;
        self.listeners.lock().retain(|listener| {
            let Some(inbox) = listener.upgrade() else { return false };
            // Held until the event is in the inbox, so that no event of another call comes in after the listener narrowed its filter.
            let filter = inbox.filter.lock();
            if !found && filter.wants(subject, is_live) {
                found = stop(&inbox);
            }
            true
        });
        found
    }
}

/// A part of the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// All listeners.
    Everyone,
    /// The listeners with a filter for only output and progress. For these, an event need not wait for those before it.
    OnlyLive,
    /// The listeners that are not [`Self::OnlyLive`].
    Others,
}

impl Audience {
    /// Returns whether a listener belongs to this audience.
    fn has(self, inbox: &Inbox) -> bool {
        match self {
            Self::Everyone => true,
            Self::OnlyLive => inbox.only_live,
            Self::Others => !inbox.only_live,
        }
    }
}

/// The queue of one listener.
#[derive(Debug)]
struct Inbox {
    /// The number of listeners that subscribed before this one.
    number: u64,
    only_live: bool,
    filter: Lock<EventFilter>,
    waiting: Lock<VecDeque<Event>>,
    /// The number of events that this listener lost because it was too slow.
    lost: AtomicU64,
    arrived: Notify,
}

impl Inbox {
    /// Makes an empty queue.
    fn new(filter: EventFilter, number: u64) -> Self {
        Self {
            number,
            only_live: filter.only_live,
            filter: Lock::new(filter),
            waiting: Lock::default(),
            lost: AtomicU64::new(0),
            arrived: Notify::new(),
        }
    }

    /// Adds an event. Counts output or progress as lost if too many events wait.
    fn push(&self, event: &Event) {
        let mut waiting = self.waiting.lock();
        if event.kind.may_be_lost() && waiting.len() >= MAX_WAITING_EVENTS {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(event.clone());
        drop(waiting);
        self.arrived.notify_one();
    }
}

/// A listener to events. It ends when it is dropped.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{EventKind, EventFilter, ToolCall};
/// # use windlass_core::{Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("ping"))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let session = engine.new_session();
/// let mut events = engine.subscribe_to(EventFilter::session(session.id()));
/// let (call, running) = engine.start(&session, ToolCall::new("ping", json!({})));
/// events.narrow_to(&call);
/// while !matches!(events.next().await.kind, EventKind::Finished(_)) {}
/// assert_eq!((running.await.call, events.lost()), (call, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Subscription {
    inbox: Arc<Inbox>,
    bus: Arc<Bus>,
}

impl Subscription {
    /// Waits for the next event and returns it.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.try_next() {
                return event;
            }
            self.inbox.arrived.notified().await;
        }
    }

    /// Returns the next event, if one is waiting.
    pub fn try_next(&mut self) -> Option<Event> {
        self.inbox.waiting.lock().pop_front()
    }

    /// Returns all events that have happened by now. Waits for those whose records are not safe yet.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use serde_json::json;
    /// use windlass_core::ToolCall;
    /// # use windlass_core::{Engine, Toolbox, testing::{EmptyHost, MockTool}};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), windlass_core::ToolboxError> {
    /// # let mut tools = Toolbox::new();
    /// # tools.add(MockTool::named("ping"))?;
    /// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
    /// let mut events = engine.subscribe();
    /// engine.call(&engine.new_session(), ToolCall::new("ping", json!({}))).await;
    /// let names: Vec<_> = events.drain().await.iter().map(|event| event.kind.name()).collect();
    /// assert_eq!(names, ["started", "finished"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drain(&mut self) -> Vec<Event> {
        self.bus.wait_until_published().await;
        self.inbox.waiting.lock().drain(..).collect()
    }

    /// Narrows the filter to one call. Drops waiting events of other calls. A listener that subscribes to the session before the call
    /// begins, and narrows once it has the id, misses nothing.
    pub fn narrow_to(&mut self, call: &CallId) {
        let mut filter = self.inbox.filter.lock();
        filter.target = FilterTarget::Call(call.clone());
        drop(filter);
        self.inbox.waiting.lock().retain(|event| event.call.as_ref() == Some(call));
    }

    /// Returns the number of events that this listener lost because it was too slow.
    pub fn lost(&self) -> u64 {
        self.inbox.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.bus.count.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::EventKind;

    fn event(session: Option<&str>, call: Option<&str>, kind: EventKind) -> Event {
        Event {
            seq: None,
            at: SystemTime::UNIX_EPOCH,
            session: session.map(SessionId::new),
            call: call.map(CallId::new),
            parent: None,
            kind,
        }
    }

    fn output(session: &str, call: &str) -> Event {
        event(Some(session), Some(call), EventKind::Output { delta: "x".into() })
    }

    fn warning(session: Option<&str>, call: Option<&str>) -> Event {
        event(session, call, EventKind::Warning { message: "kept".into() })
    }

    #[tokio::test]
    async fn slow_listener_loses_output_but_no_warning() {
        let bus = Arc::new(Bus::default());
        assert!(!bus.has_listeners());
        let mut slow = bus.subscribe(EventFilter::all());
        for _ in 0..MAX_WAITING_EVENTS + 10 {
            bus.publish(&output("s", "c1"), &[], Audience::Everyone, u64::MAX);
        }
        bus.publish(&warning(None, None), &[], Audience::Everyone, u64::MAX);
        assert_eq!(slow.lost(), 10);
        let mut last = slow.next().await;
        while let Some(event) = slow.try_next() {
            last = event;
        }
        assert_eq!(last.kind.name(), "warning");
        drop(slow);
        assert!(!bus.has_listeners());
    }

    #[test]
    fn each_filter_wants_its_own_events() {
        let (s, t) = (SessionId::new("s"), SessionId::new("t"));
        let c = CallId::new("c");
        let filters = [
            EventFilter::all(),
            EventFilter::session(&s),
            EventFilter::session(&t),
            EventFilter::call(&c),
            EventFilter::all().only_live(),
            EventFilter::call(&c).only_live(),
        ];
        for (event, above, wanted) in [
            (output("s", "c"), vec![], "yynyyy".to_owned()),
            (output("t", "d"), vec![s.clone()], "yyynyn".to_owned()),
            (output("u", "d"), vec![], "ynnnyn".to_owned()),
            (warning(None, None), vec![], "yyynnn".to_owned()),
            (warning(Some("s"), Some("c")), vec![], "yynynn".to_owned()),
        ] {
            let bus = Arc::new(Bus::default());
            let mut all: Vec<_> = filters.iter().map(|one| bus.subscribe(one.clone())).collect();
            bus.publish(&event, &above, Audience::Everyone, u64::MAX);
            let got: String = all
                .iter_mut()
                .map(|one| if one.try_next().is_some() { 'y' } else { 'n' })
                .collect();
            assert_eq!(got, wanted, "{event:?}");
        }
    }

    #[test]
    fn narrowed_listener_keeps_waiting_events_of_its_call() {
        let bus = Arc::new(Bus::default());
        let mut one = bus.subscribe(EventFilter::session(&SessionId::new("s")));
        bus.publish(&output("s", "c"), &[], Audience::Everyone, u64::MAX);
        bus.publish(&output("s", "d"), &[], Audience::Everyone, u64::MAX);
        one.narrow_to(&CallId::new("c"));
        bus.publish(&output("s", "d"), &[], Audience::Everyone, u64::MAX);
        assert!(one.try_next().is_some_and(|event| event.call == Some(CallId::new("c"))));
        assert!(one.try_next().is_none());
    }
}
