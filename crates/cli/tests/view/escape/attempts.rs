//! The table of forbidden things. An attempt is an operation of `driver.py` on a target, and the evidence by which the test itself finds
//! out that it succeeded. Products of targets and ways are written as two lists.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::outside::Reachable;
use super::reach::{connections, other_attempts};
use super::scene::{SceneDirectories, shadow_line};

/// One forbidden operation.
pub(super) struct Attempt {
    pub(super) name: String,
    pub(super) operation: &'static str,
    pub(super) arguments: Value,
    pub(super) evidence: Evidence,
    pub(super) outside: OutsideResult,
}

/// The trace of an attempt that succeeded.
pub(super) enum Evidence {
    /// This text was read.
    Canary(String),
    /// This file or directory is not as it was.
    Changed(PathBuf),
    /// A socket of the test heard the attempt's name.
    Heard,
    /// The process outside notes it in this field of its report.
    Noted(&'static str),
    /// The program says so. Only for what leaves no other trace: opening a device or a setting of the kernel.
    Said,
}

/// The result of the same attempt without a sandbox.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OutsideResult {
    Works,
    /// An ordinary user is refused.
    WorksForRoot,
    /// Depends on the machine.
    Varies,
    /// Not tried: it would change the machine or prompt a person, or there is no boundary to cross.
    NotTried,
}

use OutsideResult::{NotTried, Varies, Works, WorksForRoot};

/// Files with a canary, below the ground of a scene; the first few are read in every way there is.
pub(super) const CANARY_FILES: &[&str] = &[
    "home/.ssh/id_ed25519",
    "other/secret.txt",
    "home/documents/letter.txt",
    "home/.local/state/windlass/kept.txt",
    "work/.env",
    "home/.bashrc",
    "home/.bash_history",
    "home/.aws/credentials",
    "home/.netrc",
    "home/.git-credentials",
    "home/.gnupg/private-keys-v1.d/a.key",
    "home/.config/gh/hosts.yml",
    "home/.config/windlass/note.txt",
    "home/.claude/.credentials.json",
    "home/.claude.json",
    "home/.codex/auth.json",
    "home/.cargo/credentials.toml",
    "home/.npmrc",
    "home/.docker/config.json",
    "home/.kube/config",
    "home/.mozilla/firefox/profile/cookies.sqlite",
    "home/.local/share/keyrings/login.keyring",
    "other/.env",
    "tmp/agent.txt",
    "shm/file.txt",
    "var/file.txt",
    "work/server.pem",
    "work/sub/id_rsa",
    "work/private.txt",
    "work/denied.txt",
];

/// The number of canary files that are read in every way.
const CANARIES_READ_IN_EVERY_WAY: usize = 5;

const SIMPLE_READS: &[(&str, OutsideResult)] = &[
    ("read_name", Works),
    ("read_self_root", Works),
    ("read_init_root", Varies),
    ("read_climbing", Works),
    ("read_link", Works),
];

const OTHER_READS: &[(&str, OutsideResult)] = &[
    ("read_process_roots", Works),
    ("read_process_directories", Works),
    ("read_hard_link", Works),
    ("read_descriptors", Works),
    ("read_bind_mount", Works),
    ("read_overlay_mount", Varies),
    ("read_unmounting", NotTried),
    ("read_leaving_chroot", Works),
    ("read_chroot_of_init", Varies),
    ("read_pivot_root", Varies),
    ("read_namespaces", WorksForRoot),
    ("read_tree", Works),
    ("read_mount_sources", Varies),
    ("read_everywhere", Works),
];

/// Programs that run, or start programs, with more rights. `PATH` stands for the file.
const PRIVILEGED_PROGRAMS: &[(&str, &[&str], OutsideResult)] = &[
    ("su", &["su", "root", "-c", "cat PATH"], WorksForRoot),
    ("sudo", &["sudo", "-n", "cat", "PATH"], Varies),
    ("pkexec", &["pkexec", "cat", "PATH"], NotTried),
    ("nsenter", &["nsenter", "-t", "1", "-m", "cat", "PATH"], Varies),
    ("chroot", &["chroot", "/proc/1/root", "cat", "PATH"], Varies),
    (
        "unshare",
        &["unshare", "-Urm", "sh", "-c", "mount -n --rbind / /mnt && cat /mnt/PATH"],
        Works,
    ),
    ("mount", &["sh", "-c", "mount -n --rbind / /mnt && cat /mnt/PATH && umount /mnt"], NotTried),
    ("setpriv", &["setpriv", "--reuid=0", "--clear-groups", "cat", "PATH"], WorksForRoot),
    ("systemd-run", &["systemd-run", "--pipe", "--quiet", "cat", "PATH"], Varies),
    ("docker", &["docker", "run", "-v", "/:/host", "alpine", "cat", "/host/PATH"], NotTried),
];

/// Directories in which each attempt to change something has a directory of its own.
const WRITE_DIRECTORIES: &[(&str, &str)] = &[
    ("the other project", "other"),
    ("home", "home"),
    ("the host's /tmp", "tmp"),
    ("the state", "home/.local/state/windlass"),
    ("the configuration", "home/.config/windlass"),
];

/// The first two places are changed in every way, the others in the first few.
const WRITE_OPERATIONS: &[(&str, OutsideResult)] = &[
    ("write_name", Works),
    ("write_new", Works),
    ("write_unlink", Works),
    ("write_rename_over", Varies),
    ("write_self_root", Works),
    ("write_through_link", Works),
    ("write_process_roots", Works),
    ("write_bind_mount", Works),
    ("write_append", Works),
    ("write_truncate", Works),
    ("write_rename_away", Works),
    ("write_exchange", Works),
    ("write_mode", Works),
    ("write_time", Works),
    ("write_attribute", Varies),
    ("write_directory", Works),
    ("write_pipe", Works),
    ("write_link_to", Works),
    ("write_hard_link", Works),
    ("write_hard_link_out", Works),
    ("write_below_link", Works),
    ("write_climbing", Works),
    ("write_descriptor", Works),
    ("write_nameless", Varies),
    ("write_remount", Works),
];
const WAYS_FOR_ALL_DIRECTORIES: usize = 8;

/// Files of a person that something runs or obeys later.
const START_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".inputrc",
    ".vimrc",
    ".pam_environment",
    ".gitconfig",
    ".config/git/config",
    ".ssh/authorized_keys",
    ".ssh/rc",
    ".config/autostart/planted.desktop",
    ".config/systemd/user/planted.service",
    ".local/share/applications/planted.desktop",
    ".local/bin/git",
    ".cargo/config.toml",
    ".cargo/bin/cargo",
    ".rustup/toolchains/stable/bin/rustc",
    ".claude/settings.json",
    ".codex/config.toml",
    ".config/windlass/tools/planted.md",
    ".local/state/windlass/token",
];

/// Directories of the system in which a new file would be obeyed, or would stay.
const SYSTEM_DIRECTORIES: &[&str] = &[
    "/",
    "/boot",
    "/etc",
    "/etc/cron.d",
    "/etc/ld.so.conf.d",
    "/etc/profile.d",
    "/etc/sudoers.d",
    "/etc/systemd/system",
    "/lib",
    "/opt",
    "/run",
    "/sbin",
    "/srv",
    "/sys/fs/cgroup",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib/systemd/system",
    "/usr/local/bin",
    "/usr/share",
    "/var/lib",
    "/var/spool/cron/crontabs",
    "/dev/shm",
    "/var/tmp",
    "/tmp",
];

/// The whole table, for one ground and what can be reached there.
pub(super) fn all_attempts(ground: &SceneDirectories, reachable: &Reachable) -> Vec<Attempt> {
    let mut all = read_attempts(ground);
    all.extend(connections(ground, reachable));
    all.extend(other_attempts(reachable));
    all.extend(write_attempts(ground));
    all
}

fn read_attempts(ground: &SceneDirectories) -> Vec<Attempt> {
    let mut all = Vec::new();
    for (number, target) in CANARY_FILES.iter().enumerate() {
        let path = ground.path(target);
        let mut add = |way: &str, operation, arguments, outside| {
            let name = format!("{way} {target}");
            let evidence = Evidence::Canary(canary_text(number));
            all.push(Attempt { name, operation, arguments, evidence, outside });
        };
        for (operation, outside) in SIMPLE_READS {
            add(operation, operation, json!({"path": path}), *outside);
        }
        if number >= CANARIES_READ_IN_EVERY_WAY {
            continue;
        }
        for (operation, outside) in OTHER_READS {
            add(operation, operation, json!({"path": path}), *outside);
        }
        for (program, words, outside) in PRIVILEGED_PROGRAMS {
            add(program, "read_command", json!({"path": path, "words": words}), *outside);
        }
        let (kind, handle) = ground.handle(target);
        let arguments = json!({"path": path, "kind": kind, "handle": handle});
        add("read_handle", "read_handle", arguments, Varies);
    }
    if let Some(line) = shadow_line() {
        for (operation, outside) in SIMPLE_READS {
            all.push(Attempt {
                name: format!("{operation} /etc/shadow"),
                operation,
                arguments: json!({"path": "/etc/shadow"}),
                evidence: Evidence::Canary(line.clone()),
                outside: if *outside == Works { WorksForRoot } else { *outside },
            });
        }
    }
    all
}

/// The text of a canary. Plain words: nothing that looks like a secret and would be redacted.
pub(super) fn canary_text(number: usize) -> String {
    format!("canary {number} sits here")
}

fn write_attempts(ground: &SceneDirectories) -> Vec<Attempt> {
    let mut all = Vec::new();
    for (number, (place, _)) in WRITE_DIRECTORIES.iter().enumerate() {
        for (way, (operation, outside)) in WRITE_OPERATIONS.iter().enumerate() {
            if number >= 2 && way >= WAYS_FOR_ALL_DIRECTORIES {
                continue;
            }
            let file = ground.target_file(number, way);
            all.push(Attempt {
                name: format!("{operation} in {place}"),
                operation,
                arguments: json!({"path": file}),
                evidence: Evidence::Changed(file.parent().expect("a parent").to_owned()),
                outside: *outside,
            });
        }
    }
    for name in START_FILES {
        let path = ground.path("home").join(name);
        all.push(Attempt {
            name: format!("plant ~/{name}"),
            operation: "write_start_file",
            arguments: json!({"path": path}),
            evidence: Evidence::Changed(path),
            outside: Works,
        });
    }
    for directory in SYSTEM_DIRECTORIES {
        let path = PathBuf::from(directory).join(ground.unique("planted"));
        let operation = if directory.starts_with("/sys/") { "do_directory" } else { "do_plant" };
        all.push(Attempt {
            name: format!("plant in {directory}"),
            operation,
            arguments: json!({"path": path}),
            evidence: Evidence::Changed(path),
            outside: NotTried,
        });
    }
    all
}

/// The file of each attempt to change something, by place and way.
pub(super) fn target_files() -> impl Iterator<Item = (usize, usize, &'static str)> {
    let place = |(number, (_, directory)): (usize, &(&str, &'static str))| {
        let ways = if number >= 2 { WAYS_FOR_ALL_DIRECTORIES } else { WRITE_OPERATIONS.len() };
        let directory = *directory;
        (0..ways).map(move |way| (number, way, directory)).collect::<Vec<_>>()
    };
    WRITE_DIRECTORIES.iter().enumerate().flat_map(place)
}
