//! Faults: a call of a thread, and the way in which it fails.
//!
//! A thread counts its own calls, as strace does. The command's first thread and its worker are traced in separate
//! runs: if both counted together, the many calls of the first thread would come before those of the worker.

use std::fmt;

/// Calls that change something, with the errors that can occur in practice. The program is also killed when it enters the call. An
/// error with a plus may last, such as a full disk. A failing `close` still closes the file, which strace cannot simulate.
const CHANGING_CALLS: &[(&str, &[&str])] = &[
    ("chmod", &["EPERM"]),
    ("close", &[]),
    ("copy_file_range", &["EIO", "ENOSPC+"]),
    ("creat", &["EACCES"]),
    ("fallocate", &["ENOSPC+", "EOPNOTSUPP"]),
    ("fchmod", &["EPERM"]),
    ("fchmodat", &["EPERM"]),
    ("fchmodat2", &["EPERM"]),
    ("fchown", &["EPERM"]),
    ("fchownat", &["EPERM"]),
    ("fcntl", &["ENOLCK"]),
    ("fdatasync", &["EIO+", "ENOSPC"]),
    ("flock", &["ENOLCK"]),
    ("fremovexattr", &["EOPNOTSUPP"]),
    ("fsetxattr", &["EOPNOTSUPP", "ENOSPC"]),
    ("fsync", &["EIO+", "ENOSPC"]),
    ("ftruncate", &["EIO+", "ENOSPC"]),
    ("getrandom", &[]),
    ("link", &["EMLINK", "EPERM"]),
    ("linkat", &["EPERM", "ENOSPC"]),
    ("mkdir", &["ENOSPC"]),
    ("mkdirat", &["ENOSPC+"]),
    ("open", &["EMFILE", "EACCES"]),
    ("openat", &["EMFILE+", "ENFILE", "EACCES", "EROFS+", "EINTR"]),
    ("openat2", &["ENOSYS", "EMFILE+", "EACCES"]),
    ("pwrite64", &["ENOSPC+", "EIO"]),
    ("pwritev", &["ENOSPC+"]),
    ("rename", &["EIO+", "EXDEV", "ENOSPC"]),
    ("renameat", &["EIO+", "ENOSPC"]),
    ("renameat2", &["EIO+", "EINVAL", "ENOSPC"]),
    ("rmdir", &["EBUSY"]),
    ("symlink", &["ENOSPC"]),
    ("symlinkat", &["ENOSPC"]),
    ("truncate", &["EIO"]),
    ("unlink", &["EBUSY+"]),
    ("unlinkat", &["EBUSY+"]),
    ("utimensat", &["EPERM"]),
    // These do not last: threads wake each other by `write` to the kernel, which a full disk does not prevent.
    ("write", &["ENOSPC", "EIO", "EDQUOT"]),
    ("writev", &["ENOSPC+"]),
];

/// Calls that only read. A kill there has the same effect as a kill at the next changing call.
const READING_CALLS: &[(&str, &[&str])] = &[
    ("fgetxattr", &["EIO"]),
    ("flistxattr", &["EIO", "EOPNOTSUPP"]),
    ("fstat", &["EIO"]),
    ("getdents64", &["EIO"]),
    ("newfstatat", &["EIO"]),
    ("pread64", &["EIO"]),
    ("read", &["EIO"]),
    ("statx", &["EIO"]),
];

/// The names of all traced calls.
pub(super) fn calls() -> impl Iterator<Item = &'static str> {
    CHANGING_CALLS.iter().chain(READING_CALLS).map(|(call, _)| *call)
}

/// A thread of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    /// The first thread: options, policy, journal, the answer.
    Main,
    /// The thread for blocking work: the change itself.
    Worker,
}

pub(super) const THREADS: &[Thread] = &[Thread::Main, Thread::Worker];

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Main => "main",
            Self::Worker => "worker",
        })
    }
}

/// One call of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TracedCall {
    pub(super) thread: Thread,
    pub(super) call: &'static str,
    /// The number among the calls of this name, counted from 1.
    pub(super) nth: usize,
    pub(super) target: CallTarget,
}

/// The target of a call, by its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallTarget {
    /// A file or a directory.
    Files,
    /// An object of the kernel, such as a pipe: no disk error can occur.
    Kernel,
}

/// The way in which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The call does nothing and returns this error.
    Fails(&'static str),
    /// This and every later call of this name returns this error.
    KeepsFailing(&'static str),
    /// The program is killed at the call.
    Killed,
}

/// One failing call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) thread: Thread,
    pub(super) call: &'static str,
    pub(super) failure: Failure,
    /// The number of the call, counted from 1.
    pub(super) nth: usize,
}

impl Fault {
    /// The name for filters and reports.
    pub(super) fn name(&self, scenario: &str) -> String {
        let failure = match self.failure {
            Failure::Fails(error) => error.to_owned(),
            Failure::KeepsFailing(error) => format!("{error}+"),
            Failure::Killed => "KILL".to_owned(),
        };
        format!("{scenario}/{}/{}/{failure}/{}", self.thread, self.call, self.nth)
    }

    /// The argument of strace's `-e`.
    pub(super) fn injection(&self) -> String {
        let Self { call, nth, .. } = self;
        match self.failure {
            Failure::Fails(error) => format!("inject={call}:error={error}:when={nth}"),
            Failure::KeepsFailing(error) => format!("inject={call}:error={error}:when={nth}+"),
            Failure::Killed => format!("inject={call}:signal=KILL:when={nth}"),
        }
    }
}

/// All faults of a program that makes these calls.
pub(super) fn of(calls_made: &[TracedCall]) -> Vec<Fault> {
    let faults = |&TracedCall { thread, call, nth, target }: &TracedCall| {
        let is_plausible =
            move |failure: &Failure| target == CallTarget::Files || *failure == Failure::Killed;
        let failures_of_call = failures_of_call(call).into_iter().filter(is_plausible);
        failures_of_call.map(move |failure| Fault { thread, call, failure, nth })
    };
    calls_made.iter().flat_map(faults).collect()
}

/// The ways in which a call can fail.
fn failures_of_call(call: &str) -> Vec<Failure> {
    let find = |calls: &[(&str, &'static [&'static str])]| {
        calls.iter().find(|(name, _)| *name == call).map(|(_, errors)| *errors)
    };
    let fail =
        |errors: &'static [&'static str]| errors.iter().flat_map(|error| once_and_lasting(error));
    match (find(CHANGING_CALLS), find(READING_CALLS)) {
        (Some(errors), _) => fail(errors).chain([Failure::Killed]).collect(),
        (None, Some(errors)) => fail(errors).collect(),
        (None, None) => Vec::new(),
    }
}

/// The failure with this error, and the lasting one if it ends with a plus.
fn once_and_lasting(error: &'static str) -> Vec<Failure> {
    match error.strip_suffix('+') {
        Some(error) => vec![Failure::Fails(error), Failure::KeepsFailing(error)],
        None => vec![Failure::Fails(error)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_fails_in_every_plausible_way() {
        let calls_made = |thread, call, nth, target| TracedCall { thread, call, nth, target };
        let calls_made = [
            calls_made(Thread::Worker, "unlinkat", 1, CallTarget::Files),
            calls_made(Thread::Main, "write", 1, CallTarget::Kernel),
            calls_made(Thread::Worker, "unlinkat", 2, CallTarget::Files),
            calls_made(Thread::Main, "pread64", 1, CallTarget::Files),
        ];
        let names: Vec<String> = of(&calls_made).iter().map(|fault| fault.name("undo")).collect();
        assert_eq!(
            names,
            [
                "undo/worker/unlinkat/EBUSY/1",
                "undo/worker/unlinkat/EBUSY+/1",
                "undo/worker/unlinkat/KILL/1",
                "undo/main/write/KILL/1",
                "undo/worker/unlinkat/EBUSY/2",
                "undo/worker/unlinkat/EBUSY+/2",
                "undo/worker/unlinkat/KILL/2",
                "undo/main/pread64/EIO/1",
            ]
        );
    }

    #[test]
    fn a_fault_becomes_an_injection_of_strace() {
        let fault =
            |failure| Fault { thread: Thread::Main, call: "rename", failure, nth: 3 }.injection();
        assert_eq!(fault(Failure::Fails("EXDEV")), "inject=rename:error=EXDEV:when=3");
        assert_eq!(fault(Failure::KeepsFailing("EIO")), "inject=rename:error=EIO:when=3+");
        assert_eq!(fault(Failure::Killed), "inject=rename:signal=KILL:when=3");
    }

    #[test]
    fn calls_are_named_once() {
        let mut names: Vec<&str> = calls().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
