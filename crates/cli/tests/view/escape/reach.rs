//! The part of the table that is about more than files: sockets, other processes and what they share, devices, settings of the kernel.

use serde_json::{Value, json};

use super::attempts::OutsideResult::{NotTried, Varies, Works};
use super::attempts::{Attempt, Evidence, OutsideResult, canary_text};
use super::outside::Reachable;
use super::scene::{ENVIRONMENT_CANARY, SceneDirectories, own_address};

const DEVICES: &[&str] = &[
    "/dev/mem",
    "/dev/kmem",
    "/dev/port",
    "/dev/kmsg",
    "/dev/kvm",
    "/dev/fuse",
    "/dev/loop-control",
    "/dev/loop[0-9]*",
    "/dev/[vsh]d[a-z]*",
    "/dev/nvme*",
    "/dev/mapper/*",
    "/dev/net/tun",
    "/dev/tty[0-9]*",
    "/dev/uinput",
    "/dev/input/*",
    "/dev/vsock",
    "/dev/vhost-vsock",
    "/dev/dri/*",
    "/dev/snd/*",
    "/proc/kcore",
    "/proc/kmsg",
];

const SETTINGS: &[&str] = &[
    "/proc/sysrq-trigger",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/vm/drop_caches",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/*/cgroup.procs",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/uevent_helper",
    "/sys/module/*/parameters/*",
    "/sys/power/state",
];

const NETWORK: &[(&str, &str)] = &[
    ("new network device", "ip link add wlplanted type dummy"),
    ("new route", "ip route add 192.0.2.0/24 dev lo"),
    ("new address", "ip address add 192.0.2.1/24 dev lo"),
];

/// Connections to the process outside, by every name that its sockets have.
pub(super) fn connections(ground: &SceneDirectories, reachable: &Reachable) -> Vec<Attempt> {
    let mut list = internet_attempts(reachable);
    list.extend(unix_socket_attempts(ground));
    let named = |(name, operation, mut arguments, outside): Connection| {
        if let Some(arguments) = arguments.as_object_mut() {
            arguments.insert("message".into(), json!(name));
        }
        Attempt { name, operation, arguments, evidence: Evidence::Heard, outside }
    };
    let mut all: Vec<Attempt> = list.into_iter().map(named).collect();
    for (place, path) in ground.streams() {
        all.push(Attempt {
            name: format!("descriptor from {place}"),
            operation: "do_take_descriptor",
            arguments: json!({"path": path, "message": "a gift"}),
            evidence: Evidence::Canary(canary_text(1)),
            outside: Works,
        });
    }
    let script =
        format!("exec 3<>/dev/tcp/127.0.0.1/{}; printf 'tcp from bash' >&3", reachable.tcp);
    all.push(Attempt {
        name: "tcp from bash".into(),
        operation: "do_run",
        arguments: json!({"words": ["bash", "-c", script]}),
        evidence: Evidence::Heard,
        outside: Works,
    });
    all
}

type Connection = (String, &'static str, Value, OutsideResult);

fn internet_attempts(reachable: &Reachable) -> Vec<Connection> {
    let Reachable { tcp, every, udp, tcp6, udp6, .. } = *reachable;
    let with_six = if tcp6 == 0 { NotTried } else { Works };
    let own = own_address();
    let is_own_known = if own.is_some() { Works } else { NotTried };
    let own = own.unwrap_or_else(|| "127.0.0.1".into());
    [
        ("tcp 127.0.0.1", "AF_INET", "SOCK_STREAM", "127.0.0.1", tcp, Works),
        ("tcp localhost", "AF_INET", "SOCK_STREAM", "localhost", tcp, Works),
        ("tcp 0.0.0.0", "AF_INET", "SOCK_STREAM", "0.0.0.0", tcp, Works),
        ("tcp 127.9.9.9", "AF_INET", "SOCK_STREAM", "127.9.9.9", every, Works),
        ("tcp own address", "AF_INET", "SOCK_STREAM", &own, every, is_own_known),
        ("tcp ::1", "AF_INET6", "SOCK_STREAM", "::1", tcp6, with_six),
        ("tcp ::", "AF_INET6", "SOCK_STREAM", "::", tcp6, with_six),
        ("tcp mapped", "AF_INET6", "SOCK_STREAM", "::ffff:127.0.0.1", tcp, with_six),
        ("udp", "AF_INET", "SOCK_DGRAM", "127.0.0.1", udp, Works),
        ("udp ::1", "AF_INET6", "SOCK_DGRAM", "::1", udp6, with_six),
    ]
    .map(|(name, family, kind, address, port, outside)| {
        let arguments = json!({"family": family, "kind": kind, "address": [address, port]});
        (name.to_owned(), "do_connect", arguments, outside)
    })
    .into()
}

fn unix_socket_attempts(ground: &SceneDirectories) -> Vec<Connection> {
    let at =
        |kind: &str, address: &str| json!({"family": "AF_UNIX", "kind": kind, "address": address});
    let mut all = Vec::new();
    for (place, path) in ground.streams() {
        let path = path.display().to_string();
        let rooted = format!("/proc/self/root{path}");
        for (way, operation, arguments, outside) in [
            ("name", "do_connect", at("SOCK_STREAM", &path), Works),
            ("root", "do_connect", at("SOCK_STREAM", &rooted), Works),
            ("near", "do_connect_near", json!({"path": path}), Works),
            ("link", "do_connect_linked", json!({"path": path}), Works),
            ("hard link", "do_connect_hard_linked", json!({"path": path}), Varies),
        ] {
            all.push((format!("socket in {place} by {way}"), operation, arguments, outside));
        }
    }
    for (place, path) in ground.datagrams() {
        let arguments = at("SOCK_DGRAM", &path.display().to_string());
        all.push((format!("datagrams in {place}"), "do_connect", arguments, Works));
    }
    for (kind, name) in
        [("SOCK_STREAM", ground.abstract_stream()), ("SOCK_DGRAM", ground.abstract_datagram())]
    {
        all.push((format!("abstract {kind}"), "do_connect", at(kind, &name), Works));
    }
    all
}

/// Processes, what processes share, devices and settings.
pub(super) fn other_attempts(reachable: &Reachable) -> Vec<Attempt> {
    let mut all = process_attempts(reachable);
    all.extend(shared_memory_attempts(reachable));
    all.extend(kernel_attempts());
    all
}

fn attempt(
    name: &str,
    operation: &'static str,
    arguments: Value,
    evidence: Evidence,
    outside: OutsideResult,
) -> Attempt {
    Attempt { name: name.to_owned(), operation, arguments, evidence, outside }
}

fn process_attempts(reachable: &Reachable) -> Vec<Attempt> {
    let Reachable { pid, address, descriptor, .. } = *reachable;
    let memory = || json!({"process": pid, "address": address});
    let file = |name: &str| json!({"process": pid, "name": name});
    let secret = || Evidence::Canary(reachable.canary.clone());
    let held = || Evidence::Canary(canary_text(1));
    let environment = Evidence::Canary(ENVIRONMENT_CANARY.into());
    let path = format!("fd/{descriptor}");
    let mut all = vec![
        attempt("environment of any process", "do_environment", json!({}), environment, NotTried),
        attempt("environment of a process", "do_process_file", file("environ"), secret(), Works),
        attempt("descriptor of a process", "do_process_file", file(&path), held(), Works),
        attempt("memory of a process", "do_process_memory", memory(), secret(), Varies),
        attempt("process_vm_readv", "do_read_memory", memory(), secret(), Varies),
        attempt("ptrace", "do_trace", memory(), secret(), Varies),
        attempt(
            "pidfd_getfd",
            "do_take_from_process",
            json!({"process": pid, "descriptor": descriptor}),
            held(),
            Varies,
        ),
        attempt("prlimit", "do_limit", json!({"process": pid}), Evidence::Noted("core"), Varies),
        attempt(
            "setpriority",
            "do_priority",
            json!({"process": pid}),
            Evidence::Noted("priority"),
            Works,
        ),
    ];
    for (way, outside) in [("kill", Works), ("pidfd", Works), ("everybody", NotTried)] {
        let (name, arguments) = (format!("signal by {way}"), json!({"process": pid, "way": way}));
        all.push(attempt(&name, "do_signal", arguments, Evidence::Noted("signals"), outside));
    }
    all
}

fn shared_memory_attempts(reachable: &Reachable) -> Vec<Attempt> {
    let secret = || Evidence::Canary(reachable.canary.clone());
    let key = || json!({"key": reachable.key});
    let counted = Evidence::Noted("semaphore");
    let queue = json!({"name": reachable.queue});
    let mut all = vec![
        attempt("System V shared memory", "do_shared_memory", key(), secret(), Works),
        attempt("System V messages", "do_message_queue", key(), secret(), Works),
        attempt("System V semaphore", "do_semaphore", key(), counted, Works),
        attempt("POSIX messages", "do_posix_queue", queue, secret(), Varies),
    ];
    for (ring, number) in [("session", -3), ("user", -4), ("user session", -5)] {
        let arguments = json!({"description": reachable.description, "ring": number});
        let name = format!("key of the {ring} ring");
        all.push(attempt(&name, "do_key", arguments, secret(), Varies));
    }
    let planted = format!("{}-planted", reachable.description);
    let arguments = json!({"description": planted, "ring": -4});
    all.push(attempt("new key", "do_add_key", arguments, Evidence::Noted("keys"), Varies));
    all
}

fn kernel_attempts() -> Vec<Attempt> {
    let device = |path: &&str| {
        let name = format!("open {path}");
        attempt(&name, "do_open", json!({"path": path}), Evidence::Said, Varies)
    };
    let setting = |path: &&str| {
        let name = format!("write to {path}");
        attempt(&name, "do_open_for_writing", json!({"path": path}), Evidence::Said, Varies)
    };
    let change = |(name, words): &(&str, &str)| {
        let words: Vec<&str> = words.split(' ').collect();
        attempt(name, "do_run", json!({"words": words}), Evidence::Said, NotTried)
    };
    let devices = DEVICES.iter().map(device);
    devices.chain(SETTINGS.iter().map(setting)).chain(NETWORK.iter().map(change)).collect()
}
