//! `test`: runs the tests of a project and tells what failed.
//!
//! The command is found by the files of the project, unless one is given. Of what it prints only the verdict, the counts and the
//! failures come back, read by the formats of the runners; the rest is kept. Where no format fits, the last lines have to do.

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

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::{
    CommandLine, Context, Effect, Effects, Entry, FileKind, Kinds, Output, ProcessRequest, Program,
    Scene, Tool, ToolError, Visitor, Walk, WalkSettings,
};

use self::answer::Run;
use self::project::{Ground, LOOKED_AT, Project};
use crate::defaults::here;
use crate::shell::{self, Place};

/// How long tests may take if nobody says.
const DEFAULT_LIMIT: Duration = Duration::from_mins(10);
/// How long the engine waits beyond that: until all is ended and what was changed is kept.
const ENDING: Duration = Duration::from_secs(30);

pub(crate) struct Test;

/// Run the project's tests (Cargo, Go, npm, pytest, Maven, Gradle, ctest, Make …); answers PASSED or FAILED, counts and failures only.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Shell command to use; found if left out.
    command: Option<String>,
    /// Project, or a directory or file in it.
    #[serde(default = "here")]
    path: PathBuf,
    /// Part of the names of the tests to run.
    filter: Option<String>,
    /// Seconds.
    #[serde(default)]
    #[schemars(range(max = 3_600), extend("exclusiveMinimum" = 0))]
    timeout: Option<f64>,
}

impl Tool for Test {
    const NAME: &'static str = "test";
    const KINDS: Kinds = Kinds::EXEC.with(Kinds::READ).with(Kinds::WRITE).with(Kinds::DELETE);
    type Args = Args;

    fn effects(&self, args: &Args) -> Effects {
        let command = args.command.as_deref().unwrap_or("the tests of the project");
        Effect::Exec(CommandLine::opaque(command, "the project has not been looked at")).into()
    }

    fn effects_in(&self, args: &Args, scene: &Scene<'_>) -> Result<Effects, ToolError> {
        let read = Effects::read_tree(scene.workspace());
        let path = scene.resolve(&args.path)?.path;
        let plan = Plan::of(args, scene, scene.workspace(), &path, scene.kind(&args.path))?;
        Ok(plan.touches.into_iter().fold(read.and(Effect::Exec(plan.command_line)), Effects::and))
    }

    async fn call(&self, cx: &Context, args: Args) -> Result<Output, ToolError> {
        let limit = args.limit();
        let (plan, filter) = cx
            .blocking(move |cx| {
                let path = cx.files().resolve(&args.path)?.path;
                let workspace = cx.files().workspace().to_owned();
                let kind = cx.files().stat(&args.path)?.map(|stat| stat.kind);
                Plan::of(&args, cx, &workspace, &path, kind).map(|plan| (plan, args.filter))
            })
            .await??;
        let request = plan.request(cx)?;
        let (job, end) = cx.processes()?.run(request, Some(limit), None).await?;
        let end = end.ok_or_else(|| ToolError::internal("the tests were left running"))?;
        let command = plan.command_line.text;
        let run = Run { command, filter, others: plan.others };
        cx.blocking(move |cx| answer::answer(cx, &run, &job, &end)).await?
    }

    fn time_limit(&self, args: &Args) -> Option<Duration> {
        Some(args.limit() + ENDING)
    }
}

impl Args {
    fn limit(&self) -> Duration {
        let given = self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        given.unwrap_or(DEFAULT_LIMIT)
    }
}

/// What is to be run, and where.
struct Plan {
    directory: PathBuf,
    program: Program,
    command_line: CommandLine,
    /// The files that it names.
    touches: Vec<Effect>,
    environment: Vec<(String, String)>,
    /// What else could have been run.
    others: Vec<String>,
}

impl Plan {
    fn of(
        args: &Args,
        ground: &dyn Ground,
        workspace: &Path,
        path: &Path,
        kind: Option<FileKind>,
    ) -> Result<Self, ToolError> {
        let filter = args.filter.as_deref();
        check_filter(filter)?;
        if !path.starts_with(workspace) {
            return Err(ToolError::invalid_args("the `path` is outside of the workspace"));
        }
        let Some(kind) = kind else {
            return Err(ToolError::failed(format!(
                "there is no `{}`",
                windlass_core::quote::path(&args.path)
            )));
        };
        let is_file = kind != FileKind::Directory;
        let Some(command) = &args.command else {
            let project = project::find(ground, workspace, path, is_file)?;
            return Self::found(project, filter);
        };
        if command.trim().is_empty() || command.contains('\0') {
            return Err(ToolError::invalid_args(
                "the `command` is empty or has a NUL character in it",
            ));
        }
        if filter.is_some() {
            return Err(ToolError::invalid_args("a `command` has its own way to choose tests")
                .hint("put the filter into the command"));
        }
        let directory = if is_file { path.parent().unwrap_or(path) } else { path };
        let understood = shell::understand(command, Place { workspace, directory });
        Ok(Self {
            directory: directory.to_owned(),
            program: Program::Shell(command.clone()),
            command_line: understood.line_that_may_change(),
            touches: understood.files().collect(),
            environment: Vec::new(),
            others: Vec::new(),
        })
    }

    fn found(project: Project, filter: Option<&str>) -> Result<Self, ToolError> {
        let command = match filter {
            Some(filter) => project.command.filtered(filter)?,
            None => project.command,
        };
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Ok(Self {
            directory: project.directory,
            program: command.program(),
            command_line: command.command_line(),
            touches: Vec::new(),
            environment: command.environment.iter().map(pair).collect(),
            others: project.others.iter().map(ToString::to_string).collect(),
        })
    }

    fn request(&self, cx: &Context) -> Result<ProcessRequest, ToolError> {
        let directory = cx.files().resolve(&self.directory)?;
        let environment = self.environment.clone();
        Ok(ProcessRequest { environment, ..ProcessRequest::new(self.program.clone(), directory) })
    }
}

/// A filter is a part of a name, never an option.
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

impl Ground for Scene<'_> {
    fn names(&self, directory: &Path) -> Vec<(OsString, FileKind)> {
        Scene::names(self, directory)
    }

    fn text(&self, path: &Path) -> Option<String> {
        let bytes = self.peek(path, LOOKED_AT)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Ground for Context {
    fn names(&self, directory: &Path) -> Vec<(OsString, FileKind)> {
        let names = Mutex::new(Vec::new());
        let settings = WalkSettings { max_depth: 1, ignore_files: false, threads: 1 };
        // Of a directory that cannot be listed nothing is known.
        drop(self.files().walk(directory, settings, &|| Box::new(Names(&names))));
        let mut names = names.into_inner().unwrap_or_default();
        names.sort_by(|(a, _): &(OsString, FileKind), (b, _)| a.cmp(b));
        names
    }

    fn text(&self, path: &Path) -> Option<String> {
        let mut bytes = Vec::new();
        let opened = self.files().open(path).ok()?;
        opened.file.take(LOOKED_AT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Notes the names in a directory.
struct Names<'a>(&'a Mutex<Vec<(OsString, FileKind)>>);

impl Visitor for Names<'_> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        if let Ok(mut names) = self.0.lock() {
            names.push((entry.path.as_os_str().to_owned(), entry.kind));
        }
        Walk::Skip
    }
}
