//! `kill -9` at any moment loses nothing that was acknowledged.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Home;

const ROUNDS: u64 = 200;

#[test]
fn kill_at_random_moments_loses_no_acknowledged_record() {
    let home = Home::with(&[("a", "hello\n")]);
    let mut acknowledged = HashSet::new();
    for round in 0..ROUNDS {
        acknowledged.extend(run_and_kill(&home, round));
    }
    // The next start closes what was open.
    let verified = home.run(&["log", "verify", "--json"]).lines().remove(0);
    assert_eq!(verified["ok"], true, "{verified}");
    let rows = home.run(&["log", "--json"]).lines();
    let calls = |kind: &str| -> Vec<&Value> {
        rows.iter().filter(|row| row["kind"] == kind).map(|row| &row["call"]).collect()
    };
    let finished: HashSet<&str> = calls("finished").into_iter().filter_map(Value::as_str).collect();
    assert!(
        acknowledged.len() > 100,
        "only {} calls were acknowledged: the test shows nothing",
        acknowledged.len()
    );
    for call in &acknowledged {
        assert!(finished.contains(call.as_str()), "{call} was acknowledged and is gone");
    }
    assert_eq!(calls("finished").len(), finished.len(), "every call ends once");
    for call in calls("started") {
        assert!(finished.contains(call.as_str().expect("an id")), "{call} was never closed");
    }
}

/// Starts a run, kills it after a number of answers and a short while that depends on the round; the calls it acknowledged.
fn run_and_kill(home: &Home, round: u64) -> Vec<String> {
    let mut child =
        home.command(&["run", "--mode", "auto"]).stdin(Stdio::piped()).spawn().expect("runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || {
        for number in 0..1_000 {
            let call = match number % 3 {
                0 => json!({"tool": "read", "input": {"path": "a"}}),
                1 => {
                    json!({"tool": "write", "input": {"path": format!("b{round}-{number}"), "content": "x\n"}})
                }
                _ => json!({"tool": "list", "input": {"depth": 1, "limit": 5}}),
            };
            if writeln!(stdin, "{call}").is_err() {
                return;
            }
        }
    });
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut seen = Vec::new();
    for _ in 0..round % 7 {
        let Some(Ok(line)) = answers.next() else { break };
        seen.push(line);
    }
    std::thread::sleep(std::time::Duration::from_micros(round * 7_919 % 5_000));
    child.kill().expect("a process to kill");
    // What was already in the pipe was acknowledged as well; a line cut short was not.
    seen.extend(answers.map_while(Result::ok));
    child.wait().expect("the process ends");
    writer.join().expect("the writer ends");
    seen.iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|answer| answer["call"].as_str().map(str::to_owned))
        .collect()
}
