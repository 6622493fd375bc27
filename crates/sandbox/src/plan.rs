//! A launch, made ready: every text ended by a NUL, every list in place, so that nothing need be allocated after the fork.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use libc::{c_char, c_int, sock_filter};

use crate::launch::{Fence, Launch, Limits, Mount, Network, Object, Source, Upper, View};
use crate::seccomp::{self, Held};
use crate::stack::Stack;
use crate::sys::{self, Fd};
use crate::{LaunchError, usage};

pub(crate) struct Plan {
    pub(crate) program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    pub(crate) argument_pointers: Vec<*const c_char>,
    pub(crate) environment_pointers: Vec<*const c_char>,
    pub(crate) directory: CString,
    pub(crate) stdin: Option<Fd>,
    pub(crate) output: Fd,
    pub(crate) errors: Fd,
    pub(crate) terminal: bool,
    /// Where that terminal is, if there is one and it has a name.
    pub(crate) terminal_path: Option<CString>,
    pub(crate) limits: Limits,
    /// Where the program's process writes itself to be counted by the kernel.
    pub(crate) group: Option<Fd>,
    /// How many processes and threads the kernel may count, if it can be told: in a namespace of users that is new those of the
    /// program alone, elsewhere all that the person runs.
    pub(crate) counted: Option<u64>,
    pub(crate) view: Option<PlannedView>,
    /// The user namespace that the others belong to, if it is not a new one.
    pub(crate) users: Option<Fd>,
    /// The network namespace to join.
    pub(crate) session: Option<Fd>,
    pub(crate) fence: Option<PlannedFence>,
    /// Set if the view has an overlay that can be changed.
    pub(crate) renames: Option<PlannedRenames>,
    /// Lines for the files in which the kernel keeps who is who in a user namespace.
    pub(crate) user_map: CString,
    pub(crate) group_map: CString,
    pub(crate) most_processes: CString,
    /// Bytes that can be shared as files.
    pub(crate) shared_memory: CString,
    /// What the program's process begins on.
    pub(crate) stack: Stack,
}

// SAFETY: the pointers are to texts of its own, which nobody changes.
unsafe impl Send for Plan {}
// SAFETY: the same.
unsafe impl Sync for Plan {}

pub(crate) struct PlannedView {
    pub(crate) mounts: Vec<PlannedMount>,
    /// The parts of the path to the workspace.
    pub(crate) workspace: Vec<CString>,
    pub(crate) protected: Vec<PlannedProtected>,
    /// The directories above those, each once and the outermost first.
    pub(crate) pinned: Vec<CString>,
    /// Relative to the root.
    pub(crate) masked: Vec<CString>,
    pub(crate) network: Network,
}

pub(crate) struct PlannedMount {
    /// The parts of the path in the view; none for the root itself.
    pub(crate) at: Vec<CString>,
    pub(crate) source: PlannedSource,
}

pub(crate) enum PlannedSource {
    ReadOnly(PlannedObject),
    Writable(PlannedObject),
    Sysfs(PlannedObject),
    Overlay { lower: Vec<PlannedObject>, upper: Option<[PlannedObject; 2]> },
    Scratch(Vec<PlannedObject>),
    Link(CString),
    Directory,
}

pub(crate) struct PlannedObject {
    pub(crate) path: CString,
    pub(crate) identity: (u64, u64),
}

pub(crate) struct PlannedProtected {
    /// Relative to the workspace.
    pub(crate) path: CString,
    pub(crate) is_directory: bool,
}

pub(crate) struct PlannedFence {
    pub(crate) readable: Vec<CString>,
    pub(crate) writable: Vec<CString>,
    pub(crate) internet: bool,
    pub(crate) connect: bool,
    pub(crate) landlock: u32,
    pub(crate) filter: Vec<sock_filter>,
    /// Applies besides if the program is in no control group.
    pub(crate) filter_without_group: Vec<sock_filter>,
}

/// What serving the renames of a program takes.
pub(crate) struct PlannedRenames {
    pub(crate) filter: Vec<sock_filter>,
    /// What the second thread runs on; the first has that of the plan.
    pub(crate) stack: Stack,
}

impl PlannedRenames {
    fn of(launch: &Launch<'_>) -> Result<Option<Self>, LaunchError> {
        if !has_upper(launch) {
            return Ok(None);
        }
        let stack = Stack::new().map_err(LaunchError::Machine)?;
        Ok(Some(Self { filter: seccomp::renames(), stack }))
    }
}

/// Returns whether the view has an overlay that can be changed.
fn has_upper(launch: &Launch<'_>) -> bool {
    let mounts = launch.view.iter().flat_map(|view| &view.mounts);
    mounts
        .map(|mount| &mount.source)
        .any(|source| matches!(source, Source::Overlay { upper: Some(_), .. }))
}

impl Plan {
    pub(crate) fn of(launch: &Launch<'_>) -> Result<Self, LaunchError> {
        let arguments = texts(&launch.arguments, "an argument")?;
        let environment = texts(&launch.environment, "a variable")?;
        // SAFETY: these only ask who we are.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Ok(Self {
            program: text(launch.program.as_os_str(), "the program")?,
            argument_pointers: pointers(&arguments),
            environment_pointers: pointers(&environment),
            arguments,
            environment,
            directory: text(launch.directory.as_os_str(), "the directory")?,
            stdin: launch.stdin.map(|fd| fd.as_raw_fd()),
            output: launch.output.as_raw_fd(),
            errors: launch.errors.unwrap_or(launch.output).as_raw_fd(),
            terminal: launch.terminal,
            terminal_path: terminal_path(launch),
            limits: launch.limits,
            group: launch.group.map(|fd| fd.as_raw_fd()),
            counted: counted(launch, user),
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
            user_map: line(&format!("{user} {user} 1\n")),
            group_map: line(&format!("{group} {group} 1\n")),
            most_processes: line(&most_processes(&launch.limits)),
            shared_memory: line(&launch.limits.memory.clamp(1 << 20, 1 << 30).to_string()),
            stack: Stack::new().map_err(LaunchError::Machine)?,
        })
    }

    /// Whether nothing is confined, and nobody may look into us: then nothing is gained by a copy of us that nobody may look into.
    pub(crate) fn may_share_memory(&self) -> bool {
        self.view.is_none() && self.fence.is_none() && sys::is_hidden()
    }

    /// The namespaces that the view needs.
    pub(crate) fn namespaces(&self) -> c_int {
        let Some(view) = &self.view else { return 0 };
        let users = if self.users.is_none() { libc::CLONE_NEWUSER } else { 0 };
        let network = match view.network {
            Network::Loopback | Network::Listener(_) if self.session.is_none() => {
                libc::CLONE_NEWNET
            }
            _ => 0,
        };
        users | network | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("environment", &self.environment.len())
            .finish_non_exhaustive()
    }
}

impl PlannedView {
    fn of(view: &View) -> Result<Self, LaunchError> {
        let protected = view.protected.iter().map(|protected| {
            Ok(PlannedProtected {
                path: text(normal(&protected.path).as_os_str(), "a protected path")?,
                is_directory: protected.is_directory,
            })
        });
        let masked = view.masked.iter().map(|path| {
            let inside = path.strip_prefix("/").unwrap_or(path);
            text(normal(inside).as_os_str(), "a masked path")
        });
        Ok(Self {
            mounts: view.mounts.iter().map(PlannedMount::of).collect::<Result<_, _>>()?,
            workspace: parts(&view.workspace)?,
            protected: protected.collect::<Result<_, LaunchError>>()?,
            pinned: pinned(view)?,
            masked: masked.collect::<Result<_, LaunchError>>()?,
            network: view.network,
        })
    }
}

impl PlannedMount {
    fn of(mount: &Mount) -> Result<Self, LaunchError> {
        let source = match &mount.source {
            Source::ReadOnly(object) => PlannedSource::ReadOnly(PlannedObject::of(object)?),
            Source::Writable(object) => PlannedSource::Writable(PlannedObject::of(object)?),
            Source::Overlay { lower, upper } => PlannedSource::Overlay {
                lower: PlannedObject::all(lower)?,
                upper: match upper {
                    Some(Upper { upper, work }) => {
                        Some([PlannedObject::of(upper)?, PlannedObject::of(work)?])
                    }
                    None => None,
                },
            },
            Source::Scratch(lower) => PlannedSource::Scratch(PlannedObject::all(lower)?),
            Source::Sysfs(object) => PlannedSource::Sysfs(PlannedObject::of(object)?),
            Source::Link(target) => PlannedSource::Link(text(target.as_os_str(), "a link")?),
            Source::Directory => PlannedSource::Directory,
        };
        Ok(Self { at: parts(&mount.at)?, source })
    }
}

impl PlannedObject {
    fn all(objects: &[Object]) -> Result<Vec<Self>, LaunchError> {
        objects.iter().map(Self::of).collect()
    }

    fn of(object: &Object) -> Result<Self, LaunchError> {
        let path = text(object.path().as_os_str(), "a path")?;
        Ok(Self { path, identity: object.identity() })
    }
}

/// The directories above protected and masked paths of the workspace. Mounts are copied with all that is mounted below, so one that is copied for each path
/// in it would double each time.
fn pinned(view: &View) -> Result<Vec<CString>, LaunchError> {
    let mut pinned = Vec::new();
    for protected in &view.protected {
        pinned.append(&mut above(&normal(&protected.path))?);
    }
    // A directory that is moved takes what is masked in it to a path that is not masked for others.
    let masked = view.masked.iter().filter_map(|path| path.strip_prefix(&view.workspace).ok());
    for path in masked {
        pinned.append(&mut above(&normal(path))?);
    }
    pinned.sort();
    pinned.dedup();
    Ok(pinned)
}

impl PlannedFence {
    /// Without a view it stands among all others.
    fn of(fence: &Fence, among_others: bool) -> Result<Self, LaunchError> {
        Ok(Self {
            readable: texts(&fence.readable, "a path")?,
            writable: texts(&fence.writable, "a path")?,
            internet: fence.internet,
            connect: fence.connect,
            landlock: sys::landlock::version(),
            filter: seccomp::program(Held {
                internet: fence.internet,
                without_attributes: fence.without_attributes,
                among_others,
            }),
            filter_without_group: seccomp::without_group(),
        })
    }
}

/// The numbers of processes. Those below 300 are given out once, so that there must be as many more: else nothing could be started
/// any more after some hundred programs that have long ended.
fn most_processes(limits: &Limits) -> String {
    const GIVEN_OUT_ONCE: u64 = 300;
    limits.processes.saturating_add(GIVEN_OUT_ONCE).clamp(GIVEN_OUT_ONCE + 2, 4 << 20).to_string()
}

/// Programs of one session that may run at once before the kernel's count of processes gets in their way. Each of them has a
/// limit of its own besides, which its warden watches.
const PROGRAMS_OF_A_SESSION: u64 = 16;

fn counted(launch: &Launch<'_>, user: u32) -> Option<u64> {
    let most = launch.limits.processes;
    match (&launch.view, &launch.fence) {
        (None, None) => None,
        // The kernel counts the processes of a user namespace by themselves, and one of ours has nothing else in it.
        (Some(_), _) if launch.session.is_some() => {
            Some(most.saturating_mul(PROGRAMS_OF_A_SESSION))
        }
        (Some(_), _) if launch.users.is_none() => Some(most),
        _ => Some(most.saturating_add(usage::threads_of(user))),
    }
}

fn is_on_loopback(launch: &Launch<'_>) -> bool {
    launch.view.as_ref().is_some_and(|view| view.network != Network::Machine)
}

fn terminal_path(launch: &Launch<'_>) -> Option<CString> {
    let stdin = launch.stdin.filter(|_| launch.terminal)?;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", stdin.as_raw_fd())).ok()?;
    text(path.as_os_str(), "the terminal").ok()
}

fn text(text: &OsStr, what: &'static str) -> Result<CString, LaunchError> {
    CString::new(text.as_bytes()).map_err(|_| LaunchError::Name { what })
}

fn texts<T: AsRef<OsStr>>(list: &[T], what: &'static str) -> Result<Vec<CString>, LaunchError> {
    list.iter().map(|one| text(one.as_ref(), what)).collect()
}

/// Text of our own.
fn line(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// The parts of an absolute path.
fn parts(path: &Path) -> Result<Vec<CString>, LaunchError> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(text(name, "a path")),
        _ => None,
    });
    names.collect()
}

/// Without `.` and without a root of its own making.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

/// The directories above a place, the outermost first; not the root.
fn above(path: &Path) -> Result<Vec<CString>, LaunchError> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.retain(|path| !path.as_os_str().is_empty() && path.parent().is_some());
    above.reverse();
    texts(&above, "a path")
}

/// For `execve`: each, and a null at the end. They stay valid for as long as the texts are not dropped, wherever those are moved.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| CStr::as_ptr(text)).chain([std::ptr::null()]).collect()
}
