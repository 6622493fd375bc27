//! Declared effects are a limit: a tool that tries more fails, and the effect does not happen.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use windlass_core::testing::MockTool;
use windlass_core::{
    CallId, CommandLine, CommitStep, Context, Effect, EffectKinds, Effects, ExpectedState,
    Fingerprint, Mode, Outcome, Output, PathPattern, Policy, TargetState, ToolError,
};

use crate::support::{MapHost, Setup, assert_text, says};

#[tokio::test]
async fn effect_outside_the_kinds_of_the_tool_is_a_fault() {
    let exec = || Effects::from(Effect::Exec(CommandLine::words(["rm", "x"])));
    for (kinds, effects, text) in [
        (
            EffectKinds::READ,
            Effects::write("out"),
            "`sly` wants to write out, but says that its calls are only of the kinds read",
        ),
        (
            EffectKinds::NONE,
            Effects::read("a"),
            "`sly` wants to read a, but says that its calls are only of the kinds ",
        ),
        (
            EffectKinds::READ | EffectKinds::STATE,
            Effects::read("a").and(Effect::Ask),
            "`sly` wants to read a, ask, but says that its calls are only of the kinds read, state",
        ),
        (EffectKinds::ALL, exec(), ""),
    ] {
        let sly = says("sly", "ran").with_effects(kinds, move |_| effects.clone());
        let setup = Setup::with([sly], |builder| builder.policy(Policy::new(Mode::Yolo)));
        let result = setup.call("sly", json!({})).await;
        if text.is_empty() {
            assert_text(&result, Outcome::Ok, "ran");
        } else {
            assert_text(&result, Outcome::Fault, text);
            assert_eq!(result.code, Some("undeclared_effect"));
            assert_eq!(setup.recorded(), ["fault sly"], "it never began");
        }
    }
}

/// A fingerprint for expectations that the host of these tests does not check.
fn anything() -> Fingerprint {
    Fingerprint { device: 1, inode: 1, len: 1, modified: 1, changed: 1 }
}

/// Calls a tool that declares to read `a`, write `b` and `new/x`, read everything below `tree` and remove `gone`, and then makes this
/// attempt. Checks the outcome and text.
async fn check(
    attempt: impl Fn(&Context) -> Result<String, ToolError> + Clone + Send + Sync + 'static,
    outcome: Outcome,
    text: &str,
) {
    let tool = MockTool::named("sly")
        .with_effects(EffectKinds::ALL, |_| {
            Effects::read("a")
                .and(Effect::Write(PathPattern::file("b")))
                .and(Effect::Read(PathPattern::tree("tree")))
                .and(Effect::Delete(PathPattern::file("gone")))
                .and(Effect::Write(PathPattern::file("new/x")))
        })
        .answering(move |cx, _| {
            let attempt = attempt.clone();
            async move { attempt(&cx).map(Output::text) }
        });
    let host = MapHost::with(["a", "b", "c", "gone", "tree/d"]);
    let setup = Setup::on(Arc::new(host), [tool], |builder| builder);
    let result = setup.call("sly", json!({})).await;
    assert_text(&result, outcome, text);
    let code = (outcome == Outcome::Fault).then_some("undeclared_effect");
    assert_eq!(result.code, code, "{text}");
}

#[tokio::test]
async fn door_opens_only_for_declared_effects() {
    let stat = |path: &'static str| {
        move |cx: &Context| {
            let found = cx.files().stat(Path::new(path))?;
            Ok(if found.is_some() { "there".to_owned() } else { "nothing".to_owned() })
        }
    };
    let write = |path: &'static str| {
        move |cx: &Context| {
            let written = cx.files().create(Path::new(path), b"x");
            written.map(|_| "written".to_owned())
        }
    };
    let tried = |what: &str| format!("the tool tried to {what} without having declared it");

    check(stat("a"), Outcome::Ok, "there").await;
    check(stat("./x/../a"), Outcome::Ok, "there").await;
    check(stat("tree/d"), Outcome::Ok, "there").await;
    check(stat("tree/e"), Outcome::Ok, "nothing").await;
    check(stat("c"), Outcome::Fault, &tried("read c")).await;
    check(stat("b"), Outcome::Fault, &tried("read b")).await;
    check(stat("tree/../c"), Outcome::Fault, &tried("read c")).await;
    check(stat("/etc/passwd"), Outcome::Fault, &tried("read /etc/passwd")).await;
    check(write("a"), Outcome::Fault, &tried("write a")).await;
    check(write("tree/d"), Outcome::Fault, &tried("write tree/d")).await;
    let host_says_no = "cannot open /w/b: the file system's permissions do not allow it";
    check(write("b"), Outcome::Error, host_says_no).await;
    let remove = |path: &'static str| move |cx: &Context| remove(cx, path);
    let rename = |from: &'static str, to: &'static str| {
        move |cx: &Context| {
            let (from, to) = (cx.files().resolve(from.as_ref())?, cx.files().resolve(to.as_ref())?);
            let moved = TargetState::Moved { from: &from, seen: anything() };
            cx.files()
                .commit(&[CommitStep::new(to, ExpectedState::Absent, moved)])
                .map(|_| "moved".to_owned())
        }
    };
    check(remove("gone"), Outcome::Ok, "removed").await;
    check(remove("b"), Outcome::Fault, &tried("remove b")).await;
    check(rename("gone", "b"), Outcome::Ok, "moved").await;
    check(rename("gone", "a"), Outcome::Fault, &tried("write a")).await;
    check(rename("b", "gone"), Outcome::Fault, &tried("remove b")).await;
    check(
        |cx| cx.kept_output(&CallId::new("c1")).map(|_| "read".to_owned()),
        Outcome::Fault,
        "the tool read a kept output without declaring state `output`",
    )
    .await;
}

#[tokio::test]
async fn cancelled_call_starts_no_change() {
    check(
        |cx| {
            cx.session().cancel();
            let begun = remove(cx, "gone");
            assert_eq!(begun.unwrap_or_else(|error| error.code().to_owned()), "cancelled");
            Ok("done".to_owned())
        },
        Outcome::Ok,
        "done",
    )
    .await;
}

/// Removes a file through the door of the call.
fn remove(cx: &Context, path: &str) -> Result<String, ToolError> {
    let path = cx.files().resolve(path.as_ref())?;
    let step = CommitStep::new(path, ExpectedState::Same(anything()), TargetState::Nothing);
    cx.files().commit(&[step]).map(|_| "removed".to_owned())
}

#[tokio::test]
async fn granted_paths_are_resolved() {
    let tool = MockTool::named("look")
        .with_effects(EffectKinds::READ, |_| Effects::read("x/../a"))
        .answering(|cx, _| async move {
            let grant = cx.grant();
            Ok(Output::text(format!("{} ({})", grant.effects(), grant.decided())))
        });
    let setup = Setup::of([tool]);
    let result = setup.call("look", json!({})).await;
    assert_text(&result, Outcome::Ok, "read /w/a (allowed by mode auto)");
}

#[tokio::test]
async fn excluded_files_are_hidden_in_every_mode() {
    for (_, mode) in Mode::NAMES {
        let look =
            says("look", "seen").with_effects(EffectKinds::READ, |_| Effects::read("plans.md"));
        let host = Arc::new(MapHost::with(["plans.md"]).hiding("plans.md"));
        let setup = Setup::on(host, [look], |builder| builder.policy(Policy::new(mode)));
        let result = setup.call("look", json!({})).await;
        let text = "not allowed: plans.md (hard deny: hidden by /w/.aiexclude)";
        assert_text(&result, Outcome::Denied, text);
    }
}

#[tokio::test]
async fn secret_files_are_denied_in_every_mode() {
    for (_, mode) in Mode::NAMES {
        for path in [".env", "a/../id_rsa", "deep/.ssh/config"] {
            let look =
                says("look", "seen").with_effects(EffectKinds::READ, move |_| Effects::read(path));
            let setup = Setup::with([look], |builder| builder.policy(Policy::new(mode)));
            let result = setup.call("look", json!({})).await;
            assert_eq!(result.outcome, Outcome::Denied, "{path} in {mode}");
            let text = result.output.to_text();
            assert!(text.contains("hard deny: "), "{text}");
        }
    }
}
