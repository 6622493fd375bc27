//! Behaviours of Hygge: its read tracker, by which a session does not overwrite files that it has not read, and its shell, which streams
//! output. An id such as G19 names one of its weaknesses, which Windlass must not have.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use windlass::event::EventKind;
use windlass::people::ApprovalRequest;
use windlass::{Mode, Outcome, ToolCall, Windlass};

use crate::support::{TestWorkspace, text};

fn write(content: &str) -> serde_json::Value {
    json!({"path": "a.txt", "content": content})
}

#[tokio::test]
async fn hygge_read_tracker_refuses_an_unread_file() {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    let said = test.call_refused("write", write("new\n")).await;
    assert!(said.starts_with("stale: a.txt exists and was not read in this session"), "{said}");
    test.call_ok("read", json!({"path": "a.txt"})).await;
    test.call_ok("write", write("new\n")).await;
    test.call_ok("write", write("what it wrote itself counts as read\n")).await;
}

/// G26: Hygge records only that a file was read once.
#[tokio::test]
async fn g26_partial_or_outdated_read_is_not_enough() {
    let test = TestWorkspace::with(&[("a.txt", "1\n2\n3\n4\n")]);
    test.call_ok("read", json!({"path": "a.txt", "limit": 2})).await;
    let said = test.call_refused("write", write("new\n")).await;
    assert!(said.contains("lines 3-4 were not shown"), "{said}");
    test.call_ok("read", json!({"path": "a.txt"})).await;
    test.put("a.txt", "1\n2\n3\nby hand\n");
    let said = test.call_refused("write", write("new\n")).await;
    assert!(said.starts_with("stale: a.txt changed since this session read it"), "{said}");
}

#[tokio::test]
async fn hygge_read_tracker_compares_the_content() {
    let test = TestWorkspace::with(&[("a.txt", "same\n")]);
    test.call_ok("read", json!({"path": "a.txt"})).await;
    // An editor saves the same content again.
    std::fs::remove_file(test.path("a.txt")).unwrap();
    test.put("a.txt", "same\n");
    test.call_ok("write", write("new\n")).await;
}

#[tokio::test]
async fn hygge_edit_needs_no_read_and_reports_its_change() {
    let test = TestWorkspace::with(&[("a.txt", "one\ntwo\n")]);
    test.call_ok("read", json!({"path": "a.txt"})).await;
    test.put("a.txt", "one\ntwo\nby hand\n");
    let edit = json!({"path": "a.txt", "old_string": "two", "new_string": "2"});
    let done = test.call_ok("edit", edit).await;
    assert!(done.output.to_text().contains("the file had changed since"), "{done:?}");
    assert_eq!(test.text("a.txt"), "one\n2\nby hand\n");
}

/// G26: the tracker took a link for another file.
#[tokio::test]
async fn g26_file_read_by_another_name_counts_as_read() {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    std::os::unix::fs::symlink("a.txt", test.path("link")).expect("a link");
    for (read, written) in [("link", "a.txt"), ("a.txt", "b.txt"), ("b.txt", "link")] {
        test.put("a.txt", format!("read as {read}\n"));
        // A write makes two files of the hard links.
        drop(std::fs::remove_file(test.path("b.txt")));
        std::fs::hard_link(test.path("a.txt"), test.path("b.txt")).expect("a link");
        test.call_ok("read", json!({"path": read})).await;
        test.call_ok("write", json!({"path": written, "content": "new\n"})).await;
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
    let test = TestWorkspace::with(&[("a.txt", &lines)]);
    test.call_ok("read", json!({"path": "a.txt", "limit": 2_000})).await;
    let one = test.call_ok("write", write(&lines.replace("line 500\n", "other\n"))).await;
    assert!(text(&one).lines().count() < 15, "{}", text(&one));
    assert!(text(&one).contains("-line 500\n+other"), "{}", text(&one));
    let all = test.call_ok("write", write(&lines.replace("line", "other"))).await;
    assert!(text(&all).len() < 40_000, "{} bytes", text(&all).len());
    let edit = json!({"path": "a.txt", "old_string": "other 1\n", "new_string": "1\n"});
    let both = json!({"path": "a.txt", "edits": [
        {"old_string": "other 10\n", "new_string": "10\n"},
        {"old_string": "other 900\n", "new_string": "900\n"},
    ]});
    test.call_ok("edit", edit).await;
    let said = text(&test.call_ok("edit", both).await);
    assert!(said.contains("+10\n") && said.contains("+900\n"), "every place: {said}");
}

/// G30: there was no undo at all.
#[tokio::test]
async fn g30_every_change_can_be_undone() {
    let test = TestWorkspace::with(&[("a.txt", "one\n")]);
    test.call_ok("read", json!({"path": "a.txt"})).await;
    test.call_ok("write", write("new\n")).await;
    test.call_ok("undo", json!({})).await;
    assert_eq!(test.text("a.txt"), "one\n");
    // After the undo, the content is not the one that the session had seen.
    let said = test.call_refused("write", write("again\n")).await;
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
async fn hygge_bash_streams_its_output() {
    let test = TestWorkspace::new();
    let mut events = test.windlass.subscribe();
    let command = "echo one; sleep 0.2; echo two >&2; sleep 0.2; printf '\\033[1mthree\\n'";
    let result = test.call_ok("bash", json!({"command": command})).await;
    let told = deltas(&mut events).await;
    assert!(told.len() >= 3, "{told:?}");
    assert_eq!(told.concat(), "one\ntwo\nthree\n");
    assert_eq!(text(&result), "one\ntwo\nthree\n", "and the answer has all of it again");
}

/// G19: Hygge drops the exit code, so that `false` is an empty error.
#[tokio::test]
async fn g19_failure_without_output_is_not_empty() {
    let test = TestWorkspace::new();
    let result = test.call("bash", json!({"command": "false"})).await;
    assert_eq!((result.outcome, &*text(&result)), (Outcome::Error, "[no output; exit code 1]"));
    for key in ["exit_code", "duration_ms", "timed_out", "truncated"] {
        assert!(result.output.metadata.contains_key(key), "{key}");
    }
}

/// G22: Hygge stops reading the pipe at a line over 1 MiB, so the program blocks.
#[tokio::test]
async fn g22_long_line_does_not_block_the_program() {
    let test = TestWorkspace::new();
    let command = "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo after";
    let result = test.call_ok("bash", json!({"command": command})).await;
    assert!(text(&result).contains("x\nafter\n"));
    assert_eq!(result.output.metadata["truncated"], true);
}

/// G23: Hygge drops all output at the time limit; background processes stay and cannot be listed.
#[tokio::test]
async fn g23_time_limit_keeps_the_output_and_ends_all_processes() {
    let test = TestWorkspace::new();
    let command = "trap 'echo cleaned; exit' TERM; echo begun; sleep 60 & wait";
    let result = test.call("bash", json!({"command": command, "timeout": 0.5})).await;
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert!(text(&result).starts_with("begun\ncleaned\n[timed out"), "{}", text(&result));
    let over = ToolCall::new("bash", json!({"command": "true", "timeout": 4_000}));
    let result = test.windlass.call(&test.session, over).await;
    assert_eq!(result.code, Some("invalid_args"), "too much is said, not made less");
}
