//! Systems whose directories are laid out differently from this one's. Each is made in a mount namespace from parts of this machine, and
//! the binary runs there. Root makes the namespace directly, an ordinary user within a user namespace; nothing is skipped.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::escape::{is_root, python};
use crate::support::{RunResult, binary};

/// Prints every secret and every socket of the layout that can be found.
const SEARCH_SCRIPT: &str = "cat /etc/shadow /etc/gshadow /etc/ssh/ssh_host_* /etc/ssl/private/* /etc/pki/tls/private/* \
    /etc/NetworkManager/system-connections/* /run/secrets/* /run/user/0/keyring/* /run/NetworkManager/secret 2>/dev/null\n\
    find /run/ /var/run/ -type s 2>/dev/null\necho looked\n";

struct Layout {
    name: &'static str,
    /// Directories of programs.
    path: &'static str,
    binary: &'static str,
    /// Commands, and a part of what they print.
    sees: &'static [(&'static str, &'static str)],
}

const USUAL_LAYOUT: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
const BINARY: &str = "/opt/windlass/windlass";
const PYTHON: (&str, &str) = ("python3 -c 'print(6 * 7)'", "42\n");

#[test]
fn ubuntu() {
    check(&Layout {
        name: "ubuntu",
        path: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/snap/bin",
        binary: BINARY,
        sees: &[
            PYTHON,
            ("cat /etc/os-release", "Ubuntu"),
            ("/bin/sh -c 'echo shell'", "shell\n"),
            ("hello", "hello from a snap\n"),
        ],
    });
}

#[test]
fn fedora() {
    check(&Layout {
        name: "fedora",
        path: USUAL_LAYOUT,
        binary: BINARY,
        sees: &[
            PYTHON,
            ("cat /etc/os-release", "Fedora"),
            ("cat /etc/pki/tls/certs/ca-bundle.crt", "certificates of everybody\n"),
            ("cat /etc/crypto-policies/back-ends/opensslcnf.config", "policy\n"),
            ("/opt/bin/alternative -i A=alternative /usr/bin/env", "A=alternative\n"),
            ("cat /var/lib/rpm/rpmdb.sqlite", "packages\n"),
        ],
    });
}

#[test]
fn debian() {
    check(&Layout {
        name: "debian",
        path: USUAL_LAYOUT,
        binary: BINARY,
        sees: &[
            PYTHON,
            ("cat /etc/debian_version", "11.0\n"),
            ("/bin/cat /var/lib/dpkg/status", "Package: bash\n"),
            ("test -d /bin && test ! -L /bin && echo directory", "directory\n"),
        ],
    });
}

#[test]
fn nixos() {
    check(&Layout {
        name: "nixos",
        path: "/run/wrappers/bin:/run/current-system/sw/bin",
        binary: "/nix/store/windlass-1/bin/windlass",
        sees: &[
            ("cat /etc/os-release", "NixOS"),
            ("command -v bash", "/run/current-system/sw/bin/bash\n"),
            ("readlink -f /run/current-system", "/nix/store/system\n"),
            ("cat /etc/ssl/certs/ca-bundle.crt", "certificates of everybody\n"),
            ("/bin/sh -c 'echo shell'", "shell\n"),
            ("/usr/bin/env -i A=env /usr/bin/env", "A=env\n"),
        ],
    });
}

/// A container whose root is an overlay: no overlay on it can keep changes, so they have to be kept elsewhere.
#[test]
fn state_directory_on_an_overlay() {
    let ground = LayoutDirectories::new();
    let call = |input: &Value| format!("{BINARY} call bash '{input}' --mode auto");
    let script = [
        call(&json!({"command": "echo made > made.txt; echo command has run"})),
        "echo content: $(cat made.txt)".to_owned(),
        format!("{BINARY} undo --yes"),
        "test -e made.txt || echo undone".to_owned(),
        format!("{BINARY} doctor"),
    ]
    .join("; ");
    let ran = ground.enter("overlay", USUAL_LAYOUT, &["sh", "-c", &script]);
    for part in ["command has run\n", "content: made\n", "undone\n"] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    let said = format!("{}{}", ran.stdout, ran.stderr).to_lowercase();
    let words = ["tmpfs", "in memory"];
    assert!(words.iter().any(|word| said.contains(word)), "nothing is said about it: {ran:?}");
}

/// Without namespaces nothing runs unless the person agreed to less; then it is said what does not hold.
#[test]
fn without_user_namespaces() {
    let ground = LayoutDirectories::new();
    let program = binary().display().to_string();
    // Without any capability: a container's root with capabilities would need no user namespaces.
    let words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", &program];
    let run = |arguments: &[&str]| {
        ground.enter("without_namespaces", USUAL_LAYOUT, &[&words[..], arguments].concat())
    };
    let call = ["call", "bash", r#"{"command":"echo it runs"}"#, "--mode", "auto"];
    let ran = run(&call);
    assert_eq!(ran.code, 2, "{ran:?}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(!said.contains("it runs\n"), "{ran:?}");
    assert!(said.contains("user namespace"), "why: {ran:?}");
    assert!(said.contains("sandbox_backend"), "what to do: {ran:?}");
    for backend in ["landlock", "auto"] {
        ground.write_file(
            ".config/windlass/config.toml",
            &format!("sandbox_backend = \"{backend}\"\n"),
        );
        let ran = run(&call);
        assert_eq!(ran.code, 0, "{backend}: {ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("it runs\n"), "{backend}: {ran:?}");
        assert!(said.contains("Landlock"), "{backend}: it does not say what holds less: {ran:?}");
    }
}

fn check(layout: &Layout) {
    let ground = LayoutDirectories::new();
    ground.write_file("work/look.sh", SEARCH_SCRIPT);
    let call = |options: &[&str], command: &str| {
        let input = json!({"command": command}).to_string();
        let words = [&[layout.binary, "call", "bash", &input, "--mode", "auto"], options].concat();
        ground.enter(layout.name, layout.path, &words)
    };
    check_outside(layout, &ground);
    let ran = call(&[], "true");
    assert_eq!(ran.code, 0, "{ran:?}");
    for (command, expected) in layout.sees {
        // By a file: what the command line says is no part of it.
        ground.write_file("work/see.sh", command);
        let ran = call(&[], "bash see.sh");
        assert!(ran.code == 0 && ran.stdout.contains(expected), "`{command}`: {ran:?}");
    }
    ground.write_file("work/see.sh", "cat /etc/resolv.conf");
    let ran = call(&["--net", "full"], "bash see.sh");
    assert!(ran.code == 0 && ran.stdout.contains("nameserver 192.0.2.53\n"), "{ran:?}");
    for level in ["read-only", "workspace", "staged"] {
        for net in ["none", "full"] {
            let ran = call(&["--sandbox", level, "--net", net], "bash look.sh");
            assert!(ran.stdout.contains("looked\n"), "{level}, {net}: {ran:?}");
            let is_clean = !ran.stdout.contains("canary") && !ran.stdout.contains("/run/");
            assert!(is_clean, "{level}, {net}: {ran:?}");
        }
    }
    let ran = call(&[], "echo made > made.txt");
    let made = std::fs::read_to_string(ground.home().join("work/made.txt"));
    assert_eq!(made.ok().as_deref(), Some("made\n"), "{ran:?}");
}

/// Without a sandbox all is there: what should be seen, and what should not.
fn check_outside(layout: &Layout, ground: &LayoutDirectories) {
    let run = |script| ground.enter(layout.name, layout.path, &["bash", script]);
    let ran = run("look.sh");
    let is_there = ["canary in shadow", "canary in a host key", "/run/docker.sock"]
        .iter()
        .all(|part| ran.stdout.contains(part));
    assert!(is_there, "outside it shows nothing: {ran:?}");
    for (command, expected) in layout.sees {
        ground.write_file("work/see.sh", command);
        let ran = run("see.sh");
        assert!(ran.code == 0 && ran.stdout.contains(expected), "outside `{command}`: {ran:?}");
    }
}

/// Directories that outlive a run in a layout.
struct LayoutDirectories {
    directory: TempDir,
}

impl LayoutDirectories {
    fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        for name in ["root", "prepared/me/work"] {
            std::fs::create_dir_all(directory.path().join(name)).expect("a directory");
        }
        Self { directory }
    }

    /// The home directory of the layout.
    fn home(&self) -> PathBuf {
        self.directory.path().join("prepared/me")
    }

    fn write_file(&self, name: &str, content: &str) {
        let path = self.home().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }

    /// Makes the layout anew and runs a program in it, in the workspace `/home/me/work`.
    fn enter(&self, layout: &str, path: &str, words: &[&str]) -> RunResult {
        let needs_users = !is_root() || layout == "without_namespaces";
        let mut command = Command::new("unshare");
        command.args([if needs_users { "-Urm" } else { "-m" }, "--"]).arg(python());
        command.args(["-c", include_str!("layouts/root.py"), layout]);
        for place in ["root", "prepared"] {
            command.arg(self.directory.path().join(place));
        }
        command.arg(binary()).arg(path).args(words).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let home = if layout == "without_namespaces" { self.home() } else { "/home/me".into() };
        command.env("HOME", home).stdin(Stdio::null());
        RunResult::from_output(command.output().expect("unshare, of util-linux"))
    }
}
