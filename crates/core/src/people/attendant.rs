//! Attendants: the front doors that can ask a person, and the sessions for which they are registered.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Answer, ApprovalRequest, AttendantReply, QuestionAnswer, QuestionRequest};
use crate::sync::Lock;
use crate::{BoxFuture, Session, SessionId};

/// A front door that can ask a person: a terminal, an MCP client, a web page, a callback of an embedding program.
///
/// A closure from request to `bool` is an attendant; it cannot answer questions of tools.
///
/// ```
/// use windlass_core::{Answer, ApprovalRequest, Attendant, BoxFuture, AttendantReply};
///
/// /// Allows calls that change nothing, and leaves the rest to a person who comes later.
/// struct Careful;
///
/// impl Attendant for Careful {
///     fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
///         let reply = if request.effects.only_reads() { AttendantReply::Answered(Answer::allow()) } else { AttendantReply::Deferred };
///         Box::pin(std::future::ready(reply))
///     }
/// }
/// ```
pub trait Attendant: Send + Sync + 'static {
    /// Asks a person to allow a call. The future is dropped when another attendant or process answers first.
    fn approve<'a>(&'a self, request: &'a ApprovalRequest)
    -> BoxFuture<'a, AttendantReply<Answer>>;

    /// Asks a person the questions of a tool. The default implementation cannot show questions.
    fn answer<'a>(
        &'a self,
        request: &'a QuestionRequest,
    ) -> BoxFuture<'a, AttendantReply<QuestionAnswer>> {
        let _ = request;
        let reply = AttendantReply::Unavailable("questions cannot be shown here".to_owned());
        Box::pin(std::future::ready(reply))
    }
}

impl<F: Fn(&ApprovalRequest) -> bool + Send + Sync + 'static> Attendant for F {
    fn approve<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, AttendantReply<Answer>> {
        let answer = if self(request) { Answer::allow() } else { Answer::deny("") };
        Box::pin(std::future::ready(AttendantReply::Answered(answer)))
    }
}

/// Attendant for people who see requests as events and answer through [`Engine::answer`](crate::Engine::answer), such as the users of
/// a web page. While it is registered, a person counts as available.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{Answer, EventKind, EventAttendant, Outcome, ToolCall};
/// # use windlass_core::{Effects, Engine, EffectKinds, Toolbox, testing::{EmptyHost, MockTool}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut tools = Toolbox::new();
/// # tools.add(MockTool::named("publish").with_effects(EffectKinds::WRITE, |_| Effects::write("index.html")))?;
/// # let engine = Engine::builder(Arc::new(EmptyHost::default())).toolbox(tools).build();
/// let session = engine.new_session();
/// let _attendance = engine.attend(session.id(), EventAttendant::default());
/// let mut events = engine.subscribe();
/// let (_, running) = engine.start(&session, ToolCall::new("publish", json!({})));
/// let EventKind::Approval(request) = events.next().await.kind else { panic!("the approval comes first") };
/// engine.answer(&request.id, Answer::deny("not today")).await?;
/// assert_eq!(running.await.outcome, Outcome::Denied);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct EventAttendant {
    /// The time after which it stops waiting for an answer. `None`: it waits until the question expires.
    pub patience: Option<Duration>,
}

impl EventAttendant {
    /// Waits for the set time and then replies that no answer came; forever if no time is set.
    async fn wait<A>(self) -> AttendantReply<A> {
        let Some(patience) = self.patience else { return std::future::pending().await };
        tokio::time::sleep(patience).await;
        AttendantReply::Unavailable(format!("no answer within {} s", patience.as_secs()))
    }
}

impl Attendant for EventAttendant {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
        Box::pin(self.wait())
    }

    fn answer<'a>(
        &'a self,
        _: &'a QuestionRequest,
    ) -> BoxFuture<'a, AttendantReply<QuestionAnswer>> {
        Box::pin(self.wait())
    }
}

/// All registered attendants of an engine.
#[derive(Default)]
pub(super) struct Attendants {
    registered: Lock<Vec<Arc<RegisteredAttendant>>>,
    /// Counts registrations, so that an open question also reaches attendants that come later.
    arrivals: watch::Sender<u64>,
}

/// One registered attendant, and the session whose people it reaches.
pub(super) struct RegisteredAttendant {
    attendant: Arc<dyn Attendant>,
    /// `None` for all sessions.
    session: Option<SessionId>,
    /// Cancelled when the attendant is unregistered.
    left: CancellationToken,
}

impl Attendants {
    /// Registers an attendant for a session, or for all.
    pub(super) fn add(
        &self,
        session: Option<SessionId>,
        attendant: Arc<dyn Attendant>,
    ) -> Arc<RegisteredAttendant> {
        let left = CancellationToken::new();
        let entry = Arc::new(RegisteredAttendant { attendant, session, left });
        self.registered.lock().push(entry.clone());
        self.arrivals.send_modify(|count| *count += 1);
        entry
    }

    /// Unregisters an attendant, which ends its open requests.
    fn remove(&self, registered: &Arc<RegisteredAttendant>) {
        registered.left.cancel();
        self.registered.lock().retain(|one| !Arc::ptr_eq(one, registered));
    }

    /// Returns the attendants for a session: its own, those of the sessions above it, and those of all sessions.
    pub(super) fn for_session(&self, session: &Session) -> Vec<Arc<RegisteredAttendant>> {
        let reaches = |one: &&Arc<RegisteredAttendant>| match &one.session {
            Some(id) => id == session.id() || session.ancestors().contains(id),
            None => true,
        };
        self.registered.lock().iter().filter(reaches).cloned().collect()
    }

    /// Returns a receiver that changes when an attendant is registered.
    pub(super) fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }
}

impl RegisteredAttendant {
    /// Asks for an approval, until the attendant is unregistered.
    pub(super) async fn approve(&self, request: &ApprovalRequest) -> AttendantReply<Answer> {
        self.unless_left(self.attendant.approve(request)).await
    }

    /// Asks questions, until the attendant is unregistered.
    pub(super) async fn answer(&self, request: &QuestionRequest) -> AttendantReply<QuestionAnswer> {
        self.unless_left(self.attendant.answer(request)).await
    }

    /// Waits for a reply. If the attendant is unregistered first, the reply is that the person has left.
    async fn unless_left<A>(
        &self,
        reply: impl Future<Output = AttendantReply<A>>,
    ) -> AttendantReply<A> {
        tokio::select! {
            biased;
            () = self.left.cancelled() => AttendantReply::Unavailable("the person who was asked has left".to_owned()),
            reply = reply => reply,
        }
    }
}

/// The registration of an attendant: it is asked until this is dropped.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{ApprovalRequest, AttendantRegistration, Engine, SessionId, testing::EmptyHost};
/// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
/// let yes = |_: &ApprovalRequest| true;
/// let attendance: AttendantRegistration = engine.attend(&SessionId::new("s1"), yes);
/// # drop(attendance);
/// ```
#[must_use = "the attendant leaves when this is dropped"]
pub struct AttendantRegistration {
    attendants: Weak<Attendants>,
    registered: Arc<RegisteredAttendant>,
}

impl AttendantRegistration {
    pub(super) fn new(attendants: &Arc<Attendants>, registered: Arc<RegisteredAttendant>) -> Self {
        Self { attendants: Arc::downgrade(attendants), registered }
    }
}

impl std::fmt::Debug for AttendantRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attendance")
            .field("session", &self.registered.session)
            .finish_non_exhaustive()
    }
}

impl Drop for AttendantRegistration {
    fn drop(&mut self) {
        if let Some(attendants) = self.attendants.upgrade() {
            attendants.remove(&self.registered);
        }
    }
}
