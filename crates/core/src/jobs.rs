//! The programs of a session, in the foreground and in the background.
//!
//! Both are jobs. A call that waits for its program waits for the end of a job. It may stop waiting at any time and leave the job to
//! the session; later calls can still read all that the job printed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::sync::Lock;
use crate::transcript::{Transcript, TranscriptPiece};
use crate::{
    Absence, CallId, JobId, NetworkAccess, Outcome, PathUse, Process, ProcessEnd, Signal,
    TerminalSize, ToolError, Tracking,
};

/// A program that was started by a call.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{CommandLine, Effect, EffectKinds, Output, ProcessRequest, Program, testing::MockTool};
/// # use windlass_core::{Engine, Mode, Policy, ToolCall, Toolbox, testing::EchoHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("make")
///     .with_effects(EffectKinds::EXEC, |_| Effect::Exec(CommandLine::words(["make", "all"])).into())
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
/// // On this machine every program has_output its own words.
/// let result = engine.call(&engine.new_session(), ToolCall::new("make", json!({}))).await;
/// assert_eq!(result.output.to_text(), "make all");
/// # Ok(())
/// # }
/// ```
pub struct Job {
    pub(crate) id: JobId,
    /// The call that started the program.
    pub(crate) call: CallId,
    /// The command as text, for people.
    pub(crate) command: String,
    pub(crate) terminal: Option<TerminalSize>,
    /// The time limit.
    pub(crate) limit: Option<Duration>,
    /// It was started as a job, so that no call waits for it.
    pub(crate) is_background: bool,
    /// It works on a stage.
    pub(crate) is_staged: bool,
    /// The fate of its changes if its call is stopped.
    pub(crate) when_stopped: WhenStopped,
    pub(crate) network: NetworkAccess,
    /// The time of the start, for people.
    pub(crate) started: SystemTime,
    /// The time of the start on the monotonic clock, to measure durations.
    pub(crate) began: Instant,
    pub(crate) process: Box<dyn Process>,
    /// The output so far.
    pub(crate) transcript: Lock<Transcript>,
    /// The standard error, if it is kept apart from the output.
    pub(crate) errors: Option<Lock<Transcript>>,
    /// The number of bytes of output that the session has read.
    pub(crate) seen: Lock<u64>,
    /// Notified after each new piece of output, and after the end.
    pub(crate) printed: Notify,
    pub(crate) interruption: Interruption,
    /// The last signal by which a caller stopped it.
    pub(crate) stopped_by: Lock<Option<Signal>>,
    /// The end, once it has ended and its changes are kept.
    pub(crate) end: watch::Sender<Option<Arc<JobEnd>>>,
}

/// The end of a job: its exit, and the changes that it made.
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// use windlass_core::{CommandLine, Effect, EffectKinds, Output, ProcessRequest, Program, testing::MockTool};
/// # use windlass_core::{Engine, Mode, Policy, ToolCall, Toolbox, testing::EchoHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolboxError> {
/// let tool = MockTool::named("make")
///     .with_effects(EffectKinds::EXEC, |_| Effect::Exec(CommandLine::words(["make", "all"])).into())
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
/// // On this machine every program has_output its own words.
/// let result = engine.call(&engine.new_session(), ToolCall::new("make", json!({}))).await;
/// assert_eq!(result.output.to_text(), "make all");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct JobEnd {
    /// The exit code or signal of the program.
    pub how: ProcessEnd,
    /// It was ended at its time limit.
    pub timed_out: bool,
    /// It was ended because a person interrupted the session ([`Engine::interrupt`](crate::Engine::interrupt)).
    pub is_interrupted: bool,
    /// It was only waiting for input when its time limit or an interruption ended it.
    pub waited_for_input: bool,
    /// The last signal that a caller sent to stop it, if one did.
    pub stopped_by: Option<Signal>,
    /// The time that it ran.
    pub duration: Duration,
    /// The changes that it made; an error if they could not be kept.
    pub changed: Result<ProgramChangeReport, ToolError>,
}

impl JobEnd {
    /// Returns the outcome of the call that waited for it, if its time limit or an interruption ended it.
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

/// The changes that a program made.
///
/// ```
/// use windlass_core::{ChangeKind, ProgramChangeReport};
/// let changed = ProgramChangeReport { paths: vec![("/w/a.rs".into(), ChangeKind::Changed)], ..ProgramChangeReport::default() };
/// let letters: String = changed.paths.iter().map(|(_, kind)| kind.letter()).collect();
/// assert_eq!(letters, "M");
/// ```
#[derive(Debug, Clone, Default)]
pub struct ProgramChangeReport {
    /// The way in which the changes were observed; `None` if there was nothing to observe.
    pub tracking: Option<Tracking>,
    /// Each changed file or directory, and the kind of its change.
    pub paths: Vec<(PathBuf, ChangeKind)>,
    /// Build directories that it changed. These changes cannot be undone.
    pub built: Vec<PathBuf>,
    /// Further facts in words: hosts that were not reached, sockets that were left out.
    pub notes: Vec<String>,
    /// None of the changes is kept: the command ran on a view that was discarded.
    pub is_dropped: bool,
}

/// The kind of a change to a file or directory.
///
/// ```
/// use windlass_core::ChangeKind;
/// assert_eq!(ChangeKind::Removed.letter(), 'D');
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It did not exist before.
    Created,
    /// Its content changed.
    Changed,
    /// Its mode or times changed.
    Attributes,
    /// It no longer exists.
    Removed,
}

impl ChangeKind {
    /// Returns the word for people, a verb in the past tense.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Attributes => "changed the mode or times of",
            Self::Removed => "deleted",
        }
    }

    /// Returns the letter that version control uses.
    pub fn letter(self) -> char {
        match self {
            Self::Created => 'A',
            Self::Changed => 'M',
            Self::Attributes => 'm',
            Self::Removed => 'D',
        }
    }
}

/// The end of a program whose output was read to the end.
pub(crate) struct ProgramEnd {
    /// The exit code or signal.
    pub(crate) how: ProcessEnd,
    /// The reason why it was ended, if it did not end by itself.
    pub(crate) cut_off: Option<CutOff>,
    /// It was only waiting for input when it was ended.
    pub(crate) waited_for_input: bool,
}

/// The reason why a program was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutOff {
    /// The program exceeded its time limit.
    TimeLimit,
    /// A person interrupted the program.
    Interrupt,
}

/// The fate of the changes of a program whose call is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenStopped {
    /// The program made no changes.
    Nothing,
    /// The changes are discarded.
    Dropped,
    /// The changes that were made until then stay.
    Kept,
}

impl WhenStopped {
    /// Returns the words to append to the reason why the call was stopped.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Dropped => "; what the command changed is not kept",
            Self::Kept => "; what the command changed until then stays",
        }
    }
}

/// An interruption of a program by a person. The program is ended as at its time limit, and its changes are decided on as usual.
#[derive(Debug, Default)]
pub(crate) struct Interruption {
    requested: CancellationToken,
    /// Cancelled once the program has ended and its output is kept.
    ended: CancellationToken,
}

impl Interruption {
    /// Requests the interruption. Returns false if the program has ended already.
    pub(crate) fn request(&self) -> bool {
        if self.ended.is_cancelled() {
            return false;
        }
        self.requested.cancel();
        true
    }

    /// Marks the program as ended and its output as kept.
    fn mark_ended(&self) {
        self.ended.cancel();
    }
}

/// Interval of the checks whether a program waits for input.
const INPUT_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum checks for each line before the line is typed anyway.
const MAX_INPUT_CHECKS: u32 = 10;
/// Time between SIGTERM and SIGKILL.
const SIGTERM_GRACE: Duration = Duration::from_millis(800);
/// Time limit of a program without one, longer than any program runs.
const UNLIMITED_TIME: Duration = Duration::from_secs(1 << 30);
/// Maximum wait for the last output of a process tree that was killed.
const FINAL_OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);

impl Job {
    /// Returns its id.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Returns the call that started it.
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// Returns the command as text.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns the size of its terminal, if it has one.
    pub fn terminal(&self) -> Option<TerminalSize> {
        self.terminal
    }

    /// Returns its time limit, if it has one.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Returns whether it was started as a job, so that no call waited for it.
    pub fn is_job(&self) -> bool {
        self.is_background
    }

    /// Returns whether it works on a stage: it does not see changes by others, and its own changes are decided on at its end.
    pub fn is_staged(&self) -> bool {
        self.is_staged
    }

    /// Returns the time of its start.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// Returns the time that it has been running, or ran.
    pub fn running_for(&self) -> Duration {
        self.end().map_or_else(|| self.began.elapsed(), |end| end.duration)
    }

    /// Returns its end, if it has ended.
    pub fn end(&self) -> Option<Arc<JobEnd>> {
        self.end.borrow().clone()
    }

    /// Waits until it has ended and its changes are kept.
    pub async fn wait(&self) -> Arc<JobEnd> {
        let mut end = self.end.subscribe();
        loop {
            if let Some(end) = end.borrow_and_update().clone() {
                return end;
            }
            if end.changed().await.is_err() {
                // The sender is a field of this job, so it cannot be dropped while `self` exists.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the number of bytes printed so far.
    pub fn printed(&self) -> u64 {
        self.transcript.lock().total()
    }

    /// Returns the number of line ends printed so far.
    pub fn lines(&self) -> u64 {
        self.transcript.lock().lines()
    }

    /// Returns the number of printed bytes, between the beginning and the end, that are not kept.
    pub fn dropped(&self) -> u64 {
        self.transcript.lock().dropped()
    }

    /// Returns at most `limit` bytes of the output from offset `at` on.
    pub fn since(&self, at: u64, limit: usize) -> TranscriptPiece {
        self.transcript.lock().since(at, limit)
    }

    /// Returns at most `limit` bytes of the standard error from offset `at` on. `None` if standard error is part of the output, as it
    /// is unless the program was started with [`StderrTarget::Apart`](crate::StderrTarget::Apart).
    pub fn errors_since(&self, at: u64, limit: usize) -> Option<TranscriptPiece> {
        self.errors.as_ref().map(|errors| errors.lock().since(at, limit))
    }

    /// Returns the number of bytes of output that the session has read.
    pub fn seen(&self) -> u64 {
        *self.seen.lock()
    }

    /// Sets the number of bytes of output that the session has read.
    pub fn saw(&self, up_to: u64) {
        *self.seen.lock() = up_to;
    }

    /// Waits until more than `behind` bytes are printed, or the job has ended.
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

    /// Returns whether it runs and only waits for input.
    pub fn waits_for_input(&self) -> bool {
        self.end().is_none() && self.process.waits_for_input()
    }

    /// Returns the reason why a path was missing or could not be changed for the program, if its confinement is the reason. Returns
    /// `None` while it runs. Blocking.
    pub fn explain(&self, path: &Path, used: PathUse) -> Option<Absence> {
        self.end().and_then(|_| self.process.explain(path, used))
    }

    /// Returns the network access that it has.
    pub fn network(&self) -> &NetworkAccess {
        &self.network
    }

    /// Returns the hosts that it tried to reach but was not allowed to, as far as they are known.
    pub fn refused_hosts(&self) -> Vec<String> {
        self.process.refused_hosts()
    }

    /// Writes bytes to its standard input.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), ToolError> {
        self.process.write(bytes).await.map_err(|error| {
            ToolError::failed(format!("cannot write to the standard input of {}: {error}", self.id))
        })
    }

    /// Sends a signal to all its processes, and kills them if they have not ended after a moment. Waits for the end.
    pub async fn stop(&self, signal: Signal) -> Arc<JobEnd> {
        if self.end().is_none() {
            *self.stopped_by.lock() = Some(signal);
            if signal == Signal::KILL || self.process.signal(signal).is_err() {
                self.process.kill();
            }
        }
        if let Ok(end) = tokio::time::timeout(SIGTERM_GRACE, self.wait()).await {
            return end;
        }
        self.process.kill();
        self.wait().await
    }

    /// Sends a signal to all its processes and returns at once.
    pub fn signal(&self, signal: Signal) -> Result<(), ToolError> {
        self.process.signal(signal).map_err(|error| {
            ToolError::failed(format!("cannot send {} to {}: {error}", signal.number(), self.id))
        })
    }

    /// Types a text line by line, each when the program waits for input. If it does not seem to wait, the line is typed after a
    /// moment.
    pub(crate) async fn type_lines(&self, text: &[u8]) {
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            for _ in 0..MAX_INPUT_CHECKS {
                tokio::time::sleep(INPUT_CHECK_INTERVAL).await;
                if self.waits_for_input() {
                    break;
                }
            }
            // A person ends a line with the Enter key, which is a carriage return.
            let keys: Vec<u8> =
                line.iter().map(|byte| if *byte == b'\n' { b'\r' } else { *byte }).collect();
            if self.process.write(&keys).await.is_err() {
                return;
            }
        }
    }

    /// Kills the program of a call that is stopped, and waits a moment until its last output is kept.
    pub(crate) async fn end_with_call(&self) {
        self.process.kill();
        drop(tokio::time::timeout(FINAL_OUTPUT_TIMEOUT, self.interruption.ended.cancelled()).await);
    }

    /// Reads the output until the program has ended, and passes each piece to `on_output`. Ends the program at its time limit, or when it
    /// is interrupted.
    pub(crate) async fn read_until_end(&self, on_output: impl FnMut(&[u8])) -> ProgramEnd {
        let end = self.read_until_end_or_cut_off(on_output).await;
        self.interruption.mark_ended();
        end
    }

    /// Does the work of [`Self::read_until_end`], without marking the program as ended.
    async fn read_until_end_or_cut_off(&self, mut on_output: impl FnMut(&[u8])) -> ProgramEnd {
        let limit = self.limit.unwrap_or(UNLIMITED_TIME).min(UNLIMITED_TIME);
        let whole = async {
            self.read_output(&mut on_output).await;
            self.process.ended().await
        };
        let cut_off = tokio::select! {
            biased;
            how = whole => return ProgramEnd { how, cut_off: None, waited_for_input: false },
            () = tokio::time::sleep(limit) => CutOff::TimeLimit,
            () = self.interruption.requested.cancelled() => CutOff::Interrupt,
        };
        let cut_off = Some(cut_off);
        let waited_for_input = self.process.waits_for_input();
        // SIGTERM, a short wait, SIGKILL.
        drop(self.process.signal(Signal::TERM));
        let final_output = async {
            self.read_output(&mut on_output).await;
            self.process.ended().await
        };
        if let Ok(how) = tokio::time::timeout(SIGTERM_GRACE, final_output).await {
            return ProgramEnd { how, cut_off, waited_for_input };
        }
        self.process.kill();
        drop(tokio::time::timeout(FINAL_OUTPUT_TIMEOUT, self.read_output(&mut on_output)).await);
        ProgramEnd { how: self.process.ended().await, cut_off, waited_for_input }
    }

    /// Reads the output, and a separate standard error, until both streams end.
    async fn read_output(&self, on_output: &mut impl FnMut(&[u8])) {
        let Some(errors) = &self.errors else {
            let mut buffer = Vec::new();
            loop {
                let read = self.process.read(&mut buffer).await;
                if !self.keep_output(&read, &mut buffer, &self.transcript, on_output) {
                    return;
                }
            }
        };
        let (mut printed, mut errors_read) = (Vec::new(), Vec::new());
        let (mut has_output, mut has_errors) = (true, true);
        while has_output || has_errors {
            tokio::select! {
                read = self.process.read(&mut printed), if has_output => {
                    has_output = self.keep_output(&read, &mut printed, &self.transcript, on_output);
                }
                read = self.process.read_errors(&mut errors_read), if has_errors => {
                    has_errors = self.keep_output(&read, &mut errors_read, errors, on_output);
                }
            }
        }
    }

    /// Keeps the bytes read, passes them to `on_output` and empties the buffer. Returns false at the end of the stream.
    fn keep_output(
        &self,
        read: &std::io::Result<usize>,
        buffer: &mut Vec<u8>,
        into: &Lock<Transcript>,
        on_output: &mut impl FnMut(&[u8]),
    ) -> bool {
        if !matches!(read, Ok(1..)) {
            return false;
        }
        into.lock().push(buffer);
        self.printed.notify_waiters();
        on_output(buffer);
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
    /// Maximum jobs that run at the same time.
    const MAX_RUNNING: usize = 32;
    /// Maximum ended jobs that are remembered.
    const MAX_ENDED: usize = 64;

    /// Fails if the maximum number of jobs is running.
    pub(crate) fn require_room(&self) -> Result<(), ToolError> {
        let running = self.0.lock().iter().filter(|job| job.end().is_none()).count();
        if running < Self::MAX_RUNNING {
            return Ok(());
        }
        Err(ToolError::failed(format!("{running} jobs of this session are running already"))
            .hint("end one with `kill` first"))
    }

    /// Adds a job. Forgets the oldest ended one if there are too many.
    pub(crate) fn add(&self, job: Arc<Job>) {
        let mut jobs = self.0.lock();
        jobs.push(job);
        let ended = jobs.iter().filter(|job| job.end().is_some()).count();
        if ended > Self::MAX_ENDED
            && let Some(oldest) = jobs.iter().position(|job| job.end().is_some())
        {
            jobs.remove(oldest);
        }
    }

    /// Returns all jobs, running and remembered.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.0.lock().clone()
    }

    /// Kills the processes of all jobs.
    pub(crate) fn kill_all(&self) {
        for job in self.0.lock().iter() {
            job.process.kill();
        }
    }
}
