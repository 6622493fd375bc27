//! Makes a directory of an overlay movable: replaces it, in place, by one that is in the upper layer alone and has the same entries.
//!
//! The new directory is made beside the old one, under a temporary name. Then the entries are moved into it: small files by a copy, others
//! by a rename (the kernel copies them up), and directories that cannot be renamed entry by entry. At last the new directory is renamed
//! over the old one, which is empty by then. If a step fails, all moved entries are moved back.
//!
//! A handle on the old directory, such as a working directory, stays on the old directory, which is removed. Names, contents, modes,
//! times and xattrs stay the same.

use std::ffi::CStr;

use super::movable::MovableDirectories;
use super::request::{EntryName, Request};
use super::{RENAME_PREFIX, copy};
use crate::path_buffer::PathBuffer;
use crate::sys::files::{self, FileFacts};
use crate::sys::{self, Fd, Result};

/// Maximum depth of directories that are moved entry by entry; each level takes two descriptors and some stack.
const MAX_DEPTH: u32 = 100;

/// Maximum number of passes over a directory to which other processes write meanwhile.
const MAX_PASSES: u32 = 16;

/// Mode bits of a directory that are needed to move its entries.
const OWNER_RWX: u32 = 0o700;

/// Mode bits that `mkdir` sets.
const MKDIR_MODE_BITS: u32 = 0o1777;

/// Buffers for directory listings, xattr names, and xattr values or file contents.
pub(super) struct WorkBuffers {
    entries: [u8; 32 << 10],
    names: [u8; 8 << 10],
    value: [u8; 64 << 10],
}

impl WorkBuffers {
    #[expect(clippy::large_stack_arrays, reason = "nothing may be allocated, and there is one")]
    pub(super) fn new() -> Self {
        Self { entries: [0; 32 << 10], names: [0; 8 << 10], value: [0; 64 << 10] }
    }
}

/// Makes the directories of a request movable, unless the kernel would refuse the request anyway. An error is the answer for the caller;
/// without one, the call proceeds.
pub(super) fn make_request_movable(
    request: &Request,
    movable: &MovableDirectories,
    buffers: &mut WorkBuffers,
) -> Result {
    let old = DirectoryEntry { parent: request.from, name: request.old.as_c_str() };
    let new = DirectoryEntry { parent: request.to, name: request.new.as_c_str() };
    match precheck(request, &old, &new) {
        RenamePrecheck::Refused => return Ok(()),
        RenamePrecheck::NotEmpty => return Err(libc::ENOTEMPTY),
        RenamePrecheck::Undecided => {}
    }
    old.make_movable(request.id, movable, buffers);
    if request.is_exchange() {
        new.make_movable(request.id, movable, buffers);
    }
    Ok(())
}

/// The result of a request as far as it can be foreseen before a file is moved.
enum RenamePrecheck {
    /// The kernel refuses it, or has nothing to do, whether or not the directories can be moved.
    Refused,
    /// The target is a directory that is not empty, for which the kernel would refuse it once the directory could be moved.
    NotEmpty,
    /// The rename may succeed if the directories are movable.
    Undecided,
}

/// Checks mounts, permissions and kinds of files of a request.
fn precheck(
    request: &Request,
    old: &DirectoryEntry<'_>,
    new: &DirectoryEntry<'_>,
) -> RenamePrecheck {
    let parents = files::read_facts(request.from, c"")
        .and_then(|from| Ok((from, files::read_facts(request.to, c"")?)));
    let (Ok((from, to)), Ok(facts)) = (parents, old.facts()) else {
        return RenamePrecheck::Refused;
    };
    let is_same_parent = from.is_same_file(&to);
    let is_possible = from.mount == to.mount
        && facts.mount == from.mount
        && files::is_writable(request.from, c".")
        && (is_same_parent || files::is_writable(request.to, c"."))
        && (is_same_parent || !facts.is_directory() || files::is_writable(old.parent, old.name))
        && (is_same_parent || !is_within(request.to, &facts));
    if !is_possible {
        return RenamePrecheck::Refused;
    }
    match new.facts() {
        Ok(found) if found.is_same_file(&facts) || found.mount != to.mount => {
            RenamePrecheck::Refused
        }
        Ok(_) if request.is_exchange() => RenamePrecheck::Undecided,
        Ok(_) if request.flags != 0 => RenamePrecheck::Refused,
        Ok(found) if !found.is_directory() || !facts.is_directory() => RenamePrecheck::Refused,
        Ok(_) if new.is_empty() == Ok(false) => RenamePrecheck::NotEmpty,
        Ok(_) => RenamePrecheck::Undecided,
        Err(libc::ENOENT) if facts.is_directory() && !request.is_exchange() => {
            RenamePrecheck::Undecided
        }
        Err(_) => RenamePrecheck::Refused,
    }
}

/// Returns whether a directory is the same as another or lies in it; true if an error prevents the check.
fn is_within(directory: Fd, other: &FileFacts) -> bool {
    let Ok(mut here) = sys::dup_at_least(directory, 0) else { return true };
    let mut below: Option<FileFacts> = None;
    let is_within = loop {
        let Ok(facts) = files::read_facts(here, c"") else { break true };
        if facts.is_same_file(other) {
            break true;
        }
        // The root is its own parent.
        if below.is_some_and(|below| facts.is_same_file(&below) || facts.mount != below.mount) {
            break false;
        }
        below = Some(facts);
        let above = sys::open_at(here, c"..", libc::O_PATH | libc::O_DIRECTORY, 0);
        sys::close(here);
        match above {
            Ok(above) => here = above,
            Err(_) => return true,
        }
    };
    sys::close(here);
    is_within
}

/// An entry of a directory, named by its parent and its name.
#[derive(Clone, Copy)]
pub(super) struct DirectoryEntry<'a> {
    pub(super) parent: Fd,
    pub(super) name: &'a CStr,
}

impl DirectoryEntry<'_> {
    pub(super) fn facts(&self) -> Result<FileFacts> {
        files::read_facts(self.parent, self.name)
    }

    /// Returns whether the entry is a directory without entries.
    fn is_empty(&self) -> Result<bool> {
        let directory = files::open_directory(self.parent, self.name)?;
        let mut entries = [0; 4096];
        let listed = each_entry(directory, &mut entries, &mut |_| Err(libc::ENOTEMPTY));
        sys::close(directory);
        match listed {
            Err(libc::ENOTEMPTY) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Makes a directory movable if it is not known to be. Errors are ignored: the kernel then refuses the caller's rename.
    fn make_movable(&self, id: u64, movable: &MovableDirectories, buffers: &mut WorkBuffers) {
        let needs_check = |facts: &FileFacts| facts.is_directory() && !movable.has(facts);
        let Some(facts) = self.facts().ok().filter(needs_check) else { return };
        if self.unmerge(&facts, id, buffers).is_ok()
            && let Ok(facts) = self.facts()
        {
            movable.add(&facts);
        }
    }

    /// Replaces a directory by one in the upper layer alone, unless it is movable already.
    fn unmerge(&self, facts: &FileFacts, id: u64, buffers: &mut WorkBuffers) -> Result {
        let number = i32::try_from(id & 0x7fff_ffff).unwrap_or(0);
        let temporary_name = PathBuffer::new(RENAME_PREFIX.as_bytes()).push_number(number);
        let target = DirectoryEntry { parent: self.parent, name: temporary_name.as_c_str() };
        sys::mkdir_at(target.parent, target.name, facts.mode & MKDIR_MODE_BITS | OWNER_RWX)?;
        let moved = match self.is_movable(&target) {
            Ok(false) => {
                let put_in_place =
                    || files::rename(target.parent, target.name, self.parent, self.name, 0);
                self.move_to(&target, facts, 0, &put_in_place, buffers)
            }
            other => other.map(drop),
        };
        // Fails if the directory was renamed over the old one, as it should be.
        let _ = files::remove_directory(target.parent, target.name);
        moved
    }

    /// Returns whether the kernel can rename this directory. Tries a rename over a directory that is not empty: `EXDEV` comes before
    /// `ENOTEMPTY`.
    fn is_movable(&self, target: &DirectoryEntry<'_>) -> Result<bool> {
        const PROBE: &CStr = c"probe";
        let directory = files::open_directory(target.parent, target.name)?;
        let renamed = sys::mkdir_at(directory, PROBE, OWNER_RWX)
            .map(|()| files::rename(self.parent, self.name, target.parent, target.name, 0));
        let _ = files::remove_directory(directory, PROBE);
        sys::close(directory);
        match renamed? {
            Err(libc::EXDEV) => Ok(false),
            // Another process has removed the probe: the directory is moved back.
            Ok(()) => {
                let none = libc::RENAME_NOREPLACE;
                files::rename(target.parent, target.name, self.parent, self.name, none)?;
                Ok(true)
            }
            Err(_) => Ok(true),
        }
    }

    /// Moves all entries into another directory, gives it the attributes of this one, and calls `finish`. After a failure, moves the
    /// entries back.
    fn move_to(
        &self,
        target: &DirectoryEntry<'_>,
        facts: &FileFacts,
        depth: u32,
        finish: &dyn Fn() -> Result,
        buffers: &mut WorkBuffers,
    ) -> Result {
        let is_closed = facts.mode & OWNER_RWX != OWNER_RWX;
        if is_closed {
            files::set_mode(self.parent, self.name, facts.mode | OWNER_RWX)?;
        }
        let moved = DirectoryPair::open(self, target).and_then(|pair| {
            let moved = pair.move_all(facts, depth, finish, buffers);
            if moved.is_err() {
                pair.move_back(facts, buffers);
            }
            pair.close();
            moved
        });
        if moved.is_err() && is_closed {
            let _ = files::set_mode(self.parent, self.name, facts.mode);
        }
        moved
    }
}

/// Two open directories: the entries of the source are moved into the target.
struct DirectoryPair {
    source: Fd,
    target: Fd,
}

impl DirectoryPair {
    /// Opens both directories for listing.
    fn open(source: &DirectoryEntry<'_>, target: &DirectoryEntry<'_>) -> Result<Self> {
        let source = files::open_directory(source.parent, source.name)?;
        match files::open_directory(target.parent, target.name) {
            Ok(target) => Ok(Self { source, target }),
            Err(errno) => {
                sys::close(source);
                Err(errno)
            }
        }
    }

    /// Closes both directories.
    fn close(&self) {
        sys::close(self.source);
        sys::close(self.target);
    }

    /// Moves all entries and the attributes, then calls `finish`. Starts again if other processes have added entries meanwhile.
    fn move_all(
        &self,
        facts: &FileFacts,
        depth: u32,
        finish: &dyn Fn() -> Result,
        buffers: &mut WorkBuffers,
    ) -> Result {
        for _ in 0..MAX_PASSES {
            self.move_entries(depth, buffers)?;
            self.give_attributes(facts, buffers)?;
            match finish() {
                Err(libc::ENOTEMPTY | libc::EEXIST) => {
                    self.set_target_mode(facts.mode | OWNER_RWX)?;
                }
                other => return other,
            }
        }
        Err(libc::ENOTEMPTY)
    }

    /// Moves each entry that the source lists now.
    fn move_entries(&self, depth: u32, buffers: &mut WorkBuffers) -> Result {
        files::seek_listing(self.source, 0)?;
        loop {
            let read = sys::read_entries(self.source, &mut buffers.entries)?;
            if read == 0 {
                return Ok(());
            }
            let mut at = 0;
            while let Some(listed) = ListedEntry::at(&buffers.entries, &mut at, read) {
                let entry = DirectoryEntry { parent: self.source, name: listed.name() };
                if listed.is_file && copy::move_small(&entry, self.target, &mut buffers.value)? {
                    continue;
                }
                match rename_entry(&entry, self.target) {
                    Ok(()) | Err(libc::ENOENT) => {}
                    Err(libc::EXDEV) => {
                        self.move_directory(&entry, depth, buffers)?;
                        // The listing was overwritten meanwhile.
                        files::seek_listing(self.source, listed.next)?;
                        break;
                    }
                    Err(errno) => return Err(errno),
                }
            }
        }
    }

    /// Moves a directory that cannot be renamed, entry by entry.
    fn move_directory(
        &self,
        entry: &DirectoryEntry<'_>,
        depth: u32,
        buffers: &mut WorkBuffers,
    ) -> Result {
        let facts = entry.facts()?;
        if !facts.is_directory() || depth >= MAX_DEPTH {
            return Err(libc::EXDEV);
        }
        let target = DirectoryEntry { parent: self.target, name: entry.name };
        sys::mkdir_at(target.parent, target.name, facts.mode & MKDIR_MODE_BITS | OWNER_RWX)?;
        let finish = || files::remove_directory(entry.parent, entry.name);
        let moved = entry.move_to(&target, &facts, depth + 1, &finish, buffers);
        if moved.is_err() {
            let _ = files::remove_directory(target.parent, target.name);
        }
        moved
    }

    /// Moves the entries of the target back into the source, as far as possible.
    fn move_back(&self, facts: &FileFacts, buffers: &mut WorkBuffers) {
        let _ = self.set_target_mode(facts.mode | OWNER_RWX);
        if files::seek_listing(self.target, 0).is_ok() {
            let _ = each_entry(self.target, &mut buffers.entries, &mut |name| {
                let _ = rename_entry(&DirectoryEntry { parent: self.target, name }, self.source);
                Ok(())
            });
        }
        let _ = files::set_times(self.source, facts);
    }

    /// Gives the target the xattrs, mode and times of the source.
    fn give_attributes(&self, facts: &FileFacts, buffers: &mut WorkBuffers) -> Result {
        self.give_xattrs(buffers)?;
        if files::read_facts(self.target, c"")?.mode != facts.mode {
            self.set_target_mode(facts.mode)?;
        }
        files::set_times(self.target, facts)
    }

    fn set_target_mode(&self, mode: u32) -> Result {
        files::set_mode_of_open(self.target, mode)
    }

    /// Copies the xattrs that a directory's owner can set (`user.` and ACLs) to the target; the kernel sets others by itself.
    fn give_xattrs(&self, buffers: &mut WorkBuffers) -> Result {
        let length = match files::list_xattrs(self.source, &mut buffers.names) {
            Err(libc::EOPNOTSUPP) => return Ok(()),
            other => other?,
        };
        let mut rest = buffers.names.get(..length).unwrap_or_default();
        while let Ok(name) = CStr::from_bytes_until_nul(rest) {
            rest = rest.get(name.count_bytes() + 1..).unwrap_or_default();
            let bytes = name.to_bytes();
            if bytes.starts_with(b"user.") || bytes.starts_with(b"system.posix_acl_") {
                let size = files::get_xattr(self.source, name, &mut buffers.value)?;
                files::set_xattr(self.target, name, buffers.value.get(..size).unwrap_or_default())?;
            }
        }
        Ok(())
    }
}

/// Moves an entry to another directory by a rename. A directory without write permission cannot change its parent, so it gets the
/// permission for the moment.
fn rename_entry(entry: &DirectoryEntry<'_>, to: Fd) -> Result {
    let rename = || files::rename(entry.parent, entry.name, to, entry.name, libc::RENAME_NOREPLACE);
    match rename() {
        Err(libc::EACCES) => {}
        other => return other,
    }
    let facts = entry.facts()?;
    if !facts.is_directory() || facts.mode & OWNER_RWX == OWNER_RWX {
        return Err(libc::EACCES);
    }
    files::set_mode(entry.parent, entry.name, facts.mode | OWNER_RWX)?;
    let renamed = rename();
    let parent = if renamed.is_ok() { to } else { entry.parent };
    files::set_mode(parent, entry.name, facts.mode)?;
    renamed
}

/// Calls `act` with the name of each entry of a directory but `.` and `..`.
fn each_entry(directory: Fd, buffer: &mut [u8], act: &mut dyn FnMut(&CStr) -> Result) -> Result {
    loop {
        let read = sys::read_entries(directory, buffer)?;
        if read == 0 {
            return Ok(());
        }
        let mut at = 0;
        while let Some(listed) = ListedEntry::at(buffer, &mut at, read) {
            act(listed.name())?;
        }
    }
}

/// One entry of a listing in the kernel's format (`linux_dirent64`): inode and position of the next entry in eight bytes each, length in
/// two, kind in one, name.
struct ListedEntry {
    /// Position from which the listing continues behind this entry.
    next: isize,
    is_file: bool,
    name: [u8; EntryName::MAX_BYTES + 1],
}

impl ListedEntry {
    /// Bytes of an entry before its name.
    const HEADER_BYTES: usize = 19;

    /// Reads the entry at an offset of the buffer and advances the offset. Skips `.` and `..`. Returns none at the end.
    fn at(buffer: &[u8], at: &mut usize, end: usize) -> Option<Self> {
        loop {
            let rest = buffer.get(*at..end)?;
            let next = isize::from_ne_bytes(rest.get(8..16)?.try_into().ok()?);
            let length = u16::from_ne_bytes(rest.get(16..18)?.try_into().ok()?);
            let name = CStr::from_bytes_until_nul(rest.get(Self::HEADER_BYTES..)?).ok()?;
            *at += usize::from(length).max(Self::HEADER_BYTES);
            if name != c"." && name != c".." {
                let mut bytes = [0; EntryName::MAX_BYTES + 1];
                bytes.get_mut(..name.count_bytes())?.copy_from_slice(name.to_bytes());
                let is_file = rest.get(18) == Some(&libc::DT_REG);
                return Some(Self { next, is_file, name: bytes });
            }
        }
    }

    fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or(c"")
    }
}
