//! A setting of the C library's memory allocator.

/// Makes all threads of this process share one heap.
///
/// glibc gives each thread a heap of its own, and memory freed in one is not reused in another. A process that works on many files on one
/// thread after another would then hold the memory of all steps at once. Must be called before the first thread is started. Does nothing
/// with other C libraries, which have one heap anyway.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number; the allocator takes its own lock for that.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
