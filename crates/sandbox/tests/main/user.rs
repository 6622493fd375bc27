//! The same once more for those who are not root, and for those into whom nobody may look. Whoever runs the tests as somebody else
//! has done the first already.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{BASE, HIDDEN, is_root};

const NOBODY: u32 = 65534;

/// Runs the tests of one file again, as nobody.
fn check(file: &str, is_hidden: bool) {
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
    let mut command = as_nobody(&program);
    command.arg(format!("{file}::")).env(BASE, base.path());
    if is_hidden {
        command.env(HIDDEN, "1");
    }
    expect_success(&command.output().expect("setpriv, of util-linux"));
}

/// Runs the tests of one file again, as somebody into whom nobody may look: there, a warden shares memory where it can.
fn check_hidden(file: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(format!("{file}::")).env(HIDDEN, "1");
    expect_success(&command.output().unwrap());
}

fn expect_success(output: &Output) {
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
            check(stringify!($file), false);
        })*
    };
}

macro_rules! again_hidden {
    ($($file:ident $name:ident)*) => {
        $(#[test]
        fn $name() {
            check_hidden(stringify!($file));
            check(stringify!($file), true);
        })*
    };
}

again! { ending files kernel launching limits lone network processes protected stage }

again_hidden! {
    ending hidden_ending
    launching hidden_launching
    limits hidden_limits
    stage hidden_stage
}
