//! Keeps what narrowed in force after a file of a trusted workspace has changed, from the trusted copy.
//!
//! Nothing that is in the workspace now is parsed. The rules of the trusted configuration and the gates of the trusted hooks hold; tools,
//! and hooks that cannot refuse, do not act. A gate that changed, or that reaches a file that changed, could let pass what it refused
//! before: then every call is denied until a person looks.

use std::path::PathBuf;

use windlass::hooks::{Hook, HookAnswer, HookEvent, Moment};
use windlass::tool::BoxFuture;
use windlass::{ToolError, quote};

use super::{Acting, Change, Contents, Found, Role, Trusted, listed, places};

/// The trusted files that go on to narrow.
pub(crate) struct Holding {
    /// Configuration, and files with hooks, as they were trusted.
    pub(crate) files: Vec<Acting>,
    /// Denies every call, if a gate changed.
    pub(crate) closed: Option<ClosedGate>,
}

impl Trusted {
    /// Returns what holds although these files changed.
    pub(crate) fn holding(
        &self,
        found: &Found,
        contents: &Contents,
        changes: &[Change],
    ) -> Holding {
        let mut files = Vec::new();
        let mut lost = Vec::new();
        for (name, hash) in &self.files {
            let path: PathBuf = quote::unpath(name);
            let Some(role) = places::role(&path).filter(|role| role.narrows()) else { continue };
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
        Holding { files, closed: closed.map(|why| ClosedGate(format!("{why}; {NEXT}"))) }
    }
}

const NEXT: &str = "every call is denied until `windlass trust` has shown what is there now and a person allows it";

impl Role {
    /// Tells whether a file of this kind can make things stricter.
    fn narrows(self) -> bool {
        matches!(self, Self::Config | Self::Hooks(_))
    }
}

/// Denies every call, because a gate of the workspace is not the one that a person trusted.
#[derive(Debug, Clone)]
pub(crate) struct ClosedGate(pub(crate) String);

impl Hook for ClosedGate {
    fn name(&self) -> &'static str {
        "trust"
    }

    fn hears(&self, event: &HookEvent<'_>) -> bool {
        event.what.moment() == Moment::PreTool
    }

    fn on<'a>(&'a self, _: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
        Box::pin(std::future::ready(Ok(HookAnswer::deny(self.0.as_str()))))
    }
}
