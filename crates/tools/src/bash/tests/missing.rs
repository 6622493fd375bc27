//! Tests of the notes about paths that are missing in the sandbox, with real programs.
//!
//! The commands are in a script, so that the shell analysis does not see the paths that they name.
#![expect(clippy::disallowed_methods, reason = "tests lay out files and links")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::{CallResult, Confinement, Host, Mode, NetworkAccess, Policy, SandboxLevel};
use windlass_host::{LocalHost, ProcessSettings};

use crate::testing::Workspace;

const FILES: &[(&str, &str)] = &[
    (".aiexclude", "*.draft\n"),
    (".env", "KEY=1\n"),
    ("sub/.env", "KEY=1\n"),
    ("plan.draft", ""),
    ("denied/x", ""),
    ("open", ""),
];

/// A workspace, and a directory of the machine that is outside of every view.
struct SandboxWorkspace {
    workspace: Workspace,
    directory: tempfile::TempDir,
    outside: PathBuf,
}

impl SandboxWorkspace {
    fn new() -> Self {
        Self::with(Confinement::default())
    }

    fn with(confinement: Confinement) -> Self {
        // Not below `/tmp`, which in a view belongs to the session.
        let program = std::env::current_exe().unwrap();
        let directory = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        Self::in_directory(directory, confinement, &[])
    }

    fn in_directory(
        directory: tempfile::TempDir,
        confinement: Confinement,
        allowed: &[String],
    ) -> Self {
        let policy = Policy::new(Mode::Yolo).deny("read denied/**".parse().unwrap());
        let allow = |policy: Policy, rule: &String| policy.allow(rule.parse().unwrap());
        let policy = allowed.iter().fold(policy, allow);
        let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
        let host =
            |local: LocalHost| Arc::new(local.with_processes(settings.clone())) as Arc<dyn Host>;
        let outside = directory.path().canonicalize().unwrap();
        for name in ["data/in.csv", ".ssh/present"] {
            let path = outside.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let workspace = Workspace::with_policy(FILES, host, policy);
        Self { workspace, directory, outside }
    }

    fn run(&self, script: &str) -> CallResult {
        self.workspace.write("run.sh", script.replace("OUTSIDE", self.outside.to_str().unwrap()));
        self.workspace.call("bash", json!({"command": "sh ./run.sh"}))
    }

    /// Runs a script and returns the notes in its output and the reasons in the metadata.
    fn notes(&self, script: &str) -> (Vec<String>, Vec<Value>) {
        let result = self.run(script);
        let text = result.output.to_text().replace(self.outside.to_str().unwrap(), "OUTSIDE");
        let notes = text.lines().filter(|line| line.starts_with('[') && line.ends_with(']'));
        let is_other = |note: &&str| note.contains("exit code") || note.starts_with("[Errno");
        let notes = notes.filter(|note| !is_other(note)).map(ToOwned::to_owned).collect();
        let absent = result.output.metadata.get("absent").and_then(Value::as_array);
        let reason = |absent: &Value| absent["reason"].clone();
        (notes, absent.into_iter().flatten().map(reason).collect())
    }
}

#[test]
fn a_failure_caused_by_the_sandbox_is_explained() {
    let sandboxed = SandboxWorkspace::new();
    let outside = |path: &str, rule: &str| {
        format!("[not in the sandbox's view: {path}; a person can allow it: --allow '{rule}']")
    };
    let masked =
        |path: &str, why: &str| format!("[masked: {path} ({why}); programs cannot see it]");
    let csv = || outside("OUTSIDE/data/in.csv", "read OUTSIDE/data/in.csv");
    for (script, expected, reason) in [
        ("cat OUTSIDE/data/in.csv", csv(), "outside"),
        ("ls OUTSIDE/data", outside("OUTSIDE/data", "read OUTSIDE/data/**"), "outside"),
        ("python3 -c \"open('OUTSIDE/data/in.csv')\"", csv(), "outside"),
        ("touch OUTSIDE/data/new", outside("OUTSIDE/data/new", "write OUTSIDE/data/new"), "outside"),
        ("f=.e; cat \"${f}nv\"", masked(".env", "a file of secrets"), "masked"),
        ("cat plan.draft", masked("plan.draft", "`.aiexclude` excludes it"), "masked"),
        ("cat denied/x", masked("denied/x", "a rule denies it"), "masked"),
        (
            "echo x > /opt/windlass-test",
            "[read-only here: /opt/windlass-test; a person can allow writing: --allow 'write /opt/windlass-test']".into(),
            "read-only",
        ),
        ("touch /usr/windlass-test", "[read-only: /usr is part of the system]".into(), "system"),
        ("mkdir /windlass-test", "[read-only here: /windlass-test]".into(), "read-only"),
        ("cat OUTSIDE/.ssh/present", "[not in the sandbox's view: OUTSIDE/.ssh/present]".into(), "outside"),
    ] {
        assert_eq!(sandboxed.notes(script), (vec![expected], vec![json!(reason)]), "{script}");
    }
    let (notes, reasons) = sandboxed.notes("touch ~/.ssh/windlass-test");
    assert_eq!(reasons, [json!("outside")], "{notes:?}");
    assert!(notes[0].ends_with("/.ssh/windlass-test]"), "{notes:?}");
}

#[test]
fn the_suggested_rule_makes_the_command_work() {
    for script in ["cat OUTSIDE/data/in.csv", "ls OUTSIDE/data", "touch OUTSIDE/data/new"] {
        let sandboxed = SandboxWorkspace::new();
        let failed = sandboxed.run(script).output.to_text();
        let rule = failed.split("--allow '").nth(1).and_then(|rest| rest.split('\'').next());
        let rule = rule.unwrap_or_else(|| panic!("{failed}")).to_owned();
        let sandboxed =
            SandboxWorkspace::in_directory(sandboxed.directory, Confinement::default(), &[rule]);
        let result = sandboxed.run(script);
        assert!(!result.output.is_error, "{script}: {}", result.output.to_text());
    }
}

#[test]
fn other_failures_get_no_notes() {
    let sandboxed = SandboxWorkspace::new();
    for script in [
        "cat OUTSIDE/data/in.csv; true",
        "cat OUTSIDE/data/other.csv",
        "cat /windlass/nowhere",
        "cat nowhere sub/nowhere",
        "/bin/windlass-no-such-command",
        "cat /usr/windlass-nowhere",
        "echo all is well; exit 3",
        "cat open; exit 1",
    ] {
        assert_eq!(sandboxed.notes(script), (vec![], vec![]), "{script}");
    }
}

#[test]
fn at_most_three_notes_are_given() {
    let (notes, reasons) = SandboxWorkspace::new()
        .notes("cat .env plan.draft denied/x OUTSIDE/data/in.csv; cat OUTSIDE/data/in.csv");
    assert_eq!((notes.len(), reasons.len()), (3, 4), "{notes:?}");
}

#[test]
fn relative_paths_use_the_command_directory() {
    let sandboxed = SandboxWorkspace::new();
    let call = |input: Value| sandboxed.workspace.text("bash", input);
    sandboxed.workspace.write("sub/run.sh", "f=.e; cat \"${f}nv\"");
    for input in [
        json!({"command": "sh ./run.sh", "cwd": "sub"}),
        json!({"command": "cd sub && sh ./run.sh"}),
    ] {
        let text = call(input);
        assert!(
            text.ends_with("\n[masked: .env (a file of secrets); programs cannot see it]"),
            "{text}"
        );
    }
}

/// Programs choose the paths in their messages and can create links. Neither may reveal whether a secret file exists.
#[test]
fn notes_do_not_reveal_secrets_outside() {
    let sandboxed = SandboxWorkspace::new();
    let link = |target: &str, name: &str| {
        symlink(sandboxed.outside.join(target), sandboxed.workspace.path(name)).unwrap();
    };
    link(".ssh", "store");
    for (target, name) in [(".ssh/present", "one"), (".ssh/absent", "two")] {
        link(target, name);
    }
    for script in ["cat OUTSIDE/.ssh/NAME", "cat store/NAME", "cat store/NAME/deeper"] {
        let notes = ["present", "absent"].map(|name| {
            let (notes, reasons) = sandboxed.notes(&script.replace("NAME", name));
            (notes.join("").replace(name, "NAME"), reasons)
        });
        assert_eq!(notes[0], notes[1], "{script}");
        assert_eq!(notes[0].1, [json!("outside")], "{script}");
    }
    let notes = ["one", "two"].map(|name| sandboxed.notes(&format!("cat {name}")).1);
    assert_eq!(notes[0], notes[1]);
    let user = fs::metadata(sandboxed.workspace.path("open")).unwrap().uid();
    let state = std::env::temp_dir().join(format!("windlass-{user}"));
    let of_state = |name: &str| sandboxed.notes(&format!("cat {}/{name}", state.display())).1;
    assert_eq!(of_state("stages"), of_state("nothing"));
}

#[test]
fn files_of_unmapped_owners_are_explained() {
    let sandboxed = SandboxWorkspace::new();
    let make = |name: &str, owner, group, mode| {
        sandboxed.workspace.write(name, "old\n");
        let path = sandboxed.workspace.path(name);
        chown(&path, owner, group).expect("only root gives files away: run the tests as root");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    make("theirs", Some(12345), None, 0o666);
    make("shared", None, Some(12345), 0o664);
    make("closed", Some(12345), None, 0o600);
    let unmapped = |path: &str, of: &str, done: &str| {
        format!("[{path} belongs to {of} not mapped into the sandbox, so it could not be {done}]")
    };
    for (script, expected) in [
        ("echo x >> theirs", unmapped("theirs", "user 12345, who is", "changed")),
        ("echo x >> shared", unmapped("shared", "group 12345, which is", "changed")),
        ("cat closed", unmapped("closed", "user 12345, who is", "read")),
        (
            "chown 12345 open",
            "[the owner of open was not changed: other users and groups are not mapped into the sandbox]".into(),
        ),
    ] {
        // Other changes of the command are kept.
        let script = format!("echo kept > made; {script}");
        let (notes, _) = sandboxed.notes(&script);
        assert!(notes.contains(&expected), "{script}: {notes:?}\n{}", sandboxed.run(&script).output.to_text());
        assert_eq!(sandboxed.workspace.read("made"), b"kept\n");
    }
    assert_eq!(sandboxed.workspace.read("theirs"), b"old\n");
}

#[test]
fn a_missing_network_is_explained() {
    let expected = (
        vec![
            "[no network: call bash with net:[\"example.org\"] (a person: --net example.org)]"
                .to_owned(),
        ],
        vec![json!("no network")],
    );
    let printed = "echo 'curl: (6) Could not resolve host: example.org'; exit 6";
    assert_eq!(SandboxWorkspace::new().notes(printed), expected);
    let full = Confinement { network: NetworkAccess::Full, ..Confinement::default() };
    assert_eq!(SandboxWorkspace::with(full).notes(printed), (vec![], vec![]));

    // The program does not name the host, but the command does.
    let sandboxed = SandboxWorkspace::new();
    let command =
        "python3 -c 'import urllib.request; urllib.request.urlopen(\"http://example.org\")'";
    let result = sandboxed.workspace.call("bash", json!({"command": command}));
    assert!(result.output.to_text().ends_with(&expected.0[0]), "{}", result.output.to_text());
    let absent = json!([{"reason": "no network", "hosts": ["example.org"]}]);
    assert_eq!(result.output.metadata["absent"], absent);
}

#[test]
fn a_host_refused_by_the_proxy_is_named() {
    let hosts = NetworkAccess::Hosts(vec!["docs.rs".into()]);
    let sandboxed =
        SandboxWorkspace::with(Confinement { network: hosts, ..Confinement::default() });
    // The script asks the proxy, prints nothing about it, and fails.
    let script = "exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; \
                  printf 'CONNECT example.org:443 HTTP/1.1\\r\\nHost: example.org:443\\r\\n\\r\\n' >&3; cat <&3 >/dev/null; exit 3";
    let result = sandboxed.workspace.call("bash", json!({"command": script}));
    let text = result.output.to_text();
    assert!(
        text.ends_with(
            "not reached: example.org:443 is not among the hosts that this command may reach]\n\
             [no network but to docs.rs, through the proxy that HTTPS_PROXY names: add \"example.org\" to `net` of bash (a person: --net docs.rs,example.org)]"
        ),
        "{text}"
    );
}

#[test]
fn without_a_sandbox_no_notes_are_given() {
    let off = Confinement { level: SandboxLevel::Off, ..Confinement::default() };
    let sandboxed = SandboxWorkspace::with(off);
    for script in ["cat OUTSIDE/.ssh/absent", "echo 'Could not resolve host: x'; exit 1"] {
        assert_eq!(sandboxed.notes(script), (vec![], vec![]), "{script}");
    }
    assert!(Path::new(&sandboxed.outside).is_dir());
}

#[test]
fn a_failed_job_is_explained() {
    let sandboxed = SandboxWorkspace::new();
    sandboxed.workspace.write("run.sh", "f=.e; cat \"${f}nv\"");
    let started =
        sandboxed.workspace.call("bash", json!({"command": "sh ./run.sh", "background": true}));
    let job = started.output.metadata["job"].as_str().unwrap().to_owned();
    let mut text = String::new();
    for _ in 0..10 {
        let answer = sandboxed.workspace.call("output", json!({"job": job, "wait": 10}));
        text = answer.output.to_text();
        if answer.output.metadata["running"] == json!(false) {
            break;
        }
    }
    assert!(
        text.ends_with("\n[masked: .env (a file of secrets); programs cannot see it]"),
        "{text}"
    );
}
