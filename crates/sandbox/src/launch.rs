//! What is to be started, and in which surroundings: a plain description, made by whoever decides.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

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
    /// A namespace of users in which the view is made, with this person in it; a new one if not given. Not everybody may make one,
    /// and who may not can be given one of somebody who may.
    pub users: Option<BorrowedFd<'a>>,
    /// What the kernel refuses it whatever it sees.
    pub fence: Option<Fence>,
    /// How much it may use.
    pub limits: Limits,
    /// The file of a control group's members, open for writing: the program joins it before it begins.
    pub group: Option<BorrowedFd<'a>>,
}

/// What a program sees of the machine: its own processes, its own network, and a file system in which little can be changed.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The directory that it works in.
    pub workspace: PathBuf,
    /// What it may make of that.
    pub stage: Stage,
    /// Directories, of the workspace or elsewhere, in which it changes what is really there.
    pub writable: Vec<PathBuf>,
    /// What becomes its directory for temporary files; the machine's own, read-only, if not given.
    pub temporary: Option<PathBuf>,
    /// Places in the workspace that stay as they are, also if nothing is there.
    ///
    /// That holds for as long as nobody outside removes one, or renames something to its name: with what a mount lies on, the
    /// kernel takes the mount away. The same is true of what is hidden.
    pub protected: Vec<Protected>,
    /// Files and directories that it cannot look into.
    pub hidden: Vec<PathBuf>,
    /// Directories that are empty for it, because what is in them are ways to talk to other programs.
    pub emptied: Vec<PathBuf>,
    /// What stays of those.
    pub kept: Vec<PathBuf>,
    /// Whom it can talk to.
    pub network: Network,
}

/// What a program may make of its workspace.
#[derive(Debug, Clone, Default)]
pub enum Stage {
    /// Nothing.
    #[default]
    ReadOnly,
    /// What it likes.
    Direct,
    /// What it likes, but what it changes goes into a directory of its own.
    Overlay {
        /// That directory.
        upper: PathBuf,
        /// One more on the same file system, for the kernel.
        work: PathBuf,
    },
}

/// A place that stays as it is.
#[derive(Debug, Clone)]
pub struct Protected {
    /// Where it is in the workspace.
    pub path: PathBuf,
    /// Whether an empty directory stands for it while nothing is there, or an empty file.
    pub is_directory: bool,
}

/// Whom a program can talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// Itself.
    #[default]
    Own,
    /// Itself, and whoever serves the listener that we are given: it listens on the program's own loopback interface.
    Listener,
    /// Everybody.
    Shared,
}

/// The port of the [listener](Network::Listener). A network of its own has no other that could be in the way.
pub const LISTENER_PORT: u16 = 3128;

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
