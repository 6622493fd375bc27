//! `git`: version control, without the programs that git can be made to run.
//!
//! Git is started by its words, never through a shell, and every word is known: options come out of the tables in [`verbs`], words
//! do not begin with a dash, paths lie in the workspace. What configuration could add (hooks, pagers, editors, external diffs,
//! signing programs, transports …) is switched off by [`environment`]; where the repository's own configuration names programs that
//! no switch reaches (filters, merge drivers), the command is refused: see [`repository`].
//!
//! Commands that only look declare that they read the workspace, and run where nothing can be changed. The others are programs like
//! any other: decided on by their words, run on a stage, undone like every change. The text is git's own, which models know; only
//! `status` is short unless asked otherwise, and `log` ends after thirty commits.

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
    About, Context, Effect, Effects, Kinds, Output, PathPattern, Planned, PlannedTool, Scene,
    ToolError,
};

use self::plan::Plan;
use self::repository::Repository;

/// How long git may take.
const LIMIT: Duration = Duration::from_mins(2);
/// How long what it changed may take to be taken over, after that.
const TAKE_OVER: Duration = Duration::from_mins(1);

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

/// The commands of git that are offered.
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
    /// As git calls it.
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
    const KINDS: Kinds = Kinds::READ.with(Kinds::EXEC);
    type Args = Args;
    type Plan = (Plan, Repository);

    fn about(&self) -> About {
        About::titled("Git").with_beyond("`bash` runs the other commands of git")
    }

    fn plan(&self, args: Args, scene: &Scene<'_>) -> Result<Planned<Self::Plan>, ToolError> {
        let plan = Plan::of(&args)?;
        let repository = Repository::find(scene)?;
        plan.check_places(scene, &repository)?;
        let effects = effects(scene, &plan, &repository);
        Ok(Planned { effects, plan: (plan, repository) })
    }

    async fn call(&self, cx: &Context, planned: Self::Plan) -> Result<Output, ToolError> {
        let (plan, repository) = planned;
        repository.check(cx)?;
        let processes = cx.processes()?;
        if plan.verb.filters {
            let listing = repository::listing(cx, &repository)?;
            let (listed, _) = processes.run(listing, Some(LIMIT), None).await?;
            repository::refuse_programs(&plan, &listed)?;
        }
        let request = plan.request(cx, &repository)?;
        let (job, end) = processes.run(request, Some(LIMIT), None).await?;
        let end = end.ok_or_else(|| ToolError::internal("git was left running"))?;
        cx.blocking(move |cx| answer::answer(cx, &plan, &repository.top, &job, &end)).await?
    }

    fn time_limit(&self, _: &Self::Plan) -> Option<Duration> {
        Some(LIMIT + TAKE_OVER)
    }
}

/// A command that only looks declares all that it looks at; any other is decided on by its words.
fn effects(scene: &Scene<'_>, plan: &Plan, repository: &Repository) -> Effects {
    let mut effects = Effects::read_tree(scene.workspace());
    for place in repository.elsewhere(scene.workspace()) {
        effects = effects.and(Effect::Read(PathPattern::tree(place)));
    }
    if !plan.looks {
        return effects.and(Effect::Exec(plan.command_line()));
    }
    for path in plan.named_files(scene, repository) {
        effects = effects.and(Effect::Read(PathPattern::entry(path)));
    }
    effects
}
