//! `test`: runs the tests of a project and reports the failures.
//!
//! The command is detected from the files of the project, unless the model gives one. Parsers for the formats of test runners extract the
//! verdict, the counts and the failures; the whole output is kept under a handle. If no format matches, the last lines are shown.

mod answer;
mod command;
mod formats;
mod go;
mod javascript;
mod jvm;
mod other;
mod project;
mod python;
mod report;
mod rust;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    CommandLine, Context, Effect, EffectKinds, Effects, FileKind, Output, PlanContext, Planned,
    PlannedTool, ProcessRequest, Program, Shell, ToolDetails, ToolError, quote,
};

use self::answer::TestRun;
use self::project::Project;
use crate::parameter_defaults::here;
use crate::program;
use crate::shell::{self, RunLocation};

/// Time limit of tests without `timeout`.
const DEFAULT_LIMIT: Duration = Duration::from_mins(10);
/// Time that the engine waits beyond the time limit, until all processes have ended and the changes are kept.
const ENDING_TIME: Duration = Duration::from_secs(30);

/// The tool `test`.
pub(crate) struct Test;

/// Run the project's tests (Cargo, Go, npm, pytest, Maven, Gradle, ctest, Make …). Returns PASSED or FAILED, counts, and failures only.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Shell command that runs the tests; default: detected.
    command: Option<String>,
    /// The project, or a directory or file in it.
    #[serde(default = "here")]
    path: PathBuf,
    /// Run only tests whose names contain this text.
    filter: Option<String>,
    /// Time limit in seconds.
    #[serde(default)]
    #[schemars(range(max = 3_600), extend("exclusiveMinimum" = 0))]
    timeout: Option<f64>,
}

impl PlannedTool for Test {
    const NAME: &'static str = "test";
    const KINDS: EffectKinds = EffectKinds::EXEC
        .with(EffectKinds::READ)
        .with(EffectKinds::WRITE)
        .with(EffectKinds::DELETE);
    type Args = Args;
    type Plan = Plan;

    fn about(&self) -> ToolDetails {
        ToolDetails::titled("Run tests")
    }

    fn plan(&self, args: Args, scene: &PlanContext<'_>) -> Result<Planned<Plan>, ToolError> {
        let (plan, file_effects) = Plan::new(args, scene)?;
        let command = Effect::Exec(plan.command_line.clone());
        let effects = Effects::read_tree(scene.workspace()).and(command);
        Ok(Planned { effects: file_effects.into_iter().fold(effects, Effects::and), plan })
    }

    async fn call(&self, cx: &Context, plan: Plan) -> Result<Output, ToolError> {
        let directory = program::directory(cx, &plan.directory)?;
        let request = ProcessRequest {
            environment: plan.environment,
            ..ProcessRequest::new(plan.program, directory)
        };
        let (job, end) = cx.processes()?.run(request, Some(plan.limit), None).await?;
        let end = end.ok_or_else(|| ToolError::internal("the tests were left running"))?;
        let run =
            TestRun { command: plan.command_line.text, filter: plan.filter, others: plan.others };
        cx.blocking(move |cx| answer::answer(cx, &run, &job, &end)).await?
    }

    fn time_limit(&self, plan: &Plan) -> Option<Duration> {
        Some(plan.limit + ENDING_TIME)
    }
}

impl Args {
    /// Returns the time limit of the call.
    fn limit(&self) -> Duration {
        let given = self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        given.unwrap_or(DEFAULT_LIMIT)
    }
}

/// The test command with its directory and limits.
pub(crate) struct Plan {
    directory: PathBuf,
    program: Program,
    command_line: CommandLine,
    environment: Vec<(String, String)>,
    filter: Option<String>,
    limit: Duration,
    /// Other test commands that were detected.
    others: Vec<String>,
}

impl Plan {
    /// Returns the plan, and the effects on the files that a given command names.
    fn new(args: Args, scene: &PlanContext<'_>) -> Result<(Self, Vec<Effect>), ToolError> {
        check_filter(args.filter.as_deref())?;
        let path = scene.resolve(&args.path)?.path;
        if !path.starts_with(scene.workspace()) {
            return Err(ToolError::invalid_args("the `path` is outside of the workspace"));
        }
        let Some(kind) = scene.kind(&path) else {
            return Err(ToolError::failed(format!("there is no `{}`", quote::path(&args.path))));
        };
        let is_file = kind != FileKind::Directory;
        if args.command.is_some() {
            let directory = if is_file { path.parent().unwrap_or(&path) } else { &path };
            return Self::from_command(args, directory, scene);
        }
        let project = project::find(scene, &path, is_file)?;
        Ok((Self::from_project(project, args, &scene.shell())?, Vec::new()))
    }

    /// Returns the plan for a command from the model.
    fn from_command(
        args: Args,
        directory: &Path,
        scene: &PlanContext<'_>,
    ) -> Result<(Self, Vec<Effect>), ToolError> {
        let limit = args.limit();
        let command = args.command.unwrap_or_default();
        if command.trim().is_empty() || command.contains('\0') {
            return Err(ToolError::invalid_args(
                "the `command` is empty or has a NUL character in it",
            ));
        }
        if args.filter.is_some() {
            return Err(ToolError::invalid_args("a `command` has its own way to choose tests")
                .hint("put the filter into the command"));
        }
        let (shell, home) = (scene.shell(), scene.home());
        let location = RunLocation { workspace: scene.workspace(), directory, home };
        let analysis = shell::analyze(&command, &shell, location);
        let plan = Self {
            directory: directory.to_owned(),
            program: shell.command(command),
            command_line: analysis.line_that_may_change(),
            environment: Vec::new(),
            filter: None,
            limit,
            others: Vec::new(),
        };
        Ok((plan, analysis.files().collect()))
    }

    /// Returns the plan for a detected project.
    fn from_project(project: Project, args: Args, shell: &Shell) -> Result<Self, ToolError> {
        let command = match &args.filter {
            Some(filter) => project.command.filtered(filter)?,
            None => project.command,
        };
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Ok(Self {
            directory: project.directory,
            program: command.program(shell),
            command_line: command.command_line(shell),
            environment: command.environment.iter().map(pair).collect(),
            limit: args.limit(),
            filter: args.filter,
            others: project.others.iter().map(ToString::to_string).collect(),
        })
    }
}

/// Refuses a filter that could be taken for an option or is no text.
fn check_filter(filter: Option<&str>) -> Result<(), ToolError> {
    let Some(filter) = filter else { return Ok(()) };
    if filter.is_empty() || filter.starts_with('-') || filter.contains(char::is_control) {
        return Err(ToolError::invalid_args(
            "the `filter` is empty, begins with `-` or has control characters in it",
        )
        .hint("give a part of a test's name"));
    }
    Ok(())
}
