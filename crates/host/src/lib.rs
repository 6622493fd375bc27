//! Implements [`windlass_core::Host`] on the real machine: files, processes, network and clock.
//!
//! This crate does not decide what is allowed. It guarantees that a decision holds: a path is resolved once, decided on by its real
//! name, and opened by exactly that name beneath a directory handle. No spelling, no link and no race leads elsewhere.
//!
//! Linux only for now. All system calls go through safe wrappers.

#[cfg(not(target_os = "linux"))]
compile_error!("this host is written for Linux; another system needs its own way to look up paths");

mod alter;
mod ancestry;
mod attributes;
mod batch;
mod clock;
mod dial;
mod durability;
mod files;
mod http;
mod ignore_files;
mod ignore_rules;
mod inputs;
mod inspect;
mod isolate;
mod kernel;
mod nearest;
mod path_follower;
mod processes;
mod proxy;
mod random;
mod resolver;
mod session_tmp;
mod stage;
mod survey;
mod temporary;
#[cfg(test)]
mod tests;
mod walk;

use std::path::Path;
use std::sync::Arc;

pub use clock::SystemClock;
pub use dial::{Resolver, SystemResolver};
pub use durability::Durability;
pub use files::LocalFiles;
pub use http::{HttpSettings, LocalNetwork};
pub use isolate::{Isolated, IsolatedChange, IsolatedChangeKind, Isolation};
pub use processes::{LocalProcesses, ProcessSettings, ShellError, control_group};
pub use proxy::{Proxy, ProxyError, ProxySettings, RefusedHost, Traffic};
pub use random::RandomIds;
pub use stage::{Delta, PASS_THROUGH, Scan, Stage, delta};
use windlass_core::{Clock, FileError, Files, Host, Network, Processes, SessionId};
pub use windlass_sandbox::{hide_memory, landlock_version, share_heap};

/// The host of one workspace on this machine.
///
/// ```
/// use windlass_core::Host;
/// let host = windlass_host::LocalHost::open(".".as_ref())?;
/// let manifest = host.files().resolve("Cargo.toml".as_ref())?;
/// assert!(manifest.exists);
/// # Ok::<(), windlass_core::FileError>(())
/// ```
#[derive(Debug)]
pub struct LocalHost {
    files: LocalFiles,
    processes: LocalProcesses,
    network: LocalNetwork,
    clock: SystemClock,
}

impl LocalHost {
    /// Opens a workspace, which must be an existing directory. The path may be relative and may lead through links. Each change
    /// waits for the disk.
    pub fn open(workspace: &Path) -> Result<Self, FileError> {
        Self::open_with(workspace, Durability::Disk)
    }

    /// Opens a workspace like [`Self::open`], with the given durability of changes.
    pub fn open_with(workspace: &Path, durability: Durability) -> Result<Self, FileError> {
        let files = LocalFiles::open_with(workspace, durability)?;
        let processes = LocalProcesses::new(files.workspace(), ProcessSettings::default());
        let network = LocalNetwork::new(HttpSettings::default());
        Ok(Self { files, processes, network, clock: SystemClock })
    }

    /// Replaces the settings for programs.
    #[must_use]
    pub fn with_processes(mut self, settings: ProcessSettings) -> Self {
        self.processes = LocalProcesses::new(self.files.workspace(), settings);
        self
    }

    /// Replaces the settings for the network.
    #[must_use]
    pub fn with_network(mut self, settings: HttpSettings) -> Self {
        self.network = LocalNetwork::new(settings);
        self
    }
}

impl Host for LocalHost {
    fn files(&self) -> &dyn Files {
        &self.files
    }

    /// Returns the files with the session's own `/tmp`; `None` if programs see the machine's `/tmp`, so that file tools see the
    /// same one as programs.
    fn session_files(&self, session: &SessionId) -> Option<Arc<dyn Files>> {
        let directories = self.processes.temporaries()?;
        Some(Arc::new(self.files.in_session(directories.clone(), session)))
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn processes(&self) -> Option<&dyn Processes> {
        Some(&self.processes)
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(&self.network)
    }
}
