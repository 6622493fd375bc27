//! Hex: approval functions, and the permission checker with its modes and lists.

use serde_json::{Value, json};
use windlass::effect::Effect;
use windlass::people::{Answer, Scope};
use windlass::session::SessionId;
use windlass::tool::{Overrides, Predicate, Role};
use windlass::{Mode, Outcome};

use super::{RecordingAttendant, TestDirectories, call, session};
use crate::support::text;

fn write(path: &str) -> Value {
    json!({"path": path, "content": "x\n"})
}

#[tokio::test]
async fn hex_approval_function_decides() {
    for (answer, outcome) in
        [(Answer::allow(), Outcome::Ok), (Answer::deny("not now"), Outcome::Denied)]
    {
        let directories = TestDirectories::new();
        let person = RecordingAttendant::new(answer);
        let windlass = directories.open(person.clone());
        let result = call(&windlass, &session("s"), "write", write("a")).await;
        assert_eq!((result.outcome, person.count()), (outcome, 1), "{}", text(&result));
        assert_eq!(directories.path("work/a").exists(), outcome == Outcome::Ok);
        if outcome == Outcome::Denied {
            assert!(result.output.is_error && text(&result).contains("not now"));
        }
    }
}

/// Hex's table of modes and lists. A deny wins over an allow, in every mode.
#[tokio::test]
async fn hex_permission_checker_modes_and_lists() {
    type Row<'a> = (Mode, &'a [&'a str], &'a [&'a str], Outcome, Outcome);
    let (ok, no) = (Outcome::Ok, Outcome::Denied);
    let rows: [Row<'_>; 9] = [
        (Mode::Ask, &[], &[], ok, no),
        (Mode::Ask, &["tool write"], &[], ok, ok),
        (Mode::Ask, &["tool write"], &["tool write"], ok, no),
        (Mode::Auto, &[], &[], ok, ok),
        (Mode::Auto, &[], &["tool read"], no, ok),
        (Mode::Deny, &[], &[], no, no),
        (Mode::Deny, &["tool read"], &[], ok, no),
        (Mode::Yolo, &[], &["tool write", "tool read"], no, no),
        (Mode::Plan, &[], &[], ok, no),
    ];
    for (mode, allow, deny, reads, writes) in rows {
        let directories = TestDirectories::new();
        directories.put("work/a", "x\n");
        let rule = |text: &&str| text.parse().expect("a rule");
        let builder = directories.builder("work").mode(mode);
        let builder = allow.iter().map(rule).fold(builder, windlass::Builder::allow);
        let builder = deny.iter().map(rule).fold(builder, windlass::Builder::deny);
        let windlass = builder.build().unwrap();
        let session = session("s");
        let read = call(&windlass, &session, "read", json!({"path": "a"})).await;
        let written = call(&windlass, &session, "write", write("b")).await;
        assert_eq!((read.outcome, written.outcome), (reads, writes), "{mode} {allow:?} {deny:?}");
    }
}

/// H8: Hex reads its cache before it checks the permission.
#[tokio::test]
async fn hex_h8_cached_result_is_not_returned_to_a_denied_call() {
    let directories = TestDirectories::new();
    directories.put("work/a", "secret plan\n");
    let windlass = directories.unattended();
    let session = session("s");
    for _ in 0..2 {
        assert_eq!(
            call(&windlass, &session, "read", json!({"path": "a"})).await.outcome,
            Outcome::Ok
        );
    }
    windlass.engine().set_policy(windlass::policy::Policy::new(Mode::Deny));
    let denied = call(&windlass, &session, "read", json!({"path": "a"})).await;
    assert_eq!(denied.outcome, Outcome::Denied);
    assert!(!text(&denied).contains("secret plan"));
}

/// H11: lists also bind tools that need no approval.
#[tokio::test]
async fn hex_h11_deny_list_binds_read_only_tools() {
    for mode in [Mode::Ask, Mode::Auto, Mode::Plan, Mode::Deny, Mode::Yolo] {
        let directories = TestDirectories::new();
        directories.put("work/a", "x\n");
        let builder = directories.builder("work").mode(mode).deny("read a".parse().unwrap());
        let windlass = builder.build().unwrap();
        for (tool, input) in [
            ("read", json!({"path": "a"})),
            ("read", json!({"path": "./a"})),
            ("grep", json!({"pattern": "x", "path": "a"})),
        ] {
            let result = call(&windlass, &session("s"), tool, input).await;
            assert_eq!(result.outcome, Outcome::Denied, "{mode} {tool}: {}", text(&result));
        }
    }
}

/// H12: without an attendant, "ask" allowed the call.
#[tokio::test]
async fn hex_h12_missing_attendant_is_a_denial() {
    let directories = TestDirectories::new();
    let windlass = directories.unattended();
    for (tool, input) in [("write", write("a")), ("bash", json!({"command": "touch a"}))] {
        let result = call(&windlass, &session("s"), tool, input).await;
        assert_eq!(result.outcome, Outcome::Denied);
        assert!(text(&result).contains("no person is available to ask"), "{}", text(&result));
    }
    assert!(!directories.path("work/a").exists());
}

/// H13: one approval of `bash ls` allowed every command in every project.
#[tokio::test]
async fn hex_h13_always_allows_only_the_same_call() {
    let directories = TestDirectories::new();
    let person = RecordingAttendant::new(Answer::allow_for(Scope::Always));
    let windlass = directories.open(person.clone());
    let touch = |name: &str| json!({"command": format!("touch {name}")});
    assert_eq!(call(&windlass, &session("s"), "bash", touch("a")).await.outcome, Outcome::Ok);
    assert_eq!(call(&windlass, &session("t"), "bash", touch("a")).await.outcome, Outcome::Ok);
    assert_eq!(person.count(), 1, "the very same call is not asked about again");
    assert_eq!(call(&windlass, &session("s"), "bash", touch("b")).await.outcome, Outcome::Ok);
    assert_eq!(person.count(), 2, "another one is");
    // In another workspace, too, only the same call is allowed.
    let unattended = directories.builder("other").build().unwrap();
    for (name, outcome) in [("a", Outcome::Ok), ("c", Outcome::Denied)] {
        let there = call(&unattended, &session("s"), "bash", touch(name)).await;
        assert_eq!(there.outcome, outcome, "{name}");
    }
}

/// H14: the command was clipped, the path was missing, and there was no diff.
#[tokio::test]
async fn hex_h14_approval_shows_command_path_and_diff() {
    let directories = TestDirectories::new();
    directories.put("work/a", "one\ntwo\n");
    let person = RecordingAttendant::new(Answer::deny(String::new()));
    let windlass = directories.open(person.clone());
    let session = session("s");
    let command = format!("echo {} && rm -r all", "x".repeat(500));
    call(&windlass, &session, "bash", json!({"command": command})).await;
    let request = person.last();
    let is_whole = |effect: &Effect| matches!(effect, Effect::Exec(line) if line.text == command);
    assert!(request.effects.iter().any(is_whole), "{}", request.effects);
    let edit = json!({"path": "a", "old_string": "two", "new_string": "2"});
    call(&windlass, &session, "edit", edit).await;
    let request = person.last();
    assert!(request.effects.to_string().contains(&*directories.path("work/a").to_string_lossy()));
    let [change] = &request.changes[..] else { panic!("{:?}", request.changes) };
    assert_eq!(change.before.as_deref(), Some(&b"one\ntwo\n"[..]));
    assert_eq!(change.after.as_deref(), Some(&b"one\n2\n"[..]));
}

/// H15: paths were compared as texts, and links not followed.
#[tokio::test]
async fn hex_h15_paths_are_compared_by_their_real_targets() {
    let directories = TestDirectories::new();
    directories.put("etcetera", "x\n");
    directories.put("work/.ssh/id_ed25519", "x\n");
    std::os::unix::fs::symlink("/etc/hostname", directories.path("work/link")).unwrap();
    std::os::unix::fs::symlink(".ssh/id_ed25519", directories.path("work/key")).unwrap();
    let windlass = directories.unattended();
    for (path, rule) in
        [("link", "mode ask"), ("key", "hard deny"), (".ssh/id_ed25519", "hard deny")]
    {
        let result = call(&windlass, &session("s"), "read", json!({"path": path})).await;
        assert_eq!(result.outcome, Outcome::Denied, "{path}");
        assert!(text(&result).contains(rule), "{path}: {}", text(&result));
    }
}

/// H20, H21, H22: a sub-agent could not find its tools, or its approvals were not answered, or no rule bound it.
#[tokio::test]
async fn hex_h21_sub_agent_has_the_same_attendant_and_no_more_rights() {
    let directories = TestDirectories::new();
    directories.put("work/a", "x\n");
    let person = RecordingAttendant::new(Answer::allow());
    let windlass = directories.open(person.clone());
    let child = |id: &str, predicate: Predicate| {
        session("s")
            .child(SessionId::new(id), predicate, &Overrides::default())
            .with_agent("helper")
            .into()
    };
    let free = child("free", Predicate::All);
    assert_eq!(call(&windlass, &free, "write", write("b")).await.outcome, Outcome::Ok);
    let request = person.last();
    assert_eq!(request.asker.agent.as_deref(), Some("helper"));
    assert_eq!(request.asker.parent, Some(SessionId::new("s")));
    let explorer = child("explorer", Role::Explorer.predicate());
    assert_eq!(call(&windlass, &explorer, "read", json!({"path": "a"})).await.outcome, Outcome::Ok);
    let refused = call(&windlass, &explorer, "write", write("c")).await;
    assert_ne!(refused.outcome, Outcome::Ok, "{}", text(&refused));
    assert_eq!(person.count(), 1, "no approval for a call that is denied anyway");
}
