//! `restore`: restores files to their state in a snapshot.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Context, EffectKinds, Output, PlanContext, Planned, PlannedTool, ProposalStore, Snapshot,
    SnapshotPlan, ToolError,
};

use crate::format::{self, Root};

/// Restores one snapshot.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use windlass_core::{ProposalStore, Snapshot};
/// # fn with(snapshot: Snapshot, shelf: Arc<dyn ProposalStore>) {
/// let tool = windlass_tools::Restore::new(snapshot, shelf);
/// # }
/// ```
pub struct Restore {
    snapshot: Snapshot,
    /// Store with the file contents of the snapshot, the same as for proposals.
    shelf: Arc<dyn ProposalStore>,
}

impl std::fmt::Debug for Restore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restore").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl Restore {
    /// Returns a tool that restores this snapshot, with file contents from this store.
    pub fn new(snapshot: Snapshot, shelf: Arc<dyn ProposalStore>) -> Self {
        Self { snapshot, shelf }
    }
}

/// Make files what they were when the snapshot was taken.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {}

impl PlannedTool for Restore {
    const NAME: &'static str = "restore";
    const KINDS: EffectKinds = EffectKinds::WRITE.with(EffectKinds::DELETE);
    type Args = Args;
    type Plan = SnapshotPlan;

    fn plan(&self, _: Args, scene: &PlanContext<'_>) -> Result<Planned<SnapshotPlan>, ToolError> {
        scene.plan_restore(&self.snapshot, &*self.shelf)
    }

    async fn call(&self, cx: &Context, plan: SnapshotPlan) -> Result<Output, ToolError> {
        cx.blocking(move |cx| {
            let restored = cx.files().restore(&plan)?;
            let names = restored
                .iter()
                .map(|path| Ok(Root::of(cx, path)?.show(Path::new(""))))
                .collect::<Result<Vec<String>, ToolError>>()?;
            let count = format::count(names.len(), "path", "paths");
            let text = format!("restored {count}\n{}", names.join("\n"));
            Ok(Output::text(text).with("paths", names))
        })
        .await?
    }
}
