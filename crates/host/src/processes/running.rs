//! A running program: its output and input, its end, and its changes.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use tokio::net::unix::pipe::{Receiver, Sender};
use windlass_core::{
    Absence, BoxFuture, PathUse, Process, ProcessChange, ProcessChanges, ProcessEnd, Signal,
    ToolError, Tracking,
};
use windlass_sandbox::{Confined, Ending};

use super::group::Group;
use super::outline::ViewOutline;
use super::quota::{Quota, QuotaWatch};
use super::stand_ins::StandIns;
use super::view::StagedDirectory;
use super::{MAX_QUICK_SCAN_ENTRIES, backend, waiting};
use crate::proxy::Proxy;
use crate::stage::carried::CarriedDirectory;
use crate::stage::masked_index::{self, ReplacedIndex};
use crate::stage::{BuildDirectories, Layers, ModeChange, Scan, Stage, delta_of};

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Checks for an end that is expected before this waits for it: some fifty microseconds.
const MAX_END_CHECKS: usize = 50;

/// This process's side of a program's input and output.
pub(super) struct ProgramChannels {
    read: OwnedFd,
    /// Standard error, if it is separate.
    pub(super) errors: Option<OwnedFd>,
    write: Option<OwnedFd>,
    /// Bytes that are typed as soon as the program runs.
    typed: Vec<u8>,
    is_terminal: bool,
}

impl ProgramChannels {
    /// Uses pipes: one for the output, and one for the input if it is open.
    pub(super) fn pipe(read: OwnedFd, write: Option<OwnedFd>) -> Self {
        Self { read, errors: None, write, typed: Vec::new(), is_terminal: false }
    }

    /// Uses a terminal, on which some bytes are typed at the start.
    pub(super) fn terminal(ours: OwnedFd, typed: Vec<u8>) -> Self {
        Self { read: ours, errors: None, write: None, typed, is_terminal: true }
    }
}

/// Everything that is needed to find the changes of a program.
#[derive(Debug)]
pub(super) struct ChangeTracker {
    pub(super) workspace: PathBuf,
    pub(super) tracking: Tracking,
    /// Stage with the layers of the view and the changes of the workspace.
    pub(super) stage: Option<Stage>,
    /// Directories outside the workspace whose changes are also staged.
    pub(super) staged: Vec<StagedDirectory>,
    /// Directories beside the workspace whose changes are kept with those of the workspace.
    pub(super) carried: Vec<CarriedDirectory>,
    /// Git's indexes that were replaced in the view.
    pub(super) indexes: Vec<ReplacedIndex>,
    /// Masked paths in the workspace and in other staged directories.
    pub(super) masked: Vec<PathBuf>,
    /// State of the workspace before the run, if changes are found by scans.
    pub(super) before: Option<Scan>,
    /// Stand-ins that were put into the workspace for the time of the run.
    pub(super) stand_ins: Option<StandIns>,
    /// Build directories of the workspace, relative to it.
    pub(super) build_directories: Vec<PathBuf>,
    /// Names of build directories.
    pub(super) names: Vec<String>,
    /// Paths that a stronger backend would have protected; `None` if the backend was that.
    pub(super) unprotected: Option<Vec<PathBuf>>,
    /// Notes for the result.
    pub(super) notes: Vec<String>,
}

/// A program that was started.
pub(super) struct Running {
    confined: Mutex<ProgramState>,
    /// Readable once all processes are gone. It is not a pipe, but the runtime waits for it in the same way; nothing is read from it.
    ended: Receiver,
    output: Receiver,
    errors: Option<Receiver>,
    input: Option<Sender>,
    is_terminal: bool,
    warden: i32,
    tracker: Mutex<Option<ChangeTracker>>,
    proxy: Option<Proxy>,
    quota: Option<QuotaWatch>,
    /// Outline of the view; `None` without a view.
    outline: Option<ViewOutline>,
}

/// The sandboxed program, and how it ended once it has.
struct ProgramState {
    confined: Confined,
    /// Control group, if the kernel counts. Removed once the program is gone.
    group: Option<Group>,
    /// Keeps the mounts of the view.
    mounts: Option<OwnedFd>,
    ending: Option<ProcessEnd>,
}

impl Running {
    pub(super) fn new(
        mut confined: Confined,
        output: ProgramChannels,
        tracker: ChangeTracker,
        group: Option<Group>,
        proxy: Option<Proxy>,
    ) -> io::Result<Self> {
        let ProgramChannels { read, errors, write, typed, is_terminal } = output;
        if !typed.is_empty() {
            // A terminal buffers some thousand bytes before the program reads.
            rustix::io::write(&read, &typed)?;
        }
        let input = match write {
            None if is_terminal => Some(read.try_clone()?),
            other => other,
        };
        let ended = Receiver::from_owned_fd_unchecked(confined.as_fd().try_clone_to_owned()?)?;
        let mounts = confined.take_mounts();
        Ok(Self {
            ended,
            warden: confined.warden(),
            confined: Mutex::new(ProgramState { confined, group, mounts, ending: None }),
            output: Receiver::from_owned_fd_unchecked(without_waiting(read)?)?,
            errors: errors
                .map(|errors| Receiver::from_owned_fd_unchecked(without_waiting(errors)?))
                .transpose()?,
            input: input
                .map(|input| Sender::from_owned_fd_unchecked(without_waiting(input)?))
                .transpose()?,
            is_terminal,
            tracker: Mutex::new(Some(tracker)),
            proxy,
            quota: None,
            outline: None,
        })
    }

    /// Adds the outline, to explain failures.
    pub(super) fn with_outline(mut self, outline: Option<ViewOutline>) -> Self {
        self.outline = outline;
        self
    }

    /// Adds a quota of disk, and starts to watch it.
    pub(super) fn with_quota(mut self, quota: Option<Quota>) -> io::Result<Self> {
        if let Some(quota) = quota {
            let pidfd = self.state().confined.as_fd().try_clone_to_owned()?;
            self.quota = Some(quota.watch(self.warden, pidfd));
        }
        Ok(self)
    }

    /// Returns the quota of disk if the program was killed because it used more.
    fn over_quota(&self) -> Option<u64> {
        self.quota.as_ref().and_then(QuotaWatch::exceeded)
    }

    /// Locks the state of the program.
    fn state(&self) -> MutexGuard<'_, ProgramState> {
        self.confined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how the program ended; `None` while it runs.
    fn ending(&self) -> Option<ProcessEnd> {
        let mut state = self.state();
        if state.ending.is_none() {
            let ending = state.confined.try_wait().unwrap_or(Some(Ending::Signalled(9)))?;
            close_later(state.mounts.take());
            let exceeded = state.group.take().and_then(|group| group.exceeded());
            state.ending = Some(match (ending, exceeded) {
                (Ending::Signalled(_), _) if let Some(limit) = self.over_quota() => {
                    ProcessEnd::OutOfDisk(limit)
                }
                (_, Some(limit)) | (Ending::OverMemory(limit), None) => {
                    ProcessEnd::OutOfMemory(limit)
                }
                (Ending::Exited(code), None) => ProcessEnd::Exited(code),
                (Ending::Signalled(signal), None) => ProcessEnd::Signalled(signal),
                (Ending::OverProcesses(limit), None) => ProcessEnd::TooManyProcesses(limit),
            });
        }
        state.ending
    }
}

/// Closes mounts on a thread of its own while other work goes on. A blocking task could occupy the runtime's thread that is about to
/// collect the changes.
fn close_later(mounts: Option<OwnedFd>) {
    if let Some(mounts) = mounts {
        let thread = std::thread::Builder::new().name("unmount".into());
        // If no thread can be started, they are closed here.
        drop(thread.spawn(move || drop(mounts)));
    }
}

/// Makes reading and writing non-blocking.
fn without_waiting(fd: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(fd)
}

impl Process for Running {
    fn read<'a>(&'a self, into: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>> {
        Box::pin(async move {
            loop {
                self.output.readable().await?;
                into.reserve(READ_BYTES);
                match self.output.try_read_buf(into) {
                    // The program closed its end of the terminal.
                    Err(error) if self.is_terminal && is_hangup(&error) => return Ok(0),
                    Err(error) if is_transient(&error) => {}
                    read => return read,
                }
            }
        })
    }

    fn read_errors<'a>(&'a self, into: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>> {
        Box::pin(async move {
            let Some(errors) = &self.errors else { return Ok(0) };
            loop {
                errors.readable().await?;
                into.reserve(READ_BYTES);
                match errors.try_read_buf(into) {
                    Err(error) if is_transient(&error) => {}
                    read => return read,
                }
            }
        })
    }

    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            let Some(input) = &self.input else {
                return Err(io::Error::other("its standard input is closed"));
            };
            let mut rest = bytes;
            while !rest.is_empty() {
                input.writable().await?;
                match input.try_write(rest) {
                    Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                    Err(error) if is_transient(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    fn ended(&self) -> BoxFuture<'_, ProcessEnd> {
        Box::pin(async move {
            // A program that closed its output is about to end, which is seen sooner than a thread sleeps and wakes.
            for _ in 0..MAX_END_CHECKS {
                if let Some(end) = self.ending() {
                    return end;
                }
                std::thread::yield_now();
            }
            loop {
                if let Some(end) = self.ending() {
                    return end;
                }
                if self.ended.readable().await.is_err() {
                    // The runtime shuts down, so no task waits any more.
                    std::future::pending::<()>().await;
                }
                // The warden is reaped through its descriptor, a moment after the descriptor becomes readable.
                tokio::task::yield_now().await;
            }
        })
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        self.state().confined.signal(signal.number())
    }

    fn kill(&self) {
        self.state().confined.kill();
    }

    fn waits_for_input(&self) -> bool {
        self.input.is_some() && waiting::waits_for_input(self.warden, true)
    }

    fn changes_so_far(&self) -> Option<Vec<ProcessChange>> {
        let tracker = self.tracker.lock().unwrap_or_else(PoisonError::into_inner);
        let tracker = tracker.as_ref()?;
        let now = Scan::after(&tracker.workspace, &tracker.skipped_directories()).ok()?;
        Some(tracker.before.as_ref()?.difference(&now))
    }

    fn are_changes_at_hand(&self) -> bool {
        let tracker = self.tracker.lock().unwrap_or_else(PoisonError::into_inner);
        tracker.as_ref().is_some_and(ChangeTracker::is_quick)
    }

    fn explain(&self, path: &Path, used: PathUse) -> Option<Absence> {
        self.outline.as_ref()?.explain(path, used)
    }

    fn refused_hosts(&self) -> Vec<String> {
        let refused = self.proxy.as_ref().map(Proxy::refused).unwrap_or_default();
        refused.into_iter().filter(|host| host.reason.is_none()).map(|host| host.rule()).collect()
    }

    fn changes(&self) -> Result<ProcessChanges, ToolError> {
        let tracker = self.tracker.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(tracker) = tracker else {
            return Err(ToolError::internal("what a program changed was asked twice"));
        };
        let tracker = if self.over_quota().is_some() { tracker.without_stage() } else { tracker };
        let changes = tracker.changes().map(|mut changes| {
            if let Some(proxy) = &self.proxy {
                changes.notes.extend(proxy.refused().iter().map(ToString::to_string));
                if proxy.has_refused_more() {
                    changes.notes.push("not reached: other hosts, too many to list".to_owned());
                }
            }
            changes
        });
        changes.map_err(|error| match error {
            ChangesError::Read(error) => ToolError::host_failed(format!(
                "what the command changed could not be found out: {error}"
            )),
            ChangesError::Conflict(paths) => {
                let names: Vec<String> = paths
                    .iter()
                    .map(|path| windlass_core::quote::path(path).into_owned())
                    .collect();
                ToolError::failed(format!(
                    "stale: {} changed while the command ran, so what it changed was dropped",
                    names.join(", ")
                ))
                .hint("look at what is there now and run the command again")
            }
            ChangesError::HalfRenamed(path) => ToolError::failed(format!(
                "the command was killed while it renamed a directory in {}, so what it changed was dropped",
                windlass_core::quote::path(path.parent().unwrap_or(&path))
            ))
            .hint("run the command again, with more time"),
        })
    }
}

/// Returns whether an error means to try again.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Returns whether an error means that the other end of a terminal is closed.
fn is_hangup(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Reason why the changes of a program are unknown or unusable.
enum ChangesError {
    /// They could not be read.
    Read(io::Error),
    /// Another program changed these paths.
    Conflict(Vec<PathBuf>),
    /// The program was killed while this directory was being renamed, so some of its entries have another name.
    HalfRenamed(PathBuf),
}

impl From<io::Error> for ChangesError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Returns the directory in which the sandbox collects the entries of a renamed directory, if the path is in one.
fn half_renamed(path: &Path) -> Option<PathBuf> {
    let is_collecting = |path: &&Path| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(windlass_sandbox::RENAME_PREFIX.as_bytes())
    };
    path.ancestors().find(is_collecting).map(Path::to_owned)
}

impl ChangeTracker {
    pub(super) fn new(workspace: &Path, names: &[String]) -> Self {
        Self {
            workspace: workspace.to_owned(),
            tracking: Tracking::Unknown,
            stage: None,
            staged: Vec::new(),
            carried: Vec::new(),
            indexes: Vec::new(),
            masked: Vec::new(),
            before: None,
            stand_ins: None,
            build_directories: Vec::new(),
            names: names.to_vec(),
            unprotected: None,
            notes: Vec::new(),
        }
    }

    /// Returns the directories that scans skip, as absolute paths.
    pub(super) fn skipped_directories(&self) -> Vec<PathBuf> {
        self.build_directories.iter().map(|path| self.workspace.join(path)).collect()
    }

    /// Returns whether the scan will be quick. A program could have created many files since; then it takes longer once.
    fn is_quick(&self) -> bool {
        self.tracking != Tracking::Staged
            && self.before.as_ref().is_none_or(|before| before.len() <= MAX_QUICK_SCAN_ENTRIES)
    }

    /// Drops the changes that are still on the stage.
    fn without_stage(mut self) -> Self {
        if self.tracking == Tracking::Staged && self.stage.take().is_some() {
            self.notes.push("what the command changed was dropped".into());
        }
        self
    }

    /// Collects the changes, from the stage or by a second scan.
    fn changes(mut self) -> Result<ProcessChanges, ChangesError> {
        let mut changes = ProcessChanges {
            masked: std::mem::take(&mut self.masked),
            notes: std::mem::take(&mut self.notes),
            ..ProcessChanges::none(self.tracking)
        };
        if let Some(mut stage) = self.stage.take()
            && self.tracking == Tracking::Staged
        {
            stage.carry(std::mem::take(&mut self.carried));
            self.add_staged_changes(stage, &mut changes)?;
        }
        drop(self.stand_ins.take());
        if let Some(before) = self.before.take() {
            changes.changes =
                before.difference(&Scan::after(&self.workspace, &self.skipped_directories())?);
        }
        if let Some(protected) = self.unprotected.take() {
            let (made, place) = (&changes.changes, &self.workspace);
            changes.notes.extend(backend::protected_change_note(made, place, &protected));
            changes.notes.push(backend::landlock_note());
        }
        Ok(changes)
    }

    /// Adds the changes on the stage, and fails on conflicts.
    fn add_staged_changes(
        &self,
        mut stage: Stage,
        to: &mut ProcessChanges,
    ) -> Result<(), ChangesError> {
        let mode_change = stage.mode_change(&self.workspace)?;
        masked_index::restore(stage.upper(), &self.indexes)?;
        let own = Layers { upper: stage.upper(), lower: &self.workspace };
        let build = BuildDirectories { names: &self.names, known: &self.build_directories };
        let mut delta = delta_of(own, stage.created(), build)?;
        // Git rewrites its index whenever it reads files. That is no change, and the stat data of a stage is of no use outside.
        delta.changes.retain(|change| !masked_index::is_refresh(change));
        match mode_change {
            Some(ModeChange::Change(change)) => delta.changes.push(change),
            Some(ModeChange::Refused(mode)) => delta.notes.push(format!(
                "the workspace itself keeps its mode: with {mode:o} its owner could not work in it"
            )),
            Some(ModeChange::Conflict) => delta.conflicts.push(self.workspace.clone()),
            None => {}
        }
        for StagedDirectory { upper, lower } in &self.staged {
            let other =
                delta_of(Layers { upper, lower }, stage.created(), BuildDirectories::default())?;
            delta.changes.extend(other.changes);
            delta.notes.extend(other.notes);
            delta.conflicts.extend(other.conflicts);
        }
        if !delta.conflicts.is_empty() {
            return Err(ChangesError::Conflict(delta.conflicts));
        }
        if let Some(path) = delta.changes.iter().find_map(|change| half_renamed(&change.path)) {
            return Err(ChangesError::HalfRenamed(path));
        }
        to.changes = delta.changes;
        to.notes.append(&mut delta.notes);
        stage.keep_built(&self.workspace, &delta.built);
        to.built = delta.built;
        to.stage = Some(Box::new(stage));
        Ok(())
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("warden", &self.warden)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}
