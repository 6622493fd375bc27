//! Starts of programs: many of them, several at the same time, and programs that cannot be started.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use windlass_sandbox::{Ending, LaunchError, LaunchStep};

use crate::attempt::{AttemptContext, print_line, self_command};
use crate::support::{
    HIDDEN_VARIABLE, TestSandbox, USERS_VARIABLE, existing_user_namespace, wait_until,
};

/// Launches many programs and checks that no descriptor and no child is left. Runs in a process of its own, in which no other test opens
/// files and starts programs.
pub(crate) fn launch_many(at: &AttemptContext) {
    // Opens the namespace that stays open before descriptors are counted.
    existing_user_namespace();
    let mut sandbox =
        if at.text("HOW") == "open" { TestSandbox::unconfined() } else { TestSandbox::confined() };
    sandbox.set("HOW", "");
    let (files, children) = (open_files(), children());
    let program = Path::new("/bin/true");
    for _ in 0..at.number("TIMES") {
        let (program, mut output) = sandbox.start_program(program, &["true"], &[]).unwrap();
        output.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(program.wait().unwrap(), Ending::Exited(0));
    }
    for _ in 0..50 {
        drop(sandbox.start("sleep 86400").unwrap());
        drop(sandbox.start_program(Path::new("/nothing"), &["nothing"], &[]).unwrap_err());
    }
    wait_until("no process left", || self::children() == children);
    wait_until("no descriptor left", || open_files() == files);
    print_line("many: done");
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread that has ended meanwhile has no children.
    tasks
        .filter_map(|task| fs::read_to_string(task.unwrap().path().join("children")).ok())
        .collect()
}

#[test]
fn many_launches_leave_no_process_and_no_descriptor() {
    // The same test has run with 1000 without these variables.
    let is_again =
        [USERS_VARIABLE, HIDDEN_VARIABLE].iter().any(|name| std::env::var_os(name).is_some());
    let times = if is_again { "200" } else { "1000" };
    for how in ["open", "confined"] {
        let mut command = self_command("launch many");
        let output = command.env("HOW", how).env("TIMES", times).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(printed.contains("\nmany: done\n"), "{how}: {printed}{said}");
    }
}

#[test]
fn programs_start_at_the_same_time() {
    for make in
        [TestSandbox::unconfined as fn() -> TestSandbox, TestSandbox::confined, TestSandbox::staged]
    {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    let sandbox = make();
                    for round in 0..10 {
                        let text = format!("{thread} {round}\n");
                        // A program that held another's output open would block this.
                        let printed = sandbox.run(&format!("echo {thread} {round}"));
                        assert_eq!(printed, (Ending::Exited(0), text));
                    }
                });
            }
        });
    }
}

#[test]
fn errors_of_a_launch_name_the_cause() {
    for make in [
        TestSandbox::unconfined as fn() -> TestSandbox,
        TestSandbox::confined,
        TestSandbox::staged,
        TestSandbox::fenced,
    ] {
        let sandbox = make();
        let script = sandbox.path("workspace/script");
        for (program, errno) in [
            (Path::new("/no/such/program"), libc::ENOENT),
            (&sandbox.path("workspace/a.txt"), libc::EACCES),
            (&sandbox.workspace(), libc::EACCES),
            (&sandbox.path("workspace/a.txt/program"), libc::ENOTDIR),
        ] {
            match sandbox.start_program(program, &["program"], &[]) {
                Err(LaunchError::Program(error)) => assert_eq!(error.raw_os_error(), Some(errno)),
                other => panic!("{}: {other:?}", program.display()),
            }
        }
        for (content, errno) in [("#!/no/such/shell\n", libc::ENOENT), ("nonsense", libc::ENOEXEC)]
        {
            fs::write(&script, content).unwrap();
            fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
            match sandbox.start_program(&script, &["script"], &[]) {
                Err(LaunchError::Program(error)) => assert_eq!(error.raw_os_error(), Some(errno)),
                other => panic!("{content}: {other:?}"),
            }
        }
        match sandbox.start_program(Path::new("/bin/true"), &["true", "a\0b"], &[]) {
            Err(error @ LaunchError::Name { .. }) => {
                assert_eq!(error.to_string(), "an argument cannot have a NUL in it");
            }
            other => panic!("{other:?}"),
        }
        match sandbox.start_program(Path::new("/bin/true"), &["true"], &[("A", "a\0b")]) {
            Err(error @ LaunchError::Name { .. }) => {
                assert_eq!(error.to_string(), "a variable cannot have a NUL in it");
            }
            other => panic!("{other:?}"),
        }
        match sandbox.start_program(Path::new(OsStr::from_bytes(b"/bin/tr\0ue")), &["true"], &[]) {
            Err(error @ LaunchError::Name { .. }) => {
                assert_eq!(error.to_string(), "the program cannot have a NUL in it");
            }
            other => panic!("{other:?}"),
        }
        let arguments = "x".repeat(200_000);
        match sandbox.start_program(Path::new("/bin/true"), &["true", &arguments], &[]) {
            Err(LaunchError::Program(error)) => {
                assert_eq!(error.raw_os_error(), Some(libc::E2BIG));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn missing_directory_fails_at_its_step() {
    let sandbox = TestSandbox::unconfined();
    fs::remove_dir_all(sandbox.workspace()).unwrap();
    match sandbox.start("true") {
        Err(LaunchError::Surroundings { step: LaunchStep::Directory, source }) => {
            assert_eq!(source.raw_os_error(), Some(libc::ENOENT));
        }
        other => panic!("{other:?}"),
    }
    let sandbox = TestSandbox::confined();
    fs::remove_dir_all(sandbox.workspace()).unwrap();
    match sandbox.start("true") {
        Err(LaunchError::Surroundings { step: LaunchStep::Writable, source }) => {
            assert_eq!(source.raw_os_error(), Some(libc::ENOENT));
        }
        other => panic!("{other:?}"),
    }
}

/// Installs a filter by which Landlock seems to be missing, and launches in a fence and in a view.
pub(crate) fn launch_without_landlock(_: &AttemptContext) {
    deny_landlock();
    assert_eq!(windlass_sandbox::landlock_version(), 0);
    match TestSandbox::fenced().start("true") {
        Err(LaunchError::Surroundings { step: LaunchStep::Landlock, .. }) => {}
        other => panic!("{other:?}"),
    }
    // A view protects files without Landlock.
    assert_eq!(TestSandbox::confined().run("exit 3").0, Ending::Exited(3));
    print_line("without: done");
}

/// Makes Landlock calls of this process fail with `ENOSYS`.
fn deny_landlock() {
    let number = u32::try_from(libc::SYS_landlock_create_ruleset).unwrap();
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let mut filter = [
        step(0x20, 0, 0),
        step(0x15, 1, number),
        step(0x06, 0, missing),
        step(0x06, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: numbers, and a filter of as many steps as it says.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

/// A fence must fail rather than be left out.
#[test]
fn fence_without_landlock_fails() {
    let output = self_command("launch without Landlock").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("\nwithout: done\n"), "{printed}{said}");
}
