//! Commands that run before they are asked about: the approval shows their changes, which the answer keeps or drops.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::mcp;
use crate::support::{Home, RunResult};
use crate::terminal::Terminal;

const QUESTION: &str = "Allow this? ";

fn bash(home: &Home, command: &str, options: &[&str]) -> RunResult {
    let input = json!({"command": command}).to_string();
    home.run(&[&["call", "bash", &input][..], options].concat())
}

fn read(home: &Home, name: &str) -> Option<String> {
    fs::read_to_string(home.workspace().join(name)).ok()
}

/// Returns every entry below a directory, with kind, mode and content.
fn tree(directory: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let stat = path.symlink_metadata().expect("it is there");
        let content = if stat.is_file() { fs::read(&path).expect("a file") } else { Vec::new() };
        let mode = stat.permissions().mode();
        found.push(format!("{} {mode:o} {}", path.display(), String::from_utf8_lossy(&content)));
        if stat.is_dir() {
            found.extend(tree(&path));
        }
    }
    found.sort();
    found
}

fn home() -> Home {
    Home::new_outside_tmp().with_files(&[
        ("a", "one\ntwo\n"),
        ("src/b", "b\n"),
        ("secret/c", "c\n"),
        ("out/d", "d\n"),
        ("m.py", "x = 1\n"),
    ])
}

#[test]
fn command_without_changes_runs_without_a_question_and_leaves_nothing() {
    let home = home();
    let before = tree(&home.workspace());
    for command in [
        "for f in $(ls); do wc -c $f/*; done 2>/dev/null; true",
        "sh -c 'echo x > new; cat new; rm new'",
        "touch a",
        "touch -d 2001-01-01 src",
        "mkdir -p src/__pycache__ .pytest_cache; echo 1 > src/__pycache__/b.pyc; echo 1 > .pytest_cache/x",
        "echo x > /tmp/elsewhere; cat /tmp/elsewhere",
        "eval 'echo fine'",
    ] {
        let ran = bash(&home, command, &[]);
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
        assert_eq!(tree(&home.workspace()), before, "{command}");
    }
    assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
}

#[test]
fn without_an_attendant_changes_are_dropped_and_named_after_the_output() {
    let home = home();
    let before = tree(&home.workspace());
    for (command, code, named) in [
        ("echo printed; echo 2 >> a", 0, "changed a"),
        ("echo printed; rm -r src; exit 4", 4, "deleted src"),
        ("echo printed; chmod 600 a", 0, "the mode"),
        ("echo printed; ln -s a link", 0, "created link"),
        ("echo printed; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", 0, "pre-commit"),
        ("echo printed; mv src lib", 0, "created lib"),
    ] {
        let (exit, answer) = home.call(&[], "bash", &json!({"command": command}));
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        assert_eq!(exit, 3, "{command}: {answer}");
        assert!(text.starts_with("printed\n"), "{command}: {text}");
        assert!(text.contains("what it changed was dropped") && text.contains(named), "{text}");
        assert_eq!(answer["metadata"]["exit_code"], code, "{command}: {answer}");
        assert_eq!(tree(&home.workspace()), before, "{command}");
    }
}

#[test]
fn rules_apply_to_the_actual_changes_of_a_command() {
    for (command, options, code) in [
        ("echo x > out/new", &["--allow", "write out/**"][..], 0),
        ("echo x > out/new; echo x >> a", &["--allow", "write out/**"], 3),
        ("echo x > out/new; echo x >> a", &["--allow", "write **"], 0),
        (
            "for f in $(ls secret); do rm secret/$f; done",
            &["--deny", "write secret/**", "--yes"],
            3,
        ),
        ("echo x >> a", &["--yes"], 0),
    ] {
        let home = home();
        let before = tree(&home.workspace());
        let ran = bash(&home, command, options);
        assert_eq!(ran.code, code, "{command} {options:?}: {ran:?}");
        assert_eq!(tree(&home.workspace()) == before, code != 0, "{command} {options:?}");
    }
}

#[test]
fn changes_in_build_directories_wait_for_an_answer_too() {
    let home =
        Home::new_outside_tmp().with_files(&[(".gitignore", "target/\n"), ("target/old", "x\n")]);
    let mut git = std::process::Command::new("git");
    let git = git.args(["init", "-q"]).current_dir(home.workspace()).status();
    assert!(git.expect("git runs").success());
    let ran = bash(&home, "echo built > target/new", &[]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("changed the build directory target/"), "{ran:?}");
    assert_eq!(read(&home, "target/new"), None);
    let ran = bash(&home, "echo built > target/new", &["--allow", "write target/**"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read(&home, "target/new").as_deref(), Some("built\n"));
}

#[test]
fn mode_plan_runs_commands_and_keeps_no_changes() {
    for options in [&["--mode", "plan"][..], &["--sandbox", "discard"], &["--role", "planner"]] {
        let home = home();
        let before = tree(&home.workspace());
        let ran = bash(&home, "echo x >> a; rm src/b; cat a", options);
        assert_eq!(ran.code, 0, "{options:?}: {ran:?}");
        let said = "one\ntwo\nx\n[would have changed, and nothing but files in /tmp is kept: M a, D src/b]";
        assert_eq!(ran.stdout.trim_end(), said, "{options:?}");
        assert_eq!(tree(&home.workspace()), before, "{options:?}");
    }
    let ran = bash(&home(), "make", &["--mode", "plan", "--sandbox", "off"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let ran = home().run(&["call", "write", r#"{"path":"n","content":"x"}"#, "--role", "planner"]);
    assert_ne!(ran.code, 0, "{ran:?}");
}

#[test]
fn explain_tells_when_a_person_is_asked() {
    let home = home();
    let explain = |command: &str, options: &[&str]| -> Value {
        let input = json!({"command": command}).to_string();
        home.run(&[&["policy", "explain", "bash", &input][..], options].concat()).lines().remove(0)
    };
    for (command, options, decision, when) in [
        ("make", &[][..], "ask", json!("after")),
        ("make", &["--net", "full"], "ask", json!("before")),
        ("make", &["--sandbox", "off"], "ask", json!("before")),
        ("cat /srv/x", &[], "ask", json!("before")),
        ("make", &["--mode", "auto"], "allow", Value::Null),
        ("ls", &[], "allow", Value::Null),
    ] {
        let answer = explain(command, options);
        let found = (answer["decision"].as_str(), answer["when"].clone());
        assert_eq!(found, (Some(decision), when), "{command} {options:?}: {answer}");
    }
    fs::create_dir_all(home.config()).expect("a folder");
    fs::write(home.config().join("config.toml"), "ask_before = true\n").expect("a file");
    assert_eq!(explain("make", &[])["when"], "before");
}

#[test]
fn approval_shows_every_changed_line_once_and_one_answer_settles_it() {
    for (answer, code) in [("y", 0), ("n", 3)] {
        let home = home();
        let command = "printf 'three\\n\\033[2K\\342\\200\\256four\\n' >> a; rm src/b; echo new > n; ln -s src/gone link; chmod 755 m.py";
        let input = json!({"command": command}).to_string();
        let arguments = ["call", "bash", &input, "--color", "never"];
        let mut terminal = Terminal::start(&home, 60, "", &arguments);
        terminal.expect(QUESTION);
        let (ran, shown) = terminal.answer_and_end(answer);
        assert_eq!(ran.code, code, "{shown}");
        for line in [
            "+three\n",
            "+\\x1b[2K\\u{202e}four\n",
            "deleted src/b: +0 -1\n",
            "-b\n",
            "+new\n",
            "(a link to src/gone)",
            "(mode 755)",
        ] {
            assert_eq!(shown.matches(line).count(), 1, "{line:?}: {shown}");
        }
        assert_eq!(shown.matches("rm src/b").count(), 1, "the command is shown once: {shown}");
        assert!(shown.contains("sandbox workspace, network none"), "{shown}");
        assert!(shown.contains("[1] yes, and `write **` for this session"), "{shown}");
        assert!(!shown.contains(['\x1b', '\u{202e}']), "{shown:?}");
        assert_eq!(read(&home, "n").is_some(), code == 0);
        assert_eq!(read(&home, "src/b").is_none(), code == 0);
    }
}

/// A command that changes a file, prints hidden characters and fails.
const FAILING: &str =
    "echo x >> a; printf 'unknown\\342\\200\\256 author\\n[y] yes\\n' >&2; exit 128";

#[test]
fn question_about_a_failed_command_shows_its_end() {
    let home = home();
    let input = json!({"command": FAILING}).to_string();
    let arguments = ["call", "bash", &input, "--color", "never"];
    let mut terminal = Terminal::start(&home, 60, "", &arguments);
    terminal.expect(QUESTION);
    let (_, shown) = terminal.answer_and_end("n");
    let end = "it ended with exit code 128 and printed:\n    unknown\\u{202e} author\n    [y] yes\nit changed:\n";
    assert!(shown.replace('\r', "").contains(end), "{shown}");

    let input = json!({"command": "echo x >> a"}).to_string();
    let mut terminal = Terminal::start(&home, 60, "", &["call", "bash", &input]);
    terminal.expect(QUESTION);
    let (_, shown) = terminal.answer_and_end("n");
    assert!(!shown.contains("exit code") && !shown.contains("printed"), "{shown}");
}

#[test]
fn form_about_a_failed_command_shows_its_end() {
    let home = home();
    let mut client = mcp::FormClient::start(&home);
    let message = client.ask_and_decline("bash", &json!({"command": FAILING}));
    let end = "It ended with exit code 128 and printed:\n  | unknown\\u{202e} author\n  | [y] yes\nIt changed:\n";
    assert!(message.contains(end), "{message}");
    let message = client.ask_and_decline("bash", &json!({"command": "echo x >> a"}));
    assert!(message.contains("is kept yet.\nIt changed:\n"), "{message}");
    client.end();
}

#[test]
fn open_approval_of_a_failed_command_has_its_end() {
    let home = home();
    let id = defer_command(&home, FAILING);
    let table = home.run(&["policy", "approvals"]).stdout;
    assert!(table.contains("it ended with exit code 128\n"), "{table}");
    let shown = home.run(&["policy", "diff", &id]).stdout;
    let end = "it ended with exit code 128 and printed:\n    unknown\\u{202e} author\n";
    assert!(shown.contains(end), "{shown}");
    for command in [&["--json", "policy", "approvals"][..], &["--json", "policy", "diff", &id]] {
        let facts = home.run(command).lines().remove(0);
        assert_eq!(facts["ended"]["how"], json!({"exited": 128}), "{facts}");
        assert_eq!(facts["ended"]["last_lines"], "unknown\u{202e} author\n[y] yes", "{facts}");
    }
    let id = defer_command(&home, "echo y >> a");
    let shown = home.run(&["policy", "diff", &id]).stdout;
    assert!(!shown.contains("exit code"), "{shown}");
}

/// Runs a command through an MCP client without forms, so that its approval is deferred. Returns the id of the approval.
pub(crate) fn defer_command(home: &Home, command: &str) -> String {
    defer_call(home, "bash", &json!({"command": command}))
}

/// Makes a call through an MCP client without forms, so that its approval is deferred. Returns the id of the approval.
fn defer_call(home: &Home, tool: &str, arguments: &Value) -> String {
    let call = json!({"name": tool, "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let answers = mcp::exchange(home, &[], &[mcp::initialize(), call]);
    let facts = &mcp::answer(&answers, 1)["result"]["_meta"]["windlass/result"];
    assert_eq!(facts["outcome"], "denied", "{answers:?}");
    let id = facts["metadata"]["approval"].as_str();
    id.unwrap_or_else(|| panic!("no question: {answers:?}")).to_owned()
}

#[test]
fn late_yes_keeps_exactly_the_shown_changes() {
    let home = home();
    let id = defer_command(&home, "echo $RANDOM$RANDOM > r; rm src/b; echo x >> a");
    assert_eq!((read(&home, "r"), read(&home, "a").as_deref()), (None, Some("one\ntwo\n")));
    let shown = home.run(&["policy", "diff", &id]).stdout;
    let number = shown.lines().find_map(|line| line.strip_prefix('+')?.parse::<u64>().ok());
    let number = number.unwrap_or_else(|| panic!("{shown}"));
    assert!(shown.contains("+x\n") && shown.contains("deleted src/b"), "{shown}");
    let ran = home.run(&["policy", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read(&home, "r"), Some(format!("{number}\n")), "the command was not run again");
    assert_eq!(read(&home, "src/b"), None);
    assert_eq!(home.run(&["policy", "approve", &id]).code, 2, "it is used up");
    assert_eq!(home.run(&["undo", "--yes"]).code, 0);
    assert_eq!((read(&home, "r"), read(&home, "src/b").as_deref()), (None, Some("b\n")));
    assert_eq!(home.run(&["log", "verify"]).code, 0);
}

#[test]
fn yes_after_another_change_is_a_conflict_and_a_no_drops_the_changes() {
    let home = home();
    let id = defer_command(&home, "echo x >> a; echo n > n");
    fs::write(home.workspace().join("a"), "mine\n").expect("a file");
    let ran = home.run(&["policy", "approve", &id]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("cannot change a: stale"), "{ran:?}");
    assert!(!ran.stdout.contains("read it again"), "that is advice for a model: {ran:?}");
    assert!(ran.stdout.contains("put back what the command found"), "{ran:?}");
    assert_eq!((read(&home, "a").as_deref(), read(&home, "n")), (Some("mine\n"), None));
    let shown = home.run(&["policy", "diff", &id]);
    assert!(shown.stdout.contains(" two\n+x\n") && !shown.stdout.contains("mine"), "{shown:?}");
    assert!(shown.stderr.contains("a changed since the command ran"), "{shown:?}");
    assert!(!shown.stderr.contains("n changed since"), "{shown:?}");
    fs::write(home.workspace().join("a"), "one\ntwo\n").expect("a file");
    assert_eq!(home.run(&["policy", "diff", &id]).stderr, "", "it is as it was");
    assert_eq!(home.run(&["policy", "approve", &id]).code, 0);
    fs::write(home.workspace().join("a"), "mine\n").expect("a file");
    let id = defer_command(&home, "echo x >> a");
    assert_eq!(home.run(&["policy", "deny", &id]).code, 0);
    assert_eq!(home.run(&["policy", "diff", &id]).code, 2, "nothing is held any more");
    assert_eq!(read(&home, "a").as_deref(), Some("mine\n"));
}

/// Runs git in the workspace, as the person would.
fn git(home: &Home, arguments: &[&str]) {
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
    let ran = git.current_dir(home.workspace()).env("HOME", home.workspace()).output();
    let ran = ran.expect("git");
    assert!(ran.status.success(), "{arguments:?}: {ran:?}");
}

/// Touches a file and runs `git status`, which writes a refreshed index.
fn refresh_index(home: &Home) {
    let index = home.workspace().join(".git/index");
    let before = fs::read(&index).expect("an index");
    let file = fs::File::options().append(true).open(home.workspace().join("a")).expect("a file");
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    file.set_times(fs::FileTimes::new().set_modified(time)).expect("a time");
    git(home, &["status"]);
    assert_ne!(before, fs::read(&index).expect("an index"), "git refreshed nothing");
}

/// A `git status` of the person between a command and its undo or its answer rewrites the index and stages nothing else.
#[test]
fn refreshed_git_index_is_no_conflict() {
    let home = home();
    git(&home, &["init", "-q"]);
    git(&home, &["add", "a"]);
    git(&home, &["commit", "-qm", "first"]);
    let add = "echo n > n; git add n";
    let id = defer_command(&home, add);
    refresh_index(&home);
    assert_eq!(home.run(&["policy", "diff", &id]).stderr, "", "nothing changed since");
    let kept = home.run(&["policy", "approve", &id]);
    assert_eq!(kept.code, 0, "{kept:?}");
    git(&home, &["ls-files", "--error-unmatch", "n"]);
    refresh_index(&home);
    let undone = home.run(&["undo", "--yes"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(read(&home, "n"), None);
    git(&home, &["diff", "--cached", "--quiet"]);

    // Another entry is a conflict in both.
    let id = defer_command(&home, add);
    fs::write(home.workspace().join("mine"), "mine").expect("a file");
    git(&home, &["add", "mine"]);
    let refused = home.run(&["policy", "approve", &id]);
    assert!(refused.stdout.contains("cannot change .git/index: stale"), "{refused:?}");
    git(&home, &["rm", "-q", "--cached", "mine"]);
    assert_eq!(home.run(&["policy", "approve", &id]).code, 0);
    git(&home, &["add", "mine"]);
    let refused = home.run(&["undo", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stdout.contains(".git/index: it was changed since"), "{refused:?}");
}

/// A kill in the middle of a commit is recovered by the next command, also if that only lists the questions.
#[test]
fn listing_recovers_the_commit_of_a_killed_approve() {
    const FILES: usize = 500;
    let home = home();
    // Quick, because the client leaves at once, and a server then gives its calls one second.
    let id = defer_command(&home, "mkdir d; seq -f d/%g 500 | xargs touch");
    let mut killed = home.command(&["policy", "approve", &id]).spawn().expect("it runs");
    let made = || fs::read_dir(home.workspace().join("d")).map_or(0, Iterator::count);
    while made() == 0 && killed.try_wait().expect("a child").is_none() {
        std::thread::yield_now();
    }
    killed.kill().expect("a process to kill");
    killed.wait().expect("it ends");
    let listed = home.run(&["policy", "approvals", "--json"]);
    let made = made();
    assert!(made == 0 || made == FILES, "{made} of {FILES}: {listed:?}");
    assert_eq!(listed.stdout.is_empty(), made == FILES, "{made} of {FILES}: {listed:?}");
}

/// A file that git tracks is a source, whatever its directory is called.
#[test]
fn tracked_file_in_a_tool_cache_is_a_change() {
    for command in ["echo 2 > src/__pycache__/m.py", "rm -r src/__pycache__"] {
        let home = home()
            .with_files(&[("src/__pycache__/m.py", "1\n"), ("src/__pycache__/other.pyc", "1\n")]);
        git(&home, &["init", "-q"]);
        git(&home, &["add", "src/__pycache__/m.py"]);
        let ran = bash(&home, command, &[]);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.stdout.contains("src/__pycache__/m.py"), "{ran:?}");
        let ran = bash(&home, command, &["--allow", "write src/**"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_ne!(read(&home, "src/__pycache__/m.py").as_deref(), Some("1\n"), "{command}");
        let ran = bash(&home, "echo 2 > src/__pycache__/other.pyc", &[]);
        assert_eq!(ran.code, i32::from(command.starts_with("rm")), "{ran:?}");
    }
}

/// The person who denies is told about the consequence, not about an earlier answer.
#[test]
fn denial_says_what_it_ended() {
    let home = home();
    let id = defer_command(&home, "echo n > n");
    let denied = home.run(&["policy", "deny", &id]);
    assert_eq!(denied.code, 0, "{denied:?}");
    assert!(denied.stdout.contains(&format!("what the command of `{id}` changed is dropped")));
    let id = defer_call(&home, "write", &json!({"path": "n", "content": "n"}));
    let denied = home.run(&["policy", "deny", &id]);
    assert_eq!(denied.code, 0, "{denied:?}");
    assert!(denied.stdout.contains(&format!("the call of `{id}` is denied")), "{denied:?}");
    assert!(!denied.stdout.contains("said no before"), "{denied:?}");
}

/// A yes at the terminal that comes after another change keeps the command's changes held, like `policy approve`.
#[test]
fn yes_at_the_terminal_after_another_change_holds_the_changes() {
    let home = home();
    let input = json!({"command": "echo printed; echo x >> a; echo n > n"}).to_string();
    let mut terminal = Terminal::start(&home, 40, "", &["call", "bash", &input]);
    terminal.expect("Allow this? ");
    fs::write(home.workspace().join("a"), "mine\n").expect("a file");
    let (ran, shown) = terminal.answer_and_end("y");
    assert_eq!(ran.code, 1, "{ran:?}\n{shown}");
    let open = home.run(&["policy", "approvals", "--json"]).lines();
    let [question] = &open[..] else { panic!("{open:?}: {ran:?}") };
    let id = question["id"].as_str().expect("an id");
    assert_eq!(question["state"], "open");
    for said in [
        "printed\n",
        "not in the workspace, but held until a person answers",
        "cannot change a: stale",
        &format!("`windlass policy approve {id}`"),
        &format!("`windlass policy deny {id}` drops it"),
    ] {
        assert!(ran.stdout.contains(said), "{said}: {ran:?}");
    }
    assert!(!ran.stdout.contains("dropped"), "{ran:?}");
    assert_eq!((read(&home, "a").as_deref(), read(&home, "n")), (Some("mine\n"), None));
    assert!(home.run(&["policy", "diff", id]).stderr.contains("a changed since"));
    fs::write(home.workspace().join("a"), "one\ntwo\n").expect("a file");
    assert_eq!(home.run(&["policy", "approve", id]).code, 0);
    assert_eq!(read(&home, "a").as_deref(), Some("one\ntwo\nx\n"));
    assert_eq!(home.run(&["undo", "--yes"]).code, 0);
    assert_eq!(home.run(&["log", "verify"]).code, 0);
}

#[test]
fn a_command_names_the_hosts_that_it_needs() {
    let home = home();
    let input = json!({"command": "true", "net": ["docs.example:8443"]}).to_string();
    let ran = home.run(&["call", "bash", &input]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("docs.example:8443"), "{ran:?}");
    let ran =
        home.run(&["call", "bash", &input, "--allow", "net docs.example", "--allow", "exec true"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let wrong = json!({"command": "true", "net": ["https://docs.example/x"]}).to_string();
    assert_eq!(home.run(&["call", "bash", &wrong]).code, 2);
}

/// Python runs what lies in `__pycache__`, so that nothing of it may stay that no person saw.
#[test]
fn caches_and_times_are_not_kept_with_other_changes() {
    let staged = ["--sandbox", "staged", "--mode", "auto", "--yes"];
    for options in [&["--allow", "write out/**"][..], &["--yes"], &staged] {
        let home = home();
        let time = || fs::metadata(home.workspace().join("a")).expect("a file").modified().ok();
        let before = time();
        let command = "echo n > out/n; mkdir -p src/__pycache__; echo EVIL > src/__pycache__/b.pyc; \
                       ln -s /etc/passwd .eslintcache; touch -d 2001-01-01 a";
        let ran = bash(&home, command, options);
        assert_eq!((ran.code, read(&home, "out/n").as_deref()), (0, Some("n\n")), "{ran:?}");
        assert!(!home.workspace().join("src/__pycache__").exists(), "{options:?}");
        assert!(home.workspace().join(".eslintcache").symlink_metadata().is_err(), "{options:?}");
        assert_eq!(time(), before, "{options:?}");
    }
    let home =
        Home::new_outside_tmp().with_files(&[("src/__pycache__/b.pyc", "x"), ("src/b", "b\n")]);
    let ran = bash(&home, "rm -r src", &["--yes"]);
    assert_eq!((ran.code, home.workspace().join("src").exists()), (0, false), "{ran:?}");
}

/// There is no history of a build directory: what a person did there meanwhile would be lost.
#[test]
fn a_late_answer_does_not_overwrite_a_build_directory_that_changed() {
    let home =
        Home::new_outside_tmp().with_files(&[(".gitignore", "target/\n"), ("target/old", "x\n")]);
    let mut git = std::process::Command::new("git");
    let git = git.args(["init", "-q"]).current_dir(home.workspace()).status();
    assert!(git.expect("git runs").success());
    let id = defer_command(&home, "rm -rf target");
    fs::write(home.workspace().join("target/mine"), "mine\n").expect("a file");
    let ran = home.run(&["policy", "approve", &id]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("stale"), "{ran:?}");
    assert_eq!(read(&home, "target/mine").as_deref(), Some("mine\n"));
    let id = defer_command(&home, "echo new > target/new");
    let ran = home.run(&["policy", "approve", &id]);
    assert_eq!((ran.code, read(&home, "target/new").as_deref()), (0, Some("new\n")), "{ran:?}");
}

#[test]
fn test_tool_lists_dropped_changes_after_its_output() {
    let home = home();
    let (code, answer) = home.call(&[], "test", &json!({"command": "echo hi; echo q >> a"}));
    let text = answer["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(code, 3, "{answer}");
    assert!(text.find("hi") < text.find("what it changed was dropped"), "{text}");
    assert_eq!(answer["metadata"]["exit_code"], 0, "{answer}");
}

/// A command cannot see a secret file, so that a change of it asks. A yes that comes later keeps it like one that comes at once.
#[test]
fn late_yes_keeps_the_change_of_a_masked_file() {
    let script = "printf 'NEW=1\\n' > .env; echo x >> a\n";
    let home = home().with_files(&[(".env", "OLD=1\n"), ("script", script)]);
    let id = defer_command(&home, "sh script");
    let ran = home.run(&["policy", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read(&home, ".env").as_deref(), Some("NEW=1\n"));
    assert_eq!(home.run(&["undo"]).code, 0);
    assert_eq!(read(&home, ".env").as_deref(), Some("OLD=1\n"));
    assert_eq!(read(&home, "a").as_deref(), Some("one\ntwo\n"));
}

/// An answer that cannot be applied is not used up: the changes stay held, and the approval stays open.
#[test]
fn approval_stays_open_if_its_changes_cannot_be_made() {
    let home = home();
    let id = defer_command(&home, "echo x >> a; echo n > n");
    fs::write(home.workspace().join("a"), "mine\n").expect("a file");
    for options in [&[][..], &["--deny", "write n"]] {
        let ran = home.run(&[options, &["policy", "approve", &id]].concat());
        assert_ne!(ran.code, 0, "{ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(&format!("it is held on, and `{id}` stays open")), "{said}");
        let open = home.run(&["policy", "approvals"]).stdout;
        assert!(open.contains(&id) && open.contains("open"), "{open}");
        let shown = home.run(&["policy", "diff", &id]);
        assert!(shown.code == 0 && shown.stdout.contains("created n"), "{shown:?}");
    }
    assert_eq!(read(&home, "n"), None);
    let ran = home.run(&["policy", "deny", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(home.run(&["policy", "diff", &id]).code, 2, "nothing is held any more");
    assert_eq!((read(&home, "a").as_deref(), read(&home, "n")), (Some("mine\n"), None));
    // What stood in its way for a moment only.
    let id = defer_command(&home, "echo n > n");
    fs::write(home.workspace().join("n"), "mine\n").expect("a file");
    assert_eq!(home.run(&["policy", "approve", &id]).code, 1);
    fs::remove_file(home.workspace().join("n")).expect("a file");
    assert_eq!(home.run(&["policy", "approve", &id]).code, 0);
    assert_eq!(read(&home, "n").as_deref(), Some("n\n"));
}

/// A new secret file is a change like every other: it is named, can be undone, and is masked from then on.
#[test]
fn new_secret_file_of_a_command_is_named_undoable_and_masked() {
    for options in [&["--mode", "auto"][..], &["--allow", "write **"]] {
        let script = "cp .env.example .env; ls -A\n";
        let home =
            Home::new_outside_tmp().with_files(&[(".env.example", "KEY=1\n"), ("script", script)]);
        let ran = bash(&home, "sh script", options);
        assert_eq!((ran.code, read(&home, ".env").as_deref()), (0, Some("KEY=1\n")), "{ran:?}");
        assert!(ran.stdout.contains("changed: A .env"), "{ran:?}");
        let ran = bash(&home, "ls -A", options);
        assert!(ran.code == 0 && !ran.stdout.lines().any(|line| line == ".env"), "{ran:?}");
        assert_eq!(home.run(&["undo"]).code, 0);
        assert_eq!(read(&home, ".env"), None);
    }
    let home = Home::new_outside_tmp()
        .with_files(&[(".env.example", "KEY=1\n"), ("script", "cp .env.example .env\n")]);
    let ran = bash(&home, "sh script", &[]);
    assert_eq!((ran.code, read(&home, ".env")), (3, None), "{ran:?}");
    assert!(ran.stdout.contains("created .env"), "{ran:?}");
}

/// Returns the stages that hold changes of commands.
fn stages(home: &Home) -> usize {
    fs::read_dir(home.state().join("stages")).map_or(0, Iterator::count)
}

#[test]
fn revoked_or_denied_approval_frees_its_stage() {
    for command in ["revoke", "deny"] {
        let home = home();
        let id = defer_command(&home, "echo x >> a");
        assert_eq!(stages(&home), 1);
        let ran = home.run(&["policy", command, &id]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(stages(&home), 0, "{command}");
        assert_eq!(home.run(&["policy", "diff", &id]).code, 2, "{command}");
        assert_eq!(read(&home, "a").as_deref(), Some("one\ntwo\n"));
    }
}

/// Each git object has its own name, so that a rule about one would help only once.
#[test]
fn denial_of_git_add_names_a_rule_that_covers_later_calls() {
    let home = home();
    let mut git = std::process::Command::new("git");
    let git = git.args(["init", "-q"]).current_dir(home.workspace()).status();
    assert!(git.expect("git runs").success());
    let ran = bash(&home, "git add a", &[]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("to allow it: --allow 'exec git add a'"), "{ran:?}");
    assert_eq!(bash(&home, "git add a", &["--allow", "exec git add a"]).code, 0);
}

#[test]
fn revoke_reports_counts_by_workspace() {
    let home = home();
    defer_command(&home, "echo x >> a");
    defer_command(&home, "echo y >> a");
    defer_call(&home, "write", &json!({"path": "n", "content": "n"}));
    let id = defer_call(&home, "write", &json!({"path": "m", "content": "m"}));
    assert_eq!(home.run(&["policy", "deny", &id, "--scope", "always"]).code, 0);
    let elsewhere = home.workspace().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    let elsewhere = elsewhere.to_str().expect("a path");
    let ran = home.run(&["policy", "revoke", "--all", "-C", elsewhere]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let workspace = home.workspace().display().to_string();
    let told = format!(
        "in {workspace}: 1 answer forgotten, 1 open question forgotten, 2 commands' held changes dropped"
    );
    assert!(ran.stderr.contains(&told), "{ran:?}");
    assert_eq!(stages(&home), 0);
}

#[test]
fn approval_lists_many_files_up_to_a_limit() {
    let home = home();
    let id = defer_command(&home, "for i in $(seq 1000 1024); do echo $i > n$i; done");
    let table = home.run(&["policy", "approvals"]).stdout;
    assert_eq!(table.lines().count(), 12, "{table}");
    assert!(table.contains("bash  ") && table.contains("echo $i > n$i"), "{table}");
    assert!(table.lines().all(|line| line.matches("write ").count() <= 1), "{table}");
    assert!(
        table.contains(&format!("and 15 more: `windlass policy diff {id}` has all")),
        "{table}"
    );
    let [whole] = &home.run(&["policy", "approvals", "--json"]).lines()[..] else { panic!("one") };
    assert_eq!(whole["effects"].as_str().unwrap_or_default().matches("write ").count(), 25);
}

/// An approval about thousands of changed files fits on one screen.
#[test]
fn large_change_is_summarized_and_shown_whole_on_demand() {
    let home = home();
    let command = "mkdir gen; for i in $(seq 1000 3499); do echo $i > gen/$i; done; rm src/b";
    let input = json!({"command": command}).to_string();
    let arguments = ["call", "bash", &input, "--color", "never"];
    let mut terminal = Terminal::start(&home, 60, "", &arguments);
    terminal.expect(QUESTION);
    let (ran, shown) = terminal.answer_and_end("n");
    assert_eq!(ran.code, 3, "{shown}");
    assert!(!shown.contains("screens: Enter"), "{shown}");
    for part in [
        "create 2500",
        "below gen/: ",
        "delete src/b (+0 -1)",
        "policy diff",
        "[d] show every line",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

/// A change of a file of several megabytes is counted by lines and can be shown whole, with the question and later.
#[test]
fn long_text_is_counted_and_shown_whole_on_demand() {
    let home = home();
    let command = "yes 'line abcdefghijklmnopqrst' | head -n 80000 | cat src/b - > long; mv long src/b; echo last >> src/b";
    let input = json!({"command": command}).to_string();
    let arguments = ["call", "bash", &input, "--color", "never"];
    let mut terminal = Terminal::start(&home, 60, "", &arguments);
    terminal.expect(QUESTION);
    let (ran, shown) = terminal.answer_and_end("n");
    assert_eq!(ran.code, 3, "{shown}");
    for part in ["change src/b (+80001 -0)", "policy diff", "[d] show every line"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let id = defer_command(&home, command);
    let diff = home.run(&["policy", "diff", &id]).stdout;
    assert_eq!(diff.lines().filter(|line| *line == "+line abcdefghijklmnopqrst").count(), 80_000);
    assert!(diff.ends_with("\n+last\n"), "{}", diff.len());
}

/// A command that exceeds its time limit is reported so, even if its changes are dropped.
#[test]
fn timed_out_command_is_reported_as_timed_out_when_its_changes_are_dropped() {
    let home = home();
    let input = json!({"command": "echo printed; echo x >> a; sleep 600", "timeout": 0.5});
    let (code, answer) = home.call(&[], "bash", &input);
    assert_eq!(
        (code, &answer["outcome"], &answer["is_error"]),
        (124, &json!("timed_out"), &json!(true))
    );
    let text = answer["content"][0]["text"].as_str().unwrap_or_default();
    let places: Vec<Option<usize>> =
        ["printed\n", "[timed out after 0.5 s", "what it changed was dropped"]
            .map(|part| text.find(part))
            .to_vec();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {text}");
    assert_eq!(read(&home, "a").as_deref(), Some("one\ntwo\n"));
}

/// A rule given with an answer holds in its session and workspace for every process until it is revoked.
#[test]
fn session_rule_outlives_the_process() {
    let home = home();
    let again = |session: &str| {
        let ran = bash(&home, "echo x >> src/b", &["--session", session]);
        assert!(matches!(ran.code, 0 | 3), "{ran:?}");
        ran.code == 0
    };
    let give = || {
        let input = json!({"command": "echo x >> src/b"}).to_string();
        let arguments = ["call", "bash", &input, "--session", "one"];
        let mut terminal = Terminal::start(&home, 60, "", &arguments);
        terminal.expect("[1] yes, and `write src/**` for this session");
        terminal.expect(QUESTION);
        let (ran, shown) = terminal.answer_and_end("1");
        assert_eq!(ran.code, 0, "{shown}");
    };
    give();
    assert!(again("one") && !again("two"));
    let explain = |session: &str| {
        let input = json!({"path": "src/new", "content": ""}).to_string();
        let ran = home.run(&["policy", "explain", "write", &input, "--session", session]);
        let explained = ran.lines().remove(0);
        (explained["decision"].to_string(), explained["rule"].to_string())
    };
    assert_eq!(explain("one"), ("\"allow\"".to_owned(), "\"allow write src/**\"".to_owned()));
    assert_eq!(explain("two").0, "\"ask\"");
    assert!(!bash(&home, "echo x >> a", &["--session", "one"]).stdout.contains("changed:"));
    let shown = home.run(&["policy", "show", "--session", "one"]).stdout;
    assert!(shown.contains("allow write src/**  [session]"), "{shown}");
    assert!(!home.run(&["policy", "show", "--session", "two"]).stdout.contains("write src/**"));
    let [kept] = &home.run(&["policy", "approvals", "--json"]).lines()[..] else { panic!("one") };
    assert_eq!((&kept["rules"], &kept["scope"]), (&json!(["write src/**"]), &json!("session")));
    assert!(home.run(&["policy", "approvals"]).stdout.contains("the rule `write src/**`"));
    let elsewhere = Home::new_outside_tmp().with_files(&[("src/b", "b\n")]);
    let there = elsewhere.workspace();
    let there = there.to_str().expect("UTF-8");
    let ran = bash(&home, "echo x >> src/b", &["--session", "one", "-C", there]);
    assert_eq!(ran.code, 3, "another workspace: {ran:?}");
    let id = kept["id"].as_str().expect("an id");
    assert_eq!(home.run(&["policy", "revoke", id]).code, 0);
    assert!(!again("one"), "it was taken back");
    give();
    assert!(again("one"));
    assert_eq!(home.run(&["sessions", "delete", "one"]).code, 0);
    assert!(!again("one"), "the session was deleted");
    assert!(home.run(&["policy", "approvals", "--json"]).stdout.is_empty());
}

/// A home that keeps what a command put there would give later commands other programs and settings.
#[test]
fn files_in_the_home_are_dropped_with_the_changes_of_a_command() {
    let plant = "mkdir -p ~/.local/bin && echo evil > ~/.local/bin/git && test -e ~/.local/bin/git && echo planted\n";
    let look = "test -e ~/.local/bin/git && echo there || echo absent\n";
    let cases: [&[&str]; 5] = [
        &[],
        &["--mode", "plan"],
        &["--role", "planner"],
        &["--sandbox", "discard", "--mode", "auto"],
        &["--sandbox", "read-only", "--mode", "auto"],
    ];
    let home = Home::new_outside_tmp().with_files(&[("plant", plant), ("look", look)]);
    let looks = || bash(&home, "sh look", &["--mode", "auto"]).stdout;
    for options in cases {
        let ran = bash(&home, "sh plant", options);
        assert!(ran.stdout.contains("planted"), "{options:?}: {ran:?}");
        assert!(looks().contains("absent"), "{options:?}");
    }
    assert!(bash(&home, "sh plant", &["--mode", "auto"]).stdout.contains("planted"));
    assert!(looks().contains("there"), "where changes are kept, the home is");
}

/// A yes keeps all that changed, so all of it is shown, also where the mode asks about a part of it only.
#[test]
fn approval_about_one_file_shows_all_changes() {
    let script = "printf 'NEW=1\\n' > .env; echo three >> a; echo x > target/made\n";
    let home = home().with_files(&[
        (".env", "OLD=1\n"),
        ("script", script),
        ("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n"),
    ]);
    let input = json!({"command": "sh script"}).to_string();
    let arguments = ["call", "bash", &input, "--mode", "auto", "--color", "never"];
    let mut terminal = Terminal::start(&home, 60, "", &arguments);
    terminal.expect(QUESTION);
    let (ran, shown) = terminal.answer_and_end("n");
    assert_eq!(ran.code, 3, "{shown}");
    for part in ["change .env", "changed a: +1 -0", "+three", "build directory target/"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("OLD=1") && !shown.contains("NEW=1"), "{shown}");
}

#[test]
fn approval_shows_mode_changes_beside_content() {
    let script = "echo x >> a; chmod 777 a; printf '#!/bin/sh\\n' > tool; chmod 755 tool\n";
    let home = home().with_files(&[("script", script)]);
    let input = json!({"command": "sh script"}).to_string();
    let arguments = ["call", "bash", &input, "--color", "never"];
    let mut terminal = Terminal::start(&home, 60, "", &arguments);
    terminal.expect(QUESTION);
    let (_, shown) = terminal.answer_and_end("n");
    for part in ["changed a: +1 -0, mode 644 → 777", "created tool: +1 -0, mode 755"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

/// The rule that a question offers for a build directory is about what changes there.
#[test]
fn offered_rule_for_a_build_directory_allows_its_changes() {
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
    let home =
        home().with_files(&[("build.sh", "echo x > target/made\n"), ("target/CACHEDIR.TAG", tag)]);
    assert_eq!(bash(&home, "sh build.sh", &[]).code, 3);
    let ran = bash(&home, "sh build.sh", &["--allow", "write target/**"]);
    assert_eq!((ran.code, read(&home, "target/made").as_deref()), (0, Some("x\n")), "{ran:?}");
}

#[test]
fn denial_of_many_changes_names_one_rule() {
    let home = home();
    let ran = bash(&home, "mkdir m; for i in $(seq 100); do echo $i > m/$i; done", &[]);
    assert_eq!(ran.code, 3);
    let text = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(text.matches("--allow").count(), 1, "{text}");
}

/// A no that is remembered is about the call: what it did is another thing each time.
#[test]
fn never_after_a_run_denies_the_next_run_of_the_command() {
    let command = "echo x >> a; echo $RANDOM > r";
    let explain = |home: &Home| {
        let input = json!({"command": command}).to_string();
        home.run(&["policy", "explain", "bash", &input]).lines().remove(0)
    };
    let by_terminal = |home: &Home| {
        let input = json!({"command": command}).to_string();
        let mut terminal = Terminal::start(home, 60, "", &["call", "bash", &input]);
        terminal.expect("[never] no, and never again");
        terminal.expect(QUESTION);
        assert_eq!(terminal.answer_and_end("never").0.code, 3);
    };
    let by_deny = |home: &Home| {
        let id = defer_command(home, command);
        let ran = home.run(&["policy", "deny", &id, "--scope", "always"]);
        assert_eq!((ran.code, stages(home)), (0, 0), "{ran:?}");
    };
    let ways: [&dyn Fn(&Home); 2] = [&by_terminal, &by_deny];
    for way in ways {
        let home = home();
        assert_eq!(
            (&explain(&home)["decision"], &explain(&home)["when"]),
            (&json!("ask"), &json!("after"))
        );
        way(&home);
        let explained = explain(&home);
        let [kept] = &home.run(&["policy", "approvals", "--json"]).lines()[..] else {
            panic!("one")
        };
        let id = kept["id"].as_str().expect("an id");
        assert_eq!(explained["decision"], "deny", "{explained}");
        assert_eq!(explained["answer"], json!({"id": id, "scope": "always"}), "{explained}");
        let rule = explained["rule"].as_str().unwrap_or_default();
        assert!(rule.starts_with(&format!("a person said no before, in {id}")), "{rule}");
        let ran = bash(&home, command, &["--yes"]);
        assert_eq!((ran.code, read(&home, "r")), (3, None), "{ran:?}");
        assert!(ran.stdout.contains("said no before"), "{ran:?}");
        assert_eq!(bash(&home, "echo x >> a", &["--yes"]).code, 0, "another command");
        assert_eq!(home.run(&["policy", "revoke", id]).code, 0);
        assert_eq!(bash(&home, command, &["--yes"]).code, 0);
    }
}

/// A yes to what a command changed counts once: a longer scope is refused before anything is kept.
#[test]
fn yes_to_changes_has_only_the_scope_once() {
    let home = home();
    let id = defer_command(&home, "echo x >> src/b");
    for scope in ["session", "project", "always"] {
        let ran = home.run(&["policy", "approve", &id, "--scope", scope]);
        assert_eq!((ran.code, read(&home, "src/b").as_deref()), (2, Some("b\n")), "{ran:?}");
        assert!(ran.stderr.contains("--allow 'write src/**'"), "{ran:?}");
    }
    assert_eq!(home.run(&["policy", "approve", &id, "--scope", "once"]).code, 0);
    let write = json!({"path": "n", "content": "n\n"});
    let id = defer_call(&home, "write", &write);
    let other = ["policy", "approve", &id, "--input", &write.to_string(), "--scope", "always"];
    assert_eq!(home.run(&other).code, 2);
}

/// The list of approvals shows the call of each question and of each remembered answer.
#[test]
fn list_shows_the_call_of_each_approval_and_answer() {
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
    let home = home().with_files(&[("target/CACHEDIR.TAG", tag)]);
    let command = "echo 1 > made; echo 2 > target/x";
    let id = defer_command(&home, command);
    let shown = home.run(&["policy", "diff", &id]).stdout;
    assert!(shown.starts_with(&format!("bash {command}\n")), "{shown}");
    assert!(shown.contains("build directory target/: 1 file, "), "{shown}");
    assert!(shown.contains("; cannot be undone\n"), "{shown}");
    let check = |state: &str| {
        let table = home.run(&["policy", "approvals"]).stdout;
        let first = table.lines().next().unwrap_or_default();
        assert!(first.contains(state) && first.contains(command), "{table}");
        let record = home.run(&["policy", "approvals", "--json"]).lines().remove(0);
        assert_eq!(record["call"], command, "{record}");
    };
    check("open");
    assert_eq!(home.run(&["policy", "deny", &id, "--scope", "always"]).code, 0);
    check("denied");
}

#[test]
fn explain_names_the_remembered_answer() {
    let home = home();
    let input = json!({"path": "a", "old_string": "two", "new_string": "2"});
    let explain = |session: &str| {
        let ran =
            home.run(&["policy", "explain", "edit", &input.to_string(), "--session", session]);
        ran.lines().remove(0)
    };
    let id = defer_call(&home, "edit", &input);
    let asked = explain("one");
    assert_eq!((&asked["decision"], &asked["answer"]), (&json!("ask"), &Value::Null), "{asked}");
    assert_eq!(home.run(&["policy", "approve", &id, "--scope", "project"]).code, 0);
    assert_eq!(home.run(&["undo", "--yes"]).code, 0);
    let allowed = explain("one");
    assert_eq!(allowed["decision"], "allow", "{allowed}");
    assert_eq!(allowed["rule"], format!("a person said yes before, in {id} (project)"));
    assert_eq!(allowed["answer"], json!({"id": id, "scope": "project"}), "{allowed}");
    let denied = home.run(&["policy", "explain", "edit", &input.to_string(), "--deny", "write a"]);
    assert_eq!(denied.lines()[0]["decision"], "deny", "a rule that denies wins");
    assert_eq!(home.run(&["call", "edit", &input.to_string()]).code, 0, "as it was explained");
}

#[test]
fn policy_diff_shows_the_changes_of_a_waiting_call() {
    let home = home();
    let edit = json!({"path": "a", "old_string": "two", "new_string": "2"});
    let id = defer_call(&home, "edit", &edit);
    let shown = home.run(&["policy", "diff", &id]);
    assert!(shown.code == 0 && shown.stdout.contains("-two\n+2\n"), "{shown:?}");
    let shown = home.run(&["--json", "policy", "diff", &id]).lines().remove(0);
    assert_eq!(shown["files"][0]["change"], "change", "{shown}");
    assert!(shown["diff"].as_str().is_some_and(|diff| diff.contains("-two\n+2\n")), "{shown}");
    assert_eq!(read(&home, "a").as_deref(), Some("one\ntwo\n"), "nothing is changed");
    fs::write(home.workspace().join("a"), "one\n").expect("a file");
    let shown = home.run(&["policy", "diff", &id]);
    assert!(shown.code == 2 && shown.stderr.contains("old_string"), "it would fail: {shown:?}");
    let id = defer_call(&home, "bash", &json!({"command": "make", "net": ["example.org"]}));
    let shown = home.run(&["policy", "diff", &id]);
    assert!(shown.code == 2 && shown.stderr.contains("not known before it runs"), "{shown:?}");
}

/// The diff that a person decides on shows changes besides the lines of a text.
#[test]
fn diff_shows_changes_besides_the_text_of_a_file() {
    let home = home();
    std::fs::hard_link(home.workspace().join("a"), home.workspace().join("h2")).expect("a link");
    let command = "python3 -c \"import os; os.setxattr('src/b', 'user.mark', b'seen')\"; echo c >> src/b; chmod 600 src/b; \
                   head -c 17000000 /dev/zero | tr '\\0' x > long; truncate -s 1G sparse; rm h2; cp a h2; \
                   echo x > $(printf '\\342\\200\\256gnp.txt')";
    let call = json!({"name": "bash", "arguments": {"command": command}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let answers = mcp::exchange(&home, &[], &[mcp::initialize(), call]);
    let facts = &mcp::answer(&answers, 1)["result"]["_meta"]["windlass/result"];
    let id = facts["metadata"]["approval"].as_str().unwrap_or_else(|| panic!("{answers:?}"));
    let shown = home.run(&["policy", "diff", id]).stdout;
    for words in [
        "attribute user.mark = \"seen\"",
        "create long (too long to be shown: 17000000 bytes ",
        "create sparse (too long to be shown: 1073741824 bytes)",
        "change h2 (no name of the same file as others any more)",
        "created $'\\xe2\\x80\\xaegnp.txt': +1 -0",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}
