//! Command tools: a markdown file whose front matter names a command defines a tool.
//!
//! The command gets its arguments as JSON on standard input, and the simple ones also as variables; they are never put into its text. It
//! runs like every other program: same sandbox, same limits, same output, same undo.
//!
//! Like `bash`, a call needs the right to run this command: rules and people decide by its text, and a rule can name the tool. The key
//! `effects` can reduce that. Without `write`, the command cannot change the workspace, for every author of the file, because the sandbox
//! enforces it. A call needs only the right to read the workspace if three more conditions hold: the file is the person's own (the word of
//! another author proves nothing), the sandbox is on, and the network is closed, so that the command cannot send away what it reads. That
//! equals a rule of the person that allows this one command, in a sandbox that enforces its effects. The command still sees all that
//! programs can see, also files that tools may not read: an author who writes `cat "$ARG_FILE"` must accept that.

mod definition;
mod front_matter;
mod node;
mod schema;
#[cfg(test)]
mod tests;
mod toml;
mod variables;
mod yaml;

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use windlass_core::{
    Access, AnyTool, Author, BoxFuture, Confinement, Context, Effect, EffectKinds, Effects,
    NetworkAccess, Output, PlanContext, Planned, PlannedCall, ProcessRequest, SandboxLevel, Shell,
    Stdin, ToolError, ToolSpec,
};

pub use self::definition::{CommandDefinition, DefinitionError};
use crate::parameter_defaults::here;
use crate::program::answer;
use crate::shell::{self, RunLocation};

/// A tool that runs the command of a file.
///
/// ```
/// use windlass_core::{AnyTool, Author, Confinement, EffectKinds};
/// use windlass_tools::{CommandDefinition, CommandTool};
/// let file = "---\nname: todos\ncommand: grep -rn TODO .\neffects: [read]\n---\nWhat is left to do.\n";
/// let confinement = Confinement::default();
/// let tool = |author| CommandDefinition::parse(file).map(|definition| CommandTool::new(definition, author, &confinement));
/// assert_eq!(tool(Author::Person)?.kinds(), EffectKinds::READ, "the sandbox keeps it to that");
/// assert_eq!(tool(Author::Workspace)?.kinds(), EffectKinds::EXEC | EffectKinds::READ);
/// # Ok::<(), windlass_tools::DefinitionError>(())
/// ```
#[derive(Debug)]
pub struct CommandTool {
    definition: CommandDefinition,
    access: Access,
    /// True if a call needs only the right to read the workspace.
    only_reads: bool,
}

impl CommandTool {
    /// Returns the tool for a definition, on a machine with this confinement of programs.
    pub fn new(definition: CommandDefinition, author: Author, confinement: &Confinement) -> Self {
        let is_confined = confinement.level != SandboxLevel::Off;
        let only_reads = definition.only_reads()
            && author == Author::Person
            && confinement.is_whole()
            && confinement.network == NetworkAccess::None;
        // Without a sandbox the command may change files: on a stage the changes are at least found.
        let is_held = definition.changes_nothing() && is_confined;
        let access = if is_held { Access::Read } else { Access::Staged };
        Self { definition, access, only_reads }
    }
}

impl AnyTool for CommandTool {
    fn name(&self) -> &str {
        self.definition.name()
    }

    fn kinds(&self) -> EffectKinds {
        if self.only_reads {
            return EffectKinds::READ;
        }
        EffectKinds::EXEC | self.definition.effects().unwrap_or(EffectKinds::NONE)
    }

    fn spec(&self) -> ToolSpec {
        let (name, description) = (self.name().to_owned(), self.definition.description());
        ToolSpec::new(name, description, self.definition.schema.clone(), self.kinds())
    }

    fn plan<'a>(
        &'a self,
        input: Value,
        scene: &PlanContext<'_>,
    ) -> Result<Planned<Box<dyn PlannedCall + 'a>>, ToolError> {
        let Value::Object(mut arguments) = input else {
            return Err(ToolError::invalid_args("the arguments are not an object"));
        };
        add_defaults(&self.definition.schema, &mut arguments);
        let definition = &self.definition;
        let given =
            variables::for_arguments(&definition.variables, &arguments, definition.command())?;
        let environment = definition.env.iter().cloned().chain(given).collect();
        let (arguments, shell) = (Value::Object(arguments), scene.shell());
        let effects = self.effects(scene, &shell);
        let call = CommandCall { tool: self, shell, arguments, environment };
        Ok(Planned { effects, plan: Box::new(call) })
    }
}

impl CommandTool {
    /// Returns the effects of every call. A command that only reads may read the whole workspace, also if the call works in a part of it.
    fn effects(&self, scene: &PlanContext<'_>, shell: &Shell) -> Effects {
        if self.only_reads {
            return Effects::read_tree(scene.workspace());
        }
        // The key `effects` declares the changes to the workspace, so the directory does not matter.
        let no_location =
            RunLocation { workspace: Path::new(""), directory: Path::new(""), home: None };
        let analysis = shell::analyze(self.definition.command(), shell, no_location);
        Effect::Exec(analysis.line_that_may_change()).into()
    }
}

/// Adds the defaults of the schema for missing arguments.
fn add_defaults(schema: &Value, arguments: &mut Map<String, Value>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !arguments.contains_key(name)) {
            arguments.insert(name.clone(), default.clone());
        }
    }
}

/// One call of a command tool.
struct CommandCall<'t> {
    tool: &'t CommandTool,
    shell: Shell,
    arguments: Value,
    environment: Vec<(String, String)>,
}

impl PlannedCall for CommandCall<'_> {
    fn time_limit(&self) -> Option<Duration> {
        Some(self.tool.definition.timeout() + answer::ENDING_TIME)
    }

    fn run<'a>(self: Box<Self>, cx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let limit = self.tool.definition.timeout();
            let max_wait = cx.overrides().soft_limit.map(|soft| soft.min(limit));
            answer::run(cx, self.request(cx)?, Some(limit), max_wait).await
        })
    }
}

impl CommandCall<'_> {
    /// Returns the request to run the command with its arguments on standard input.
    fn request(self, cx: &Context) -> Result<ProcessRequest, ToolError> {
        let program = self.shell.command(self.tool.definition.command());
        let stdin = format!("{}\n", self.arguments).into_bytes();
        Ok(ProcessRequest {
            environment: self.environment,
            stdin: Stdin::Bytes(stdin),
            access: self.tool.access,
            ..ProcessRequest::new(program, cx.files().resolve(&here())?)
        })
    }
}
