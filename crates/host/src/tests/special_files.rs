//! Objects that are not regular files are refused before they are opened.

use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, Mode};
use windlass_core::{FileErrorKind, FileKind, Files};

use super::{LOOKUPS, TestWorkspace};

#[test]
fn only_regular_files_are_opened() {
    let ground = TestWorkspace::with(&[("file", ""), ("directory/", "")]);
    rustix::fs::mkfifoat(CWD, ground.work("fifo"), Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(ground.work("socket")).unwrap();
    ground.link("fifo", "work/to_fifo");
    ground.link("/dev/zero", "work/zero");
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        for (path, kind) in [
            ("directory", FileKind::Directory),
            ("fifo", FileKind::Fifo),
            ("to_fifo", FileKind::Fifo),
            ("socket", FileKind::Socket),
            ("zero", FileKind::Device),
            ("/dev/zero", FileKind::Device),
            ("/dev/null", FileKind::Device),
            ("/dev/tty", FileKind::Device),
        ] {
            let resolved = files.resolve(Path::new(path)).unwrap();
            assert_eq!(files.stat(&resolved).unwrap().kind, kind, "{path}");
            match files.open(&resolved).unwrap_err().kind {
                FileErrorKind::NotRegular(found) => assert_eq!(found, kind, "{path}"),
                other => panic!("{path}: {other:?}"),
            }
        }
        assert_eq!(
            files.stat(&files.resolve(Path::new("file")).unwrap()).unwrap().kind,
            FileKind::File
        );
    }
}
