//! Chooses the backend of the sandbox, and confines programs on machines that give us no namespaces.
//!
//! If bubblewrap may create a user namespace, everything holds. Otherwise there is Landlock and a filter of system calls.
//!
//! Landlock can only allow, and what it allows for a directory it allows for everything below. So a file stays unreadable only if its
//! neighbours are allowed one by one, and in a workspace that may be changed nothing can be left out at all, because new files could then
//! be created nowhere. That, and everything else that Landlock alone does not hold, is said of each program that ran on it.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use windlass_core::{
    Access, Backend, Confinement, FileRights, NetworkAccess, ProcessChange, SandboxLevel,
};
use windlass_sandbox::{
    Confined, Fence, Launch, LaunchError, LaunchStep, Mount, MountSource, PathHandle,
    ResourceLimits, View,
};

use super::bubblewrap;
use super::home::HOME_SECRETS;
use super::refusal::Refusal;
use super::session::SessionShared;
use super::{LocalProcesses, ProcessSettings, system};
use crate::survey::Survey;

/// Returns the note for every program that ran with Landlock alone.
pub(super) fn landlock_note() -> String {
    // Since this version, Landlock can confine signals.
    const WITH_SIGNALS: u32 = 6;
    let signals = windlass_sandbox::landlock_version() < WITH_SIGNALS;
    let more = if signals { "; it could end other processes" } else { "" };
    format!("{LANDLOCK_NOTE}{more}")
}

/// Beginning of that note.
const LANDLOCK_NOTE: &str = "weaker sandbox (Landlock alone): nothing it changed can be undone, .git/hooks and other protected \
     paths were not kept from it, nor modes and times of files; local sockets, /tmp, /dev/shm and listing directories \
     with secrets are refused";

/// End of the note about changed protected paths.
const PROTECTED_ADVICE: &str = "look at it before git or any other program acts on it";

/// Directories in which all users leave files or offer services. A program cannot use them with Landlock alone.
const SHARED_DIRECTORIES: &[&str] = &["/tmp", "/var/tmp", "/dev", "/run", "/var/run"];

/// Devices that every program expects.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

impl ProcessSettings {
    /// Returns the settings with `Backend::Auto` replaced by a backend that this machine has.
    ///
    /// ```
    /// use windlass_core::{Backend, Confinement};
    /// use windlass_host::ProcessSettings;
    /// # let workspace = tempfile::tempdir()?;
    /// let confinement = Confinement { backend: Backend::Auto, ..Confinement::default() };
    /// let settings = ProcessSettings { confinement, ..ProcessSettings::default() };
    /// assert_ne!(settings.settled(workspace.path()).confinement.backend, Backend::Auto);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn settled(mut self, workspace: &Path) -> Self {
        let Confinement { level, backend, .. } = &mut self.confinement;
        if *backend == Backend::Auto {
            let is_needed = *level != SandboxLevel::Off;
            *backend = if is_needed && !has_namespaces(workspace) {
                Backend::Landlock
            } else {
                Backend::Namespaces
            };
        }
        self
    }
}

/// Returns whether this machine lets us create namespaces and mount a view in them. Tried once per process.
fn has_namespaces(workspace: &Path) -> bool {
    static HAS_NAMESPACES: OnceLock<bool> = OnceLock::new();
    *HAS_NAMESPACES.get_or_init(|| match try_view(workspace) {
        Err(LaunchError::Surroundings { .. }) => false,
        // The view was set up and only the program was missing. Other errors have nothing to do with namespaces.
        _ => true,
    })
}

/// Sets up a view for a program that does not exist, and returns the error.
fn try_view(workspace: &Path) -> Result<(), LaunchError> {
    let workspace = workspace.canonicalize().map_err(LaunchError::Machine)?;
    let (_, output) = io::pipe().map_err(LaunchError::Machine)?;
    let object = PathHandle::open(&workspace).map_err(LaunchError::Machine)?;
    let workspace_mount = Mount { at: workspace.clone(), source: MountSource::ReadOnly(object) };
    let mut launch = Launch {
        program: PathBuf::from("/dev/null/no-program"),
        arguments: vec!["no-program".into()],
        environment: Vec::new(),
        directory: workspace.clone(),
        stdin: None,
        output: output.as_fd(),
        errors: None,
        terminal: false,
        view: Some(View { mounts: vec![workspace_mount], ..View::default() }),
        users: None,
        session: None,
        fence: None,
        limits: ResourceLimits::default(),
        group: None,
    };
    start(&mut launch, &workspace).map(drop)
}

/// Starts a program in our own namespaces or, if that fails, in a user namespace that bubblewrap creates.
fn start(launch: &mut Launch<'_>, workspace: &Path) -> Result<Confined, LaunchError> {
    // Once namespaces of our own have failed, the one from bubblewrap is used for all programs.
    static FROM_BUBBLEWRAP: OnceLock<BorrowedFd<'static>> = OnceLock::new();
    launch.users = FROM_BUBBLEWRAP.get().copied();
    match windlass_sandbox::launch(launch) {
        Err(error) if launch.users.is_none() && is_about_namespaces(&error) => {
            let Ok(users) = bubblewrap::user_namespace(workspace) else { return Err(error) };
            launch.users = Some(*FROM_BUBBLEWRAP.get_or_init(|| users));
            windlass_sandbox::launch(launch)
        }
        other => other,
    }
}

/// Returns whether a launch failed for lack of namespaces. Some machines create namespaces in which then no step works.
fn is_about_namespaces(error: &LaunchError) -> bool {
    let LaunchError::Surroundings { step, .. } = error else { return false };
    matches!(step, LaunchStep::Namespaces | LaunchStep::Identity | LaunchStep::Mounts)
}

impl LocalProcesses {
    /// Starts a program with the backend of the settings.
    pub(super) fn start_with_backend(&self, launch: &mut Launch<'_>) -> Result<Confined, Refusal> {
        if launch.view.is_none() || self.settings.confinement.backend != Backend::Bubblewrap {
            return Ok(start(launch, &self.workspace)?);
        }
        let users = bubblewrap::user_namespace(&self.workspace);
        launch.users = Some(users.map_err(|why| Refusal::Backend {
            why: why.to_string(),
            instead: "install bubblewrap, or leave sandbox_backend out of the configuration".into(),
        })?);
        Ok(windlass_sandbox::launch(launch)?)
    }

    /// Returns whether programs are confined by Landlock alone.
    pub(super) fn uses_landlock_alone(&self) -> bool {
        let confinement = &self.settings.confinement;
        confinement.level != SandboxLevel::Off && confinement.backend == Backend::Landlock
    }

    /// Returns the rules for Landlock and the filter of a program without a view.
    pub(super) fn landlock_fence(
        &self,
        access: Access,
        survey: &Survey,
        rights: &FileRights,
        places: &SessionShared,
        network: &NetworkAccess,
    ) -> Result<Fence, Refusal> {
        let mut writable = vec![places.temporary.path.clone()];
        let mut hidden = canonical_paths(self.hidden_paths(survey, rights));
        self.check_landlock_suffices(access, &hidden)?;
        hidden.extend(canonical_paths(SHARED_DIRECTORIES.iter().map(PathBuf::from).collect()));
        let mut readable = Vec::new();
        allow_all_except(Path::new("/"), &hidden, &mut readable);
        writable.extend(DEVICES.iter().map(PathBuf::from));
        if access == Access::Read {
            // The workspace may lie in a hidden path, and have one in it.
            hidden.retain(|path| !self.workspace.starts_with(path));
            allow_all_except(&self.workspace, &hidden, &mut readable);
        } else {
            writable.push(self.workspace.clone());
        }
        let is_open = *network == NetworkAccess::Full;
        Ok(Fence {
            readable,
            writable,
            internet: is_open,
            connect: is_open,
            without_attributes: false,
        })
    }

    /// Returns the paths that a program without a view must not read, without those below another one.
    fn hidden_paths(&self, survey: &Survey, rights: &FileRights) -> Vec<PathBuf> {
        let mut hidden = system::masked(&self.index(Path::new("/etc")));
        if let Some(home) = std::env::home_dir() {
            hidden.extend(HOME_SECRETS.iter().map(|secret| home.join(secret)));
        }
        hidden.push(self.state());
        hidden.extend(rights.denied());
        hidden.extend(survey.masked.iter().map(|(path, _)| self.workspace.join(path)));
        hidden.retain(|path| path.exists() && !self.workspace.starts_with(path));
        hidden.sort();
        hidden.dedup_by(|next, kept| next.starts_with(kept));
        hidden
    }

    /// Refuses a confinement that Landlock alone cannot hold.
    fn check_landlock_suffices(&self, access: Access, hidden: &[PathBuf]) -> Result<(), Refusal> {
        let Confinement { level, network, .. } = &self.settings.confinement;
        let refuse = |why: &str, instead: &str| {
            Err(Refusal::Backend { why: why.to_owned(), instead: instead.to_owned() })
        };
        if matches!(level, SandboxLevel::Staged | SandboxLevel::Discard) && access != Access::Read {
            return refuse(
                "Landlock holds no changes back to be looked at: that takes an overlay, and namespaces to mount it in",
                "--sandbox workspace lets commands change the workspace itself, which cannot be undone; --sandbox read-only lets them change nothing",
            );
        }
        if matches!(network, NetworkAccess::Hosts(_)) {
            return refuse(
                "Landlock knows ports, not hosts: a program that may reach the proxy could reach any program that listens on the same port elsewhere",
                "--net none or --net full",
            );
        }
        let inside = hidden.iter().find(|path| path.starts_with(&self.workspace));
        if let Some(path) = inside.filter(|_| access != Access::Read) {
            let name = windlass_core::quote::path(path);
            return refuse(
                &format!(
                    "{name} must stay unreadable and lies in the workspace, and Landlock cannot leave it out of what may be changed"
                ),
                "--sandbox read-only, or a workspace that has no secrets in it",
            );
        }
        Ok(())
    }

    /// Returns the protected paths of the workspace, which Landlock alone does not protect.
    pub(super) fn unprotected(&self, survey: &Survey) -> Vec<PathBuf> {
        self.protected_by_name(survey).into_iter().map(|(path, _)| path).collect()
    }
}

/// Returns the note about changed protected paths, if there are any.
pub(super) fn protected_change_note(
    changes: &[ProcessChange],
    workspace: &Path,
    protected: &[PathBuf],
) -> Option<String> {
    let is_changed = |place: &&PathBuf| {
        let place = workspace.join(place);
        // A directory above the path may be gone or replaced.
        changes.iter().any(|change| {
            change.path.starts_with(&place)
                || (change.before.is_some() && place.starts_with(&change.path))
        })
    };
    let names: Vec<_> = protected
        .iter()
        .filter(is_changed)
        .map(|place| windlass_core::quote::path(place))
        .collect();
    (!names.is_empty())
        .then(|| format!("CHANGED ALTHOUGH PROTECTED: {}; {PROTECTED_ADVICE}", names.join(", ")))
}

/// Returns the canonical paths, without those that do not exist.
fn canonical_paths(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter_map(|path| path.canonicalize().ok()).collect()
}

/// Adds everything below a path except hidden paths. Links are left out: their targets are allowed at their own path, or not at all.
fn allow_all_except(path: &Path, hidden: &[PathBuf], allowed: &mut Vec<PathBuf>) {
    if hidden.iter().any(|hidden| hidden == path) {
        return;
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return allowed.push(path.to_owned());
    }
    // A directory that cannot be listed is not allowed.
    for entry in path.read_dir().into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            allow_all_except(&entry.path(), hidden, allowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{ChangedTo, Fingerprint};

    use super::*;

    #[test]
    fn neighbours_of_hidden_paths_are_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for path in ["home/.ssh/keys", "home/work", "home/.config/gh", "home/.config/git", "usr"] {
            std::fs::create_dir_all(base.join(path)).unwrap();
        }
        std::fs::write(base.join("home/notes"), "").unwrap();
        std::os::unix::fs::symlink(".ssh", base.join("home/link")).unwrap();
        let hidden = ["home/.ssh", "home/.config/gh"].map(|path| base.join(path));
        let mut allowed = Vec::new();
        allow_all_except(&base, &hidden, &mut allowed);
        allowed.sort();
        let names: Vec<_> = allowed
            .iter()
            .map(|path| path.strip_prefix(&base).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["home/.config/git", "home/notes", "home/work", "usr"]);
    }

    #[test]
    fn changed_protected_paths_are_named() {
        let protected = [".git/hooks", ".git/config", ".mcp.json"].map(PathBuf::from);
        for (changed, named) in [
            (vec!["/w/a", "/w/.git/hooks-not", "/w/.git/index"], None),
            (vec!["/w/.git/hooks/pre-commit", "/w/.git/hooks/b"], Some(".git/hooks; ")),
            (vec!["/w/a", "/w/.mcp.json", "/w/.git/config"], Some(".git/config, .mcp.json; ")),
            (vec!["/w/.git"], Some(".git/hooks, .git/config; ")),
        ] {
            let seen = Fingerprint { device: 1, inode: 7, len: 12, modified: 1, changed: 1 };
            let change = |path: &&str| ProcessChange {
                path: PathBuf::from(path),
                before: Some(seen),
                to: ChangedTo::Nothing,
            };
            let changes: Vec<_> = changed.iter().map(change).collect();
            let said = protected_change_note(&changes, Path::new("/w"), &protected);
            let wanted =
                named.map(|named| format!("CHANGED ALTHOUGH PROTECTED: {named}{PROTECTED_ADVICE}"));
            assert_eq!(said, wanted);
        }
    }
}
