//! Attempts in a fence without a view to use other programs, which are visible there.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};

use libc::{EAFNOSUPPORT, EPERM};
use windlass_sandbox::Ending;

use crate::attempt::{AttemptContext, Escape, check_lone, print_line};
use crate::files::errno_result;
use crate::support::TestSandbox;

pub(crate) const ESCAPES: &[Escape] = &[
    Escape::new("give the warden a limit", |_| limit_warden(), &[EPERM]),
    Escape::new(
        "connect to a socket of the workspace",
        |at| UnixStream::connect(at.workspace.join("socket")).map(drop),
        &[EAFNOSUPPORT],
    ),
    Escape::new(
        "make a socket that can talk to any other",
        |_| UnixDatagram::pair().map(drop),
        &[EPERM],
    ),
    Escape::new("share memory by number", |_| share_memory(), &[EPERM]),
];

#[test]
fn fence_without_a_view_refuses_access_to_other_programs() {
    check_lone(ESCAPES);
}

/// Sets the limit that the warden has already: harmless, and it needs the same right as any other limit.
fn limit_warden() -> io::Result<()> {
    let warden = std::os::unix::process::parent_id().cast_signed();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let cpu = libc::RLIMIT_CPU;
    // SAFETY: our own limit, and room for it.
    errno_result(unsafe { libc::getrlimit(cpu, &raw mut limit) })?;
    // SAFETY: a number, and a limit to be read.
    errno_result(unsafe { libc::prlimit(warden, cpu, &raw const limit, std::ptr::null_mut()) })
}

/// Creates a segment of its own; one of another program needs the same calls.
fn share_memory() -> io::Result<()> {
    // SAFETY: numbers.
    let number = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) };
    errno_result(number)?;
    // SAFETY: what was just made, and is of no use any more.
    errno_result(unsafe { libc::shmctl(number, libc::IPC_RMID, std::ptr::null_mut()) })
}

/// Sends text through a pair of stream sockets, as programs do with their children.
pub(crate) fn make_pair(_: &AttemptContext) {
    let (mut one, mut other) = UnixStream::pair().unwrap();
    one.write_all(b"word").unwrap();
    drop(one);
    let mut received = String::new();
    other.read_to_string(&mut received).unwrap();
    print_line(&format!("heard: {received}"));
}

#[test]
fn stream_socket_pairs_work_in_a_fence_without_a_view() {
    let (program, mut output) = TestSandbox::fenced().start_attempt("make a pair").unwrap();
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    assert!(printed.contains("\nheard: word\n"), "{printed}");
    assert_eq!(program.wait().unwrap(), Ending::Exited(0));
}
