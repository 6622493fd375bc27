//! What a program knows from the beginning: a list of names, not all that we know.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use windlass_core::{Access, NetworkAccess, ProcessRequest};

use super::{LocalProcesses, PlannedConfinement, toolchains};
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
    pub(super) fn environment(
        &self,
        request: &ProcessRequest,
        confinement: &PlannedConfinement,
    ) -> Vec<OsString> {
        let is_confined = self.is_confined();
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        let mut set = |name: &OsStr, value: &OsStr| put(&mut variables, name, value);
        set("PATH".as_ref(), USUAL_PATH.as_ref());
        for (name, value) in std::env::vars_os() {
            match name.to_str() {
                Some("PATH") => set(&name, &self.search_path(&value, request.access)),
                _ if self.is_inherited(&name) => set(&name, &value),
                _ => {}
            }
        }
        plain_locale(&mut variables);
        let mut set = |name: &OsStr, value: &OsStr| put(&mut variables, name, value);
        if is_confined {
            // The directory of the outside is not there.
            set("TMPDIR".as_ref(), confinement.temporary.as_os_str());
        }
        if let Some(home) = &confinement.home {
            set("HOME".as_ref(), home.as_os_str());
        }
        if request.terminal.is_some() {
            set("TERM".as_ref(), "xterm-256color".as_ref());
        }
        // Nobody is there to answer.
        for (name, value) in [("GIT_TERMINAL_PROMPT", "0"), ("PAGER", "cat"), ("GIT_PAGER", "cat")]
        {
            set(name.as_ref(), value.as_ref());
        }
        // The workspace is a mount of its own, and a repository may begin above it.
        set("GIT_DISCOVERY_ACROSS_FILESYSTEM".as_ref(), "1".as_ref());
        set("DEBIAN_FRONTEND".as_ref(), "noninteractive".as_ref());
        for setting in &self.settings.environment {
            if let Some((name, value)) = setting.split_once('=') {
                set(name.as_ref(), value.as_ref());
            }
        }
        if is_confined && matches!(self.network(request), NetworkAccess::Hosts(_)) {
            for (name, value) in Proxy::environment(confinement.port) {
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
            || toolchains::variables().any(|known| known == name)
            || name.starts_with(LOCALE)
            || self.settings.environment.iter().any(|wanted| wanted == name)
    }
}

fn put(variables: &mut Vec<(OsString, OsString)>, name: &OsStr, value: &OsStr) {
    variables.retain(|(known, _)| known != name);
    variables.push((name.to_owned(), value.to_owned()));
}

/// Who says UTF-8 and nothing else means what characters are. Said of a whole locale, every program begins with reading a dozen
/// files of it that say nothing new: a shell takes a seventh longer to start.
fn plain_locale(variables: &mut Vec<(OsString, OsString)>) {
    const PLAIN: [&str; 2] = ["C.UTF-8", "C.utf8"];
    let says_more =
        variables.iter().any(|(name, _)| name.as_bytes().starts_with(LOCALE.as_bytes()));
    let plain = |(name, value): &(OsString, OsString)| {
        name == "LANG" && PLAIN.iter().any(|plain| value == plain)
    };
    if let Some(place) = variables.iter().position(plain).filter(|_| !says_more) {
        let (_, value) = variables.remove(place);
        put(variables, "LC_CTYPE".as_ref(), &value);
    }
}

fn joined(name: &OsStr, value: &OsStr) -> OsString {
    let mut joined = name.to_owned();
    joined.push("=");
    joined.push(value);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_only_utf_8_says_it_of_characters() {
        for (given, wanted) in [
            ("A=1 LANG=C.UTF-8", "A=1 LC_CTYPE=C.UTF-8"),
            ("LANG=C.utf8 B=2", "B=2 LC_CTYPE=C.utf8"),
            ("LANG=de_DE.UTF-8", "LANG=de_DE.UTF-8"),
            ("LANG=C", "LANG=C"),
            ("LANG=C.UTF-8 LC_TIME=de_DE.UTF-8", "LANG=C.UTF-8 LC_TIME=de_DE.UTF-8"),
            ("LC_ALL=C LANG=C.UTF-8", "LC_ALL=C LANG=C.UTF-8"),
            ("A=1", "A=1"),
        ] {
            let pair = |word: &str| word.split_once('=').map(|(a, b)| (a.into(), b.into()));
            let mut variables: Vec<_> = given.split(' ').filter_map(pair).collect();
            plain_locale(&mut variables);
            let words: Vec<_> = variables.iter().map(|(name, value)| joined(name, value)).collect();
            assert_eq!(words.join(" ".as_ref()), wanted, "{given}");
        }
    }
}
