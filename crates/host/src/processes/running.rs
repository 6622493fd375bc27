//! A program that runs: what it prints, what is typed to it, its end, and what it changed.

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
use super::{FEW, ladder, waiting};
use crate::proxy::Proxy;
use crate::stage::carried::CarriedDirectory;
use crate::stage::masked_index::{self, ReplacedIndex};
use crate::stage::{BuildDirectories, Layers, ModeChange, Scan, Stage, delta_of};

/// How much is read at once.
const AT_ONCE: usize = 256 << 10;

/// How often an end that is expected is looked for before we wait for it: some fifty microseconds.
const MOMENTS: usize = 50;

/// Our side of a program's input and output.
pub(super) struct Output {
    read: OwnedFd,
    /// Its standard error, if that is apart.
    pub(super) errors: Option<OwnedFd>,
    write: Option<OwnedFd>,
    /// What is typed as soon as it runs.
    typed: Vec<u8>,
    is_terminal: bool,
}

impl Output {
    pub(super) fn pipe(read: OwnedFd, write: Option<OwnedFd>) -> Self {
        Self { read, errors: None, write, typed: Vec::new(), is_terminal: false }
    }

    pub(super) fn terminal(ours: OwnedFd, typed: Vec<u8>) -> Self {
        Self { read: ours, errors: None, write: None, typed, is_terminal: true }
    }
}

/// What is needed to find out what the program changed.
#[derive(Debug)]
pub(super) struct Trail {
    pub(super) workspace: PathBuf,
    pub(super) tracking: Tracking,
    /// Holds the layers of the view, with the changes to the workspace.
    pub(super) stage: Option<Stage>,
    /// Directories outside the workspace whose changes are staged, too.
    pub(super) staged: Vec<StagedDirectory>,
    /// Directories beside the workspace whose changes are kept with its own.
    pub(super) carried: Vec<CarriedDirectory>,
    /// Git's indexes that the view had in place of the workspace's own.
    pub(super) indexes: Vec<ReplacedIndex>,
    /// What was masked in the workspace and in other directories whose changes are staged.
    pub(super) masked: Vec<PathBuf>,
    pub(super) before: Option<Scan>,
    /// What had to be put into the workspace for the time of the run.
    pub(super) stand_ins: Option<StandIns>,
    /// The build directories of the workspace, relative to it.
    pub(super) build_directories: Vec<PathBuf>,
    /// Names that new build directories have.
    pub(super) names: Vec<String>,
    /// Places that would have stayed as they are on a higher rung; none if it was that.
    pub(super) unprotected: Option<Vec<PathBuf>>,
    /// Things that the answer should mention.
    pub(super) notes: Vec<String>,
}

pub(super) struct Running {
    confined: Mutex<Fate>,
    /// Readable when everything is gone. No pipe, but the runtime waits for it in the same way; nothing is read from it.
    ended: Receiver,
    output: Receiver,
    errors: Option<Receiver>,
    input: Option<Sender>,
    is_terminal: bool,
    warden: i32,
    trail: Mutex<Option<Trail>>,
    proxy: Option<Proxy>,
    quota: Option<QuotaWatch>,
    /// None where the program has no view of its own.
    outline: Option<ViewOutline>,
}

/// The program, and how it ended once it has.
struct Fate {
    confined: Confined,
    /// Where the kernel counts for us. It can be taken away once the program is gone.
    group: Option<Group>,
    /// Keeps the mounts of its view.
    mounts: Option<OwnedFd>,
    ending: Option<ProcessEnd>,
}

impl Running {
    pub(super) fn new(
        mut confined: Confined,
        output: Output,
        trail: Trail,
        group: Option<Group>,
        proxy: Option<Proxy>,
    ) -> io::Result<Self> {
        let Output { read, errors, write, typed, is_terminal } = output;
        if !typed.is_empty() {
            // A terminal takes some thousand bytes before anybody reads.
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
            confined: Mutex::new(Fate { confined, group, mounts, ending: None }),
            output: Receiver::from_owned_fd_unchecked(without_waiting(read)?)?,
            errors: errors
                .map(|errors| Receiver::from_owned_fd_unchecked(without_waiting(errors)?))
                .transpose()?,
            input: input
                .map(|input| Sender::from_owned_fd_unchecked(without_waiting(input)?))
                .transpose()?,
            is_terminal,
            trail: Mutex::new(Some(trail)),
            proxy,
            quota: None,
            outline: None,
        })
    }

    /// The same with what is needed to explain its failures.
    pub(super) fn with_outline(mut self, outline: Option<ViewOutline>) -> Self {
        self.outline = outline;
        self
    }

    /// The same with a quota of disk that is looked after.
    pub(super) fn with_quota(mut self, quota: Option<Quota>) -> io::Result<Self> {
        if let Some(quota) = quota {
            let pidfd = self.fate().confined.as_fd().try_clone_to_owned()?;
            self.quota = Some(quota.watch(self.warden, pidfd));
        }
        Ok(self)
    }

    /// The quota of disk, if the program was ended because it used more.
    fn over_quota(&self) -> Option<u64> {
        self.quota.as_ref().and_then(QuotaWatch::exceeded)
    }

    fn fate(&self) -> MutexGuard<'_, Fate> {
        self.confined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ending(&self) -> Option<ProcessEnd> {
        let mut fate = self.fate();
        if fate.ending.is_none() {
            let ending = fate.confined.try_wait().unwrap_or(Some(Ending::Signalled(9)))?;
            close_later(fate.mounts.take());
            let exceeded = fate.group.take().and_then(|group| group.exceeded());
            fate.ending = Some(match (ending, exceeded) {
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
        fate.ending
    }
}

/// Lets the kernel take mounts down while others go on. On a thread of its own: the runtime would give it the thread that is about to
/// take over what the program changed.
fn close_later(mounts: Option<OwnedFd>) {
    if let Some(mounts) = mounts {
        let thread = std::thread::Builder::new().name("unmount".into());
        // Where no thread can be started, they are closed here.
        drop(thread.spawn(move || drop(mounts)));
    }
}

/// Reading and writing answer at once.
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
                into.reserve(AT_ONCE);
                match self.output.try_read_buf(into) {
                    // Whoever had the other end of the terminal is gone.
                    Err(error) if self.is_terminal && is_hangup(&error) => return Ok(0),
                    Err(error) if is_passing(&error) => {}
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
                into.reserve(AT_ONCE);
                match errors.try_read_buf(into) {
                    Err(error) if is_passing(&error) => {}
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
                    Err(error) if is_passing(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    fn ended(&self) -> BoxFuture<'_, ProcessEnd> {
        Box::pin(async move {
            // Whoever prints no more is about to end: that is sooner seen than a thread is asleep and awake again.
            for _ in 0..MOMENTS {
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
                    // A runtime that is going down: nobody waits any more.
                    std::future::pending::<()>().await;
                }
                // The warden is taken by its descriptor; it is there a moment after that says so.
                tokio::task::yield_now().await;
            }
        })
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        self.fate().confined.signal(signal.number())
    }

    fn kill(&self) {
        self.fate().confined.kill();
    }

    fn waits_for_input(&self) -> bool {
        self.input.is_some() && waiting::waits_for_input(self.warden, true)
    }

    fn changes_so_far(&self) -> Option<Vec<ProcessChange>> {
        let trail = self.trail.lock().unwrap_or_else(PoisonError::into_inner);
        let trail = trail.as_ref()?;
        let now = Scan::after(&trail.workspace, &trail.left_out()).ok()?;
        Some(trail.before.as_ref()?.difference(&now))
    }

    fn are_changes_at_hand(&self) -> bool {
        let trail = self.trail.lock().unwrap_or_else(PoisonError::into_inner);
        trail.as_ref().is_some_and(Trail::is_short)
    }

    fn explain(&self, path: &Path, used: PathUse) -> Option<Absence> {
        self.outline.as_ref()?.explain(path, used)
    }

    fn refused_hosts(&self) -> Vec<String> {
        let refused = self.proxy.as_ref().map(Proxy::refused).unwrap_or_default();
        refused.into_iter().filter(|host| host.reason.is_none()).map(|host| host.rule()).collect()
    }

    fn changes(&self) -> Result<ProcessChanges, ToolError> {
        let trail = self.trail.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(trail) = trail else {
            return Err(ToolError::internal("what a program changed was asked twice"));
        };
        let trail = if self.over_quota().is_some() { trail.without_stage() } else { trail };
        let changes = trail.changes().map(|mut changes| {
            if let Some(proxy) = &self.proxy {
                changes.notes.extend(proxy.refused().iter().map(ToString::to_string));
                if proxy.has_refused_more() {
                    changes.notes.push("not reached: other hosts, too many to list".to_owned());
                }
            }
            changes
        });
        changes.map_err(|error| match error {
            Lost::Read(error) => ToolError::host_failed(format!(
                "what the command changed could not be found out: {error}"
            )),
            Lost::Conflict(paths) => {
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
            Lost::HalfMoved(path) => ToolError::failed(format!(
                "the command was killed while it renamed a directory in {}, so what it changed was dropped",
                windlass_core::quote::path(path.parent().unwrap_or(&path))
            ))
            .hint("run the command again, with more time"),
        })
    }
}

/// Nothing to do but to try again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn is_hangup(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Why it is not known, or of no use, what a program changed.
enum Lost {
    Read(io::Error),
    Conflict(Vec<PathBuf>),
    /// The program was killed while this directory was being renamed: some of its entries are under another name.
    HalfMoved(PathBuf),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// The directory in which the sandbox collects the entries of one that is renamed, if the path leads into it.
fn half_moved(path: &Path) -> Option<PathBuf> {
    let is_collecting = |path: &&Path| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(windlass_sandbox::RENAME_PREFIX.as_bytes())
    };
    path.ancestors().find(is_collecting).map(Path::to_owned)
}

impl Trail {
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

    /// The directories that a comparison leaves out, by absolute path.
    pub(super) fn left_out(&self) -> Vec<PathBuf> {
        self.build_directories.iter().map(|path| self.workspace.join(path)).collect()
    }

    /// Whether there is next to nothing to look at. A program could have made much more of it meanwhile; then it takes longer once.
    fn is_short(&self) -> bool {
        self.tracking != Tracking::Staged
            && self.before.as_ref().is_none_or(|before| before.len() <= FEW)
    }

    /// The same without the changes that were not made yet.
    fn without_stage(mut self) -> Self {
        if self.tracking == Tracking::Staged && self.stage.take().is_some() {
            self.notes.push("what the command changed was dropped".into());
        }
        self
    }

    fn changes(mut self) -> Result<ProcessChanges, Lost> {
        let mut changes = ProcessChanges {
            masked: std::mem::take(&mut self.masked),
            notes: std::mem::take(&mut self.notes),
            ..ProcessChanges::none(self.tracking)
        };
        if let Some(mut stage) = self.stage.take()
            && self.tracking == Tracking::Staged
        {
            stage.carry(std::mem::take(&mut self.carried));
            self.take_from_stage(stage, &mut changes)?;
        }
        drop(self.stand_ins.take());
        if let Some(before) = self.before.take() {
            changes.changes = before.difference(&Scan::after(&self.workspace, &self.left_out())?);
        }
        if let Some(protected) = self.unprotected.take() {
            let (made, place) = (&changes.changes, &self.workspace);
            changes.notes.extend(ladder::changed_although_protected(made, place, &protected));
            changes.notes.push(ladder::note());
        }
        Ok(changes)
    }

    fn take_from_stage(&self, mut stage: Stage, to: &mut ProcessChanges) -> Result<(), Lost> {
        let mode_change = stage.mode_change(&self.workspace)?;
        masked_index::restore(stage.upper(), &self.indexes)?;
        let own = Layers { upper: stage.upper(), lower: &self.workspace };
        let build = BuildDirectories { names: &self.names, known: &self.build_directories };
        let mut delta = delta_of(own, stage.created(), build)?;
        // Git writes its index anew whenever it looks at files. That is no change, and the stat data of a stage is of no use outside.
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
            return Err(Lost::Conflict(delta.conflicts));
        }
        if let Some(path) = delta.changes.iter().find_map(|change| half_moved(&change.path)) {
            return Err(Lost::HalfMoved(path));
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
