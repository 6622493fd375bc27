//! What a program knows from the beginning: a list of names, not all that we know.

use std::ffi::{OsStr, OsString};

use windlass_core::{Access, NetworkAccess, ProcessRequest};

use super::LocalProcesses;
use crate::proxy::Proxy;

/// Names that every program gets, if they are set.
const INHERITED: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "TMPDIR"];

/// The beginning of names that say how to write numbers and dates.
const LOCALE: &str = "LC_";

/// Where programs are where nobody says so.
pub(super) const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl LocalProcesses {
    /// All variables of a program, as `NAME=value`.
    pub(super) fn environment(&self, request: &ProcessRequest, is_confined: bool) -> Vec<OsString> {
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        let mut set = |name: &OsStr, value: &OsStr| {
            variables.retain(|(known, _)| known != name);
            variables.push((name.to_owned(), value.to_owned()));
        };
        set("PATH".as_ref(), USUAL_PATH.as_ref());
        for (name, value) in std::env::vars_os() {
            match name.to_str() {
                Some("PATH") => set(&name, &self.search_path(&value, request.access)),
                _ if self.is_inherited(&name) => set(&name, &value),
                _ => {}
            }
        }
        if is_confined {
            // The directory of the outside is not there.
            set("TMPDIR".as_ref(), self.temporary_name());
        }
        if request.terminal.is_some() {
            set("TERM".as_ref(), "xterm-256color".as_ref());
        }
        // Nobody is there to answer.
        for (name, value) in [("GIT_TERMINAL_PROMPT", "0"), ("PAGER", "cat"), ("GIT_PAGER", "cat")]
        {
            set(name.as_ref(), value.as_ref());
        }
        set("DEBIAN_FRONTEND".as_ref(), "noninteractive".as_ref());
        for setting in &self.settings.environment {
            if let Some((name, value)) = setting.split_once('=') {
                set(name.as_ref(), value.as_ref());
            }
        }
        if is_confined && matches!(self.settings.confinement.network, NetworkAccess::Hosts(_)) {
            for (name, value) in Proxy::environment(windlass_sandbox::LISTENER_PORT) {
                set(name.as_ref(), value.as_ref());
            }
        }
        for (name, value) in &request.environment {
            set(name.as_ref(), value.as_ref());
        }
        variables.into_iter().map(|(name, value)| joined(&name, &value)).collect()
    }

    /// Where programs are looked for: never in the present directory, whatever that is. What may only look was allowed because of
    /// what the programs of the system are known to do, so it finds none that lies in the workspace.
    fn search_path(&self, path: &OsStr, access: Access) -> OsString {
        let only_looks = access == Access::Read;
        let kept = std::env::split_paths(path).filter(|directory| {
            directory.is_absolute() && !(only_looks && directory.starts_with(&self.workspace))
        });
        std::env::join_paths(kept).unwrap_or_else(|_| USUAL_PATH.into())
    }

    fn is_inherited(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return false };
        INHERITED.contains(&name)
            || name.starts_with(LOCALE)
            || self.settings.environment.iter().any(|wanted| wanted == name)
    }
}

fn joined(name: &OsStr, value: &OsStr) -> OsString {
    let mut joined = name.to_owned();
    joined.push("=");
    joined.push(value);
    joined
}
