//! Memory that is held in ways other than writing to private pages: in files without a name, in segments, queues, pipes and
//! sockets, in page tables, and by processes that seem to have ended.

use std::ffi::CString;
use std::io::{self, Read as _, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

use windlass_sandbox::{Ending, Launch, Limits, launch};

use crate::attempt::{Scene, arguments};
use crate::files::answer;
use crate::limits::{MIB, ONE_MORE, touch};
use crate::support::{Place, given_users, pipe};

/// The limit. A user's pipes can hold 64 MiB before the size of new ones is bounded.
const MOST: u64 = 96 * MIB;

/// What becomes of a program that tries to hold more than its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is ended.
    Ended,
    /// The kernel refuses the first MiB already.
    Refused,
}

/// Takes one more MiB and keeps it, or says that it cannot.
type Take = Box<dyn FnMut() -> bool>;

/// A way to hold memory.
struct Way {
    name: &'static str,
    prepare: fn() -> Take,
    processes: u64,
    confined: Outcome,
    /// Outside, more than the limit can be held unnoticed. Not every machine has huge pages to try with.
    works_outside: bool,
}

impl Way {
    const fn ended(name: &'static str, prepare: fn() -> Take) -> Self {
        Self { name, prepare, processes: 1, confined: Outcome::Ended, works_outside: true }
    }

    const fn refused(name: &'static str, prepare: fn() -> Take) -> Self {
        Self { confined: Outcome::Refused, ..Self::ended(name, prepare) }
    }
}

const WAYS: &[Way] = &[
    Way::refused("in a memfd", in_memfd),
    Way::refused("in pages given to pipes", || Box::new(give_to_pipe)),
    Way { works_outside: false, ..Way::refused("in huge pages", || Box::new(huge_page)) },
    Way::ended("in segments", || Box::new(segment)),
    Way::ended("in messages", || Box::new(messages)),
    Way::ended("in semaphores", || Box::new(semaphores)),
    Way::ended("in page tables", || Box::new(page_tables)),
    Way { processes: 16, ..Way::ended("in pipes", in_pipes) },
    Way::ended("in local sockets", || in_sockets(false)),
    Way::ended("in local sockets whose other end is closed", || in_sockets(true)),
    Way::ended("in TCP connections", in_connections),
    Way::ended("in a process whose first thread has ended", || Box::new(shared)),
];

const BEHIND_THREAD: &str = "in a process whose first thread has ended";

/// What is more than the warden could overlook.
const TOO_MUCH: u64 = 2 * MOST + 16 * MIB;

/// Looks of the warden that a program with too much must not outlive.
const LOOKS: u64 = 50;

/// Takes one MiB after the other and says so each time, until it gets no more or has too much. Then it waits to be ended. Over the limit
/// it goes on only after the warden has looked: on a busy machine the program may run for long before the warden does.
pub(crate) fn hold_memory(at: &Scene) {
    let name = at.text("WAY");
    let way = WAYS.iter().find(|way| way.name == name).unwrap();
    for _ in 1..way.processes {
        // SAFETY: a copy of this thread, which calls nothing that another could have held.
        if unsafe { libc::fork() } == 0 {
            break;
        }
    }
    let is_counted = at.text("COUNTED") == "yes";
    let take_all = move || {
        let mut take = (way.prepare)();
        let mut taken = 0;
        while taken < TOO_MUCH / MIB / way.processes && take() {
            // SAFETY: one byte.
            unsafe { libc::write(1, [ONE_MORE].as_ptr().cast(), 1) };
            taken += 1;
            if is_counted && taken > MOST / MIB / way.processes {
                wait_for_looks(1);
            }
        }
        if is_counted && taken > 0 {
            wait_for_looks(LOOKS);
        }
        remove_made();
    };
    if name == BEHIND_THREAD {
        behind_thread(take_all);
    } else {
        take_all();
    }
    // With the first, all others would end.
    // SAFETY: nobody wants to know how they ended.
    while unsafe { libc::wait(std::ptr::null_mut()) } > 0 {}
}

/// Waits until the warden, which is the first process here, has looked so many times. It sleeps between looks, and now and then
/// for another reason.
fn wait_for_looks(looks: u64) {
    let slept = || -> u64 {
        let status = std::fs::read_to_string("/proc/1/status").unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    };
    let until = slept() + looks + 2;
    while slept() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Goes on in a second thread of a new process while the first has ended.
fn behind_thread(act: impl FnOnce() + Send + 'static) {
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
    // SAFETY: nobody wants to know how it ended.
    answer(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }).unwrap();
}

fn shared() -> bool {
    touch(libc::MAP_SHARED | libc::MAP_ANONYMOUS)
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(fd).unwrap();
    answer(fd)?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn in_memfd() -> Take {
    let name = CString::new("held").unwrap();
    // SAFETY: a text with an end.
    let made = owned(unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), 0) });
    let mut file = made.map(std::fs::File::from);
    let zeros = vec![0; 1 << 20];
    Box::new(move || file.as_mut().is_ok_and(|file| file.write_all(&zeros).is_ok()))
}

/// Leaves the pages to the pipe and unmaps them.
fn give_to_pipe() -> bool {
    const SLOTS: usize = 16;
    let (read, write) = pipe();
    std::mem::forget(read);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    let length = SLOTS * 4096;
    let mut given = 0;
    // SAFETY: new memory, of which nobody else knows, taken away again when the pipe has it.
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

fn huge_page() -> bool {
    touch(libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB)
}

/// A way to remove something, and its number.
type Removal = (fn(i32), i32);

/// Segments, queues and semaphores that were made. They outlive their process, and outside of a view they are the machine's.
static MADE: Mutex<Vec<Removal>> = Mutex::new(Vec::new());

fn made(remove: fn(i32), number: i32) -> bool {
    if number >= 0 {
        MADE.lock().unwrap().push((remove, number));
    }
    number >= 0
}

fn remove_made() {
    for (remove, number) in MADE.lock().unwrap().drain(..) {
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

/// Attached for as long as it is written to.
fn segment() -> bool {
    // SAFETY: numbers.
    let number = unsafe { libc::shmget(libc::IPC_PRIVATE, 1 << 20, 0o600) };
    if !made(remove_segment, number) {
        return false;
    }
    // SAFETY: what was just made, as large as that.
    unsafe {
        let memory = libc::shmat(number, std::ptr::null(), 0);
        memory.cast::<u8>().write_bytes(1, 1 << 20);
        libc::shmdt(memory) == 0
    }
}

/// A MiB of empty messages: all of it is what the kernel needs for each.
fn messages() -> bool {
    // SAFETY: numbers.
    let queue = unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) };
    let message = [1u64];
    let pointer = message.as_ptr().cast();
    // SAFETY: a message without text.
    made(remove_queue, queue)
        && (0..16384).all(|_| unsafe { libc::msgsnd(queue, pointer, 0, libc::IPC_NOWAIT) } == 0)
}

fn semaphores() -> bool {
    // SAFETY: numbers.
    made(remove_semaphores, unsafe { libc::semget(libc::IPC_PRIVATE, 16384, 0o600) })
}

/// Reads one byte of every two MiB, each of which needs a page of the table and no memory of its own.
fn page_tables() -> bool {
    const TABLES: usize = 256;
    const SPAN: usize = 2 << 20;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let length = TABLES * SPAN;
    // SAFETY: new memory, of which nobody else knows.
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

/// Fills one after the other until a MiB is written.
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

/// Writes until there is no room.
fn write_full(to: &mut impl Write) -> u64 {
    let zeros = [0; 4096];
    let mut written = 0;
    while let Ok(length @ 1..) = to.write(&zeros) {
        written += length as u64;
    }
    written
}

fn in_pipes() -> Take {
    let make = || {
        let mut both = [-1; 2];
        // SAFETY: room for two descriptors.
        answer(unsafe { libc::pipe2(both.as_mut_ptr(), libc::O_NONBLOCK) })?;
        // SAFETY: the kernel has just made them for us.
        let [read, write] = both.map(|fd| unsafe { std::fs::File::from_raw_fd(fd) });
        std::mem::forget(read);
        Ok(write)
    };
    Box::new(move || fill(make, |mut write: &std::fs::File| write_full(&mut write)))
}

fn in_sockets(close: bool) -> Take {
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

fn in_connections() -> Take {
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

/// How many MiB a program said that it has.
fn held(mut output: std::fs::File) -> u64 {
    let mut printed = Vec::new();
    output.read_to_end(&mut printed).unwrap();
    printed.split(|byte| *byte == ONE_MORE).skip(1).count() as u64
}

#[test]
fn memory_has_an_end_however_it_is_held() {
    let limits = Limits { memory: MOST, ..Limits::default() };
    for way in WAYS {
        let mut place = Place::confined().with_limits(limits);
        place.set("WAY", way.name);
        place.set("COUNTED", "yes");
        let (program, output) = place.start_attempt("hold memory").unwrap();
        let held = held(output);
        let ending = program.wait().unwrap();
        let outcome = match ending {
            Ending::OverMemory(MOST) => Outcome::Ended,
            Ending::Exited(0) if held == 0 => Outcome::Refused,
            other => panic!("{}: {other:?} with {held} MiB", way.name),
        };
        assert_eq!(outcome, way.confined, "{}", way.name);
        assert!(held <= 2 * MOST / MIB, "{}: {held} MiB", way.name);
    }
}

/// Each way would hold more if nobody counted it.
#[test]
fn each_way_holds_memory_where_nothing_is_counted() {
    let none = Limits { memory: u64::MAX / 4, ..Limits::default() };
    for way in WAYS.iter().filter(|way| way.works_outside) {
        let mut place = Place::open().with_limits(none);
        place.set("WAY", way.name);
        place.set("COUNTED", "no");
        let (program, output) = place.start_attempt("hold memory").unwrap();
        let held = held(output);
        assert_eq!(program.wait().unwrap(), Ending::Exited(0), "{}", way.name);
        assert!(held > 2 * MOST / MIB, "{}: {held} MiB", way.name);
    }
}

/// What is counted by a control group need not be refused. Any file can be written to like one.
#[test]
fn a_memfd_can_be_made_in_a_control_group() {
    let place = Place::confined().with_limits(Limits { memory: MOST, ..Limits::default() });
    let group = tempfile::tempfile().unwrap();
    let (read, write) = pipe();
    let mut words = vec!["attempt"];
    words.extend(arguments());
    let program = launch(&Launch {
        program: std::env::current_exe().unwrap(),
        arguments: words.into_iter().map(Into::into).collect(),
        environment: ["ATTEMPT=hold memory", "WAY=in a memfd", "COUNTED=no"]
            .map(Into::into)
            .to_vec(),
        directory: place.workspace(),
        stdin: None,
        output: write.as_fd(),
        errors: None,
        terminal: false,
        view: place.view.clone(),
        users: given_users(),
        session: None,
        fence: place.fence.clone(),
        limits: place.limits,
        group: Some(group.as_fd()),
    })
    .unwrap();
    drop(write);
    assert!(held(read.into()) > 0);
    assert_eq!(program.wait().unwrap(), Ending::Exited(0));
}
