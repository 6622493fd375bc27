//! The warden: the process between us and a program.
//!
//! It is a copy of us that never becomes another program, so it must not allocate, lock or panic. In namespaces of its own it is the
//! first process: when it ends, the kernel ends all others in there. Without them it is the one to whom orphans are given, and
//! ends those that are there until none is left.
//!
//! A copy costs the more the more memory we have. Where nothing is confined, and nobody may look into us anyway, the warden shares
//! our memory instead: it keeps to a stack of its own and asks the kernel without the C library.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::io;

use libc::{c_int, pid_t};

use crate::Step;
use crate::launch::Network;
use crate::name::Name;
use crate::plan::{Plan, PlannedView};
use crate::renames::Renames;
use crate::root;
use crate::stack::Stack;
use crate::surroundings::{self, Failure};
use crate::sys::{self, Fd, Ready};
use crate::usage::Usage;

/// What the warden tells us.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) kind: u32,
    pub(crate) step: i32,
    pub(crate) errno: i32,
    pub(crate) status: i32,
    pub(crate) number: u64,
}

impl Report {
    /// The program runs.
    pub(crate) const STARTED: u32 = 1;
    /// It could not be started.
    pub(crate) const FAILED: u32 = 2;
    /// It has ended.
    pub(crate) const ENDED: u32 = 3;
    /// It used too much memory.
    pub(crate) const OVER_MEMORY: u32 = 4;
    /// It started too many processes.
    pub(crate) const OVER_PROCESSES: u32 = 5;
    /// Something was put where a protected place was empty.
    pub(crate) const STOOD_IN: u32 = 6;
    /// The listener, which comes with it.
    pub(crate) const LISTENER: u32 = 7;
    /// Our user namespace, which comes with it.
    pub(crate) const USER_NAMESPACE: u32 = 8;
    /// Our network namespace, which comes with it.
    pub(crate) const NETWORK_NAMESPACE: u32 = 9;
    /// Our mount namespace, which comes with it.
    pub(crate) const MOUNT_NAMESPACE: u32 = 10;

    pub(crate) const SIZE: usize = size_of::<Self>();

    pub(crate) fn of(kind: u32) -> Self {
        Self { kind, ..Self::default() }
    }

    fn failure(failure: Failure) -> Self {
        Self { step: failure.step as i32, errno: failure.errno, ..Self::of(Self::FAILED) }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        // SAFETY: whole numbers without room between them, of a size that the compiler checks.
        unsafe { std::mem::transmute(self) }
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        // SAFETY: any bytes are whole numbers.
        unsafe { std::mem::transmute(bytes) }
    }

    fn send(self, to: Fd, passed: Option<Fd>) {
        // Nobody listens any more: then nobody needs to know.
        let _ = sys::send(to, &self.to_bytes(), passed);
    }
}

/// The descriptors that a warden keeps.
#[derive(Clone, Copy)]
struct Kept {
    control: Fd,
    stdin: Fd,
    output: Fd,
    errors: Fd,
    group: Option<Fd>,
}

/// What a warden that shares our memory lives on. It must be there for as long as the warden is.
#[derive(Debug)]
pub(crate) struct Shared {
    plan: Plan,
    control: Fd,
    stack: Stack,
}

impl Shared {
    pub(crate) fn new(plan: Plan, control: Fd) -> io::Result<Self> {
        Ok(Self { plan, control, stack: Stack::new()? })
    }

    /// Starts the warden; its number and its descriptor.
    ///
    /// # Safety
    /// This must stay where it is for as long as the warden is there.
    pub(crate) unsafe fn start(&self) -> sys::Result<(pid_t, Fd)> {
        // SAFETY: the warden only asks the kernel, without the C library, and keeps to its stack.
        unsafe { sys::spawn_shared(&self.stack, run_shared, std::ptr::from_ref(self).cast()) }
    }
}

extern "C" fn run_shared(given: *const c_void) -> ! {
    // SAFETY: that is what it is started with.
    let shared = unsafe { &*given.cast::<Shared>() };
    run(&shared.plan, shared.control)
}

/// A warden that is to be born in namespaces which are there already.
struct Birth<'a> {
    plan: &'a Plan,
    control: Fd,
    /// Its number, or why there is none.
    born: UnsafeCell<sys::Result<pid_t>>,
}

/// Starts a warden in a user namespace that is there already. Only a process of one thread can enter one: another does, which
/// shares our memory while we wait, leaves us a child that is born there, and ends.
pub(crate) fn start_within(plan: &Plan, control: Fd) -> sys::Result<sys::Side> {
    let stack = Stack::new().map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?;
    let birth = Birth { plan, control, born: UnsafeCell::new(Err(libc::EIO)) };
    let given = std::ptr::from_ref(&birth).cast();
    // SAFETY: it only asks the kernel, and writes down what came of it, before we go on.
    let between = unsafe { sys::spawn_and_wait(&stack, enter, given) }?;
    sys::wait_for(between);
    // SAFETY: whoever could write there has ended.
    let pid = unsafe { birth.born.get().read_volatile() }?;
    // It is our child: nobody else gets its number before we have taken its end.
    Ok(sys::Side::Parent { pid, pidfd: sys::open_child(pid)? })
}

extern "C" fn enter(given: *const c_void) -> ! {
    // SAFETY: that is what it is started with; who started it waits.
    let birth = unsafe { &*given.cast::<Birth<'_>>() };
    let Some(users) = birth.plan.users else { sys::exit(1) };
    let born = sys::born_within(users, birth.plan.session, birth.plan.namespaces());
    if born == Ok(0) {
        // In the copy. What it was given is in its own memory now.
        run(birth.plan, birth.control)
    }
    // SAFETY: nobody looks before we have ended.
    unsafe { birth.born.get().write_volatile(born) };
    sys::exit(0)
}

/// All of the warden's life.
pub(crate) fn run(plan: &Plan, control: Fd) -> ! {
    let Ok(kept) = keep(plan, control) else { sys::exit(1) };
    match start(plan, kept) {
        Ok(program) => {
            watch(plan, kept.control, &program);
            // Here, because its threads may use it to the last moment.
            sys::exit(0)
        }
        Err(failure) => Report::failure(failure).send(kept.control, None),
    }
    sys::exit(0)
}

/// Lets go of everything that the process before us had open. Its descriptors are copies: what is left open here could keep a
/// pipe alive that somebody waits for.
fn keep(plan: &Plan, control: Fd) -> sys::Result<Kept> {
    const FIRST: Fd = 10;
    let _ = sys::block_signals(true);
    let stdin = match plan.stdin {
        Some(stdin) => stdin,
        None => sys::open(c"/dev/null", libc::O_RDONLY)?,
    };
    let control = sys::dup_from(control, FIRST)?;
    let stdin = sys::dup_from(stdin, control + 1)?;
    let output = sys::dup_from(plan.output, stdin + 1)?;
    let errors = sys::dup_from(plan.errors, output + 1)?;
    let group = plan.group.map(|group| sys::dup_from(group, errors + 1)).transpose()?;
    let mut from = 0;
    for kept in [control, stdin, output, errors].into_iter().chain(group) {
        sys::close_range(from, kept - 1);
        from = kept + 1;
    }
    sys::close_range(from, Fd::MAX);
    // What asks for the lowest number must not get one of the usual three.
    for _ in 0..3 {
        sys::open(c"/dev/null", libc::O_RDWR)?;
    }
    Ok(Kept { control, stdin, output, errors, group })
}

/// A program that has begun.
struct Program<'a> {
    pid: pid_t,
    /// Serves its renames, if it has an overlay.
    renames: Option<Renames<'a>>,
}

/// Makes the surroundings and the program in them.
fn start(plan: &Plan, kept: Kept) -> surroundings::Result<Program<'_>> {
    use surroundings::At as _;
    let _ = sys::set_session();
    let mask = sys::umask(0);
    if let Some(view) = &plan.view {
        if plan.users.is_none() {
            surroundings::identify(plan)?;
        }
        let listener = surroundings::make_network(plan, view.network)?;
        send_namespaces(plan, view, kept.control)?;
        root::make(plan, view, &mut |number| {
            let report = Report { number: number as u64, ..Report::of(Report::STOOD_IN) };
            report.send(kept.control, None);
        })?;
        if let Some(listener) = listener {
            Report::of(Report::LISTENER).send(kept.control, Some(listener));
            sys::close(listener);
        }
        surroundings::drop_privileges()?;
    } else {
        sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).at(Step::Start)?;
        if plan.fence.is_some() {
            surroundings::drop_privileges()?;
        }
    }
    sys::umask(mask);
    // A copy of us holds what we know: nobody may look into it.
    sys::prctl(libc::PR_SET_DUMPABLE, 0).at(Step::Privileges)?;
    let program = begin(plan, kept);
    for fd in [kept.stdin, kept.output, kept.errors].into_iter().chain(kept.group) {
        sys::close(fd);
    }
    program
}

/// Gives away our namespaces: that of mounts, so that its end does not delay ours, and those of users and network, so that later
/// programs can share the loopback interface. Only we can open them: by the time that the program runs nobody may look into us.
fn send_namespaces(plan: &Plan, view: &PlannedView, control: Fd) -> surroundings::Result {
    use surroundings::At as _;
    let is_shared = plan.session.is_none() && view.network != Network::Machine;
    for (is_sent, kind, path) in [
        (true, Report::MOUNT_NAMESPACE, c"/proc/self/ns/mnt"),
        (is_shared, Report::USER_NAMESPACE, c"/proc/self/ns/user"),
        (is_shared, Report::NETWORK_NAMESPACE, c"/proc/self/ns/net"),
    ] {
        if !is_sent {
            continue;
        }
        let namespace = sys::open(path, libc::O_RDONLY).at(Step::Network)?;
        Report::of(kind).send(control, Some(namespace));
        sys::close(namespace);
    }
    Ok(())
}

/// What the program's process is given while it still is a copy of us.
struct Beginning<'a> {
    plan: &'a Plan,
    kept: Kept,
    /// Its Landlock rules. They are made before it runs, when it cannot have changed what lies at their paths.
    rules: Option<Fd>,
    /// Where it sends the descriptor on which its renames arrive.
    listener: Option<Fd>,
    /// Why it could not become the program.
    failure: UnsafeCell<Option<Failure>>,
}

/// Starts one more process and waits until the program has taken over. It shares our memory until then: nothing need be copied, and
/// it can tell us there why not.
fn begin(plan: &Plan, kept: Kept) -> surroundings::Result<Program<'_>> {
    use surroundings::At as _;
    let rules = match &plan.fence {
        Some(fence) => surroundings::make_rules(plan, fence)?,
        None => None,
    };
    // Without them there are no renames of directories, and all else goes on.
    let pair = plan.renames.as_ref().and_then(|_| sys::socket_pair().ok());
    let listener = pair.map(|[_, theirs]| theirs);
    let beginning = Beginning { plan, kept, rules, listener, failure: UnsafeCell::new(None) };
    let given = std::ptr::from_ref(&beginning).cast();
    // SAFETY: it only asks the kernel for things that are its own, and writes down why it could not go on.
    let pid = unsafe { sys::spawn_and_wait(&plan.stack, begin_program, given) }.at(Step::Start)?;
    // SAFETY: whoever could write there is another program by now, or has ended.
    if let Some(failure) = unsafe { beginning.failure.get().read_volatile() } {
        return Err(failure);
    }
    let renames = pair.and_then(|pair| receive_listener(plan, pair, rules));
    if let (None, Some(rules)) = (&renames, rules) {
        sys::close(rules);
    }
    Ok(Program { pid, renames })
}

/// Takes the descriptor that the program's process has sent, if it could.
fn receive_listener(
    plan: &Plan,
    [ours, theirs]: [Fd; 2],
    rules: Option<Fd>,
) -> Option<Renames<'_>> {
    // Nobody else has that end any more: where nothing was sent, there is an end and no waiting.
    sys::close(theirs);
    let received = sys::receive(ours, &mut [0; 1]);
    sys::close(ours);
    let (_, listener) = received.ok()?;
    Some(Renames::new(plan, plan.renames.as_ref()?, listener?, rules))
}

/// What the program's process does.
extern "C" fn begin_program(given: *const c_void) -> ! {
    // SAFETY: that is what it is started with; who started it waits.
    let beginning = unsafe { &*given.cast::<Beginning<'_>>() };
    let failure = become_program(beginning);
    // SAFETY: nobody looks before we have ended.
    unsafe { beginning.failure.get().write_volatile(Some(failure)) };
    sys::exit(127)
}

/// Comes back only if that is not possible.
fn become_program(beginning: &Beginning<'_>) -> Failure {
    let (plan, kept) = (beginning.plan, beginning.kept);
    let ready = || {
        use surroundings::At as _;
        // Whoever manages the groups may have removed this one.
        let is_in_group = kept.group.is_some_and(|group| sys::write(group, b"0").is_ok());
        surroundings::connect([kept.stdin, kept.output, kept.errors], plan.terminal)?;
        sys::chdir(&plan.directory).at(Step::Directory)?;
        surroundings::set_limits(plan)?;
        if let Some(fence) = &plan.fence {
            surroundings::raise_fence(fence, beginning.rules, is_in_group)?;
        }
        send_listener(beginning).at(Step::Seccomp)?;
        sys::default_signals();
        sys::block_signals(false).at(Step::Start)
    };
    if let Err(failure) = ready() {
        return failure;
    }
    let (arguments, environment) = (&plan.argument_pointers, &plan.environment_pointers);
    let errno = sys::execute(&plan.program, arguments.as_ptr(), environment.as_ptr());
    Failure { step: Step::Program, errno }
}

/// Has the renames of the program arrive at a descriptor of its own, and sends that. A kernel that cannot do it, or a filter around us
/// that does the same already, leaves renames as they are.
fn send_listener(beginning: &Beginning<'_>) -> sys::Result {
    if let (Some(to), Some(renames)) = (beginning.listener, &beginning.plan.renames)
        && let Ok(listener) = sys::notify::listen(&renames.filter)
    {
        let sent = sys::send(to, &[0], Some(listener));
        sys::close(listener);
        return sent;
    }
    Ok(())
}

/// Waits for the program, for a word from us, and for the limits.
fn watch(plan: &Plan, control: Fd, program: &Program<'_>) {
    Report::of(Report::STARTED).send(control, None);
    let end = |report| end_all(plan, control, program, report);
    let Ok(signals) = sys::signal_fd() else { return end(None) };
    let mut look = sys::now() + Usage::default().pause(plan);
    let mut unserved = program.renames.as_ref();
    loop {
        let wait = look.saturating_sub(sys::now()).clamp(0, Usage::LONGEST);
        let listener = unserved.map_or(-1, Renames::listener);
        let ready = sys::poll([control, signals, listener], c_int::try_from(wait).unwrap_or(0));
        let [told, signalled, called] =
            ready.unwrap_or([Ready::READABLE, Ready::default(), Ready::default()]);
        if signalled.is_any() {
            let mut ignored = [0; 1024];
            let _ = sys::read(signals, &mut ignored);
        }
        if let Some(status) = reap_all(program.pid) {
            return end(Some(Report { status, ..Report::of(Report::ENDED) }));
        }
        if told.is_any() && !obey(plan, control) {
            return end(None);
        }
        if called.is_any() {
            unserved = unserved.filter(|renames| !serve(renames, called));
        }
        // By the clock: a program that keeps us busy must not keep us from looking.
        if sys::now() >= look {
            let usage = Usage::of(plan);
            if let Some(report) = usage.over_limits(plan) {
                return end(Some(report));
            }
            look = sys::now() + usage.pause(plan);
        }
    }
}

/// Starts to serve renames when the first one arrives; `true` if this process need not look for others.
fn serve(renames: &Renames<'_>, called: Ready) -> bool {
    if !called.is_readable() {
        // No process is left that could call.
        return true;
    }
    let is_served = renames.start().is_ok();
    if !is_served {
        renames.let_one_proceed();
    }
    is_served
}

/// Takes every child that has ended; how the program did, if it is among them.
fn reap_all(program: pid_t) -> Option<c_int> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = sys::reap(false) {
        if pid == program {
            ended = Some(status);
        }
    }
    ended
}

/// Does as it is told: a byte is a signal for everything. `false` if nobody is there any more.
fn obey(plan: &Plan, control: Fd) -> bool {
    let mut word = [0; 1];
    match sys::read(control, &mut word) {
        Ok(1) => {
            let [signal] = word;
            for pid in Tree::of(plan).pids() {
                let _ = sys::kill(*pid, c_int::from(signal));
            }
            true
        }
        Err(libc::EINTR | libc::EAGAIN) => true,
        _ => false,
    }
}

/// Ends everything and says why. In a namespace, the kernel does it when we go; elsewhere it takes several rounds, because what
/// loses its parent becomes a child of ours, and what is forked meanwhile must be found again.
fn end_all(plan: &Plan, control: Fd, program: &Program<'_>, report: Option<Report>) {
    if let Some(report) = report {
        report.send(control, None);
    }
    if let Some(renames) = program.renames.as_ref().filter(|renames| renames.is_moving()) {
        // Nothing of the program writes any more to what is moved.
        let _ = sys::kill(-1, libc::SIGKILL);
        renames.settle();
    }
    if plan.view.is_some() {
        return;
    }
    while has_children() {
        for pid in Tree::of(plan).pids() {
            let _ = sys::kill(*pid, libc::SIGKILL);
        }
        // They need a moment. Nobody else is waited for: where we are told to end, there is always something to read.
        let _ = sys::poll([-1], 1);
    }
}

/// Takes every child that has ended; whether there are others.
fn has_children() -> bool {
    loop {
        match sys::reap(false) {
            Ok(Some(_)) => {}
            other => return other != Err(libc::ECHILD),
        }
    }
}

/// All processes but ourselves that we answer for, as far as there is room for them.
pub(crate) struct Tree {
    pids: [pid_t; Self::MOST],
    length: usize,
}

impl Tree {
    const MOST: usize = 8192;

    #[expect(
        clippy::large_stack_arrays,
        reason = "nothing may be allocated, and there is no depth"
    )]
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut tree = Self { pids: [0; Self::MOST], length: 0 };
        // SAFETY: asks who we are.
        let own = unsafe { libc::getpid() };
        if plan.view.is_some() {
            tree.add_namespace(own);
        } else {
            tree.add_below(own);
        }
        tree
    }

    pub(crate) fn pids(&self) -> &[pid_t] {
        self.pids.get(..self.length).unwrap_or_default()
    }

    /// Everything in our namespace: `/proc` shows nothing else.
    fn add_namespace(&mut self, own: pid_t) {
        each_number_in(c"/proc", &mut |pid| {
            if pid != own {
                self.push(pid);
            }
        });
    }

    /// Our children, theirs, and so on.
    fn add_below(&mut self, own: pid_t) {
        self.add_children(own);
        let mut at = 0;
        while let Some(pid) = self.pids().get(at).copied() {
            self.add_children(pid);
            at += 1;
        }
    }

    /// What each thread of a process has started.
    fn add_children(&mut self, pid: pid_t) {
        let threads = Name::of(b"/proc/").number(pid).text(b"/task");
        each_number_in(threads.as_c_str(), &mut |thread| self.add_children_of_thread(pid, thread));
    }

    fn add_children_of_thread(&mut self, pid: pid_t, thread: pid_t) {
        let path = Name::of(b"/proc/").number(pid).text(b"/task/").number(thread);
        let Ok(fd) = sys::open(path.text(b"/children").as_c_str(), libc::O_RDONLY) else { return };
        let mut number: pid_t = 0;
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = sys::read(fd, &mut buffer) {
            for byte in buffer.iter().take(read) {
                match byte {
                    b'0'..=b'9' => {
                        number = number.wrapping_mul(10).wrapping_add(pid_t::from(byte - b'0'));
                    }
                    _ => self.push(std::mem::take(&mut number)),
                }
            }
        }
        self.push(number);
        sys::close(fd);
    }

    fn push(&mut self, pid: pid_t) {
        if pid > 0
            && let Some(slot) = self.pids.get_mut(self.length)
        {
            *slot = pid;
            self.length += 1;
        }
    }
}

/// The names of a directory that are numbers.
pub(crate) fn each_number_in(directory: &CStr, act: &mut dyn FnMut(pid_t)) {
    let Ok(fd) = sys::open(directory, libc::O_RDONLY | libc::O_DIRECTORY) else { return };
    let mut buffer = [0; 8192];
    while let Ok(read @ 1..) = sys::list(fd, &mut buffer) {
        let mut rest = buffer.get(..read).unwrap_or_default();
        // Each entry: two numbers of eight bytes, its length in two, its kind in one, its name.
        while let Some((length, name)) = rest.get(16..18).zip(rest.get(19..)) {
            let length = usize::from(u16::from_ne_bytes([
                length.first().copied().unwrap_or(0),
                length.last().copied().unwrap_or(0),
            ]));
            let digits = name.iter().take_while(|byte| byte.is_ascii_digit());
            let number = digits.fold(0, |number: pid_t, digit| {
                number.wrapping_mul(10).wrapping_add(pid_t::from(digit - b'0'))
            });
            if number > 0 {
                act(number);
            }
            rest = rest.get(length.max(19)..).unwrap_or_default();
        }
    }
    sys::close(fd);
}
