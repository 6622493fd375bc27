//! Threads of a process that must not use those of the C library.

use super::{CloneArguments, Entry, Result, c_int, c_void, clone};
use crate::stack::Stack;

const SHARED: c_int = libc::CLONE_VM
    | libc::CLONE_THREAD
    | libc::CLONE_SIGHAND
    | libc::CLONE_SYSVSEM
    | libc::CLONE_FILES;

/// Starts a thread that has the memory and the descriptors of this one, and a working directory and a mask of modes of its own.
///
/// # Safety
/// The thread must keep to what may be done in memory that another uses at the same time, and not use the C library: it has no
/// memory for that of its own. The stack, and what `given` points to, must stay until the process ends.
pub(crate) unsafe fn start(stack: &Stack, entry: Entry, given: *const c_void) -> Result {
    let mut arguments = CloneArguments { flags: flags(), ..CloneArguments::default() }.on(stack);
    // SAFETY: as above.
    unsafe { clone(&mut arguments, entry, given) }.map(drop)
}

fn flags() -> u64 {
    u64::from(SHARED.cast_unsigned())
}

/// Ends this thread and no other.
pub(crate) fn end() -> ! {
    loop {
        let _ = call!(libc::SYS_exit, 0);
    }
}
