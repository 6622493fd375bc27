//! Tests of the argument tables, and tests with real repositories.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out the repositories that the tool then works on"
)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::{
    CallResult, Confinement, Host, Mode, NetworkAccess, Outcome, Policy, SandboxLevel,
};
use windlass_host::{LocalHost, ProcessSettings};

use super::plan::GitPlan;
use super::{Args, verbs};
use crate::testing::Workspace;

fn plan(input: &Value) -> Result<GitPlan, String> {
    let args: Args =
        serde_json::from_value(input.clone()).unwrap_or_else(|error| panic!("{input}: {error}"));
    GitPlan::of(&args).map_err(|error| {
        let message = error.message();
        format!(
            "{}: {} {}",
            error.code(),
            message.text,
            message.hint.as_deref().unwrap_or_default()
        )
    })
}

/// Checks the executed words and whether the command is read-only, or the reason of the refusal.
fn check(command: &str, args: &[&str], expected: Result<(&str, bool), &str>) {
    let planned = plan(&json!({"command": command, "args": args}));
    match (planned, expected) {
        (Ok(plan), Ok((words, read_only))) => {
            assert_eq!((plan.command_line().text.as_str(), plan.read_only), (words, read_only));
        }
        (Err(error), Err(words)) => assert!(error.contains(words), "{command} {args:?}: {error}"),
        (planned, _) => panic!("git {command} {args:?}: {planned:?}"),
    }
}

#[test]
fn executed_words() {
    for (command, args, words, read_only) in [
        ("status", &[][..], "git status --ignore-submodules=dirty --short --branch", true),
        ("status", &["--long"], "git status --ignore-submodules=dirty --long", true),
        ("status", &["-uno"], "git status --ignore-submodules=dirty --short --branch -uno", true),
        ("log", &["-5"], "git log --no-ext-diff --no-textconv -5", true),
        ("log", &["-n", "5"], "git log --no-ext-diff --no-textconv -n5", true),
        (
            "log",
            &["--oneline"],
            "git log --no-ext-diff --no-textconv --max-count=30 --oneline",
            true,
        ),
        (
            "log",
            &["--since", "1 week", "-1"],
            "git log --no-ext-diff --no-textconv --since=1 week -1",
            true,
        ),
        (
            "log",
            &["-1", "a..b", "--", "x"],
            "git log --no-ext-diff --no-textconv -1 a..b -- x",
            true,
        ),
        ("show", &["HEAD:a.txt"], "git show --no-ext-diff --no-textconv HEAD:a.txt", true),
        (
            "diff",
            &["-wU3", "--stat", "HEAD~1"],
            "git diff --no-ext-diff --no-textconv --ignore-submodules=dirty -w -U3 --stat HEAD~1",
            true,
        ),
        ("add", &["-A"], "git add -A", false),
        ("add", &["a.txt"], "git add -- a.txt", false),
        ("commit", &["-am", "one -x"], "git commit -a -mone -x", false),
        ("commit", &["--message", "one"], "git commit --message=one", false),
        ("commit", &["--amend"], "git commit --amend --no-edit", false),
        ("branch", &[], "git branch", true),
        ("branch", &["-vv", "-a"], "git branch -v -v -a", true),
        ("branch", &["--list", "a*"], "git branch --list a*", true),
        ("branch", &["--merged"], "git branch --merged=HEAD", true),
        ("branch", &["--merged", "main"], "git branch --merged=main", true),
        ("branch", &["new"], "git branch new", false),
        ("branch", &["-D", "old"], "git branch -D old", false),
        ("branch", &["-m", "new"], "git branch -m new", false),
        ("checkout", &["-"], "git checkout -", false),
        ("checkout", &["-b", "new"], "git checkout -bnew", false),
        ("switch", &["-c", "new", "main"], "git switch -cnew main", false),
        ("stash", &[], "git stash push", false),
        ("stash", &["-u"], "git stash push -u", false),
        ("stash", &["list"], "git stash list --no-ext-diff --no-textconv", true),
        ("stash", &["show"], "git stash show --no-ext-diff --no-textconv --stat", true),
        ("stash", &["pop", "stash@{1}"], "git stash pop stash@{1}", false),
        ("restore", &["--staged", "a"], "git restore --staged -- a", false),
        ("blame", &["-L", "1,5", "a"], "git blame --no-textconv -L1,5 a", true),
        ("worktree", &[], "git worktree list", true),
        ("worktree", &["add", "-b", "x", "trees/x"], "git worktree add -bx trees/x", false),
    ] {
        check(command, args, Ok((words, read_only)));
    }
}

/// None of these options reaches git, in any form that git understands.
#[test]
fn options_that_run_programs_or_leave_the_repository_are_refused() {
    for (command, args) in [
        ("diff", &["--output=/tmp/x"][..]),
        ("diff", &["--output", "/tmp/x"]),
        ("diff", &["--outp=/tmp/x"]),
        ("log", &["--output=x"]),
        ("show", &["--output=x"]),
        ("diff", &["--ext-diff"]),
        ("log", &["--ext-diff", "-p"]),
        ("show", &["--textconv"]),
        ("diff", &["--no-index", "/etc/passwd", "/dev/null"]),
        ("diff", &["-O/etc/passwd"]),
        ("diff", &["-wO", "/etc/passwd"]),
        ("log", &["--show-signature"]),
        ("log", &["--remerge-diff"]),
        ("log", &["--diff-merges=remerge"]),
        ("log", &["-c", "core.pager=id"]),
        ("log", &["--config-env=core.pager=X"]),
        ("log", &["--exec-path=/tmp"]),
        ("log", &["--git-dir=/etc"]),
        ("log", &["-C/etc/../x", "--work-tree=/"]),
        ("log", &["--stdin"]),
        ("log", &["--paginate"]),
        ("diff", &["--submodule=diff"]),
        ("diff", &["--ignore-submodules=none"]),
        ("status", &["--ignore-submodules=none"]),
        ("status", &["-v"]),
        ("show", &["--exec=id"]),
        ("branch", &["--upload-pack=id"]),
        ("branch", &["--edit-description"]),
        ("branch", &["-u", "origin/main"]),
        ("commit", &["-m", "x", "-e"]),
        ("commit", &["-m", "x", "-S"]),
        ("commit", &["-m", "x", "-Skey"]),
        ("commit", &["-m", "x", "--gpg-sign=id"]),
        ("commit", &["-F", "/etc/passwd"]),
        ("commit", &["-t", "/etc/passwd", "-m", "x"]),
        ("commit", &["-m", "x", "--trailer=a:b"]),
        ("commit", &["-apm", "x"]),
        ("commit", &["-c", "HEAD"]),
        ("add", &["-p"]),
        ("add", &["-i"]),
        ("add", &["-Ae"]),
        ("add", &["--pathspec-from-file=/etc/passwd"]),
        ("checkout", &["--recurse-submodules"]),
        ("checkout", &["-p"]),
        ("checkout", &["--pathspec-from-file", "x"]),
        ("restore", &["-p"]),
        ("stash", &["push", "-p"]),
        ("stash", &["--pathspec-from-file=x"]),
        ("blame", &["--contents", "/etc/passwd", "a"]),
        ("blame", &["--contents=/etc/passwd", "a"]),
        ("blame", &["--ignore-revs-file=/etc/passwd", "a"]),
        ("blame", &["-S", "/etc/passwd", "a"]),
        ("worktree", &["list", "-z"]),
        ("diff", &["-"]),
        ("diff", &["--NUMBER"]),
        ("status", &["-5"]),
        ("diff", &["--end-of-options", "--output=x"]),
    ] {
        check(command, args, Err("takes no option"));
    }
}

#[test]
fn wrong_arguments_are_explained() {
    for (command, args, words) in [
        ("diff", &["--name-onyl"][..], "did you mean `--name-only`?"),
        ("stash", &["lst"], "did you mean `list`?"),
        ("stash", &["create"], "there is list, show, push"),
        ("log", &["-n"], "`-n` needs a value"),
        ("log", &["-n", "-p"], "looks like an option"),
        ("log", &["--since", "--all"], "write `--since=--all`"),
        ("log", &["--graph=x"], "takes no value"),
        ("log", &["--format=%G?"], "would run a program"),
        ("show", &["--pretty=%GG"], "would run a program"),
        ("commit", &[], "needs a `message`"),
        ("commit", &["-a"], "needs a `message`"),
        ("log", &["a\0b"], "NUL"),
        ("log", &[""], "empty"),
    ] {
        check(command, args, Err(words));
    }
    for (input, words) in [
        (json!({"command": "commit", "message": " "}), "empty"),
        (json!({"command": "commit", "message": "x", "args": ["-m", "y"]}), "two messages"),
        (json!({"command": "status", "message": "x"}), "only `commit` and `stash push`"),
    ] {
        let error = plan(&input).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn message_is_not_an_argument() {
    let message = "--amend\n\n`$(id)`";
    let plan =
        plan(&json!({"command": "commit", "message": message, "paths": ["a", "-b"]})).unwrap();
    assert_eq!(plan.command_line().text, "git commit --file=- -- a -b");
}

fn any_argument() -> impl Strategy<Value = String> {
    prop_oneof![
        "-{1,3}[a-zA-Z]{0,3}",
        "--(output|exec|no-index|config|ext-diff|stat|format|cached|oneline)(=.{0,3})?",
        "-[A-Za-z]{1,4}(=|[0-9]){0,2}",
        "[a-z~^:.@{}-]{0,6}",
        Just("--".to_owned()),
        Just("--end-of-options".to_owned()),
    ]
}

proptest! {
    /// For any arguments: an option that reaches git is in a table, and no other word looks like an option.
    #[test]
    fn every_option_that_reaches_git_is_in_a_table(
        at in 0..verbs::VERBS.len(),
        args in proptest::collection::vec(any_argument(), 0..5),
    ) {
        let verb = &verbs::VERBS[at];
        let (command, rest) = verb.name.split_once(' ').unwrap_or((verb.name, ""));
        let args: Vec<String> =
            Some(rest.to_owned()).filter(|rest| !rest.is_empty()).into_iter().chain(args).collect();
        let known = verb.option_spellings();
        if let Ok(plan) = plan(&json!({"command": command, "args": args})) {
            let words: Vec<String> =
                plan.argv().iter().map(|word| word.to_str().unwrap().to_owned()).collect();
            let options = words.iter().take_while(|word| *word != "--").filter(|word| word.len() > 1);
            for option in options.filter(|word| word.starts_with('-')) {
                let name = option.split('=').next().unwrap();
                let short: String = option.chars().take(2).collect();
                let is_ours = verb.fixed_options.split_whitespace().any(|word| word == option);
                let is_number = option[1..].bytes().all(|byte| byte.is_ascii_digit());
                let is_known = known.iter().any(|known| known == name || *known == short);
                prop_assert!(is_ours || is_number || is_known, "{option} in {words:?}");
                prop_assert!(!option.starts_with("--") || known.iter().any(|known| known == name) || is_ours);
            }
        }
    }
}

#[test]
fn no_table_has_a_name_twice() {
    for verb in verbs::VERBS {
        let mut names = verb.option_spellings();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "{}", verb.name);
    }
}

/// A workspace, usually with a repository in it.
struct TestRepository(Workspace);

/// A function that makes the settings for programs.
type SettingsFn = fn() -> ProcessSettings;

impl TestRepository {
    /// Makes a workspace with a repository that has one commit: `a.txt`, of one line.
    fn new() -> Self {
        Self::with(Mode::Auto, ProcessSettings::default)
    }

    /// Makes a workspace without a sandbox, in which programs started by git could do anything.
    fn unconfined() -> Self {
        Self::with(Mode::Auto, || ProcessSettings {
            confinement: Confinement {
                level: SandboxLevel::Off,
                network: NetworkAccess::Full,
                ..Confinement::default()
            },
            ..ProcessSettings::default()
        })
    }

    /// Makes a workspace with a repository and one commit, in this mode.
    fn with(mode: Mode, settings: SettingsFn) -> Self {
        let place = Self::open(tempfile::tempdir().unwrap(), mode, settings);
        place.init_repository(".");
        place.write("a.txt", "one\n");
        place.git(&["add", "a.txt"]);
        place.git(&["commit", "-q", "-m", "first"]);
        place
    }

    /// Opens a directory as a workspace.
    fn open(directory: tempfile::TempDir, mode: Mode, settings: SettingsFn) -> Self {
        let host = |local: LocalHost| Arc::new(local.with_processes(settings())) as Arc<dyn Host>;
        Self(Workspace::in_directory(directory, &[], host, Policy::new(mode)))
    }

    /// Makes a repository in a directory of the workspace.
    fn init_repository(&self, at: &str) {
        let directory = self.0.path(at);
        std::fs::create_dir_all(&directory).unwrap();
        init_repository(&directory);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn write(&self, name: &str, content: &str) {
        self.0.write(name, content);
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.0.read(name)).unwrap()
    }

    /// Makes a program that leaves a file when it is run.
    fn trap(&self, name: &str) -> String {
        let sprung = self.path("sprung");
        self.write(name, &format!("#!/bin/sh\ntouch '{}'\ncat 2>/dev/null\n", sprung.display()));
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        self.path(name).display().to_string()
    }

    /// Returns whether a trap program has been run.
    fn trap_was_run(&self) -> bool {
        self.path("sprung").exists()
    }

    /// Runs git as a person would.
    fn git(&self, args: &[&str]) -> String {
        run(&self.path("."), args)
    }

    fn call(&self, input: &Value) -> CallResult {
        self.0.call("git", input.clone())
    }

    /// Returns the text of a call that must succeed.
    fn ok(&self, input: &Value) -> String {
        self.ends(input, Outcome::Ok)
    }

    /// Returns the text of a call that must end with this outcome.
    fn ends(&self, input: &Value, outcome: Outcome) -> String {
        let result = self.call(input);
        assert_eq!(result.outcome, outcome, "{input}: {}", result.output.to_text());
        result.output.to_text()
    }
}

/// Makes a repository with one commit.
fn init_repository(directory: &Path) {
    run(directory, &["init", "-q", "-b", "main"]);
    for (key, value) in [("user.name", "Ann"), ("user.email", "ann@example.org")] {
        run(directory, &["config", key, value]);
    }
}

/// Makes a directory that confined programs can see outside of the workspace: they have their own `/tmp`.
fn visible_folder() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

/// Runs git without the precautions of the tool, and returns its exit status and output.
fn start(directory: &Path, args: &[&str]) -> std::process::Output {
    std::process::Command::new("git")
        .args(args)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git must be installed for these tests")
}

/// Runs git, which must succeed, and returns the printed text.
fn run(directory: &Path, args: &[&str]) -> String {
    let output = start(directory, args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {args:?}: {said}{failed}");
    said
}

#[test]
fn read_only_commands_need_only_read_permission() {
    let place = TestRepository::with(Mode::Plan, ProcessSettings::default);
    place.write("a.txt", "two\n");
    place.write("new.txt", "new\n");
    for (input, words) in [
        (json!({"command": "status"}), "## main\n M a.txt\n?? new.txt"),
        (json!({"command": "diff"}), "-one\n+two"),
        (json!({"command": "diff", "args": ["--stat"]}), "1 file changed"),
        (json!({"command": "diff", "args": ["HEAD"], "paths": ["a.txt", ":!new.txt"]}), "+two"),
        (json!({"command": "diff", "paths": ["*.rs"]}), "no differences"),
        (json!({"command": "log", "args": ["--format=%an %s"]}), "Ann first"),
        (json!({"command": "show", "args": ["HEAD:a.txt"]}), "one"),
        (json!({"command": "show", "args": ["--name-only", "HEAD"]}), "a.txt"),
        (json!({"command": "blame", "paths": ["a.txt"]}), "Not Committed Yet"),
        (json!({"command": "branch"}), "* main"),
        (json!({"command": "stash", "args": ["list"]}), "no stashes"),
        (json!({"command": "worktree", "args": ["list"]}), "[main]"),
    ] {
        let text = place.ok(&input);
        assert!(text.contains(words), "{input}: {text}");
    }
    for input in [
        json!({"command": "add", "args": ["-A"]}),
        json!({"command": "commit", "message": "x"}),
        json!({"command": "branch", "args": ["new"]}),
    ] {
        // In plan mode the command runs, but its changes are discarded.
        let text = place
            .ends(&input, if input["command"] == "commit" { Outcome::Error } else { Outcome::Ok });
        assert!(text.contains("nothing that git did in the repository is kept"), "{text}");
    }
    assert_eq!(place.git(&["status", "--short"]), " M a.txt\n?? new.txt\n");
}

#[test]
fn a_change_is_committed_and_can_be_undone() {
    let place = TestRepository::new();
    place.write("a.txt", "two\n");
    place.ok(&json!({"command": "add", "paths": ["a.txt"]}));
    assert_eq!(place.git(&["status", "--short"]), "M  a.txt\n");
    let text = place.ok(&json!({"command": "commit", "message": "second\n\n# not a comment\n"}));
    assert!(text.contains("second") && text.contains("1 file changed"), "{text}");
    assert_eq!(place.git(&["log", "--format=%B", "-1"]), "second\n\n# not a comment\n\n");
    let undone = place.0.call("undo", json!({}));
    assert_eq!(undone.outcome, Outcome::Ok, "{}", undone.output.to_text());
    assert_eq!(place.git(&["log", "--format=%s"]), "first\n");
    assert_eq!(place.git(&["status", "--short"]), "M  a.txt\n", "what was staged still is");
}

#[test]
fn branches_stashes_and_working_trees() {
    let place = TestRepository::new();
    place.ok(&json!({"command": "switch", "args": ["-c", "feature"]}));
    place.write("a.txt", "two\n");
    place.ok(&json!({"command": "commit", "args": ["-a"], "message": "on the branch"}));
    let result = place.call(&json!({"command": "checkout", "args": ["main"]}));
    assert_eq!(result.outcome, Outcome::Ok, "{}", result.output.to_text());
    assert_eq!(result.output.metadata["changed"][0]["path"], "a.txt", "and nothing of git's own");
    assert_eq!(result.output.metadata["exit_code"], 0);
    let diff = place.ok(&json!({"command": "diff", "args": ["main...feature", "--name-only"]}));
    assert_eq!(diff, "a.txt");
    place.write("a.txt", "three\n");
    place.ok(&json!({"command": "stash", "message": "for later"}));
    assert_eq!(place.text("a.txt"), "one\n");
    assert!(place.ok(&json!({"command": "stash", "args": ["list"]})).contains("for later"));
    assert!(place.ok(&json!({"command": "stash", "args": ["show"]})).contains("1 file changed"));
    assert!(place.ok(&json!({"command": "stash", "args": ["show", "-p"]})).contains("+three"));
    place.ok(&json!({"command": "stash", "args": ["pop"]}));
    assert_eq!(place.text("a.txt"), "three\n");
    place.ok(&json!({"command": "restore", "paths": ["a.txt"]}));
    assert_eq!(place.text("a.txt"), "one\n");
    place.ok(&json!({"command": "worktree", "args": ["add", "trees/feature", "feature"]}));
    assert_eq!(place.text("trees/feature/a.txt"), "two\n");
    place.ok(&json!({"command": "worktree", "args": ["remove", "trees/feature"]}));
    place.ok(&json!({"command": "branch", "args": ["-D", "feature"]}));
    let text = place.ok(&json!({"command": "branch", "args": ["-m", "trunk"]}));
    assert!(!text.contains("fatal"), "{text}");
    assert_eq!(place.git(&["branch"]), "* trunk\n");
}

#[test]
fn errors_of_git_are_shown() {
    let place = TestRepository::new();
    let text = place.ends(&json!({"command": "show", "args": ["nowhere"]}), Outcome::Error);
    assert!(text.contains("unknown revision") && text.contains("exit code 128"), "{text}");
    let result = place.call(&json!({"command": "commit", "message": "nothing"}));
    assert_eq!((result.outcome, &result.output.metadata["exit_code"]), (Outcome::Error, &json!(1)));
    place.write("a.txt", "two\n");
    let result = place.call(&json!({"command": "diff", "args": ["--quiet"]}));
    assert_eq!((result.outcome, &result.output.metadata["exit_code"]), (Outcome::Ok, &json!(1)));
    place.git(&["config", "user.name", ""]);
    let text =
        place.ends(&json!({"command": "commit", "args": ["-a"], "message": "x"}), Outcome::Error);
    assert!(text.contains("by a person"), "{text}");
}

#[test]
fn paths_outside_are_refused() {
    let place = TestRepository::new();
    for input in [
        json!({"command": "diff", "paths": ["/etc/passwd", "/dev/null"]}),
        json!({"command": "diff", "args": ["/etc/passwd", "/dev/null"]}),
        json!({"command": "diff", "args": ["--", "/etc/passwd", "/dev/null"]}),
        json!({"command": "diff", "args": ["../x", "a.txt"]}),
        json!({"command": "diff", "paths": ["a.txt", "x/../../y"]}),
        json!({"command": "diff", "paths": [":!/etc/passwd"]}),
        json!({"command": "add", "paths": ["/etc/passwd"]}),
        json!({"command": "worktree", "args": ["add", "../elsewhere"]}),
    ] {
        let text = place.ends(&input, Outcome::Fault);
        assert!(text.contains("outside of the workspace"), "{text}");
    }
    let text = place.ends(&json!({"command": "diff", "paths": [":(top)a"]}), Outcome::Fault);
    assert!(text.contains("is not a path"), "{text}");
}

#[test]
fn files_that_no_tool_may_see_have_no_history_either() {
    let place = TestRepository::new();
    place.write(".env", "KEY=hunter2\n");
    place.write(".aiexclude", "private/\n");
    place.write("private/plan.txt", "hunter2\n");
    place.git(&["add", "."]);
    place.git(&["commit", "-q", "-m", "secrets"]);
    for input in [
        json!({"command": "show", "args": ["HEAD:.env"]}),
        json!({"command": "show", "args": [":private/plan.txt"]}),
        json!({"command": "blame", "args": [".env"]}),
        json!({"command": "diff", "args": ["HEAD~1"], "paths": [".env"]}),
        json!({"command": "log", "args": ["-p", ".env"]}),
    ] {
        place.ends(&input, Outcome::Denied);
    }
    for input in [
        json!({"command": "show"}),
        json!({"command": "log", "args": ["-p"]}),
        json!({"command": "log", "args": ["-p", "--graph", "--oneline"]}),
        json!({"command": "diff", "args": ["HEAD~1"]}),
        json!({"command": "diff", "args": ["HEAD~1", "--word-diff", "--no-prefix"]}),
    ] {
        let text = place.ok(&input);
        assert!(!text.contains("hunter2"), "{input}: {text}");
        assert!(text.contains(".env") && text.contains("private/plan.txt"), "{input}: {text}");
    }
}

#[test]
fn missing_repository_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let place = TestRepository::open(folder, Mode::Auto, ProcessSettings::default);
    for input in [json!({"command": "status"}), json!({"command": "add", "args": ["-A"]})] {
        let text = place.ends(&input, Outcome::Error);
        assert!(text.contains("not in a git repository"), "{text}");
    }
}

/// A directory that looks like a bare repository is not taken for one.
#[test]
fn a_bare_repository_among_the_files_is_not_worked_in() {
    let outer = visible_folder();
    init_repository(outer.path());
    let place = TestRepository::open(
        tempfile::tempdir_in(outer.path()).unwrap(),
        Mode::Yolo,
        ProcessSettings::default,
    );
    place.write("HEAD", "ref: refs/heads/main\n");
    place.write("config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
    place.write("objects/", "");
    place.write("refs/", "");
    assert!(place.git(&["rev-parse", "--is-bare-repository"]).starts_with("true"));
    let text = place.ends(&json!({"command": "status"}), Outcome::Error);
    assert!(text.contains("safe.bareRepository"), "{text}");
}

/// A repository around the workspace is outside, so its use needs an approval.
#[test]
fn a_repository_around_the_workspace_is_outside() {
    let folder = visible_folder();
    run(folder.path(), &["init", "-q", "-b", "main"]);
    for (mode, outcome) in [(Mode::Auto, Outcome::Denied), (Mode::Yolo, Outcome::Ok)] {
        let inner = tempfile::tempdir_in(folder.path()).unwrap();
        let place = TestRepository::open(inner, mode, ProcessSettings::default);
        let text = place.ends(&json!({"command": "status"}), outcome);
        assert!(text.contains("read /") || text.contains("## No commits yet"), "{text}");
    }
}

#[test]
fn a_second_working_tree_is_a_workspace_too() {
    let folder = visible_folder();
    init_repository(folder.path());
    run(folder.path(), &["commit", "-q", "--allow-empty", "-m", "first"]);
    let tree = visible_folder();
    run(folder.path(), &["worktree", "add", "-q", "-b", "second", tree.path().to_str().unwrap()]);
    let other = TestRepository::open(tree, Mode::Yolo, ProcessSettings::default);
    assert!(other.ok(&json!({"command": "status"})).starts_with("## second"));
    assert!(other.ok(&json!({"command": "log", "args": ["--oneline"]})).contains("first"));
}

/// Even without a sandbox, programs that a repository configures are not run.
#[test]
fn programs_of_the_repository_are_not_run() {
    for (keys, input) in [
        (&["core.fsmonitor"][..], json!({"command": "status"})),
        (&["core.pager", "pager.log"], json!({"command": "log"})),
        (&["diff.external"], json!({"command": "diff"})),
        (&["diff.trap.command", "diff.trap.textconv"], json!({"command": "diff"})),
        (&["diff.trap.command", "diff.trap.textconv"], json!({"command": "log", "args": ["-p"]})),
        (&["diff.trap.textconv"], json!({"command": "show"})),
        (&["diff.trap.textconv"], json!({"command": "blame", "paths": ["a.txt"]})),
        (&["gpg.program"], json!({"command": "log"})),
        (
            &["core.editor", "sequence.editor"],
            json!({"command": "commit", "args": ["-a", "--amend"]}),
        ),
        (&["core.editor"], json!({"command": "commit", "args": ["-a", "--fixup=amend:HEAD"]})),
        (
            &["gpg.program", "user.signingKey"],
            json!({"command": "commit", "args": ["-a"], "message": "x"}),
        ),
        (&["core.sshCommand", "core.gitProxy"], json!({"command": "show", "args": ["HEAD"]})),
        (&["alias.status"], json!({"command": "status"})),
    ] {
        let place = TestRepository::unconfined();
        let trap = place.trap("trap");
        for key in keys {
            place.git(&["config", key, &trap]);
        }
        for key in ["log.showSignature", "commit.gpgSign", "commit.verbose"] {
            place.git(&["config", key, "true"]);
        }
        place.write(".gitattributes", "*.txt diff=trap\n");
        place.write("a.txt", "two\n");
        place.ok(&input);
        assert!(!place.trap_was_run(), "{keys:?} {input}");
    }
}

/// The traps of the tests above are sprung by a git without precautions.
#[test]
fn traps_are_sprung_without_precautions() {
    for (keys, args) in [
        (&["core.fsmonitor"][..], &["status"][..]),
        (&["diff.external"], &["diff"]),
        (&["diff.trap.command"], &["diff"]),
        (&["diff.trap.textconv"], &["log", "-p"]),
        (&["diff.trap.textconv"], &["blame", "a.txt"]),
        (&["gpg.program"], &["commit", "-S", "-am", "x"]),
        (&["core.editor"], &["commit", "-a", "--amend"]),
        (&["filter.trap.clean"], &["status"]),
    ] {
        let place = TestRepository::unconfined();
        let trap = place.trap("trap");
        for key in keys {
            place.git(&["config", key, &trap]);
        }
        place.write(".gitattributes", "*.txt diff=trap filter=trap\n");
        place.write("a.txt", "two\n");
        drop(start(&place.path("."), args));
        assert!(place.trap_was_run(), "{keys:?} {args:?}");
    }
}

#[test]
fn hooks_are_not_run() {
    let place = TestRepository::unconfined();
    for hook in [
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
    ] {
        place.trap(&format!(".git/hooks/{hook}"));
    }
    place.write("a.txt", "two\n");
    place.ok(&json!({"command": "commit", "args": ["-a"], "message": "x"}));
    place.ok(&json!({"command": "checkout", "args": ["-b", "new"]}));
    place.ok(&json!({"command": "worktree", "args": ["add", "tree"]}));
    place.ok(&json!({"command": "status"}));
    assert!(!place.trap_was_run());
    place.git(&["commit", "-q", "--allow-empty", "-m", "y"]);
    assert!(place.trap_was_run(), "the trap works");
}

/// Filters and merge drivers cannot be switched off, so the command is refused.
#[test]
fn filters_of_the_repository_are_a_reason_to_refuse() {
    for key in
        ["filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "merge.trap.driver"]
    {
        let place = TestRepository::unconfined();
        let trap = place.trap("trap");
        // The configuration includes another file, which `git config --local` would not show.
        place.write(".git/more", "");
        place.git(&["config", "--file", ".git/more", key, &trap]);
        place.git(&["config", "include.path", "more"]);
        place.write(".gitattributes", "*.txt filter=trap merge=trap\n");
        place.write("a.txt", "two\n");
        for input in [
            json!({"command": "status"}),
            json!({"command": "diff"}),
            json!({"command": "add", "args": ["-A"]}),
            json!({"command": "commit", "args": ["-a"], "message": "x"}),
            json!({"command": "checkout", "args": ["-b", "new"]}),
            json!({"command": "stash"}),
            json!({"command": "blame", "paths": ["a.txt"]}),
        ] {
            let text = place.ends(&input, Outcome::Error);
            assert!(text.contains(key) && text.contains("nothing was run"), "{text}");
        }
        place.ok(&json!({"command": "log", "args": ["-p"]}));
        assert!(!place.trap_was_run(), "{key}");
    }
}

#[test]
fn a_submodule_does_not_run_its_programs() {
    let place = TestRepository::unconfined();
    place.init_repository("sub");
    place.write("sub/b.txt", "one\n");
    run(&place.path("sub"), &["add", "b.txt"]);
    run(&place.path("sub"), &["commit", "-q", "-m", "sub"]);
    place.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", "./sub", "sub"]);
    place.git(&["commit", "-q", "-m", "with a submodule"]);
    let trap = place.trap("trap");
    for key in ["core.fsmonitor", "filter.trap.clean"] {
        run(&place.path("sub"), &["config", key, &trap]);
    }
    place.write("sub/.gitattributes", "*.txt filter=trap\n");
    place.write("sub/b.txt", "two\n");
    place.ok(&json!({"command": "status"}));
    place.ok(&json!({"command": "diff"}));
    assert!(!place.trap_was_run());
}

/// A repository cannot claim that its files are elsewhere.
#[test]
fn repository_cannot_move_its_working_tree() {
    let place = TestRepository::unconfined();
    let outside_paths = tempfile::tempdir().unwrap();
    std::fs::write(outside_paths.path().join("a.txt"), "hunter2\n").unwrap();
    place.git(&["config", "core.worktree", outside_paths.path().to_str().unwrap()]);
    for input in [json!({"command": "diff"}), json!({"command": "status"})] {
        let text = place.ok(&input);
        assert!(!text.contains("hunter2") && !text.contains("M a.txt"), "{text}");
    }
}

#[test]
fn missing_objects_are_not_fetched() {
    let place = TestRepository::unconfined();
    let trap = place.trap("trap");
    let blob = place.git(&["rev-parse", "HEAD:a.txt"]);
    let (directory, name) = blob.trim().split_at(2);
    std::fs::remove_file(place.path(".git/objects").join(directory).join(name)).unwrap();
    for (key, value) in [
        ("remote.origin.promisor", "true"),
        ("extensions.partialClone", "origin"),
        ("protocol.ext.allow", "always"),
        ("core.sshCommand", &trap),
    ] {
        place.git(&["config", key, value]);
    }
    for url in [format!("ext::{trap} x"), "ssh://host/x".to_owned()] {
        place.git(&["config", "remote.origin.url", &url]);
        place.ends(&json!({"command": "show", "args": ["HEAD:a.txt"]}), Outcome::Error);
        assert!(!place.trap_was_run(), "{url}");
    }
}

#[test]
fn names_of_every_kind() {
    let place = TestRepository::new();
    for name in ["café.txt", "two words.txt", "-dash.txt", ":colon.txt"] {
        place.write(name, "x\n");
    }
    place.ok(&json!({"command": "add", "paths": ["café.txt", "./-dash.txt", "two words.txt", "./:colon.txt"]}));
    let status = place.ok(&json!({"command": "status"}));
    assert!(status.contains("A  café.txt") && status.contains("two words.txt"), "{status}");
    let odd = place
        .path(".")
        .join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"caf\xe9"));
    std::fs::write(odd, "x").unwrap();
    place.ok(&json!({"command": "add", "paths": ["$'caf\\xe9'"]}));
    let staged = place.git(&["diff", "--cached", "--name-only"]);
    assert_eq!(
        staged,
        "-dash.txt\n:colon.txt\n\"caf\\303\\251.txt\"\n\"caf\\351\"\ntwo words.txt\n"
    );
}
