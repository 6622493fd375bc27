//! Threads for a process that must not use the C library.

use super::{CloneArguments, EntryPoint, Result, c_int, c_void, clone};
use crate::stack::Stack;

/// Flags of `clone3` for a thread of this process.
const THREAD_FLAGS: c_int = libc::CLONE_VM
    | libc::CLONE_THREAD
    | libc::CLONE_SIGHAND
    | libc::CLONE_SYSVSEM
    | libc::CLONE_FILES;

/// Starts a thread that runs `entry(data)`. It shares memory and descriptors with this one, but has its own working directory and umask.
///
/// # Safety
/// The thread must do only what is sound in memory that another uses at the same time, and not use the C library, for which it has no
/// thread-local memory. The stack, and the data that `data` points to, must stay valid until the process ends.
pub(crate) unsafe fn start(stack: &Stack, entry: EntryPoint, data: *const c_void) -> Result {
    let mut arguments = CloneArguments { flags: flags(), ..CloneArguments::default() }.on(stack);
    // SAFETY: as above.
    unsafe { clone(&mut arguments, entry, data) }.map(drop)
}

/// Returns the flags as the number that `clone3` takes.
fn flags() -> u64 {
    u64::from(THREAD_FLAGS.cast_unsigned())
}

/// Ends this thread and no other.
pub(crate) fn end() -> ! {
    loop {
        let _ = syscall!(libc::SYS_exit, 0);
    }
}
