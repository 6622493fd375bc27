//! Reads the identity and change time of a directory in one system call.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use windlass_core::FileKind;

use crate::isolate::tree::Tree;
use crate::kernel::{MAX_PATH_BYTES, NAME_ONLY, stat, stat_child};

/// Facts about a directory that show whether the index is still current for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirectoryStatus {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Time of the last change (ctime), in nanoseconds since 1970.
    pub(super) changed: i64,
    /// True if a file system is mounted on the directory; `None` if the kernel does not report it (before Linux 5.8).
    is_mount_point: Option<bool>,
}

impl DirectoryStatus {
    /// Returns whether the directory is a mount point. A walk that began on `root_device` must not enter it.
    ///
    /// The device alone does not tell: a bind mount has the same device, and a btrfs subvolume, which an overlay does show, has
    /// another.
    pub(super) fn is_mounted(&self, root_device: u64) -> bool {
        self.is_mount_point.unwrap_or(self.device != root_device)
    }

    /// Returns whether the directory has this device and inode.
    pub(super) fn is_same_directory(&self, device: u64, inode: u64) -> bool {
        (self.device, self.inode) == (device, inode)
    }
}

/// Reads the status of a path below the root of a tree; `None` if it is not a directory.
///
/// The kernel follows links in the middle of the path. That does no harm: each directory on the way was compared with the index
/// just before, and a directory that is reached by a new link has another inode than the known one.
pub(super) fn status_of_path(tree: &Tree, path: &Path) -> Result<Option<DirectoryStatus>, Errno> {
    let found = if path.as_os_str().is_empty() {
        status_of_handle(tree.root())
    } else if path.as_os_str().len() < MAX_PATH_BYTES {
        status_of_child(tree.root(), path)
    } else {
        tree.open_below(path, NAME_ONLY).and_then(|handle| status_of_handle(handle.as_fd()))
    };
    match found {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        found => found,
    }
}

/// Reads the status of an open directory.
pub(super) fn status_of_handle(handle: BorrowedFd<'_>) -> Result<Option<DirectoryStatus>, Errno> {
    match rustix::fs::statx(handle, "", AtFlags::EMPTY_PATH, wanted_fields()) {
        Err(Errno::NOSYS) => stat(handle).map(|stat| without_mount(&stat)),
        found => found.map(|found| from_statx(&found)),
    }
}

/// Reads the status of a path beneath a handle.
fn status_of_child(from: BorrowedFd<'_>, path: &Path) -> Result<Option<DirectoryStatus>, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(from, path, flags, wanted_fields()) {
        Err(Errno::NOSYS) => stat_child(from, path).map(|stat| without_mount(&stat)),
        found => found.map(|found| from_statx(&found)),
    }
}

/// Returns the fields that are requested from `statx`.
fn wanted_fields() -> StatxFlags {
    StatxFlags::TYPE | StatxFlags::INO | StatxFlags::CTIME
}

/// Converts the result of `statx`; `None` if it is not a directory.
fn from_statx(found: &rustix::fs::Statx) -> Option<DirectoryStatus> {
    if FileType::from_raw_mode(found.stx_mode.into()) != FileType::Directory {
        return None;
    }
    let mount = StatxAttributes::MOUNT_ROOT;
    let seconds = found.stx_ctime.tv_sec.saturating_mul(1_000_000_000);
    Some(DirectoryStatus {
        device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        changed: seconds.saturating_add(found.stx_ctime.tv_nsec.into()),
        is_mount_point: found
            .stx_attributes_mask
            .contains(mount)
            .then(|| found.stx_attributes.contains(mount)),
    })
}

/// Converts the result of `stat`, for kernels without `statx`; `None` if it is not a directory.
fn without_mount(stat: &windlass_core::Stat) -> Option<DirectoryStatus> {
    (stat.kind == FileKind::Directory).then_some(DirectoryStatus {
        device: stat.fingerprint.device,
        inode: stat.fingerprint.inode,
        changed: stat.fingerprint.changed,
        is_mount_point: None,
    })
}
