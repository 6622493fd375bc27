//! The door to programs: checks each program against the grant and starts it. `job_attendant.rs` follows it to its end, `staged.rs`
//! decides on its changes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::Context;
use super::job_attendant::follow_job;
use super::judge::obeyed_paths;
use crate::jobs::{Interruption, Job, JobEnd, WhenStopped};
use crate::policy::is_plain;
use crate::sync::Lock;
use crate::transcript::Transcript;
use crate::{
    Access, Confinement, Effect, FileRights, JobId, KeptChanges, NetworkAccess, ProcessRequest,
    Processes, SandboxLevel, StderrTarget, Stdin, ToolError,
};

/// The door to programs. Starts a program only for a granted effect: this very command, or reading the workspace for a program that
/// can do no more than read it.
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
/// // On this machine every program prints its own words.
/// let result = engine.call(&engine.new_session(), ToolCall::new("make", json!({}))).await;
/// assert_eq!(result.output.to_text(), "make all");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct ProcessDoor<'a> {
    pub(super) cx: &'a Context,
    pub(super) processes: &'a dyn Processes,
}

impl std::fmt::Debug for ProcessDoor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessDoor").finish_non_exhaustive()
    }
}

/// A program that a call waits for. Dropping it kills the program, unless the program was handed to the session as a job.
struct ForegroundProgram(Option<Arc<Job>>);

impl Drop for ForegroundProgram {
    fn drop(&mut self) {
        if let Some(job) = &self.0 {
            job.process.kill();
        }
    }
}

impl ProcessDoor<'_> {
    /// Returns the confinement of this session's programs: that of the machine's settings, or a stricter one if the session's
    /// rights require it.
    pub fn confinement(&self) -> Confinement {
        self.cx.0.session.rights().confine(self.processes.confinement())
    }

    /// Runs a program until it ends, or for `patience`: then the session keeps it as a job, and no end is returned. After `limit` it is
    /// killed. Its output is published to subscribers.
    pub async fn run(
        &self,
        request: ProcessRequest,
        limit: Option<Duration>,
        patience: Option<Duration>,
    ) -> Result<(Arc<Job>, Option<Arc<JobEnd>>), ToolError> {
        let lineage = self.cx.lineage();
        lineage.starts_program.store(true, Ordering::Release);
        let started = self.start(request, limit, true).await;
        let mut waiting = ForegroundProgram(started.as_ref().ok().cloned());
        {
            let mut waits_for = lineage.waits_for.lock();
            waits_for.clone_from(&waiting.0);
            lineage.starts_program.store(false, Ordering::Release);
        }
        let job = started?;
        if self.cx.0.session.is_interrupted() {
            job.interruption.request();
        }
        let end = match patience {
            None => Some(job.wait().await),
            Some(patience) => tokio::time::timeout(patience, job.wait()).await.ok(),
        };
        if end.is_none() {
            self.cx.0.session.jobs().add(job.clone());
        }
        waiting.0 = None;
        *self.cx.lineage().waits_for.lock() = None;
        Ok((job, end))
    }

    /// Starts a program that continues when the call has ended, on a stage if the changes of jobs are decided on at their end. Fails if
    /// the session has too many jobs.
    pub async fn start_job(
        &self,
        mut request: ProcessRequest,
        limit: Option<Duration>,
    ) -> Result<Arc<Job>, ToolError> {
        self.cx.0.session.jobs().require_room()?;
        if request.access == Access::Direct && self.stages_jobs() {
            request.access = Access::Staged;
        }
        let job = self.start(request, limit, false).await?;
        self.cx.0.session.jobs().add(job.clone());
        Ok(job)
    }

    /// Returns whether changes of jobs are decided on at their end, so that jobs cannot work directly on the workspace.
    fn stages_jobs(self) -> bool {
        let inner = &self.cx.0;
        matches!(self.confinement().level, SandboxLevel::Staged | SandboxLevel::Discard)
            || inner.grant.keeps() != KeptChanges::All
            || inner.policy.is_plan()
            || inner.session.proposals().is_some()
    }

    /// Returns whether changes of the programs' home are kept. They are if those of the workspace are kept without a further decision.
    fn keeps_home(self) -> bool {
        let inner = &self.cx.0;
        matches!(self.confinement().level, SandboxLevel::Off | SandboxLevel::Workspace)
            && inner.grant.keeps() == KeptChanges::All
            && !inner.policy.is_plan()
            && inner.session.proposals().is_none()
    }

    /// Checks, completes and restricts a request, starts the program (on a blocking thread unless it starts at once), and spawns the task
    /// that follows it. The result of the call cannot be cached any more.
    async fn start(
        &self,
        mut request: ProcessRequest,
        limit: Option<Duration>,
        is_waited_for: bool,
    ) -> Result<Arc<Job>, ToolError> {
        self.cx.lineage().check_open()?;
        self.check_not_interrupted()?;
        self.check_granted(&request)?;
        self.check_proposals(&request)?;
        request.is_job = !is_waited_for;
        request.records_build_directories = self.cx.0.session.proposals().is_some();
        request.rights = Some(self.rights());
        request.session = Some(self.cx.0.session.tmp_session().clone());
        request.meter = Some(self.cx.0.session.ledger().clone());
        request.keeps_home = self.keeps_home();
        self.restrict(&mut request)?;
        // The files that a program reads are not known, so its result cannot be cached.
        self.cx.forget_observed();
        let typed = take_typed_input(&mut request);
        let is_quick = self.cx.machine_processes()?.starts_at_once(&request);
        let job = if is_quick {
            start_blocking(self.cx, &request, limit)?
        } else {
            let begun = self.cx.blocking(move |cx| {
                if request.is_job {
                    request.obeyed = obeyed_paths(cx.0.session_files.get());
                }
                start_blocking(cx, &request, limit)
            });
            begun.await??
        };
        let job = Arc::new(job);
        tokio::spawn(follow_job(job.clone(), self.cx.clone(), is_waited_for, typed));
        Ok(job)
    }

    /// Fails if the session was interrupted or cancelled: its calls must not start further programs.
    fn check_not_interrupted(self) -> Result<(), ToolError> {
        if self.cx.0.session.is_interrupted() {
            return Err(ToolError::cancelled("the call was stopped"));
        }
        Ok(())
    }

    /// Fails if the session has proposals: a program works on the real files and would not see them. A program with which a tool only
    /// reads the workspace is allowed, a granted command is not.
    fn check_proposals(self, request: &ProcessRequest) -> Result<(), ToolError> {
        let proposals = self.cx.0.session.proposals();
        let held = proposals.map_or(0, |proposals| proposals.list().len());
        // A program that a tool runs to read the workspace is allowed; a command that was granted as such is not.
        let is_look = request.access == Access::Read && !self.is_granted(request);
        if held == 0 || is_look {
            return Ok(());
        }
        Err(ToolError::failed(format!(
            "the command was not run: {held} {} of this session only proposed, and a command would not see that",
            if held == 1 { "change is" } else { "changes are" }
        ))
        .hint("a person can apply or drop them: windlass proposals apply|drop"))
    }

    /// Sets a request's access, network and private hosts to those that the session's rights and the call's grant allow. Fails if the
    /// session requires a sandbox and it is off, or if changes must be held back and no stage can do that.
    fn restrict(self, request: &mut ProcessRequest) -> Result<(), ToolError> {
        let (of_machine, narrowed) = (self.processes.confinement(), self.confinement());
        if of_machine.level == SandboxLevel::Off && narrowed.level != SandboxLevel::Off {
            return Err(ToolError::denied(format!(
                "not allowed: this session runs programs only in a sandbox ({}), and the sandbox is off here",
                narrowed.level
            )));
        }
        // A command that needs the network is never known to be read-only.
        let network = match request.access {
            Access::Read => NetworkAccess::None,
            Access::Direct | Access::Staged => self.granted_network(&narrowed.network),
        };
        if network != of_machine.network {
            request.network = Some(network);
        }
        let is_staged = matches!(narrowed.level, SandboxLevel::Staged | SandboxLevel::Discard)
            || self.cx.0.grant.keeps() != KeptChanges::All;
        if is_staged && !narrowed.is_whole() {
            return Err(ToolError::denied(format!(
                "not allowed: the changes of this command are not kept unseen, and nothing can hold them back here ({narrowed})"
            )));
        }
        if narrowed.level == SandboxLevel::ReadOnly {
            request.access = Access::Read;
        } else if is_staged && request.access == Access::Direct {
            request.access = Access::Staged;
        }
        request.private_hosts = self.private_hosts();
        Ok(())
    }

    /// Returns the hosts that programs of this call may reach: those of their confinement that no rule denies now, and those that this
    /// call was granted.
    fn granted_network(self, confined: &NetworkAccess) -> NetworkAccess {
        let granted = self.cx.0.grant.effects().iter().filter_map(|effect| match effect {
            Effect::Net { origin, .. } => Some(crate::policy::authority_of(origin).to_owned()),
            _ => None,
        });
        let now = self.cx.0.host.clock().now();
        match self.cx.0.policy.permitted_network(confined, Some(now)) {
            NetworkAccess::Full => NetworkAccess::Full,
            NetworkAccess::Hosts(listed) => NetworkAccess::of_hosts(granted.chain(listed)),
            NetworkAccess::None => NetworkAccess::of_hosts(granted),
        }
    }

    /// Returns the hosts that programs may reach at addresses which are not public, without patterns: granted ones, and those of the
    /// machine's settings that are plain addresses or that a rule names as well, since a person who lists a name may not know its
    /// address.
    fn private_hosts(self) -> Vec<String> {
        let listed = match &self.processes.confinement().network {
            NetworkAccess::Hosts(listed) => &listed[..],
            NetworkAccess::None | NetworkAccess::Full => &[],
        };
        let granted = self.cx.0.grant.effects().iter().filter_map(|effect| match effect {
            Effect::Net { origin, .. } if self.cx.program_may_reach_private(effect) => {
                Some(crate::policy::authority_of(origin))
            }
            _ => None,
        });
        let is_named = |host: &&String| {
            let origin = format!("https://{host}");
            is_plain(&origin)
                || self.cx.is_named(&Effect::Net { origin, method: "CONNECT".to_owned() })
        };
        let named = listed.iter().filter(is_named).map(String::as_str).chain(granted);
        // A pattern names no single host.
        named.filter(|host| !host.contains('*')).map(str::to_owned).collect()
    }

    /// Returns the rights of this call, from which the view of its programs is computed.
    fn rights(self) -> Arc<FileRights> {
        let inner = &self.cx.0;
        let workspace = inner.session_files.get().workspace().to_owned();
        let now = inner.host.clock().now();
        Arc::new(FileRights::new(inner.policy.clone(), workspace, now).granted(&inner.grant))
    }

    /// Fails unless this very command was granted, or the program can only read and reading the workspace was granted.
    fn check_granted(self, request: &ProcessRequest) -> Result<(), ToolError> {
        let workspace = self.cx.0.session_files.get().workspace();
        let is_look = request.access == Access::Read && self.cx.0.grant.may_read(workspace);
        if is_look || self.is_granted(request) {
            return Ok(());
        }
        let text = &request.program;
        Err(ToolError::undeclared_effect(format!(
            "the tool tried to run `{text}` without having declared it"
        )))
    }

    /// Returns whether this very command was granted. A grant for a read-only command counts only if the program cannot change
    /// anything or the sandbox is off.
    fn is_granted(self, request: &ProcessRequest) -> bool {
        let text = request.program.to_string();
        let shell = request.program.shell().map(ToString::to_string);
        let is_held =
            request.access == Access::Read || self.confinement().level == SandboxLevel::Off;
        self.cx.0.grant.effects().iter().any(|effect| {
            matches!(effect, Effect::Exec(command)
                if command.text == text
                    && command.shell == shell
                    && (is_held || !command.only_reads()))
        })
    }
}

/// Starts a program, and returns its job, which no task follows yet. Blocking.
fn start_blocking(
    cx: &Context,
    request: &ProcessRequest,
    limit: Option<Duration>,
) -> Result<Job, ToolError> {
    let machine = cx.machine_processes()?;
    let confinement = cx.0.session.rights().confine(machine.confinement());
    let process = machine.start(request)?;
    let transcript = || {
        let host = cx.0.host.clone();
        Lock::new(Transcript::with_scratch(move || {
            host.processes().ok_or(io::ErrorKind::Unsupported)?.scratch()
        }))
    };
    let is_apart = request.errors == StderrTarget::Apart && request.terminal.is_none();
    Ok(Job {
        id: JobId::of_call(cx.call_id()),
        call: cx.call_id().clone(),
        command: request.program.to_string(),
        terminal: request.terminal,
        limit,
        is_background: request.is_job,
        is_staged: request.is_job && request.access == Access::Staged,
        when_stopped: match request.access {
            Access::Read => WhenStopped::Nothing,
            Access::Staged if confinement.is_whole() => WhenStopped::Dropped,
            Access::Staged | Access::Direct => WhenStopped::Kept,
        },
        network: request.network.as_ref().unwrap_or(&machine.confinement().network).clone(),
        started: cx.now(),
        began: Instant::now(),
        process,
        transcript: transcript(),
        errors: is_apart.then(transcript),
        seen: Lock::default(),
        printed: Notify::new(),
        interruption: Interruption::default(),
        stopped_by: Lock::default(),
        end: watch::Sender::new(None),
    })
}

/// Takes the input that must be typed into a terminal. The terminal stays open, and the input is not given at once, since programs
/// discard input that was typed before they asked.
fn take_typed_input(request: &mut ProcessRequest) -> Vec<u8> {
    request.terminal.map_or_else(Vec::new, |_| {
        match std::mem::replace(&mut request.stdin, Stdin::Open) {
            Stdin::Bytes(bytes) => bytes,
            Stdin::Closed | Stdin::Open => Vec::new(),
        }
    })
}

impl Context {
    /// Returns the machine's door to programs. Fails if it has none.
    pub(super) fn machine_processes(&self) -> Result<&dyn Processes, ToolError> {
        self.0.host.processes().ok_or_else(|| {
            ToolError::host_failed("programs cannot be run here: this machine has no door to them")
        })
    }
}
