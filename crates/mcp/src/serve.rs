//! Serves one connection from its beginning to its end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::service::serve_directly;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use windlass_core::{ApprovalRequest, Engine, FileChange, Session, quote};

use crate::calls::CallRunner;
use crate::connection::Connection;
use crate::content::Signature;
use crate::elicitation::Elicitation;
use crate::lines::Lines;
use crate::server::Server;
use crate::stdio;
use crate::transport::LineTransport;

/// Options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the server.
    pub name: String,
    /// Version of the server.
    pub version: String,
    /// Text about the tools as a whole that a client may show its model.
    pub instructions: Option<String>,
    /// Maximum bytes of a message; a longer one is refused and skipped.
    pub longest_message: usize,
    /// Maximum number of requests that wait for their response; more are refused.
    pub most_in_flight: usize,
    /// Time for which calls may continue after the input has ended, before they are stopped: so requests from a pipe that closes at
    /// once still get their responses.
    pub grace: Duration,
    /// Renders the changes of an approval for the person behind the client.
    pub describe_changes: fn(&ApprovalRequest) -> String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "windlass".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            instructions: None,
            longest_message: 64 * 1024 * 1024,
            most_in_flight: 1024,
            // Clients kill a server that still runs two seconds after they closed its input.
            grace: Duration::from_secs(1),
            describe_changes: list_changes,
        }
    }
}

/// Lists the changed files, without their content.
fn list_changes(request: &ApprovalRequest) -> String {
    let name = |change: &FileChange| format!("{} {}\n", change.verb, quote::path(&change.path));
    request.changes.iter().map(name).collect()
}

/// Error that ended a connection.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The input could not be read.
    #[error("cannot read the client's messages: {0}")]
    Input(#[source] io::Error),
    /// The output could not be written.
    #[error("cannot write to the client: {0}")]
    Output(#[source] io::Error),
    /// The server itself failed.
    #[error("the server ended early: {0}")]
    Internal(String),
}

/// Serves a session over standard input and output until the input ends.
///
/// No other code may write to standard output meanwhile. Must be called inside a runtime with I/O and time enabled; one thread is
/// enough, and fastest.
pub async fn serve_stdio(
    engine: Engine,
    session: Arc<Session>,
    options: Options,
) -> Result<(), McpError> {
    serve(engine, session, stdio::input(), stdio::output(), options).await
}

/// Serves a session until the input ends, then stops running calls. A client that disconnects is a normal end.
///
/// ```
/// use std::sync::Arc;
/// use tokio::io::AsyncReadExt;
/// use windlass_core::{Engine, testing::EmptyHost};
/// use windlass_mcp::{Options, serve};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder(Arc::new(EmptyHost::default())).build();
/// let session = engine.new_session();
/// let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
/// let (mut client, output) = tokio::io::duplex(4096);
/// serve(engine, session, &ping[..], output, Options::default()).await?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer).await?;
/// assert_eq!(answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
/// # Ok(())
/// # }
/// ```
pub async fn serve(
    engine: Engine,
    session: Arc<Session>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    options: Options,
) -> Result<(), McpError> {
    let config = config(&options);
    let signature = Signature::new(&config.server_info);
    let connection = Arc::new(Connection::new(output, options.most_in_flight));
    let calls = CallRunner {
        engine: engine.clone(),
        session: session.clone(),
        connection: connection.clone(),
        signature: signature.clone(),
    };
    let _attending =
        engine.attend(session.id(), Elicitation::new(connection.clone(), options.describe_changes));
    let lines = Lines::new(input, options.longest_message);
    let transport = LineTransport::new(lines, connection.clone(), Arc::new(calls));
    let server = Server { engine, session, config, signature };

    let _stop_calls = StopCalls(connection.clone());
    let _writing = write_queued(connection.clone());
    let quit = serve_directly(server, transport, None).waiting().await;
    connection.finish(options.grace).await;
    quit.map_err(|error| McpError::Internal(error.to_string()))?;
    final_result(&connection)
}

/// Stops all calls on drop: also if the future of the connection is dropped.
struct StopCalls(Arc<Connection>);

impl Drop for StopCalls {
    fn drop(&mut self) {
        self.0.in_flight.stop_all();
    }
}

/// Writes in the background, until the returned task set is dropped. A task of its own runs after the tasks that queue responses,
/// and so writes all of them at once.
fn write_queued(connection: Arc<Connection>) -> JoinSet<()> {
    let mut task = JoinSet::new();
    task.spawn(async move { connection.outgoing.write_queued().await });
    task
}

/// Returns the error that ended the connection, if any. A closed pipe is none.
fn final_result(connection: &Connection) -> Result<(), McpError> {
    if let Some(error) = connection.input_ended.take_failure() {
        return Err(McpError::Input(error));
    }
    match connection.outgoing.ended().take_failure() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(McpError::Output(error)),
        _ => Ok(()),
    }
}

/// Returns the server's name, version, instructions and capabilities.
fn config(options: &Options) -> ServerConfig {
    let capabilities = ServerCapabilities::builder().enable_tools().build();
    let mut config = ServerConfig::new(capabilities)
        .with_server_info(Implementation::new(&options.name, &options.version));
    config.instructions.clone_from(&options.instructions);
    config
}
