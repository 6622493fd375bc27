//! The `/tmp` of a session: its use needs no approval, and no other session sees it.

use std::sync::Arc;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    CommitStep, Decision, Effect, EffectKinds, Effects, ExpectedState, Mode, Outcome, Output,
    PathPattern, Policy, Session, SessionId, TargetState, ToolCall,
};

use crate::support::{MapHost, Setup};

fn host() -> MapHost {
    MapHost::with(["a", "/tmp/machine"])
        .with_session("one", ["a", "/tmp/note"])
        .with_session("two", ["a"])
}

/// Tools that read, write and remove the file of their argument `path`, and one that says if a file exists.
fn tools() -> [MockTool; 4] {
    let path = |input: &serde_json::Value| input["path"].as_str().unwrap().to_owned();
    let changed = move |input: &_| PathPattern::file(path(input));
    [
        MockTool::named("read")
            .with_effects(EffectKinds::READ, move |input| Effects::read(path(input))),
        MockTool::named("write")
            .with_effects(EffectKinds::WRITE, move |input| Effect::Write(changed(input)).into()),
        MockTool::named("remove")
            .with_effects(EffectKinds::DELETE, move |input| Effect::Delete(changed(input)).into())
            .answering(move |cx, input| async move {
                let files = cx.files();
                let place = files.resolve(path(&input).as_ref())?;
                let seen = ExpectedState::Same(windlass_core::Fingerprint {
                    device: 1,
                    inode: 1,
                    len: 1,
                    modified: 1,
                    changed: 1,
                });
                files.commit(&[CommitStep::new(place, seen, TargetState::Nothing)])?;
                Ok(Output::text("removed"))
            }),
        MockTool::named("look")
            .with_effects(EffectKinds::READ, move |input| Effects::read(path(input)))
            .answering(move |cx, input| async move {
                let found = cx.files().stat(path(&input).as_ref())?;
                Ok(Output::text(if found.is_some() { "there" } else { "nothing" }))
            }),
    ]
}

fn session(id: &str) -> Arc<Session> {
    Arc::new(Session::new(SessionId::new(id)))
}

#[tokio::test]
async fn session_tmp_needs_no_approval() {
    use Decision::{Allow, Ask, Deny};
    let ruled = || {
        Policy::new(Mode::Yolo)
            .deny("write /tmp/fixed/**".parse().unwrap())
            .deny("read /tmp/fixed/**".parse().unwrap())
    };
    for (policy, id, path, expected) in [
        (Policy::new(Mode::Ask), "one", "/tmp/x", Allow),
        (Policy::new(Mode::Ask), "one", "/var/tmp/x", Allow),
        (Policy::new(Mode::Ask), "one", "/tmp/.git/hooks/pre-commit", Allow),
        (Policy::new(Mode::Auto), "one", "/tmp/x", Allow),
        (Policy::new(Mode::Plan), "one", "/tmp/x", Allow),
        (Policy::new(Mode::Yolo), "one", "/tmp/x", Allow),
        (Policy::new(Mode::Deny), "one", "/tmp/x", Deny),
        (Policy::new(Mode::Ask), "one", "/tmpx", Ask),
        (Policy::new(Mode::Ask), "one", "/tmp/.env", Deny),
        (ruled(), "one", "/tmp/fixed/x", Deny),
        (ruled(), "one", "/tmp/x", Allow),
        // A session that uses the machine's `/tmp`.
        (Policy::new(Mode::Ask), "three", "/tmp/x", Ask),
        (Policy::new(Mode::Auto), "three", "/tmp/x", Ask),
        (Policy::new(Mode::Plan), "three", "/tmp/x", Deny),
    ] {
        let mode = policy.mode();
        let setup = Setup::on(Arc::new(host()), tools(), |builder| builder.policy(policy));
        for tool in ["read", "write", "remove"] {
            let call = ToolCall::new(tool, json!({"path": path}));
            let verdict = setup.engine.explain(&session(id), call).await.unwrap();
            assert_eq!(verdict.decision(), expected, "{mode} {id} {tool} {path}");
        }
    }
}

#[tokio::test]
async fn no_other_session_sees_the_session_tmp() {
    let setup = Setup::on(Arc::new(host()), tools(), |builder| builder);
    let (one, two) = (session("one"), session("two"));
    let call = |tool: &str, path: &str| ToolCall::new(tool, json!({"path": path}));
    for (session, tool, path, expected) in [
        (&one, "look", "/tmp/note", "there"),
        (&two, "look", "/tmp/note", "nothing"),
        (&one, "look", "/tmp/machine", "nothing"),
        // A cached answer is not served to another session, nor after the file is gone.
        (&one, "look", "/tmp/note", "there"),
        (&one, "remove", "/tmp/note", "removed"),
        (&one, "look", "/tmp/note", "nothing"),
    ] {
        let result = setup.engine.call(session, call(tool, path)).await;
        let text = result.output.to_text();
        assert_eq!((result.outcome, text.as_ref()), (Outcome::Ok, expected), "{tool} {path}");
        assert_eq!(session.untrusted(), None, "the session tmp counts as inside");
    }
}
