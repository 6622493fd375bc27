//! git in a workspace whose git directory lies outside of it: a linked worktree, and a subdirectory of a repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::Home;

/// A home whose workspace is a repository with a linked worktree beside it.
struct Repository(Home);

impl Repository {
    fn new() -> Self {
        let home = Home::new_outside_tmp().with_files(&[("a", "one\n"), ("sub/b", "two\n")]);
        let this = Self(home);
        for arguments in [
            &["init", "-q"][..],
            &["add", "."],
            &["commit", "-qm", "first"],
            &["worktree", "add", "-q", "../linked", "-b", "feature"],
        ] {
            this.git(arguments);
        }
        this
    }

    fn git(&self, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=n", "-c", "user.email=n@example.com"];
        let ran = Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(self.0.workspace())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git runs");
        assert!(ran.status.success(), "{arguments:?}: {ran:?}");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    fn place(&self, name: &str) -> PathBuf {
        self.0.workspace().join(name).canonicalize().expect("a directory")
    }

    fn run(
        &self,
        place: &Path,
        options: &[&str],
        tool: &str,
        input: &serde_json::Value,
    ) -> (i32, String) {
        let place = place.to_str().expect("a path");
        let (code, result) = self.0.call(&[&["-C", place], options].concat(), tool, input);
        (code, result["content"][0]["text"].as_str().unwrap_or_default().trim_end().to_owned())
    }
}

const WORKSPACES: [(&str, &str); 2] = [("sub", "master"), ("../linked", "feature")];

#[test]
fn git_reads_without_a_question() {
    let repository = Repository::new();
    repository.git(&["branch", "-M", "master"]);
    for (name, branch) in WORKSPACES {
        let place = repository.place(name);
        let shell =
            |command: &str| repository.run(&place, &[], "bash", &json!({"command": command}));
        assert_eq!(shell("git status --short --branch"), (0, format!("## {branch}")), "{name}");
        assert!(shell("git log --oneline").1.ends_with("first"), "{name}");
        assert_eq!(shell("git diff --stat"), (0, "[no output]".to_owned()), "{name}");
        let tool = |command: &str| repository.run(&place, &[], "git", &json!({"command": command}));
        assert_eq!(tool("status"), (0, format!("## {branch}")), "{name}");
        assert!(tool("log").1.contains("first"), "{name}");
        // The files around the workspace are not the tools' to read.
        let other = if name == "sub" { "../a" } else { "../linked/../w/a" };
        assert_ne!(repository.run(&place, &[], "read", &json!({"path": other})).0, 0, "{name}");
    }
}

#[test]
fn git_writes_to_its_directory_as_the_rules_allow() {
    let repository = Repository::new();
    let rule = format!("write {}/**", repository.place(".git").display());
    let commit = json!({"command": "echo new > c; git add c; git -c user.name=n -c user.email=n@e commit -qm second"});
    for (name, _) in WORKSPACES {
        let place = repository.place(name);
        let count = || repository.git(&["log", "--all", "--oneline"]).lines().count();
        let before = count();
        let (_, said) = repository.run(&place, &["--mode", "auto"], "bash", &commit);
        assert!(said.contains("a person can allow writing"), "{name}: {said}");
        assert_eq!(count(), before, "{name}");
        let options = ["--mode", "auto", "--allow", &rule];
        let (code, said) = repository.run(&place, &options, "bash", &commit);
        assert_eq!((code, count()), (0, before + 1), "{name}: {said}");
        let hook = json!({"command": "git config core.pager x"});
        let (_, said) = repository.run(&place, &options, "bash", &hook);
        assert!(said.contains("git's hooks and configuration"), "{name}: {said}");
    }
}
