//! Enforces the quota of disk of one call, so that a command that writes without end cannot fill the disk of the machine.
//!
//! The usage of a call is the number of blocks allocated in the upper layers of its overlays. To sum them up takes a walk over all files.
//! Once a second the free space of the file system is read: if it has shrunk by half of the quota, the blocks are summed up at once. Other
//! programs can free space meanwhile, which would hide the usage; therefore they are also summed up regularly, as often as takes one
//! percent of the time.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Signal, pidfd_send_signal};
use tokio::task::JoinHandle;
use windlass_sandbox::{MountSource, View};

use super::waiting::descendants;

/// Maximum quota if no quota is set.
const DEFAULT_MAX_QUOTA: u64 = 16 << 30;

/// Time between two checks of the free space.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time between two sums of the blocks, whatever space is free.
const MAX_SUM_INTERVAL: Duration = Duration::from_mins(1);

/// Part of the time that summing up takes at most (one hundredth), unless the free space shrinks.
const SUM_TIME_DIVISOR: u32 = 100;

/// Maximum time by which stamps of files can be older than the clock: a tick of the kernel.
const KERNEL_TICK: Duration = Duration::from_millis(20);

/// Quota of one call.
#[derive(Debug)]
pub(super) struct Quota {
    limit: u64,
    /// Upper layers.
    layers: Vec<PathBuf>,
    /// Time at which the call started, because some layers have files of earlier calls.
    since: SystemTime,
    /// Highest number of free bytes that was seen.
    free: u64,
}

impl Quota {
    /// Creates the quota of a call with this view; `None` if it changes no upper layer.
    pub(super) fn of(view: Option<&View>, wanted: Option<u64>) -> io::Result<Option<Self>> {
        let mounts = view.into_iter().flat_map(|view| &view.mounts);
        let upper = |source: &MountSource| match source {
            MountSource::Overlay { upper: Some(upper), .. } => Some(upper.upper.path().to_owned()),
            _ => None,
        };
        let layers: Vec<PathBuf> = mounts.filter_map(|mount| upper(&mount.source)).collect();
        let Some(first) = layers.first() else { return Ok(None) };
        let free = free_space(first)?;
        let limit = wanted.unwrap_or_else(|| DEFAULT_MAX_QUOTA.min(free / 2));
        let now = SystemTime::now();
        let since = now.checked_sub(KERNEL_TICK).unwrap_or(now);
        Ok(Some(Self { limit, layers, since, free }))
    }

    /// Checks the disk until the returned watch is dropped, and kills the program of this warden if it uses too much.
    pub(super) fn watch(self, warden: i32, pidfd: OwnedFd) -> QuotaWatch {
        let limit = self.limit;
        let exceeded = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(watch(self, warden, pidfd, exceeded.clone()));
        QuotaWatch { limit, exceeded, task }
    }

    /// Returns whether the free space has shrunk so much that the blocks must be summed up.
    fn needs_sum(&mut self) -> bool {
        if let Some(free) = self.layers.first().and_then(|layer| free_space(layer).ok()) {
            self.free = self.free.max(free);
        }
        self.shrunk() > self.limit / 2
    }

    /// Returns the bytes that the call uses.
    fn used(&self, warden: i32) -> u64 {
        let mut usage =
            Usage { since: self.since, seen: HashSet::new(), bytes: 0, is_partial: false };
        for layer in &self.layers {
            usage.add_tree(layer, self.limit);
        }
        for pid in descendants(warden) {
            usage.add_unlinked(pid);
        }
        // A directory that a program has made unreadable must not hide its usage.
        if usage.is_partial { usage.bytes.max(self.shrunk()) } else { usage.bytes }
    }

    /// Returns the bytes by which the free space has shrunk, for whatever reason.
    fn shrunk(&self) -> u64 {
        let free = self.layers.first().and_then(|layer| free_space(layer).ok()).unwrap_or(0);
        self.free.saturating_sub(free)
    }
}

/// Checks the usage in a loop, and kills the program if it exceeds the quota.
async fn watch(mut quota: Quota, warden: i32, pidfd: OwnedFd, exceeded: Arc<AtomicBool>) {
    let (mut last, mut pause) = (Instant::now(), CHECK_INTERVAL);
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        if !quota.needs_sum() && last.elapsed() < pause {
            continue;
        }
        let began = Instant::now();
        let look = move || {
            let used = quota.used(warden);
            (quota, used)
        };
        // A runtime that shuts down ends the program itself.
        let Ok((looked, used)) = tokio::task::spawn_blocking(look).await else { return };
        quota = looked;
        last = Instant::now();
        pause = (began.elapsed() * SUM_TIME_DIVISOR).min(MAX_SUM_INTERVAL);
        if used > quota.limit {
            exceeded.store(true, Ordering::Release);
            // An error means that the program has ended already.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            return;
        }
    }
}

/// A watch over a quota, which ends on drop.
#[derive(Debug)]
pub(super) struct QuotaWatch {
    limit: u64,
    exceeded: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl QuotaWatch {
    /// Returns the quota if the program was killed because it used more.
    pub(super) fn exceeded(&self) -> Option<u64> {
        self.exceeded.load(Ordering::Acquire).then_some(self.limit)
    }
}

impl Drop for QuotaWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sum of allocated bytes of files; a file with hard links is counted once.
struct Usage {
    since: SystemTime,
    seen: HashSet<(u64, u64)>,
    bytes: u64,
    /// True if a directory could not be listed.
    is_partial: bool,
}

impl Usage {
    /// Adds everything below a directory, until the sum is more than `limit`.
    fn add_tree(&mut self, top: &Path, limit: u64) {
        let mut waiting = vec![top.to_owned()];
        while let Some(directory) = waiting.pop() {
            if self.bytes > limit {
                return;
            }
            let Ok(entries) = list(&directory) else {
                self.is_partial = true;
                continue;
            };
            for entry in entries {
                let Ok(found) = entry.symlink_metadata() else { continue };
                if found.is_dir() {
                    waiting.push(entry);
                }
                self.add(&found);
            }
        }
    }

    /// Adds the files that a process has open and that have no name any more.
    fn add_unlinked(&mut self, pid: i32) {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return };
        for descriptor in open.flatten() {
            if let Ok(found) = fs::metadata(descriptor.path())
                && found.is_file()
                && found.nlink() == 0
            {
                self.add(&found);
            }
        }
    }

    /// Adds one file, unless it is older than the call or was added already.
    fn add(&mut self, found: &Metadata) {
        let changed =
            SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(found.ctime()).unwrap_or(0));
        // Seconds are precise enough: a file changed in the same second may be counted.
        let is_older = changed + Duration::from_secs(1) <= self.since;
        if !is_older && (found.nlink() < 2 || self.seen.insert((found.dev(), found.ino()))) {
            self.bytes = self.bytes.saturating_add(found.blocks().saturating_mul(512));
        }
    }
}

/// Lists a directory; empty if it is gone by now.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns the free bytes of the file system of a directory.
fn free_space(directory: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Returns the usage, in MiB, of a directory that `fill` has filled.
    fn counted(fill: impl FnOnce(&Path)) -> u64 {
        let directory = tempfile::tempdir().unwrap();
        fill(directory.path());
        let since = SystemTime::now().checked_sub(KERNEL_TICK).unwrap();
        let layers = vec![directory.path().to_owned()];
        let quota = Quota { limit: u64::MAX, layers, since, free: 0 };
        quota.used(i32::MAX) >> 20
    }

    fn write(path: PathBuf, mebibytes: usize) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![1; mebibytes << 20]).unwrap();
    }

    #[test]
    fn allocated_blocks_are_counted_once() {
        assert_eq!(counted(|_| ()), 0);
        assert_eq!(counted(|at| write(at.join("a/b/c"), 3)), 3);
        let linked = |at: &Path| {
            write(at.join("a"), 3);
            fs::hard_link(at.join("a"), at.join("b")).unwrap();
        };
        assert_eq!(counted(linked), 3);
        assert_eq!(counted(|at| File::create(at.join("a")).unwrap().set_len(1 << 30).unwrap()), 0);
        let looped = |at: &Path| std::os::unix::fs::symlink(".", at.join("a")).unwrap();
        assert_eq!(counted(looped), 0);
    }

    #[test]
    fn files_of_earlier_calls_are_not_counted() {
        let mut usage = Usage {
            since: SystemTime::now() + Duration::from_secs(10),
            seen: HashSet::new(),
            bytes: 0,
            is_partial: false,
        };
        let directory = tempfile::tempdir().unwrap();
        write(directory.path().join("a"), 1);
        usage.add_tree(directory.path(), u64::MAX);
        assert_eq!(usage.bytes, 0);
        usage.since = SystemTime::UNIX_EPOCH;
        usage.add_tree(directory.path(), u64::MAX);
        assert_eq!(usage.bytes, 1 << 20);
    }

    #[test]
    fn quota_is_the_given_one_or_a_part_of_the_free_space() {
        let directory = tempfile::tempdir().unwrap();
        let free = free_space(directory.path()).unwrap();
        let [upper, work] = ["upper", "work"].map(|name| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            windlass_sandbox::PathHandle::open(&path.canonicalize().unwrap()).unwrap()
        });
        let source = MountSource::Overlay {
            lower: Vec::new(),
            upper: Some(windlass_sandbox::OverlayUpper { upper, work }),
        };
        let at = directory.path().to_owned();
        let view = View { mounts: vec![windlass_sandbox::Mount { at, source }], ..View::default() };
        let limit = |wanted| Quota::of(Some(&view), wanted).unwrap().map(|quota| quota.limit);
        assert_eq!(limit(Some(7)), Some(7));
        let usual = limit(None).unwrap();
        assert!(usual <= DEFAULT_MAX_QUOTA && usual <= free, "{usual} of {free}");
        assert!(Quota::of(Some(&View::default()), Some(7)).unwrap().is_none(), "nothing to change");
        assert!(Quota::of(None, None).unwrap().is_none());
    }
}
