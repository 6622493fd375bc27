//! The interface of a machine: the traits behind the doors that a [`Context`](crate::Context) opens for a tool.
//!
//! `core` only defines the traits; the crate `host` implements them for a real machine. A host knows nothing of policy: it takes
//! paths that were resolved and decided on, and ensures that the object it opens is the one that the decision was about.

mod absence;
mod content;
mod files;
mod network;
mod process_changes;
mod processes;
mod shell;

use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use crate::SessionId;
pub use absence::{Absence, PathUse};
pub(crate) use content::is_mixture;
pub use content::{ContentSource, Extent, KeptContent, OpenedContent};
pub use files::{
    Alteration, Altered, Attributes, Batch, Entry, ExpectedState, FileError, FileErrorKind,
    FileKind, Files, Fingerprint, FoundBody, FoundEntry, OpenFile, Opener, Resolved, SkippedPath,
    Stat, TargetState, Visitor, Walk, WalkOptions, WalkReport,
};
pub use network::{
    HostName, HttpBody, HttpLimits, HttpRequest, HttpResponse, HttpUrl, Network, NetworkTerms,
};
pub use process_changes::{
    ChangedTo, FoundIndex, FoundText, HeldChanges, ProcessChange, ProcessChanges, StageHold,
    StageStorage, Tracking,
};
pub use processes::{
    Access, Backend, Confinement, NetworkAccess, Process, ProcessEnd, ProcessRequest, Processes,
    Program, SandboxLevel, Signal, StderrTarget, Stdin, TerminalSize, TrafficMeter,
};
pub use shell::{Grammar, Shell};

/// A boxed future, for traits that are used as objects.
///
/// ```
/// use windlass_core::BoxFuture;
///
/// fn length(text: &str) -> BoxFuture<'_, usize> {
///     Box::pin(async move { text.len() })
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(length("abc").await, 3);
/// # }
/// ```
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A machine with its doors. A missing door is `None`, and tools that need it report that.
///
/// ```
/// use windlass_core::{Clock, Files, Host, testing::{EmptyHost, FixedClock}};
///
/// struct Machine {
///     files: EmptyHost,
///     clock: FixedClock,
/// }
///
/// impl Host for Machine {
///     fn files(&self) -> &dyn Files {
///         self.files.files()
///     }
///     fn clock(&self) -> &dyn Clock {
///         &self.clock
///     }
/// }
///
/// let machine = Machine { files: EmptyHost::default(), clock: FixedClock::at(60) };
/// assert!(machine.network().is_none(), "a door that it does not have");
/// ```
pub trait Host: Send + Sync {
    /// Returns the door to files.
    fn files(&self) -> &dyn Files;

    /// Returns the files with the `/tmp` of one session; `None` if all sessions have the same files.
    fn session_files(&self, _session: &SessionId) -> Option<Arc<dyn Files>> {
        None
    }

    /// Returns the clock.
    fn clock(&self) -> &dyn Clock;

    /// Returns the door to programs.
    fn processes(&self) -> Option<&dyn Processes> {
        None
    }

    /// Returns the door to the network.
    fn network(&self) -> Option<&dyn Network> {
        None
    }
}

/// A source of the present time; a fixed one in tests.
///
/// ```
/// use windlass_core::{Clock, testing::FixedClock};
/// let clock = FixedClock::at(1_000);
/// assert_eq!(clock.now(), clock.now());
/// ```
pub trait Clock: Send + Sync {
    /// Returns the present time.
    fn now(&self) -> SystemTime;
}
