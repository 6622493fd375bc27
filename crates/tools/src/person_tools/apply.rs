//! `apply`: makes proposed changes, all together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Context, EffectKinds, Output, PlanContext, Planned, PlannedTool, ProposalApplication,
    Proposals, ToolError,
};

use crate::format::{self, Root};

/// Applies the proposals of one session.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use windlass_core::Proposals;
/// # fn with(proposals: Arc<Proposals>) {
/// let tool = windlass_tools::Apply::new(proposals);
/// # }
/// ```
#[derive(Debug)]
pub struct Apply {
    proposals: Arc<Proposals>,
}

impl Apply {
    /// Returns a tool that applies these proposals.
    pub fn new(proposals: Arc<Proposals>) -> Self {
        Self { proposals }
    }
}

/// Make changes that were proposed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Only these, by absolute path.
    #[serde(default)]
    paths: Option<Vec<PathBuf>>,
}

impl std::fmt::Debug for Args {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Args").field("paths", &self.paths).finish()
    }
}

impl PlannedTool for Apply {
    const NAME: &'static str = "apply";
    const KINDS: EffectKinds = EffectKinds::WRITE.with(EffectKinds::DELETE);
    type Args = Args;
    type Plan = ProposalApplication;

    fn plan(
        &self,
        args: Args,
        scene: &PlanContext<'_>,
    ) -> Result<Planned<ProposalApplication>, ToolError> {
        let planned = scene.plan_apply(&self.proposals, args.paths.as_deref())?;
        if planned.plan.paths().next().is_none() {
            return Err(ToolError::failed("there is no such proposal")
                .hint("`windlass proposals list` shows what is proposed"));
        }
        Ok(planned)
    }

    async fn call(&self, cx: &Context, plan: ProposalApplication) -> Result<Output, ToolError> {
        let proposals = self.proposals.clone();
        cx.blocking(move |cx| {
            let applied = cx.files().apply(&plan, &proposals)?;
            let names = applied
                .iter()
                .map(|path| Ok(Root::of(cx, path)?.show(Path::new(""))))
                .collect::<Result<Vec<String>, ToolError>>()?;
            let count = format::count(names.len(), "change", "changes");
            let text = format!("applied {count}\n{}", names.join("\n"));
            Ok(Output::text(text).with("paths", names))
        })
        .await?
    }
}
