//! How much a program and all that it started use of the machine.
//!
//! Looked at from time to time: what the kernel could count by itself, in control groups, is not everybody's to use. What is looked
//! at is cheap as long as it is far from the limit, and exact only when it is not.

use std::ffi::CStr;

use libc::pid_t;

use crate::launch::Network;
use crate::name::Name;
use crate::plan::Plan;
use crate::sys;
use crate::warden::{Report, Tree, each_number_in};

mod kernel;

/// What is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Bytes of memory.
    memory: u64,
    processes: u64,
}

impl Usage {
    /// How long nobody looks, at most, in milliseconds.
    pub(crate) const LONGEST: i64 = 100;
    const SHORTEST: i64 = 2;
    /// Bytes that a machine may fill in a millisecond.
    const FAST: u64 = 16 << 20;

    /// Looks closer only where a look from farther away would say that it is too much.
    pub(crate) fn of(plan: &Plan) -> Self {
        let tree = Tree::of(plan);
        let most = plan.limits.memory;
        let kernel = held_by_kernel(plan);
        let mut memory = 0;
        for look in [resident, written, own_part] {
            let of_process = |sum: Memory, pid: &pid_t| sum.and(of_process(*pid, look));
            let all = tree.pids().iter().fold(Memory::default(), of_process);
            // Files and segments can be mapped: they are the same memory then.
            let shared = all.shared.max(kernel.shared);
            memory = all.private.saturating_add(kernel.private).saturating_add(shared);
            if memory <= most {
                break;
            }
        }
        Self { memory, processes: tree.pids().len() as u64 }
    }

    pub(crate) fn over_limits(self, plan: &Plan) -> Option<Report> {
        let limits = &plan.limits;
        if self.memory > limits.memory {
            return Some(Report { number: limits.memory, ..Report::of(Report::OVER_MEMORY) });
        }
        if self.processes > limits.processes {
            return Some(Report { number: limits.processes, ..Report::of(Report::OVER_PROCESSES) });
        }
        None
    }

    /// For how many milliseconds nobody need look: until then nothing can have grown by a quarter over the limit.
    pub(crate) fn pause(self, plan: &Plan) -> i64 {
        let most = plan.limits.memory;
        let room = most.saturating_add(most / 4).saturating_sub(self.memory);
        i64::try_from(room / Self::FAST).unwrap_or(i64::MAX).clamp(Self::SHORTEST, Self::LONGEST)
    }
}

/// Bytes of one process, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Memory {
    private: u64,
    /// Meant to be seen by others, such as what is mapped of files that are in memory only.
    shared: u64,
}

impl Memory {
    fn and(self, other: Self) -> Self {
        Self {
            private: self.private.saturating_add(other.private),
            shared: self.shared.saturating_add(other.shared),
        }
    }
}

/// Memory that is there whether or not a process maps it. Counted only where it is the program's alone.
fn held_by_kernel(plan: &Plan) -> Memory {
    let Some(view) = &plan.view else { return Memory::default() };
    let sockets = if view.network == Network::Machine { 0 } else { kernel::sockets() };
    Memory {
        private: kernel::queues().saturating_add(sockets),
        shared: sys::used(c"/dev").unwrap_or(0).saturating_add(kernel::segments()),
    }
}

/// Looks at a process by the directory that `/proc` has for it.
type Look = fn(&Name) -> Option<Memory>;

/// If its first thread has ended, `/proc/PID` has nothing to show; one of the others has.
fn of_process(pid: pid_t, look: Look) -> Memory {
    let process = Name::of(b"/proc/").number(pid);
    if let Some(found) = look(&process) {
        return found;
    }
    let mut found = None;
    each_number_in(process.text(b"/task").as_c_str(), &mut |thread| {
        if found.is_none() && thread != pid {
            found = look(&Name::of(b"/proc/").number(pid).text(b"/task/").number(thread));
        }
    });
    found.unwrap_or_default()
}

/// All that a process has in memory, with what it only reads and what it has in common with others.
fn resident(process: &Name) -> Option<Memory> {
    let status = Status::read_in(process, b"/status")?;
    let resident = status.bytes_of(b"VmRSS:")?.saturating_add(status.bytes_of(b"VmSwap:")?);
    Some(Memory { private: resident.saturating_add(overhead(&status)), shared: 0 })
}

/// What a process has written, with what it has in common with others.
fn written(process: &Name) -> Option<Memory> {
    let status = Status::read_in(process, b"/status")?;
    let anonymous = status.bytes_of(b"RssAnon:")?.saturating_add(status.bytes_of(b"VmSwap:")?);
    Some(Memory {
        private: anonymous.saturating_add(overhead(&status)),
        shared: status.bytes_of(b"RssShmem:")?,
    })
}

/// What a process has written, and of what it has in common with others its part: dear, because the kernel looks at each page.
/// It does so only for those who may look into the process.
fn own_part(process: &Name) -> Option<Memory> {
    let Some(rollup) = Text::<4096>::read_in(process, b"/smaps_rollup") else {
        return written(process);
    };
    let status = Status::read_in(process, b"/status")?;
    let anonymous = rollup.bytes_of(b"Pss_Anon:")?.saturating_add(rollup.bytes_of(b"SwapPss:")?);
    Some(Memory {
        private: anonymous.saturating_add(overhead(&status)),
        shared: rollup.bytes_of(b"Pss_Shmem:")?,
    })
}

/// The kernel's own memory for a process: page tables, and what its descriptors may hold.
///
/// Nobody says how full a pipe is. Once a user's pipes are beyond `pipe-user-pages-soft`, a new one has two pages, one for each of
/// its ends; so many descriptors as programs usually have are not counted.
fn overhead(status: &Status) -> u64 {
    const USUAL_DESCRIPTORS: u64 = 256;
    const EACH: u64 = 4096;
    let descriptors = status.line(b"FDSize:").map_or(0, number).saturating_sub(USUAL_DESCRIPTORS);
    let tables = status.bytes_of(b"VmPTE:").unwrap_or(0);
    tables.saturating_add(descriptors.saturating_mul(EACH))
}

/// All digits as one number.
fn number(text: &[u8]) -> u64 {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum: u64, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

/// How many threads a person has now. Must not be called where nothing may be allocated.
pub(crate) fn threads_of(user: u32) -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_process = |entry: std::fs::DirEntry| {
        entry.file_name().to_str()?.parse::<pid_t>().ok()?;
        let text = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let after = |name| text.lines().find_map(|line: &str| line.strip_prefix(name));
        let real: u32 = after("Uid:")?.split_whitespace().next()?.parse().ok()?;
        let threads: u64 = after("Threads:")?.trim().parse().ok()?;
        (real == user).then_some(threads)
    };
    entries.filter_map(of_process).sum()
}

/// What the kernel says about a process. It lists all groups of its user before its memory, and there may be thousands.
type Status = Text<{ 16 << 10 }>;

/// A small file of the kernel's.
struct Text<const MOST: usize> {
    bytes: [u8; MOST],
    length: usize,
}

impl<const MOST: usize> Text<MOST> {
    /// A file in a directory of `/proc`.
    fn read_in(directory: &Name, file: &[u8]) -> Option<Self> {
        let directory = Name::of(directory.as_c_str().to_bytes());
        Self::read_path(directory.text(file).as_c_str())
    }

    fn read_path(path: &CStr) -> Option<Self> {
        let fd = sys::open(path, libc::O_RDONLY).ok()?;
        let mut bytes = [0; MOST];
        let read = sys::read(fd, &mut bytes);
        sys::close(fd);
        match read {
            Ok(length @ 1..) => Some(Self { bytes, length }),
            _ => None,
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// The first line that begins with a name.
    fn line(&self, name: &[u8]) -> Option<&[u8]> {
        self.bytes().split(|byte| *byte == b'\n').find(|line| line.starts_with(name))
    }

    /// The number of KiB in such a line, in bytes.
    fn bytes_of(&self, name: &[u8]) -> Option<u64> {
        self.line(name).map(|line| number(line).saturating_mul(1024))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKS: [Look; 3] = [resident, written, own_part];

    #[test]
    fn what_we_use_is_found() {
        const MORE: u64 = 64 << 20;
        let own = std::process::id().cast_signed();
        let look = || LOOKS.map(|look| of_process(own, look).private);
        let before = look();
        let more = std::hint::black_box(vec![1u8; usize::try_from(MORE).unwrap()]);
        for (before, after) in before.into_iter().zip(look()) {
            // Others give back what they had meanwhile.
            assert!(after >= before + MORE - (8 << 20), "{before} {after}");
        }
        drop(more);
        assert_eq!(LOOKS.map(|look| of_process(0, look)), [Memory::default(); 3], "nobody");
    }

    #[test]
    fn page_tables_and_descriptors_are_counted() {
        let status = |text: &[u8]| {
            let mut bytes = [0; 16 << 10];
            bytes[..text.len()].copy_from_slice(text);
            overhead(&Text { bytes, length: text.len() })
        };
        for (text, wanted) in [
            (&b"FDSize:\t64\nVmPTE:\t      44 kB\n"[..], 44 << 10),
            (b"FDSize:\t256\n", 0),
            (b"FDSize:\t65536\nVmPTE:\t 4 kB\n", 4096 + (65536 - 256) * 4096),
            (b"", 0),
        ] {
            assert_eq!(status(text), wanted, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn threads_are_counted() {
        // SAFETY: asks who we are.
        let user = unsafe { libc::getuid() };
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || stopped.recv());
        assert!(threads_of(user) >= 2, "this one, and the one that waits");
        drop(stop);
        assert!(waiting.join().unwrap().is_err());
        assert_eq!(threads_of(u32::MAX), 0, "nobody is that");
    }

    #[test]
    fn numbers_are_read() {
        assert_eq!(number(b"Pss_Anon:        1234 kB"), 1234);
        assert_eq!(number(b"99999999999999999999999"), u64::MAX);
        assert_eq!(number(b""), 0);
    }
}
