//! What is to be started, and in which surroundings: a plain description, made by whoever decides.

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
    /// Its arguments, its own name first.
    pub arguments: Vec<OsString>,
    /// Its environment, all of it: `NAME=value`.
    pub environment: Vec<OsString>,
    /// Where it starts.
    pub directory: PathBuf,
    /// Its standard input; nothing if there is none.
    pub stdin: Option<BorrowedFd<'a>>,
    /// Its standard output and, unless that is given apart, its standard error.
    pub output: BorrowedFd<'a>,
    /// Its standard error.
    pub errors: Option<BorrowedFd<'a>>,
    /// Whether these three are a terminal, and its own.
    pub terminal: bool,
    /// What it sees of the machine; all of it if not given.
    pub view: Option<View>,
    /// A user namespace in which the view is made, with this person in it; a new one if not given. Not everybody may make one,
    /// and who may not can be given one of somebody who may.
    pub users: Option<BorrowedFd<'a>>,
    /// The namespaces of an earlier program whose loopback interface this one shares.
    pub session: Option<&'a SessionNamespaces>,
    /// What the kernel refuses it whatever it sees.
    pub fence: Option<Fence>,
    /// How much it may use.
    pub limits: Limits,
    /// The file of a control group's members, open for writing: the program joins it before it begins.
    pub group: Option<BorrowedFd<'a>>,
}

/// The file system that a program sees, and the network that it is in.
///
/// The root is empty but for what [`mounts`](View::mounts) lays into it, a `/proc` of the program's own processes and a `/dev` with
/// few devices. It cannot be changed.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Laid into the root in this order, so that one may lie in another. Directories on the way are made.
    pub mounts: Vec<Mount>,
    /// The directory that [`protected`](View::protected) paths are relative to.
    pub workspace: PathBuf,
    /// Paths in the workspace that stay as they are, also if nothing is there. For a workspace that is mounted writable: the
    /// changes of an overlay can be judged afterwards.
    ///
    /// A protection ends when a process outside removes the path or renames another over it: with the directory entry, the kernel
    /// removes the mount that lies on it. The same is true of a mask.
    pub protected: Vec<Protected>,
    /// Absolute paths that cannot be opened, though they are in a mount. What is not there is passed over.
    pub masked: Vec<PathBuf>,
    /// The network that the program is in.
    pub network: Network,
}

/// Something that a view has at a path.
#[derive(Debug, Clone)]
pub struct Mount {
    /// The absolute path, without links.
    pub at: PathBuf,
    /// What is there.
    pub source: Source,
}

/// What a view has at a path.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file or directory of the machine, with what is mounted below it, read-only.
    ReadOnly(Object),
    /// The same, writable.
    Writable(Object),
    /// Directories merged by overlayfs, the first over the second and so on; at least two in all.
    Overlay {
        /// The layers that are only read.
        lower: Vec<Object>,
        /// The layer that takes the changes; without one there can be none.
        upper: Option<Upper>,
    },
    /// The same with changes that are held in memory and go with the program.
    Scratch(Vec<Object>),
    /// The kernel's own description of devices: one of the program's network namespace where the kernel allows it, else this one of
    /// the machine, read-only.
    Sysfs(Object),
    /// A symbolic link that points there.
    Link(PathBuf),
    /// An empty directory.
    Directory,
}

/// The writable layer of an overlay.
#[derive(Debug, Clone)]
pub struct Upper {
    /// The directory that takes the changes.
    pub upper: Object,
    /// An empty directory on the same file system, for the kernel.
    pub work: Object,
}

/// A file or directory of the machine, by handle.
///
/// The namespaces of a program have mounts of their own, so the path is opened there once more; if it leads to another object by
/// then, the launch fails. The handle is kept so that no other object can get the same inode number meanwhile.
#[derive(Debug, Clone)]
pub struct Object {
    path: PathBuf,
    device: u64,
    inode: u64,
    _handle: Arc<OwnedFd>,
}

impl Object {
    /// Takes hold of what is at an absolute path that leads through no link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let opened = sys::place(&name).map_err(io::Error::from_raw_os_error)?;
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

/// A place that stays as it is.
#[derive(Debug, Clone)]
pub struct Protected {
    /// Where it is in the workspace.
    pub path: PathBuf,
    /// Whether an empty directory stands for it while nothing is there, or an empty file.
    pub is_directory: bool,
}

/// The network that a program is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// A loopback interface and nothing else: that of the [session](Launch::session), or a new one.
    #[default]
    Loopback,
    /// The same, with a listener on this port of it that we are given to serve.
    Listener(u16),
    /// The machine's own.
    Machine,
}

/// The user and network namespace of a program, for others that share its loopback interface. They last as long as this.
#[derive(Debug)]
pub struct SessionNamespaces {
    pub(crate) users: OwnedFd,
    pub(crate) network: OwnedFd,
}

/// What the kernel refuses a program, by Landlock and seccomp.
///
/// Without a [view](Launch::view) it holds less: modes, times and attributes of files can be changed wherever they are, names and
/// sizes be asked for, other processes be seen. There a program gets no sockets of the machine, so that it can ask nobody to do
/// what it may not.
#[derive(Debug, Clone, Default)]
pub struct Fence {
    /// What it may read and execute.
    pub readable: Vec<PathBuf>,
    /// Where it may change things.
    pub writable: Vec<PathBuf>,
    /// Whether it may make sockets for the internet; its own network may make that harmless.
    pub internet: bool,
    /// Whether it may connect by TCP.
    pub connect: bool,
    /// The program cannot set extended attributes. On a real directory it could plant those by which overlayfs hides files, or keeps
    /// them from being opened, when the directory is a lower layer later; an overlay stores these under other names.
    pub without_attributes: bool,
}

/// How much a program may use, with all that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Bytes of one file.
    pub file_size: u64,
    /// Open files of one process.
    pub open_files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 4 << 30, processes: 512, file_size: u64::MAX, open_files: 65_536 }
    }
}
