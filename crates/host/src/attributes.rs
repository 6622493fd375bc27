//! What an object has besides its content: mode, owner, times, and extended attributes (access control lists, labels and what
//! people attach to files).
//!
//! Owner and extended attributes are given as far as the file system and our rights allow: a label that only the system may set is
//! set by the system. Mode and time are ours to give, and a failure there is one.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use windlass_core::Attributes;

use crate::kernel::stat_from;

/// The most that Linux allows for one value, and for all names together.
const MAX_SIZE: usize = 64 * 1024;

/// Enough for the names, or the value, of nearly every object.
const USUAL_SIZE: usize = 1024;

/// Where a list of more rights than the mode can say is kept.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// All that an open object has.
pub(crate) fn read(of: impl AsFd, raw: &rustix::fs::Stat) -> Result<Attributes, Errno> {
    Ok(Attributes { extended: Some(Extended::read(of)?.into_texts()), ..plain(raw) })
}

/// All that an open object on a stage has, whose file system keeps extended attributes.
pub(crate) fn read_staged(of: impl AsFd, raw: &rustix::fs::Stat) -> Result<Attributes, Errno> {
    Ok(Attributes { extended: Some(Extended::read_all(of)?.into_texts()), ..plain(raw) })
}

/// What an object has that need not be opened.
pub(crate) fn plain(raw: &rustix::fs::Stat) -> Attributes {
    let stat = stat_from(raw);
    Attributes {
        mode: Some(stat.mode),
        modified: Some(stat.fingerprint.modified),
        owner: Some((raw.st_uid, raw.st_gid)),
        extended: None,
    }
}

/// Gives an open object, which is `now`, what is wanted, but for the time of its last change: that comes last of all.
pub(crate) fn give(
    to: impl AsFd,
    now: &rustix::fs::Stat,
    wanted: &Attributes,
) -> Result<(), Errno> {
    if let Some(owner) = wanted.owner {
        give_owner(&to, now, owner)?;
    }
    let is_other = match &wanted.extended {
        Some(extended) => give_extended(&to, extended)?,
        None => false,
    };
    let mode = if wanted.owner.is_some() || is_other {
        // A new owner takes set-id bits away, and a list of rights has its own idea of the mode.
        rustix::fs::fstat(&to)?.st_mode
    } else {
        now.st_mode
    };
    give_mode(to, mode, wanted.mode.unwrap_or(now.st_mode))
}

/// Gives an object these extended attributes and removes others that people could have set; whether that changed any.
fn give_extended(to: impl AsFd, wanted: &[(String, Vec<u8>)]) -> Result<bool, Errno> {
    let now = Extended::read(&to)?;
    let is_wanted =
        |name: &CStr| wanted.iter().any(|(wanted, _)| wanted.as_bytes() == name.to_bytes());
    let mut is_other = false;
    let is_other_of_people = |name: &CStr| Attributes::is_told(name.to_bytes()) && !is_wanted(name);
    for (name, _) in now.0.iter().filter(|(name, _)| is_other_of_people(name)) {
        remove_extended(&to, name)?;
        is_other = true;
    }
    for (name, value) in wanted {
        let is_it =
            |(had, old): &(CString, Vec<u8>)| had.to_bytes() == name.as_bytes() && old == value;
        if !now.0.iter().any(is_it) {
            set_extended(&to, name.as_str(), value)?;
            is_other = true;
        }
    }
    Ok(is_other)
}

/// Returns whether an extended attribute is one in which overlayfs notes something about an object of its layers.
pub(crate) fn is_note_of_overlay(name: &[u8]) -> bool {
    name.starts_with(b"user.overlay.")
}

/// Whether the object has that owner and group, or could be given them.
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

/// Gives an object that has the mode `now` another.
pub(crate) fn give_mode(to: impl AsFd, now: u32, wanted: u32) -> Result<(), Errno> {
    if now & 0o7777 == wanted & 0o7777 {
        return Ok(());
    }
    rustix::fs::fchmod(to, Mode::from_raw_mode(wanted & 0o7777))
}

/// Sets the time of the last change of content, to the nanosecond; to now if none is given.
///
/// The kernel's own stamp can be milliseconds coarse. Two changes within that time, and the inode of the first used again for the
/// second, would have one fingerprint.
pub(crate) fn give_time(to: impl AsFd, modified: Option<i64>) -> Result<(), Errno> {
    rustix::fs::futimens(to, &times(modified.unwrap_or_else(now)))
}

/// Lets the kernel say that it was changed, and read, now: that much is free to everyone who may write it.
pub(crate) fn give_present_time(to: impl AsFd) -> Result<(), Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    rustix::fs::futimens(to, &Timestamps { last_access: now, last_modification: now })
}

/// The time of the last change as the kernel takes it. That of the last access stays.
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

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// The extended attributes of an object.
#[derive(Debug, Default)]
pub(crate) struct Extended(Vec<(CString, Vec<u8>)>);

impl Extended {
    /// Those that we may read. A disk that fails is a failure: an object must not lose what could not be read.
    pub(crate) fn read(of: impl AsFd) -> Result<Self, Errno> {
        match Self::read_all(of) {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(Self::default()),
            read => read,
        }
    }

    /// The same of an object that must let them be listed.
    fn read_all(of: impl AsFd) -> Result<Self, Errno> {
        let names = names(&of)?;
        let with_value = |name: &CStr| Ok(value(&of, name)?.map(|value| (name.to_owned(), value)));
        let found = texts(&names).filter_map(|name| with_value(name).transpose());
        found.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives a new file exactly these but for notes of overlayfs, and says whether it had others. A directory can have given it a list
    /// of rights, which the file in whose place it comes did not have.
    pub(crate) fn give(&self, to: impl AsFd) -> Result<bool, Errno> {
        let is_list = |name: &CStr| name == ACCESS_LIST;
        let names = match names(&to) {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Vec::new(),
            names => names?,
        };
        let inherited = texts(&names).any(is_list);
        if inherited && !self.0.iter().any(|(name, _)| is_list(name)) {
            rustix::fs::fremovexattr(&to, ACCESS_LIST)?;
        }
        let given = self.0.iter().filter(|(name, _)| !is_note_of_overlay(name.to_bytes()));
        { given }.try_for_each(|(name, value)| set_extended(&to, name.as_c_str(), value))?;
        Ok(inherited || !self.0.is_empty())
    }

    /// Those whose names are text.
    fn into_texts(self) -> Vec<(String, Vec<u8>)> {
        let texts = self.0.into_iter();
        texts.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
    }
}

/// As far as our rights go; but a disk that fails is a failure.
fn remove_extended(to: impl AsFd, name: &CStr) -> Result<(), Errno> {
    match rustix::fs::fremovexattr(to, name) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS)) => Err(errno),
        _ => Ok(()),
    }
}

/// As far as our rights go; but a full disk is a failure.
fn set_extended(to: impl AsFd, name: impl rustix::path::Arg, value: &[u8]) -> Result<(), Errno> {
    match rustix::fs::fsetxattr(to, name, value, XattrFlags::empty()) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS)) => Err(errno),
        _ => Ok(()),
    }
}

/// The names, each with a NUL after it.
fn names(of: impl AsFd) -> Result<Vec<u8>, Errno> {
    let fill = |room| {
        let mut names = Vec::with_capacity(room);
        rustix::fs::flistxattr(&of, spare_capacity(&mut names)).map(|_| names)
    };
    grown(fill)
}

fn texts(names: &[u8]) -> impl Iterator<Item = &CStr> {
    let names = names.split_inclusive(|byte| *byte == 0);
    names.filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// The value of an extended attribute; `None` if it is gone, or not ours to read.
fn value(of: impl AsFd, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
    let read = grown(|room| {
        let mut value = Vec::with_capacity(room);
        rustix::fs::fgetxattr(&of, name, spare_capacity(&mut value)).map(|_| value)
    });
    match read {
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(None),
        read => read.map(Some),
    }
}

/// Tries with the usual room first, then with all that could be needed.
fn grown(fill: impl Fn(usize) -> Result<Vec<u8>, Errno>) -> Result<Vec<u8>, Errno> {
    match fill(USUAL_SIZE) {
        Err(Errno::RANGE) => fill(MAX_SIZE),
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
            // A handle that only names an object does not let them be read.
            let flags = rustix::fs::OFlags::PATH;
            let named = rustix::fs::open(file.path(), flags, Mode::empty()).unwrap();
            assert_eq!(read(named.as_fd(), &raw), Err(Errno::BADF));
        }
    }
}
