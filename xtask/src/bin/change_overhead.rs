//! Measures a change of a file with its undo record, beside the same change by plain system calls.
//!
//! `change_overhead DIRECTORY COUNT` prints the seconds of each change as JSON. The contenders take turns, so that other work of the
//! machine affects all alike. "By hand" means: a new file is written and renamed over the old, with or without a sync.
#![allow(clippy::print_stdout, reason = "the bench reads the numbers from stdout")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use windlass::files::Durability;
use windlass::{Mode, Outcome, Session, ToolCall, Windlass};

/// Changes that are not counted, while caches warm up.
const UNCOUNTED: usize = 20;
/// The number of changes in a long history.
const LONG_HISTORY: usize = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let usage = "usage: change_overhead DIRECTORY COUNT";
    let mut arguments = std::env::args_os().skip(1);
    let directory = PathBuf::from(arguments.next().context(usage)?);
    let count: usize =
        arguments.next().and_then(|count| count.to_str()?.parse().ok()).context(usage)?;
    let mut seconds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut kernel = WindlassRunner::new(&directory.join("kernel"), Durability::Kernel).await?;
    let mut disk = WindlassRunner::new(&directory.join("disk"), Durability::Disk).await?;
    for turn in 0..UNCOUNTED + count {
        let small = small(turn);
        let mut note = |name, value| {
            if turn >= UNCOUNTED {
                seconds.entry(name).or_default().push(value);
            }
        };
        note("small_by_hand", by_hand(&kernel.work, small.as_bytes(), false)?);
        note("small_ours", kernel.write(&small).await?);
        note("large_by_hand", by_hand(&kernel.work, large(turn).as_bytes(), false)?);
        note("large_ours", kernel.edit(turn).await?);
    }
    // In a separate loop: a sync makes all other writers wait.
    for turn in 0..UNCOUNTED + count {
        let small = small(turn);
        let mut note = |name, value| {
            if turn >= UNCOUNTED {
                seconds.entry(name).or_default().push(value);
            }
        };
        note("small_sync_by_hand", by_hand(&disk.work, small.as_bytes(), true)?);
        note("small_sync_ours", disk.write(&small).await?);
        note("large_sync_by_hand", by_hand(&disk.work, large(turn).as_bytes(), true)?);
        note("large_sync_ours", disk.edit(turn).await?);
    }
    for turn in 0..LONG_HISTORY {
        kernel.write(&small(turn)).await?;
    }
    for turn in 0..count {
        seconds.entry("small_after_many").or_default().push(kernel.write(&small(turn)).await?);
    }
    println!("{}", serde_json::to_string(&seconds)?);
    Ok(())
}

/// A text of about a kilobyte, different for each turn.
fn small(turn: usize) -> String {
    format!("{turn}\n{}", "a line of forty characters, give or take\n".repeat(25))
}

/// A text of about a mebibyte, with one line that differs for each turn.
fn large(turn: usize) -> String {
    let half = "a line of forty characters, give or take\n".repeat(13_000);
    format!("{half}number {turn}.\n{half}")
}

/// Writes a new file and renames it over the old one; returns the seconds.
fn by_hand(directory: &Path, content: &[u8], sync: bool) -> Result<f64> {
    let (beside, target) = (directory.join("beside"), directory.join("by_hand"));
    let start = Instant::now();
    let mut file = File::create(&beside)?;
    file.write_all(content)?;
    if sync {
        file.sync_all()?;
    }
    drop(file);
    fs::rename(&beside, &target)?;
    if sync {
        File::open(directory)?.sync_all()?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Calls tools of Windlass, with journal and undo record, and returns their seconds.
struct WindlassRunner {
    work: PathBuf,
    windlass: Windlass,
    session: Arc<Session>,
}

impl WindlassRunner {
    async fn new(directory: &Path, durability: Durability) -> Result<Self> {
        let work = directory.join("work");
        fs::create_dir_all(&work)?;
        fs::write(work.join("large.txt"), large(0))?;
        let windlass = Windlass::builder(&work)
            .state(directory.join("state"))
            .mode(Mode::Auto)
            .durability(durability)
            .build()?;
        let session = windlass.new_session();
        let mut ours = Self { work, windlass, session };
        ours.write("the first\n").await?;
        Ok(ours)
    }

    async fn write(&mut self, content: &str) -> Result<f64> {
        self.call("write", json!({"path": "small.txt", "content": content})).await
    }

    async fn edit(&mut self, turn: usize) -> Result<f64> {
        let (old, new) = (format!("number {turn}.\n"), format!("number {}.\n", turn + 1));
        self.call("edit", json!({"path": "large.txt", "old_string": old, "new_string": new})).await
    }

    async fn call(&mut self, tool: &str, input: serde_json::Value) -> Result<f64> {
        let call = ToolCall::new(tool, input);
        let start = Instant::now();
        let result = self.windlass.call(&self.session, call).await;
        let elapsed = start.elapsed().as_secs_f64();
        ensure!(result.outcome == Outcome::Ok, "{tool}: {}", result.output.to_text());
        Ok(elapsed)
    }
}
