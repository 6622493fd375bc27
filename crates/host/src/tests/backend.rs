//! Programs under the weaker backend: Landlock and a seccomp filter alone. Each refused operation is also tried without a sandbox,
//! to show that it would succeed there.

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::{
    Access, Backend, Confinement, FileRights, Mode, NetworkAccess, Policy, ProcessChanges,
    ProcessEnd, ProcessRequest, Processes as _, SandboxLevel, TerminalSize, ToolError, Tracking,
};

use super::processes::ProcessTestWorkspace;
use crate::ProcessSettings;

fn settings(level: SandboxLevel, network: NetworkAccess) -> ProcessSettings {
    let confinement = Confinement { level, network, backend: Backend::Landlock };
    ProcessSettings { confinement, ..ProcessSettings::default() }
}

/// Creates a workspace with a file `outside/file` next to it.
fn ground(level: SandboxLevel) -> ProcessTestWorkspace {
    let ground = ProcessTestWorkspace::with(settings(level, NetworkAccess::None));
    outside(&ground);
    ground
}

fn outside(ground: &ProcessTestWorkspace) {
    let base = ground.directory.path();
    std::fs::create_dir(base.join("outside")).unwrap();
    std::fs::write(base.join("outside/file"), "outside\n").unwrap();
}

/// Runs a program to its end. Returns its changes as the process reports them.
fn changes(ground: &ProcessTestWorkspace, request: &ProcessRequest) -> ProcessChanges {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let process = ground.processes.start(request).unwrap();
        while process.read(&mut Vec::new()).await.unwrap() > 0 {}
        process.ended().await;
        process.changes().unwrap()
    })
}

#[test]
fn nothing_outside_of_the_workspace_is_changed() {
    for script in [
        "echo x > ../outside/new",
        "echo x > ../outside/file",
        "truncate -s 0 ../outside/file",
        "rm ../outside/file",
        "mkdir ../outside/new",
        "mv a.txt ../outside/new",
        "mv ../outside/file .",
        "ln a.txt ../outside/new",
        "ln ../outside/file mine && echo x > mine",
        "ln -s ../outside/file link && echo x > link",
    ] {
        for (level, is_refused) in [
            (SandboxLevel::Off, false),
            (SandboxLevel::ReadOnly, true),
            (SandboxLevel::Workspace, true),
        ] {
            let ground = ground(level);
            let base = ground.directory.path().join("outside");
            let (end, printed, _) = ground.shell(&format!("exec 2>&1; {script}"));
            let is_same = std::fs::read(base.join("file")).is_ok_and(|text| text == b"outside\n")
                && base.read_dir().unwrap().count() == 1;
            assert_eq!(is_same, is_refused, "{level}: {script}: {printed}");
            assert_eq!(end != ProcessEnd::Exited(0), is_refused, "{level}: {script}: {printed}");
        }
    }
}

#[test]
fn program_may_change_workspace_and_temporary_files() {
    let ground = ground(SandboxLevel::Workspace);
    let script = "echo b > b.txt && rm a.txt && mkdir -p c/d && mv b.txt c/d && ln c/d/b.txt e \
        && echo t > $TMPDIR/t && cat $TMPDIR/t && cat <<< here && echo x > /dev/null && echo y > /dev/stdout && git init -q .";
    let (end, printed, mut changes) = ground.shell(script);
    assert_eq!((end, &*printed), (ProcessEnd::Exited(0), "t\nhere\ny\n"));
    changes.retain(|change| !change.contains(".git"));
    changes.sort();
    assert_eq!(changes, ["+c", "+c/d", "+c/d/b.txt", "+e", "-a.txt"]);
    assert!(ground.workspace().join("c/d/b.txt").exists(), "it is made at once");
}

#[test]
fn notes_name_protected_changes_and_the_weaker_sandbox() {
    let ground = ground(SandboxLevel::Workspace);
    std::fs::create_dir_all(ground.workspace().join(".git/hooks")).unwrap();
    let made = changes(&ground, &ground.request("echo x > .git/hooks/pre-commit; echo b > b"));
    assert_eq!(made.tracking, Tracking::Scanned, "what cannot be undone is not called staged");
    let [changed, rung] = made.notes.as_slice() else { panic!("{:?}", made.notes) };
    assert!(changed.contains("CHANGED ALTHOUGH PROTECTED") && changed.contains(".git/hooks; look"));
    assert!(rung.starts_with("weaker sandbox (Landlock alone)") && rung.len() <= 300, "{rung}");
    let looked = ProcessRequest { access: Access::Read, ..ground.request("cat a.txt") };
    assert_eq!(changes(&ground, &looked).notes.len(), 1);
}

#[test]
fn read_only_program_changes_nothing() {
    let script = "cat a.txt; (echo x > a.txt) 2>/dev/null; (rm a.txt) 2>/dev/null; mkdir d 2>/dev/null; \
        echo t > $TMPDIR/t && cat $TMPDIR/t; ls";
    let looks = ground(SandboxLevel::Staged);
    let looked = ProcessRequest { access: Access::Read, ..looks.request(script) };
    let (_, printed, _) = looks.run(&looked).unwrap();
    assert_eq!(printed, "a\nt\na.txt\n");
    assert_eq!(ground(SandboxLevel::ReadOnly).shell(script).1, "a\nt\na.txt\n");
}

/// Returns the rights of a session with a rule that denies reading a path.
fn denying(path: &Path) -> Arc<FileRights> {
    let rule = format!("read {}", path.display()).parse().unwrap();
    let policy = Policy::new(Mode::Auto).deny(rule);
    let now = std::time::SystemTime::now();
    FileRights::new(policy.into(), path.parent().unwrap().to_owned(), now).into()
}

#[test]
fn secrets_and_own_state_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let secrets = directory.path().join("secrets");
    std::fs::create_dir(&secrets).unwrap();
    std::fs::write(secrets.join("key"), "secret\n").unwrap();
    std::os::unix::fs::symlink("secrets", directory.path().join("link")).unwrap();
    let base = directory.path().display();
    for (level, is_refused) in [(SandboxLevel::Off, false), (SandboxLevel::Workspace, true)] {
        let rights = Some(denying(&directory.path().join("link")));
        let ground = ProcessTestWorkspace::with(ProcessSettings {
            rights,
            ..settings(level, NetworkAccess::None)
        });
        std::fs::create_dir_all(ground.directory.path().join("state")).unwrap();
        std::fs::write(ground.directory.path().join("state/journal"), "ours\n").unwrap();
        for script in [
            &format!("cat {base}/secrets/key"),
            &format!("cat {base}/link/key"),
            &format!("ls {base}/secrets"),
            &format!("ln -s {base}/secrets/key own; cat own"),
            &format!("cat /proc/self/root{base}/secrets/key"),
            "cat ../state/journal",
        ] {
            let (_, printed, _) = ground.shell(&format!("{{ {script}; }} 2>&1; rm -f own"));
            assert_eq!(printed.contains("ermission denied"), is_refused, "{script}: {printed}");
        }
    }
}

#[test]
fn network_is_blocked() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let (tcp, to) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let script = format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{tcp}) 2>/dev/null && echo tcp; (echo x > /dev/udp/127.0.0.1/{to}) 2>/dev/null && echo udp; true"
    );
    for (level, network, printed) in [
        (SandboxLevel::Off, NetworkAccess::None, "tcp\nudp\n"),
        (SandboxLevel::Workspace, NetworkAccess::Full, "tcp\nudp\n"),
        (SandboxLevel::Workspace, NetworkAccess::None, ""),
        (SandboxLevel::ReadOnly, NetworkAccess::None, ""),
    ] {
        let ground = ProcessTestWorkspace::with(settings(level, network));
        assert_eq!(ground.shell(&script).1, printed, "{level}");
        assert_eq!(udp.recv(&mut [0; 8]).is_ok(), !printed.is_empty(), "{level}");
    }
}

/// Returns whether a process that sleeps for this many seconds exists.
fn is_sleep_running(seconds: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{seconds}\0");
    lines.into_iter().any(|line| line == wanted.as_bytes())
}

#[test]
fn no_process_survives_the_end_of_its_command() {
    let ground = ground(SandboxLevel::Workspace);
    let id = std::process::id();
    for (number, script) in [
        "setsid sleep N & sleep N",
        "(setsid sleep N &) ; sleep N",
        "setsid bash -c 'sleep N <&- >&- 2>&- & exit'; sleep N",
        "nohup sleep N > /dev/null 2>&1 & disown; wait; sleep N",
    ]
    .into_iter()
    .enumerate()
    {
        let seconds = format!("8{number}{id:07}");
        let request = ground.request(&script.replace('N', &seconds));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let process = ground.processes.start(&request).unwrap();
            while !is_sleep_running(&seconds) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            process.kill();
            assert_eq!(process.ended().await, ProcessEnd::Signalled(9), "{script}");
            assert!(!is_sleep_running(&seconds), "{script}");
        });
    }
}

#[test]
fn terminal_is_a_tty() {
    let ground = ground(SandboxLevel::Workspace);
    let script = "test -t 0 && (echo named > $(tty)) && echo x > /dev/tty";
    let request =
        ProcessRequest { terminal: Some(TerminalSize::default()), ..ground.request(script) };
    let (end, printed, _) = ground.run(&request).unwrap();
    assert_eq!(end, ProcessEnd::Exited(0), "{printed}");
    assert!(printed.contains("named"), "{printed}");
}

/// Requests that this backend cannot confine are refused, with a hint at an alternative.
#[test]
fn unenforceable_request_is_refused() {
    let hosts = NetworkAccess::Hosts(vec!["docs.rs".into()]);
    let none = NetworkAccess::None;
    for (level, network, hidden, why, instead) in [
        (SandboxLevel::Staged, none.clone(), "", "takes an overlay", "--sandbox workspace"),
        (SandboxLevel::Workspace, hosts.clone(), "", "knows ports, not hosts", "--net none"),
        (SandboxLevel::ReadOnly, hosts, "", "knows ports, not hosts", "--net none"),
        (SandboxLevel::Workspace, none, "workspace/secret", "must stay unreadable", "read-only"),
    ] {
        let mut ground = ProcessTestWorkspace::with(settings(level, network.clone()));
        let workspace = ground.workspace();
        if !hidden.is_empty() {
            std::fs::write(workspace.join("secret"), "").unwrap();
            let rights = Some(denying(&workspace.join("secret")));
            let settings = ProcessSettings { rights, ..settings(level, network) };
            ground.processes = crate::LocalProcesses::new(&workspace, settings);
        }
        let error = ground.run(&ground.request("echo x > new")).unwrap_err();
        assert!(matches!(error, ToolError::HostFailed(_)), "{error:?}");
        let said = error.message().to_string();
        assert!(said.contains(why) && said.contains(instead), "{said}");
        assert!(!workspace.join("new").exists());
    }
}

/// In a user namespace that bubblewrap has made, all confinement holds, and changes can be undone.
#[test]
fn bubblewrap_namespace_confines_as_well() {
    let script = "echo b > b.txt; rm a.txt; (echo x > ../outside/file) 2>/dev/null || echo refused; \
        readlink /proc/self/ns/user";
    let mut namespaces = Vec::new();
    for backend in [Backend::Bubblewrap, Backend::Bubblewrap, Backend::Namespaces] {
        let confinement = Confinement { backend, ..Confinement::default() };
        let ground = ProcessTestWorkspace::with(ProcessSettings {
            confinement,
            ..ProcessSettings::default()
        });
        outside(&ground);
        let (end, printed, mut changed) = ground.shell(script);
        assert_eq!(end, ProcessEnd::Exited(0), "{backend}: {printed}");
        let (refused, namespace) = printed.split_once('\n').unwrap();
        assert_eq!(refused, "refused", "{backend}");
        changed.sort();
        assert_eq!(changed, ["+b.txt", "-a.txt"], "{backend}");
        assert!(ground.workspace().join("a.txt").exists(), "{backend}: it was held back");
        let looked = changes(&ground, &ground.request("true"));
        assert_eq!((looked.tracking, looked.notes.len()), (Tracking::Staged, 0), "{backend}");
        namespaces.push(namespace.to_owned());
    }
    let [first, second, own] = namespaces.as_slice() else { panic!("{namespaces:?}") };
    assert_eq!(first, second, "it is made once");
    assert_ne!(first, own);
}

/// The machine of the tests has namespaces, so they are the backend that is chosen.
#[test]
fn backend_is_resolved() {
    let settle = |level, backend| {
        let confinement = Confinement { level, backend, ..Confinement::default() };
        let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
        settings.settled(Path::new("/usr")).confinement.backend
    };
    for level in [SandboxLevel::Off, SandboxLevel::Workspace] {
        assert_eq!(settle(level, Backend::Auto), Backend::Namespaces);
        assert_eq!(settle(level, Backend::Landlock), Backend::Landlock);
        assert_eq!(settle(level, Backend::Bubblewrap), Backend::Bubblewrap);
        assert_eq!(settle(level, Backend::Namespaces), Backend::Namespaces);
    }
}
