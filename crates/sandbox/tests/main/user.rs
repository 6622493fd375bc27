//! Runs the tests of the other files again: as a user other than root (only if they run as root), with hidden memory, and in a user
//! namespace that another program has created.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{BASE_VARIABLE, HIDDEN_VARIABLE, USERS_VARIABLE, is_root};

/// User and group id without any rights.
const UNPRIVILEGED_ID: u32 = 65534;

/// Runs the tests of one file again as an unprivileged user, with these variables set. Does nothing unless run by root.
fn run_as_unprivileged(file: &str, variables: &[&str]) {
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
    chown(base.path(), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).unwrap();
    let mut command = as_unprivileged(&program);
    command.arg(format!("{file}::")).env(BASE_VARIABLE, base.path());
    command.envs(variables.iter().map(|name| (name, "1")));
    expect_success(&command.output().expect("setpriv, of util-linux"));
}

/// Runs the tests of one file again as the present user, with a variable set.
fn run_as_present_user(file: &str, variable: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(format!("{file}::")).env(variable, "1");
    expect_success(&command.output().unwrap());
}

/// Runs the tests of one file again as the present user and as an unprivileged one.
fn run_as_both(file: &str, variable: &str) {
    run_as_present_user(file, variable);
    run_as_unprivileged(file, &[variable]);
}

/// Runs the tests of one file again as an unprivileged user if this is root, else as the present user.
fn run_as_not_root(file: &str, variable: &str) {
    if is_root() {
        run_as_unprivileged(file, &[variable]);
    } else {
        run_as_present_user(file, variable);
    }
}

fn expect_success(output: &Output) {
    let [printed, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{printed}{errors}");
    assert!(!printed.contains("running 0 tests"), "{printed}");
}

fn as_unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        &format!("--reuid={UNPRIVILEGED_ID}"),
        &format!("--regid={UNPRIVILEGED_ID}"),
        "--clear-groups",
    ]);
    command.arg(program);
    command
}

macro_rules! again {
    ($($file:ident)*) => {
        $(#[test]
        fn $file() {
            run_as_unprivileged(stringify!($file), &[]);
        })*
    };
    ($run_as_unprivileged:ident $variable:ident: $($file:ident $name:ident)*) => {
        $(#[test]
        fn $name() {
            $run_as_unprivileged(stringify!($file), $variable);
        })*
    };
}

again! { ending files kernel launching limits lone memory network processes protected renames set_id stage warden }

// With hidden memory, a warden shares the memory of this process if it can.
again! { run_as_both HIDDEN_VARIABLE:
    ending hidden_ending
    launching hidden_launching
    limits hidden_limits
    stage hidden_stage
}

// Root does not need such a namespace. For files and stages it is tested all the same, because root has rights that others have not.
again! { run_as_both USERS_VARIABLE:
    files given_files
    stage given_stage
}

again! { run_as_not_root USERS_VARIABLE:
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
