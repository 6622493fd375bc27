//! Extended attributes: access control lists, labels and what people attach to files.
//!
//! Copied as far as the file system and our rights allow. A label that only the system may set is set by the system.

use std::ffi::CStr;
use std::fs::File;

use rustix::buffer::spare_capacity;
use rustix::fs::XattrFlags;

/// The most that Linux allows for one value, and for all names together.
const MAX_SIZE: usize = 64 * 1024;

/// Gives `to` the attributes of `from`.
pub(crate) fn copy(from: &File, to: &File) {
    for name in names(from).split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        let mut value = Vec::with_capacity(MAX_SIZE);
        if rustix::fs::fgetxattr(from, name, spare_capacity(&mut value)).is_ok() {
            let _ = rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty());
        }
    }
}

/// The names, each with a NUL after it.
fn names(of: &File) -> Vec<u8> {
    // Most files have none: then the question alone is enough.
    match rustix::fs::flistxattr_query(of) {
        Ok(0) | Err(_) => Vec::new(),
        Ok(_) => {
            let mut names = Vec::with_capacity(MAX_SIZE);
            match rustix::fs::flistxattr(of, spare_capacity(&mut names)) {
                Ok(_) => names,
                Err(_) => Vec::new(),
            }
        }
    }
}
