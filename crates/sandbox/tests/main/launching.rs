//! Starting programs: many of them, at the same time, and those that cannot be started.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use windlass_sandbox::{Ending, LaunchError, Step};

use crate::attempt::{Scene, again, say};
use crate::support::{GIVEN, HIDDEN, Place, given_users, soon};

/// In a process of its own, in which nobody else opens and starts things.
pub(crate) fn launch_many(at: &Scene) {
    // What is held for as long as we run is there before anything is counted.
    given_users();
    let mut place = if at.text("HOW") == "open" { Place::open() } else { Place::confined() };
    place.set("HOW", "");
    let (files, children) = (open_files(), children());
    let program = Path::new("/bin/true");
    for _ in 0..at.number("TIMES") {
        let (program, mut output) = place.start_program(program, &["true"], &[]).unwrap();
        output.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(program.wait().unwrap(), Ending::Exited(0));
    }
    for _ in 0..50 {
        drop(place.start("sleep 86400").unwrap());
        drop(place.start_program(Path::new("/nothing"), &["nothing"], &[]).unwrap_err());
    }
    soon("no process left", || self::children() == children);
    soon("no descriptor left", || open_files() == files);
    say("many: done");
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
fn a_thousand_launches_leave_nothing() {
    // Where others have been through this already, fewer will do.
    let is_again = [GIVEN, HIDDEN].iter().any(|name| std::env::var_os(name).is_some());
    let times = if is_again { "200" } else { "1000" };
    for how in ["open", "confined"] {
        let mut command = again("launch many");
        let output = command.env("HOW", how).env("TIMES", times).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(printed.contains("\nmany: done\n"), "{how}: {printed}{said}");
    }
}

#[test]
fn programs_start_at_the_same_time() {
    for make in [Place::open as fn() -> Place, Place::confined, Place::staged] {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    let place = make();
                    for round in 0..10 {
                        let text = format!("{thread} {round}\n");
                        // Whoever holds another's output open would keep it waiting here.
                        let printed = place.run(&format!("echo {thread} {round}"));
                        assert_eq!(printed, (Ending::Exited(0), text));
                    }
                });
            }
        });
    }
}

#[test]
fn what_cannot_be_started_says_why() {
    for make in [Place::open as fn() -> Place, Place::confined, Place::staged, Place::fenced] {
        let place = make();
        let script = place.path("workspace/script");
        for (program, errno) in [
            (Path::new("/no/such/program"), libc::ENOENT),
            (&place.path("workspace/a.txt"), libc::EACCES),
            (&place.workspace(), libc::EACCES),
            (&place.path("workspace/a.txt/program"), libc::ENOTDIR),
        ] {
            match place.start_program(program, &["program"], &[]) {
                Err(LaunchError::Program(error)) => assert_eq!(error.raw_os_error(), Some(errno)),
                other => panic!("{}: {other:?}", program.display()),
            }
        }
        for (content, errno) in [("#!/no/such/shell\n", libc::ENOENT), ("nonsense", libc::ENOEXEC)]
        {
            fs::write(&script, content).unwrap();
            fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
            match place.start_program(&script, &["script"], &[]) {
                Err(LaunchError::Program(error)) => assert_eq!(error.raw_os_error(), Some(errno)),
                other => panic!("{content}: {other:?}"),
            }
        }
        match place.start_program(Path::new("/bin/true"), &["true", "a\0b"], &[]) {
            Err(error @ LaunchError::Name { .. }) => {
                assert_eq!(error.to_string(), "an argument cannot have a NUL in it");
            }
            other => panic!("{other:?}"),
        }
        match place.start_program(Path::new("/bin/true"), &["true"], &[("A", "a\0b")]) {
            Err(error @ LaunchError::Name { .. }) => {
                assert_eq!(error.to_string(), "a variable cannot have a NUL in it");
            }
            other => panic!("{other:?}"),
        }
        match place.start_program(Path::new(OsStr::from_bytes(b"/bin/tr\0ue")), &["true"], &[]) {
            Err(error @ LaunchError::Name { .. }) => {
                assert_eq!(error.to_string(), "the program cannot have a NUL in it");
            }
            other => panic!("{other:?}"),
        }
        let arguments = "x".repeat(200_000);
        match place.start_program(Path::new("/bin/true"), &["true", &arguments], &[]) {
            Err(LaunchError::Program(error)) => {
                assert_eq!(error.raw_os_error(), Some(libc::E2BIG));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let place = Place::open();
    fs::remove_dir_all(place.workspace()).unwrap();
    match place.start("true") {
        Err(LaunchError::Surroundings { step: Step::Directory, source }) => {
            assert_eq!(source.raw_os_error(), Some(libc::ENOENT));
        }
        other => panic!("{other:?}"),
    }
    let place = Place::confined();
    fs::remove_dir_all(place.workspace()).unwrap();
    match place.start("true") {
        Err(LaunchError::Surroundings { step: Step::Writable, source }) => {
            assert_eq!(source.raw_os_error(), Some(libc::ENOENT));
        }
        other => panic!("{other:?}"),
    }
}

/// Makes the kernel deny that it knows Landlock, and tries each kind of place.
pub(crate) fn launch_without_landlock(_: &Scene) {
    deny_landlock();
    assert_eq!(windlass_sandbox::landlock_version(), 0);
    match Place::fenced().start("true") {
        Err(LaunchError::Surroundings { step: Step::Landlock, .. }) => {}
        other => panic!("{other:?}"),
    }
    // A view keeps files as they are without it.
    assert_eq!(Place::confined().run("exit 3").0, Ending::Exited(3));
    say("without: done");
}

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

/// What was asked for and is not there is not left out.
#[test]
fn a_fence_without_landlock_is_none() {
    let output = again("launch without Landlock").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("\nwithout: done\n"), "{printed}{said}");
}
