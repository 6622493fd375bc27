//! Limits of output: head and tail, an exact count of the omitted part, and a handle to the whole.

use std::sync::{Arc, Mutex, mpsc};

use proptest::prelude::*;
use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    CallId, Content, EffectKinds, Effects, JournalError, MemoryOutputs, Outcome, Output, Outputs,
    Overrides, SessionId, ToolError,
};

use crate::support::{Setup, call, says};

/// Makes a tool that gives this output, and one that reads kept outputs.
fn setup(output: Output, limit: usize) -> Setup {
    let gives = MockTool::named("gives").answering(move |_, _| {
        let output = output.clone();
        async move { Ok(output) }
    });
    let kept = MockTool::named("kept")
        .with_effects(EffectKinds::STATE, |_| Effects::state("output"))
        .answering(|cx, input| async move {
            let call = CallId::new(input["call"].as_str().expect("an id"));
            let whole = cx.kept_output(&call)?.ok_or_else(|| ToolError::failed("not there"))?;
            Ok(Output::json(json!({"bytes": whole.len(), "whole": whole})))
        });
    Setup::with([gives, kept], |builder| builder.output_bytes(limit))
}

/// Returns this many numbered lines.
fn lines(count: usize) -> String {
    (1..=count).flat_map(|line| ["line ".to_owned(), line.to_string(), "\n".to_owned()]).collect()
}

#[tokio::test]
async fn output_within_the_limit_is_unchanged() {
    for text in [String::new(), "x".repeat(1_000), "é".repeat(500)] {
        let result = setup(Output::text(text.clone()), 1_000).call("gives", json!({})).await;
        assert_eq!(result.output.to_text(), text);
        assert!(result.output.metadata.get("truncated").is_none());
    }
}

#[tokio::test]
async fn long_output_is_cut_between_lines_and_counts_the_rest() {
    let whole = lines(100);
    let setup = setup(Output::text(whole.clone()).with("lines", 100), 60);
    let result = setup.call("gives", json!({})).await;
    let id = result.call.as_str();
    let wanted = format!(
        "line 1\nline 2\nline 3\nline 4\n[… 739 bytes, 93 lines left out here; the whole is kept: read or grep path \"output:{id}\" …]\nline 98\nline 99\nline 100\n"
    );
    let text = result.output.to_text();
    assert_eq!(text, wanted);
    let metadata = &result.output.metadata;
    assert_eq!(metadata["truncated"], true);
    assert_eq!(metadata["omitted_bytes"], 739);
    assert_eq!(metadata["output"], format!("output:{id}"));
    assert_eq!(metadata["lines"], 100, "the tool's own facts stay");
    let kept = setup
        .engine
        .call(
            &setup.session,
            windlass_core::ToolCall::new("kept", json!({"call": id}))
                .with_overrides(Overrides { output_bytes: Some(10_000), ..Overrides::default() }),
        )
        .await;
    let [Content::Json { value }] = kept.output.content.as_slice() else { panic!("{kept:?}") };
    assert_eq!(value["whole"], whole);
}

proptest! {
    #[test]
    fn shown_and_omitted_parts_make_the_whole(
        text in "(\\PC|\n|\u{1b}\\[[0-9;]{0,3}m){0,120}", limit in 0usize..100,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let output = setup(Output::text(text.clone()), limit);
        let result = runtime.block_on(output.call("gives", json!({}))).output;
        let shown = result.to_text();
        if text.len() <= limit {
            prop_assert_eq!(shown, text);
        } else {
            let left_out = usize::try_from(result.metadata["omitted_bytes"].as_u64().unwrap()).unwrap();
            let at = shown.rfind("[… ").expect("a notice");
            let end = at + shown[at..].find("…]\n").expect("its end") + "…]\n".len();
            let (head, tail) = (shown[..at].trim_end_matches('\n'), &shown[end..]);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(text.len() - left_out <= limit);
            let kept_bytes = text.len() - left_out - tail.len();
            let middle = &text[kept_bytes..text.len() - tail.len()];
            let lines = middle.matches('\n').count();
            let notice = format!("[… {left_out} bytes, {lines} lines left out here; ");
            prop_assert!(shown[at..].starts_with(&notice), "{}", shown);
        }
    }
}

#[tokio::test]
async fn pictures_and_links_are_not_cut() {
    let image = Content::Image { media_type: "image/png".into(), data: "A".repeat(10_000) };
    let link =
        Content::ResourceLink { uri: "file:///w/a".into(), name: "a".into(), media_type: None };
    let output = Output {
        content: vec![
            Content::text(lines(50)),
            image.clone(),
            Content::Json { value: json!({"rows": vec![1; 100]}) },
            link.clone(),
        ],
        ..Output::default()
    };
    let result = setup(output, 100).call("gives", json!({})).await;
    let [Content::Text { text }, second, third] = result.output.content.as_slice() else {
        panic!("{:?}", result.output.content)
    };
    assert!(text.starts_with("line 1\n") && text.ends_with("1,1]}"), "{text}");
    assert_eq!((second, third), (&image, &link));
}

#[tokio::test]
async fn long_error_is_cut_and_stays_an_error() {
    let fails =
        MockTool::named("fails").answering(|_, _| async { Err(ToolError::failed(lines(1_000))) });
    let setup = Setup::with([fails], |builder| builder.output_bytes(100));
    let result = setup.call("fails", json!({})).await;
    assert_eq!(result.outcome, Outcome::Error);
    assert!(result.output.is_error && result.output.to_text().len() < 300);
    assert_eq!(result.output.metadata["truncated"], true);
}

#[tokio::test]
async fn limit_of_a_call_overrides_the_engines() {
    let setup = setup(Output::text(lines(100)), 60);
    for (limit, truncated) in [(None, true), (Some(10_000), false), (Some(0), true)] {
        let overrides = Overrides { output_bytes: limit, ..Overrides::default() };
        let result =
            setup.engine.call(&setup.session, call("gives").with_overrides(overrides)).await;
        assert_eq!(result.output.metadata.contains_key("truncated"), truncated, "{limit:?}");
    }
}

/// A store of outputs that always fails.
struct FullDisk;

impl Outputs for FullDisk {
    fn keep(&self, _: &SessionId, _: &CallId, _: &str) -> Result<(), JournalError> {
        Err(JournalError("no space".into()))
    }

    fn get(&self, _: &CallId) -> Result<Option<String>, JournalError> {
        Err(JournalError("no space".into()))
    }
}

#[tokio::test]
async fn output_that_could_not_be_kept_has_no_handle() {
    let gives = MockTool::named("gives").answering(|_, _| async { Ok(Output::text(lines(100))) });
    let setup =
        Setup::with([gives], |builder| builder.output_bytes(60).outputs(Arc::new(FullDisk)));
    let result = setup.call("gives", json!({})).await;
    let text = result.output.to_text();
    assert!(text.contains("left out here; the rest could not be kept …]"), "{text}");
    assert!(result.output.metadata.get("output").is_none());
}

#[test]
fn oldest_outputs_make_room_for_new_ones() {
    let outputs = MemoryOutputs::default();
    let session = SessionId::new("s");
    let megabytes = "x".repeat(20 << 20);
    for call in ["a", "b", "c", "d"] {
        outputs.keep(&session, &CallId::new(call), &megabytes).unwrap();
    }
    let there = ["a", "b", "c", "d"].map(|call| outputs.get(&CallId::new(call)).unwrap().is_some());
    assert_eq!(there, [false, true, true, true]);
}

/// A store of outputs that blocks until the test releases it.
struct BlockingOutputs(Mutex<mpsc::Receiver<()>>);

impl Outputs for BlockingOutputs {
    fn keep(&self, _: &SessionId, _: &CallId, _: &str) -> Result<(), JournalError> {
        self.0.lock().unwrap().recv().expect("the test releases it");
        Ok(())
    }

    fn get(&self, _: &CallId) -> Result<Option<String>, JournalError> {
        Ok(None)
    }
}

#[tokio::test]
async fn slow_store_of_outputs_delays_no_other_call() {
    let (let_go, held) = mpsc::channel();
    let outputs = Arc::new(BlockingOutputs(Mutex::new(held)));
    let long =
        MockTool::named("long").answering(|_, _| async { Ok(Output::text("x".repeat(1_000))) });
    let setup = Setup::with([long, says("short", "ok")], |builder| {
        builder.output_bytes(100).outputs(outputs)
    });
    let waits = tokio::spawn(setup.engine.start(&setup.session, call("long")).1);
    tokio::task::yield_now().await;
    for _ in 0..10 {
        assert_eq!(setup.engine.call(&setup.session, call("short")).await.output.to_text(), "ok");
    }
    assert!(!waits.is_finished(), "its output is not kept yet");
    let_go.send(()).unwrap();
    let text = waits.await.unwrap().output.to_text();
    assert!(text.contains("the whole is kept"), "{text}");
}
