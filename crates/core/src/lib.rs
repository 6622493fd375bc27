//! The contract and the engine of Windlass.
//!
//! A tool author declares the arguments and the effects of a call. Schema, validation, permission, scheduling, caching, bounds and the
//! record are derived from those two here. This crate prints nothing, reads no environment and knows no HTTP, no SQL, no MCP and no
//! model. It reaches the machine only through the [`Host`] doors.
//!
//! Start with [`Tool`], then [`Engine`].

mod address;
mod author;
mod budget;
mod changes;
mod context;
mod effects;
mod engine;
mod error;
mod event;
mod function;
mod git_config;
mod hooks;
mod host;
mod id;
mod jobs;
mod journal;
mod mask;
mod nearest;
mod output;
mod people;
mod plan;
mod plan_context;
mod policy;
mod predicate;
mod principal;
mod protected;
pub mod quote;
mod recorder;
mod registry;
mod rights;
mod schema;
mod secrets;
mod session;
mod session_tmp;
mod state_store;
mod sync;
mod terminal_text;
pub mod testing;
mod text_index;
mod tool;
mod toolbox;
mod toolset;
mod transcript;
mod utc;

pub use address::{is_public_address, special_purpose};
pub use author::Author;
pub use budget::{Budget, Spent};
pub use changes::commit::Step;
pub use changes::history::{
    Checkpoint, ContentHash, ContentHasher, Exclusive, FileObject, FileState, History,
    HistoryError, MemoryHistory, NewCheckpoint, NewContent, Origin, Pending, Query, RecordedChange,
    WithoutHistory,
};
pub use changes::proposals::{Application, Proposal, Proposals, ProposedBy, Shelf};
pub use changes::recover::{CommitState, PLANTED_REMOVAL, Recovered, finish_removal, recover};
pub use changes::snapshot::{Snapshot, SnapshotPlan};
pub use changes::undo::{Conflict, UndoPlan, Way};
pub use context::{
    Context, FilesDoor, IndexDoor, NetDoor, PeopleDoor, Printed, PrintedPiece, ProcessDoor,
    StateDoor, StateScope, UndoDoor, WalkSettings,
};
pub use effects::{
    CommandLine, Effect, Effects, Kinds, OnlyReads, PathPattern, Reach, Risk, Search,
    SimpleCommand, normalize, program_name,
};
pub use engine::{CacheStats, Engine, EngineBuilder};
pub use error::{FailureReason, Message, ToolError};
pub use event::{Event, EventKind, Filter, Started, Subscription};
pub use function::{DynamicTool, FunctionTool};
pub use hooks::{Happening, Heard, Hook, HookAnswer, HookCall, HookEvent, HookVerdict, Moment};
pub use host::{
    Absence, Access, Alteration, Altered, Attributes, Backend, Batch, BoxFuture, ChangedTo, Clock,
    Confinement, Entry, Errors, Expect, Extent, FileError, FileErrorKind, FileKind, Files,
    Fingerprint, Found, FoundBody, FoundText, Grammar, HeldChanges, HeldFor, Host, HostName,
    HttpBody, HttpLimits, HttpRequest, HttpResponse, HttpUrl, KeptContent, Level, Meter, Network,
    NetworkAccess, NetworkTerms, Note, OpenFile, Opened, Opener, PathUse, Process, ProcessChange,
    ProcessChanges, ProcessEnd, ProcessRequest, Processes, Program, Resolved, Shell, Signal,
    Source, Stage, Stat, Stdin, TerminalSize, To, Tracking, Visitor, Walk, WalkOptions, WalkReport,
};
pub use id::{
    ApprovalId, CallId, IdSource, JobId, QuestionId, SequentialIds, SessionId, TurnId, id_number,
};
pub use jobs::{ChangeKind, Changed, Job, JobEnd};
pub use journal::{
    ApprovalAnswered, ApprovalAsked, BODY_VERSION, CallExtended, CallFinished, CallStarted,
    JobChange, JobEnded, Journal, JournalError, MemoryOutputs, MessageNote, ModelCall, Outputs,
    ProvenanceFacts, QuestionAnswered, QuestionAsked, Receipt, Record, RecordKind, RecordsMissing,
    Recovery, RequestNote, SessionBegun, SessionNews, SessionNote, Speaker, StateNote, TaskNote,
    TaskState,
};
pub use nearest::{likeness, nearest};
pub use output::{Content, EmbeddedResource, Metadata, Outcome, Output, ResourceBody};
pub use people::{
    Answer, AnswerError, Approval, ApprovalRequest, Asker, Attendance, Attendant, Book,
    BuiltChange, FileChange, Held, HeldDifference, Inquiry, InquiryState, Listening, MemoryBook,
    Question, QuestionAnswer, QuestionOption, QuestionRequest, Reply, Scope, Selection, Settled,
};
pub use plan::{Planned, PlannedCall, PlannedTool};
pub use plan_context::Scene;
pub use policy::{
    Decided, DecidedBy, Decision, DirectWrites, FileRights, Grant, HardDenies, Keep, Layer, Mode,
    OutsidePaths, PASS_THROUGH, PathGlob, Policy, Resource, RiskLevel, Rule, RuleError, Ruling,
    SecretName, Situation, Verdict, When, holds_credential, system_directory,
};
pub use predicate::{Predicate, Role, ToolSelection};
pub use principal::Principal;
pub use protected::{
    GitPart, GitPlace, GitRecord, PROTECTED_PLACES, ProtectedPlace, ProtectedScope,
    begins_protected_place, git_place, git_record, is_protected_when_absent,
    protected_beginning_with, protected_entries, protected_reason,
};
pub use registry::ToolsChanged;
pub use rights::{Limits, Rights};
pub use secrets::{SecretValue, Secrets};
pub use session::{SeenRecord, Session, Unseen};
pub use session_tmp::{SESSION_TMP, below_session_tmp, usual_tmp_path};
pub use state_store::{MemoryState, StateEntry, StatePlace, StateStore};
pub use terminal_text::{Plain, plain};
pub use text_index::{Document, Indexed, Passage, TextIndex};
pub use tool::{About, AnyTool, CallResult, Example, Handle, Overrides, Spec, Tool, ToolCall};
pub use toolbox::{Toolbox, ToolboxError};
pub use toolset::{Loaded, Merge, Toolset};
pub use transcript::{Piece, Transcript};
pub use utc::utc;
