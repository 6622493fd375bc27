//! What a machine must offer: the doors that a [`Context`](crate::Context) opens for a tool.
//!
//! `core` only names the doors; the crate `host` builds them for this machine. A host knows nothing of policy: it takes paths
//! that were resolved and decided on, and makes sure that the object it opens is the very one the decision was about.

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
pub use content::{Extent, KeptContent, Opened, Source};
pub use files::{
    Alteration, Altered, Attributes, Batch, Entry, Expect, FileError, FileErrorKind, FileKind,
    Files, Fingerprint, Found, FoundBody, Note, OpenFile, Opener, Resolved, Stat, To, Visitor,
    Walk, WalkOptions, WalkReport,
};
pub use network::{
    HostName, HttpBody, HttpLimits, HttpRequest, HttpResponse, HttpUrl, Network, NetworkTerms,
};
pub use process_changes::{
    ChangedTo, FoundText, HeldChanges, HeldFor, ProcessChange, ProcessChanges, Stage, Tracking,
};
pub use processes::{
    Access, Backend, Confinement, Errors, Level, Meter, NetworkAccess, Process, ProcessEnd,
    ProcessRequest, Processes, Program, Signal, Stdin, TerminalSize,
};
pub use shell::{Grammar, Shell};

/// A future behind a pointer, for traits that are used as objects.
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

/// One machine with its doors. A door that a host does not have is `None`, and tools that need it say so.
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
    /// The files.
    fn files(&self) -> &dyn Files;

    /// The files with a `/tmp` of one session; `None` if all sessions have the same files.
    fn session_files(&self, _session: &SessionId) -> Option<Arc<dyn Files>> {
        None
    }

    /// What time it is.
    fn clock(&self) -> &dyn Clock;

    /// Programs.
    fn processes(&self) -> Option<&dyn Processes> {
        None
    }

    /// The network.
    fn network(&self) -> Option<&dyn Network> {
        None
    }
}

/// What time it is; a fixed one in tests.
///
/// ```
/// use windlass_core::{Clock, testing::FixedClock};
/// let clock = FixedClock::at(1_000);
/// assert_eq!(clock.now(), clock.now());
/// ```
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> SystemTime;
}
