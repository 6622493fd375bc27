//! The door to programs: start one, read what it prints, end all of it, learn what it changed.
//!
//! How a program is confined is the machine's business and is decided by people, when the machine is set up; a request says only
//! what it needs of that. A program that is dropped is dead, with everything that it started.

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
use crate::nearest::unknown;
use crate::{ApprovalId, BuiltChange, CallId, CommitState, FileRights, SessionId, ToolError};

/// Starts programs: the one way in which a child of ours comes to life.
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
    /// How programs are confined.
    fn confinement(&self) -> &Confinement;

    /// The shell for commands of models. The default is bash.
    fn shell(&self) -> Shell {
        Shell::default()
    }

    /// Starts a program. Blocking, for some milliseconds; must be called inside a runtime.
    fn start(&self, request: &ProcessRequest) -> Result<Box<dyn Process>, ToolError>;

    /// Whether that takes no longer than any runtime takes to start a program: then no other thread need be woken up for it.
    fn starts_at_once(&self, _: &ProcessRequest) -> bool {
        false
    }

    /// A file without a name, for output that is too long to be held in memory.
    fn scratch(&self) -> io::Result<std::fs::File>;

    /// The changes that a stage [holds](crate::Stage::hold) for a question, and the size of those of build directories. They stay where they
    /// are. Blocking.
    fn look_at_held(&self, _: &ApprovalId) -> io::Result<Option<(HeldChanges, Vec<BuiltChange>)>> {
        Ok(None)
    }

    /// Claims the changes that a stage [holds](crate::Stage::hold) for a question, if there are any. They wait on when the value that is
    /// returned is dropped, unless the stage is [released](crate::Stage::release). Blocking.
    fn held_changes(&self, _: &ApprovalId) -> io::Result<Option<ProcessChanges>> {
        Ok(None)
    }

    /// Decides on the stages of killed processes whose call was about to make their changes. If it had made them, those of build
    /// directories are kept, too, and the question that the stage is held for is closed by `close`, which returns whether it is off the
    /// record. Otherwise build directories are dropped with the rest, or all is held on. Returns sentences for a person. Blocking.
    fn recover_stages(
        &self,
        _: &dyn Fn(&CallId) -> CommitState,
        _close: &dyn Fn(&ApprovalId) -> bool,
    ) -> Vec<String> {
        Vec::new()
    }
}

/// How programs are confined.
///
/// ```
/// use windlass_core::{Confinement, Level, NetworkAccess};
/// let usual = Confinement::default();
/// assert_eq!((usual.level, &usual.network), (Level::Workspace, &NetworkAccess::None));
/// assert_eq!(usual.to_string(), "sandbox workspace, network none");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// What they may change.
    pub level: Level,
    /// Whom they may talk to.
    pub network: NetworkAccess,
    /// What holds them to that.
    pub backend: Backend,
}

impl Confinement {
    /// Whether programs are held by all that there is: what they did can be undone, and no place that others act on is theirs to
    /// change.
    ///
    /// ```
    /// use windlass_core::{Backend, Confinement};
    /// assert!(Confinement::default().is_whole());
    /// assert!(!Confinement { backend: Backend::Landlock, ..Confinement::default() }.is_whole());
    /// ```
    pub fn is_whole(&self) -> bool {
        self.level != Level::Off && self.backend.is_whole()
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sandbox {}", self.level)?;
        match self.backend {
            Backend::Landlock if self.level != Level::Off => f.write_str(" by Landlock alone")?,
            Backend::Auto if self.level != Level::Off => f.write_str(" by what there is")?,
            _ => {}
        }
        write!(f, ", network {}", self.network)
    }
}

/// What holds programs to their confinement.
///
/// ```
/// use windlass_core::Backend;
/// assert_eq!("landlock".parse(), Ok(Backend::Landlock));
/// assert_eq!(Backend::default().to_string(), "namespaces");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// Namespaces, and all that is laid over them. Where we may make none, one that bubblewrap makes for us; where it is not there
    /// or may not either, nothing runs.
    #[default]
    Namespaces,
    /// The same, always with what bubblewrap makes for us.
    Bubblewrap,
    /// Landlock and a filter of system calls, which hold less.
    Landlock,
    /// Namespaces where there are, Landlock where not. A machine settles for one of them before anything runs.
    Auto,
}

impl Backend {
    /// Each, by the name that the configuration uses.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("namespaces", Self::Namespaces),
        ("bubblewrap", Self::Bubblewrap),
        ("landlock", Self::Landlock),
        ("auto", Self::Auto),
    ];

    /// Whether it holds all that there is to hold.
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
        found
            .map(|(_, backend)| *backend)
            .ok_or_else(|| unknown("sandbox back-end", text, &Self::NAMES.map(|(name, _)| name)))
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, backend)| backend == self);
        f.write_str(name.map_or("namespaces", |(name, _)| name))
    }
}

/// What a program may change.
///
/// ```
/// use windlass_core::Level;
/// assert_eq!("staged".parse(), Ok(Level::Staged));
/// assert_eq!(Level::ReadOnly.to_string(), "read-only");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// All that the person may.
    Off,
    /// The workspace; what it changed is written down when it ends, and can be undone.
    #[default]
    Workspace,
    /// The same, once a person has seen what it would change and said yes.
    Staged,
    /// A view of the workspace, build directories included, that is thrown away when it ends.
    Discard,
    /// Nothing but temporary files of its own.
    ReadOnly,
}

impl Level {
    /// Every level, by the name that options and configuration use.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("off", Self::Off),
        ("read-only", Self::ReadOnly),
        ("workspace", Self::Workspace),
        ("staged", Self::Staged),
        ("discard", Self::Discard),
    ];

    /// The stricter of two levels.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        self.max(other)
    }
}

impl FromStr for Level {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, level)| *level)
            .ok_or_else(|| unknown("sandbox", text, &Self::NAMES.map(|(name, _)| name)))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, level)| level == self);
        f.write_str(name.map_or("workspace", |(name, _)| name))
    }
}

/// Whom a program may talk to.
///
/// ```
/// use windlass_core::NetworkAccess;
/// let two: NetworkAccess = "docs.rs,*.example.org".parse().unwrap();
/// assert_eq!(two, NetworkAccess::Hosts(vec!["docs.rs".into(), "*.example.org".into()]));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NetworkAccess {
    /// Nobody.
    #[default]
    None,
    /// Everybody.
    Full,
    /// These hosts, by way of a proxy that lets nothing else through.
    Hosts(Vec<String>),
}

impl NetworkAccess {
    /// The hosts that both admit.
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

    /// These hosts, or none.
    pub(crate) fn of_hosts(hosts: impl IntoIterator<Item = String>) -> Self {
        let hosts: Vec<String> = hosts.into_iter().collect();
        if hosts.is_empty() { Self::None } else { Self::Hosts(hosts) }
    }

    /// Whether a host, with or without a port, is among those that may be reached.
    pub fn admits(&self, host: &str) -> bool {
        match self {
            Self::None => false,
            Self::Full => true,
            Self::Hosts(list) => list.iter().any(|pattern| covers_host(pattern, host)),
        }
    }
}

/// Whether a host of a list stands for another host, or for a narrower pattern. A host without a port stands for its ports 80 and 443.
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

/// A program to start.
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
    /// What to run.
    pub program: Program,
    /// Where.
    pub directory: Resolved,
    /// Variables besides those that every program gets.
    pub environment: Vec<(String, String)>,
    /// What it reads.
    pub stdin: Stdin,
    /// A terminal of this size instead of pipes.
    pub terminal: Option<TerminalSize>,
    /// Where its standard error goes.
    pub errors: Errors,
    /// What it needs of the workspace.
    pub access: Access,
    /// It goes on while others change the workspace, and must see what they change.
    pub is_job: bool,
    /// Paths that other programs act on because a link or git's configuration leads to them. A job cannot change them.
    pub obeyed: Vec<PathBuf>,
    /// Changes of build directories are recorded like all others, because all of them are only proposed.
    pub records_build_directories: bool,
    /// Its changes of its home stay for later programs if those of the workspace are kept. Where these are not kept unseen, those of its
    /// home go with it, as do those of a program that only reads: they would be programs and settings that later commands run.
    pub keeps_home: bool,
    /// The session that it belongs to: programs of one session share `/tmp` and the loopback interface.
    pub session: Option<SessionId>,
    /// The rights that its view of the files is computed from; those of the machine's settings if not given.
    pub rights: Option<Arc<FileRights>>,
    /// The hosts that it may reach, if they are fewer than those of the machine's settings.
    pub network: Option<NetworkAccess>,
    /// Those of its hosts that a person named: these may have addresses that are not public.
    pub private_hosts: Vec<String>,
    /// Who counts what it moves over the network, as far as that passes through our hands.
    pub meter: Option<Arc<dyn Meter>>,
}

/// Counts what a program moves over the network, and says when it is enough.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use windlass_core::Meter;
///
/// #[derive(Debug)]
/// struct Kilobyte(AtomicU64);
///
/// impl Meter for Kilobyte {
///     fn pass(&self, bytes: u64) -> bool {
///         self.0.fetch_add(bytes, Ordering::Relaxed) + bytes < 1_000
///     }
/// }
/// let meter = Kilobyte(AtomicU64::new(0));
/// assert!(meter.pass(999) && !meter.pass(1));
/// ```
pub trait Meter: fmt::Debug + Send + Sync {
    /// Adds bytes that have passed, be they none; whether more may.
    fn pass(&self, bytes: u64) -> bool;
}

impl ProcessRequest {
    /// A program that reads nothing and may change the workspace as far as the confinement lets it.
    pub fn new(program: Program, directory: Resolved) -> Self {
        Self {
            program,
            directory,
            environment: Vec::new(),
            stdin: Stdin::Closed,
            terminal: None,
            errors: Errors::WithOutput,
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

/// What to run.
///
/// ```
/// use windlass_core::Program;
/// assert_eq!(Program::words(["git", "status"]).to_string(), "git status");
/// assert_eq!(Program::Shell("make | tail".into()).to_string(), "make | tail");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A text for bash.
    Shell(String),
    /// A text for another shell; see [`Shell::command`].
    InShell(Shell, String),
    /// A program, by name or path, and its arguments.
    Words(Vec<OsString>),
}

impl Program {
    /// A program and its arguments.
    pub fn words<S: Into<OsString>>(words: impl IntoIterator<Item = S>) -> Self {
        Self::Words(words.into_iter().map(Into::into).collect())
    }

    /// The shell that runs it, if that is another than bash.
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

/// What a program reads from its standard input.
///
/// ```
/// use windlass_core::Stdin;
/// assert!(matches!(Stdin::default(), Stdin::Closed));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: it is at its end.
    #[default]
    Closed,
    /// These bytes, and then it is at its end.
    Bytes(Vec<u8>),
    /// What is [written](Process::write) while it runs.
    Open,
}

/// Where the standard error of a program goes.
///
/// ```
/// use windlass_core::Errors;
/// assert_eq!(Errors::default(), Errors::WithOutput);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Errors {
    /// Into its output, in the order in which it was written.
    #[default]
    WithOutput,
    /// Elsewhere, to be [read](Process::read_errors) on its own. A terminal has no such place.
    Apart,
}

/// How large a terminal is.
///
/// ```
/// use windlass_core::TerminalSize;
/// assert_eq!(TerminalSize::default(), TerminalSize { columns: 120, rows: 40 });
/// ```
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

/// What a program needs of the workspace. The confinement can only make it less.
///
/// ```
/// use windlass_core::Access;
/// assert_ne!(Access::Staged, Access::Direct, "only one of the two can be undone");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To look at it.
    Read,
    /// To change it: on a stage, where the machine has one, from which the changes are taken when it ends.
    Staged,
    /// To change it while others look on: servers, watchers, whatever runs for long.
    Direct,
}

/// A program that was started. Dropped, it is ended.
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
    /// Waits for output and appends it; 0 when nobody is left who could write. May be dropped without loss.
    fn read<'a>(&'a self, into: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>>;

    /// The same of its standard error, if that is [apart](Errors::Apart); 0 at once if not.
    fn read_errors<'a>(&'a self, into: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>> {
        let _ = into;
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Writes to its standard input, which must be [open](Stdin::Open) or a terminal.
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>>;

    /// Waits until the program itself has ended; what it left running is ended then too.
    fn ended(&self) -> BoxFuture<'_, ProcessEnd>;

    /// Tells everything that belongs to it.
    fn signal(&self, signal: Signal) -> io::Result<()>;

    /// Ends everything that belongs to it, at once.
    fn kill(&self);

    /// Whether it does nothing but wait for somebody to type.
    fn waits_for_input(&self) -> bool;

    /// What it changed, when it has ended. Blocking; asked once.
    fn changes(&self) -> Result<ProcessChanges, ToolError>;

    /// The changes so far of a program that works on the real workspace; `None` for any other. Blocking.
    fn changes_so_far(&self) -> Option<Vec<ProcessChange>> {
        None
    }

    /// Whether that is known in less time than another thread takes to wake up.
    fn are_changes_at_hand(&self) -> bool {
        false
    }

    /// The reason why it did not have a path or could not change it, if its confinement is the reason. The path is as the program
    /// wrote it: absolute, relative to its directory, or `~/…`. Blocking; asked when it has ended.
    fn explain(&self, path: &Path, used: PathUse) -> Option<Absence> {
        let _ = (path, used);
        None
    }

    /// The hosts that it wanted to reach and that are not among those that it may, as [`NetworkAccess::Hosts`] names them. Not all
    /// are known: a program that looks for a host by itself finds nobody who could note it.
    fn refused_hosts(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How a program ended.
///
/// ```
/// use windlass_core::ProcessEnd;
/// assert_eq!(ProcessEnd::Exited(2).to_string(), "exit code 2");
/// assert_eq!(ProcessEnd::Signalled(11).to_string(), "ended by signal 11 (SEGV)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It and what it started used more memory than they may: this many bytes.
    OutOfMemory(u64),
    /// It and what it started used more of the disk than they may: this many bytes. What it changed is dropped.
    OutOfDisk(u64),
    /// It started more processes than it may: this many.
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

/// What a process can be told.
///
/// ```
/// use windlass_core::Signal;
/// assert_eq!("SIGTERM".parse::<Signal>().unwrap().number(), 15);
/// assert!("FOO".parse::<Signal>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(i32);

impl Signal {
    /// To end.
    pub const TERM: Self = Self(15);
    /// To end without a word.
    pub const KILL: Self = Self(9);
    /// As if somebody had pressed Ctrl-C.
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

    /// Its number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// The name of a signal by its number.
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
