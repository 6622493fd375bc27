//! Two sessions on one machine: programs of one share a network and a `/tmp`, and nothing of it can be seen from the other. And the one
//! socket of the host that a person lets in.

use std::os::unix::net::UnixListener;

use serde_json::json;

use super::scene::write_file;
use super::starts::{Run, python, text};
use crate::support::Home;

/// Serves one text, says where, and leaves a file.
const SERVER_SCRIPT: &str = r#"
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"canary of the server")
    def log_message(self, *rest):
        pass
open("/tmp/left.txt", "w").write("canary in tmp")
open("/dev/shm/left.txt", "w").write("canary in memory")
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_address[1], flush=True)
server.serve_forever()
"#;

const CLIENT_SCRIPT: &str = r#"
import os, sys, urllib.request
try:
    print(urllib.request.urlopen("http://127.0.0.1:" + sys.argv[1], timeout=5).read().decode())
except OSError as error:
    print("no server:", error)
for top in ("/tmp", "/var/tmp", "/dev/shm"):
    for folder, _, files in os.walk(top):
        for name in files:
            if name == "left.txt":
                print(open(os.path.join(folder, name)).read())
for process in os.listdir("/proc"):
    try:
        if process.isdigit() and b"server.py" in open(f"/proc/{process}/cmdline", "rb").read():
            print("canary process")
    except OSError:
        pass
print("looked")
"#;

#[test]
fn session_sees_nothing_of_another_session() {
    let home = Home::new_outside_tmp()
        .with_files(&[("server.py", SERVER_SCRIPT), ("client.py", CLIENT_SCRIPT)]);
    let python = python().display().to_string();
    let options = ["run", "-", "--mode", "auto", "--session"];
    let mut one = Run::start(home.command(&[&options[..], &["one"]].concat()));
    let server = json!({"command": format!("{python} server.py"), "background": true});
    let mut answer = one.ask("bash", &server);
    let job = answer["metadata"]["job"].clone();
    assert!(job.is_string(), "{answer}");
    let mut printed = text(&answer).to_owned();
    while !printed.contains("port ") {
        answer = one.ask("output", &json!({"job": job, "wait": 30}));
        assert_ne!(answer["metadata"]["running"], json!(false), "{answer}");
        printed += text(&answer);
    }
    let port = printed.split("port ").nth(1).and_then(|rest| rest.lines().next()).expect("a port");
    let client = json!({"command": format!("{python} client.py {port}")});
    let answer = one.ask("bash", &client);
    for canary in ["canary of the server", "canary in tmp"] {
        assert!(text(&answer).contains(canary), "the session does not see its own: {answer}");
    }
    for level in ["read-only", "workspace", "staged"] {
        let session = format!("two-{level}");
        let (_, answer) = home.call(
            &["--mode", "auto", "--session", &session, "--sandbox", level],
            "bash",
            &client,
        );
        assert!(text(&answer).contains("looked"), "{level}: it did not run: {answer}");
        assert!(!text(&answer).contains("canary"), "{level}: {answer}");
    }
}

/// Tries to connect to each of its arguments.
const CONNECT_SCRIPT: &str = r#"
import socket, sys
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("open")
    except OSError as error:
        print("closed", error)
"#;

#[test]
fn only_sockets_named_by_the_person_are_reachable() {
    let home = Home::new_outside_tmp().with_files(&[("knock.py", CONNECT_SCRIPT)]);
    let [named, other] = ["named.socket", "other.socket"].map(|name| {
        let path = home.workspace().with_file_name("home").join(name);
        let listener = UnixListener::bind(&path).expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        (path, listener)
    });
    write_file(&home.config().join("config.toml"), &format!("sockets = [{:?}]\n", named.0));
    let command =
        format!("{} knock.py {} {}", python().display(), named.0.display(), other.0.display());
    let (_, answer) = home.call(&["--mode", "auto"], "bash", &json!({"command": command}));
    assert!(named.1.accept().is_ok(), "the named socket heard nothing: {answer}");
    assert!(other.1.accept().is_err(), "the other socket heard something: {answer}");
    assert!(text(&answer).contains("open\nclosed"), "{answer}");
}
