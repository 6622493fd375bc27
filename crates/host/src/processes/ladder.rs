//! What confines programs on machines that give out no namespaces to us.
//!
//! Bubblewrap may be let make one; then all holds. The lower rung is made of Landlock and a filter of system calls.
//!
//! Landlock only ever allows, and what it allows of a directory it allows of all below. So what shall stay unreadable is left out by
//! allowing its neighbours one by one; and what shall stay unchanged in a workspace that may be changed cannot be left out at all:
//! new files could then be made nowhere. That, and all else that this rung does not hold, is said wherever a program ran on it.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use windlass_core::{
    Access, Backend, Confinement, FileRights, Level, NetworkAccess, ProcessChange,
};
use windlass_sandbox::{
    Confined, Fence, Launch, LaunchError, Limits, Mount, Object, Source, Step, View,
};

use super::bubblewrap;
use super::home::HOME_SECRETS;
use super::refusal::Refusal;
use super::session::SharedPlaces;
use super::{LocalProcesses, ProcessSettings, system};
use crate::survey::Survey;

/// What is said of every program that ran on the lower rung.
pub(super) fn note() -> String {
    // From this version on, Landlock keeps signals in.
    const WITH_SIGNALS: u32 = 6;
    let signals = windlass_sandbox::landlock_version() < WITH_SIGNALS;
    let more = if signals { "; it could end other processes" } else { "" };
    format!("{NOTE}{more}")
}

const NOTE: &str = "weaker sandbox (Landlock alone): nothing it changed can be undone, .git/hooks and other protected \
     places were not kept from it, nor modes and times of files; local sockets, /tmp, /dev/shm and listing directories \
     with secrets are refused";

/// What follows where a protected place was changed.
const LOOK: &str = "look at it before git or any other program acts on it";

/// Directories in which everybody leaves things for others, or offers services: a program cannot use them.
const COMMON: &[&str] = &["/tmp", "/var/tmp", "/dev", "/run", "/var/run"];

/// Devices that every program expects.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

impl ProcessSettings {
    /// The same, with a back-end that this machine has where any would do.
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
            let is_needed = *level != Level::Off;
            *backend = if is_needed && !gives_namespaces(workspace) {
                Backend::Landlock
            } else {
                Backend::Namespaces
            };
        }
        self
    }
}

/// Whether this machine gives out namespaces, and lets a view be made in them: found out by making one, once.
fn gives_namespaces(workspace: &Path) -> bool {
    static GIVES: OnceLock<bool> = OnceLock::new();
    *GIVES.get_or_init(|| match try_view(workspace) {
        Err(LaunchError::Surroundings { .. }) => false,
        // All was ready for a program, and there was none. What else can go wrong has nothing to do with namespaces.
        _ => true,
    })
}

fn try_view(workspace: &Path) -> Result<(), LaunchError> {
    let workspace = workspace.canonicalize().map_err(LaunchError::Machine)?;
    let (_, output) = io::pipe().map_err(LaunchError::Machine)?;
    let object = Object::open(&workspace).map_err(LaunchError::Machine)?;
    let workspace_mount = Mount { at: workspace.clone(), source: Source::ReadOnly(object) };
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
        limits: Limits::default(),
        group: None,
    };
    start(&mut launch, &workspace).map(drop)
}

/// Starts a program in namespaces of our own or, where we may make none, in one of users that bubblewrap makes.
fn start(launch: &mut Launch<'_>, workspace: &Path) -> Result<Confined, LaunchError> {
    // Once this machine has given us none it need not be asked again.
    static GIVEN: OnceLock<BorrowedFd<'static>> = OnceLock::new();
    launch.users = GIVEN.get().copied();
    match windlass_sandbox::launch(launch) {
        Err(error) if launch.users.is_none() && is_about_namespaces(&error) => {
            let Ok(users) = bubblewrap::users(workspace) else { return Err(error) };
            launch.users = Some(*GIVEN.get_or_init(|| users));
            windlass_sandbox::launch(launch)
        }
        other => other,
    }
}

/// Some machines give out namespaces in which then nothing can be done.
fn is_about_namespaces(error: &LaunchError) -> bool {
    let LaunchError::Surroundings { step, .. } = error else { return false };
    matches!(step, Step::Namespaces | Step::Identity | Step::Mounts)
}

impl LocalProcesses {
    /// Starts a program on the rung that is settled for.
    pub(super) fn climb(&self, launch: &mut Launch<'_>) -> Result<Confined, Refusal> {
        if launch.view.is_none() || self.settings.confinement.backend != Backend::Bubblewrap {
            return Ok(start(launch, &self.workspace)?);
        }
        let users = bubblewrap::users(&self.workspace);
        launch.users = Some(users.map_err(|why| Refusal::Rung {
            why,
            instead: "install bubblewrap, or leave sandbox_backend out of the configuration".into(),
        })?);
        Ok(windlass_sandbox::launch(launch)?)
    }

    /// Whether programs are confined by Landlock alone.
    pub(super) fn is_on_lower_rung(&self) -> bool {
        let confinement = &self.settings.confinement;
        confinement.level != Level::Off && confinement.backend == Backend::Landlock
    }

    /// What Landlock and a filter allow a program that has no view of its own.
    pub(super) fn lone_fence(
        &self,
        access: Access,
        survey: &Survey,
        rights: &FileRights,
        places: &SharedPlaces,
        network: &NetworkAccess,
    ) -> Result<Fence, Refusal> {
        let mut writable = vec![places.temporary.path.clone()];
        let mut hidden = real(self.hidden(survey, rights));
        self.check_rung(access, &hidden)?;
        hidden.extend(real(COMMON.iter().map(PathBuf::from).collect()));
        let mut readable = Vec::new();
        allow_all_but(Path::new("/"), &hidden, &mut readable);
        writable.extend(DEVICES.iter().map(PathBuf::from));
        if access == Access::Read {
            // It may lie in a place that is hidden, and have one in it.
            hidden.retain(|path| !self.workspace.starts_with(path));
            allow_all_but(&self.workspace, &hidden, &mut readable);
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

    /// Files and directories that a program without a view must not read. Nothing can be left out below what is.
    fn hidden(&self, survey: &Survey, rights: &FileRights) -> Vec<PathBuf> {
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

    /// What this rung cannot hold at all is refused.
    fn check_rung(&self, access: Access, hidden: &[PathBuf]) -> Result<(), Refusal> {
        let Confinement { level, network, .. } = &self.settings.confinement;
        let refuse = |why: &str, instead: &str| {
            Err(Refusal::Rung { why: why.to_owned(), instead: instead.to_owned() })
        };
        if matches!(level, Level::Staged | Level::Discard) && access != Access::Read {
            return refuse(
                "Landlock holds no changes back to be looked at: that takes an overlay, and namespaces to mount it in",
                "--sandbox workspace lets commands change the workspace itself, which cannot be undone; --sandbox read-only lets them change nothing",
            );
        }
        if matches!(network, NetworkAccess::Hosts(_)) {
            return refuse(
                "Landlock knows ports, not hosts: a program that may reach the proxy could reach whoever listens on the same port elsewhere",
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

    /// The places of the workspace that a program would be kept from on a higher rung.
    pub(super) fn unprotected(&self, survey: &Survey) -> Vec<PathBuf> {
        self.protected_places(survey).into_iter().map(|(path, _)| path).collect()
    }
}

/// What is to be said where a program changed what it would elsewhere be kept from, if it did.
pub(super) fn changed_although_protected(
    changes: &[ProcessChange],
    workspace: &Path,
    protected: &[PathBuf],
) -> Option<String> {
    let is_changed = |place: &&PathBuf| {
        let place = workspace.join(place);
        // What is above it may be gone, or another.
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
    (!names.is_empty()).then(|| format!("CHANGED ALTHOUGH PROTECTED: {}; {LOOK}", names.join(", ")))
}

/// Where things really are; what is not there is left out.
fn real(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter_map(|path| path.canonicalize().ok()).collect()
}

/// Everything below a place but what is hidden. Links are left out: what they lead to is allowed where it is, or not at all.
fn allow_all_but(path: &Path, hidden: &[PathBuf], allowed: &mut Vec<PathBuf>) {
    if hidden.iter().any(|hidden| hidden == path) {
        return;
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return allowed.push(path.to_owned());
    }
    // What cannot be listed is not ours to allow.
    for entry in path.read_dir().into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            allow_all_but(&entry.path(), hidden, allowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{ChangedTo, Fingerprint};

    use super::*;

    #[test]
    fn neighbours_of_what_is_hidden_are_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for path in ["home/.ssh/keys", "home/work", "home/.config/gh", "home/.config/git", "usr"] {
            std::fs::create_dir_all(base.join(path)).unwrap();
        }
        std::fs::write(base.join("home/notes"), "").unwrap();
        std::os::unix::fs::symlink(".ssh", base.join("home/link")).unwrap();
        let hidden = ["home/.ssh", "home/.config/gh"].map(|path| base.join(path));
        let mut allowed = Vec::new();
        allow_all_but(&base, &hidden, &mut allowed);
        allowed.sort();
        let names: Vec<_> = allowed
            .iter()
            .map(|path| path.strip_prefix(&base).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["home/.config/git", "home/notes", "home/work", "usr"]);
    }

    #[test]
    fn what_was_changed_although_protected_is_named() {
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
            let said = changed_although_protected(&changes, Path::new("/w"), &protected);
            let wanted = named.map(|named| format!("CHANGED ALTHOUGH PROTECTED: {named}{LOOK}"));
            assert_eq!(said, wanted);
        }
    }
}
