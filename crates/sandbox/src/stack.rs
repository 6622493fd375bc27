//! Room for a process that begins in memory that it shares.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// A stack. Below it lies a page that nobody may touch: who goes too deep ends, and writes over nothing.
#[derive(Debug)]
pub(crate) struct Stack(Room);

#[derive(Debug)]
struct Room {
    base: NonNull<c_void>,
}

/// What nobody runs on at the moment. To take memory back, the kernel has to interrupt every processor that could have a part of it
/// at hand; and it is asked for again with the next program.
static FREE: Mutex<Vec<Room>> = Mutex::new(Vec::new());
const MOST_FREE: usize = 8;

// SAFETY: memory of our own, which knows no threads.
unsafe impl Send for Room {}
// SAFETY: shared, only its place can be asked.
unsafe impl Sync for Room {}

impl Stack {
    const GUARD: usize = 64 << 10;
    pub(crate) const SIZE: usize = Self::GUARD + (1 << 20);

    pub(crate) fn new() -> io::Result<Self> {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(Room::new, Ok).map(Self)
    }

    /// Its lowest address.
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
            // SAFETY: ours, and nobody runs on it any more.
            unsafe { libc::munmap(self.0.base.as_ptr(), Self::SIZE) };
        }
    }
}

impl Room {
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
            // SAFETY: nobody has it yet.
            unsafe { libc::munmap(base, Stack::SIZE) };
            return Err(error);
        }
        Ok(Self { base: NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)? })
    }
}
