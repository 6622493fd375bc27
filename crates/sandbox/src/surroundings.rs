//! Makes the surroundings of a program: its view of the file system, its network, its rights.
//!
//! All of it happens in a process that has just been forked, so nothing here allocates. The order matters. Whatever shall stay
//! writable is taken hold of first, then the whole tree is made read-only, then what was taken hold of is put back in its place.

use std::ffi::CStr;

use libc::c_int;

use crate::Step;
use crate::launch::{LISTENER_PORT, Network};
use crate::name::Name;
use crate::plan::{Place, Plan, PlannedFence, PlannedProtected, PlannedStage, PlannedView};
use crate::sys::{self, Errno, Fd, landlock, mount};

/// What did not work, and why.
#[derive(Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: Errno,
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

pub(crate) trait At<T> {
    /// Says at which step it was.
    fn at(self, step: Step) -> Result<T>;
}

impl<T> At<T> for sys::Result<T> {
    fn at(self, step: Step) -> Result<T> {
        self.map_err(|errno| Failure { step, errno })
    }
}

/// More than these cannot be kept writable: a list of descriptors that need not be allocated.
const MOST_WRITABLE: usize = 256;
/// The same for what is kept of emptied directories.
const MOST_KEPT: usize = 16;

/// Devices that every program expects.
const DEVICES: [(&CStr, &CStr); 6] = [
    (c"/dev/null", c"null"),
    (c"/dev/zero", c"zero"),
    (c"/dev/full", c"full"),
    (c"/dev/random", c"random"),
    (c"/dev/urandom", c"urandom"),
    (c"/dev/tty", c"tty"),
];

/// Where a program finds its terminal by name: the directory of terminals is its own, and does not have it.
const CONSOLE: &CStr = c"console";

const DEVICE_LINKS: [(&CStr, &CStr); 5] = [
    (c"/proc/self/fd", c"fd"),
    (c"/proc/self/fd/0", c"stdin"),
    (c"/proc/self/fd/1", c"stdout"),
    (c"/proc/self/fd/2", c"stderr"),
    (c"pts/ptmx", c"ptmx"),
];

/// What stands for files and directories that are hidden.
const HIDDEN_DIRECTORY: &CStr = c"/dev/.hidden/directory";
const HIDDEN_FILE: &CStr = c"/dev/.hidden/file";
/// What stands for protected places at which nothing is.
const EMPTY_DIRECTORY: &CStr = c"/dev/.hidden/empty";
const EMPTY_FILE: &CStr = c"/dev/.hidden/nothing";

/// Takes our user and group into the new namespace.
pub(crate) fn identify(plan: &Plan) -> Result {
    // The files below are root's where nobody may look into the process. This one is a copy, and hidden again before anybody is in
    // the namespace.
    sys::prctl(libc::PR_SET_DUMPABLE, 1).at(Step::Identity)?;
    // Where it is missing there is nothing to forbid.
    match sys::put(c"/proc/self/setgroups", b"deny") {
        Ok(()) | Err(libc::ENOENT) => {}
        Err(errno) => return Err(Failure { step: Step::Identity, errno }),
    }
    sys::put(c"/proc/self/uid_map", plan.users.to_bytes()).at(Step::Identity)?;
    sys::put(c"/proc/self/gid_map", plan.groups.to_bytes()).at(Step::Identity)
}

/// Makes the view. `made` is told of each protected place for which something was put there.
pub(crate) fn make_view(plan: &Plan, view: &PlannedView, made: &mut dyn FnMut(usize)) -> Result {
    mount::detach_all().at(Step::Mounts)?;
    let here = libc::AT_FDCWD;
    let workspace = take_workspace(view)?;
    let mut writable = [-1; MOST_WRITABLE];
    for (place, slot) in view.writable.iter().zip(&mut writable) {
        *slot = mount::copy(here, &place.path).at(Step::Writable)?;
    }
    let mut kept = [-1; MOST_KEPT];
    for (place, slot) in view.kept.iter().zip(&mut kept) {
        *slot = mount::copy(here, &place.path).unwrap_or(-1);
    }
    let temporary = view.temporary.as_ref().map(|path| mount::copy(here, path));
    let temporary = temporary.transpose().at(Step::Temporary)?;
    let processes = take_processes(plan).at(Step::Proc)?;
    let devices = take_devices(plan)?;

    mount::restrict(here, c"/", HARMLESS | mount::RDONLY).at(Step::ReadOnly)?;

    mount::attach(processes, here, c"/proc").at(Step::Proc)?;
    put_devices(&devices)?;
    if let Some(temporary) = temporary {
        put_temporary(temporary).at(Step::Temporary)?;
    }
    for path in &view.emptied {
        cover(path, EMPTY_DIRECTORY).at(Step::Hidden)?;
    }
    for (place, fd) in view.kept.iter().zip(kept).filter(|(_, fd)| *fd >= 0) {
        put_back(fd, place, mount::RDONLY).at(Step::Hidden)?;
    }
    let is_read_only = matches!(view.stage, PlannedStage::ReadOnly);
    let more = if is_read_only { mount::RDONLY } else { 0 };
    put_back(workspace, &view.workspace, more).at(Step::Writable)?;
    for (place, fd) in view.writable.iter().zip(writable) {
        put_back(fd, place, 0).at(Step::Writable)?;
    }
    for path in &view.hidden {
        hide(path).at(Step::Hidden)?;
    }
    if is_read_only { Ok(()) } else { protect_all(view, made) }
}

/// What a mount in a view never has.
const HARMLESS: u64 = mount::NOSUID | mount::NODEV;

/// The workspace as it will be.
fn take_workspace(view: &PlannedView) -> Result<Fd> {
    match &view.stage {
        PlannedStage::ReadOnly | PlannedStage::Direct => {
            mount::copy(libc::AT_FDCWD, &view.workspace.path).at(Step::Writable)
        }
        PlannedStage::Overlay { upper, work } => {
            overlay(&view.workspace.path, upper, work).at(Step::Overlay)
        }
    }
}

/// A file system of its own processes, read-only: to the kernel, root is root in there, whatever it was deprived of, and most of
/// what the file system shows besides processes are settings of the whole machine.
fn take_processes(plan: &Plan) -> sys::Result<Fd> {
    let processes = mount::new(c"proc", &[])?;
    // Counts for the namespace alone, from Linux 6.14 on; before that it may not be written, and the others must do.
    if let Ok(most) = sys::open_at(processes, c"sys/kernel/pid_max", libc::O_WRONLY, 0) {
        let _ = sys::write(most, plan.most_processes.to_bytes());
        sys::close(most);
    }
    mount::restrict(processes, c"", HARMLESS | mount::RDONLY)?;
    Ok(processes)
}

/// Directories are named by descriptor: their paths may hold characters that mean something in options of a mount.
fn overlay(lower: &CStr, upper: &CStr, work: &CStr) -> sys::Result<Fd> {
    let [lower, upper, work] = [lower, upper, work].map(|path| sys::open(path, libc::O_PATH));
    let names = [lower?, upper?, work?].map(|fd| Name::of(b"/proc/self/fd/").number(fd));
    let [lower, upper, work] = names.each_ref().map(|name| Some(name.as_c_str()));
    mount::new(
        c"overlay",
        &[
            (c"source", Some(c"windlass")),
            (c"lowerdir", lower),
            (c"upperdir", upper),
            (c"workdir", work),
            (c"userxattr", None),
        ],
    )
}

/// What makes up a directory of devices.
struct Devices {
    root: Fd,
    terminals: Fd,
    nodes: [Fd; DEVICES.len()],
    /// The program's own terminal, which is none of the new ones.
    console: Fd,
}

fn take_devices(plan: &Plan) -> Result<Devices> {
    let options = [(c"mode", Some(c"0755")), (c"size", Some(plan.shared_memory.as_c_str()))];
    let root = mount::new(c"tmpfs", &options).at(Step::Dev)?;
    let options = [(c"newinstance", None), (c"ptmxmode", Some(c"0666")), (c"mode", Some(c"0620"))];
    let terminals = mount::new(c"devpts", &options).at(Step::Dev)?;
    let mut nodes = [-1; DEVICES.len()];
    for ((path, _), slot) in DEVICES.iter().zip(&mut nodes) {
        *slot = mount::copy(libc::AT_FDCWD, path).unwrap_or(-1);
    }
    let console = plan
        .terminal_path
        .as_ref()
        .map_or(-1, |path| mount::copy(libc::AT_FDCWD, path).unwrap_or(-1));
    Ok(Devices { root, terminals, nodes, console })
}

fn put_devices(devices: &Devices) -> Result {
    let Devices { root, terminals, nodes, console } = *devices;
    mount::attach(root, libc::AT_FDCWD, c"/dev").at(Step::Dev)?;
    let root = sys::open(c"/dev", libc::O_DIRECTORY).at(Step::Dev)?;
    let file = |name: &CStr, mode| {
        sys::open_at(root, name, libc::O_CREAT | libc::O_WRONLY, mode).map(sys::close)
    };
    let names = DEVICES.iter().map(|(_, name)| *name).chain([CONSOLE]);
    for (name, node) in names.zip(nodes.into_iter().chain([console])).filter(|(_, node)| *node >= 0)
    {
        file(name, 0o666).at(Step::Dev)?;
        mount::attach(node, root, name).at(Step::Dev)?;
    }
    for (target, name) in DEVICE_LINKS {
        sys::symlink_at(target, root, name).at(Step::Dev)?;
    }
    for (name, mode) in [
        (c"pts", 0o755),
        (c"shm", 0o1777),
        (c".hidden", 0o755),
        (c".hidden/directory", 0),
        (c".hidden/empty", 0o555),
    ] {
        sys::mkdir_at(root, name, mode).at(Step::Dev)?;
    }
    file(c".hidden/file", 0).at(Step::Dev)?;
    file(c".hidden/nothing", 0o444).at(Step::Dev)?;
    keep(root, c".hidden").at(Step::Dev)?;
    mount::attach(terminals, root, c"pts").at(Step::Dev)?;
    sys::close(root);
    Ok(())
}

/// Both directories that programs use.
fn put_temporary(temporary: Fd) -> sys::Result {
    mount::restrict(temporary, c"", HARMLESS)?;
    let again = mount::copy(temporary, c"");
    mount::attach(temporary, libc::AT_FDCWD, c"/tmp")?;
    // Kernels before 6.15 copy only what is attached.
    let again = again.or_else(|_| mount::copy(libc::AT_FDCWD, c"/tmp"))?;
    match mount::attach(again, libc::AT_FDCWD, c"/var/tmp") {
        Err(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// Puts what was taken hold of in its place; where other mounts hide that, it is made again.
fn put_back(fd: Fd, place: &Place, more: u64) -> sys::Result {
    mount::restrict(fd, c"", HARMLESS | more)?;
    match mount::attach(fd, libc::AT_FDCWD, &place.path) {
        Err(libc::ENOENT) => {}
        other => return other,
    }
    for path in place.above.iter().chain([&place.path]) {
        match sys::mkdir_at(libc::AT_FDCWD, path, 0o755) {
            Ok(()) | Err(libc::EEXIST | libc::EROFS) => {}
            Err(errno) => return Err(errno),
        }
    }
    mount::attach(fd, libc::AT_FDCWD, &place.path)
}

/// Puts one of our own over a place. That there is nothing is no error.
fn cover(path: &CStr, with: &CStr) -> sys::Result {
    let place = match sys::open(path, libc::O_PATH) {
        Ok(place) => place,
        Err(libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let covered = cover_place(place, with);
    sys::close(place);
    covered
}

/// What is put there is read-only where it comes from.
fn cover_place(place: Fd, with: &CStr) -> sys::Result {
    let with = mount::copy(libc::AT_FDCWD, with)?;
    let covered = mount::attach(with, place, c"");
    sys::close(with);
    covered
}

/// Puts a place over itself, so that it cannot be moved, removed or replaced; with these attributes.
fn nail(at: Fd, path: &CStr, more: u64) -> sys::Result {
    let copy = mount::copy(at, path)?;
    let restricted = if more == 0 { Ok(()) } else { mount::restrict(copy, c"", more) };
    let nailed = restricted.and_then(|()| mount::attach(copy, at, path));
    sys::close(copy);
    nailed
}

/// The same, as it is and will be.
fn keep(at: Fd, path: &CStr) -> sys::Result {
    nail(at, path, mount::RDONLY | HARMLESS)
}

/// Makes a file or directory unreadable.
fn hide(path: &CStr) -> sys::Result {
    // Files are not covered by directories.
    let Ok(place) = sys::open(path, libc::O_PATH | libc::O_DIRECTORY) else {
        return cover(path, HIDDEN_FILE);
    };
    let covered = cover_place(place, HIDDEN_DIRECTORY);
    sys::close(place);
    covered
}

fn protect_all(view: &PlannedView, made: &mut dyn FnMut(usize)) -> Result {
    let workspace = sys::open(&view.workspace.path, libc::O_PATH).at(Step::Protected)?;
    // On a stage, what a link could lead around is caught when the changes are taken.
    let is_staged = matches!(view.stage, PlannedStage::Overlay { .. });
    let tolerable = |protected| match protected {
        Err(libc::ELOOP | libc::ENOTDIR) if is_staged => Ok(false),
        other => other,
    };
    for path in &view.nailed {
        tolerable(nail_beneath(workspace, path)).at(Step::Protected)?;
    }
    for (number, protected) in view.protected.iter().enumerate() {
        if tolerable(protect(workspace, protected)).at(Step::Protected)? {
            made(number);
        }
    }
    sys::close(workspace);
    Ok(())
}

/// Keeps a directory above a protected place where it is, so that nobody puts another in its place; whether it is there.
fn nail_beneath(workspace: Fd, path: &CStr) -> sys::Result<bool> {
    let place = match sys::place_beneath(workspace, path) {
        Ok(place) => place,
        Err(libc::ENOENT) => return Ok(false),
        Err(errno) => return Err(errno),
    };
    let nailed = nail(place, c"", 0);
    sys::close(place);
    nailed.map(|()| true)
}

/// Makes a place of the workspace read-only; whether something had to be put there because nothing was.
fn protect(workspace: Fd, protected: &PlannedProtected) -> sys::Result<bool> {
    let place = match sys::place_beneath(workspace, &protected.path) {
        Ok(place) => place,
        Err(libc::ENOENT) => {
            return match stand_in(workspace, protected) {
                // Something stands for the directory as a whole.
                Err(libc::ENOENT | libc::EROFS) => Ok(false),
                other => other.map(|()| true),
            };
        }
        Err(errno) => return Err(errno),
    };
    let kept = keep(place, c"");
    sys::close(place);
    kept.map(|()| false)
}

/// Puts something empty where nothing is, and keeps that as it is.
fn stand_in(workspace: Fd, protected: &PlannedProtected) -> sys::Result {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    let empty = if protected.is_directory {
        sys::mkdir_at(workspace, &protected.path, 0o755)?;
        EMPTY_DIRECTORY
    } else {
        sys::open_at(workspace, &protected.path, flags, 0o644).map(sys::close)?;
        EMPTY_FILE
    };
    let place = sys::place_beneath(workspace, &protected.path)?;
    let covered = cover_place(place, empty);
    sys::close(place);
    covered
}

/// A loopback interface of its own, and a listener on it if one is wanted.
pub(crate) fn make_network(network: Network) -> Result<Option<Fd>> {
    if network == Network::Shared {
        return Ok(None);
    }
    bring_up_loopback().at(Step::Network)?;
    match network {
        Network::Listener => sys::listen_on_loopback(LISTENER_PORT).at(Step::Network).map(Some),
        Network::Own | Network::Shared => Ok(None),
    }
}

fn bring_up_loopback() -> sys::Result {
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: libc::c_short,
        rest: [u8; 22],
    }
    let mut request = Request { name: [0; 16], flags: 0, rest: [0; 22] };
    for (place, letter) in request.name.iter_mut().zip(b"lo") {
        *place = *letter;
    }
    request.flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(1);
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let pointer = std::ptr::from_mut(&mut request).cast();
    let up = sys::ioctl(socket, libc::SIOCSIFFLAGS, pointer);
    sys::close(socket);
    up
}

/// Gives up every right to be more than one is.
pub(crate) fn drop_privileges() -> Result {
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).at(Step::Privileges)?;
    sys::drop_capabilities().at(Step::Privileges)
}

pub(crate) fn set_limits(plan: &Plan) -> Result {
    let limits = &plan.limits;
    let set = |resource, wanted: u64| {
        let most = sys::limit_of(resource)?;
        let wanted = wanted.min(most);
        sys::set_limit(resource, wanted, wanted)
    };
    set(libc::RLIMIT_CORE, 0).at(Step::Limits)?;
    set(libc::RLIMIT_NOFILE, limits.open_files).at(Step::Limits)?;
    set(libc::RLIMIT_FSIZE, limits.file_size).at(Step::Limits)?;
    set(libc::RLIMIT_DATA, limits.memory).at(Step::Limits)?;
    if let Some(counted) = plan.counted {
        set(libc::RLIMIT_NPROC, counted).at(Step::Limits)?;
    }
    Ok(())
}

/// Rights to files that Landlock knows, by the version that brought them.
mod rights {
    pub(super) const EXECUTE: u64 = 1;
    const WRITE_FILE: u64 = 1 << 1;
    pub(super) const READ_FILE: u64 = 1 << 2;
    pub(super) const READ_DIR: u64 = 1 << 3;
    const MAKE_CHARACTER_DEVICE: u64 = 1 << 6;
    const MAKE_BLOCK_DEVICE: u64 = 1 << 11;
    const REFER: u64 = 1 << 13;
    const TRUNCATE: u64 = 1 << 14;
    const IOCTL_DEV: u64 = 1 << 15;

    pub(super) const READ: u64 = EXECUTE | READ_FILE | READ_DIR | IOCTL_DEV;
    pub(super) const OF_A_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

    /// Devices are never made: whoever could would reach through them whatever they stand for.
    pub(super) const NEVER: u64 = MAKE_CHARACTER_DEVICE | MAKE_BLOCK_DEVICE;

    /// All that a version knows.
    pub(super) fn known(version: u32) -> u64 {
        let mut known = (1 << 13) - 1;
        for (from, right) in [(2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)] {
            if version >= from {
                known |= right;
            }
        }
        known
    }
}

pub(crate) fn raise_fence(plan: &Plan, fence: &PlannedFence) -> Result {
    if fence.landlock < least_landlock(plan, fence) {
        return Err(Failure { step: Step::Landlock, errno: libc::EOPNOTSUPP });
    }
    if fence.landlock > 0 {
        restrict_files(plan, fence).at(Step::Landlock)?;
    }
    sys::filter(&fence.filter).at(Step::Seccomp)
}

/// The version without which nothing else would hold what is asked for.
fn least_landlock(plan: &Plan, fence: &PlannedFence) -> u32 {
    const WITH_TRUNCATING: u32 = 3;
    const WITH_TCP: u32 = 4;
    let network = plan.view.as_ref().map_or(Network::Shared, |view| view.network);
    if fence.internet && !fence.connect && network == Network::Shared {
        WITH_TCP
    } else if plan.view.is_none() {
        WITH_TRUNCATING
    } else {
        0
    }
}

fn restrict_files(plan: &Plan, fence: &PlannedFence) -> sys::Result {
    const TCP: u64 = 0b11;
    const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 0b11;
    let known = rights::known(fence.landlock);
    let tcp = if fence.landlock >= 4 && !fence.connect { TCP } else { 0 };
    let scoped = if fence.landlock >= 6 { ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 };
    let ruleset = landlock::ruleset(known, tcp, scoped)?;
    for path in &fence.readable {
        landlock::allow(ruleset, path, rights::READ & known, rights::OF_A_FILE & known)?;
    }
    // In a view, its terminal is among the devices of that.
    let terminal = plan.terminal_path.iter().filter(|_| plan.view.is_none());
    for path in fence.writable.iter().chain(terminal) {
        let allowed = known & !rights::NEVER;
        landlock::allow(ruleset, path, allowed, rights::OF_A_FILE & known)?;
    }
    let restricted = landlock::restrict_self(ruleset);
    sys::close(ruleset);
    restricted
}

/// The program's own input, output and errors, and its own session.
pub(crate) fn connect(own: [Fd; 3], is_terminal: bool) -> Result {
    sys::set_session().at(Step::Descriptors)?;
    for (fd, to) in own.into_iter().zip(0..) {
        sys::dup_to(fd, to).at(Step::Descriptors)?;
    }
    if is_terminal {
        let controlling: c_int = 0;
        let argument = std::ptr::without_provenance_mut(controlling.unsigned_abs() as usize);
        sys::ioctl(0, libc::TIOCSCTTY, argument).at(Step::Descriptors)?;
    }
    Ok(())
}
