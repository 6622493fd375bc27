//! The results so far, and the table at the end.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use super::fault::Fault;
use super::invariant::FinalState;
use super::lane::Lane;
use super::trace::RunResult;

/// Progress is printed after this many faults.
const PROGRESS_INTERVAL: usize = 250;

/// At most this many failures are listed, and their lanes kept for inspection.
const MAX_REPORTED: usize = 15;

#[derive(Debug)]
pub(super) struct Report {
    total: usize,
    place: PathBuf,
    results: Mutex<Results>,
}

#[derive(Debug, Default)]
struct Results {
    rows: Vec<Row>,
    tried: usize,
    broken: Vec<String>,
}

/// The counts of one scenario's faults.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    scenario: &'static str,
    /// Faults that were injected.
    injected: usize,
    /// Faults that were not injected, because the program did not make the call.
    missed: usize,
    old: usize,
    new: usize,
    unreported: usize,
    broken: usize,
}

impl Report {
    /// A report for this many faults; the lanes of failures are copied to `place`.
    pub(super) fn new(total: usize, place: PathBuf) -> Self {
        Self { total, place, results: Mutex::default() }
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Adds the result of a fault, and copies the lane of a failure.
    pub(super) fn add(
        &self,
        lane: &Lane,
        scenario: &'static str,
        fault: &Fault,
        result: &RunResult,
        end: Result<FinalState, String>,
    ) -> Result<()> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.row(scenario).add(result.was_injected(), end.as_ref().ok());
        results.tried += 1;
        if let Err(broken) = end {
            let name = fault.name(scenario);
            eprintln!("   {name}: {broken}");
            if results.broken.len() < MAX_REPORTED {
                lane.keep(&self.place.join(name.replace('/', "-")))?;
            }
            let call =
                result.log.lines().find(|line| line.contains("(INJECTED)")).unwrap_or_default();
            results.broken.push(format!("{name}: {broken}\n    {call}"));
        }
        if results.tried.is_multiple_of(PROGRESS_INTERVAL) {
            eprintln!("   {} of {}, {} broken", results.tried, self.total, results.broken.len());
        }
        Ok(())
    }

    /// Counts a fault that hit another call than the one that was meant, so that its result means nothing.
    pub(super) fn add_missed(&self, scenario: &'static str) {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.row(scenario).missed += 1;
        results.tried += 1;
    }

    pub(super) fn broken(&self) -> usize {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).broken.len()
    }

    /// The table, the first failures, and the sum.
    pub(super) fn render(&self) -> String {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).render()
    }
}

impl Results {
    fn row(&mut self, scenario: &'static str) -> &mut Row {
        let at = self.rows.iter().position(|row| row.scenario == scenario);
        let at = at.unwrap_or_else(|| {
            self.rows.push(Row { scenario, ..Row::default() });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    fn render(&self) -> String {
        let heading = ["injected", "old", "new", "unsaid", "missed", "broken"].map(String::from);
        let rows: String = self.rows.iter().map(Row::render).collect();
        let failure = |broken: &String| format!("  {broken}\n");
        let once_and_lasting: String = self.broken.iter().take(MAX_REPORTED).map(failure).collect();
        let injected: usize = self.rows.iter().map(|row| row.injected).sum();
        let broken = self.broken.len();
        line("scenario", &heading)
            + &rows
            + &once_and_lasting
            + &format!("faults injected={injected} invariant broken={broken}\n")
    }
}

fn line(scenario: &str, cells: &[String]) -> String {
    let cell = |cell: &String| format!("{cell:>10}");
    let cells: String = cells.iter().map(cell).collect();
    format!("{scenario:<14}{cells}\n")
}

impl Row {
    fn render(&self) -> String {
        let Self { scenario, injected, missed, old, new, unreported, broken } = self;
        line(scenario, &[injected, old, new, unreported, missed, broken].map(ToString::to_string))
    }

    fn add(&mut self, was_injected: bool, end: Option<&FinalState>) {
        *(if was_injected { &mut self.injected } else { &mut self.missed }) += 1;
        *(match end {
            None => &mut self.broken,
            Some(FinalState::Old) => &mut self.old,
            Some(FinalState::New) => &mut self.new,
            Some(FinalState::NewUnreported) => &mut self.unreported,
        }) += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ends_with_the_sum() {
        let mut results = Results::default();
        results.row("edit").add(true, Some(&FinalState::Old));
        results.row("undo").add(true, None);
        results.row("edit").add(false, Some(&FinalState::New));
        results.row("edit").add(true, Some(&FinalState::NewUnreported));
        results.broken.push("undo/main/write/EIO/1: gone".into());
        assert_eq!(
            results.render(),
            "\
scenario        injected       old       new    unsaid    missed    broken
edit                   2         1         1         1         1         0
undo                   1         0         0         0         0         1
  undo/main/write/EIO/1: gone
faults injected=3 invariant broken=1
"
        );
    }
}
