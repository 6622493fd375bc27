//! Control groups: the kernel itself counts what a program uses, with all that it starts, and stops it at once.
//!
//! A group can be made where somebody has delegated that: for people who log in by systemd, below their own service; for root, only
//! where it is marked, since what root could do to the groups of others is not ours to do. Everywhere else the warden's count must do,
//! and it goes on counting here too.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::{Access, access, getxattr};

use crate::random;

/// What the names of our groups begin with; the number of who made it follows.
const PREFIX: &str = "windlass-";

/// A group for one program. Dropped, it is taken away.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    members: File,
    memory: u64,
}

/// Groups that somebody was still in when they were not needed any more.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Group {
    /// A new one with these limits, if any may be made.
    pub(super) fn make(memory: u64, processes: u64) -> Option<Self> {
        let place = control_group()?;
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| !remove(path));
        Self::make_in(place, memory, processes).ok()
    }

    fn make_in(place: &Path, memory: u64, processes: u64) -> io::Result<Self> {
        let name = format!("{PREFIX}{}-{}", std::process::id(), random::name()?);
        let path = place.join(name);
        fs::create_dir(&path)?;
        match limit(&path, memory, processes) {
            Ok(members) => Ok(Self { path, members, memory }),
            Err(error) => {
                remove(&path);
                Err(error)
            }
        }
    }

    /// Where a process writes itself to belong to it.
    pub(super) fn members(&self) -> BorrowedFd<'_> {
        self.members.as_fd()
    }

    /// The limit of memory, if the kernel ended the program because of it.
    pub(super) fn exceeded(&self) -> Option<u64> {
        let events = fs::read_to_string(self.path.join("memory.events")).ok()?;
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
        (kills != "0").then_some(self.memory)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !remove(&self.path) {
            let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
            left.push(std::mem::take(&mut self.path));
        }
    }
}

/// Writes the limits of a new group.
fn limit(path: &Path, memory: u64, processes: u64) -> io::Result<File> {
    fs::write(path.join("memory.max"), memory.to_string())?;
    fs::write(path.join("pids.max"), processes.to_string())?;
    // All or none: what is left of a program that lost a part is of no use. Not every kernel has swap to count.
    fs::write(path.join("memory.oom.group"), "1")?;
    drop(fs::write(path.join("memory.swap.max"), "0"));
    OpenOptions::new().write(true).open(path.join("cgroup.procs"))
}

/// Only one that nobody is in can be removed; whether it is gone.
fn remove(path: &Path) -> bool {
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Takes away what those left behind who are gone.
fn sweep(place: &Path) {
    for entry in place.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let maker = maker.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&entry.path());
        }
    }
}

/// Where control groups may be made for programs, if anywhere: looked for once.
///
/// ```
/// if let Some(place) = windlass_host::control_group() {
///     assert!(place.is_absolute());
/// }
/// ```
pub fn control_group() -> Option<&'static Path> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        let place = delegated()?;
        sweep(&place);
        Some(place)
    });
    place.as_deref()
}

fn delegated() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (root, own) = own_group(&mounts, &groups)?;
    let is_delegated = if rustix::process::geteuid().is_root() { is_marked } else { is_writable };
    let mut around = own.ancestors().take_while(|path| path.starts_with(&root));
    around.find(|path| counts(path) && is_delegated(path, &root)).map(Path::to_owned)
}

/// Where the groups are, and which of them is ours.
fn own_group(mounts: &str, groups: &str) -> Option<(PathBuf, PathBuf)> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        // After three numbers: what of the file system is mounted, and where.
        let mut words = place.split(' ').skip(3);
        let (mounted, root) = (words.next()?, Path::new(words.next()?));
        kind.starts_with("cgroup2 ").then_some(())?;
        let below = Path::new(own).strip_prefix(mounted).ok()?;
        let is_below = below.components().all(|part| part.as_os_str() != "..");
        is_below.then(|| (root.to_owned(), root.join(below)))
    })
}

/// Whether both are counted for the groups in it.
fn counts(path: &Path) -> bool {
    let counted = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
    ["memory", "pids"].iter().all(|wanted| counted.split_whitespace().any(|one| one == *wanted))
}

/// Whether we may make groups there and move processes into them.
fn is_writable(path: &Path, _: &Path) -> bool {
    let may = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    may(path) && may(&path.join("cgroup.procs"))
}

/// Whether whoever manages the groups has said that what is in this one, or in one above, is not theirs.
fn is_marked(path: &Path, root: &Path) -> bool {
    let marked = |path: &Path| {
        ["trusted.delegate", "user.delegate"].iter().any(|name| {
            let mut value = [0; 1];
            getxattr(path, *name, &mut value) == Ok(1) && value == *b"1"
        })
    };
    path.ancestors().take_while(|path| path.starts_with(root)).any(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_group_is_found() {
        let unified = "28 23 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let hybrid = "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let part = "28 23 0:25 /pod/one /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        for (mounts, groups, root, own) in [
            (unified, "0::/user.slice/a.scope\n", "/sys/fs/cgroup", "user.slice/a.scope"),
            (unified, "1:cpu:/x\n0::/\n", "/sys/fs/cgroup", ""),
            (hybrid, "4:memory:/y\n0::/z\n", "/sys/fs/cgroup/unified", "z"),
            (part, "0::/pod/one/two\n", "/sys/fs/cgroup", "two"),
        ] {
            let wanted = (PathBuf::from(root), Path::new(root).join(own));
            assert_eq!(own_group(mounts, groups), Some(wanted), "{groups}");
        }
        for (mounts, groups) in [
            (part, "0::/other\n"),
            (unified, "0::/../above\n"),
            (unified, "1:cpu:/x\n"),
            ("30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "0::/\n"),
            ("", "0::/\n"),
            ("28 - cgroup2", "0::/\n"),
        ] {
            assert_eq!(own_group(mounts, groups), None, "{mounts}{groups}");
        }
    }

    #[test]
    fn a_group_needs_both_to_be_counted() {
        let place = tempfile::tempdir().unwrap();
        for (counted, wanted) in [
            ("cpu memory pids\n", true),
            ("pids memory\n", true),
            ("memory\n", false),
            ("cpupids memory\n", false),
            ("", false),
        ] {
            fs::write(place.path().join("cgroup.subtree_control"), counted).unwrap();
            assert_eq!(counts(place.path()), wanted, "{counted}");
        }
        assert!(!counts(Path::new("/nothing")));
        assert!(!is_marked(place.path(), place.path()), "nobody said so");
        assert!(!is_writable(place.path(), place.path()), "there is nobody to move");
        fs::write(place.path().join("cgroup.procs"), "").unwrap();
        assert!(is_writable(place.path(), place.path()));
    }

    /// In a directory that is none of the kernel's nothing appears by itself, so that only what is written can be looked at.
    #[test]
    fn limits_are_written_and_events_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("windlass-1-a");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("cgroup.procs"), "").unwrap();
        let members = limit(&path, 1 << 20, 7).unwrap();
        for (name, wanted) in
            [("memory.max", "1048576"), ("pids.max", "7"), ("memory.oom.group", "1")]
        {
            assert_eq!(fs::read_to_string(path.join(name)).unwrap(), wanted);
        }
        let group = Group { path: path.clone(), members, memory: 1 << 20 };
        for (events, exceeded) in
            [("max 3\noom_kill 0\n", None), ("oom_kill 2\n", Some(1 << 20)), ("", None)]
        {
            fs::write(path.join("memory.events"), events).unwrap();
            assert_eq!(group.exceeded(), exceeded, "{events}");
        }
        assert!(Group::make_in(&place.path().join("nothing"), 1, 1).is_err());
    }

    #[test]
    fn what_the_dead_left_is_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let own = format!("{PREFIX}{}-a", std::process::id());
        let dead = format!("{PREFIX}{}-a", u32::MAX);
        for name in [own.as_str(), dead.as_str(), "others", "windlass-x"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        sweep(place.path());
        for (name, stays) in [(own.as_str(), true), (&dead, false), ("others", true)] {
            assert_eq!(place.path().join(name).exists(), stays, "{name}");
        }
    }
}
