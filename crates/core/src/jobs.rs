//! Programs of a session: those that a call waits for, and those that go on behind it.
//!
//! Both are the same thing. A call that waits watches a job to its end; it may also leave it to the session, at any time, and
//! whoever comes later finds all that it printed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::sync::Lock;
use crate::transcript::{Piece, Transcript};
use crate::{
    Absence, CallId, JobId, NetworkAccess, Outcome, PathUse, Process, ProcessEnd, Signal,
    TerminalSize, ToolError, Tracking,
};

/// A program that was started by a call.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{CommandLine, Effect, Kinds, Output, ProcessRequest, Program, testing::MockTool};
/// # use windlass_core::{Engine, Mode, Policy, ToolCall, Toolbox, testing::EchoHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("make")
///     .with_effects(Kinds::EXEC, |_| Effect::Exec(CommandLine::words(["make", "all"])).into())
///     .answering(|cx, _| async move {
///         let directory = cx.files().resolve(".".as_ref())?;
///         let request = ProcessRequest::new(Program::words(["make", "all"]), directory);
///         let (job, end) = cx.processes()?.run(request, None, None).await?;
///         assert!(end.is_some_and(|end| !end.timed_out));
///         assert_eq!(job.command(), "make all");
///         Ok(Output::text(String::from_utf8_lossy(&job.since(0, 100).bytes)))
///     });
/// # let mut tools = Toolbox::new();
/// # tools.add(tool)?;
/// # let engine = Engine::builder(Arc::new(EchoHost::default())).toolbox(tools).policy(Policy::new(Mode::Yolo)).build();
/// // On this machine every program prints its own words.
/// let result = engine.call(&engine.new_session(), ToolCall::new("make", json!({}))).await;
/// assert_eq!(result.output.to_text(), "make all");
/// # Ok(())
/// # }
/// ```
pub struct Job {
    pub(crate) id: JobId,
    pub(crate) call: CallId,
    pub(crate) command: String,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) limit: Option<Duration>,
    pub(crate) runs_behind: bool,
    pub(crate) is_staged: bool,
    pub(crate) when_stopped: WhenStopped,
    pub(crate) network: NetworkAccess,
    pub(crate) started: SystemTime,
    pub(crate) began: Instant,
    pub(crate) process: Box<dyn Process>,
    pub(crate) transcript: Lock<Transcript>,
    /// The standard error, where it is kept apart.
    pub(crate) errors: Option<Lock<Transcript>>,
    /// How far the session has looked.
    pub(crate) seen: Lock<u64>,
    pub(crate) printed: Notify,
    pub(crate) interruption: Interruption,
    pub(crate) stopped_by: Lock<Option<Signal>>,
    pub(crate) end: watch::Sender<Option<Arc<JobEnd>>>,
}

/// How a job ended.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{CommandLine, Effect, Kinds, Output, ProcessRequest, Program, testing::MockTool};
/// # use windlass_core::{Engine, Mode, Policy, ToolCall, Toolbox, testing::EchoHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("make")
///     .with_effects(Kinds::EXEC, |_| Effect::Exec(CommandLine::words(["make", "all"])).into())
///     .answering(|cx, _| async move {
///         let directory = cx.files().resolve(".".as_ref())?;
///         let request = ProcessRequest::new(Program::words(["make", "all"]), directory);
///         let (job, end) = cx.processes()?.run(request, None, None).await?;
///         let end = end.expect("it was waited for");
///         assert_eq!(end.how, windlass_core::ProcessEnd::Exited(0));
///         assert!(end.changed.as_ref().is_ok_and(|changed| changed.paths.is_empty()));
///         Ok(Output::text(String::from_utf8_lossy(&job.since(0, 100).bytes)))
///     });
/// # let mut tools = Toolbox::new();
/// # tools.add(tool)?;
/// # let engine = Engine::builder(Arc::new(EchoHost::default())).toolbox(tools).policy(Policy::new(Mode::Yolo)).build();
/// // On this machine every program prints its own words.
/// let result = engine.call(&engine.new_session(), ToolCall::new("make", json!({}))).await;
/// assert_eq!(result.output.to_text(), "make all");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct JobEnd {
    /// How the program ended.
    pub how: ProcessEnd,
    /// Whether it was ended because its time was over.
    pub timed_out: bool,
    /// Whether it was ended because a person interrupted the session ([`Engine::interrupt`](crate::Engine::interrupt)).
    pub is_interrupted: bool,
    /// Whether it did nothing but wait for somebody to type when its time was over.
    pub waited_for_input: bool,
    /// Whether somebody ended it, and by which signal.
    pub stopped_by: Option<Signal>,
    /// How long it ran.
    pub duration: Duration,
    /// What it changed; an error if that could not be kept.
    pub changed: Result<Changed, ToolError>,
}

impl JobEnd {
    /// The outcome of the call that waited for it, where it did not end by itself.
    ///
    /// ```
    /// # use windlass_core::JobEnd;
    /// fn is_done(end: &JobEnd) -> bool {
    ///     end.cut_off().is_none()
    /// }
    /// ```
    pub fn cut_off(&self) -> Option<Outcome> {
        let interrupted = self.is_interrupted.then_some(Outcome::Cancelled);
        self.timed_out.then_some(Outcome::TimedOut).or(interrupted)
    }
}

/// What a program changed.
///
/// ```
/// use windlass_core::{ChangeKind, Changed};
/// let changed = Changed { paths: vec![("/w/a.rs".into(), ChangeKind::Changed)], ..Changed::default() };
/// let letters: String = changed.paths.iter().map(|(_, kind)| kind.letter()).collect();
/// assert_eq!(letters, "M");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Changed {
    /// How that is known; `None` if there was nothing to know.
    pub tracking: Option<Tracking>,
    /// Each object, and what became of it.
    pub paths: Vec<(PathBuf, ChangeKind)>,
    /// Build directories that it changed, which cannot be undone.
    pub built: Vec<PathBuf>,
    /// What else is worth knowing: hosts that were not reached, sockets that were left out.
    pub notes: Vec<String>,
    /// None of it is kept: the command ran on a view that was thrown away.
    pub is_dropped: bool,
}

/// What became of an object.
///
/// ```
/// use windlass_core::ChangeKind;
/// assert_eq!(ChangeKind::Removed.letter(), 'D');
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// There was nothing.
    Created,
    /// Its content is another.
    Changed,
    /// Its mode or times are others.
    Attributes,
    /// It is gone.
    Removed,
}

impl ChangeKind {
    /// As a person says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Attributes => "changed the mode or times of",
            Self::Removed => "deleted",
        }
    }

    /// As version control writes it.
    pub fn letter(self) -> char {
        match self {
            Self::Created => 'A',
            Self::Changed => 'M',
            Self::Attributes => 'm',
            Self::Removed => 'D',
        }
    }
}

/// What became of a program whose output was taken to the end.
pub(crate) struct Drained {
    pub(crate) how: ProcessEnd,
    pub(crate) cut_off: Option<CutOff>,
    pub(crate) waited_for_input: bool,
}

/// The reason why a program was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutOff {
    TimeLimit,
    Interrupt,
}

/// What becomes of the changes of a program whose call is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenStopped {
    /// There are none.
    Nothing,
    Dropped,
    Kept,
}

impl WhenStopped {
    /// Said after the reason why the call was stopped.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Dropped => "; what the command changed is not kept",
            Self::Kept => "; what the command changed until then stays",
        }
    }
}

/// The interruption of a program by a person. It is ended as at its time limit, and what it changed is decided on as usual.
#[derive(Debug, Default)]
pub(crate) struct Interruption {
    asked: CancellationToken,
    /// Cancelled once the program has ended and its output is kept.
    is_over: CancellationToken,
}

impl Interruption {
    /// Asks for it. Returns false where the program has ended already.
    pub(crate) fn ask(&self) -> bool {
        if self.is_over.is_cancelled() {
            return false;
        }
        self.asked.cancel();
        true
    }

    /// The program has ended.
    fn end(&self) {
        self.is_over.cancel();
    }
}

/// How often it is looked whether a program waits for what is to be typed.
const TYPING_PAUSE: Duration = Duration::from_millis(10);
/// How many times, before it is typed anyway.
const TYPING_CHECKS: u32 = 10;
/// How long a program has between being asked to end and being ended.
const GRACE: Duration = Duration::from_millis(800);
/// Longer than any program runs.
const FOREVER: Duration = Duration::from_secs(1 << 30);
/// How long it may take until what a dead tree printed last has come.
const LAST_WORDS: Duration = Duration::from_millis(200);

impl Job {
    /// Its name.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// The call that started it.
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// What runs.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The terminal that it has, if it has one.
    pub fn terminal(&self) -> Option<TerminalSize> {
        self.terminal
    }

    /// How long it may run, if that is limited.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Tells whether it was started as a job, so that no call waited for it.
    pub fn is_job(&self) -> bool {
        self.runs_behind
    }

    /// Tells whether it works on a stage: it does not see what others change, and its own changes are decided on at its end.
    pub fn is_staged(&self) -> bool {
        self.is_staged
    }

    /// Since when.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// For how long, so far.
    pub fn running_for(&self) -> Duration {
        self.end().map_or_else(|| self.began.elapsed(), |end| end.duration)
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<Arc<JobEnd>> {
        self.end.borrow().clone()
    }

    /// Waits until it has ended and what it changed is kept.
    pub async fn wait(&self) -> Arc<JobEnd> {
        let mut end = self.end.subscribe();
        loop {
            if let Some(end) = end.borrow_and_update().clone() {
                return end;
            }
            if end.changed().await.is_err() {
                // Its sender is a part of the job itself.
                std::future::pending::<()>().await;
            }
        }
    }

    /// How many bytes it has printed.
    pub fn printed(&self) -> u64 {
        self.transcript.lock().total()
    }

    /// How many line ends were among them.
    pub fn lines(&self) -> u64 {
        self.transcript.lock().lines()
    }

    /// How many of them, between the beginning and the end, are not kept.
    pub fn dropped(&self) -> u64 {
        self.transcript.lock().dropped()
    }

    /// What it printed from a place on, at most so many bytes.
    pub fn since(&self, at: u64, limit: usize) -> Piece {
        self.transcript.lock().since(at, limit)
    }

    /// Returns what it wrote to its standard error from a place on, at most so many bytes. `None` if that is part of its output, as it
    /// is unless the program was started with [`Errors::Apart`](crate::Errors::Apart).
    pub fn errors_since(&self, at: u64, limit: usize) -> Option<Piece> {
        self.errors.as_ref().map(|errors| errors.lock().since(at, limit))
    }

    /// How far the session has looked.
    pub fn seen(&self) -> u64 {
        *self.seen.lock()
    }

    /// Notes how far the session has looked.
    pub fn saw(&self, up_to: u64) {
        *self.seen.lock() = up_to;
    }

    /// Waits until there is something behind a place, or the job has ended.
    pub async fn wait_for_output(&self, behind: u64) {
        loop {
            let printed = self.printed.notified();
            if self.printed() > behind || self.end().is_some() {
                return;
            }
            tokio::select! {
                () = printed => {}
                _ = self.wait() => return,
            }
        }
    }

    /// Whether it does nothing but wait for somebody to type.
    pub fn waits_for_input(&self) -> bool {
        self.end().is_none() && self.process.waits_for_input()
    }

    /// The reason why it did not have a path or could not change it, if its confinement is the reason. Blocking; nothing while it
    /// runs.
    pub fn explain(&self, path: &Path, used: PathUse) -> Option<Absence> {
        self.end().and_then(|_| self.process.explain(path, used))
    }

    /// What it may reach over the network.
    pub fn network(&self) -> &NetworkAccess {
        &self.network
    }

    /// The hosts that it wanted to reach and must not, as far as they are known.
    pub fn refused_hosts(&self) -> Vec<String> {
        self.process.refused_hosts()
    }

    /// Types something.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), ToolError> {
        self.process.write(bytes).await.map_err(|error| {
            ToolError::failed(format!("cannot write to the standard input of {}: {error}", self.id))
        })
    }

    /// Tells everything that belongs to it, and ends all of it if that is not done within a moment.
    pub async fn stop(&self, signal: Signal) -> Arc<JobEnd> {
        if self.end().is_none() {
            *self.stopped_by.lock() = Some(signal);
            if signal == Signal::KILL || self.process.signal(signal).is_err() {
                self.process.kill();
            }
        }
        if let Ok(end) = tokio::time::timeout(GRACE, self.wait()).await {
            return end;
        }
        self.process.kill();
        self.wait().await
    }

    /// Tells everything that belongs to it, and no more.
    pub fn signal(&self, signal: Signal) -> Result<(), ToolError> {
        self.process.signal(signal).map_err(|error| {
            ToolError::failed(format!("cannot send {} to {}: {error}", signal.number(), self.id))
        })
    }

    /// Types line by line, each when the program waits for it; one that does not seem to wait gets it after a moment.
    pub(crate) async fn type_in(&self, text: &[u8]) {
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            for _ in 0..TYPING_CHECKS {
                tokio::time::sleep(TYPING_PAUSE).await;
                if self.waits_for_input() {
                    break;
                }
            }
            // Who types ends a line with the Enter key, which is a carriage return.
            let keys: Vec<u8> =
                line.iter().map(|byte| if *byte == b'\n' { b'\r' } else { *byte }).collect();
            if self.process.write(&keys).await.is_err() {
                return;
            }
        }
    }

    /// Ends the program for a call that is stopped, and waits a moment until what it had printed is kept.
    pub(crate) async fn end_with_call(&self) {
        self.process.kill();
        drop(tokio::time::timeout(LAST_WORDS, self.interruption.is_over.cancelled()).await);
    }

    /// Takes what the program prints until it has ended. It is ended when its time is over, or when it is interrupted.
    pub(crate) async fn drain(&self, told: impl FnMut(&[u8])) -> Drained {
        let drained = self.drain_until_cut_off(told).await;
        self.interruption.end();
        drained
    }

    async fn drain_until_cut_off(&self, mut told: impl FnMut(&[u8])) -> Drained {
        let limit = self.limit.unwrap_or(FOREVER).min(FOREVER);
        let whole = async {
            self.take_output(&mut told).await;
            self.process.ended().await
        };
        let cut_off = tokio::select! {
            biased;
            how = whole => return Drained { how, cut_off: None, waited_for_input: false },
            () = tokio::time::sleep(limit) => CutOff::TimeLimit,
            () = self.interruption.asked.cancelled() => CutOff::Interrupt,
        };
        let cut_off = Some(cut_off);
        let waited_for_input = self.process.waits_for_input();
        // SIGTERM, a short wait, SIGKILL.
        drop(self.process.signal(Signal::TERM));
        let last_words = async {
            self.take_output(&mut told).await;
            self.process.ended().await
        };
        if let Ok(how) = tokio::time::timeout(GRACE, last_words).await {
            return Drained { how, cut_off, waited_for_input };
        }
        self.process.kill();
        drop(tokio::time::timeout(LAST_WORDS, self.take_output(&mut told)).await);
        Drained { how: self.process.ended().await, cut_off, waited_for_input }
    }

    /// Takes what is printed until no process is left that could print more.
    async fn take_output(&self, told: &mut impl FnMut(&[u8])) {
        let Some(errors) = &self.errors else {
            let mut buffer = Vec::new();
            loop {
                let read = self.process.read(&mut buffer).await;
                if !self.keep(&read, &mut buffer, &self.transcript, told) {
                    return;
                }
            }
        };
        let (mut printed, mut complained) = (Vec::new(), Vec::new());
        let (mut prints, mut complains) = (true, true);
        while prints || complains {
            tokio::select! {
                read = self.process.read(&mut printed), if prints => {
                    prints = self.keep(&read, &mut printed, &self.transcript, told);
                }
                read = self.process.read_errors(&mut complained), if complains => {
                    complains = self.keep(&read, &mut complained, errors, told);
                }
            }
        }
    }

    /// Keeps bytes that were read, and empties the buffer. Returns false at the end of the stream.
    fn keep(
        &self,
        read: &std::io::Result<usize>,
        buffer: &mut Vec<u8>,
        into: &Lock<Transcript>,
        told: &mut impl FnMut(&[u8]),
    ) -> bool {
        if !matches!(read, Ok(1..)) {
            return false;
        }
        into.lock().push(buffer);
        self.printed.notify_waiters();
        told(buffer);
        buffer.clear();
        true
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.process.kill();
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id)
            .field("command", &self.command)
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}

/// The jobs of a session that no call waits for.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Lock<Vec<Arc<Job>>>);

impl Jobs {
    /// How many may run at the same time.
    const RUNNING: usize = 32;
    /// How many that have ended are remembered.
    const ENDED: usize = 64;

    pub(crate) fn has_room(&self) -> Result<(), ToolError> {
        let running = self.0.lock().iter().filter(|job| job.end().is_none()).count();
        if running < Self::RUNNING {
            return Ok(());
        }
        Err(ToolError::failed(format!("{running} jobs of this session are running already"))
            .hint("end one with `kill` first"))
    }

    pub(crate) fn add(&self, job: Arc<Job>) {
        let mut jobs = self.0.lock();
        jobs.push(job);
        let ended = jobs.iter().filter(|job| job.end().is_some()).count();
        if ended > Self::ENDED
            && let Some(oldest) = jobs.iter().position(|job| job.end().is_some())
        {
            jobs.remove(oldest);
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.0.lock().clone()
    }

    pub(crate) fn kill_all(&self) {
        for job in self.0.lock().iter() {
            job.process.kill();
        }
    }
}
