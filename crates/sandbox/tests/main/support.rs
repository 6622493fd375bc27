//! The test sandbox: directories, a view, a fence and limits, with helpers that start programs in it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use windlass_sandbox::{
    Confined, Ending, Fence, Launch, LaunchError, Mount, MountSource, OverlayUpper, PathHandle,
    ProgramNetwork, ReadOnlyPath, ResourceLimits, SessionNamespaces, View, hide_memory, launch,
};

/// Variable with the parent directory of test sandboxes; without it they are in Cargo's directory for temporary test files.
pub(crate) const BASE_VARIABLE: &str = "WINDLASS_TEST_BASE";

/// Variable that is set if the tests hide the memory of this process before they start a program.
pub(crate) const HIDDEN_VARIABLE: &str = "WINDLASS_TEST_HIDDEN";

/// Variable that is set if views are made in a user namespace that another program has created.
pub(crate) const USERS_VARIABLE: &str = "WINDLASS_TEST_GIVEN";

/// A temporary directory with a workspace and files outside of it, and the settings with which programs are started there.
pub(crate) struct TestSandbox {
    directory: tempfile::TempDir,
    variables: Vec<OsString>,
    pub(crate) view: Option<View>,
    pub(crate) fence: Option<Fence>,
    pub(crate) limits: ResourceLimits,
}

impl TestSandbox {
    /// A sandbox with view, fence and limits, whose workspace is mounted writable.
    pub(crate) fn confined() -> Self {
        let mut sandbox = Self::unconfined();
        let workspace = sandbox.workspace();
        let mut mounts = machine_mounts();
        for at in ["/tmp", "/var/tmp"] {
            mounts.push(Mount {
                at: at.into(),
                source: MountSource::Writable(object(&sandbox.path("tmp"))),
            });
        }
        mounts.push(Mount {
            at: workspace.clone(),
            source: MountSource::Writable(object(&workspace)),
        });
        sandbox.view = Some(View {
            mounts,
            workspace: workspace.clone(),
            protected: vec![
                ReadOnlyPath { path: ".git/hooks".into(), is_directory: true },
                ReadOnlyPath { path: ".git/config".into(), is_directory: false },
                ReadOnlyPath { path: ".windlass".into(), is_directory: true },
            ],
            masked: ["secrets", "token", "run"].map(|name| sandbox.path(name)).to_vec(),
            network: ProgramNetwork::Loopback,
        });
        sandbox.fence = Some(Fence {
            readable: vec!["/".into()],
            writable: [&workspace, Path::new("/tmp"), Path::new("/dev"), Path::new("/proc")]
                .map(PathBuf::from)
                .to_vec(),
            internet: true,
            connect: true,
            without_attributes: false,
        });
        sandbox
    }

    /// The same with an overlay over the workspace that takes the changes.
    pub(crate) fn staged() -> Self {
        let sandbox = Self::confined();
        let source = overlay(&sandbox.workspace(), &sandbox.path("upper"), &sandbox.path("work"));
        sandbox.with_workspace(source)
    }

    /// The same with a read-only workspace.
    pub(crate) fn read_only() -> Self {
        let sandbox = Self::confined();
        let source = MountSource::ReadOnly(object(&sandbox.workspace()));
        sandbox.with_workspace(source).with_view(|view| view.protected.clear())
    }

    /// Replaces the mount of the workspace.
    pub(crate) fn with_workspace(self, source: MountSource) -> Self {
        let workspace = self.workspace();
        self.with_view(|view| {
            view.mounts.retain(|mount| mount.at != workspace);
            view.mounts.push(Mount { at: workspace, source });
        })
    }

    /// A sandbox with a fence and no view, as on a machine without user namespaces.
    pub(crate) fn fenced() -> Self {
        let mut sandbox = Self::confined();
        sandbox.view = None;
        let fence = sandbox.fence.as_mut().unwrap();
        fence.internet = false;
        fence.connect = false;
        sandbox
    }

    /// No confinement at all: shows that an attempt works without the sandbox.
    pub(crate) fn unconfined() -> Self {
        // Not below `/tmp`, which a view replaces.
        let base =
            std::env::var_os(BASE_VARIABLE).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
        let directory = tempfile::tempdir_in(base).unwrap();
        for name in
            ["workspace/.git/hooks", "tmp", "secrets", "outside/dir", "run", "upper", "work"]
        {
            std::fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        for (name, content) in [
            ("workspace/.git/config", "[core]\n"),
            ("workspace/.git/hooks/sample", "#!/bin/sh\n"),
            ("workspace/a.txt", "a\n"),
            ("secrets/key", "secret value\n"),
            ("token", "secret value\n"),
            ("outside/file", "outside\n"),
        ] {
            std::fs::write(directory.path().join(name), content).unwrap();
        }
        for (link, target) in [("link", "../outside/file"), ("dirlink", "../outside")] {
            symlink(target, directory.path().join("workspace").join(link)).unwrap();
        }
        let mut sandbox = Self {
            directory,
            variables: Vec::new(),
            view: None,
            fence: None,
            limits: ResourceLimits::default(),
        };
        sandbox.set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        for (name, path) in
            [("WORKSPACE", "workspace"), ("OUTSIDE", "outside"), ("SECRETS", "secrets")]
        {
            sandbox.set(name, &sandbox.path(path).display().to_string());
        }
        sandbox
    }

    pub(crate) fn with_view(mut self, change: impl FnOnce(&mut View)) -> Self {
        change(self.view.as_mut().expect("a view"));
        self
    }

    pub(crate) fn with_limits(mut self, limits: ResourceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets a variable in the environment of the programs.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push(format!("{name}={value}").into());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path("workspace")
    }

    /// Starts a Bash script. Returns the program and its output.
    pub(crate) fn start(&self, script: &str) -> Result<(Confined, File), LaunchError> {
        self.start_program(Path::new("/bin/bash"), &["bash", "-c", script], &[])
    }

    /// Starts a Bash script in the namespaces of another program.
    pub(crate) fn start_in(
        &self,
        script: &str,
        session: &SessionNamespaces,
    ) -> Result<(Confined, File), LaunchError> {
        let words = ["bash", "-c", script];
        self.start_with(Path::new("/bin/bash"), &words, &[], Some(session))
    }

    /// Starts a program with these arguments, its name first, and these additional variables.
    pub(crate) fn start_program(
        &self,
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<(Confined, File), LaunchError> {
        self.start_with(program, arguments, variables, None)
    }

    fn start_with(
        &self,
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
        session: Option<&SessionNamespaces>,
    ) -> Result<(Confined, File), LaunchError> {
        if std::env::var_os(HIDDEN_VARIABLE).is_some() {
            hide_memory().unwrap();
        }
        self.clear_work();
        let (read, write) = pipe();
        let more = variables.iter().map(|(name, value)| format!("{name}={value}").into());
        let started = launch(&Launch {
            program: program.to_owned(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: self.variables.iter().cloned().chain(more).collect(),
            directory: self.workspace(),
            stdin: None,
            output: write.as_fd(),
            errors: None,
            terminal: false,
            view: self.view.clone(),
            users: existing_user_namespace(),
            session,
            fence: self.fence.clone(),
            limits: self.limits,
            group: None,
        })?;
        Ok((started, File::from(read)))
    }

    /// Removes the directory of mode 0 that overlayfs leaves in the work directory, which must be empty for the next mount.
    fn clear_work(&self) {
        for name in ["work/work", "work/work/incompat", "work/work/incompat/volatile"] {
            drop(std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o700)));
        }
        drop(std::fs::remove_dir_all(self.path("work/work")));
    }

    /// Runs a Bash script to its end. Returns its ending and its output.
    pub(crate) fn run(&self, script: &str) -> (Ending, String) {
        let (program, mut output) = self.start(script).unwrap_or_else(|error| panic!("{error}"));
        let mut printed = Vec::new();
        output.read_to_end(&mut printed).unwrap();
        (program.wait().unwrap(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// Describes all files that no program may change: outside, secret and protected ones. Includes modification times and ctimes, so that
    /// any change shows.
    pub(crate) fn fingerprint(&self) -> String {
        let mut text = String::new();
        for name in ["outside", "secrets", "token", "workspace/.git/hooks", "workspace/.git/config"]
        {
            describe(&self.path(name), &mut text);
        }
        let mine = self.path("workspace/.windlass");
        if let Ok(mut found) = std::fs::read_dir(mine) {
            assert!(found.next().is_none(), ".windlass is not empty");
        }
        text
    }
}

impl Drop for TestSandbox {
    fn drop(&mut self) {
        self.clear_work();
    }
}

/// Mounts all directories of the machine read-only, with an empty `/run` and `/tmp`.
fn machine_mounts() -> Vec<Mount> {
    let mut mounts = Vec::new();
    for entry in std::fs::read_dir("/").unwrap() {
        let at = entry.unwrap().path();
        let kind = at.symlink_metadata().unwrap().file_type();
        let source = match at.to_str() {
            Some("/proc" | "/dev") => continue,
            Some("/run" | "/tmp") => MountSource::Directory,
            _ if kind.is_symlink() => MountSource::Link(std::fs::read_link(&at).unwrap()),
            _ if kind.is_dir() => MountSource::ReadOnly(object(&at)),
            _ => continue,
        };
        mounts.push(Mount { at, source });
    }
    mounts
}

pub(crate) fn object(path: &Path) -> PathHandle {
    PathHandle::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn overlay(lower: &Path, upper: &Path, work: &Path) -> MountSource {
    let upper = OverlayUpper { upper: object(upper), work: object(work) };
    MountSource::Overlay { lower: vec![object(lower)], upper: Some(upper) }
}

/// Appends mode, links, size, owner, times and content of a file or tree to a text.
fn describe(path: &Path, text: &mut String) {
    let Ok(found) = path.symlink_metadata() else { return };
    let (mode, links, size) = (found.mode(), found.nlink(), found.size());
    let owner = (found.uid(), found.gid());
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    writeln!(text, "{} {mode:o} {links} {size} {owner:?} {times:?}", path.display()).unwrap();
    if found.is_dir() {
        let mut entries: Vec<_> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for entry in entries {
            describe(&entry, text);
        }
    } else if found.is_file() {
        writeln!(text, "{}", String::from_utf8_lossy(&std::fs::read(path).unwrap())).unwrap();
    }
}

/// Opens a user namespace that another program has created, if the variable for that is set.
pub(crate) fn existing_user_namespace() -> Option<BorrowedFd<'static>> {
    static USERS: OnceLock<File> = OnceLock::new();
    std::env::var_os(USERS_VARIABLE)?;
    let made = USERS.get_or_init(|| {
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-current-user", "sh", "-c", "echo; read end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare, of util-linux");
        let mut ready = [0];
        holder.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let made = File::open(format!("/proc/{}/ns/user", holder.id())).unwrap();
        drop(holder.stdin.take());
        assert!(holder.wait().is_ok());
        made
    });
    Some(made.as_fd())
}

pub(crate) fn is_root() -> bool {
    // SAFETY: asks who we are.
    unsafe { libc::geteuid() == 0 }
}

pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = std::io::pipe().unwrap();
    (read.into(), write.into())
}

/// Polls a condition for up to four seconds; panics if it stays false.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..400 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not in time: {what}");
}
