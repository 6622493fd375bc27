//! The heap of this process.

/// Has all threads of this process share one heap.
///
/// The C library gives each thread a heap of its own, and what was freed in one is not used again by another. A process that works on
/// many files on one thread after another then holds the memory of each step at once. Called before the first thread is started;
/// other C libraries than glibc have one heap anyway.
///
/// ```
/// windlass_sandbox::share_heap();
/// ```
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number; the allocator takes its own lock for that.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
