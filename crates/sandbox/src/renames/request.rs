//! Reads a call that renames a directory from the memory of the caller, for the listener.
//!
//! The caller waits, but other threads of its process can change its memory, its working directory and its descriptors. So each is
//! read only once, and the mover uses the handles that were opened then.

use std::ffi::CStr;

use libc::{c_int, c_long, pid_t, seccomp_notif};

use super::movable::MovableDirectories;
use crate::path_buffer::PathBuffer;
use crate::sys::files::{self, FileFacts};
use crate::sys::{self, Fd, notify};

/// A rename of a directory that may need the mover. It holds plain numbers, because it is sent through a pipe.
#[repr(C)]
pub(super) struct Request {
    /// Id of the call at the seccomp notifier.
    pub(super) id: u64,
    /// Parent directory of the old name.
    pub(super) from: Fd,
    /// Parent directory of the new name.
    pub(super) to: Fd,
    /// Flags of `renameat2`.
    pub(super) flags: u32,
    _padding: u32,
    pub(super) old: EntryName,
    pub(super) new: EntryName,
}

impl Request {
    pub(super) const SIZE: usize = size_of::<Self>();

    /// Reads a call. `None` if it renames no directory on an overlay, or one that is known to be movable, or if it cannot be read: then the
    /// call proceeds unchanged.
    pub(super) fn of(
        listener: Fd,
        call: &seccomp_notif,
        movable: &MovableDirectories,
    ) -> Option<Self> {
        let arguments = RenameArguments::of(call)?;
        let caller = Caller(pid_t::try_from(call.pid).ok()?);
        let may_need_mover = |path: &CallerPath| {
            path.facts().is_ok_and(|found| found.is_directory() && !movable.has(&found))
        };
        let old = CallerPath::read(&caller, arguments.old)?;
        let is_exchange = arguments.flags & libc::RENAME_EXCHANGE != 0;
        let may_old_need_mover = may_need_mover(&old);
        if !may_old_need_mover && !is_exchange {
            return None;
        }
        let new = CallerPath::read(&caller, arguments.new)?;
        if !may_old_need_mover && !may_need_mover(&new) || !caller.has_our_root() {
            return None;
        }
        let (from, old) = old.open()?;
        let Some((to, new)) = new.open() else {
            sys::close(from);
            return None;
        };
        let request = Self { id: call.id, from, to, flags: arguments.flags, _padding: 0, old, new };
        if request.is_on_one_overlay() && notify::is_caller_waiting(listener, call.id) {
            return Some(request);
        }
        request.close();
        None
    }

    /// Closes the two directories.
    pub(super) fn close(&self) {
        sys::close(self.from);
        sys::close(self.to);
    }

    /// Returns whether both parents are on one overlay mount and the old name is not a mount itself; the kernel refuses any other rename.
    fn is_on_one_overlay(&self) -> bool {
        let mount = |at, name: &CStr| files::read_facts(at, name).map(|found| found.mount);
        let from = mount(self.from, c"");
        from.is_ok()
            && from == mount(self.to, c"")
            && from == mount(self.from, self.old.as_c_str())
            && files::is_on_overlay(self.from)
    }

    /// Returns whether the two names are to be exchanged.
    pub(super) fn is_exchange(&self) -> bool {
        self.flags & libc::RENAME_EXCHANGE != 0
    }

    pub(super) fn to_bytes(&self) -> [u8; Self::SIZE] {
        // SAFETY: whole numbers without room between them, of a size that the compiler checks.
        unsafe { std::mem::transmute_copy(self) }
    }

    pub(super) fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        // SAFETY: any bytes are whole numbers.
        unsafe { std::mem::transmute_copy(bytes) }
    }
}

/// The name of one entry of a directory, ended by a NUL.
#[repr(C)]
pub(super) struct EntryName([u8; Self::MAX_BYTES + 1]);

impl EntryName {
    /// Maximum length of a name in bytes, without the NUL.
    pub(super) const MAX_BYTES: usize = 255;

    /// Returns none for a name that cannot be renamed: empty, `.`, `..`, too long, or with a NUL.
    fn of(name: &[u8]) -> Option<Self> {
        if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
            return None;
        }
        let mut bytes = [0; Self::MAX_BYTES + 1];
        bytes.get_mut(..Self::MAX_BYTES)?.get_mut(..name.len())?.copy_from_slice(name);
        Some(Self(bytes))
    }

    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

/// The arguments of a `rename`, `renameat` or `renameat2` call.
struct RenameArguments {
    old: PathArgument,
    new: PathArgument,
    flags: u32,
}

/// The address of a path in the caller's memory, and the directory at which the path begins.
#[derive(Clone, Copy)]
struct PathArgument {
    directory: c_int,
    path: u64,
}

impl RenameArguments {
    /// Reads the arguments from the registers; none for another call.
    fn of(call: &seccomp_notif) -> Option<Self> {
        let [first, second, third, fourth, fifth, _] = call.data.args;
        let at = |directory: u64, path| PathArgument {
            directory: low_half(directory).cast_signed(),
            path,
        };
        let here = |path| PathArgument { directory: libc::AT_FDCWD, path };
        match c_long::from(call.data.nr) {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => Some(Self { old: here(first), new: here(second), flags: 0 }),
            libc::SYS_renameat => {
                Some(Self { old: at(first, second), new: at(third, fourth), flags: 0 })
            }
            libc::SYS_renameat2 => Some(Self {
                old: at(first, second),
                new: at(third, fourth),
                flags: low_half(fifth),
            }),
            _ => None,
        }
    }
}

/// Returns the lower half of a register, which is all that the kernel reads of an `int`.
#[expect(clippy::cast_possible_truncation, reason = "that is the point")]
fn low_half(register: u64) -> u32 {
    register as u32
}

/// The id of the thread that waits for the answer to its call.
struct Caller(pid_t);

impl Caller {
    /// Opens the caller's directory at which a relative path begins: its working directory or one of its descriptors.
    fn directory(&self, directory: c_int) -> sys::Result<Fd> {
        let process = PathBuffer::new(b"/proc/").push_number(self.0);
        let name = if directory == libc::AT_FDCWD {
            process.push(b"/cwd")
        } else if directory >= 0 {
            process.push(b"/fd/").push_number(directory)
        } else {
            return Err(libc::EBADF);
        };
        sys::open(name.as_c_str(), libc::O_PATH | libc::O_DIRECTORY)
    }

    /// Returns whether the caller has the same root and mounts as this process, so that paths mean the same to both.
    fn has_our_root(&self) -> bool {
        let identity = |facts: FileFacts| (facts.device, facts.inode, facts.mount);
        let theirs = PathBuffer::new(b"/proc/").push_number(self.0).push(b"/root/");
        let theirs = files::read_facts(libc::AT_FDCWD, theirs.as_c_str()).map(identity);
        theirs.is_ok() && theirs == files::read_facts(libc::AT_FDCWD, c"/").map(identity)
    }
}

/// A path that was read from a caller, and the directory at which it begins.
struct CallerPath {
    /// Handle on that directory; `AT_FDCWD` for an absolute path.
    base: Fd,
    path: [u8; Self::MAX_BYTES],
}

impl CallerPath {
    const MAX_BYTES: usize = libc::PATH_MAX.unsigned_abs() as usize;

    /// Reads a path from the caller's memory and opens its directory; none if either fails.
    fn read(caller: &Caller, argument: PathArgument) -> Option<Self> {
        let mut path = [0; Self::MAX_BYTES];
        let address = usize::try_from(argument.path).ok()?;
        let read = notify::read_memory(caller.0, address, &mut path).ok()?;
        let length = path.get(..read)?.iter().position(|byte| *byte == 0)?;
        for byte in path.iter_mut().skip(length) {
            *byte = 0;
        }
        trim_trailing_slashes(path.get_mut(..length)?);
        let base = match path.first()? {
            0 => return None,
            b'/' => libc::AT_FDCWD,
            _ => caller.directory(argument.directory).ok()?,
        };
        Some(Self { base, path })
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.path).unwrap_or(c"")
    }

    /// Reads the facts of the file at the path. A guess only, because magic links lead elsewhere than for the caller; [`open`](Self::open)
    /// refuses these.
    fn facts(&self) -> sys::Result<FileFacts> {
        files::read_facts(self.base, self.as_c_str())
    }

    /// Opens the parent directory of the last component. Returns the handle and the name of the component.
    fn open(mut self) -> Option<(Fd, EntryName)> {
        let path = self.as_c_str().to_bytes();
        let from = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let name = EntryName::of(path.get(from..)?)?;
        for byte in self.path.iter_mut().skip(from) {
            *byte = 0;
        }
        let parent = if from == 0 { c"." } else { self.as_c_str() };
        let opened = files::open_directory_handle(self.base, parent).ok()?;
        Some((opened, name))
    }
}

impl Drop for CallerPath {
    fn drop(&mut self) {
        if self.base >= 0 {
            sys::close(self.base);
        }
    }
}

/// Replaces the slashes at the end of a path by NULs; keeps the one of the root.
fn trim_trailing_slashes(path: &mut [u8]) {
    for byte in path.iter_mut().skip(1).rev() {
        if *byte != b'/' {
            break;
        }
        *byte = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_slashes_are_removed_except_of_the_root() {
        for (path, wanted) in
            [("a", "a"), ("a/", "a"), ("a/b///", "a/b"), ("/", "/"), ("///", "/"), ("", "")]
        {
            let mut bytes = path.as_bytes().to_vec();
            trim_trailing_slashes(&mut bytes);
            bytes.retain(|byte| *byte != 0);
            assert_eq!(String::from_utf8(bytes).ok().as_deref(), Some(wanted), "{path}");
        }
    }

    #[test]
    fn names_that_cannot_be_renamed_are_refused() {
        let long = [b'n'; EntryName::MAX_BYTES];
        for (name, is_entry) in [
            (&b"a"[..], true),
            (b"...", true),
            (&long, true),
            (&[b'n'; EntryName::MAX_BYTES + 1], false),
            (b"", false),
            (b".", false),
            (b"..", false),
        ] {
            let found = EntryName::of(name);
            assert_eq!(found.is_some(), is_entry, "{name:?}");
            assert!(found.is_none_or(|found| found.as_c_str().to_bytes() == name));
        }
    }

    #[test]
    fn request_converted_to_bytes_and_back_is_the_same() {
        let name = |text: &[u8]| EntryName::of(text).unwrap_or(EntryName([0; 256]));
        let request = Request {
            id: 7,
            from: 3,
            to: 4,
            flags: 2,
            _padding: 0,
            old: name(b"old"),
            new: name(b"n"),
        };
        let read = Request::from_bytes(&request.to_bytes());
        assert_eq!((read.id, read.from, read.to, read.flags), (7, 3, 4, 2));
        assert_eq!((read.old.as_c_str(), read.new.as_c_str()), (c"old", c"n"));
    }
}
