//! The quota of disk that one call may use: a command that writes without end must not fill the disk of the machine.
//!
//! What a call uses are the blocks allocated in the upper layers of its overlays. To add them up takes a walk over all files. Once a
//! second the free space of the file system is looked at: if that has shrunk by half of the quota, the blocks are added up at once.
//! Other programs can free space meanwhile, so that nothing shrinks; therefore they are added up besides, as often as takes one
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
use windlass_sandbox::{Source, View};

use super::waiting::below;

/// The quota where there is much space.
const USUAL: u64 = 16 << 30;

/// The time between two looks at the free space.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest time after which blocks are added up whatever is free.
const LONGEST: Duration = Duration::from_mins(1);

/// The part of the time that adding up takes at most, unless the free space shrinks.
const SHARE: u32 = 100;

/// Stamps of files can be older than the clock by a tick of the kernel.
const TICK: Duration = Duration::from_millis(20);

/// The quota of one call.
#[derive(Debug)]
pub(super) struct Quota {
    limit: u64,
    /// The upper layers.
    layers: Vec<PathBuf>,
    /// The time of the call's start: some layers have files of earlier calls.
    since: SystemTime,
    /// Bytes that were free, at most.
    free: u64,
}

impl Quota {
    /// The quota of a call with this view: `None` if it changes no upper layer.
    pub(super) fn of(view: Option<&View>, wanted: Option<u64>) -> io::Result<Option<Self>> {
        let mounts = view.into_iter().flat_map(|view| &view.mounts);
        let upper = |source: &Source| match source {
            Source::Overlay { upper: Some(upper), .. } => Some(upper.upper.path().to_owned()),
            _ => None,
        };
        let layers: Vec<PathBuf> = mounts.filter_map(|mount| upper(&mount.source)).collect();
        let Some(first) = layers.first() else { return Ok(None) };
        let free = free_space(first)?;
        let limit = wanted.unwrap_or_else(|| USUAL.min(free / 2));
        let now = SystemTime::now();
        let since = now.checked_sub(TICK).unwrap_or(now);
        Ok(Some(Self { limit, layers, since, free }))
    }

    /// Looks at the disk for as long as the answer lives, and ends the program with this warden if it uses too much.
    pub(super) fn watch(self, warden: i32, pidfd: OwnedFd) -> QuotaWatch {
        let limit = self.limit;
        let exceeded = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(watch(self, warden, pidfd, exceeded.clone()));
        QuotaWatch { limit, exceeded, task }
    }

    /// Returns whether the free space has shrunk so much that the blocks must be added up.
    fn is_doubtful(&mut self) -> bool {
        if let Some(free) = self.layers.first().and_then(|layer| free_space(layer).ok()) {
            self.free = self.free.max(free);
        }
        self.shrunk() > self.limit / 2
    }

    /// Bytes that the call uses.
    fn used(&self, warden: i32) -> u64 {
        let mut usage =
            Usage { since: self.since, seen: HashSet::new(), bytes: 0, is_partial: false };
        for layer in &self.layers {
            usage.add_tree(layer, self.limit);
        }
        for pid in below(warden) {
            usage.add_unlinked(pid);
        }
        // A directory that a program has closed to all must not hide anything.
        if usage.is_partial { usage.bytes.max(self.shrunk()) } else { usage.bytes }
    }

    /// Bytes by which the free space has shrunk, for whatever reason.
    fn shrunk(&self) -> u64 {
        let free = self.layers.first().and_then(|layer| free_space(layer).ok()).unwrap_or(0);
        self.free.saturating_sub(free)
    }
}

async fn watch(mut quota: Quota, warden: i32, pidfd: OwnedFd, exceeded: Arc<AtomicBool>) {
    let (mut last, mut pause) = (Instant::now(), PAUSE);
    loop {
        tokio::time::sleep(PAUSE).await;
        if !quota.is_doubtful() && last.elapsed() < pause {
            continue;
        }
        let began = Instant::now();
        let look = move || {
            let used = quota.used(warden);
            (quota, used)
        };
        // A runtime that is going down ends the program by itself.
        let Ok((looked, used)) = tokio::task::spawn_blocking(look).await else { return };
        quota = looked;
        last = Instant::now();
        pause = (began.elapsed() * SHARE).min(LONGEST);
        if used > quota.limit {
            exceeded.store(true, Ordering::Release);
            // An error says that it has ended already.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            return;
        }
    }
}

/// A quota that is looked after until this is dropped.
#[derive(Debug)]
pub(super) struct QuotaWatch {
    limit: u64,
    exceeded: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl QuotaWatch {
    /// The quota, if the program was ended because it used more.
    pub(super) fn exceeded(&self) -> Option<u64> {
        self.exceeded.load(Ordering::Acquire).then_some(self.limit)
    }
}

impl Drop for QuotaWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Allocated bytes of files, each counted once however many names it has.
struct Usage {
    since: SystemTime,
    seen: HashSet<(u64, u64)>,
    bytes: u64,
    /// A directory could not be listed.
    is_partial: bool,
}

impl Usage {
    /// Adds what lies below a directory, until it is more than `most`.
    fn add_tree(&mut self, top: &Path, most: u64) {
        let mut waiting = vec![top.to_owned()];
        while let Some(directory) = waiting.pop() {
            if self.bytes > most {
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

    fn add(&mut self, found: &Metadata) {
        let changed =
            SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(found.ctime()).unwrap_or(0));
        // Seconds are enough: what was changed in the same second may be counted.
        let is_older = changed + Duration::from_secs(1) <= self.since;
        if !is_older && (found.nlink() < 2 || self.seen.insert((found.dev(), found.ino()))) {
            self.bytes = self.bytes.saturating_add(found.blocks().saturating_mul(512));
        }
    }
}

/// The entries of a directory. One that is gone meanwhile has none.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Bytes that can be allocated where a directory is.
fn free_space(directory: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Bytes that are counted in a directory that a function has filled, in MiB.
    fn counted(fill: impl FnOnce(&Path)) -> u64 {
        let directory = tempfile::tempdir().unwrap();
        fill(directory.path());
        let since = SystemTime::now().checked_sub(TICK).unwrap();
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
    fn the_quota_is_what_is_wanted_or_a_part_of_what_is_free() {
        let directory = tempfile::tempdir().unwrap();
        let free = free_space(directory.path()).unwrap();
        let [upper, work] = ["upper", "work"].map(|name| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            windlass_sandbox::Object::open(&path.canonicalize().unwrap()).unwrap()
        });
        let source = Source::Overlay {
            lower: Vec::new(),
            upper: Some(windlass_sandbox::Upper { upper, work }),
        };
        let at = directory.path().to_owned();
        let view = View { mounts: vec![windlass_sandbox::Mount { at, source }], ..View::default() };
        let limit = |wanted| Quota::of(Some(&view), wanted).unwrap().map(|quota| quota.limit);
        assert_eq!(limit(Some(7)), Some(7));
        let usual = limit(None).unwrap();
        assert!(usual <= USUAL && usual <= free, "{usual} of {free}");
        assert!(Quota::of(Some(&View::default()), Some(7)).unwrap().is_none(), "nothing to change");
        assert!(Quota::of(None, None).unwrap().is_none());
    }
}
