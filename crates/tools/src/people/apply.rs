//! `apply`: makes changes that were only proposed, all together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Context, Effect, Effects, FileState, Kinds, Output, PathPattern, Proposal, Proposals, Tool,
    ToolError,
};

use crate::shown::{self, Root};

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
    /// Applies these.
    pub fn new(proposals: Arc<Proposals>) -> Self {
        Self { proposals }
    }

    fn chosen(&self, paths: Option<&[PathBuf]>) -> Vec<Proposal> {
        let mut all = self.proposals.list();
        if let Some(paths) = paths {
            let is_named = |path: &Path| {
                paths.iter().any(|one| path.starts_with(one) || one.starts_with(path))
            };
            all.retain(|proposal| is_named(&proposal.path));
        }
        all
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

impl Tool for Apply {
    const NAME: &'static str = "apply";
    const KINDS: Kinds = Kinds::WRITE.with(Kinds::DELETE);
    type Args = Args;

    fn effects(&self, args: &Args) -> Effects {
        let effect = |proposal: &Proposal| {
            let path = PathPattern::entry(&proposal.path);
            match proposal.then {
                FileState::Absent => Effect::Delete(path),
                _ => Effect::Write(path),
            }
        };
        self.chosen(args.paths.as_deref()).iter().map(effect).collect()
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        let proposals = self.proposals.clone();
        let chosen = self.chosen(args.paths.as_deref());
        if chosen.is_empty() {
            return Err(ToolError::failed("there is no such proposal")
                .hint("`windlass proposals list` shows what is proposed"));
        }
        cx.blocking(move |cx| {
            let applied = cx.files().apply(&proposals, args.paths.as_deref())?;
            let names = applied
                .iter()
                .map(|path| Ok(Root::of(cx, path)?.show(Path::new(""))))
                .collect::<Result<Vec<String>, ToolError>>()?;
            let count = shown::count(names.len(), "change", "changes");
            let text = format!("applied {count}\n{}", names.join("\n"));
            Ok(Output::text(text).with("paths", names))
        })
        .await?
    }
}
