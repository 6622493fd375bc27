//! Stacks for processes and threads that share the memory of this process.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// A stack with an inaccessible guard area below it: an overflow ends the process and overwrites nothing. Dropped, it is kept for reuse.
#[derive(Debug)]
pub(crate) struct Stack(Room);

/// The mapped memory of a stack, guard area included.
#[derive(Debug)]
struct Room {
    base: NonNull<c_void>,
}

/// Unused stacks, kept for the next program. To unmap one, the kernel would have to interrupt every processor that could have it cached.
static FREE: Mutex<Vec<Room>> = Mutex::new(Vec::new());
const MOST_FREE: usize = 8;

// SAFETY: memory of our own, which knows no threads.
unsafe impl Send for Room {}
// SAFETY: shared, only its place can be asked.
unsafe impl Sync for Room {}

impl Stack {
    /// Bytes of the inaccessible area at the lowest address.
    const GUARD: usize = 64 << 10;
    /// Bytes of the whole mapping, guard area included.
    pub(crate) const SIZE: usize = Self::GUARD + (1 << 20);

    /// Takes an unused stack, or maps a new one.
    pub(crate) fn new() -> io::Result<Self> {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(Room::new, Ok).map(Self)
    }

    /// Returns the lowest address, at which the guard area begins.
    pub(crate) fn base(&self) -> u64 {
        self.0.base.as_ptr() as u64
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MOST_FREE {
            free.push(Room { base: self.0.base });
        } else {
            // SAFETY: ours, and nothing runs on it any more.
            unsafe { libc::munmap(self.0.base.as_ptr(), Self::SIZE) };
        }
    }
}

impl Room {
    /// Maps memory for a stack and makes its guard area inaccessible.
    fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for new memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), Stack::SIZE, rights, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the beginning of that memory.
        if unsafe { libc::mprotect(base, Stack::GUARD, libc::PROT_NONE) } < 0 {
            let error = io::Error::last_os_error();
            // SAFETY: nothing uses it yet.
            unsafe { libc::munmap(base, Stack::SIZE) };
            return Err(error);
        }
        Ok(Self { base: NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)? })
    }
}
