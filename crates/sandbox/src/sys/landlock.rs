//! System calls of Landlock, which restricts access to files for good.

use super::{CStr, Fd, Result, c_int, c_void, size, to_int};

/// The kernel's `landlock_ruleset_attr`: the rights that the ruleset restricts.
#[repr(C)]
struct RulesetAttributes {
    fs: u64,
    net: u64,
    scoped: u64,
}

/// The kernel's `landlock_path_beneath_attr`: a rule that allows rights below a directory.
#[repr(C, packed)]
struct PathBeneathRule {
    allowed: u64,
    parent: c_int,
}

/// Returns the version that the kernel supports; 0 if it has no Landlock.
pub(crate) fn version() -> u32 {
    let none: *const c_void = std::ptr::null();
    let version = syscall!(libc::SYS_landlock_create_ruleset, none, 0, 1);
    version.ok().and_then(|version| u32::try_from(version).ok()).unwrap_or(0)
}

/// Creates a ruleset that restricts these rights to files, TCP and scopes.
pub(crate) fn create_ruleset(fs: u64, net: u64, scoped: u64) -> Result<Fd> {
    let ruleset = RulesetAttributes { fs, net, scoped };
    let pointer = std::ptr::from_ref(&ruleset);
    syscall!(libc::SYS_landlock_create_ruleset, pointer, size::<RulesetAttributes>(), 0).map(to_int)
}

/// Adds a rule that allows rights below a path. Does nothing if the path does not exist or cannot be reached. If it is a file, only the
/// rights in `file_rights` are allowed.
pub(crate) fn add_path_rule(ruleset: Fd, path: &CStr, allowed: u64, file_rights: u64) -> Result {
    const PATH_BENEATH: c_int = 1;
    let parent = match super::open(path, libc::O_PATH) {
        Ok(parent) => parent,
        // A path that cannot be reached is not allowed: nothing is lost by that.
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
    let beneath = PathBeneathRule { allowed, parent };
    let add = |beneath: &PathBeneathRule| {
        let pointer = std::ptr::from_ref(beneath);
        syscall!(libc::SYS_landlock_add_rule, ruleset, PATH_BENEATH, pointer, 0).map(drop)
    };
    let added = match add(&beneath) {
        // A file has fewer rights than a directory.
        Err(libc::EINVAL) => add(&PathBeneathRule { allowed: allowed & file_rights, parent }),
        other => other,
    };
    super::close(parent);
    added
}

/// Applies a ruleset to this thread.
pub(crate) fn restrict_self(ruleset: Fd) -> Result {
    syscall!(libc::SYS_landlock_restrict_self, ruleset, 0).map(drop)
}
