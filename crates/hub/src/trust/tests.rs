use std::os::unix::fs::symlink;

use super::*;

/// A workspace with a state directory next to it.
struct TestWorkspace {
    folder: tempfile::TempDir,
}

impl TestWorkspace {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("w")).expect("a folder");
        let ground = Self { folder };
        for (name, content) in files {
            ground.put(name, content);
        }
        ground
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there").join("w")
    }

    fn put(&self, name: &str, content: &str) {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }

    fn found(&self) -> ActingFiles {
        ActingFiles::in_workspace(&self.workspace()).expect("a workspace")
    }

    fn trust(&self) {
        let mut found = self.found();
        found.add_scripts(&self.workspace(), &[]).expect("a workspace");
        TrustedWorkspaces::trust(&self.state(), &self.workspace(), &found).expect("trusted");
    }

    /// Returns the changes since the workspace was trusted; `None` if it never was.
    fn changes(&self) -> Option<Vec<String>> {
        let trusted = TrustedWorkspaces::load(&self.state()).get(&self.workspace())?;
        let changes = trusted.changes(&self.workspace(), &self.found()).expect("a workspace");
        Some(changes.iter().map(Change::to_string).collect())
    }
}

#[test]
fn files_that_need_trust_are_protected() {
    for (path, _) in acting_files::ACTING_FILES.iter().chain(acting_files::ACTING_DIRECTORIES) {
        let reason = windlass::policy::protected_reason(&Path::new("/w").join(path), &[]);
        assert!(reason.is_some(), "{path}");
    }
}

#[test]
fn trust_covers_the_exact_content_of_all_files() {
    for place in [
        ".windlass/config.toml",
        ".windlass/hooks.json",
        ".windlass/tools/a.md",
        ".windlass/skills/a/SKILL.md",
        ".windlass/skills/a/b/run.sh",
        ".windlass/plugins/p/plugin.toml",
        ".mcp.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/skills/s/SKILL.md",
        ".hex/settings.json",
        ".hygge/hooks.toml",
        ".agents/hooks.toml",
    ] {
        let ground = TestWorkspace::with(&[(place, "one"), ("README.md", "x")]);
        assert_eq!(ground.found().files.len(), 1, "{place}");
        assert_eq!(ground.changes(), None, "{place}");
        ground.trust();
        assert_eq!(ground.changes(), Some(vec![]), "{place}");
        ground.put(place, "two");
        assert_eq!(ground.changes(), Some(vec![format!("{place} (changed)")]));
        ground.put(place, "one");
        assert_eq!(ground.changes(), Some(vec![]), "{place}: as it was");
        std::fs::remove_file(ground.workspace().join(place)).expect("removed");
        assert_eq!(ground.changes(), Some(vec![format!("{place} (removed)")]));
        ground.put(".mcp.json", "{}");
        ground.put(place, "one");
        let added =
            if place == ".mcp.json" { vec![] } else { vec![".mcp.json (added)".to_owned()] };
        ground.put(".mcp.json", if place == ".mcp.json" { "one" } else { "{}" });
        assert_eq!(ground.changes(), Some(added), "{place}");
        assert!(TrustedWorkspaces::revoke(&ground.state(), &ground.workspace()).expect("revoked"));
        assert_eq!(ground.changes(), None, "{place}");
    }
}

#[test]
fn trust_covers_scripts_of_hooks() {
    let hooks = r#"{"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": "bash \"$CLAUDE_PROJECT_DIR\"/ci/check.sh && ./late.sh"}]}]}}"#;
    let ground =
        TestWorkspace::with(&[(".claude/settings.json", hooks), ("ci/check.sh", "exit 0\n")]);
    let mut found = ground.found();
    found.add_scripts(&ground.workspace(), &[]).expect("a workspace");
    assert_eq!(found.absent, [Path::new("late.sh")]);
    assert_eq!(found.files.iter().filter(|file| file.role == ActingFileRole::Script).count(), 1);
    ground.trust();
    assert_eq!(ground.changes(), Some(vec![]));
    ground.put("ci/check.sh", "exit 1\n");
    assert_eq!(ground.changes(), Some(vec!["ci/check.sh (changed)".to_owned()]));
    ground.put("ci/check.sh", "exit 0\n");
    ground.put("late.sh", "exit 0\n");
    assert_eq!(ground.changes(), Some(vec!["late.sh (added)".to_owned()]));
}

#[test]
fn trust_of_an_earlier_version_does_not_count() {
    let ground = TestWorkspace::with(&[(".windlass/config.toml", "mode = \"plan\"")]);
    std::fs::create_dir(ground.state()).expect("a folder");
    let old = serde_json::json!({quoted_path(&ground.workspace()): "0123", "/other": "4567"});
    for content in [old.to_string().as_str(), "garbage", "[]", r#"{"/w": {"files": {"a": "x"}}}"#] {
        std::fs::write(ground.state().join("trust.json"), content).expect("a file");
        assert_eq!(ground.changes(), None, "{content}");
    }
    std::fs::write(ground.state().join("trust.json"), old.to_string()).expect("a file");
    ground.trust();
    assert_eq!(ground.changes(), Some(vec![]));
    let known = TrustedWorkspaces::load(&ground.state());
    assert!(known.workspaces().any(|workspace| workspace == "/other"), "others are left alone");
}

#[test]
fn copies_are_kept_while_trusted() {
    let place = ".windlass/config.toml";
    let ground = TestWorkspace::with(&[(place, "deny = [\"read a\"]")]);
    let kept = || -> Vec<String> {
        let entries = std::fs::read_dir(ground.state().join("trusted")).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().unwrap()).collect()
    };
    ground.trust();
    let first = ContentHash::of(b"deny = [\"read a\"]");
    assert_eq!(kept(), [first.to_string()]);
    std::fs::write(ground.state().join("trusted/left.new"), "half").expect("a file");
    ground.put(place, "deny = []");
    ground.trust();
    assert_eq!(kept(), [ContentHash::of(b"deny = []").to_string()]);
    TrustedWorkspaces::revoke(&ground.state(), &ground.workspace()).expect("revoked");
    assert!(kept().is_empty());
}

#[test]
fn missing_copy_denies_every_call() {
    let place = ".windlass/config.toml";
    for spoil in ["", "deny = []"] {
        let ground = TestWorkspace::with(&[(place, "deny = [\"read a\"]"), (".mcp.json", "{}")]);
        ground.trust();
        let held = |ground: &TestWorkspace| {
            let trusted =
                TrustedWorkspaces::load(&ground.state()).get(&ground.workspace()).expect("trusted");
            let changes = trusted.changes(&ground.workspace(), &ground.found()).expect("changes");
            let contents = TrustedContents::in_state(&ground.state());
            let held = trusted.held_restrictions(&ground.found(), &contents, &changes);
            let texts: Vec<String> = held.files.iter().map(Acting::text).collect();
            (texts, held.closed.map(|closed| closed.0))
        };
        let trusted = (vec!["deny = [\"read a\"]".to_owned()], None);
        ground.put(".mcp.json", "changed");
        assert_eq!(held(&ground), trusted);
        ground.put(place, "deny = []");
        assert_eq!(held(&ground), trusted);
        let hash = ContentHash::of(b"deny = [\"read a\"]").to_string();
        let path = ground.state().join("trusted").join(hash);
        std::fs::remove_file(&path).expect("removed");
        if !spoil.is_empty() {
            std::fs::write(path, spoil).expect("a file");
        }
        let (texts, closed) = held(&ground);
        let closed = closed.expect("closed");
        assert!(texts.is_empty() && closed.contains(place), "{closed}");
        assert!(closed.contains("`windlass trust`"), "{closed}");
    }
}

#[test]
fn links_pipes_and_huge_files_are_not_read() {
    let ground = TestWorkspace::with(&[("real/config.toml", "mode = \"plan\"")]);
    let (workspace, outside) = (ground.workspace(), ground.folder.path().join("outside"));
    std::fs::create_dir_all(outside.join("tools")).expect("a folder");
    std::fs::write(outside.join("config.toml"), "mode = \"plan\"").expect("a file");
    std::fs::write(outside.join("tools/a.md"), "x").expect("a file");
    symlink(&outside, workspace.join(".windlass")).expect("a link");
    let found = ground.found();
    assert!(found.files.is_empty());
    assert!(
        found.warnings.iter().any(|warning| warning.contains("leads out of the workspace")),
        "{:?}",
        found.warnings
    );
    std::fs::remove_file(workspace.join(".windlass")).expect("removed");
    std::fs::create_dir_all(workspace.join(".windlass/tools")).expect("a folder");
    let fifo = workspace.join(".windlass/config.toml");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    std::fs::write(workspace.join(".windlass/tools/huge.md"), vec![b'x'; 5 << 20]).expect("a file");
    symlink("/etc/passwd", workspace.join(".mcp.json")).expect("a link");
    symlink("nowhere", workspace.join(".windlass/hooks.json")).expect("a link");
    let found = ground.found();
    assert!(found.files.is_empty(), "{:?}", found.hashes());
    for why in ["config.toml is a FIFO", "huge.md is larger than", ".mcp.json leads out"] {
        assert!(
            found.warnings.iter().any(|warning| warning.contains(why)),
            "{why}: {:?}",
            found.warnings
        );
    }
}
