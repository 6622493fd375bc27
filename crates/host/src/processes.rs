//! Programs on this machine: started in surroundings that fit how they are confined, read from, ended, and asked what they
//! changed.
//!
//! How far a program reaches is decided by the settings, which come from people, never by what a model asked for.

mod bubblewrap;
mod environment;
mod group;
mod ladder;
mod program;
mod refusal;
mod running;
mod stand_ins;
mod surroundings;
mod terminal;
mod waiting;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

use windlass_core::{
    Access, Confinement, Errors, Level, NetworkAccess, Process, ProcessRequest, Processes, Stdin,
    ToolError, Tracking,
};
use windlass_sandbox::{Launch, Limits, Protected};

use self::group::Group;
pub use self::group::control_group;
use self::refusal::Refusal;
use self::running::{Output, Running};
use self::stand_ins::StandIns;
use self::terminal::Terminal;
use crate::proxy::{Proxy, ProxySettings};
use crate::random;
use crate::stage::{PASS_THROUGH, Scan, Stage, pass_through};

/// How programs are run.
///
/// ```
/// use windlass_core::Level;
/// let settings = windlass_host::ProcessSettings::default();
/// assert_eq!(settings.confinement.level, Level::Workspace);
/// ```
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// How they are confined.
    pub confinement: Confinement,
    /// Where stages and temporary files are; a directory of the machine's own for temporary files if not given.
    pub state: Option<PathBuf>,
    /// Variables that every program gets: names to inherit, `NAME=value` to set.
    pub environment: Vec<String>,
    /// Names of directories in which programs change what is really there, because it can be made again.
    pub pass_through: Vec<String>,
    /// Files and directories besides the usual that no confined program can look into.
    pub hidden: Vec<PathBuf>,
    /// Places in the workspace besides the usual that no confined program can change.
    pub protected: Vec<PathBuf>,
    /// Bytes of memory that a program may use, with all that it starts.
    pub memory: u64,
    /// Processes and threads that a program may start.
    pub processes: u64,
    /// Whether the hosts of a network that is not closed may have private addresses.
    pub private_hosts: bool,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            confinement: Confinement::default(),
            state: None,
            environment: Vec::new(),
            pass_through: PASS_THROUGH.iter().map(ToString::to_string).collect(),
            hidden: Vec::new(),
            protected: Vec::new(),
            memory: limits.memory,
            processes: limits.processes,
            private_hosts: false,
        }
    }
}

/// Programs in one workspace.
#[derive(Debug)]
pub struct LocalProcesses {
    workspace: PathBuf,
    settings: ProcessSettings,
    /// What is `/tmp` for the programs: made when the first one is started.
    temporary: OnceLock<PathBuf>,
    /// What others left behind is looked for once.
    swept: Once,
    /// Whether there was next to nothing in the workspace the last time that it was looked through.
    is_small: AtomicBool,
}

/// Of so many files and directories one knows at once what became of them.
const FEW: usize = 64;

impl LocalProcesses {
    /// For a workspace: absolute, with no link in it.
    pub fn new(workspace: &Path, settings: ProcessSettings) -> Self {
        Self {
            workspace: workspace.to_owned(),
            settings: settings.settled(workspace),
            temporary: OnceLock::new(),
            swept: Once::new(),
            is_small: AtomicBool::new(false),
        }
    }

    fn state(&self) -> PathBuf {
        self.settings.state.clone().unwrap_or_else(|| {
            let user = rustix::process::geteuid().as_raw();
            std::env::temp_dir().join(format!("windlass-{user}"))
        })
    }

    fn temporary(&self) -> io::Result<&Path> {
        if let Some(made) = self.temporary.get() {
            return Ok(made);
        }
        let path = self.state().join("tmp").join(random::name()?);
        private(&path)?;
        Ok(self.temporary.get_or_init(|| path))
    }

    /// What a confined program calls it.
    fn temporary_name(&self) -> &OsStr {
        let own = self.temporary.get().filter(|_| self.is_on_lower_rung());
        own.map_or("/tmp".as_ref(), |path| path.as_os_str())
    }

    /// Takes away what processes left behind that were killed. What cannot be removed is tried again by the next one.
    fn sweep(&self) {
        let state = self.state();
        drop(Stage::sweep(&state.join("stages")));
        StandIns::sweep(&state.join("stand-ins"));
    }

    /// What the request gets of the workspace, as far as the confinement lets it.
    fn access(&self, request: &ProcessRequest) -> Access {
        match (self.settings.confinement.level, request.access) {
            (Level::ReadOnly, _) | (_, Access::Read) => Access::Read,
            (Level::Off, _) | (_, Access::Direct) => Access::Direct,
            _ if self.is_on_lower_rung() => Access::Direct,
            (Level::Workspace | Level::Staged, Access::Staged) => Access::Staged,
        }
    }

    fn launch(&self, request: &ProcessRequest) -> Result<Running, Refusal> {
        let access = self.access(request);
        let is_confined = self.settings.confinement.level != Level::Off;
        let has_view = is_confined && !self.is_on_lower_rung();
        let fence = match (is_confined, has_view) {
            (false, _) => None,
            (true, true) => Some(self.fence(access)),
            (true, false) => Some(self.lone_fence(access, &request.hidden)?),
        };
        let stage = (access == Access::Staged).then(|| self.stage()).transpose()?;
        let passed = match access {
            Access::Read => Vec::new(),
            _ => pass_through(&self.workspace, &self.settings.pass_through),
        };
        let before =
            (access == Access::Direct).then(|| Scan::of(&self.workspace, &passed)).transpose()?;
        if let Some(before) = &before {
            self.is_small.store(before.len() <= FEW, Ordering::Relaxed);
        }
        let mut channels = Channels::open(request)?;
        let view = has_view
            .then(|| self.view(access, stage.as_ref(), &passed, &request.hidden))
            .transpose()?;
        let (program, arguments) = program::find(&request.program, &self.workspace)?;
        let missing = view.as_ref().map_or_else(Vec::new, |view| self.missing(&view.protected));
        let is_real = access == Access::Direct;
        let stand_ins = self.stand_ins(if is_real { missing.clone() } else { Vec::new() })?;
        let group = Group::make(self.settings.memory, self.settings.processes);
        let mut launch = Launch {
            program,
            arguments,
            environment: self.environment(request, is_confined),
            directory: request.directory.path.clone(),
            stdin: channels.stdin.as_ref().map(OwnedFd::as_fd),
            output: channels.output.as_fd(),
            errors: channels.errors.as_ref().map(OwnedFd::as_fd),
            terminal: request.terminal.is_some(),
            view,
            users: None,
            fence,
            limits: self.limits(),
            group: group.as_ref().map(Group::members),
        };
        let mut confined = self.climb(&mut launch)?;
        let proxy = self.proxy(&mut confined, request)?;
        channels.close_theirs();
        let tracking = match access {
            Access::Read if is_confined => Tracking::Nothing,
            Access::Read => Tracking::Unknown,
            Access::Staged => Tracking::Staged,
            Access::Direct => Tracking::Scanned,
        };
        let trail = running::Trail {
            workspace: self.workspace.clone(),
            tracking,
            stage,
            before,
            stand_ins,
            placeholders: missing,
            passed,
            names: self.settings.pass_through.clone(),
            unprotected: self.is_on_lower_rung().then(|| self.unprotected()),
        };
        Ok(Running::new(confined, channels.ours, trail, group, proxy)?)
    }

    /// The protected places at which nothing is.
    fn missing(&self, protected: &[Protected]) -> Vec<PathBuf> {
        let places = protected.iter().map(|protected| self.workspace.join(&protected.path));
        places.filter(|place| place.symlink_metadata().is_err()).collect()
    }

    fn stand_ins(&self, missing: Vec<PathBuf>) -> io::Result<Option<StandIns>> {
        StandIns::record(&self.state().join("stand-ins"), missing)
    }

    fn stage(&self) -> io::Result<Stage> {
        let stages = self.state().join("stages");
        let stage = Stage::create(&stages)?;
        stage.look_like(&self.workspace)?;
        Ok(stage)
    }

    fn limits(&self) -> Limits {
        Limits {
            memory: self.settings.memory,
            processes: self.settings.processes,
            ..Limits::default()
        }
    }

    /// What stands between the program and the hosts that it may reach.
    fn proxy(
        &self,
        confined: &mut windlass_sandbox::Confined,
        request: &ProcessRequest,
    ) -> io::Result<Option<Proxy>> {
        let NetworkAccess::Hosts(hosts) = &self.settings.confinement.network else {
            return Ok(None);
        };
        let Some(listener) = confined.take_listener() else { return Ok(None) };
        let settings = ProxySettings {
            allow_private: self.settings.private_hosts,
            meter: request.meter.clone(),
            ..ProxySettings::default()
        };
        Proxy::serve(listener, hosts, settings).map(Some).map_err(io::Error::other)
    }
}

impl Drop for LocalProcesses {
    fn drop(&mut self) {
        if let Some(path) = self.temporary.get() {
            // What a program left unreadable stays until somebody looks.
            drop(fs::remove_dir_all(path));
        }
    }
}

impl Processes for LocalProcesses {
    fn confinement(&self) -> &Confinement {
        &self.settings.confinement
    }

    fn start(&self, request: &ProcessRequest) -> Result<Box<dyn Process>, ToolError> {
        self.swept.call_once(|| self.sweep());
        match self.launch(request) {
            Ok(running) => Ok(Box::new(running)),
            Err(refusal) => Err(self.explain(request, refusal)),
        }
    }

    /// Where nothing is confined, nothing is copied and little is looked at before.
    fn starts_at_once(&self, request: &ProcessRequest) -> bool {
        self.access(request) == Access::Direct
            && self.settings.confinement.level == Level::Off
            && self.is_small.load(Ordering::Relaxed)
            && windlass_sandbox::is_memory_hidden()
    }

    fn scratch(&self) -> io::Result<File> {
        let state = self.state();
        private(&state)?;
        let flags =
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        Ok(File::from(rustix::fs::open(&state, flags, mode)?))
    }
}

/// Makes a directory that is nobody else's, with those above it.
fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The two ends of what connects us with a program.
struct Channels {
    stdin: Option<OwnedFd>,
    output: OwnedFd,
    errors: Option<OwnedFd>,
    ours: Output,
}

impl Channels {
    fn open(request: &ProcessRequest) -> io::Result<Self> {
        if let Some(size) = request.terminal {
            let Terminal { ours, theirs } = Terminal::open(size)?;
            let stdin = Some(theirs.try_clone()?);
            let typed = match &request.stdin {
                Stdin::Bytes(bytes) => bytes.clone(),
                Stdin::Closed | Stdin::Open => Vec::new(),
            };
            let ours = Output::terminal(ours, typed);
            return Ok(Self { stdin, output: theirs, errors: None, ours });
        }
        let (read, write) = io::pipe()?;
        // Fewer wake-ups for those who print much. That it stays small is no harm.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, 1 << 20);
        let (stdin, typing) = match &request.stdin {
            Stdin::Closed => (None, None),
            Stdin::Bytes(bytes) => (Some(memory_file(bytes)?), None),
            Stdin::Open => {
                let (theirs, ours) = io::pipe()?;
                (Some(OwnedFd::from(theirs)), Some(OwnedFd::from(ours)))
            }
        };
        let mut ours = Output::pipe(read.into(), typing);
        let errors = match request.errors {
            Errors::WithOutput => None,
            Errors::Apart => {
                let (read, write) = io::pipe()?;
                ours.errors = Some(read.into());
                Some(OwnedFd::from(write))
            }
        };
        Ok(Self { stdin, output: write.into(), errors, ours })
    }

    /// What the program holds now must not be held by us, or its end would not be seen.
    fn close_theirs(&mut self) {
        self.stdin = None;
        self.errors = None;
        if let Ok(nothing) = File::open("/dev/null") {
            self.output = nothing.into();
        }
    }
}

/// Bytes that a program can read as a file, also from their beginning again.
fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::{Seek as _, Write as _};
    let fd = rustix::fs::memfd_create("stdin", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}
