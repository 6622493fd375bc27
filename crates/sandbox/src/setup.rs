//! Sets up the sandbox of a program but for its file system, which [`crate::root`] makes: user, network, privileges, limits, Landlock and
//! seccomp, descriptors.
//!
//! All of it happens in a process that has just been forked, so nothing here allocates.

use libc::c_int;

use crate::LaunchStep;
use crate::launch::ProgramNetwork;
use crate::plan::{LaunchPlan, PlannedFence};
use crate::sys::{self, Errno, Fd, landlock};

/// A failed step and its error number.
#[derive(Clone, Copy)]
pub(crate) struct SetupFailure {
    pub(crate) step: LaunchStep,
    pub(crate) errno: Errno,
}

pub(crate) type Result<T = ()> = std::result::Result<T, SetupFailure>;

/// Adds the failed step to an error number.
pub(crate) trait AtStep<T> {
    /// Converts an error number to a failure of this step.
    fn at(self, step: LaunchStep) -> Result<T>;
}

impl<T> AtStep<T> for sys::Result<T> {
    fn at(self, step: LaunchStep) -> Result<T> {
        self.map_err(|errno| SetupFailure { step, errno })
    }
}

/// Maps our user and group into the new user namespace.
pub(crate) fn map_user_and_group(plan: &LaunchPlan) -> Result {
    // The files below belong to root while the process is hidden from others. This process is a copy, and hidden again before another one
    // is in the namespace.
    sys::prctl(libc::PR_SET_DUMPABLE, 1).at(LaunchStep::Identity)?;
    // A kernel without this file does not allow the call anyway.
    match sys::write_file(c"/proc/self/setgroups", b"deny") {
        Ok(()) | Err(libc::ENOENT) => {}
        Err(errno) => return Err(SetupFailure { step: LaunchStep::Identity, errno }),
    }
    sys::write_file(c"/proc/self/uid_map", plan.user_map.to_bytes()).at(LaunchStep::Identity)?;
    sys::write_file(c"/proc/self/gid_map", plan.group_map.to_bytes()).at(LaunchStep::Identity)
}

/// Brings up the loopback interface, unless that of a session is shared, and opens a listener on it if the view asks for one.
pub(crate) fn make_network(plan: &LaunchPlan, network: ProgramNetwork) -> Result<Option<Fd>> {
    if network != ProgramNetwork::Machine && plan.session.is_none() {
        bring_up_loopback().at(LaunchStep::Network)?;
    }
    match network {
        ProgramNetwork::Listener(port) => {
            sys::listen_on_loopback(port).at(LaunchStep::Network).map(Some)
        }
        ProgramNetwork::Loopback | ProgramNetwork::Machine => Ok(None),
    }
}

/// Sets the loopback interface `lo` to up.
fn bring_up_loopback() -> sys::Result {
    /// The kernel's `ifreq`, with the flags of an interface.
    #[repr(C)]
    struct InterfaceRequest {
        name: [u8; 16],
        flags: libc::c_short,
        rest: [u8; 22],
    }
    let mut request = InterfaceRequest { name: [0; 16], flags: 0, rest: [0; 22] };
    for (byte, letter) in request.name.iter_mut().zip(b"lo") {
        *byte = *letter;
    }
    request.flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(1);
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let pointer = std::ptr::from_mut(&mut request).cast();
    let up = sys::ioctl(socket, libc::SIOCSIFFLAGS, pointer);
    sys::close(socket);
    up
}

/// Forbids new privileges, such as those of set-id programs, and drops all capabilities.
pub(crate) fn drop_privileges() -> Result {
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).at(LaunchStep::Privileges)?;
    sys::drop_capabilities().at(LaunchStep::Privileges)
}

/// Sets the resource limits of this process; each is at most the present hard limit.
pub(crate) fn set_limits(plan: &LaunchPlan) -> Result {
    let limits = &plan.limits;
    let set = |resource, wanted: u64| {
        let hard_limit = sys::hard_limit(resource)?;
        let wanted = wanted.min(hard_limit);
        sys::set_limit(resource, wanted, wanted)
    };
    set(libc::RLIMIT_CORE, 0).at(LaunchStep::Limits)?;
    set(libc::RLIMIT_NOFILE, limits.open_files).at(LaunchStep::Limits)?;
    set(libc::RLIMIT_FSIZE, limits.file_size).at(LaunchStep::Limits)?;
    set(libc::RLIMIT_DATA, limits.memory).at(LaunchStep::Limits)?;
    if let Some(maximum) = plan.process_count_limit {
        set(libc::RLIMIT_NPROC, maximum).at(LaunchStep::Limits)?;
    }
    Ok(())
}

/// Bits of Landlock's file rights.
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

    /// Rights to read and execute files and to list directories.
    pub(super) const READ: u64 = EXECUTE | READ_FILE | READ_DIR | IOCTL_DEV;
    /// Rights that a rule for a single file can have.
    pub(super) const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

    /// The right to create device files is never given: such a file would give access to any device.
    pub(super) const DEVICE_CREATION: u64 = MAKE_CHARACTER_DEVICE | MAKE_BLOCK_DEVICE;

    /// Returns all rights that a version of Landlock supports.
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

/// Creates the Landlock ruleset of a fence; none if the kernel has no Landlock. Fails if the kernel's version is too old for a fence that
/// nothing else enforces.
pub(crate) fn make_landlock_rules(plan: &LaunchPlan, fence: &PlannedFence) -> Result<Option<Fd>> {
    if fence.landlock < min_landlock_version(plan, fence) {
        return Err(SetupFailure { step: LaunchStep::Landlock, errno: libc::EOPNOTSUPP });
    }
    if fence.landlock == 0 {
        return Ok(None);
    }
    build_ruleset(plan, fence).at(LaunchStep::Landlock).map(Some)
}

/// Restricts this process by Landlock and seccomp. Outside a control group, an additional filter refuses memory that only a control group
/// counts.
pub(crate) fn apply_fence(fence: &PlannedFence, rules: Option<Fd>, is_in_group: bool) -> Result {
    if let Some(rules) = rules {
        landlock::restrict_self(rules).at(LaunchStep::Landlock)?;
    }
    if !is_in_group {
        sys::install_filter(&fence.filter_without_group).at(LaunchStep::Seccomp)?;
    }
    sys::install_filter(&fence.filter).at(LaunchStep::Seccomp)
}

/// Returns the oldest version of Landlock that suffices for a fence; 0 if the view enforces it without Landlock.
fn min_landlock_version(plan: &LaunchPlan, fence: &PlannedFence) -> u32 {
    /// First version of Landlock that restricts truncation.
    const TRUNCATE_VERSION: u32 = 3;
    /// First version of Landlock that restricts TCP.
    const TCP_VERSION: u32 = 4;
    let network = plan.view.as_ref().map_or(ProgramNetwork::Machine, |view| view.network);
    if fence.internet && !fence.connect && network == ProgramNetwork::Machine {
        TCP_VERSION
    } else if plan.view.is_none() {
        TRUNCATE_VERSION
    } else {
        0
    }
}

/// Creates a Landlock ruleset with the paths of a fence.
fn build_ruleset(plan: &LaunchPlan, fence: &PlannedFence) -> sys::Result<Fd> {
    /// Rights to bind and to connect TCP sockets.
    const TCP: u64 = 0b11;
    /// Scopes: abstract local sockets and signals.
    const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 0b11;
    let known = rights::known(fence.landlock);
    let tcp = if fence.landlock >= 4 && !fence.connect { TCP } else { 0 };
    let scoped = if fence.landlock >= 6 { ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 };
    let ruleset = landlock::create_ruleset(known, tcp, scoped)?;
    for path in &fence.readable {
        landlock::add_path_rule(ruleset, path, rights::READ & known, rights::FILE_RIGHTS & known)?;
    }
    // A view has the terminal among its devices.
    let terminal = plan.terminal_path.iter().filter(|_| plan.view.is_none());
    for path in fence.writable.iter().chain(terminal) {
        let allowed = known & !rights::DEVICE_CREATION;
        landlock::add_path_rule(ruleset, path, allowed, rights::FILE_RIGHTS & known)?;
    }
    Ok(ruleset)
}

/// Starts a new session, makes the given descriptors standard input, output and error, and, for a terminal, makes it the controlling one.
pub(crate) fn set_up_descriptors(standard_fds: [Fd; 3], is_terminal: bool) -> Result {
    sys::set_session().at(LaunchStep::Descriptors)?;
    for (fd, to) in standard_fds.into_iter().zip(0..) {
        sys::dup_to(fd, to).at(LaunchStep::Descriptors)?;
    }
    if is_terminal {
        let controlling: c_int = 0;
        let argument = std::ptr::without_provenance_mut(controlling.unsigned_abs() as usize);
        sys::ioctl(0, libc::TIOCSCTTY, argument).at(LaunchStep::Descriptors)?;
    }
    Ok(())
}
