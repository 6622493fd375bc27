//! Control groups: the kernel itself counts what a program and everything that it starts use, and stops it at once.
//!
//! A group can be created where that is delegated to us: for people who log in through systemd, below their own service; for root only
//! where it is marked, because root could change the groups of others. Everywhere else only the warden counts, and it counts here too.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::{Access, access, getxattr};

use crate::random;

/// Prefix of the names of our groups; the id of the process that created the group follows.
const GROUP_PREFIX: &str = "windlass-";

/// A control group for one program. Removed on drop.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    members: File,
    memory: u64,
}

/// Groups that still had processes when they were dropped. Process-wide, because their removal is tried again with the next group.
static NOT_EMPTY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Group {
    /// Creates a group with these limits; `None` if no group can be created. Also removes earlier groups that are empty by now.
    pub(super) fn create(memory: u64, processes: u64) -> Option<Self> {
        let place = control_group()?;
        NOT_EMPTY.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| !remove(path));
        Self::create_in(place, memory, processes).ok()
    }

    /// Creates a group in a directory.
    fn create_in(place: &Path, memory: u64, processes: u64) -> io::Result<Self> {
        let name = format!("{GROUP_PREFIX}{}-{}", std::process::id(), random::name()?);
        let path = place.join(name);
        fs::create_dir(&path)?;
        match write_limits(&path, memory, processes) {
            Ok(members) => Ok(Self { path, members, memory }),
            Err(error) => {
                remove(&path);
                Err(error)
            }
        }
    }

    /// Returns the file to which a process writes to join the group.
    pub(super) fn members(&self) -> BorrowedFd<'_> {
        self.members.as_fd()
    }

    /// Returns the limit of memory if the kernel killed the program because of it.
    pub(super) fn exceeded(&self) -> Option<u64> {
        let events = fs::read_to_string(self.path.join("memory.events")).ok()?;
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
        (kills != "0").then_some(self.memory)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !remove(&self.path) {
            let mut left = NOT_EMPTY.lock().unwrap_or_else(PoisonError::into_inner);
            left.push(std::mem::take(&mut self.path));
        }
    }
}

/// Writes the limits of a new group, and opens its list of processes.
fn write_limits(path: &Path, memory: u64, processes: u64) -> io::Result<File> {
    fs::write(path.join("memory.max"), memory.to_string())?;
    fs::write(path.join("pids.max"), processes.to_string())?;
    // Kills all processes or none: a program that lost some is of no use. Not every kernel counts swap.
    fs::write(path.join("memory.oom.group"), "1")?;
    drop(fs::write(path.join("memory.swap.max"), "0"));
    OpenOptions::new().write(true).open(path.join("cgroup.procs"))
}

/// Removes a group, which works only without processes in it. Returns whether it is gone.
fn remove(path: &Path) -> bool {
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Removes the groups of processes that are gone.
fn sweep(place: &Path) {
    for entry in place.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(GROUP_PREFIX));
        let maker = maker.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&entry.path());
        }
    }
}

/// Returns the directory in which control groups for programs can be created, if there is one. Searched once per process.
///
/// ```
/// if let Some(place) = windlass_host::control_group() {
///     assert!(place.is_absolute());
/// }
/// ```
pub fn control_group() -> Option<&'static Path> {
    static GROUP_DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let place = GROUP_DIRECTORY.get_or_init(|| {
        let place = delegated()?;
        sweep(&place);
        Some(place)
    });
    place.as_deref()
}

/// Finds a group around ours that is delegated to us and counts memory and processes.
fn delegated() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (root, own) = own_group(&mounts, &groups)?;
    let is_delegated = if rustix::process::geteuid().is_root() { is_marked } else { is_writable };
    let mut around = own.ancestors().take_while(|path| path.starts_with(&root));
    around.find(|path| counts_both(path) && is_delegated(path, &root)).map(Path::to_owned)
}

/// Returns the root of all groups, and the group of this process.
fn own_group(mounts: &str, groups: &str) -> Option<(PathBuf, PathBuf)> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        // After three numbers: the mounted part of the file system, and the mount point.
        let mut words = place.split(' ').skip(3);
        let (mounted, root) = (words.next()?, Path::new(words.next()?));
        kind.starts_with("cgroup2 ").then_some(())?;
        let below = Path::new(own).strip_prefix(mounted).ok()?;
        let is_below = below.components().all(|part| part.as_os_str() != "..");
        is_below.then(|| (root.to_owned(), root.join(below)))
    })
}

/// Returns whether memory and processes are counted for the groups in a group.
fn counts_both(path: &Path) -> bool {
    let counted = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
    ["memory", "pids"].iter().all(|wanted| counted.split_whitespace().any(|one| one == *wanted))
}

/// Returns whether we may create groups in a group and move processes into them.
fn is_writable(path: &Path, _: &Path) -> bool {
    let may = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    may(path) && may(&path.join("cgroup.procs"))
}

/// Returns whether the manager of the groups has marked this group, or one above it, as delegated.
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
    fn own_group_is_found() {
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
    fn both_counters_are_needed() {
        let place = tempfile::tempdir().unwrap();
        for (counted, wanted) in [
            ("cpu memory pids\n", true),
            ("pids memory\n", true),
            ("memory\n", false),
            ("cpupids memory\n", false),
            ("", false),
        ] {
            fs::write(place.path().join("cgroup.subtree_control"), counted).unwrap();
            assert_eq!(counts_both(place.path()), wanted, "{counted}");
        }
        assert!(!counts_both(Path::new("/nothing")));
        assert!(!is_marked(place.path(), place.path()), "there is no mark");
        assert!(!is_writable(place.path(), place.path()), "there is no list of processes");
        fs::write(place.path().join("cgroup.procs"), "").unwrap();
        assert!(is_writable(place.path(), place.path()));
    }

    /// Uses an ordinary directory, in which no file appears by itself, so only the written files are checked.
    #[test]
    fn limits_are_written_and_events_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("windlass-1-a");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("cgroup.procs"), "").unwrap();
        let members = write_limits(&path, 1 << 20, 7).unwrap();
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
        assert!(Group::create_in(&place.path().join("nothing"), 1, 1).is_err());
    }

    #[test]
    fn groups_of_dead_processes_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let own = format!("{GROUP_PREFIX}{}-a", std::process::id());
        let dead = format!("{GROUP_PREFIX}{}-a", u32::MAX);
        for name in [own.as_str(), dead.as_str(), "others", "windlass-x"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        sweep(place.path());
        for (name, stays) in [(own.as_str(), true), (&dead, false), ("others", true)] {
            assert_eq!(place.path().join(name).exists(), stays, "{name}");
        }
    }
}
