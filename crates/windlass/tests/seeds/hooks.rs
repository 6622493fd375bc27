//! Hooks of Hex, Hygge and Errata, and weaknesses of theirs that Windlass must not have.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass::hooks::{
    Hook, HookAnswer, HookDefinition, HookEvent, HookFile, HookPayload, HookPoint, HookShape,
};
use windlass::session::SessionId;
use windlass::tool::{Author, BoxFuture, Overrides, Predicate};
use windlass::{Mode, Outcome, ToolCall, ToolError};

use crate::support::{TestWorkspace, text};

fn read(shape: HookShape, name: &str, content: &str) -> (Vec<HookDefinition>, Vec<String>) {
    let (path, text) = (name.into(), content.to_owned());
    HookFile { path, text, author: Author::Person, shape }.read()
}

fn hex(content: &Value) -> Vec<HookDefinition> {
    let (hooks, warnings) = read(HookShape::Hex, "settings.json", &content.to_string());
    assert_eq!(warnings, [""; 0]);
    hooks
}

fn hygge(content: &str) -> Vec<HookDefinition> {
    let (hooks, warnings) = read(HookShape::Hygge, "hooks.toml", content);
    assert_eq!(warnings, [""; 0]);
    hooks
}

fn test_workspace(hooks: Vec<HookDefinition>) -> TestWorkspace {
    let files = [("a.go", "package a\n"), ("a.txt", "alpha\n")];
    TestWorkspace::with_builder(&files, |builder| builder.mode(Mode::Auto).hooks(hooks))
}

#[test]
fn hex_hook_engine_has_ten_events_with_one_or_many_hooks() {
    let events = [
        ("SessionStart", HookPoint::SessionStart),
        ("SessionEnd", HookPoint::SessionEnd),
        ("UserPromptSubmit", HookPoint::PromptSubmit),
        ("PreToolUse", HookPoint::PreTool),
        ("PostToolUse", HookPoint::PostTool),
        ("PermissionRequest", HookPoint::PermissionRequest),
        ("Notification", HookPoint::Notification),
        ("Stop", HookPoint::Stop),
        ("SubagentStop", HookPoint::SubagentStop),
        ("PreCompact", HookPoint::PreCompact),
    ];
    for (name, point) in events {
        let one = json!({"command": "true", "description": "d", "timeout": 1500});
        for value in [one.clone(), json!([one])] {
            let hooks = hex(&json!({"hooks": {name: value}}));
            assert_eq!((hooks.len(), hooks[0].point), (1, point), "{name}");
            assert_eq!(hooks[0].timeout.as_millis(), 1500, "{name}: milliseconds");
        }
    }
}

#[tokio::test]
async fn hex_hook_engine_matches_by_tool_file_and_sub_agent() {
    let check = async |matcher: Value, path: &str, below: bool, wants: bool| {
        let hook = json!({"hooks": {"PreToolUse": {"command": "exit 2", "match": matcher}}});
        let test = test_workspace(hex(&hook));
        let session = if below {
            let child =
                test.session.child(SessionId::new("c"), Predicate::All, &Overrides::default());
            Arc::new(child)
        } else {
            test.session.clone()
        };
        let call = ToolCall::new("read", json!({"path": path}));
        let result = test.windlass.call(&session, call).await;
        assert_eq!(result.outcome == Outcome::Denied, wants, "{matcher}: {}", text(&result));
    };
    check(json!({"toolName": "read_file"}), "a.go", false, true).await;
    check(json!({"toolName": "bash"}), "a.go", false, false).await;
    check(json!({"filePattern": r".*\.go$"}), "a.go", false, true).await;
    check(json!({"filePattern": r".*\.go$"}), "a.txt", false, false).await;
    check(json!({"isSubagent": true}), "a.go", false, false).await;
    check(json!({"isSubagent": true}), "a.go", true, true).await;
}

#[tokio::test]
async fn hex_hook_engine_passes_facts_in_variables() {
    let command = r#"test "$CLAUDE_EVENT $CLAUDE_TOOL_NAME $CLAUDE_IS_SUBAGENT $MORE" = "PreToolUse read_file false yes" \
        && test "$CLAUDE_TOOL_FILE_PATH" = "$CLAUDE_PROJECT_PATH/a.go" || exit 2"#;
    let hook = json!({"hooks": {"PreToolUse": {"command": command, "env": {"MORE": "yes"}}}});
    test_workspace(hex(&hook)).call_ok("read", json!({"path": "a.go"})).await;
}

/// H38: errors of hooks were ignored, so that no hook could block.
#[tokio::test]
async fn h38_failing_hook_of_hex_blocks_unless_it_is_configured_otherwise() {
    for (ignore, outcome) in [(false, Outcome::Denied), (true, Outcome::Ok)] {
        let hook = json!({"hooks": {"PreToolUse": {"command": "exit 1", "ignoreFailure": ignore}}});
        let result = test_workspace(hex(&hook)).call("read", json!({"path": "a.go"})).await;
        assert_eq!(result.outcome, outcome, "{}", text(&result));
    }
}

/// H19: hooks inherited every variable, also secrets.
#[tokio::test]
async fn h19_hooks_get_only_listed_variables() {
    let command = "env | grep -v -E '^(PATH|HOME|USER|LOGNAME|SHELL|LANG|TERM|TZ|TMPDIR|LC_[A-Z]*|GIT_TERMINAL_PROMPT|PAGER|GIT_PAGER|DEBIAN_FRONTEND|GIT_DISCOVERY_ACROSS_FILESYSTEM|[A-Z]+_HOME|[A-Z]+_ROOT|[A-Z_]+_DIR|RUSTUP_TOOLCHAIN|WINDLASS_[A-Z]*|CLAUDE_[A-Z_]*|[A-Za-z_]*_(RETRY|RETRIES|retries)|PIP_DISABLE_PIP_VERSION_CHECK|PWD|SHLVL|_)=' >&2 && exit 2; exit 0";
    let hook = json!({"hooks": {"PreToolUse": {"command": command}}});
    test_workspace(hex(&hook)).call_ok("read", json!({"path": "a.go"})).await;
}

/// Hex's permission hook receives each call before it is decided, and may decide it.
#[tokio::test]
async fn hex_permission_hook_receives_the_call_and_the_pending_decision() {
    #[derive(Default)]
    struct RecordingHook(Mutex<Vec<String>>);
    impl Hook for RecordingHook {
        fn name(&self) -> &'static str {
            "permission"
        }
        fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
            let line = match event.what {
                HookPayload::PreTool(call) => format!("{} {}", call.tool, call.input["path"]),
                HookPayload::PermissionRequest { call, by } => format!("{} {by}", call.tool),
                _ => return Box::pin(async { Ok(HookAnswer::go_on()) }),
            };
            self.0.lock().unwrap().push(line);
            let is_request = event.what.point() == HookPoint::PermissionRequest;
            let answer = if is_request { HookAnswer::allow() } else { HookAnswer::go_on() };
            Box::pin(async move { Ok(answer) })
        }
    }
    let seen = Arc::new(RecordingHook::default());
    let hook = seen.clone();
    let test = TestWorkspace::with_builder(&[], |builder| {
        builder.mode(Mode::Ask).configure(move |engine| engine.hook(hook))
    });
    test.call_ok("write", json!({"path": "n.txt", "content": "x"})).await;
    assert_eq!(*seen.0.lock().unwrap(), ["write \"n.txt\"", "write mode ask"]);
}

#[tokio::test]
async fn hygge_hooks_decide_allow_deny_or_modify() {
    let check = async |answer: &str, outcome: Outcome, said: &str| {
        let file = format!(
            "[hooks.check]\ndescription = \"d\"\nevents = [\"pre_tool\"]\ncommand = \"sh\"\nargs = [\"-c\", '''echo '{answer}' ''']\ntimeout = \"5s\"\nmode = \"sync\"\nfail_closed = true\n"
        );
        let result = test_workspace(hygge(&file)).call("read", json!({"path": "a.go"})).await;
        assert_eq!(result.outcome, outcome, "{answer}: {}", text(&result));
        assert!(text(&result).contains(said), "{answer}: {}", text(&result));
    };
    check("", Outcome::Ok, "package a").await;
    check(r#"{"decision": "allow"}"#, Outcome::Ok, "package a").await;
    check(r#"{"decision": "deny", "reason": "not now"}"#, Outcome::Denied, "says no: not now")
        .await;
    check(
        r#"{"decision": "modify", "modified_tool_input": {"path": "a.txt"}}"#,
        Outcome::Ok,
        "alpha",
    )
    .await;
    check(r#"{"system_prompt_append": "be kind"}"#, Outcome::Ok, "says: be kind]").await;
    // Hygge let the call pass here.
    check("{nonsense", Outcome::Denied, "is not JSON").await;
}

#[tokio::test]
async fn hygge_hooks_deny_by_any_exit_code_with_their_error_output() {
    let file = "[hooks.check]\nevents = [\"pre_tool\"]\ncommand = \"head -c 5000 /dev/zero | tr '\\\\0' x >&2; exit 3\"\n";
    let result = test_workspace(hygge(file)).call("read", json!({"path": "a.go"})).await;
    assert_eq!(result.outcome, Outcome::Denied);
    assert_eq!(text(&result).matches('x').count(), 1024, "at most 1 KiB of it");
}

#[tokio::test]
async fn hygge_post_tool_hooks_replace_results_and_messages_can_be_changed() {
    let file = "[hooks.hide]\nevents = [\"post_tool\"]\ncommand = '''echo '{\"decision\": \"modify\", \"modified_tool_result\": \"hidden\"}' '''\n\
        [hooks.words]\nevents = [\"pre_message\", \"post_message\"]\ncommand = '''echo '{\"modified_message\": \"other\"}' '''\n";
    let test = test_workspace(hygge(file));
    assert_eq!(text(&test.call_ok("read", json!({"path": "a.go"})).await), "hidden");
    let what = HookPayload::PreMessage { text: "one" };
    let heard = test.windlass.engine().report_event(&test.session, what).await;
    assert_eq!(heard.text.as_deref(), Some("other"));
}

/// G15: the order of hooks in a file was that of a hash map.
#[test]
fn g15_order_of_hooks_is_always_the_same() {
    let file = "[hooks.b]\nevents = [\"pre_tool\"]\ncommand = \"b\"\n[hooks.a]\nevents = [\"pre_tool\"]\ncommand = \"a\"\n[hooks.c]\nevents = [\"pre_tool\"]\ncommand = \"c\"\n";
    let order =
        || -> Vec<String> { hygge(file).iter().map(|hook| hook.command.to_string()).collect() };
    let first = order();
    assert_eq!(first.len(), 3);
    assert!((0..20).all(|_| order() == first));
}

/// Weakness 26: in Errata's hooks, `$VAR` was replaced as text in a shell command.
#[tokio::test]
async fn errata_3c_26_arguments_are_never_put_into_a_command() {
    let hook = json!({"hooks": {"PreToolUse": {"command": "echo $TOOL $TOOL_NAME $CLAUDE_TOOL_FILE_PATH > /dev/null"}}});
    let test = test_workspace(hex(&hook));
    let result = test.call("read", json!({"path": "x; touch evil; $(touch evil)"})).await;
    assert_eq!(result.outcome, Outcome::Error, "there is no such file: {}", text(&result));
    assert!(!test.path("evil").exists());
}
