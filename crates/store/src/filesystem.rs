//! Refuses file systems whose locks and shared memory do not work between processes.

use std::path::Path;

use crate::StoreError;

/// Fails on a network file system. FUSE is allowed: it often serves local disks.
#[cfg(target_os = "linux")]
pub(crate) fn refuse_network(dir: &Path) -> Result<(), StoreError> {
    let found =
        rustix::fs::statfs(dir).map_err(|why| StoreError::file("look at", dir, why.into()))?;
    // The kernel's numbers have 32 bits; the field is wider, and signed, on some machines.
    #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "see above")]
    let magic = found.f_type as u32;
    match network_name(magic) {
        Some(kind) => Err(StoreError::NetworkFileSystem { path: dir.to_owned(), kind }),
        None => Ok(()),
    }
}

/// Accepts every file system: the magic numbers are those of Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn refuse_network(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// The name of a network file system by its magic number (`linux/magic.h`).
#[cfg(target_os = "linux")]
fn network_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 | 0xfe53_4d42 => "CIFS",
        0x0102_1997 => "9p",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_number() {
        let (ext4, tmpfs, btrfs, fuse, overlay) =
            (0xef53, 0x0102_1994, 0x9123_683e, 0x6573_5546, 0x794c_7630);
        for local in [ext4, tmpfs, btrfs, fuse, overlay] {
            assert_eq!(network_name(local), None, "{local:x}");
        }
        for (network, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9p")] {
            assert_eq!(network_name(network), Some(name));
        }
    }

    #[test]
    fn a_local_directory_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        refuse_network(dir.path()).unwrap();
    }
}
