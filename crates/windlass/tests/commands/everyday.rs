//! Runs everyday commands in the mode `ask`: a command that changes no file needs no approval, any other needs one approval afterwards, of
//! exactly its changes.
//!
//! A plain bash in a copy of the project shows the changes of a command. Programs that a machine may lack are replaced by stand-ins, also
//! where they are installed, so that the test is the same everywhere.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass::people::ApprovalRequest;
use windlass::process::ProcessSettings;
use windlass::{Mode, ToolCall};

use super::corpus::SYSTEM_PATH;
use crate::support::{TestWorkspace, Tree};

/// Number of tests among which the commands are divided.
const SHARES: usize = 4;

/// Names of programs that a machine may lack and that `cargo xtask setup` does not install.
const STAND_INS: &str = "\
    black bundle cargo cmake column docker dotnet fd file free go gofmt jq mvn mypy ninja node npm npx patch pnpm protoc ps pytest \
    python rg ruff rustc sqlite3 terraform tree unzip uptime uv which xxd yarn";

/// The script of all stand-ins: some build, some format sources, some leave caches; the others only print.
const STAND_IN: &str = r#"#!/bin/sh
name=${0##*/}
case "$name $*" in
    "python -m venv "*) mkdir -p .venv/bin && echo : >.venv/bin/activate ;;
    "python "*) exec python3 "$@" ;;
    "cargo --version" | "go version" | "node --version") ;;
    "cargo add "*) echo 'serde = "1"' >>Cargo.toml ;;
    "cargo +nightly fmt" | "ruff check --fix "* | "black "* | "gofmt -w "*) echo tidy >>src/lib.rs ;;
    "cargo fmt "* | "cargo tree "*) ;;
    "cargo "*) mkdir -p target/debug && echo built >target/debug/app ;;
    "npm run lint "*) echo '// tidy' >>src/app.js ;;
    "npm run build" | "yarn build" | "node scripts/gen.js" | "protoc "* | "dotnet build" | "mvn "* | "cmake "* | "ninja "*)
        mkdir -p dist && echo built >dist/made ;;
    "pytest "* | "uv run "* | "mypy "*)
        mkdir -p .pytest_cache .mypy_cache .ruff_cache src/__pycache__
        for cache in .pytest_cache .mypy_cache .ruff_cache src/__pycache__; do echo x >$cache/x; done ;;
    "unzip "*) mkdir -p out && echo x >out/x ;;
    "patch "*) echo patched >>a.txt ;;
    "go mod "*) echo 'go 1.21' >>go.mod ;;
esac
echo "$name $*"
"#;

const FILES: &[(&str, &str)] = &[
    (".gitignore", "target/\ndist/\n*.log\n"),
    ("README.md", "# Sample\n"),
    ("notes.md", "old\n"),
    ("Cargo.toml", "[package]\nname = \"app\"\n"),
    ("src/main.rs", "fn main() {}\n"),
    ("src/lib.rs", "impl Foo {\n    fn old_name() { foo(); }\n}\n"),
    ("src/a.rs", "// a\n"),
    ("src/app.js", "console.log(1)\n"),
    ("src/app.test.ts", "test()\n"),
    ("src/a.c", "int a(void) { return 0; }\n"),
    ("app/models.py", "class A:\n    pass\n"),
    ("crates/core/Cargo.toml", "[package]\nname = \"core\"\n"),
    ("crates/core/src/lib.rs", "// core\n"),
    ("a.rs", "// a\n"),
    ("a", "a\n"),
    ("b", "b\n"),
    ("a.txt", "one\ntwo\r\n"),
    ("b.txt", "one\n"),
    ("c.txt", "three\n"),
    ("old/x", "1\n"),
    ("new/x", "2\n"),
    ("names.txt", "b\na\nb\n"),
    ("list.txt", "a.txt\nb.txt\n"),
    ("items.json", "[{\"id\": 1}]\n"),
    ("package.json", "{\"scripts\": {\"build\": \"x\"}}\n"),
    ("data.csv", "a,b,c\n1,2,3\n"),
    ("data.txt", "a b c\n"),
    ("token.txt", "aGVsbG8K\n"),
    ("image.png", "png\n"),
    ("big.bin", "0000\n"),
    ("VERSION", "1.0\n"),
    ("Makefile", "all:\n\techo made >made\ntest:\n\techo tested\n"),
    ("docs/Makefile", "html:\n\techo '<p>' >index.html\n"),
    ("main.c", "int main(void) { return 0; }\n"),
    ("main.o", "o\n"),
    ("x.pyc", "p\n"),
    ("x.orig", "o\n"),
    ("tests/test_api.py", "def test_login():\n    pass\n"),
    ("manage.py", "open('dev.db', 'a').write('migrated')\n"),
    ("scripts/run.sh", "#!/bin/sh\necho run\n"),
    ("scripts/test.sh", "#!/bin/sh\necho tested >report.txt\n"),
    ("scripts/setup.sh", "mkdir -p conf && echo x >conf/x\n"),
    ("scripts/gen.js", "1\n"),
    ("gradlew", "#!/bin/sh\nmkdir -p build && echo x >build/x\n"),
    ("app.sh", "#!/bin/sh\n"),
    ("fix.patch", "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+uno\n"),
    ("api.proto", "x\n"),
    ("templates/app/x", "x\n"),
    ("apps/x", "x\n"),
    ("build.log", "error: x\n"),
    ("server.log", "ERROR x\n"),
    ("dist/app", "app\n"),
    ("dist/app.tar.gz", "x\n"),
    ("target/tmp/x", "x\n"),
    ("target/debug/app", "old\n"),
    ("dev.db", "db\n"),
];

/// Script that turns the project into a repository with a history, branches and archives.
const PREPARE: &str = "\
    set -e; chmod +x scripts/run.sh scripts/test.sh gradlew; tar czf release.tgz old; tar czf vendor.tgz new
    git init -q -b main; git config user.name Ada; git config user.email ada@example.org
    git add a.txt; git commit -qm one; git add src; git commit -qm two; git add README.md; git commit -qm three
    git add -A; git commit -qm four; git branch feature/x; git tag v1.0.0";

/// Changed paths, with the contents of those that are files.
type Changes = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// An approval that was asked for.
#[derive(Debug)]
struct AskedApproval {
    has_run: bool,
    /// Its changes, relative to the workspace, with the new contents.
    changes: Changes,
    /// Its changed build directories.
    built: Vec<PathBuf>,
}

struct Project {
    test: TestWorkspace,
    asked: Arc<Mutex<Vec<AskedApproval>>>,
    path: String,
}

impl Project {
    fn new() -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let hears = asked.clone();
        let mut path = String::new();
        let test = TestWorkspace::outside_tmp_with(FILES, |builder, folder| {
            let home = folder.canonicalize().expect("a folder").join("home");
            put_stand_ins(&home.join(".cargo/bin"));
            for (name, content) in [("notes.txt", "n\n"), ("Downloads/x", "x\n"), ("bin/x", "x\n")]
            {
                let path = home.join(name);
                std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
                std::fs::write(path, content).expect("a file");
            }
            path = format!("{}:{SYSTEM_PATH}", home.join(".cargo/bin").display());
            builder
                .mode(Mode::Ask)
                .home(&home)
                .processes(ProcessSettings {
                    environment: vec![format!("HOME={}", home.display()), format!("PATH={path}")],
                    ..ProcessSettings::default()
                })
                .attendant(move |request: &ApprovalRequest| {
                    hears.lock().unwrap().push(AskedApproval::of(request));
                    false
                })
        });
        let project = Self { test, asked, path };
        project.bash(&project.test.workspace(), PREPARE);
        project
    }

    fn home(&self) -> PathBuf {
        self.test.parent_directory().canonicalize().expect("a folder").join("home")
    }

    /// Runs a text in a plain bash.
    fn bash(&self, directory: &Path, text: &str) {
        let ran = Command::new("bash")
            .args(["-c", text])
            .current_dir(directory)
            .env_clear()
            .envs([("PATH", self.path.as_str()), ("LANG", "C.UTF-8")])
            .env("HOME", self.home())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        ran.expect("bash runs");
    }

    /// Runs a text in a copy of the workspace. Returns the changed paths with their new contents.
    fn changed_by(&self, text: &str) -> Changes {
        let folder = tempfile::tempdir_in(self.test.parent_directory()).expect("a folder");
        let copy = folder.path().join("work");
        let mut copied = Command::new("cp");
        copied.arg("-a").arg(self.test.workspace()).arg(&copy);
        assert!(copied.status().expect("cp runs").success());
        let (before, staged) = (Tree::of(&copy), staged_in(&copy));
        self.bash(&copy, text);
        let after = Tree::of(&copy);
        // Git refreshes its index even if a command only reads.
        let is_refreshed = staged == staged_in(&copy);
        let is_index = |path: &PathBuf| is_refreshed && path == Path::new(".git/index");
        let changed = before.changed(&after).into_iter();
        let changed = changed.filter(|path| is_relevant(path) && !is_index(path));
        changed.map(|path| (path.clone(), after.bytes(&path).map(<[u8]>::to_vec))).collect()
    }

    /// Runs a text in the workspace by a call. Returns the approvals that were asked for.
    async fn asked_about(&self, text: &str) -> Vec<AskedApproval> {
        let session = self.test.windlass.new_session();
        let call = ToolCall::new("bash", json!({"command": text, "timeout": 30}));
        self.test.windlass.call(&session, call).await;
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl AskedApproval {
    fn of(request: &ApprovalRequest) -> Self {
        let relative =
            |path: &Path| path.strip_prefix(&request.workspace).unwrap_or(path).to_owned();
        let changes = request.changes.iter();
        Self {
            has_run: request.has_run,
            changes: changes.map(|it| (relative(&it.path), it.after.clone())).collect(),
            built: request.built.iter().map(|it| relative(&it.path)).collect(),
        }
    }

    /// Returns whether it shows that this path changed.
    fn shows(&self, path: &Path) -> bool {
        self.changes.contains_key(path)
            || self.built.iter().any(|built| path.starts_with(built))
            || (path.starts_with(".git") && self.changes.keys().any(|it| it.starts_with(".git")))
    }
}

fn put_stand_ins(directory: &Path) {
    std::fs::create_dir_all(directory).expect("a folder");
    let program = directory.join("stand-in");
    std::fs::write(&program, STAND_IN).expect("a file");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a mode");
    for name in STAND_INS.split_whitespace() {
        symlink("stand-in", directory.join(name)).expect("a link");
    }
}

/// Lists the content of the Git index.
fn staged_in(directory: &Path) -> Vec<u8> {
    let mut git = Command::new("git");
    let listed = git.args(["ls-files", "--stage"]).current_dir(directory).output();
    listed.expect("git runs").stdout
}

/// Returns whether a changed path counts as a change: caches of tools do not.
fn is_relevant(path: &Path) -> bool {
    const CACHES: &[&str] = &["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"];
    let is_cache = path.iter().any(|part| CACHES.iter().any(|cache| part == *cache));
    !is_cache && path != Path::new(".git")
}

/// Returns whether the approvals show exactly these changes: one approval if there is any change, else none.
fn match_changes(asked: &[AskedApproval], changed: &Changes) -> bool {
    let [asked] = asked else { return asked.is_empty() && changed.is_empty() };
    let is_real = |(path, after): (&PathBuf, &Option<Vec<u8>>)| {
        changed.get(path) == Some(after) || path.starts_with(".git")
    };
    asked.has_run
        && !changed.is_empty()
        && changed.keys().all(|path| asked.shows(path))
        && asked.changes.iter().all(is_real)
}

/// Runs a share of the commands.
async fn run(share: usize) {
    let project = Project::new();
    let before = Tree::of(&project.test.workspace());
    let rows = include_str!("../../../tools/src/shell/everyday.txt").lines();
    let rows: Vec<_> = rows.filter(|row| !row.starts_with('#')).collect();
    assert!(rows.len() >= 150, "{} commands", rows.len());
    let before_they_run = rows.iter().filter(|row| row.starts_with("asks\t")).count();
    assert!(before_they_run * 100 < rows.len() * 3, "{before_they_run} ask before they run");
    let mut wrong = Vec::new();
    let mut reads = String::new();
    for row in rows.iter().skip(share).step_by(SHARES) {
        let (expected, text) = row.split_once('\t').expect(row);
        let asked = project.asked_about(text).await;
        let now = Tree::of(&project.test.workspace());
        if let Some(difference) = before.describe_differences(&now) {
            wrong.push(format!("{text}: changed in spite of the no: {difference}"));
        }
        let mut changed = Changes::new();
        let is_right = match (expected, asked.as_slice()) {
            ("asks", [asked]) => !asked.has_run,
            ("reads", []) => {
                reads.push_str(&format!("( {text}\n)\n"));
                true
            }
            ("changes", asked) => {
                changed = project.changed_by(text);
                match_changes(asked, &changed)
            }
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{row}\n  really changes {changed:?}\n  asked {asked:?}"));
        }
    }
    let changed = project.changed_by(&reads);
    assert!(changed.is_empty(), "commands that count as reading change {changed:?}:\n{reads}");
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn approvals_show_exactly_the_changes_1() {
    run(0).await;
}

#[tokio::test]
async fn approvals_show_exactly_the_changes_2() {
    run(1).await;
}

#[tokio::test]
async fn approvals_show_exactly_the_changes_3() {
    run(2).await;
}

#[tokio::test]
async fn approvals_show_exactly_the_changes_4() {
    run(3).await;
}
