//! This machine behind the doors of [`windlass_core::Host`].
//!
//! Nothing here decides what is allowed. What it guarantees is that a decision holds: a path is resolved once, decided on by its
//! real name, and opened by exactly that name beneath a directory handle. No spelling, no link and no race leads elsewhere.
//!
//! Linux only for now. All calls of the kernel go through safe wrappers.

#[cfg(not(target_os = "linux"))]
compile_error!("this host is written for Linux; another system needs its own way to look up paths");

mod ancestry;
mod attributes;
mod change;
mod clock;
mod files;
mod kernel;
mod locks;
mod nearest;
mod parents;
mod random;
mod remove;
mod rename;
mod resolver;
mod rule_files;
mod rules;
mod temporary;
#[cfg(test)]
mod tests;
mod trail;
mod walk;

use std::path::Path;

pub use clock::SystemClock;
pub use files::LocalFiles;
pub use random::RandomIds;
use windlass_core::{Clock, FileError, Files, Host};

/// This machine, seen from one workspace.
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
    clock: SystemClock,
}

impl LocalHost {
    /// Takes hold of a workspace: a directory that exists. The path may be relative and may lead through links.
    pub fn open(workspace: &Path) -> Result<Self, FileError> {
        Ok(Self { files: LocalFiles::open(workspace)?, clock: SystemClock })
    }
}

impl Host for LocalHost {
    fn files(&self) -> &dyn Files {
        &self.files
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
}
