//! Runs programs as hooks: JSON on their standard input, JSON or an exit code as their answer.
//!
//! Every hook becomes one [`HookDefinition`], whichever kind of file it was written in (our own, or that of Claude Code, Hex or
//! Hygge). Its command line comes from the file alone: text of a model reaches the program as data, never as part of a command. The
//! program runs in the sandbox, by default without write access, and is killed with all its children when its time is over.

mod definition;
mod file;
mod hook_answer;
mod hook_input;
mod matcher;
mod pins;
mod reach;
mod runner;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::{
    Author, BoxFuture, Hook, HookAnswer, HookEvent, HookPoint, HookVerdict, ToolError,
};

pub use definition::{HookCommand, HookDefinition, HookShape};
pub use file::{HookFile, HookFileError};
pub use matcher::HookMatcher;
pub use pins::{Pin, PinError, named_files};
pub use reach::{PINNABLE, ReachError, reached_files};
pub use runner::HookRunner;

/// A hook that is a program, as the engine calls it.
///
/// ```
/// # use std::sync::Arc;
/// use windlass_core::{Author, Hook as _, HookPoint};
/// use windlass_hooks::{CommandHook, HookFile, HookRunner, HookShape};
/// # use windlass_host::{LocalHost, ProcessSettings};
/// # let folder = tempfile::tempdir().unwrap();
/// # let host = Arc::new(LocalHost::open(folder.path()).unwrap());
/// # let runner = Arc::new(HookRunner::new(host, ProcessSettings::default()));
/// let text = "[[hooks]]\nevent = \"pre_tool\"\ncommand = [\"./check.sh\"]\n".to_owned();
/// let file = HookFile { path: "h.toml".into(), text, author: Author::Workspace, shape: HookShape::Windlass };
/// let hook = CommandHook::new(file.read().0.remove(0), runner);
/// assert!(hook.is_gate(HookPoint::PreTool) && !hook.may_allow());
/// ```
#[derive(Debug)]
pub struct CommandHook {
    definition: HookDefinition,
    runner: Arc<HookRunner>,
}

impl CommandHook {
    /// Creates a hook from a definition. One runner serves all hooks of an engine.
    pub fn new(definition: HookDefinition, runner: Arc<HookRunner>) -> Self {
        Self { definition, runner }
    }

    /// Runs the program once for each of its inputs, and merges the answers. The first denial ends it.
    async fn run_program(&self, event: HookEvent<'_>) -> Result<HookAnswer, ToolError> {
        if let Some(why) = &self.definition.unusable {
            return Err(ToolError::failed(why.clone()));
        }
        let mut all: Option<HookAnswer> = None;
        let inputs = hook_input::hook_inputs(&self.definition, &event)
            .map_err(|error| ToolError::failed(error.to_string()))?;
        let is_one = inputs.len() == 1;
        for input in inputs {
            let ran = self.runner.run(&self.definition, &input).await?;
            let answer = hook_answer::parse_answer(&self.definition, &event, &ran)
                .map_err(|error| ToolError::failed(error.to_string()))?;
            if !is_one && (answer.input.is_some() || answer.output.is_some()) {
                return Err(ToolError::failed(
                    "it wants to change a call that touches several files, of which it was told one at a time",
                ));
            }
            let is_no = matches!(answer.verdict, HookVerdict::Deny(_) | HookVerdict::Stop(_));
            all = Some(match all {
                Some(others) => hook_answer::merge(others, answer),
                None => answer,
            });
            if is_no {
                break;
            }
        }
        let mut all = all.unwrap_or_default();
        all.input =
            all.input.map(|input| hook_input::restore_arguments(&self.definition, &event, input));
        Ok(all)
    }
}

impl Hook for CommandHook {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn wants(&self, event: &HookEvent<'_>) -> bool {
        event.what.point() == self.definition.point && self.definition.matcher.matches(event)
    }

    fn is_gate(&self, point: HookPoint) -> bool {
        self.definition.gate.unwrap_or_else(|| point.is_gate())
    }

    fn may_allow(&self) -> bool {
        self.definition.author == Author::Person
    }

    fn time_limit(&self) -> Duration {
        self.definition.timeout
    }

    fn on<'a>(&'a self, event: HookEvent<'a>) -> BoxFuture<'a, Result<HookAnswer, ToolError>> {
        Box::pin(async move {
            let answer = self.run_program(event).await?;
            // The answer of a hook that runs on its own is ignored.
            Ok(if self.definition.is_heard { answer } else { HookAnswer::go_on() })
        })
    }
}
