//! What the walk has seen so far, and the table at its end.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use super::fault::Fault;
use super::invariant::End;
use super::lane::Lane;
use super::trace::Ran;

/// After so many faults the walk says how far it is.
const STRIDE: usize = 250;

/// So many failures are told, and kept for a look.
const TOLD: usize = 15;

#[derive(Debug)]
pub(super) struct Report {
    total: usize,
    place: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    rows: Vec<Row>,
    tried: usize,
    broken: Vec<String>,
}

/// What became of one scenario's faults.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    scenario: &'static str,
    /// Those that came to pass.
    injected: usize,
    /// Those that did not: the program came another way.
    missed: usize,
    old: usize,
    new: usize,
    unsaid: usize,
    broken: usize,
}

impl Report {
    /// For so many faults; what lanes of broken ones looked like goes to `place`.
    pub(super) fn new(total: usize, place: PathBuf) -> Self {
        Self { total, place, seen: Mutex::default() }
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    pub(super) fn add(
        &self,
        lane: &Lane,
        scenario: &'static str,
        fault: &Fault,
        ran: &Ran,
        end: Result<End, String>,
    ) -> Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.row(scenario).add(ran.was_hit(), end.as_ref().ok());
        seen.tried += 1;
        if let Err(broken) = end {
            let name = fault.name(scenario);
            eprintln!("   {name}: {broken}");
            if seen.broken.len() < TOLD {
                lane.keep(&self.place.join(name.replace('/', "-")))?;
            }
            let call = ran.log.lines().find(|line| line.contains("(INJECTED)")).unwrap_or_default();
            seen.broken.push(format!("{name}: {broken}\n    {call}"));
        }
        if seen.tried.is_multiple_of(STRIDE) {
            eprintln!("   {} of {}, {} broken", seen.tried, self.total, seen.broken.len());
        }
        Ok(())
    }

    /// Counts a fault that met another call than the one that it is about, so that its end says nothing.
    pub(super) fn miss(&self, scenario: &'static str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.row(scenario).missed += 1;
        seen.tried += 1;
    }

    pub(super) fn broken(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).broken.len()
    }

    /// The table, the first failures, and the sum.
    pub(super) fn render(&self) -> String {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).render()
    }
}

impl Seen {
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
        let failures: String = self.broken.iter().take(TOLD).map(failure).collect();
        let injected: usize = self.rows.iter().map(|row| row.injected).sum();
        let broken = self.broken.len();
        line("scenario", &heading)
            + &rows
            + &failures
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
        let Self { scenario, injected, missed, old, new, unsaid, broken } = self;
        line(scenario, &[injected, old, new, unsaid, missed, broken].map(ToString::to_string))
    }

    fn add(&mut self, was_hit: bool, end: Option<&End>) {
        *(if was_hit { &mut self.injected } else { &mut self.missed }) += 1;
        *(match end {
            None => &mut self.broken,
            Some(End::Old) => &mut self.old,
            Some(End::New) => &mut self.new,
            Some(End::NewUnsaid) => &mut self.unsaid,
        }) += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ends_with_the_sum() {
        let mut seen = Seen::default();
        seen.row("edit").add(true, Some(&End::Old));
        seen.row("undo").add(true, None);
        seen.row("edit").add(false, Some(&End::New));
        seen.row("edit").add(true, Some(&End::NewUnsaid));
        seen.broken.push("undo/main/write/EIO/1: gone".into());
        assert_eq!(
            seen.render(),
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
