//! The front doors where a person can be asked: which are there, and for which session.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Answer, ApprovalRequest, QuestionAnswer, QuestionRequest, Reply};
use crate::sync::Lock;
use crate::{BoxFuture, Session, SessionId};

/// A front door where a person can be asked: a terminal, an MCP client, a web page, an embedder's callback.
///
/// A closure from request to `bool` is one; it answers no questions of tools.
///
/// ```
/// use windlass_core::{Answer, ApprovalRequest, Attendant, BoxFuture, Reply};
///
/// /// Allows what changes nothing, and leaves the rest to a person who comes later.
/// struct Careful;
///
/// impl Attendant for Careful {
///     fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Reply<Answer>> {
///         let reply = if request.effects.only_reads() { Reply::Answered(Answer::allow()) } else { Reply::Deferred };
///         Box::pin(std::future::ready(reply))
///     }
/// }
/// ```
pub trait Attendant: Send + Sync + 'static {
    /// Asks whether a call may run. The future is dropped when another attendant, or another process, answers first.
    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Reply<Answer>>;

    /// Asks what a tool wants to know. Without an implementation, the attendant cannot show questions.
    fn answer<'a>(&'a self, request: &'a QuestionRequest) -> BoxFuture<'a, Reply<QuestionAnswer>> {
        let _ = request;
        let reply = Reply::Unavailable("questions cannot be shown here".to_owned());
        Box::pin(std::future::ready(reply))
    }
}

impl<F: Fn(&ApprovalRequest) -> bool + Send + Sync + 'static> Attendant for F {
    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Reply<Answer>> {
        let answer = if self(request) { Answer::allow() } else { Answer::deny("") };
        Box::pin(std::future::ready(Reply::Answered(answer)))
    }
}

/// Stands for people who hear of a question through the events and answer through [`Engine::answer`](crate::Engine::answer), such as
/// those at a web page. They count as there for as long as this is registered.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Answer, EventKind, Listening, Outcome, ToolCall};
/// # use windlass_core::{Effects, Engine, Kinds, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("publish").with_effects(Kinds::WRITE, |_| Effects::write("index.html")))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let session = engine.new_session();
/// let _there = engine.attend(session.id(), Listening::default());
/// let mut events = engine.subscribe();
/// let (_, running) = engine.start(&session, ToolCall::new("publish", json!({})));
/// let EventKind::Approval(request) = events.next().await.kind else { panic!("that comes first") };
/// engine.answer(&request.id, Answer::deny("not today")).await?;
/// assert_eq!(running.await.outcome, Outcome::Denied);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Listening {
    /// The time after which it no longer waits for an answer. `None`: until the question expires.
    pub patience: Option<Duration>,
}

impl Listening {
    async fn wait<A>(self) -> Reply<A> {
        let Some(patience) = self.patience else { return std::future::pending().await };
        tokio::time::sleep(patience).await;
        Reply::Unavailable(format!("no answer within {} s", patience.as_secs()))
    }
}

impl Attendant for Listening {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Reply<Answer>> {
        Box::pin(self.wait())
    }

    fn answer<'a>(&'a self, _: &'a QuestionRequest) -> BoxFuture<'a, Reply<QuestionAnswer>> {
        Box::pin(self.wait())
    }
}

/// The attendants of an engine.
#[derive(Default)]
pub(super) struct Attendants {
    there: Lock<Vec<Arc<Registered>>>,
    /// Counts arrivals, so that a question that is open reaches those who come later.
    arrivals: watch::Sender<u64>,
}

/// One attendant, and the session whose people it reaches.
pub(super) struct Registered {
    attendant: Arc<dyn Attendant>,
    /// `None` for all sessions.
    session: Option<SessionId>,
    left: CancellationToken,
}

impl Attendants {
    pub(super) fn add(
        &self,
        session: Option<SessionId>,
        attendant: Arc<dyn Attendant>,
    ) -> Arc<Registered> {
        let left = CancellationToken::new();
        let registered = Arc::new(Registered { attendant, session, left });
        self.there.lock().push(registered.clone());
        self.arrivals.send_modify(|count| *count += 1);
        registered
    }

    fn remove(&self, registered: &Arc<Registered>) {
        registered.left.cancel();
        self.there.lock().retain(|one| !Arc::ptr_eq(one, registered));
    }

    /// The attendants of a session: its own, those of the sessions above it, and those of all sessions.
    pub(super) fn of(&self, session: &Session) -> Vec<Arc<Registered>> {
        let reaches = |one: &&Arc<Registered>| match &one.session {
            Some(id) => id == session.id() || session.ancestors().contains(id),
            None => true,
        };
        self.there.lock().iter().filter(reaches).cloned().collect()
    }

    /// Tells of attendants that come from now on.
    pub(super) fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }
}

impl Registered {
    pub(super) async fn approve(&self, request: &ApprovalRequest) -> Reply<Answer> {
        self.unless_left(self.attendant.approve(request)).await
    }

    pub(super) async fn answer(&self, request: &QuestionRequest) -> Reply<QuestionAnswer> {
        self.unless_left(self.attendant.answer(request)).await
    }

    async fn unless_left<A>(&self, reply: impl Future<Output = Reply<A>>) -> Reply<A> {
        tokio::select! {
            biased;
            () = self.left.cancelled() => Reply::Unavailable("the person who was asked has left".to_owned()),
            reply = reply => reply,
        }
    }
}

/// The presence of an attendant: it is asked until this is dropped.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{ApprovalRequest, Attendance, Engine, SessionId, testing::EmptyHost};
/// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
/// let yes = |_: &ApprovalRequest| true;
/// let there: Attendance = engine.attend(&SessionId::new("s1"), yes);
/// # drop(there);
/// ```
#[must_use = "the attendant leaves when this is dropped"]
pub struct Attendance {
    attendants: Weak<Attendants>,
    registered: Arc<Registered>,
}

impl Attendance {
    pub(super) fn new(attendants: &Arc<Attendants>, registered: Arc<Registered>) -> Self {
        Self { attendants: Arc::downgrade(attendants), registered }
    }
}

impl std::fmt::Debug for Attendance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attendance")
            .field("session", &self.registered.session)
            .finish_non_exhaustive()
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        if let Some(attendants) = self.attendants.upgrade() {
            attendants.remove(&self.registered);
        }
    }
}
