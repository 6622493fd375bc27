//! Approvals at a terminal: the person is asked, and the answer decides.

use serde_json::{Value, json};

use crate::support::{Home, RunResult};
use crate::terminal::Terminal;

const ROWS: u16 = 40;
const QUESTION: &str = "Allow this? ";
const PAGER: &str = "q leaves to the question, n says no --";

fn write(path: &str) -> String {
    json!({"path": path, "content": "x\n"}).to_string()
}

/// Starts a call that writes `new`, at a terminal, up to its prompt.
fn start_asking_write(home: &Home, options: &[&str]) -> Terminal {
    let write = write("new");
    let arguments = [&["call", "write", &write][..], options].concat();
    let mut terminal = Terminal::start(home, ROWS, "", &arguments);
    terminal.expect(QUESTION);
    terminal
}

fn new_exists(home: &Home, name: &str) -> bool {
    home.workspace().join(name).exists()
}

#[test]
fn only_yes_allows_a_call() {
    for (typed, code) in
        [("y", 0), ("yes", 0), ("n", 3), ("", 3), ("Y?", 3), ("no", 3), ("yy", 3), ("nonsense", 3)]
    {
        let home = Home::new();
        let (ran, shown) = start_asking_write(&home, &[]).answer_and_end(typed);
        assert_eq!(ran.code, code, "{typed:?}: {ran:?}\n{shown}");
        assert_eq!(new_exists(&home, "new"), code == 0, "{typed:?}");
        assert!(shown.contains("write wants to (risk: low)"), "{shown}");
        assert!(shown.contains("+x\n"), "{shown}");
        assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty(), "{typed:?}");
    }
}

#[test]
fn yes_for_a_session_counts_in_that_session_only() {
    let home = Home::new();
    let (ran, _) = start_asking_write(&home, &["--session", "one"]).answer_and_end("s");
    assert_eq!(ran.code, 0, "{ran:?}");
    std::fs::remove_file(home.workspace().join("new")).expect("a file");
    let again = |session| home.run(&["call", "write", &write("new"), "--session", session]);
    assert_eq!(again("two").code, 3, "another session asks");
    assert_eq!(again("one").code, 0);
    let other = home.run(&["call", "write", &write("other"), "--session", "one"]);
    assert_eq!(other.code, 3, "another call asks: {other:?}");
}

#[test]
fn never_is_remembered_listed_and_can_be_revoked() {
    let home = Home::new();
    let (ran, _) = start_asking_write(&home, &[]).answer_and_end("never");
    assert_eq!(ran.code, 3, "{ran:?}");
    let again = || home.run(&["call", "write", &write("new")]);
    let denied = again();
    assert_eq!(denied.code, 3);
    assert!(denied.stdout.contains("a person said no before"), "{denied:?}");
    let [kept] = &home.run(&["policy", "approvals", "--json"]).lines()[..] else { panic!("one") };
    assert_eq!((&kept["state"], &kept["scope"]), (&json!("denied"), &json!("always")), "{kept}");
    let id = kept["id"].as_str().expect("an id");
    let table = home.run(&["policy", "approvals"]).stdout;
    assert!(table.contains(id) && table.contains("everywhere"), "{table}");
    assert_eq!(home.run(&["policy", "revoke", id]).code, 0);
    assert_eq!(home.run(&["policy", "revoke", id]).code, 1, "it is gone");
    assert!(again().stdout.contains("no person is available to ask"));
}

#[test]
fn input_before_the_prompt_does_not_answer_it() {
    let home = Home::new();
    let write = write("new");
    let mut terminal = Terminal::start(&home, ROWS, "y\ny\ny\n", &["call", "write", &write]);
    terminal.expect(QUESTION);
    let (ran, shown) = terminal.answer_and_end("n");
    assert_eq!(ran.code, 3, "{shown}");
    assert!(!new_exists(&home, "new"));
}

#[test]
fn end_of_input_denies() {
    const END_OF_INPUT: u8 = 4;
    let home = Home::new();
    let (ran, shown) = start_asking_write(&home, &[]).press_and_end(END_OF_INPUT);
    assert_eq!(ran.code, 3, "{shown}");
    assert!(ran.stdout.contains("closed"), "{ran:?}");
    assert!(!new_exists(&home, "new"));
}

#[test]
fn interrupt_at_the_prompt_denies() {
    const INTERRUPT: u8 = 3;
    let home = Home::new();
    let (ran, shown) = start_asking_write(&home, &[]).press_once_and_end(INTERRUPT);
    assert_eq!(ran.code, 130, "{shown}");
    assert!(!new_exists(&home, "new"));
    assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
}

#[test]
fn long_diff_is_shown_screen_by_screen() {
    let home = Home::new();
    let content: String = (0..60).map(|line| format!("line <{line}>\n")).collect();
    let write = json!({"path": "new", "content": content}).to_string();
    let mut terminal = Terminal::start(&home, 24, "", &["call", "write", &write]);
    for screen in 1.. {
        terminal.expect("screens: Enter shows more, q leaves to the question, n says no --");
        let shown = terminal.shown();
        assert!(!shown.contains(QUESTION), "it is asked before everything was shown: {shown}");
        let last = (0..60).filter(|line| shown.contains(&format!("+line <{line}>"))).count() > 40;
        let then = if last { QUESTION } else { "+line <" };
        terminal.answer("", then);
        if last {
            assert!(screen > 1, "{shown}");
            break;
        }
    }
    let (ran, shown) = terminal.answer_and_end("y");
    assert_eq!(ran.code, 0, "{ran:?}");
    for line in 0..60 {
        assert!(shown.contains(&format!("+line <{line}>\n")), "line {line} was not shown: {shown}");
    }
}

/// A person can leave a long change, answer the question, or look again.
#[test]
fn person_can_leave_a_long_diff_before_its_end() {
    let home = Home::new();
    let content: String = (0..200).map(|line| format!("line <{line}>\n")).collect();
    let write = json!({"path": "new", "content": content}).to_string();
    let mut terminal = Terminal::start(&home, 24, "", &["call", "write", &write]);
    terminal.expect(PAGER);
    terminal.answer("q", "[r] show again");
    terminal.expect(QUESTION);
    assert!(!terminal.shown().contains("+line <199>"), "{}", terminal.shown());
    terminal.answer("r", PAGER);
    terminal.answer("q", QUESTION);
    let (ran, _) = terminal.answer_and_end("n");
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(!new_exists(&home, "new"));
}

/// Before the end of a long change a yes does not count, and a no needs no reading.
#[test]
fn long_diff_can_be_denied_before_its_end_but_not_allowed() {
    let content: String = (0..200).map(|line| format!("line <{line}>\n")).collect();
    let write = json!({"path": "new", "content": content}).to_string();
    for (no, denied_later) in [("n", false), ("never", true)] {
        let home = Home::new();
        let mut terminal = Terminal::start(&home, 24, "", &["call", "write", &write]);
        terminal.expect(PAGER);
        for early in ["y", "1", "s", "nonsense"] {
            let note = format!("`{early}` does not count here: q leaves to the question");
            terminal.answer(early, &note);
            terminal.expect(PAGER);
        }
        let (ran, shown) = terminal.answer_and_end(no);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(!shown.contains(QUESTION) && !shown.contains("-- 2 of"), "{no}: {shown}");
        assert!(!new_exists(&home, "new"));
        let kept = home.run(&["policy", "approvals", "--json"]).lines();
        assert_eq!(!kept.is_empty(), denied_later, "{no}: {kept:?}");
    }
}

#[test]
fn hidden_characters_and_all_lines_are_shown() {
    let home = Home::new();
    std::fs::create_dir_all(home.config()).expect("a folder");
    std::fs::write(home.config().join("config.toml"), "ask_before = true\n").expect("a file");
    let command = "make \u{202e}\u{200b}\x1b[2K\x1b[1A\r\n\n\n\nrm -rf ~/all";
    let input = json!({"command": command}).to_string();
    let mut terminal =
        Terminal::start(&home, ROWS, "", &["call", "bash", &input, "--color", "never"]);
    terminal.expect(QUESTION);
    let (ran, shown) = terminal.answer_and_end("n");
    assert_eq!(ran.code, 3);
    assert!(shown.contains(r"make \u{202e}\u{200b}\x1b[2K\x1b[1A"), "{shown}");
    assert!(shown.contains("rm -rf ~/all\n"), "{shown}");
    assert!(!shown.contains(['\x1b', '\u{202e}', '\u{200b}']), "{shown:?}");
}

#[test]
fn two_calls_of_a_turn_are_asked_about_one_after_the_other() {
    let home = Home::new();
    let call = |path: &str| json!({"tool": "write", "input": {"path": path, "content": "x\n"}});
    let turn = json!([call("first"), call("second")]).to_string() + "\n";
    std::fs::write(home.workspace().join("turn"), turn).expect("a file");
    let mut terminal = Terminal::start(&home, ROWS, "", &["run", "turn"]);
    terminal.expect(QUESTION);
    let shown = terminal.shown();
    assert_eq!(shown.matches("wants to").count(), 1, "{shown}");
    let first = usize::from(!shown.contains("/first"));
    terminal.answer("n", QUESTION);
    let (ran, _) = terminal.answer_and_end("y");
    let results = ran.lines();
    let outcomes: Vec<&Value> = results.iter().map(|result| &result["outcome"]).collect();
    assert_eq!(*outcomes[first], "denied", "{results:?}");
    assert_eq!(*outcomes[1 - first], "ok", "{results:?}");
}

#[test]
fn change_that_would_fail_is_not_asked_about() {
    let home = Home::with_workspace(&[("a", "one\n")]);
    let edit = json!({"path": "a", "old_string": "two", "new_string": "3"}).to_string();
    let terminal = Terminal::start(&home, ROWS, "", &["call", "edit", &edit]);
    let (ran, shown) = terminal.end();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!shown.contains(QUESTION), "{shown}");
}

/// A question outlives the program that asked it: it is answered later, its call is made without asking the model, and counts once.
#[test]
fn approval_survives_a_kill_and_is_answered_later() {
    let home = Home::new();
    start_asking_write(&home, &["--session", "one"]).kill();
    let open = |home: &Home| home.run(&["policy", "approvals", "--json"]).lines();
    let [question] = &open(&home)[..] else { panic!("one question is open") };
    assert_eq!((&question["state"], &question["session"]), (&json!("open"), &json!("one")));
    let id = question["id"].as_str().expect("an id");
    let approved = home.run(&["policy", "approve", id, "--json"]);
    let result = &approved.lines()[0];
    assert_eq!((approved.code, &result["outcome"]), (0, &json!("ok")), "{approved:?}");
    assert_eq!(result["session"], "one");
    assert!(new_exists(&home, "new"));
    assert!(open(&home).is_empty(), "it is used up");
    assert_eq!(home.run(&["policy", "approve", id]).code, 2, "once");
    let log = home.run(&["log", "--session", "one", "--json"]).lines();
    let decided = log.iter().find(|row| row["kind"] == "started").expect("it is on record");
    assert_eq!(decided["body"]["decided"]["settled_by"]["id"], *id);
    assert_eq!(decided["body"]["decided"]["settled_by"]["scope"], "once");
    for (kind, tool) in [("approval", "write"), ("approval_answered", "write")] {
        let rows: Vec<&Value> = log.iter().filter(|row| row["kind"] == kind).collect();
        let [row] = rows[..] else { panic!("one {kind}: {log:?}") };
        assert_eq!((&row["body"]["id"], &row["body"]["tool"]), (&json!(id), &json!(tool)));
    }
    for looks_back in [
        &["log"][..],
        &["log", "verify"],
        &["log", "export", "--format", "otlp"],
        &["sessions", "show", "one"],
        &["sessions", "export", "one"],
        &["policy", "replay", "one"],
        &["replay", "one"],
        &["undo", "--list"],
    ] {
        let looked = home.run(looks_back);
        assert_eq!(looked.code, 0, "{looks_back:?}: {looked:?}");
    }
    let timeline = home.run(&["log"]).stdout;
    assert!(
        timeline.contains("? write ") && timeline.contains("write allowed (once)"),
        "{timeline}"
    );
    std::fs::remove_file(home.workspace().join("new")).expect("a file");
    let again = home.run(&["call", "write", &write("new"), "--session", "one"]);
    assert_eq!(again.code, 3, "the same call asks again: {again:?}");
}

#[test]
fn approval_is_denied_later_and_the_model_gets_the_reason() {
    let home = Home::new();
    start_asking_write(&home, &["--session", "one"]).kill();
    let question = home.run(&["policy", "approvals", "--json"]).lines().remove(0);
    let id = question["id"].as_str().expect("an id");
    let denied = home.run(&["policy", "deny", id, "--why", "not on a Friday"]);
    assert_eq!(denied.code, 0, "{denied:?}");
    assert!(denied.stdout.contains("not on a Friday"), "{denied:?}");
    let log = home.run(&["log", "--session", "one", "--json"]).lines();
    let end = log.iter().find(|row| row["kind"] == "finished").expect("it is on record");
    assert_eq!(end["outcome"], "denied", "{end}");
    assert!(!new_exists(&home, "new"));
    assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
}

/// A "no" never makes a call that would not be asked about any more.
#[test]
fn late_no_denies_even_if_the_rules_now_allow_the_call() {
    let home = Home::new();
    start_asking_write(&home, &["--session", "one"]).kill();
    let question = home.run(&["policy", "approvals", "--json"]).lines().remove(0);
    let id = question["id"].as_str().expect("an id");
    let denied = home.run(&["policy", "deny", id, "--mode", "auto"]);
    assert_eq!(denied.code, 0, "{denied:?}");
    assert!(!new_exists(&home, "new"));
}

/// An answer from another process wakes the call that waits at the terminal, and that call is the only one.
#[test]
fn answer_from_another_process_wakes_the_waiting_call() {
    for (answer, code, made) in [("approve", 0, true), ("deny", 3, false)] {
        let home = Home::new();
        let terminal = start_asking_write(&home, &["--session", "one"]);
        let question = home.run(&["policy", "approvals", "--json"]).lines().remove(0);
        let id = question["id"].as_str().expect("an id");
        let answered = home.run(&["policy", answer, id]);
        assert_eq!(answered.code, 0, "{answered:?}");
        assert!(answered.stderr.contains("has the answer"), "{answered:?}");
        let (ran, shown) = terminal.end();
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(shown.contains("answered elsewhere"), "{shown}");
        assert_eq!(new_exists(&home, "new"), made);
        let log = home.run(&["log", "--session", "one", "--json"]).lines();
        let count = |kind: &str| log.iter().filter(|row| row["kind"] == kind).count();
        assert_eq!((count("started"), count("finished")), (usize::from(made), 1), "{log:?}");
        assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
    }
}

/// Other arguments are decided on anew: what is denied stays denied.
#[test]
fn person_can_change_the_arguments() {
    for (path, code) in [("other", 0), ("secret/other", 3)] {
        let home = Home::new();
        start_asking_write(&home, &["--session", "one"]).kill();
        let question = home.run(&["policy", "approvals", "--json"]).lines().remove(0);
        let id = question["id"].as_str().expect("an id");
        let (input, deny) = (write(path), ["--deny", "write secret/**"]);
        let approve = ["policy", "approve", id, "--input", &input, "--reason", "safer there"];
        let ran = home.run(&[&approve[..], &deny].concat());
        assert_eq!(ran.code, code, "{ran:?}");
        assert_eq!(ran.stdout.contains("safer there"), code == 0, "{ran:?}");
        assert_eq!((new_exists(&home, "new"), new_exists(&home, path)), (false, code == 0));
        assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
    }
}

/// Runs these commands at once, each in its own process, and returns their results.
fn run_all_at_once(home: &Home, commands: &[Vec<&str>]) -> Vec<RunResult> {
    let start = std::sync::Barrier::new(commands.len());
    std::thread::scope(|scope| {
        let run = |command| {
            start.wait();
            home.run(command)
        };
        let running: Vec<_> =
            commands.iter().map(|command| scope.spawn(move || run(command))).collect();
        running.into_iter().map(|one| one.join().expect("an answer")).collect()
    })
}

/// Eight processes answer one question: one answer counts, and the call is made once or not at all.
#[test]
fn only_one_of_eight_simultaneous_answers_counts() {
    for answers in [&["approve"][..], &["approve", "deny"]] {
        let home = Home::new();
        start_asking_write(&home, &["--session", "one"]).kill();
        let question = home.run(&["policy", "approvals", "--json"]).lines().remove(0);
        let id = question["id"].as_str().expect("an id");
        let commands: Vec<Vec<&str>> =
            answers.iter().cycle().take(8).map(|answer| vec!["policy", answer, id]).collect();
        let ran = run_all_at_once(&home, &commands);
        // One that comes between the answer and the call makes the call, and says that the answer is another's.
        let is_own = |ran: &RunResult| ran.code == 0 && !ran.stderr.contains("already; its call");
        let counted: Vec<usize> = (0..8).filter(|number| is_own(&ran[*number])).collect();
        let [counted] = counted[..] else { panic!("{} answers count: {ran:?}", counted.len()) };
        assert!(ran.iter().all(|ran| matches!(ran.code, 0 | 2)), "{ran:?}");
        let is_yes = commands[counted][1] == "approve";
        assert_eq!(new_exists(&home, "new"), is_yes, "{ran:?}");
        let log = home.run(&["log", "--session", "one", "--json"]).lines();
        let count = |kind: &str| log.iter().filter(|row| row["kind"] == kind).count();
        assert_eq!((count("started"), count("finished")), (usize::from(is_yes), 1), "{log:?}");
        assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
    }
}

/// A process that is killed while it approves leaves a call that the next one makes, and one call is made in all.
#[test]
fn approval_interrupted_by_a_kill_is_resumed() {
    for round in 0..24 {
        let home = Home::new();
        start_asking_write(&home, &["--session", "one"]).kill();
        let question = home.run(&["policy", "approvals", "--json"]).lines().remove(0);
        let id = question["id"].as_str().expect("an id");
        let mut killed = home.command(&["policy", "approve", id]).spawn().expect("runs");
        // Each process comes as far as it comes: all moments are right ones.
        std::thread::sleep(std::time::Duration::from_millis(2 * round));
        killed.kill().expect("a process to kill");
        killed.wait().expect("it ends");
        let again = home.run(&["policy", "approve", id]);
        let log = home.run(&["log", "--session", "one", "--json"]).lines();
        let is_made = |row: &&serde_json::Value| row["kind"] == "started";
        let is_answer = |row: &&serde_json::Value| row["kind"] == "approval_answered";
        let begun = log.iter().filter(is_made).count();
        assert!(begun >= 1 && log.iter().any(|row| is_answer(&row)), "{again:?} {log:?}");
        assert!(new_exists(&home, "new") || begun == 1, "{again:?} {log:?}");
        let done = log.iter().filter(|row| row["kind"] == "finished" && row["outcome"] == "ok");
        assert!(done.count() <= 1, "{log:?}");
        assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
    }
}

/// If the call has changed since the approval, the person is asked again, and the old answer is not kept for another call.
#[test]
fn answer_does_not_apply_to_a_changed_call() {
    let home = Home::new();
    start_asking_write(&home, &["--session", "one"]).kill();
    let question = home.run(&["policy", "approvals", "--json"]).lines().remove(0);
    let id = question["id"].as_str().expect("an id");
    let other = home.run(&["policy", "approve", id, "--sandbox", "read-only"]);
    assert_eq!(other.code, 3, "{other:?}");
    assert!(!new_exists(&home, "new"));
    assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
}
