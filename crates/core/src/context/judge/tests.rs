//! Judges changes of real git, and what attackers would do instead: each command runs in a workspace, and the diff is judged like
//! that of a stage.

use std::fs;
use std::process::Command;

use super::*;
use crate::testing::EmptyHost;
use crate::{
    Alteration, Altered, FileError, FileErrorKind, Fingerprint, FoundEntry, OpenFile, Resolved,
    Stat, Visitor, WalkOptions, WalkReport,
};

/// The files of a directory, as far as the judgement needs them.
struct Disk(PathBuf);

impl Disk {
    fn not_found<T>(path: &Resolved) -> Result<T, FileError> {
        Err(FileError::new("look at", &path.path, FileErrorKind::NotFound))
    }
}

impl Files for Disk {
    fn workspace(&self) -> &Path {
        &self.0
    }

    fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
        let (above, real) = there.expect("the root is there");
        let rest = path.strip_prefix(above).expect("it is above");
        let path = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        Ok(commit::recorded_path(self, &path))
    }

    fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        let Ok(found) = path.path.symlink_metadata() else { return Self::not_found(path) };
        let kind = match found.file_type() {
            kind if kind.is_dir() => FileKind::Directory,
            kind if kind.is_symlink() => FileKind::Symlink,
            _ => FileKind::File,
        };
        Ok(Stat { kind, len: found.len(), mode: 0o644, links: 1, fingerprint: SEEN })
    }

    fn inspect(&self, path: &Resolved) -> Result<Option<FoundEntry>, FileError> {
        let Ok(stat) = self.stat(path) else { return Ok(None) };
        let body = match stat.kind {
            FileKind::Directory => FoundBody::Directory(entries(&path.path)),
            FileKind::File => FoundBody::File(File::open(&path.path).expect("a file")),
            _ => FoundBody::Other,
        };
        Ok(Some(FoundEntry { stat, attributes: Attributes::default(), body }))
    }

    fn open(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        Self::not_found(path)
    }

    fn walk<'a>(
        &self,
        root: &Resolved,
        _: &WalkOptions<'a>,
        _: &(dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a),
    ) -> Result<WalkReport, FileError> {
        Self::not_found(root)
    }

    fn alter(&self, path: &Resolved, _: &Alteration<'_>) -> Result<Altered, FileError> {
        Self::not_found(path)
    }

    fn excluded_by(&self, _: &Resolved) -> Result<Option<PathBuf>, FileError> {
        Ok(None)
    }

    fn nearest(&self, _: &Path) -> Option<PathBuf> {
        None
    }
}

const SEEN: Fingerprint = Fingerprint { device: 1, inode: 1, len: 1, modified: 1, changed: 1 };

fn entries(directory: &Path) -> Vec<std::ffi::OsString> {
    let read = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> = read.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names
}

/// Runs a script in a workspace. Panics if any part of it fails.
fn run_script(script: &str, directory: &Path, home: &Path) {
    let ran = Command::new("sh")
        .args(["-euc", script])
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a search path"))
        .env("HOME", home)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_ALLOW_PROTOCOL", "file")
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "a")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@b")))
        .output()
        .expect("a shell and git are installed");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{script}: {errors}");
}

/// Collects the differences between two trees, with the paths that they have in the workspace.
fn collect_changes(before: &Path, after: &Path, name: &Path, changes: &mut Vec<ProcessChange>) {
    let facts = |path: &Path| path.symlink_metadata().ok();
    let (old, new) = (facts(before), facts(after));
    let is_directory =
        |found: &Option<fs::Metadata>| found.as_ref().is_some_and(fs::Metadata::is_dir);
    let read = |path: &Path, found: &Option<fs::Metadata>| {
        found.as_ref().filter(|found| found.is_file()).map(|_| fs::read(path).expect("a file"))
    };
    let to = match &new {
        None => Some(ChangedTo::Nothing),
        Some(new) if new.is_symlink() => {
            Some(ChangedTo::Symlink("x".into(), Attributes::default()))
        }
        Some(new) if new.is_dir() => {
            Some(ChangedTo::Directory(Attributes::default())).filter(|_| !is_directory(&old))
        }
        Some(_) => Some(ChangedTo::File(after.to_owned(), Attributes::default()))
            .filter(|_| read(before, &old) != read(after, &new)),
    };
    let change = to.map(|to| ProcessChange {
        path: name.to_owned(),
        before: old.as_ref().map(|_| SEEN),
        to,
    });
    let mut names = if is_directory(&old) { entries(before) } else { Vec::new() };
    names.extend(if is_directory(&new) { entries(after) } else { Vec::new() });
    names.sort();
    names.dedup();
    let is_gone = new.is_none();
    let (first, last) = if is_gone { (None, change) } else { (change, None) };
    changes.extend(first);
    for entry in names {
        collect_changes(&before.join(&entry), &after.join(&entry), &name.join(&entry), changes);
    }
    changes.extend(last);
}

/// Returns the paths that need an approval after a command has run, and the shown changes.
fn judged(setup: &str, command: &str) -> (Vec<String>, Vec<FileChange>) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("the real place");
    let (workspace, copy, stage) = (root.join("w"), root.join("copy"), root.join("stage"));
    fs::create_dir(&workspace).expect("a folder");
    run_script(setup, &workspace, &root);
    run_script("cp -a w copy", &root, &root);
    run_script(command, &workspace, &root);
    // Paths in git's files refer to the workspace, so the directory in which the command ran becomes the stage.
    fs::rename(&workspace, &stage).expect("a folder");
    fs::rename(&copy, &workspace).expect("a folder");
    let mut changes = Vec::new();
    collect_changes(&workspace, &stage, &workspace, &mut changes);
    assert!(!changes.is_empty(), "{command}: it shows nothing");
    let judgement = judge(&changes, &Disk(workspace.clone()), JudgeInputs::default(), false);
    let name = |path: &PathBuf| {
        path.strip_prefix(&workspace).expect("it is inside").to_string_lossy().into_owned()
    };
    (judgement.asks.keys().map(name).collect(), judgement.shown)
}

const REPOSITORY: &str = "git init -q . && git commit -q --allow-empty -m a";

fn check(cases: &[(&str, &str, &[&str])]) {
    for (setup, command, expected) in cases {
        assert_eq!(judged(setup, command).0, *expected, "{setup}; {command}");
    }
}

#[test]
fn changes_that_git_itself_makes_are_inert() {
    let library = "git init -q lib && git -C lib commit -q --allow-empty -m a";
    let both = format!("{REPOSITORY}; {library}");
    let remote = format!(
        "{REPOSITORY}; git remote add origin https://a.example/b; git update-ref refs/remotes/origin/x HEAD"
    );
    let worktree = format!("{REPOSITORY}; git worktree add -q tree");
    let module = "git submodule --quiet add \"$PWD/lib\" sub/module";
    check(&[
        ("", "git init -q .", &[]),
        ("", "git init -q new && echo a > new/b", &[]),
        ("", "git init -q --bare bare.git", &[]),
        (REPOSITORY, "git remote add origin git@a.example:b/c.git", &[]),
        (REPOSITORY, "git config user.name me && git commit -q --allow-empty -m b", &[]),
        (&remote, "git switch -q --track origin/x", &[]),
        (REPOSITORY, "git worktree add -q tree", &[]),
        (&worktree, "git worktree remove tree", &[]),
        (&worktree, "git -C tree switch -q -c other", &[]),
        (&both, module, &[]),
        (library, &format!("{REPOSITORY} && {module}"), &[]),
        (library, "git clone -q lib copy", &[]),
        (library, "rm -rf lib/.git", &[]),
        (library, "rm -rf lib", &[]),
        (
            REPOSITORY,
            "mkdir src && echo a > src/config && mkdir src/hooks && echo a > src/hooks/b",
            &[],
        ),
    ]);
}

#[test]
fn changes_that_make_programs_run_code_need_an_approval() {
    let hook = format!("{REPOSITORY}; echo x > .git/hooks/pre-commit");
    let nested = "git init -q sub; echo x > sub/.git/hooks/update";
    check(&[
        (REPOSITORY, "git config core.fsmonitor x", &[".git/config"]),
        (REPOSITORY, "git config alias.x '!x'", &[".git/config"]),
        (REPOSITORY, "git remote add o 'ext::sh -c x'", &[".git/config"]),
        ("", "git init -q . && git config core.hooksPath x", &[".git/config"]),
        (REPOSITORY, "echo '[' >> .git/config", &[".git/config"]),
        (REPOSITORY, "head -c 2000000 /dev/zero | tr '\\0' '#' >> .git/config", &[".git/config"]),
        (REPOSITORY, "echo x > .git/config.worktree", &[".git/config.worktree"]),
        (REPOSITORY, "echo x > .git/hooks/pre-commit", &[".git/hooks/pre-commit"]),
        (REPOSITORY, "rm -rf .git/hooks && ln -s ../x .git/hooks", &[".git/hooks"]),
        (REPOSITORY, "rm .git/config && ln -s ../x .git/config", &[".git/config"]),
        (REPOSITORY, "rm -rf .g*", &[".git/config"]),
        (&hook, "rm -rf .git", &[".git/config", ".git/hooks/pre-commit"]),
        (nested, "mv sub other", &["other/.git/hooks/update", "sub/.git/hooks/update"]),
        ("", "ln -s /tmp .git", &[".git"]),
        ("", "echo 'gitdir: /tmp/x' > .git", &[".git"]),
        ("mkdir x", "echo 'gitdir: x' > .git", &[".git"]),
        ("git init -q --bare x", "echo 'gitdir: x ' > .git", &[".git"]),
        ("git init -q --bare x", "ln -s x y; mkdir z; echo 'gitdir: ../y' > z/.git", &["z/.git"]),
        ("", "git init -q --separate-git-dir=elsewhere .", &[".git"]),
        (REPOSITORY, "echo ../elsewhere > .git/commondir", &[".git/commondir"]),
        ("", "mkdir .husky && echo x > .husky/pre-commit", &[".husky", ".husky/pre-commit"]),
        ("", "mkdir .vscode && echo x > .vscode/tasks.json", &[".vscode/tasks.json"]),
        ("mkdir sub", "echo x > sub/.envrc", &["sub/.envrc"]),
    ]);
}

#[test]
fn a_new_git_directory_is_judged_with_its_existing_configuration() {
    let make = "echo 'ref: refs/heads/a' > d/HEAD; mkdir d/objects d/refs";
    let made: &[&str] = &["d/HEAD", "d/objects", "d/refs"];
    let config = "mkdir d; printf '[core]\\n\\tfsmonitor = x\\n' > d/config";
    check(&[
        ("mkdir d; printf '[core]\\n\\tbare = true\\n' > d/config", make, &[]),
        (config, make, made),
        (config, &format!("{make}; printf '[user]\\n\\tname = x\\n' >> d/config"), made),
        ("mkdir -p d/hooks; echo x > d/hooks/update", make, made),
        ("mkdir -p d/hooks; echo x > d/hooks/update.sample", make, &[]),
        ("", &format!("{config}; {make}"), &["d/config"]),
        (
            "mkdir d",
            &format!("{make}; mkdir d/hooks; echo x > d/hooks/update"),
            &["d/hooks/update"],
        ),
    ]);
}

#[test]
fn the_diff_is_shown() {
    let (_, shown) = judged(REPOSITORY, "echo x > .git/hooks/pre-commit; echo y > .envrc");
    let told: Vec<_> =
        shown.iter().map(|one| (one.verb, one.before.clone(), one.after.clone())).collect();
    let new = |text: &str| ("create", None, Some(text.as_bytes().to_vec()));
    assert_eq!(told, [new("y\n"), new("x\n")], "in the order of the changes");
    let host = EmptyHost::default();
    assert!(judge(&[], &host, JudgeInputs::default(), false).shown.is_empty());
}

/// A content is shown up to 16 MiB. With one of two contents, all lines would count as added or removed, so then none is shown.
#[test]
fn a_content_is_shown_with_its_other_version_or_not_at_all() {
    let fill = |bytes: u64| format!("head -c {bytes} /dev/zero | tr '\\0' x > .envrc");
    let (short, long, too_long) = (fill(6), fill(2 << 20), fill((16 << 20) + 1));
    for (setup, command, lengths, detail) in [
        (&*short, &*long, (Some(6), Some(2 << 20)), ""),
        (&long, "rm .envrc", (Some(2 << 20), None), ""),
        (
            &short,
            &too_long,
            (None, None),
            "too long to be shown: 6 bytes 26bebb121169 → 16777217 bytes 6086152b5f41",
        ),
        (
            &too_long,
            &short,
            (None, None),
            "too long to be shown: 16777217 bytes 6086152b5f41 → 6 bytes 26bebb121169",
        ),
        (&too_long, "rm .envrc", (None, None), "too long to be shown: 16777217 bytes 6086152b5f41"),
        (&short, "ln -sf x .envrc", (Some(6), None), "a link to x"),
    ] {
        let (_, shown) = judged(setup, command);
        let [change] = &shown[..] else { panic!("{command}: {shown:?}") };
        let length = |content: &Option<Vec<u8>>| content.as_ref().map(Vec::len);
        assert_eq!((length(&change.before), length(&change.after)), lengths, "{command}");
        assert_eq!(change.detail.as_deref().unwrap_or_default(), detail, "{command}");
    }
}

#[test]
fn targets_of_git_configuration_and_links_are_obeyed() {
    let with = |more: &str| format!("{REPOSITORY} && {more}");
    let hooks = with("git config core.hooksPath hk && mkdir hk && touch hk/pre-commit");
    let included = with("git config include.path ../.gitcfg && touch .gitcfg");
    let linked = with("mkdir tools && touch tools/h && ln -s ../../tools/h .git/hooks/pre-commit");
    let monitor = with("git config core.fsmonitor ./fsm.sh && touch fsm.sh");
    let built = with(
        "mkdir -p target && cp -r .git/. target && git --git-dir=target config core.fsmonitor x",
    );
    for (setup, command, expected) in [
        (&*hooks, "echo x >hk/pre-commit", "hk/pre-commit"),
        (&included, "echo x >.gitcfg", ".gitcfg"),
        (&linked, "echo x >tools/h", "tools/h"),
        (&monitor, "echo x >fsm.sh", "fsm.sh"),
        ("touch .envrc0 && ln -s .envrc0 .envrc", "echo x >.envrc0", ".envrc0"),
        (
            "mkdir agents && ln -s agents .claude",
            "echo x >agents/settings.json",
            "agents/settings.json",
        ),
        ("mkdir v && echo {} >v/tasks.json", "ln -s v .vscode", ".vscode"),
        (&with("mkdir ../vh"), "ln -s ../vh lnk; git config core.worktree ../lnk", ".git/config"),
    ] {
        // Links that stay are among the changes here.
        let (asks, _) = judged(setup, command);
        assert!(asks.contains(&expected.to_owned()), "{setup}; {command}: {asks:?}");
    }
    // Changes in a build directory are not judged, so no pointer may lead there.
    let (asks, _) = judged(&built, "rm -rf .git; echo gitdir: target >.git");
    assert!(asks.contains(&".git".to_owned()), "{asks:?}");
}

#[test]
fn replacing_an_existing_masked_file_needs_an_approval() {
    let change = |path: &str, before| ProcessChange {
        path: path.into(),
        before,
        to: ChangedTo::Symlink("x".into(), Attributes::default()),
    };
    let changes = [
        change("/w/.env", Some(SEEN)),
        change("/w/private/a", Some(SEEN)),
        change("/w/private/new", None),
        change("/w/open", Some(SEEN)),
    ];
    let masked = ["/w/.env".into(), "/w/private".into()];
    let unseen = JudgeInputs { masked: &masked, ..JudgeInputs::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let judgement = judge(&changes, &Disk(folder.path().to_owned()), unseen, false);
    let asks: Vec<_> = judgement.asks.keys().map(|path| path.to_string_lossy()).collect();
    assert_eq!(asks, ["/w/.env", "/w/private/a"]);
    let shown = judgement.shown.iter().map(|change| (&change.before, &change.after));
    assert_eq!(shown.collect::<Vec<_>>(), [(&None, &None); 2], "their content is a secret");
}
