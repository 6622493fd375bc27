//! Rights to files, given up for good.

use super::{CStr, Fd, Result, c_int, c_void, fd, size};

#[repr(C)]
struct Ruleset {
    fs: u64,
    net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: c_int,
}

/// Which version the kernel speaks; 0 if none.
pub(crate) fn version() -> u32 {
    let none: *const c_void = std::ptr::null();
    let version = call!(libc::SYS_landlock_create_ruleset, none, 0, 1);
    version.ok().and_then(|version| u32::try_from(version).ok()).unwrap_or(0)
}

pub(crate) fn ruleset(fs: u64, net: u64, scoped: u64) -> Result<Fd> {
    let ruleset = Ruleset { fs, net, scoped };
    let pointer = std::ptr::from_ref(&ruleset);
    call!(libc::SYS_landlock_create_ruleset, pointer, size::<Ruleset>(), 0).map(fd)
}

/// Allows this below a place. That there is nothing is no error.
pub(crate) fn allow(ruleset: Fd, path: &CStr, allowed: u64, of_a_file: u64) -> Result {
    const PATH_BENEATH: c_int = 1;
    let parent = match super::open(path, libc::O_PATH) {
        Ok(parent) => parent,
        // What cannot be reached is not allowed: nothing is lost by that.
        Err(
            libc::ENOENT
            | libc::EACCES
            | libc::ENOTDIR
            | libc::ELOOP
            | libc::ENOTCONN
            | libc::ESTALE
            | libc::EIO,
        ) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let beneath = Beneath { allowed, parent };
    let add = |beneath: &Beneath| {
        let pointer = std::ptr::from_ref(beneath);
        call!(libc::SYS_landlock_add_rule, ruleset, PATH_BENEATH, pointer, 0).map(drop)
    };
    let added = match add(&beneath) {
        // A file has fewer rights than a directory.
        Err(libc::EINVAL) => add(&Beneath { allowed: allowed & of_a_file, parent }),
        other => other,
    };
    super::close(parent);
    added
}

pub(crate) fn restrict_self(ruleset: Fd) -> Result {
    call!(libc::SYS_landlock_restrict_self, ruleset, 0).map(drop)
}
