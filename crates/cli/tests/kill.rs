//! `kill -9` at any moment loses nothing that was acknowledged.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Home;

const KILL_ROUNDS: u64 = 200;

#[test]
fn kill_at_random_moments_loses_no_acknowledged_record() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let mut acknowledged = HashSet::new();
    for round in 0..KILL_ROUNDS {
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

/// Starts `windlass run` and kills it after a number of results and a short time that depends on the round. Returns the acknowledged calls.
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

/// Returns the files in the state directory that only a running process needs.
fn abandoned_files(home: &Home) -> Vec<String> {
    let script = "cd \"$0\" && find tmp jobs outputs/unfinished stages stand-ins -mindepth 1 2>/dev/null; find . -name '*.tmp'";
    let found = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(home.state())
        .output()
        .expect("find runs");
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn next_server_removes_files_of_a_killed_one() {
    // In a `/tmp` with a workspace in it, the directories above the workspace stay.
    let home = Home::new_outside_tmp().with_files(&[("a", "hello\n")]);
    let mut child =
        home.command(&["run", "--mode", "auto"]).stdin(Stdio::piped()).spawn().expect("runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let line = json!({"tool": "bash", "input": {"command": "echo x > b; exec sleep 1000"}});
    writeln!(stdin, "{line}").expect("it reads");
    while !abandoned_files(&home).iter().any(|path| path.ends_with("/b")) {
        assert!(child.try_wait().expect("a process").is_none(), "it ended before the command ran");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("a process to kill");
    child.wait().expect("the process ends");
    drop(stdin);
    std::fs::create_dir_all(home.state().join("outputs/unfinished")).expect("a directory");
    for name in ["outputs/unfinished/c1.1", "index/0.tmp"] {
        std::fs::write(home.state().join(name), "half").expect("a file");
    }
    let before = abandoned_files(&home);
    for part in ["tmp/", "jobs/", "stages/", "index/0.tmp"] {
        assert!(before.iter().any(|path| path.contains(part)), "{part}: {before:?}");
    }
    let line = json!({"tool": "bash", "input": {"command": "seq 100000"}}).to_string() + "\n";
    let ran = home.run_with_input(&["run", "--mode", "auto"], line.as_bytes());
    assert_eq!(ran.lines()[0]["outcome"], "ok", "{ran:?}");
    assert_eq!(abandoned_files(&home), Vec::<String>::new());
}
