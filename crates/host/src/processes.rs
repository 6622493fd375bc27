//! Starts programs on this machine, confined as the settings say, and finds what they changed.
//!
//! The confinement is decided by the settings, which come from people, never by a request of a model.

mod backend;
mod bubblewrap;
mod environment;
mod git_home;
mod group;
mod home;
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
    Access, ApprovalId, BuiltChange, CallId, CommitState, Confinement, ContentHash, FileRights,
    HeldChanges, NetworkAccess, Process, ProcessChanges, ProcessRequest, Processes, SandboxLevel,
    Shell, StderrTarget, Stdin, ToolError, Tracking,
};
use windlass_sandbox::{Fence, Launch, ProgramNetwork, ReadOnlyPath, ResourceLimits, View};

use self::group::Group;
pub use self::group::control_group;
use self::outline::ViewOutline;
pub use self::program::ShellError;
use self::quota::Quota;
use self::refusal::Refusal;
use self::remembered::Remembered;
use self::running::{ProgramChannels, Running};
use self::session::{Membership, SessionShared, Sessions};
use self::stand_ins::StandIns;
use self::terminal::Terminal;
use self::toolchains::ShownDirectory;
use crate::proxy::{Proxy, ProxySettings};
use crate::stage::{PASS_THROUGH, Scan, Stage};
use crate::temporary::{self, TemporaryDirectories, create_private_directory};

/// Settings for running programs.
///
/// ```
/// use windlass_core::SandboxLevel;
/// let settings = windlass_host::ProcessSettings::default();
/// assert_eq!(settings.confinement.level, SandboxLevel::Workspace);
/// ```
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// Confinement of programs.
    pub confinement: Confinement,
    /// Shell for commands of models. Hooks are run by bash.
    pub shell: Shell,
    /// State directory, for stages and temporary files. Without one, a directory below the machine's temporary directory is used.
    pub state: Option<PathBuf>,
    /// Variables that every program gets: `NAME` to inherit one, `NAME=value` to set one.
    pub environment: Vec<String>,
    /// Names of build directories, whose changes are kept without history if git ignores them.
    pub pass_through: Vec<String>,
    /// Rights of programs whose request has none, such as hooks.
    pub rights: Option<Arc<FileRights>>,
    /// Sockets of the machine to which programs can connect.
    pub sockets: Vec<PathBuf>,
    /// Directories outside the workspace that confined programs can read, without what is masked.
    pub readable: Vec<PathBuf>,
    /// Additional paths in the workspace that no confined program can change.
    pub protected: Vec<PathBuf>,
    /// Maximum bytes of memory of a program and everything that it starts.
    pub memory: u64,
    /// Maximum processes and threads that a program may start.
    pub processes: u64,
    /// Maximum bytes of disk for the changes of one call before they are committed. Without a value, the smaller of 16 GiB and half of the
    /// free space.
    pub disk: Option<u64>,
    /// True if listed hosts may have private addresses.
    pub private_hosts: bool,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        let limits = ResourceLimits::default();
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

/// Runs programs in one workspace.
#[derive(Debug)]
pub struct LocalProcesses {
    workspace: PathBuf,
    settings: ProcessSettings,
    sessions: Sessions,
    /// Directories of toolchains that programs see.
    shown: Remembered<Vec<ShownDirectory>>,
    /// Directories on `PATH` that programs see.
    on_path: Remembered<Vec<PathBuf>>,
    /// Paths below `/etc` that are masked from all programs.
    masked_in_etc: Remembered<Vec<PathBuf>>,
    /// Directories for temporary files. Sessions hold theirs, so `sessions` must be dropped first.
    temporaries: Arc<TemporaryDirectories>,
    /// Directory for upper layers of overlays, chosen on first use.
    uppers: OnceLock<PathBuf>,
    /// True once a person was told that changes are held in memory.
    memory_note_given: AtomicBool,
    /// Makes the sweep of leftovers run once.
    swept: Once,
}

/// Name of the directory with the stages of commands, in the directory for upper layers.
const STAGES: &str = "stages";

/// Parent of the directory for upper layers if the state directory is in the workspace.
const BESIDE_WORKSPACE: &str = "/var/tmp";

/// Parent of the directory for upper layers if the file system of the state directory cannot hold them.
const IN_MEMORY_FILE_SYSTEM: &str = "/dev/shm";

/// Maximum entries for which a scan is so quick that it may run inline.
const MAX_QUICK_SCAN_ENTRIES: usize = 64;

impl LocalProcesses {
    /// Creates the door for a workspace, whose path must be absolute and without links.
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
            memory_note_given: AtomicBool::new(false),
            swept: Once::new(),
        }
    }

    /// Returns the state directory, or the directory used without one.
    fn state(&self) -> PathBuf {
        self.settings.state.clone().unwrap_or_else(temporary::stateless_directory)
    }

    /// Returns the directories that programs see as `/tmp`; `None` if they see the machine's own.
    pub(crate) fn temporaries(&self) -> Option<&Arc<TemporaryDirectories>> {
        self.is_confined().then_some(&self.temporaries)
    }

    /// Returns a variable of the environment that programs get.
    fn variable(&self, name: &str) -> Option<OsString> {
        let set = self.settings.environment.iter().filter_map(|setting| setting.split_once('='));
        let set = set.rev().find(|(known, _)| *known == name);
        set.map(|(_, value)| value.into()).or_else(|| std::env::var_os(name))
    }

    /// Returns the rights from which a program's view is computed: the request's, the settings', or none beyond the defaults.
    fn rights(&self, request: &ProcessRequest) -> Arc<FileRights> {
        let given = request.rights.as_ref().or(self.settings.rights.as_ref()).cloned();
        given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now();
            Arc::new(FileRights::new(Arc::default(), self.workspace.clone(), now))
        })
    }

    /// Removes the leftovers of killed processes. Leftovers that cannot be removed are tried again by the next process.
    fn sweep(&self) {
        let state = self.state();
        if let Ok(uppers) = self.uppers() {
            drop(Stage::sweep(&uppers.join(STAGES)));
        }
        StandIns::sweep(&state.join("stand-ins"));
        temporary::sweep(&state);
        temporary::sweep_unfinished(&state.join("index"));
    }

    /// Returns the request's access to the workspace, as far as the confinement permits it.
    fn access(&self, request: &ProcessRequest) -> Access {
        match (self.settings.confinement.level, request.access) {
            (SandboxLevel::ReadOnly, _) | (_, Access::Read) => Access::Read,
            (SandboxLevel::Off, _) | (_, Access::Direct) => Access::Direct,
            _ if self.uses_landlock_alone() => Access::Direct,
            (
                SandboxLevel::Workspace | SandboxLevel::Staged | SandboxLevel::Discard,
                Access::Staged,
            ) => Access::Staged,
        }
    }

    /// Starts a program with everything around it: view, stage, limits, channels and proxy.
    fn launch(&self, request: &ProcessRequest) -> Result<Running, Refusal> {
        let access = self.access(request);
        let places = self.sessions.get(request.session.as_ref(), &self.temporaries)?;
        let confinement = self.confine(request, access, &places)?;
        let before = (confinement.tracker.tracking == Tracking::Scanned)
            .then(|| Scan::of(&self.workspace, &confinement.tracker.skipped_directories()))
            .transpose()?;
        let mut channels = Channels::open(request)?;
        let (program, arguments) = program::find(&request.program, &self.workspace)?;
        let protected = confinement.view.as_ref().map(|view| &*view.protected);
        let stand_ins = self.stand_ins(self.missing(protected.unwrap_or_default()))?;
        let group = Group::create(self.settings.memory, self.settings.processes);
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
        let mut confined = self.start_with_backend(&mut launch)?;
        if let Some(membership) = membership {
            membership.keep(confined.take_session());
        }
        let proxy = self.proxy(&mut confined, request)?;
        channels.close_theirs();
        let tracker = running::ChangeTracker { before, stand_ins, ..confinement.tracker };
        let running = Running::new(confined, channels.ours, tracker, group, proxy)?;
        Ok(running.with_quota(quota)?.with_outline(confinement.outline))
    }

    /// Computes the confinement of a program, and the record that is needed to find its changes.
    fn confine(
        &self,
        request: &ProcessRequest,
        access: Access,
        places: &SessionShared,
    ) -> Result<PlannedConfinement, Refusal> {
        let is_recorded = request.records_build_directories;
        let names = if is_recorded { &[] } else { self.settings.pass_through.as_slice() };
        let mut tracker = running::ChangeTracker::new(&self.workspace, names);
        tracker.tracking = match access {
            Access::Read => Tracking::Nothing,
            Access::Staged => Tracking::Staged,
            Access::Direct if self.is_confined() => Tracking::Scanned,
            Access::Direct => Tracking::Unknown,
        };
        let mut planned = PlannedConfinement::none(tracker);
        if !self.is_confined() {
            return Ok(planned);
        }
        let rights = self.rights(request);
        let survey = self.survey(&rights)?;
        if self.uses_landlock_alone() {
            let network = self.network(request);
            planned.fence = Some(self.landlock_fence(access, &survey, &rights, places, network)?);
            planned.temporary.clone_from(&places.temporary.path);
            planned.tracker.unprotected = Some(self.unprotected(&survey));
        } else {
            let home = self.home()?;
            let port = places.port();
            let composed = self.compose(view::LaunchParts {
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
                shown_alone: composed.shown_alone,
                protected: self.protected_paths(&composed.view.protected).collect(),
                rights,
            });
            planned.view = Some(composed.view);
            planned.fence = Some(composed.fence);
            planned.tracker.stage = composed.stage;
            planned.tracker.staged = composed.staged;
            planned.tracker.carried = composed.carried;
            planned.tracker.indexes = composed.indexes;
            planned.tracker.masked = composed.hidden;
            planned.tracker.notes = composed.notes;
            planned.tracker.notes.extend(self.memory_note());
        }
        if !request.records_build_directories {
            planned.tracker.build_directories = survey.build_directories;
        }
        Ok(planned)
    }

    /// Returns whether programs are confined at all.
    fn is_confined(&self) -> bool {
        self.settings.confinement.level != SandboxLevel::Off
    }

    /// Returns the protected paths that do not exist.
    fn missing(&self, protected: &[ReadOnlyPath]) -> Vec<PathBuf> {
        self.protected_paths(protected).filter(|place| place.symlink_metadata().is_err()).collect()
    }

    /// Iterates over the absolute paths of protected entries.
    fn protected_paths<'a>(
        &'a self,
        protected: &'a [ReadOnlyPath],
    ) -> impl Iterator<Item = PathBuf> + 'a {
        protected.iter().map(|protected| self.workspace.join(&protected.path))
    }

    /// Records the stand-ins that will be put at missing protected paths.
    fn stand_ins(&self, missing: Vec<PathBuf>) -> io::Result<Option<StandIns>> {
        StandIns::record(&self.state().join("stand-ins"), missing)
    }

    /// Creates the stage for the layers of a view and the changes of a staged run.
    fn stage(&self, access: Access) -> io::Result<Stage> {
        let stage = Stage::create(&self.uppers()?.join(STAGES))?;
        let stage = stage.of_state(self.settings.state.as_deref());
        if access == Access::Staged {
            stage.look_like(&self.workspace)?;
        }
        Ok(stage)
    }

    /// Returns a sentence that changes are held in memory, the first time that they are.
    fn memory_note(&self) -> Option<String> {
        let uppers = self.uppers.get().filter(|uppers| uppers.starts_with("/dev/shm"))?;
        let is_new = !self.memory_note_given.swap(true, Ordering::Relaxed);
        is_new.then(|| {
            let place = windlass_core::quote::path(uppers);
            format!(
                "the state directory cannot hold the changes of a command (it is on an overlay, as in a container), so they were \
                 held in memory, below {place}, which is bounded; set XDG_STATE_HOME to a directory on a disk"
            )
        })
    }

    /// Returns the directory for upper layers of overlays: in the state directory, unless its file system cannot hold them.
    fn uppers(&self) -> io::Result<&Path> {
        if let Some(known) = self.uppers.get() {
            return Ok(known);
        }
        let state = self.state();
        create_private_directory(&state)?;
        // A layer cannot lie in the directory that it covers.
        let is_inside = state.starts_with(&self.workspace);
        let place = if is_inside {
            private_directory(
                BESIDE_WORKSPACE,
                "set XDG_STATE_HOME to a directory outside the workspace",
            )?
        } else if crate::stage::can_hold_uppers(&state) {
            state
        } else {
            private_directory(IN_MEMORY_FILE_SYSTEM, "set XDG_STATE_HOME to a directory on a disk")?
        };
        Ok(self.uppers.get_or_init(|| place))
    }

    /// Iterates over the directories that may hold stages of this state directory, without creating any.
    fn stage_directories(&self) -> impl Iterator<Item = PathBuf> {
        let shared = [BESIDE_WORKSPACE, IN_MEMORY_FILE_SYSTEM].map(user_directory);
        let shared = shared.into_iter().filter(|path| is_private(path));
        self.settings.state.clone().into_iter().chain(shared).map(|place| place.join(STAGES))
    }

    /// Returns the limits of memory and processes.
    fn limits(&self) -> ResourceLimits {
        ResourceLimits {
            memory: self.settings.memory,
            processes: self.settings.processes,
            ..ResourceLimits::default()
        }
    }

    /// Returns the hosts that a program may reach.
    fn network<'r>(&'r self, request: &'r ProcessRequest) -> &'r NetworkAccess {
        request.network.as_ref().unwrap_or(&self.settings.confinement.network)
    }

    /// Starts the proxy between a program and the hosts that it may reach, if there are any.
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

    /// Returns true without confinement: then no file is copied and little is checked before the start.
    fn starts_at_once(&self, _: &ProcessRequest) -> bool {
        self.settings.confinement.level == SandboxLevel::Off && windlass_sandbox::is_memory_hidden()
    }

    fn look_at_held(&self, id: &ApprovalId) -> io::Result<Option<(HeldChanges, Vec<BuiltChange>)>> {
        for place in self.stage_directories() {
            if let Some(held) = Stage::look_at_held(&place, id)? {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    fn held_changes(&self, id: &ApprovalId) -> io::Result<Option<ProcessChanges>> {
        for place in self.stage_directories() {
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
        self.stage_directories().flat_map(recover).collect()
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

/// Everything that confines a program, and the record that is needed to find its changes.
struct PlannedConfinement {
    view: Option<View>,
    fence: Option<Fence>,
    /// Home directory, if it is not the person's own.
    home: Option<PathBuf>,
    /// Directory for temporary files, as the program sees it.
    temporary: PathBuf,
    /// Port of the proxy.
    port: u16,
    tracker: running::ChangeTracker,
    outline: Option<ViewOutline>,
}

impl PlannedConfinement {
    /// Plans no confinement.
    fn none(tracker: running::ChangeTracker) -> Self {
        Self {
            view: None,
            fence: None,
            home: None,
            temporary: "/tmp".into(),
            port: 0,
            tracker,
            outline: None,
        }
    }

    /// Returns whether the program has a loopback interface that other programs of its session can share.
    fn is_on_loopback(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.network != ProgramNetwork::Machine)
    }
}

/// Creates this user's directory for upper layers below a directory that all users share. Fails if another user has access to it, or if its
/// file system cannot hold upper layers.
fn private_directory(shared: &str, instead: &str) -> io::Result<PathBuf> {
    let path = user_directory(shared);
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

/// Returns the path of this user's directory below a directory that all users share.
fn user_directory(shared: &str) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    Path::new(shared).join(format!("windlass-{user}"))
}

/// Returns whether a directory exists, belongs to this user, and no other user can access it.
fn is_private(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    path.symlink_metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o777 == 0o700)
}

/// Returns a file name for a path: the beginning of its hash.
fn hashed(path: &Path) -> String {
    let mut name = ContentHash::of(path.as_os_str().as_encoded_bytes()).to_string();
    name.truncate(32);
    name
}

/// Both ends of the pipes or the terminal between this process and a program.
struct Channels {
    stdin: Option<OwnedFd>,
    output: OwnedFd,
    errors: Option<OwnedFd>,
    ours: ProgramChannels,
}

impl Channels {
    /// Opens the channels that a request asks for.
    fn open(request: &ProcessRequest) -> io::Result<Self> {
        if let Some(size) = request.terminal {
            let Terminal { ours, theirs } = Terminal::open(size)?;
            let stdin = Some(theirs.try_clone()?);
            let typed = match &request.stdin {
                Stdin::Bytes(bytes) => bytes.clone(),
                Stdin::Closed | Stdin::Open => Vec::new(),
            };
            let ours = ProgramChannels::terminal(ours, typed);
            return Ok(Self { stdin, output: theirs, errors: None, ours });
        }
        let (read, write) = io::pipe()?;
        // A large pipe wakes us less often for programs that print much. A small one works too.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, 1 << 20);
        let (stdin, typing) = match &request.stdin {
            Stdin::Closed => (None, None),
            Stdin::Bytes(bytes) => (Some(memory_file(bytes)?), None),
            Stdin::Open => {
                let (theirs, ours) = io::pipe()?;
                (Some(OwnedFd::from(theirs)), Some(OwnedFd::from(ours)))
            }
        };
        let mut ours = ProgramChannels::pipe(read.into(), typing);
        let errors = match request.errors {
            StderrTarget::WithOutput => None,
            StderrTarget::Apart => {
                let (read, write) = io::pipe()?;
                ours.errors = Some(read.into());
                Some(OwnedFd::from(write))
            }
        };
        Ok(Self { stdin, output: write.into(), errors, ours })
    }

    /// Closes the program's ends here, because otherwise the end of its output would never be seen.
    fn close_theirs(&mut self) {
        self.stdin = None;
        self.errors = None;
        if let Ok(nothing) = File::open("/dev/null") {
            self.output = nothing.into();
        }
    }
}

/// Returns a file in memory with these bytes, so that the program can also read them again.
fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::{Seek as _, Write as _};
    let fd = rustix::fs::memfd_create("stdin", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}
