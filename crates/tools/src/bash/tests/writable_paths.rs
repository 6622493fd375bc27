//! Tests of the paths that a command or job can change, on the real machine: build directories, the workspace of a job,
//! directories above a denied path.
#![expect(clippy::disallowed_methods, reason = "tests look at what programs did to the machine")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use windlass_core::{CallResult, Confinement, Host, Mode, Outcome, Policy, SandboxLevel};
use windlass_host::{LocalHost, ProcessSettings};

use crate::testing::Workspace;

const PROJECT: &[(&str, &str)] = &[
    (".gitignore", "target\nnode_modules\n"),
    ("src/main.c", "main\n"),
    ("docs/infra/key.md", "key\n"),
    ("docs/a.md", "a\n"),
    ("target/debug/app", "old\n"),
    ("target/keep/x", "kept\n"),
    ("node_modules/left/index.js", "left\n"),
    ("sub/.envrc", "export A=1\n"),
    ("sub/x", "x\n"),
];

fn workspace(level: SandboxLevel, policy: Policy) -> Workspace {
    let host = move |local: LocalHost| {
        let confinement = Confinement { level, ..Confinement::default() };
        let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
        Arc::new(local.with_processes(settings)) as Arc<dyn Host>
    };
    Workspace::with_policy(PROJECT, host, policy)
}

fn auto() -> Policy {
    Policy::new(Mode::Auto)
}

fn run(workspace: &Workspace, command: &str) -> CallResult {
    workspace.call("bash", json!({"command": command}))
}

/// Runs a script as a job to its end. Returns its printed text, the notes and the output of the call. A command that names the files
/// that it writes would be decided on before it runs, so they are in a script.
fn run_job(workspace: &Workspace, script: &str) -> String {
    workspace.write("script", script);
    let result = workspace.call("bash", json!({"command": "sh script", "background": true}));
    assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
    let job = workspace.session().all_jobs().pop().expect("a job");
    let end = workspace.block_on(job.wait());
    let notes =
        end.changed.as_ref().map_or_else(ToString::to_string, |changed| changed.notes.join("\n"));
    let printed = String::from_utf8_lossy(&job.since(0, 10_000).bytes).into_owned();
    format!("{printed}\n{notes}\n{}", result.output.to_text())
}

#[test]
fn build_directories_are_removed_renamed_and_made_anew() {
    for (command, there, gone) in [
        (
            "rm -rf node_modules && mkdir node_modules && echo x > node_modules/new",
            "node_modules/new",
            "node_modules/left",
        ),
        ("rm -rf target", "src/main.c", "target"),
        ("mv target/debug target/release", "target/release/app", "target/debug"),
        (
            "mkdir -p app/node_modules/x && echo y > app/node_modules/x/y",
            "app/node_modules/x/y",
            "none",
        ),
    ] {
        let workspace = workspace(SandboxLevel::Workspace, auto());
        let result = run(&workspace, command);
        assert_eq!(result.outcome, Outcome::Ok, "{command}: {}", result.output.to_text());
        assert!(workspace.path(there).exists() && !workspace.path(gone).exists(), "{command}");
    }
}

#[test]
fn only_written_build_directories_are_reported() {
    let workspace = workspace(SandboxLevel::Workspace, auto());
    let text = run(&workspace, "cat target/debug/app node_modules/left/index.js; echo x > new");
    assert!(!text.output.to_text().contains("history"), "{}", text.output.to_text());
    let text = run(&workspace, "echo new > target/debug/app").output.to_text();
    assert!(text.contains("kept without history, which cannot be undone: target/"), "{text}");
    assert_eq!(workspace.read("target/debug/app"), b"new\n");
}

#[test]
fn rules_hold_in_build_directories() {
    let deny = |rule: &str| auto().deny(rule.parse().unwrap());
    for (rule, command, is_denied) in [
        ("write target/**", "echo x > target/debug/app", true),
        ("write target/keep/**", "echo x > target/keep/x", true),
        ("write target/keep/**", "rm -rf target", true),
        ("write target/keep/**", "rm -rf target; mkdir target", true),
        ("write target/keep/**", "echo x > target/debug/app", false),
        ("write target/new/*.o", "mkdir target/new; echo x > target/new/a.o", true),
        ("write **", "echo x > target/new", true),
        ("write **", "cat target/debug/app", false),
    ] {
        let workspace = workspace(SandboxLevel::Workspace, deny(rule));
        let result = run(&workspace, command);
        let expected = if is_denied { Outcome::Denied } else { Outcome::Ok };
        assert_eq!(result.outcome, expected, "{rule}: {command}: {}", result.output.to_text());
        if is_denied {
            assert_eq!(workspace.read("target/keep/x"), b"kept\n", "{rule}: {command}");
            assert_eq!(workspace.read("target/debug/app"), b"old\n", "{rule}: {command}");
            assert!(!workspace.path("target/new").exists(), "{rule}: {command}");
        }
    }
}

#[test]
fn changes_of_a_staged_build_directory_need_approval() {
    let workspace = workspace(SandboxLevel::Staged, auto());
    let result = run(&workspace, "echo x > target/debug/app; rm -rf node_modules");
    let text = result.output.to_text();
    assert_eq!(result.outcome, Outcome::Denied, "{text}");
    assert!(text.contains("changed the build directory target/"), "{text}");
    assert!(text.contains("changed the build directory node_modules/"), "{text}");
    assert_eq!(workspace.read("target/debug/app"), b"old\n");
    assert!(workspace.path("node_modules/left/index.js").exists());
}

#[test]
fn a_deny_rule_covers_the_directories_above_its_path() {
    for command in [
        "rm -rf docs",
        "rm -r docs/infra",
        "mv docs papers",
        "find docs -delete",
        "python3 -c 'import shutil; shutil.rmtree(\"docs\")'",
        "cp -r docs papers && rm -rf docs",
    ] {
        let policy = auto().deny("write docs/infra/**".parse().unwrap());
        let workspace = workspace(SandboxLevel::Workspace, policy);
        let result = run(&workspace, command);
        assert_eq!(result.outcome, Outcome::Denied, "{command}: {}", result.output.to_text());
        assert_eq!(workspace.read("docs/infra/key.md"), b"key\n", "{command}");
        assert_eq!(workspace.read("docs/a.md"), b"a\n", "{command}: all or nothing");
        assert!(!workspace.path("papers").exists(), "{command}: all or nothing");
    }
}

#[test]
fn a_job_changes_only_what_rules_allow() {
    let allow = |rule: &str| {
        let policy = Policy::new(Mode::Ask).allow("exec sh script".parse().unwrap());
        policy.allow(rule.parse().unwrap())
    };
    let deny = |rule: &str| auto().deny(rule.parse().unwrap());
    for (policy, path, is_changed) in [
        (auto(), "src/main.c", true),
        (auto(), "new", true),
        (auto(), "target/debug/app", true),
        (auto(), "sub/.envrc", false),
        (deny("write **"), "src/main.c", false),
        (deny("write **"), "target/debug/app", false),
        (deny("write docs/**"), "docs/a.md", false),
        (deny("write docs/**"), "src/main.c", true),
        (deny("write docs/infra/*.md"), "docs/infra/key.md", false),
        (deny("write absent/**"), "absent", false),
        (deny("write **/*.c"), "src/main.c", false),
        (allow("write src/**"), "src/main.c", true),
        (allow("write src/**"), "docs/a.md", false),
        (allow("write src/**"), "target/debug/app", true),
    ] {
        let workspace = workspace(SandboxLevel::Workspace, policy);
        let before = fs::read(workspace.path(path)).ok();
        workspace.write("script", format!("echo changed > {path}"));
        let result = workspace.call("bash", json!({"command": "sh script", "background": true}));
        if result.outcome == Outcome::Ok {
            let job = workspace.session().all_jobs().pop().expect("a job");
            workspace.block_on(job.wait());
        }
        let after = fs::read(workspace.path(path)).ok();
        let expected = if is_changed { Some(b"changed\n".to_vec()) } else { before };
        assert_eq!(after, expected, "{path}: {}", result.output.to_text());
    }
}

#[test]
fn protected_paths_that_a_job_creates_are_removed() {
    for (command, planted) in [
        ("mkdir .husky; echo evil > .husky/pre-commit", ".husky"),
        ("echo evil > .envrc", ".envrc"),
        ("mkdir -p sub/.claude; echo evil > sub/.claude/settings.json", "sub/.claude"),
        ("mkdir n; cd n; git init -q .; git config core.fsmonitor ./evil", "n/.git/config"),
        ("mkdir .windlass; echo x > .windlass/config.toml", ".windlass"),
    ] {
        let workspace = workspace(SandboxLevel::Workspace, auto());
        let said = run_job(&workspace, command);
        assert!(!workspace.path(planted).exists(), "{command}: {said}");
        assert!(said.contains(&format!("removed {planted}")), "{command}: {said}");
        // The file is in the undo history, and a person is asked before it is restored.
        let undo = workspace.text("undo", json!({"dry_run": true}));
        assert!(undo.contains(planted), "{command}: {undo}");
    }
}

#[test]
fn a_protected_path_is_removed_while_the_job_runs() {
    let workspace = workspace(SandboxLevel::Workspace, auto());
    let command =
        "sh -c 'echo evil > .envrc; while test -e .envrc; do sleep 0.05; done; echo gone'";
    let said = run_job(&workspace, command);
    assert!(said.starts_with("gone\n"), "{said}");
    assert!(said.contains("removed .envrc"), "{said}");
}

#[test]
fn files_of_another_call_stay_while_a_job_runs() {
    let workspace = workspace(SandboxLevel::Workspace, Policy::new(Mode::Yolo));
    let input =
        json!({"command": "sh -c 'while ! test -e stop; do sleep 0.05; done'", "background": true});
    workspace.call("bash", input);
    let made = workspace.call("write", json!({"path": "inert", "content": "x"}));
    assert_eq!(made.outcome, Outcome::Ok);
    run(&workspace, "git init -q made");
    fs::write(workspace.path("stop"), "").unwrap();
    let job = workspace.session().all_jobs().pop().expect("a job");
    workspace.block_on(job.wait());
    assert!(workspace.path("made/.git/config").exists() && workspace.path("inert").exists());
}

#[test]
fn a_staged_job_leaves_the_workspace_unchanged() {
    let workspace = workspace(SandboxLevel::Staged, auto());
    let input = json!({"command": "sh -c 'echo x > src/main.c; sleep 0.5'", "background": true});
    let text = workspace.text("bash", input);
    assert!(text.contains("later edits do not reach it"), "{text}");
    let job = workspace.session().all_jobs().pop().expect("a job");
    let end = workspace.block_on(job.wait());
    assert!(end.changed.is_err(), "no attendant approved the changes");
    assert_eq!(workspace.read("src/main.c"), b"main\n");
}

#[test]
fn git_directories_are_read_only_for_jobs() {
    let workspace = workspace(SandboxLevel::Workspace, auto());
    run(
        &workspace,
        "git init -q . && git add src && git -c user.name=x -c user.email=x@x commit -q -m x",
    );
    let said = run_job(
        &workspace,
        "echo ../evil > .git/commondir; echo x > .git/hooks/x; git status --short",
    );
    assert!(!workspace.path(".git/commondir").exists(), "{said}");
    assert!(!workspace.path(".git/hooks/x").exists(), "{said}");
    assert!(said.contains("docs/"), "git can be read: {said}");
}

#[test]
fn a_failed_git_command_in_a_job_is_explained() {
    let workspace = workspace(SandboxLevel::Workspace, auto());
    run(&workspace, "git init -q .");
    for (command, path) in [
        ("git add src", ".git/index.lock"),
        ("git config user.name x", ".git/config"),
        ("echo x > .git/description", ".git/description"),
    ] {
        let input = json!({"command": command, "background": true});
        let result = workspace.call("bash", input);
        let job = workspace.session().all_jobs().pop().expect("a job");
        workspace.block_on(job.wait());
        let told = workspace.text("output", json!({"job": job.id().as_str(), "cursor": 0}));
        for text in [result.output.to_text(), told] {
            let is_told = text.contains(path) && text.contains("run the git command without");
            assert!(is_told, "{command}: {text}");
        }
    }
    // A command can change the repository, so it gets no such advice.
    let text = run(&workspace, "git add src && git add missing").output.to_text();
    assert!(!text.contains("background"), "{text}");
}

/// Files that git's configuration names act like hooks.
#[test]
fn a_job_cannot_change_files_that_git_config_names() {
    let workspace = workspace(SandboxLevel::Workspace, auto());
    for path in ["inc.cfg", "githooks/pre-commit", "tools/clean.sh", "tools/other"] {
        workspace.write(path, "");
    }
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        let done = command.arg("-C").arg(workspace.path("")).args(arguments).status();
        assert!(done.unwrap().success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    git(&["config", "include.path", "../inc.cfg"]);
    git(&["config", "core.hooksPath", "githooks"]);
    git(&["config", "filter.f.clean", "sh tools/clean.sh"]);
    let said = run_job(
        &workspace,
        "for f in inc.cfg githooks/pre-commit githooks/new tools/clean.sh tools/other; do echo x > $f; done",
    );
    for path in ["inc.cfg", "githooks/pre-commit", "tools/clean.sh"] {
        assert_eq!(workspace.read(path), b"", "{path}: {said}");
    }
    assert!(!workspace.path("githooks/new").exists(), "{said}");
    assert_eq!(workspace.read("tools/other"), b"x\n", "{said}");
}

/// A moved secret would be at a path that no mask of another command covers.
#[test]
fn a_job_cannot_move_a_directory_that_holds_a_secret() {
    let workspace = workspace(SandboxLevel::Workspace, auto());
    workspace.write("sub/deep/id_rsa", "canary");
    let said = run_job(&workspace, "mv sub sub9; mv sub/deep deep9; mv src src9");
    assert!(
        workspace.path("sub/deep/id_rsa").exists() && workspace.path("src9").exists(),
        "{said}"
    );
}

#[test]
fn file_modes_do_not_hide_files_of_a_job() {
    for script in [
        "mkdir -p docs/.husky; echo evil > docs/.husky/pre-commit; chmod 555 docs/.husky",
        "mkdir -p docs/.husky; echo evil > docs/.husky/pre-commit; chmod 311 docs/.husky docs",
    ] {
        let workspace = workspace(SandboxLevel::Workspace, auto());
        let said = run_job(&workspace, script);
        assert!(!workspace.path("docs/.husky").exists(), "{script}: {said}");
        assert!(said.contains("removed docs/.husky"), "{script}: {said}");
    }
}

/// A symlink at a protected path must be protected with its target: a job that replaced either would decide what other programs run.
#[test]
fn a_protected_path_may_be_a_symlink() {
    use std::os::unix::fs::symlink;
    for (link, target, inside) in [
        (".husky", "tools/husky", "pre-commit"),
        (".vscode", "conf/editor", "tasks.json"),
        (".envrc", "conf/envrc", ""),
        (".git", "repository", "hooks/pre-commit"),
        ("sub/.claude", "../conf/claude", "settings.json"),
        (".devcontainer", "hop", "devcontainer.json"),
    ] {
        let workspace = workspace(SandboxLevel::Workspace, auto());
        fs::create_dir_all(workspace.path("sub")).unwrap();
        symlink("conf/devcontainer", workspace.path("hop")).unwrap();
        let real = match link {
            ".devcontainer" => "conf/devcontainer".to_owned(),
            _ => target.trim_start_matches("../").to_owned(),
        };
        let file = if inside.is_empty() { real.clone() } else { format!("{real}/{inside}") };
        workspace.write(&file, "kept");
        symlink(target, workspace.path(link)).unwrap();
        let script = format!(
            "echo evil > {link}/{inside}; echo evil > {file}; rm -f {link}; mv {link} away; rm hop; mv {real} gone; \
             ln -sfn elsewhere {link}; rm -rf {real}; echo ran > src/main.c"
        );
        let said = run_job(&workspace, &script);
        assert_eq!(workspace.read("src/main.c"), b"ran\n", "{link}: {said}");
        assert_eq!(workspace.read(&file), b"kept", "{link}: {said}");
        assert_eq!(
            fs::read_link(workspace.path(link)).unwrap(),
            Path::new(target),
            "{link}: {said}"
        );
    }
}

/// A protected symlink may lead out of the workspace, to a missing path or to itself.
#[test]
fn a_job_starts_beside_a_dangling_protected_symlink() {
    for target in ["/nonexistent", "missing", ".husky", "..", "."] {
        let workspace = workspace(SandboxLevel::Workspace, auto());
        std::os::unix::fs::symlink(target, workspace.path(".husky")).unwrap();
        let said = run_job(&workspace, "rm -f .husky; echo ran > src/main.c");
        assert_eq!(workspace.read("src/main.c"), b"ran\n", "{target}: {said}");
        let now = fs::read_link(workspace.path(".husky")).unwrap();
        assert_eq!(now, Path::new(target), "{said}");
    }
}

/// The changes of a command are kept or dropped as a whole, also if a job replaces a build directory meanwhile. Both share `/tmp`.
#[test]
fn a_replaced_build_directory_drops_all_changes_of_the_command() {
    for (replace, is_kept) in [
        ("mv target old; ln -s old target", false),
        ("mv target old; echo file > target", false),
        ("echo more > target/keep/y", true),
    ] {
        let workspace = workspace(SandboxLevel::Workspace, auto());
        let wait = |name: &str| format!("while ! test -e /tmp/{name}; do sleep 0.01; done");
        workspace.write("script", format!("{}; {replace}; touch /tmp/replaced", wait("ready")));
        workspace.call("bash", json!({"command": "sh script", "background": true}));
        let command = format!(
            "echo new > target/debug/new; echo new > src/main.c; touch /tmp/ready; {}",
            wait("replaced")
        );
        let result = run(&workspace, &command);
        let said = result.output.to_text();
        assert_eq!(result.outcome == Outcome::Ok, is_kept, "{replace}: {said}");
        let expected: &[u8] = if is_kept { b"new\n" } else { b"main\n" };
        assert_eq!(workspace.read("src/main.c"), expected, "{replace}: {said}");
        if is_kept {
            assert_eq!(workspace.read("target/debug/new"), b"new\n", "{said}");
            assert_eq!(workspace.read("target/keep/y"), b"more\n", "{said}");
        } else {
            assert!(said.contains("stale") && said.contains("target"), "{replace}: {said}");
            assert_eq!(workspace.read("old/debug/app"), b"old\n", "{said}");
        }
    }
}
