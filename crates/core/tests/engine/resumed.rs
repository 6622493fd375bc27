//! Kills while the call of an answered approval is made: the next process makes the call, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use serde_json::json;
use windlass_core::testing::{MemoryJournal, MockTool};
use windlass_core::{
    Answer, AnswerError, Approval, ApprovalId, ApprovalRequest, Attendant, AttendantReply,
    BookError, BoxFuture, CallResult, EffectKinds, Effects, InquiryBook, Journal, JournalError,
    MemoryBook, Mode, Outcome, Output, Policy, Record, RecordKind, RecordReceipt, Scope, Session,
    SessionId, ToolCall, WaitGuard,
};

use crate::support::Setup;

/// Number of disk operations that a process makes before it is killed.
#[derive(Clone)]
struct RemainingSteps(Arc<AtomicUsize>);

impl RemainingSteps {
    fn of(steps: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(steps)))
    }

    /// Counts one operation; an error once the process is dead.
    fn step(&self) -> Result<(), BookError> {
        let left =
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| BookError("killed".to_owned()))
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

/// A book on the disk for a process that can be killed between two changes.
struct MortalBook(Arc<MemoryBook<Approval>>, RemainingSteps);

impl InquiryBook<Approval> for MortalBook {
    fn list(&self) -> Result<Vec<Approval>, BookError> {
        self.0.list()
    }
    fn put(&self, record: &Approval) -> Result<(), BookError> {
        self.1.step().and_then(|()| self.0.put(record))
    }
    fn write_answer(
        &self,
        id: &str,
        answer: Answer,
        now: SystemTime,
    ) -> Result<Approval, AnswerError> {
        self.1.step().map_err(AnswerError::Record)?;
        self.0.write_answer(id, answer, now)
    }
    fn take(&self, id: &str) -> Result<Option<Approval>, BookError> {
        self.1.step().and_then(|()| self.0.take(id))
    }
    fn update(&self, id: &str, change: &mut dyn FnMut(&mut Approval)) -> Result<bool, BookError> {
        self.1.step().and_then(|()| self.0.update(id, change))
    }
    fn version(&self) -> u64 {
        InquiryBook::<Approval>::version(&*self.0)
    }
    fn hold(&self, id: &str) -> Result<WaitGuard, BookError> {
        self.0.hold(id)
    }
    fn is_held(&self, id: &str) -> Result<bool, BookError> {
        self.0.is_held(id)
    }
    fn claim(&self, id: &str) -> Result<Option<WaitGuard>, BookError> {
        self.0.claim(id)
    }
}

/// A journal on the disk for a process that can be killed between two records.
struct MortalJournal(Arc<MemoryJournal>, RemainingSteps);

impl Journal for MortalJournal {
    fn append(&self, record: Record) -> BoxFuture<'static, Result<RecordReceipt, JournalError>> {
        match self.1.step() {
            Ok(()) => self.0.append(record),
            Err(why) => Box::pin(std::future::ready(Err(JournalError(why.to_string())))),
        }
    }
}

/// Leaves every decision to a person who comes later.
struct DeferEverything;

impl Attendant for DeferEverything {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
        Box::pin(std::future::ready(AttendantReply::Deferred))
    }
}

/// The disk of a machine, and the number of runs of its tool.
#[derive(Default)]
struct Disk {
    book: Arc<MemoryBook<Approval>>,
    journal: Arc<MemoryJournal>,
    runs: Arc<AtomicUsize>,
}

impl Disk {
    /// Starts a process on this disk with so many operations to live.
    fn process(&self, steps_left: &RemainingSteps) -> Setup {
        let (runs, alive) = (self.runs.clone(), steps_left.clone());
        let write = MockTool::named("write")
            .with_effects(EffectKinds::WRITE, |_| Effects::write("a"))
            .answering(move |_, _| {
                // A dead process runs nothing.
                runs.fetch_add(usize::from(!alive.is_over()), Ordering::SeqCst);
                async move { Ok(Output::text("written")) }
            });
        let book = Arc::new(MortalBook(self.book.clone(), steps_left.clone()));
        let journal = Arc::new(MortalJournal(self.journal.clone(), steps_left.clone()));
        Setup::with([write], move |builder| {
            let builder = builder.policy(Policy::new(Mode::Ask)).approval_book(book);
            builder.journal(journal).attendant(DeferEverything)
        })
        .in_session(Session::new(SessionId::new("s")))
    }

    /// Makes a call whose approval is deferred, and returns the id of the approval.
    async fn question(&self) -> ApprovalId {
        let asks = self.process(&RemainingSteps::of(100));
        let call = ToolCall::new("write", json!({"path": "a"})).with_id("toolu_1");
        let result = asks.engine.call(&asks.session, call).await;
        ApprovalId::new(result.output.metadata["approval"].as_str().unwrap())
    }

    /// Returns the number of recorded answers.
    fn answers(&self) -> usize {
        let is_answer = |one: &&Record| one.kind == RecordKind::ApprovalAnswered;
        self.journal.records().iter().filter(is_answer).count()
    }
}

/// Approves like `policy approve`: does not answer again if an answer is on record.
async fn approve(process: &Setup, id: &ApprovalId, answer: &Answer) -> Option<CallResult> {
    let (engine, session) = (&process.engine, &process.session);
    let now = engine.host().clock().now();
    let is_left = |one: &Approval| one.id == *id && one.can_be_resumed(now);
    let made = if engine.approvals().await.unwrap().iter().any(is_left) {
        engine.resume(session, id).await
    } else {
        engine.answer_and_resume(session, id, answer.clone()).await
    };
    made.ok().flatten()
}

#[tokio::test]
async fn call_runs_at_most_once_after_a_kill_at_any_step() {
    let answers = [
        Answer::allow(),
        Answer::allow_for(Scope::Session),
        Answer::allow_edited(json!({"path": "b"})),
    ];
    for answer in answers {
        let mut lost = 0;
        for steps in 0..12 {
            let disk = Disk::default();
            let id = disk.question().await;
            approve(&disk.process(&RemainingSteps::of(steps)), &id, &answer).await;
            let result = approve(&disk.process(&RemainingSteps::of(100)), &id, &answer).await;
            let case = format!("{answer:?}, killed after {steps} steps: {result:?}");
            if let Some(result) = result {
                assert_eq!(result.outcome, Outcome::Ok, "{case}");
                assert_eq!(result.tool_use_id.as_deref(), Some("toolu_1"), "{case}");
            }
            let runs = disk.runs.load(Ordering::SeqCst);
            assert!(runs <= 1, "{case}");
            lost += usize::from(runs == 0);
            assert!(disk.answers() >= 1, "{case}");
        }
        // Only a kill between the use of the answer and the run loses the call; its beginning is recorded then.
        assert!(lost <= 1, "{answer:?}: {lost} kills lose the call");
    }
}

#[tokio::test]
async fn denial_stays_a_denial_after_a_kill() {
    for steps in 0..6 {
        let disk = Disk::default();
        let id = disk.question().await;
        let no = Answer::deny("not now");
        approve(&disk.process(&RemainingSteps::of(steps)), &id, &no).await;
        approve(&disk.process(&RemainingSteps::of(100)), &id, &no).await;
        assert_eq!(disk.runs.load(Ordering::SeqCst), 0, "killed after {steps} steps");
        assert!(disk.book.list().unwrap().is_empty(), "killed after {steps} steps");
        assert!(disk.answers() >= 1, "killed after {steps} steps");
    }
}

#[tokio::test]
async fn concurrent_resumes_make_one_call() {
    let disk = Disk::default();
    let id = disk.question().await;
    let processes = [(); 8].map(|()| disk.process(&RemainingSteps::of(100)));
    processes[0].engine.answer(&id, Answer::allow()).await.unwrap();
    let resumed = processes.iter().map(|one| one.engine.resume(&one.session, &id));
    let results = futures_util::future::join_all(resumed).await;
    let is_made = |one: &Result<Option<CallResult>, _>| matches!(one, Ok(Some(_)));
    assert_eq!(results.into_iter().filter(is_made).count(), 1);
    assert_eq!((disk.runs.load(Ordering::SeqCst), disk.answers()), (1, 1));
}
