//! Hands events to those who listen.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::Event;
use super::outbox::Outbox;
use crate::sync::Lock;
use crate::{CallId, SessionId};

/// The number of events that may be lost which wait for one listener.
pub(super) const BACKLOG: usize = 1024;

/// The events that a listener wants.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Filter, ToolCall};
/// # use windlass_core::{Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("ping"))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let (mine, other) = (engine.new_session(), engine.new_session());
/// let mut events = engine.subscribe_to(Filter::session(mine.id()));
/// engine.call(&other, ToolCall::new("ping", json!({}))).await;
/// assert!(events.try_next().is_none());
/// engine.call(&mine, ToolCall::new("ping", json!({}))).await;
/// assert_eq!(events.next().await.session.as_ref(), Some(mine.id()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    about: About,
    only_live: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum About {
    #[default]
    Everything,
    Session(SessionId),
    Call(CallId),
}

impl Filter {
    /// All events.
    pub fn all() -> Self {
        Self::default()
    }

    /// The events of a session and of the sessions below it, and those that concern all sessions.
    pub fn session(id: &SessionId) -> Self {
        Self { about: About::Session(id.clone()), only_live: false }
    }

    /// The events of one call.
    pub fn call(id: &CallId) -> Self {
        Self { about: About::Call(id.clone()), only_live: false }
    }

    /// Leaves only output and progress. These are not on record, so that such a listener costs the journal nothing.
    #[must_use]
    pub fn only_live(self) -> Self {
        Self { only_live: true, ..self }
    }

    fn wants(&self, event: &Place<'_>, is_live: bool) -> bool {
        if self.only_live && !is_live {
            return false;
        }
        match &self.about {
            About::Everything => true,
            About::Session(id) => {
                event.session.is_none_or(|session| session == id || event.above.contains(id))
            }
            About::Call(id) => event.call == Some(id),
        }
    }
}

/// The place of an event: what filters look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) session: Option<&'a SessionId>,
    /// The sessions above it.
    pub(crate) above: &'a [SessionId],
    pub(crate) call: Option<&'a CallId>,
}

impl<'a> Place<'a> {
    fn of(event: &'a Event, above: &'a [SessionId]) -> Self {
        Self { session: event.session.as_ref(), above, call: event.call.as_ref() }
    }
}

/// Tells every listener.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    listeners: Lock<Vec<Weak<Inbox>>>,
    /// The number of listeners, so that the way without any, the usual one, takes no lock.
    count: AtomicU64,
    /// The number of listeners that there ever were.
    came: AtomicU64,
    pub(super) outbox: Outbox,
}

impl Bus {
    pub(crate) fn subscribe(self: &Arc<Self>, filter: Filter) -> Subscription {
        let inbox = Arc::new(Inbox::new(filter, self.came.fetch_add(1, Ordering::AcqRel)));
        self.listeners.lock().push(Arc::downgrade(&inbox));
        self.count.fetch_add(1, Ordering::Release);
        Subscription { inbox, bus: self.clone() }
    }

    /// Returns whether anything is listened to.
    fn is_heard(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Returns whether output and progress from here are listened to.
    pub(crate) fn hears_live(&self, place: &Place<'_>) -> bool {
        self.is_wanted(place, true)
    }

    /// Returns whether what else happens here is listened to.
    pub(crate) fn hears(&self, place: &Place<'_>) -> bool {
        self.is_wanted(place, false)
    }

    fn is_wanted(&self, place: &Place<'_>, is_live: bool) -> bool {
        self.is_heard() && self.interested(place, is_live, |_| true)
    }

    /// The number of the next listener. An event that waits to be published is for those who were there when it happened.
    pub(super) fn next_listener(&self) -> u64 {
        self.came.load(Ordering::Acquire)
    }

    /// Hands the event to those of an audience who want it, and who listened before the listener of this number.
    pub(super) fn publish(
        &self,
        event: &Event,
        above: &[SessionId],
        audience: Audience,
        before: u64,
    ) {
        self.interested(&Place::of(event, above), event.kind.may_be_lost(), |inbox| {
            if audience.has(inbox) && inbox.number < before {
                inbox.put(event);
            }
            false
        });
    }

    /// Counts an event as lost for those of an audience who wanted it.
    pub(super) fn lose(&self, event: &Event, above: &[SessionId], audience: Audience) {
        self.interested(&Place::of(event, above), event.kind.may_be_lost(), |inbox| {
            if audience.has(inbox) {
                inbox.lost.fetch_add(1, Ordering::Relaxed);
            }
            false
        });
    }

    /// Goes through the listeners who want an event, until `stop` is true for one. Returns whether it was.
    fn interested(
        &self,
        place: &Place<'_>,
        is_live: bool,
        mut stop: impl FnMut(&Inbox) -> bool,
    ) -> bool {
        let mut found = false;
        self.listeners.lock().retain(|listener| {
            let Some(inbox) = listener.upgrade() else { return false };
            // Held until the event is in the inbox, so that none of another call comes in after the listener narrowed its filter.
            let filter = inbox.filter.lock();
            if !found && filter.wants(place, is_live) {
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
    /// All of them.
    Everyone,
    /// Those who listen to output and progress only, so that these need not wait for an event before them.
    OnlyLive,
    /// All but those.
    Others,
}

impl Audience {
    fn has(self, inbox: &Inbox) -> bool {
        match self {
            Self::Everyone => true,
            Self::OnlyLive => inbox.only_live,
            Self::Others => !inbox.only_live,
        }
    }
}

#[derive(Debug)]
struct Inbox {
    /// Its place in the order in which listeners came.
    number: u64,
    only_live: bool,
    filter: Lock<Filter>,
    waiting: Lock<VecDeque<Event>>,
    lost: AtomicU64,
    arrived: Notify,
}

impl Inbox {
    fn new(filter: Filter, number: u64) -> Self {
        Self {
            number,
            only_live: filter.only_live,
            filter: Lock::new(filter),
            waiting: Lock::default(),
            lost: AtomicU64::new(0),
            arrived: Notify::new(),
        }
    }

    fn put(&self, event: &Event) {
        let mut waiting = self.waiting.lock();
        if event.kind.may_be_lost() && waiting.len() >= BACKLOG {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(event.clone());
        drop(waiting);
        self.arrived.notify_one();
    }
}

/// One listener's view of the events; ends when it is dropped.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{EventKind, Filter, ToolCall};
/// # use windlass_core::{Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("ping"))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let session = engine.new_session();
/// let mut events = engine.subscribe_to(Filter::session(session.id()));
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
    /// The next event, as soon as there is one.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.try_next() {
                return event;
            }
            self.inbox.arrived.notified().await;
        }
    }

    /// The next event, if one is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        self.inbox.waiting.lock().pop_front()
    }

    /// All events that have happened by now, also those whose records are not safe yet: these are waited for.
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
        self.bus.caught_up().await;
        self.inbox.waiting.lock().drain(..).collect()
    }

    /// Listens to one call only from now on. Events of others that wait are dropped. A listener that subscribes to the session before
    /// the call begins, and narrows once it has the id, misses nothing.
    pub fn narrow_to(&mut self, call: &CallId) {
        let mut filter = self.inbox.filter.lock();
        filter.about = About::Call(call.clone());
        drop(filter);
        self.inbox.waiting.lock().retain(|event| event.call.as_ref() == Some(call));
    }

    /// The number of events that this listener was too slow for.
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
    async fn a_slow_listener_loses_output_but_never_a_question() {
        let bus = Arc::new(Bus::default());
        assert!(!bus.is_heard());
        let mut slow = bus.subscribe(Filter::all());
        for _ in 0..BACKLOG + 10 {
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
        assert!(!bus.is_heard());
    }

    #[test]
    fn each_filter_wants_its_own_events() {
        let (s, t) = (SessionId::new("s"), SessionId::new("t"));
        let c = CallId::new("c");
        let filters = [
            Filter::all(),
            Filter::session(&s),
            Filter::session(&t),
            Filter::call(&c),
            Filter::all().only_live(),
            Filter::call(&c).only_live(),
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
    fn a_listener_can_narrow_to_a_call_and_keeps_what_came_of_it() {
        let bus = Arc::new(Bus::default());
        let mut one = bus.subscribe(Filter::session(&SessionId::new("s")));
        bus.publish(&output("s", "c"), &[], Audience::Everyone, u64::MAX);
        bus.publish(&output("s", "d"), &[], Audience::Everyone, u64::MAX);
        one.narrow_to(&CallId::new("c"));
        bus.publish(&output("s", "d"), &[], Audience::Everyone, u64::MAX);
        assert!(one.try_next().is_some_and(|event| event.call == Some(CallId::new("c"))));
        assert!(one.try_next().is_none());
    }
}
