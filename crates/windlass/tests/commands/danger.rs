//! Runs every dangerous row of the corpus in the mode `ask`: unless it is allowed, it leaves no file and no process behind, in the
//! workspace, at home or elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass::people::ApprovalRequest;
use windlass::process::ProcessSettings;
use windlass::{Mode, ToolCall};

use super::corpus::{SYSTEM_PATH, bash, policy, rows};
use super::text_of;
use crate::support::{TestWorkspace, Tree, tool_links};

/// Number of tests among which the rows are divided.
const SHARES: usize = 4;

/// The person who answers approvals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttendantKind {
    SaysNo,
    IsNotThere,
}

/// Runs every dangerous row of a share, half of them with a person who denies and half without an attendant.
async fn run(share: usize) {
    let tools = tool_links();
    let path = format!("{}:{SYSTEM_PATH}", tools.path().display());
    let mut asked = 0;
    let mut traces = Vec::new();
    let rows = rows().into_iter().filter(|row| row["expect"] == "deny");
    let persons = [AttendantKind::SaysNo, AttendantKind::IsNotThere].into_iter().cycle();
    for (row, person) in rows.skip(share).step_by(SHARES).zip(persons) {
        let questions = Arc::new(AtomicUsize::new(0));
        let danger_test = DangerTest::new(&path, person, &questions);
        bash(&danger_test.test.workspace(), &path, text_of(&row, "setup"));
        danger_test.test.windlass.engine().set_policy(policy(&row));
        let before = danger_test.all();
        danger_test.run(&row).await;
        asked += questions.load(Ordering::Relaxed);
        for (directory, tree) in danger_test.all() {
            if let Some(difference) = before[&directory].describe_differences(&tree) {
                traces.push(format!("{row}\n  {directory}: {difference}"));
            }
        }
        let left = danger_test.processes_left();
        if !left.is_empty() {
            traces.push(format!("{row}\n  processes: {left:?}"));
        }
    }
    assert!(traces.is_empty(), "{} leave traces:\n{}", traces.len(), traces.join("\n"));
    assert!(asked > 0, "no approval was asked for");
}

/// A workspace, a home directory and a directory beside them.
struct DangerTest {
    test: TestWorkspace,
    mark: String,
}

impl DangerTest {
    fn new(path: &str, person: AttendantKind, questions: &Arc<AtomicUsize>) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("WINDLASS_TEST_ROW={}-{number}", std::process::id());
        let questions = questions.clone();
        let test = TestWorkspace::outside_tmp_with(&[("kept", "kept\n")], |builder, folder| {
            let home = folder.join("home");
            std::fs::create_dir_all(home.join(".config")).expect("a home");
            std::fs::write(home.join(".profile"), "umask 022\n").expect("a file");
            std::fs::write(home.join("notes"), "of a person\n").expect("a file");
            std::fs::create_dir(folder.join("elsewhere")).expect("a folder");
            std::fs::write(folder.join("elsewhere/f"), "of others\n").expect("a file");
            let home = home.canonicalize().expect("a home").display().to_string();
            let builder = builder.mode(Mode::Ask).home(&home).processes(ProcessSettings {
                environment: vec![format!("HOME={home}"), format!("PATH={path}"), mark.clone()],
                ..ProcessSettings::default()
            });
            if person == AttendantKind::IsNotThere {
                return builder;
            }
            builder.attendant(move |_: &ApprovalRequest| {
                questions.fetch_add(1, Ordering::Relaxed);
                false
            })
        });
        Self { test, mark }
    }

    async fn run(&self, row: &Value) {
        let input = json!({"command": row["cmd"], "timeout": 20});
        let session = self.test.windlass.new_session();
        self.test.windlass.call(&session, ToolCall::new("bash", input)).await;
    }

    /// Reads the trees of all directories but the state directory, by name.
    fn all(&self) -> BTreeMap<&'static str, Tree> {
        let folder = self.test.parent_directory();
        let places = [("the workspace", "work"), ("home", "home"), ("elsewhere", "elsewhere")];
        places.into_iter().map(|(name, at)| (name, Tree::of(&folder.join(at)))).collect()
    }

    /// Lists processes of the row that still run after a while.
    fn processes_left(&self) -> Vec<PathBuf> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let left = processes_with(&self.mark);
            if left.is_empty() || Instant::now() > end {
                return left;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Lists the processes with this text in their environment.
fn processes_with(mark: &str) -> Vec<PathBuf> {
    let is_marked = |process: &Path| {
        std::fs::read(process.join("environ")).is_ok_and(|environment| {
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
    };
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    entries.map(|entry| entry.path()).filter(|process| is_marked(process)).collect()
}

#[tokio::test]
async fn denied_command_leaves_no_trace_1() {
    run(0).await;
}

#[tokio::test]
async fn denied_command_leaves_no_trace_2() {
    run(1).await;
}

#[tokio::test]
async fn denied_command_leaves_no_trace_3() {
    run(2).await;
}

#[tokio::test]
async fn denied_command_leaves_no_trace_4() {
    run(3).await;
}
