//! The description of a program to start and of its sandbox, as plain data that the caller fills in.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sys;

/// A program to start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The program's absolute path.
    pub program: PathBuf,
    /// Its arguments; the first is its own name.
    pub arguments: Vec<OsString>,
    /// Its whole environment, as `NAME=value`. Nothing is inherited.
    pub environment: Vec<OsString>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its standard input; `/dev/null` if not given.
    pub stdin: Option<BorrowedFd<'a>>,
    /// Its standard output, and its standard error if `errors` is not given.
    pub output: BorrowedFd<'a>,
    /// Its standard error.
    pub errors: Option<BorrowedFd<'a>>,
    /// True if these three are a terminal that becomes the program's controlling terminal.
    pub terminal: bool,
    /// The files and the network that it sees; all of the machine if not given.
    pub view: Option<View>,
    /// An existing user namespace in which the view is made and to which this user is mapped; a new one if not given. Some machines let
    /// only certain programs create one, and one of theirs can be passed here.
    pub users: Option<BorrowedFd<'a>>,
    /// The namespaces of an earlier program whose loopback interface this one shares.
    pub session: Option<&'a SessionNamespaces>,
    /// Operations that Landlock and seccomp refuse it.
    pub fence: Option<Fence>,
    /// The resources that it may use.
    pub limits: ResourceLimits,
    /// The `cgroup.procs` file of a control group, open for writing: the program joins the group before it begins.
    pub group: Option<BorrowedFd<'a>>,
}

/// The file system that a program sees, and the network that it is in.
///
/// The root has only the [`mounts`](View::mounts), a `/proc` of the program's own processes and a `/dev` with few devices. It is
/// read-only.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Mounted in this order, so that one may lie in another. Missing parent directories are created.
    pub mounts: Vec<Mount>,
    /// The directory to which [`protected`](View::protected) paths are relative.
    pub workspace: PathBuf,
    /// Paths in the workspace that the program cannot change, nor create if they do not exist. Needed for a workspace that is mounted
    /// writable; the changes of an overlay can be checked afterwards.
    ///
    /// A protection ends when a process outside the sandbox removes the path or renames another over it, because the kernel then unmounts
    /// the mount on it. The same is true of a mask.
    pub protected: Vec<ReadOnlyPath>,
    /// Absolute paths in a mount that the program cannot open. Paths that do not exist are skipped.
    pub masked: Vec<PathBuf>,
    /// The network that the program can use.
    pub network: ProgramNetwork,
}

/// A path of a view and the object that is mounted there.
#[derive(Debug, Clone)]
pub struct Mount {
    /// The absolute path, without symbolic links.
    pub at: PathBuf,
    /// The object that is mounted there.
    pub source: MountSource,
}

/// An object that is mounted at a path of a view.
#[derive(Debug, Clone)]
pub enum MountSource {
    /// A file or directory of the machine, with its submounts, read-only.
    ReadOnly(PathHandle),
    /// A file or directory of the machine, with its submounts, writable.
    Writable(PathHandle),
    /// Directories merged by overlayfs, the first over the second and so on; at least two in all, the upper layer included.
    Overlay {
        /// The read-only layers.
        lower: Vec<PathHandle>,
        /// The layer that takes the changes; without one the overlay is read-only.
        upper: Option<OverlayUpper>,
    },
    /// An overlay over these directories whose changes are held in memory and end with the program.
    Scratch(Vec<PathHandle>),
    /// A read-only sysfs: a new one for the program's network namespace if the kernel allows it, else this one of the machine.
    Sysfs(PathHandle),
    /// A symbolic link with this target.
    Link(PathBuf),
    /// An empty directory.
    Directory,
}

/// The writable layer of an overlay.
#[derive(Debug, Clone)]
pub struct OverlayUpper {
    /// The directory that takes the changes.
    pub upper: PathHandle,
    /// An empty directory on the same file system that overlayfs uses as its work directory.
    pub work: PathHandle,
}

/// A file or directory of the machine, by handle.
///
/// A program's mount namespace has its own mounts, so the path is opened there a second time; if it leads to another object by then, the
/// launch fails. The handle is kept so that no other object can get the same inode number meanwhile.
#[derive(Debug, Clone)]
pub struct PathHandle {
    path: PathBuf,
    device: u64,
    inode: u64,
    _handle: Arc<OwnedFd>,
}

impl PathHandle {
    /// Opens a handle on an absolute path. Fails if the path has a symbolic link in it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let opened = sys::open_handle(&name).map_err(io::Error::from_raw_os_error)?;
        // SAFETY: the kernel has just made it for us.
        let handle = unsafe { OwnedFd::from_raw_fd(opened) };
        let (device, inode) = sys::identity(opened).map_err(io::Error::from_raw_os_error)?;
        Ok(Self { path: path.to_owned(), device, inode, _handle: Arc::new(handle) })
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The numbers of its device and inode.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// A path in the workspace that the program cannot change.
#[derive(Debug, Clone)]
pub struct ReadOnlyPath {
    /// The path relative to the workspace.
    pub path: PathBuf,
    /// True if an empty directory is created where the path does not exist, false for an empty file.
    pub is_directory: bool,
}

/// The network that a program can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgramNetwork {
    /// A loopback interface and nothing else: that of the [session](Launch::session), or a new one.
    #[default]
    Loopback,
    /// The same, with a listener on this port of it, which the caller gets and serves.
    Listener(u16),
    /// The network of the machine.
    Machine,
}

/// The user and network namespace of a program, which later programs join to share its loopback interface. The namespaces exist at least
/// as long as this value.
#[derive(Debug)]
pub struct SessionNamespaces {
    pub(crate) users: OwnedFd,
    pub(crate) network: OwnedFd,
}

/// The operations that Landlock and seccomp refuse a program.
///
/// Without a [view](Launch::view) a fence is weaker: the program can change modes, times and attributes of any file, read names and
/// sizes, and see other processes. It then gets no local sockets, so that it cannot ask another process to do what it may not do itself.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    /// Paths that it may read and execute.
    pub readable: Vec<PathBuf>,
    /// Paths that it may read, execute and change.
    pub writable: Vec<PathBuf>,
    /// True if it may create internet sockets. In a network of its own these reach only the loopback interface.
    pub internet: bool,
    /// True if it may connect by TCP.
    pub connect: bool,
    /// True if it cannot set extended attributes. On a real directory it could set those by which overlayfs hides files or keeps them from
    /// being opened when the directory is a lower layer later; an overlay stores these under other names.
    pub without_attributes: bool,
}

/// The resources that a program and all processes that it starts may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Bytes of memory.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Bytes of one file.
    pub file_size: u64,
    /// Open files of one process.
    pub open_files: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self { memory: 4 << 30, processes: 512, file_size: u64::MAX, open_files: 65_536 }
    }
}
