//! The incidents that need a process of their own: home directories, listening sockets, killed programs, the environment.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::write_file;
use crate::support::Home;

/// The time after which a test fails; long enough for the slowest machine.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Waits until a condition holds, at most `TEST_TIMEOUT`, and returns whether it does.
fn wait_until(mut is: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < TEST_TIMEOUT {
        if is() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Returns whether a process with this command-line argument runs on the machine.
fn is_alive(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc");
    let commands =
        processes.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    let is_meant =
        |words: Vec<u8>| words.split(|byte| *byte == 0).any(|one| one == word.as_bytes());
    commands.into_iter().any(is_meant)
}

/// Returns a duration in seconds that no other test sleeps for.
fn unique_seconds(which: u32) -> String {
    format!("{}.{which}", 200_000 + std::process::id())
}

fn home_of(home: &Home) -> std::path::PathBuf {
    home.config().join("../..")
}

#[test]
fn i_15_a_command_that_deletes_the_home_directory_deletes_nothing() {
    let home = Home::new_outside_tmp().with_files(&[("tests/a", "x\n"), ("plan/b", "y\n")]);
    let photo = home_of(&home).join("photos/1.jpg");
    write_file(&home.config().join("config.toml"), "# mine\n");
    write_file(&photo, "photo\n");
    let command = json!({"command": "rm -rf tests/ patches/ plan/ ~/"});
    assert_eq!(home.call(&[], "bash", &command).0, 3, "no person was asked");
    assert!(home.workspace().join("tests/a").exists());
    let command =
        json!({"command": "rm -rf tests plan \"$(echo ~)\" 2>/dev/null; ls -A $(echo ~)"});
    let (_, answer) = home.call(&["--mode", "yolo"], "bash", &command);
    assert!(!answer.to_string().contains("photos"), "the home is the workspace's own: {answer}");
    assert!(photo.exists() && home.config().join("config.toml").exists());
    assert!(!home.workspace().join("tests").exists(), "it shows nothing: {answer}");
    assert_eq!(home.run(&["undo", "--yes"]).code, 0);
    assert!(home.workspace().join("tests/a").exists() && home.workspace().join("plan/b").exists());
}

#[test]
fn i_29_secrets_are_out_of_reach_and_the_record_tells_what_was_tried() {
    let home = Home::new_outside_tmp()
        .with_files(&[(".env", "DATABASE_URL=postgres://production\n"), ("a", "x\n")]);
    let secrets =
        [".aws/credentials", ".ssh/id_ed25519", ".pgpass", ".netrc", ".config/gh/hosts.yml"];
    for secret in secrets {
        write_file(&home_of(&home).join(secret), "production-secret\n");
    }
    write_file(&home.workspace().join("notes.txt"), "readable-note\n");
    for secret in secrets {
        let command = json!({"command": format!("cat $(echo ~)/{secret}; cat notes.txt")});
        let (_, answer) = home.call(&["--mode", "yolo"], "bash", &command);
        assert!(!answer.to_string().contains("production-secret"), "{secret}: {answer}");
        assert!(answer.to_string().contains("readable-note"), "it shows nothing: {answer}");
        if !secret.contains("gh/") {
            let path = home_of(&home).join(secret);
            let (code, answer) = home.call(&["--mode", "yolo"], "read", &json!({"path": path}));
            assert_eq!(code, 3, "{answer}");
        }
    }
    assert_eq!(home.call(&["--mode", "yolo"], "read", &json!({"path": ".env"})).0, 3);
    home.call(&["--mode", "yolo"], "bash", &json!({"command": "rm a"}));
    let log = home.run(&["log"]).stdout;
    assert!(log.contains("read denied") && log.contains("bash ok"), "{log}");
    assert_eq!(home.run(&["log", "verify"]).code, 0);
}

/// Starts an MCP server with open input.
fn start_server(home: &Home, options: &[&str]) -> Child {
    let arguments = [&["mcp"], options].concat();
    let mut child = home.command(&arguments).stdin(Stdio::piped()).spawn().expect("runs");
    let stdin = child.stdin.as_mut().expect("a pipe");
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    writeln!(stdin, "{initialize}").expect("a message");
    child
}

fn send_request(child: &mut Child, id: u64, tool: &str, arguments: &Value) {
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}});
    writeln!(child.stdin.as_mut().expect("a pipe"), "{call}").expect("a message");
}

/// Reads responses until the one with this id.
fn answer_to(child: &mut Child, id: u64) -> Value {
    let mut lines = BufReader::new(child.stdout.as_mut().expect("a pipe")).lines();
    loop {
        let line = lines.next().expect("an answer").expect("text");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        if message["id"] == id {
            return message;
        }
    }
}

/// Returns the internet sockets at which a process listens, or that are bound without a peer.
fn listening_sockets(pid: u32) -> Vec<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
    let held: HashSet<String> = descriptors
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            let link = link.to_string_lossy().into_owned();
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let rows = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let is_held =
            |row: &&str| row.split_whitespace().nth(9).is_some_and(|inode| held.contains(inode));
        found.extend(rows.lines().filter(is_held).map(|row| format!("{table}: {row}")));
    }
    found
}

#[test]
fn i_45_the_one_socket_there_is_belongs_to_the_person_alone() {
    let home = Home::new();
    let mut child = start_server(&home, &["--mode", "auto"]);
    answer_to(&mut child, 0);
    let sockets = home.state().join("jobs");
    assert!(wait_until(|| sockets.read_dir().is_ok_and(|mut entries| entries.next().is_some())));
    for place in [home.state(), sockets] {
        let mode = std::fs::metadata(&place).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "others can get at {}", place.display());
    }
    drop(child.stdin.take());
    child.wait().expect("it ends");
}

#[test]
fn i_46_a_server_over_standard_input_listens_nowhere() {
    let home = Home::new();
    let mut child = start_server(&home, &["--mode", "auto"]);
    answer_to(&mut child, 0);
    assert_eq!(listening_sockets(child.id()), [""; 0]);
    drop(child.stdin.take());
    child.wait().expect("it ends");
    let ours = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    assert_eq!(listening_sockets(std::process::id()).len(), 1, "it shows nothing: {ours:?}");
}

/// With hosts that programs may reach there is a proxy, but only a program in its sandbox finds it.
#[test]
fn i_47_the_proxy_of_a_program_is_reachable_for_that_program_only() {
    let home = Home::new();
    let mut child = start_server(&home, &["--mode", "auto", "--net", "docs.rs"]);
    let seconds = unique_seconds(47);
    let command = format!("echo ${{http_proxy##*:}}; sleep {seconds}");
    send_request(&mut child, 1, "bash", &json!({"command": command, "background": true}));
    let said = answer_to(&mut child, 1)["result"]["content"][0]["text"].to_string();
    assert!(is_alive(&seconds), "it shows nothing: {said}");
    assert_eq!(listening_sockets(child.id()), [""; 0]);
    drop(child.stdin.take());
    child.wait().expect("it ends");
    assert!(wait_until(|| !is_alive(&seconds)));
}

#[test]
fn i_48_a_client_cannot_declare_its_own_rights() {
    let home = Home::new();
    let mut child = home.command(&["mcp"]).stdin(Stdio::piped()).spawn().expect("runs");
    let claims = json!({"mode": "yolo", "scopes": ["operator.admin"], "permissions": ["*"], "yes": true, "allow": ["write **"]});
    let stdin = child.stdin.as_mut().expect("a pipe");
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "_meta": claims, "scopes": ["admin"],
        "capabilities": {"experimental": claims, "roots": {"listChanged": true}},
        "clientInfo": {"name": "admin", "version": "1"}}});
    writeln!(stdin, "{initialize}").expect("a message");
    let write = json!({"path": "written", "content": "x"});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "write", "arguments": write, "_meta": claims, "mode": "yolo", "approved": true}});
    writeln!(stdin, "{call}").expect("a message");
    let answer = answer_to(&mut child, 1);
    assert_ne!(answer["result"]["isError"], json!(false), "{answer}");
    drop(child.stdin.take());
    child.wait().expect("it ends");
    assert!(!home.workspace().join("written").exists());
}

#[test]
fn i_60_what_was_started_dies_with_us_however_we_die() {
    let home = Home::new();
    for (way, which) in ["sleep {}", "setsid sleep {} & wait", "(setsid sleep {} &); sleep {}"]
        .into_iter()
        .zip(60..)
    {
        for background in [false, true] {
            let seconds = unique_seconds(which * 2 + u32::from(background));
            let command = way.replace("{}", &seconds);
            let call =
                json!({"tool": "bash", "input": {"command": command, "background": background}});
            let mut child = home
                .command(&["run", "--mode", "auto"])
                .stdin(Stdio::piped())
                .spawn()
                .expect("runs");
            writeln!(child.stdin.as_mut().expect("a pipe"), "{call}").expect("a line");
            assert!(wait_until(|| is_alive(&seconds)), "{way} does not begin");
            child.kill().expect("a process to kill");
            child.wait().expect("it ends");
            assert!(wait_until(|| !is_alive(&seconds)), "{way} outlives us");
        }
    }
}

#[test]
fn i_62_many_processes_and_sudden_ends_leave_the_journal_whole() {
    const PROCESSES: usize = 8;
    let home = Home::with_workspace(&[("a", "x\n")]);
    let run = |which: usize| -> Vec<String> {
        let mut child =
            home.command(&["run", "--mode", "auto"]).stdin(Stdio::piped()).spawn().expect("runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        for number in 0..10 {
            let call = match number % 2 {
                0 => json!({"tool": "read", "input": {"path": "a"}}),
                _ => {
                    json!({"tool": "write", "input": {"path": format!("{which}-{number}"), "content": "x"}})
                }
            };
            writeln!(stdin, "{call}").expect("a line");
        }
        let mut answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut seen: Vec<String> = answers.by_ref().take(5).map_while(Result::ok).collect();
        if which.is_multiple_of(2) {
            child.kill().expect("a process to kill");
        }
        drop(stdin);
        seen.extend(answers.map_while(Result::ok));
        child.wait().expect("it ends");
        let answers = seen.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        answers.filter_map(|answer| answer["call"].as_str().map(str::to_owned)).collect()
    };
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..PROCESSES).map(|which| scope.spawn(move || run(which))).collect();
        running.into_iter().flat_map(|one| one.join().expect("a process")).collect()
    });
    assert!(acknowledged.len() >= PROCESSES * 5, "{} calls show nothing", acknowledged.len());
    let verified = home.run(&["log", "verify", "--json"]).lines().remove(0);
    assert_eq!(verified["ok"], true, "{verified}");
    let rows = home.run(&["log", "--json"]).lines();
    let finished: HashSet<&str> = rows
        .iter()
        .filter(|row| row["kind"] == "finished")
        .filter_map(|row| row["call"].as_str())
        .collect();
    for call in &acknowledged {
        assert!(finished.contains(call.as_str()), "{call} was acknowledged and is gone");
    }
}

/// Configuration may be a pipe that no process ever finishes writing.
#[test]
fn i_63_configuration_that_is_not_a_file_does_not_block() {
    for (make, what) in [
        ("mkfifo", ".windlass/config.toml"),
        ("ln -s /dev/zero", ".windlass/config.toml"),
        ("mkfifo", ".windlass/tools/t.md"),
        ("ln -s /dev/zero", ".windlass/tools/t.md"),
    ] {
        let home = Home::with_workspace(&[("a", "hello\n"), (".windlass/tools/README.md", "")]);
        let made = std::process::Command::new("bash")
            .args(["-c", &format!("{make} {what}")])
            .current_dir(home.workspace())
            .status()
            .expect("bash");
        assert!(made.success());
        for arguments in [&["call", "read", r#"{"path":"a"}"#][..], &["trust"], &["tools"]] {
            let mut child = home.command(arguments).spawn().expect("runs");
            let ends = wait_until(|| child.try_wait().expect("a child").is_some());
            if !ends {
                child.kill().expect("a process to kill");
            }
            assert!(ends, "{arguments:?} waits for {what} ({make})");
            let output = child.wait_with_output().expect("it ends");
            assert_eq!(
                output.status.code(),
                Some(0),
                "{arguments:?} with {what} ({make}): {output:?}"
            );
        }
    }
}

#[test]
fn i_64_no_secret_of_ours_is_in_the_environment_of_a_program() {
    let home = Home::new();
    let secrets = [
        ("ANTHROPIC_API_KEY", "key-one"),
        ("AWS_SECRET_ACCESS_KEY", "key-two"),
        ("GOOGLE_CREDENTIALS", "{\n  \"private_key\": \"key-three\"\n}"),
        ("SSH_AUTH_SOCK", "/run/key-four"),
        ("DATABASE_URL", "postgres://key-five"),
        ("BASH_FUNC_ls%%", "() { echo key-six; }"),
    ];
    let look = "env; printenv | cut -d= -f2; p=$(echo /proc); cat $p/self/environ $p/$PPID/environ $p/[0-9]*/environ; ls; true";
    let call = |look: &str, more: &[&str]| -> String {
        let input = json!({"command": look}).to_string();
        let arguments = [&["call", "bash", &input, "--mode", "auto"], more].concat();
        let mut command = home.command(&arguments);
        command.envs(secrets);
        String::from_utf8_lossy(&command.output().expect("the binary runs").stdout).into_owned()
    };
    let said = call(look, &[]);
    assert!(said.contains("PATH="), "it shows nothing: {said}");
    assert!(!said.contains("key-"), "{said}");
    assert!(!call("env", &["--sandbox", "off", "--yes"]).contains("key-one"));
    write_file(&home.config().join("config.toml"), "env = [\"ANTHROPIC_API_KEY\"]\n");
    let said = call(look, &[]);
    assert!(said.contains("ANTHROPIC_API_KEY=") && !said.contains("key-two"), "{said}");
}
