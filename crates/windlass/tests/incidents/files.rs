//! I-17 to I-33: paths that led outside, gaps in the sandbox, and lost work.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use windlass::policy::Decision;
use windlass::process::SandboxLevel;
use windlass::{Mode, Outcome, Undo};

use super::{
    at_level, bash_arguments, decide, directory_outside_tmp, workspace_in_mode,
    workspace_in_mode_ask, workspace_outside_tmp,
};
use crate::support::{TestWorkspace, text};

/// Returns calls that would read or change the file at a path.
fn calls_on_path(path: &str) -> Vec<(&'static str, Value)> {
    let patch = format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n");
    vec![
        ("read", json!({"path": path})),
        ("write", json!({"path": path, "content": "mine\n"})),
        ("edit", json!({"path": path, "old_string": "hush", "new_string": "mine"})),
        ("patch", json!({"patch": patch})),
        ("grep", json!({"pattern": "hush", "path": path})),
    ]
}

/// Checks that no call can read or change the file through this path, or show its content.
async fn assert_out_of_reach(test: &TestWorkspace, path: &str, file: &Path) {
    for (tool, input) in calls_on_path(path) {
        let result = test.call(tool, input).await;
        assert_eq!(result.outcome, Outcome::Denied, "{tool} {path}: {}", text(&result));
        assert!(!text(&result).contains("hush"), "{tool} {path}");
        assert_eq!(fs::read_to_string(file).unwrap(), "hush\n", "{tool} {path}");
    }
}

#[tokio::test]
async fn i_17_directory_with_the_workspace_as_name_prefix_is_outside() {
    let test = workspace_outside_tmp(Mode::Auto, &[], &["read .", "write ."]);
    let evil = test.parent_directory().join("work_evil");
    fs::create_dir(&evil).unwrap();
    fs::write(evil.join("file"), "hush\n").unwrap();
    let absolute = evil.join("file").display().to_string();
    for path in ["../work_evil/file", "./../work_evil/file", &absolute] {
        assert_out_of_reach(&test, path, &evil.join("file")).await;
    }
    let free = workspace_outside_tmp(Mode::Yolo, &[], &[]);
    fs::write(free.parent_directory().join("work_evil"), "hush\n").unwrap();
    assert!(text(&free.call_ok("read", json!({"path": "../work_evil"})).await).contains("hush"));
}

#[tokio::test]
async fn i_18_link_that_leads_out_is_outside() {
    let test = workspace_outside_tmp(Mode::Auto, &[("d/", "")], &[]);
    let file = test.parent_directory().join("file");
    fs::write(&file, "hush\n").unwrap();
    symlink(&file, test.path("link")).unwrap();
    symlink(test.parent_directory(), test.path("directory")).unwrap();
    symlink("../..", test.path("d/up")).unwrap();
    symlink("link", test.path("twice")).unwrap();
    for path in ["link", "directory/file", "d/up/file", "twice", "d/../link"] {
        assert_out_of_reach(&test, path, &file).await;
    }
    let found = text(&test.call("grep", json!({"pattern": "hush", "all": true})).await);
    assert!(!found.contains("hush"), "{found}");
}

/// The same mistake as I-17, in a rule.
#[tokio::test]
async fn i_19_rule_for_a_directory_does_not_match_names_with_that_prefix() {
    let files = [("docs/a", ""), ("docs_evil/a", ""), ("docs.bak", "")];
    for rule in ["write docs", "write docs/", "write docs/**"] {
        let test = workspace_in_mode_ask(&files, &[rule]);
        for (path, decision) in [
            ("docs/new", Decision::Allow),
            ("docs/deep/new", Decision::Allow),
            ("docs_evil/new", Decision::Ask),
            ("docs.bak", Decision::Ask),
            ("docs/../new", Decision::Ask),
            ("docs/../docs_evil/new", Decision::Ask),
            ("Docs/new", Decision::Ask),
        ] {
            let input = json!({"path": path, "content": ""});
            assert_eq!(decide(&test, "write", input).await, decision, "{rule}: {path}");
        }
    }
}

#[tokio::test]
async fn i_20_deny_rule_binds_a_file_under_any_name() {
    let files = [("private/file", "hush\n"), ("open", "open\n")];
    let test = TestWorkspace::with_builder(&files, |builder| {
        builder.deny("read private/**".parse().unwrap()).deny("write private/**".parse().unwrap())
    });
    let file = test.path("private/file");
    symlink("private/file", test.path("alias")).unwrap();
    symlink("private", test.path("folder")).unwrap();
    symlink(&file, test.path("absolute")).unwrap();
    for path in ["private/file", "alias", "folder/file", "absolute", "private/../private/file"] {
        assert_out_of_reach(&test, path, &file).await;
    }
    let found = text(&test.call_ok("grep", json!({"pattern": "hush|open", "all": true})).await);
    assert!(found.contains("open:1") && !found.contains("hush"), "{found}");
    let excluded = [(".aiexclude", "hidden\n"), ("hidden", "hush\n"), (".env", "hush\n")];
    let test = workspace_in_mode(Mode::Yolo, &excluded, &[]);
    for hidden in ["hidden", ".env"] {
        let link = format!("to-{hidden}");
        symlink(hidden, test.path(&link)).unwrap();
        assert_out_of_reach(&test, &link, &test.path(hidden)).await;
    }
}

#[tokio::test]
async fn i_21_link_made_by_a_program_is_not_followed_out() {
    let test = workspace_outside_tmp(Mode::Auto, &[("d/file", "inside\n")], &[]);
    let file = test.parent_directory().join("file");
    fs::write(&file, "hush\n").unwrap();
    let outside = test.parent_directory().display();
    // The policy cannot know the link's target beforehand.
    let make = format!("o=$(echo {outside}); ln -s $o/file link; rm -r d; ln -s $o d");
    test.call_ok("bash", bash_arguments(&make)).await;
    assert_eq!(fs::read_link(test.path("d")).unwrap(), test.parent_directory(), "it shows nothing");
    for path in ["link", "d/file"] {
        assert_out_of_reach(&test, path, &file).await;
    }
}

/// The same while another thread switches the link between inside and outside as fast as possible.
#[tokio::test]
async fn i_21_link_changed_during_a_call_is_not_followed_out() {
    let test = workspace_outside_tmp(Mode::Auto, &[("inside/file", "inside x\n")], &[]);
    let file = test.parent_directory().join("file");
    fs::write(&file, "hush x\n").unwrap();
    let (directory, next) = (test.path("d"), test.path("next"));
    let outside = test.parent_directory().to_owned();
    symlink("inside", &directory).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let swapping = std::thread::spawn(move || {
        let mut swaps = 0;
        while !is_done.load(Ordering::Relaxed) {
            for target in [&*outside, Path::new("inside")] {
                symlink(target, &next).unwrap();
                fs::rename(&next, &directory).unwrap();
            }
            swaps += 1;
        }
        swaps
    });
    for _ in 0..200 {
        let read = test.call("read", json!({"path": "d/file"})).await;
        assert!(!text(&read).contains("hush"), "{}", text(&read));
        for (old, new) in [("x", "y"), ("y", "x")] {
            let edit = json!({"path": "d/file", "old_string": old, "new_string": new});
            test.call("edit", edit).await;
        }
    }
    done.store(true, Ordering::Relaxed);
    let swaps = swapping.join().unwrap();
    assert!(swaps > 100, "only {swaps} swaps: it shows nothing");
    assert_eq!(fs::read_to_string(&file).unwrap(), "hush x\n");
}

#[tokio::test]
async fn i_22_absent_settings_file_cannot_be_created_in_the_sandbox() {
    let places = [
        (".windlass/config.toml", "mkdir -p .windlass && echo x > .windlass/config.toml"),
        (".windlass/tools/sly.md", "mkdir -p .windlass/tools; echo x > .windlass/tools/sly.md"),
        (".mcp.json", "echo x > .mcp.json"),
        (".mcp.json", "echo x > y; mv y .mcp.json"),
        (".aiexclude", "ln -s /dev/null .aiexclude"),
        (".git/hooks/pre-commit", "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"),
        (".git/config", "mkdir .git; cp /dev/null .git/config"),
        (".git/hooks/pre-commit", "mkdir -p g/hooks; echo x > g/hooks/pre-commit; mv g .git"),
    ];
    for (path, command) in places {
        for input in [bash_arguments(command), json!({"command": command, "background": true})] {
            let test = workspace_in_mode(Mode::Yolo, &[], &[]);
            test.call("bash", input.clone()).await;
            for job in test.session.all_jobs() {
                job.wait().await;
            }
            test.session.end_jobs().await;
            let is_there = test.path(path).symlink_metadata().is_ok();
            assert!(!is_there, "{path} by {input}");
        }
        let free = TestWorkspace::with_builder(&[], |builder| {
            // Without a sandbox, the only protection is the approval by a person.
            builder.processes(at_level(SandboxLevel::Off)).attendant(|_: &_| true)
        });
        free.call("bash", bash_arguments(command)).await;
        assert!(free.path(path).symlink_metadata().is_ok(), "{command} shows nothing");
    }
}

#[tokio::test]
async fn i_23_temporary_files_are_private() {
    let test = workspace_in_mode(Mode::Yolo, &[], &[]);
    let machine = tempfile::Builder::new().prefix("windlass-i23-").tempdir_in("/tmp").unwrap();
    let (trap, victim) = (machine.path().join("response.md"), machine.path().join("victim"));
    fs::write(&victim, "mine\n").unwrap();
    symlink(&victim, &trap).unwrap();
    let write =
        format!("mkdir -p {0}; echo x > {1}; cat {1}", machine.path().display(), trap.display());
    assert!(text(&test.call_ok("bash", bash_arguments(&write)).await).contains("x\n"));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    let free =
        TestWorkspace::with_builder(&[], |builder| builder.processes(at_level(SandboxLevel::Off)));
    free.call_ok("bash", bash_arguments(&write)).await;
    assert_eq!(fs::read_to_string(&victim).unwrap(), "x\n", "it shows nothing");
    let mode = fs::metadata(test.state()).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "other users can read {}", test.state().display());
    for entry in fs::read_dir(test.state().join("tmp")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0);
        let name = entry.file_name().into_string().unwrap();
        assert!(name.len() >= 16 && !name.contains(&std::process::id().to_string()), "{name}");
    }
}

#[tokio::test]
async fn i_24_arguments_of_git_never_become_options_or_other_repositories() {
    let test = workspace_in_mode(Mode::Yolo, &[("a", "one\n")], &[]);
    let outside = test.parent_directory().join("file");
    fs::write(&outside, "hush\n").unwrap();
    let prepare =
        "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x";
    let made = std::process::Command::new("bash")
        .args(["-c", prepare])
        .current_dir(test.workspace())
        .status()
        .unwrap();
    assert!(made.success());
    for input in [
        json!({"command": "diff", "args": ["--output=canary"]}),
        json!({"command": "diff", "args": ["--outp=canary"]}),
        json!({"command": "log", "args": ["--output", "canary"]}),
        json!({"command": "show", "args": ["--output=canary", "HEAD"]}),
        json!({"command": "diff", "args": ["--no-index", "/dev/null", "../file"]}),
        json!({"command": "diff", "args": ["--ext-diff"]}),
        json!({"command": "log", "args": ["--git-dir=/"]}),
        json!({"command": "log", "args": ["-c", "core.pager=touch canary"]}),
        json!({"command": "checkout", "args": ["-"], "paths": ["../file"]}),
        json!({"command": "add", "paths": ["../file"]}),
        json!({"command": "add", "paths": ["../../etc/passwd"]}),
        json!({"command": "blame", "args": ["--contents", "../file"], "paths": ["a"]}),
        json!({"command": "commit", "message": "x", "args": ["--template=../file"]}),
        json!({"command": "init", "args": ["/tmp/anywhere"]}),
    ] {
        let before = test.tree();
        let result = test.call("git", input.clone()).await;
        assert_ne!(result.outcome, Outcome::Ok, "{input}: {}", text(&result));
        assert!(!text(&result).contains("hush"), "{input}");
        before.assert_same(&test.tree(), &input.to_string());
    }
    test.call_ok("git", json!({"command": "add", "paths": ["a"]})).await;
    assert!(text(&test.call_ok("git", json!({"command": "status"})).await).contains("A  a"));
}

#[tokio::test]
async fn i_25_protection_ignores_the_case_of_letters() {
    let test = workspace_in_mode(Mode::Yolo, &[(".git/HEAD", "")], &["write **", "read **"]);
    for path in [
        ".GIT/hooks/pre-commit",
        ".git/HOOKS/pre-commit",
        ".Git/Config",
        ".Windlass/config.toml",
        ".WINDLASS/tools/x.md",
        ".MCP.json",
        ".AIexclude",
        ".ENV",
        ".Env.local",
        "ID_RSA",
        "Server.PEM",
        ".SSH/config",
        ".Aws/credentials",
    ] {
        let input = json!({"path": path, "content": "x"});
        assert_ne!(decide(&test, "write", input.clone()).await, Decision::Allow, "{path}");
        test.call_refused("write", input).await;
    }
    let input = json!({"path": "Readme.MD", "content": "x"});
    assert_eq!(decide(&test, "write", input).await, Decision::Allow);
}

#[tokio::test]
async fn i_26_working_directory_chosen_by_a_model_does_not_become_writable() {
    let outside = directory_outside_tmp();
    // The mode allows a write that the policy can see in the command line; this one it cannot see.
    let command = "python3 -c 'open(\"canary\", \"w\")'; pwd";
    let input = json!({"command": command, "cwd": outside.path()});
    let canary = outside.path().join("canary");
    let auto = workspace_in_mode(Mode::Auto, &[], &[]);
    assert_eq!(auto.call("bash", input.clone()).await.outcome, Outcome::Denied);
    let yolo = workspace_in_mode(Mode::Yolo, &[], &[]);
    let result = yolo.call("bash", input.clone()).await;
    assert!(text(&result).contains(&outside.path().display().to_string()), "{}", text(&result));
    assert!(!canary.exists(), "{}", text(&result));
    let free =
        TestWorkspace::with_builder(&[], |builder| builder.processes(at_level(SandboxLevel::Off)));
    free.call_ok("bash", input).await;
    assert!(canary.exists(), "it shows nothing");
}

/// A directory could not be created, and files were moved "into" it, each over the one before.
#[tokio::test]
async fn i_27_moves_over_each_other_are_reported_and_can_be_undone() {
    let files = [("a", "a\n"), ("b", "b\n"), ("c", "c\n"), ("taken", "x\n")];
    let test = workspace_in_mode(Mode::Auto, &files, &[]);
    let before = test.tree();
    let result =
        test.call("bash", bash_arguments("mkdir taken; mv a taken; mv b taken; mv c taken")).await;
    let said = text(&result);
    assert!(said.contains("mkdir: cannot create directory"), "{said}");
    for change in ["D a", "D b", "D c", "M taken"] {
        assert!(said.contains(change), "{change} is not told: {said}");
    }
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    before.assert_same(&test.tree(), "what the moves destroyed");
    let failed = test.call("bash", bash_arguments("mkdir taken")).await;
    assert_eq!((failed.outcome, &failed.output.metadata["exit_code"]), (Outcome::Error, &json!(1)));
    let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-a\n+z\n*** End Patch\n";
    test.call_refused("patch", json!({"patch": patch})).await;
}

#[tokio::test]
async fn i_28_files_removed_by_a_clean_up_are_restored() {
    let files = [
        (".git.bak/HEAD", "ref\n"),
        (".git.bak/objects/ab/cd", "\0\x01"),
        (".gitignore", "*.bak\n"),
    ];
    let test = workspace_in_mode(Mode::Auto, &files, &[]);
    fs::set_permissions(test.path(".git.bak/HEAD"), fs::Permissions::from_mode(0o400)).unwrap();
    let before = test.tree();
    let said = text(&test.call_ok("bash", bash_arguments("rm -rf .git.bak")).await);
    assert!(said.contains("D .git.bak/HEAD") && !test.path(".git.bak").exists(), "{said}");
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    before.assert_same(&test.tree(), "the copy");
}

/// `i_29` is about files in the home directory; its test is in `cli`.
#[tokio::test]
async fn i_30_brackets_and_blanks_in_a_name_are_literal() {
    let names = ["[ab]", "a", "b", "x y", "x", "y", "*", "-rf", "$HOME", "'q'", "{a,b}"];
    let files: Vec<(&str, &str)> = names.iter().map(|name| (*name, "text\n")).collect();
    for name in ["[ab]", "x y", "*", "-rf", "$HOME", "'q'", "{a,b}"] {
        let test = workspace_in_mode(Mode::Yolo, &files, &[]);
        let patch = format!("*** Begin Patch\n*** Delete File: {name}\n*** End Patch\n");
        test.call_ok("patch", json!({"patch": patch})).await;
        for other in names {
            assert_eq!(test.path(other).exists(), other != name, "{other} after deleting {name}");
        }
        // The offered rule allows this file and no other.
        let asks = workspace_in_mode_ask(&files, &[]);
        let write = |path: &str| json!({"path": path, "content": "x"});
        let call = windlass::ToolCall::new("write", write(name));
        let verdict = asks.windlass.engine().explain(&asks.session, call).await.unwrap();
        let remedy = verdict.remedy().unwrap();
        let rule = remedy.strip_prefix("to allow it: --allow '").unwrap();
        let rule = rule.strip_suffix('\'').unwrap().replace(r"'\''", "'");
        let rule: windlass::Rule = rule.parse().unwrap();
        for other in names {
            let effect = windlass::Effects::write(asks.path(other));
            let is_meant = effect.iter().all(|effect| rule.matches(effect, &asks.workspace()));
            assert_eq!(is_meant, other == name, "{rule} and {other}");
        }
    }
}

#[tokio::test]
async fn i_31_undo_restores_files_and_never_deletes_files_of_others() {
    let test = workspace_in_mode(Mode::Auto, &[("edited", "one\n")], &[]);
    let edit = json!({"path": "edited", "old_string": "one", "new_string": "two"});
    test.call_ok("edit", edit).await;
    assert_eq!(test.call("read", json!({"path": "absent"})).await.outcome, Outcome::Error);
    let failing = json!({"path": "absent", "old_string": "a", "new_string": "b"});
    assert_eq!(test.call("edit", failing).await.outcome, Outcome::Error);
    test.put("absent", "a person's\n");
    test.put("other", "a person's\n");
    assert_eq!(test.undo(Undo::Last).await.outcome, Outcome::Ok);
    assert_eq!((test.text("edited"), test.text("absent")), ("one\n".into(), "a person's\n".into()));
    assert_eq!(test.text("other"), "a person's\n");
}

#[tokio::test]
async fn i_31_undo_of_one_session_leaves_the_work_of_another_and_of_people() {
    let test =
        workspace_in_mode(Mode::Auto, &[("a", "one\n"), ("b", "one\n"), ("c", "one\n")], &[]);
    let other = test.windlass.new_session();
    let edit = |path: &str, new: &str| {
        let input = json!({"path": path, "old_string": "one", "new_string": new});
        windlass::ToolCall::new("edit", input)
    };
    test.windlass.call(&other, edit("b", "theirs")).await;
    test.windlass.call(&test.session, edit("a", "mine")).await;
    test.windlass.call(&test.session, edit("c", "mine")).await;
    test.put("c", "much later, by a person\n");
    let all = Undo::Session(test.session.id().clone());
    let result = test.undo(all).await;
    assert_ne!(result.outcome, Outcome::Ok, "{}", text(&result));
    assert!(text(&result).contains('c'), "{}", text(&result));
    assert_eq!(test.text("b"), "theirs\n");
    assert_eq!(test.text("c"), "much later, by a person\n");
}

#[tokio::test]
async fn i_32_file_changed_since_it_was_read_is_not_overwritten() {
    let test = workspace_in_mode(Mode::Auto, &[("a", "one\n")], &[]);
    let write = json!({"path": "a", "content": "the model's\n"});
    assert!(test.call_refused("write", write.clone()).await.contains("stale"), "it was never read");
    test.call_ok("read", json!({"path": "a"})).await;
    test.put("a", "a person's\n");
    assert!(test.call_refused("write", write.clone()).await.contains("stale"));
    assert_eq!(test.text("a"), "a person's\n");
    let edit = json!({"path": "a", "old_string": "one", "new_string": "two"});
    test.call_refused("edit", edit).await;
    test.call_ok("read", json!({"path": "a"})).await;
    test.call_ok("write", write).await;
    assert_eq!(test.text("a"), "the model's\n");
}

#[tokio::test]
async fn i_33_bytes_outside_of_an_edit_stay_the_same() {
    let utf16: Vec<u8> =
        "\u{feff}one\r\nold\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf16_after: Vec<u8> =
        "\u{feff}one\r\nnew\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (before, after) in [
        (b"one\r\nold\r\nend\r\n".to_vec(), b"one\r\nnew\r\nend\r\n".to_vec()),
        (b"one\r\nold\nend\r".to_vec(), b"one\r\nnew\nend\r".to_vec()),
        (b"\xef\xbb\xbfold\n".to_vec(), b"\xef\xbb\xbfnew\n".to_vec()),
        (b"caf\xe9 old \xfc".to_vec(), b"caf\xe9 new \xfc".to_vec()),
        (b"\tone  \nold".to_vec(), b"\tone  \nnew".to_vec()),
        (b"\x0c\x1b[1m old \x7f\n\n\n".to_vec(), b"\x0c\x1b[1m new \x7f\n\n\n".to_vec()),
        (utf16, utf16_after),
    ] {
        let test = workspace_in_mode(Mode::Auto, &[], &[]);
        test.put("a", &before);
        fs::set_permissions(test.path("a"), fs::Permissions::from_mode(0o751)).unwrap();
        let edit = json!({"path": "a", "old_string": "old", "new_string": "new"});
        test.call_ok("edit", edit).await;
        assert_eq!(test.read("a"), after, "{}", String::from_utf8_lossy(&before));
        let mode = fs::metadata(test.path("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o751);
        test.undo(Undo::Last).await;
        assert_eq!(test.read("a"), before);
    }
}
