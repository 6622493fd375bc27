//! Rules about commands, modes, and the messages of refusals.

use serde_json::json;
use windlass::policy::{Decision, Policy};
use windlass::{Mode, Outcome, ToolCall};

use super::{explain, line};
use crate::support::{TestWorkspace, text};

fn policy(mode: Mode, rules: &[(Decision, &str)]) -> Policy {
    rules.iter().fold(Policy::new(mode), |policy, (decision, rule)| {
        policy.with(*decision, rule.parse().expect(rule))
    })
}

#[tokio::test]
async fn deny_rule_binds_every_spelling() {
    let test = TestWorkspace::new();
    let rules = [(Decision::Deny, "exec rm")];
    for command in [
        "rm x",
        "/bin/rm x",
        "/bin//rm x",
        "/bin/./rm x",
        "/usr/../bin/rm x",
        "/proc/self/root/bin/rm x",
        "../../../../../../bin/rm x",
        "\\rm x",
        "'r'm x",
        "command rm x",
        "env rm x",
        "env A=b rm x",
        "echo x | xargs rm",
        "find . -exec rm {} +",
        "ls; rm x",
        "ls && (cd a; nice rm x)",
        "sh -c 'rm x'",
        "timeout 5 env nice rm x",
        "sudo rm x",
        "if true; then rm x; fi",
        "rm $x",
        "echo $(rm x)",
        "for i in a; do rm $i; done",
        "! rm x",
        "{ rm x; } >f",
        "find . -delete",
        "git clean -fd",
        "unlink x",
        "x=rm; $x y",
        "A=b rm x",
        "env -S 'rm x'",
        "xargs -a f rm",
        "exec -a name rm",
        "flock f rm x",
        "unshare rm x",
        "watch rm x",
        "script -c 'rm x'",
        "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
        "setsid rm x",
        "busybox rm x",
        "parallel rm ::: x",
        "strace rm x",
        "ssh localhost rm x",
        "su -c 'rm x'",
        "runuser -u a rm x",
        "systemd-run rm x",
        "chroot / rm x",
        "nsenter -t 1 rm x",
        "bwrap --bind / / rm x",
        "git rebase -qx 'rm x'",
        "bash -lc 'rm x'",
    ] {
        for mode in [Mode::Ask, Mode::Auto, Mode::Yolo] {
            let verdict = explain(&test, policy(mode, &rules), command).await;
            assert_eq!(
                verdict.decision(),
                Decision::Deny,
                "{command} in {mode}: {:?}",
                line(&verdict)
            );
            assert_eq!(verdict.rule(), "deny exec rm");
        }
    }
    for command in [
        "$x",
        "eval rm x",
        "echo `rm x`",
        "$(echo rm) x",
        ". ./f",
        "bash f",
        "echo rm x | sh",
        "sh <<<'rm x'",
        "python3 -c 'import os'",
        "perl -e 1",
        "node -e 1",
        "vim -c '!rm x'",
        "gdb -ex 'shell rm x'",
        "git -c alias.x='!rm x' x",
        "git -c core.pager='rm x' log",
        "tar cf a b --checkpoint-action=exec='rm x'",
        "tar xf a --to-command='rm x'",
        "sed '1e rm x' f",
        "awk 'BEGIN{system(\"rm x\")}'",
        "PATH=. ls",
        "frobnicate x",
        "sudo --frob rm x",
    ] {
        let verdict = explain(&test, policy(Mode::Yolo, &rules), command).await;
        assert_eq!(verdict.decision(), Decision::Ask, "{command}");
    }
    for command in [
        "./rm x",
        "echo rm",
        "ls # rm x",
        "rmdir x",
        "cargo build",
        "make",
        "npm run rm",
        "A=1 cargo test",
        "for f in *.md; do wc -l \"$f\"; done",
    ] {
        let verdict = explain(&test, policy(Mode::Yolo, &rules), command).await;
        assert_eq!(verdict.decision(), Decision::Allow, "{command}");
    }
}

#[tokio::test]
async fn the_modes_decide_about_commands() {
    use Decision::{Allow, Ask, Deny};
    let test = TestWorkspace::outside_tmp(&[], |builder| builder);
    for (command, ask, auto, plan, deny, yolo) in [
        ("git status | head", Allow, Allow, Allow, Deny, Allow),
        ("cargo build", Ask, Allow, Allow, Deny, Allow),
        ("echo $x", Ask, Allow, Allow, Deny, Allow),
        ("ls > f", Ask, Allow, Allow, Deny, Allow),
        ("cat /etc/hostname", Allow, Allow, Allow, Deny, Allow),
        ("cat /srv/x", Ask, Ask, Deny, Deny, Allow),
        ("cat .env", Deny, Deny, Deny, Deny, Deny),
        ("cd d && cat ../.env", Deny, Deny, Deny, Deny, Deny),
        ("git show HEAD:.env", Deny, Deny, Deny, Deny, Deny),
        ("echo x > .git/hooks/pre-commit", Ask, Ask, Allow, Deny, Ask),
        ("cat nonsense/../../w*/?", Ask, Ask, Deny, Deny, Allow),
    ] {
        for (mode, wanted) in [
            (Mode::Ask, ask),
            (Mode::Auto, auto),
            (Mode::Plan, plan),
            (Mode::Deny, deny),
            (Mode::Yolo, yolo),
        ] {
            let verdict = explain(&test, policy(mode, &[]), command).await;
            assert_eq!(verdict.decision(), wanted, "{command} in {mode}: {}", verdict.refusal());
        }
    }
}

#[tokio::test]
async fn empty_or_invalid_command_is_refused_before_any_decision() {
    let test = TestWorkspace::new();
    for mode in [Mode::Ask, Mode::Auto, Mode::Plan, Mode::Deny, Mode::Yolo] {
        test.windlass.engine().set_policy(policy(mode, &[]));
        for (command, why) in [
            ("", "the command is empty"),
            (" \n", "the command is empty"),
            ("ls \0", "the command has a NUL character in it, which no program can be given"),
            ("echo '{{secret A}}'", "`{{secret A}}` cannot stand between single quotation marks"),
        ] {
            let call = ToolCall::new("bash", json!({"command": command}));
            let error = test.windlass.engine().explain(&test.session, call).await.unwrap_err();
            assert_eq!(error.code(), "invalid_args", "{command:?} in {mode}");
            assert!(error.message().text.starts_with(why), "{command:?} in {mode}: {error}");
        }
    }
}

#[tokio::test]
async fn refusal_names_the_part_and_a_rule_that_would_allow_it() {
    let test = TestWorkspace::new();
    let rules = [(Decision::Allow, "exec cargo test"), (Decision::Allow, "exec find")];
    for (command, because, remedy) in [
        ("cargo test && make all", "no rule allows `make all`", "--allow 'exec make all'"),
        (
            "find . -delete",
            "`-delete` in `find . -delete` removes what it finds",
            "--allow 'exec find . -delete'",
        ),
        (
            "npm i; pip list",
            "no rule allows `npm i`",
            "--allow 'exec npm i' --allow 'exec pip list'",
        ),
        (
            "make $x",
            "it expands a variable (at column 6)",
            "no rule can name the command itself: it expands a variable",
        ),
        ("cargo test > log", "", "--allow 'write "),
    ] {
        let verdict = explain(&test, policy(Mode::Ask, &rules), command).await;
        assert_eq!(verdict.decision(), Decision::Ask, "{command}");
        assert!(verdict.refusal().contains(because), "{}", verdict.refusal());
        let said = verdict.remedy().expect("a remedy");
        assert!(said.contains(remedy), "{said}");
        // The offered rule really allows it.
        if said.starts_with("to allow it") {
            let offered = said
                .split("--allow '")
                .skip(1)
                .map(|rule| rule.split('\'').next().expect("a rule"));
            let all: Vec<_> =
                rules.iter().copied().chain(offered.map(|rule| (Decision::Allow, rule))).collect();
            let verdict = explain(&test, policy(Mode::Ask, &all), command).await;
            assert_eq!(verdict.decision(), Decision::Allow, "{command} with {said}");
        }
    }
}

#[tokio::test]
async fn read_only_command_can_change_no_file() {
    let test = TestWorkspace::with(&[("f", "x\n")]);
    test.windlass.engine().set_policy(policy(Mode::Ask, &[]));
    let result = test.call("bash", serde_json::json!({"command": "cat f nope; ls; cat f/x"})).await;
    assert_eq!(result.outcome, Outcome::Error, "{}", text(&result));
    assert!(
        text(&result).starts_with("x\n") && text(&result).contains("No such file"),
        "{}",
        text(&result)
    );
    // A program of the same name in the workspace is a different one.
    test.put("ls", "#!/bin/sh\ntouch CANARY\n");
    let made = test.call("bash", serde_json::json!({"command": "sh ./ls"})).await;
    assert_eq!(made.outcome, Outcome::Denied, "{}", text(&made));
    assert!(!test.path("CANARY").exists());
}

#[tokio::test]
async fn rule_for_a_command_allows_its_changes_in_the_workspace() {
    use Decision::{Allow, Ask, Deny};
    let test = TestWorkspace::new();
    let touch = (Allow, "exec touch");
    for (rules, command, wanted) in [
        (&[touch][..], "touch a", Allow),
        (&[touch], "touch /srv/a", Ask),
        (&[touch], "touch /etc/a", Deny),
        (&[touch], "touch .env", Deny),
        (&[touch], "touch a > b", Ask),
        (&[touch, (Allow, "exec echo")], "touch a; echo x > a", Ask),
        (&[touch, (Allow, "write b")], "touch a > b", Allow),
        (&[touch, (Deny, "write a")], "touch a", Deny),
        (&[(Allow, "write a")], "touch a", Ask),
    ] {
        let verdict = explain(&test, policy(Mode::Ask, rules), command).await;
        assert_eq!(verdict.decision(), wanted, "{command} with {rules:?}: {}", verdict.refusal());
    }
}
