//! Tests of the tools for commands and jobs with scripted programs. Tests with real shells are in the submodules.

mod missing;
mod search;
mod shell;
mod writable_paths;

use serde_json::{Value, json};
use windlass_core::{CallResult, Confinement, Mode, Outcome, Overrides, Policy, SandboxLevel};

use crate::testing::{SECRET, Workspace};

fn scripted() -> Workspace {
    Workspace::scripted(Confinement::default(), Policy::new(Mode::Yolo))
}

fn bash(command: &str) -> CallResult {
    scripted().call("bash", json!({"command": command}))
}

#[test]
fn endings_of_commands_are_reported() {
    use Outcome::{Error, Ok, TimedOut};
    for (command, outcome, expected) in [
        ("print hi\\n", Ok, "hi\n"),
        ("print no newline", Ok, "no newline"),
        ("exit 0", Ok, "[no output]"),
        ("print oh\\n; exit 2", Error, "oh\n[exit code 2]"),
        ("print oh; exit 2", Error, "oh\n[exit code 2]"),
        ("exit 1", Error, "[no output; exit code 1]"),
        ("exit 127", Error, "[no output; exit code 127 (command not found: is it installed?)]"),
        ("signal 11", Error, "[no output; ended by signal 11 (SEGV)]"),
        ("print x\\n; disk", Error, "x\n[ended because it used more than 16384 MiB of disk]"),
        ("print x\\n; memory", Error, "x\n[ended because it used more than 4096 MiB of memory]"),
        ("print x\\n; forks", Error, "x\n[ended because it started more than 512 processes]"),
        (
            "print so far\\n; hang",
            TimedOut,
            "so far\n[timed out after 120 s; what it printed until then is above]",
        ),
        ("deaf; hang", TimedOut, "[no output; timed out after 120 s]"),
        ("print a\\xffb\\n", Ok, "a\u{fffd}b\n"),
        ("print \\e[31mred\\e[0m\\n 1 %\\r 2 %\\n", Ok, "red\n 2 %\n"),
    ] {
        let result = bash(command);
        assert_eq!((result.outcome, &*result.output.to_text()), (outcome, expected), "{command}");
        assert_eq!(result.output.is_error, outcome != Ok);
        assert_eq!(result.code, None, "{command}");
    }
}

#[test]
fn metadata_has_the_facts_of_the_text() {
    let fact = |command: &str, keys: &[&str]| -> Vec<Value> {
        let metadata = bash(command).output.metadata;
        keys.iter().map(|key| metadata[*key].clone()).collect()
    };
    let end = ["exit_code", "signal", "timed_out", "truncated", "job"];
    assert_eq!(
        fact("exit 3", &end),
        [json!(3), json!(null), json!(false), json!(false), json!(null)]
    );
    assert_eq!(fact("signal 9", &end)[..2], [json!(null), json!(9)]);
    assert_eq!(fact("hang", &end)[..3], [json!(null), json!(15), json!(true)]);
    assert_eq!(fact("deaf; hang", &end)[..3], [json!(null), json!(9), json!(true)]);
    assert_eq!(fact("flood 20000", &["truncated"]), [json!(true)]);
    assert!(fact("exit 0", &["duration_ms"])[0].is_u64());
    let changed = fact("create a; change d/b; remove c", &["changed", "changed_count"]);
    let expected = json!([
        {"path": "a", "change": "created"},
        {"path": "d/b", "change": "changed"},
        {"path": "c", "change": "removed"},
    ]);
    assert_eq!(changed, [expected, json!(3)]);
}

#[test]
fn changed_files_are_listed() {
    for (command, expected) in [
        (
            "print x; create a; change b",
            "x\n[changed while it ran: A a, M b; this cannot be undone]",
        ),
        ("print x; untracked", "x\n[what it changed is not tracked, and cannot be undone]"),
        (
            "print x; through target; through node_modules",
            "x\n[kept without history, which cannot be undone: target/, node_modules/]",
        ),
        ("print x; note a pipe was not kept", "x\n[a pipe was not kept]"),
        (
            "print x; note 1; note 2; note 3; note 4; note 5; note 6; note 7",
            "x\n[1; 2; 3; 4; 5; and 2 more like this]",
        ),
    ] {
        assert_eq!(bash(command).output.to_text(), expected);
    }
}

#[test]
fn denied_changes_are_dropped_with_the_reason_last() {
    let denying = Policy::new(Mode::Yolo).deny("write secret/**".parse().unwrap());
    let workspace = Workspace::scripted(Confinement::default(), denying);
    let command = "print done\\n; staged; create secret/x; exit 1";
    let result = workspace.call("bash", json!({"command": command}));
    assert_eq!(result.outcome, Outcome::Denied);
    let text = result.output.to_text();
    let begin = "done\n[exit code 1]\nthe command ran, but what it changed was dropped: ";
    assert!(text.starts_with(begin) && text.contains("secret"), "{text}");
    assert_eq!(result.output.metadata["exit_code"], 1);
    let staged = Confinement { level: SandboxLevel::Staged, ..Confinement::default() };
    let workspace = Workspace::scripted(staged, Policy::new(Mode::Auto));
    let result = workspace.call("bash", json!({"command": "print x; staged; create a"}));
    assert_eq!(result.outcome, Outcome::Denied, "no attendant can approve the changes");
}

#[test]
fn long_output_keeps_its_beginning_and_its_end() {
    let workspace = scripted();
    let result = workspace.call("bash", json!({"command": "flood 20000; exit 1"}));
    let text = result.output.to_text();
    assert!(text.len() <= 50_000, "{}", text.len());
    assert!(text.starts_with("0\n1\n2\n") && text.ends_with("19999\n[exit code 1]"));
    let call = result.call.as_str();
    let (_, notice) = text.split_once("[… ").unwrap();
    let (notice, _) = notice.split_once(" …]").unwrap();
    let (counts, place) = notice.split_once(" left out here; ").unwrap();
    assert_eq!(place, format!("the whole is kept: read or grep path \"output:{call}\""));
    let shown = text.lines().filter(|line| line.parse::<u32>().is_ok()).count();
    assert!(counts.ends_with(&format!(" bytes, {} lines", 20_000 - shown)), "{counts}");
    let last = json!({"path": format!("output:{call}"), "offset": -1, "numbers": false});
    assert!(workspace.text("read", last).starts_with("19999\n"));
}

#[test]
fn output_stays_below_a_small_limit() {
    for limit in [400, 2_000] {
        let overrides = Overrides { output_bytes: Some(limit), ..Overrides::default() };
        let command = json!({"command": "flood 20000; exit 1"});
        let text = scripted().call_with("bash", command, overrides).output.to_text();
        assert!(text.starts_with("0\n1\n") && text.ends_with("[exit code 1]"), "{text}");
        assert!(text.len() <= limit + 200, "{} bytes", text.len());
    }
}

#[test]
fn arguments_reach_the_processes_door() {
    let workspace = scripted();
    workspace.write("sub/dir/x", "");
    for (input, expected) in [
        (json!({"command": "cat", "stdin": "given"}), "given"),
        (json!({"command": "cat"}), "[no output]"),
        (json!({"command": "pwd"}), "."),
        (json!({"command": "pwd", "cwd": "sub/dir"}), "sub/dir"),
        (json!({"command": "pwd", "cwd": workspace.path("sub")}), "sub"),
        (json!({"command": "access"}), "Staged"),
        (json!({"command": "ask", "pty": true, "stdin": "typed\n"}), "typed"),
    ] {
        assert_eq!(workspace.text("bash", input.clone()), expected, "{input}");
    }
    let background = json!({"command": "access; hang", "background": true});
    assert!(workspace.text("bash", background).starts_with("Direct\n[it goes on as job"));
}

#[test]
fn invalid_arguments_are_refused() {
    let workspace = Workspace::scripted(Confinement::default(), Policy::new(Mode::Auto));
    workspace.write("file", "");
    for (input, code, expected) in [
        (json!({"command": "  "}), Some("invalid_args"), "the command is empty"),
        (json!({"command": "a\0b"}), Some("invalid_args"), "NUL"),
        (json!({"command": "a", "timeout": 0}), Some("invalid_args"), "3600"),
        (json!({"command": "a", "timeout": 3601}), Some("invalid_args"), "3600"),
        (json!({"command": "a", "timeout": -1}), Some("invalid_args"), "3600"),
        (json!({"command": "a", "timeot": 1}), Some("invalid_args"), "did you mean `timeout`?"),
        (json!({}), Some("invalid_args"), "command"),
        (json!({"command": "a", "cwd": "nowhere"}), None, "there is no such directory"),
        (json!({"command": "a", "cwd": "file"}), None, "not a directory"),
        (json!({"command": "a", "cwd": "/etc"}), Some("denied"), "/etc"),
    ] {
        let result = workspace.call("bash", input.clone());
        let text = result.output.to_text();
        assert_eq!(result.code, code, "{input}: {text}");
        assert!(result.output.is_error && text.contains(expected), "{input}: {text}");
    }
}

#[test]
fn time_limits_may_be_fractions_and_texts() {
    for (timeout, expected) in
        [(json!(0.5), "after 0.5 s"), (json!("2.5"), "after 2.5 s"), (json!(3600), "after 3600 s")]
    {
        let result = scripted().call("bash", json!({"command": "hang", "timeout": timeout}));
        assert_eq!(result.outcome, Outcome::TimedOut);
        assert!(result.output.to_text().contains(expected), "{}", result.output.to_text());
    }
}

#[test]
fn a_program_that_waits_for_input_gets_advice() {
    let text = bash("print Password: ; ask").output.to_text();
    assert!(text.starts_with("Password:\n[timed out after 120 s"), "{text}");
    assert!(text.contains("it was waiting for input: give that as `stdin`"), "{text}");
    assert!(!bash("print x; hang").output.to_text().contains("input"));
}

#[test]
fn a_terminal_is_shown_as_a_screen() {
    let workspace = scripted();
    for (printed, expected) in [
        ("print a\\r\\nb\\r\\n\\e[Hx; exit 1", "x\nb\n[exit code 1]"),
        ("print shell\\r\\n\\e[?1049hmenu\\e[?1049l", "shell"),
        (
            "print $ \\e[?1049h\\e[Hmenu; hang",
            "menu\n[timed out after 120 s; what it printed until then is above]",
        ),
    ] {
        let text = workspace.text("bash", json!({"command": printed, "pty": true}));
        assert_eq!(text, expected, "{printed}");
    }
    let text = workspace.text("bash", json!({"command": "flood 1500; exit 3", "pty": true}));
    assert!(text.ends_with("1499\n[exit code 3]"), "{text}");
}

#[test]
fn a_command_past_the_soft_limit_becomes_a_job() {
    let workspace = scripted();
    let soft =
        Overrides { soft_limit: Some(std::time::Duration::from_secs(5)), ..Overrides::default() };
    let command = json!({"command": "print first\\n; pause 300; print last\\n"});
    let result = workspace.call_with("bash", command, soft.clone());
    assert_eq!(result.outcome, Outcome::Ok);
    let job = result.output.metadata["job"].as_str().unwrap().to_owned();
    assert!(result.output.to_text().starts_with("first\n[it goes on as job"));
    let text = workspace.text("output", json!({"job": job, "wait": 600}));
    assert!(text.starts_with("last\n["), "{text}");
    let quick = workspace.call_with("bash", json!({"command": "print x"}), soft);
    assert_eq!(quick.output.metadata["job"], json!(null));
}

/// Starts a job and returns its id.
fn start_job(workspace: &Workspace, command: &str) -> String {
    let result = workspace.call("bash", json!({"command": command, "background": true}));
    assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
    result.output.metadata["job"].as_str().unwrap().to_owned()
}

/// Removes numbers from a text, because durations differ between runs.
fn without_time(text: &str) -> String {
    let is_time = |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ")
}

#[test]
fn output_follows_a_job_to_its_end() {
    let workspace = scripted();
    let id =
        start_job(&workspace, "print 1\\n; pause 10; print 2\\n; pause 10; print 3\\n; exit 4");
    let read_output = |more: Value| {
        let mut input = json!({"job": id});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let result = workspace.call("output", input);
        assert_eq!(result.outcome, Outcome::Ok);
        (without_time(&result.output.to_text()), result.output.metadata)
    };
    let running = format!("[job {id} has been running for s");
    assert_eq!(read_output(json!({})).0, format!("{running}; nothing new]"));
    let (text, facts) = read_output(json!({"wait": 60}));
    assert_eq!(text, format!("2\n{running}]"));
    assert_eq!(
        (&facts["running"], &facts["cursor"], &facts["exit_code"]),
        (&json!(true), &json!(4), &json!(null))
    );
    assert_eq!(read_output(json!({"cursor": 0})).0, format!("1\n2\n{running}]"));
    assert_eq!(read_output(json!({"wait": 1.5})).0, format!("{running}; nothing new]"));
    assert!(read_output(json!({"wait": 600})).0.starts_with("3\n["));
    let (text, facts) = read_output(json!({"wait": 600}));
    let ended = format!("[job {id} has ended after s: exit code 4]");
    assert_eq!(text, ended.replace(']', "; nothing new]"));
    assert_eq!(
        (&facts["running"], &facts["cursor"], &facts["exit_code"]),
        (&json!(false), &json!(6), &json!(4))
    );
    assert_eq!(read_output(json!({"cursor": 0, "filter": "[13]"})).0, format!("1\n3\n{ended}"));
    assert_eq!(read_output(json!({"cursor": 0, "tail": 1})).0, format!("3\n{ended}"));
    let kept = workspace.text("jobs", json!({}));
    assert!(kept.contains("exit code 4: print 1"), "{kept}");
}

#[test]
fn kill_sends_the_given_signal() {
    for (command, signal, expected, number) in [
        ("hang", "TERM", "ended by TERM", 15),
        ("hang", "SIGINT", "ended by INT", 2),
        ("hang", "9", "ended by KILL", 9),
        ("deaf; hang", "term", "killed: it did not end on TERM", 9),
    ] {
        let workspace = scripted();
        let id = start_job(&workspace, command);
        let result = workspace.call("kill", json!({"job": id, "signal": signal}));
        let text = result.output.to_text();
        let gone = format!("[job {id} and all that it started are gone; no output; {expected}]");
        assert_eq!(text, gone, "{command} {signal}");
        assert_eq!(result.output.metadata["signal"], json!(number));
        let again = workspace.text("kill", json!({"job": id}));
        assert!(again.contains("has ended") && again.ends_with("nothing was sent]"), "{again}");
    }
    let workspace = scripted();
    let id = start_job(&workspace, "deaf; print x; hang");
    let told = workspace.text("kill", json!({"job": id, "signal": "USR1"}));
    assert_eq!(told, format!("[USR1 was sent to job {id}, which goes on]"));
    assert!(workspace.text("jobs", json!({})).contains("running"));
    let unknown = workspace.call("kill", json!({"job": id, "signal": "FOO"}));
    assert_eq!(unknown.code, Some("invalid_args"));
}

#[test]
fn unknown_jobs_are_refused_with_a_hint() {
    let workspace = scripted();
    for tool in ["output", "kill"] {
        let text = workspace.text(tool, json!({"job": "j9"}));
        assert!(text.contains("there is no job `j9`") && text.contains("no jobs"), "{text}");
    }
    assert!(workspace.text("jobs", json!({})).starts_with("[no jobs"));
    let id = start_job(&workspace, "hang");
    let text = workspace.text("output", json!({"job": "nonsense"}));
    assert!(text.contains(&format!("the jobs of this session: {id}")), "{text}");
    let call = id.replacen('j', "c", 1);
    assert!(workspace.text("output", json!({"job": call})).contains(&id), "by its call");
}

#[test]
fn a_job_that_fails_at_once_returns_its_end() {
    let workspace = scripted();
    let command = json!({"command": "print oh no\\n; exit 1", "background": true});
    let result = workspace.call("bash", command);
    assert_eq!(
        (result.outcome, &*result.output.to_text()),
        (Outcome::Error, "oh no\n[exit code 1]")
    );
    assert_eq!(result.output.metadata["exit_code"], json!(1));
    assert!(result.output.metadata["job"].is_string());
}

#[test]
fn a_job_has_no_limit_unless_one_is_given() {
    let workspace = scripted();
    let id = start_job(&workspace, "pause 7200; print late\\n");
    let read_output = || workspace.text("output", json!({"job": id, "wait": 600}));
    let reads =
        std::iter::repeat_with(read_output).take_while(|text| !text.contains("late")).count();
    assert!(reads >= 11, "{reads}");
    let limited = json!({"command": "hang", "background": true, "timeout": 5});
    let id = workspace.call("bash", limited).output.metadata["job"].clone();
    let text = workspace.text("output", json!({"job": id, "wait": 600}));
    assert!(text.contains("timed out"), "{text}");
}

#[test]
fn jobs_lists_one_line_per_job() {
    let workspace = scripted();
    let long = format!("print {}\\n; hang", "x".repeat(300));
    let (one, two) = (start_job(&workspace, "print a\\n; hang"), start_job(&workspace, &long));
    let result = workspace.call("jobs", json!({}));
    let text = result.output.to_text();
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].starts_with(&format!("job {one} has been running for")), "{text}");
    assert!(rows[1].starts_with(&format!("job {two} ")) && rows[1].ends_with('…'), "{text}");
    assert!(rows[1].len() < 200);
    assert_eq!(result.output.metadata["count"], json!(2));
    assert_eq!(result.output.metadata["jobs"][0]["running"], json!(true));
}

#[test]
fn long_job_output_is_shortened() {
    let workspace = scripted();
    let id = start_job(&workspace, "pause 1; flood 20000; hang");
    let result = workspace.call("output", json!({"job": id, "wait": 10}));
    let text = result.output.to_text();
    assert!(text.len() <= 50_000 && text.starts_with("0\n1\n") && text.contains("19999\n["));
    assert!(text.contains(&format!("output:{}", result.call)), "it is kept under the reading call");
    let tail = workspace.text("output", json!({"job": id, "cursor": 0, "tail": 10_000}));
    assert!(tail.contains("a smaller `tail`"), "{}", &tail[tail.len() - 300..]);
}

#[test]
fn number_of_jobs_is_limited() {
    let workspace = scripted();
    (0..32).for_each(|_| drop(start_job(&workspace, "hang")));
    let result = workspace.call("bash", json!({"command": "hang", "background": true}));
    assert_eq!(result.outcome, Outcome::Error);
    assert!(result.output.to_text().contains("end one with `kill` first"));
}

#[test]
fn secrets_that_come_in_pieces_are_not_shown_in_pieces() {
    let workspace = scripted();
    let (first, second) = SECRET.split_at(9);
    for (begin, end) in [(first, second), ("ghp_a1B2c3D4e5F6g7H8i9", "a1B2c3D4e5F6g7H8i9z")] {
        let command = format!("print one {begin}; pause 5; print {end} two\\n; pause 5; hang");
        let started = workspace.call("bash", json!({"command": command, "background": true}));
        let job = started.output.metadata["job"].as_str().unwrap().to_owned();
        let mut shown = vec![started.output.to_text()];
        for _ in 0..3 {
            shown.push(workspace.text("output", json!({"job": job, "wait": 6})));
        }
        assert!(shown[0].starts_with("one "), "{shown:?}");
        assert!(shown.iter().any(|text| text.contains("[secret")), "{shown:?}");
        for cursor in 0..40 {
            shown.push(workspace.text("output", json!({"job": job, "cursor": cursor})));
        }
        for text in &shown {
            assert!(!text.contains(&begin[begin.len() - 6..]), "{text}");
            assert!(!text.contains(&end[..6]), "{text}");
        }
    }
}

#[test]
fn a_secret_needs_a_known_name_and_permission() {
    let workspace = scripted();
    for (command, expected) in [
        ("print {{secret OTHER}}", "those that are known: TEST_KEY"),
        ("print '{{secret TEST_KEY}}'", "between single quotation marks"),
    ] {
        let text = workspace.text("bash", json!({"command": command}));
        assert!(text.contains(expected), "{text}");
    }
    let asking = Workspace::scripted(Confinement::default(), Policy::new(Mode::Auto));
    let result = asking.call("bash", json!({"command": "print {{secret TEST_KEY}}"}));
    assert_eq!(result.outcome, Outcome::Denied, "{}", result.output.to_text());
}
