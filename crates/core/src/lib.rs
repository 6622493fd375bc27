//! The contract and the engine of Windlass.
//!
//! A tool author declares the arguments and the effects of a call; everything else is derived from those two here: schema,
//! validation, permission, scheduling, caching, bounds, the record. This crate prints nothing, reads no environment and knows no
//! HTTP, no SQL, no MCP and no model. What a machine offers is behind the [`Host`] doors.
//!
//! Start with [`Tool`], then [`Engine`].

mod context;
mod effects;
mod engine;
mod error;
mod event;
mod function;
mod host;
mod id;
mod journal;
mod nearest;
mod output;
mod policy;
mod predicate;
pub mod quote;
mod schema;
mod session;
mod sync;
pub mod testing;
mod tool;
mod toolbox;
pub mod wire;

pub use context::{Context, FilesDoor, WalkSettings};
pub use effects::{CommandLine, Effect, Effects, Kinds, PathPattern, Reach, normalize};
pub use engine::{
    CacheStats, Checkpoints, Engine, EngineBuilder, Hook, HookAnswer, HookCall, Secrets,
};
pub use error::{Message, ToolError};
pub use event::{Event, Started, Subscription};
pub use function::{DynamicTool, FunctionTool};
pub use host::{
    BoxFuture, Change, Clock, Entry, Expect, FileError, FileErrorKind, FileKind, Files,
    Fingerprint, Host, HttpRequest, HttpResponse, Network, Note, OpenFile, Opener, Person,
    ProcessEnd, ProcessRequest, Processes, Resolved, Stat, State, Visitor, Walk, WalkOptions,
    WalkReport, Written,
};
pub use id::{CallId, IdSource, SequentialIds, SessionId, TurnId, id_number};
pub use journal::{Journal, JournalError, MemoryOutputs, Outputs, Record, RecordKind};
pub use nearest::{likeness, nearest};
pub use output::{Content, Metadata, Outcome, Output};
pub use policy::{
    Answer, ApprovalId, ApprovalRequest, Approvals, Approver, Decision, Grant, HardDenies, Mode,
    Policy, Resource, Rule, RuleError, Verdict,
};
pub use predicate::{Predicate, Role};
pub use session::{Session, Unseen};
pub use tool::{AnyTool, CallResult, Handle, Overrides, Prepared, Spec, Tool, ToolCall};
pub use toolbox::{Toolbox, ToolboxError, Toolset};
