//! Converts a [`Launch`] before the fork: every string to a C string, every list to its final form, so that the forked process need not
//! allocate memory.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use libc::{c_char, c_int, sock_filter};

use crate::launch::{
    Fence, Launch, Mount, MountSource, OverlayUpper, PathHandle, ProgramNetwork, ResourceLimits,
    View,
};
use crate::seccomp::{self, FilterOptions};
use crate::stack::Stack;
use crate::sys::{self, Fd};
use crate::{LaunchError, usage};

/// All data that the warden needs to start one program, in a form that needs no allocation.
pub(crate) struct LaunchPlan {
    pub(crate) program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    /// Pointers into the texts above, ended by a null pointer, for `execve`.
    pub(crate) argument_pointers: Vec<*const c_char>,
    pub(crate) environment_pointers: Vec<*const c_char>,
    /// Working directory in which the program starts.
    pub(crate) directory: CString,
    pub(crate) stdin: Option<Fd>,
    pub(crate) output: Fd,
    pub(crate) errors: Fd,
    /// True if standard input, output and error are the program's own terminal.
    pub(crate) terminal: bool,
    /// Path of the device file of that terminal, if it has one.
    pub(crate) terminal_path: Option<CString>,
    pub(crate) limits: ResourceLimits,
    /// The `cgroup.procs` file of the control group that the program joins.
    pub(crate) group: Option<Fd>,
    /// Value of `RLIMIT_NPROC`, if it is set. In a new user namespace the kernel counts only the program's processes and threads; elsewhere
    /// it counts all of the user.
    pub(crate) process_count_limit: Option<u64>,
    pub(crate) view: Option<PlannedView>,
    /// The existing user namespace to join; none for a new one.
    pub(crate) users: Option<Fd>,
    /// The existing network namespace to join.
    pub(crate) session: Option<Fd>,
    pub(crate) fence: Option<PlannedFence>,
    /// Set if the view has an overlay with an upper layer.
    pub(crate) renames: Option<PlannedRenames>,
    /// Lines for `uid_map` and `gid_map`, which map the user and the group into a user namespace.
    pub(crate) user_map: CString,
    pub(crate) group_map: CString,
    /// Value for `/proc/sys/kernel/pid_max`.
    pub(crate) pid_max: CString,
    /// Maximum size of the `tmpfs` at `/dev`, in bytes; it holds `/dev/shm`.
    pub(crate) shared_memory: CString,
    /// Stack on which the program's process starts.
    pub(crate) stack: Stack,
}

// SAFETY: the pointers are to texts of its own, which are never changed.
unsafe impl Send for LaunchPlan {}
// SAFETY: the same.
unsafe impl Sync for LaunchPlan {}

/// A [`View`] with C strings and with the directories that need a mount of their own.
pub(crate) struct PlannedView {
    pub(crate) mounts: Vec<PlannedMount>,
    /// Components of the path to the workspace.
    pub(crate) workspace: Vec<CString>,
    pub(crate) protected: Vec<PlannedProtected>,
    /// Parent directories of protected and masked paths in the workspace, sorted, without duplicates, relative to the workspace.
    pub(crate) pinned_directories: Vec<CString>,
    /// Paths relative to the root.
    pub(crate) masked: Vec<CString>,
    pub(crate) network: ProgramNetwork,
}

/// A [`Mount`] with C strings.
pub(crate) struct PlannedMount {
    /// Components of the path in the view; none for the root itself.
    pub(crate) path_components: Vec<CString>,
    pub(crate) source: PlannedSource,
}

/// A [`MountSource`] with C strings.
pub(crate) enum PlannedSource {
    ReadOnly(PlannedObject),
    Writable(PlannedObject),
    Sysfs(PlannedObject),
    /// The two directories of `upper` are the upper directory and the work directory.
    Overlay {
        lower: Vec<PlannedObject>,
        upper: Option<[PlannedObject; 2]>,
    },
    /// An overlay over these lower directories whose changes are held in memory.
    Scratch(Vec<PlannedObject>),
    Link(CString),
    Directory,
}

/// A file or directory of the machine, with the identity that it must still have when it is mounted.
pub(crate) struct PlannedObject {
    pub(crate) path: CString,
    /// Numbers of its device and inode.
    pub(crate) identity: (u64, u64),
}

/// A protected path as a C string.
pub(crate) struct PlannedProtected {
    /// Path relative to the workspace.
    pub(crate) path: CString,
    pub(crate) is_directory: bool,
}

/// A [`Fence`] with C strings and compiled seccomp filters.
pub(crate) struct PlannedFence {
    pub(crate) readable: Vec<CString>,
    pub(crate) writable: Vec<CString>,
    pub(crate) internet: bool,
    pub(crate) connect: bool,
    /// Version of Landlock that the kernel supports.
    pub(crate) landlock: u32,
    pub(crate) filter: Vec<sock_filter>,
    /// Additional filter for a program that is in no control group.
    pub(crate) filter_without_group: Vec<sock_filter>,
}

/// The filter and the stack that are needed to serve a program's renames of directories.
pub(crate) struct PlannedRenames {
    pub(crate) filter: Vec<sock_filter>,
    /// Stack of the second thread; the first uses the stack of the plan.
    pub(crate) stack: Stack,
}

impl PlannedRenames {
    /// Returns none if the view has no overlay with an upper layer.
    fn of(launch: &Launch<'_>) -> Result<Option<Self>, LaunchError> {
        if !has_upper(launch) {
            return Ok(None);
        }
        let stack = Stack::new().map_err(LaunchError::Machine)?;
        Ok(Some(Self { filter: seccomp::build_rename_filter(), stack }))
    }
}

/// Returns whether the view has an overlay with an upper layer.
fn has_upper(launch: &Launch<'_>) -> bool {
    let mounts = launch.view.iter().flat_map(|view| &view.mounts);
    mounts
        .map(|mount| &mount.source)
        .any(|source| matches!(source, MountSource::Overlay { upper: Some(_), .. }))
}

impl LaunchPlan {
    /// Converts a launch. Fails if a string has a NUL in it or if memory for a stack is missing.
    pub(crate) fn of(launch: &Launch<'_>) -> Result<Self, LaunchError> {
        let arguments = c_strings(&launch.arguments, "an argument")?;
        let environment = c_strings(&launch.environment, "a variable")?;
        // SAFETY: these only ask who we are.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Ok(Self {
            program: c_string(launch.program.as_os_str(), "the program")?,
            argument_pointers: null_terminated_pointers(&arguments),
            environment_pointers: null_terminated_pointers(&environment),
            arguments,
            environment,
            directory: c_string(launch.directory.as_os_str(), "the directory")?,
            stdin: launch.stdin.map(|fd| fd.as_raw_fd()),
            output: launch.output.as_raw_fd(),
            errors: launch.errors.unwrap_or(launch.output).as_raw_fd(),
            terminal: launch.terminal,
            terminal_path: terminal_path(launch),
            limits: launch.limits,
            group: launch.group.map(|fd| fd.as_raw_fd()),
            process_count_limit: process_count_limit(launch, user),
            view: launch.view.as_ref().map(PlannedView::of).transpose()?,
            users: launch
                .session
                .map(|session| session.users.as_raw_fd())
                .or(launch.users.map(|fd| fd.as_raw_fd()))
                .filter(|_| launch.view.is_some()),
            session: launch
                .session
                .map(|session| session.network.as_raw_fd())
                .filter(|_| is_on_loopback(launch)),
            fence: launch
                .fence
                .as_ref()
                .map(|fence| PlannedFence::of(fence, launch.view.is_none()))
                .transpose()?,
            renames: PlannedRenames::of(launch)?,
            user_map: c_string_or_empty(&format!("{user} {user} 1\n")),
            group_map: c_string_or_empty(&format!("{group} {group} 1\n")),
            pid_max: c_string_or_empty(&pid_max(&launch.limits)),
            shared_memory: c_string_or_empty(
                &launch.limits.memory.clamp(1 << 20, 1 << 30).to_string(),
            ),
            stack: Stack::new().map_err(LaunchError::Machine)?,
        })
    }

    /// Returns whether the warden may share the memory of this process: nothing confines the program, and this process is already hidden
    /// from other programs of the user, so that a separate, hidden copy would gain nothing.
    pub(crate) fn may_share_memory(&self) -> bool {
        self.view.is_none() && self.fence.is_none() && sys::is_memory_hidden()
    }

    /// Returns the `CLONE_NEW…` flags of the namespaces that the view needs; 0 without a view.
    pub(crate) fn namespaces(&self) -> c_int {
        let Some(view) = &self.view else { return 0 };
        let users = if self.users.is_none() { libc::CLONE_NEWUSER } else { 0 };
        let network = match view.network {
            ProgramNetwork::Loopback | ProgramNetwork::Listener(_) if self.session.is_none() => {
                libc::CLONE_NEWNET
            }
            _ => 0,
        };
        users | network | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC
    }
}

impl std::fmt::Debug for LaunchPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaunchPlan")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("environment", &self.environment.len())
            .finish_non_exhaustive()
    }
}

impl PlannedView {
    /// Converts a view. Fails if a path has a NUL in it.
    fn of(view: &View) -> Result<Self, LaunchError> {
        let protected = view.protected.iter().map(|protected| {
            Ok(PlannedProtected {
                path: c_string(without_cur_dir(&protected.path).as_os_str(), "a protected path")?,
                is_directory: protected.is_directory,
            })
        });
        let masked = view.masked.iter().map(|path| {
            let inside = path.strip_prefix("/").unwrap_or(path);
            c_string(without_cur_dir(inside).as_os_str(), "a masked path")
        });
        Ok(Self {
            mounts: view.mounts.iter().map(PlannedMount::of).collect::<Result<_, _>>()?,
            workspace: path_components(&view.workspace)?,
            protected: protected.collect::<Result<_, LaunchError>>()?,
            pinned_directories: pinned_directories(view)?,
            masked: masked.collect::<Result<_, LaunchError>>()?,
            network: view.network,
        })
    }
}

impl PlannedMount {
    /// Converts a mount. Fails if a path has a NUL in it.
    fn of(mount: &Mount) -> Result<Self, LaunchError> {
        let source = match &mount.source {
            MountSource::ReadOnly(object) => PlannedSource::ReadOnly(PlannedObject::of(object)?),
            MountSource::Writable(object) => PlannedSource::Writable(PlannedObject::of(object)?),
            MountSource::Overlay { lower, upper } => PlannedSource::Overlay {
                lower: PlannedObject::all(lower)?,
                upper: match upper {
                    Some(OverlayUpper { upper, work }) => {
                        Some([PlannedObject::of(upper)?, PlannedObject::of(work)?])
                    }
                    None => None,
                },
            },
            MountSource::Scratch(lower) => PlannedSource::Scratch(PlannedObject::all(lower)?),
            MountSource::Sysfs(object) => PlannedSource::Sysfs(PlannedObject::of(object)?),
            MountSource::Link(target) => {
                PlannedSource::Link(c_string(target.as_os_str(), "a link")?)
            }
            MountSource::Directory => PlannedSource::Directory,
        };
        Ok(Self { path_components: path_components(&mount.at)?, source })
    }
}

impl PlannedObject {
    fn all(objects: &[PathHandle]) -> Result<Vec<Self>, LaunchError> {
        objects.iter().map(Self::of).collect()
    }

    fn of(object: &PathHandle) -> Result<Self, LaunchError> {
        let path = c_string(object.path().as_os_str(), "a path")?;
        Ok(Self { path, identity: object.identity() })
    }
}

/// Lists the parent directories of protected and masked paths of the workspace, sorted and without duplicates. A mount is copied with all
/// mounts below it, so a directory that were pinned once for each path in it would double its mounts each time.
fn pinned_directories(view: &View) -> Result<Vec<CString>, LaunchError> {
    let mut pinned = Vec::new();
    for protected in &view.protected {
        pinned.append(&mut parent_directories(&without_cur_dir(&protected.path))?);
    }
    // If such a directory were moved, the masked path in it would move to a path that is not masked for other programs.
    let masked = view.masked.iter().filter_map(|path| path.strip_prefix(&view.workspace).ok());
    for path in masked {
        pinned.append(&mut parent_directories(&without_cur_dir(path))?);
    }
    pinned.sort();
    pinned.dedup();
    Ok(pinned)
}

impl PlannedFence {
    /// `among_others` is true if the program has no view and so can see the processes of the machine.
    fn of(fence: &Fence, among_others: bool) -> Result<Self, LaunchError> {
        Ok(Self {
            readable: c_strings(&fence.readable, "a path")?,
            writable: c_strings(&fence.writable, "a path")?,
            internet: fence.internet,
            connect: fence.connect,
            landlock: sys::landlock::version(),
            filter: seccomp::build_filter(FilterOptions {
                internet: fence.internet,
                without_attributes: fence.without_attributes,
                among_others,
            }),
            filter_without_group: seccomp::build_no_group_filter(),
        })
    }
}

/// Returns the value for `pid_max`: the limit of processes and 300 more. The kernel does not use numbers below 300 a second time, so
/// without these the program could start no process after some hundred that have ended.
fn pid_max(limits: &ResourceLimits) -> String {
    const RESERVED_PIDS: u64 = 300;
    limits.processes.saturating_add(RESERVED_PIDS).clamp(RESERVED_PIDS + 2, 4 << 20).to_string()
}

/// Factor for the kernel's process limit of a session, whose programs share one count. Each program also has its own limit, which its
/// warden watches.
const SESSION_PROCESS_FACTOR: u64 = 16;

/// Returns the value of `RLIMIT_NPROC` for a launch; none if the program is not confined.
fn process_count_limit(launch: &Launch<'_>, user: u32) -> Option<u64> {
    let limit = launch.limits.processes;
    match (&launch.view, &launch.fence) {
        (None, None) => None,
        // The kernel counts the processes of each user namespace separately, and one of ours has no other processes than those of this
        // program or session.
        (Some(_), _) if launch.session.is_some() => {
            Some(limit.saturating_mul(SESSION_PROCESS_FACTOR))
        }
        (Some(_), _) if launch.users.is_none() => Some(limit),
        _ => Some(limit.saturating_add(usage::count_threads(user))),
    }
}

/// Returns whether the view has a network of its own, with a loopback interface only.
fn is_on_loopback(launch: &Launch<'_>) -> bool {
    launch.view.as_ref().is_some_and(|view| view.network != ProgramNetwork::Machine)
}

/// Returns the path of the program's terminal, if it has one and its path can be read.
fn terminal_path(launch: &Launch<'_>) -> Option<CString> {
    let stdin = launch.stdin.filter(|_| launch.terminal)?;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", stdin.as_raw_fd())).ok()?;
    c_string(path.as_os_str(), "the terminal").ok()
}

/// Converts to a C string; `what` names the value in the error if it has a NUL in it.
fn c_string(text: &OsStr, what: &'static str) -> Result<CString, LaunchError> {
    CString::new(text.as_bytes()).map_err(|_| LaunchError::Name { what })
}

/// Converts a list of strings; `what` names the kind of value in the error.
fn c_strings<T: AsRef<OsStr>>(list: &[T], what: &'static str) -> Result<Vec<CString>, LaunchError> {
    list.iter().map(|one| c_string(one.as_ref(), what)).collect()
}

/// Converts text without a NUL to a C string; with a NUL the result is empty.
fn c_string_or_empty(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// Splits an absolute path into its normal components, as C strings.
fn path_components(path: &Path) -> Result<Vec<CString>, LaunchError> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(c_string(name, "a path")),
        _ => None,
    });
    names.collect()
}

/// Removes `.` components.
fn without_cur_dir(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

/// Lists the parent directories of a path, the outermost first, without the root.
fn parent_directories(path: &Path) -> Result<Vec<CString>, LaunchError> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.retain(|path| !path.as_os_str().is_empty() && path.parent().is_some());
    above.reverse();
    c_strings(&above, "a path")
}

/// Returns the array of pointers for `execve`, with a null pointer at the end. The pointers stay valid until the texts are dropped, also
/// if the texts are moved.
fn null_terminated_pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| CStr::as_ptr(text)).chain([std::ptr::null()]).collect()
}
