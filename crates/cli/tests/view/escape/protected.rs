//! Protected paths, which a command never changes without a question: files that git, editors, agents and we ourselves run or obey. Each
//! attempt is a command of its own, since all changes of a refused command are dropped together. There is no attendant.

use std::fmt::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::scene::write_file;
use super::starts::{Run, text};
use crate::support::Home;

/// Files that are there, with what they hold.
const PROTECTED_FILES: &[(&str, &str)] = &[
    (".git/hooks/pre-commit", "#!/bin/sh\n"),
    (".git/modules/m/config", "[core]\n\tbare = false\n"),
    (".git/modules/m/hooks/post-checkout", "#!/bin/sh\n"),
    (".husky/pre-commit", "npm test\n"),
    (".vscode/tasks.json", "{}\n"),
    (".envrc", "use nix\n"),
    (".claude/settings.json", "{}\n"),
    (".codex/config.toml", "# codex\n"),
    (".cursor/mcp.json", "{}\n"),
    (".gemini/settings.json", "{}\n"),
    (".mcp.json", "{}\n"),
    (".windlass/config.toml", "# windlass\n"),
    (".aiexclude", "private.txt\n"),
];

/// `P` is the place, `D` its directory, `B` its name, `T` a new name in the workspace.
const CHANGE_SCRIPTS: &[(&str, &str)] = &[
    ("append", "printf planted >> $P"),
    ("rename", "printf planted > $T; mv -f $T $P"),
    ("hard link", "printf planted > $T; ln -f $T $P"),
    ("link", "printf planted > $T; ln -sfn $PWD/$T $P"),
    ("edit in place", "sed -i 's/^/planted /' $P"),
    ("truncate", "truncate -s 0 $P"),
    ("remove", "rm -rf $P"),
    ("change the mode", "chmod 0777 $P"),
    ("by the working directory", "printf planted >> /proc/self/cwd/$P"),
    ("link to it and write", "ln -s $PWD/$P $T; printf planted >> $T"),
    ("replace by a directory", "rm -rf $P; mkdir -p $P; printf planted > $P/planted"),
    (
        "exchange the directory",
        "if [ $D = . ]; then rm $P; printf planted > $P; else cp -a $D $T; printf planted > $T/$B; mv $D $T.old; mv -T $T $D; fi",
    ),
    (
        "replace the directory by a link",
        "if [ $D = . ]; then ln -sfT planted $P; else cp -a $D $T; printf planted > $T/$B; mv $D $T.old; ln -sT $PWD/$T $D; fi",
    ),
    (
        "replace the directory by a link for a moment",
        "if [ $D = . ]; then ln $P $T; printf planted >> $T; else mv $D $T; ln -sT $T $D; printf planted >> $D/$B; rm $D; mv -T $T $D; fi",
    ),
];

/// A git directory at `$T` that runs something.
const PLANT_SCRIPT: &str = "mkdir -p $T/objects $T/refs/heads $T/hooks; echo 'ref: refs/heads/main' > $T/HEAD; \
    printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = planted\\n' > $T/config; echo planted > $T/hooks/pre-commit; chmod +x $T/hooks/pre-commit; ";

/// `PLANT_SCRIPT` stands for the script above.
const GIT_SCRIPTS: &[(&str, &str)] = &[
    ("core.fsmonitor", "git config core.fsmonitor planted"),
    ("core.hooksPath", "git config core.hooksPath planted"),
    ("core.sshCommand", "git config core.sshCommand planted"),
    ("core.pager", "git config core.pager planted"),
    ("core.editor", "git config core.editor planted"),
    ("core.worktree", "git config core.worktree /planted"),
    ("alias", "git config alias.st '!planted'"),
    ("include", "git config include.path ../planted"),
    ("conditional include", "git config includeIf.gitdir:/.path ../planted"),
    ("filter", "git config filter.x.clean planted"),
    ("textconv", "git config diff.x.textconv planted"),
    ("external diff", "git config diff.external planted"),
    ("merge driver", "git config merge.x.driver planted"),
    ("credential helper", "git config credential.helper planted"),
    ("gpg", "git config gpg.program planted"),
    ("upload pack", "git config remote.origin.uploadpack planted"),
    ("GIT_DIR", "GIT_DIR=.git git config core.fsmonitor planted"),
    ("--git-dir", "git --git-dir=.git config core.fsmonitor planted"),
    ("from below", "cd sub; git config core.fsmonitor planted"),
    ("by the file", "git config --file .git/config core.fsmonitor planted"),
    ("of a submodule", "git config --file .git/modules/m/config core.fsmonitor planted"),
    (
        "of a worktree",
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor planted",
    ),
    ("write the configuration", "printf '[core]\\nfsmonitor = planted\\n' >> .git/config"),
    (
        "write it by a rename",
        "cp .git/config $T; printf '[core]\\nfsmonitor = planted\\n' >> $T; mv $T .git/config",
    ),
    ("config.worktree", "printf '[core]\\nfsmonitor = planted\\n' > .git/config.worktree"),
    ("commondir", "printf ../planted > .git/commondir"),
    ("the repository's directory is exchanged", "PLANT mv .git $T.old; mv -T $T .git"),
    ("the repository is a link", "PLANT mv .git $T.old; ln -sT $T .git"),
    ("the repository is a pointer", "PLANT mv .git $T.old; echo gitdir: $T > .git"),
    ("a new hook", "printf planted > .git/hooks/post-commit; chmod +x .git/hooks/post-commit"),
    (
        "hooks are a link",
        "mkdir $T; printf planted > $T/pre-commit; mv .git/hooks $T.old; ln -sT ../$T .git/hooks",
    ),
    ("a planted repository", "PLANT mkdir sub/$T; mv $T sub/$T/.git"),
    ("a planted bare repository", "PLANT"),
    ("a planted pointer", "PLANT mkdir sub/$T; echo gitdir: ../../$T > sub/$T/.git"),
    (
        "a template",
        "mkdir -p $T/hooks; printf planted > $T/hooks/pre-commit; chmod +x $T/hooks/pre-commit; git init -q --template=$T new; rm -r $T",
    ),
    (
        "a repository made and then changed",
        "git init -q $T; git -C $T config core.fsmonitor planted",
    ),
    (
        "a repository elsewhere",
        "git init -q --separate-git-dir $T.git $T; git -C $T config core.fsmonitor planted",
    ),
    ("all is removed", "rm -rf -- $PWD/* $PWD/.[a-z]*"),
    ("the workspace is moved", "mkdir ../$T; mv $PWD/.git ../$T; mv $PWD ../$T.old || rm -rf .git"),
];

/// Files in the workspace that give rights to a process that runs or opens them.
const SPECIAL_FILE_SCRIPTS: &[(&str, &str)] = &[
    ("set-user-id", "cp /bin/true $T; chmod 4755 $T"),
    ("set-group-id", "cp /bin/true $T; chmod 2755 $T"),
    ("install", "install -m 4755 /bin/true $T"),
    ("set-id on what is there", "chmod 4755 run.sh"),
    ("set-id kept by a copy", "cp -a /bin/su $T; chmod u+s $T"),
    ("character device", "mknod $T c 1 5"),
    ("block device", "mknod $T b 7 0"),
    ("device in an archive", "mknod $T.d c 1 8; cp -a $T.d $T"),
];

#[test]
fn no_command_changes_a_protected_path() {
    let cases = PROTECTED_FILES.iter().flat_map(|(place, _)| {
        CHANGE_SCRIPTS.iter().map(move |(way, script)| {
            let (directory, name) = place.rsplit_once('/').unwrap_or((".", place));
            let script = format!("P={place} D={directory} B={name}; {script}");
            (format!("{place}: {way}"), script)
        })
    });
    check("workspace", cases);
}

#[test]
fn no_command_makes_git_run_a_program() {
    let cases = || {
        GIT_SCRIPTS
            .iter()
            .map(|(name, script)| ((*name).to_owned(), script.replace("PLANT", PLANT_SCRIPT)))
    };
    check("workspace", cases());
    check("staged", cases());
    check("read-only", cases());
}

#[test]
fn no_command_leaves_a_special_file() {
    check(
        "workspace",
        SPECIAL_FILE_SCRIPTS
            .iter()
            .map(|(name, script)| ((*name).to_owned(), (*script).to_owned())),
    );
}

/// The places do not have to be there to be protected.
#[test]
fn no_command_creates_a_protected_path() {
    let cases = PROTECTED_FILES.iter().flat_map(|(place, _)| {
        let ways = [
            ("write", "mkdir -p $D; printf planted > $P"),
            ("rename", "mkdir -p $D; printf planted > $T; mv $T $P"),
            ("rename the directory", "if [ $D = . ]; then printf planted > $P; else mkdir $T; printf planted > $T/$B; rm -rf $D; mv -T $T $D; fi"),
            ("link", "mkdir -p $D; printf planted > $T; ln -sf $PWD/$T $P"),
        ];
        ways.map(|(way, script)| {
            let (directory, name) = place.rsplit_once('/').unwrap_or((".", place));
            let script = format!("P={place} D={directory} B={name}; {script}");
            (format!("{place}: {way}"), script)
        })
    });
    check_in(&[], "workspace", cases);
}

/// Configuration that runs nothing is everyday work.
#[test]
fn inert_configuration_is_allowed() {
    let home = repository(PROTECTED_FILES);
    for (command, file, expected) in [
        ("git init -q fresh", "fresh/.git/HEAD", "ref: "),
        ("git remote add origin https://example.com/a.git", ".git/config", "example.com/a.git"),
    ] {
        let (code, answer) = home.call(&["--mode", "auto"], "bash", &json!({"command": command}));
        assert_eq!(code, 0, "{command}: {answer}");
        let text = std::fs::read_to_string(home.workspace().join(file)).unwrap_or_default();
        assert!(text.contains(expected), "{command}: {text}: {answer}");
    }
}

/// Without a sandbox, nearly all of them succeed.
#[test]
fn protected_paths_are_changed_without_a_sandbox() {
    let mut count = 0;
    let mut refused = Vec::new();
    let cases = GIT_SCRIPTS
        .iter()
        .chain(SPECIAL_FILE_SCRIPTS)
        .map(|(name, script)| (*name, script.replace("PLANT", PLANT_SCRIPT)));
    for (name, script) in cases {
        let home = repository(PROTECTED_FILES);
        let before = protected_content(&home.workspace());
        let mut command = Command::new("bash");
        let script = format!("T=planted-0; {script}");
        home.prepare(&mut command).args(["-c", &script]).output().expect("bash runs");
        count += 1;
        if protected_content(&home.workspace()) == before {
            refused.push(name);
        }
    }
    assert!(refused.len() * 10 <= count * 2, "these show nothing: {refused:?}");
}

fn check(level: &str, cases: impl Iterator<Item = (String, String)>) {
    check_in(PROTECTED_FILES, level, cases);
}

/// Runs each script as a command, and looks at the protected places after it.
fn check_in(places: &[(&str, &str)], level: &str, cases: impl Iterator<Item = (String, String)>) {
    let start = || {
        let home = repository(places);
        let run = Run::start(home.command(&["run", "-", "--mode", "auto", "--sandbox", level]));
        let before = protected_content(&home.workspace());
        (run, before, home)
    };
    let (mut run, mut before, mut home) = start();
    let mut holes = Vec::new();
    for (number, (name, script)) in cases.enumerate() {
        // By a file: what the command line says is no part of it.
        let script = format!("T=planted-{number}\n{script}\necho 'it has run'\n");
        write_file(&home.workspace().join("attempt.sh"), &script);
        let answer = run.ask("bash", &json!({"command": "bash attempt.sh"}));
        let has_run = text(&answer).contains("it has run");
        assert!(has_run || answer["outcome"] == json!("denied"), "{name}: {answer}");
        if protected_content(&home.workspace()) != before {
            holes.push(format!("{level}: {name}: {}", text(&answer)));
            (run, before, home) = start();
        }
    }
    assert!(holes.is_empty(), "{} succeeded:\n{}", holes.len(), holes.join("\n"));
}

/// A repository with a commit, a submodule's git directory and these files.
fn repository(places: &[(&str, &str)]) -> Home {
    let home =
        Home::new_outside_tmp().with_files(&[("sub/a.txt", "a\n"), ("run.sh", "#!/bin/sh\n")]);
    let mut command = Command::new("git");
    let made = home.prepare(&mut command).args(["init", "-q"]).status().expect("git runs");
    assert!(made.success());
    let module = home.workspace().join(".git/modules/m");
    write_file(&module.join("HEAD"), "ref: refs/heads/main\n");
    for directory in ["objects", "refs"] {
        std::fs::create_dir(module.join(directory)).expect("a directory");
    }
    home.with_files(places)
}

/// Everything that is protected below a directory, with its content: what git, editors and agents would obey, and special files.
fn protected_content(workspace: &Path) -> String {
    let mut all = String::new();
    collect(workspace, false, &mut all);
    all
}

fn collect(path: &Path, is_inside: bool, all: &mut String) {
    let Ok(found) = path.symlink_metadata() else { return };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_special = found.mode() & 0o6000 != 0 && !found.is_dir();
    let is_device = found.file_type().is_char_device() || found.file_type().is_block_device();
    let is_own = PROTECTED_FILES.iter().any(|(place, _)| {
        let top = place.split('/').next().unwrap_or(place);
        top != ".git" && top == name
    });
    let is_pointer = name == ".git" && !found.is_dir();
    let is_listed = is_inside || is_own || is_pointer;
    if is_special || is_device || (is_listed && !found.is_dir()) {
        let content = if found.is_symlink() {
            format!("{:?}", std::fs::read_link(path))
        } else if found.is_file() {
            String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
        } else {
            String::new()
        };
        writeln!(all, "{} {:o} {content}", path.display(), found.mode()).expect("a text");
    }
    if !found.is_dir() {
        return;
    }
    let is_repository = path.join("HEAD").exists() && path.join("objects").exists();
    let mut entries: Vec<_> = path.read_dir().into_iter().flatten().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let child = entry.file_name();
        let obeyed = ["config", "config.worktree", "commondir", "hooks"];
        let is_obeyed = is_repository && obeyed.iter().any(|one| child == **one);
        collect(&entry.path(), is_inside || is_own || is_obeyed, all);
    }
}
