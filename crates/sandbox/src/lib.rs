//! Starts programs in surroundings from which they cannot reach further than they are meant to, and from which nothing of them
//! survives.
//!
//! The only crate with unsafe code, and with no knowledge of the rest: it is told what a program may see and change as a plain
//! [`Launch`]. Between us and the program stands a process of our own, the *warden*. It makes the surroundings, is the first process
//! in them, waits for the program, and goes only when nothing of it is left; when we are gone, it ends everything by itself.
//!
//! What holds: namespaces (users, processes, mounts, network, IPC), a root file system that has only what is laid into it, Landlock
//! on top of it, a filter of system calls, no capabilities, limits. Each can be missing on a machine; [`launch`] never goes on without one that
//! was asked for.
#![allow(unsafe_code, reason = "this is the crate for it")]

#[cfg(not(target_os = "linux"))]
compile_error!("the sandbox is made of parts of Linux");

mod error;
mod heap;
mod launch;
mod name;
mod owner;
mod plan;
mod process;
mod raw;
mod renames;
mod root;
mod seccomp;
mod stack;
mod surroundings;
mod sys;
mod usage;
mod warden;

pub use error::{LaunchError, Step};
pub use heap::share_heap;
pub use launch::{
    Fence, Launch, Limits, Mount, Network, Object, Protected, SessionNamespaces, Source, Upper,
    View,
};
pub use owner::open_as_owner;
pub use process::{Confined, Ending, hide_memory, is_memory_hidden, launch};
pub use renames::RENAME_PREFIX;

/// Which version of Landlock the kernel speaks; 0 if none.
pub fn landlock_version() -> u32 {
    sys::landlock::version()
}
