//! A server with a few tools, and a client that talks to it in lines.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use windlass_core::testing::{EmptyHost, MemoryJournal, MockTool};
use windlass_core::{
    Content, EffectKinds, Effects, Engine, Outcome, Output, Question, RecordKind, Toolbox,
};
use windlass_mcp::{McpError, Options, serve};

/// The client's end of a connection.
pub(crate) struct Client {
    to_server: DuplexStream,
    from_server: BufReader<DuplexStream>,
    pub(crate) server: JoinHandle<Result<(), McpError>>,
    pub(crate) journal: Arc<MemoryJournal>,
    pub(crate) gate: Arc<Gate>,
}

/// Synchronizes a test with the calls of the tool `wait`.
#[derive(Debug)]
pub(crate) struct Gate {
    /// One permit for each call that has begun.
    begun: Semaphore,
    /// One permit for each call that may end.
    open: Semaphore,
}

impl Gate {
    pub(crate) async fn wait_until_begun(&self, calls: u32) {
        self.begun.acquire_many(calls).await.unwrap().forget();
    }

    pub(crate) fn allow_ends(&self, calls: usize) {
        self.open.add_permits(calls);
    }
}

fn toolbox(gate: &Arc<Gate>) -> Toolbox {
    let gate = gate.clone();
    let number = json!({"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"], "additionalProperties": false});
    let tools = [
        MockTool::named("echo").answering(|_, input| async move { Ok(Output::json(input)) }),
        MockTool::named("count")
            .with_schema(number)
            .with_effects(EffectKinds::READ, |_| Effects::read("numbers"))
            .answering(|_, input| async move { Ok(Output::text(input["number"].to_string())) }),
        MockTool::named("fail")
            .answering(|_, _| async { Ok(Output::error("no such thing").with("tried", 3)) }),
        MockTool::named("panic").answering(|_, _| async { panic!("oh no") }),
        MockTool::named("save").with_effects(EffectKinds::WRITE, |_| Effects::write("out")),
        MockTool::named("publish")
            .with_effects(EffectKinds::WRITE, |_| Effects::write("index.html"))
            .answering(|_, _| async { Ok(Output::text("published")) }),
        MockTool::named("choose")
            .with_effects(EffectKinds::STATE, |_| Effects::state("question"))
            .answering(|cx, _| async move {
                let letters = Question::new("Which letters?", ["x", "y", "z"]);
                let letters = Question { multi_select: true, ..letters };
                let colour = Question::new("Which colour?", ["red", "blue"]);
                let answer = cx.people()?.ask(&[colour, letters]).await?;
                let chosen = answer.selections.iter().map(|one| one.selected.join(", "));
                Ok(Output::text(chosen.collect::<Vec<_>>().join("; ")))
            }),
        MockTool::named("show").answering(|_, _| async { Ok(all_content_kinds()) }),
        MockTool::named("wait").answering(move |cx, _| {
            let gate = gate.clone();
            async move {
                gate.begun.add_permits(1);
                gate.open.acquire().await.unwrap().forget();
                cx.output("not sent without a progress token");
                Ok(Output::text("waited"))
            }
        }),
        MockTool::named("work").answering(|cx, _| async move {
            cx.progress(1, Some(3), "one");
            tokio::task::yield_now().await;
            cx.output("half ");
            cx.output("done\n");
            tokio::task::yield_now().await;
            cx.progress(3, Some(3), "three");
            Ok(Output::text("worked"))
        }),
    ];
    let mut toolbox = Toolbox::new();
    for tool in tools {
        toolbox.add(tool).unwrap();
    }
    toolbox
}

/// Makes an output with one piece of each kind of content.
fn all_content_kinds() -> Output {
    let content = vec![
        Content::text("a text"),
        Content::Image { media_type: "image/png".into(), data: "AAAA".into() },
        Content::Audio { media_type: "audio/wav".into(), data: "BBBB".into() },
        Content::Json { value: json!([1, 2]) },
        Content::resource_text("file:///a.md", "# A"),
        Content::ResourceLink {
            uri: "output:c1".into(),
            name: "the rest".into(),
            media_type: Some("text/plain".into()),
        },
    ];
    Output { content, ..Output::default() }
}

impl Client {
    /// Opens a connection without sending anything.
    pub(crate) fn new(options: Options) -> Self {
        let gate = Arc::new(Gate { begun: Semaphore::new(0), open: Semaphore::new(0) });
        let journal = Arc::new(MemoryJournal::default());
        let engine = Engine::builder(Arc::new(EmptyHost::default()))
            .toolbox(toolbox(&gate))
            .journal(journal.clone())
            .build();
        let session = engine.new_session();
        let (to_server, input) = tokio::io::duplex(64 * 1024);
        let (output, from_server) = tokio::io::duplex(64 * 1024);
        let server = tokio::spawn(serve(engine, session, input, output, options));
        Self { to_server, from_server: BufReader::new(from_server), server, journal, gate }
    }

    /// Opens a connection with `initialize`.
    pub(crate) async fn initialized() -> Self {
        let mut client = Self::new(Options::default());
        client.initialize().await;
        client
    }

    pub(crate) async fn initialize(&mut self) {
        self.send(&initialize("2025-11-25")).await;
        assert_eq!(self.receive().await["result"]["protocolVersion"], "2025-11-25");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string()).await;
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.to_server.write_all(bytes).await.unwrap();
    }

    /// Receives the next message. Panics if the line is no message.
    pub(crate) async fn receive(&mut self) -> Value {
        self.receive_or_end().await.expect("the server has ended")
    }

    pub(crate) async fn receive_or_end(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.from_server.read_line(&mut line).await.unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    pub(crate) async fn send_and_receive(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.receive().await
    }

    /// Waits until this number of calls have ended, with or without a response.
    pub(crate) async fn wait_until_ended(&self, calls: usize) {
        while recorded_outcomes(&self.journal).len() < calls {
            tokio::task::yield_now().await;
        }
    }

    /// Closes the client's end of the input.
    pub(crate) async fn close_input(&mut self) {
        self.to_server.shutdown().await.unwrap();
    }

    /// Drops the connection, and returns when the server has ended.
    pub(crate) async fn disconnect(self) -> (Result<(), McpError>, Arc<MemoryJournal>) {
        drop((self.to_server, self.from_server));
        (self.server.await.unwrap(), self.journal)
    }
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": "init", "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    })
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

pub(crate) fn cancel(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}})
}

/// Makes the `_meta` of a stateless request, as version 2026-07-28 requires it.
pub(crate) fn stateless_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    })
}

/// Returns tools and outcomes of the recorded calls, in the order in which they ended.
pub(crate) fn recorded_outcomes(journal: &MemoryJournal) -> Vec<(String, Outcome)> {
    let ends = journal.records().into_iter().filter_map(|record| match record.kind {
        RecordKind::Finished(outcome) => Some((record.tool, outcome)),
        _ => None,
    });
    ends.collect()
}
