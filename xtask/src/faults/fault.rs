//! The faults: which call of which thread fails, and how.
//!
//! A thread counts its own calls, as strace does. The command's first thread and the one that does the work are walked one after
//! the other; if both counted together, the many calls of the first would come before those of the second.

use std::fmt;

/// A call that changes something, with the errors that a person may meet. The program is also killed when it enters the call. An
/// error with a plus may last: a disk that is full stays full. A close that fails has closed all the same, which strace cannot do.
const CHANGING: &[(&str, &[&str])] = &[
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
    // Not for good: threads wake each other by writing to the kernel, which no full disk prevents.
    ("write", &["ENOSPC", "EIO", "EDQUOT"]),
    ("writev", &["ENOSPC+"]),
];

/// A call that only looks. Being killed there is being killed at the next call that changes something.
const LOOKING: &[(&str, &[&str])] = &[
    ("fgetxattr", &["EIO"]),
    ("flistxattr", &["EIO", "EOPNOTSUPP"]),
    ("fstat", &["EIO"]),
    ("getdents64", &["EIO"]),
    ("newfstatat", &["EIO"]),
    ("pread64", &["EIO"]),
    ("read", &["EIO"]),
    ("statx", &["EIO"]),
];

/// The names of all calls that are looked at.
pub(super) fn calls() -> impl Iterator<Item = &'static str> {
    CHANGING.iter().chain(LOOKING).map(|(call, _)| *call)
}

/// A thread of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    /// Its first one: options, policy, journal, the answer.
    Main,
    /// The one that it starts for what blocks: the change itself.
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
pub(super) struct Made {
    pub(super) thread: Thread,
    pub(super) call: &'static str,
    /// Which one of its name, counted from 1.
    pub(super) nth: usize,
    pub(super) on: On,
}

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    /// A file, a directory, or whatever has a name.
    Files,
    /// Something in which the kernel alone has a part, and no disk that fails.
    Kernel,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// The call does nothing and returns this error.
    Fails(&'static str),
    /// It does, and so does every later one of its name.
    KeepsFailing(&'static str),
    /// The program is gone.
    Killed,
}

/// One call that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) thread: Thread,
    pub(super) call: &'static str,
    pub(super) how: How,
    /// Which one, counted from 1.
    pub(super) nth: usize,
}

impl Fault {
    pub(super) fn name(&self, scenario: &str) -> String {
        let how = match self.how {
            How::Fails(error) => error.to_owned(),
            How::KeepsFailing(error) => format!("{error}+"),
            How::Killed => "KILL".to_owned(),
        };
        format!("{scenario}/{}/{}/{how}/{}", self.thread, self.call, self.nth)
    }

    /// As strace takes it after `-e`.
    pub(super) fn injection(&self) -> String {
        let Self { call, nth, .. } = self;
        match self.how {
            How::Fails(error) => format!("inject={call}:error={error}:when={nth}"),
            How::KeepsFailing(error) => format!("inject={call}:error={error}:when={nth}+"),
            How::Killed => format!("inject={call}:signal=KILL:when={nth}"),
        }
    }
}

/// Every fault of a program that makes these calls.
pub(super) fn of(made: &[Made]) -> Vec<Fault> {
    let faults = |&Made { thread, call, nth, on }: &Made| {
        let is_plausible = move |how: &How| on == On::Files || *how == How::Killed;
        let ways = ways(call).into_iter().filter(is_plausible);
        ways.map(move |how| Fault { thread, call, how, nth })
    };
    made.iter().flat_map(faults).collect()
}

fn ways(call: &str) -> Vec<How> {
    let find = |calls: &[(&str, &'static [&'static str])]| {
        calls.iter().find(|(name, _)| *name == call).map(|(_, errors)| *errors)
    };
    let fail = |errors: &'static [&'static str]| errors.iter().flat_map(|error| failures(error));
    match (find(CHANGING), find(LOOKING)) {
        (Some(errors), _) => fail(errors).chain([How::Killed]).collect(),
        (None, Some(errors)) => fail(errors).collect(),
        (None, None) => Vec::new(),
    }
}

fn failures(error: &'static str) -> Vec<How> {
    match error.strip_suffix('+') {
        Some(error) => vec![How::Fails(error), How::KeepsFailing(error)],
        None => vec![How::Fails(error)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_fails_in_every_plausible_way() {
        let made = |thread, call, nth, on| Made { thread, call, nth, on };
        let made = [
            made(Thread::Worker, "unlinkat", 1, On::Files),
            made(Thread::Main, "write", 1, On::Kernel),
            made(Thread::Worker, "unlinkat", 2, On::Files),
            made(Thread::Main, "pread64", 1, On::Files),
        ];
        let names: Vec<String> = of(&made).iter().map(|fault| fault.name("undo")).collect();
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
    fn strace_is_told_which_call_fails() {
        let fault = |how| Fault { thread: Thread::Main, call: "rename", how, nth: 3 }.injection();
        assert_eq!(fault(How::Fails("EXDEV")), "inject=rename:error=EXDEV:when=3");
        assert_eq!(fault(How::KeepsFailing("EIO")), "inject=rename:error=EIO:when=3+");
        assert_eq!(fault(How::Killed), "inject=rename:signal=KILL:when=3");
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
