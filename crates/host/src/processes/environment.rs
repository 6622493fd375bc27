//! Computes the environment variables of a program: a fixed list of names, not our whole environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use windlass_core::{Access, NetworkAccess, ProcessRequest};

use super::{LocalProcesses, PlannedConfinement, toolchains};
use crate::proxy::Proxy;

/// Names of variables that every program inherits.
const INHERITED: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "TMPDIR"];

/// Prefix of the variables for formats of numbers and dates.
const LOCALE_PREFIX: &str = "LC_";

/// Settings that make clients fail at once without a network, instead of trying again for up to a minute. None of them changes what a
/// client does otherwise, or hides from its message that a host was not reached. So there is no `--offline`, with which cargo would resolve
/// other versions; and `pip` may try twice, because it reports only a second try.
const WITHOUT_NETWORK: &[(&str, &str)] = &[
    ("npm_config_fetch_retries", "0"),
    ("YARN_HTTP_RETRY", "0"),
    ("PIP_RETRIES", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("UV_HTTP_RETRIES", "0"),
    ("CONDA_REMOTE_MAX_RETRIES", "0"),
    ("CARGO_NET_RETRY", "0"),
    ("RUSTUP_MAX_RETRIES", "0"),
    ("BUNDLE_RETRY", "0"),
];

/// Value of `PATH` if none is set.
pub(super) const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl LocalProcesses {
    /// Returns all variables of a program, as `NAME=value`.
    pub(super) fn environment(
        &self,
        request: &ProcessRequest,
        confinement: &PlannedConfinement,
    ) -> Vec<OsString> {
        let is_confined = self.is_confined();
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        let mut set = |name: &OsStr, value: &OsStr| set_variable(&mut variables, name, value);
        set("PATH".as_ref(), DEFAULT_PATH.as_ref());
        for (name, value) in std::env::vars_os() {
            match name.to_str() {
                Some("PATH") => set(&name, &self.search_path(&value, request.access)),
                _ if self.is_inherited(&name) => set(&name, &value),
                _ => {}
            }
        }
        simplify_plain_locale(&mut variables);
        let mut set = |name: &OsStr, value: &OsStr| set_variable(&mut variables, name, value);
        if is_confined {
            // The directory outside of the view does not exist in it.
            set("TMPDIR".as_ref(), confinement.temporary.as_os_str());
        }
        if let Some(home) = &confinement.home {
            set("HOME".as_ref(), home.as_os_str());
        }
        if request.terminal.is_some() {
            set("TERM".as_ref(), "xterm-256color".as_ref());
        }
        // No person is there to answer a prompt.
        for (name, value) in [("GIT_TERMINAL_PROMPT", "0"), ("PAGER", "cat"), ("GIT_PAGER", "cat")]
        {
            set(name.as_ref(), value.as_ref());
        }
        // The workspace is a mount of its own, and its repository may begin above it.
        set("GIT_DISCOVERY_ACROSS_FILESYSTEM".as_ref(), "1".as_ref());
        set("DEBIAN_FRONTEND".as_ref(), "noninteractive".as_ref());
        for setting in &self.settings.environment {
            if let Some((name, value)) = setting.split_once('=') {
                set(name.as_ref(), value.as_ref());
            }
        }
        match self.network(request) {
            NetworkAccess::Hosts(hosts) if is_confined => {
                for (name, value) in Proxy::environment(confinement.port, hosts) {
                    set(name.as_ref(), value.as_ref());
                }
            }
            NetworkAccess::None if is_confined => {
                let outside: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
                add_fail_fast_settings(&mut variables, &outside);
            }
            _ => {}
        }
        let mut set = |name: &OsStr, value: &OsStr| set_variable(&mut variables, name, value);
        for (name, value) in &request.environment {
            set(name.as_ref(), value.as_ref());
        }
        variables.into_iter().map(|(name, value)| joined(&name, &value)).collect()
    }

    /// Returns `PATH` without relative directories. A command that may only read gets no directory in the workspace, because it was allowed
    /// for what the system's programs do.
    fn search_path(&self, path: &OsStr, access: Access) -> OsString {
        let only_looks = access == Access::Read;
        let kept = std::env::split_paths(path).filter(|directory| {
            directory.is_absolute() && !(only_looks && directory.starts_with(&self.workspace))
        });
        std::env::join_paths(kept).unwrap_or_else(|_| DEFAULT_PATH.into())
    }

    /// Returns whether a variable is inherited.
    fn is_inherited(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return false };
        INHERITED.contains(&name)
            || toolchains::variables().any(|known| known == name)
            || name.starts_with(LOCALE_PREFIX)
            || self.settings.environment.iter().any(|wanted| wanted == name)
    }
}

/// Adds the settings of [`WITHOUT_NETWORK`], except those that the variables or our environment have already, because these are a person's
/// choice. Clients read some of them in capitals, too.
fn add_fail_fast_settings(variables: &mut Vec<(OsString, OsString)>, outside: &[OsString]) {
    for (name, value) in WITHOUT_NETWORK {
        let is_it = |known: &OsString| known.eq_ignore_ascii_case(name);
        if !outside.iter().any(is_it) && !variables.iter().any(|(known, _)| is_it(known)) {
            set_variable(variables, name.as_ref(), value.as_ref());
        }
    }
}

/// Sets a variable.
fn set_variable(variables: &mut Vec<(OsString, OsString)>, name: &OsStr, value: &OsStr) {
    variables.retain(|(known, _)| known != name);
    variables.push((name.to_owned(), value.to_owned()));
}

/// Replaces a `LANG` that only chooses UTF-8 by `LC_CTYPE`, if no other locale variable is set. With `LANG`, every program would begin with
/// reading a dozen files of the locale that change nothing: a shell takes a seventh longer to start.
fn simplify_plain_locale(variables: &mut Vec<(OsString, OsString)>) {
    const PLAIN: [&str; 2] = ["C.UTF-8", "C.utf8"];
    let says_more =
        variables.iter().any(|(name, _)| name.as_bytes().starts_with(LOCALE_PREFIX.as_bytes()));
    let plain = |(name, value): &(OsString, OsString)| {
        name == "LANG" && PLAIN.iter().any(|plain| value == plain)
    };
    if let Some(place) = variables.iter().position(plain).filter(|_| !says_more) {
        let (_, value) = variables.remove(place);
        set_variable(variables, "LC_CTYPE".as_ref(), &value);
    }
}

/// Joins a name and a value by `=`.
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
    fn clients_fail_at_once_unless_a_person_sets_otherwise() {
        let names = |words: &str| words.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        let all = WITHOUT_NETWORK.len();
        for (given, outside, count, retries) in [
            ("", "", all, Some("0")),
            ("npm_config_fetch_retries=7", "", all, Some("7")),
            ("", "npm_config_fetch_retries", all - 1, None),
            ("", "NPM_CONFIG_FETCH_RETRIES PATH", all - 1, None),
            ("PIP_RETRIES=7", "CARGO_NET_RETRY", all - 1, Some("0")),
        ] {
            let pair = |word: &str| word.split_once('=').map(|(a, b)| (a.into(), b.into()));
            let mut variables: Vec<_> = given.split_whitespace().filter_map(pair).collect();
            add_fail_fast_settings(&mut variables, &names(outside));
            assert_eq!(variables.len(), count, "{given} {outside}");
            let npm = variables.iter().find(|(name, _)| name == "npm_config_fetch_retries");
            let npm = npm.map(|(_, value)| value.to_str().unwrap());
            assert_eq!(npm, retries, "{given} {outside}");
        }
    }

    #[test]
    fn plain_utf_8_locale_sets_only_the_character_type() {
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
            simplify_plain_locale(&mut variables);
            let words: Vec<_> = variables.iter().map(|(name, value)| joined(name, value)).collect();
            assert_eq!(words.join(" ".as_ref()), wanted, "{given}");
        }
    }
}
