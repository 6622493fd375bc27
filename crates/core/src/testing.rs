//! Helpers for the tests of embedders and of this repository: a tool with a given output, a clock that stands still, the effects that
//! a tool plans.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::{
    Alteration, Altered, AnyTool, BoxFuture, Clock, Confinement, Context, DynamicTool, EffectKinds,
    Effects, FileError, FileErrorKind, Files, FoundEntry, Host, Journal, JournalError,
    MemoryHistory, OpenFile, Output, Overrides, PlanContext, Policy, Process, ProcessChanges,
    ProcessEnd, ProcessRequest, Processes, Record, RecordReceipt, Resolved, Session, SessionId,
    Signal, Stat, ToolError, ToolHandle, ToolSpec, Tracking, Visitor, WalkOptions, WalkReport,
    sync::Lock,
};

/// A clock that stands still until a test advances it.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Clock, testing::FixedClock};
/// let clock = FixedClock::at(60);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), FixedClock::at(61).now());
/// ```
#[derive(Debug)]
pub struct FixedClock(AtomicU64);

impl FixedClock {
    /// Makes a clock at this many seconds after 1970.
    pub fn at(seconds: u64) -> Self {
        Self(AtomicU64::new(seconds * 1_000))
    }

    /// Moves the clock ahead, with a precision of milliseconds.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A host with a clock and without files or programs, for tools that only compute.
#[derive(Debug)]
pub struct EmptyHost {
    clock: FixedClock,
    workspace: PathBuf,
}

impl Default for EmptyHost {
    fn default() -> Self {
        Self { clock: FixedClock::at(0), workspace: PathBuf::from("/w") }
    }
}

impl Host for EmptyHost {
    fn files(&self) -> &dyn Files {
        self
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
}

/// An [`EmptyHost`] with programs: each prints its own command line and ends.
#[derive(Debug, Default)]
pub struct EchoHost {
    empty: EmptyHost,
    confinement: Confinement,
}

impl Host for EchoHost {
    fn files(&self) -> &dyn Files {
        &self.empty
    }

    fn clock(&self) -> &dyn Clock {
        self.empty.clock()
    }

    fn processes(&self) -> Option<&dyn Processes> {
        Some(self)
    }
}

impl Processes for EchoHost {
    fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    fn start(&self, request: &ProcessRequest) -> Result<Box<dyn Process>, ToolError> {
        Ok(Box::new(Echo(Lock::new(request.program.to_string().into_bytes()))))
    }

    fn scratch(&self) -> io::Result<std::fs::File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A program that prints this text.
struct Echo(Lock<Vec<u8>>);

impl Process for Echo {
    fn read<'a>(&'a self, into: &'a mut Vec<u8>) -> BoxFuture<'a, io::Result<usize>> {
        let printed = std::mem::take(&mut *self.0.lock());
        into.extend_from_slice(&printed);
        Box::pin(std::future::ready(Ok(printed.len())))
    }

    fn write<'a>(&'a self, _: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::BrokenPipe.into())))
    }

    fn ended(&self) -> BoxFuture<'_, ProcessEnd> {
        Box::pin(std::future::ready(ProcessEnd::Exited(0)))
    }

    fn signal(&self, _: Signal) -> io::Result<()> {
        Ok(())
    }

    fn kill(&self) {}

    fn waits_for_input(&self) -> bool {
        false
    }

    fn changes(&self) -> Result<ProcessChanges, ToolError> {
        Ok(ProcessChanges::none(Tracking::Nothing))
    }
}

impl EmptyHost {
    /// Returns the error that there is no such file.
    fn not_found<T>(doing: &'static str, path: &Resolved) -> Result<T, FileError> {
        Err(FileError::new(doing, &path.path, FileErrorKind::NotFound))
    }
}

impl Files for EmptyHost {
    fn workspace(&self) -> &Path {
        &self.workspace
    }

    fn resolve(&self, path: &Path) -> Result<Resolved, FileError> {
        let path = crate::normalize(&self.workspace.join(path));
        let inside = path.strip_prefix(&self.workspace).ok().map(Path::to_owned);
        Ok(Resolved { path, inside, exists: false })
    }

    fn stat(&self, path: &Resolved) -> Result<Stat, FileError> {
        Self::not_found("look at", path)
    }

    fn open(&self, path: &Resolved) -> Result<OpenFile, FileError> {
        Self::not_found("read", path)
    }

    fn walk<'a>(
        &self,
        root: &Resolved,
        _: &WalkOptions<'a>,
        _: &(dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a),
    ) -> Result<WalkReport, FileError> {
        Self::not_found("list", root)
    }

    fn inspect(&self, _: &Resolved) -> Result<Option<FoundEntry>, FileError> {
        Ok(None)
    }

    fn alter(&self, path: &Resolved, _: &Alteration<'_>) -> Result<Altered, FileError> {
        Self::not_found("write", path)
    }

    fn excluded_by(&self, _: &Resolved) -> Result<Option<PathBuf>, FileError> {
        Ok(None)
    }

    fn nearest(&self, _: &Path) -> Option<PathBuf> {
        None
    }
}

/// Calls a function with the view of a machine that a tool has when it plans a call, in a new session with the default policy and an
/// empty history.
///
/// ```
/// use windlass_core::testing::{EmptyHost, with_scene};
/// let kind = with_scene(&EmptyHost::default(), |scene| scene.kind("Cargo.toml".as_ref()));
/// assert_eq!(kind, None);
/// ```
pub fn with_scene<T>(host: &dyn Host, look: impl FnOnce(&PlanContext<'_>) -> T) -> T {
    look(&PlanContext {
        session: &Session::new(SessionId::new("s1")),
        host,
        files: host.files(),
        history: &MemoryHistory::default(),
        policy: &Policy::default(),
        overrides: &Overrides::default(),
    })
}

/// Returns the effects that a tool plans for a call on this machine. Does not run the call.
///
/// ```
/// use windlass_core::{Effects, ToolHandle, EffectKinds, testing::{EmptyHost, MockTool, plan_effects}};
/// let tool: ToolHandle =
///     MockTool::named("publish").with_effects(EffectKinds::WRITE, |_| Effects::write("out")).into();
/// let effects = plan_effects(&EmptyHost::default(), &*tool, serde_json::json!({}))?;
/// assert_eq!(effects.to_string(), "write out");
/// # Ok::<(), windlass_core::ToolError>(())
/// ```
pub fn plan_effects(
    host: &dyn Host,
    tool: &dyn AnyTool,
    input: Value,
) -> Result<Effects, ToolError> {
    with_scene(host, |scene| Ok(tool.plan(input, scene)?.effects))
}

/// The function that produces the output of a mock tool.
type OutputFunction =
    Arc<dyn Fn(Context, Value) -> BoxFuture<'static, Result<Output, ToolError>> + Send + Sync>;

/// A tool with a given output, for tests of engines, agents and front doors.
///
/// ```
/// use windlass_core::{AnyTool, Effects, ToolHandle, EffectKinds, Output, testing::MockTool};
/// let tool: ToolHandle = MockTool::named("deploy")
///     .with_effects(EffectKinds::WRITE, |_| Effects::write("out"))
///     .answering(|_, input| async move { Ok(Output::text(format!("deployed {input}"))) })
///     .into();
/// assert_eq!(tool.name(), "deploy");
/// ```
#[derive(Clone)]
pub struct MockTool {
    name: String,
    schema: Value,
    kinds: EffectKinds,
    effects: Arc<dyn Fn(&Value) -> Effects + Send + Sync>,
    answer: OutputFunction,
}

impl MockTool {
    /// Makes a tool that accepts any arguments, has no effects and returns `ok`.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            schema: json!({"type": "object", "properties": {}}),
            kinds: EffectKinds::NONE,
            effects: Arc::new(|_| Effects::none()),
            answer: Arc::new(|_, _| Box::pin(async { Ok(Output::text("ok")) })),
        }
    }

    /// Sets the schema.
    #[must_use]
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.schema = schema;
        self
    }

    /// Sets the kinds and the effects of calls.
    #[must_use]
    pub fn with_effects(
        mut self,
        kinds: EffectKinds,
        effects: impl Fn(&Value) -> Effects + Send + Sync + 'static,
    ) -> Self {
        self.kinds = kinds;
        self.effects = Arc::new(effects);
        self
    }

    /// Sets the function that produces the output.
    #[must_use]
    pub fn answering<Fut>(
        mut self,
        answer: impl Fn(Context, Value) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        self.answer = Arc::new(move |cx, input| Box::pin(answer(cx, input)));
        self
    }
}

impl std::fmt::Debug for MockTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MockTool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl From<MockTool> for ToolHandle {
    fn from(mock: MockTool) -> Self {
        let MockTool { name, schema, kinds, effects, answer } = mock;
        let spec = ToolSpec::new(name, "A tool for tests.", schema, kinds);
        Self::from(DynamicTool::new(
            spec,
            move |input| effects(input),
            move |cx, input| answer(cx, input),
        ))
    }
}

/// A journal in memory that a test can read.
#[derive(Debug, Default)]
pub struct MemoryJournal(Lock<Vec<Record>>);

impl MemoryJournal {
    /// Returns all records so far.
    pub fn records(&self) -> Vec<Record> {
        self.0.lock().clone()
    }
}

impl Journal for MemoryJournal {
    fn append(&self, record: Record) -> BoxFuture<'static, Result<RecordReceipt, JournalError>> {
        let mut records = self.0.lock();
        records.push(record);
        let receipt = RecordReceipt::numbered(records.len() as u64);
        Box::pin(std::future::ready(Ok(receipt)))
    }
}
