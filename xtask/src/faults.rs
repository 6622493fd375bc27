//! What becomes of files when a system call fails, or the program is killed there: `cargo xtask faults`.
//!
//! A command that changes files runs once for every call that it makes and every way in which that call can fail. Each time the
//! next start, without faults, must find the workspace wholly as it was or wholly as it should become. strace injects the faults,
//! so the program is the one that people run, and nothing in it knows of this.
//!
//! `--sample N` takes every N-th fault, always the same ones. A fault is named by its scenario, thread, call, error and number, as
//! in `patch/worker/renameat2/EIO/2`; any part of that between slashes selects faults.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::workspace::Workspace;
use fault::{Fault, Made, THREADS};
use lane::{Lane, Prepared};
use report::Report;
use scenario::{SCENARIOS, Scenario};
use trace::Ran;

mod fault;
mod invariant;
mod lane;
mod report;
mod scenario;
mod trace;
mod tree;

#[derive(Debug, PartialEq, Eq)]
struct Options {
    /// One in so many faults is tried.
    sample: usize,
    /// Of the scenarios that say so, still fewer are tried.
    is_thinned: bool,
    filter: String,
}

/// `cargo xtask faults [--sample N] [FILTER]`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    process::step("release build", || {
        process::run(&mut workspace.cargo(&["build", "--release", "--package", "windlass-cli"]))
    })?;
    walk(workspace, &workspace.target("release/windlass"), &options)
}

/// A part of the walk that takes about a minute, on the program that the tests run.
pub(crate) fn sample(workspace: &Workspace) -> Result<()> {
    let options = Options { sample: SAMPLE, is_thinned: true, filter: String::new() };
    walk(workspace, &workspace.target("debug/windlass"), &options)
}

const SAMPLE: usize = 25;

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { sample: 1, is_thinned: false, filter: String::new() };
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
    /// Whether a fault is meant: the filter is some of its name's parts.
    fn wants(&self, name: &str) -> bool {
        format!("/{name}/").contains(&format!("/{}/", self.filter)) || self.filter.is_empty()
    }

    /// Whether a scenario may have faults that are meant.
    fn may_want(&self, scenario: &str) -> bool {
        let first = self.filter.split('/').next().unwrap_or_default();
        !SCENARIOS.iter().any(|other| other.name == first) || first == scenario
    }
}

fn walk(workspace: &Workspace, program: &Path, options: &Options) -> Result<()> {
    trace::check_that_strace_works()?;
    let directory = workspace.target("faults");
    if directory.exists() {
        std::fs::remove_dir_all(&directory)
            .with_context(|| format!("removing {}", directory.display()))?;
    }
    std::fs::create_dir_all(&directory)?;
    // A copy, so that a build meanwhile does not put another program in its place.
    let copy = directory.join("windlass");
    std::fs::copy(program, &copy).with_context(|| format!("copying {}", program.display()))?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut lanes = Vec::new();
    for number in 1..=cores {
        lanes.push(Lane::make(directory.join(format!("lane-{number}")), copy.clone())?);
    }
    let plans = process::step("counting calls", || plan(&lanes, options))?;
    let total = plans.iter().map(|plan| plan.faults.len()).sum();
    ensure!(total > 0, "no fault is named `{}`", options.filter);
    let report = Report::new(total, directory.join("broken"));
    let walked = process::step(&format!("{total} faults"), || in_lanes(&lanes, &plans, &report));
    print!("{}", report.render());
    walked?;
    let broken = report.broken();
    ensure!(broken == 0, "{broken} faults broke what must hold; {}", report.place().display());
    Ok(())
}

/// The faults of one scenario.
#[derive(Debug)]
struct Plan {
    scenario: &'static Scenario,
    faults: Vec<Fault>,
    /// The next one that nobody tries yet.
    next: AtomicUsize,
}

/// Every fault that is meant, known from a run of each scenario without any.
fn plan(lanes: &[Lane], options: &Options) -> Result<Vec<Plan>> {
    let lane = lanes.first().context("a machine without a core")?;
    let mut plans = Vec::new();
    let mut number = 0;
    for scenario in SCENARIOS.iter().filter(|scenario| options.may_want(scenario.name)) {
        let made = calls(lane, scenario).with_context(|| format!("in {}", scenario.name))?;
        let mut faults = fault::of(&made);
        faults.retain(|fault| options.wants(&fault.name(scenario.name)));
        let step = options.sample * if options.is_thinned { scenario.thinned } else { 1 };
        faults.retain(|_| {
            number += 1;
            (number - 1) % step == 0
        });
        plans.push(Plan { scenario, faults, next: AtomicUsize::new(0) });
    }
    Ok(plans)
}

/// The calls that a scenario makes. Without a fault all must hold, or the walk would tell nothing.
fn calls(lane: &Lane, scenario: &Scenario) -> Result<Vec<Made>> {
    let prepared = lane.prepare(scenario)?;
    let mut made = Vec::new();
    for thread in THREADS {
        let mut longest = Vec::new();
        for _ in 0..tries(&prepared) {
            lane.reset()?;
            let ran = lane.trace(&prepared, *thread, None)?;
            match invariant::check(lane, &prepared, &ran) {
                Ok(end) if end == invariant::end_without_fault(&prepared) => {}
                end => bail!("without any fault it ends with {end:?}"),
            }
            longest = std::cmp::max_by_key(longest, ran.made(*thread), Vec::len);
        }
        made.extend(longest);
    }
    if prepared.runs_programs() {
        // Other workers may do what comes after the end of a program. A fault is tried until it meets the one that is walked.
        return Ok(made);
    }
    lane.reset()?;
    let threads = lane.count_threads(&prepared)?;
    ensure!(threads <= THREADS.len(), "{threads} threads make calls, and not all are walked");
    Ok(made)
}

/// How often a command is run until its worker has done all that blocks. After the end of a program the runtime may start another
/// thread, because the first one is not back yet.
fn tries(prepared: &Prepared) -> usize {
    if prepared.runs_programs() { 4 } else { 1 }
}

/// Each lane prepares every scenario for itself, since what is recorded has whole paths; the faults go to whoever is free.
fn in_lanes(lanes: &[Lane], plans: &[Plan], report: &Report) -> Result<()> {
    thread::scope(|scope| {
        let walkers: Vec<_> = lanes
            .iter()
            .map(|lane| {
                scope.spawn(|| plans.iter().try_for_each(|plan| try_all(lane, plan, report)))
            })
            .collect();
        for walker in walkers {
            match walker.join() {
                Ok(walked) => walked?,
                Err(_) => bail!("the walker itself failed"),
            }
        }
        Ok(())
    })
}

fn try_all(lane: &Lane, plan: &Plan, report: &Report) -> Result<()> {
    let next = || plan.faults.get(plan.next.fetch_add(1, Ordering::Relaxed));
    let Some(mut fault) = next() else { return Ok(()) };
    let prepared = lane.prepare(plan.scenario)?;
    loop {
        let ran = try_until_hit(lane, &prepared, fault)?;
        if ran.went_astray() {
            report.miss(plan.scenario.name);
        } else {
            let end = invariant::check(lane, &prepared, &ran);
            report.add(lane, plan.scenario.name, fault, &ran, end)?;
        }
        fault = match next() {
            Some(fault) => fault,
            None => return Ok(()),
        };
    }
}

/// Runs the command until the fault comes to pass, a few times at most.
fn try_until_hit(lane: &Lane, prepared: &Prepared, fault: &Fault) -> Result<Ran> {
    let mut left = tries(prepared);
    loop {
        lane.reset()?;
        let ran = lane.trace(prepared, fault.thread, Some(fault))?;
        left -= 1;
        if ran.was_hit() && !ran.went_astray() || left == 0 {
            return Ok(ran);
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
    fn arguments_are_understood_or_refused() {
        let expect =
            |sample, filter: &str| Options { sample, is_thinned: false, filter: filter.into() };
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
            let options = Options { sample: 1, is_thinned: false, filter: filter.into() };
            assert_eq!(options.wants("patch/worker/openat/EIO/3"), wanted, "{filter}");
        }
    }
}
