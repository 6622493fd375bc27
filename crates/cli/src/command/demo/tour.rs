//! The way from step to step: one engine at a time, every call told before and after, and an end at any moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;
use tokio::sync::Notify;
use windlass::journal::Store;
use windlass::{CallResult, Mode, Outcome, Session, ToolCall};
use windlass_hub::{People, SessionOptions, Workspace};

use super::guest::Guest;
use super::narrator::Narrator;
use super::sample::Sample;
use super::{Passed, Step};

/// The time to read a step before the next one begins, and to read what comes before it happens. Only who watches is given it.
const BETWEEN_STEPS: Duration = Duration::from_millis(1_500);
const BEFORE_A_CALL: Duration = Duration::from_millis(700);

/// The time that what was stopped is given to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stops the tour: the call that runs, and all that would come. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Interrupt(Arc<State>);

#[derive(Default)]
struct State {
    has_happened: AtomicBool,
    happens: Notify,
    /// The session whose calls are running.
    session: Mutex<Option<Arc<Session>>>,
    /// The stores of the engines that were opened. Whatever still works for an engine keeps its store open.
    stores: Mutex<Vec<Weak<Store>>>,
}

impl Interrupt {
    pub(super) fn happens(&self) {
        self.0.has_happened.store(true, Ordering::SeqCst);
        self.0.happens.notify_waiters();
        if let Some(session) = &*self.0.session.lock().unwrap_or_else(PoisonError::into_inner) {
            session.cancel();
        }
    }

    pub(super) fn has_happened(&self) -> bool {
        self.0.has_happened.load(Ordering::SeqCst)
    }

    /// Goes on only if it has not happened.
    fn check(&self) -> Result<()> {
        if self.has_happened() {
            bail!("the tour was interrupted");
        }
        Ok(())
    }

    fn concerns(&self, engine: &Engine) {
        let mut running = self.0.session.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some(Arc::clone(&engine.session));
        let mut stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.extend(engine.workspace.store().map(Arc::downgrade));
    }

    /// Waits until nothing works for an engine of the tour any more: a call that was stopped is answered before all of it has ended, and
    /// what is still written would come back after the sample project was removed.
    pub(super) async fn until_all_is_quiet(&self) {
        let end = Instant::now() + PATIENCE;
        while self.is_at_work() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn is_at_work(&self) -> bool {
        let stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.iter().any(|store| store.strong_count() > 0)
    }
}

/// The tour under way.
pub(super) struct Tour<'a> {
    pub(super) narrator: &'a mut Narrator,
    pub(super) sample: &'a Sample,
    interrupt: Interrupt,
}

/// An engine of the sample project, and a session on it.
pub(super) struct Engine {
    pub(super) workspace: Arc<Workspace>,
    pub(super) session: Arc<Session>,
}

impl<'a> Tour<'a> {
    pub(super) fn new(
        narrator: &'a mut Narrator,
        sample: &'a Sample,
        interrupt: Interrupt,
    ) -> Self {
        Self { narrator, sample, interrupt }
    }

    /// Takes all steps. A step that cannot be taken is one that did not do what it says; the others are taken all the same.
    pub(super) async fn take(&mut self, steps: &[Step]) -> Result<()> {
        for (at, step) in steps.iter().enumerate() {
            if at > 0 {
                self.pause(BETWEEN_STEPS).await?;
            }
            self.narrator.begin(at + 1, step.name, step.title)?;
            let passed = (step.run)(self).await;
            self.interrupt.check()?;
            match passed {
                Ok(Passed::Shown) => {}
                Ok(Passed::Skipped(why)) => self.narrator.skip(&why)?,
                Err(error) => self.narrator.check(&format!("{error:#}"), false)?,
            }
            self.narrator.end()?;
        }
        Ok(())
    }

    /// Opens the sample project with nobody to ask.
    pub(super) fn engine(&self, mode: Mode) -> Result<Engine> {
        self.open(mode, People::Nobody)
    }

    /// Opens the sample project with somebody to ask.
    pub(super) fn engine_with(&self, mode: Mode, guest: Guest) -> Result<Engine> {
        self.open(mode, People::Attendant(Arc::new(guest)))
    }

    fn open(&self, mode: Mode, people: People) -> Result<Engine> {
        let workspace = self.sample.engine(mode, people)?;
        let session = workspace.session(SessionOptions::default())?;
        let engine = Engine { workspace, session };
        self.interrupt.concerns(&engine);
        Ok(engine)
    }

    /// Makes one call, and tells it.
    pub(super) async fn call(
        &mut self,
        engine: &Engine,
        tool: &str,
        input: Value,
    ) -> Result<CallResult> {
        let call = ToolCall::new(tool, input);
        self.narrator.call(&call)?;
        self.pause(BEFORE_A_CALL).await?;
        let result = engine.workspace.call(&engine.session, call).await;
        self.interrupt.check()?;
        Ok(result)
    }

    /// Makes the calls of a turn, and tells them. Returns their results, and the time that they took in all.
    pub(super) async fn turn(
        &mut self,
        engine: &Engine,
        calls: Vec<ToolCall>,
    ) -> Result<(Vec<CallResult>, Duration)> {
        for call in &calls {
            self.narrator.call(call)?;
        }
        self.pause(BEFORE_A_CALL).await?;
        let began = Instant::now();
        let results = engine.workspace.turn(&engine.session, calls).await;
        self.interrupt.check()?;
        Ok((results, began.elapsed()))
    }

    /// Gives whoever watches time to read.
    async fn pause(&self, time: Duration) -> Result<()> {
        if self.narrator.is_watched() {
            tokio::select! {
                () = tokio::time::sleep(time) => {}
                () = self.interrupt.0.happens.notified() => {}
            }
        }
        self.interrupt.check()
    }
}

/// Returns the reason why a command could not be confined on this machine, if it was refused for that.
pub(super) fn without_sandbox(result: &CallResult) -> Option<String> {
    let text = result.output.to_text();
    let is_refused = result.outcome == Outcome::Fault && result.code == Some("host_failed");
    let (_, why) = text.split_once("was not run: ").filter(|_| is_refused)?;
    let why = why.lines().next().unwrap_or(why);
    Some(format!("{why} (`windlass doctor` says what to do about it)"))
}
