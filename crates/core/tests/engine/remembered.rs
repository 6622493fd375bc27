//! Remembered answers, shared approvals, and approvals that outlive the call that asked.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::testing::MockTool;
use windlass_core::{
    Answer, Approval, ApprovalRequest, ApprovalState, EffectKinds, Effects, EngineBuilder,
    EventAttendant, EventKind, InquiryBook, MemoryBook, Mode, Outcome, Output, Overrides, Policy,
    Predicate, Scope, Session, SessionId, ToolCall,
};

use crate::support::{Setup, path_of, says, writes};

const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

/// A call of `deploy` with this target.
fn deploy(to: &str) -> ToolCall {
    ToolCall::new("deploy", json!({"to": to}))
}

type Approvals = MemoryBook<Approval>;

/// Adds an attendant that waits for answers through the engine.
fn attended(builder: EngineBuilder) -> EngineBuilder {
    builder.attendant(EventAttendant { patience: Some(ANSWER_TIMEOUT) })
}

/// Makes an engine that asks, with these attendants and this book.
fn asking_engine(people: fn(EngineBuilder) -> EngineBuilder, book: &Arc<Approvals>) -> Setup {
    let book = book.clone();
    let write = says("write", "written")
        .with_effects(EffectKinds::WRITE, |input: &Value| Effects::write(path_of(input)));
    let tools = [writes(says("deploy", "deployed")), write];
    Setup::with(tools, move |builder| {
        people(builder.policy(Policy::new(Mode::Ask)).approval_book(book))
    })
}

/// Makes such an engine with an attendant.
fn attended_engine(book: &Arc<Approvals>) -> Setup {
    asking_engine(attended, book)
}

/// Makes such an engine without an attendant, so that a call that asks is denied.
fn unattended_engine(book: &Arc<Approvals>) -> Setup {
    asking_engine(|builder| builder, book)
}

#[tokio::test(start_paused = true)]
async fn answer_counts_for_its_scope_and_this_very_call() {
    for (scope, again, elsewhere) in [
        (Scope::Once, Outcome::Denied, Outcome::Denied),
        (Scope::Session, Outcome::Ok, Outcome::Denied),
        (Scope::Project, Outcome::Ok, Outcome::Ok),
        (Scope::Always, Outcome::Ok, Outcome::Ok),
    ] {
        let book = Arc::default();
        let mut setup = attended_engine(&book);
        let running = setup.spawn(deploy("a"));
        let request = setup.asked().await;
        setup.engine.answer(&request.id, Answer::allow_for(scope)).await.unwrap();
        assert_eq!(running.await.unwrap().outcome, Outcome::Ok);
        let later = unattended_engine(&book).in_session(Session::new(setup.session.id().clone()));
        let call = |session: &Arc<Session>, call| {
            let (engine, session) = (later.engine.clone(), session.clone());
            async move { engine.call(&session, call).await.outcome }
        };
        assert_eq!(call(&later.session, deploy("a")).await, again, "{scope}");
        let other = Arc::new(Session::new(SessionId::new("other")));
        assert_eq!(call(&other, deploy("a")).await, elsewhere, "{scope}");
        assert_eq!(call(&later.session, deploy("b")).await, Outcome::Denied, "{scope}");
    }
}

#[tokio::test(start_paused = true)]
async fn denial_can_be_remembered_and_revoked() {
    let book = Arc::default();
    let mut setup = attended_engine(&book);
    let running = setup.spawn(deploy("a"));
    let request = setup.asked().await;
    setup
        .engine
        .answer(&request.id, Answer::deny_for(Scope::Always, "not on a Friday"))
        .await
        .unwrap();
    assert_eq!(running.await.unwrap().outcome, Outcome::Denied);
    let again = setup.engine.call(&setup.session, deploy("a")).await;
    assert_eq!((again.outcome, again.code), (Outcome::Denied, Some("denied")));
    let text = again.output.to_text();
    assert!(
        text.contains(&format!("said no before, in {}: not on a Friday", request.id)),
        "{text}"
    );
    assert_eq!(setup.engine.approvals().await.unwrap()[0].scope, Scope::Always);
    assert!(setup.engine.revoke(&request.id).await.unwrap());
    let running = setup.spawn(deploy("a"));
    let second = setup.asked().await;
    setup.engine.answer(&second.id, Answer::allow()).await.unwrap();
    assert_eq!(running.await.unwrap().outcome, Outcome::Ok);
    assert!(setup.engine.approvals().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn remembered_denial_binds_whatever_the_rules_and_the_mode_say() {
    let rule = |text: &str| text.parse().expect("a rule");
    for (scope, elsewhere) in [
        (Scope::Session, Outcome::Ok),
        (Scope::Project, Outcome::Denied),
        (Scope::Always, Outcome::Denied),
    ] {
        let book = Arc::default();
        let mut setup = attended_engine(&book);
        let running = setup.spawn(deploy("a"));
        let request = setup.asked().await;
        setup.engine.answer(&request.id, Answer::deny_for(scope, "no")).await.unwrap();
        running.await.unwrap();
        for policy in [
            Policy::new(Mode::Ask).allow(rule("write **")),
            Policy::new(Mode::Ask).allow(rule("tool deploy")),
            Policy::new(Mode::Auto),
            Policy::new(Mode::Yolo),
        ] {
            let told = format!("{scope}: {policy:?}");
            setup.engine.set_policy(policy);
            let again = setup.engine.call(&setup.session, deploy("a")).await;
            let text = again.output.to_text();
            assert_eq!(again.outcome, Outcome::Denied, "{told}: {text}");
            let id = &request.id;
            for part in
                [format!("said no before, in {id}: no"), format!("windlass policy revoke {id}")]
            {
                assert!(text.contains(&part), "{told}: {text}");
            }
            let explained = setup.engine.explain_with_answer(&setup.session, deploy("a")).await;
            assert_eq!(explained.unwrap().1.map(|one| one.id), Some(id.clone()), "{told}");
            let other = Arc::new(Session::new(SessionId::new("other")));
            assert_eq!(setup.engine.call(&other, deploy("a")).await.outcome, elsewhere, "{told}");
            assert_eq!(setup.engine.call(&setup.session, deploy("b")).await.outcome, Outcome::Ok);
        }
        assert!(setup.engine.revoke(&request.id).await.unwrap());
        assert_eq!(setup.engine.call(&setup.session, deploy("a")).await.outcome, Outcome::Ok);
    }
}

#[tokio::test(start_paused = true)]
async fn same_approval_is_asked_once_unless_the_answer_is_for_one_call() {
    let book = Arc::default();
    let mut setup = attended_engine(&book);
    for (answer, questions, outcome) in [
        (Answer::allow_for(Scope::Session), 1, Outcome::Ok),
        (Answer::deny("no"), 1, Outcome::Denied),
        (Answer::allow(), 3, Outcome::Ok),
    ] {
        let calls: Vec<_> = (0..3).map(|_| setup.spawn(deploy("a"))).collect();
        for _ in 0..questions {
            let request = setup.asked().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let others = setup.told().await;
            assert!(
                !others.iter().any(|event| matches!(&event.kind, EventKind::Approval(_))),
                "{others:?}"
            );
            setup.engine.answer(&request.id, answer.clone()).await.unwrap();
        }
        for call in calls {
            assert_eq!(call.await.unwrap().outcome, outcome, "{answer:?}");
        }
        for one in book.list().unwrap() {
            setup.engine.revoke(&one.id).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_shares_an_approval_asks_when_the_other_is_stopped() {
    let book = Arc::default();
    let mut setup = attended_engine(&book);
    let (first, second) = (setup.spawn(deploy("a")), setup.spawn(deploy("a")));
    let request = setup.asked().await;
    setup.engine.cancel(&request.call);
    let next = setup.asked().await;
    assert_ne!(request.call, next.call);
    setup.engine.answer(&next.id, Answer::allow()).await.unwrap();
    let mut outcomes = [first.await.unwrap().outcome, second.await.unwrap().outcome];
    outcomes.sort_by_key(|outcome| *outcome == Outcome::Ok);
    assert_eq!(outcomes, [Outcome::Cancelled, Outcome::Ok]);
}

/// Returns a copy of the book as a kill of the program leaves it.
fn book_after_kill(book: &Approvals) -> Arc<Approvals> {
    let copy = Approvals::default();
    book.list().unwrap().iter().for_each(|one| copy.put(one).unwrap());
    Arc::new(copy)
}

#[tokio::test(start_paused = true)]
async fn approval_outlives_the_program() {
    for (answer, outcome) in [(Answer::allow(), Outcome::Ok), (Answer::deny("no"), Outcome::Denied)]
    {
        let book = Arc::default();
        let mut setup = attended_engine(&book);
        let running = setup.spawn(deploy("a"));
        let request = setup.asked().await;
        let left = book_after_kill(&book);
        running.abort();

        let next = unattended_engine(&left).in_session(Session::new(setup.session.id().clone()));
        let pending = next.engine.approvals().await.unwrap();
        assert_eq!(
            pending.iter().map(|one| &one.settled).collect::<Vec<_>>(),
            [&ApprovalState::Pending]
        );
        next.engine.answer(&request.id, answer).await.unwrap();
        let last = unattended_engine(&left).in_session(Session::new(setup.session.id().clone()));
        let result =
            last.engine.resume(&last.session, &request.id).await.unwrap().expect("a result");
        assert_eq!(result.outcome, outcome, "{}", result.output.to_text());
        let error = last.engine.resume(&last.session, &request.id).await.unwrap_err();
        assert!(error.to_string().contains("there is no question"), "it is used up: {error}");
        assert_eq!(last.engine.call(&last.session, deploy("a")).await.outcome, Outcome::Denied);
    }
}

#[tokio::test(start_paused = true)]
async fn answer_does_not_count_for_changed_arguments() {
    let book = Arc::default();
    let mut setup = attended_engine(&book);
    let running = setup.spawn(deploy("a"));
    let request = setup.asked().await;
    let left = book_after_kill(&book);
    running.abort();
    let changed =
        Approval { input: Some(json!({"to": "production"})), ..left.list().unwrap().remove(0) };
    left.put(&changed).unwrap();
    let next = unattended_engine(&left).in_session(Session::new(setup.session.id().clone()));
    next.engine.answer(&request.id, Answer::allow()).await.unwrap();
    let result = next.engine.resume(&next.session, &request.id).await.unwrap().expect("a result");
    assert_eq!(
        result.outcome,
        Outcome::Denied,
        "the record was changed: it asks, and there is no attendant"
    );
}

#[tokio::test(start_paused = true)]
async fn protected_path_is_asked_about_each_time() {
    let book = Arc::default();
    let mut setup = attended_engine(&book);
    for _ in 0..2 {
        let running = setup.spawn(ToolCall::new("write", json!({"path": ".git/hooks/pre-commit"})));
        let request = setup.asked().await;
        assert!(!request.can_be_remembered);
        setup.engine.answer(&request.id, Answer::allow_for(Scope::Always)).await.unwrap();
        assert_eq!(running.await.unwrap().outcome, Outcome::Ok);
    }
    assert!(setup.engine.approvals().await.unwrap().is_empty());
}

#[tokio::test]
async fn request_names_the_sub_agent() {
    let told = Arc::new(std::sync::Mutex::new(String::new()));
    let hears = told.clone();
    let setup = Setup::with([writes(MockTool::named("deploy"))], move |builder| {
        builder.policy(Policy::new(Mode::Ask)).attendant(move |request: &ApprovalRequest| {
            *hears.lock().unwrap() = format!("{} ({})", request.asker, request.risk);
            true
        })
    });
    let child = setup
        .session
        .child(
            SessionId::new("s2"),
            windlass_core::Predicate::All,
            &windlass_core::Overrides::default(),
        )
        .with_agent("reviewer");
    setup.engine.call(&Arc::new(child), deploy("a")).await;
    let expected = format!("agent reviewer, 1 below session {} (low)", setup.session.id());
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test]
async fn advance_approval_does_not_override_a_denial() {
    let book: Arc<Approvals> = Arc::default();
    let setup = asking_engine(EngineBuilder::approve_beforehand, &book);
    assert_eq!(setup.engine.call(&setup.session, deploy("a")).await.outcome, Outcome::Ok);
    assert_eq!(setup.decided(0), "approved beforehand");
    assert!(book.list().unwrap().is_empty(), "no person was asked");

    let mut asked_before =
        attended_engine(&book).in_session(Session::new(setup.session.id().clone()));
    let running = asked_before.spawn(deploy("a"));
    let request = asked_before.asked().await;
    asked_before.engine.answer(&request.id, Answer::deny_for(Scope::Always, "no")).await.unwrap();
    running.await.unwrap();
    assert_eq!(setup.engine.call(&setup.session, deploy("a")).await.outcome, Outcome::Denied);
}

#[tokio::test(start_paused = true)]
async fn resumed_call_keeps_its_agent_and_directory() {
    let book: Arc<Approvals> = Arc::default();
    let tools = || {
        let whoami = MockTool::named("whoami")
            .with_effects(EffectKinds::WRITE, |input: &Value| Effects::write(path_of(input)))
            .answering(|cx, _| async move {
                let (session, overrides) = (cx.session(), cx.overrides());
                let place = overrides.work_dir.clone().unwrap_or_default();
                let parent = session.parent().map(ToString::to_string).unwrap_or_default();
                let depth = overrides.depth.unwrap_or(0);
                let who = session.agent();
                Ok(Output::text(format!("{who} {depth} below {parent} in {}", place.display())))
            });
        [whoami]
    };
    let asking_engine = |people: fn(EngineBuilder) -> EngineBuilder, book: Arc<Approvals>| {
        Setup::with(tools(), move |builder| {
            people(builder.policy(Policy::new(Mode::Ask)).approval_book(book))
        })
    };
    let setup = asking_engine(attended, book.clone());
    let overrides = Overrides { work_dir: Some("sub".into()), ..Overrides::default() };
    let main = Session::new(SessionId::new("main"));
    let child = main.child(SessionId::new("child"), Predicate::All, &overrides);
    let mut setup = setup.in_session(child.with_agent("reviewer"));
    let running = setup.spawn(ToolCall::new("whoami", json!({"path": "a"})));
    let id = setup.asked().await.id.clone();
    let book = book_after_kill(&book);
    running.abort();
    drop(setup);

    let later = asking_engine(|builder| builder, book.clone());
    let approval = later.engine.approvals().await.unwrap().remove(0);
    assert_eq!(approval.id, id);
    let session = Session::new(approval.session.clone()).on_behalf_of(&approval.asker);
    later.engine.answer(&id, Answer::allow()).await.unwrap();
    let result = later.engine.resume(&Arc::new(session), &id).await.unwrap().expect("a result");
    assert_eq!(result.output.to_text(), "reviewer 1 below main in sub");
}
