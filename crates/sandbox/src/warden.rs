//! The warden: the process between us and a program.
//!
//! It is a copy of us that never executes another program, so it must not allocate, lock or panic. In a PID namespace of its own it is
//! the first process: when it ends, the kernel ends all others in there. Without namespaces it is a child subreaper, so that it gets all
//! orphans, and kills its descendants until none is left.
//!
//! A copy costs more the more memory we have. If nothing is confined, and this process is hidden from others anyway, the warden shares
//! our memory instead: it uses a stack of its own, and makes system calls without the C library.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::io;

use libc::{c_int, pid_t};

use crate::LaunchStep;
use crate::launch::ProgramNetwork;
use crate::path_buffer::PathBuffer;
use crate::plan::{LaunchPlan, PlannedView};
use crate::renames::RenameService;
use crate::root;
use crate::setup::{self, SetupFailure};
use crate::stack::Stack;
use crate::sys::{self, Fd, ReadyEvents};
use crate::usage::Usage;

/// A message from the warden to us.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) kind: u32,
    /// Number of the [`LaunchStep`] that failed.
    pub(crate) step: i32,
    pub(crate) errno: i32,
    /// Wait status of a program that has ended.
    pub(crate) status: i32,
    /// Limit that was exceeded, or index of a protected path.
    pub(crate) number: u64,
}

impl Report {
    /// The program has begun.
    pub(crate) const STARTED: u32 = 1;
    /// The program could not be started.
    pub(crate) const FAILED: u32 = 2;
    /// The program has ended.
    pub(crate) const ENDED: u32 = 3;
    /// The program used more memory than its limit.
    pub(crate) const OVER_MEMORY: u32 = 4;
    /// The program had more processes than its limit.
    pub(crate) const OVER_PROCESSES: u32 = 5;
    /// An empty file or directory was created at a protected path that did not exist.
    pub(crate) const STAND_IN_CREATED: u32 = 6;
    /// Comes with the descriptor of the listener on the loopback interface.
    pub(crate) const LISTENER: u32 = 7;
    /// Comes with a descriptor of the user namespace.
    pub(crate) const USER_NAMESPACE: u32 = 8;
    /// Comes with a descriptor of the network namespace.
    pub(crate) const NETWORK_NAMESPACE: u32 = 9;
    /// Comes with a descriptor of the mount namespace.
    pub(crate) const MOUNT_NAMESPACE: u32 = 10;

    pub(crate) const SIZE: usize = size_of::<Self>();

    /// Makes a report of a kind with all other fields 0.
    pub(crate) fn of(kind: u32) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Makes a report of a failed step.
    fn failure(failure: SetupFailure) -> Self {
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

    /// Sends the report, with a descriptor if one is given. Ignores errors.
    fn send(self, to: Fd, passed: Option<Fd>) {
        // If the other side is closed, no process needs the report.
        let _ = sys::send(to, &self.to_bytes(), passed);
    }
}

/// The descriptors that a warden keeps open; it closes all others.
#[derive(Clone, Copy)]
struct KeptDescriptors {
    control: Fd,
    stdin: Fd,
    output: Fd,
    errors: Fd,
    group: Option<Fd>,
}

/// The data of a warden that shares our memory. It must not be freed before the warden has ended.
#[derive(Debug)]
pub(crate) struct SharedWarden {
    plan: LaunchPlan,
    control: Fd,
    stack: Stack,
}

impl SharedWarden {
    /// Takes a plan, the warden's end of the control socket, and a new stack.
    pub(crate) fn new(plan: LaunchPlan, control: Fd) -> io::Result<Self> {
        Ok(Self { plan, control, stack: Stack::new()? })
    }

    /// Starts the warden. Returns its process id and its descriptor.
    ///
    /// # Safety
    /// `self` must not be moved or freed before the warden has ended.
    pub(crate) unsafe fn start(&self) -> sys::Result<(pid_t, Fd)> {
        // SAFETY: the warden only asks the kernel, without the C library, and keeps to its stack.
        unsafe { sys::spawn_shared(&self.stack, run_shared, std::ptr::from_ref(self).cast()) }
    }
}

/// Entry point of a warden that shares our memory.
extern "C" fn run_shared(data: *const c_void) -> ! {
    // SAFETY: that is what it is started with.
    let shared = unsafe { &*data.cast::<SharedWarden>() };
    run(&shared.plan, shared.control)
}

/// A request to fork a warden in existing namespaces, and its result.
struct NamespaceFork<'a> {
    plan: &'a LaunchPlan,
    control: Fd,
    /// Process id of the warden, or the error.
    forked: UnsafeCell<sys::Result<pid_t>>,
}

/// Starts a warden in an existing user namespace. Only a process with a single thread can enter one, so a helper process does it: it shares
/// our memory while we wait, forks the warden as our child, and exits.
pub(crate) fn start_in_namespaces(plan: &LaunchPlan, control: Fd) -> sys::Result<sys::ForkSide> {
    let stack = Stack::new().map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?;
    let request = NamespaceFork { plan, control, forked: UnsafeCell::new(Err(libc::EIO)) };
    let data = std::ptr::from_ref(&request).cast();
    // SAFETY: it only asks the kernel, and writes down what came of it, before we go on.
    let helper = unsafe { sys::spawn_and_wait(&stack, fork_in_namespaces, data) }?;
    sys::wait_and_reap(helper);
    // SAFETY: the process that could write there has ended.
    let pid = unsafe { request.forked.get().read_volatile() }?;
    // It is our child: no other process gets its number before we have reaped it.
    Ok(sys::ForkSide::Parent { pid, pidfd: sys::open_pidfd(pid)? })
}

/// Entry point of the helper process: enters the namespaces, forks the warden and stores the result.
extern "C" fn fork_in_namespaces(data: *const c_void) -> ! {
    // SAFETY: that is what it is started with; the process that started it waits.
    let request = unsafe { &*data.cast::<NamespaceFork<'_>>() };
    let Some(users) = request.plan.users else { sys::exit(1) };
    let forked = sys::fork_into_namespaces(users, request.plan.session, request.plan.namespaces());
    if forked == Ok(0) {
        // This is the forked warden, which has its own copy of the data.
        run(request.plan, request.control)
    }
    // SAFETY: it is not read before we have ended.
    unsafe { request.forked.get().write_volatile(forked) };
    sys::exit(0)
}

/// Runs the warden: sets up the sandbox, starts the program, watches it, ends all of it, and exits.
pub(crate) fn run(plan: &LaunchPlan, control: Fd) -> ! {
    let Ok(kept) = close_inherited_descriptors(plan, control) else { sys::exit(1) };
    match set_up_and_start(plan, kept) {
        Ok(program) => {
            watch_program(plan, kept.control, &program);
            // Exits here, while `program` is valid, because its threads may use it until the end.
            sys::exit(0)
        }
        Err(failure) => Report::failure(failure).send(kept.control, None),
    }
    sys::exit(0)
}

/// Closes all inherited descriptors but those that the warden needs, which get numbers from 10 on. They are copies: an inherited pipe that
/// stayed open here could keep another process waiting for its end.
fn close_inherited_descriptors(plan: &LaunchPlan, control: Fd) -> sys::Result<KeptDescriptors> {
    /// Lowest number of a kept descriptor.
    const FIRST: Fd = 10;
    let _ = sys::block_signals(true);
    let stdin = match plan.stdin {
        Some(stdin) => stdin,
        None => sys::open(c"/dev/null", libc::O_RDONLY)?,
    };
    let control = sys::dup_at_least(control, FIRST)?;
    let stdin = sys::dup_at_least(stdin, control + 1)?;
    let output = sys::dup_at_least(plan.output, stdin + 1)?;
    let errors = sys::dup_at_least(plan.errors, output + 1)?;
    let group = plan.group.map(|group| sys::dup_at_least(group, errors + 1)).transpose()?;
    let mut from = 0;
    for kept in [control, stdin, output, errors].into_iter().chain(group) {
        sys::close_range(from, kept - 1);
        from = kept + 1;
    }
    sys::close_range(from, Fd::MAX);
    // Later calls that take the lowest free number must not get one of the usual three.
    for _ in 0..3 {
        sys::open(c"/dev/null", libc::O_RDWR)?;
    }
    Ok(KeptDescriptors { control, stdin, output, errors, group })
}

/// A program that the warden has started.
struct RunningProgram<'a> {
    pid: pid_t,
    /// The threads that serve its renames of directories, if it has an overlay.
    renames: Option<RenameService<'a>>,
}

/// Sets up the sandbox and starts the program in it.
fn set_up_and_start(plan: &LaunchPlan, kept: KeptDescriptors) -> setup::Result<RunningProgram<'_>> {
    use setup::AtStep as _;
    let _ = sys::set_session();
    let mask = sys::umask(0);
    if let Some(view) = &plan.view {
        if plan.users.is_none() {
            setup::map_user_and_group(plan)?;
        }
        let listener = setup::make_network(plan, view.network)?;
        send_namespaces(plan, view, kept.control)?;
        root::make_root(plan, view, &mut |number| {
            let report = Report { number: number as u64, ..Report::of(Report::STAND_IN_CREATED) };
            report.send(kept.control, None);
        })?;
        if let Some(listener) = listener {
            Report::of(Report::LISTENER).send(kept.control, Some(listener));
            sys::close(listener);
        }
        setup::drop_privileges()?;
    } else {
        sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).at(LaunchStep::Start)?;
        if plan.fence.is_some() {
            setup::drop_privileges()?;
        }
    }
    sys::umask(mask);
    // A copy of us holds all that we know: no other process may read it.
    sys::prctl(libc::PR_SET_DUMPABLE, 0).at(LaunchStep::Privileges)?;
    let program = start_program(plan, kept);
    for fd in [kept.stdin, kept.output, kept.errors].into_iter().chain(kept.group) {
        sys::close(fd);
    }
    program
}

/// Sends descriptors of our namespaces: the mount namespace, so that unmounting it does not delay our end, and the user and network
/// namespace, so that later programs can share the loopback interface. Only we can open them, because this process is hidden from others
/// once the program runs.
fn send_namespaces(plan: &LaunchPlan, view: &PlannedView, control: Fd) -> setup::Result {
    use setup::AtStep as _;
    let is_shared = plan.session.is_none() && view.network != ProgramNetwork::Machine;
    for (is_sent, kind, path) in [
        (true, Report::MOUNT_NAMESPACE, c"/proc/self/ns/mnt"),
        (is_shared, Report::USER_NAMESPACE, c"/proc/self/ns/user"),
        (is_shared, Report::NETWORK_NAMESPACE, c"/proc/self/ns/net"),
    ] {
        if !is_sent {
            continue;
        }
        let namespace = sys::open(path, libc::O_RDONLY).at(LaunchStep::Network)?;
        Report::of(kind).send(control, Some(namespace));
        sys::close(namespace);
    }
    Ok(())
}

/// Data for the program's process until it executes the program.
struct ProgramStart<'a> {
    plan: &'a LaunchPlan,
    kept: KeptDescriptors,
    /// Its Landlock rules. They are made before it runs, when it cannot have changed the files at their paths.
    rules: Option<Fd>,
    /// Socket on which it sends the seccomp notifier of its renames.
    listener: Option<Fd>,
    /// The error, if the program could not be executed.
    failure: UnsafeCell<Option<SetupFailure>>,
}

/// Starts the program's process and waits until it has executed the program. The process shares our memory until then: nothing is copied,
/// and it can store its error there.
fn start_program(plan: &LaunchPlan, kept: KeptDescriptors) -> setup::Result<RunningProgram<'_>> {
    use setup::AtStep as _;
    let rules = match &plan.fence {
        Some(fence) => setup::make_landlock_rules(plan, fence)?,
        None => None,
    };
    // Without the sockets, renames of directories on an overlay fail, and all else works.
    let pair = plan.renames.as_ref().and_then(|_| sys::socket_pair().ok());
    let listener = pair.map(|[_, theirs]| theirs);
    let program_start =
        ProgramStart { plan, kept, rules, listener, failure: UnsafeCell::new(None) };
    let data = std::ptr::from_ref(&program_start).cast();
    // SAFETY: it only asks the kernel for things that are its own, and writes down why it could not go on.
    let pid = unsafe { sys::spawn_and_wait(&plan.stack, run_program_process, data) }
        .at(LaunchStep::Start)?;
    // SAFETY: the process that could write there is another program by now, or has ended.
    if let Some(failure) = unsafe { program_start.failure.get().read_volatile() } {
        return Err(failure);
    }
    let renames = pair.and_then(|pair| receive_listener(plan, pair, rules));
    if let (None, Some(rules)) = (&renames, rules) {
        sys::close(rules);
    }
    Ok(RunningProgram { pid, renames })
}

/// Receives the seccomp notifier from the program's process; none if it sent nothing.
fn receive_listener(
    plan: &LaunchPlan,
    [ours, theirs]: [Fd; 2],
    rules: Option<Fd>,
) -> Option<RenameService<'_>> {
    // No process has that end open any more, so the call below does not wait if nothing was sent.
    sys::close(theirs);
    let received = sys::receive(ours, &mut [0; 1]);
    sys::close(ours);
    let (_, listener) = received.ok()?;
    Some(RenameService::new(plan, plan.renames.as_ref()?, listener?, rules))
}

/// Entry point of the program's process: executes the program, or stores the error and exits.
extern "C" fn run_program_process(data: *const c_void) -> ! {
    // SAFETY: that is what it is started with; the process that started it waits.
    let program_start = unsafe { &*data.cast::<ProgramStart<'_>>() };
    let failure = execute_program(program_start);
    // SAFETY: it is not read before we have ended.
    unsafe { program_start.failure.get().write_volatile(Some(failure)) };
    sys::exit(127)
}

/// Joins the control group, sets up descriptors, limits and fence, and executes the program. Returns only if that fails.
fn execute_program(program_start: &ProgramStart<'_>) -> SetupFailure {
    let (plan, kept) = (program_start.plan, program_start.kept);
    let ready = || {
        use setup::AtStep as _;
        // The program that manages the groups may have removed this one.
        let is_in_group = kept.group.is_some_and(|group| sys::write(group, b"0").is_ok());
        setup::set_up_descriptors([kept.stdin, kept.output, kept.errors], plan.terminal)?;
        sys::chdir(&plan.directory).at(LaunchStep::Directory)?;
        setup::set_limits(plan)?;
        if let Some(fence) = &plan.fence {
            setup::apply_fence(fence, program_start.rules, is_in_group)?;
        }
        send_listener(program_start).at(LaunchStep::Seccomp)?;
        sys::default_signals();
        sys::block_signals(false).at(LaunchStep::Start)
    };
    if let Err(failure) = ready() {
        return failure;
    }
    let (arguments, environment) = (&plan.argument_pointers, &plan.environment_pointers);
    let errno = sys::execute(&plan.program, arguments.as_ptr(), environment.as_ptr());
    SetupFailure { step: LaunchStep::Program, errno }
}

/// Installs the filter that makes renames wait for an answer, and sends its notifier to the warden. Does nothing if the kernel cannot
/// do it or if a filter around us already has a notifier.
fn send_listener(program_start: &ProgramStart<'_>) -> sys::Result {
    if let (Some(to), Some(renames)) = (program_start.listener, &program_start.plan.renames)
        && let Ok(listener) = sys::notify::install_notifier(&renames.filter)
    {
        let sent = sys::send(to, &[0], Some(listener));
        sys::close(listener);
        return sent;
    }
    Ok(())
}

/// Waits until the program ends, exceeds a limit, or we close the control socket, and then ends all of it. Meanwhile forwards signals and
/// starts the threads for renames.
fn watch_program(plan: &LaunchPlan, control: Fd, program: &RunningProgram<'_>) {
    Report::of(Report::STARTED).send(control, None);
    let end = |report| end_all_processes(plan, control, program, report);
    let Ok(signals) = sys::signal_fd() else { return end(None) };
    let mut next_measurement = sys::now_ms() + Usage::default().pause(plan);
    let mut unstarted_renames = program.renames.as_ref();
    loop {
        let wait = next_measurement.saturating_sub(sys::now_ms()).clamp(0, Usage::MAX_PAUSE_MS);
        let listener = unstarted_renames.map_or(-1, RenameService::listener);
        let ready = sys::poll([control, signals, listener], c_int::try_from(wait).unwrap_or(0));
        let [control_events, signal_events, notifier_events] = ready.unwrap_or([
            ReadyEvents::READABLE,
            ReadyEvents::default(),
            ReadyEvents::default(),
        ]);
        if signal_events.is_any() {
            let mut unread = [0; 1024];
            let _ = sys::read(signals, &mut unread);
        }
        if let Some(status) = reap_all(program.pid) {
            return end(Some(Report { status, ..Report::of(Report::ENDED) }));
        }
        if control_events.is_any() && !forward_signal(plan, control) {
            return end(None);
        }
        if notifier_events.is_any() {
            unstarted_renames =
                unstarted_renames.filter(|renames| !start_serving(renames, notifier_events));
        }
        // Decided by the clock: a program that keeps us busy must not prevent the measurement.
        if sys::now_ms() >= next_measurement {
            let usage = Usage::of(plan);
            if let Some(report) = usage.over_limits(plan) {
                return end(Some(report));
            }
            next_measurement = sys::now_ms() + usage.pause(plan);
        }
    }
}

/// Starts the threads for renames when the first rename arrives, or lets that one proceed if they cannot be started. Returns true if this
/// process need not poll the notifier any more.
fn start_serving(renames: &RenameService<'_>, notifier_events: ReadyEvents) -> bool {
    if !notifier_events.is_readable() {
        // No process is left that could rename.
        return true;
    }
    let is_served = renames.start().is_ok();
    if !is_served {
        renames.let_one_proceed();
    }
    is_served
}

/// Reaps every child that has ended. Returns the program's wait status if it is among them.
fn reap_all(program: pid_t) -> Option<c_int> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = sys::reap(false) {
        if pid == program {
            ended = Some(status);
        }
    }
    ended
}

/// Reads one byte from the control socket and sends it as a signal to every process. Returns false if the other side is closed.
fn forward_signal(plan: &LaunchPlan, control: Fd) -> bool {
    let mut byte = [0; 1];
    match sys::read(control, &mut byte) {
        Ok(1) => {
            let [signal] = byte;
            for pid in ProcessTree::of(plan).pids() {
                let _ = sys::kill(*pid, c_int::from(signal));
            }
            true
        }
        Err(libc::EINTR | libc::EAGAIN) => true,
        _ => false,
    }
}

/// Sends the report and ends every process of the program. In a PID namespace the kernel does it when we exit. Elsewhere it takes several
/// rounds, because orphans become our children, and processes can fork meanwhile.
fn end_all_processes(
    plan: &LaunchPlan,
    control: Fd,
    program: &RunningProgram<'_>,
    report: Option<Report>,
) {
    if let Some(report) = report {
        report.send(control, None);
    }
    if let Some(renames) = program.renames.as_ref().filter(|renames| renames.is_moving()) {
        // No process of the program writes any more to the files that are moved.
        let _ = sys::kill(-1, libc::SIGKILL);
        renames.wait_until_moved();
    }
    if plan.view.is_some() {
        return;
    }
    while has_children() {
        for pid in ProcessTree::of(plan).pids() {
            let _ = sys::kill(*pid, libc::SIGKILL);
        }
        // They need a moment. This waits for the time alone: a closed control socket would always be readable.
        let _ = sys::poll([-1], 1);
    }
}

/// Reaps every child that has ended. Returns whether other children are left.
fn has_children() -> bool {
    loop {
        match sys::reap(false) {
            Ok(Some(_)) => {}
            other => return other != Err(libc::ECHILD),
        }
    }
}

/// The process ids of all processes of the program, up to a maximum.
pub(crate) struct ProcessTree {
    pids: [pid_t; Self::MAX_PROCESSES],
    length: usize,
}

impl ProcessTree {
    /// Maximum number of listed processes; further ones are left out.
    const MAX_PROCESSES: usize = 8192;

    #[expect(
        clippy::large_stack_arrays,
        reason = "nothing may be allocated, and there is no depth"
    )]
    /// Lists the processes of our PID namespace or, without a view, our descendants. This process is left out.
    pub(crate) fn of(plan: &LaunchPlan) -> Self {
        let mut tree = Self { pids: [0; Self::MAX_PROCESSES], length: 0 };
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

    /// Adds every process of our PID namespace: `/proc` shows no others.
    fn add_namespace(&mut self, own: pid_t) {
        for_each_numeric_name(c"/proc", &mut |pid| {
            if pid != own {
                self.push(pid);
            }
        });
    }

    /// Adds all descendants of a process.
    fn add_below(&mut self, own: pid_t) {
        self.add_children(own);
        let mut at = 0;
        while let Some(pid) = self.pids().get(at).copied() {
            self.add_children(pid);
            at += 1;
        }
    }

    /// Adds the children of every thread of a process.
    fn add_children(&mut self, pid: pid_t) {
        let threads = PathBuffer::new(b"/proc/").push_number(pid).push(b"/task");
        for_each_numeric_name(threads.as_c_str(), &mut |thread| {
            self.add_children_of_thread(pid, thread);
        });
    }

    /// Adds the children of one thread, read from its `children` file.
    fn add_children_of_thread(&mut self, pid: pid_t, thread: pid_t) {
        let path = PathBuffer::new(b"/proc/").push_number(pid).push(b"/task/").push_number(thread);
        let Ok(fd) = sys::open(path.push(b"/children").as_c_str(), libc::O_RDONLY) else { return };
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

    /// Adds a process id, unless it is 0 or the list is full.
    fn push(&mut self, pid: pid_t) {
        if pid > 0
            && let Some(slot) = self.pids.get_mut(self.length)
        {
            *slot = pid;
            self.length += 1;
        }
    }
}

/// Calls `act` with each entry name of a directory that begins with digits, as a number.
pub(crate) fn for_each_numeric_name(directory: &CStr, act: &mut dyn FnMut(pid_t)) {
    let Ok(fd) = sys::open(directory, libc::O_RDONLY | libc::O_DIRECTORY) else { return };
    let mut buffer = [0; 8192];
    while let Ok(read @ 1..) = sys::read_entries(fd, &mut buffer) {
        let mut rest = buffer.get(..read).unwrap_or_default();
        // Each entry has two numbers of eight bytes, its length in two, its kind in one, and its name.
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
