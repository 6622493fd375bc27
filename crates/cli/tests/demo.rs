//! The tour: each step does what it claims, asks only a person who is there, and leaves nothing behind.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Home, RunResult};
use crate::terminal::Terminal;

const ROWS: u16 = 40;
const QUESTION: &str = "Allow this? ";
const STEPS: [&str; 5] = ["together", "ask", "undo", "escape", "record"];

/// A test home with its own directory for temporary files.
struct TestHome {
    home: Home,
    temporary: PathBuf,
}

impl TestHome {
    fn new(home: Home) -> Self {
        let temporary = home.workspace().join("../temporary");
        std::fs::create_dir(&temporary).expect("a directory");
        Self { home, temporary }
    }

    fn demo(&self, options: &[&str]) -> RunResult {
        let mut command = self.home.command(&[&["demo"][..], options].concat());
        RunResult::from_output(
            command.env("TMPDIR", &self.temporary).output().expect("the binary runs"),
        )
    }

    /// Checks that the tour left nothing in the temporary directory, the home and the current directory.
    fn assert_untouched(&self) {
        let home = self.home.workspace().join("../home");
        for place in [&self.temporary, &self.home.workspace(), &home] {
            assert_eq!(names(place), Vec::<String>::new(), "{}", place.display());
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect()
}

/// Returns the outputs of the calls and commands of a step.
fn step_outputs(step: &Value) -> Vec<&Value> {
    step["done"].as_array().expect("what was done").iter().collect()
}

#[test]
fn tour_without_a_terminal_is_complete_plain_and_leaves_nothing() {
    for place in [TestHome::new(Home::new()), TestHome::new(Home::new_outside_tmp())] {
        // A tour that was killed left this.
        let left = place.temporary.join("windlass-demo-0/paint");
        std::fs::create_dir_all(left).expect("a directory");
        let ran = place.demo(&[]);
        assert_eq!(ran.code, 0, "{ran:?}");
        for told in [
            "[1/5] Calls that do not conflict run together",
            "all three commands had begun before the first ended",
            "[2/5] A command runs first",
            "bash has run, and nothing it changed is kept yet (risk: low):",
            "-/// The colour of a line.",
            "+/// The color of a line.",
            "Allow this? y   (no person can be asked here: the tour answers)",
            "yes: the files hold the new lines",
            "[3/5] What a command deleted comes back",
            "> bash rm -rf *",
            "every file is back",
            "[4/5] No way out",
            "decided by hard deny: a file of secrets",
            "cat: .env: No such file or directory",
            "no connection reached the server",
            "[5/5] Everything is on record",
            "`rm -rf *` into `rm -ri *`",
            "was changed: its body does not match its hash",
            "Every step did what it says.",
        ] {
            assert!(ran.stdout.contains(told), "{told:?} is not in:\n{}", ran.stdout);
        }
        assert!(!ran.stdout.contains("NOT"), "{}", ran.stdout);
        assert!(!ran.stdout.contains('\x1b'), "colours: {:?}", ran.stdout);
        assert!(!ran.stdout.contains("sample-secret"), "{}", ran.stdout);
        assert_eq!(ran.stderr, "");
        place.assert_untouched();
    }
}

#[test]
fn json_tour_has_every_call_and_every_check() {
    let place = TestHome::new(Home::new());
    let ran = place.demo(&["--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.lines();
    let (tour, steps) = lines.split_last().expect("lines");
    assert_eq!((&tour["type"], &tour["outcome"]), (&json!("tour"), &json!("ok")), "{tour}");
    let named: Vec<&str> = steps.iter().filter_map(|step| step["name"].as_str()).collect();
    assert_eq!(named, STEPS);
    for step in steps {
        assert_eq!((&step["type"], &step["outcome"]), (&json!("step"), &json!("ok")), "{step}");
        let checks = step["checks"].as_array().expect("checks");
        assert!(!checks.is_empty() && checks.iter().all(|check| check["holds"] == true), "{step}");
        assert!(step_outputs(step).iter().all(|answer| answer["text"].is_string()), "{step}");
    }
    let question = steps[1]["questions"][0].as_str().expect("a question");
    assert!(question.contains("[y] yes, keep it") && question.ends_with(QUESTION), "{question}");
    let hash = |when: &str| steps[2]["trees"][when]["hash"].as_str().expect("a hash");
    assert_eq!(hash("before"), hash("undone"));
    assert_ne!(hash("before"), hash("deleted"));
    assert_eq!(ran.stderr, "");
    place.assert_untouched();
}

#[test]
fn quiet_tour_prints_a_line_for_each_step() {
    let place = TestHome::new(Home::new());
    let ran = place.demo(&["--quiet"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, STEPS.len()), "{ran:?}");
    assert!(ran.stdout.lines().all(|line| line.starts_with("ok ")), "{ran:?}");
    place.assert_untouched();
}

/// Without a sandbox the tour says so and runs the steps that need none.
#[test]
fn without_a_sandbox_steps_are_skipped() {
    let place = TestHome::new(Home::new());
    let windlass = place.home.command(&["demo", "--json"]);
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let mut limited = Command::new("unshare");
    limited.args(["--user", "--map-root-user", "sh", "-c", script]);
    limited.arg(windlass.get_program()).args(windlass.get_args());
    place.home.prepare(&mut limited).env("TMPDIR", &place.temporary);
    let ran = RunResult::from_output(limited.output().expect("unshare, of util-linux"));
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.lines();
    let (tour, steps) = lines.split_last().expect("lines");
    assert_eq!(tour["skipped"], json!(["together", "ask", "undo", "escape"]), "{tour}");
    for step in &steps[..4] {
        let why = step["why"].as_str().expect("a reason");
        assert!(why.contains("cannot be set up here") && why.contains("windlass doctor"), "{why}");
    }
    assert_eq!(steps[4]["outcome"], "ok", "{}", steps[4]);
    place.assert_untouched();
}

/// The tour checks every claim: without a shell its commands do nothing, and the steps fail.
#[test]
fn failed_steps_are_named() {
    let place = TestHome::new(Home::new());
    let mut command = place.home.command(&["demo", "--json"]);
    let command = command.env("TMPDIR", &place.temporary).env("PATH", "/nonexistent");
    let ran = RunResult::from_output(command.output().expect("the binary runs"));
    assert_eq!(ran.code, 1, "{ran:?}");
    let lines = ran.lines();
    let (tour, steps) = lines.split_last().expect("lines");
    assert_eq!(tour["outcome"], "failed", "{tour}");
    assert_eq!(tour["failed"], json!(["together", "ask", "undo", "escape"]), "{tour}");
    assert_eq!(steps.len(), STEPS.len(), "the tour goes on");
    place.assert_untouched();
}

/// Starts the tour at a terminal, up to its question.
fn start_to_question(place: &TestHome, options: &[&str]) -> Terminal {
    let temporary = place.temporary.to_str().expect("UTF-8");
    let arguments = [&["demo"][..], options].concat();
    let mut terminal = Terminal::on_screen(&place.home, ROWS, &arguments, &[("TMPDIR", temporary)]);
    terminal.expect(QUESTION);
    terminal
}

#[test]
fn person_answers_at_a_terminal() {
    // The tour pauses for a person who reads along.
    std::thread::scope(|scope| {
        scope.spawn(|| run_with_answer("y", "yes: the files hold the new lines"));
        scope.spawn(|| run_with_answer("n", "no: the files are as they were before"));
        scope.spawn(|| run_with_answer("", "no: the files are as they were before"));
    });
}

/// Runs the tour with this answer to its approval.
fn run_with_answer(typed: &str, told: &str) {
    let place = TestHome::new(Home::new());
    let mut terminal = start_to_question(&place, &[]);
    assert!(!terminal.shown().contains("the tour answers"), "{}", terminal.shown());
    terminal.answer(typed, told);
    terminal.expect("Every step did what it says.");
    let (ran, shown) = terminal.end();
    assert_eq!(ran.code, 0, "{typed:?}: {shown}");
    assert_eq!(shown.matches(QUESTION).count(), 1, "{shown}");
    for painted in ["\x1b[32mok", "\x1b[1mA command runs first"] {
        assert!(shown.contains(painted), "{painted:?} is not in {shown:?}");
    }
    place.assert_untouched();
}

#[test]
fn with_yes_the_person_is_not_asked_at_a_terminal() {
    let place = TestHome::new(Home::new());
    let mut terminal = start_to_question(&place, &["--yes", "--color", "never"]);
    terminal.expect("y   (--yes: the tour answers)");
    terminal.expect("Every step did what it says.");
    let (ran, shown) = terminal.end();
    assert_eq!(ran.code, 0, "{shown}");
    assert!(!shown.contains('\x1b'), "{shown:?}");
    place.assert_untouched();
}

#[test]
fn interrupted_tour_leaves_nothing() {
    const INTERRUPT: u8 = 3;
    let place = TestHome::new(Home::new());
    let mut terminal = start_to_question(&place, &[]);
    terminal.press(INTERRUPT);
    terminal.expect("Interrupted.");
    let (ran, shown) = terminal.end();
    assert_eq!(ran.code, 130, "{shown}");
    place.assert_untouched();
}

/// A tour that a signal ends during a command removes its files, too.
#[test]
fn signal_during_a_command_leaves_nothing() {
    use rustix::process::{Pid, Signal, kill_process};
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let place = TestHome::new(Home::new());
        let mut command = place.home.command(&["demo"]);
        let mut child = command.env("TMPDIR", &place.temporary).spawn().expect("the binary runs");
        let mut told = child.stdout.take().expect("a pipe");
        // The three commands of the first step have begun, or are about to.
        let mut shown = String::new();
        let mut bytes = [0; 256];
        while !shown.contains("sleep 1; ls src") {
            let count = std::io::Read::read(&mut told, &mut bytes).expect("output");
            assert!(count > 0, "it ended: {shown}");
            shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        kill_process(Pid::from_child(&child), signal).expect("a process");
        std::io::Read::read_to_string(&mut told, &mut shown).expect("output");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{signal:?}: {shown}");
        place.assert_untouched();
    }
}
