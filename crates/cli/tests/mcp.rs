//! The MCP server by raw lines: nothing but JSON on stdout, and a clean end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::support::Home;

pub(crate) fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
}

pub(crate) fn exchange(home: &Home, options: &[&str], messages: &[Value]) -> Vec<Value> {
    let mut arguments = vec!["mcp"];
    arguments.extend(options);
    let input: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let ran = home.run_with_input(&arguments, input.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.lines()
}

pub(crate) fn answer(answers: &[Value], id: u64) -> &Value {
    answers
        .iter()
        .find(|answer| answer["id"] == id)
        .unwrap_or_else(|| panic!("no answer to {id}: {answers:?}"))
}

/// A client with forms, connected to a server.
pub(crate) struct FormClient {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    calls: u64,
}

impl FormClient {
    pub(crate) fn start(home: &Home) -> Self {
        let mut server = home.command(&["mcp"]).stdin(Stdio::piped()).spawn().expect("a server");
        let input = server.stdin.take().expect("a pipe");
        let output = BufReader::new(server.stdout.take().expect("a pipe"));
        let mut client = Self { server, input, output, calls: 0 };
        let mut first = initialize();
        first["params"]["capabilities"] = json!({"elicitation": {}});
        client.send(&first);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client.receive();
        client
    }

    /// Makes a call that asks, and declines. Returns the text of the form.
    pub(crate) fn ask_and_decline(&mut self, tool: &str, arguments: &Value) -> String {
        self.calls += 1;
        let params = json!({"name": tool, "arguments": arguments});
        let call =
            json!({"jsonrpc": "2.0", "id": self.calls, "method": "tools/call", "params": params});
        self.send(&call);
        let asked = self.receive();
        self.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}));
        assert_eq!(self.receive()["id"], self.calls, "{asked}");
        asked["params"]["message"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned()
    }

    pub(crate) fn end(mut self) {
        drop(self.input);
        assert!(self.server.wait().expect("it ends").success());
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("it reads");
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

#[test]
fn list_and_call_on_the_older_wire() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let answers = exchange(
        &home,
        &[],
        &[
            initialize(),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read", "arguments": {"path": "a"}}}),
            json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "write", "arguments": {"path": "b", "content": "x"}}}),
        ],
    );
    let tools = answer(&answers, 1)["result"]["tools"].as_array().expect("tools");
    let read = tools.iter().find(|tool| tool["name"] == "read").expect("read");
    assert_eq!(read["annotations"]["readOnlyHint"], true);
    let result = &answer(&answers, 2)["result"];
    assert!(result["content"][0]["text"].as_str().expect("text").contains("hello"), "{result}");
    let denied = &answer(&answers, 3)["result"];
    assert_eq!(denied["isError"], true);
    assert!(denied["content"][0]["text"].as_str().expect("text").contains("--allow"), "{denied}");
    assert_eq!(home.run(&["log", "verify"]).code, 0);
    assert!(home.run(&["log"]).stdout.contains("read ok"));
}

#[test]
fn discover_and_call_on_the_newer_wire() {
    let home = Home::with_workspace(&[("a", "hello\n")]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let answers = exchange(
        &home,
        &[],
        &[
            json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"_meta": meta, "name": "read", "arguments": {"path": "a"}}}),
        ],
    );
    assert!(
        answer(&answers, 1)["result"]["supportedVersions"].to_string().contains("2026-07-28"),
        "{answers:?}"
    );
    let result = &answer(&answers, 2)["result"];
    assert_eq!(result["resultType"], "complete");
    assert!(result["content"][0]["text"].as_str().expect("text").contains("hello"), "{result}");
}

/// A client that cannot ask its person defers, and the question is answered by another process after the server has ended.
#[test]
fn approval_of_a_client_without_forms_is_answered_later() {
    let home = Home::new();
    let arguments = json!({"path": "b", "content": "x"});
    let call = json!({"name": "write", "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let answers = exchange(&home, &[], &[initialize(), call]);
    let denied = &answer(&answers, 1)["result"];
    assert_eq!(denied["isError"], true);
    let facts = &denied["_meta"]["windlass/result"];
    assert_eq!(facts["outcome"], "denied");
    let id = facts["metadata"]["approval"].as_str().expect("the question is named");
    let [open] = &home.run(&["policy", "approvals", "--json"]).lines()[..] else { panic!("one") };
    assert_eq!((&open["id"], &open["state"]), (&json!(id), &json!("open")));
    assert!(open["expires"].as_str() > open["at"].as_str(), "{open}");
    let approved = home.run(&["policy", "approve", id]);
    assert_eq!(approved.code, 0, "{approved:?}");
    assert!(home.workspace().join("b").exists());
}

/// A job lives in the process that starts it, so a yes that is given elsewhere is kept for the model's next call.
#[test]
fn yes_to_a_job_is_kept_for_the_next_call_of_the_model() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;
    let home = Home::new();
    let mut command = home.command(&["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().expect("a server");
    let mut input = server.stdin.take().expect("a standard input");
    let mut output = BufReader::new(server.stdout.take().expect("a standard output"));
    let mut ask = |id: u64, method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{message}").expect("it reads");
        loop {
            let mut line = String::new();
            output.read_line(&mut line).expect("an answer");
            let answer: Value = serde_json::from_str(&line).expect("JSON");
            if answer["id"] == id {
                return answer["result"].clone();
            }
        }
    };
    ask(0, "initialize", initialize()["params"].clone());
    let call = json!({"name": "bash", "arguments": {"command": "touch up; sleep 600", "background": true}});
    let denied = ask(1, "tools/call", call.clone());
    let id = denied["_meta"]["windlass/result"]["metadata"]["approval"].as_str();
    let id = id.unwrap_or_else(|| panic!("{denied}"));
    assert!(denied.to_string().contains("make it again once a person has answered"), "{denied}");
    for _ in 0..2 {
        let approved = home.run(&["policy", "approve", id]);
        assert_eq!(approved.code, 0, "{approved:?}");
        assert!(approved.stderr.contains("the answer is kept; a job ends with"), "{approved:?}");
        assert_eq!(approved.stdout, "", "it did not run");
    }
    let started = ask(2, "tools/call", call.clone());
    assert_eq!(started["_meta"]["windlass/result"]["outcome"], "ok", "{started}");
    let again = ask(3, "tools/call", call);
    assert_eq!(again["_meta"]["windlass/result"]["outcome"], "denied", "it counts once: {again}");
    drop(input);
    assert!(server.wait().expect("an end").success());
}

/// Rules of the server that deny something hold for other arguments, whichever process makes the call.
#[test]
fn rules_of_the_server_bind_a_later_answer() {
    let home = Home::new();
    let call = json!({"name": "write", "arguments": {"path": "b", "content": "x"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let answers = exchange(&home, &["--deny", "write sub/**"], &[initialize(), call]);
    let facts = &answer(&answers, 1)["result"]["_meta"]["windlass/result"];
    let id = facts["metadata"]["approval"].as_str().expect("the question is named");
    let input = json!({"path": "sub/b", "content": "x"}).to_string();
    let approved = home.run(&["policy", "approve", id, "--input", &input]);
    assert_eq!(approved.code, 3, "{approved:?}");
    assert!(!home.workspace().join("sub").exists());
}

/// A client that keeps the connection open does not keep a server that was asked to end.
#[test]
fn signal_ends_the_server_during_a_call() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;
    let home = Home::new();
    for signal in ["TERM", "INT"] {
        let mut command = home.command(&["--mode", "auto", "mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("a server");
        let mut input = server.stdin.take().expect("a standard input");
        let mut output = BufReader::new(server.stdout.take().expect("a standard output"));
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "bash", "arguments": {"command": format!("touch {signal}; sleep 600")}}});
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(input, "{}\n{begun}\n{call}", initialize()).expect("it reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("the answer to initialize");
        // Requests are taken in order: the command has been taken when the ping is answered.
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        writeln!(input, "{ping}").expect("it reads");
        output.read_line(&mut line).expect("the answer to the ping");
        let killed = std::process::Command::new("kill")
            .args([format!("-{signal}"), server.id().to_string()])
            .status();
        assert!(killed.expect("kill").success());
        assert!(server.wait().expect("it ends").success(), "{signal}");
        drop(input);
    }
    let log = home.run(&["log"]).stdout;
    assert_eq!(log.matches("cancelled").count(), 2, "{log}");
    assert_eq!(home.run(&["log", "verify"]).code, 0);
}

/// Starts a job that changes a file on its stage, waits for the change, and ends the server in this way.
fn end_with_a_job(home: &Home, options: &[&str], end: &str) -> String {
    use std::io::Read as _;
    let mut command = home.command(&[&["--mode", "auto", "mcp"][..], options].concat());
    command.stdin(Stdio::piped());
    let mut server = command.spawn().expect("a server");
    let mut input = server.stdin.take().expect("a standard input");
    let mut output = BufReader::new(server.stdout.take().expect("a standard output"));
    let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let mut ask = |message: Value| {
        writeln!(input, "{message}").expect("it reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("an answer");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    ask(initialize());
    let call = |id: u64, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let job = json!({"command": "echo clo > clo; echo done; sleep 600", "background": true});
    let started = ask(call(1, "bash", job));
    let job = &started["result"]["_meta"]["windlass/result"]["metadata"]["job"];
    assert!(job.is_string(), "{started}");
    let output = |id| call(id, "output", json!({"job": job, "cursor": 0, "wait": 1}));
    assert!((2..60).any(|id| ask(output(id)).to_string().contains("done")), "it prints");
    writeln!(input, "{begun}").expect("it reads");
    let kept_open = (end != "close").then_some(input);
    if kept_open.is_some() {
        let killed = std::process::Command::new("kill")
            .args([format!("-{end}"), server.id().to_string()])
            .status();
        assert!(killed.expect("kill").success());
    }
    assert!(server.wait().expect("it ends").success(), "{end}");
    let mut told = String::new();
    server.stderr.take().expect("a standard error").read_to_string(&mut told).expect("UTF-8");
    told
}

/// Changes of a staged job are decided on and reported when its session ends.
#[test]
fn changes_of_a_staged_job_are_decided_on_when_its_session_ends() {
    for end in ["close", "TERM"] {
        let home = Home::new_outside_tmp();
        let told = end_with_a_job(&home, &["--sandbox", "staged"], end);
        let approvals = home.run(&["policy", "approvals", "--json"]);
        let [open] = &approvals.lines()[..] else { panic!("{end}: {approvals:?} {told}") };
        assert_eq!(open["state"], "open");
        let id = open["id"].as_str().expect("an id");
        assert!(told.contains(id), "{end}: {told}");
        let log = home.run(&["log", "--json"]).stdout;
        let ended = log.lines().find(|line| line.contains("job_ended"));
        assert!(ended.is_some_and(|line| line.contains(id)), "{end}: {log}");
        assert!(!home.workspace().join("clo").exists());
        assert_eq!(home.run(&["policy", "approve", id]).code, 0, "{end}");
        assert!(home.workspace().join("clo").exists(), "{end}");

        let home = Home::new_outside_tmp();
        let told = end_with_a_job(&home, &["--proposals"], end);
        let list = home.run(&["proposals", "list", "--json"]);
        assert_eq!(list.lines().len(), 1, "{end}: {list:?} {told}");
        assert!(home.run(&["log", "--json"]).stdout.contains("job_ended"), "{end}");
    }
}
