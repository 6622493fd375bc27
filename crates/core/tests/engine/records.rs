//! Records and events besides those of calls, and the order of events when the journal is slow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use windlass_core::testing::MockTool;
use windlass_core::{
    Answer, ApprovalAnswered, ApprovalAsked, AttendantReply, BoxFuture, CallId, EffectKinds,
    Effects, Event, EventAttendant, EventFilter, EventKind, Journal, JournalError, MessageAuthor,
    MessageNote, Mode, Outcome, Output, Overrides, Policy, Principal, Question, QuestionAnswer,
    QuestionAnswered, QuestionAsked, Record, RecordKind, RecordReceipt, RequestNote, Scope,
    Secrets, Selection, SessionId, SessionLimits, SessionNote, StateNote, Subscription, TaskNote,
    TaskState, ToolCall,
};

use crate::support::{FailingJournal, Setup, call, says, writes};

/// A journal that makes records safe one by one, when the test calls `open`.
struct SlowJournal {
    gate: watch::Sender<u64>,
    taken: Mutex<u64>,
}

impl SlowJournal {
    fn new() -> Arc<Self> {
        Arc::new(Self { gate: watch::Sender::new(0), taken: Mutex::new(0) })
    }

    /// Makes the next record safe.
    fn open(&self) {
        self.gate.send_modify(|safe| *safe += 1);
    }
}

impl Journal for SlowJournal {
    fn append(&self, _: Record) -> BoxFuture<'static, Result<RecordReceipt, JournalError>> {
        let mut taken = self.taken.lock().unwrap();
        *taken += 1;
        let (number, mut gate) = (*taken, self.gate.subscribe());
        Box::pin(async move {
            gate.wait_for(|safe| *safe >= number).await.unwrap();
            Ok(RecordReceipt::later(move || Box::pin(async move { Some(number) })))
        })
    }
}

/// Makes an engine with a slow journal and a tool with these effects that prints something. The tool notifies the test when it
/// runs.
fn setup_with_slow_journal(effects: Effects) -> (Setup, Arc<SlowJournal>, Arc<Notify>) {
    let (journal, ran) = (SlowJournal::new(), Arc::new(Notify::new()));
    let runs = ran.clone();
    let tool = MockTool::named("tool")
        .with_effects(EffectKinds::ALL, move |_| effects.clone())
        .answering(move |cx, _| {
            cx.output("1");
            runs.notify_one();
            async { Ok(Output::text("done")) }
        });
    let slow = journal.clone();
    (Setup::with([tool], |builder| builder.journal(slow)), journal, ran)
}

/// Returns the names and numbers of all events that have arrived.
fn names(events: &mut Subscription) -> Vec<(&'static str, Option<u64>)> {
    std::iter::from_fn(|| events.try_next()).map(|event| (event.kind.name(), event.seq)).collect()
}

#[tokio::test]
async fn read_runs_before_its_beginning_is_safe() {
    let (mut setup, journal, ran) = setup_with_slow_journal(Effects::read("a"));
    let running = setup.spawn(call("tool"));
    ran.notified().await;
    assert!(names(&mut setup.events).is_empty(), "no event is published before its record is safe");
    journal.open();
    let first = setup.events.next().await;
    assert_eq!((first.kind.name(), first.seq), ("started", Some(1)));
    let second = setup.events.next().await;
    assert_eq!((second.kind.name(), second.seq), ("output", None));
    assert!(!running.is_finished(), "a call ends when both of its records are safe");
    journal.open();
    assert_eq!(running.await.unwrap().outcome, Outcome::Ok);
    let last = setup.events.next().await;
    assert_eq!((last.kind.name(), last.seq), ("finished", Some(2)));
}

#[tokio::test]
async fn call_with_side_effects_waits_for_the_record_of_its_beginning() {
    let (mut setup, journal, ran) = setup_with_slow_journal(Effects::write("a"));
    let running = setup.spawn(call("tool"));
    while *journal.taken.lock().unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    tokio::select! {
        biased;
        () = ran.notified() => panic!("it ran before its beginning was on record"),
        () = tokio::task::yield_now() => {}
    }
    journal.open();
    ran.notified().await;
    journal.open();
    running.await.unwrap();
    let told = [("started", Some(1)), ("output", None), ("finished", Some(2))];
    assert_eq!(names(&mut setup.events), told);
}

#[tokio::test]
async fn live_output_is_published_at_once() {
    let (setup, journal, ran) = setup_with_slow_journal(Effects::read("a"));
    let mut live = setup.engine.subscribe_to(EventFilter::session(setup.session.id()).only_live());
    let running = setup.spawn(call("tool"));
    ran.notified().await;
    assert_eq!(names(&mut live), [("output", None)]);
    journal.open();
    journal.open();
    running.await.unwrap();
    assert!(names(&mut live).is_empty());
}

/// Checks the order of events: the numbers grow, and each call begins, prints and ends in this order.
fn check_order(events: &[Event], calls: usize, outputs: usize) {
    let seqs: Vec<u64> = events.iter().filter_map(|event| event.seq).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
    assert_eq!(seqs.len(), 2 * calls);
    let mut of_call: HashMap<&CallId, Vec<&str>> = HashMap::new();
    for event in events {
        of_call.entry(event.call.as_ref().unwrap()).or_default().push(event.kind.name());
    }
    assert_eq!(of_call.len(), calls);
    for told in of_call.values() {
        assert_eq!((told.first(), told.last()), (Some(&"started"), Some(&"finished")));
        assert_eq!(told[1..told.len() - 1], vec!["output"; outputs]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn events_keep_their_order_with_a_slow_journal(
        calls in 1_usize..5,
        outputs in 0_usize..4,
        pauses in prop::collection::vec(0_usize..6, 10),
        threads: bool,
    ) {
        let mut runtime = if threads {
            tokio::runtime::Builder::new_multi_thread()
        } else {
            tokio::runtime::Builder::new_current_thread()
        };
        runtime.worker_threads(2).enable_time().build().unwrap().block_on(async {
            let journal = SlowJournal::new();
            let tool = MockTool::named("tool").answering(move |cx, _| async move {
                for _ in 0..outputs {
                    cx.output("x");
                    tokio::task::yield_now().await;
                }
                Ok(Output::text("done"))
            });
            let slow = journal.clone();
            let mut setup = Setup::with([tool], |builder| builder.journal(slow));
            let running: Vec<_> = (0..calls).map(|_| setup.spawn(call("tool"))).collect();
            for pause in pauses.iter().chain(std::iter::repeat(&0)).take(2 * calls) {
                for _ in 0..*pause {
                    tokio::task::yield_now().await;
                }
                journal.open();
            }
            for one in running {
                one.await.unwrap();
            }
            let mut told = Vec::new();
            while told.len() < calls * (2 + outputs) {
                told.push(setup.events.next().await);
            }
            check_order(&told, calls, outputs);
        });
    }
}

#[tokio::test]
async fn failed_beginning_is_not_published_and_the_end_is_published_once() {
    for fails in [|kind| kind == RecordKind::Started, |kind| kind != RecordKind::Started] {
        let mut setup = Setup::with([says("look", "seen")], |builder| {
            builder.journal(Arc::new(FailingJournal { fails }))
        });
        setup.call("look", json!({})).await;
        let told = names(&mut setup.events);
        assert_eq!(told.iter().filter(|(name, _)| *name == "finished").count(), 1);
        let began = told.iter().any(|(name, _)| *name == "started");
        assert_eq!(began, !fails(RecordKind::Started));
    }
}

#[tokio::test]
async fn session_filter_passes_events_of_sessions_below_and_of_no_others() {
    let setup = Setup::of([says("look", "seen")]);
    let below = |session: &windlass_core::Session, id: &str| {
        Arc::new(session.child(SessionId::new(id), SessionLimits::default(), &Overrides::default()))
    };
    let child = below(&setup.session, "child");
    let grandchild = below(&child, "grandchild");
    let mut host = setup.engine.subscribe_to(EventFilter::session(setup.session.id()));
    let mut agent = setup.engine.subscribe_to(EventFilter::session(child.id()));
    for session in [&setup.session, &child, &grandchild, &setup.engine.new_session()] {
        setup.engine.call(session, call("look")).await;
    }
    let sessions = async |events: &mut Subscription| {
        let mut all: Vec<_> = events.drain().await.into_iter().filter_map(|e| e.session).collect();
        all.dedup();
        all
    };
    let own = setup.session.id().clone();
    let (child, grandchild) = (child.id().clone(), grandchild.id().clone());
    assert_eq!(sessions(&mut host).await, [own, child.clone(), grandchild.clone()]);
    assert_eq!(sessions(&mut agent).await, [child, grandchild]);
}

/// Makes an engine that asks, with a tool that writes and one that asks a question. `Ada Lovelace` is a secret.
fn asking() -> Setup {
    let choose = MockTool::named("choose")
        .with_effects(EffectKinds::STATE, |_| Effects::state("question"))
        .answering(|cx, _| async move {
            cx.people()?.ask(&[Question::new("Which?", ["a", "b"])]).await?;
            Ok(Output::text("chosen"))
        });
    Setup::with([writes(says("deploy", "deployed")), choose], |builder| {
        builder.policy(Policy::new(Mode::Ask)).secrets(Secrets::new([("NAME", "Ada Lovelace")]))
    })
}

/// Returns the bodies of all records of a kind.
fn bodies<T: serde::de::DeserializeOwned>(setup: &Setup, kind: RecordKind) -> Vec<T> {
    let records = setup.journal.records().into_iter().filter(|record| record.kind == kind);
    records
        .map(|record| {
            assert_eq!((&record.session, record.call.as_str()), (setup.session.id(), ""));
            serde_json::from_str(&record.body).expect("a body of its kind")
        })
        .collect()
}

#[tokio::test]
async fn approvals_are_recorded_when_asked_and_once_when_answered() {
    let person = || Principal::Person { name: Some("Grace".into()) };
    for (answer, allowed, scope, reason) in [
        (Answer::allow(), true, Scope::Once, None),
        (Answer::allow_for(Scope::Session).because("fine"), true, Scope::Session, Some("fine")),
        (Answer::deny("ask Ada Lovelace"), false, Scope::Once, Some("ask [secret NAME]")),
    ] {
        for by_attendant in [false, true] {
            let mut setup = asking();
            let answer = answer.clone().by(person());
            let running = if by_attendant {
                let there = setup.engine.attend_all(FixedAnswer(answer));
                let running = setup.spawn(call("deploy"));
                std::mem::forget(there);
                running
            } else {
                std::mem::forget(setup.engine.attend_all(EventAttendant::default()));
                let running = setup.spawn(call("deploy"));
                let request = setup.asked().await;
                setup.engine.answer(&request.id, answer).await.unwrap();
                running
            };
            let result = running.await.unwrap();
            let [asked] = &bodies::<ApprovalAsked>(&setup, RecordKind::Approval)[..] else {
                panic!("one question")
            };
            let [said] = &bodies::<ApprovalAnswered>(&setup, RecordKind::ApprovalAnswered)[..]
            else {
                panic!("one answer")
            };
            assert_eq!((&asked.call, asked.tool.as_str()), (&result.call, "deploy"));
            assert_eq!((&said.id, said.call.as_ref()), (&asked.id, Some(&result.call)));
            assert_eq!((said.allowed, said.scope), (allowed, scope));
            assert_eq!((said.reason.as_deref(), &said.who), (reason, &person()));
        }
    }
}

/// An attendant that gives every approval the same answer.
struct FixedAnswer(Answer);

impl windlass_core::Attendant for FixedAnswer {
    fn approve<'a>(
        &'a self,
        _: &'a windlass_core::ApprovalRequest,
    ) -> BoxFuture<'a, AttendantReply<Answer>> {
        Box::pin(std::future::ready(AttendantReply::Answered(self.0.clone())))
    }
}

#[tokio::test]
async fn only_the_first_answer_is_recorded() {
    let mut setup = asking();
    let _there = setup.engine.attend_all(EventAttendant::default());
    let running = setup.spawn(call("deploy"));
    let id = setup.asked().await.id.clone();
    setup.engine.answer(&id, Answer::allow()).await.unwrap();
    setup.engine.answer(&id, Answer::deny("too late")).await.unwrap_err();
    running.await.unwrap();
    let kinds: Vec<_> = setup.journal.records().iter().map(|record| record.kind.as_str()).collect();
    assert_eq!(kinds, ["approval", "approval_answered", "started", "finished"]);
    let told: Vec<_> =
        setup.told().await.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    assert_eq!((&told[0]["event"], &told[0]["state"]), (&json!("approval"), &json!("answered")));
    assert_eq!((&told[0]["seq"], &told[0]["allowed"]), (&json!(2), &json!(true)));
}

#[tokio::test]
async fn questions_are_recorded_with_their_answers() {
    let mut setup = asking();
    let _there = setup.engine.attend_all(EventAttendant::default());
    let running = setup.spawn(call("choose"));
    let request = setup
        .next(|event| match event.kind {
            EventKind::Question(request) => Some(request),
            _ => None,
        })
        .await;
    let answer = QuestionAnswer::new([Selection::other("like Ada Lovelace")]);
    setup.engine.answer_questions(&request.id, answer).await.unwrap();
    running.await.unwrap();
    let asked: Vec<QuestionAsked> = bodies(&setup, RecordKind::Question);
    let answered: Vec<QuestionAnswered> = bodies(&setup, RecordKind::QuestionAnswered);
    assert_eq!((asked.len(), answered.len()), (1, 1));
    assert_eq!((&asked[0].questions[0].question[..], &asked[0].id), ("Which?", &request.id));
    let other = answered[0].answer.selections[0].other.as_deref();
    assert_eq!((other, &answered[0].id), (Some("like [secret NAME]"), &request.id));
}

#[tokio::test]
async fn front_doors_record_messages_requests_state_and_tasks() {
    let mut setup = asking();
    let call = CallId::new("c9");
    let notes: [(SessionNote, &str, Value, Value); 4] = [
        (
            MessageNote::new(MessageAuthor::Person, "I am Ada Lovelace").into(),
            "message",
            json!({"v": 2, "role": "person", "text": "I am [secret NAME]"}),
            json!({"role": "person", "text": "I am [secret NAME]"}),
        ),
        (
            RequestNote {
                system: json!("be Ada Lovelace"),
                messages: vec![json!({"role": "user", "content": "Ada Lovelace"})],
                tools: vec!["read".into()],
                ..RequestNote::new("m")
            }
            .into(),
            "request",
            json!({
                "v": 2, "model": "m", "system": "be [secret NAME]", "tools": ["read"],
                "messages": [{"role": "user", "content": "[secret NAME]"}],
            }),
            json!({"model": "m", "messages": 1, "tools": ["read"]}),
        ),
        (
            StateNote {
                call: Some(call.clone()),
                ..StateNote::new("todo", json!(["Ada Lovelace"]))
            }
            .into(),
            "state",
            json!({"v": 2, "key": "todo", "value": ["[secret NAME]"], "call": "c9"}),
            json!({"key": "todo", "value": ["[secret NAME]"], "call": "c9"}),
        ),
        (
            TaskNote {
                text: Some("Ada Lovelace".into()),
                ..TaskNote::new("k1", TaskState::Failed)
            }
            .into(),
            "task",
            json!({"v": 2, "task": "k1", "state": "failed", "text": "[secret NAME]"}),
            json!({"task": "k1", "state": "failed", "text": "[secret NAME]"}),
        ),
    ];
    for (at, (note, name, body, event)) in notes.into_iter().enumerate() {
        let kind = note.kind();
        setup.engine.record(&setup.session, note).await.unwrap();
        assert_eq!(kind.as_str(), name);
        assert_eq!(bodies::<Value>(&setup, kind), [body]);
        let told = serde_json::to_value(setup.events.next().await).unwrap();
        let mut expected = event;
        expected["event"] = name.into();
        expected["seq"] = (at + 1).into();
        expected["session"] = setup.session.id().as_str().into();
        expected["time"] = told["time"].clone();
        assert_eq!(told, expected);
    }
}

#[tokio::test]
async fn note_that_cannot_be_recorded_is_not_published() {
    let mut setup = Setup::with([says("look", "")], |builder| {
        builder.journal(Arc::new(FailingJournal { fails: |_| true }))
    });
    let note = MessageNote::new(MessageAuthor::Model, "hello");
    assert!(setup.engine.record(&setup.session, note).await.is_err());
    assert!(setup.told().await.is_empty());
}

#[tokio::test]
async fn events_of_calls_are_one_json_object_each() {
    let mut setup = Setup::of([says("look", "seen")]);
    let call = ToolCall::new("look", json!({"a": 1})).with_id("toolu_1");
    let result = setup.engine.call(&setup.session, call).await;
    let told: Vec<Value> =
        setup.told().await.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    let common = |event: &str, seq: u64, told: &Value| {
        json!({
            "event": event, "seq": seq, "time": told["time"], "session": setup.session.id(),
            "call": result.call, "turn": result.turn, "tool": "look",
        })
    };
    let mut started = common("started", 1, &told[0]);
    started["input"] = json!({"a": 1});
    started["effects"] = json!([]);
    started["decided_by"] = "allowed by mode auto".into();
    assert_eq!(told[0], started);
    let mut finished = common("finished", 2, &told[1]);
    finished["tool_use_id"] = "toolu_1".into();
    finished["outcome"] = "ok".into();
    finished["is_error"] = false.into();
    finished["duration_ms"] = told[1]["duration_ms"].clone();
    finished["content"] = json!([{"type": "text", "text": "seen"}]);
    finished["metadata"] = json!({"turn": result.turn});
    assert_eq!(told[1], finished);
}
