//! System calls on files and directories, relative to a handle on the parent directory.

use super::{
    CStr, Fd, OpenHow, RESOLVE_NO_MAGICLINKS, Result, c_int, c_uint, size, to_int, to_length,
};

/// The result of `statx`: identity, kind, mode, owner, size and times of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    /// Id of the mount that it is on.
    pub(crate) mount: u64,
    /// The bits of `S_IFMT`.
    pub(crate) kind: u32,
    /// The permission bits.
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) links: u32,
    pub(crate) size: u64,
    /// Bytes on disk.
    pub(crate) allocated: u64,
    /// Seconds and nanoseconds of the last access and the last change of content.
    times: [(i64, u32); 2],
}

impl FileFacts {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == libc::S_IFDIR
    }

    /// Returns whether both are the same inode of the same device.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Reads the facts of an entry of a directory, or of the directory itself if the path is empty. Does not follow a symbolic link at its end.
pub(crate) fn read_facts(at: Fd, path: &CStr) -> Result<FileFacts> {
    // SAFETY: all zero is a valid place for the answer.
    let mut statx: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT;
    let wanted = libc::STATX_BASIC_STATS | libc::STATX_MNT_ID;
    let pointer = std::ptr::from_mut(&mut statx);
    syscall!(libc::SYS_statx, at, path.as_ptr(), flags, wanted, pointer)?;
    let mode = u32::from(statx.stx_mode);
    Ok(FileFacts {
        device: (statx.stx_dev_major, statx.stx_dev_minor),
        inode: statx.stx_ino,
        mount: statx.stx_mnt_id,
        kind: mode & libc::S_IFMT,
        mode: mode & !libc::S_IFMT,
        owner: (statx.stx_uid, statx.stx_gid),
        links: statx.stx_nlink,
        size: statx.stx_size,
        allocated: statx.stx_blocks.saturating_mul(512),
        times: [
            (statx.stx_atime.tv_sec, statx.stx_atime.tv_nsec),
            (statx.stx_mtime.tv_sec, statx.stx_mtime.tv_nsec),
        ],
    })
}

/// Returns whether a directory lies on an overlay.
pub(crate) fn is_on_overlay(directory: Fd) -> bool {
    // SAFETY: all zero is a valid place for the answer.
    let mut statx: libc::statfs64 = unsafe { std::mem::zeroed() };
    let result = syscall!(libc::SYS_fstatfs, directory, std::ptr::from_mut(&mut statx));
    result.is_ok() && statx.f_type == libc::OVERLAYFS_SUPER_MAGIC
}

/// Opens an `O_PATH` handle on a directory. Refuses magic links, because those below `/proc/self` would lead to our own files instead of
/// the caller's.
pub(crate) fn open_directory_handle(at: Fd, path: &CStr) -> Result<Fd> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let flags = u64::from(flags.cast_unsigned());
    let how = OpenHow { flags, mode: 0, resolve: RESOLVE_NO_MAGICLINKS };
    let pointer = std::ptr::from_ref(&how);
    syscall!(libc::SYS_openat2, at, path.as_ptr(), pointer, size::<OpenHow>()).map(to_int)
}

/// Opens a directory for listing.
pub(crate) fn open_directory(at: Fd, name: &CStr) -> Result<Fd> {
    super::open_at(at, name, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW, 0)
}

/// Opens a file for reading.
pub(crate) fn open_file(at: Fd, name: &CStr) -> Result<Fd> {
    super::open_at(at, name, libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK, 0)
}

/// Creates a new file and opens it for writing.
pub(crate) fn make_file(at: Fd, name: &CStr, mode: c_uint) -> Result<Fd> {
    super::open_at(at, name, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, mode)
}

/// Removes an entry that is no directory.
pub(crate) fn unlink(at: Fd, name: &CStr) -> Result {
    syscall!(libc::SYS_unlinkat, at, name.as_ptr(), 0).map(drop)
}

/// Writes all bytes, continuing after short writes.
pub(crate) fn write_all(file: Fd, mut bytes: &[u8]) -> Result {
    while !bytes.is_empty() {
        let written =
            syscall!(libc::SYS_write, file, bytes.as_ptr(), bytes.len()).map(to_length)?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Takes a read lease, which the kernel refuses while another process has the file open for writing.
pub(crate) fn take_read_lease(file: Fd) -> Result {
    syscall!(libc::SYS_fcntl, file, libc::F_SETLEASE, libc::F_RDLCK).map(drop)
}

/// Returns whether the read lease is still held: no process has tried to open the file for writing since.
pub(crate) fn holds_read_lease(file: Fd) -> bool {
    syscall!(libc::SYS_fcntl, file, libc::F_GETLEASE)
        .is_ok_and(|kind| to_int(kind) == libc::F_RDLCK)
}

/// Returns whether a file has xattrs other than `security.selinux`, which every new file gets. True if they cannot be listed.
pub(crate) fn has_xattrs(file: Fd, names: &mut [u8]) -> bool {
    match list_xattrs(file, names) {
        Ok(0) | Err(libc::EOPNOTSUPP) => false,
        Ok(length) => names.get(..length) != Some(b"security.selinux\0"),
        Err(_) => true,
    }
}

/// Renames an entry by `renameat2`.
pub(crate) fn rename(from: Fd, old: &CStr, to: Fd, new: &CStr, flags: c_uint) -> Result {
    syscall!(libc::SYS_renameat2, from, old.as_ptr(), to, new.as_ptr(), flags).map(drop)
}

/// Removes an empty directory.
pub(crate) fn remove_directory(at: Fd, name: &CStr) -> Result {
    syscall!(libc::SYS_unlinkat, at, name.as_ptr(), libc::AT_REMOVEDIR).map(drop)
}

/// Sets the mode of an entry.
pub(crate) fn set_mode(at: Fd, name: &CStr, mode: c_uint) -> Result {
    syscall!(libc::SYS_fchmodat, at, name.as_ptr(), mode).map(drop)
}

/// Sets the mode of an open file or directory.
pub(crate) fn set_mode_of_open(directory: Fd, mode: c_uint) -> Result {
    syscall!(libc::SYS_fchmod, directory, mode).map(drop)
}

/// Sets the times of an open file or directory to those of another file.
pub(crate) fn set_times(directory: Fd, facts: &FileFacts) -> Result {
    let times = facts.times.map(|(seconds, nanoseconds)| libc::timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.into(),
    });
    let none: *const u8 = std::ptr::null();
    syscall!(libc::SYS_utimensat, directory, none, times.as_ptr(), 0).map(drop)
}

/// Returns whether this process may write to a file or directory.
pub(crate) fn is_writable(at: Fd, name: &CStr) -> bool {
    syscall!(libc::SYS_faccessat, at, name.as_ptr(), libc::W_OK).is_ok()
}

/// Moves the listing of a directory to the position behind an entry, or to 0, its beginning.
pub(crate) fn seek_listing(directory: Fd, to: isize) -> Result {
    syscall!(libc::SYS_lseek, directory, to, libc::SEEK_SET).map(drop)
}

/// Writes the names of a file's xattrs to a buffer, each ended by a NUL. Returns the number of bytes.
pub(crate) fn list_xattrs(directory: Fd, names: &mut [u8]) -> Result<usize> {
    syscall!(libc::SYS_flistxattr, directory, names.as_mut_ptr(), names.len()).map(to_length)
}

/// Reads the value of an xattr into a buffer. Returns the number of bytes.
pub(crate) fn get_xattr(directory: Fd, name: &CStr, value: &mut [u8]) -> Result<usize> {
    let number = libc::SYS_fgetxattr;
    syscall!(number, directory, name.as_ptr(), value.as_mut_ptr(), value.len()).map(to_length)
}

pub(crate) fn set_xattr(directory: Fd, name: &CStr, value: &[u8]) -> Result {
    let number = libc::SYS_fsetxattr;
    syscall!(number, directory, name.as_ptr(), value.as_ptr(), value.len(), 0).map(drop)
}

/// Creates a pipe. Returns the end to read from and the end to write to.
pub(crate) fn pipe() -> Result<[Fd; 2]> {
    let mut both: [c_int; 2] = [-1; 2];
    syscall!(libc::SYS_pipe2, both.as_mut_ptr(), libc::O_CLOEXEC)?;
    Ok(both)
}
