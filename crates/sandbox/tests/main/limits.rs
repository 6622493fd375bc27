//! Limits of memory, processes, file sizes and open files.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use windlass_sandbox::{Ending, ResourceLimits};

use crate::attempt::{AttemptContext, print_line};
use crate::ending::{ProcessMark, processes_with_mark};
use crate::support::{TestSandbox, existing_user_namespace, is_root, wait_until};

pub(crate) const MIB: u64 = 1 << 20;
/// Byte that a program prints for each MiB that it has taken.
pub(crate) const MIB_TAKEN: u8 = 1;

/// Takes one MiB after the other, and prints a byte for each, until it gets no more or has four times its limit.
pub(crate) fn use_memory(at: &AttemptContext) {
    let most: u64 = at.number::<u64>("MOST") / MIB * 4;
    let kind = at.text("KIND");
    let processes: u64 = if kind.starts_with("many") { 8 } else { 1 };
    for _ in 1..processes {
        // SAFETY: a copy of this thread, which calls nothing that another could have held.
        if unsafe { libc::fork() } == 0 {
            break;
        }
    }
    let mut take_next: Box<dyn FnMut() -> bool> = match &*kind {
        "private" | "many private" => {
            Box::new(|| take_mib(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS))
        }
        "shared" | "many shared" => Box::new(|| take_mib(libc::MAP_SHARED | libc::MAP_ANONYMOUS)),
        "in /dev/shm" => {
            let mut options = OpenOptions::new();
            let mut file = options.append(true).create(true).open("/dev/shm/file").unwrap();
            let zeros = vec![0; 1 << 20];
            Box::new(move || file.write_all(&zeros).is_ok())
        }
        kind => panic!("no such memory: {kind}"),
    };
    for _ in 0..most / processes {
        if !take_next() {
            break;
        }
        // SAFETY: one byte.
        unsafe { libc::write(1, [MIB_TAKEN].as_ptr().cast(), 1) };
    }
    // Keeps the memory until the other processes have theirs.
    std::thread::sleep(Duration::from_secs(1));
}

/// Takes one MiB and writes to each page of it.
pub(crate) fn take_mib(flags: i32) -> bool {
    let (length, access) = (1 << 20, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: new memory, which nothing else uses.
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
fn memory_limit_ends_the_program() {
    let limits = ResourceLimits { memory: 256 * MIB, ..ResourceLimits::default() };
    for make in [TestSandbox::unconfined, TestSandbox::confined] {
        for kind in ["private", "many private", "shared", "many shared", "in /dev/shm"] {
            let mut sandbox = make().with_limits(limits);
            if sandbox.view.is_none() && kind == "in /dev/shm" {
                continue;
            }
            sandbox.set("MOST", &limits.memory.to_string());
            sandbox.set("KIND", kind);
            let (program, mut output) = sandbox.start_attempt("use memory").unwrap();
            let mut printed = Vec::new();
            output.read_to_end(&mut printed).unwrap();
            let used = printed.split(|byte| *byte == MIB_TAKEN).skip(1).count() as u64;
            let ending = program.wait().unwrap();
            // A quarter over the limit if the warden measures in time; on a busy machine it may have to wait.
            assert!(used <= 2 * 256, "{kind}: {used} MiB, {ending:?}");
            match ending {
                Ending::OverMemory(most) => assert_eq!(most, limits.memory),
                Ending::Exited(0) => assert!(used > 128, "{kind}: {used} MiB"),
                other => panic!("{kind}: {other:?}: {}", String::from_utf8_lossy(&printed)),
            }
        }
    }
}

/// The warden measures however many children it has to reap.
#[test]
fn memory_limit_holds_while_many_processes_end() {
    for make in [TestSandbox::unconfined, TestSandbox::confined] {
        let limits = ResourceLimits { memory: 64 * MIB, ..ResourceLimits::default() };
        let mut sandbox = make().with_limits(limits);
        sandbox.set("MOST", &limits.memory.to_string());
        sandbox.set("KIND", "many private");
        let program = std::env::current_exe().unwrap();
        let script = format!(
            "(while :; do (setsid true &); done) 2>/dev/null & ATTEMPT='use memory' exec {} {}",
            program.display(),
            crate::attempt::attempt_arguments().join(" ")
        );
        let (program, mut output) = sandbox.start(&script).unwrap();
        output.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(program.wait().unwrap(), Ending::OverMemory(64 * MIB));
    }
}

/// Each process of the bomb starts two more.
#[test]
fn fork_bomb_is_bounded_and_ends() {
    // The kernel does not count the processes of root; and in a user namespace that is not new, or in none, the limit includes those
    // that other programs have at the beginning.
    check_fork_bomb(TestSandbox::confined(), !is_root() && existing_user_namespace().is_none());
    // The kernel sets no limit to root of the machine.
    if !is_root() {
        check_fork_bomb(TestSandbox::fenced(), false);
    }
}

fn check_fork_bomb(sandbox: TestSandbox, is_counted_alone: bool) {
    const MOST: u64 = 64;
    let mark = ProcessMark::new();
    let mut sandbox =
        sandbox.with_limits(ResourceLimits { processes: MOST, ..ResourceLimits::default() });
    sandbox.set(ProcessMark::NAME, mark.text());
    let script = "bomb() { bomb & bomb & wait; }; bomb 2>/dev/null; sleep 60";
    let (mut program, _output) = sandbox.start(script).unwrap();
    // The kernel reserves the first 300 process ids, so `pid_max` must be that much above the limit.
    let bound = usize::try_from(MOST).unwrap() + if is_counted_alone { 0 } else { 300 };
    let mut most = 0;
    let mut ending = None;
    for _ in 0..50 {
        most = most.max(processes_with_mark(&mark).len());
        ending = program.try_wait().unwrap();
        if ending.is_some() {
            break;
        }
    }
    assert!(most <= bound, "{most} processes");
    assert!(matches!(ending, None | Some(Ending::OverProcesses(MOST))), "{ending:?}");
    program.kill();
    wait_until("the end of all", || processes_with_mark(&mark).is_empty());
}

/// The limit applies to processes at one time, not to their number over time.
#[test]
fn many_processes_in_sequence_are_allowed() {
    let sandbox = TestSandbox::confined()
        .with_limits(ResourceLimits { processes: 32, ..ResourceLimits::default() });
    let script = "for ((i = 0; i < 400; i++)); do /bin/true | /bin/true | /bin/true | /bin/true || exit 1; done; echo done";
    assert_eq!(sandbox.run(script), (Ending::Exited(0), "done\n".into()));
}

pub(crate) fn start_threads(_: &AttemptContext) {
    let sleep = || std::thread::sleep(Duration::from_mins(10));
    let started = (0..2000)
        .take_while(|_| std::thread::Builder::new().stack_size(64 << 10).spawn(sleep).is_ok())
        .count();
    print_line(&format!("threads: {started}"));
    // The threads are not waited for.
}

#[test]
fn threads_count_as_processes() {
    let sandbox = TestSandbox::confined()
        .with_limits(ResourceLimits { processes: 64, ..ResourceLimits::default() });
    let (program, mut output) = sandbox.start_attempt("start threads").unwrap();
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    drop(program);
    let started = printed.lines().find_map(|line| line.strip_prefix("threads: "));
    let started: u64 = started.unwrap_or_else(|| panic!("{printed}")).parse().unwrap();
    assert!((32..=64 + 300).contains(&started), "{started}");
}

#[test]
fn file_size_is_limited() {
    for make in [TestSandbox::unconfined, TestSandbox::confined, TestSandbox::staged] {
        let sandbox =
            make().with_limits(ResourceLimits { file_size: MIB, ..ResourceLimits::default() });
        let (ending, printed) = sandbox
            .run("{ head -c 3000000 /dev/zero > big; } 2>/dev/null; echo $?; stat -c %s big");
        assert_eq!((ending, &*printed), (Ending::Exited(0), "153\n1048576\n"));
    }
}

#[test]
fn open_files_are_limited() {
    for make in [TestSandbox::unconfined, TestSandbox::confined] {
        let sandbox =
            make().with_limits(ResourceLimits { open_files: 77, ..ResourceLimits::default() });
        assert_eq!(sandbox.run("ulimit -n; ulimit -Hn").1, "77\n77\n");
    }
}
