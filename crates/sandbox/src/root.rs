//! Makes the root file system of a program: mounts an empty tmpfs, mounts the view's sources in it, and makes it the root.
//!
//! The new root is mounted over the old one. The old one stays the root of this process until the end, so sources are opened by
//! their usual paths, while everything in the new root is opened from its handle without following symbolic links: the view can hold
//! directories that an earlier program wrote to and could have put links into.
//!
//! All of it happens in a process that has just been forked, so nothing here allocates.

use std::ffi::{CStr, CString};

use crate::LaunchStep;
use crate::path_buffer::PathBuffer;
use crate::plan::{
    LaunchPlan, PlannedMount, PlannedObject, PlannedProtected, PlannedSource, PlannedView,
};
use crate::setup::{AtStep as _, Result};
use crate::sys::{self, Fd, mount};

/// Device files that every view has: the path on the machine and the name in `/dev`.
const DEVICES: [(&CStr, &CStr); 6] = [
    (c"/dev/null", c"null"),
    (c"/dev/zero", c"zero"),
    (c"/dev/full", c"full"),
    (c"/dev/random", c"random"),
    (c"/dev/urandom", c"urandom"),
    (c"/dev/tty", c"tty"),
];

/// Name in `/dev` of the program's terminal, which the program's own `/dev/pts` does not have.
const CONSOLE: &CStr = c"console";

/// Symbolic links in `/dev`: target and name.
const DEVICE_LINKS: [(&CStr, &CStr); 5] = [
    (c"/proc/self/fd", c"fd"),
    (c"/proc/self/fd/0", c"stdin"),
    (c"/proc/self/fd/1", c"stdout"),
    (c"/proc/self/fd/2", c"stderr"),
    (c"pts/ptmx", c"ptmx"),
];

/// Directory and file of mode 0 that are mounted over masked paths.
const MASKED_DIRECTORY: &CStr = c"dev/.masks/directory";
const MASKED_FILE: &CStr = c"dev/.masks/file";
/// Empty read-only directory and file that are mounted over stand-ins of absent protected paths.
const EMPTY_DIRECTORY: &CStr = c"dev/.masks/empty";
const EMPTY_FILE: &CStr = c"dev/.masks/nothing";

/// Directory with the layers of an overlay whose changes end with the program. A view has one at most.
const SCRATCH: &CStr = c".scratch";

/// Attributes of every mount in a view: no set-id bits, no devices.
const NOSUID_NODEV: u64 = mount::NOSUID | mount::NODEV;

/// Makes the root file system and enters it. Calls `made` with the index of each protected path at which an empty file or directory was
/// created.
pub(crate) fn make_root(
    plan: &LaunchPlan,
    view: &PlannedView,
    made: &mut dyn FnMut(usize),
) -> Result {
    mount::make_all_private().at(LaunchStep::Mounts)?;
    let options = [(c"mode", Some(c"0755")), (c"size", Some(c"64m"))];
    let root = mount::new_file_system(c"tmpfs", &options).at(LaunchStep::Root)?;
    mount::attach(root, libc::AT_FDCWD, c"/").at(LaunchStep::Root)?;
    mount_proc(plan, root).at(LaunchStep::Proc)?;
    mount_dev(plan, root)?;
    for mount in &view.mounts {
        mount_source(root, mount)?;
    }
    for path in &view.masked {
        mask(root, path).at(LaunchStep::Masked)?;
    }
    protect_all(root, view, made)?;
    mount::set_attributes(root, NOSUID_NODEV | mount::RDONLY).at(LaunchStep::Root)?;
    sys::change_root(root).at(LaunchStep::Root)?;
    sys::close(root);
    Ok(())
}

/// Mounts one source of the view at its path in the new root.
fn mount_source(root: Fd, mount: &PlannedMount) -> Result {
    match &mount.source {
        PlannedSource::ReadOnly(object) => {
            mount_object(root, &mount.path_components, object, NOSUID_NODEV | mount::RDONLY)
                .at(LaunchStep::ReadOnly)
        }
        PlannedSource::Writable(object) => {
            mount_object(root, &mount.path_components, object, NOSUID_NODEV)
                .at(LaunchStep::Writable)
        }
        PlannedSource::Overlay { lower, upper } => {
            let upper = upper.as_ref().map(open_upper_layer).transpose().at(LaunchStep::Overlay)?;
            mount_overlay(root, &mount.path_components, lower, upper).at(LaunchStep::Overlay)
        }
        PlannedSource::Scratch(lower) => {
            mount_scratch_overlay(root, &mount.path_components, lower).at(LaunchStep::Overlay)
        }
        PlannedSource::Sysfs(object) => {
            mount_sysfs(root, &mount.path_components, object).at(LaunchStep::ReadOnly)
        }
        PlannedSource::Link(target) => {
            create_link(root, &mount.path_components, target).at(LaunchStep::Root)
        }
        PlannedSource::Directory => open_or_create_target(root, &mount.path_components, true)
            .map(sys::close)
            .at(LaunchStep::Root),
    }
}

/// Mounts a file or directory of the machine, with its submounts, at a path in the new root.
fn mount_object(root: Fd, at: &[CString], object: &PlannedObject, attributes: u64) -> sys::Result {
    let source = reopen(object)?;
    let is_directory = sys::is_directory(source)?;
    let copy = mount::clone_tree(source, c"")?;
    sys::close(source);
    mount::set_attributes_recursive(copy, c"", attributes)?;
    attach_at(root, at, copy, is_directory)
}

/// Mounts a new sysfs, or, if the kernel refuses that, a read-only copy of the machine's. A new one has no submounts, which would all have
/// to be copied and unmounted again.
fn mount_sysfs(root: Fd, at: &[CString], fallback: &PlannedObject) -> sys::Result {
    let Ok(new_sysfs) = mount::new_file_system(c"sysfs", &[]) else {
        return mount_object(root, at, fallback, NOSUID_NODEV | mount::RDONLY);
    };
    mount::set_attributes_recursive(new_sysfs, c"", NOSUID_NODEV | mount::RDONLY)?;
    attach_at(root, at, new_sysfs, true)
}

/// Mounts an overlay at a path in the new root. Its layers are named by descriptor, because their paths may hold characters that have a
/// meaning in mount options.
fn mount_overlay(
    root: Fd,
    at: &[CString],
    lower: &[PlannedObject],
    upper: Option<[Fd; 2]>,
) -> sys::Result {
    let mut names = PathBuffer::new(b"");
    for (number, object) in lower.iter().enumerate() {
        let separator: &[u8] = if number == 0 { b"/proc/self/fd/" } else { b":/proc/self/fd/" };
        names = names.push(separator).push_number(reopen(object)?);
    }
    let lower = (c"lowerdir", Some(names.as_c_str()));
    let source = (c"source", Some(c"windlass"));
    let overlay = match upper {
        None => mount::new_file_system(c"overlay", &[source, lower, (c"userxattr", None)])?,
        Some([upper, work]) => {
            let upper = PathBuffer::new(b"/proc/self/fd/").push_number(upper);
            let work = PathBuffer::new(b"/proc/self/fd/").push_number(work);
            let upper = (c"upperdir", Some(upper.as_c_str()));
            let work = (c"workdir", Some(work.as_c_str()));
            let user = (c"userxattr", None);
            // Ending an overlay otherwise waits for the whole file system of its upper directory to be on disk.
            let fast = [source, lower, upper, work, user, (c"volatile", None)];
            match mount::new_file_system(c"overlay", &fast) {
                // Linux before 5.10.
                Err(libc::EINVAL) => {
                    mount::new_file_system(c"overlay", &[source, lower, upper, work, user])?
                }
                other => other?,
            }
        }
    };
    // The descriptors of the layers are not closed here. They are close-on-exec, so the program does not inherit them.
    mount::set_attributes_recursive(overlay, c"", NOSUID_NODEV)?;
    attach_at(root, at, overlay, true)
}

/// Opens the upper directory and the work directory.
fn open_upper_layer([upper, work]: &[PlannedObject; 2]) -> sys::Result<[Fd; 2]> {
    Ok([reopen(upper)?, reopen(work)?])
}

/// Mounts an overlay whose upper layer is in the new root's tmpfs. The program sees that layer read-only, like all of the root; the overlay
/// itself can write to it.
fn mount_scratch_overlay(root: Fd, at: &[CString], lower: &[PlannedObject]) -> sys::Result {
    sys::mkdir_at(root, SCRATCH, 0o700)?;
    let layers = sys::open_handle_beneath(root, SCRATCH)?;
    let mut made = [0; 2];
    for (name, made) in [c"upper", c"work"].into_iter().zip(&mut made) {
        sys::mkdir_at(layers, name, 0o700)?;
        *made = sys::open_handle_beneath(layers, name)?;
    }
    sys::close(layers);
    mount_overlay(root, at, lower, Some(made))
}

/// Attaches a mount at a path in the new root, which is created if it is missing. Closes the mount.
fn attach_at(root: Fd, at: &[CString], mount: Fd, is_directory: bool) -> sys::Result {
    let target = open_or_create_target(root, at, is_directory)?;
    let attached = mount::attach(mount, target, c"");
    sys::close(target);
    sys::close(mount);
    attached
}

/// Creates a symbolic link at a path in the new root.
fn create_link(root: Fd, at: &[CString], target: &CStr) -> sys::Result {
    let Some((name, above)) = at.split_last() else { return Err(libc::EINVAL) };
    let parent = open_or_create_target(root, above, true)?;
    let made = sys::symlink_at(target, parent, name);
    sys::close(parent);
    made
}

/// Opens an object again by its path, because a handle from another mount namespace cannot be mounted. Fails with `ESTALE` if the path
/// leads to another object by now.
fn reopen(object: &PlannedObject) -> sys::Result<Fd> {
    let opened = sys::open_handle(&object.path)?;
    if sys::identity(opened)? == object.identity { Ok(opened) } else { Err(libc::ESTALE) }
}

/// Opens a handle on a path in the new root; creates the missing directories and, at the end, a directory or an empty file.
fn open_or_create_target(root: Fd, at: &[CString], is_directory: bool) -> sys::Result<Fd> {
    let mut current = sys::dup_at_least(root, 0)?;
    for (number, name) in at.iter().enumerate() {
        let is_last = number + 1 == at.len();
        let next = match sys::open_handle_beneath(current, name) {
            Err(libc::ENOENT) => {
                // Another program may create it at the same time: several programs share the directories of a session or a workspace.
                match create_entry(current, name, is_directory || !is_last) {
                    Ok(()) | Err(libc::EEXIST) => sys::open_handle_beneath(current, name)?,
                    Err(errno) => return Err(errno),
                }
            }
            other => other?,
        };
        sys::close(current);
        current = next;
    }
    Ok(current)
}

/// Creates a directory or an empty read-only file.
fn create_entry(parent: Fd, name: &CStr, is_directory: bool) -> sys::Result {
    if is_directory {
        return sys::mkdir_at(parent, name, 0o755);
    }
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    sys::open_at(parent, name, flags, 0o444).map(sys::close)
}

/// Mounts a `/proc` of the new PID namespace, read-only: the kernel lets root write there without any capability, and most of its other
/// files are settings of the whole machine.
fn mount_proc(plan: &LaunchPlan, root: Fd) -> sys::Result {
    let processes = mount::new_file_system(c"proc", &[])?;
    // Applies to the namespace alone from Linux 6.14 on. Before that, the write fails, and the other limits must suffice.
    if let Ok(pid_max) = sys::open_at(processes, c"sys/kernel/pid_max", libc::O_WRONLY, 0) {
        let _ = sys::write(pid_max, plan.pid_max.to_bytes());
        sys::close(pid_max);
    }
    mount::set_attributes_recursive(processes, c"", NOSUID_NODEV | mount::RDONLY)?;
    sys::mkdir_at(root, c"proc", 0o755)?;
    let attached = mount::attach(processes, root, c"proc");
    sys::close(processes);
    attached
}

/// Mounts `/dev`: a tmpfs with the device files, links, `pts`, `shm` and the empty objects for masks.
fn mount_dev(plan: &LaunchPlan, root: Fd) -> Result {
    let options = [
        (c"mode", Some(c"0755")),
        (c"size", Some(plan.shared_memory.as_c_str())),
        (c"nr_inodes", Some(c"65536")),
    ];
    let devices = mount::new_file_system(c"tmpfs", &options).at(LaunchStep::Dev)?;
    sys::mkdir_at(root, c"dev", 0o755).at(LaunchStep::Dev)?;
    mount::attach(devices, root, c"dev").at(LaunchStep::Dev)?;
    let console = plan.terminal_path.as_ref().map(|path| (path.as_c_str(), CONSOLE));
    for (path, name) in DEVICES.into_iter().chain(console) {
        // A device that this machine does not have is left out.
        let Ok(node) = mount::clone_tree(libc::AT_FDCWD, path) else { continue };
        create_entry(devices, name, false).at(LaunchStep::Dev)?;
        mount::attach(node, devices, name).at(LaunchStep::Dev)?;
        sys::close(node);
    }
    for (target, name) in DEVICE_LINKS {
        sys::symlink_at(target, devices, name).at(LaunchStep::Dev)?;
    }
    create_mask_objects(devices).at(LaunchStep::Dev)?;
    let options = [(c"newinstance", None), (c"ptmxmode", Some(c"0666")), (c"mode", Some(c"0620"))];
    let terminals = mount::new_file_system(c"devpts", &options).at(LaunchStep::Dev)?;
    mount::attach(terminals, devices, c"pts").at(LaunchStep::Dev)?;
    sys::close(terminals);
    sys::close(devices);
    Ok(())
}

/// Creates the directories of `/dev`, and the empty objects that are mounted over masked and protected paths.
fn create_mask_objects(devices: Fd) -> sys::Result {
    for (name, mode) in [
        (c"pts", 0o755),
        (c"shm", 0o1777),
        (c".masks", 0o755),
        (c".masks/directory", 0),
        (c".masks/empty", 0o555),
    ] {
        sys::mkdir_at(devices, name, mode)?;
    }
    let file = |name: &CStr, mode| {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        sys::open_at(devices, name, flags, mode).map(sys::close)
    };
    file(c".masks/file", 0)?;
    file(c".masks/nothing", 0o444)?;
    pin_read_only(devices, c".masks")
}

/// Makes a file or directory unreadable. Does nothing if the path does not exist or cannot be reached.
fn mask(root: Fd, path: &CStr) -> sys::Result {
    let handle = match sys::open_handle_beneath(root, path) {
        Ok(handle) => handle,
        Err(libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let empty_object = if sys::is_directory(handle)? { MASKED_DIRECTORY } else { MASKED_FILE };
    let mounted = mount_empty_object(root, handle, empty_object);
    sys::close(handle);
    mounted
}

/// Mounts one of the empty objects over a file or directory.
fn mount_empty_object(root: Fd, handle: Fd, empty_object: &CStr) -> sys::Result {
    let empty_object = mount::clone_tree(root, empty_object)?;
    let mounted = mount::attach(empty_object, handle, c"");
    sys::close(empty_object);
    mounted
}

/// Mounts a path over itself with these mount attributes, so that it cannot be moved, removed or replaced.
fn pin(at: Fd, path: &CStr, attributes: u64) -> sys::Result {
    let copy = mount::clone_tree(at, path)?;
    let restricted = if attributes == 0 {
        Ok(())
    } else {
        mount::set_attributes_recursive(copy, c"", attributes)
    };
    let pinned = restricted.and_then(|()| mount::attach(copy, at, path));
    sys::close(copy);
    pinned
}

/// Mounts a path over itself, read-only.
fn pin_read_only(at: Fd, path: &CStr) -> sys::Result {
    pin(at, path, mount::RDONLY | NOSUID_NODEV)
}

/// Pins and protects all paths of the view that need it.
fn protect_all(root: Fd, view: &PlannedView, made: &mut dyn FnMut(usize)) -> Result {
    if view.protected.is_empty() && view.pinned_directories.is_empty() {
        return Ok(());
    }
    let workspace = open_or_create_target(root, &view.workspace, true).at(LaunchStep::Protected)?;
    for path in &view.pinned_directories {
        pin_beneath(workspace, path).at(LaunchStep::Protected)?;
    }
    for (number, protected) in view.protected.iter().enumerate() {
        if protect(root, workspace, protected).at(LaunchStep::Protected)? {
            made(number);
        }
    }
    sys::close(workspace);
    Ok(())
}

/// Pins a directory of the workspace, so that it cannot be replaced. Does nothing if it does not exist.
fn pin_beneath(workspace: Fd, path: &CStr) -> sys::Result {
    let handle = match sys::open_handle_beneath(workspace, path) {
        Ok(handle) => handle,
        Err(libc::ENOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let pinned = pin(handle, c"", 0);
    sys::close(handle);
    pinned
}

/// Makes a path of the workspace read-only. Returns true if it did not exist and an empty file or directory was created for it. A symbolic
/// link is mounted over itself: it keeps its target, and cannot be removed or replaced.
fn protect(root: Fd, workspace: Fd, protected: &PlannedProtected) -> sys::Result<bool> {
    let handle = match sys::open_link_handle_beneath(workspace, &protected.path) {
        Ok(handle) => handle,
        Err(libc::ENOENT) => {
            return match create_stand_in(root, workspace, protected) {
                // A directory above it is protected as a whole.
                Err(libc::ENOENT | libc::EROFS) => Ok(false),
                other => other.map(|()| true),
            };
        }
        Err(errno) => return Err(errno),
    };
    let protected_mount = pin_read_only(handle, c"");
    sys::close(handle);
    protected_mount.map(|()| false)
}

/// Creates an empty file or directory at a protected path that does not exist, and mounts a read-only one over it so that it stays empty.
fn create_stand_in(root: Fd, workspace: Fd, protected: &PlannedProtected) -> sys::Result {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    let empty = if protected.is_directory {
        sys::mkdir_at(workspace, &protected.path, 0o755)?;
        EMPTY_DIRECTORY
    } else {
        sys::open_at(workspace, &protected.path, flags, 0o644).map(sys::close)?;
        EMPTY_FILE
    };
    let handle = sys::open_handle_beneath(workspace, &protected.path)?;
    let mounted = mount_empty_object(root, handle, empty);
    sys::close(handle);
    mounted
}
