//! Remedies: the rule or mode that a denial suggests really allows the call.

use std::path::Path;

use proptest::prelude::*;
use windlass_core::{
    CommandLine, Decision, Effect, Effects, Mode, PathPattern, Policy, Rule, quote,
};

const WORKSPACE: &str = "/w";

/// Decides about one effect.
fn decide(policy: &Policy, effect: &Effect) -> windlass_core::Verdict {
    policy.decide("tool", Effects::from(effect.clone()), Path::new(WORKSPACE))
}

/// Returns the rule that a remedy suggests, unquoted as a shell would.
fn suggested_rule(remedy: &str) -> Option<String> {
    let quoted = remedy.strip_prefix("to allow it: --allow '")?.strip_suffix('\'')?;
    Some(quoted.replace(r"'\''", "'"))
}

/// Checks that the remedy of a denial or question would allow the effect.
fn check(policy: &Policy, effect: &Effect) {
    let verdict = decide(policy, effect);
    if verdict.decision() == Decision::Allow {
        return;
    }
    let Some(remedy) = verdict.remedy() else {
        assert!(verdict.decided_by().is_hard_deny(), "{effect}: no remedy");
        return;
    };
    if let Some(rule) = suggested_rule(&remedy) {
        let rule: Rule = rule.parse().unwrap_or_else(|error| panic!("{effect}: {error}"));
        let allowed = decide(&policy.clone().allow(rule), effect);
        let always_asked = allowed.decided_by().is_always_ask();
        assert!(allowed.decision() == Decision::Allow || always_asked, "{effect}: {remedy}");
    } else {
        let other_mode = policy.clone().with_mode(Mode::Yolo);
        let helps = match remedy.as_str() {
            text if text.starts_with("another --mode would allow it") => {
                decide(&other_mode, effect).decision() == Decision::Allow
            }
            _ => {
                remedy.contains("would have to be removed")
                    || remedy.contains("a person has to say yes")
                    || remedy.contains("`not_secret`")
            }
        };
        assert!(helps, "{effect}: {remedy}");
    }
}

/// Effects of all kinds, with unusual names.
fn effects() -> Vec<Effect> {
    let file = |path: &str| PathPattern::file(quote::unpath(path));
    let mut effects = vec![
        Effect::Exec(CommandLine::words(["git", "push", "origin"])),
        Effect::Exec(CommandLine::words(["echo", "two words"])),
        Effect::Exec(CommandLine::opaque("a; b $(c)", "?")),
        Effect::Net { origin: "https://docs.rs:443".into(), method: "GET".into() },
        Effect::Net { origin: "http://[::1]:80".into(), method: "POST".into() },
        Effect::Mcp { server: "github".into(), tool: "search".into() },
        Effect::Agent("general".into()),
        Effect::Plugin("lint".into()),
        Effect::Secret("TOKEN".into()),
        Effect::State("todo".into()),
        Effect::Ask,
        Effect::Read(PathPattern::tree("/")),
        Effect::Write(PathPattern::tree("/w/src")),
        Effect::Read(PathPattern::tree("/etc/[a]")),
        Effect::Write(file("/w/.aiexclude")),
    ];
    for path in [
        "/w/a",
        "/etc/hosts",
        "/w/app/[id]/page.tsx",
        "/w/a b",
        "/w/a ",
        "/w/it's",
        "/w/{a,b}",
        "/w/*",
        "/w/[!a]?",
        r"/w/a\b",
        r"/w/a\[b",
        "/w/$'",
        r"$'/w/caf\xe9.txt'",
        r"$'/w/new\nline'",
        "/w/.env",
        "/w/=",
    ] {
        effects.extend([
            Effect::Read(file(path)),
            Effect::Write(file(path)),
            Effect::Delete(file(path)),
        ]);
    }
    effects
}

#[test]
fn remedy_of_a_denial_allows_the_effect() {
    for effect in effects() {
        for (_, mode) in Mode::NAMES {
            check(&Policy::new(mode), &effect);
            check(&Policy::new(mode).deny("tool tool".parse().unwrap()), &effect);
            let asks = Policy::new(mode).with(Decision::Ask, "write /w/**".parse().unwrap());
            check(&asks, &effect);
        }
    }
}

proptest! {
    #[test]
    fn remedy_works_for_any_file_name(name in "[a-z$'=!?*{}\\[\\]\\\\ \\-]{1,8}") {
        check(&Policy::new(Mode::Ask), &Effect::Write(PathPattern::file(format!("/w/{name}"))));
    }
}

#[test]
fn common_effects_have_a_rule() {
    for (effect, rule) in [
        (Effect::Write(PathPattern::file("/w/a")), "write /w/a"),
        (Effect::Delete(PathPattern::file("/w/a")), "write /w/a"),
        (Effect::Read(PathPattern::tree("/etc/ssl")), "read /etc/ssl/**"),
        (Effect::Write(PathPattern::file("/w/app/[id].tsx")), "write /w/app/[[]id].tsx"),
        (Effect::Exec(CommandLine::words(["git", "push"])), "exec git push"),
        (Effect::Net { origin: "https://docs.rs:443".into(), method: "GET".into() }, "net docs.rs"),
        (Effect::Mcp { server: "github".into(), tool: "search".into() }, "mcp github/search"),
    ] {
        let remedy = decide(&Policy::new(Mode::Ask), &effect).remedy().expect("a remedy");
        assert_eq!(suggested_rule(&remedy).as_deref(), Some(rule));
    }
}

#[test]
fn rules_decide_before_the_mode_in_every_mode() {
    let effect = Effect::Write(PathPattern::file("/w/a"));
    for (_, mode) in Mode::NAMES {
        let policy = Policy::new(mode).allow("write a".parse().unwrap());
        assert_eq!(decide(&policy, &effect).decision(), Decision::Allow, "{mode}");
        let denies = policy.deny("write /w/**".parse().unwrap());
        assert_eq!(decide(&denies, &effect).decision(), Decision::Deny, "{mode}");
    }
    let nothing = Policy::new(Mode::Deny).decide("tool", Effects::none(), Path::new(WORKSPACE));
    assert_eq!(nothing.decision(), Decision::Deny, "a call without effects too");
}
