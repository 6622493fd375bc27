//! What a confined program sees and may change, put together from the settings and from what is on this machine.

use std::io;
use std::path::{Path, PathBuf};

use windlass_core::{Access, NetworkAccess};
use windlass_sandbox::{Fence, Network, Protected, View};

use super::LocalProcesses;
use crate::stage::Stage;

/// Where people keep secrets, below their home directory.
const SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".azure",
    ".kube",
    ".password-store",
    ".local/share/keyrings",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/windlass",
    ".config/google-chrome",
    ".config/chromium",
    ".mozilla",
    ".thunderbird",
    ".docker/config.json",
    ".docker/run",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
];

/// The same of the machine.
const SYSTEM_SECRETS: &[&str] =
    &["/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh", "/etc/sudoers.d"];

/// Places of the workspace that other programs act on, and whether they are directories.
const PROTECTED: &[(&str, bool)] = &[
    (".git/hooks", true),
    (".git/config", false),
    (".git/config.worktree", false),
    (".windlass", true),
    (".mcp.json", false),
    (".aiexclude", false),
];

/// The same, but only where something is there: what appears later has to be trusted before it acts.
const PROTECTED_IF_THERE: &[&str] = &[
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".hex/settings.json",
    ".hygge/hooks.toml",
    ".agents/hooks.toml",
];

/// The same where the workspace is a home directory: what shells read when they start.
const PROTECTED_AT_HOME: &[(&str, bool)] = &[
    (".bashrc", false),
    (".bash_profile", false),
    (".bash_login", false),
    (".bash_logout", false),
    (".profile", false),
    (".zshrc", false),
    (".zshenv", false),
    (".zprofile", false),
    (".zlogin", false),
    (".config/fish", true),
    (".config/windlass", true),
];

/// Where programs offer their services to others.
pub(super) const MEETING_PLACES: &[&str] = &["/run", "/var/run"];

/// What is looked for there by those who only want to know something.
pub(super) const KEPT: &[&str] = &[
    "/run/current-system",
    "/run/booted-system",
    "/run/wrappers",
    "/run/opengl-driver",
    "/run/systemd/resolve",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
];

impl LocalProcesses {
    pub(super) fn view(
        &self,
        access: Access,
        stage: Option<&Stage>,
        passed: &[PathBuf],
        hidden: &[PathBuf],
    ) -> io::Result<View> {
        let stage = match (access, stage) {
            (Access::Staged, Some(stage)) => windlass_sandbox::Stage::Overlay {
                upper: stage.upper().to_owned(),
                work: stage.work().to_owned(),
            },
            (Access::Direct, _) => windlass_sandbox::Stage::Direct,
            _ => windlass_sandbox::Stage::ReadOnly,
        };
        let temporary_is_free =
            ["/tmp", "/var/tmp"].iter().all(|path| !Path::new(path).starts_with(&self.workspace));
        Ok(View {
            workspace: self.workspace.clone(),
            stage,
            writable: passed.to_vec(),
            temporary: temporary_is_free
                .then(|| self.temporary().map(Path::to_owned))
                .transpose()?,
            protected: self.protected(access),
            hidden: self.hidden(hidden),
            emptied: MEETING_PLACES
                .iter()
                .map(PathBuf::from)
                .filter(|path| is_real_directory(path))
                .collect(),
            kept: KEPT.iter().map(PathBuf::from).filter(|path| path.exists()).collect(),
            network: match self.settings.confinement.network {
                NetworkAccess::None => Network::Own,
                NetworkAccess::Hosts(_) => Network::Listener,
                NetworkAccess::Full => Network::Shared,
            },
        })
    }

    pub(super) fn fence(&self, access: Access) -> Fence {
        let mut writable: Vec<PathBuf> =
            ["/tmp", "/var/tmp", "/dev", "/proc"].map(PathBuf::from).to_vec();
        if access != Access::Read {
            writable.push(self.workspace.clone());
        }
        Fence { readable: vec!["/".into()], writable, internet: true, connect: true }
    }

    /// What no program can look into, with what this one cannot. Nothing can be covered below what is.
    pub(super) fn hidden(&self, more: &[PathBuf]) -> Vec<PathBuf> {
        let mut hidden: Vec<PathBuf> = SYSTEM_SECRETS.iter().map(PathBuf::from).collect();
        if let Some(home) = std::env::home_dir() {
            hidden.extend(SECRETS.iter().map(|secret| home.join(secret)));
        }
        hidden.extend(self.settings.hidden.iter().cloned());
        hidden.push(self.state());
        hidden.extend(more.iter().cloned());
        hidden.retain(|path| path.exists() && !self.workspace.starts_with(path));
        hidden.sort();
        hidden.dedup_by(|next, kept| next.starts_with(kept));
        hidden
    }

    /// What must stay as it is. An empty file that stands for one that is not there would be seen by whoever lists files, and be
    /// added to version control; on a stage it is enough that such a file is not taken over.
    fn protected(&self, access: Access) -> Vec<Protected> {
        let mut protected: Vec<Protected> = Vec::new();
        for (path, is_directory) in self.protected_places() {
            let (path, is_directory) = self.outermost_missing(path, is_directory);
            if access == Access::Staged
                && !is_directory
                && self.workspace.join(&path).symlink_metadata().is_err()
            {
                continue;
            }
            if !protected.iter().any(|known| path.starts_with(&known.path)) {
                protected.push(Protected { path, is_directory });
            }
        }
        protected
    }

    /// The same by name, be they there or not, and whether they are directories.
    pub(super) fn protected_places(&self) -> impl Iterator<Item = (PathBuf, bool)> {
        let at_home = std::env::home_dir().is_some_and(|home| home == self.workspace);
        let usual = PROTECTED.iter().chain(if at_home { PROTECTED_AT_HOME } else { &[] });
        let usual = usual.map(|(path, is_directory)| (PathBuf::from(path), *is_directory));
        let is_there = |path: &PathBuf| self.workspace.join(path).symlink_metadata().is_ok();
        let there = PROTECTED_IF_THERE.iter().map(PathBuf::from).filter(is_there);
        let usual = usual.chain(there.map(|path| (path, false)));
        usual.chain(self.settings.protected.iter().map(|path| (path.clone(), true)))
    }

    /// Where nothing is there of a directory above, that one stands for all that could be in it.
    fn outermost_missing(&self, path: PathBuf, is_directory: bool) -> (PathBuf, bool) {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for directory in above.into_iter().filter(|path| !path.as_os_str().is_empty()) {
            let place = self.workspace.join(directory);
            match place.symlink_metadata() {
                Err(_) => return (directory.to_owned(), true),
                // A file, or a link: what is behind it lies elsewhere.
                Ok(found) if !found.is_dir() => return (directory.to_owned(), false),
                Ok(_) => {}
            }
        }
        (path, is_directory)
    }
}

fn is_real_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}
