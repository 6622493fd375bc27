//! The memory limit, for memory that is not private pages: in memfds, segments, queues, pipes, sockets and page tables, and in processes
//! whose first thread has ended.

use std::ffi::CString;
use std::io::{self, Read as _, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

use windlass_sandbox::{Ending, Launch, ResourceLimits, launch};

use crate::attempt::{AttemptContext, attempt_arguments};
use crate::files::errno_result;
use crate::limits::{MIB, MIB_TAKEN, take_mib};
use crate::support::{TestSandbox, existing_user_namespace, pipe};

/// The memory limit in bytes. A user's pipes can hold 64 MiB before the size of new ones is bounded.
const LIMIT: u64 = 96 * MIB;

/// The result of a program that tries to hold more than its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The warden ends it.
    Ended,
    /// The kernel refuses the first MiB already.
    Refused,
}

/// A function that takes one more MiB and keeps it; false if it cannot.
type TakeMib = Box<dyn FnMut() -> bool>;

/// A way to hold memory.
struct MemoryKind {
    name: &'static str,
    prepare: fn() -> TakeMib,
    processes: u64,
    confined: Outcome,
    /// True if a program outside can hold more than the limit. Not every machine has huge pages to test with.
    works_outside: bool,
}

impl MemoryKind {
    const fn ended(name: &'static str, prepare: fn() -> TakeMib) -> Self {
        Self { name, prepare, processes: 1, confined: Outcome::Ended, works_outside: true }
    }

    const fn refused(name: &'static str, prepare: fn() -> TakeMib) -> Self {
        Self { confined: Outcome::Refused, ..Self::ended(name, prepare) }
    }
}

const MEMORY_KINDS: &[MemoryKind] = &[
    MemoryKind::refused("in a memfd", in_memfd),
    MemoryKind::refused("in pages given to pipes", || Box::new(give_to_pipe)),
    MemoryKind {
        works_outside: false,
        ..MemoryKind::refused("in huge pages", || Box::new(take_huge_page))
    },
    MemoryKind::ended("in segments", || Box::new(take_segment)),
    MemoryKind::ended("in messages", || Box::new(send_messages)),
    MemoryKind::ended("in semaphores", || Box::new(create_semaphores)),
    MemoryKind::ended("in page tables", || Box::new(use_page_tables)),
    MemoryKind { processes: 16, ..MemoryKind::ended("in pipes", in_pipes) },
    MemoryKind::ended("in local sockets", || in_sockets(false)),
    MemoryKind::ended("in local sockets whose other end is closed", || in_sockets(true)),
    MemoryKind::ended("in TCP connections", in_connections),
    MemoryKind::ended("in a process whose first thread has ended", || Box::new(take_shared)),
];

const FIRST_THREAD_ENDED: &str = "in a process whose first thread has ended";

/// Bytes that a program takes at most: far more than the warden may let pass.
const MAX_TAKEN: u64 = 2 * LIMIT + 16 * MIB;

/// Number of measurements by the warden that a program over its limit must not survive.
const MAX_MEASUREMENTS: u64 = 50;

/// Takes one MiB after the other and prints a byte for each, until it gets no more or has far too much. Then it waits to be ended. Over the
/// limit it continues only after a measurement by the warden, which on a busy machine may come late.
pub(crate) fn hold_memory(at: &AttemptContext) {
    let name = at.text("WAY");
    let kind = MEMORY_KINDS.iter().find(|kind| kind.name == name).unwrap();
    for _ in 1..kind.processes {
        // SAFETY: a copy of this thread, which calls nothing that another could have held.
        if unsafe { libc::fork() } == 0 {
            break;
        }
    }
    let is_counted = at.text("COUNTED") == "yes";
    let take_all = move || {
        let mut take = (kind.prepare)();
        let mut taken = 0;
        while taken < MAX_TAKEN / MIB / kind.processes && take() {
            // SAFETY: one byte.
            unsafe { libc::write(1, [MIB_TAKEN].as_ptr().cast(), 1) };
            taken += 1;
            if is_counted && taken > LIMIT / MIB / kind.processes {
                wait_for_measurements(1);
            }
        }
        if is_counted && taken > 0 {
            wait_for_measurements(MAX_MEASUREMENTS);
        }
        remove_created();
    };
    if name == FIRST_THREAD_ENDED {
        run_after_first_thread(take_all);
    } else {
        take_all();
    }
    // If the first process ended, so would all others.
    // SAFETY: the status is not stored.
    while unsafe { libc::wait(std::ptr::null_mut()) } > 0 {}
}

/// Waits until the warden, which is process 1 here, has measured so many times. Counts its voluntary context switches: it sleeps between
/// measurements, and now and then for another reason.
fn wait_for_measurements(measurements: u64) {
    let slept = || -> u64 {
        let status = std::fs::read_to_string("/proc/1/status").unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    };
    let until = slept() + measurements + 2;
    while slept() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a function in the second thread of a child process whose first thread has ended.
fn run_after_first_thread(act: impl FnOnce() + Send + 'static) {
    // SAFETY: a copy of this thread, which waits for no other.
    let child = unsafe { libc::fork() };
    if child == 0 {
        std::thread::spawn(|| {
            act();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        });
        // SAFETY: ends this thread alone.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    // SAFETY: the status is not stored.
    errno_result(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }).unwrap();
}

fn take_shared() -> bool {
    take_mib(libc::MAP_SHARED | libc::MAP_ANONYMOUS)
}

fn into_owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(fd).unwrap();
    errno_result(fd)?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn in_memfd() -> TakeMib {
    let name = CString::new("held").unwrap();
    // SAFETY: a text with an end.
    let made = into_owned(unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), 0) });
    let mut file = made.map(std::fs::File::from);
    let zeros = vec![0; 1 << 20];
    Box::new(move || file.as_mut().is_ok_and(|file| file.write_all(&zeros).is_ok()))
}

/// Gives pages to a pipe by `vmsplice` and unmaps them.
fn give_to_pipe() -> bool {
    const SLOTS: usize = 16;
    let (read, write) = pipe();
    std::mem::forget(read);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    let length = SLOTS * 4096;
    let mut given = 0;
    // SAFETY: new memory, which nothing else uses, unmapped again when the pipe has it.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        let part = libc::iovec { iov_base: memory, iov_len: length };
        let fd = std::os::fd::AsRawFd::as_raw_fd(&write);
        if libc::vmsplice(fd, &raw const part, 1, libc::SPLICE_F_NONBLOCK) > 0 {
            given = length;
        }
        libc::munmap(memory, length);
    }
    std::mem::forget(write);
    given > 0
}

fn take_huge_page() -> bool {
    take_mib(libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB)
}

/// A function that removes a System V object, and the object's number.
type Removal = (fn(i32), i32);

/// Segments, queues and semaphores that were created. They outlive their process, and outside a view they belong to the machine.
static CREATED_OBJECTS: Mutex<Vec<Removal>> = Mutex::new(Vec::new());

fn remember_created(remove: fn(i32), number: i32) -> bool {
    if number >= 0 {
        CREATED_OBJECTS.lock().unwrap().push((remove, number));
    }
    number >= 0
}

fn remove_created() {
    for (remove, number) in CREATED_OBJECTS.lock().unwrap().drain(..) {
        remove(number);
    }
}

fn remove_segment(number: i32) {
    // SAFETY: takes nothing.
    unsafe { libc::shmctl(number, libc::IPC_RMID, std::ptr::null_mut()) };
}

fn remove_queue(number: i32) {
    // SAFETY: takes nothing.
    unsafe { libc::msgctl(number, libc::IPC_RMID, std::ptr::null_mut()) };
}

fn remove_semaphores(number: i32) {
    // SAFETY: takes nothing.
    unsafe { libc::semctl(number, 0, libc::IPC_RMID) };
}

/// Creates a segment of one MiB, writes to it and detaches it.
fn take_segment() -> bool {
    // SAFETY: numbers.
    let number = unsafe { libc::shmget(libc::IPC_PRIVATE, 1 << 20, 0o600) };
    if !remember_created(remove_segment, number) {
        return false;
    }
    // SAFETY: what was just made, as large as that.
    unsafe {
        let memory = libc::shmat(number, std::ptr::null(), 0);
        memory.cast::<u8>().write_bytes(1, 1 << 20);
        libc::shmdt(memory) == 0
    }
}

/// Sends so many empty messages that the kernel's own data for them is a MiB.
fn send_messages() -> bool {
    // SAFETY: numbers.
    let queue = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
    let message = [1u64];
    let pointer = message.as_ptr().cast();
    // SAFETY: a message without text.
    remember_created(remove_queue, queue)
        && (0..16384).all(|_| unsafe { libc::msgsnd(queue, pointer, 0, libc::IPC_NOWAIT) } == 0)
}

fn create_semaphores() -> bool {
    // SAFETY: numbers.
    remember_created(remove_semaphores, unsafe { libc::semget(libc::IPC_PRIVATE, 16384, 0o600) })
}

/// Reads one byte of every two MiB: each needs a page of the page table and no other memory.
fn use_page_tables() -> bool {
    const TABLES: usize = 256;
    const SPAN: usize = 2 << 20;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let length = TABLES * SPAN;
    // SAFETY: new memory, which nothing else uses.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return false;
        }
        // One huge page of zeros would do for all.
        libc::madvise(memory, length, libc::MADV_NOHUGEPAGE);
        for table in 0..TABLES {
            memory.cast::<u8>().add(table * SPAN).read_volatile();
        }
    }
    true
}

/// Makes and fills one object after the other until a MiB is written; false if one takes nothing.
fn fill<T>(mut make: impl FnMut() -> io::Result<T>, mut full: impl FnMut(&T) -> u64) -> bool {
    let mut written = 0;
    while written < MIB {
        let Ok(made) = make() else { return false };
        match full(&made) {
            0 => return false,
            more => written += more,
        }
        std::mem::forget(made);
    }
    true
}

/// Writes until the object is full. Returns the number of bytes.
fn write_full(to: &mut impl Write) -> u64 {
    let zeros = [0; 4096];
    let mut written = 0;
    while let Ok(length @ 1..) = to.write(&zeros) {
        written += length as u64;
    }
    written
}

fn in_pipes() -> TakeMib {
    let make = || {
        let mut both = [-1; 2];
        // SAFETY: room for two descriptors.
        errno_result(unsafe { libc::pipe2(both.as_mut_ptr(), libc::O_NONBLOCK) })?;
        // SAFETY: the kernel has just made them for us.
        let [read, write] = both.map(|fd| unsafe { std::fs::File::from_raw_fd(fd) });
        std::mem::forget(read);
        Ok(write)
    };
    Box::new(move || fill(make, |mut write: &std::fs::File| write_full(&mut write)))
}

fn in_sockets(close: bool) -> TakeMib {
    let make = move || {
        let (mut sent, kept) = UnixStream::pair()?;
        sent.set_nonblocking(true)?;
        let written = write_full(&mut sent);
        if !close {
            std::mem::forget(sent);
        }
        Ok((kept, written))
    };
    Box::new(move || fill(make, |(_, written): &(UnixStream, u64)| *written))
}

fn in_connections() -> TakeMib {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut ahead = 0;
    Box::new(move || {
        while ahead < MIB {
            let Ok(mut sent) = TcpStream::connect(address) else { return false };
            std::mem::forget(listener.accept().unwrap());
            sent.set_nonblocking(true).unwrap();
            match write_full(&mut sent) {
                0 => return false,
                more => ahead += more,
            }
            std::mem::forget(sent);
        }
        ahead -= MIB;
        true
    })
}

/// Reads a program's output and counts the MiB that it has taken.
fn count_mib(mut output: std::fs::File) -> u64 {
    let mut printed = Vec::new();
    output.read_to_end(&mut printed).unwrap();
    printed.split(|byte| *byte == MIB_TAKEN).skip(1).count() as u64
}

#[test]
fn every_kind_of_memory_is_limited() {
    let limits = ResourceLimits { memory: LIMIT, ..ResourceLimits::default() };
    for kind in MEMORY_KINDS {
        let mut sandbox = TestSandbox::confined().with_limits(limits);
        sandbox.set("WAY", kind.name);
        sandbox.set("COUNTED", "yes");
        let (program, output) = sandbox.start_attempt("hold memory").unwrap();
        let held = count_mib(output);
        let ending = program.wait().unwrap();
        let outcome = match ending {
            Ending::OverMemory(LIMIT) => Outcome::Ended,
            Ending::Exited(0) if held == 0 => Outcome::Refused,
            other => panic!("{}: {other:?} with {held} MiB", kind.name),
        };
        assert_eq!(outcome, kind.confined, "{}", kind.name);
        assert!(held <= 2 * LIMIT / MIB, "{}: {held} MiB", kind.name);
    }
}

/// Proves that each kind exceeds the limit unless it is counted.
#[test]
fn every_kind_of_memory_is_unlimited_outside() {
    let none = ResourceLimits { memory: u64::MAX / 4, ..ResourceLimits::default() };
    for kind in MEMORY_KINDS.iter().filter(|kind| kind.works_outside) {
        let mut sandbox = TestSandbox::unconfined().with_limits(none);
        sandbox.set("WAY", kind.name);
        sandbox.set("COUNTED", "no");
        let (program, output) = sandbox.start_attempt("hold memory").unwrap();
        let held = count_mib(output);
        assert_eq!(program.wait().unwrap(), Ending::Exited(0), "{}", kind.name);
        assert!(held > 2 * LIMIT / MIB, "{}: {held} MiB", kind.name);
    }
}

/// A control group counts memfds, so they need not be refused. Any writable file can stand for the group here.
#[test]
fn memfd_is_allowed_in_a_control_group() {
    let sandbox = TestSandbox::confined()
        .with_limits(ResourceLimits { memory: LIMIT, ..ResourceLimits::default() });
    let group = tempfile::tempfile().unwrap();
    let (read, write) = pipe();
    let mut words = vec!["attempt"];
    words.extend(attempt_arguments());
    let program = launch(&Launch {
        program: std::env::current_exe().unwrap(),
        arguments: words.into_iter().map(Into::into).collect(),
        environment: ["ATTEMPT=hold memory", "WAY=in a memfd", "COUNTED=no"]
            .map(Into::into)
            .to_vec(),
        directory: sandbox.workspace(),
        stdin: None,
        output: write.as_fd(),
        errors: None,
        terminal: false,
        view: sandbox.view.clone(),
        users: existing_user_namespace(),
        session: None,
        fence: sandbox.fence.clone(),
        limits: sandbox.limits,
        group: Some(group.as_fd()),
    })
    .unwrap();
    drop(write);
    assert!(count_mib(read.into()) > 0);
    assert_eq!(program.wait().unwrap(), Ending::Exited(0));
}
