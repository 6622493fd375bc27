//! Hygge: the permission engine with its categories and scopes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use windlass::effect::{CommandLine, Effect};
use windlass::people::{Answer, EventAttendant, Scope};
use windlass::policy::{Decision, Policy};
use windlass::session::SessionId;
use windlass::tool::{Overrides, Predicate};
use windlass::{Effects, Mode, Outcome};

use super::{RecordingAttendant, TestDirectories, call, session};
use crate::support::text;

fn write(path: &str) -> Value {
    json!({"path": path, "content": "x\n"})
}

/// Hygge's default decision of each category. Here the network asks, as the mode says.
#[test]
fn hygge_categories_have_their_defaults() {
    let policy = Policy::new(Mode::Ask);
    let one = |effect: Effect| Effects::none().and(effect);
    for (category, effects, decision) in [
        ("file.read inside", Effects::read("/w/a"), Decision::Allow),
        ("file.read outside", Effects::read("/v/a"), Decision::Ask),
        ("file.write", Effects::write("/w/a"), Decision::Ask),
        ("file.write, delete", Effects::delete("/w/a"), Decision::Ask),
        ("shell", one(Effect::Exec(CommandLine::words(["make"]))), Decision::Ask),
        (
            "network",
            one(Effect::Net { origin: "https://docs.rs:443".into(), method: "GET".into() }),
            Decision::Ask,
        ),
        ("mcp", one(Effect::Mcp { server: "s".into(), tool: "t".into() }), Decision::Ask),
        ("agent", one(Effect::Agent("explore".into())), Decision::Allow),
        ("plugin", one(Effect::Plugin("p".into())), Decision::Ask),
        ("secrets", Effects::read("/w/.env"), Decision::Deny),
    ] {
        let verdict = policy.decide("tool", effects.clone(), "/w".as_ref());
        assert_eq!(verdict.decision(), decision, "{category}");
        let yolo = Policy::new(Mode::Yolo).decide("tool", effects, "/w".as_ref());
        let expected = if category == "secrets" { Decision::Deny } else { Decision::Allow };
        assert_eq!(yolo.decision(), expected, "{category} in yolo");
    }
}

/// The scopes once, session, project and always. A denial can be stored as well. All answers survive a restart.
#[tokio::test]
async fn hygge_answers_are_valid_in_their_scope_only() {
    // `counts`: in the same session, in another session, in another workspace.
    for (scope, counts) in [
        (Scope::Once, [false, false, false]),
        (Scope::Session, [true, false, false]),
        (Scope::Project, [true, true, false]),
        (Scope::Always, [true, true, true]),
    ] {
        for allowed in [true, false] {
            let directories = TestDirectories::new();
            let answer = match (allowed, scope) {
                (true, Scope::Once) => Answer::allow(),
                (true, scope) => Answer::allow_for(scope),
                (false, Scope::Once) => Answer::deny("no"),
                (false, scope) => Answer::deny_for(scope, "no"),
            };
            let input = json!({"command": "touch made"});
            let first = directories.open(RecordingAttendant::new(answer));
            call(&first, &session("s"), "bash", input.clone()).await;
            drop(first);
            for ((workspace, id), counts) in
                [("work", "s"), ("work", "t"), ("other", "t")].into_iter().zip(counts)
            {
                let other = RecordingAttendant::new(if allowed {
                    Answer::deny("asked")
                } else {
                    Answer::allow()
                });
                let windlass =
                    directories.builder(workspace).attendant(other.clone()).build().unwrap();
                call(&windlass, &session(id), "bash", input.clone()).await;
                assert_eq!(
                    other.count(),
                    usize::from(!counts),
                    "{scope} {allowed} {workspace} {id}"
                );
            }
        }
    }
}

/// Stored outside of the repository, readable by the person only.
#[tokio::test]
async fn hygge_approvals_are_kept_outside_the_repository() {
    let directories = TestDirectories::new();
    let windlass = directories.open(RecordingAttendant::new(Answer::allow_for(Scope::Always)));
    call(&windlass, &session("s"), "write", write("a")).await;
    let kept = directories.path("state/approvals.json");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let names: Vec<_> = fs::read_dir(directories.path("work"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["a"], "nothing of ours is in the workspace");
    // A tool cannot change the stored answers either.
    let forge = json!({"path": kept, "content": "[]"});
    let forged = call(&windlass, &session("s"), "write", forge).await;
    assert_eq!(forged.outcome, Outcome::Denied, "{}", text(&forged));
}

/// G2: an approvals file in a repository is not an answer of a person.
#[tokio::test]
async fn hygge_g2_approvals_in_a_repository_are_ignored() {
    let directories = TestDirectories::new();
    let person = RecordingAttendant::new(Answer::allow_for(Scope::Always));
    call(&directories.open(person), &session("s"), "write", write("a")).await;
    let record = fs::read(directories.path("state/approvals.json")).unwrap();
    fs::remove_dir_all(directories.path("state")).unwrap();
    // An existing file that was not read would be an error before any approval.
    fs::remove_file(directories.path("work/a")).unwrap();
    for name in ["approvals.json", ".windlass/approvals.json", ".hygge/permissions.json"] {
        directories.put(&format!("work/{name}"), std::str::from_utf8(&record).unwrap());
    }
    let again = call(&directories.unattended(), &session("s"), "write", write("a")).await;
    assert_eq!(again.outcome, Outcome::Denied);
}

/// G3: an approval of one command allowed the commands behind it.
#[tokio::test]
async fn hygge_g3_approved_command_does_not_allow_following_ones() {
    let directories = TestDirectories::new();
    directories.put("work/internal/main.go", "x\n");
    let person = RecordingAttendant::new(Answer::allow_for(Scope::Session));
    let windlass = directories.open(person.clone());
    let session = session("s");
    let run = |command: &str| json!({"command": command});
    call(&windlass, &session, "bash", run("sort -o out internal/main.go")).await;
    assert_eq!(person.count(), 1);
    for (at, command) in [
        "sort -o out internal/main.go; touch x",
        "sort -o out internal/main.go | sh",
        "sort -o out internal/main.go\ntouch x",
        "sort -o out internal/../../x",
        "sort -o out internal/other.go",
        "sort -o out internal/main.go ",
    ]
    .into_iter()
    .enumerate()
    {
        call(&windlass, &session, "bash", run(command)).await;
        assert_eq!(person.count(), at + 2, "{command}");
    }
}

/// G4: approved text was read as a pattern, and could break the program for good.
#[tokio::test]
async fn hygge_g4_approved_text_is_no_pattern() {
    let directories = TestDirectories::new();
    let person = RecordingAttendant::new(Answer::allow_for(Scope::Always));
    let windlass = directories.open(person.clone());
    for name in ["a*", "[id]", "{x", "b?"] {
        assert_eq!(call(&windlass, &session("s"), "write", write(name)).await.outcome, Outcome::Ok);
        fs::remove_file(directories.path("work").join(name)).unwrap();
    }
    drop(windlass);
    // After a restart it knows exactly the approved call.
    let windlass = directories.unattended();
    for (name, outcome) in [
        ("a*", Outcome::Ok),
        ("[id]", Outcome::Ok),
        ("{x", Outcome::Ok),
        ("abc", Outcome::Denied),
        ("i", Outcome::Denied),
        ("bb", Outcome::Denied),
    ] {
        let result = call(&windlass, &session("t"), "write", write(name)).await;
        assert_eq!(result.outcome, outcome, "{name}: {}", text(&result));
    }
}

/// G4: an invalid entry is skipped with a warning; the others count.
#[tokio::test]
async fn hygge_g4_invalid_entry_is_skipped() {
    let directories = TestDirectories::new();
    let windlass = directories.open(RecordingAttendant::new(Answer::allow_for(Scope::Always)));
    call(&windlass, &session("s"), "write", write("a")).await;
    drop(windlass);
    let file = directories.path("state/approvals.json");
    let mut all: Vec<Value> = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    all.insert(0, json!({"id": "x", "scope": "forever"}));
    fs::write(&file, serde_json::to_vec(&all).unwrap()).unwrap();
    fs::remove_file(directories.path("work/a")).unwrap();
    let result = call(&directories.unattended(), &session("t"), "write", write("a")).await;
    assert_eq!(result.outcome, Outcome::Ok, "{}", text(&result));
    let book = windlass::people::ApprovalFile::in_state(&directories.path("state"));
    assert!(book.skipped().unwrap()[0].contains("entry 1"));
    // A file that is no list allows no call, and does not prevent the start.
    fs::write(&file, "{").unwrap();
    fs::remove_file(directories.path("work/a")).unwrap();
    let result = call(&directories.unattended(), &session("t"), "write", write("a")).await;
    assert_eq!(result.outcome, Outcome::Denied, "{}", text(&result));
    let read = call(&directories.unattended(), &session("t"), "list", json!({})).await;
    assert_eq!(read.outcome, Outcome::Ok, "{}", text(&read));
}

/// G5: the policy checked the name, and the tool followed the link.
#[tokio::test]
async fn hygge_g5_policy_checks_the_target_of_a_link() {
    let directories = TestDirectories::outside_tmp();
    directories.put("work/.env", "KEY=1\n");
    std::os::unix::fs::symlink(".env", directories.path("work/notes.txt")).unwrap();
    std::os::unix::fs::symlink("..", directories.path("work/up")).unwrap();
    let windlass = directories.builder("work").mode(Mode::Auto).build().unwrap();
    for (tool, input) in [
        ("read", json!({"path": "notes.txt"})),
        ("write", write("up/escaped")),
        ("edit", json!({"path": "notes.txt", "old_string": "1", "new_string": "2"})),
    ] {
        let result = call(&windlass, &session("s"), tool, input).await;
        assert_eq!(result.outcome, Outcome::Denied, "{tool}: {}", text(&result));
    }
    assert!(!directories.path("escaped").exists());
}

/// G8: an approval for one session counted in all sessions, and one for a file allowed its whole directory.
#[tokio::test]
async fn hygge_g8_approval_for_a_session_stays_in_it() {
    let directories = TestDirectories::new();
    let person = RecordingAttendant::new(Answer::allow_for(Scope::Session));
    let windlass = directories.open(person.clone());
    let parent = session("s");
    let child = parent.child(SessionId::new("child"), Predicate::All, &Overrides::default()).into();
    call(&windlass, &parent, "write", write("d/a")).await;
    for (session, path, asked) in
        [(&parent, "d/a", 1), (&session("t"), "d/a", 2), (&child, "d/a", 3), (&parent, "d/b", 4)]
    {
        drop(fs::remove_file(directories.path("work").join(path)));
        call(&windlass, session, "write", write(path)).await;
        assert_eq!(person.count(), asked, "{} {path}", session.id());
    }
}

/// G10: an approval without a listener waited forever.
#[tokio::test]
async fn hygge_g10_approval_without_a_listener_ends() {
    let directories = TestDirectories::new();
    let unattended = directories.unattended();
    let _hears = unattended.subscribe();
    let result = call(&unattended, &session("s"), "write", write("a")).await;
    assert!(text(&result).contains("no person is available to ask"), "{}", text(&result));
    let slow = directories.open(EventAttendant { patience: Some(Duration::from_millis(50)) });
    let result = call(&slow, &session("s"), "write", write("a")).await;
    assert!(text(&result).contains("no answer within"), "{}", text(&result));
    assert_eq!(result.outcome, Outcome::Denied);
    assert!(slow.engine().approvals().await.unwrap().is_empty(), "no question stays open");
}
