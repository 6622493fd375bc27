//! An engine with a journal and a listener, and tools with given behaviour.

mod host;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::testing::{EmptyHost, MemoryJournal, MockTool};
use windlass_core::{
    ApprovalRequest, BoxFuture, CallId, CallResult, CallStarted, EffectKinds, Effects, Engine,
    EngineBuilder, Event, EventKind, Host, Journal, JournalError, Mode, Outcome, Output, Policy,
    Record, RecordKind, RecordReceipt, Session, Subscription, ToolCall, ToolHandle, Toolbox,
};

pub(crate) use host::MapHost;

/// An engine with a journal and a listener, and one session. Effects inside the workspace are allowed.
pub(crate) struct Setup {
    pub(crate) engine: Engine,
    pub(crate) session: Arc<Session>,
    pub(crate) journal: Arc<MemoryJournal>,
    pub(crate) events: Subscription,
}

impl Setup {
    /// Makes an engine with these tools on an empty host.
    pub(crate) fn of<T: Into<ToolHandle>>(tools: impl IntoIterator<Item = T>) -> Self {
        Self::with(tools, |builder| builder)
    }

    /// Makes an engine with these tools on an empty host, with changes to its builder.
    pub(crate) fn with<T: Into<ToolHandle>>(
        tools: impl IntoIterator<Item = T>,
        choose: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> Self {
        Self::on(Arc::new(EmptyHost::default()), tools, choose)
    }

    /// Makes an engine with these tools on a host, with changes to its builder.
    pub(crate) fn on<T: Into<ToolHandle>>(
        host: Arc<dyn Host>,
        tools: impl IntoIterator<Item = T>,
        choose: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> Self {
        let journal = Arc::new(MemoryJournal::default());
        let builder = Engine::builder(host)
            .toolbox(toolbox(tools))
            .policy(Policy::new(Mode::Auto))
            .journal(journal.clone());
        let engine = choose(builder).build();
        let (session, events) = (engine.new_session(), engine.subscribe());
        Self { engine, session, journal, events }
    }

    /// Replaces the session.
    pub(crate) fn in_session(mut self, session: Session) -> Self {
        self.session = Arc::new(session);
        self
    }

    /// Calls a tool and waits for its result.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> CallResult {
        self.engine.call(&self.session, ToolCall::new(tool, input)).await
    }

    /// Starts a call without waiting for it.
    pub(crate) fn spawn(&self, call: ToolCall) -> tokio::task::JoinHandle<CallResult> {
        let (engine, session) = (self.engine.clone(), self.session.clone());
        tokio::spawn(async move { engine.call(&session, call).await })
    }

    /// Waits for the next event for which `pick` returns a value, and returns that value. Drops the events before it.
    pub(crate) async fn next<T>(&mut self, pick: impl Fn(Event) -> Option<T>) -> T {
        let search = async {
            loop {
                if let Some(found) = pick(self.events.next().await) {
                    return found;
                }
            }
        };
        tokio::time::timeout(Duration::from_hours(1), search).await.expect("the event never came")
    }

    /// Waits for the next request for an approval.
    pub(crate) async fn asked(&mut self) -> Arc<ApprovalRequest> {
        self.next(|event| match event.kind {
            EventKind::Approval(request) => Some(request),
            _ => None,
        })
        .await
    }

    /// Waits for the start of a call of this tool, and returns the id of the call.
    pub(crate) async fn started(&mut self, tool: &str) -> CallId {
        self.next(|event| match event.kind {
            EventKind::Started(started) if started.tool == tool => event.call,
            _ => None,
        })
        .await
    }

    /// Returns the waiting events, once all that has happened is published.
    pub(crate) async fn told(&mut self) -> Vec<Event> {
        self.events.drain().await
    }

    /// Returns the records of calls and jobs, without those of approvals and questions.
    fn records_of_calls(&self) -> Vec<Record> {
        let is_of_call = |record: &Record| {
            use RecordKind::{Extended, Finished, JobEnded, Recovered, Started};
            matches!(record.kind, Started | Extended | Finished(_) | JobEnded | Recovered)
        };
        self.journal.records().into_iter().filter(is_of_call).collect()
    }

    /// Describes the records of calls in order: `started read`, `ok read`.
    pub(crate) fn recorded(&self) -> Vec<String> {
        self.records_of_calls().iter().map(describe).collect()
    }

    /// Returns the decision in a record of the start of a call, in words.
    pub(crate) fn decided(&self, record: usize) -> String {
        let body = &self.records_of_calls()[record].body;
        serde_json::from_str::<CallStarted<'_>>(body).expect("a beginning").decided.to_string()
    }

    /// Returns the bodies of the records of calls, parsed.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        let parse = |record: &Record| serde_json::from_str(&record.body).expect("a JSON body");
        self.records_of_calls().iter().map(parse).collect()
    }
}

/// Describes a record by its kind and tool.
fn describe(record: &Record) -> String {
    match record.kind {
        RecordKind::Started => format!("started {}", record.tool),
        RecordKind::Finished(outcome) => format!("{} {}", outcome.as_str(), record.tool),
        RecordKind::JobEnded => format!("job of {} ended", record.tool),
        RecordKind::Extended => format!("{} extended", record.tool),
        kind => kind.as_str().to_owned(),
    }
}

/// Makes a toolbox of these tools.
pub(crate) fn toolbox<T: Into<ToolHandle>>(tools: impl IntoIterator<Item = T>) -> Toolbox {
    let mut toolbox = Toolbox::new();
    for tool in tools {
        toolbox.add(tool).expect("a name of its own");
    }
    toolbox
}

/// Makes a tool that returns its arguments.
pub(crate) fn echo(name: &str) -> MockTool {
    MockTool::named(name).answering(|_, input| async move { Ok(Output::text(input.to_string())) })
}

/// Makes a tool that returns this text.
pub(crate) fn says(name: &str, text: &'static str) -> MockTool {
    MockTool::named(name).answering(move |_, _| async move { Ok(Output::text(text)) })
}

/// Makes a tool that emits output and then never ends.
pub(crate) fn hangs(name: &str) -> MockTool {
    MockTool::named(name).answering(|cx, _| async move {
        cx.output("so far so good");
        std::future::pending().await
    })
}

/// Gives a tool the effect to write `/w/out`, for which the mode `ask` asks.
pub(crate) fn writes(tool: MockTool) -> MockTool {
    tool.with_effects(EffectKinds::WRITE, |_| Effects::write("out"))
}

/// Returns the argument `path`.
pub(crate) fn path_of(input: &Value) -> String {
    input["path"].as_str().expect("a path").to_owned()
}

/// Makes a call without arguments.
pub(crate) fn call(tool: &str) -> ToolCall {
    ToolCall::new(tool, json!({}))
}

#[track_caller]
/// Asserts the outcome and the text of a result.
pub(crate) fn assert_text(result: &CallResult, outcome: Outcome, text: &str) {
    assert_eq!((result.outcome, result.output.to_text().as_str()), (outcome, text));
}

/// A list that several tasks append to.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A journal that fails for records of the kinds in `fails`.
pub(crate) struct FailingJournal {
    pub(crate) fails: fn(RecordKind) -> bool,
}

impl Journal for FailingJournal {
    fn append(&self, record: Record) -> BoxFuture<'static, Result<RecordReceipt, JournalError>> {
        let failed = (self.fails)(record.kind);
        let answer = if failed {
            Err(JournalError("the disk is full".into()))
        } else {
            Ok(RecordReceipt::unnumbered())
        };
        Box::pin(std::future::ready(answer))
    }
}
