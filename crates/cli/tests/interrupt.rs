//! Ctrl-C ends what runs as a time limit does: with what was printed, and with the changes that the rules keep.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp::initialize;
use crate::support::{Home, RunResult};
use crate::terminal::Terminal;

const QUESTION: &str = "Allow this? ";
/// The key Ctrl-C.
const CTRL_C: u8 = 3;

/// A command that changes a file, prints, and then waits for longer than any test; and the time that it waits for, by which its
/// process is found.
fn waiting_command(number: u32) -> (String, String) {
    let seconds = format!("61{number}.{}", std::process::id());
    (format!("echo printed; echo x > made; sleep {seconds}"), seconds)
}

/// Waits until a program `sleep` runs for so long.
fn wait_for_sleep(seconds: &str) {
    let wanted = format!("sleep\0{seconds}\0");
    let runs = || {
        let processes = fs::read_dir("/proc").expect("processes").flatten();
        processes
            .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
            .any(|line| line == wanted.as_bytes())
    };
    let end = Instant::now() + Duration::from_mins(1);
    while !runs() {
        assert!(Instant::now() < end, "no `sleep {seconds}` was started");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn interrupt(child: &Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill").success());
}

fn run_and_interrupt(home: &Home, number: u32, options: &[&str]) -> (RunResult, Value) {
    let (command, seconds) = waiting_command(number);
    let input = json!({"command": command}).to_string();
    let child = home.command(&[&["call", "bash", &input, "--json"][..], options].concat()).spawn();
    let child = child.expect("the binary runs");
    wait_for_sleep(&seconds);
    interrupt(&child);
    let ran = RunResult::from_output(child.wait_with_output().expect("it ends"));
    let answer = ran.lines().into_iter().next().unwrap_or_else(|| panic!("{ran:?}"));
    (ran, answer)
}

fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn interrupted_command_keeps_output_and_allowed_changes() {
    for (number, options, is_kept, said) in [
        (1, &["--mode", "auto"][..], true, "above; changed: A made]"),
        (2, &["--allow", "write made"], true, "above; changed: A made]"),
        (
            3,
            &["--sandbox", "discard"],
            false,
            "above; would have changed, and nothing but files in /tmp is kept: A made]",
        ),
        (4, &[], false, "what it changed was dropped"),
    ] {
        let home = Home::new_outside_tmp();
        let (ran, answer) = run_and_interrupt(&home, number, options);
        assert_eq!((ran.code, &answer["outcome"]), (130, &json!("cancelled")), "{ran:?}");
        let text = text(&answer);
        assert!(text.starts_with("printed\n[interrupted after "), "{text}");
        assert!(text.contains(said), "{options:?}: {text}");
        assert_eq!(home.workspace().join("made").exists(), is_kept, "{options:?}");
        if is_kept {
            assert_eq!(home.run(&["undo"]).code, 0);
            assert!(!home.workspace().join("made").exists(), "{options:?}");
        }
        assert_eq!(home.run(&["log", "verify"]).code, 0);
    }
}

/// The person who interrupts a command is asked about what it changed until then; a second interrupt ends it without.
#[test]
fn person_is_asked_after_the_first_interrupt_only() {
    for (number, is_kept) in [(5, true), (6, false)] {
        let home = Home::new_outside_tmp();
        let (command, seconds) = waiting_command(number);
        let input = json!({"command": command}).to_string();
        let mut terminal = Terminal::start(&home, 40, "", &["call", "bash", &input]);
        wait_for_sleep(&seconds);
        terminal.press(CTRL_C);
        terminal.expect(QUESTION);
        let (ran, shown) = if is_kept {
            terminal.answer_and_end("y")
        } else {
            terminal.press_once_and_end(CTRL_C)
        };
        assert_eq!(ran.code, 130, "{ran:?}\n{shown}");
        assert!(ran.stdout.starts_with("printed\n"), "{ran:?}");
        assert!(shown.contains("+x\n"), "{shown}");
        assert_eq!(home.workspace().join("made").exists(), is_kept);
        assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
    }
}

/// Ctrl-C at the question drops the changes for good: no question stays open, and no stage is held for one.
#[test]
fn interrupt_at_the_question_drops_the_changes() {
    let home = Home::new_outside_tmp();
    let input = json!({"command": "echo printed; echo x > made"}).to_string();
    let mut terminal = Terminal::start(&home, 40, "", &["call", "bash", &input]);
    terminal.expect(QUESTION);
    let (ran, shown) = terminal.press_and_end(CTRL_C);
    assert_eq!(ran.code, 130, "{ran:?}\n{shown}");
    let said = "[the call was stopped; what the command changed is not kept]";
    assert!(ran.stdout.starts_with("printed\n") && ran.stdout.contains(said), "{ran:?}");
    assert!(shown.contains("(interrupted: the question is closed)"), "{shown}");
    assert!(!shown.contains("answered elsewhere"), "{shown}");
    assert!(!home.workspace().join("made").exists());
    assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
    let stages = fs::read_dir(home.state().join("stages")).expect("stages").flatten();
    let held: Vec<_> = stages.filter(|stage| stage.path().join("held.json").exists()).collect();
    assert!(held.is_empty(), "{held:?}");
}

#[test]
fn interrupted_run_answers_its_calls_and_ends() {
    let home = Home::new_outside_tmp();
    let (command, seconds) = waiting_command(7);
    let call = |command: &str| json!({"tool": "bash", "input": {"command": command}});
    // The second changes the same file, so that it waits for the first.
    let turn = json!([call(&command), call("echo y > made")]).to_string();
    let child = home.command(&["run", "--mode", "auto"]).stdin(Stdio::piped()).spawn();
    let mut child = child.expect("the binary runs");
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "{turn}").expect("it reads");
    wait_for_sleep(&seconds);
    interrupt(&child);
    let ran = RunResult::from_output(child.wait_with_output().expect("it ends"));
    drop(input);
    assert_eq!(ran.code, 130, "{ran:?}");
    let answers = ran.lines();
    let outcomes: Vec<&Value> = answers.iter().map(|answer| &answer["outcome"]).collect();
    assert_eq!(outcomes, ["cancelled", "cancelled"], "{ran:?}");
    assert_eq!(fs::read_to_string(home.workspace().join("made")).ok().as_deref(), Some("x\n"));
}

/// A run that waits for its next line, after one that it has answered, can be interrupted too.
#[test]
fn interrupted_run_ends_while_waiting_for_a_line() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let child = home.command(&["run"]).stdin(Stdio::piped()).spawn();
    let mut child = child.expect("the binary runs");
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "{}", json!({"tool": "read", "input": {"path": "a"}})).expect("it reads");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("an answer");
    assert!(line.contains("hello"), "{line}");
    interrupt(&child);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    drop(input);
}

/// A call that is cancelled through a protocol keeps its output on record; its changes are dropped.
#[test]
fn call_cancelled_by_a_client_keeps_output_and_no_changes() {
    for (number, is_asked) in [(8, false), (9, true)] {
        let home = Home::new_outside_tmp();
        let (mut command, seconds) = waiting_command(number);
        if is_asked {
            "echo printed; echo x > made".clone_into(&mut command);
        }
        let mode = if is_asked { "ask" } else { "auto" };
        let child = home.command(&["mcp", "--mode", mode]).stdin(Stdio::piped()).spawn();
        let mut server = child.expect("a server");
        let mut input = server.stdin.take().expect("a pipe");
        let mut output = BufReader::new(server.stdout.take().expect("a pipe"));
        let mut first = initialize();
        first["params"]["capabilities"] = json!({"elicitation": {}});
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "bash", "arguments": {"command": command}}});
        writeln!(input, "{first}\n{begun}\n{call}").expect("it reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("the answer to initialize");
        let mut question = None;
        if is_asked {
            line.clear();
            output.read_line(&mut line).expect("the question");
            let asked: Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(asked["method"], "elicitation/create", "{asked}");
            question = Some(asked["id"].clone());
        } else {
            wait_for_sleep(&seconds);
        }
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        writeln!(input, "{cancel}").expect("it reads");
        if let Some(id) = question {
            // A yes that comes too late is for nothing.
            let yes = json!({"action": "accept", "content": {"decision": "allow once"}});
            writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "result": yes}))
                .expect("it reads");
        }
        drop(input);
        assert!(server.wait().expect("it ends").success());
        assert!(!home.workspace().join("made").exists(), "{mode}");
        let log = home.run(&["log", "--json"]).lines();
        let end = log.iter().find(|row| row["kind"] == "finished").expect("it is on record");
        assert_eq!(end["outcome"], "cancelled", "{end}");
        let recorded = end.to_string();
        assert!(recorded.contains("printed"), "{recorded}");
        assert!(recorded.contains("what the command changed is not kept"), "{recorded}");
    }
}
