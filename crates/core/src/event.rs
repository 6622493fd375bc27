//! What happens, told as it happens: typed, and free of any protocol.
//!
//! A slow listener never holds up a call. What a listener must not miss (questions, ends of calls) waits for it; of the rest
//! (output, progress) it may lose some, and is told how much.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::sync::Lock;
use crate::{
    ApprovalRequest, CallId, CallResult, Decided, Effects, QuestionRequest, SessionId,
    ToolsChanged, TurnId,
};

/// How many events that may be lost wait for one listener.
const BACKLOG: usize = 1024;

/// Something that happened.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Event, Output, ToolCall, testing::MockTool};
/// # use windlass_core::{Engine, Toolbox, testing::EmptyHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let greet = MockTool::named("greet").answering(|cx, _| async move {
///     cx.output("hello\n");
///     Ok(Output::text("hello\n"))
/// });
/// # let mut tools = Toolbox::new();
/// # tools.add(greet)?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let mut events = engine.subscribe();
/// engine.call(&engine.new_session(), ToolCall::new("greet", json!({}))).await;
/// let told = std::iter::from_fn(|| events.try_next()).map(|event| match event {
///     Event::Started(started) => format!("{} begins", started.tool),
///     Event::Output { delta, .. } => delta.trim_end().to_owned(),
///     Event::Finished(result) => format!("{} ends: {}", result.tool, result.outcome.as_str()),
///     other => format!("{other:?}"),
/// });
/// assert_eq!(told.collect::<Vec<_>>(), ["greet begins", "hello", "greet ends: ok"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub enum Event {
    /// A call passed the policy and begins.
    Started(Arc<Started>),
    /// A piece of output: what is new, never the whole again.
    Output {
        /// Of which call.
        call: CallId,
        /// The new text.
        delta: Arc<str>,
    },
    /// How far a call is.
    Progress {
        /// Of which call.
        call: CallId,
        /// How much is done.
        done: u64,
        /// Of how much, if known.
        total: Option<u64>,
        /// In words.
        message: Arc<str>,
    },
    /// A person is asked whether a call may run.
    Approval(Arc<ApprovalRequest>),
    /// A person is asked what a tool wants to know.
    Question(Arc<QuestionRequest>),
    /// Something that is not the fault of a call, for a person to know: a toolset that did not load.
    Warning {
        /// In words.
        message: Arc<str>,
    },
    /// The tools on offer changed: a front door that listed them lists them again.
    ToolsChanged(Arc<ToolsChanged>),
    /// The end of a call: exactly one for each.
    Finished(Arc<CallResult>),
}

/// A call that begins.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Event, ToolCall};
/// # use windlass_core::{Effects, Engine, Kinds, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("look").with_effects(Kinds::READ, |_| Effects::read("a.md")))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let mut events = engine.subscribe();
/// engine.call(&engine.new_session(), ToolCall::new("look", json!({}))).await;
/// let Event::Started(started) = events.next().await else { panic!("that comes first") };
/// assert_eq!(started.effects.to_string(), "read /w/a.md");
/// assert_eq!(started.decided.to_string(), "allowed by mode ask");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Started {
    /// Its id.
    pub call: CallId,
    /// Its session.
    pub session: SessionId,
    /// Its turn.
    pub turn: TurnId,
    /// The call that makes it, if another call does.
    pub parent_call: Option<CallId>,
    /// The tool.
    pub tool: String,
    /// The arguments as they will be used.
    pub input: serde_json::Value,
    /// What it will do, paths resolved.
    pub effects: Arc<Effects>,
    /// The decision that lets it run.
    pub decided: Decided,
}

impl Event {
    /// Which call it is about.
    pub fn call(&self) -> Option<&CallId> {
        match self {
            Self::Started(started) => Some(&started.call),
            Self::Output { call, .. } | Self::Progress { call, .. } => Some(call),
            Self::Approval(request) => Some(&request.call),
            Self::Question(request) => Some(&request.call),
            Self::Finished(result) => Some(&result.call),
            Self::Warning { .. } | Self::ToolsChanged(_) => None,
        }
    }

    fn may_be_lost(&self) -> bool {
        matches!(self, Self::Output { .. } | Self::Progress { .. })
    }
}

/// Tells every listener.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    listeners: Lock<Vec<Weak<Inbox>>>,
    /// So that the way without listeners, the usual one, takes no lock.
    count: AtomicU64,
}

impl Bus {
    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        let inbox = Arc::new(Inbox::default());
        self.listeners.lock().push(Arc::downgrade(&inbox));
        self.count.fetch_add(1, Ordering::Release);
        Subscription { inbox, bus: self.clone() }
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Hands the event to every listener.
    pub(crate) fn publish(&self, event: &Event) {
        if !self.is_heard() {
            return;
        }
        self.listeners.lock().retain(|listener| {
            let Some(inbox) = listener.upgrade() else { return false };
            inbox.put(event.clone());
            true
        });
    }
}

#[derive(Debug, Default)]
struct Inbox {
    waiting: Lock<VecDeque<Event>>,
    lost: AtomicU64,
    arrived: Notify,
}

impl Inbox {
    fn put(&self, event: Event) {
        let mut waiting = self.waiting.lock();
        if event.may_be_lost() && waiting.len() >= BACKLOG {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(event);
        drop(waiting);
        self.arrived.notify_one();
    }
}

/// One listener's view of the events; ends when it is dropped.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Event, ToolCall};
/// # use windlass_core::{Engine, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("ping"))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let mut events = engine.subscribe();
/// let (call, running) = engine.start(&engine.new_session(), ToolCall::new("ping", json!({})));
/// while !matches!(events.next().await, Event::Finished(result) if result.call == call) {}
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

    /// How many events this listener was too slow for.
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
    use super::*;

    #[tokio::test]
    async fn a_slow_listener_loses_output_but_never_a_question() {
        let bus = Arc::new(Bus::default());
        assert!(!bus.is_heard());
        let mut slow = bus.subscribe();
        let output = Event::Output { call: CallId::new("c1"), delta: "x".into() };
        for _ in 0..BACKLOG + 10 {
            bus.publish(&output);
        }
        bus.publish(&Event::Warning { message: "kept".into() });
        assert_eq!(slow.lost(), 10);
        let mut last = slow.next().await;
        while let Some(event) = slow.try_next() {
            last = event;
        }
        assert!(matches!(last, Event::Warning { .. }));
        drop(slow);
        assert!(!bus.is_heard());
    }
}
