//! Redaction: secrets are in nothing that is stored, shown or sent to a model.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    CallId, Content, Effect, EffectKinds, Effects, EventAttendant, EventKind, MemoryOutputs, Mode,
    Outcome, Output, Outputs, Policy, Secrets, ToolCall, ToolError,
};

use crate::support::{Setup, assert_text, hangs};

const SECRET: &str = "hunter2hunter2";

/// Secrets of these tests: two long ones and one that is too short to be redacted.
fn secrets() -> Secrets {
    Secrets::new([("PASSWORD", SECRET), ("PREFIX", "hunter2h"), ("SHORT", "abc")])
}

/// Makes an engine with these secrets and one tool.
fn setup(tool: MockTool) -> Setup {
    Setup::with([tool], |builder| builder.secrets(secrets()).policy(Policy::new(Mode::Yolo)))
}

/// Checks that no event and no record contains the secret.
async fn check_clean(setup: &mut Setup) {
    for event in setup.told().await {
        let shown = format!("{event:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    for record in setup.journal.records() {
        assert!(!record.body.contains("hunter2"), "{}", record.body);
    }
}

#[tokio::test]
async fn every_part_of_an_output_is_redacted() {
    let tool = MockTool::named("leak").answering(|_, _| async {
        let output = Output {
            content: vec![
                Content::text(format!("{SECRET} and {SECRET}, abc")),
                Content::Json { value: json!({"deep": [{"key": format!("x{SECRET}x")}]}) },
                Content::resource_text(format!("https://a/{SECRET}"), format!("it is {SECRET}")),
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
            Content::resource_text("https://a/[secret PASSWORD]", "it is [secret PASSWORD]"),
            Content::ResourceLink {
                uri: "https://a/?key=[secret PASSWORD]".into(),
                name: "link [secret PASSWORD]".into(),
                media_type: None,
            },
        ]
    );
    assert_eq!(output.metadata["url"], "https://u:[secret PASSWORD]@host");
    assert_eq!(output.metadata["list"], json!(["[secret PASSWORD]"]));
    check_clean(&mut setup).await;
}

#[tokio::test]
async fn errors_arguments_and_effects_are_redacted() {
    let tool = MockTool::named("login")
        .with_effects(EffectKinds::WRITE, |_| Effects::write(format!("/w/{SECRET}")))
        .answering(|_, input| async move {
            assert_eq!(input["password"], SECRET, "the tool itself gets the original arguments");
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
    assert_eq!(recorded[2]["input"], clean, "also for a call that never began");
    check_clean(&mut setup).await;
}

#[tokio::test(start_paused = true)]
async fn person_is_asked_without_seeing_the_secret() {
    let tool = MockTool::named("login").with_effects(EffectKinds::WRITE, |_| Effects::write("out"));
    let mut setup = Setup::with([tool], |builder| {
        builder
            .secrets(secrets())
            .policy(Policy::new(Mode::Ask))
            .attendant(EventAttendant { patience: Some(Duration::from_secs(1)) })
    });
    let running = setup.spawn(ToolCall::new("login", json!({"password": SECRET})));
    let request = setup
        .next(|event| match event.kind {
            EventKind::Approval(request) => Some(request),
            _ => None,
        })
        .await;
    assert_eq!(request.input, json!({"password": "[secret PASSWORD]"}));
    running.await.unwrap();
}

/// Runs a tool that prints these pieces, and returns the pieces that a listener gets.
async fn published_pieces(pieces: &'static [&'static str]) -> (Vec<String>, Setup) {
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
    for event in setup.told().await {
        match event.kind {
            EventKind::Output { delta, .. } => told.push(delta.to_string()),
            EventKind::Progress { message, .. } => assert_eq!(&*message, "used [secret PASSWORD]"),
            _ => {}
        }
    }
    (told, setup)
}

#[tokio::test]
async fn live_output_is_redacted_at_every_cut() {
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
        let (pieces_told, mut setup) = published_pieces(pieces).await;
        assert_eq!(pieces_told.concat(), told, "{pieces:?}");
        assert!(pieces_told.iter().all(|piece| !piece.is_empty()), "{pieces_told:?}");
        check_clean(&mut setup).await;
    }
}

#[tokio::test(start_paused = true)]
async fn partial_output_of_a_stopped_call_is_redacted() {
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
async fn kept_output_is_redacted() {
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
fn debug_output_shows_only_the_names_of_secrets() {
    assert_eq!(format!("{:?}", secrets()), r#"["PASSWORD", "PREFIX"]"#);
}

/// Returns one secret in every encoding that is recognized, and a credential that is recognized by its form alone.
fn forms() -> Vec<String> {
    let hex: Vec<String> = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let unicode: Vec<String> = SECRET.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
    vec![
        SECRET.to_owned(),
        "aHVudGVyMmh1bnRlcjI".to_owned(),
        "eGh1bnRlcjJodW50ZXIy".to_owned(),
        hex.concat(),
        hex.join(":").to_ascii_uppercase(),
        "hunter%32hunter%32".to_owned(),
        unicode.concat(),
        format!("ghp_{}", "h1U2n3T4e5R6h7U8n9".repeat(2)),
    ]
}

/// Returns the middle of a form, which is left over if redaction removes only a part.
fn core_of(form: &str) -> &str {
    &form[4..form.len() - 2]
}

/// A tool that returns its argument in every way that a tool can.
fn leaky() -> MockTool {
    MockTool::named("leaky")
        .with_effects(EffectKinds::WRITE, |input| {
            Effects::write(format!("/w/{}", input["form"].as_str().unwrap_or_default()))
        })
        .answering(|cx, input| async move {
            let form = input["form"].as_str().unwrap_or_default();
            let (first, second) = form.split_at(form.len() / 2);
            cx.output(first);
            cx.output(second);
            cx.progress(1, None, form);
            let output = Output {
                content: vec![
                    Content::text(format!("<{form}>\n").repeat(40)),
                    Content::Json { value: json!({form: [form]}) },
                    Content::ResourceLink { uri: form.into(), name: form.into(), media_type: None },
                ],
                ..Output::default()
            };
            match input["how"].as_str() {
                Some("fails") => Err(ToolError::failed(form.to_owned()).hint(form.to_owned())),
                Some("faults") => Err(ToolError::internal(form.to_owned())),
                Some("panics") => panic!("{form}"),
                Some("hangs") => std::future::pending().await,
                _ => Ok(output.with("fact", form)),
            }
        })
}

#[tokio::test(start_paused = true)]
async fn no_encoding_of_a_secret_leaves_in_any_way() {
    for form in forms() {
        for how in ["answers", "fails", "faults", "panics", "hangs"] {
            let outputs = Arc::new(MemoryOutputs::default());
            let mut setup = Setup::with([leaky()], |builder| {
                builder
                    .secrets(secrets())
                    .policy(Policy::new(Mode::Ask))
                    .attendant(|request: &windlass_core::ApprovalRequest| {
                        let asked = format!("{request:?}");
                        assert!(
                            !forms().iter().any(|form| asked.contains(core_of(form))),
                            "{asked}"
                        );
                        true
                    })
                    .outputs(outputs.clone())
                    .output_bytes(300)
                    .timeout(Duration::from_secs(1))
            });
            let result =
                setup.call("leaky", json!({"form": form, "how": how, form.as_str(): 1})).await;
            let mut left = vec![format!("{result:?}")];
            left.extend(setup.told().await.iter().map(|event| format!("{event:?}")));
            left.extend(setup.journal.records().into_iter().map(|record| record.body));
            left.extend(outputs.get(&CallId::new(result.call.as_str())).unwrap());
            assert!(left.iter().any(|text| text.contains("[secret")), "{how}");
            for text in left {
                assert!(!text.contains(core_of(&form)), "{form} {how}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn tool_gets_only_the_secrets_that_were_granted() {
    let tool = MockTool::named("login")
        .with_effects(EffectKinds::SECRET, |input| {
            Effect::Secret(input["declares"].as_str().unwrap_or_default().into()).into()
        })
        .answering(|cx, input| async move {
            let secret = cx.secret(input["uses"].as_str().unwrap_or_default())?;
            assert_eq!((secret.expose(), &*format!("{secret:?}")), (SECRET, "[secret PASSWORD]"));
            Ok(Output::text(format!("used {}", secret.expose())))
        });
    let mut setup = setup(tool);
    for (declares, uses, expected) in [
        ("PASSWORD", "PASSWORD", "used [secret PASSWORD]"),
        ("PREFIX", "PASSWORD", "without having declared it"),
        ("OTHER", "OTHER", "those that are known: PASSWORD, PREFIX"),
    ] {
        let result = setup.call("login", json!({"declares": declares, "uses": uses})).await;
        let text = result.output.to_text();
        assert!(text.contains(expected), "{text}");
    }
    check_clean(&mut setup).await;
    let ask = Policy::new(Mode::Auto).decide(
        "login",
        Effects::from(Effect::Secret("A".into())),
        "/w".as_ref(),
    );
    assert_eq!(ask.decision(), windlass_core::Decision::Ask, "mode auto asks about secrets too");
}
