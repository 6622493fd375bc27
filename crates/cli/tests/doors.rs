//! The same calls through every door: as a library, by `call`, by `run` and by `mcp`. A front door translates and decides nothing, so
//! the verdict is the same.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass::process::{Confinement, ProcessSettings};
use windlass::tool::{Predicate, Role};
use windlass::{Builder, Mode, Outcome, Session, ToolCall, Windlass};

use crate::support::Home;
use Verdict::{Absent, Allowed, Denied};

/// The decision of a front door about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It ran, to whatever end.
    Allowed,
    /// The policy denied it, or no attendant was there to allow it.
    Denied,
    /// There is no such tool for this caller.
    Absent,
}

impl Verdict {
    /// Converts an outcome and, for a fault, its code.
    fn of(outcome: &str, code: Option<&str>) -> Self {
        match (outcome, code) {
            ("denied", _) => Denied,
            ("fault", Some("unknown_tool")) => Absent,
            ("ok" | "error", _) => Allowed,
            other => panic!("neither a verdict nor an end: {other:?}"),
        }
    }
}

/// One row of the table: a call, its options, and the expected verdict.
struct Row {
    tool: &'static str,
    input: Value,
    options: &'static [&'static str],
    verdict: Verdict,
}

fn row(
    tool: &'static str,
    input: Value,
    options: &'static [&'static str],
    verdict: Verdict,
) -> Row {
    Row { tool, input, options, verdict }
}

/// Every kind of effect that there is a tool for, every mode, and everything that can stand in the way. Calls that run write files of
/// their own, so that none depends on another.
fn table() -> Vec<Row> {
    let read = |path: &str| json!({"path": path});
    let write = |path: &str| json!({"path": path, "content": "x\n"});
    let edit = || json!({"path": "a.txt", "old_string": "alpha", "new_string": "alpha beta"});
    let add = |path: &str| json!({"patch": format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n")});
    let run = |command: &str| json!({"command": command});
    vec![
        // Reading.
        row("read", read("a.txt"), &[], Allowed),
        row("read", read("missing"), &[], Allowed),
        row("read", read("a.txt"), &["--mode", "plan"], Allowed),
        row("read", read("a.txt"), &["--mode", "deny"], Denied),
        row("read", read("a.txt"), &["--mode", "deny", "--allow", "read a.txt"], Allowed),
        row("read", read("a.txt"), &["--mode", "yolo", "--deny", "read *.txt"], Denied),
        row("read", read("a.txt"), &["--deny", "tool read"], Denied),
        row("list", json!({}), &[], Allowed),
        row("list", json!({}), &["--mode", "deny"], Denied),
        row("glob", json!({"pattern": "*"}), &["--mode", "plan"], Allowed),
        row("grep", json!({"pattern": "alpha"}), &[], Allowed),
        row("grep", json!({"pattern": "alpha", "path": "docs"}), &["--deny", "read docs"], Denied),
        // What nothing can allow.
        row("read", read(".env"), &["--mode", "yolo"], Denied),
        row("read", read(".env"), &["--mode", "yolo", "--yes", "--allow", "read .env"], Denied),
        row("read", read("key.pem"), &["--mode", "yolo", "--yes"], Denied),
        row("read", read("hidden.txt"), &["--mode", "yolo", "--yes"], Denied),
        row("write", write("hidden.txt"), &["--mode", "yolo", "--yes"], Denied),
        // Outside of the workspace.
        row("read", read("../outside.txt"), &["--mode", "auto"], Denied),
        row("read", read("../outside.txt"), &["--mode", "yolo"], Allowed),
        row("read", read("../outside.txt"), &["--allow", "read /**/outside.txt"], Allowed),
        row("read", read("link"), &["--mode", "auto"], Denied),
        row("write", write("../new"), &["--mode", "auto"], Denied),
        // Writing.
        row("write", write("new-1"), &[], Denied),
        row("write", write("new-2"), &["--mode", "auto"], Allowed),
        row("write", write("new-3"), &["--mode", "plan"], Denied),
        row("write", write("new-4"), &["--yes"], Allowed),
        row("write", write("docs/new"), &["--allow", "write docs/**"], Allowed),
        row(
            "write",
            write("docs/x/new"),
            &["--allow", "write docs/**", "--deny", "write docs/x/**"],
            Denied,
        ),
        row("edit", edit(), &[], Denied),
        row("edit", edit(), &["--mode", "auto"], Allowed),
        row("patch", add("new-5"), &["--mode", "plan", "--yes"], Denied),
        row("patch", add("new-6"), &["--mode", "auto"], Allowed),
        row("undo", json!({}), &["--mode", "auto"], Allowed),
        // What holds the leash.
        row("write", write(".git/hooks/pre-commit"), &["--mode", "yolo"], Denied),
        row("write", write(".windlass/config.toml"), &["--mode", "yolo"], Denied),
        row("bash", run("echo x > .mcp.json"), &["--mode", "yolo"], Denied),
        // Programs.
        row("bash", run("touch made-1"), &[], Denied),
        row("bash", run("touch made-2"), &["--mode", "auto"], Allowed),
        row("bash", run("touch made-3"), &["--mode", "plan"], Allowed),
        row("bash", run("touch made-3"), &["--mode", "plan", "--sandbox", "off"], Denied),
        row("bash", run("touch made-4"), &["--mode", "auto", "--sandbox", "off"], Denied),
        row("bash", run("touch made-5"), &["--mode", "yolo", "--deny", "tool bash"], Denied),
        row("bash", run("touch docs/made"), &["--mode", "auto", "--deny", "write docs/**"], Denied),
        row("git", run("status"), &[], Allowed),
        row("git", run("status"), &["--mode", "deny"], Denied),
        row("git", json!({"command": "add", "paths": ["a.txt"]}), &[], Denied),
        row("git", json!({"command": "add", "paths": ["a.txt"]}), &["--mode", "auto"], Allowed),
        row("test", run("touch made-6"), &[], Denied),
        row("test", run("touch made-7"), &["--mode", "auto"], Allowed),
        row("jobs", json!({}), &[], Allowed),
        row("output", json!({"job": "none"}), &[], Allowed),
        row("kill", json!({"job": "none"}), &["--mode", "auto"], Allowed),
        // Command tools.
        row("look", json!({}), &[], Allowed),
        row("look", json!({}), &["--mode", "deny"], Denied),
        row("act", json!({}), &[], Denied),
        row("act", json!({}), &["--allow", "tool act"], Allowed),
        row("act", json!({}), &["--role", "explorer", "--mode", "yolo"], Absent),
        // Who is offered what.
        row("bash", run("touch made-8"), &["--mode", "yolo", "--tools", "read"], Absent),
        row("bash", run("touch made-9"), &["--mode", "yolo", "--role", "explorer"], Absent),
        row("write", write("new-7"), &["--mode", "yolo", "--without", "write,edit"], Absent),
        row("list", json!({}), &["--tools", ""], Absent),
        row("nope", json!({}), &["--mode", "yolo"], Absent),
    ]
}

/// Creates a workspace with a file of each kind, and two command tools of the person.
fn home() -> Home {
    let home = Home::new_outside_tmp().with_files(&[
        ("a.txt", "alpha\n"),
        ("docs/a.md", "alpha\n"),
        (".env", "KEY=1\n"),
        ("key.pem", "key\n"),
        (".aiexclude", "hidden.txt\n"),
        ("hidden.txt", "hidden\n"),
    ]);
    let work = home.workspace();
    std::fs::write(work.join("../outside.txt"), "outside\n").expect("a file");
    std::os::unix::fs::symlink("../outside.txt", work.join("link")).expect("a link");
    let tools = home.config().join("tools");
    std::fs::create_dir_all(&tools).expect("a folder");
    for (name, lines) in
        [("look", "command: cat a.txt\neffects: [read]"), ("act", "command: touch acted")]
    {
        let text = format!("---\nname: {name}\n{lines}\n---\nTry something.\n");
        std::fs::write(tools.join(format!("{name}.md")), text).expect("a file");
    }
    let git = std::process::Command::new("git").args(["init", "-q"]).current_dir(&work).status();
    assert!(git.is_ok_and(|status| status.success()), "git is needed");
    home
}

/// Applies the options of a row to a builder of the library.
fn builder(home: &Home, row: &Row) -> (Builder, Predicate) {
    let state = home.state();
    let mut builder = Windlass::builder(home.workspace())
        .state(&state)
        .protect([home.config()])
        .command_tools(home.config().join("tools"));
    let mut predicate = Predicate::All;
    let mut confinement = Confinement::default();
    let mut words = row.options.iter();
    while let Some(option) = words.next() {
        if *option == "--yes" {
            builder = builder.attendant(|_: &_| true);
            continue;
        }
        let value = *words.next().expect("a value");
        let names = || value.split(',').filter(|name| !name.is_empty()).collect::<Vec<_>>();
        match *option {
            "--mode" => builder = builder.mode(value.parse::<Mode>().expect("a mode")),
            "--allow" => builder = builder.allow(value.parse().expect("a rule")),
            "--deny" => builder = builder.deny(value.parse().expect("a rule")),
            "--sandbox" => confinement.level = value.parse().expect("a level"),
            "--tools" => predicate = predicate.and(Predicate::allow(names())),
            "--without" => predicate = predicate.and(Predicate::deny(names())),
            "--role" => {
                predicate = predicate.and(value.parse::<Role>().expect("a role").predicate());
            }
            other => panic!("{other} is not an option of this table"),
        }
    }
    let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
    (builder.processes(settings), predicate)
}

/// Makes every call of the table through one front door, in a workspace of its own, and compares the verdicts.
fn check(door: impl Fn(&Home, &Row) -> Verdict) {
    let home = home();
    let rows = table();
    assert!(rows.len() >= 40);
    for row in &rows {
        let verdict = door(&home, row);
        assert_eq!(verdict, row.verdict, "{} {} {:?}", row.tool, row.input, row.options);
        remove(&home.workspace().join("acted"));
    }
}

fn remove(path: &Path) {
    // It is there only if the call before has made it.
    drop(std::fs::remove_file(path));
}

#[test]
fn library_decides_as_the_table_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    check(|home, row| {
        runtime.block_on(async {
            let (builder, predicate) = builder(home, row);
            let windlass = builder.build().expect("a workspace");
            let session = Session::new(windlass.engine().new_session_id()).narrow(predicate);
            let call = ToolCall::new(row.tool, row.input.clone());
            let result = windlass.call(&Arc::new(session), call).await;
            let is_fault = result.outcome == Outcome::Fault;
            Verdict::of(result.outcome.as_str(), result.code.filter(|_| is_fault))
        })
    });
}

#[test]
fn call_decides_as_the_table_says() {
    check(|home, row| {
        let (code, answer) = home.call(row.options, row.tool, &row.input);
        let outcome = answer["outcome"].as_str().expect("an outcome");
        let verdict = Verdict::of(outcome, answer["metadata"]["code"].as_str());
        let codes: &[i32] = match verdict {
            Allowed => &[0, 1],
            Denied => &[3],
            Absent => &[2],
        };
        assert!(codes.contains(&code), "{code}: {answer}");
        verdict
    });
}

#[test]
fn run_decides_as_the_table_says() {
    check(|home, row| {
        let line = json!({"type": "tool_use", "id": "1", "name": row.tool, "input": row.input});
        let arguments = [&["run"], row.options].concat();
        let ran = home.run_with_input(&arguments, format!("{line}\n").as_bytes());
        assert_eq!(ran.code, 0, "{ran:?}");
        let answer = ran.lines().remove(0);
        let outcome = answer["outcome"].as_str().expect("an outcome");
        Verdict::of(outcome, answer["metadata"]["code"].as_str())
    });
}

#[test]
fn mcp_decides_as_the_table_says() {
    check(|home, row| {
        let messages = [
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": row.tool, "arguments": row.input}}),
        ];
        let input: String = messages.iter().map(|message| format!("{message}\n")).collect();
        let arguments = [&["mcp"], row.options].concat();
        let ran = home.run_with_input(&arguments, input.as_bytes());
        let lines = ran.lines();
        let answer = lines.iter().find(|line| line["id"] == 1);
        let answer = answer.unwrap_or_else(|| panic!("no answer: {ran:?}"));
        if answer["error"]["code"] == json!(-32602) {
            return Absent;
        }
        let facts = &answer["result"]["_meta"]["windlass/result"];
        let outcome = facts["outcome"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let verdict = Verdict::of(outcome, facts["metadata"]["code"].as_str());
        assert_eq!(answer["result"]["isError"], json!(outcome != "ok"), "{answer}");
        verdict
    });
}
