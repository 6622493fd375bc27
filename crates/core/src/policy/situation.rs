//! What a decision depends on besides the call and the rules: the time, and what the session has read before.
//!
//! Text from the web, from an MCP server or from outside the workspace may hold instructions. We cannot keep a model from following
//! them, but we can keep what it then does from carrying anything out unseen: such effects ask, whatever the rules allow.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::public_places;
use crate::effects::is_within;
use crate::{Effect, Effects, Files, PathPattern, below_session_tmp};

/// What a decision depends on besides the call and the rules.
///
/// ```
/// use windlass_core::{Decision, Effect, Effects, Mode, Policy, Situation};
/// let policy = Policy::new(Mode::Auto).allow("net docs.rs".parse()?);
/// let fetch = || Effects::from(Effect::Net { origin: "https://docs.rs".into(), method: "GET".into() });
/// let workspace = "/w".as_ref();
/// let before = policy.decide_in("web_fetch", fetch(), workspace, &Situation::default());
/// assert_eq!(before.decision(), Decision::Allow);
///
/// let untrusted = Situation { untrusted: Some("https://example.org".into()), ..Situation::default() };
/// let after = policy.decide_in("web_fetch", fetch(), workspace, &untrusted);
/// assert_eq!(after.decision(), Decision::Ask);
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Situation {
    /// Which rules have ended. Without it, a rule that ends allows nothing.
    pub now: Option<SystemTime>,
    /// Where the first text came from that somebody else may have written, if the session has read any.
    pub untrusted: Option<String>,
    /// Files whose names may be secret and whose content was found to hold no credential.
    pub harmless: Vec<PathBuf>,
    /// The session has a `/tmp` of its own.
    pub has_session_tmp: bool,
    /// Changed paths that a look at the tree found to be hooks or configuration of git.
    pub git_places: Vec<PathBuf>,
}

impl Situation {
    /// Returns whether a path is in the session's own directory for temporary files.
    pub(super) fn is_tmp(&self, path: &Path, workspace: &Path) -> bool {
        self.has_session_tmp && below_session_tmp(path, workspace).is_some()
    }

    /// The situation as far as it depends on the files of a session.
    pub(crate) fn in_session(files: &dyn Files) -> Self {
        Self { has_session_tmp: files.session_tmp().is_some(), ..Self::default() }
    }
}

/// What programs can do, as far as a decision depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Programs {
    /// They run in a sandbox.
    pub(super) confined: bool,
    /// They reach somebody outside.
    pub(super) connected: bool,
}

/// Why an effect asks in a session that has read what somebody else may have written.
pub(super) fn suspicious(
    effect: &Effect,
    situation: &Situation,
    programs: Programs,
) -> Option<String> {
    let source = situation.untrusted.as_deref()?;
    let could = match effect {
        Effect::Net { .. } | Effect::Mcp { .. } | Effect::Plugin(_) => "carry data out",
        Effect::Exec(command) if command.only_reads() => return None,
        Effect::Exec(_) if programs.connected => "carry data out",
        Effect::Exec(_) if !programs.confined => "run what came from there",
        // A confined command changes nothing outside, and a sub-agent's own calls are decided on one by one.
        Effect::Exec(_)
        | Effect::Read(_)
        | Effect::Write(_)
        | Effect::Delete(_)
        | Effect::Secret(_)
        | Effect::Ask
        | Effect::Agent(_)
        | Effect::State(_) => return None,
    };
    Some(format!("this session has read {source}, and this could {could}"))
}

/// Where the answer to a call comes from, if not from the workspace.
pub(crate) fn source(effects: &Effects, workspace: &Path, situation: &Situation) -> Option<String> {
    let is_outside = |path: &Path| {
        !is_within(path, workspace) && !situation.is_tmp(path, workspace) && !is_repository(path)
    };
    // What the machine says of itself. Packages in a home were written by others.
    let is_of_system = |at: &PathPattern| public_places::holds(at, &[]);
    effects.iter().find_map(|effect| match effect {
        Effect::Net { origin, .. } => Some(origin.clone()),
        Effect::Mcp { server, tool } => Some(format!("mcp {server}/{tool}")),
        Effect::Plugin(name) => Some(format!("plugin {name}")),
        Effect::Read(at) if is_outside(&at.path) && !is_of_system(at) => {
            Some(crate::quote::path(&at.path).into_owned())
        }
        // What a program prints is the workspace's, and what it reads elsewhere is a read of its own.
        Effect::Read(_)
        | Effect::Write(_)
        | Effect::Delete(_)
        | Effect::Exec(_)
        | Effect::Secret(_)
        | Effect::Ask
        | Effect::Agent(_)
        | Effect::State(_) => None,
    })
}

/// Whether it is inside a git repository's own directory: that of a second working tree is beside the first, and what it holds came
/// with the workspace.
fn is_repository(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".git")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;

    #[test]
    fn what_could_carry_data_out_is_suspicious() {
        let net = Effect::Net { origin: "https://a".into(), method: "GET".into() };
        let mcp = Effect::Mcp { server: "a".into(), tool: "b".into() };
        let exec = Effect::Exec(CommandLine::opaque("make", "nobody has looked"));
        let write = Effect::Write(PathPattern::file("/w/a"));
        let read = Effect::Read(PathPattern::file("/w/a"));
        let shut = Programs { confined: true, connected: false };
        let open = Programs { confined: true, connected: true };
        let loose = Programs { confined: false, connected: false };
        let marked = Situation { untrusted: Some("https://b".into()), ..Situation::default() };
        for (effect, [in_shut, in_open, in_loose]) in [
            (net, [true, true, true]),
            (mcp, [true, true, true]),
            (exec, [false, true, true]),
            (write, [false, false, false]),
            (read, [false, false, false]),
        ] {
            for (programs, expected) in [(shut, in_shut), (open, in_open), (loose, in_loose)] {
                let is = suspicious(&effect, &marked, programs).is_some();
                assert_eq!(is, expected, "{effect} {programs:?}");
                assert_eq!(suspicious(&effect, &Situation::default(), programs), None);
            }
        }
    }

    #[test]
    fn the_tmp_of_the_session_is_not_outside() {
        let effects = Effects::read("/tmp/a");
        for (has_session_tmp, expected) in [(false, Some("/tmp/a")), (true, None)] {
            let situation = Situation { has_session_tmp, ..Situation::default() };
            let answer = source(&effects, Path::new("/w"), &situation);
            assert_eq!(answer.as_deref(), expected);
        }
    }

    #[test]
    fn where_answers_come_from() {
        let workspace = Path::new("/w");
        for (effects, expected) in [
            (Effects::read("/w/a"), None),
            (Effects::read("/srv/notes"), Some("/srv/notes")),
            (Effects::read("/etc/shadow"), Some("/etc/shadow")),
            (Effects::read("/etc/os-release"), None),
            (Effects::read_tree("/usr/include"), None),
            (Effects::write("/etc/hosts"), None),
            (Effects::read_tree("/other/.git"), None),
            (
                Effects::read("/w/a")
                    .and(Effect::Net { origin: "https://a".into(), method: "GET".into() }),
                Some("https://a"),
            ),
            (Effect::Mcp { server: "a".into(), tool: "b".into() }.into(), Some("mcp a/b")),
        ] {
            let answer = source(&effects, workspace, &Situation::default());
            assert_eq!(answer.as_deref(), expected, "{effects}");
        }
    }
}
