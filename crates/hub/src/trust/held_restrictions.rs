//! Keeps the restrictions of a trusted workspace in force after one of its files has changed, from the trusted copies.
//!
//! It parses nothing that is in the workspace now. The rules of the trusted configuration and the gates of the trusted hooks stay
//! in force; tools, and hooks that cannot refuse, do not run. A gate that changed, or that reaches a changed file, could allow
//! something that it refused before: then every call is denied until a person reviews the workspace.

use std::path::PathBuf;

use windlass::hooks::{Hook, HookAnswer, HookEvent, HookPoint};
use windlass::tool::BoxFuture;
use windlass::{ToolError, quote};

use super::{
    Acting, ActingFileRole, ActingFiles, Change, Trusted, TrustedContents, acting_files, listed,
};

/// Restrictions of a trusted workspace that stay in force after a change.
pub(crate) struct HeldRestrictions {
    /// Configuration and hook files with their trusted content.
    pub(crate) files: Vec<Acting>,
    /// Hook that denies every call, if a gate changed or a trusted copy is missing.
    pub(crate) closed: Option<DenyEveryCall>,
}

impl Trusted {
    /// Returns the restrictions that stay in force although these files changed.
    pub(crate) fn held_restrictions(
        &self,
        found: &ActingFiles,
        contents: &TrustedContents,
        changes: &[Change],
    ) -> HeldRestrictions {
        let mut files = Vec::new();
        let mut lost = Vec::new();
        for (name, hash) in &self.files {
            let path: PathBuf = quote::unpath(name);
            let Some(role) = acting_files::role_of_path(&path).filter(|role| role.narrows()) else {
                continue;
            };
            let unchanged = found.files.iter().find(|file| file.path == path);
            let unchanged = unchanged.filter(|file| file.hash() == *hash);
            match unchanged.map(|file| file.bytes.clone()).or_else(|| contents.get(*hash)) {
                Some(bytes) => files.push(Acting { role, path, bytes }),
                None => lost.push(name.clone()),
            }
        }
        let gates: Vec<&Change> =
            changes.iter().filter(|change| self.gates.contains(&change.path)).collect();
        let closed = match (&gates[..], &lost[..]) {
            ([], []) => None,
            ([], lost) => {
                Some(format!("{} changed, and what was trusted of it is not kept", lost.join(", ")))
            }
            (gates, _) => Some(format!(
                "a gate of this workspace is not what was trusted: {}",
                listed(gates.iter().copied())
            )),
        };
        HeldRestrictions {
            files,
            closed: closed.map(|why| DenyEveryCall(format!("{why}; {NEXT_STEP}"))),
        }
    }
}

/// The last part of messages about a workspace that changed: the effect, and the remedy.
const NEXT_STEP: &str = "every call is denied until `windlass trust` has shown what is there now and a person allows it";

impl ActingFileRole {
    /// Returns whether files of this role can restrict calls.
    fn narrows(self) -> bool {
        matches!(self, Self::Config | Self::Hooks(_))
    }
}

/// Hook that denies every call, because a gate of the workspace differs from the trusted one.
#[derive(Debug, Clone)]
pub(crate) struct DenyEveryCall(pub(crate) String);

impl Hook for DenyEveryCall {
    fn name(&self) -> &'static str {
        "trust"
    }

    fn wants(&self, event: &HookEvent<'_>) -> bool {
        event.what.point() == HookPoint::PreTool
    }

    fn on<'a>(&'a self, _: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
        Box::pin(std::future::ready(Ok(HookAnswer::deny(self.0.as_str()))))
    }
}
