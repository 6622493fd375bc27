//! Reads and sets the attributes of an object besides its content: mode, owner, times and extended attributes (access control
//! lists, security labels and attributes that users set).
//!
//! Owner and extended attributes are set as far as the file system and our rights allow: a label that only the system may set is
//! set by the system. Any owner of a file can set mode and time, so a failure there is an error.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use windlass_core::Attributes;

use crate::kernel::stat_from;

/// Maximum bytes that Linux allows for one extended attribute value, and for the list of all names.
const MAX_XATTR_BYTES: usize = 64 * 1024;

/// Buffer size that is tried first. It suffices for the names, or the value, of nearly every object.
const USUAL_XATTR_BYTES: usize = 1024;

/// Extended attribute that holds a POSIX access control list, which says more than the mode can.
const ACL_NAME: &CStr = c"system.posix_acl_access";

/// Reads all attributes of an open object.
pub(crate) fn read(of: impl AsFd, raw: &rustix::fs::Stat) -> Result<Attributes, Errno> {
    Ok(Attributes { extended: Some(Extended::read(of)?.into_texts()), ..plain(raw) })
}

/// Reads all attributes of an open object on a stage. Its file system supports extended attributes, so failing to list them is an
/// error.
pub(crate) fn read_staged(of: impl AsFd, raw: &rustix::fs::Stat) -> Result<Attributes, Errno> {
    Ok(Attributes { extended: Some(Extended::read_all(of)?.into_texts()), ..plain(raw) })
}

/// Returns the attributes that are known from `stat` alone, without opening the object.
pub(crate) fn plain(raw: &rustix::fs::Stat) -> Attributes {
    let stat = stat_from(raw);
    Attributes {
        mode: Some(stat.mode),
        modified: Some(stat.fingerprint.modified),
        owner: Some((raw.st_uid, raw.st_gid)),
        extended: None,
    }
}

/// Sets the wanted attributes, except the modification time, on an open object whose current state is `now`. The modification time
/// must be set last of all, because the other changes may touch it.
pub(crate) fn give(
    to: impl AsFd,
    now: &rustix::fs::Stat,
    wanted: &Attributes,
) -> Result<(), Errno> {
    if let Some(owner) = wanted.owner {
        give_owner(&to, now, owner)?;
    }
    let has_changed = match &wanted.extended {
        Some(extended) => set_extended_all(&to, extended)?,
        None => false,
    };
    let mode = if wanted.owner.is_some() || has_changed {
        // A change of the owner clears set-id bits, and an access control list may change the mode bits.
        rustix::fs::fstat(&to)?.st_mode
    } else {
        now.st_mode
    };
    give_mode(to, mode, wanted.mode.unwrap_or(now.st_mode))
}

/// Makes an object's extended attributes equal to `wanted`, and removes others that a user could have set. Returns whether anything
/// changed.
fn set_extended_all(to: impl AsFd, wanted: &[(String, Vec<u8>)]) -> Result<bool, Errno> {
    let now = Extended::read(&to)?;
    let is_wanted =
        |name: &CStr| wanted.iter().any(|(wanted, _)| wanted.as_bytes() == name.to_bytes());
    let mut has_changed = false;
    let is_unwanted = |name: &CStr| Attributes::is_told(name.to_bytes()) && !is_wanted(name);
    for (name, _) in now.0.iter().filter(|(name, _)| is_unwanted(name)) {
        remove_extended_one(&to, name)?;
        has_changed = true;
    }
    for (name, value) in wanted {
        let is_equal =
            |(had, old): &(CString, Vec<u8>)| had.to_bytes() == name.as_bytes() && old == value;
        if !now.0.iter().any(is_equal) {
            set_extended_one(&to, name.as_str(), value)?;
            has_changed = true;
        }
    }
    Ok(has_changed)
}

/// Returns whether overlayfs uses the extended attribute to mark objects of its layers.
pub(crate) fn is_note_of_overlay(name: &[u8]) -> bool {
    name.starts_with(b"user.overlay.")
}

/// Sets owner and group if they differ. Returns false if we may not set them.
pub(crate) fn give_owner(
    to: impl AsFd,
    raw: &rustix::fs::Stat,
    (user, group): (u32, u32),
) -> Result<bool, Errno> {
    if (raw.st_uid, raw.st_gid) == (user, group) {
        return Ok(true);
    }
    match rustix::fs::fchown(to, Some(Uid::from_raw(user)), Some(Gid::from_raw(group))) {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Changes the mode of an object from `now` to `wanted`, if they differ.
pub(crate) fn give_mode(to: impl AsFd, now: u32, wanted: u32) -> Result<(), Errno> {
    if now & 0o7777 == wanted & 0o7777 {
        return Ok(());
    }
    rustix::fs::fchmod(to, Mode::from_raw_mode(wanted & 0o7777))
}

/// Sets the modification time, to the nanosecond; to the current time if `modified` is `None`.
///
/// The kernel's own time stamp can be milliseconds coarse. Two changes within that time, the second of which reuses the inode of
/// the first, would have the same fingerprint.
pub(crate) fn give_time(to: impl AsFd, modified: Option<i64>) -> Result<(), Errno> {
    rustix::fs::futimens(to, &times(modified.unwrap_or_else(now)))
}

/// Sets access and modification time to now, as the kernel sees it. Every process that may write the file may do this; setting any
/// other time takes ownership.
pub(crate) fn give_present_time(to: impl AsFd) -> Result<(), Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    rustix::fs::futimens(to, &Timestamps { last_access: now, last_modification: now })
}

/// Returns the modification time in the kernel's form. The access time stays as it is.
pub(crate) fn times(modified: i64) -> Timestamps {
    const PER_SECOND: i64 = 1_000_000_000;
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: modified.div_euclid(PER_SECOND),
            tv_nsec: modified.rem_euclid(PER_SECOND),
        },
    }
}

/// Returns the current time in nanoseconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Extended attributes of an object, by name.
#[derive(Debug, Default)]
pub(crate) struct Extended(Vec<(CString, Vec<u8>)>);

impl Extended {
    /// Reads the extended attributes that we may read. A failing disk is an error: an object must not lose attributes that could
    /// not be read.
    pub(crate) fn read(of: impl AsFd) -> Result<Self, Errno> {
        match Self::read_all(of) {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(Self::default()),
            read => read,
        }
    }

    /// Reads the extended attributes of an object whose attributes we must be able to list.
    fn read_all(of: impl AsFd) -> Result<Self, Errno> {
        let names = extended_names(&of)?;
        let with_value =
            |name: &CStr| Ok(extended_value(&of, name)?.map(|value| (name.to_owned(), value)));
        let found = split_names(&names).filter_map(|name| with_value(name).transpose());
        found.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets exactly these extended attributes on a new file, except those of overlayfs. Removes an access control list that the
    /// file inherited from its directory, unless one is among these. Returns true if it inherited one or there are attributes to
    /// set.
    pub(crate) fn give(&self, to: impl AsFd) -> Result<bool, Errno> {
        let is_list = |name: &CStr| name == ACL_NAME;
        let names = match extended_names(&to) {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Vec::new(),
            names => names?,
        };
        let inherited = split_names(&names).any(is_list);
        if inherited && !self.0.iter().any(|(name, _)| is_list(name)) {
            rustix::fs::fremovexattr(&to, ACL_NAME)?;
        }
        let given = self.0.iter().filter(|(name, _)| !is_note_of_overlay(name.to_bytes()));
        { given }.try_for_each(|(name, value)| set_extended_one(&to, name.as_c_str(), value))?;
        Ok(inherited || !self.0.is_empty())
    }

    /// Converts to text names. Leaves out attributes whose name is not UTF-8.
    fn into_texts(self) -> Vec<(String, Vec<u8>)> {
        let texts = self.0.into_iter();
        texts.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
    }
}

/// Removes an extended attribute as far as our rights go. Only a failing or full disk is an error.
fn remove_extended_one(to: impl AsFd, name: &CStr) -> Result<(), Errno> {
    match rustix::fs::fremovexattr(to, name) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS)) => Err(errno),
        _ => Ok(()),
    }
}

/// Sets an extended attribute as far as our rights go. Only a failing or full disk is an error.
fn set_extended_one(
    to: impl AsFd,
    name: impl rustix::path::Arg,
    value: &[u8],
) -> Result<(), Errno> {
    match rustix::fs::fsetxattr(to, name, value, XattrFlags::empty()) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS)) => Err(errno),
        _ => Ok(()),
    }
}

/// Returns the names of all extended attributes, each followed by a NUL.
fn extended_names(of: impl AsFd) -> Result<Vec<u8>, Errno> {
    let fill = |room| {
        let mut names = Vec::with_capacity(room);
        rustix::fs::flistxattr(&of, spare_capacity(&mut names)).map(|_| names)
    };
    read_growing(fill)
}

/// Iterates over names that are each followed by a NUL.
fn split_names(names: &[u8]) -> impl Iterator<Item = &CStr> {
    let names = names.split_inclusive(|byte| *byte == 0);
    names.filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// Returns the value of an extended attribute; `None` if it no longer exists or we may not read it.
fn extended_value(of: impl AsFd, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
    let read = read_growing(|room| {
        let mut value = Vec::with_capacity(room);
        rustix::fs::fgetxattr(&of, name, spare_capacity(&mut value)).map(|_| value)
    });
    match read {
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(None),
        read => read.map(Some),
    }
}

/// Calls `fill` with the usual buffer size first, and with the maximum if that was too small.
fn read_growing(fill: impl Fn(usize) -> Result<Vec<u8>, Errno>) -> Result<Vec<u8>, Errno> {
    match fill(USUAL_XATTR_BYTES) {
        Err(Errno::RANGE) => fill(MAX_XATTR_BYTES),
        filled => filled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = fn(std::os::fd::BorrowedFd<'_>, &rustix::fs::Stat) -> Result<Attributes, Errno>;

    #[test]
    fn attributes_that_cannot_be_read_are_not_taken_for_absent() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let raw = rustix::fs::fstat(&file).unwrap();
        rustix::fs::fsetxattr(&file, "user.mark", b"1", XattrFlags::empty()).unwrap();
        let both: [Read; 2] = [|of, raw| read(of, raw), |of, raw| read_staged(of, raw)];
        for read in both {
            let found = read(file.as_file().as_fd(), &raw).unwrap().extended;
            assert_eq!(found, Some(vec![("user.mark".to_owned(), b"1".to_vec())]));
            // A handle opened with `O_PATH` does not allow reading them.
            let flags = rustix::fs::OFlags::PATH;
            let named = rustix::fs::open(file.path(), flags, Mode::empty()).unwrap();
            assert_eq!(read(named.as_fd(), &raw), Err(Errno::BADF));
        }
    }
}
