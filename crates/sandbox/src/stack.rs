//! Stacks for processes and threads that share the memory of this process.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// A stack with an inaccessible guard area below it: an overflow ends the process and overwrites nothing. Dropped, it is kept for reuse.
#[derive(Debug)]
pub(crate) struct Stack(StackMemory);

/// The mapped memory of a stack, guard area included.
#[derive(Debug)]
struct StackMemory {
    base: NonNull<c_void>,
}

/// Unused stacks, kept for the next program. To unmap one, the kernel would have to interrupt every processor that could have it cached.
static UNUSED_STACKS: Mutex<Vec<StackMemory>> = Mutex::new(Vec::new());
/// Maximum number of unused stacks that are kept.
const MAX_UNUSED_STACKS: usize = 8;

// SAFETY: memory of our own, which knows no threads.
unsafe impl Send for StackMemory {}
// SAFETY: shared, only its address can be read.
unsafe impl Sync for StackMemory {}

impl Stack {
    /// Bytes of the inaccessible area at the lowest address.
    const GUARD_BYTES: usize = 64 << 10;
    /// Bytes of the whole mapping, guard area included.
    pub(crate) const BYTES: usize = Self::GUARD_BYTES + (1 << 20);

    /// Takes an unused stack, or maps a new one.
    pub(crate) fn new() -> io::Result<Self> {
        let free = UNUSED_STACKS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(StackMemory::new, Ok).map(Self)
    }

    /// Returns the lowest address, at which the guard area begins.
    pub(crate) fn base(&self) -> u64 {
        self.0.base.as_ptr() as u64
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let mut free = UNUSED_STACKS.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MAX_UNUSED_STACKS {
            free.push(StackMemory { base: self.0.base });
        } else {
            // SAFETY: ours, and nothing runs on it any more.
            unsafe { libc::munmap(self.0.base.as_ptr(), Self::BYTES) };
        }
    }
}

impl StackMemory {
    /// Maps memory for a stack and makes its guard area inaccessible.
    fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for new memory.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), Stack::BYTES, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the beginning of that memory.
        if unsafe { libc::mprotect(base, Stack::GUARD_BYTES, libc::PROT_NONE) } < 0 {
            let error = io::Error::last_os_error();
            // SAFETY: nothing uses it yet.
            unsafe { libc::munmap(base, Stack::BYTES) };
            return Err(error);
        }
        Ok(Self { base: NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)? })
    }
}
