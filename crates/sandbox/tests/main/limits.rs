//! How much a program may use, with all that it starts.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use windlass_sandbox::{Ending, Limits};

use crate::attempt::{Scene, say};
use crate::ending::{Mark, marked};
use crate::support::{Place, given_users, is_root, soon};

pub(crate) const MIB: u64 = 1 << 20;
/// Says that one MiB more is in use.
pub(crate) const ONE_MORE: u8 = 1;

/// Takes one MiB after the other, and says so each time, until it gets no more or has four times as much as it may.
pub(crate) fn use_memory(at: &Scene) {
    let most: u64 = at.number::<u64>("MOST") / MIB * 4;
    let kind = at.text("KIND");
    let processes: u64 = if kind.starts_with("many") { 8 } else { 1 };
    for _ in 1..processes {
        // SAFETY: a copy of this thread, which calls nothing that another could have held.
        if unsafe { libc::fork() } == 0 {
            break;
        }
    }
    let mut take: Box<dyn FnMut() -> bool> = match &*kind {
        "private" | "many private" => Box::new(|| touch(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)),
        "shared" | "many shared" => Box::new(|| touch(libc::MAP_SHARED | libc::MAP_ANONYMOUS)),
        "in /dev/shm" => {
            let mut options = OpenOptions::new();
            let mut file = options.append(true).create(true).open("/dev/shm/file").unwrap();
            let zeros = vec![0; 1 << 20];
            Box::new(move || file.write_all(&zeros).is_ok())
        }
        kind => panic!("no such memory: {kind}"),
    };
    for _ in 0..most / processes {
        if !take() {
            break;
        }
        // SAFETY: one byte.
        unsafe { libc::write(1, [ONE_MORE].as_ptr().cast(), 1) };
    }
    // What one has, it keeps until the others have theirs.
    std::thread::sleep(Duration::from_secs(1));
}

/// Takes one MiB and writes to each page of it.
pub(crate) fn touch(flags: i32) -> bool {
    let (length, access) = (1 << 20, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: new memory, of which nobody else knows.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return false;
    }
    for page in (0..length).step_by(4096) {
        // SAFETY: inside of what we have just been given.
        unsafe { memory.cast::<u8>().add(page).write_volatile(1) };
    }
    true
}

#[test]
fn memory_has_an_end() {
    let limits = Limits { memory: 256 * MIB, ..Limits::default() };
    for make in [Place::open, Place::confined] {
        for kind in ["private", "many private", "shared", "many shared", "in /dev/shm"] {
            let mut place = make().with_limits(limits);
            if place.view.is_none() && kind == "in /dev/shm" {
                continue;
            }
            place.set("MOST", &limits.memory.to_string());
            place.set("KIND", kind);
            let (program, mut output) = place.start_attempt("use memory").unwrap();
            let mut printed = Vec::new();
            output.read_to_end(&mut printed).unwrap();
            let used = printed.split(|byte| *byte == ONE_MORE).skip(1).count() as u64;
            let ending = program.wait().unwrap();
            // A quarter over the limit, where the warden gets to look in time; a busy machine may let it wait.
            assert!(used <= 2 * 256, "{kind}: {used} MiB, {ending:?}");
            match ending {
                Ending::OverMemory(most) => assert_eq!(most, limits.memory),
                Ending::Exited(0) => assert!(used > 128, "{kind}: {used} MiB"),
                other => panic!("{kind}: {other:?}: {}", String::from_utf8_lossy(&printed)),
            }
        }
    }
}

/// Limits are looked at however busy the program keeps its warden.
#[test]
fn memory_has_an_end_among_many_that_end() {
    for make in [Place::open, Place::confined] {
        let limits = Limits { memory: 64 * MIB, ..Limits::default() };
        let mut place = make().with_limits(limits);
        place.set("MOST", &limits.memory.to_string());
        place.set("KIND", "many private");
        let program = std::env::current_exe().unwrap();
        let script = format!(
            "(while :; do (setsid true &); done) 2>/dev/null & ATTEMPT='use memory' exec {} {}",
            program.display(),
            crate::attempt::arguments().join(" ")
        );
        let (program, mut output) = place.start(&script).unwrap();
        output.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(program.wait().unwrap(), Ending::OverMemory(64 * MIB));
    }
}

/// Each starts two more.
#[test]
fn a_fork_bomb_is_bounded_and_ends() {
    // Root has a number of processes, not a count of its own; and in a namespace of users that is not its own, or in none, there is
    // room for what others have at the beginning.
    bomb(Place::confined(), !is_root() && given_users().is_none());
    // To the kernel, root may start as many as it likes where it is root of the machine.
    if !is_root() {
        bomb(Place::fenced(), false);
    }
}

fn bomb(place: Place, is_counted_alone: bool) {
    const MOST: u64 = 64;
    let mark = Mark::new();
    let mut place = place.with_limits(Limits { processes: MOST, ..Limits::default() });
    place.set(Mark::NAME, mark.text());
    let bomb = "bomb() { bomb & bomb & wait; }; bomb 2>/dev/null; sleep 60";
    let (mut program, _output) = place.start(bomb).unwrap();
    // Numbers of processes up to 300 are not given out twice, so there must be more of them than the limit says.
    let bound = usize::try_from(MOST).unwrap() + if is_counted_alone { 0 } else { 300 };
    let mut most = 0;
    let mut ending = None;
    for _ in 0..50 {
        most = most.max(marked(&mark).len());
        ending = program.try_wait().unwrap();
        if ending.is_some() {
            break;
        }
    }
    assert!(most <= bound, "{most} processes");
    assert!(matches!(ending, None | Some(Ending::OverProcesses(MOST))), "{ending:?}");
    program.kill();
    soon("the end of all", || marked(&mark).is_empty());
}

/// A limit to how many there are at a time is none to how many there were.
#[test]
fn many_processes_one_after_the_other_are_no_bomb() {
    let place = Place::confined().with_limits(Limits { processes: 32, ..Limits::default() });
    let script = "for ((i = 0; i < 400; i++)); do /bin/true | /bin/true | /bin/true | /bin/true || exit 1; done; echo done";
    assert_eq!(place.run(script), (Ending::Exited(0), "done\n".into()));
}

pub(crate) fn start_threads(_: &Scene) {
    let sleep = || std::thread::sleep(Duration::from_mins(10));
    let started = (0..2000)
        .take_while(|_| std::thread::Builder::new().stack_size(64 << 10).spawn(sleep).is_ok())
        .count();
    say(&format!("threads: {started}"));
    // The threads are not waited for.
}

#[test]
fn threads_have_an_end() {
    let place = Place::confined().with_limits(Limits { processes: 64, ..Limits::default() });
    let (program, mut output) = place.start_attempt("start threads").unwrap();
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    drop(program);
    let started = printed.lines().find_map(|line| line.strip_prefix("threads: "));
    let started: u64 = started.unwrap_or_else(|| panic!("{printed}")).parse().unwrap();
    assert!((32..=64 + 300).contains(&started), "{started}");
}

#[test]
fn files_have_an_end() {
    for make in [Place::open, Place::confined, Place::staged] {
        let place = make().with_limits(Limits { file_size: MIB, ..Limits::default() });
        let (ending, printed) =
            place.run("{ head -c 3000000 /dev/zero > big; } 2>/dev/null; echo $?; stat -c %s big");
        assert_eq!((ending, &*printed), (Ending::Exited(0), "153\n1048576\n"));
    }
}

#[test]
fn open_files_have_an_end() {
    for make in [Place::open, Place::confined] {
        let place = make().with_limits(Limits { open_files: 77, ..Limits::default() });
        assert_eq!(place.run("ulimit -n; ulimit -Hn").1, "77\n77\n");
    }
}
