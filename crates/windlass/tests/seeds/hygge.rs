//! Behaviours of Hygge: its read tracker, by which a session does not overwrite files that it has not read, and its shell, which streams
//! output. An id such as G19 names one of its weaknesses, which Windlass must not have.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use windlass::event::EventKind;
use windlass::people::ApprovalRequest;
use windlass::{Mode, Outcome, ToolCall, Windlass};

use crate::support::{Place, text};

fn write(content: &str) -> serde_json::Value {
    json!({"path": "a.txt", "content": content})
}

#[tokio::test]
async fn hygge_read_tracker_refuses_an_unread_file() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let said = place.refused("write", write("new\n")).await;
    assert!(said.starts_with("stale: a.txt exists and was not read in this session"), "{said}");
    place.ok("read", json!({"path": "a.txt"})).await;
    place.ok("write", write("new\n")).await;
    place.ok("write", write("what it wrote itself counts as read\n")).await;
}

/// G26: Hygge records only that a file was read once.
#[tokio::test]
async fn g26_partial_or_outdated_read_is_not_enough() {
    let place = Place::with(&[("a.txt", "1\n2\n3\n4\n")]);
    place.ok("read", json!({"path": "a.txt", "limit": 2})).await;
    let said = place.refused("write", write("new\n")).await;
    assert!(said.contains("lines 3-4 were not shown"), "{said}");
    place.ok("read", json!({"path": "a.txt"})).await;
    place.put("a.txt", "1\n2\n3\nby hand\n");
    let said = place.refused("write", write("new\n")).await;
    assert!(said.starts_with("stale: a.txt changed since this session read it"), "{said}");
}

#[tokio::test]
async fn hygge_read_tracker_compares_the_content() {
    let place = Place::with(&[("a.txt", "same\n")]);
    place.ok("read", json!({"path": "a.txt"})).await;
    // An editor saves the same content again.
    std::fs::remove_file(place.path("a.txt")).unwrap();
    place.put("a.txt", "same\n");
    place.ok("write", write("new\n")).await;
}

#[tokio::test]
async fn hygge_edit_needs_no_read_and_reports_its_change() {
    let place = Place::with(&[("a.txt", "one\ntwo\n")]);
    place.ok("read", json!({"path": "a.txt"})).await;
    place.put("a.txt", "one\ntwo\nby hand\n");
    let edit = json!({"path": "a.txt", "old_string": "two", "new_string": "2"});
    let done = place.ok("edit", edit).await;
    assert!(done.output.to_text().contains("the file had changed since"), "{done:?}");
    assert_eq!(place.text("a.txt"), "one\n2\nby hand\n");
}

/// G26: the tracker took a link for another file.
#[tokio::test]
async fn g26_file_read_by_another_name_counts_as_read() {
    let place = Place::with(&[("a.txt", "one\n")]);
    std::os::unix::fs::symlink("a.txt", place.path("link")).expect("a link");
    for (read, written) in [("link", "a.txt"), ("a.txt", "b.txt"), ("b.txt", "link")] {
        place.put("a.txt", format!("read as {read}\n"));
        // A write makes two files of the hard links.
        drop(std::fs::remove_file(place.path("b.txt")));
        std::fs::hard_link(place.path("a.txt"), place.path("b.txt")).expect("a link");
        place.ok("read", json!({"path": read})).await;
        place.ok("write", json!({"path": written, "content": "new\n"})).await;
    }
}

/// G26: the file was checked before the approval, and not again after it.
#[tokio::test]
async fn g26_file_changed_during_an_approval_is_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: Arc<PathBuf> = Arc::new(folder.path().join("a.txt"));
    std::fs::write(&*path, "one\n").expect("a file");
    let asked = path.clone();
    let windlass = Windlass::builder(folder.path())
        .mode(Mode::Ask)
        .attendant(move |_: &ApprovalRequest| std::fs::write(&*asked, "by hand\n").is_ok())
        .build()
        .expect("a workspace");
    let session = windlass.new_session();
    windlass.call(&session, ToolCall::new("read", json!({"path": "a.txt"}))).await;
    let refused = windlass.call(&session, ToolCall::new("write", write("new\n"))).await;
    assert_eq!(refused.outcome, Outcome::Error);
    assert!(text(&refused).starts_with("stale: a.txt changed since"), "{}", text(&refused));
    assert_eq!(std::fs::read(&*path).expect("a file"), b"by hand\n");
}

/// G25: the result had the whole old and the whole new file.
#[tokio::test]
async fn g25_result_shows_only_the_changed_lines() {
    let lines: String = (0..1_000).map(|at| format!("line {at}\n")).collect::<Vec<_>>().concat();
    let place = Place::with(&[("a.txt", &lines)]);
    place.ok("read", json!({"path": "a.txt", "limit": 2_000})).await;
    let one = place.ok("write", write(&lines.replace("line 500\n", "other\n"))).await;
    assert!(text(&one).lines().count() < 15, "{}", text(&one));
    assert!(text(&one).contains("-line 500\n+other"), "{}", text(&one));
    let all = place.ok("write", write(&lines.replace("line", "other"))).await;
    assert!(text(&all).len() < 40_000, "{} bytes", text(&all).len());
    let edit = json!({"path": "a.txt", "old_string": "other 1\n", "new_string": "1\n"});
    let both = json!({"path": "a.txt", "edits": [
        {"old_string": "other 10\n", "new_string": "10\n"},
        {"old_string": "other 900\n", "new_string": "900\n"},
    ]});
    place.ok("edit", edit).await;
    let said = text(&place.ok("edit", both).await);
    assert!(said.contains("+10\n") && said.contains("+900\n"), "every place: {said}");
}

/// G30: there was no undo at all.
#[tokio::test]
async fn g30_every_change_can_be_undone() {
    let place = Place::with(&[("a.txt", "one\n")]);
    place.ok("read", json!({"path": "a.txt"})).await;
    place.ok("write", write("new\n")).await;
    place.ok("undo", json!({})).await;
    assert_eq!(place.text("a.txt"), "one\n");
    // After the undo, the content is not the one that the session had seen.
    let said = place.refused("write", write("again\n")).await;
    assert!(said.starts_with("stale: a.txt"), "{said}");
}

/// Collects the pieces of output from the events of a call.
async fn deltas(events: &mut windlass::event::Subscription) -> Vec<String> {
    let all = events.drain().await.into_iter();
    let delta = |event: windlass::Event| match event.kind {
        EventKind::Output { delta, .. } => Some(delta.to_string()),
        _ => None,
    };
    all.filter_map(delta).collect()
}

#[tokio::test]
async fn hygge_bash_streams_what_is_printed() {
    let place = Place::new();
    let mut events = place.windlass.subscribe();
    let command = "echo one; sleep 0.2; echo two >&2; sleep 0.2; printf '\\033[1mthree\\n'";
    let result = place.ok("bash", json!({"command": command})).await;
    let told = deltas(&mut events).await;
    assert!(told.len() >= 3, "{told:?}");
    assert_eq!(told.concat(), "one\ntwo\nthree\n");
    assert_eq!(text(&result), "one\ntwo\nthree\n", "and the answer has all of it again");
}

/// G19: Hygge drops the exit code, so that `false` is an empty error.
#[tokio::test]
async fn g19_failure_without_output_is_not_empty() {
    let place = Place::new();
    let result = place.call("bash", json!({"command": "false"})).await;
    assert_eq!((result.outcome, &*text(&result)), (Outcome::Error, "[no output; exit code 1]"));
    for key in ["exit_code", "duration_ms", "timed_out", "truncated"] {
        assert!(result.output.metadata.contains_key(key), "{key}");
    }
}

/// G22: Hygge stops reading the pipe at a line over 1 MiB, so the program blocks.
#[tokio::test]
async fn g22_long_line_does_not_block_the_program() {
    let place = Place::new();
    let command = "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo after";
    let result = place.ok("bash", json!({"command": command})).await;
    assert!(text(&result).contains("x\nafter\n"));
    assert_eq!(result.output.metadata["truncated"], true);
}

/// G23: Hygge drops all output at the time limit; background processes stay and cannot be listed.
#[tokio::test]
async fn g23_time_limit_keeps_the_output_and_ends_all_processes() {
    let place = Place::new();
    let command = "trap 'echo cleaned; exit' TERM; echo begun; sleep 60 & wait";
    let result = place.call("bash", json!({"command": command, "timeout": 0.5})).await;
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert!(text(&result).starts_with("begun\ncleaned\n[timed out"), "{}", text(&result));
    let over = ToolCall::new("bash", json!({"command": "true", "timeout": 4_000}));
    let result = place.windlass.call(&place.session, over).await;
    assert_eq!(result.code, Some("invalid_args"), "too much is said, not made less");
}
