use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Home;

#[test]
fn a_turn_is_answered_in_order_and_an_unknown_tool_names_near_ones() {
    let home = Home::with_workspace(&[("README.md", "hello\n")]);
    let turn = json!([
        {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "README.md"}},
        {"type": "tool_use", "id": "b", "name": "nope", "input": {}},
    ]);
    let ran = home.run_with_input(&["run", "-"], format!("{turn}\n").as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["tool_use_id"], &lines[0]["outcome"]), (&json!("a"), &json!("ok")));
    assert_eq!((&lines[1]["tool_use_id"], &lines[1]["outcome"]), (&json!("b"), &json!("fault")));
    assert_eq!(lines[1]["metadata"]["code"], "unknown_tool");
    assert!(lines[1]["content"][0]["text"].as_str().expect("text").contains("read"));
}

#[test]
fn every_provider_is_answered_in_its_own_form() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let input = [
        json!({"type": "tool_use", "id": "1", "name": "read", "input": {"path": "a"}}),
        json!({"id": "2", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}}),
        json!({"type": "function_call", "call_id": "3", "name": "read", "arguments": "{\"path\":\"a\"}"}),
        json!({"functionCall": {"name": "read", "args": {"path": "a"}}}),
        json!({"tool": "read", "input": {"path": "a"}}),
    ];
    let text: String = input.iter().map(|line| format!("{line}\n")).collect();
    let lines = home.run_with_input(&["run"], text.as_bytes()).lines();
    assert_eq!(lines[0]["tool_use_id"], "1");
    assert_eq!(lines[1]["tool_call_id"], "2");
    assert_eq!(
        (&lines[2]["type"], &lines[2]["call_id"]),
        (&json!("function_call_output"), &json!("3"))
    );
    assert_eq!(lines[3]["functionResponse"]["name"], "read");
    assert_eq!(lines[4]["type"], "tool_result");
    assert!(lines.iter().all(|line| line["outcome"] == "ok"), "{lines:?}");
}

#[test]
fn invalid_line_gets_an_error_and_the_run_continues() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let deep = "[".repeat(10_000);
    let input = format!(
        "not json\n\n{{\"x\":1}}\n{deep}\n\"\\u0000\"\n{}\n",
        json!({"tool": "read", "input": {"path": "a"}})
    );
    let ran = home.run_with_input(&["run", "-"], input.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.lines();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines[..4].iter().all(|line| line["type"] == "error"));
    assert_eq!(lines[4]["outcome"], "ok");
}

#[test]
fn invalid_item_gets_an_error_and_its_neighbours_run() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let read =
        |id: &str| json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": "a"}});
    let turn = json!([
        {"type": "thinking", "thinking": "I look."}, read("1"), 5, {"type": "text", "text": "And:"}, read("2"), {"x": 1},
    ]);
    let ran = home.run_with_input(&["run"], format!("{turn}\n[5]\n{}\n", read("3")).as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    let said: Vec<_> = ran
        .lines()
        .iter()
        .map(|line| match line["tool_use_id"].as_str() {
            Some(id) => format!("{id} {}", line["outcome"].as_str().unwrap_or_default()),
            None => line["error"]["message"].as_str().unwrap_or_default()[..6].to_owned(),
        })
        .collect();
    assert_eq!(said, ["1 ok", "item 3", "2 ok", "item 6", "item 1", "3 ok"]);
}

#[test]
fn events_are_printed_between_results() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let lines = home
        .run_with_input(&["run", "--events"], b"{\"tool\":\"read\",\"input\":{\"path\":\"a\"}}\n")
        .lines();
    let (events, answers): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line["event"].is_string());
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0]["type"], "tool_result");
    let rows = home.run(&["log", "--json"]).lines();
    assert_eq!(events.len(), 2, "{events:?}");
    for (line, kind) in events.iter().zip(["started", "finished"]) {
        let row = rows.iter().find(|row| row["kind"] == kind).expect("a record");
        assert_eq!((&line["event"], &line["call"]), (&json!(kind), &answers[0]["call"]));
        assert_eq!((&line["seq"], &line["session"]), (&row["seq"], &row["session"]), "{kind}");
    }
}

#[test]
fn result_does_not_wait_for_events() {
    let home = Home::with_workspace(&[("a", "hello\n"), ("b", "hello\n")]);
    let read = |path: &str| json!({"tool": "read", "input": {"path": path}});
    home.run_with_input(&["run", "--events"], format!("{}\n", read("a")).as_bytes());
    // Events wait for the numbers of their records, and these for the database.
    let database =
        rusqlite::Connection::open(home.state().join("journal.db")).expect("the journal");
    database.execute_batch("BEGIN IMMEDIATE").expect("the only writer");
    let mut running = home
        .command(&["run", "--events"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("windlass");
    let mut input = running.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Option<Value> {
        let line = lines.next()?.expect("a line");
        Some(serde_json::from_str(&line).expect("JSON"))
    };
    for path in ["a", "b"] {
        writeln!(input, "{}", read(path)).expect("a reader");
        assert_eq!(next().expect("an answer")["type"], "tool_result");
    }
    database.execute_batch("ROLLBACK").expect("the end of the lock");
    drop(input);
    let events: Vec<_> = std::iter::from_fn(next).collect();
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str()).collect();
    let [started, finished] = [Some("started"), Some("finished")];
    assert_eq!(names, [started, finished, started, finished], "{events:?}");
    assert!(events.is_sorted_by_key(|event| event["seq"].as_u64()), "{events:?}");
    assert!(running.wait().expect("its end").success());
}

#[test]
fn missing_input_file_is_an_error() {
    let ran = Home::new().run(&["run", "missing.jsonl"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("missing.jsonl"));
}

#[test]
fn continued_session_may_overwrite_files_that_it_has_read() {
    let home = Home::with_workspace(&[("a", "old\n")]);
    let write = json!({"tool": "write", "input": {"path": "a", "content": "new\n"}});
    let read = json!({"tool": "read", "input": {"path": "a"}});
    let input = format!("{write}\n{read}\n{write}\n");
    let lines = home.run_with_input(&["run", "--mode", "auto"], input.as_bytes()).lines();
    assert_eq!(
        (&lines[0]["outcome"], &lines[2]["outcome"]),
        (&json!("error"), &json!("ok")),
        "{lines:?}"
    );
    assert!(lines[0]["content"][0]["text"].as_str().expect("text").contains("stale"));
    assert_eq!(std::fs::read_to_string(home.workspace().join("a")).expect("a file"), "new\n");
}
