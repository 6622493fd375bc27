//! `windlass demo`: a tour in a sample project of its own. It has no engine of its own: every call goes through the hub, as those of the
//! other commands do, and each step compares what it tells with what is there afterwards.

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
    title: &'static str,
    run: for<'t> fn(&'t mut Tour<'_>) -> Running<'t>,
}

type Running<'t> = Pin<Box<dyn Future<Output = Result<Passed>> + 't>>;

/// The end of a step.
enum Passed {
    /// It showed what it is there for. Its checks say whether that was so.
    Shown,
    /// It needs something that this machine does not have.
    Skipped(String),
}

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

pub(super) fn run(global: &Global) -> Result<ExitCode> {
    let mut narrator = Narrator::of(global);
    block_on(async {
        // From here on nothing ends us before the sample project is removed.
        let ending = listen()?;
        let sample = Sample::new()?;
        narrator.open(sample.path(), STEPS.len())?;
        let interrupt = Interrupt::default();
        let passed = {
            let mut tour = Tour::new(&mut narrator, &sample, interrupt.clone());
            let mut steps = std::pin::pin!(tour.take(STEPS));
            tokio::select! {
                biased;
                passed = &mut steps => passed,
                () = ending => {
                    interrupt.happens();
                    steps.await
                }
            }
        };
        let place = sample.path().to_owned();
        interrupt.until_all_is_quiet().await;
        sample.remove()?;
        if interrupt.has_happened() {
            narrator.interrupted(&place)?;
            return Ok(interrupted_exit_code());
        }
        passed?;
        narrator.close(&place)
    })?
}

/// Listens to what ends a program: Ctrl-C, SIGTERM, and the end of its terminal.
fn listen() -> Result<impl Future<Output = ()>> {
    let mut interrupts = Interrupts::listen()?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            () = interrupts.next() => {}
            _ = hangup.recv() => {}
        }
    })
}
