//! Room for a process that begins in memory that it shares.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

/// A stack. Below it lies a page that nobody may touch: who goes too deep ends, and writes over nothing.
#[derive(Debug)]
pub(crate) struct Stack {
    base: NonNull<c_void>,
    size: usize,
}

// SAFETY: memory of our own, which knows no threads.
unsafe impl Send for Stack {}
// SAFETY: shared, only its place and its size can be asked.
unsafe impl Sync for Stack {}

impl Stack {
    const GUARD: usize = 64 << 10;

    /// With so many bytes of use, a multiple of the largest page.
    pub(crate) fn new(room: usize) -> io::Result<Self> {
        let size = room + Self::GUARD;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for new memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), size, rights, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self { base: NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?, size };
        // SAFETY: the beginning of that memory.
        if unsafe { libc::mprotect(base, Self::GUARD, libc::PROT_NONE) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// Its lowest address.
    pub(crate) fn base(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    pub(crate) fn size(&self) -> u64 {
        self.size as u64
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: ours, and nobody runs on it any more.
        unsafe { libc::munmap(self.base.as_ptr(), self.size) };
    }
}
