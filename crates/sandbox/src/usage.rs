//! How much a program and all that it started use of the machine.
//!
//! Looked at from time to time: what the kernel could count by itself, in control groups, is not everybody's to use. What is looked
//! at is cheap as long as it is far from the limit, and exact only when it is not.

use std::ffi::CStr;

use libc::pid_t;

use crate::name::Name;
use crate::plan::Plan;
use crate::sys;
use crate::warden::{Report, Tree};

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
        let files = if plan.view.is_some() { sys::used(c"/dev").unwrap_or(0) } else { 0 };
        let mut memory = 0;
        for look in [resident, written, own_part] {
            let all = tree.pids().iter().fold(Memory::default(), |sum, pid| sum.and(look(*pid)));
            memory = all.private.saturating_add(all.shared.max(files));
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

/// What a process has in memory, with what it only reads and what it has in common with others.
fn resident(pid: pid_t) -> Memory {
    let Some(text) = Text::<128>::read(pid, b"/statm") else { return Memory::default() };
    let mut numbers = text.bytes().split(|byte| *byte == b' ').map(number);
    let (_, resident) = (numbers.next(), numbers.next());
    Memory { private: resident.unwrap_or(0).saturating_mul(page_size()), shared: 0 }
}

/// What a process has written, with what it has in common with others.
fn written(pid: pid_t) -> Memory {
    Memory::read(pid, b"/status", b"RssAnon:", b"RssShmem:").unwrap_or_default()
}

/// What a process has written, and of what it has in common with others its part: dear, because the kernel looks at each page.
/// It does so only for those who may look into the process.
fn own_part(pid: pid_t) -> Memory {
    let own = Memory::read(pid, b"/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:");
    own.unwrap_or_else(|| written(pid))
}

impl Memory {
    fn read(pid: pid_t, file: &[u8], private: &[u8], shared: &[u8]) -> Option<Self> {
        let text = Text::<4096>::read(pid, file)?;
        let find = |name: &[u8]| {
            let line =
                text.bytes().split(|byte| *byte == b'\n').find(|line| line.starts_with(name));
            line.map(|line| number(line).saturating_mul(1024))
        };
        Some(Self { private: find(private)?, shared: find(shared)? })
    }
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

/// A small file of the kernel's.
struct Text<const MOST: usize> {
    bytes: [u8; MOST],
    length: usize,
}

impl<const MOST: usize> Text<MOST> {
    fn read(pid: pid_t, file: &[u8]) -> Option<Self> {
        let path = Name::of(b"/proc/").number(pid).text(file);
        Self::read_path(path.as_c_str())
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
}

fn page_size() -> u64 {
    // SAFETY: asks for a constant.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_use_is_found() {
        const MORE: u64 = 64 << 20;
        let own = std::process::id().cast_signed();
        let look = || [resident(own), written(own), own_part(own)].map(|memory| memory.private);
        let before = look();
        let more = std::hint::black_box(vec![1u8; usize::try_from(MORE).unwrap()]);
        for (before, after) in before.into_iter().zip(look()) {
            // Others give back what they had meanwhile.
            assert!(after >= before + MORE - (8 << 20), "{before} {after}");
        }
        drop(more);
        assert_eq!([resident(0), written(0), own_part(0)], [Memory::default(); 3], "nobody");
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
