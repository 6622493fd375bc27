//! The same once more for those who are not root. Whoever runs the tests as somebody else has done so already.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;

use crate::support::{BASE, is_root};

const NOBODY: u32 = 65534;

/// Runs the tests of one file again, as nobody.
fn check(file: &str) {
    if !is_root() {
        return;
    }
    let program = std::env::current_exe().unwrap();
    for directory in program.ancestors().skip(1) {
        let mode = fs::metadata(directory).unwrap().mode();
        let directory = directory.display();
        assert!(
            mode & 1 == 1,
            "{directory} must be open to others: set CARGO_TARGET_DIR elsewhere"
        );
    }
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    chown(base.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let output = as_nobody(&program).arg(format!("{file}::")).env(BASE, base.path()).output();
    let output = output.expect("setpriv, of util-linux");
    let [printed, said] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{printed}{said}");
    assert!(!printed.contains("running 0 tests"), "{printed}");
}

fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"]);
    command.arg(program);
    command
}

macro_rules! again {
    ($($file:ident)*) => {
        $(#[test]
        fn $file() {
            check(stringify!($file));
        })*
    };
}

again! { ending files kernel launching limits network processes protected stage }
