//! What must hold after a fault, once the program was started again.
//!
//! The workspace is wholly as it was or wholly as it should become, with nothing besides; what was said to be done is done. A
//! change that was made can be taken back, one that was not can be made. The journal is whole.

use super::lane::{self, Lane, Prepared};
use super::scenario::Promise;
use super::trace::Ran;
use super::tree::Tree;

/// In which of its two states a fault left the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As it was.
    Old,
    /// As it should become, and the program said so.
    New,
    /// As it should become, although the program did not say so: it was killed, or could not tell.
    NewUnsaid,
}

/// What does not hold, in words.
type Broken = String;

/// Looks at what a fault left behind.
pub(super) fn check(lane: &Lane, prepared: &Prepared, ran: &Ran) -> Result<End, Broken> {
    if let Some(disgrace) = ran.disgrace() {
        return Err(disgrace);
    }
    must(lane, &lane::next_start(), "the next start")?;
    if prepared.runs_programs() {
        must(lane, &lane::next_program(), "the next program")?;
    }
    let now = look(lane)?;
    if prepared.promise == Promise::Planted {
        return check_planted(lane, prepared, ran, &now);
    }
    let end = match (now.difference(&prepared.old), now.difference(&prepared.new)) {
        (_, None) if prepared.is_said_to_be_made(ran) => End::New,
        (_, None) => End::NewUnsaid,
        (None, _) if prepared.is_said_to_be_made(ran) => {
            return Err("it said that all is done, and nothing is".to_owned());
        }
        (None, _) => End::Old,
        // A failure that lasts keeps build directories from being merged, which is told; see docs/limits.md.
        (Some(_), Some(_)) if prepared.lacks_build_only(ran, &now) => {
            must(lane, &["log", "verify"], "log verify")?;
            return Ok(End::NewUnsaid);
        }
        (Some(old), Some(new)) => {
            return Err(format!("neither old ({old}) nor new ({new})"));
        }
    };
    match end {
        End::Old => must_be_makeable(lane, prepared)?,
        End::New | End::NewUnsaid => must_be_reversible(lane, prepared)?,
    }
    must(lane, &["log", "verify"], "log verify")?;
    Ok(end)
}

/// How it ends without any fault.
pub(super) fn end_without_fault(prepared: &Prepared) -> End {
    if prepared.is_recovery() { End::Old } else { End::New }
}

/// The place that a job planted is gone, or there as the job made it and then not said to be removed.
fn check_planted(lane: &Lane, prepared: &Prepared, ran: &Ran, now: &Tree) -> Result<End, Broken> {
    must(lane, &["log", "verify"], "log verify")?;
    let is_said = ran.stdout.contains("removed .husky");
    match (now.difference(&prepared.new), now.difference(&prepared.undone)) {
        (None, _) if is_said => Ok(End::New),
        (None, _) => Ok(End::NewUnsaid),
        (Some(_), None) if is_said => Err("it said that .husky is removed, and it is there".into()),
        (Some(_), None) => Ok(End::Old),
        (Some(new), Some(undone)) => Err(format!("neither removed ({new}) nor planted ({undone})")),
    }
}

fn must_be_makeable(lane: &Lane, prepared: &Prepared) -> Result<(), Broken> {
    let again = lane.again(prepared).map_err(|error| format!("{error:#}"))?;
    if !prepared.is_made(&again) {
        return Err(format!("tried again, it is refused: {}", said(&again)));
    }
    match look(lane)?.difference(&prepared.new) {
        None => Ok(()),
        Some(difference) => Err(format!("tried again, {difference}")),
    }
}

fn must_be_reversible(lane: &Lane, prepared: &Prepared) -> Result<(), Broken> {
    if prepared.is_undo() {
        let call = lane.newest_call().map_err(|error| format!("{error:#}"))?;
        must(lane, &["undo", "--call", call.as_str()], "the undo")?;
    } else {
        must(lane, lane::UNDO, "the undo")?;
    }
    let now = look(lane)?;
    match now.difference(&prepared.undone) {
        None => Ok(()),
        // A directory of which it could not be found out that it holds build results is recorded like any other.
        Some(_) if prepared.promise == Promise::Built && now == prepared.old => Ok(()),
        Some(difference) => Err(format!("after the undo {difference}")),
    }
}

fn must<S: AsRef<str>>(lane: &Lane, arguments: &[S], what: &str) -> Result<(), Broken> {
    let ran = lane.run(arguments).map_err(|error| format!("{error:#}"))?;
    match ran.disgrace() {
        Some(disgrace) => Err(format!("{what}: {disgrace}")),
        None if ran.is_success() => Ok(()),
        None => Err(format!("{what} fails: {}", said(&ran))),
    }
}

fn look(lane: &Lane) -> Result<Tree, Broken> {
    lane.look().map_err(|error| format!("{error:#}"))
}

/// The end of what a program said.
fn said(ran: &Ran) -> String {
    let all = format!("{}{}", ran.stdout, ran.stderr);
    let lines: Vec<&str> = all.lines().collect();
    lines.get(lines.len().saturating_sub(4)..).unwrap_or_default().join(" | ")
}
