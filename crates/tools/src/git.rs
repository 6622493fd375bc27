//! `git`: version control that starts none of the programs that git can be configured to run.
//!
//! Git is started directly, without a shell, and every argument is known: options are in the tables of [`verbs`], words do not begin
//! with a dash, paths are in the workspace. Configuration that could start programs (hooks, pagers, editors, external diffs,
//! signing programs, transports …) is switched off by [`environment`]. If the repository's own configuration names programs that
//! no switch reaches (filters, merge drivers), the command is refused: see [`repository`].
//!
//! Read-only commands declare that they read the workspace, and run in a read-only view. The others are handled like any program:
//! policy decides on their words, they run on a stage, and their changes can be undone. The text is git's own, which models know; only
//! `status` is short by default, and `log` stops after thirty commits.

mod answer;
pub(crate) mod environment;
mod hidden;
mod plan;
mod repository;
#[cfg(test)]
mod tests;
pub(crate) mod verbs;
mod words;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    Context, Effect, EffectKinds, Effects, Output, PathPattern, PlanContext, Planned, PlannedTool,
    ToolDetails, ToolError,
};

use self::plan::GitPlan;
use self::repository::Repository;

/// Time limit of git itself.
const TIME_LIMIT: Duration = Duration::from_mins(2);
/// Additional time limit for taking over its changes.
const TAKE_OVER_LIMIT: Duration = Duration::from_mins(1);

/// The `git` tool.
pub(crate) struct Git;

/// Run git without hooks, editors and pagers. Options that run programs are refused.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Git subcommand.
    command: Command,
    /// Options, revisions and names, such as `["--stat", "HEAD~3"]`.
    #[expect(clippy::struct_field_names, reason = "the name of the parameter")]
    #[serde(default)]
    args: Vec<String>,
    /// Message for `commit` and `stash push`.
    message: Option<String>,
    /// Paths, placed after `--`.
    #[serde(default)]
    paths: Vec<String>,
}

/// The commands of git that the tool offers.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Command {
    Status,
    Diff,
    Log,
    Show,
    Add,
    Commit,
    Branch,
    Checkout,
    Switch,
    Stash,
    Restore,
    Blame,
    Worktree,
}

impl Command {
    /// Returns the name of the command as git takes it.
    fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Diff => "diff",
            Self::Log => "log",
            Self::Show => "show",
            Self::Add => "add",
            Self::Commit => "commit",
            Self::Branch => "branch",
            Self::Checkout => "checkout",
            Self::Switch => "switch",
            Self::Stash => "stash",
            Self::Restore => "restore",
            Self::Blame => "blame",
            Self::Worktree => "worktree",
        }
    }
}

impl PlannedTool for Git {
    const NAME: &'static str = "git";
    const KINDS: EffectKinds = EffectKinds::READ.with(EffectKinds::EXEC);
    type Args = Args;
    type Plan = (GitPlan, Repository);

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Git").with_beyond("`bash` runs the other commands of git")
    }

    fn plan(&self, args: Args, scene: &PlanContext<'_>) -> Result<Planned<Self::Plan>, ToolError> {
        let plan = GitPlan::of(&args)?;
        let repository = Repository::find(scene)?;
        plan.check_paths_inside(scene, &repository)?;
        let effects = effects(scene, &plan, &repository);
        Ok(Planned { effects, plan: (plan, repository) })
    }

    async fn call(&self, cx: &Context, planned: Self::Plan) -> Result<Output, ToolError> {
        let (plan, repository) = planned;
        repository.check(cx)?;
        let processes = cx.processes()?;
        if plan.verb.runs_filters {
            let config_listing = repository::config_listing(cx, &repository)?;
            let (listed, _) = processes.run(config_listing, Some(TIME_LIMIT), None).await?;
            repository::refuse_programs(&plan, &listed)?;
        }
        let request = plan.request(cx, &repository)?;
        let (job, end) = processes.run(request, Some(TIME_LIMIT), None).await?;
        let end = end.ok_or_else(|| ToolError::internal("git was left running"))?;
        cx.blocking(move |cx| answer::answer(cx, &plan, &repository.top, &job, &end)).await?
    }

    fn time_limit(&self, _: &Self::Plan) -> Option<Duration> {
        Some(TIME_LIMIT + TAKE_OVER_LIMIT)
    }
}

/// Returns the effects of a call: a read-only command declares all that it reads, any other is decided on by its words.
fn effects(scene: &PlanContext<'_>, plan: &GitPlan, repository: &Repository) -> Effects {
    let mut effects = Effects::read_tree(scene.workspace());
    for place in repository.outside_paths(scene.workspace()) {
        effects = effects.and(Effect::Read(PathPattern::tree(place)));
    }
    if !plan.read_only {
        return effects.and(Effect::Exec(plan.command_line()));
    }
    for path in plan.named_files(scene, repository) {
        effects = effects.and(Effect::Read(PathPattern::entry(path)));
    }
    effects
}
