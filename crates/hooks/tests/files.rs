//! Hook files: the hooks that are read, and the warnings about the rest.

use std::time::Duration;

use windlass_core::{Author, HookPoint, SandboxLevel};
use windlass_hooks::{HookCommand, HookFile, HookShape};

/// Returns the hooks of a file in one line each, and the warnings.
fn read(shape: HookShape, author: Author, name: &str, content: &str) -> (Vec<String>, Vec<String>) {
    let (hooks, warnings) =
        HookFile { path: name.into(), text: content.into(), author, shape }.read();
    let line = |hook: &windlass_hooks::HookDefinition| {
        let kind = match hook.command {
            HookCommand::Words(_) => "words",
            HookCommand::Shell(_) => "shell",
        };
        let gate = hook.gate.map_or("usual", |gate| if gate { "gate" } else { "open" });
        format!("{} {kind} {} {gate} {:?}", hook.point, hook.command, hook.timeout)
    };
    (hooks.iter().map(line).collect(), warnings)
}

#[test]
fn windlass_format_is_read() {
    let content = r#"
mode = "ask"
[[hooks]]
event = "pre_tool"
command = ["./check.sh", "--fast"]
match = { tool = "bash", effect = "exec", path = "src/**", agent = "main" }
timeout = 10
gate = false
[[hooks]]
event = ["session_start", "session_end"]
command = "date"
[[hooks]]
event = "pre_tol"
command = "x"
[[hooks]]
event = "post_tool"
command = "x"
tiemout = 3
timeout = 500
match = { tool = "[", effect = "fly", pth = "x" }
[[hooks]]
event = "pre_tool"
[[hooks]]
event = "stop"
"#;
    let (hooks, warnings) = read(HookShape::Windlass, Author::Person, "config.toml", content);
    assert_eq!(
        hooks,
        [
            "pre_tool words ./check.sh --fast open 10s",
            "session_start shell date usual 5s",
            "session_end shell date usual 5s",
            "post_tool shell x usual 60s",
            "pre_tool words  usual 5s",
        ]
    );
    for (warning, begin) in warnings.iter().zip([
        "config.toml: hooks[2]: there is no event `pre_tol`; did you mean `pre_tool`?",
        "config.toml: hooks[3]: `[` is not a list of names",
        "config.toml: hooks[3]: there is no effect `fly`",
        "config.toml: hooks[3].match: unknown field `pth`",
        "config.toml: hooks[3]: `timeout` is more than 60 s",
        "config.toml: hooks[3]: unknown field `tiemout`",
        "config.toml: hooks[4]: its `command` is neither a text nor a list of words; it refuses",
        "config.toml: hooks[5]: its `command` is neither a text nor a list of words; it is left out",
    ]) {
        assert!(warning.starts_with(begin), "{warning}");
    }
    assert_eq!(warnings.len(), 8, "{warnings:?}");
}

#[test]
fn claude_code_format_is_read() {
    let content = r#"{"permissions": {"deny": []}, "hooks": {
        "PreToolUse": [{"matcher": "Bash|Write", "hooks": [
            {"type": "command", "command": "./a.sh", "timeout": 7},
            {"type": "prompt", "prompt": "is this fine?"}]}],
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "./b.sh"}]}],
        "Notification": [{"matcher": "idle", "hooks": [{"type": "command", "command": "./c.sh", "once": true}]}],
        "PostToolUseFailure": []}}"#;
    let (hooks, warnings) =
        read(HookShape::Claude, Author::Workspace, ".claude/settings.json", content);
    assert_eq!(
        hooks,
        [
            "pre_tool shell ./a.sh usual 7s",
            "prompt_submit shell ./b.sh usual 5s",
            "notification shell ./c.sh usual 5s",
        ]
    );
    for (warning, what) in warnings.iter().zip([
        "hooks.PreToolUse[0].hooks[1]: hooks of the type \"prompt\" are not run",
        "hooks.Notification[0].hooks[0]: `matcher` says nothing about notification",
        "hooks.Notification[0].hooks[0]: unknown field `once`",
        "hooks.PostToolUseFailure: there is no event `PostToolUseFailure`",
    ]) {
        assert!(warning.contains(what), "{warning}");
    }
    assert_eq!(warnings.len(), 4, "{warnings:?}");
}

#[test]
fn workspace_hook_stays_read_only() {
    let content = r#"{"hooks": [{"event": "pre_tool", "command": "x", "sandbox": "workspace"}]}"#;
    let file = |author| HookFile {
        path: "hooks.json".into(),
        text: content.into(),
        author,
        shape: HookShape::Windlass,
    };
    let (hooks, warnings) = file(Author::Workspace).read();
    assert_eq!((hooks[0].sandbox, warnings.len()), (SandboxLevel::ReadOnly, 1));
    let (hooks, warnings) = file(Author::Person).read();
    assert_eq!((hooks[0].sandbox, warnings.len()), (SandboxLevel::Workspace, 0));
    assert_eq!((hooks[0].point, hooks[0].timeout), (HookPoint::PreTool, Duration::from_secs(5)));
}

#[test]
fn malformed_files_give_one_warning() {
    for (name, content, why) in [
        ("a.json", "{", "a.json: it is not JSON"),
        ("a.toml", "= 3", "a.toml: it is not TOML"),
        ("a.json", "[]", "a.json: it is not an object"),
        ("a.json", r#"{"hooks": 3}"#, "hooks: it is neither a list nor an object"),
        ("a.json", r#"{"hooks": [3]}"#, "hooks[0]: a hook is an object"),
        ("a.json", r#"{"hooks": {"Stop": 3}}"#, "hooks.Stop[0]: a hook is an object"),
        (
            "a.json",
            r#"{"hooks": {"Stop": [{"hooks": 3}]}}"#,
            "hooks.Stop[0]: `hooks` is not a list",
        ),
        ("a.json", r#"{"disableAllHooks": true, "hooks": {}}"#, "`disableAllHooks` is set"),
    ] {
        let (hooks, warnings) = read(HookShape::Claude, Author::Person, name, content);
        assert!(hooks.is_empty() && warnings.len() == 1, "{content}: {hooks:?} {warnings:?}");
        assert!(warnings[0].contains(why), "{warnings:?}");
    }
    assert_eq!(read(HookShape::Claude, Author::Person, "a.json", "{}"), (vec![], vec![]));
}

/// In our own files no word may be misspelled. In files of other programs unknown words are no errors, unless one is a misspelled
/// gate.
#[test]
fn typing_mistake_in_a_gate_is_an_error() {
    use HookShape::{Claude, Hygge, Windlass};
    let group = |event: &str, kind: &str| {
        format!(
            r#"{{
 "hooks": {{
  "{event}": [{{"hooks": [{{"type": "{kind}", "command": "x"}}]}}]}}}}"#
        )
    };
    let toml = |fields: &str| format!("a = 1\n# pre_tol\n[[hooks]]\n{fields}\n");
    for (shape, name, content, why) in [
        (
            Windlass,
            "c.toml",
            toml("command = \"x\"\nevent = \"pre_tol\""),
            "in c.toml, line 5: hooks[0]: there is no event `pre_tol`",
        ),
        (
            Windlass,
            "c.toml",
            toml("command = \"x\"\nevent = [\"stop\", \"pre_tol\"]"),
            "line 5: hooks[0]: there is no event `pre_tol`",
        ),
        (
            Windlass,
            "c.toml",
            toml("event = \"zzz\"\ncommand = \"x\""),
            "line 4: hooks[0]: there is no event `zzz`",
        ),
        (
            Windlass,
            "c.toml",
            toml("event = \"stop\"\ncommand = \"x\"\n\ngaet = true"),
            "line 7: hooks[0]: unknown field `gaet`",
        ),
        (
            Windlass,
            "c.toml",
            toml("event = \"stop\"\ncommand = \"x\"\ngate = \"yes\""),
            "line 6: hooks[0]: `gate` is neither",
        ),
        (
            Windlass,
            "c.toml",
            toml("event = \"stop\"\ncommand = \"x\"\nmatch = { pth = \"x\" }"),
            "line 6: hooks[0].match: unknown field `pth`",
        ),
        (
            Windlass,
            "c.toml",
            toml("event = \"stop\"\ncommand = 3"),
            "line 5: hooks[0]: its `command` is neither",
        ),
        (Windlass, "c.toml", toml("command = \"x\""), "line 3: hooks[0]: it has no `event`"),
        (
            Windlass,
            "c.toml",
            "[hooks.pre_tol]\ncommand = \"x\"".to_owned(),
            "line 1: hooks.pre_tol: there is no event `pre_tol`",
        ),
        (
            Windlass,
            "c.toml",
            "hooks = 3".to_owned(),
            "line 1: hooks: it is neither a list nor an object",
        ),
        (
            Windlass,
            "h.json",
            "{\n\"hoks\": []}".to_owned(),
            "in h.json, line 2: unknown field `hoks`; did you mean `hooks`?",
        ),
        (Windlass, "h.json", "{".to_owned(), "in h.json: it is not JSON"),
        (
            Windlass,
            "h.json",
            group("PreToolUs", "command"),
            "line 3: hooks.PreToolUs: there is no event",
        ),
        (
            Windlass,
            "h.json",
            group("PostToolUseFailure", "command"),
            "line 3: hooks.PostToolUseFailure: there is no event",
        ),
        (
            Claude,
            "s.json",
            group("PreToolUs", "command"),
            "line 3: hooks.PreToolUs: there is no event",
        ),
        (
            Claude,
            "s.json",
            group("pretooluse", "command"),
            "line 3: hooks.pretooluse: there is no event",
        ),
        (
            Claude,
            "s.json",
            group("PreToolUse", "comand"),
            "line 3: hooks.PreToolUse[0].hooks[0]: hooks of the type \"comand\"",
        ),
        (Claude, "s.json", "{\"hooks\": 3}".to_owned(), "in s.json: hooks: it is neither"),
        (
            Hygge,
            "h.toml",
            "[hooks.a]\nevent = \"pre_tol\"".to_owned(),
            "line 2: hooks.a: there is no event",
        ),
        (Windlass, "h.json", group("PreToolUse", "command"), ""),
        (Claude, "s.json", group("PostToolUseFailure", "command"), ""),
        (Claude, "s.json", group("PreToolUse", "prompt"), ""),
        (Claude, "s.json", group("SubagentStart", "command"), ""),
        (Windlass, "c.toml", toml("event = \"stop\"\ncommand = \"x\"\ntimeout = 500"), ""),
    ] {
        let author = Author::Person;
        let file = HookFile { path: name.into(), text: content.clone(), author, shape };
        let said = file.check().map_or_else(|error| error.to_string(), |()| String::new());
        assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{content}: {said}");
    }
}
