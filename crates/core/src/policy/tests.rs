//! Decisions of modes, rules and layers.

use super::*;
use crate::{Backend, OnlyReads, PathPattern};

/// Checks the decision about one effect, and the rule or mode that is named as its cause.
fn check(policy: &Policy, tool: &str, effect: &Effect, decision: Decision, rule: &str) {
    let verdict = policy.decide(tool, Effects::from(effect.clone()), Path::new("/w"));
    assert_eq!((verdict.decision(), &*verdict.rule()), (decision, rule), "{effect}");
}

#[test]
fn mode_decides_about_effects_without_a_rule() {
    use Decision::{Allow, Ask, Deny};
    let at = |path: &str| PathPattern::file(path);
    for (effect, [ask, auto, plan, deny, yolo]) in [
        (Effect::Read(at("/w/a")), [Allow, Allow, Allow, Deny, Allow]),
        (Effect::State("todo".into()), [Allow, Allow, Allow, Deny, Allow]),
        (Effect::Write(at("/w/a")), [Ask, Allow, Deny, Deny, Allow]),
        (Effect::Delete(at("/w/a")), [Ask, Allow, Deny, Deny, Allow]),
        (Effect::Exec(CommandLine::words(["make"])), [Ask, Allow, Allow, Deny, Allow]),
        (Effect::Exec(CommandLine::words(["make"]).as_job(true)), [Ask, Allow, Allow, Deny, Allow]),
        (
            Effect::Net { origin: "https://docs.rs".into(), method: "GET".into() },
            [Ask, Allow, Ask, Deny, Allow],
        ),
        (Effect::Mcp { server: "s".into(), tool: "t".into() }, [Ask, Allow, Deny, Deny, Allow]),
        (Effect::Agent("general".into()), [Allow, Allow, Allow, Deny, Allow]),
        (Effect::Read(at("/etc/hosts")), [Ask, Ask, Deny, Deny, Allow]),
        (Effect::Write(at("/srv/hosts")), [Ask, Ask, Deny, Deny, Allow]),
        (Effect::Write(at("/etc/hosts")), [Deny, Deny, Deny, Deny, Deny]),
        (Effect::Read(at("/w/.env")), [Deny; 5]),
        (Effect::Write(at("/w/.git/hooks/x")), [Ask, Ask, Deny, Deny, Ask]),
    ] {
        for ((_, mode), wanted) in Mode::NAMES.into_iter().zip([ask, auto, plan, deny, yolo]) {
            let verdict =
                Policy::new(mode).decide("t", Effects::from(effect.clone()), Path::new("/w"));
            assert_eq!(verdict.decision(), wanted, "{effect} in {mode}");
            let runs = wanted == Allow || verdict.when() == AskTime::After;
            assert_eq!(verdict.grant().is_some(), runs, "{effect} in {mode}");
        }
    }
}

#[test]
fn rule_for_a_change_covers_the_reading_that_the_change_needs() {
    use Decision::{Allow, Ask, Deny};
    let at = |path: &str| PathPattern::file(path);
    let changes = |path: &str| Effects::read(path).and(Effect::Write(at(path)));
    let removes = |path: &str| Effects::read(path).and(Effect::Delete(at(path)));
    let allow = "write /srv/out/**";
    for (mode, deny, effects, decision) in [
        (Mode::Ask, None, changes("/srv/out/a"), Allow),
        (Mode::Auto, None, changes("/srv/out/a"), Allow),
        (Mode::Deny, None, changes("/srv/out/a"), Allow),
        (Mode::Ask, None, removes("/srv/out/a"), Allow),
        (Mode::Ask, None, Effects::read("/srv/out/a"), Ask),
        (Mode::Ask, None, changes("/srv/out/a").and(Effect::Read(at("/srv/out/b"))), Ask),
        (Mode::Ask, None, changes("/srv/b"), Ask),
        (Mode::Ask, Some("read /srv/out/a"), changes("/srv/out/a"), Deny),
        (Mode::Ask, Some("write /srv/out/a"), changes("/srv/out/a"), Deny),
        (Mode::Ask, None, changes("/srv/out/.env"), Deny),
    ] {
        let rule = |text: &str| text.parse::<Rule>().expect("a rule");
        let policy = Policy::new(mode).allow(rule(allow));
        let policy = deny.map(rule).into_iter().fold(policy, Policy::deny);
        let verdict = policy.decide("write", effects.clone(), Path::new("/w"));
        assert_eq!(verdict.decision(), decision, "{mode} {deny:?} {effects}: {}", verdict.rule());
    }
    let verdict = Policy::new(Mode::Ask).decide("write", changes("/srv/a"), Path::new("/w"));
    assert_eq!(verdict.refusal(), "not allowed: write /srv/a (decided by mode ask)");
    assert_eq!(verdict.remedy().as_deref(), Some("to allow it: --allow 'write /srv/a'"));
}

#[test]
fn deny_wins_and_the_rule_is_named() {
    let rule = |text: &str| text.parse::<Rule>().expect("a rule");
    let policy = Policy::new(Mode::Ask)
        .allow(rule("write src/**"))
        .deny(rule("write src/secret/**"))
        .allow(rule("tool todo"));
    let write = |path: &str| Effect::Write(PathPattern::file(path));
    check(&policy, "write", &write("/w/src/a"), Decision::Allow, "allow write src/**");
    check(&policy, "write", &write("/w/src/secret/a"), Decision::Deny, "deny write src/secret/**");
    check(&policy, "write", &write("/w/b"), Decision::Ask, "mode ask");
    check(&policy, "todo", &write("/w/b"), Decision::Allow, "allow tool todo");
    let denied = Policy::new(Mode::Yolo).deny(rule("tool bash"));
    assert_eq!(denied.decide("bash", Effects::none(), Path::new("/w")).decision(), Decision::Deny);
}

#[test]
fn opaque_command_asks_if_a_rule_denies_programs() {
    let rule = |text: &str| text.parse::<Rule>().expect("a rule");
    let opaque = Effect::Exec(CommandLine::opaque("ls; rm x", "?"));
    let asked = "always asked: the command is not understood, and `deny exec rm` may bind it";
    for (policy, decision, by) in [
        (Policy::new(Mode::Auto), Decision::Allow, "mode auto"),
        (Policy::new(Mode::Auto).deny(rule("write a")), Decision::Allow, "mode auto"),
        (Policy::new(Mode::Auto).deny(rule("exec rm")), Decision::Ask, asked),
        (Policy::new(Mode::Yolo).deny(rule("exec rm")), Decision::Ask, asked),
        (Policy::new(Mode::Deny).deny(rule("exec rm")), Decision::Deny, "mode deny"),
    ] {
        check(&policy, "bash", &opaque, decision, by);
    }
}

#[test]
fn command_that_runs_unseen_programs_asks_if_a_rule_denies_programs() {
    let rule = |text: &str| text.parse::<Rule>().expect("a rule");
    let mut tool = SimpleCommand::new(["tool", "x"]);
    tool.unseen = Some("is not known here".into());
    let effect = Effect::Exec(CommandLine::understood("tool x", [tool]));
    let denying = |mode| Policy::new(mode).deny(rule("exec rm"));
    let asked = "always asked: `tool` is not known here, and `deny exec rm` may bind it";
    for (policy, decision, by) in [
        (Policy::new(Mode::Auto), Decision::Allow, "mode auto"),
        (denying(Mode::Auto), Decision::Ask, asked),
        (denying(Mode::Yolo), Decision::Ask, asked),
        (denying(Mode::Ask).allow(rule("exec tool")), Decision::Allow, "allow exec tool"),
        (denying(Mode::Yolo).allow(rule("tool bash")), Decision::Ask, asked),
    ] {
        check(&policy, "bash", &effect, decision, by);
    }
}

#[test]
fn command_may_read_public_paths() {
    use Decision::{Allow, Ask, Deny};
    let exec = |path: &str| {
        let mut ls = SimpleCommand::new(["ls"]).reading(OnlyReads::Always);
        ls.reads.push(PathPattern::file(path));
        Effect::Exec(CommandLine::understood("ls", [ls]))
    };
    for (effects, [ask, plan, deny]) in [
        (Effects::read("/usr/include").and(exec("/usr/include")), [Allow, Allow, Deny]),
        (Effects::read("/usr/include").and(exec("/usr")), [Ask, Deny, Deny]),
        (Effects::read("/srv").and(exec("/srv")), [Ask, Deny, Deny]),
        (Effects::read("/usr/include"), [Ask, Deny, Deny]),
    ] {
        for (mode, decision) in [(Mode::Ask, ask), (Mode::Plan, plan), (Mode::Deny, deny)] {
            let verdict = Policy::new(mode).decide("bash", effects.clone(), Path::new("/w"));
            assert_eq!(verdict.decision(), decision, "{effects} in {mode}");
        }
    }
}

#[test]
fn every_part_of_a_command_counts() {
    use Decision::{Allow, Ask, Deny};
    let rule = |text: &str| text.parse::<Rule>().expect("a rule");
    let part = |words: &str| SimpleCommand::new(words.split(' '));
    let reads = part("ls").reading(OnlyReads::Always);
    let risky = part("find . -delete").risk(2, "removes files");
    for (parts, rules, [ask, auto, plan]) in [
        (vec![reads.clone()], vec![], [Allow, Allow, Allow]),
        (vec![reads.clone(), part("make")], vec![], [Ask, Allow, Allow]),
        (vec![reads.clone(), part("make")], vec![(Allow, "exec make")], [Allow; 3]),
        (vec![part("a"), part("b")], vec![(Allow, "exec a"), (Allow, "exec b")], [Allow; 3]),
        (vec![part("a"), part("b")], vec![(Allow, "exec a")], [Ask, Allow, Allow]),
        (vec![part("a"), part("b")], vec![(Ask, "exec a")], [Ask; 3]),
        (vec![part("a"), part("b")], vec![(Ask, "exec a"), (Allow, "exec b")], [Ask; 3]),
        (vec![part("a"), part("b")], vec![(Allow, "exec a"), (Deny, "exec b")], [Deny; 3]),
        (vec![reads], vec![(Deny, "exec ls")], [Deny; 3]),
        (vec![risky.clone()], vec![(Allow, "exec find")], [Ask, Allow, Allow]),
        (vec![risky.clone()], vec![(Allow, "exec find . -delete")], [Allow; 3]),
        (vec![risky], vec![(Deny, "exec find")], [Deny; 3]),
    ] {
        let effect = Effect::Exec(CommandLine::understood("text", parts));
        for (mode, wanted) in [(Mode::Ask, ask), (Mode::Auto, auto), (Mode::Plan, plan)] {
            let policy = rules.iter().fold(Policy::new(mode), |policy, (decision, text)| {
                policy.with(*decision, rule(text))
            });
            let verdict = policy.decide("t", Effects::from(effect.clone()), Path::new("/w"));
            assert_eq!(verdict.decision(), wanted, "{effect:?} {rules:?} in {mode}");
        }
    }
}

/// Only the text of a host is known before a connection is made.
#[test]
fn private_addresses_are_decided_like_paths_outside() {
    use Decision::{Allow, Ask, Deny};
    for (host, is_private) in [
        ("192.168.1.5", true),
        ("127.0.0.1:8799", true),
        ("[::1]:80", true),
        ("169.254.169.254", true),
        ("localhost:3000", true),
        ("a.localhost", true),
        ("1.1.1.1", false),
        ("docs.rs", false),
        ("localhost.example", false),
    ] {
        let effect = Effect::Net { origin: format!("https://{host}"), method: "CONNECT".into() };
        let effects = || Effects::from(effect.clone());
        let private = [(Mode::Ask, Ask), (Mode::Auto, Ask), (Mode::Plan, Deny), (Mode::Deny, Deny)];
        let public = [(Mode::Ask, Ask), (Mode::Auto, Allow), (Mode::Plan, Ask), (Mode::Deny, Deny)];
        for (mode, wanted) in if is_private { private } else { public } {
            let verdict = Policy::new(mode).decide("t", effects(), Path::new("/w"));
            assert_eq!(verdict.decision(), wanted, "{host} in {mode}");
        }
        let rule = format!("net {host}").parse().expect("a rule");
        let verdict = Policy::new(Mode::Plan).allow(rule).decide("t", effects(), Path::new("/w"));
        assert_eq!(verdict.decision(), Allow, "{host} by its rule");
    }
}

#[test]
fn command_runs_before_the_approval_if_its_changes_are_held() {
    use AskTime::{After, Before};
    use KeptChanges::{All, Asked, Nothing};
    let rule = |text: &str| text.parse::<Rule>().expect("a rule");
    let make = || Effects::from(Effect::Exec(CommandLine::words(["make"])));
    let job = || Effects::from(Effect::Exec(CommandLine::words(["make"]).as_job(true)));
    let opaque = || Effects::from(Effect::Exec(CommandLine::opaque("$x", "?")));
    let write = |path: &str| Effect::Write(PathPattern::file(path));
    let net = || Effect::Net { origin: "https://docs.rs".into(), method: "CONNECT".into() };
    let at = |level, network: &str, backend| {
        let network = network.parse().unwrap_or_default();
        Policy::new(Mode::Ask).with_confinement(Confinement { level, network, backend })
    };
    let whole = || Policy::new(Mode::Ask);
    let (namespaces, landlock) = (Backend::Namespaces, Backend::Landlock);
    for (policy, effects, when, keeps) in [
        (whole(), make(), After, Asked),
        (whole(), opaque(), After, Asked),
        (whole(), make().and(write("/w/out")), After, Asked),
        (whole(), make().and(write("/w/.git/hooks/pre-commit")), After, Asked),
        (whole(), make().and(write("/srv/out")), Before, Asked),
        (whole(), make().and(Effect::Read(PathPattern::file("/srv/in"))), Before, Asked),
        (whole(), make().and(net()), Before, All),
        (whole(), make().and(Effect::Secret("TOKEN".into())), Before, Asked),
        (whole(), Effects::from(write("/w/out")), Before, All),
        (whole(), job(), Before, All),
        (whole().asking_before(true), make(), Before, All),
        (whole().deny(rule("exec rm")), make(), After, Asked),
        (whole().deny(rule("exec rm")), opaque(), Before, Asked),
        (whole().with(Decision::Ask, rule("exec make")), make(), Before, All),
        (whole().allow(rule("exec make")), make(), Before, All),
        (at(SandboxLevel::Workspace, "full", namespaces), make(), Before, All),
        (at(SandboxLevel::Workspace, "docs.rs", namespaces), make(), Before, All),
        (at(SandboxLevel::Workspace, "none", landlock), make(), Before, All),
        (at(SandboxLevel::Off, "none", namespaces), make(), Before, All),
        (at(SandboxLevel::Staged, "none", namespaces), make(), After, Asked),
        (at(SandboxLevel::Discard, "none", namespaces), make(), Before, Nothing),
        (whole().with_mode(Mode::Plan), make().and(write("/w/out")), Before, Nothing),
        (whole().with_mode(Mode::Plan), job(), Before, Nothing),
    ] {
        let verdict = policy.decide("bash", effects, Path::new("/w"));
        let name = format!("{} {policy:?}", verdict.effects());
        assert_eq!((verdict.when(), verdict.keeps()), (when, keeps), "{name}");
        let is_first = policy.mode() == Mode::Ask && when == Before && keeps != Nothing;
        let is_ruled = policy.rules().iter().any(|one| one.decision == Decision::Allow);
        let asks = verdict.decision_to_run() == Decision::Ask;
        assert_eq!(asks, is_first && !is_ruled, "{name}");
        let yes = verdict.grant_by_person(DecidedBy::Beforehand);
        assert_eq!(yes.keeps(), if keeps == Nothing { Nothing } else { All }, "{name}");
    }
    // Without a sandbox, a plan runs nothing.
    let off = at(SandboxLevel::Off, "none", namespaces).with_mode(Mode::Plan);
    assert_eq!(off.decide("bash", make(), Path::new("/w")).decision(), Decision::Deny);
}

/// The hosts that a command connects to are not known before it runs.
#[test]
fn rules_about_hosts_bind_commands_with_an_open_network() {
    use Decision::{Allow, Ask};
    let command = |words: &str| Effects::from(Effect::Exec(CommandLine::words(words.split(' '))));
    for (mode, network, rule, command, wanted, permitted) in [
        (Mode::Auto, "full", None, command("make"), Allow, "full"),
        (Mode::Auto, "full", Some("net 127.0.0.1"), command("make"), Ask, "full"),
        (Mode::Yolo, "full", Some("net *.local"), command("make"), Ask, "full"),
        (Mode::Auto, "full", Some("net *"), command("make"), Allow, "none"),
        (Mode::Auto, "docs.rs,*.b.org", Some("net docs.rs"), command("make"), Allow, "*.b.org"),
        (Mode::Auto, "docs.rs", Some("net *.rs"), command("make"), Allow, "none"),
        (Mode::Auto, "docs.rs", Some("net docs.rs:443"), command("make"), Ask, "docs.rs"),
        (Mode::Auto, "*.b.org", Some("net a.b.org"), command("make"), Ask, "*.b.org"),
        (Mode::Auto, "*.b.org", Some("net c.org"), command("make"), Allow, "*.b.org"),
        (Mode::Plan, "full", None, command("make"), Ask, "full"),
        (Mode::Plan, "docs.rs", None, command("make"), Ask, "docs.rs"),
        (Mode::Plan, "none", None, command("make"), Allow, "none"),
    ] {
        let network: NetworkAccess = network.parse().expect("hosts");
        let confinement = Confinement { network: network.clone(), ..Confinement::default() };
        let mut policy = Policy::new(mode).with_confinement(confinement);
        policy = rule
            .into_iter()
            .fold(policy, |policy, rule: &str| policy.deny(rule.parse::<Rule>().expect("a rule")));
        let verdict = policy.decide("bash", command, Path::new("/w"));
        assert_eq!(verdict.decision_to_run(), wanted, "{mode} {network:?} {rule:?}");
        let left = policy.permitted_network(&network, None);
        assert_eq!(left, permitted.parse().expect("hosts"), "{mode} {network:?} {rule:?}");
    }
}

#[test]
fn command_that_waits_for_an_answer_changes_no_file_by_other_means() {
    let effects = Effects::from(Effect::Exec(CommandLine::words(["make"])))
        .and(Effect::Write(PathPattern::file("/w/out")));
    for (mode, may) in [(Mode::Ask, false), (Mode::Plan, false), (Mode::Auto, true)] {
        let verdict = Policy::new(mode).decide("t", effects.clone(), Path::new("/w"));
        let grant = verdict.grant().expect("it may run");
        assert_eq!(grant.may_write(Path::new("/w/out")), may, "{mode}");
    }
}

#[test]
fn refusal_says_what_would_allow_it() {
    let verdict = Policy::new(Mode::Ask).decide("write", Effects::write("/w/b"), Path::new("/w"));
    assert_eq!(verdict.refusal(), "not allowed: write /w/b (decided by mode ask)");
    assert_eq!(verdict.remedy().as_deref(), Some("to allow it: --allow 'write /w/b'"));
    let verdict =
        Policy::new(Mode::Yolo).decide("read", Effects::read("/w/key.pem"), Path::new("/w"));
    let remedy = verdict.remedy().expect("a name is no proof");
    assert!(remedy.contains("`not_secret`"), "{remedy}");
    let verdict = Policy::new(Mode::Yolo).decide("write", Effects::write("/"), Path::new("/w"));
    assert_eq!(verdict.remedy(), None, "nothing lifts it");
}
