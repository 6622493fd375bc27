//! A fence without a view: all other programs are within reach, and must not be asked to do what the program itself may not.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};

use libc::{EAFNOSUPPORT, EPERM};
use windlass_sandbox::Ending;

use crate::attempt::{Escape, Scene, check_lone, say};
use crate::files::answer;
use crate::support::Place;

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
fn nobody_is_asked_from_behind_a_lone_fence() {
    check_lone(ESCAPES);
}

/// The limit that it has: what harms nobody, and needs the same right as another.
fn limit_warden() -> io::Result<()> {
    let warden = std::os::unix::process::parent_id().cast_signed();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let cpu = libc::RLIMIT_CPU;
    // SAFETY: our own limit, and room for it.
    answer(unsafe { libc::getrlimit(cpu, &raw mut limit) })?;
    // SAFETY: a number, and a limit to be read.
    answer(unsafe { libc::prlimit(warden, cpu, &raw const limit, std::ptr::null_mut()) })
}

/// Of its own: another's needs the same calls.
fn share_memory() -> io::Result<()> {
    // SAFETY: numbers.
    let number = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) };
    answer(number)?;
    // SAFETY: what was just made, and is of no use any more.
    answer(unsafe { libc::shmctl(number, libc::IPC_RMID, std::ptr::null_mut()) })
}

/// What programs need to talk to those that they start themselves.
pub(crate) fn make_pair(_: &Scene) {
    let (mut one, mut other) = UnixStream::pair().unwrap();
    one.write_all(b"word").unwrap();
    drop(one);
    let mut heard = String::new();
    other.read_to_string(&mut heard).unwrap();
    say(&format!("heard: {heard}"));
}

#[test]
fn pairs_of_sockets_with_a_connection_are_there() {
    let (program, mut output) = Place::fenced().start_attempt("make a pair").unwrap();
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    assert!(printed.contains("\nheard: word\n"), "{printed}");
    assert_eq!(program.wait().unwrap(), Ending::Exited(0));
}
