//! `windlass demo`: a tour in a sample project. It has no special engine: every call goes through the hub, as in the other commands, and
//! each step compares the files and records afterwards with what it claims.

mod ask;
mod escape;
mod guest;
mod narrator;
mod record;
mod sample;
mod together;
mod tour;
mod undo;

use std::pin::Pin;
use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use self::narrator::Narrator;
use self::sample::Sample;
use self::tour::{Interrupt, Tour};
use super::{Interrupts, block_on, interrupted_exit_code};
use crate::options::Global;

/// A step of the tour.
struct Step {
    /// Its name in JSON.
    name: &'static str,
    /// Its heading for a person.
    title: &'static str,
    /// Makes the calls of the step and checks their results.
    run: for<'t> fn(&'t mut Tour<'_>) -> StepFuture<'t>,
}

/// The future of a step under way.
type StepFuture<'t> = Pin<Box<dyn Future<Output = Result<StepEnd>> + 't>>;

/// The result of a step.
enum StepEnd {
    /// The step ran to its end. The narrator has recorded whether its checks hold.
    Done,
    /// The step, or the rest of it, was skipped for this reason: the machine lacks something.
    Skipped(String),
}

/// The steps of the tour, in order.
const STEPS: &[Step] = &[
    Step {
        name: "together",
        title: "Calls that do not conflict run together",
        run: |tour| Box::pin(together::run(tour)),
    },
    Step {
        name: "ask",
        title: "A command runs first, and you are asked about what it changed",
        run: |tour| Box::pin(ask::run(tour)),
    },
    Step {
        name: "undo",
        title: "What a command deleted comes back",
        run: |tour| Box::pin(undo::run(tour)),
    },
    Step { name: "escape", title: "No way out", run: |tour| Box::pin(escape::run(tour)) },
    Step {
        name: "record",
        title: "Everything is on record, and a changed byte is found",
        run: |tour| Box::pin(std::future::ready(record::run(tour))),
    },
];

/// Runs the tour, removes the sample project, and returns the exit code: 1 if a check failed, 130 after an interrupt.
pub(super) fn run(global: &Global) -> Result<ExitCode> {
    let mut narrator = Narrator::of(global);
    block_on(async {
        // From here on a signal ends the tour only after the sample project is removed.
        let end_signal = listen_for_end()?;
        let sample = Sample::new()?;
        narrator.print_heading(sample.path(), STEPS.len())?;
        let interrupt = Interrupt::default();
        let passed = {
            let mut tour = Tour::new(&mut narrator, &sample, interrupt.clone());
            let mut steps = std::pin::pin!(tour.run_steps(STEPS));
            tokio::select! {
                biased;
                passed = &mut steps => passed,
                () = end_signal => {
                    interrupt.trigger();
                    steps.await
                }
            }
        };
        let directory = sample.path().to_owned();
        interrupt.wait_until_idle().await;
        sample.remove()?;
        if interrupt.has_happened() {
            narrator.print_interrupted(&directory)?;
            return Ok(interrupted_exit_code());
        }
        passed?;
        narrator.print_summary(&directory)
    })?
}

/// Returns a future that ends with the first of SIGINT, SIGTERM and SIGHUP (the end of the terminal).
fn listen_for_end() -> Result<impl Future<Output = ()>> {
    let mut interrupts = Interrupts::listen()?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            () = interrupts.next() => {}
            _ = hangup.recv() => {}
        }
    })
}
