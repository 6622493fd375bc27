//! Secrets: never in anything that is stored, shown or sent to a model.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    Approvals, CallId, Content, Effects, Event, Kinds, MemoryOutputs, Mode, Outcome, Output,
    Outputs, Policy, Secrets, ToolCall, ToolError,
};

use crate::support::{Setup, assert_text, hangs};

const SECRET: &str = "hunter2hunter2";

fn secrets() -> Secrets {
    Secrets::new([("PASSWORD", SECRET), ("PREFIX", "hunter2h"), ("SHORT", "abc")])
}

fn setup(tool: MockTool) -> Setup {
    Setup::with([tool], |builder| builder.secrets(secrets()).policy(Policy::new(Mode::Yolo)))
}

/// Nothing that leaves the engine holds the secret.
fn check_clean(setup: &mut Setup) {
    for event in setup.told() {
        let shown = format!("{event:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    for record in setup.journal.records() {
        assert!(!record.body.contains("hunter2"), "{}", record.body);
    }
}

#[tokio::test]
async fn every_part_of_an_answer_is_clean() {
    let tool = MockTool::named("leak").answering(|_, _| async {
        let output = Output {
            content: vec![
                Content::text(format!("{SECRET} and {SECRET}, abc")),
                Content::Json { value: json!({"deep": [{"key": format!("x{SECRET}x")}]}) },
                Content::ResourceLink {
                    uri: format!("https://a/?key={SECRET}"),
                    name: format!("link {SECRET}"),
                    media_type: None,
                },
            ],
            ..Output::default()
        };
        Ok(output.with("url", format!("https://u:{SECRET}@host")).with("list", vec![SECRET]))
    });
    let mut setup = setup(tool);
    let output = setup.call("leak", json!({})).await.output;
    assert_eq!(
        output.content,
        [
            Content::text("[secret PASSWORD] and [secret PASSWORD], abc"),
            Content::Json { value: json!({"deep": [{"key": "x[secret PASSWORD]x"}]}) },
            Content::ResourceLink {
                uri: "https://a/?key=[secret PASSWORD]".into(),
                name: "link [secret PASSWORD]".into(),
                media_type: None,
            },
        ]
    );
    assert_eq!(output.metadata["url"], "https://u:[secret PASSWORD]@host");
    assert_eq!(output.metadata["list"], json!(["[secret PASSWORD]"]));
    check_clean(&mut setup);
}

#[tokio::test]
async fn errors_and_arguments_and_effects_are_clean_too() {
    let tool = MockTool::named("login")
        .with_effects(Kinds::WRITE, |_| Effects::write(format!("/w/{SECRET}")))
        .answering(|_, input| async move {
            assert_eq!(input["password"], SECRET, "the tool itself gets what was sent");
            Err(ToolError::failed(format!("{SECRET} is wrong")).hint(format!("try not {SECRET}")))
        });
    let mut setup = setup(tool);
    let input = json!({"password": SECRET, "more": [{"again": SECRET}]});
    let result = setup.call("login", input.clone()).await;
    assert_text(&result, Outcome::Error, "[secret PASSWORD] is wrong\ntry not [secret PASSWORD]");
    setup.call("unknown", input).await;
    let recorded = setup.bodies();
    let clean = json!({"password": "[secret PASSWORD]", "more": [{"again": "[secret PASSWORD]"}]});
    assert_eq!(recorded[0]["input"], clean);
    assert_eq!(recorded[2]["input"], clean, "of a call that never began");
    check_clean(&mut setup);
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_without_being_shown_the_secret() {
    let tool = MockTool::named("login").with_effects(Kinds::WRITE, |_| Effects::write("out"));
    let mut setup = Setup::with([tool], |builder| {
        builder
            .secrets(secrets())
            .policy(Policy::new(Mode::Ask))
            .approvals(Approvals::Listeners { timeout: Duration::from_secs(1) })
    });
    let running = setup.spawn(ToolCall::new("login", json!({"password": SECRET})));
    let request = setup
        .next(|event| match event {
            Event::Approval(request) => Some(request),
            _ => None,
        })
        .await;
    assert_eq!(request.input, json!({"password": "[secret PASSWORD]"}));
    running.await.unwrap();
}

/// The pieces of output that a listener is told, if the tool says these.
async fn told_of(pieces: &'static [&'static str]) -> (Vec<String>, Setup) {
    let tool = MockTool::named("stream").answering(move |cx, _| async move {
        for piece in pieces {
            cx.output(piece);
        }
        cx.progress(1, None, &format!("used {SECRET}"));
        Ok(Output::text("done"))
    });
    let mut setup = setup(tool);
    setup.call("stream", json!({})).await;
    let mut told = Vec::new();
    for event in setup.told() {
        match event {
            Event::Output { delta, .. } => told.push(delta.to_string()),
            Event::Progress { message, .. } => assert_eq!(&*message, "used [secret PASSWORD]"),
            _ => {}
        }
    }
    (told, setup)
}

#[tokio::test]
async fn what_is_told_while_a_call_runs_is_clean_wherever_it_is_cut() {
    for (pieces, told) in [
        (&["plain"][..], "plain"),
        (&["a hunter2hunter2 b"], "a [secret PASSWORD] b"),
        (&["a hunt", "er2hunter2 b"], "a [secret PASSWORD] b"),
        (&["h", "u", "n", "t", "e", "r", "2", "hunter", "2"], "[secret PASSWORD]"),
        (&["hunter2", "hunter3"], "[secret PREFIX]unter3"),
        (&["hunt", "ing"], "hunting"),
        (&["hun", "hunter2", "hunter2"], "hun[secret PASSWORD]"),
        (&["ends with hunter2"], "ends with hunter2"),
        (&["é", "hunter2hunter2é"], "é[secret PASSWORD]é"),
    ] {
        let (pieces_told, mut setup) = told_of(pieces).await;
        assert_eq!(pieces_told.concat(), told, "{pieces:?}");
        assert!(pieces_told.iter().all(|piece| !piece.is_empty()), "{pieces_told:?}");
        check_clean(&mut setup);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_said_before_a_call_was_stopped_is_clean() {
    let tool = MockTool::named("leak").answering(|cx, _| async move {
        cx.output("the password is hunter2");
        cx.output("hunter2, or hunt");
        std::future::pending().await
    });
    let setup = Setup::with([tool, hangs("hangs")], |builder| {
        builder.secrets(secrets()).timeout(Duration::from_secs(1))
    });
    let result = setup.call("leak", json!({})).await;
    let text = "the password is [secret PASSWORD], or hunt\n[the call was stopped after 1 s]";
    assert_text(&result, Outcome::TimedOut, text);
}

#[tokio::test]
async fn what_is_kept_of_a_long_output_is_clean() {
    let outputs = Arc::new(MemoryOutputs::default());
    let tool = MockTool::named("leak")
        .answering(|_, _| async { Ok(Output::text(format!("{SECRET}\n").repeat(1_000))) });
    let setup = Setup::with([tool], |builder| {
        builder.secrets(secrets()).outputs(outputs.clone()).output_bytes(100)
    });
    let result = setup.call("leak", json!({})).await;
    let whole = outputs.get(&CallId::new(result.call.as_str())).unwrap().expect("kept");
    assert_eq!(whole, "[secret PASSWORD]\n".repeat(1_000));
}

#[test]
fn secrets_do_not_show_themselves() {
    assert_eq!(format!("{:?}", secrets()), r#"["PASSWORD", "PREFIX"]"#);
}
