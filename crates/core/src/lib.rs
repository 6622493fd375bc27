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
pub use changes::by_directory::{ChangeCounts, count_by_directory};
pub use changes::commit::CommitStep;
pub use changes::history::{
    ChangeWithoutHistory, Checkpoint, CheckpointQuery, ContentHash, ContentHasher, FileObject,
    FileState, History, HistoryError, HistoryLock, MemoryHistory, NewCheckpoint, NewContent,
    Origin, PendingCheckpoint, RecordedChange,
};
pub use changes::proposals::{Proposal, ProposalApplication, ProposalStore, Proposals, ProposedBy};
pub use changes::recover::{CommitState, PLANTED_REMOVAL, Recovered, finish_removal, recover};
pub use changes::snapshot::{Snapshot, SnapshotPlan};
pub use changes::undo::{Conflict, UndoPlan, UndoStep};
pub use context::{
    Context, FilesDoor, IndexDoor, NetDoor, PeopleDoor, Printed, PrintedPiece, ProcessDoor,
    StateDoor, StateScope, UndoDoor, WalkSettings,
};
pub use effects::{
    CommandLine, CommandRisk, CommandSearch, Effect, EffectKinds, Effects, OnlyReads, PathPattern,
    Reach, SimpleCommand, normalize, program_name,
};
pub use engine::{CacheStats, Engine, EngineBuilder};
pub use error::{ErrorMessage, FailureReason, ToolError};
pub use event::{CallStart, Event, EventFilter, EventKind, Subscription};
pub use function::{DynamicTool, FunctionTool};
pub use hooks::{
    Hook, HookAnswer, HookCall, HookEvent, HookOutcome, HookPayload, HookPoint, HookVerdict,
};
pub use host::{
    Absence, Access, Alteration, Altered, Attributes, Backend, Batch, BoxFuture, ChangedTo, Clock,
    Confinement, ContentSource, Entry, ExpectedState, Extent, FileError, FileErrorKind, FileKind,
    Files, Fingerprint, FoundBody, FoundEntry, FoundIndex, FoundText, Grammar, HeldChanges, Host,
    HostName, HttpBody, HttpLimits, HttpRequest, HttpResponse, HttpUrl, KeptContent, Network,
    NetworkAccess, NetworkTerms, OpenFile, OpenedContent, Opener, PathUse, Process, ProcessChange,
    ProcessChanges, ProcessEnd, ProcessRequest, Processes, Program, Resolved, SandboxLevel, Shell,
    Signal, SkippedPath, StageHold, StageStorage, Stat, StderrTarget, Stdin, TargetState,
    TerminalSize, Tracking, TrafficMeter, Visitor, Walk, WalkOptions, WalkReport,
};
pub use id::{
    ApprovalId, CallId, IdSource, JobId, QuestionId, SequentialIds, SessionId, TurnId, id_number,
};
pub use jobs::{ChangeKind, Job, JobEnd, ProgramChangeReport};
pub use journal::{
    ApprovalAnswered, ApprovalAsked, BODY_VERSION, CallExtended, CallFinished, CallStarted,
    JobChange, JobEnded, Journal, JournalError, MemoryOutputs, MessageAuthor, MessageNote,
    ModelCallPosition, Outputs, ProvenanceFacts, QuestionAnswered, QuestionAsked, Record,
    RecordKind, RecordReceipt, RecordsMissing, Recovery, RequestNote, ResumedCallFacts,
    SessionBegun, SessionNote, StateNote, TaskNote, TaskState,
};
pub use nearest::{likeness, nearest};
pub use output::{Content, EmbeddedResource, Metadata, Outcome, Output, ResourceBody};
pub use people::{
    Answer, AnswerError, Approval, ApprovalRequest, ApprovalState, Attendant,
    AttendantRegistration, AttendantReply, BookError, BuiltChange, CommandEnd, EventAttendant,
    FileChange, HeldDiff, Inquiry, InquiryBook, InquiryState, MemoryBook, Question, QuestionAnswer,
    QuestionOption, QuestionRequest, Requester, Scope, Selection, WaitGuard,
};
pub use plan::{Planned, PlannedCall, PlannedTool};
pub use plan_context::PlanContext;
pub use policy::{
    ActiveRule, AskTime, DecidedBy, Decision, DecisionContext, DirectWrites, ExplainedDecision,
    FileRights, Grant, HardDenies, KeptChanges, Layer, Mode, OutsidePaths, PASS_THROUGH, PathGlob,
    Policy, Resource, RiskLevel, Rule, RuleError, SecretName, Verdict, holds_credential,
    system_directory,
};
pub use predicate::{Predicate, Role, ToolSelection};
pub use principal::Principal;
pub use protected::{
    GitPart, GitPath, GitRecord, PROTECTED_PLACES, ProtectedPath, ProtectedScope,
    begins_protected_place, git_place, git_record, is_protected_when_absent,
    protected_beginning_with, protected_entries, protected_reason,
};
pub use registry::ToolsChanged;
pub use rights::{Rights, SessionLimits};
pub use secrets::{SecretValue, Secrets};
pub use session::{SeenRecord, Session, Unseen};
pub use session_tmp::{SESSION_TMP, below_session_tmp, usual_tmp_path};
pub use state_store::{MemoryState, StateEntry, StateOwner, StateStore};
pub use terminal_text::{TerminalText, plain};
pub use text_index::{Document, IndexedDocuments, Passage, TextIndex};
pub use tool::{
    AnyTool, CallResult, Example, Overrides, Tool, ToolCall, ToolDetails, ToolHandle, ToolSpec,
};
pub use toolbox::{Toolbox, ToolboxError};
pub use toolset::{LoadedTools, NameClash, Toolset};
pub use transcript::{Transcript, TranscriptPiece};
pub use utc::utc;
