//! Attempts to get out of the sandbox. Each is a function of this test program, which starts itself again: outside the sandbox, where the
//! attempt must work, or it would prove nothing; and inside, where the kernel must refuse it with an expected error.

use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{TestSandbox, is_root};
use crate::{
    ending, files, kernel, launching, limits, lone, memory, network, processes, protected, renames,
    set_id, warden,
};

/// An attempt that must fail inside the sandbox.
pub(crate) struct Escape {
    pub(crate) name: &'static str,
    attempt: fn(&AttemptContext) -> io::Result<()>,
    /// Error numbers that are expected inside.
    refused: &'static [i32],
    outside: Outside,
    /// Version of Landlock from which a fence without a view stops it; none if no version does.
    fence: Option<u32>,
}

/// Expected result of an attempt outside the sandbox.
#[derive(Clone, Copy)]
enum Outside {
    Works,
    /// Works for root only; other users are refused outside, too.
    WorksForRoot,
    /// Not every kernel has the call; without it, the attempt fails with this error.
    MayBeMissing(i32),
    /// The attempt is about the sandbox itself and is not made outside.
    CannotWork,
}

impl Escape {
    pub(crate) const fn new(
        name: &'static str,
        attempt: fn(&AttemptContext) -> io::Result<()>,
        refused: &'static [i32],
    ) -> Self {
        Self { name, attempt, refused, outside: Outside::Works, fence: Some(3) }
    }

    pub(crate) const fn for_root(self) -> Self {
        Self { outside: Outside::WorksForRoot, ..self }
    }

    pub(crate) const fn if_there_is(self, missing: i32) -> Self {
        Self { outside: Outside::MayBeMissing(missing), ..self }
    }

    /// Only a view stops it: a fence alone does not.
    pub(crate) const fn needs_view(self) -> Self {
        Self { fence: None, ..self }
    }

    /// A view stops it, or a fence with at least this version of Landlock.
    pub(crate) const fn needs_view_or_landlock(self, version: u32) -> Self {
        Self { fence: Some(version), ..self }
    }

    /// The attempt is made only inside the sandbox.
    pub(crate) const fn only_inside(self) -> Self {
        Self { outside: Outside::CannotWork, ..self }
    }
}

/// All attempts, which are found by their names.
const ALL: &[&[Escape]] = &[
    files::ESCAPES,
    kernel::ESCAPES,
    lone::ESCAPES,
    network::ESCAPES,
    processes::ESCAPES,
    protected::ESCAPES,
    set_id::ESCAPES,
    warden::ESCAPES,
];

type Task = fn(&AttemptContext);

/// Other tasks that this program performs when it is started again, by name.
const TASKS: &[(&str, Task)] = &[
    ("launch and sleep", ending::launch_and_sleep),
    ("launch many", launching::launch_many),
    ("launch without Landlock", launching::launch_without_landlock),
    ("make a pair", lone::make_pair),
    ("use memory", limits::use_memory),
    ("hold memory", memory::hold_memory),
    ("talk to oneself", network::talk_to_oneself),
    ("rename directories", renames::rename_directories),
    ("rename at random", renames::rename_at_random),
    ("rename by way of the warden", renames::rename_by_way_of_the_warden),
    ("rename from many threads", renames::rename_from_many_threads),
    ("start threads", limits::start_threads),
    ("start a program from a thread", ending::start_from_a_thread),
];

/// The paths and variables that an attempt needs.
pub(crate) struct AttemptContext {
    pub(crate) workspace: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) secrets: PathBuf,
    variables: Vec<(String, String)>,
}

impl AttemptContext {
    pub(crate) fn text(&self, name: &str) -> String {
        let value = self.variables.iter().find(|(known, _)| known == name);
        value.unwrap_or_else(|| panic!("no variable {name}")).1.clone()
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> T {
        self.text(name).parse().unwrap_or_else(|_| panic!("{name} is no number"))
    }
}

const TASK_VARIABLE: &str = "ATTEMPT";

/// Performs the attempt or task that the variable names; started by the other tests.
#[test]
#[ignore = "the other tests start it"]
fn perform_attempt() {
    let Ok(name) = std::env::var(TASK_VARIABLE) else { return };
    let path = |name| std::env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let context = AttemptContext {
        workspace: path("WORKSPACE"),
        outside: path("OUTSIDE"),
        secrets: path("SECRETS"),
        variables: std::env::vars().collect(),
    };
    if let Some((_, task)) = TASKS.iter().find(|(known, _)| *known == name) {
        return task(&context);
    }
    let escape = ALL.iter().copied().flatten().find(|escape| escape.name == name);
    match (escape.unwrap_or_else(|| panic!("no attempt {name}")).attempt)(&context) {
        Ok(()) => print_line("attempt: done"),
        Err(error) => match error.raw_os_error() {
            Some(errno) => print_line(&format!("attempt: refused {errno}")),
            None => panic!("{error}"),
        },
    }
}

/// Prints a line for the test that has started this program.
#[expect(clippy::print_stdout, reason = "the test that started this reads it")]
pub(crate) fn print_line(line: &str) {
    println!("\n{line}");
}

/// Arguments with which this program performs a single attempt or task.
pub(crate) fn attempt_arguments() -> [&'static str; 5] {
    ["--exact", "attempt::perform_attempt", "--ignored", "--nocapture", "--test-threads=1"]
}

/// A command that starts this program again without a sandbox, for a task.
pub(crate) fn self_command(what: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(attempt_arguments()).env(TASK_VARIABLE, what);
    command
}

impl TestSandbox {
    /// Starts this program again in the sandbox, for an attempt or a task.
    pub(crate) fn start_attempt(
        &self,
        name: &str,
    ) -> Result<(windlass_sandbox::Confined, std::fs::File), windlass_sandbox::LaunchError> {
        let program = std::env::current_exe().unwrap();
        let mut words = vec!["attempt"];
        words.extend(attempt_arguments());
        self.start_program(&program, &words, &[(TASK_VARIABLE, name)])
    }

    /// Makes an attempt in the sandbox. Returns the error number if the kernel refused it.
    pub(crate) fn attempt(&self, name: &str) -> Result<(), i32> {
        let (program, mut output) = self.start_attempt(name).unwrap_or_else(|e| panic!("{e}"));
        let mut printed = String::new();
        output.read_to_string(&mut printed).unwrap();
        let ending = program.wait().unwrap();
        match printed.lines().find_map(|line| line.strip_prefix("attempt: ")) {
            Some("done") => Ok(()),
            Some(refused) => {
                Err(refused.strip_prefix("refused ").and_then(|errno| errno.parse().ok()).unwrap())
            }
            None => panic!("{name}: no answer, {ending:?}: {printed}"),
        }
    }
}

/// Servers outside the sandbox that an attempt could reach; they run as long as the tests.
struct OutsideServers {
    tcp: TcpListener,
    udp: u16,
    name: String,
    _local: UnixListener,
}

fn outside_servers() -> &'static OutsideServers {
    static SERVERS: OnceLock<OutsideServers> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let name = format!("windlass-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = udp.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut bytes) {
                udp.send_to(&bytes[..length], from).unwrap();
            }
        });
        OutsideServers {
            tcp: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
            udp: port,
            name,
            _local: UnixListener::bind_addr(&address).unwrap(),
        }
    })
}

/// Sets variables with the addresses of servers outside. The returned listeners accept connections until they are dropped.
fn start_outside_servers(sandbox: &mut TestSandbox) -> [UnixListener; 2] {
    let outside_servers = outside_servers();
    sandbox.set("TCP", &outside_servers.tcp.local_addr().unwrap().port().to_string());
    sandbox.set("UDP", &outside_servers.udp.to_string());
    sandbox.set("ABSTRACT", &outside_servers.name);
    sandbox.set("TESTER", &std::process::id().to_string());
    sandbox.set("SOCKET", &sandbox.path("run/socket").display().to_string());
    ["run/socket", "workspace/socket"].map(|name| UnixListener::bind(sandbox.path(name)).unwrap())
}

/// Makes each attempt outside, and in each kind of sandbox that must stop it.
pub(crate) fn check(escapes: &[Escape]) {
    let mut findings = Vec::new();
    for escape in escapes {
        findings.extend(check_outside(escape));
        findings.extend(check_inside(escape, "direct", TestSandbox::confined()));
        findings.extend(check_inside(escape, "staged", TestSandbox::staged()));
        if escape.fence.is_some_and(|version| windlass_sandbox::landlock_version() >= version) {
            findings.extend(check_inside(escape, "fenced", TestSandbox::fenced()));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Makes each attempt outside, and in a fence without a view.
pub(crate) fn check_lone(escapes: &[Escape]) {
    let findings = escapes.iter().flat_map(|escape| {
        [check_outside(escape), check_inside(escape, "fenced", TestSandbox::fenced())]
    });
    let findings: Vec<String> = findings.flatten().collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Returns a finding if the attempt fails even without a sandbox.
fn check_outside(escape: &Escape) -> Option<String> {
    match escape.outside {
        Outside::CannotWork => return None,
        Outside::WorksForRoot if !is_root() => return None,
        _ => {}
    }
    let mut sandbox = TestSandbox::unconfined();
    let _listeners = start_outside_servers(&mut sandbox);
    match (sandbox.attempt(escape.name), escape.outside) {
        (Ok(()), _) => None,
        (Err(errno), Outside::MayBeMissing(missing)) if errno == missing => None,
        (Err(errno), _) => Some(format!("{}: outside: {}", escape.name, describe_errno(errno))),
    }
}

/// Returns a finding if the attempt works in the sandbox, changes a file, or fails with an unexpected error.
fn check_inside(escape: &Escape, how: &str, mut sandbox: TestSandbox) -> Option<String> {
    let name = escape.name;
    let _listeners = start_outside_servers(&mut sandbox);
    let before = sandbox.fingerprint();
    let attempted = sandbox.attempt(name);
    if sandbox.fingerprint() != before {
        return Some(format!("{name}: {how}: a file outside has changed"));
    }
    match attempted {
        Ok(()) => Some(format!("{name}: {how}: it worked")),
        Err(errno) if escape.refused.contains(&errno) => None,
        // A fence refuses with its own errors.
        Err(libc::EACCES | libc::EPERM | libc::EAFNOSUPPORT) if sandbox.view.is_none() => None,
        Err(errno) => Some(format!("{name}: {how}: unexpected error: {}", describe_errno(errno))),
    }
}

/// Makes an attempt in a sandbox that knows the addresses of servers outside.
pub(crate) fn attempt_among_others(mut sandbox: TestSandbox, name: &str) -> Result<(), i32> {
    let _listeners = start_outside_servers(&mut sandbox);
    sandbox.attempt(name)
}

fn describe_errno(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

#[test]
fn names_of_attempts_and_tasks_are_unique() {
    let mut names: Vec<&str> = ALL.iter().copied().flatten().map(|escape| escape.name).collect();
    names.extend(TASKS.iter().map(|(name, _)| name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
