//! Inspection of the object at a path.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, Mode};
use windlass_core::{FileKind, Files, FoundBody};

use super::{LOOKUPS, TestWorkspace, place};

#[test]
fn kinds_and_contents_are_reported_without_following_links() {
    for lookup in LOOKUPS {
        let ground =
            TestWorkspace::with(&[("file", "content"), ("directory/", ""), ("a/b", "below")]);
        ground.link("file", "work/link");
        ground.link("nowhere", "work/dangling");
        ground.link("directory", "work/to_directory");
        rustix::fs::mkfifoat(CWD, ground.work("fifo"), Mode::RWXU).unwrap();
        let _socket = UnixListener::bind(ground.work("socket")).unwrap();
        let files = ground.files(lookup);
        for (path, expected) in [
            ("file", "file content"),
            ("a/b", "file below"),
            ("directory", "directory"),
            ("", "directory"),
            ("link", "link file"),
            ("dangling", "link nowhere"),
            ("to_directory", "link directory"),
            ("fifo", "other"),
            ("socket", "other"),
            ("missing", "nothing"),
            ("missing/below", "nothing"),
            ("file/below", "nothing"),
        ] {
            let shown = match files.inspect(&place(&files, path)).unwrap().map(|found| found.body) {
                None => "nothing".into(),
                Some(FoundBody::File(file)) => {
                    format!("file {}", std::io::read_to_string(file).unwrap())
                }
                Some(FoundBody::Symlink(target)) => format!("link {}", target.display()),
                Some(FoundBody::Directory(_)) => "directory".into(),
                Some(FoundBody::Other) => "other".into(),
            };
            assert_eq!(shown, expected, "{path}");
        }
        for path in ["/dev/null", "/dev/tty"] {
            let found = files.inspect(&files.resolve(Path::new(path)).unwrap()).unwrap().unwrap();
            assert_eq!(found.stat.kind, FileKind::Device, "{path}");
        }
        let root = files.inspect(&files.resolve(Path::new("/")).unwrap()).unwrap().unwrap();
        assert_eq!(root.stat.kind, FileKind::Directory);
    }
}

#[test]
fn mode_owner_time_and_links_agree_with_the_standard_library() {
    for lookup in LOOKUPS {
        let ground = TestWorkspace::with(&[("file", "x"), ("directory/", "")]);
        ground.link("file", "work/link");
        for (path, mode) in [("file", 0o4751), ("directory", 0o1770)] {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(ground.work(path), permissions).unwrap();
        }
        let files = ground.files(lookup);
        for path in ["file", "directory", "link"] {
            let found = files.inspect(&place(&files, path)).unwrap().unwrap();
            let metadata = fs::symlink_metadata(ground.work(path)).unwrap();
            let attributes = found.attributes;
            assert_eq!(attributes.mode, Some(metadata.mode() & 0o7777), "{path}");
            assert_eq!(attributes.owner, Some((metadata.uid(), metadata.gid())));
            let modified = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
            assert_eq!(attributes.modified, Some(modified));
            assert_eq!(found.stat.links, metadata.nlink());
        }
    }
}

#[test]
fn extended_attributes_are_read_except_names_that_are_not_text() {
    let ground = TestWorkspace::with(&[("file", "x"), ("directory/", "")]);
    let files = ground.files(LOOKUPS[0]);
    let flags = rustix::fs::XattrFlags::empty();
    let long = vec![b'v'; 2_000];
    for path in ["file", "directory"] {
        let real = ground.work(path);
        match rustix::fs::setxattr(&real, "user.short", b"\0\xff", flags) {
            // Skipped on a file system without extended attributes.
            Err(rustix::io::Errno::OPNOTSUPP) => return,
            set => set.unwrap(),
        }
        rustix::fs::setxattr(&real, "user.long", &long, flags).unwrap();
        let odd = OsStr::from_bytes(b"user.\xff");
        rustix::fs::setxattr(&real, odd, b"not text", flags).unwrap();
        for number in 0..20 {
            // More names than fit into the usual buffer.
            let name = format!("user.{number}{}", "n".repeat(60));
            rustix::fs::setxattr(&real, name, b"", flags).unwrap();
        }
        let found = files.inspect(&place(&files, path)).unwrap().unwrap();
        let mut users = found.attributes.extended.unwrap();
        users.retain(|(name, _)| name.starts_with("user."));
        users.sort();
        assert_eq!(users.len(), 22, "{path}");
        assert!(users.contains(&("user.short".into(), vec![0, 0xff])));
        assert!(users.contains(&("user.long".into(), long.clone())));
    }
}
