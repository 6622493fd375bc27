//! Command tools: a markdown file whose front matter names a command is a tool of its own.
//!
//! The arguments come to the command as JSON on standard input, and the single ones as variables; they are never put into its
//! text. It runs as every other program does: same sandbox, same limits, same answer, same undo.
//!
//! What such a call needs is, as for `bash`, the right to run that very command: rules and people decide about it by its text,
//! and a rule can name the tool. `effects` can make that less. A command that does not say `write` gets the workspace to look at
//! only, whoever wrote it, because the sandbox sees to that. That it needs no permission to run at all, but only that to look at
//! the workspace, takes more: the file must be the person's own (somebody else's word that a program only looks is worth
//! nothing), the sandbox must be on, and the network closed, or else it could carry off what it sees. Then it is as if the person
//! had written a rule that allows this one command, with a sandbox that keeps it to what was said. It can still see whatever
//! programs can see, also files that tools may not read; whoever writes `cat "$ARG_FILE"` has to mean it.

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
    Access, AnyTool, Author, BoxFuture, Confinement, Context, Effect, Effects, Kinds, Level,
    NetworkAccess, Output, Planned, PlannedCall, ProcessRequest, Scene, Shell, Spec, Stdin,
    ToolError,
};

pub use self::definition::{CommandDefinition, DefinitionError};
use crate::parameter_defaults::here;
use crate::program::answer;
use crate::shell::{self, RunLocation};

/// A tool that runs the command of a file.
///
/// ```
/// use windlass_core::{AnyTool, Author, Confinement, Kinds};
/// use windlass_tools::{CommandDefinition, CommandTool};
/// let file = "---\nname: todos\ncommand: grep -rn TODO .\neffects: [read]\n---\nWhat is left to do.\n";
/// let usual = Confinement::default();
/// let tool = |author| CommandDefinition::parse(file).map(|definition| CommandTool::new(definition, author, &usual));
/// assert_eq!(tool(Author::Person)?.kinds(), Kinds::READ, "the sandbox keeps it to that");
/// assert_eq!(tool(Author::Workspace)?.kinds(), Kinds::EXEC | Kinds::READ);
/// # Ok::<(), windlass_tools::DefinitionError>(())
/// ```
#[derive(Debug)]
pub struct CommandTool {
    definition: CommandDefinition,
    access: Access,
    /// Whether it needs no more than to look at the workspace.
    only_reads: bool,
}

impl CommandTool {
    /// The tool of a file, on a machine that confines programs like this.
    pub fn new(definition: CommandDefinition, author: Author, confinement: &Confinement) -> Self {
        let is_confined = confinement.level != Level::Off;
        let only_reads = definition.only_reads()
            && author == Author::Person
            && confinement.is_whole()
            && confinement.network == NetworkAccess::None;
        // Without a sandbox nothing keeps it from changing files: then it is better to look what it did.
        let is_held = definition.changes_nothing() && is_confined;
        let access = if is_held { Access::Read } else { Access::Staged };
        Self { definition, access, only_reads }
    }
}

impl AnyTool for CommandTool {
    fn name(&self) -> &str {
        self.definition.name()
    }

    fn kinds(&self) -> Kinds {
        if self.only_reads {
            return Kinds::READ;
        }
        Kinds::EXEC | self.definition.effects().unwrap_or(Kinds::NONE)
    }

    fn spec(&self) -> Spec {
        let (name, description) = (self.name().to_owned(), self.definition.description());
        Spec::new(name, description, self.definition.schema.clone(), self.kinds())
    }

    fn plan<'a>(
        &'a self,
        input: Value,
        scene: &Scene<'_>,
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
    /// The effects of every call. One that only looks may look at the whole workspace, also where the call works in a part of it.
    fn effects(&self, scene: &Scene<'_>, shell: &Shell) -> Effects {
        if self.only_reads {
            return Effects::read_tree(scene.workspace());
        }
        // The file says by its `effects` what the command does to the workspace, so it does not matter where it runs.
        let no_location =
            RunLocation { workspace: Path::new(""), directory: Path::new(""), home: None };
        let analysis = shell::analyze(self.definition.command(), shell, no_location);
        Effect::Exec(analysis.line_that_may_change()).into()
    }
}

/// Gives arguments that are missing the value that the schema promises.
fn add_defaults(schema: &Value, arguments: &mut Map<String, Value>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(default) = property.get("default").filter(|_| !arguments.contains_key(name)) {
            arguments.insert(name.clone(), default.clone());
        }
    }
}

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
