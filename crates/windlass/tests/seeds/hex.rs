//! Behaviours of Hex: reading a file, alone and through its executor; modes of writing, and locks; commands and jobs. An id such as H31
//! names one of its weaknesses, which Windlass must not have.
//!
//! Hex counts `limit` and `offset` in bytes, and ours counts lines, so the examples with `0123456789` have one digit on each line here.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass::effect::Effect;
use windlass::people::ApprovalRequest;
use windlass::policy::Decision;
use windlass::wire::{read_calls, to_api};
use windlass::{CallResult, Mode, Outcome, ToolCall, Windlass};

use crate::support::{TestWorkspace, text};

fn workspace(content: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.txt"), content).expect("a file");
    folder
}

fn windlass(workspace: &Path) -> Windlass {
    Windlass::builder(workspace)
        .attendant(|request: &ApprovalRequest| panic!("asked about {}", request.effects))
        .build()
        .expect("a workspace")
}

/// Reads a file with this content by `read`, without line numbers.
async fn read(content: &str, more: Value) -> CallResult {
    let folder = workspace(content);
    let windlass = windlass(folder.path());
    let mut input = json!({"path": folder.path().join("example.txt"), "numbers": false});
    for (name, value) in more.as_object().expect("an object") {
        input[name] = value.clone();
    }
    windlass.call(&windlass.new_session(), ToolCall::new("read", input)).await
}

/// Returns the lines of the file in a result, without the last line, which has their number.
fn shown(result: &CallResult) -> Vec<String> {
    let mut lines: Vec<String> = result.output.to_text().lines().map(str::to_owned).collect();
    let total = lines.pop().expect("the last line");
    assert!(total.starts_with('[') && total.ends_with(']'), "{total}");
    lines
}

const DIGITS: &str = "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n";

#[tokio::test]
async fn hex_example_read_tool() {
    let result = read("Hello, World!", json!({})).await;
    let printed = [
        format!("Success: {}", result.outcome == Outcome::Ok),
        format!("Output: {}", shown(&result).join("\n")),
    ];
    assert_eq!(printed, ["Success: true", "Output: Hello, World!"]);
}

#[tokio::test]
async fn hex_example_read_tool_with_limit() {
    // As in Hex, with the number as a float.
    let result = read(DIGITS, json!({"limit": 5.0})).await;
    assert_eq!(shown(&result).concat(), "01234");
    assert_eq!(result.output.metadata["next_offset"], 6);
}

#[tokio::test]
async fn hex_example_read_tool_with_offset() {
    let result = read(DIGITS, json!({"offset": 6.0})).await;
    assert_eq!(shown(&result).concat(), "56789");
}

#[tokio::test]
async fn hex_example_read_tool_requires_approval() {
    let folder = workspace("test");
    let windlass = windlass(folder.path());
    let session = windlass.new_session();
    let requires_approval = async |path: &Path| {
        let call = ToolCall::new("read", json!({"path": path}));
        let verdict = windlass.engine().explain(&session, call).await.expect("a verdict");
        verdict.decision() == Decision::Ask
    };
    let printed = [
        format!("Sensitive path: {}", requires_approval(Path::new("/etc/passwd")).await),
        format!("Regular path: {}", requires_approval(&folder.path().join("example.txt")).await),
    ];
    assert_eq!(printed, ["Sensitive path: true", "Regular path: false"]);
}

#[tokio::test]
async fn hex_example_read_tool_with_executor() {
    let folder = workspace("Hello from Executor!");
    let windlass = Windlass::builder(folder.path())
        .attendant(|_: &ApprovalRequest| true)
        .build()
        .expect("a workspace");
    let input = json!({"path": folder.path().join("example.txt"), "numbers": false});
    let result = windlass.call(&windlass.new_session(), ToolCall::new("read", input)).await;
    let printed = [
        format!("Success: {}", result.outcome == Outcome::Ok),
        format!("Output: {}", shown(&result).join("\n")),
    ];
    assert_eq!(printed, ["Success: true", "Output: Hello from Executor!"]);
}

#[tokio::test]
async fn hex_example_complete_workflow_on_real_files() {
    let folder = workspace("{}");
    let home = folder.path().canonicalize().expect("the real place");
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let windlass = Windlass::builder(folder.path())
        .attendant(move |request: &ApprovalRequest| {
            request.effects.iter().all(|effect| match effect {
                Effect::Read(at) | Effect::Write(at) => at.path.starts_with(&home),
                _ => false,
            })
        })
        .build()
        .expect("a workspace");
    let session = windlass.new_session();
    let requests = json!([
        {"type": "tool_use", "id": "toolu_read_123", "name": "read", "input": {"path": "example.txt"}},
        {"type": "tool_use", "id": "toolu_write_456", "name": "write",
         "input": {"path": "output.txt", "content": "Hello, World!"}},
        {"type": "tool_use", "id": "toolu_write_789", "name": "write",
         "input": {"path": outside.path().join("passwd"), "content": "malicious"}},
    ]);
    let asked = read_calls(requests).expect("three calls");
    let formats: Vec<_> = asked.iter().map(|asked| asked.format).collect();
    let calls = asked.into_iter().map(windlass::wire::RequestedCall::into_call).collect();
    let results = windlass.turn(&session, calls).await;
    let replies: Vec<Value> =
        formats.iter().zip(&results).map(|(format, result)| to_api(*format, result)).collect();
    let names = ["Read operation", "Write operation (approved)", "Write operation (denied)"];
    let printed: Vec<String> = names
        .iter()
        .zip(&replies)
        .map(|(name, reply)| format!("{name}: success={}", reply["is_error"] == false))
        .collect();
    assert_eq!(
        printed,
        [
            "Read operation: success=true",
            "Write operation (approved): success=true",
            "Write operation (denied): success=false",
        ]
    );
    assert_eq!(fs::read(folder.path().join("output.txt")).expect("written"), b"Hello, World!");
    assert!(!outside.path().join("passwd").exists());
}

/// Its modes `create` (its default; ours is `overwrite` of a seen file), `overwrite` and `append`, missing parents, and the limit of 10
/// MiB.
#[tokio::test]
async fn hex_write_modes() {
    let test = TestWorkspace::with(&[("there.txt", "one\n")]);
    let write = |path: &str, content: &str, mode: &str| json!({"path": path, "content": content, "mode": mode});
    let created = test.call_ok("write", write("new/deep/file.txt", "new\n", "create")).await;
    assert_eq!(created.output.metadata["created"], true);
    assert_eq!(test.text("new/deep/file.txt"), "new\n");
    let said = test.call_refused("write", write("there.txt", "two\n", "create")).await;
    assert!(said.contains("exists already") && said.contains("`overwrite`"), "{said}");
    test.call_ok("write", write("there.txt", "two\n", "append")).await;
    assert_eq!(test.text("there.txt"), "one\ntwo\n");
    test.call_ok("write", write("appended.txt", "made\n", "append")).await;
    assert_eq!(test.text("appended.txt"), "made\n");
    test.call_ok("read", json!({"path": "there.txt"})).await;
    let replaced = test.call_ok("write", write("there.txt", "", "overwrite")).await;
    assert_eq!(replaced.output.metadata["bytes"], 0);
    assert_eq!(test.text("there.txt"), "");

    let wrong = test.call_refused("write", write("a", "", "truncate")).await;
    for mode in ["create", "overwrite", "append"] {
        assert!(wrong.contains(mode), "{wrong}");
    }
    let large = "x".repeat((10 << 20) + 1);
    let said = test.call_refused("write", write("large", &large, "create")).await;
    assert!(said.contains("at most 10 MiB") && said.contains("`append`"), "{said}");
    let said = test.call_refused("write", write("new", "", "overwrite")).await;
    assert!(said.contains("it is a directory"), "{said}");
}

/// H31: of two edits of one file in one turn, one was lost, because its lock admitted the same agent twice.
#[tokio::test]
async fn h31_no_edit_of_a_turn_is_lost() {
    let lines: String = (0..20).map(|at| format!("line {at};\n")).collect::<Vec<_>>().concat();
    let test = TestWorkspace::with(&[("a.txt", &lines)]);
    let edit = |at: usize| {
        let input = json!({"path": "a.txt", "old_string": format!("line {at};"), "new_string": format!("done {at};")});
        ToolCall::new("edit", input)
    };
    let results = test.windlass.turn(&test.session, (0..20).map(edit).collect()).await;
    assert!(results.iter().all(|result| result.outcome == Outcome::Ok), "{results:?}");
    assert_eq!(test.text("a.txt"), lines.replace("line", "done"));
}

/// H31: the lock compared the spelling of paths. A symbolic link is another path of the same file; a hard link becomes a separate file with
/// its first edit.
#[tokio::test]
async fn h31_cc_3_no_edit_is_lost_under_any_name() {
    let lines: String = (0..20).map(|at| format!("line {at};\n")).collect::<Vec<_>>().concat();
    let test = TestWorkspace::with(&[("a.txt", &lines)]);
    fs::hard_link(test.path("a.txt"), test.path("b.txt")).expect("a link");
    std::os::unix::fs::symlink("a.txt", test.path("c.txt")).expect("a link");
    let edit = |at: usize| {
        let path = ["a.txt", "b.txt", "c.txt"][at % 3];
        let input = json!({"path": path, "old_string": format!("line {at};"), "new_string": format!("done {at};")});
        ToolCall::new("edit", input)
    };
    let results = test.windlass.turn(&test.session, (0..20).map(edit).collect()).await;
    for (at, result) in results.iter().enumerate() {
        let (name, other) = if at % 3 == 1 { ("b.txt", "a.txt") } else { ("a.txt", "b.txt") };
        let done = format!("done {at};");
        let text = test.text(name);
        let is_there = text.contains(&done);
        match result.outcome {
            Outcome::Ok => assert!(is_there, "edit {at} is lost: {text}"),
            _ => assert!(!is_there && result.output.to_text().contains("stale"), "{result:?}"),
        }
        assert!(!test.text(other).contains(&done), "edit {at} is under another name, too");
        assert_eq!(text.lines().count(), 20);
    }
}

/// H32: a file was emptied and then written, and a reader saw a part of it meanwhile.
#[tokio::test]
async fn h32_wr_1_readers_see_the_old_or_the_new_file() {
    let test = TestWorkspace::with(&[]);
    let whole = |letter: &str| letter.repeat(300_000) + "\n";
    test.put("a.txt", whole("a"));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let path = test.path("a.txt");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = std::collections::BTreeSet::new();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let bytes = fs::read(&path).expect("it is always there");
                let first = *bytes.first().expect("it is never empty");
                assert_eq!(bytes.len(), 300_001);
                assert!(bytes[..300_000] == vec![first; 300_000], "bytes of both");
                seen.insert(first);
            }
            seen
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let writing = scope.spawn(|| {
            runtime.expect("a runtime").block_on(async {
                for (old, new) in [("a", "b"), ("b", "a")].repeat(8) {
                    let input = json!({"path": "a.txt", "old_string": whole(old), "new_string": whole(new)});
                    test.call_ok("edit", input).await;
                }
            });
        });
        writing.join().expect("all edits are made");
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(!reader.join().expect("the reader saw whole files").is_empty());
    });
}

/// H32: the creation of a file followed a link out.
#[tokio::test]
async fn h32_link_does_not_lead_a_new_file_outside() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (work, outside) = (folder.path().join("work"), folder.path().join("outside"));
    fs::create_dir(&work).expect("a folder");
    fs::create_dir(&outside).expect("a folder");
    std::os::unix::fs::symlink(outside.join("new"), work.join("link")).expect("a link");
    let windlass = Windlass::builder(&work).mode(Mode::Auto).build().expect("a workspace");
    let write = json!({"path": "link", "content": "x", "mode": "create"});
    let denied = windlass.call(&windlass.new_session(), ToolCall::new("write", write)).await;
    assert_eq!(denied.outcome, Outcome::Denied, "{}", denied.output.to_text());
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0);
}

/// Starts a job. Returns its id.
async fn background(test: &TestWorkspace, command: &str) -> String {
    let started = test.call_ok("bash", json!({"command": command, "background": true})).await;
    started.output.metadata["job"].as_str().expect("a job").to_owned()
}

#[tokio::test]
async fn hex_bash_answers_with_output_exit_code_and_facts() {
    let test = TestWorkspace::new();
    let result = test.call("bash", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    // H2, H3: a failure has its output, and is marked as an error.
    assert_eq!((result.outcome, &*text(&result)), (Outcome::Error, "out\nerr\n[exit code 3]"));
    assert!(result.output.is_error);
    assert_eq!(result.output.metadata["exit_code"], 3);
    assert!(result.output.metadata["duration_ms"].is_u64());
    assert_eq!(text(&test.call_ok("bash", json!({"command": "true"})).await), "[no output]");
}

/// H4: Hex discards the whole output.
#[tokio::test]
async fn h4_output_is_kept_at_the_time_limit_and_beyond_a_mebibyte() {
    let test = TestWorkspace::new();
    let slow = json!({"command": "echo partial; sleep 60", "timeout": 0.5});
    let result = test.call("bash", slow).await;
    assert_eq!(result.outcome, Outcome::TimedOut);
    assert!(text(&result).starts_with("partial\n[timed out after 0.5 s"), "{}", text(&result));
    let result = test.call_ok("bash", json!({"command": "seq 300000"})).await;
    assert!(text(&result).starts_with("1\n2\n") && text(&result).contains("\n300000\n"));
    let kept = json!({"path": format!("output:{}", result.call), "pattern": "^123456$"});
    assert!(text(&test.call_ok("grep", kept).await).contains("123456"));
}

/// H19: programs inherited every variable, also secrets.
#[tokio::test]
async fn h19_command_does_not_inherit_our_environment() {
    let own = "CARGO_MANIFEST_DIR";
    assert!(std::env::var_os(own).is_some(), "cargo gives it to its tests");
    let test = TestWorkspace::new();
    let command = format!("echo ${{{own}-unset}} ${{HOME+set}} ${{PATH+set}}");
    let result = test.call_ok("bash", json!({"command": command})).await;
    assert_eq!(text(&result), "unset set set\n");
}

/// H26: Hex waits for every process that holds the pipe.
#[tokio::test]
async fn h26_daemon_does_not_delay_the_call_and_is_ended() {
    let test = TestWorkspace::new();
    let command = "sleep 999 & setsid sleep 999 & echo done";
    let result = test.call_ok("bash", json!({"command": command, "timeout": 60})).await;
    assert_eq!(text(&result), "done\n");
}

/// H28: Hex takes 0.5 for 0, and ignores whole numbers.
#[tokio::test]
async fn h28_time_limit_may_be_a_float_or_an_integer() {
    let test = TestWorkspace::new();
    for timeout in [json!(30.5), json!(30), json!("30")] {
        test.call_ok("bash", json!({"command": "sleep 0.05", "timeout": timeout})).await;
    }
    let said = test.call_refused("bash", json!({"command": "true", "timeout": 3601})).await;
    assert!(said.contains("3600"), "{said}");
}

#[tokio::test]
async fn hex_bash_output_returns_new_lines_that_match_a_filter() {
    let test = TestWorkspace::new();
    let command = "printf 'a1\\nb1\\n'; until test -e go; do sleep 0.01; done; printf 'a2\\nb2\\n' | cat >&2; exit 7";
    let job = background(&test, command).await;
    let look = async |more: Value| {
        let mut input = json!({"job": job});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        test.call_ok("output", input).await
    };
    let first = text(&look(json!({"cursor": 0, "filter": "^b", "wait": 30})).await);
    assert!(first.starts_with("b1\n[job"), "{first}");
    assert!(text(&look(json!({})).await).contains("nothing new"));
    let wrong = test.call("output", json!({"job": job, "filter": "["})).await;
    assert_eq!(wrong.code, Some("invalid_args"));
    test.put("go", "");
    let second = text(&look(json!({"wait": 60})).await);
    assert!(second.starts_with("a2\nb2\n[job"), "{second}");
    look(json!({"wait": 60})).await;
    let end = look(json!({"cursor": 0, "filter": "^a"})).await;
    assert!(text(&end).starts_with("a1\na2\n["), "what was filtered out is not lost");
    assert_eq!(
        (&end.output.metadata["running"], &end.output.metadata["exit_code"]),
        (&json!(false), &json!(7))
    );
}

/// H29: Hex loses the end, stops at a long line, and keeps ended jobs forever.
#[tokio::test]
async fn h29_output_of_a_job_is_complete() {
    let test = TestWorkspace::new();
    let command = "head -c 200000 /dev/zero | tr '\\0' x; echo; seq 5000; echo the end";
    let job = background(&test, command).await;
    let mut looks = 0;
    while test.call_ok("output", json!({"job": job, "wait": 10})).await.output.metadata["running"]
        == true
    {
        looks += 1;
        assert!(looks < 60, "it does not end");
    }
    let whole = test.call_ok("output", json!({"job": job, "cursor": 0})).await;
    assert_eq!(whole.output.metadata["cursor"], 200_001 + 23_893 + 8);
    assert!(text(&whole).contains("5000\nthe end\n"));
    let kept =
        json!({"path": format!("output:{}", whole.call), "mode": "count", "pattern": "^[0-9]+$"});
    assert!(text(&test.call_ok("grep", kept).await).contains("5000"));
}

/// H30: Hex forgets a job that is killed before it has begun, and signals the shell only.
#[tokio::test]
async fn hex_kill_shell_ends_all_processes_also_right_after_the_start() {
    let test = TestWorkspace::new();
    for signal in ["TERM", "KILL", "INT"] {
        let job = background(&test, "trap '' TERM; setsid sleep 999 & sleep 999").await;
        let killed = test.call_ok("kill", json!({"job": job, "signal": signal})).await;
        assert!(text(&killed).contains("and all that it started are gone"), "{}", text(&killed));
        assert_eq!(killed.output.metadata["running"], false);
        let again = text(&test.call_ok("kill", json!({"job": job})).await);
        assert!(again.contains("has ended"), "{again}");
    }
    let said = test.call_refused("kill", json!({"job": "j-unknown"})).await;
    assert!(said.contains("there is no job `j-unknown`"), "{said}");
}

#[tokio::test]
async fn hex_jobs_belong_to_one_session() {
    let test = TestWorkspace::new();
    let (one, two) = (background(&test, "sleep 999").await, background(&test, "exit 0").await);
    let listed = test.call_ok("jobs", json!({})).await;
    assert_eq!(listed.output.metadata["count"], 2);
    assert!(text(&listed).contains(&one) && text(&listed).contains(&two));
    let other = test.windlass.new_session();
    let result = test.windlass.call(&other, ToolCall::new("output", json!({"job": one}))).await;
    assert!(text(&result).contains("this session has no jobs"), "{}", text(&result));
}
