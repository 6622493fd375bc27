//! The invariants after a fault, once the program was started again.
//!
//! The workspace is wholly unchanged or wholly changed, without other differences, and a reported success is true. A change that was made
//! can be undone, one that was not can be made. The journal verifies.

use super::lane::{self, Lane, Prepared};
use super::scenario::AllowedStates;
use super::trace::RunResult;
use super::tree::Tree;

/// The state of the workspace after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalState {
    /// Unchanged.
    Old,
    /// Changed, and the program reported success.
    New,
    /// Changed, but the program did not report success, because it was killed or had an error.
    NewUnreported,
}

/// A description of a broken invariant.
type Violation = String;

/// Starts the program again after a fault and checks all invariants.
pub(super) fn check(
    lane: &Lane,
    prepared: &Prepared,
    result: &RunResult,
) -> Result<FinalState, Violation> {
    if let Some(crash) = result.crash() {
        return Err(crash);
    }
    expect_success(lane, &lane::next_start(), "the next start")?;
    if prepared.runs_programs() {
        expect_success(lane, &lane::next_program(), "the next program")?;
    }
    let now = read_workspace(lane)?;
    if prepared.allowed_states == AllowedStates::Planted {
        return check_planted(lane, prepared, result, &now);
    }
    let end = match (now.describe_difference(&prepared.old), now.describe_difference(&prepared.new))
    {
        (_, None) if prepared.reported_success(result) => FinalState::New,
        (_, None) => FinalState::NewUnreported,
        (None, _) if prepared.reported_success(result) => {
            return Err("it reported success, and nothing was changed".to_owned());
        }
        (None, _) => FinalState::Old,
        // A lasting failure keeps build directories from being merged, which is reported; see docs/limits.md.
        (Some(_), Some(_)) if prepared.lacks_build_only(result, &now) => {
            expect_success(lane, &["log", "verify"], "log verify")?;
            return Ok(FinalState::NewUnreported);
        }
        (Some(old), Some(new)) => {
            return Err(format!("neither old ({old}) nor new ({new})"));
        }
    };
    match end {
        FinalState::Old => expect_change_succeeds(lane, prepared)?,
        FinalState::New | FinalState::NewUnreported => expect_undo_succeeds(lane, prepared)?,
    }
    expect_success(lane, &["log", "verify"], "log verify")?;
    Ok(end)
}

/// The state after a run without faults.
pub(super) fn end_without_fault(prepared: &Prepared) -> FinalState {
    if prepared.is_recovery() { FinalState::Old } else { FinalState::New }
}

/// Checks a protected path that a job created: it is removed, or it is unchanged and was not reported as removed.
fn check_planted(
    lane: &Lane,
    prepared: &Prepared,
    result: &RunResult,
    now: &Tree,
) -> Result<FinalState, Violation> {
    expect_success(lane, &["log", "verify"], "log verify")?;
    let is_said = result.stdout.contains("removed .husky");
    match (now.describe_difference(&prepared.new), now.describe_difference(&prepared.undone)) {
        (None, _) if is_said => Ok(FinalState::New),
        (None, _) => Ok(FinalState::NewUnreported),
        (Some(_), None) if is_said => {
            Err("it reported that .husky is removed, and it is there".into())
        }
        (Some(_), None) => Ok(FinalState::Old),
        (Some(new), Some(undone)) => Err(format!("neither removed ({new}) nor planted ({undone})")),
    }
}

/// Repeats the change without faults: it must succeed.
fn expect_change_succeeds(lane: &Lane, prepared: &Prepared) -> Result<(), Violation> {
    let repeat_change = lane.repeat_change(prepared).map_err(|error| format!("{error:#}"))?;
    if !prepared.succeeded(&repeat_change) {
        return Err(format!("tried again, it is refused: {}", last_lines(&repeat_change)));
    }
    match read_workspace(lane)?.describe_difference(&prepared.new) {
        None => Ok(()),
        Some(describe_difference) => Err(format!("tried again, {describe_difference}")),
    }
}

/// Undoes the change: the workspace must be as after an undo without faults.
fn expect_undo_succeeds(lane: &Lane, prepared: &Prepared) -> Result<(), Violation> {
    if prepared.is_undo() {
        let call = lane.newest_call().map_err(|error| format!("{error:#}"))?;
        expect_success(lane, &["undo", "--call", call.as_str()], "the undo")?;
    } else {
        expect_success(lane, lane::UNDO, "the undo")?;
    }
    let now = read_workspace(lane)?;
    match now.describe_difference(&prepared.undone) {
        None => Ok(()),
        // A directory that could not be recognized as a build directory is recorded like any other.
        Some(_) if prepared.allowed_states == AllowedStates::Built && now == prepared.old => Ok(()),
        Some(describe_difference) => Err(format!("after the undo {describe_difference}")),
    }
}

/// Runs a command without faults: it must succeed.
fn expect_success<S: AsRef<str>>(
    lane: &Lane,
    arguments: &[S],
    what: &str,
) -> Result<(), Violation> {
    let result = lane.run(arguments).map_err(|error| format!("{error:#}"))?;
    match result.crash() {
        Some(crash) => Err(format!("{what}: {crash}")),
        None if result.is_success() => Ok(()),
        None => Err(format!("{what} fails: {}", last_lines(&result))),
    }
}

fn read_workspace(lane: &Lane) -> Result<Tree, Violation> {
    lane.read_workspace().map_err(|error| format!("{error:#}"))
}

/// The last four lines that a program printed.
fn last_lines(result: &RunResult) -> String {
    let all = format!("{}{}", result.stdout, result.stderr);
    let lines: Vec<&str> = all.lines().collect();
    lines.get(lines.len().saturating_sub(4)..).unwrap_or_default().join(" | ")
}
