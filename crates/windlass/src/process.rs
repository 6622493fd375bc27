//! Programs: the sandbox that they run in, the way a tool starts one, and its result.
//!
//! ```
//! use windlass::Windlass;
//! use windlass::process::{Confinement, SandboxLevel, ProcessSettings};
//! # let folder = tempfile::tempdir().unwrap();
//! let confinement = Confinement { level: SandboxLevel::Staged, ..Confinement::default() };
//! let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
//! let windlass = Windlass::builder(folder.path()).processes(settings).build()?;
//! # drop(windlass);
//! # Ok::<(), windlass::Error>(())
//! ```
//!
//! A tool can keep the output and the errors of a program apart:
//!
//! ```
//! use windlass::process::{StderrTarget, ProcessRequest, Program};
//! use windlass::{Context, Output, ToolError};
//! async fn build(cx: Context) -> Result<Output, ToolError> {
//!     let directory = cx.files().resolve(".".as_ref())?;
//!     let request = ProcessRequest {
//!         errors: StderrTarget::Apart,
//!         ..ProcessRequest::new(Program::words(["make", "all"]), directory)
//!     };
//!     let (job, _) = cx.processes()?.run(request, None, None).await?;
//!     let errors = job.errors_since(0, 1_000).map(|piece| piece.bytes).unwrap_or_default();
//!     Ok(Output::text(String::from_utf8_lossy(&errors)))
//! }
//! ```
//!
//! | to | see |
//! |---|---|
//! | confine programs | [`Confinement`], [`SandboxLevel`], [`NetworkAccess`], [`check_hosts`] |
//! | choose the shell | [`Shell`], [`Builder::shell`](crate::Builder::shell) |
//! | set limits and the environment | [`ProcessSettings`], [`Builder::processes`](crate::Builder::processes) |
//! | start a program from a tool | [`ProcessDoor`](crate::tool::ProcessDoor), [`ProcessRequest`], [`Program`], [`Stdin`] |
//! | read its output, and its end | [`Job`], [`JobEnd`], [`ProcessEnd`] |

pub use windlass_core::{
    Absence, Access, Backend, ChangeKind, ChangedTo, Confinement, FoundIndex, FoundText, Grammar,
    HeldChanges, Job, JobEnd, NetworkAccess, PathUse, Process, ProcessChange, ProcessChanges,
    ProcessEnd, ProcessRequest, Processes, Program, ProgramChangeReport, SandboxLevel, Shell,
    Signal, StageHold, StageStorage, StderrTarget, Stdin, TerminalSize, Tracking, TrafficMeter,
};
pub use windlass_host::{
    LocalProcesses, ProcessSettings, ProxyError, ShellError, control_group, hide_memory,
    landlock_version, share_heap,
};

/// Checks the syntax of host patterns that a program is allowed to reach; see [`NetworkAccess::Hosts`].
///
/// ```
/// use windlass::process::check_hosts;
/// assert!(check_hosts(&["docs.rs".into(), "*.example.org".into()]).is_ok());
/// assert!(check_hosts(&["https://docs.rs/".into()]).is_err());
/// ```
pub fn check_hosts(hosts: &[String]) -> Result<(), ProxyError> {
    windlass_host::Proxy::check(hosts)
}
