//! `cargo xtask faults`: makes single system calls of the program fail, or kills it there, and checks the files afterwards.
//!
//! A command that changes files runs once for every system call that it makes and every way in which that call can fail. After each run the
//! next start, without faults, must find the workspace wholly unchanged or wholly changed. strace injects the faults, so the program is
//! the released one, without code for these tests.
//!
//! `--sample N` tries every N-th fault, always the same ones. A fault is named by its scenario, thread, call, error and number, as
//! in `patch/worker/renameat2/EIO/2`; any part of that between slashes selects faults.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::workspace::Workspace;
use fault::{Fault, THREADS, TracedCall};
use lane::{Lane, Prepared};
use report::Report;
use scenario::{SCENARIOS, Scenario};
use trace::RunResult;

mod fault;
mod invariant;
mod lane;
mod report;
mod scenario;
mod trace;
mod tree;

#[derive(Debug, PartialEq, Eq)]
struct Options {
    /// One of this many faults is tried.
    sample: usize,
    /// Scenarios with a `sample_divisor` try fewer faults.
    use_divisors: bool,
    filter: String,
}

/// `cargo xtask faults [--sample N] [FILTER]`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    process::step("release build", || {
        process::run(&mut workspace.cargo(&["build", "--release", "--package", "windlass-cli"]))
    })?;
    run_faults(workspace, &workspace.target("release/windlass"), &options)
}

/// Tries a sample of the faults, which takes about a minute, on the debug build that the tests run.
pub(crate) fn sample(workspace: &Workspace) -> Result<()> {
    let options = Options { sample: SAMPLE, use_divisors: true, filter: String::new() };
    run_faults(workspace, &workspace.target("debug/windlass"), &options)
}

/// The sample of `cargo xtask test`.
const SAMPLE: usize = 25;

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { sample: 1, use_divisors: false, filter: String::new() };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--sample" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                options.sample = number.filter(|number| *number > 0).context(
                    "`--sample` needs a number: one in so many faults is tried, as in `--sample 25`",
                )?;
            }
            option if option.starts_with('-') => {
                bail!("there is no option `{option}`; `--sample N` is")
            }
            filter if options.filter.is_empty() => {
                filter.trim_matches('/').clone_into(&mut options.filter);
            }
            more => bail!("one filter at a time, please: `{}` or `{more}`", options.filter),
        }
    }
    Ok(options)
}

impl Options {
    /// Returns whether the filter selects a fault: it is empty, or some successive parts of the fault's name.
    fn selects(&self, name: &str) -> bool {
        format!("/{name}/").contains(&format!("/{}/", self.filter)) || self.filter.is_empty()
    }

    /// Returns whether the filter can select faults of a scenario.
    fn may_select(&self, scenario: &str) -> bool {
        let first = self.filter.split('/').next().unwrap_or_default();
        !SCENARIOS.iter().any(|other| other.name == first) || first == scenario
    }
}

/// Lists the selected faults, tries them in one lane per core, and prints the table; fails if a fault broke an invariant.
fn run_faults(workspace: &Workspace, program: &Path, options: &Options) -> Result<()> {
    trace::check_that_strace_works()?;
    let directory = workspace.target("faults");
    if directory.exists() {
        std::fs::remove_dir_all(&directory)
            .with_context(|| format!("removing {}", directory.display()))?;
    }
    std::fs::create_dir_all(&directory)?;
    // A copy, so that a build meanwhile does not replace the program.
    let copy = directory.join("windlass");
    std::fs::copy(program, &copy).with_context(|| format!("copying {}", program.display()))?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut lanes = Vec::new();
    for number in 1..=cores {
        lanes.push(Lane::make(directory.join(format!("lane-{number}")), copy.clone())?);
    }
    let all_faults = process::step("counting calls", || list_faults(&lanes, options))?;
    let total = all_faults.iter().map(|scenario_faults| scenario_faults.faults.len()).sum();
    ensure!(total > 0, "no fault is named `{}`", options.filter);
    let report = Report::new(total, directory.join("broken"));
    let tried =
        process::step(&format!("{total} faults"), || run_in_lanes(&lanes, &all_faults, &report));
    print!("{}", report.render());
    tried?;
    let broken = report.broken();
    ensure!(broken == 0, "{broken} faults broke what must hold; {}", report.place().display());
    Ok(())
}

/// The faults of one scenario.
#[derive(Debug)]
struct ScenarioFaults {
    scenario: &'static Scenario,
    faults: Vec<Fault>,
    /// The index of the next fault to try.
    next: AtomicUsize,
}

/// Lists the selected faults. The calls of each scenario are known from a run without faults.
fn list_faults(lanes: &[Lane], options: &Options) -> Result<Vec<ScenarioFaults>> {
    let lane = lanes.first().context("a machine without a core")?;
    let mut all_faults = Vec::new();
    let mut number = 0;
    for scenario in SCENARIOS.iter().filter(|scenario| options.may_select(scenario.name)) {
        let calls_made = calls(lane, scenario).with_context(|| format!("in {}", scenario.name))?;
        let mut faults = fault::of(&calls_made);
        faults.retain(|fault| options.selects(&fault.name(scenario.name)));
        let step = options.sample * if options.use_divisors { scenario.sample_divisor } else { 1 };
        faults.retain(|_| {
            number += 1;
            (number - 1) % step == 0
        });
        all_faults.push(ScenarioFaults { scenario, faults, next: AtomicUsize::new(0) });
    }
    Ok(all_faults)
}

/// The calls that a scenario makes in a run without faults. Fails if the invariants do not hold there.
fn calls(lane: &Lane, scenario: &Scenario) -> Result<Vec<TracedCall>> {
    let prepared = lane.prepare(scenario)?;
    let mut calls_made = Vec::new();
    for thread in THREADS {
        let mut longest = Vec::new();
        for _ in 0..max_attempts(&prepared) {
            lane.reset()?;
            let result = lane.trace(&prepared, *thread, None)?;
            match invariant::check(lane, &prepared, &result) {
                Ok(end) if end == invariant::end_without_fault(&prepared) => {}
                end => bail!("without any fault it ends with {end:?}"),
            }
            longest = std::cmp::max_by_key(longest, result.calls_made(*thread), Vec::len);
        }
        calls_made.extend(longest);
    }
    if prepared.runs_programs() {
        // After the end of a program another worker may go on. A fault is tried until it hits the call that is meant.
        return Ok(calls_made);
    }
    lane.reset()?;
    let threads = lane.count_threads(&prepared)?;
    ensure!(threads <= THREADS.len(), "{threads} threads make calls, and not all are traced");
    Ok(calls_made)
}

/// The number of runs after which the traced worker has made all blocking calls in one of them. After the end of a program the runtime
/// may use another thread, because the first one is still busy.
fn max_attempts(prepared: &Prepared) -> usize {
    if prepared.runs_programs() { 4 } else { 1 }
}

/// Tries all faults, each in the first free lane. Each lane prepares every scenario itself, because recorded paths are absolute.
fn run_in_lanes(lanes: &[Lane], all_faults: &[ScenarioFaults], report: &Report) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = lanes
            .iter()
            .map(|lane| {
                scope.spawn(|| {
                    all_faults
                        .iter()
                        .try_for_each(|scenario_faults| try_scenario(lane, scenario_faults, report))
                })
            })
            .collect();
        for thread_handle in threads {
            match thread_handle.join() {
                Ok(tried) => tried?,
                Err(_) => bail!("a thread of `cargo xtask faults` panicked"),
            }
        }
        Ok(())
    })
}

/// Tries faults of one scenario in a lane until none is left.
fn try_scenario(lane: &Lane, scenario_faults: &ScenarioFaults, report: &Report) -> Result<()> {
    let next = || scenario_faults.faults.get(scenario_faults.next.fetch_add(1, Ordering::Relaxed));
    let Some(mut fault) = next() else { return Ok(()) };
    let prepared = lane.prepare(scenario_faults.scenario)?;
    loop {
        let result = try_until_hit(lane, &prepared, fault)?;
        if result.hit_another_call() {
            report.add_missed(scenario_faults.scenario.name);
        } else {
            let end = invariant::check(lane, &prepared, &result);
            report.add(lane, scenario_faults.scenario.name, fault, &result, end)?;
        }
        fault = match next() {
            Some(fault) => fault,
            None => return Ok(()),
        };
    }
}

/// Runs the command until the fault is injected into the right call, at most `max_attempts` times.
fn try_until_hit(lane: &Lane, prepared: &Prepared, fault: &Fault) -> Result<RunResult> {
    let mut left = max_attempts(prepared);
    loop {
        lane.reset()?;
        let result = lane.trace(prepared, fault.thread, Some(fault))?;
        left -= 1;
        if result.was_injected() && !result.hit_another_call() || left == 0 {
            return Ok(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Result<Options> {
        parse(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_parsed_or_refused() {
        let expect =
            |sample, filter: &str| Options { sample, use_divisors: false, filter: filter.into() };
        assert_eq!(options(&[]).unwrap(), expect(1, ""));
        assert_eq!(options(&["--sample", "40", "patch"]).unwrap(), expect(40, "patch"));
        assert_eq!(options(&["/patch/main/"]).unwrap(), expect(1, "patch/main"));
        for wrong in
            [&["--sample"][..], &["--sample", "0"], &["--sample", "x"], &["-x"], &["a", "b"]]
        {
            assert!(options(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_filter_is_whole_parts_of_a_name() {
        for (filter, wanted) in [
            ("", true),
            ("patch", true),
            ("worker/openat", true),
            ("patch/worker/openat/EIO/3", true),
            ("EIO/3", true),
            ("open", false),
            ("undo", false),
        ] {
            let options = Options { sample: 1, use_divisors: false, filter: filter.into() };
            assert_eq!(options.selects("patch/worker/openat/EIO/3"), wanted, "{filter}");
        }
    }
}
