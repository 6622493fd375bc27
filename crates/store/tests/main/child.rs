//! Other processes: the test program starts itself again; environment variables name the task of the new process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use windlass_core::{Principal, RecordKind};
use windlass_store::{Store, StoreSettings};

use crate::common::{FINISHED, append, append_call, record};
use crate::full_disk;
use crate::history::together;

const TASK: &str = "WINDLASS_STORE_CHILD_TASK";
const STATE: &str = "WINDLASS_STORE_CHILD_STATE";
const NAME: &str = "WINDLASS_STORE_CHILD_NAME";
const ACKNOWLEDGED: &str = "acknowledged ";

/// The work of another process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task {
    /// Calls without end, printing each record that was acknowledged.
    Endless,
    /// The same with long records, so that the spool is drained and emptied all the time.
    EndlessLong,
    /// This number of calls.
    Calls(u32),
    /// One call that is begun and never ended; waits for the end of its input.
    Hang,
    /// Opens the store and closes it.
    Open,
    /// Fills the disk and makes room again.
    FillDisk,
    /// Changes in the history without end, printing the number of each that was finished.
    EndlessChanges,
    /// This number of changes.
    Changes(u64),
    /// Fills the disk with changes and makes room again.
    FillHistory,
}

/// A command that starts this program as another process; `name` is the prefix of its calls.
pub(crate) fn command(task: Task, state: &Path, name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    set_up(&mut command, task, state, name);
    command
}

/// The same command with SIGXFSZ ignored, so that writing past the file size limit is an error.
pub(crate) fn command_without_file_size_signal(task: Task, state: &Path, name: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]).arg(std::env::current_exe().unwrap());
    set_up(&mut command, task, state, name);
    command
}

fn set_up(command: &mut Command, task: Task, state: &Path, name: &str) {
    let task = match task {
        Task::Endless => "endless".to_owned(),
        Task::EndlessLong => "endless long".to_owned(),
        Task::Calls(count) => count.to_string(),
        Task::Hang => "hang".to_owned(),
        Task::Open => "open".to_owned(),
        Task::FillDisk => "fill disk".to_owned(),
        Task::EndlessChanges => format!("changes {}", u64::MAX),
        Task::Changes(count) => format!("changes {count}"),
        Task::FillHistory => "fill history".to_owned(),
    };
    command
        .args(["--exact", "child::as_another_process", "--nocapture"])
        .env(TASK, task)
        .env(STATE, state)
        .env(NAME, name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
}

/// The records that a process printed as acknowledged, as `CALL KIND`.
pub(crate) fn acknowledged(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| {
        // The first one follows the output of the test harness on the same line.
        let (_, record) = line.split_once(ACKNOWLEDGED)?;
        // A line that a kill cut off may not name the whole record.
        record.strip_suffix('.').map(str::to_owned)
    })
}

/// Not a test: the entry point of [`command`]. Does nothing without a task.
#[test]
fn as_another_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let state = std::env::var_os(STATE).unwrap();
    let (state, name) = (Path::new(&state), std::env::var(NAME).unwrap());
    if task == "fill disk" {
        return full_disk::fill_and_make_room(state);
    }
    if task == "fill history" {
        return together::fill_and_make_room(state);
    }
    if let Some(count) = task.strip_prefix("changes ") {
        let tell = |number: u64| tell(&number.to_string());
        return together::changes(state, &name, count.parse().unwrap(), tell);
    }
    // A small spool is drained and emptied often.
    let settings = StoreSettings { spool_limit: 256 << 10, ..StoreSettings::default() };
    let store = Store::open_with(state, settings).unwrap();
    match task.as_str() {
        "open" => {}
        "hang" => {
            append(&store, record(&name, &format!("{name}-hangs"), RecordKind::Started)).unwrap();
            tell(&format!("{name}-hangs started"));
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        "endless" => endless(&store, &name, 0),
        "endless long" => endless(&store, &name, 24 << 10),
        count => {
            store.session_started(
                &crate::common::session(&name),
                state,
                None,
                &Principal::default(),
            );
            for at in 0..count.parse().unwrap() {
                append_call(&store, &name, &format!("{name}-{at:05}"));
            }
        }
    }
}

fn endless(store: &Store, name: &str, padding: usize) {
    for at in 0_u64.. {
        let call = format!("{name}-{at}");
        for kind in [RecordKind::Started, FINISHED] {
            let mut step = record(name, &call, kind);
            step.body.push_str(&" ".repeat(padding));
            append(store, step).unwrap();
            tell(&format!("{call} {}", kind.as_str()));
        }
    }
}

#[expect(clippy::print_stdout, reason = "the process that started this one reads its output")]
fn tell(record: &str) {
    println!("{ACKNOWLEDGED}{record}.");
}
