//! System calls of the seccomp notifier: calls of a program wait until another thread lets them proceed or fail.

use libc::{c_ulong, seccomp_notif, seccomp_notif_resp};

use super::{Errno, Fd, Result, c_int, c_void, ioctl, size, to_int, to_length};

const SET_MODE_FILTER: c_int = 1;
/// Flag by which the kernel runs the woken thread on the same processor.
const SYNC_WAKE_UP: u64 = 1;

/// Installs a filter on this thread whose notified calls wait for an answer. Returns the descriptor on which they arrive.
pub(crate) fn install_notifier(program: &[libc::sock_filter]) -> Result<Fd> {
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| libc::EINVAL)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let install = |flags: c_ulong| {
        let pointer = std::ptr::from_ref(&filter);
        syscall!(libc::SYS_seccomp, SET_MODE_FILTER, flags, pointer).map(to_int)
    };
    // Only a fatal signal interrupts a call that was received: `rename` never answers `EINTR`. Linux before 5.19 cannot do that.
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    match install(listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(libc::EINVAL) => install(listener),
        other => other,
    }
}

/// Lets the kernel switch straight between the calling thread and the one that answers, from Linux 6.6 on.
pub(crate) fn enable_sync_wake_up(listener: Fd) {
    let flags = std::ptr::without_provenance_mut(usize::try_from(SYNC_WAKE_UP).unwrap_or(0));
    let _ = ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags);
}

/// Waits for the next call. Fails with `ENOENT` if the caller has ended or was interrupted before its call was received.
pub(crate) fn receive(listener: Fd) -> Result<seccomp_notif> {
    // SAFETY: all zero is what the kernel wants to fill.
    let mut received: seccomp_notif = unsafe { std::mem::zeroed() };
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, std::ptr::from_mut(&mut received).cast())?;
    Ok(received)
}

/// Lets the kernel perform a call unchanged.
pub(crate) fn proceed(listener: Fd, id: u64) {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
    send(listener, seccomp_notif_resp { id, val: 0, error: 0, flags });
}

/// Makes a call fail with an error number.
pub(crate) fn fail(listener: Fd, id: u64, errno: Errno) {
    send(listener, seccomp_notif_resp { id, val: 0, error: -errno, flags: 0 });
}

/// Sends the answer to a call. Ignores errors: a caller that has ended needs no answer.
fn send(listener: Fd, mut answer: seccomp_notif_resp) {
    let pointer: *mut c_void = std::ptr::from_mut(&mut answer).cast();
    let _ = ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, pointer);
}

/// Returns whether the caller still waits: if so, its thread id still belongs to the thread that called.
pub(crate) fn is_caller_waiting(listener: Fd, mut id: u64) -> bool {
    let pointer: *mut c_void = std::ptr::from_mut(&mut id).cast();
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, pointer).is_ok()
}

/// Copies memory of another process into a buffer, up to the first page that is not mapped. Returns the number of bytes.
pub(crate) fn read_memory(
    process: libc::pid_t,
    address: usize,
    buffer: &mut [u8],
) -> Result<usize> {
    const PAGE: usize = 4096;
    let first = (PAGE - address % PAGE).min(buffer.len());
    let memory_range = |address: usize, length| libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address),
        iov_len: length,
    };
    // The kernel need not copy a part of an element: one for each page.
    let remote = [
        memory_range(address, first),
        memory_range(address.wrapping_add(first), buffer.len() - first),
    ];
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let local = std::ptr::from_ref(&local);
    let number = libc::SYS_process_vm_readv;
    syscall!(number, process, local, 1, remote.as_ptr(), remote.len(), 0).map(to_length)
}

/// Checks the sizes of the kernel's structures: it refuses to read or write larger ones.
const _: () = assert!(size::<seccomp_notif>() == 80 && size::<seccomp_notif_resp>() == 24);
