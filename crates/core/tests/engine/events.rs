//! Events: published while calls run, to every listener, without delaying a call.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Notify;
use windlass_core::testing::MockTool;
use windlass_core::{EventKind, Outcome, Output};

use crate::support::{Setup, assert_text, call, writes};

/// A tool that publishes this many pieces of output and progress.
fn chatty(pieces: usize) -> MockTool {
    writes(MockTool::named("chatty").answering(move |cx, _| async move {
        for piece in 0..pieces {
            cx.output("1");
            cx.progress(piece as u64, Some(pieces as u64), "going on");
        }
        Ok(Output::text("done"))
    }))
}

#[tokio::test]
async fn events_of_a_call_come_from_its_beginning_to_its_end() {
    let mut setup = Setup::of([chatty(2)]);
    let result = setup.call("chatty", json!({"a": 1})).await;
    let told = setup.told().await;
    assert!(told.iter().all(|event| event.call.as_ref() == Some(&result.call)));
    assert!(told.iter().all(|event| event.session.as_ref() == Some(setup.session.id())));
    let seqs: Vec<_> = told.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [Some(1), None, None, None, None, Some(2)]);
    let kinds: Vec<_> = told.iter().map(|event| &event.kind).collect();
    let [EventKind::Started(started), output, progress, _, _, EventKind::Finished(finished)] =
        kinds.as_slice()
    else {
        panic!("{told:?}")
    };
    assert_eq!(started.tool, "chatty");
    assert_eq!(started.input, json!({"a": 1}));
    assert_eq!(started.effects.to_string(), "write /w/out");
    assert_eq!(started.decided.to_string(), "allowed by mode auto");
    assert_eq!(started.turn, result.turn);
    assert!(matches!(output, EventKind::Output { delta, .. } if &**delta == "1"));
    assert!(
        matches!(progress, EventKind::Progress { done: 0, total: Some(2), message, .. } if &**message == "going on")
    );
    assert_text(finished, Outcome::Ok, "done");
}

#[tokio::test]
async fn slow_listener_loses_only_output_and_progress_and_gets_their_count() {
    const PIECES: usize = 2_000;
    let mut setup = Setup::of([chatty(PIECES)]);
    let mut quick = setup.engine.subscribe();
    let listener = tokio::spawn(async move {
        let mut told = 0u64;
        while !matches!(quick.next().await.kind, EventKind::Finished(_)) {
            told += 1;
        }
        (told, quick.lost())
    });
    assert_text(&setup.call("chatty", json!({})).await, Outcome::Ok, "done");
    let told = setup.told().await;
    assert!(told.first().is_some_and(|event| event.kind.name() == "started"));
    assert!(told.last().is_some_and(|event| event.kind.name() == "finished"));
    let pieces = told.len() - 2;
    let lost = usize::try_from(setup.events.lost()).unwrap();
    assert!(lost > 0);
    assert_eq!(pieces + lost, 2 * PIECES, "every piece was received or counted");
    let (told, lost) = listener.await.unwrap();
    assert_eq!(told + lost, 2 * PIECES as u64 + 1, "each listener has its own count");
}

#[tokio::test]
async fn every_listener_gets_all_events_since_its_subscription() {
    let mut setup = Setup::of([MockTool::named("noop")]);
    let mut first = setup.engine.subscribe();
    setup.call("noop", json!({})).await;
    let mut late = setup.engine.subscribe();
    setup.call("noop", json!({})).await;
    assert_eq!(setup.told().await.len(), 4);
    assert_eq!(first.drain().await.len(), 4);
    assert_eq!(late.drain().await.len(), 2);
    drop(late);
    setup.call("noop", json!({})).await;
    assert_eq!(first.drain().await.len(), 2);
}

#[tokio::test]
async fn end_is_published_after_it_is_recorded() {
    let mut setup = Setup::of([MockTool::named("noop")]);
    let journal = setup.journal.clone();
    let running = setup.spawn(call("noop"));
    loop {
        let event = setup.events.next().await;
        let recorded = journal.records().len();
        match event.kind {
            EventKind::Started(_) => assert!(recorded >= 1),
            EventKind::Finished(_) => {
                assert_eq!(recorded, 2);
                break;
            }
            _ => {}
        }
    }
    running.await.unwrap();
}

#[tokio::test]
async fn beginning_of_a_read_is_published_while_it_waits() {
    let heard = Arc::new(Notify::new());
    let waits = MockTool::named("wait").answering({
        let heard = heard.clone();
        move |_, _| {
            let heard = heard.clone();
            async move {
                heard.notified().await;
                Ok(Output::text("heard"))
            }
        }
    });
    let mut setup = Setup::of([waits]);
    let running = setup.spawn(call("wait"));
    assert_eq!(setup.events.next().await.kind.name(), "started");
    heard.notify_one();
    assert_eq!(running.await.unwrap().output.to_text(), "heard");
}
