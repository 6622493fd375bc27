//! Starts programs in a sandbox and ends every process that they leave behind.
//!
//! This is the only crate with unsafe code. It knows nothing about the other crates: the caller describes the files and the network
//! that a program may use as a [`Launch`]. A process of our own, the *warden*, stands between us and the program. It sets up the
//! sandbox, is the first process in it, waits for the program, and exits only after every process in the sandbox has ended. If this
//! process ends first, the warden ends them by itself.
//!
//! The sandbox consists of namespaces (user, PID, mount, network, IPC), a root file system with only the requested mounts, Landlock, a
//! seccomp filter, dropped capabilities and resource limits. A machine may lack any of these; [`launch`] fails if one that the caller
//! asked for is missing.
#![allow(unsafe_code, reason = "this is the crate for it")]

#[cfg(not(target_os = "linux"))]
compile_error!("the sandbox needs Linux: it uses namespaces, Landlock and seccomp");

mod error;
mod heap;
mod launch;
mod owner;
mod path_buffer;
mod plan;
mod process;
mod raw;
mod renames;
mod root;
mod seccomp;
mod setup;
mod stack;
mod sys;
mod usage;
mod warden;

pub use error::{LaunchError, LaunchStep};
pub use heap::share_heap;
pub use launch::{
    Fence, Launch, Mount, MountSource, OverlayUpper, PathHandle, ProgramNetwork, ReadOnlyPath,
    ResourceLimits, SessionNamespaces, View,
};
pub use owner::open_as_owner;
pub use process::{Confined, Ending, hide_memory, is_memory_hidden, launch};
pub use renames::RENAME_PREFIX;

/// Returns the version of Landlock that the kernel supports; 0 if it has none.
pub fn landlock_version() -> u32 {
    sys::landlock::version()
}
