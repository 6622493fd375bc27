//! Measures the memory and counts the processes of a program and of all processes that it started.
//!
//! The warden measures from time to time, because not every user may create control groups, with which the kernel could count. The
//! measurement is cheap and too high at first, and exact only if the cheap one is above the limit.

use std::ffi::CStr;

use libc::pid_t;

use crate::launch::ProgramNetwork;
use crate::path_buffer::PathBuffer;
use crate::plan::LaunchPlan;
use crate::sys;
use crate::warden::{ProcessTree, Report, for_each_numeric_name};

mod kernel_memory;

/// Memory and processes that a program uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Bytes of memory.
    memory: u64,
    processes: u64,
}

impl Usage {
    /// Maximum milliseconds between two measurements.
    pub(crate) const MAX_PAUSE_MS: i64 = 100;
    /// Minimum milliseconds between two measurements.
    const MIN_PAUSE_MS: i64 = 2;
    /// Bytes that a fast machine can fill in a millisecond.
    const MAX_FILLED_BYTES_PER_MS: u64 = 16 << 20;

    /// Measures the program's processes. Uses the exact and slow readers only if the faster ones find more than the limit.
    pub(crate) fn of(plan: &LaunchPlan) -> Self {
        let tree = ProcessTree::of(plan);
        let limit = plan.limits.memory;
        let kernel = measure_kernel_memory(plan);
        let mut memory = 0;
        for reader in [read_resident, read_written, read_proportional] {
            let add_process = |sum: Memory, pid: &pid_t| sum.plus(measure_process(*pid, reader));
            let all = tree.pids().iter().fold(Memory::default(), add_process);
            // Mapped files and segments are counted by both: the larger number covers them.
            let shared = all.shared.max(kernel.shared);
            memory = all.private.saturating_add(kernel.private).saturating_add(shared);
            if memory <= limit {
                break;
            }
        }
        Self { memory, processes: tree.pids().len() as u64 }
    }

    /// Returns a report for the warden's parent if memory or processes are above their limit.
    pub(crate) fn over_limits(self, plan: &LaunchPlan) -> Option<Report> {
        let limits = &plan.limits;
        if self.memory > limits.memory {
            return Some(Report { number: limits.memory, ..Report::of(Report::OVER_MEMORY) });
        }
        if self.processes > limits.processes {
            return Some(Report { number: limits.processes, ..Report::of(Report::OVER_PROCESSES) });
        }
        None
    }

    /// Returns the milliseconds until the next measurement. In this time the memory cannot grow to more than a quarter above the limit.
    pub(crate) fn pause(self, plan: &LaunchPlan) -> i64 {
        let limit = plan.limits.memory;
        let remaining = limit.saturating_add(limit / 4).saturating_sub(self.memory);
        i64::try_from(remaining / Self::MAX_FILLED_BYTES_PER_MS)
            .unwrap_or(i64::MAX)
            .clamp(Self::MIN_PAUSE_MS, Self::MAX_PAUSE_MS)
    }
}

/// Bytes of memory of one or several processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Memory {
    private: u64,
    /// Bytes that processes have in common, such as mapped files of a `tmpfs`.
    shared: u64,
}

impl Memory {
    /// Adds two amounts.
    fn plus(self, other: Self) -> Self {
        Self {
            private: self.private.saturating_add(other.private),
            shared: self.shared.saturating_add(other.shared),
        }
    }
}

/// Measures memory that exists whether or not a process maps it: sockets, message queues, segments and files in `/dev`. Returns 0 without a
/// view, where it could belong to other programs.
fn measure_kernel_memory(plan: &LaunchPlan) -> Memory {
    let Some(view) = &plan.view else { return Memory::default() };
    let sockets =
        if view.network == ProgramNetwork::Machine { 0 } else { kernel_memory::socket_bytes() };
    Memory {
        private: kernel_memory::queue_bytes().saturating_add(sockets),
        shared: sys::tmpfs_bytes(c"/dev")
            .unwrap_or(0)
            .saturating_add(kernel_memory::segment_bytes()),
    }
}

/// A function that measures a process by its directory in `/proc`. Returns none if its files cannot be read.
type MemoryReader = fn(&PathBuffer) -> Option<Memory>;

/// Measures a process. If its first thread has ended, `/proc/PID` shows no memory, so another thread is read. Returns 0 for a process that
/// does not exist.
fn measure_process(pid: pid_t, reader: MemoryReader) -> Memory {
    let process = PathBuffer::new(b"/proc/").push_number(pid);
    if let Some(found) = reader(&process) {
        return found;
    }
    let mut found = None;
    for_each_numeric_name(process.push(b"/task").as_c_str(), &mut |thread| {
        if found.is_none() && thread != pid {
            found = reader(
                &PathBuffer::new(b"/proc/").push_number(pid).push(b"/task/").push_number(thread),
            );
        }
    });
    found.unwrap_or_default()
}

/// Measures all memory of a process, including pages that it only reads and pages that it shares with others.
fn read_resident(process: &PathBuffer) -> Option<Memory> {
    let status = StatusFile::read_in(process, b"/status")?;
    let resident =
        status.kib_line_as_bytes(b"VmRSS:")?.saturating_add(status.kib_line_as_bytes(b"VmSwap:")?);
    Some(Memory { private: resident.saturating_add(estimate_kernel_overhead(&status)), shared: 0 })
}

/// Measures the memory that a process has written, including all pages that it shares with others.
fn read_written(process: &PathBuffer) -> Option<Memory> {
    let status = StatusFile::read_in(process, b"/status")?;
    let anonymous = status
        .kib_line_as_bytes(b"RssAnon:")?
        .saturating_add(status.kib_line_as_bytes(b"VmSwap:")?);
    Some(Memory {
        private: anonymous.saturating_add(estimate_kernel_overhead(&status)),
        shared: status.kib_line_as_bytes(b"RssShmem:")?,
    })
}

/// Measures the memory that a process has written, with only its proportional part of shared pages. Slow, because the kernel looks at each
/// page. Without permission to inspect the process, returns the same as [`read_written`].
fn read_proportional(process: &PathBuffer) -> Option<Memory> {
    let Some(rollup) = KernelFile::<4096>::read_in(process, b"/smaps_rollup") else {
        return read_written(process);
    };
    let status = StatusFile::read_in(process, b"/status")?;
    let anonymous = rollup
        .kib_line_as_bytes(b"Pss_Anon:")?
        .saturating_add(rollup.kib_line_as_bytes(b"SwapPss:")?);
    Some(Memory {
        private: anonymous.saturating_add(estimate_kernel_overhead(&status)),
        shared: rollup.kib_line_as_bytes(b"Pss_Shmem:")?,
    })
}

/// Estimates the kernel's own memory for a process: page tables, and pipe buffers behind its descriptors.
///
/// The kernel does not report the content of a pipe. Once a user's pipes are beyond `pipe-user-pages-soft`, a new one has two pages, one
/// for each of its ends; the first 256 descriptors, which programs usually have, are not counted.
fn estimate_kernel_overhead(status: &StatusFile) -> u64 {
    /// Number of descriptors that are not counted.
    const USUAL_DESCRIPTORS: u64 = 256;
    const PIPE_BYTES_PER_DESCRIPTOR: u64 = 4096;
    let descriptors = status
        .line_with_prefix(b"FDSize:")
        .map_or(0, join_digits)
        .saturating_sub(USUAL_DESCRIPTORS);
    let tables = status.kib_line_as_bytes(b"VmPTE:").unwrap_or(0);
    tables.saturating_add(descriptors.saturating_mul(PIPE_BYTES_PER_DESCRIPTOR))
}

/// Joins all digits of a text to one number.
fn join_digits(text: &[u8]) -> u64 {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum: u64, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

/// Counts the threads of all processes of a user. Allocates, so it must not be called after a fork.
pub(crate) fn count_threads(user: u32) -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads_of_process = |entry: std::fs::DirEntry| {
        entry.file_name().to_str()?.parse::<pid_t>().ok()?;
        let text = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let after = |name| text.lines().find_map(|line: &str| line.strip_prefix(name));
        let real: u32 = after("Uid:")?.split_whitespace().next()?.parse().ok()?;
        let threads: u64 = after("Threads:")?.trim().parse().ok()?;
        (real == user).then_some(threads)
    };
    entries.filter_map(threads_of_process).sum()
}

/// The text of `/proc/PID/status`. It lists all groups of the user before the memory, and there may be thousands.
type StatusFile = KernelFile<{ 16 << 10 }>;

/// The first bytes of a small file of the kernel's, read at once into a fixed buffer.
struct KernelFile<const MAX_BYTES: usize> {
    bytes: [u8; MAX_BYTES],
    length: usize,
}

impl<const MAX_BYTES: usize> KernelFile<MAX_BYTES> {
    /// Reads a file in a directory of `/proc`; none if it is empty or cannot be read.
    fn read_in(directory: &PathBuffer, file: &[u8]) -> Option<Self> {
        let directory = PathBuffer::new(directory.as_c_str().to_bytes());
        Self::read(directory.push(file).as_c_str())
    }

    /// Reads a file; none if it is empty or cannot be read.
    fn read(path: &CStr) -> Option<Self> {
        let fd = sys::open(path, libc::O_RDONLY).ok()?;
        let mut bytes = [0; MAX_BYTES];
        let read = sys::read(fd, &mut bytes);
        sys::close(fd);
        match read {
            Ok(length @ 1..) => Some(Self { bytes, length }),
            _ => None,
        }
    }

    /// Returns the bytes that were read.
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Finds the first line that begins with a name.
    fn line_with_prefix(&self, name: &[u8]) -> Option<&[u8]> {
        self.bytes().split(|byte| *byte == b'\n').find(|line| line.starts_with(name))
    }

    /// Converts the number of KiB in the line that begins with a name to bytes.
    fn kib_line_as_bytes(&self, name: &[u8]) -> Option<u64> {
        self.line_with_prefix(name).map(|line| join_digits(line).saturating_mul(1024))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READERS: [MemoryReader; 3] = [read_resident, read_written, read_proportional];

    #[test]
    fn new_memory_of_this_process_is_measured() {
        const ADDED_BYTES: u64 = 64 << 20;
        let own = std::process::id().cast_signed();
        let measure = || READERS.map(|reader| measure_process(own, reader).private);
        let before = measure();
        let more = std::hint::black_box(vec![1u8; usize::try_from(ADDED_BYTES).unwrap()]);
        for (before, after) in before.into_iter().zip(measure()) {
            // Other threads free memory meanwhile.
            assert!(after >= before + ADDED_BYTES - (8 << 20), "{before} {after}");
        }
        drop(more);
        assert_eq!(
            READERS.map(|reader| measure_process(0, reader)),
            [Memory::default(); 3],
            "no process"
        );
    }

    #[test]
    fn page_tables_and_descriptors_are_counted() {
        let status = |text: &[u8]| {
            let mut bytes = [0; 16 << 10];
            bytes[..text.len()].copy_from_slice(text);
            estimate_kernel_overhead(&KernelFile { bytes, length: text.len() })
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
    fn threads_of_a_user_are_counted() {
        // SAFETY: asks who we are.
        let user = unsafe { libc::getuid() };
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || stopped.recv());
        assert!(count_threads(user) >= 2, "this one, and the one that waits");
        drop(stop);
        assert!(waiting.join().unwrap().is_err());
        assert_eq!(count_threads(u32::MAX), 0, "no process has this user");
    }

    #[test]
    fn digits_of_a_text_make_one_number() {
        assert_eq!(join_digits(b"Pss_Anon:        1234 kB"), 1234);
        assert_eq!(join_digits(b"99999999999999999999999"), u64::MAX);
        assert_eq!(join_digits(b""), 0);
    }
}
