//! Tools: writing one, calling one, and choosing the tools of a session.
//!
//! A tool consists of its arguments, its effects and a function. The schema for the model, the permission, the scheduling and the journal
//! records are derived from those.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use windlass::{FunctionTool, Output, ToolCall, Windlass};
//!
//! /// Add two numbers.
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     /// The first number.
//!     a: i64,
//!     /// The second number.
//!     b: i64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! let add = FunctionTool::pure("add", |_, args: Add| async move {
//!     Ok(Output::text((args.a + args.b).to_string()))
//! });
//! let windlass = Windlass::builder(folder.path()).tool(add).build()?;
//! let call = ToolCall::new("add", serde_json::json!({"a": 2, "b": 40}));
//! assert_eq!(windlass.call(&windlass.new_session(), call).await.output.to_text(), "42");
//! # Ok(())
//! # }
//! ```
//!
//! | to write | use |
//! |---|---|
//! | a closure | [`FunctionTool`] |
//! | a type with typed arguments | [`Tool`] |
//! | a tool whose effects need a look at the workspace | [`PlannedTool`] |
//! | a tool whose schema is known only at run time | [`DynamicTool`] |
//! | a source of tools that loads when it is needed | [`Toolset`] |
//!
//! A choice of tools can be saved and loaded. Without a list of enabled tools, all are; with an empty one, none:
//!
//! ```
//! use windlass::Windlass;
//! use windlass::tool::ToolSelection;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let saved = serde_json::to_string(&ToolSelection::all_but(["bash", "write"]))?;
//! assert_eq!(saved, r#"{"disabled":["bash","write"]}"#);
//! let none: ToolSelection = serde_json::from_str(r#"{"enabled":[]}"#)?;
//! let windlass = Windlass::builder(folder.path()).build()?;
//! for (selection, count) in [(serde_json::from_str(&saved)?, 12), (ToolSelection::default(), 14), (none, 0)] {
//!     let session = windlass.new_session_with(&selection);
//!     assert_eq!(windlass.tools(&session).await.len(), count);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | make a call and read its result | [`ToolCall`], [`CallResult`], [`Outcome`], [`Output`], [`Content`] |
//! | reach the machine from a tool | [`Context`], [`FilesDoor`], [`ProcessDoor`], [`NetDoor`], [`PeopleDoor`], [`UndoDoor`] |
//! | report an error to the model | [`ToolError`], [`FailureReason`] |
//! | choose tools | [`ToolSelection`], [`Predicate`], [`Role`] |
//! | describe tools | [`ToolSpec`], [`ToolDetails`], [`Example`] |
//! | make a command a tool | [`CommandFile`], [`command_files`], [`CommandTool`], [`Builder::command_tools`](crate::Builder::command_tools) |
//! | list the built-in tools | [`BUILTIN`] |

pub use crate::command_tools::{CommandFile, command_files};
pub use windlass_core::{
    AnyTool, Author, BoxFuture, CallResult, Content, Context, DynamicTool, EmbeddedResource,
    ErrorMessage, Example, FailureReason, FilesDoor, FunctionTool, LoadedTools, Metadata,
    ModelCallPosition, NameClash, NetDoor, Outcome, Output, Overrides, PeopleDoor, PlanContext,
    Planned, PlannedCall, PlannedTool, Predicate, Printed, PrintedPiece, ProcessDoor, ResourceBody,
    Role, TerminalText, Tool, ToolCall, ToolDetails, ToolError, ToolHandle, ToolSelection,
    ToolSpec, Toolbox, ToolboxError, ToolsChanged, Toolset, Transcript, TranscriptPiece, UndoDoor,
    WalkSettings, likeness, nearest, plain,
};
pub use windlass_tools::{
    BUILTIN, CommandDefinition, CommandTool, DefinitionError, diff, format_size,
};
