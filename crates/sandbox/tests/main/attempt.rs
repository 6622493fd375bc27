//! Attempts to reach further than one is meant to. Each is a function of this very program, which starts itself again: outside,
//! where the attempt must work, or it would show nothing; and inside, where the kernel must refuse it, for a reason that we know.

use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Place, is_root};
use crate::{
    ending, files, kernel, launching, limits, lone, memory, network, processes, protected, renames,
    set_id, warden,
};

/// Something that must not work inside.
pub(crate) struct Escape {
    pub(crate) name: &'static str,
    attempt: fn(&Scene) -> io::Result<()>,
    /// What the kernel may say to it inside.
    refused: &'static [i32],
    outside: Outside,
    /// Which version of Landlock stops it where there is no view; none if none does.
    fence: Option<u32>,
}

/// What comes of an attempt outside.
#[derive(Clone, Copy)]
enum Outside {
    Works,
    /// Others than root are refused it there, too.
    WorksForRoot,
    /// Not every kernel has it; then it says this.
    MayBeMissing(i32),
    CannotWork,
}

impl Escape {
    pub(crate) const fn new(
        name: &'static str,
        attempt: fn(&Scene) -> io::Result<()>,
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

    /// Where a machine has no namespaces to give, this is possible.
    pub(crate) const fn needs_view(self) -> Self {
        Self { fence: None, ..self }
    }

    /// The same unless the kernel speaks this version of Landlock.
    pub(crate) const fn needs_view_or_landlock(self, version: u32) -> Self {
        Self { fence: Some(version), ..self }
    }

    /// Outside there is nothing to get out of.
    pub(crate) const fn only_inside(self) -> Self {
        Self { outside: Outside::CannotWork, ..self }
    }
}

/// All that can be attempted, by name.
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

type Errand = fn(&Scene);

/// What this program does besides when it is started again.
const ERRANDS: &[(&str, Errand)] = &[
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

/// What an attempt knows of its surroundings.
pub(crate) struct Scene {
    pub(crate) workspace: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) secrets: PathBuf,
    variables: Vec<(String, String)>,
}

impl Scene {
    pub(crate) fn text(&self, name: &str) -> String {
        let value = self.variables.iter().find(|(known, _)| known == name);
        value.unwrap_or_else(|| panic!("no variable {name}")).1.clone()
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> T {
        self.text(name).parse().unwrap_or_else(|_| panic!("{name} is no number"))
    }
}

const WHAT: &str = "ATTEMPT";

/// What is done inside.
#[test]
#[ignore = "the other tests start it"]
fn made() {
    let Ok(name) = std::env::var(WHAT) else { return };
    let path = |name| std::env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let scene = Scene {
        workspace: path("WORKSPACE"),
        outside: path("OUTSIDE"),
        secrets: path("SECRETS"),
        variables: std::env::vars().collect(),
    };
    if let Some((_, errand)) = ERRANDS.iter().find(|(known, _)| *known == name) {
        return errand(&scene);
    }
    let escape = ALL.iter().copied().flatten().find(|escape| escape.name == name);
    match (escape.unwrap_or_else(|| panic!("no attempt {name}")).attempt)(&scene) {
        Ok(()) => say("attempt: done"),
        Err(error) => match error.raw_os_error() {
            Some(errno) => say(&format!("attempt: refused {errno}")),
            None => panic!("{error}"),
        },
    }
}

/// Prints a line for whoever started this program.
#[expect(clippy::print_stdout, reason = "that is how they talk")]
pub(crate) fn say(line: &str) {
    println!("\n{line}");
}

/// The arguments with which this program does nothing but one thing.
pub(crate) fn arguments() -> [&'static str; 5] {
    ["--exact", "attempt::made", "--ignored", "--nocapture", "--test-threads=1"]
}

/// This program, to be started again without any surroundings.
pub(crate) fn again(what: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments()).env(WHAT, what);
    command
}

impl Place {
    /// Starts this program again to do something.
    pub(crate) fn start_attempt(
        &self,
        name: &str,
    ) -> Result<(windlass_sandbox::Confined, std::fs::File), windlass_sandbox::LaunchError> {
        let program = std::env::current_exe().unwrap();
        let mut words = vec!["attempt"];
        words.extend(arguments());
        self.start_program(&program, &words, &[(WHAT, name)])
    }

    /// What came of an attempt: nothing, or what the kernel said.
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

/// Whom an attempt could reach outside, for as long as the tests run.
struct Witness {
    tcp: TcpListener,
    udp: u16,
    name: String,
    _local: UnixListener,
}

fn witness() -> &'static Witness {
    static WITNESS: OnceLock<Witness> = OnceLock::new();
    WITNESS.get_or_init(|| {
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
        Witness {
            tcp: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
            udp: port,
            name,
            _local: UnixListener::bind_addr(&address).unwrap(),
        }
    })
}

/// Tells a place whom it could reach. The answer listens for as long as it lives.
fn offer(place: &mut Place) -> [UnixListener; 2] {
    let witness = witness();
    place.set("TCP", &witness.tcp.local_addr().unwrap().port().to_string());
    place.set("UDP", &witness.udp.to_string());
    place.set("ABSTRACT", &witness.name);
    place.set("TESTER", &std::process::id().to_string());
    place.set("SOCKET", &place.path("run/socket").display().to_string());
    ["run/socket", "workspace/socket"].map(|name| UnixListener::bind(place.path(name)).unwrap())
}

/// Makes each attempt outside and inside.
pub(crate) fn check(escapes: &[Escape]) {
    let mut holes = Vec::new();
    for escape in escapes {
        holes.extend(check_outside(escape));
        holes.extend(check_inside(escape, "direct", Place::confined()));
        holes.extend(check_inside(escape, "staged", Place::staged()));
        if escape.fence.is_some_and(|version| windlass_sandbox::landlock_version() >= version) {
            holes.extend(check_inside(escape, "fenced", Place::fenced()));
        }
    }
    assert!(holes.is_empty(), "{}", holes.join("\n"));
}

/// The same for what only a fence that stands alone need refuse.
pub(crate) fn check_lone(escapes: &[Escape]) {
    let holes = escapes.iter().flat_map(|escape| {
        [check_outside(escape), check_inside(escape, "fenced", Place::fenced())]
    });
    let holes: Vec<String> = holes.flatten().collect();
    assert!(holes.is_empty(), "{}", holes.join("\n"));
}

/// What is wrong with the attempt, if it is refused even here.
fn check_outside(escape: &Escape) -> Option<String> {
    match escape.outside {
        Outside::CannotWork => return None,
        Outside::WorksForRoot if !is_root() => return None,
        _ => {}
    }
    let mut place = Place::open();
    let _listeners = offer(&mut place);
    match (place.attempt(escape.name), escape.outside) {
        (Ok(()), _) => None,
        (Err(errno), Outside::MayBeMissing(missing)) if errno == missing => None,
        (Err(errno), _) => Some(format!("{}: outside: {}", escape.name, words(errno))),
    }
}

/// What is wrong with the sandbox, if it lets the attempt pass.
fn check_inside(escape: &Escape, how: &str, mut place: Place) -> Option<String> {
    let name = escape.name;
    let _listeners = offer(&mut place);
    let before = place.fingerprint();
    let attempted = place.attempt(name);
    if place.fingerprint() != before {
        return Some(format!("{name}: {how}: something is not as it was"));
    }
    match attempted {
        Ok(()) => Some(format!("{name}: {how}: it worked")),
        Err(errno) if escape.refused.contains(&errno) => None,
        // A fence has its own words.
        Err(libc::EACCES | libc::EPERM | libc::EAFNOSUPPORT) if place.view.is_none() => None,
        Err(errno) => Some(format!("{name}: {how}: why is it {}?", words(errno))),
    }
}

/// What comes of an attempt in a place of which others are told.
pub(crate) fn attempt_among_others(mut place: Place, name: &str) -> Result<(), i32> {
    let _listeners = offer(&mut place);
    place.attempt(name)
}

fn words(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

#[test]
fn every_attempt_has_a_name_of_its_own() {
    let mut names: Vec<&str> = ALL.iter().copied().flatten().map(|escape| escape.name).collect();
    names.extend(ERRANDS.iter().map(|(name, _)| name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
