//! Attacks on the warden, which runs as the same user: a warden without open files, memory or processor time could not measure.

use std::fs::OpenOptions;
use std::io::{self, Read as _};

use libc::{EACCES, EINVAL, ENOENT, ENOSYS, EPERM, EROFS, ESRCH, c_long};
use windlass_sandbox::{Ending, ResourceLimits};

use crate::attempt::{Escape, attempt_arguments, check};
use crate::files::errno_result;
use crate::limits::MIB;
use crate::support::TestSandbox;

const NOT_ALLOWED: &[i32] = &[EPERM];

pub(crate) const ESCAPES: &[Escape] = &[
    // Each sets a value that the warden has already, or one that does little harm.
    Escape::new("limit the warden's open files", |_| limit(libc::RLIMIT_NOFILE), NOT_ALLOWED),
    Escape::new("limit the warden's time", |_| limit(libc::RLIMIT_CPU), NOT_ALLOWED),
    Escape::new("move the warden to a processor", |_| set_affinity(), NOT_ALLOWED),
    Escape::new("schedule the warden in batches", |_| schedule(), NOT_ALLOWED),
    Escape::new("set the warden's parameters", |_| set_parameters(), NOT_ALLOWED),
    Escape::new("set the warden's attributes", |_| set_attributes(), NOT_ALLOWED),
    Escape::new("be nice to the warden", |_| set_nice(libc::PRIO_PROCESS), NOT_ALLOWED),
    Escape::new("be nice to the warden's group", |_| set_nice(libc::PRIO_PGRP), NOT_ALLOWED),
    Escape::new("be nice to the user", |_| call(libc::SYS_setpriority, [2, 0, 0, 0]), NOT_ALLOWED)
        .only_inside(),
    Escape::new("let the warden read last", |_| set_io_priority(1), NOT_ALLOWED),
    Escape::new(
        "let the user read last",
        |_| call(libc::SYS_ioprio_set, [3, 0, BEST_EFFORT, 0]),
        NOT_ALLOWED,
    )
    .only_inside(),
    // The filter has no rule for these; the kernel allows them only to a process that may trace the warden, or to its parent.
    Escape::new(
        "migrate the warden's pages",
        |_| call(libc::SYS_migrate_pages, [warden(), 0, 0, 0]),
        &[EPERM, EINVAL, ENOSYS],
    )
    .only_inside(),
    Escape::new(
        "move the warden's pages",
        |_| call(libc::SYS_move_pages, [warden(), 0, 0, 0]),
        &[EPERM, ENOSYS],
    )
    .only_inside(),
    Escape::new("find the warden's locks", |_| robust_list(), NOT_ALLOWED).for_root(),
    Escape::new("trace the warden", |_| trace(), NOT_ALLOWED).only_inside(),
    Escape::new(
        "give the warden a group of its own",
        |_| call(libc::SYS_setpgid, [warden(), 0, 0, 0]),
        &[EPERM, ESRCH],
    )
    .only_inside(),
    Escape::new(
        "join the warden's group",
        |_| call(libc::SYS_setpgid, [0, warden(), 0, 0]),
        NOT_ALLOWED,
    )
    .only_inside(),
    Escape::new("write the warden's settings", |_| write_settings(), &[EROFS, EACCES, ENOENT])
        .for_root()
        .needs_view(),
];

const BEST_EFFORT: c_long = 2 << 13 | 7;

#[test]
fn attempts_on_the_warden_are_refused() {
    check(ESCAPES);
}

fn warden() -> c_long {
    std::os::unix::process::parent_id().into()
}

fn call(number: c_long, arguments: [c_long; 4]) -> io::Result<()> {
    let [one, two, three, four] = arguments;
    // SAFETY: numbers, or pointers to what lives long enough.
    let answered = unsafe { libc::syscall(number, one, two, three, four, 0, 0) };
    if answered < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn limit(resource: libc::__rlimit_resource_t) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: our own limit, and room for it.
    errno_result(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    let resource = c_long::from(resource);
    call(libc::SYS_prlimit64, [warden(), resource, (&raw const limit) as c_long, 0])
}

fn set_affinity() -> io::Result<()> {
    let mut mask = [0u64; 16];
    let pointer = mask.as_mut_ptr() as c_long;
    call(libc::SYS_sched_getaffinity, [0, 128, pointer, 0])?;
    call(libc::SYS_sched_setaffinity, [warden(), 128, pointer, 0])
}

fn schedule() -> io::Result<()> {
    let priority = 0i32;
    let pointer = (&raw const priority) as c_long;
    call(libc::SYS_sched_setscheduler, [warden(), libc::SCHED_BATCH.into(), pointer, 0])
}

fn set_parameters() -> io::Result<()> {
    let priority = 0i32;
    call(libc::SYS_sched_setparam, [warden(), (&raw const priority) as c_long, 0, 0])
}

fn set_attributes() -> io::Result<()> {
    // The size in bytes, and the policy.
    let mut attributes = [0u32; 12];
    attributes[0] = 48;
    attributes[1] = libc::SCHED_BATCH.cast_unsigned();
    call(libc::SYS_sched_setattr, [warden(), attributes.as_ptr() as c_long, 0, 0])
}

fn set_nice(which: libc::__priority_which_t) -> io::Result<()> {
    call(libc::SYS_setpriority, [which.into(), warden(), 1, 0])
}

fn set_io_priority(which: c_long) -> io::Result<()> {
    call(libc::SYS_ioprio_set, [which, warden(), BEST_EFFORT, 0])
}

fn robust_list() -> io::Result<()> {
    let mut found = [0usize; 2];
    let pointer = found.as_mut_ptr();
    let length = (pointer as c_long) + 8;
    call(libc::SYS_get_robust_list, [warden(), pointer as c_long, length, 0])
}

fn trace() -> io::Result<()> {
    call(libc::SYS_ptrace, [libc::PTRACE_SEIZE.into(), warden(), 0, 0])
}

/// Opens each setting of the warden for writing and writes nothing.
fn write_settings() -> io::Result<()> {
    let mut refused = io::Error::from_raw_os_error(ENOENT);
    for file in
        ["autogroup", "clear_refs", "comm", "coredump_filter", "oom_score_adj", "timerslack_ns"]
    {
        match OpenOptions::new().write(true).open(format!("/proc/{}/{file}", warden())) {
            Ok(_) => return Ok(()),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The warden ends a program over its memory limit, also after an attack on the warden.
#[test]
fn warden_enforces_limits_after_an_attack() {
    let limits = ResourceLimits { memory: 64 * MIB, ..ResourceLimits::default() };
    let program = std::env::current_exe().unwrap();
    for attack in [
        "for signal in {1..64}; do kill -$signal 1; done",
        "for i in {1..2000}; do kill -34 1; done",
        "kill -TERM -1",
        "kill -STOP -1; kill -KILL -1",
        "prlimit --pid 1 --nofile=0:0",
        "prlimit --pid 1 --cpu=0:0",
        "prlimit --pid 1 --as=4096:4096 --stack=4096:4096 --data=0:0",
        "chrt --idle -p 0 1",
        "renice 19 -p 1",
        "renice 19 -g 1",
        "renice 19 -u $UID",
        "ionice -c 3 -p 1",
        "taskset -p 1 1",
        "echo 1000 > /proc/1/oom_score_adj",
    ] {
        let mut sandbox = TestSandbox::confined().with_limits(limits);
        sandbox.set("MOST", &limits.memory.to_string());
        sandbox.set("KIND", "many private");
        let script = format!(
            "{{ {attack}; }} 2>/dev/null; ATTEMPT='use memory' exec {} {}",
            program.display(),
            attempt_arguments().join(" ")
        );
        let (program, mut output) = sandbox.start(&script).unwrap();
        output.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(program.wait().unwrap(), Ending::OverMemory(64 * MIB), "{attack}");
    }
}
