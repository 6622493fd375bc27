//! Tests with real shells on the real machine, in the default sandbox.
#![expect(clippy::disallowed_methods, reason = "tests look at what programs did to the machine")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::{CallResult, Mode, Outcome, Policy};

use super::{start_job, without_time};
use crate::testing::Workspace;

/// Runs a command with the tool `bash` in a new workspace.
fn bash(command: &str) -> CallResult {
    Workspace::new(&[]).call("bash", json!({"command": command}))
}

/// Returns the text of the result of [`bash`].
fn output_text(command: &str) -> String {
    bash(command).output.to_text()
}

#[test]
fn endings_of_real_programs_are_distinguished() {
    for (command, code, signal, expected) in [
        ("true", json!(0), json!(null), "[no output]"),
        ("false", json!(1), json!(null), "[no output; exit code 1]"),
        ("echo out; exit 42", json!(42), json!(null), "out\n[exit code 42]"),
        ("kill -SEGV $$", json!(null), json!(11), "[no output; ended by signal 11 (SEGV)]"),
        ("kill -KILL $$", json!(null), json!(9), "[no output; ended by signal 9 (KILL)]"),
        ("exit 143", json!(143), json!(null), "[no output; exit code 143 (128 + signal 15, TERM)]"),
        (
            "windlass-no-such-command 2>/dev/null",
            json!(127),
            json!(null),
            "[no output; exit code 127 (command not found: is it installed?)]",
        ),
    ] {
        let result = bash(command);
        assert_eq!(result.output.to_text(), expected, "{command}");
        let facts = &result.output.metadata;
        assert_eq!((&facts["exit_code"], &facts["signal"]), (&code, &signal), "{command}");
        assert_eq!(facts["timed_out"], json!(false));
        assert_eq!(result.output.is_error, code != json!(0), "{command}");
    }
}

#[test]
fn output_keeps_the_order_of_both_streams() {
    let command = "for i in $(seq 50); do echo out$i; echo err$i >&2; done";
    let expected: String =
        (1..=50).flat_map(|i| [format!("out{i}\n"), format!("err{i}\n")]).collect();
    assert_eq!(output_text(command), expected);
}

#[test]
fn output_is_cleaned_as_a_terminal_would_show_it() {
    for (command, expected) in [
        ("printf 'no newline'", "no newline"),
        (r"printf '\033[1;31mred\033[0m \033]0;title\007plain\n'", "red plain\n"),
        (r"printf 'caf\xe9 \xff\xfe\n'", "caf\u{fffd} \u{fffd}\u{fffd}\n"),
        (r"printf 'a\0b\n'", "ab\n"),
        (r"printf '1 %%\r2 %%\r3 %%\n'", "3 %\n"),
        ("for i in 1 2 3 4 5; do printf $i; sleep 0.05; done", "12345"),
        ("printf 'caf\\303'; sleep 0.1; printf '\\251\\n'", "caf\u{e9}\n"),
        ("echo 'a ünïcode 😀 line'", "a ünïcode 😀 line\n"),
    ] {
        assert_eq!(output_text(command), expected, "{command}");
    }
    let noise = bash("head -c 3000000 /dev/urandom");
    assert_eq!((noise.outcome, &noise.output.metadata["truncated"]), (Outcome::Ok, &json!(true)));
    assert!(noise.output.to_text().chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
}

#[test]
fn the_middle_of_a_line_of_a_hundred_megabytes_is_replaced_by_a_notice() {
    let result = bash("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end");
    assert_eq!(result.outcome, Outcome::Ok);
    let text = result.output.to_text();
    assert!(text.len() <= 50_000, "{}", text.len());
    let (head, rest) = text.split_once("\n[… ").unwrap();
    let (notice, tail) = rest.split_once(" …]\n").unwrap();
    // The closing line may name the duration.
    let tail = tail.split('[').next().unwrap();
    assert!(tail.ends_with("x\nend\n"));
    let left_out = 100_000_005 - head.len() - tail.len();
    assert!(notice.starts_with(&format!("{left_out} bytes, 0 lines left out")), "{notice}");
    assert!(notice.contains("in its middle is kept: read or grep"), "{notice}");
}

#[test]
fn standard_input_is_empty_unless_given() {
    let workspace = Workspace::new(&[]);
    for (input, expected) in [
        (json!({"command": "cat; echo end"}), "end\n"),
        (json!({"command": "read x || echo nothing"}), "nothing\n"),
        (json!({"command": "cat", "stdin": "one\ntwo"}), "one\ntwo"),
        (json!({"command": "wc -c", "stdin": "x".repeat(1_000_000)}), "1000000\n"),
        (json!({"command": "cat", "stdin": ""}), "[no output]"),
        (json!({"command": "(echo x > /dev/tty) 2>/dev/null || echo none"}), "none\n"),
    ] {
        assert_eq!(workspace.text("bash", input.clone()), expected);
    }
}

#[test]
fn calls_do_not_share_shell_state() {
    let workspace = Workspace::new(&[("sub/x", "")]);
    workspace.text("bash", json!({"command": "cd sub; export WHO=me; alias ls=false"}));
    let root = workspace.path("").canonicalize().unwrap();
    let command = json!({"command": "pwd; echo \"[$WHO]\"; ls"});
    assert_eq!(workspace.text("bash", command), format!("{}\n[]\nsub\n", root.display()));
    let command = json!({"command": "pwd; ls", "cwd": "sub"});
    assert_eq!(workspace.text("bash", command), format!("{}/sub\nx\n", root.display()));
}

#[test]
fn a_timed_out_command_reports_its_output_and_changes() {
    let workspace = Workspace::new(&[]);
    let input = json!({"command": "echo so far; touch made; sleep 100", "timeout": 0.5});
    let result = workspace.call("bash", input);
    assert_eq!(result.outcome, Outcome::TimedOut);
    let expected =
        "so far\n[timed out after 0.5 s; what it printed until then is above; changed: A made]";
    assert_eq!(result.output.to_text(), expected);
    assert_eq!(result.output.metadata["timed_out"], json!(true));
    assert_eq!(result.output.metadata["changed"], json!([{"path": "made", "change": "created"}]));
}

/// Returns every process with one of these marks in its command or environment.
fn survivors(marks: &[&str]) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| {
            let bytes = fs::read(process.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let (command, all) = (read("cmdline"), read("cmdline") + &read("environ"));
        let is_own = process.file_name().to_string_lossy() == own;
        if !is_own && marks.iter().any(|mark| all.contains(mark)) {
            found.push(format!("{}: {command}", process.file_name().to_string_lossy()));
        }
    }
    found
}

/// Runs a command until its time limit in `more`, or as a job until `kill` or its own end, and returns its processes that are left. They
/// are known by a variable, and by a number that takes the place of `300`. `name` is for messages.
fn surviving_processes(name: &str, command: &str, more: &Value) -> Vec<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let seconds = format!("3{:05}{:03}", std::process::id() % 100_000, number % 1_000);
    let is_quick = command.ends_with("exit 0");
    let mark = format!("WINDLASS_TEST_MARK={seconds}");
    let command = format!("export {mark}\n{}", command.replace("300", &seconds));
    let workspace = Workspace::new(&[]);
    let mut input = json!({"command": command});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let result = workspace.call("bash", input);
    assert!(
        [Outcome::TimedOut, Outcome::Ok].contains(&result.outcome),
        "{name}: {}",
        result.output.to_text()
    );
    if let Some(job) = result.output.metadata["job"].as_str().filter(|_| !is_quick) {
        let is_seen = || !survivors(&[&mark, &seconds]).is_empty();
        let moments = std::iter::repeat_n(Duration::from_millis(50), 100);
        let is_seen_soon = is_seen()
            || moments.into_iter().any(|moment| {
                std::thread::sleep(moment);
                is_seen()
            });
        assert!(is_seen_soon, "{name}: this can be seen");
        let killed = workspace.text("kill", json!({"job": job}));
        assert!(killed.contains("and all that it started are gone"), "{name}: {killed}");
    }
    survivors(&[&mark, &seconds])
}

/// Returns commands that try to leave a process behind, by name.
fn variants() -> Vec<(String, String)> {
    let variants: Vec<[String; 3]> =
        serde_json::from_str(include_str!("tree_kill_variants.json")).unwrap();
    assert_eq!(variants.len(), 14);
    variants.into_iter().map(|[id, what, command]| (format!("{id} {what}"), command)).collect()
}

#[test]
fn no_process_survives_the_time_limit() {
    std::thread::scope(|scope| {
        for (name, command) in variants() {
            scope.spawn(move || {
                let left = surviving_processes(&name, &command, &json!({"timeout": 0.7}));
                assert!(left.is_empty(), "{name}: {left:?}");
            });
        }
    });
}

#[test]
fn no_process_of_a_job_survives() {
    std::thread::scope(|scope| {
        for (name, command) in variants() {
            scope.spawn(move || {
                let left = surviving_processes(
                    &format!("job {name}"),
                    &command,
                    &json!({"background": true}),
                );
                assert!(left.is_empty(), "{name}: {left:?}");
            });
        }
    });
}

#[test]
fn a_call_ends_with_its_command_while_a_child_holds_the_output() {
    assert_eq!(output_text("sleep 300 & echo started; exit 0"), "started\n");
}

/// Returns the content of each file by its relative path. A directory has a `/` after its path and no content.
fn file_tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
                files.insert(name + "/", Vec::new());
            } else {
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

#[test]
fn changes_of_a_command_are_listed_and_undone() {
    let files = [("old", "1\n"), ("gone", "2\n"), ("d/kept", "3\n"), ("mode", "4\n")];
    let workspace = Workspace::new(&files);
    let before = file_tree(&workspace.path(""));
    let command = "echo new > new; echo more >> old; rm gone; mkdir -p e/f; echo x > e/f/x; chmod +x mode; mv d/kept d/moved";
    let result = workspace.call("bash", json!({"command": command}));
    let expected =
        "[no output; changed: D d/kept, A d/moved, A e/f/x, D gone, m mode, A new, M old]";
    assert_eq!(result.output.to_text(), expected);
    assert_ne!(file_tree(&workspace.path("")), before);
    let undone = workspace.call("undo", json!({}));
    assert_eq!(undone.outcome, Outcome::Ok, "{}", undone.output.to_text());
    assert_eq!(file_tree(&workspace.path("")), before);
}

#[test]
fn removal_of_all_files_can_be_undone() {
    let names: Vec<String> = (0..60).map(|n| format!("src/{}/{n}.rs", n % 7)).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), "fn x() {}\n")).collect();
    files.extend([(".hidden/x", "h"), ("README.md", "# x\n")]);
    let workspace = Workspace::new(&files);
    let before = file_tree(&workspace.path(""));
    let result = workspace.call("bash", json!({"command": "rm -rf ./* .hidden"}));
    let said = "[no output; changed: D .hidden/ (1 in it), D README.md, D src/ (60 in it)]";
    assert_eq!(result.output.to_text(), said);
    assert!(file_tree(&workspace.path("")).is_empty());
    assert_eq!(workspace.call("undo", json!({})).outcome, Outcome::Ok);
    assert_eq!(file_tree(&workspace.path("")), before);
}

#[test]
fn changes_in_a_build_directory_are_kept_and_reported_as_not_undoable() {
    let workspace = Workspace::new(&[("target/", ""), (".gitignore", "target\n")]);
    let text = workspace.text("bash", json!({"command": "echo x > target/made; echo y > out"}));
    assert!(text.contains("changed: A out"), "{text}");
    assert!(text.contains("kept without history, which cannot be undone: target/"), "{text}");
    assert_eq!(workspace.read("target/made"), b"x\n");
}

#[test]
fn pty_gives_a_terminal_and_returns_its_screen() {
    let workspace = Workspace::new(&[]);
    for (input, expected) in [
        (json!({"command": "test -t 0 && test -t 1 && stty size", "pty": true}), "40 120"),
        (json!({"command": "test -t 1 || echo pipe"}), "pipe\n"),
        (
            json!({"command": "read -p 'name? ' x; read -s -p 'word? ' y; echo; echo $x $y", "pty": true, "stdin": "me\nsecret\n"}),
            "name? me\nword?\nme secret",
        ),
        (json!({"command": "cat", "pty": true, "stdin": "a line\n\u{4}"}), "a line\na line"),
        (json!({"command": "printf 'a\\nb\\n\\033[Hx'", "pty": true}), "x\nb"),
    ] {
        assert_eq!(workspace.text("bash", input.clone()), expected, "{input}");
    }
}

#[test]
fn waiting_for_input_is_distinguished_from_working() {
    let workspace = Workspace::new(&[]);
    let waits = json!({"command": "read -p 'sure? ' x", "pty": true, "timeout": 0.7});
    let text = workspace.text("bash", waits);
    assert!(text.starts_with("sure?\n[timed out") && text.contains("waiting for input"), "{text}");
    let works = json!({"command": "while :; do :; done", "pty": true, "timeout": 0.7});
    let text = workspace.text("bash", works);
    assert!(text.contains("timed out") && !text.contains("input"), "{text}");
}

#[test]
fn a_job_runs_beside_other_calls_and_sees_their_changes() {
    let workspace = Workspace::new(&[]);
    // The command expands an unknown variable, so it counts as one that may change files.
    let command = ": $x; echo up; until test -e go; do sleep 0.02; done; echo went; exit 5";
    let id = start_job(&workspace, command);
    let status = workspace.text("output", json!({"job": id, "cursor": 0, "wait": 10}));
    assert!(status.starts_with(&format!("up\n[job {id} has been running for ")), "{status}");
    let listed = workspace.text("jobs", json!({}));
    assert!(
        listed.contains("has been running for") && listed.contains(": $x; echo up"),
        "{listed}"
    );
    // The job sees the changes of another call.
    workspace.text("bash", json!({"command": "touch go"}));
    let read_output = || workspace.text("output", json!({"job": id, "wait": 60}));
    let last = std::iter::repeat_with(read_output).take(3).find(|text| text.contains("has ended"));
    assert!(last.is_some_and(|text| text.contains(": exit code 5")));
    let all = without_time(&workspace.text("output", json!({"job": id, "cursor": 0})));
    let ended =
        format!("up\nwent\n[job {id} has ended after s: exit code 5; changed while it ran: A go");
    assert!(all.starts_with(&ended), "{all}");
    assert!(workspace.text("kill", json!({"job": id})).contains("nothing was sent"));
}

#[test]
fn a_job_ends_when_its_session_is_cancelled() {
    let seconds = format!("4{}77", std::process::id());
    let workspace = Workspace::new(&[]);
    let id = start_job(&workspace, &format!("setsid sleep {seconds} & sleep {seconds}"));
    assert!(!survivors(&[&seconds]).is_empty());
    workspace.session().cancel();
    let job = workspace.session().all_jobs().pop().unwrap();
    assert_eq!(job.id().as_str(), id);
    workspace.block_on(job.wait());
    assert_eq!(survivors(&[&seconds]), [""; 0]);
}

#[test]
fn a_file_changed_during_the_command_is_not_overwritten() {
    let workspace = Workspace::new(&[("a", "1\n"), ("seen/", "")]);
    let (path, seen) = (workspace.path("a"), workspace.path("seen"));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                fs::write(&path, format!("by hand {number}\n")).unwrap();
                fs::write(seen.join(number.to_string()), "").unwrap();
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        // With two more files in the directory, the file was written since the command began.
        let command = "count() { ls seen | wc -l; }; first=$(count); echo theirs > a; \
                       while test $(count) -lt $((first + 2)); do sleep 0.01; done; echo done";
        let result = workspace.call("bash", json!({"command": command, "timeout": 20}));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        result
    });
    let text = result.output.to_text();
    assert_eq!(result.outcome, Outcome::Error, "{text}");
    assert!(text.starts_with("done\nstale: ") && text.contains("was dropped"), "{text}");
    assert_eq!(result.output.metadata["exit_code"], json!(0));
    assert!(workspace.read("a").starts_with(b"by hand"));
}

#[test]
fn a_secret_reaches_the_program_and_is_redacted_in_its_output() {
    let workspace =
        Workspace::with_policy(&[], |local| std::sync::Arc::new(local), Policy::new(Mode::Yolo));
    for (command, expected) in [
        ("printf %s {{secret TEST_KEY}} | wc -c | tr -d ' '", "16\n"),
        ("printf %s \"<{{secret TEST_KEY}}>\" | wc -c | tr -d ' '", "18\n"),
        ("echo {{secret TEST_KEY}}", "[secret TEST_KEY]\n"),
        ("echo {{secret TEST_KEY}} | rev | rev | base64", "[secret TEST_KEY]Qo=\n"),
        ("printf %s {{secret TEST_KEY}} | od -An -tx1 | tr -d ' \\n'", "[secret TEST_KEY]"),
    ] {
        assert_eq!(workspace.text("bash", json!({"command": command})), expected, "{command}");
    }
}
