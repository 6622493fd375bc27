//! The same once more for those who are not root, for those into whom nobody may look, and in a namespace of users that somebody else
//! has made. Whoever runs the tests as somebody else has done the first already.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{BASE, GIVEN, HIDDEN, is_root};

const NOBODY: u32 = 65534;

/// Runs the tests of one file again, as nobody, with these variables set.
fn check(file: &str, variables: &[&str]) {
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
    command.envs(variables.iter().map(|name| (name, "1")));
    expect_success(&command.output().expect("setpriv, of util-linux"));
}

/// Runs the tests of one file again as who we are, with a variable set.
fn check_here(file: &str, variable: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(format!("{file}::")).env(variable, "1");
    expect_success(&command.output().unwrap());
}

/// The same, and as nobody.
fn check_both(file: &str, variable: &str) {
    check_here(file, variable);
    check(file, &[variable]);
}

/// The same as whoever is not root.
fn check_plain(file: &str, variable: &str) {
    if is_root() { check(file, &[variable]) } else { check_here(file, variable) }
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
            check(stringify!($file), &[]);
        })*
    };
    ($check:ident $variable:ident: $($file:ident $name:ident)*) => {
        $(#[test]
        fn $name() {
            $check(stringify!($file), $variable);
        })*
    };
}

again! { ending files kernel launching limits lone memory network processes protected renames set_id stage warden }

// There, a warden shares memory where it can.
again! { check_both HIDDEN:
    ending hidden_ending
    launching hidden_launching
    limits hidden_limits
    stage hidden_stage
}

// Root needs nobody who makes one: for files and stages it is tried all the same, since it has rights that others do not.
again! { check_both GIVEN:
    files given_files
    stage given_stage
}

again! { check_plain GIVEN:
    ending given_ending
    kernel given_kernel
    launching given_launching
    limits given_limits
    memory given_memory
    network given_network
    processes given_processes
    protected given_protected
    renames given_renames
    set_id given_set_id
    warden given_warden
}
