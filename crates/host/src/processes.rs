//! Programs on this machine: started in surroundings that fit how they are confined, read from, ended, and asked what they
//! changed.
//!
//! How far a program reaches is decided by the settings, which come from people, never by what a model asked for.

mod bubblewrap;
mod environment;
mod git_home;
mod group;
mod home;
mod ladder;
mod outline;
mod outside;
mod program;
mod quota;
mod refusal;
mod remembered;
mod running;
mod session;
mod stand_ins;
mod system;
mod terminal;
mod toolchains;
mod view;
mod waiting;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};

use windlass_core::{
    Access, ApprovalId, BuiltChange, CallId, CommitState, Confinement, ContentHash, Errors,
    FileRights, HeldChanges, Level, NetworkAccess, Process, ProcessChanges, ProcessRequest,
    Processes, Shell, Stdin, ToolError, Tracking,
};
use windlass_sandbox::{Fence, Launch, Limits, Network, Protected, View};

use self::group::Group;
pub use self::group::control_group;
use self::outline::ViewOutline;
pub use self::program::ShellError;
use self::quota::Quota;
use self::refusal::Refusal;
use self::remembered::Remembered;
use self::running::{Output, Running};
use self::session::{Membership, Sessions, SharedPlaces};
use self::stand_ins::StandIns;
use self::terminal::Terminal;
use self::toolchains::ShownDirectory;
use crate::proxy::{Proxy, ProxySettings};
use crate::stage::{PASS_THROUGH, Scan, Stage};
use crate::temporary::{self, TemporaryDirectories, create_private_directory};

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
    /// The shell for commands of models. Hooks are run by bash.
    pub shell: Shell,
    /// Where stages and temporary files are; a directory of the machine's own for temporary files if not given.
    pub state: Option<PathBuf>,
    /// Variables that every program gets: names to inherit, `NAME=value` to set.
    pub environment: Vec<String>,
    /// Names of build directories: their changes are kept without history if git ignores them.
    pub pass_through: Vec<String>,
    /// Rights of programs that are started without any of their own, such as hooks.
    pub rights: Option<Arc<FileRights>>,
    /// Sockets of the machine that programs can connect to.
    pub sockets: Vec<PathBuf>,
    /// Directories outside the workspace that confined programs can read, without what is masked.
    pub readable: Vec<PathBuf>,
    /// Places in the workspace besides the usual that no confined program can change.
    pub protected: Vec<PathBuf>,
    /// Bytes of memory that a program may use, with all that it starts.
    pub memory: u64,
    /// Processes and threads that a program may start.
    pub processes: u64,
    /// Bytes of disk that the changes of one call may use before they are made; 16 GiB or half of what is free, whichever is less, if
    /// not given.
    pub disk: Option<u64>,
    /// Whether the hosts of a network that is not closed may have private addresses.
    pub private_hosts: bool,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            confinement: Confinement::default(),
            shell: Shell::default(),
            state: None,
            environment: Vec::new(),
            pass_through: PASS_THROUGH.iter().map(ToString::to_string).collect(),
            rights: None,
            sockets: Vec::new(),
            readable: Vec::new(),
            protected: Vec::new(),
            memory: limits.memory,
            processes: limits.processes,
            disk: None,
            private_hosts: false,
        }
    }
}

/// Programs in one workspace.
#[derive(Debug)]
pub struct LocalProcesses {
    workspace: PathBuf,
    settings: ProcessSettings,
    sessions: Sessions,
    shown: Remembered<Vec<ShownDirectory>>,
    on_path: Remembered<Vec<PathBuf>>,
    /// Paths below `/etc` that no program may see.
    masked_in_etc: Remembered<Vec<PathBuf>>,
    /// The directories for temporary files. Those of sessions hold them, and must go first.
    temporaries: Arc<TemporaryDirectories>,
    /// The directory for upper layers of overlays.
    uppers: OnceLock<PathBuf>,
    memory_is_told: AtomicBool,
    /// What others left behind is looked for once.
    swept: Once,
}

/// The directory with the stages of commands, in the one for upper layers.
const STAGES: &str = "stages";

/// The directory for upper layers if the state directory is in the workspace.
const BESIDE_WORKSPACE: &str = "/var/tmp";

/// The directory for upper layers if the file system of the state directory cannot hold them.
const IN_MEMORY: &str = "/dev/shm";

/// Of so many files and directories one knows at once what became of them.
const FEW: usize = 64;

impl LocalProcesses {
    /// For a workspace: absolute, with no link in it.
    pub fn new(workspace: &Path, settings: ProcessSettings) -> Self {
        Self {
            workspace: workspace.to_owned(),
            temporaries: Arc::new(TemporaryDirectories::new(settings.state.clone())),
            settings: settings.settled(workspace),
            sessions: Sessions::default(),
            shown: Remembered::default(),
            on_path: Remembered::default(),
            masked_in_etc: Remembered::default(),
            uppers: OnceLock::new(),
            memory_is_told: AtomicBool::new(false),
            swept: Once::new(),
        }
    }

    fn state(&self) -> PathBuf {
        self.settings.state.clone().unwrap_or_else(temporary::stateless_directory)
    }

    /// The directories that programs see as `/tmp`; `None` if they see the machine's own.
    pub(crate) fn temporaries(&self) -> Option<&Arc<TemporaryDirectories>> {
        self.is_confined().then_some(&self.temporaries)
    }

    /// A variable of the environment that programs get.
    fn variable(&self, name: &str) -> Option<OsString> {
        let set = self.settings.environment.iter().filter_map(|setting| setting.split_once('='));
        let set = set.rev().find(|(known, _)| *known == name);
        set.map(|(_, value)| value.into()).or_else(|| std::env::var_os(name))
    }

    /// The rights that a program's view is computed from.
    fn rights(&self, request: &ProcessRequest) -> Arc<FileRights> {
        let given = request.rights.as_ref().or(self.settings.rights.as_ref()).cloned();
        given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now();
            Arc::new(FileRights::new(Arc::default(), self.workspace.clone(), now))
        })
    }

    /// Takes away what processes left behind that were killed. What cannot be removed is tried again by the next one.
    fn sweep(&self) {
        let state = self.state();
        if let Ok(uppers) = self.uppers() {
            drop(Stage::sweep(&uppers.join(STAGES)));
        }
        StandIns::sweep(&state.join("stand-ins"));
        temporary::sweep(&state);
        temporary::sweep_unfinished(&state.join("index"));
    }

    /// What the request gets of the workspace, as far as the confinement lets it.
    fn access(&self, request: &ProcessRequest) -> Access {
        match (self.settings.confinement.level, request.access) {
            (Level::ReadOnly, _) | (_, Access::Read) => Access::Read,
            (Level::Off, _) | (_, Access::Direct) => Access::Direct,
            _ if self.is_on_lower_rung() => Access::Direct,
            (Level::Workspace | Level::Staged | Level::Discard, Access::Staged) => Access::Staged,
        }
    }

    fn launch(&self, request: &ProcessRequest) -> Result<Running, Refusal> {
        let access = self.access(request);
        let places = self.sessions.get(request.session.as_ref(), &self.temporaries)?;
        let confinement = self.confine(request, access, &places)?;
        let before = (confinement.trail.tracking == Tracking::Scanned)
            .then(|| Scan::of(&self.workspace, &confinement.trail.left_out()))
            .transpose()?;
        let mut channels = Channels::open(request)?;
        let (program, arguments) = program::find(&request.program, &self.workspace)?;
        let protected = confinement.view.as_ref().map(|view| &*view.protected);
        let stand_ins = self.stand_ins(self.missing(protected.unwrap_or_default()))?;
        let group = Group::make(self.settings.memory, self.settings.processes);
        let quota = Quota::of(confinement.view.as_ref(), self.settings.disk)?;
        let membership = confinement.is_on_loopback().then(|| places.join());
        let mut launch = Launch {
            program,
            arguments,
            environment: self.environment(request, &confinement),
            directory: request.directory.path.clone(),
            stdin: channels.stdin.as_ref().map(OwnedFd::as_fd),
            output: channels.output.as_fd(),
            errors: channels.errors.as_ref().map(OwnedFd::as_fd),
            terminal: request.terminal.is_some(),
            view: confinement.view,
            users: None,
            session: membership.as_ref().and_then(Membership::namespaces),
            fence: confinement.fence,
            limits: self.limits(),
            group: group.as_ref().map(Group::members),
        };
        let mut confined = self.climb(&mut launch)?;
        if let Some(membership) = membership {
            membership.keep(confined.take_session());
        }
        let proxy = self.proxy(&mut confined, request)?;
        channels.close_theirs();
        let trail = running::Trail { before, stand_ins, ..confinement.trail };
        let running = Running::new(confined, channels.ours, trail, group, proxy)?;
        Ok(running.with_quota(quota)?.with_outline(confinement.outline))
    }

    /// Everything about how a program is confined, and what is needed to find out what it changed.
    fn confine(
        &self,
        request: &ProcessRequest,
        access: Access,
        places: &SharedPlaces,
    ) -> Result<PlannedConfinement, Refusal> {
        let is_recorded = request.records_build_directories;
        let names = if is_recorded { &[] } else { self.settings.pass_through.as_slice() };
        let mut trail = running::Trail::new(&self.workspace, names);
        trail.tracking = match access {
            Access::Read => Tracking::Nothing,
            Access::Staged => Tracking::Staged,
            Access::Direct if self.is_confined() => Tracking::Scanned,
            Access::Direct => Tracking::Unknown,
        };
        let mut planned = PlannedConfinement::none(trail);
        if !self.is_confined() {
            return Ok(planned);
        }
        let rights = self.rights(request);
        let survey = self.survey(&rights)?;
        if self.is_on_lower_rung() {
            let network = self.network(request);
            planned.fence = Some(self.lone_fence(access, &survey, &rights, places, network)?);
            planned.temporary.clone_from(&places.temporary.path);
            planned.trail.unprotected = Some(self.unprotected(&survey));
        } else {
            let home = self.home()?;
            let port = places.port();
            let composed = self.compose(view::Setting {
                rights: &rights,
                access,
                is_job: request.is_job,
                obeyed: &request.obeyed,
                survey: &survey,
                places,
                home: home.as_ref(),
                keeps_home: request.keeps_home,
                network: self.network(request),
                port,
            })?;
            planned.home = home.map(|home| home.path);
            planned.port = port;
            planned.outline = Some(ViewOutline {
                workspace: self.workspace.clone(),
                state: self.state(),
                directory: request.directory.path.clone(),
                home: planned.home.clone().or_else(std::env::home_dir),
                parts: composed.parts,
                masked: composed.view.masked.iter().chain(&composed.hidden).cloned().collect(),
                alone: composed.alone,
                protected: self.places_of(&composed.view.protected).collect(),
                rights,
            });
            planned.view = Some(composed.view);
            planned.fence = Some(composed.fence);
            planned.trail.stage = composed.stage;
            planned.trail.staged = composed.staged;
            planned.trail.carried = composed.carried;
            planned.trail.indexes = composed.indexes;
            planned.trail.masked = composed.hidden;
            planned.trail.notes = composed.notes;
            planned.trail.notes.extend(self.memory_note());
        }
        if !request.records_build_directories {
            planned.trail.build_directories = survey.build_directories;
        }
        Ok(planned)
    }

    fn is_confined(&self) -> bool {
        self.settings.confinement.level != Level::Off
    }

    /// The protected places at which nothing is.
    fn missing(&self, protected: &[Protected]) -> Vec<PathBuf> {
        self.places_of(protected).filter(|place| place.symlink_metadata().is_err()).collect()
    }

    fn places_of<'a>(&'a self, protected: &'a [Protected]) -> impl Iterator<Item = PathBuf> + 'a {
        protected.iter().map(|protected| self.workspace.join(&protected.path))
    }

    fn stand_ins(&self, missing: Vec<PathBuf>) -> io::Result<Option<StandIns>> {
        StandIns::record(&self.state().join("stand-ins"), missing)
    }

    /// Holds the layers of a view, and the changes of a staged run.
    fn stage(&self, access: Access) -> io::Result<Stage> {
        let stage = Stage::create(&self.uppers()?.join(STAGES))?;
        let stage = stage.of_state(self.settings.state.as_deref());
        if access == Access::Staged {
            stage.look_like(&self.workspace)?;
        }
        Ok(stage)
    }

    /// Says once that changes are held in memory, if they are.
    fn memory_note(&self) -> Option<String> {
        let uppers = self.uppers.get().filter(|uppers| uppers.starts_with("/dev/shm"))?;
        let is_new = !self.memory_is_told.swap(true, Ordering::Relaxed);
        is_new.then(|| {
            let place = windlass_core::quote::path(uppers);
            format!(
                "the state directory cannot hold the changes of a command (it is on an overlay, as in a container), so they were \
                 held in memory, below {place}, which is bounded; set XDG_STATE_HOME to a directory on a disk"
            )
        })
    }

    /// The directory for upper layers of overlays: the state, unless that is on a file system that cannot have them.
    fn uppers(&self) -> io::Result<&Path> {
        if let Some(known) = self.uppers.get() {
            return Ok(known);
        }
        let state = self.state();
        create_private_directory(&state)?;
        // A layer cannot lie in the directory over which it is laid.
        let is_inside = state.starts_with(&self.workspace);
        let place = if is_inside {
            private_directory(
                BESIDE_WORKSPACE,
                "set XDG_STATE_HOME to a directory outside the workspace",
            )?
        } else if crate::stage::can_hold_uppers(&state) {
            state
        } else {
            private_directory(IN_MEMORY, "set XDG_STATE_HOME to a directory on a disk")?
        };
        Ok(self.uppers.get_or_init(|| place))
    }

    /// The directories that may hold stages of this state directory. None is made.
    fn places_of_stages(&self) -> impl Iterator<Item = PathBuf> {
        let shared = [BESIDE_WORKSPACE, IN_MEMORY].map(own_directory);
        let shared = shared.into_iter().filter(|path| is_private(path));
        self.settings.state.clone().into_iter().chain(shared).map(|place| place.join(STAGES))
    }

    fn limits(&self) -> Limits {
        Limits {
            memory: self.settings.memory,
            processes: self.settings.processes,
            ..Limits::default()
        }
    }

    /// The hosts that a program may reach.
    fn network<'r>(&'r self, request: &'r ProcessRequest) -> &'r NetworkAccess {
        request.network.as_ref().unwrap_or(&self.settings.confinement.network)
    }

    /// What stands between the program and the hosts that it may reach.
    fn proxy(
        &self,
        confined: &mut windlass_sandbox::Confined,
        request: &ProcessRequest,
    ) -> io::Result<Option<Proxy>> {
        let NetworkAccess::Hosts(hosts) = self.network(request) else {
            return Ok(None);
        };
        let Some(listener) = confined.take_listener() else { return Ok(None) };
        let settings = ProxySettings {
            allow_private: self.settings.private_hosts,
            private_hosts: request.private_hosts.clone(),
            meter: request.meter.clone(),
            ..ProxySettings::default()
        };
        Proxy::serve(listener, hosts, settings).map(Some).map_err(io::Error::other)
    }
}

impl Processes for LocalProcesses {
    fn confinement(&self) -> &Confinement {
        &self.settings.confinement
    }

    fn shell(&self) -> Shell {
        self.settings.shell.clone()
    }

    fn start(&self, request: &ProcessRequest) -> Result<Box<dyn Process>, ToolError> {
        self.swept.call_once(|| self.sweep());
        match self.launch(request) {
            Ok(running) => Ok(Box::new(running)),
            Err(refusal) => Err(self.explain(request, refusal)),
        }
    }

    /// Where nothing is confined, nothing is copied and little is looked at before.
    fn starts_at_once(&self, _: &ProcessRequest) -> bool {
        self.settings.confinement.level == Level::Off && windlass_sandbox::is_memory_hidden()
    }

    fn look_at_held(&self, id: &ApprovalId) -> io::Result<Option<(HeldChanges, Vec<BuiltChange>)>> {
        for place in self.places_of_stages() {
            if let Some(held) = Stage::look_at_held(&place, id)? {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    fn held_changes(&self, id: &ApprovalId) -> io::Result<Option<ProcessChanges>> {
        for place in self.places_of_stages() {
            if let Some(held) = Stage::held(&place, self.settings.state.as_deref(), id)? {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    fn recover_stages(
        &self,
        state_of: &dyn Fn(&CallId) -> CommitState,
        close: &dyn Fn(&ApprovalId) -> bool,
    ) -> Vec<String> {
        let Some(state) = &self.settings.state else { return Vec::new() };
        let recover = |place: PathBuf| Stage::recover(&place, state, state_of, close);
        self.places_of_stages().flat_map(recover).collect()
    }

    fn scratch(&self) -> io::Result<File> {
        let state = self.state();
        create_private_directory(&state)?;
        let flags =
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        Ok(File::from(rustix::fs::open(&state, flags, mode)?))
    }
}

/// How a program will be confined.
struct PlannedConfinement {
    view: Option<View>,
    fence: Option<Fence>,
    /// The home directory, if it is another than the person's.
    home: Option<PathBuf>,
    /// The directory for temporary files, as the program calls it.
    temporary: PathBuf,
    /// The port of the proxy.
    port: u16,
    trail: running::Trail,
    outline: Option<ViewOutline>,
}

impl PlannedConfinement {
    fn none(trail: running::Trail) -> Self {
        Self {
            view: None,
            fence: None,
            home: None,
            temporary: "/tmp".into(),
            port: 0,
            trail,
            outline: None,
        }
    }

    /// Returns whether the program has a loopback interface that others of its session can share.
    fn is_on_loopback(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.network != Network::Machine)
    }
}

/// A directory of this person's own for the upper layers of overlays, below one that everybody may use.
fn private_directory(shared: &str, instead: &str) -> io::Result<PathBuf> {
    let path = own_directory(shared);
    create_private_directory(&path)?;
    if is_private(&path) && crate::stage::can_hold_uppers(&path) {
        return Ok(path);
    }
    let name = windlass_core::quote::path(&path).into_owned();
    Err(io::Error::other(format!(
        "the state directory cannot hold the changes of a command (it lies in the workspace, or on an overlay as in a container), and \
         {name} cannot either; {instead}"
    )))
}

/// The path of this person's own directory below one that everybody may use.
fn own_directory(shared: &str) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    Path::new(shared).join(format!("windlass-{user}"))
}

/// Tells whether a directory is there and no other person can reach into it.
fn is_private(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    path.symlink_metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o777 == 0o700)
}

/// A name for a path.
fn hashed(path: &Path) -> String {
    let mut name = ContentHash::of(path.as_os_str().as_encoded_bytes()).to_string();
    name.truncate(32);
    name
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
