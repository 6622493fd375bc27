//! The places around the workspace, as a program sees them: a home and a `/tmp` of its own, toolchains and their caches, and what a
//! rule adds.

use std::path::PathBuf;

use serde_json::json;

use super::{system_path, write_file};
use crate::support::{Home, RunResult};

/// Directories of toolchains, each with a file in it.
const TOOLCHAIN_FILES: &[&str] = &[
    ".cargo/registry/cache/index/tiny-1.0.0.crate",
    ".cargo/bin/some-tool",
    ".rustup/toolchains/stable/lib/libstd.so",
    ".npm/_cacache/content-v2/sha512/00/11",
    ".pyenv/versions/3.13.0/bin/python3.13",
    ".cache/pip/http-v2/0/1/2",
    "go/pkg/mod/example.org/tiny@v1.0.0/tiny.go",
    ".m2/repository/org/example/tiny/1.0/tiny-1.0.jar",
];

#[test]
fn home_belongs_to_the_workspace_and_is_kept() {
    let home = Home::new_outside_tmp();
    write_file(&person_home(&home).join("Documents/letter.txt"), "dear\n");
    let other = home.workspace().with_file_name("other-work");
    std::fs::create_dir(&other).expect("a folder");
    let other = ["-C", other.to_str().expect("a name")];

    let make = "mkdir -p ~/.config/tool && echo mine >~/.config/tool/settings && cd && ln -s .config/tool t && echo ok";
    for (options, script, expected) in [
        (&[][..], make, "ok\n"),
        (&[], "cat ~/t/settings", "mine\n"),
        (&["--session", "another"], "cat $HOME/t/settings", "mine\n"),
        (&other, "test -e ~/t || test -e ~/.config/tool || echo absent", "absent\n"),
        (&[], "test -e ~/Documents || echo absent", "absent\n"),
    ] {
        check(&shell(&home, options, script), script, expected);
    }
    assert!(
        !person_home(&home).join("t").exists() && !person_home(&home).join(".config/tool").exists()
    );
}

#[test]
fn toolchains_are_visible_and_changes_to_them_are_kept_apart() {
    let home = Home::new_outside_tmp();
    for file in TOOLCHAIN_FILES {
        write_file(&person_home(&home).join(file), "original\n");
    }
    let names = TOOLCHAIN_FILES.join(" ");
    let each = |command: &str| format!("cd; for file in {names}; do {command}; done 2>&1");
    let later = &["--session", "later"][..];
    let write = each("echo changed >$file && echo new >$file.new && mv $file.new $file.moved");
    for (options, script, expected) in [
        (&[][..], each("cat $file"), "original\n"),
        (&[], write, ""),
        (later, each("cat $file"), "changed\n"),
        (later, each("cat $file.moved"), "new\n"),
    ] {
        check(&shell(&home, options, &script), &script, &expected.repeat(TOOLCHAIN_FILES.len()));
    }
    for file in TOOLCHAIN_FILES {
        let file = person_home(&home).join(file);
        let content = std::fs::read_to_string(&file).expect("a file");
        let siblings = std::fs::read_dir(file.parent().expect("a parent")).expect("a folder");
        assert_eq!((content.as_str(), siblings.count()), ("original\n", 1), "{}", file.display());
    }
}

#[test]
fn git_knows_its_author_and_no_credentials() {
    let home = Home::new_outside_tmp();
    let config = "[user]\n\tname = Ada\n\temail = ada@example.org\n[alias]\n\tst = status\n\
                  [credential]\n\thelper = store\n";
    write_file(&person_home(&home).join(".gitconfig"), config);
    let script = "git config user.name; git config user.email; git config alias.st
                  git config --get-all credential.helper || echo none";
    check(&shell(&home, &[], script), script, "Ada\nada@example.org\nstatus\nnone\n");
}

#[test]
fn tmp_belongs_to_the_session() {
    let home = Home::new_outside_tmp();
    let machine = tempfile::NamedTempFile::new_in("/tmp").expect("a file");
    let find = format!("test -e {} || echo absent", machine.path().display());
    // A name that no other run of this test has, for a binary that fails it.
    let made = machine.path().with_extension("made");
    let of_session = |script: &str| script.replace("MADE", made.to_str().expect("a name"));
    for (session, script, expected) in [
        ("one", "mkdir MADE && echo mine >MADE/file && echo ok", "ok\n"),
        ("one", "cat MADE/file", "mine\n"),
        ("one", "rm MADE/file && rmdir MADE && mkdir MADE && echo ok", "ok\n"),
        ("two", "test -e MADE || echo absent", "absent\n"),
        ("one", "test -d MADE && echo there", "there\n"),
        ("one", &find, "absent\n"),
    ] {
        let script = of_session(script);
        check(&shell(&home, &["--session", session], &script), &script, expected);
    }
    assert!(!made.exists());
}

#[test]
fn masked_files_are_absent_and_their_neighbours_are_not() {
    let masked = [".env", "id_rsa", "keys/server.key", "internal/a.txt", "vault/a.txt"];
    let home = Home::new_outside_tmp()
        .with_files(&masked.map(|name| (name, "x")))
        .with_files(&[(".env.example", "x"), ("id_rsa.pub", "x"), ("keys/README.md", "x")])
        .with_files(&[("src/main.rs", "x"), (".aiexclude", "internal/\n")]);
    let script = format!(
        "find . -type f | sort; for name in {}; do (: <$name) 2>&1 | grep -c 'No such file'; done",
        masked.join(" ")
    );
    let expected = "./.aiexclude\n./.env.example\n./id_rsa.pub\n./keys/README.md\n./src/main.rs\n1\n1\n1\n1\n1\n";
    check(&shell(&home, &["--deny", "read vault/**"], &script), &script, expected);
    // They are still there for the person.
    for name in masked {
        assert!(home.workspace().join(name).exists(), "{name}");
    }
}

#[test]
fn other_paths_are_visible_by_a_rule() {
    let home = Home::new_outside_tmp();
    let data = home.workspace().with_file_name("data");
    write_file(&data.join("deep/a.txt"), "old\n");
    write_file(&data.join("b.txt"), "stays\n");
    write_file(&data.join(".env"), "secret\n");
    let place = data.to_str().expect("a name");
    let [read, write] = ["read", "write"].map(|effect| format!("{effect} {place}/**"));
    let content = || std::fs::read_to_string(data.join("deep/a.txt")).expect("a file");

    let find = format!("test -e {place} || echo absent");
    check(&shell(&home, &[], &find), &find, "absent\n");
    let list = format!("find {place} -type f | sort");
    let seen = format!("{place}/b.txt\n{place}/deep/a.txt\n");
    for rule in [&read, &write] {
        check(&shell(&home, &["--allow", rule], &list), &list, &seen);
    }

    let change = format!("echo new >{place}/deep/a.txt");
    let ran = shell(&home, &["--allow", &read], &change);
    assert!(ran.code != 0 && content() == "old\n", "{ran:#?}");
    let ran = shell(&home, &["--allow", &write, "--session", "writer"], &change);
    assert_eq!((ran.code, content().as_str()), (0, "new\n"), "{ran:#?}");
    let ran = home.run(&["undo", "--session", "writer", "--yes", "--allow", &write]);
    assert_eq!((ran.code, content().as_str()), (0, "old\n"), "{ran:#?}");
}

#[test]
fn system_is_visible_without_its_secrets() {
    let home = Home::new_outside_tmp();
    let script = "head -qc 1 /etc/passwd /usr/bin/env | wc -c
                  cat /etc/shadow /etc/gshadow /etc/ssl/private/* 2>/dev/null | wc -c";
    check(&shell(&home, &[], script), script, "2\n0\n");
}

/// A script in mode `auto`. The shell reads it from its input: this is about what is there, not about what a command may say.
fn shell(home: &Home, options: &[&str], script: &str) -> RunResult {
    let input = json!({"command": "bash -s", "stdin": script}).to_string();
    let mut arguments = vec!["--mode", "auto", "call", "bash", &input];
    arguments.extend(options);
    let mut command = home.command(&arguments);
    command.env("PATH", system_path());
    RunResult::from_output(command.output().expect("the binary runs"))
}

/// Its output begins like this; a notice of what changed may follow.
fn check(ran: &RunResult, script: &str, expected: &str) {
    assert!(ran.stdout.starts_with(expected), "{script}\nexpected: {expected}\n{ran:#?}");
    assert_eq!(ran.code, 0, "{script}\n{ran:#?}");
}

/// The person's home directory.
fn person_home(home: &Home) -> PathBuf {
    home.workspace().with_file_name("home")
}

/// Git takes tracked files that are masked for unchanged, and marks nothing that stays.
#[test]
fn git_treats_masked_files_as_unchanged() {
    let home = Home::new_outside_tmp().with_files(&[
        (".env", "one\n"),
        ("a.txt", "one\n"),
        ("sub/.env", "one\n"),
    ]);
    let outside = |script: &str| {
        let mut command = std::process::Command::new("bash");
        let output = home.prepare(&mut command).args(["-ec", script]).output().expect("bash runs");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    outside(
        "git init -q -b main; git config user.name a; git config user.email a@b; git add -f .; git commit -qm one",
    );
    outside(
        "git switch -qc side; echo side >b.txt; git add b.txt; git commit -qm side; git switch -q main",
    );
    for (script, expected) in [
        ("test -e .env || echo absent; git status --porcelain", "absent\n"),
        ("echo two >>a.txt; git status --porcelain", " M a.txt\n"),
        ("git add -A; git status --porcelain", "M  a.txt\n"),
        ("git commit -qam two; git show --stat --format=%s HEAD | grep -c env", "0\n"),
        (
            "echo three >>a.txt; git stash -q; git stash pop -q; git status --porcelain",
            " M a.txt\n",
        ),
        (
            "git checkout -q a.txt; git checkout -q side; git status --porcelain; cat b.txt",
            "side\n",
        ),
        (
            "git checkout -q main; git merge -q side -m merged; git ls-files | tr '\n' ' '",
            ".env a.txt b.txt sub/.env ",
        ),
    ] {
        let ran = shell(&home, &[], &format!("{{ {script}; }} 2>&1 || true"));
        assert!(ran.stdout.starts_with(expected), "{script}: {ran:?}");
    }
    assert_eq!(
        outside("git status --porcelain; git ls-files -v | grep -v ^H || echo none"),
        "none\n"
    );
    assert_eq!(outside("cat .env sub/.env"), "one\none\n");
}

/// No overlay can be laid over a directory with a mount in it: then a command can change nothing there, and is told why.
#[test]
fn a_workspace_with_a_mount_in_it_is_read_only() {
    let home = Home::new_outside_tmp().with_files(&[("mounted/below", "x\n"), ("a.txt", "a\n")]);
    let input = json!({"command": "cat mounted/f a.txt; cat mounted/.e*; echo b >>a.txt; echo b >>mounted/f"});
    let script = "set -e; mount -t tmpfs none mounted; echo f >mounted/f; echo secret >mounted/.env
        \"$WINDLASS\" --mode auto call bash \"$INPUT\" || true; cat a.txt mounted/f";
    let mut command = std::process::Command::new("unshare");
    let output = home
        .prepare(&mut command)
        .env("WINDLASS", crate::support::binary())
        .env("INPUT", input.to_string())
        .args(["--user", "--map-root-user", "--mount", "bash", "-c", script])
        .output()
        .expect("unshare runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with("f\na\n") && printed.ends_with("\na\nf\n"), "{output:?}");
    assert!(
        printed.contains("mounted is a mount, and") && !printed.contains("\nsecret"),
        "{output:?}"
    );
}

/// A command that could not see a file must not overwrite or remove it: without a person, all its changes are dropped.
#[test]
fn masked_files_are_not_replaced() {
    let files =
        [(".env", "mine\n"), ("conf/server.key", "mine\n"), ("conf/a", "a\n"), ("b", "b\n")];
    let home = Home::new_outside_tmp().with_files(&files);
    for script in [
        "echo x >.env",
        "ln -s b .env",
        "rm -rf conf",
        "mv conf conf2",
        "mkdir .env; touch .env/x",
        "echo c >>b; cp b .env",
    ] {
        let ran = shell(&home, &[], script);
        assert_eq!(ran.code, 3, "{script}: {ran:?}");
        for (file, content) in files {
            let found = std::fs::read_to_string(home.workspace().join(file));
            assert_eq!(found.ok().as_deref(), Some(content), "{script}: {file}");
        }
    }
    // A secret file that was not there is the command's own.
    assert_eq!(shell(&home, &[], "echo new >.env.local").code, 0);
}

/// The home and `/tmp` last, so what a command leaves there must not keep later ones from running.
#[test]
fn no_command_breaks_later_ones() {
    let home = Home::new_outside_tmp();
    write_file(&person_home(&home).join(".gitconfig"), "[user]\n\tname = Ada\n");
    let project = person_home(&home).join("code/proj");
    std::fs::create_dir_all(&project).expect("a folder");
    let place = ["-C", project.to_str().expect("a name"), "--session", "s1"];
    for script in [
        "cd /; mv ~/code ~/c2; ln -s /etc ~/code",
        "rm -rf ~/code; touch ~/code",
        "rm -rf ~/code; mkdir -p ~/code; touch ~/code/proj",
        "chmod 000 ~",
        "mkdir -p ~/code; chmod 000 ~/code",
        "rm -f ~/.gitconfig; mkfifo ~/.gitconfig",
        "rm -rf /tmp/*; chmod 000 /tmp",
    ] {
        shell(&home, &place, script);
        let ran =
            shell(&home, &place, "touch ~/x /tmp/x && git config --global user.name && echo works");
        assert!(ran.stdout.starts_with("Ada\nworks"), "after {script}: {ran:?}");
    }
}

/// A home directory as the workspace, with the state in it.
#[test]
fn the_workspace_can_be_the_home() {
    let home = Home::new_outside_tmp();
    write_file(&person_home(&home).join("notes.txt"), "mine\n");
    write_file(&person_home(&home).join(".ssh/id_rsa"), "secret\n");
    let place = person_home(&home);
    let place = ["-C", place.to_str().expect("a name")];
    let ran = shell(&home, &place, "cd; cat notes.txt; ls .ssh 2>/dev/null; echo more >>notes.txt");
    assert!(ran.stdout.starts_with("mine\n[changed: M notes.txt]"), "{ran:?}");
    // What a shell obeys is protected, be it there or not.
    assert_eq!(shell(&home, &place, "cd; echo planted >.bashrc").code, 3);
    assert!(!person_home(&home).join(".bashrc").exists());
}

/// Of a home stays what is left by a command whose changes are kept, and nothing else: later commands run what lies there.
#[test]
fn only_a_command_whose_changes_are_kept_leaves_something_in_its_home() {
    let home = Home::new_outside_tmp().with_files(&[("a", "one\n"), (".envrc", "x\n")]);
    write_file(&person_home(&home).join(".cargo/registry/tiny.crate"), "original\n");
    let plant =
        "mkdir -p ~/.config/git ~/.cargo/bin && echo x | tee ~/.bashrc ~/.gitconfig ~/.npmrc \
                 ~/.config/git/ignore ~/.cargo/bin/git ~/.cargo/config.toml >/dev/null
                 rm ~/.cargo/registry/tiny.crate; test -e ~/.bashrc && echo planted";
    let look = "for file in .bashrc .npmrc .cargo/bin/git .cargo/config.toml; do
                test -e ~/$file && echo $file; done; cat ~/.cargo/registry/tiny.crate";
    let cases: &[(&str, &[&str])] = &[
        ("", &["--mode", "plan"]),
        ("", &["--mode", "ask"]),
        // Dropped by a rule, and by a question that has no answer, although the command itself was allowed to run.
        ("; echo two >a", &["--deny", "write a"]),
        ("; echo x >.envrc", &[]),
        ("; echo two >b", &["--proposals"]),
    ];
    for (last, options) in cases {
        let script = format!("{plant}{last}");
        let ran = shell(&home, options, &script);
        assert!(ran.stdout.starts_with("planted\n"), "{options:?}: {ran:#?}");
        check(&shell(&home, &[], look), look, "original\n");
    }
    let ran = shell(&home, &[], plant);
    check(&ran, plant, "planted\n");
    let left = shell(&home, &["--session", "later"], look);
    let expected = ".bashrc\n.npmrc\n.cargo/bin/git\n.cargo/config.toml\ncat: ";
    assert!(left.stdout.starts_with(expected), "{left:#?}");
    // What was removed or made anew in a toolchain stays so, in layers of several commands.
    let anew = "mkdir ~/.cargo/registry/tiny.crate && echo new >~/.cargo/registry/tiny.crate/x && rm -r ~/.cargo/bin && mkdir ~/.cargo/bin";
    check(&shell(&home, &[], anew), anew, "");
    let look = "cat ~/.cargo/registry/tiny.crate/x; ls ~/.cargo/bin";
    check(&shell(&home, &[], look), look, "new\n");
}

/// A command that is known to only read runs without a question in every mode.
#[test]
fn a_command_that_only_reads_leaves_nothing_in_its_home() {
    let home = Home::new_outside_tmp().with_files(&[("a", "one\n")]);
    let config = "[alias]\n\tst = status\n";
    write_file(&person_home(&home).join(".gitconfig"), config);
    let look = "test -e ~/.local/state/less || echo absent; git config alias.st";
    check(&shell(&home, &[], look), look, "absent\nstatus\n");
    // The view alone matters here: `git` reads, and what it is told to run writes.
    let planted =
        "sh -c 'mkdir -p ~/.cache && echo x >~/.cache/x && echo x >~/.gitconfig && cat ~/.cache/x'";
    check(&shell(&home, &["--sandbox", "read-only"], planted), planted, "x\n");
    let look = "test -e ~/.cache/x || echo absent; git config alias.st";
    check(&shell(&home, &[], look), look, "absent\nstatus\n");
}
