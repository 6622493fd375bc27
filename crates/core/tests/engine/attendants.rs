//! Attendants: the ones that are asked, the answer that counts, and questions that cannot be answered at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::testing::MockTool;
use windlass_core::{
    Answer, AnswerError, Approval, ApprovalRequest, Attendant, AttendantReply, BookError,
    BoxFuture, EffectKinds, Effects, EventAttendant, EventKind, Inquiry, InquiryBook, InquiryState,
    MemoryBook, Mode, Outcome, Output, Overrides, Policy, Predicate, Principal, Question,
    QuestionAnswer, QuestionRequest, Scope, Selection, Session, SessionId, ToolCall, WaitGuard,
};

use crate::support::{MapHost, Setup, path_of, says, writes};

const WEEK: Duration = Duration::from_hours(7 * 24);

/// The books that the processes of one machine share.
#[derive(Clone)]
struct Machine {
    host: Arc<MapHost>,
    approvals: Arc<MemoryBook<Approval>>,
    questions: Arc<MemoryBook<QuestionRequest>>,
}

impl Machine {
    fn new() -> Self {
        let host = Arc::new(MapHost::with([]));
        Self { host, approvals: Arc::default(), questions: Arc::default() }
    }

    /// Starts a process with the session `s`, in which writes ask and writing `secret` is denied.
    fn process(&self) -> Setup {
        let schema = json!({
            "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
            "additionalProperties": false,
        });
        let write = MockTool::named("write")
            .with_schema(schema)
            .with_effects(EffectKinds::WRITE, |input: &Value| Effects::write(path_of(input)))
            .answering(|_, input| async move { Ok(Output::text(path_of(&input))) });
        let choose = MockTool::named("choose")
            .with_effects(EffectKinds::STATE, |_| Effects::state("question"))
            .answering(|cx, _| async move {
                let answer = cx.people()?.ask(&[Question::new("Which?", ["a", "b"])]).await?;
                Ok(Output::text(format!("{:?}", answer.selections[0].selected)))
            });
        let policy = Policy::new(Mode::Ask).deny("write secret".parse().unwrap());
        let (approvals, questions) = (self.approvals.clone(), self.questions.clone());
        Setup::on(self.host.clone(), [write, choose], move |builder| {
            builder.policy(policy).approval_book(approvals).question_book(questions)
        })
        .in_session(Session::new(SessionId::new("s")))
    }

    /// Returns the machine after a kill of all its processes: the records are left, and no call waits for them.
    fn killed(&self) -> Self {
        let left = Self { host: self.host.clone(), ..Self::new() };
        self.approvals.list().unwrap().iter().for_each(|one| left.approvals.put(one).unwrap());
        self.questions.list().unwrap().iter().for_each(|one| left.questions.put(one).unwrap());
        left
    }
}

fn write(path: &str) -> ToolCall {
    ToolCall::new("write", json!({"path": path}))
}

fn choose() -> ToolCall {
    ToolCall::new("choose", json!({}))
}

/// Waits for the next questions of a tool.
async fn next_questions(setup: &mut Setup) -> Arc<QuestionRequest> {
    setup
        .next(|event| match event.kind {
            EventKind::Question(request) => Some(request),
            _ => None,
        })
        .await
}

/// An attendant that replies after a delay, and counts the requests that it got and that were dropped.
#[derive(Clone)]
struct DelayedReply {
    delay: Duration,
    reply: AttendantReply<Answer>,
    asked: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

impl DelayedReply {
    fn new(seconds: u64, reply: AttendantReply<Answer>) -> Self {
        let delay = Duration::from_secs(seconds);
        Self { delay, reply, asked: Arc::default(), dropped: Arc::default() }
    }
}

/// Counts up when it is dropped.
struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Attendant for DelayedReply {
    fn approve<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, AttendantReply<Answer>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            let count = CountDrop(self.dropped.clone());
            tokio::time::sleep(self.delay).await;
            std::mem::forget(count);
            self.reply.clone()
        })
    }

    fn answer<'a>(
        &'a self,
        _: &'a QuestionRequest,
    ) -> BoxFuture<'a, AttendantReply<QuestionAnswer>> {
        Box::pin(async {
            tokio::time::sleep(self.delay).await;
            match &self.reply {
                AttendantReply::Answered(_) => {
                    AttendantReply::Answered(QuestionAnswer::new([Selection::of("b")]))
                }
                AttendantReply::Deferred => AttendantReply::Deferred,
                AttendantReply::Unavailable(why) => AttendantReply::Unavailable(why.clone()),
            }
        })
    }
}

fn yes() -> AttendantReply<Answer> {
    AttendantReply::Answered(Answer::allow())
}

fn no() -> AttendantReply<Answer> {
    AttendantReply::Answered(Answer::deny("not now"))
}

fn gone() -> AttendantReply<Answer> {
    AttendantReply::Unavailable("the window is closed".into())
}

#[tokio::test(start_paused = true)]
async fn first_answer_counts_and_an_answer_beats_a_deferral() {
    for (replies, outcome, seconds) in [
        (vec![(5, yes()), (9, no())], Outcome::Ok, 5),
        (vec![(9, yes()), (5, no())], Outcome::Denied, 5),
        (vec![(1, AttendantReply::Deferred), (5, yes())], Outcome::Ok, 5),
        (vec![(1, gone()), (5, yes())], Outcome::Ok, 5),
        (vec![(1, gone()), (5, AttendantReply::Deferred)], Outcome::Denied, 5),
        (vec![(3, gone()), (1, gone())], Outcome::Denied, 3),
    ] {
        let setup = Machine::new().process();
        let attendants: Vec<DelayedReply> =
            replies.iter().map(|(delay, reply)| DelayedReply::new(*delay, reply.clone())).collect();
        let _attendances: Vec<_> = attendants
            .iter()
            .map(|one| setup.engine.attend(setup.session.id(), one.clone()))
            .collect();
        let begun = Instant::now();
        let result = setup.engine.call(&setup.session, write("a")).await;
        assert_eq!(result.outcome, outcome, "{replies:?}");
        assert_eq!(begun.elapsed().as_secs(), seconds, "{replies:?}");
        for (one, (delay, _)) in attendants.iter().zip(&replies) {
            assert_eq!(one.asked.load(Ordering::SeqCst), 1);
            let is_late = *delay > seconds;
            assert_eq!(one.dropped.load(Ordering::SeqCst), usize::from(is_late), "{replies:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn attendant_is_asked_about_its_session_and_those_below() {
    let setup = Machine::new().process();
    let attendant = DelayedReply::new(0, yes());
    let attendance = setup.engine.attend(setup.session.id(), attendant.clone());
    let child = setup.session.child(SessionId::new("c"), Predicate::All, &Overrides::default());
    let grandchild = child.child(SessionId::new("g"), Predicate::All, &Overrides::default());
    let other = Session::new(SessionId::new("o"));
    for (session, outcome) in [
        (setup.session.clone(), Outcome::Ok),
        (Arc::new(child), Outcome::Ok),
        (Arc::new(grandchild), Outcome::Ok),
        (Arc::new(other), Outcome::Denied),
    ] {
        let begun = Instant::now();
        let result = setup.engine.call(&session, write("a")).await;
        assert_eq!(result.outcome, outcome, "{}", session.id());
        assert_eq!(begun.elapsed(), Duration::ZERO, "no answer is waited for");
    }
    drop(attendance);
    let result = setup.engine.call(&setup.session, write("a")).await;
    assert_eq!(result.outcome, Outcome::Denied, "the attendant has left");
}

#[tokio::test(start_paused = true)]
async fn attendants_may_come_and_go_while_a_question_is_open() {
    let mut setup = Machine::new().process();
    let first = setup.engine.attend(setup.session.id(), EventAttendant::default());
    let running = setup.spawn(write("a"));
    setup.asked().await;
    let _second = setup.engine.attend(setup.session.id(), DelayedReply::new(5, yes()));
    drop(first);
    assert_eq!(
        running.await.unwrap().outcome,
        Outcome::Ok,
        "the attendant that came later is asked"
    );

    let setup = Machine::new().process();
    let only = setup.engine.attend(setup.session.id(), EventAttendant::default());
    let running = setup.spawn(write("a"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(only);
    let result = running.await.unwrap();
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(result.output.to_text().contains("has left"), "{}", result.output.to_text());
}

#[tokio::test(start_paused = true)]
async fn answer_from_another_process_wakes_the_waiting_call() {
    let machine = Machine::new();
    let (mut here, there) = (machine.process(), machine.process());
    let _attendance = here.engine.attend(here.session.id(), EventAttendant::default());
    let running = here.spawn(write("a"));
    let request = here.asked().await;
    there.engine.answer(&request.id, Answer::allow().because("but only this one")).await.unwrap();
    let resumed = there.engine.resume(&there.session, &request.id).await.unwrap();
    assert!(resumed.is_none(), "the waiting call runs, not another one");
    let result = running.await.unwrap();
    assert_eq!(result.outcome, Outcome::Ok);
    assert!(result.output.to_text().contains("says: but only this one"));
    assert!(machine.approvals.list().unwrap().is_empty());

    let running = here.spawn(choose());
    let request = next_questions(&mut here).await;
    let unfit = QuestionAnswer::new([Selection::of("c")]);
    let unfit = there.engine.answer_questions(&request.id, unfit).await.unwrap_err();
    assert!(matches!(unfit, AnswerError::Unfit(_)), "{unfit}");
    let answer = || QuestionAnswer::new([Selection::of("b")]);
    there.engine.answer_questions(&request.id, answer()).await.unwrap();
    assert_eq!(running.await.unwrap().output.to_text(), "[\"b\"]");
    assert_eq!(
        there.engine.answer_questions(&request.id, answer()).await,
        Err(AnswerError::Unknown)
    );
}

#[tokio::test(start_paused = true)]
async fn exactly_one_of_many_simultaneous_answers_counts() {
    let machine = Machine::new();
    let mut here = machine.process();
    let _attendance = here.engine.attend(here.session.id(), EventAttendant::default());
    for _ in 0..20 {
        let running = here.spawn(write("a"));
        let id = here.asked().await.id.clone();
        let processes: Vec<Setup> = (0..4).map(|_| machine.process()).collect();
        let answers = processes.iter().enumerate().map(|(number, one)| {
            let is_yes = number.is_multiple_of(2);
            let answer = if is_yes { Answer::allow() } else { Answer::deny("no") };
            one.engine.answer(&id, answer)
        });
        let counted = join_all(answers).await.into_iter().flatten().count();
        assert_eq!(counted, 1);
        running.await.unwrap();

        let running = here.spawn(choose());
        let id = next_questions(&mut here).await.id.clone();
        let answer = || QuestionAnswer::new([Selection::of("a")]);
        let answers = processes.iter().map(|one| one.engine.answer_questions(&id, answer()));
        assert_eq!(join_all(answers).await.into_iter().flatten().count(), 1);
        assert_eq!(running.await.unwrap().outcome, Outcome::Ok);
    }
    assert!(machine.approvals.list().unwrap().is_empty());
    assert!(machine.questions.list().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn deferred_question_outlives_its_call() {
    let machine = Machine::new();
    let setup = machine.process();
    let attendance =
        setup.engine.attend(setup.session.id(), DelayedReply::new(0, AttendantReply::Deferred));
    let result = setup.engine.call(&setup.session, write("a")).await;
    assert_eq!((result.outcome, result.code), (Outcome::Denied, Some("denied")));
    let text = result.output.to_text();
    let [question] = &machine.approvals.list().unwrap()[..] else { panic!("it is on record") };
    assert_eq!(result.output.metadata["approval"], json!(question.id));
    assert!(text.contains(question.id.as_str()) && text.contains("within 7 days"), "{text}");
    drop((attendance, setup));

    let later = machine.process();
    let who = Principal::Person { name: Some("Ada".into()) };
    later.engine.answer(&question.id, Answer::allow().by(who.clone())).await.unwrap();
    let result = later.engine.resume(&later.session, &question.id).await.unwrap().expect("made");
    assert_eq!(result.output.to_text(), "a");
    let decided = &later.bodies()[0]["decided"]["settled_by"];
    assert_eq!(decided["who"], json!(who), "the person who answered is recorded: {decided}");
    assert!(machine.approvals.list().unwrap().is_empty(), "an answer counts once");

    let _attendance =
        later.engine.attend(later.session.id(), DelayedReply::new(0, AttendantReply::Deferred));
    let result = later.engine.call(&later.session, choose()).await;
    let [question] = &machine.questions.list().unwrap()[..] else { panic!("it is on record") };
    assert_eq!(result.outcome, Outcome::Denied);
    assert_eq!(result.output.metadata["question"], json!(question.id));
    let answer = QuestionAnswer::new([Selection::of("a")]);
    machine.process().engine.answer_questions(&question.id, answer).await.unwrap();
    let again = later.engine.call(&later.session, choose()).await;
    assert_eq!(again.output.to_text(), "[\"a\"]", "the same question is answered");
    assert!(machine.questions.list().unwrap().is_empty(), "once");
}

#[tokio::test(start_paused = true)]
async fn answer_counts_after_a_kill_but_not_after_expiry() {
    for (days, expired) in [(6, false), (8, true)] {
        let machine = Machine::new();
        let mut setup = machine.process();
        let _attendance = setup.engine.attend(setup.session.id(), EventAttendant::default());
        let calls = setup.spawn(write("a"));
        let approval = setup.asked().await.id.clone();
        let questions = setup.spawn(choose());
        let question = next_questions(&mut setup).await.id.clone();
        let left = machine.killed();
        drop((calls, questions));
        machine.host.wait(Duration::from_hours(24 * days));

        let later = left.process();
        let answer = QuestionAnswer::new([Selection::of("a")]);
        let answered = later.engine.answer(&approval, Answer::allow()).await;
        let questioned = later.engine.answer_questions(&question, answer).await;
        if expired {
            assert_eq!(answered, Err(AnswerError::Expired));
            assert_eq!(questioned, Err(AnswerError::Expired));
            let record = later.engine.approvals().await.unwrap().remove(0);
            assert!(record.expires() > record.asked(), "the record has the time of expiry");
        } else {
            assert_eq!((answered, questioned), (Ok(()), Ok(())));
        }
        let outcome = later.engine.call(&later.session, write("a")).await.outcome;
        assert_eq!(outcome, if expired { Outcome::Denied } else { Outcome::Ok });
        let outcome = later.engine.call(&later.session, choose()).await.outcome;
        assert_eq!(outcome, if expired { Outcome::Error } else { Outcome::Ok });
    }
}

#[tokio::test(start_paused = true)]
async fn unused_approval_expires() {
    let machine = Machine::new();
    let setup = machine.process();
    let attendance =
        setup.engine.attend(setup.session.id(), DelayedReply::new(0, AttendantReply::Deferred));
    setup.engine.call(&setup.session, write("a")).await;
    drop(attendance);
    let id = machine.approvals.list().unwrap()[0].id.clone();
    setup.engine.answer(&id, Answer::allow()).await.unwrap();
    machine.host.wait(WEEK + Duration::from_secs(1));
    let now = windlass_core::Host::clock(&*machine.host).now();
    assert_eq!(machine.approvals.list().unwrap()[0].state(now), InquiryState::Expired);
    let error = setup.engine.resume(&setup.session, &id).await.unwrap_err();
    assert!(error.to_string().contains("has expired"), "{error}");
    let result = setup.engine.call(&setup.session, write("a")).await;
    assert_eq!(result.outcome, Outcome::Denied);
}

#[tokio::test(start_paused = true)]
async fn call_waits_no_longer_than_its_question_lasts() {
    let setup = Setup::with([writes(says("deploy", "deployed"))], |builder| {
        let builder = builder.questions_expire_after(Duration::from_hours(3));
        builder.policy(Policy::new(Mode::Ask)).attendant(EventAttendant::default())
    });
    let begun = Instant::now();
    let result = setup.call("deploy", json!({})).await;
    assert_eq!((result.outcome, begun.elapsed().as_secs()), (Outcome::Denied, 3 * 3600));
    let text = result.output.to_text();
    assert!(text.contains("no person answered within 3 hours"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn edited_arguments_are_decided_on_again() {
    let edited = |path: &str| Answer::allow_edited(json!({"path": path}));
    for (input, outcome, text) in [
        (edited("b"), Outcome::Ok, "b"),
        (edited("secret"), Outcome::Denied, "decided by deny write secret"),
        (Answer::allow_edited(json!({"way": "b"})), Outcome::Fault, "way"),
    ] {
        // Answered while the call waits, and after it has ended.
        for is_deferred in [false, true] {
            let machine = Machine::new();
            let mut setup = machine.process();
            let reply = if is_deferred { AttendantReply::Deferred } else { gone() };
            let delay = if is_deferred { 0 } else { 3600 };
            let _attendance =
                setup.engine.attend(setup.session.id(), DelayedReply::new(delay, reply));
            let running = setup.spawn(write("a"));
            let id = setup.asked().await.id.clone();
            let result = if is_deferred {
                running.await.unwrap();
                setup.engine.answer(&id, input.clone()).await.unwrap();
                setup.engine.resume(&setup.session, &id).await.unwrap().expect("made")
            } else {
                setup.engine.answer(&id, input.clone()).await.unwrap();
                running.await.unwrap()
            };
            let told = result.output.to_text();
            assert_eq!(result.outcome, outcome, "{is_deferred}: {told}");
            assert!(told.contains(text), "{is_deferred}: {told}");
            if outcome == Outcome::Ok {
                assert!(told.contains("a person changed the arguments"), "{told}");
                let started = setup.bodies();
                let started = started.iter().rev().find(|body| body.get("effects").is_some());
                assert_eq!(started.expect("a beginning")["input"], json!({"path": "b"}));
            }
            assert!(machine.approvals.list().unwrap().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn edited_approval_is_not_remembered_for_the_original_call() {
    let machine = Machine::new();
    let mut setup = machine.process();
    let _attendance = setup.engine.attend(setup.session.id(), EventAttendant::default());
    let running = setup.spawn(write("a"));
    let id = setup.asked().await.id.clone();
    let mut answer = Answer::allow_edited(json!({"path": "b"}));
    answer.scope = Scope::Always;
    setup.engine.answer(&id, answer).await.unwrap();
    running.await.unwrap();
    assert!(machine.approvals.list().unwrap().is_empty());
}

/// A book that cannot store records, as on a full disk.
struct FullBook;

impl InquiryBook<Approval> for FullBook {
    fn list(&self) -> Result<Vec<Approval>, BookError> {
        Ok(Vec::new())
    }
    fn put(&self, _: &Approval) -> Result<(), BookError> {
        Err(BookError("the disk is full".into()))
    }
    fn write_answer(&self, _: &str, _: Answer, _: SystemTime) -> Result<Approval, AnswerError> {
        Err(AnswerError::Unknown)
    }
    fn take(&self, _: &str) -> Result<Option<Approval>, BookError> {
        Ok(None)
    }
    fn version(&self) -> u64 {
        0
    }
    fn hold(&self, _: &str) -> Result<WaitGuard, BookError> {
        Ok(WaitGuard::by(()))
    }
    fn is_held(&self, _: &str) -> Result<bool, BookError> {
        Ok(false)
    }
}

#[tokio::test(start_paused = true)]
async fn question_that_cannot_be_recorded_is_asked_but_not_deferred() {
    for (reply, outcome) in [(yes(), Outcome::Ok), (AttendantReply::Deferred, Outcome::Denied)] {
        let setup = Setup::with([writes(says("deploy", "deployed"))], |builder| {
            let builder = builder.policy(Policy::new(Mode::Ask)).approval_book(Arc::new(FullBook));
            builder.attendant(DelayedReply::new(1, reply))
        });
        let result = setup.call("deploy", json!({})).await;
        assert_eq!(result.outcome, outcome);
        assert_eq!(result.output.metadata.get("approval"), None);
        let is_told = result.output.to_text().contains("the disk is full");
        assert_eq!(is_told, outcome == Outcome::Denied, "{}", result.output.to_text());
    }
}

#[tokio::test(start_paused = true)]
async fn late_answer_of_an_attendant_is_refused_as_expired() {
    let machine = Machine::new();
    let mut setup = machine.process();
    let _attendance = setup.engine.attend(setup.session.id(), DelayedReply::new(60, yes()));
    let running = setup.spawn(write("a"));
    setup.asked().await;
    machine.host.wait(WEEK + Duration::from_secs(1));
    let result = running.await.unwrap();
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(result.output.to_text().contains("expired"), "{}", result.output.to_text());
}

#[tokio::test(start_paused = true)]
async fn edited_arguments_must_be_an_object() {
    let machine = Machine::new();
    let mut setup = machine.process();
    let _attendance = setup.engine.attend(setup.session.id(), EventAttendant::default());
    let running = setup.spawn(write("a"));
    let id = setup.asked().await.id.clone();
    for input in [Value::Null, json!([]), json!("b")] {
        let answered = setup.engine.answer(&id, Answer::allow_edited(input)).await;
        assert!(matches!(answered, Err(AnswerError::Unfit(_))), "{answered:?}");
    }
    setup.engine.answer(&id, Answer::deny("no")).await.unwrap();
    assert_eq!(running.await.unwrap().outcome, Outcome::Denied);
}

#[tokio::test(start_paused = true)]
async fn record_from_the_far_future_is_no_fault() {
    let machine = Machine::new();
    let setup = machine.process();
    let _attendance =
        setup.engine.attend(setup.session.id(), DelayedReply::new(0, AttendantReply::Deferred));
    setup.engine.call(&setup.session, write("a")).await;
    let mut record = machine.approvals.list().unwrap().remove(0);
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(i64::MAX.unsigned_abs());
    (record.at, record.expires) = (far, None);
    machine.approvals.put(&record).unwrap();
    let result = setup.engine.call(&setup.session, write("b")).await;
    assert_eq!((result.outcome, result.code), (Outcome::Denied, Some("denied")));
}

/// Defers a call of `write` in a session, and returns the id of its approval.
async fn deferred(setup: &Setup, session: &Arc<Session>) -> windlass_core::ApprovalId {
    let _attendance = setup.engine.attend_all(DelayedReply::new(0, AttendantReply::Deferred));
    let result = setup.engine.call(session, write("a")).await;
    let id = result.output.metadata["approval"].as_str().expect("a question");
    windlass_core::ApprovalId::new(id)
}

#[tokio::test(start_paused = true)]
async fn deferred_call_is_made_only_as_it_was_approved() {
    let machine = Machine::new();
    let setup = machine.process();
    let resume = |session: &Arc<Session>, id| {
        let (engine, session) = (setup.engine.clone(), session.clone());
        async move { engine.resume(&session, &id).await }
    };
    // Not before it is answered.
    let id = deferred(&setup, &setup.session).await;
    let error = resume(&setup.session, id.clone()).await.unwrap_err();
    assert!(error.to_string().contains("is not answered yet"), "{error}");
    // Not by another session.
    setup.engine.answer(&id, Answer::allow_edited(json!({"path": "b"}))).await.unwrap();
    let other = Arc::new(Session::new(SessionId::new("other")));
    let error = resume(&other, id.clone()).await.unwrap_err();
    assert!(error.to_string().contains("was asked in session s"), "{error}");
    assert_eq!(resume(&setup.session, id).await.unwrap().unwrap().outcome, Outcome::Ok);
    // A denial stays a denial although rules allow the call now.
    let id = deferred(&setup, &setup.session).await;
    setup.engine.answer(&id, Answer::deny("never there")).await.unwrap();
    setup.engine.set_policy(Policy::new(Mode::Yolo));
    let result = resume(&setup.session, id).await.unwrap().unwrap();
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(result.output.to_text().contains("never there"), "{}", result.output.to_text());
}

/// Edited arguments are decided on with the rights of the session that asked, or not at all.
#[tokio::test(start_paused = true)]
async fn edited_arguments_do_not_escape_the_rights_of_the_session() {
    use windlass_core::{ActiveRule, Decision, SessionLimits};
    let machine = Machine::new();
    let setup = machine.process();
    let limits = || SessionLimits {
        rules: vec![ActiveRule::new(Decision::Deny, "write src/**".parse().unwrap())],
        ..SessionLimits::default()
    };
    let child =
        || Arc::new(setup.session.child(SessionId::new("c"), limits(), &Overrides::default()));
    for (session, code) in [(child(), "denied"), (Arc::new(Session::new(SessionId::new("c"))), "")]
    {
        let id = deferred(&setup, &child()).await;
        setup.engine.answer(&id, Answer::allow_edited(json!({"path": "src/b"}))).await.unwrap();
        match setup.engine.resume(&session, &id).await {
            Ok(result) => assert_eq!(result.unwrap().code, Some(code)),
            Err(error) => {
                assert!(code.is_empty() && error.to_string().contains("other rights"), "{error}");
            }
        }
        setup.engine.revoke(&id).await.unwrap();
    }
}
