//! The door to programs: start one, read its output, end all of its processes, get its changes.
//!
//! People configure the confinement of programs when they set up the machine; a request only says how much of that it needs.
//! Dropping a program kills it, with every process that it started.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Absence, BoxFuture, HeldChanges, PathUse, ProcessChange, ProcessChanges, Resolved, Shell,
};
use crate::nearest::unknown_name_message;
use crate::{ApprovalId, BuiltChange, CallId, CommitState, FileRights, SessionId, ToolError};

/// Starts programs. No child process of ours starts in any other way.
///
/// ```
/// use windlass_core::{Host, Processes, Process, ProcessEnd, ProcessRequest, Program, testing::EchoHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolError> {
/// // On this machine every program prints its own words.
/// let host = EchoHost::default();
/// let request = ProcessRequest::new(Program::words(["make", "all"]), host.files().resolve(".".as_ref())?);
/// let process = host.processes().expect("it has programs").start(&request)?;
/// let mut printed = Vec::new();
/// while process.read(&mut printed).await.is_ok_and(|read| read > 0) {}
/// assert_eq!((printed.as_slice(), process.ended().await), (b"make all".as_slice(), ProcessEnd::Exited(0)));
/// # Ok(())
/// # }
/// ```
pub trait Processes: Send + Sync {
    /// Returns the confinement of programs.
    fn confinement(&self) -> &Confinement;

    /// Returns the shell for commands of models. The default is bash.
    fn shell(&self) -> Shell {
        Shell::default()
    }

    /// Starts a program. Blocks for some milliseconds; must be called inside a runtime.
    fn start(&self, request: &ProcessRequest) -> Result<Box<dyn Process>, ToolError>;

    /// Returns whether a start takes no longer than a runtime itself needs to start a program, so that it need not run on another
    /// thread.
    fn starts_at_once(&self, _: &ProcessRequest) -> bool {
        false
    }

    /// Opens a file without a name, for output that is too long to be held in memory.
    fn scratch(&self) -> io::Result<std::fs::File>;

    /// Reads the changes that a stage [holds](crate::StageStorage::hold) for an approval, and the sizes of its build directories. Leaves
    /// the stage as it is. Blocking.
    fn look_at_held(&self, _: &ApprovalId) -> io::Result<Option<(HeldChanges, Vec<BuiltChange>)>> {
        Ok(None)
    }

    /// Claims the changes that a stage [holds](crate::StageStorage::hold) for an approval, if there are any. If the returned value is
    /// dropped, they stay held, unless the stage is [released](crate::StageStorage::release). Blocking.
    fn held_changes(&self, _: &ApprovalId) -> io::Result<Option<ProcessChanges>> {
        Ok(None)
    }

    /// Decides on the stages of killed processes whose call was about to make their changes. If the call had made them, keeps those
    /// of build directories as well, and closes the approval for which the stage is held with `close`, which returns whether the
    /// approval is no longer on record. Otherwise drops build directories with the rest, or keeps holding everything. Returns
    /// sentences for a person. Blocking.
    fn recover_stages(
        &self,
        _: &dyn Fn(&CallId) -> CommitState,
        _close: &dyn Fn(&ApprovalId) -> bool,
    ) -> Vec<String> {
        Vec::new()
    }
}

/// The confinement of programs.
///
/// ```
/// use windlass_core::{Confinement, SandboxLevel, NetworkAccess};
/// let usual = Confinement::default();
/// assert_eq!((usual.level, &usual.network), (SandboxLevel::Workspace, &NetworkAccess::None));
/// assert_eq!(usual.to_string(), "sandbox workspace, network none");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Extent of changes that programs may make.
    pub level: SandboxLevel,
    /// Hosts that programs may reach.
    pub network: NetworkAccess,
    /// Mechanism that enforces the confinement.
    pub backend: Backend,
}

impl Confinement {
    /// Returns whether the confinement is fully enforced: changes can be undone, and programs cannot change protected paths that
    /// other programs act on.
    ///
    /// ```
    /// use windlass_core::{Backend, Confinement};
    /// assert!(Confinement::default().is_whole());
    /// assert!(!Confinement { backend: Backend::Landlock, ..Confinement::default() }.is_whole());
    /// ```
    pub fn is_whole(&self) -> bool {
        self.level != SandboxLevel::Off && self.backend.is_whole()
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sandbox {}", self.level)?;
        match self.backend {
            Backend::Landlock if self.level != SandboxLevel::Off => {
                f.write_str(" by Landlock alone")?;
            }
            Backend::Auto if self.level != SandboxLevel::Off => f.write_str(" by what there is")?,
            _ => {}
        }
        write!(f, ", network {}", self.network)
    }
}

/// The mechanism that confines programs.
///
/// ```
/// use windlass_core::Backend;
/// assert_eq!("landlock".parse(), Ok(Backend::Landlock));
/// assert_eq!(Backend::default().to_string(), "namespaces");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// Namespaces with everything that builds on them. If this process may not create namespaces, bubblewrap creates them; if
    /// bubblewrap is missing or may not either, no program runs.
    #[default]
    Namespaces,
    /// Namespaces that are always created by bubblewrap.
    Bubblewrap,
    /// Landlock and a filter of system calls, which enforce less.
    Landlock,
    /// Namespaces if possible, Landlock otherwise. A machine chooses one of them before any program runs.
    Auto,
}

impl Backend {
    /// Every backend, by the name that the configuration uses.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("namespaces", Self::Namespaces),
        ("bubblewrap", Self::Bubblewrap),
        ("landlock", Self::Landlock),
        ("auto", Self::Auto),
    ];

    /// Returns whether it enforces the complete confinement.
    ///
    /// ```
    /// use windlass_core::Backend;
    /// assert!(Backend::Bubblewrap.is_whole());
    /// assert!(!Backend::Landlock.is_whole());
    /// ```
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Namespaces | Self::Bubblewrap)
    }
}

impl FromStr for Backend {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, backend)| *backend).ok_or_else(|| {
            unknown_name_message("sandbox back-end", text, &Self::NAMES.map(|(name, _)| name))
        })
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, backend)| backend == self);
        f.write_str(name.map_or("namespaces", |(name, _)| name))
    }
}

/// The extent of changes that a program may make.
///
/// ```
/// use windlass_core::SandboxLevel;
/// assert_eq!("staged".parse(), Ok(SandboxLevel::Staged));
/// assert_eq!(SandboxLevel::ReadOnly.to_string(), "read-only");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxLevel {
    /// Everything that the person may change.
    Off,
    /// The workspace; changes are recorded when the program ends, and can be undone.
    #[default]
    Workspace,
    /// The workspace, after a person has seen the changes and approved them.
    Staged,
    /// A view of the workspace, including build directories, whose changes are discarded when the program ends.
    Discard,
    /// Nothing but temporary files of its own.
    ReadOnly,
}

impl SandboxLevel {
    /// Every level, by the name that options and configuration use.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("off", Self::Off),
        ("read-only", Self::ReadOnly),
        ("workspace", Self::Workspace),
        ("staged", Self::Staged),
        ("discard", Self::Discard),
    ];

    /// Returns the stricter of two levels.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        self.max(other)
    }
}

impl FromStr for SandboxLevel {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, level)| *level).ok_or_else(|| {
            unknown_name_message("sandbox", text, &Self::NAMES.map(|(name, _)| name))
        })
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, level)| level == self);
        f.write_str(name.map_or("workspace", |(name, _)| name))
    }
}

/// The hosts that a program may reach.
///
/// ```
/// use windlass_core::NetworkAccess;
/// let two: NetworkAccess = "docs.rs,*.example.org".parse().unwrap();
/// assert_eq!(two, NetworkAccess::Hosts(vec!["docs.rs".into(), "*.example.org".into()]));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NetworkAccess {
    /// No host.
    #[default]
    None,
    /// Every host.
    Full,
    /// These hosts, through a proxy that blocks all others.
    Hosts(Vec<String>),
}

impl NetworkAccess {
    /// Returns the hosts that both admit.
    ///
    /// ```
    /// use windlass_core::NetworkAccess;
    /// let net = |text: &str| text.parse::<NetworkAccess>().unwrap_or_default();
    /// assert_eq!(net("full").intersection(&net("docs.rs")), net("docs.rs"));
    /// assert_eq!(net("*.org,docs.rs").intersection(&net("a.org,b.com")), net("a.org"));
    /// assert_eq!(net("docs.rs").intersection(&net("example.com")), NetworkAccess::None);
    /// ```
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::Full, narrower) | (narrower, Self::Full) => narrower.clone(),
            (Self::Hosts(one), Self::Hosts(two)) => {
                let within = |host: &&String, list: &[String]| {
                    list.iter().any(|pattern| covers_host(pattern, host))
                };
                let mut both: Vec<String> =
                    one.iter().filter(|host| within(host, two)).cloned().collect();
                both.extend(two.iter().filter(|host| within(host, one)).cloned());
                both.sort_unstable();
                both.dedup();
                Self::of_hosts(both)
            }
        }
    }

    /// Makes a list of hosts, or `None` if it is empty.
    pub(crate) fn of_hosts(hosts: impl IntoIterator<Item = String>) -> Self {
        let hosts: Vec<String> = hosts.into_iter().collect();
        if hosts.is_empty() { Self::None } else { Self::Hosts(hosts) }
    }

    /// Returns whether a host, with or without a port, may be reached.
    pub fn admits(&self, host: &str) -> bool {
        match self {
            Self::None => false,
            Self::Full => true,
            Self::Hosts(list) => list.iter().any(|pattern| covers_host(pattern, host)),
        }
    }
}

/// Returns whether an entry of a host list covers another host, or a narrower pattern. An entry without a port covers the ports 80
/// and 443.
fn covers_host(pattern: &str, host: &str) -> bool {
    let (pattern, pattern_port) = split_port(pattern);
    let (host, port) = split_port(host);
    let same_port = match pattern_port {
        None => matches!(port, None | Some("80" | "443")),
        port_of_pattern => port == port_of_pattern,
    };
    let same_host = match pattern.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None => pattern.eq_ignore_ascii_case(host),
    };
    same_host && same_port
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.contains(':') =>
        {
            (name, Some(port))
        }
        _ => (host, None),
    }
}

impl FromStr for NetworkAccess {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "none" | "" => Self::None,
            "full" => Self::Full,
            hosts => Self::Hosts(hosts.split(',').map(|host| host.trim().to_owned()).collect()),
        })
    }
}

impl fmt::Display for NetworkAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Full => f.write_str("full"),
            Self::Hosts(hosts) => f.write_str(&hosts.join(",")),
        }
    }
}

/// A request to start a program.
///
/// ```
/// use windlass_core::{Host, ProcessRequest, Program, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let directory = host.files().resolve("data".as_ref())?;
/// let request = ProcessRequest::new(Program::words(["sort", "-u"]), directory);
/// assert_eq!(request.program.to_string(), "sort -u");
/// # Ok::<(), windlass_core::FileError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ProcessRequest {
    /// Program and arguments.
    pub program: Program,
    /// Working directory.
    pub directory: Resolved,
    /// Environment variables in addition to the default ones.
    pub environment: Vec<(String, String)>,
    /// Standard input.
    pub stdin: Stdin,
    /// Size of the terminal that the program gets instead of pipes.
    pub terminal: Option<TerminalSize>,
    /// Destination of standard error.
    pub errors: StderrTarget,
    /// Access to the workspace that the program needs.
    pub access: Access,
    /// True for a job: other programs change the workspace while it runs, and it must see these changes.
    pub is_job: bool,
    /// Paths that other programs act on because a link or git's configuration leads to them. A job cannot change them.
    pub obeyed: Vec<PathBuf>,
    /// True if changes of build directories are recorded like all others, because all changes become proposals.
    pub records_build_directories: bool,
    /// True if changes of the home directory stay for later programs when those of the workspace are kept. If the latter are
    /// decided on first, or the program only reads, changes of its home are dropped: they would be programs and settings that later
    /// commands run.
    pub keeps_home: bool,
    /// Session of the program: programs of one session share `/tmp` and the loopback interface.
    pub session: Option<SessionId>,
    /// Rights from which the program's view of the files is computed; those of the machine's settings if `None`.
    pub rights: Option<Arc<FileRights>>,
    /// Hosts that it may reach, if these are not those of the machine's settings.
    pub network: Option<NetworkAccess>,
    /// Hosts that a person named: they may have addresses that are not public.
    pub private_hosts: Vec<String>,
    /// Counter of the network traffic that passes through our proxy.
    pub meter: Option<Arc<dyn TrafficMeter>>,
}

/// Counts bytes of network traffic against a budget.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use windlass_core::TrafficMeter;
///
/// #[derive(Debug)]
/// struct Kilobyte(AtomicU64);
///
/// impl TrafficMeter for Kilobyte {
///     fn pass(&self, bytes: u64) -> bool {
///         self.0.fetch_add(bytes, Ordering::Relaxed) + bytes < 1_000
///     }
/// }
/// let meter = Kilobyte(AtomicU64::new(0));
/// assert!(meter.pass(999) && !meter.pass(1));
/// ```
pub trait TrafficMeter: fmt::Debug + Send + Sync {
    /// Adds bytes (may be 0). Returns false once the budget is spent.
    fn pass(&self, bytes: u64) -> bool;
}

impl ProcessRequest {
    /// Makes a request for a program with empty input that may change the workspace as far as the confinement allows.
    pub fn new(program: Program, directory: Resolved) -> Self {
        Self {
            program,
            directory,
            environment: Vec::new(),
            stdin: Stdin::Closed,
            terminal: None,
            errors: StderrTarget::WithOutput,
            access: Access::Staged,
            is_job: false,
            obeyed: Vec::new(),
            records_build_directories: false,
            keeps_home: true,
            session: None,
            rights: None,
            network: None,
            private_hosts: Vec::new(),
            meter: None,
        }
    }
}

/// A program and its arguments, or a command for a shell.
///
/// ```
/// use windlass_core::Program;
/// assert_eq!(Program::words(["git", "status"]).to_string(), "git status");
/// assert_eq!(Program::Shell("make | tail".into()).to_string(), "make | tail");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A command for bash.
    Shell(String),
    /// A command for another shell; see [`Shell::command`].
    InShell(Shell, String),
    /// A program, by name or path, and its arguments.
    Words(Vec<OsString>),
}

impl Program {
    /// Makes a program from its name and arguments.
    pub fn words<S: Into<OsString>>(words: impl IntoIterator<Item = S>) -> Self {
        Self::Words(words.into_iter().map(Into::into).collect())
    }

    /// Returns the shell that runs it, if that is not bash.
    pub fn shell(&self) -> Option<&Shell> {
        match self {
            Self::InShell(shell, _) => Some(shell),
            Self::Shell(_) | Self::Words(_) => None,
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell(text) | Self::InShell(_, text) => f.write_str(text),
            Self::Words(words) => {
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                f.write_str(&words.join(" "))
            }
        }
    }
}

/// The standard input of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Empty input.
    #[default]
    Closed,
    /// These bytes, then the end of input.
    Bytes(Vec<u8>),
    /// Input that is [written](Process::write) while the program runs.
    Open,
}

/// The destination of a program's standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StderrTarget {
    /// Its output, in the order in which it was written.
    #[default]
    WithOutput,
    /// A stream of its own, [read](Process::read_errors) separately. Not possible with a terminal.
    Apart,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { columns: 120, rows: 40 }
    }
}

/// The access to the workspace that a program needs. The confinement can only reduce it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads the workspace.
    Read,
    /// Changes the workspace: on a stage, if the machine has one, from which the changes are taken when the program ends.
    Staged,
    /// Changes the workspace directly, visible to other programs: servers, watchers, and other long-running programs.
    Direct,
}

/// A running program. Dropping it kills it.
///
/// ```
/// use windlass_core::{Host, Processes, Process, ProcessEnd, ProcessRequest, Program, testing::EchoHost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass_core::ToolError> {
/// // On this machine every program prints its own words.
/// let host = EchoHost::default();
/// let request = ProcessRequest::new(Program::words(["make", "all"]), host.files().resolve(".".as_ref())?);
/// let process = host.processes().expect("it has programs").start(&request)?;
/// let mut printed = Vec::new();
/// while process.read(&mut printed).await.is_ok_and(|read| read > 0) {}
/// assert_eq!((printed.as_slice(), process.ended().await), (b"make all".as_slice(), ProcessEnd::Exited(0)));
/// # Ok(())
/// # }
/// ```
pub trait Process: Send + Sync {
    /// Waits for output and appends it; returns 0 when no process can write any more. Dropping the future loses no output.
    fn read<'a>(&'a self, into: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>>;

    /// Does the same for standard error, if it is [separate](StderrTarget::Apart); returns 0 at once if not.
    fn read_errors<'a>(&'a self, into: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>> {
        let _ = into;
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Writes to standard input, which must be [open](Stdin::Open) or a terminal.
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>>;

    /// Waits until the program itself has ended; processes that it left behind are ended then, too.
    fn ended(&self) -> BoxFuture<'_, ProcessEnd>;

    /// Sends a signal to every process of the program.
    fn signal(&self, signal: Signal) -> io::Result<()>;

    /// Kills every process of the program.
    fn kill(&self);

    /// Returns whether the program only waits for typed input.
    fn waits_for_input(&self) -> bool;

    /// Returns the changes of the program after it has ended. Blocking; called once.
    fn changes(&self) -> Result<ProcessChanges, ToolError>;

    /// Returns the changes so far of a program that works directly on the workspace; `None` for any other. Blocking.
    fn changes_so_far(&self) -> Option<Vec<ProcessChange>> {
        None
    }

    /// Returns whether [`Process::changes`] is fast enough to be called without another thread.
    fn are_changes_at_hand(&self) -> bool {
        false
    }

    /// Returns the reason why a path was absent or could not be changed, if the program's confinement is the cause. The path is as
    /// the program wrote it: absolute, relative to its directory, or `~/…`. Blocking; called after the program has ended.
    fn explain(&self, path: &Path, used: PathUse) -> Option<Absence> {
        let _ = (path, used);
        None
    }

    /// Returns the hosts that the program tried to reach without being allowed to, as [`NetworkAccess::Hosts`] names them. The list
    /// may be incomplete: host lookups that bypass the proxy fail without being noted.
    fn refused_hosts(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The end of a program.
///
/// ```
/// use windlass_core::ProcessEnd;
/// assert_eq!(ProcessEnd::Exited(2).to_string(), "exit code 2");
/// assert_eq!(ProcessEnd::Signalled(11).to_string(), "ended by signal 11 (SEGV)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEnd {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It was killed because its processes used more memory than this many bytes.
    OutOfMemory(u64),
    /// It was killed because its processes used more of the disk than this many bytes. Its changes are dropped.
    OutOfDisk(u64),
    /// It was killed because it started more processes than this number.
    TooManyProcesses(u64),
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signalled(number) => match Signal::name(*number) {
                Some(name) => write!(f, "ended by signal {number} ({name})"),
                None => write!(f, "ended by signal {number}"),
            },
            Self::OutOfMemory(limit) => {
                write!(f, "ended because it used more than {} MiB of memory", limit >> 20)
            }
            Self::OutOfDisk(limit) => {
                write!(f, "ended because it used more than {} MiB of disk", limit >> 20)
            }
            Self::TooManyProcesses(limit) => {
                write!(f, "ended because it started more than {limit} processes")
            }
        }
    }
}

/// A signal for a process.
///
/// ```
/// use windlass_core::Signal;
/// assert_eq!("SIGTERM".parse::<Signal>().unwrap().number(), 15);
/// assert!("FOO".parse::<Signal>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(i32);

impl Signal {
    /// Asks the process to end.
    pub const TERM: Self = Self(15);
    /// Kills the process at once.
    pub const KILL: Self = Self(9);
    /// Interrupts the process, like Ctrl-C.
    pub const INT: Self = Self(2);

    const NAMES: [(&'static str, i32); 15] = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ILL", 4),
        ("ABRT", 6),
        ("BUS", 7),
        ("FPE", 8),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("TERM", 15),
        ("CONT", 18),
        ("STOP", 19),
    ];

    /// Returns the signal's number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Returns the name of a signal by its number.
    pub fn name(number: i32) -> Option<&'static str> {
        Self::NAMES.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
    }
}

impl FromStr for Signal {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let known =
            Self::NAMES.iter().find(|(known, number)| *known == name || number.to_string() == name);
        known.map(|(_, number)| Self(*number)).ok_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("unknown signal `{text}`: it is one of {}", names.join(", "))
        })
    }
}
