//! Tests of the table by examples, and of git directories by name and by examination.

use super::*;

#[test]
fn paths_are_protected_by_name() {
    let homes = [PathBuf::from("/h")];
    for (path, is) in [
        ("/w/.aiexclude", true),
        ("/w/sub/.aiexclude", true),
        ("/w/.git", true),
        ("/w/.git/hooks", true),
        ("/w/.git/hooks/pre-commit", true),
        ("/w/.GIT/hooks/pre-commit", true),
        ("/w/.git/config", true),
        ("/w/.git/CONFIG.worktree", true),
        ("/w/.git/commondir", true),
        ("/w/.git/HEAD", false),
        ("/w/.git/refs/heads/config", false),
        ("/w/.git/logs/refs/heads/hooks/a", false),
        ("/w/.git/modules/a/config", true),
        ("/w/.git/modules/a/b/hooks/x", true),
        ("/w/.git/modules/a/modules/b/config", true),
        ("/w/.git/modules/config/HEAD", false),
        ("/w/.git/modules/a/refs/heads/hooks/x", false),
        ("/w/.git/modules/hooks", false),
        ("/w/.git/worktrees/a/gitdir", true),
        ("/w/.git/worktrees/a/commondir", true),
        ("/w/.git/worktrees/a/config.worktree", true),
        ("/w/.git/worktrees/a/HEAD", false),
        ("/w/.windlass/config.toml", true),
        ("/w/.mcp.json", true),
        ("/w/.mcp.json/a", false),
        ("/w/.claude", true),
        ("/w/.claude/settings.json", true),
        ("/w/.claude/commands/a.md", true),
        ("/w/.codex/a", true),
        ("/w/.gemini/a", true),
        ("/w/a/.cursor/rules/b", true),
        ("/w/.hex/settings.json", true),
        ("/w/.hex/notes.md", false),
        ("/w/.hygge/hooks.toml", true),
        ("/w/.agents/hooks/a/b", true),
        ("/w/.agents/README.md", false),
        ("/w/.husky/pre-commit", true),
        ("/w/.vscode/tasks.json", true),
        ("/w/.vscode/Launch.json", true),
        ("/w/.vscode/extensions.json", false),
        ("/w/.envrc", true),
        ("/w/.envrc.md", false),
        ("/w/.bashrc", false),
        ("/w/.ssh/config", false),
        ("/h/.bashrc", true),
        ("/h/.bashrc.d", false),
        ("/h/.config/fish/a.fish", true),
        ("/h/.config/git/config", true),
        ("/h/.config/git/ignore", false),
        ("/h/.local/bin/ls", true),
        ("/h/a/.bashrc", false),
        ("/h/.ssh/rc", true),
        ("/w/src/hooks/a.rs", false),
        ("/w/config", false),
        ("/w/.gitignore", false),
    ] {
        assert_eq!(protected_reason(Path::new(path), &homes).is_some(), is, "{path}");
    }
}

#[test]
fn git_directories_are_found_by_name_and_by_examination() {
    let is_git = |path: &Path| ["bare", "x", "objects"].iter().any(|name| path.ends_with(name));
    for (path, expected) in [
        ("/w/.git/config", Some(("/w/.git", GitPart::Config))),
        ("/w/.git", Some(("/w/.git", GitPart::Pointer))),
        ("/w/.git/objects/ab/cd", Some(("/w/.git", GitPart::Other))),
        ("/w/.git/modules/a/b/hooks/c/d", Some(("/w/.git/modules/a/b", GitPart::Hook))),
        ("/w/.git/worktrees/a/gitdir", Some(("/w/.git/worktrees/a", GitPart::Pointer))),
        // Only an examination can tell a module with this name from refs.
        ("/w/.git/modules/a/refs/x/config", Some(("/w/.git/modules/a/refs/x", GitPart::Config))),
        ("/w/bare/config", Some(("/w/bare", GitPart::Config))),
        ("/w/bare/hooks/a/b", Some(("/w/bare", GitPart::Hook))),
        ("/w/bare/commondir", Some(("/w/bare", GitPart::Pointer))),
        ("/w/bare/HEAD", None),
        ("/w/src/config", None),
        ("/w/src/hooks/use.ts", None),
    ] {
        let place = git_place(Path::new(path), &is_git);
        let expected =
            expected.map(|(directory, part)| GitPath { directory: directory.into(), part });
        assert_eq!(place, expected, "{path}");
    }
}

#[test]
fn protected_entries_have_a_reason() {
    let git = [PathBuf::from(".git"), PathBuf::from("sub/.git")];
    let entries = protected_entries(&git, true);
    for (path, is_directory) in [
        (".git/config", false),
        ("sub/.git/hooks", true),
        (".husky", true),
        (".config/fish", true),
        (".zlogout", false),
    ] {
        assert!(entries.contains(&(path.into(), is_directory)), "{path}");
    }
    for (path, _) in &entries {
        let homes = [PathBuf::from("/w")];
        let reason = protected_reason(&Path::new("/w").join(path), &homes);
        assert!(reason.is_some(), "{}", path.display());
    }
    for (path, is) in
        [(".windlass", true), (".bashrc", true), (".claude", false), (".git/gitdir", false)]
    {
        assert_eq!(is_protected_when_absent(Path::new(path)), is, "{path}");
    }
}
