//! Texts that imitate harmless ones: a person who is asked sees the dangerous part, and that it was disguised.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass::people::{ApprovalRequest, Difference};
use windlass::tool::diff::DiffFormat;
use windlass::{ToolCall, Windlass, quote};

use crate::mcp::FormClient;
use crate::support::Home;
use crate::terminal::Terminal;

const QUESTION: &str = "Allow this? ";
/// The part of each text that the person must see.
const DANGEROUS_PART: &str = "rm -rf ~/all";

/// A text that hides the dangerous part, and the visible sign of the disguise.
struct Disguise {
    name: &'static str,
    text: String,
    /// Stands in the question.
    sign: &'static str,
}

fn disguises() -> Vec<Disguise> {
    let one = |name, text: String, sign| Disguise { name, text, sign };
    let before = |hidden: &str| format!("ls{hidden}; {DANGEROUS_PART}");
    vec![
        one("a line that is erased", before("\x1b[2K\x1b[1A"), r"\x1b[2K\x1b[1A"),
        one("a link", before("\x1b]8;;http://a\x07b\x1b]8;;\x07"), r"\x1b]8;;http://a\x07b"),
        one("a colour like that of the background", before("\x1b[30;40m"), r"\x1b[30;40m"),
        one("a carriage return", format!("{DANGEROUS_PART} #\rls       "), r"#\x0dls"),
        one("backspaces", format!("{DANGEROUS_PART} #{}ls", "\x08".repeat(9)), r"\x08\x08\x08"),
        one("a C1 control", before("\u{9b}2K"), r"\u{9b}2K"),
        one("text from right to left", before("\u{202e}"), r"\u{202e}"),
        one("isolated text", before("\u{2066}x\u{2069}"), r"\u{2066}x\u{2069}"),
        one("characters without width", before("\u{200b}\u{2060}\u{feff}"), r"\u{200b}\u{2060}"),
        one("characters of the plane of tags", before("\u{e0072}\u{e006d}"), r"\u{e0072}"),
        one("a NUL", before("\0"), r"\x00"),
        one("many blanks", before(&" ".repeat(4_000)), r"\x20{4000}"),
        one("a long line", before(&"x".repeat(4_000)), "xxxxxxxx"),
        one("many blank lines", before(&"\n".repeat(300)), r"\n{299}"),
        one("a space that is none", before("\u{a0}\u{3000}"), r"\u{a0}\u{3000}"),
        one("line ends that are none", before("\u{2028}\u{2029}"), r"\u{2028}\u{2029}"),
        one("marks in a pile", before(&"\u{301}".repeat(30)), r"\u{301}\u{301}"),
        one(
            "a question of its own",
            before("\n[y] yes, once\n[n] no\nAllow this?"),
            "Allow this?; rm",
        ),
    ]
}

/// Returns calls with each disguise: as the content of a new file and, if a shell accepts it, as a command.
fn calls() -> Vec<(String, &'static str, String, Value)> {
    let mut calls = Vec::new();
    for Disguise { name, text, sign } in disguises() {
        if !text.contains('\0') {
            calls.push((
                format!("bash, {name}"),
                sign,
                "bash".to_owned(),
                json!({"command": text}),
            ));
        }
        let input = json!({"path": "new", "content": format!("{text}\n")});
        calls.push((format!("write, {name}"), sign, "write".to_owned(), input));
    }
    calls
}

/// A workspace where commands are asked about before they run.
fn home() -> Home {
    let home = Home::new();
    std::fs::create_dir_all(home.config()).expect("a folder");
    std::fs::write(home.config().join("config.toml"), "ask_before = true\n").expect("a file");
    home
}

fn check(door: &str, name: &str, sign: &str, shown: &str) {
    assert!(shown.contains(DANGEROUS_PART), "{door}: {name}: the danger is not shown: {shown:?}");
    assert!(shown.contains(sign), "{door}: {name}: {sign} is not shown: {shown:?}");
    let is_once = !name.starts_with("bash") || shown.matches(DANGEROUS_PART).count() == 1;
    assert!(is_once, "{door}: {name}: the command is not shown once: {shown}");
    let acts = |c: char| quote::is_invisible(c) && c != '\n';
    assert!(!shown.contains(acts), "{door}: {name}: {shown:?}");
    let blank_lines = shown.lines().filter(|line| line.trim_matches(['+', '|', ' ']).is_empty());
    assert!(blank_lines.count() < 20, "{door}: {name}: {shown}");
    // What the model writes is never at the beginning of a line, where a question of ours is.
    let imitates =
        |line: &str| line.starts_with("Allow this?;") || line.starts_with("[y] yes, once\n");
    assert!(!shown.lines().any(imitates), "{door}: {name}: {shown}");
}

#[test]
fn terminal_shows_the_danger_and_the_disguise() {
    let home = home();
    let mut lines = String::new();
    for (_, _, tool, input) in calls() {
        writeln!(lines, "{}", json!({"tool": tool, "input": input})).expect("a string");
    }
    std::fs::write(home.workspace().join("calls"), lines).expect("a file");
    let arguments = ["run", "calls", "--color", "never"];
    let mut terminal = Terminal::start(&home, 250, "", &arguments);
    terminal.expect(QUESTION);
    let mut seen = 0;
    let calls = calls();
    for (at, (name, sign, ..)) in calls.iter().enumerate() {
        let shown = terminal.shown();
        check("terminal", name, sign, &shown[seen..]);
        seen = shown.len();
        if at + 1 < calls.len() {
            terminal.answer("n", QUESTION);
        }
    }
    let (ran, shown) = terminal.answer_and_end("n");
    assert_eq!((ran.code, ran.lines().len()), (0, calls.len()), "{shown}");
}

#[test]
fn mcp_form_shows_the_danger_and_the_disguise() {
    let home = home();
    let mut client = FormClient::start(&home);
    for (name, sign, tool, arguments) in calls() {
        let message = client.ask_and_decline(&tool, &arguments);
        check("form", &name, sign, &message);
    }
    client.end();
}

/// The diff that the library gives an embedder.
#[test]
fn library_diff_shows_the_danger_and_the_disguise() {
    let folder = tempfile::tempdir().expect("a folder");
    let heard = Arc::new(Mutex::new(String::new()));
    let hear = heard.clone();
    let attendant = move |request: &ApprovalRequest| {
        *hear.lock().expect("the lock is not poisoned") =
            Difference::of(request, &DiffFormat::plain().whole()).shown();
        false
    };
    let windlass = Windlass::builder(folder.path()).attendant(attendant).build();
    let windlass = windlass.expect("a workspace");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for (name, sign, tool, input) in calls().into_iter().filter(|(.., tool, _)| tool == "write") {
        let session = windlass.new_session();
        runtime.block_on(windlass.call(&session, ToolCall::new(tool, input)));
        check("library", &name, sign, &heard.lock().expect("the lock is not poisoned"));
    }
}
