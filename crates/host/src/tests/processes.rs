//! Runs real programs.

use std::path::Path;
use std::time::Duration;

use windlass_core::{
    Access, ChangedTo, Confinement, Files as _, NetworkAccess, ProcessEnd, ProcessRequest,
    Processes as _, Program, SandboxLevel, StderrTarget, Stdin, TerminalSize, ToolError,
};

use crate::{LocalFiles, LocalProcesses, ProcessSettings};

/// A workspace with a process door.
pub(super) struct ProcessTestWorkspace {
    pub(super) directory: tempfile::TempDir,
    pub(super) processes: LocalProcesses,
}

impl ProcessTestWorkspace {
    fn new(level: SandboxLevel) -> Self {
        Self::with(ProcessSettings {
            confinement: Confinement { level, ..Confinement::default() },
            ..ProcessSettings::default()
        })
    }

    pub(super) fn with(settings: ProcessSettings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().canonicalize().unwrap().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("a.txt"), "a\n").unwrap();
        let state = Some(directory.path().join("state"));
        let processes = LocalProcesses::new(&workspace, ProcessSettings { state, ..settings });
        Self { directory, processes }
    }

    pub(super) fn workspace(&self) -> std::path::PathBuf {
        self.directory.path().canonicalize().unwrap().join("workspace")
    }

    pub(super) fn request(&self, script: &str) -> ProcessRequest {
        let files = LocalFiles::open_with(&self.workspace(), crate::Durability::Kernel).unwrap();
        let directory = files.resolve(Path::new(".")).unwrap();
        ProcessRequest::new(Program::Shell(script.to_owned()), directory)
    }

    /// Runs a program to its end. Returns how it ended, its output, and its changes.
    pub(super) fn run(
        &self,
        request: &ProcessRequest,
    ) -> Result<(ProcessEnd, String, Vec<String>), ToolError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let process = self.processes.start(request)?;
            let mut printed = Vec::new();
            let all = async {
                while process.read(&mut printed).await.unwrap() > 0 {}
                process.ended().await
            };
            let end = tokio::time::timeout(Duration::from_secs(20), all).await.expect("an end");
            let changes = process.changes()?;
            let workspace = self.workspace();
            let told = changes.changes.iter().map(|change| {
                let path = change.path.strip_prefix(&workspace).unwrap().display().to_string();
                match change.to {
                    ChangedTo::Nothing => format!("-{path}"),
                    _ if change.before.is_none() => format!("+{path}"),
                    _ => path,
                }
            });
            Ok((end, String::from_utf8_lossy(&printed).into_owned(), told.collect()))
        })
    }

    pub(super) fn shell(&self, script: &str) -> (ProcessEnd, String, Vec<String>) {
        self.run(&self.request(script)).unwrap()
    }
}

#[test]
fn a_program_prints_and_ends() {
    for level in
        [SandboxLevel::Off, SandboxLevel::ReadOnly, SandboxLevel::Workspace, SandboxLevel::Staged]
    {
        let ground = ProcessTestWorkspace::new(level);
        let (end, printed, _) = ground.shell("echo out; echo err >&2; echo $((1 + 1)); exit 7");
        assert_eq!((end, &*printed), (ProcessEnd::Exited(7), "out\nerr\n2\n"), "{level}");
    }
}

#[test]
fn staged_changes_are_reported_and_not_applied() {
    let ground = ProcessTestWorkspace::new(SandboxLevel::Workspace);
    let (end, printed, changes) = ground.shell("echo b > b.txt; rm a.txt; mkdir -p c/d; ls");
    assert_eq!((end, &*printed), (ProcessEnd::Exited(0), "b.txt\nc\n"));
    let mut changes = changes;
    changes.sort();
    assert_eq!(changes, ["+b.txt", "+c", "+c/d", "-a.txt"]);
    assert!(ground.workspace().join("a.txt").exists(), "nothing is made yet");
    assert_eq!(std::fs::read_dir(ground.workspace()).unwrap().count(), 1);
}

/// A directory that exists in the workspace is renamed by one system call, as without a stage.
#[test]
fn a_directory_is_renamed_on_a_stage() {
    let ground = ProcessTestWorkspace::new(SandboxLevel::Workspace);
    std::fs::create_dir_all(ground.workspace().join("old/sub")).unwrap();
    std::fs::write(ground.workspace().join("old/sub/file"), "file\n").unwrap();
    let script = "python3 -c 'import os; os.rename(\"old\", \"new\")' && ls -A && cat new/sub/file";
    let (end, printed, mut changes) = ground.shell(script);
    assert_eq!((end, &*printed), (ProcessEnd::Exited(0), "a.txt\nnew\nfile\n"));
    changes.sort();
    assert_eq!(changes, ["+new", "+new/sub", "+new/sub/file", "-old", "-old/sub", "-old/sub/file"]);
}

/// A directory that was prepared for a move, and in the end not moved, is no change.
#[test]
fn a_directory_that_was_moved_back_is_no_change() {
    let ground = ProcessTestWorkspace::new(SandboxLevel::Workspace);
    std::fs::create_dir_all(ground.workspace().join("old/sub")).unwrap();
    std::fs::write(ground.workspace().join("old/sub/file"), "file\n").unwrap();
    let script = "python3 -c 'import os; os.rename(\"old\", \"new\"); os.rename(\"new\", \"old\")'";
    let (end, _, changes) = ground.shell(script);
    assert_eq!((end, changes), (ProcessEnd::Exited(0), Vec::new()));
}

/// Such a directory remains if the sandbox is killed while it moves the entries of a directory.
#[test]
fn changes_with_a_directory_that_is_half_moved_are_dropped() {
    let ground = ProcessTestWorkspace::new(SandboxLevel::Workspace);
    let prefix = windlass_sandbox::RENAME_PREFIX;
    let script = format!("mkdir -p d/{prefix}7/sub; echo x > d/{prefix}7/sub/x");
    let error = ground.run(&ground.request(&script)).unwrap_err().to_string();
    assert!(error.contains("killed while it renamed a directory in"), "{error}");
}

#[test]
fn direct_access_changes_the_real_directory() {
    for level in [SandboxLevel::Off, SandboxLevel::Workspace] {
        let ground = ProcessTestWorkspace::new(level);
        let request =
            ProcessRequest { access: Access::Direct, ..ground.request("echo b > b.txt; rm a.txt") };
        let (_, _, mut changes) = ground.run(&request).unwrap();
        changes.sort();
        // Without a sandbox changes are not tracked.
        let tracked: &[&str] = if level == SandboxLevel::Off { &[] } else { &["+b.txt", "-a.txt"] };
        assert_eq!(changes, tracked, "{level}");
        let left: Vec<_> = std::fs::read_dir(ground.workspace()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{level}: {left:?}");
    }
}

#[test]
fn read_only_program_changes_nothing() {
    let ground = ProcessTestWorkspace::new(SandboxLevel::ReadOnly);
    let (end, printed, changes) = ground.shell("cat a.txt; echo x > a.txt || echo refused");
    assert_eq!(end, ProcessEnd::Exited(0));
    assert!(printed.starts_with("a\n") && printed.ends_with("refused\n"), "{printed}");
    assert_eq!(changes, [""; 0]);
}

#[test]
fn standard_input_is_closed_or_given() {
    let ground = ProcessTestWorkspace::new(SandboxLevel::Workspace);
    assert_eq!(ground.shell("cat; echo end").1, "end\n");
    let given =
        ProcessRequest { stdin: Stdin::Bytes(b"one\ntwo\n".to_vec()), ..ground.request("sort -r") };
    assert_eq!(ground.run(&given).unwrap().1, "two\none\n");
}

#[test]
fn terminal_is_a_tty() {
    let ground = ProcessTestWorkspace::new(SandboxLevel::Workspace);
    let size = TerminalSize { columns: 77, rows: 11 };
    let request = ProcessRequest {
        terminal: Some(size),
        stdin: Stdin::Bytes(b"typed\n".to_vec()),
        ..ground.request("test -t 0 && test -t 1 && stty size; read -r line; echo \"got $line\"; echo x > /dev/tty")
    };
    let (end, printed, _) = ground.run(&request).unwrap();
    assert_eq!(end, ProcessEnd::Exited(0), "{printed}");
    assert!(
        printed.contains("11 77") && printed.contains("got typed") && printed.contains('x'),
        "{printed}"
    );
}

#[test]
fn program_gets_few_environment_variables() {
    let ground = ProcessTestWorkspace::with(ProcessSettings {
        environment: vec!["GIVEN=here".into(), "CARGO_MANIFEST_DIR".into()],
        ..ProcessSettings::default()
    });
    let (_, printed, _) = ground.shell("env | cut -d= -f1 | sort");
    let names: Vec<&str> = printed.lines().collect();
    assert!(
        names.contains(&"GIVEN")
            && names.contains(&"PATH")
            && names.contains(&"CARGO_MANIFEST_DIR")
    );
    assert!(!names.contains(&"CARGO_PKG_NAME"), "{names:?}");
}

#[test]
fn unrunnable_programs_are_reported() {
    let ground = ProcessTestWorkspace::new(SandboxLevel::Workspace);
    for (program, why) in [
        (Program::words(["no-such-program-here"]), "no program of that name"),
        (Program::words(["/nonexistent/program"]), "No such file"),
        (Program::words(["/etc/hostname"]), "cannot execute"),
        (Program::Words(vec![]), "no program to run"),
        (Program::Shell("echo \0".into()), "NUL"),
    ] {
        let request = ProcessRequest { program, ..ground.request("") };
        let error = ground.run(&request).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn only_named_hosts_are_reached() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 4];
        stream.read_exact(&mut asked).unwrap();
        stream.write_all(b"pong\n").unwrap();
        asked
    });
    let network = NetworkAccess::Hosts(vec![format!("localhost:{port}")]);
    let ground = ProcessTestWorkspace::with(ProcessSettings {
        confinement: Confinement { network, ..Confinement::default() },
        private_hosts: true,
        ..ProcessSettings::default()
    });
    let ask = |host: &str, rest: &str| {
        format!(
            "proxy=${{https_proxy##*:}}; exec 3<>/dev/tcp/127.0.0.1/${{proxy%/}}; printf 'CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' >&3; \
             read -r status <&3; echo \"$status\"; {rest}"
        )
    };
    let reach =
        ask("localhost", "read -r empty <&3; printf ping >&3; read -r pong <&3; echo $pong");
    let (_, printed, _) = ground.shell(&reach);
    assert!(printed.contains(" 200 ") && printed.contains("pong"), "{printed}");
    assert_eq!(&served.join().unwrap(), b"ping");
    let (_, printed, _) = ground.shell(&ask("elsewhere.example", "true"));
    assert!(printed.contains(" 403 "), "{printed}");
    let direct = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null || echo refused");
    assert_eq!(ground.shell(&direct).1, "refused\n");
    assert!(ground.shell("echo $https_proxy").1.contains("127.0.0.1:"));
}

#[test]
fn stderr_can_be_read_separately() {
    let ground = ProcessTestWorkspace::new(SandboxLevel::ReadOnly);
    let script = "echo out; echo err >&2; head -c 200000 /dev/zero >&2; exit 2";
    let request = ProcessRequest { errors: StderrTarget::Apart, ..ground.request(script) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (printed, errors, end) = runtime.block_on(async {
        let process = ground.processes.start(&request).unwrap();
        let (mut printed, mut errors) = (Vec::new(), Vec::new());
        let all_printed = async { while process.read(&mut printed).await.unwrap() > 0 {} };
        let all_errors = async { while process.read_errors(&mut errors).await.unwrap() > 0 {} };
        tokio::join!(all_printed, all_errors);
        (printed, errors, process.ended().await)
    });
    assert_eq!((printed.as_slice(), end), (b"out\n".as_slice(), ProcessEnd::Exited(2)));
    assert!(errors.starts_with(b"err\n") && errors.len() == 200_004, "{}", errors.len());
}
