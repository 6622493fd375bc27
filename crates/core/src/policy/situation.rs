//! Facts that a decision depends on besides the call and the rules: the time, and earlier reads of the session.
//!
//! Text from the web, from an MCP server or from outside the workspace may contain instructions. We cannot stop a model from following
//! them, but we can stop its later calls from sending data out unseen: such effects ask, whatever the rules allow.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::public_paths;
use crate::effects::is_within;
use crate::{Effect, Effects, Files, PathPattern, below_session_tmp};

/// Facts that a decision depends on besides the call and the rules.
///
/// ```
/// use windlass_core::{Decision, Effect, Effects, Mode, Policy, DecisionContext};
/// let policy = Policy::new(Mode::Auto).allow("net docs.rs".parse()?);
/// let fetch = || Effects::from(Effect::Net { origin: "https://docs.rs".into(), method: "GET".into() });
/// let workspace = "/w".as_ref();
/// let before = policy.decide_in("web_fetch", fetch(), workspace, &DecisionContext::default());
/// assert_eq!(before.decision(), Decision::Allow);
///
/// let untrusted = DecisionContext { untrusted: Some("https://example.org".into()), ..DecisionContext::default() };
/// let after = policy.decide_in("web_fetch", fetch(), workspace, &untrusted);
/// assert_eq!(after.decision(), Decision::Ask);
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct DecisionContext {
    /// Current time, to see which rules have ended. Without it, a rule with an end allows nothing.
    pub now: Option<SystemTime>,
    /// Origin of the first untrusted text that the session has read, if it has read any.
    pub untrusted: Option<String>,
    /// Files with names that may be secret, but whose content was found to hold no credential.
    pub harmless: Vec<PathBuf>,
    /// True if the session has a `/tmp` of its own.
    pub has_session_tmp: bool,
    /// Changed paths that a scan of the tree found to be hooks or configuration of git.
    pub git_places: Vec<PathBuf>,
}

impl DecisionContext {
    /// Returns whether a path is in the session's own `/tmp`.
    pub(super) fn is_tmp(&self, path: &Path, workspace: &Path) -> bool {
        self.has_session_tmp && below_session_tmp(path, workspace).is_some()
    }

    /// Returns the facts that follow from the files of a session.
    pub(crate) fn in_session(files: &dyn Files) -> Self {
        Self { has_session_tmp: files.session_tmp().is_some(), ..Self::default() }
    }
}

/// Access of programs, as far as decisions depend on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProgramAccess {
    /// True if they run in a sandbox.
    pub(super) confined: bool,
    /// True if they can reach the network.
    pub(super) connected: bool,
}

/// Returns the reason why an effect asks in a session that has read untrusted text, if it does.
pub(super) fn suspicion_reason(
    effect: &Effect,
    situation: &DecisionContext,
    programs: ProgramAccess,
) -> Option<String> {
    let source = situation.untrusted.as_deref()?;
    let could = match effect {
        Effect::Net { .. } | Effect::Mcp { .. } | Effect::Plugin(_) => "carry data out",
        Effect::Exec(command) if command.only_reads() => return None,
        Effect::Exec(_) if programs.connected => "carry data out",
        Effect::Exec(_) if !programs.confined => "run what came from there",
        // A confined command changes nothing outside, and the calls of a sub-agent are decided on one by one.
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

/// Returns the origin of the answer to a call if it does not come from the workspace.
pub(crate) fn untrusted_source(
    effects: &Effects,
    workspace: &Path,
    situation: &DecisionContext,
) -> Option<String> {
    let is_outside = |path: &Path| {
        !is_within(path, workspace) && !situation.is_tmp(path, workspace) && !is_repository(path)
    };
    // Files of the system describe the machine and are trusted. Packages in a home directory were written by others.
    let is_of_system = |at: &PathPattern| public_paths::is_public(at, &[]);
    effects.iter().find_map(|effect| match effect {
        Effect::Net { origin, .. } => Some(origin.clone()),
        Effect::Mcp { server, tool } => Some(format!("mcp {server}/{tool}")),
        Effect::Plugin(name) => Some(format!("plugin {name}")),
        Effect::Read(at) if is_outside(&at.path) && !is_of_system(at) => {
            Some(crate::quote::path(&at.path).into_owned())
        }
        // The output of a program counts as the workspace's; a file that it reads elsewhere is a read effect of its own.
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

/// Returns whether a path is inside the `.git` directory of a repository. A second working tree uses the one beside the first, so its
/// content came with the workspace.
fn is_repository(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".git")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;

    #[test]
    fn effects_that_could_send_data_out_are_suspicious() {
        let net = Effect::Net { origin: "https://a".into(), method: "GET".into() };
        let mcp = Effect::Mcp { server: "a".into(), tool: "b".into() };
        let exec = Effect::Exec(CommandLine::opaque("make", "it was not analyzed"));
        let write = Effect::Write(PathPattern::file("/w/a"));
        let read = Effect::Read(PathPattern::file("/w/a"));
        let shut = ProgramAccess { confined: true, connected: false };
        let open = ProgramAccess { confined: true, connected: true };
        let loose = ProgramAccess { confined: false, connected: false };
        let marked =
            DecisionContext { untrusted: Some("https://b".into()), ..DecisionContext::default() };
        for (effect, [in_shut, in_open, in_loose]) in [
            (net, [true, true, true]),
            (mcp, [true, true, true]),
            (exec, [false, true, true]),
            (write, [false, false, false]),
            (read, [false, false, false]),
        ] {
            for (programs, expected) in [(shut, in_shut), (open, in_open), (loose, in_loose)] {
                let is = suspicion_reason(&effect, &marked, programs).is_some();
                assert_eq!(is, expected, "{effect} {programs:?}");
                assert_eq!(suspicion_reason(&effect, &DecisionContext::default(), programs), None);
            }
        }
    }

    #[test]
    fn session_tmp_counts_as_inside() {
        let effects = Effects::read("/tmp/a");
        for (has_session_tmp, expected) in [(false, Some("/tmp/a")), (true, None)] {
            let situation = DecisionContext { has_session_tmp, ..DecisionContext::default() };
            let answer = untrusted_source(&effects, Path::new("/w"), &situation);
            assert_eq!(answer.as_deref(), expected);
        }
    }

    #[test]
    fn answers_from_outside_have_a_source() {
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
            let answer = untrusted_source(&effects, workspace, &DecisionContext::default());
            assert_eq!(answer.as_deref(), expected, "{effects}");
        }
    }
}
