//! Another process replaces directories of the workspace by links to the outside, again and again, while commands start and end. A mount
//! or a change that is made by name instead of by handle would now and then lead out.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::scene::{describe, write_file};
use super::starts::{Run, text};
use crate::support::Home;

const SWAPPED_DIRECTORIES: &[&str] = &["sub", "x/node_modules", ".git", "target"];
const CANARY: &str = "canary behind the link";

/// Reads and writes in all swapped directories.
const READ_AND_WRITE_SCRIPT: &str = "for d in $(echo sub x/node_modules .git target); do cat $d/canary.txt $d/in/canary.txt; echo planted > $d/new.txt; \
    echo planted > $d/in/new.txt; echo planted >> $d/canary.txt; rm -f $d/in/canary.txt; mkdir -p $d/planted; done 2>/dev/null; echo looked";

/// Commands that start while directories are swapped; `WINDLASS_ESCAPES` makes them more.
const COMMAND_STARTS: usize = 40;

#[test]
fn swapped_directory_does_not_lead_out() {
    let home = ground();
    let outside = outside(&home);
    let before = description(&outside);
    let swapper = Swapper::start(&home);
    let more = std::env::var(super::TRIES).ok().and_then(|text| text.parse::<usize>().ok());
    let starts = more.map_or(COMMAND_STARTS, |tries| (tries / 20).max(COMMAND_STARTS));
    let mut ran_to_the_end = 0;
    for number in 0..starts {
        let level = ["workspace", "staged", "read-only"][number % 3];
        let options = ["--mode", "auto", "--sandbox", level, "--json"];
        let input = json!({"command": READ_AND_WRITE_SCRIPT}).to_string();
        let ran = home.run(&[&["call", "bash", &input], &options[..]].concat());
        // A start may fail because a directory is not there at this moment; it must not lead out.
        assert!(!ran.stdout.contains(CANARY), "{number}, {level}: {ran:?}");
        assert_eq!(description(&outside), before, "{number}, {level}: {ran:?}");
        ran_to_the_end += usize::from(ran.stdout.contains("looked"));
    }
    assert!(ran_to_the_end * 10 >= starts, "only {ran_to_the_end} of {starts} commands ran");
    assert!(swapper.end() > 1000, "hardly anything was swapped");
}

/// The same with one process that makes all calls, and so keeps what it opened.
#[test]
fn swapped_directory_does_not_lead_a_long_session_out() {
    let home = ground();
    let outside = outside(&home);
    let before = description(&outside);
    let mut run = Run::start(home.command(&["run", "-", "--mode", "auto"]));
    let swapper = Swapper::start(&home);
    let mut ran_to_the_end = 0;
    for number in 0..COMMAND_STARTS {
        let answer = run.ask("bash", &json!({"command": READ_AND_WRITE_SCRIPT}));
        assert!(!text(&answer).contains(CANARY), "{number}: {answer}");
        assert_eq!(description(&outside), before, "{number}: {answer}");
        ran_to_the_end += usize::from(text(&answer).contains("looked"));
    }
    assert!(
        ran_to_the_end * 10 >= COMMAND_STARTS,
        "only {ran_to_the_end} of {COMMAND_STARTS} commands ran"
    );
    assert!(swapper.end() > 1000, "hardly anything was swapped");
}

/// Without a sandbox the links do lead out.
#[test]
fn swapped_directories_lead_out_without_a_sandbox() {
    let home = ground();
    let outside = outside(&home);
    let before = description(&outside);
    let swapper = Swapper::start(&home);
    let mut has_read = false;
    let mut has_written = false;
    for _ in 0..1000 {
        let mut command = Command::new("bash");
        let output = home
            .prepare(&mut command)
            .args(["-c", READ_AND_WRITE_SCRIPT])
            .output()
            .expect("bash runs");
        has_read |= String::from_utf8_lossy(&output.stdout).contains(CANARY);
        has_written |= description(&outside) != before;
        if has_read && has_written {
            break;
        }
    }
    swapper.end();
    assert!(has_read && has_written, "read: {has_read}, written: {has_written}");
}

fn ground() -> Home {
    let home = Home::new_outside_tmp().with_files(&[(".gitignore", "node_modules\ntarget\n")]);
    for name in SWAPPED_DIRECTORIES {
        write_file(&home.workspace().join(name).join("in/own.txt"), "own\n");
        let there = outside(&home).join(name);
        write_file(&there.join("canary.txt"), CANARY);
        write_file(&there.join("in/canary.txt"), CANARY);
        let link = link(&home, name);
        std::fs::create_dir_all(link.parent().expect("a parent")).expect("a directory");
        std::os::unix::fs::symlink(there, link).expect("a link");
    }
    home
}

fn outside(home: &Home) -> PathBuf {
    home.workspace().with_file_name("outside")
}

fn link(home: &Home, name: &str) -> PathBuf {
    home.workspace().with_file_name("links").join(name)
}

fn description(path: &Path) -> String {
    let mut text = String::new();
    describe(path, &mut text);
    text
}

struct Swapper {
    thread: Option<JoinHandle<usize>>,
    has_ended: &'static AtomicBool,
}

impl Swapper {
    fn start(home: &Home) -> Self {
        let pairs: Vec<(PathBuf, PathBuf)> = SWAPPED_DIRECTORIES
            .iter()
            .map(|name| (home.workspace().join(name), link(home, name)))
            .collect();
        let has_ended: &'static AtomicBool = Box::leak(Box::default());
        let thread = std::thread::spawn(move || {
            let mut swaps = 0;
            while !has_ended.load(Ordering::Relaxed) {
                for (one, other) in &pairs {
                    // One of them may have been removed by a command for a moment.
                    let swapped = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
                    swaps += usize::from(swapped.is_ok());
                }
                // On two processors, the commands need some of the time.
                std::thread::yield_now();
            }
            swaps
        });
        Self { thread: Some(thread), has_ended }
    }

    /// Stops, and says how often it swapped.
    fn end(mut self) -> usize {
        self.has_ended.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("it ends")
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
