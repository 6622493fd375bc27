//! Runs the steps of the tour: one engine at a time, every call printed before and after, and an interrupt at any moment.

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
use super::{Step, StepEnd};

/// The pause between steps, for a person who reads along.
const PAUSE_BETWEEN_STEPS: Duration = Duration::from_millis(1_500);
/// The pause between the announcement of a call and the call.
const PAUSE_BEFORE_CALL: Duration = Duration::from_millis(700);

/// The time that an interrupted tour waits for work in progress to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Stops the tour: cancels the running calls and prevents further ones. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct Interrupt(Arc<InterruptState>);

/// State of the interrupt, shared by clones.
#[derive(Default)]
struct InterruptState {
    has_happened: AtomicBool,
    notify: Notify,
    /// The session whose calls are running.
    session: Mutex<Option<Arc<Session>>>,
    /// The journals of the engines that were opened. Work in progress for an engine keeps its journal open.
    stores: Mutex<Vec<Weak<Store>>>,
}

impl Interrupt {
    /// Interrupts the tour.
    pub(super) fn trigger(&self) {
        self.0.has_happened.store(true, Ordering::SeqCst);
        self.0.notify.notify_waiters();
        if let Some(session) = &*self.0.session.lock().unwrap_or_else(PoisonError::into_inner) {
            session.cancel();
        }
    }

    /// Returns whether the tour was interrupted.
    pub(super) fn has_happened(&self) -> bool {
        self.0.has_happened.load(Ordering::SeqCst)
    }

    /// Fails if the tour was interrupted.
    fn fail_if_interrupted(&self) -> Result<()> {
        if self.has_happened() {
            bail!("the tour was interrupted");
        }
        Ok(())
    }

    /// Makes an engine's session the one to cancel, and watches its journal.
    fn watch(&self, engine: &TourEngine) {
        let mut running = self.0.session.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some(Arc::clone(&engine.session));
        let mut stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.extend(engine.workspace.store().map(Arc::downgrade));
    }

    /// Waits until no work is in progress for an engine of the tour. A cancelled call returns before all of its work has ended, and files
    /// written later would reappear after the sample project was removed.
    pub(super) async fn wait_until_idle(&self) {
        let end = Instant::now() + SHUTDOWN_TIMEOUT;
        while self.has_open_journal() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns whether the journal of an engine is still open.
    fn has_open_journal(&self) -> bool {
        let stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.iter().any(|store| store.strong_count() > 0)
    }
}

/// The running tour, as its steps use it.
pub(super) struct Tour<'a> {
    pub(super) narrator: &'a mut Narrator,
    pub(super) sample: &'a Sample,
    interrupt: Interrupt,
}

/// An open workspace of the sample project, and a session in it.
pub(super) struct TourEngine {
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

    /// Runs all steps. An error in a step is a failed check; the following steps run all the same. Stops at an interrupt.
    pub(super) async fn run_steps(&mut self, steps: &[Step]) -> Result<()> {
        for (at, step) in steps.iter().enumerate() {
            if at > 0 {
                self.pause(PAUSE_BETWEEN_STEPS).await?;
            }
            self.narrator.begin_step(at + 1, step.name, step.title)?;
            let passed = (step.run)(self).await;
            self.interrupt.fail_if_interrupted()?;
            match passed {
                Ok(StepEnd::Done) => {}
                Ok(StepEnd::Skipped(why)) => self.narrator.skip(&why)?,
                Err(error) => self.narrator.check(&format!("{error:#}"), false)?,
            }
            self.narrator.end_step()?;
        }
        Ok(())
    }

    /// Opens the sample project without an attendant.
    pub(super) fn open_without_attendant(&self, mode: Mode) -> Result<TourEngine> {
        self.open(mode, People::NoAttendant)
    }

    /// Opens the sample project with this attendant.
    pub(super) fn open_with_attendant(&self, mode: Mode, guest: Guest) -> Result<TourEngine> {
        self.open(mode, People::Attendant(Arc::new(guest)))
    }

    /// Opens the sample project and makes it stop at an interrupt.
    fn open(&self, mode: Mode, people: People) -> Result<TourEngine> {
        let workspace = self.sample.open_workspace(mode, people)?;
        let session = workspace.session(SessionOptions::default())?;
        let engine = TourEngine { workspace, session };
        self.interrupt.watch(&engine);
        Ok(engine)
    }

    /// Prints one call and makes it.
    pub(super) async fn call(
        &mut self,
        engine: &TourEngine,
        tool: &str,
        input: Value,
    ) -> Result<CallResult> {
        let call = ToolCall::new(tool, input);
        self.narrator.print_call(&call)?;
        self.pause(PAUSE_BEFORE_CALL).await?;
        let result = engine.workspace.call(&engine.session, call).await;
        self.interrupt.fail_if_interrupted()?;
        Ok(result)
    }

    /// Prints the calls of a turn and makes them. Returns their results, and the time that the turn took.
    pub(super) async fn turn(
        &mut self,
        engine: &TourEngine,
        calls: Vec<ToolCall>,
    ) -> Result<(Vec<CallResult>, Duration)> {
        for call in &calls {
            self.narrator.print_call(call)?;
        }
        self.pause(PAUSE_BEFORE_CALL).await?;
        let began = Instant::now();
        let results = engine.workspace.turn(&engine.session, calls).await;
        self.interrupt.fail_if_interrupted()?;
        Ok((results, began.elapsed()))
    }

    /// Waits, if a person reads along; ends early at an interrupt.
    async fn pause(&self, time: Duration) -> Result<()> {
        if self.narrator.is_watched() {
            tokio::select! {
                () = tokio::time::sleep(time) => {}
                () = self.interrupt.0.notify.notified() => {}
            }
        }
        self.interrupt.fail_if_interrupted()
    }
}

/// Returns the reason why a command was refused, if that is because this machine cannot confine it.
pub(super) fn sandbox_refusal(result: &CallResult) -> Option<String> {
    let text = result.output.to_text();
    let is_refused = result.outcome == Outcome::Fault && result.code == Some("host_failed");
    let (_, why) = text.split_once("was not run: ").filter(|_| is_refused)?;
    let why = why.lines().next().unwrap_or(why);
    Some(format!("{why} (`windlass doctor` says what to do about it)"))
}
