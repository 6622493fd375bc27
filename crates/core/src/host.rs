//! What a machine must offer: the doors that a [`Context`](crate::Context) opens for a tool.
//!
//! `core` only names the doors; the crate `host` builds them for this machine. A host knows nothing of policy: it takes paths
//! that were resolved and decided on, and makes sure that the object it opens is the very one the decision was about.

mod files;

use std::pin::Pin;
use std::time::SystemTime;

pub use files::{
    Change, Entry, Expect, FileError, FileErrorKind, FileKind, Files, Fingerprint, Note, OpenFile,
    Opener, Resolved, Stat, Visitor, Walk, WalkOptions, WalkReport, Written,
};
use serde_json::Value;

use crate::{CommandLine, SessionId, ToolError};

/// A future behind a pointer, for traits that are used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One machine with its doors. A door that a host does not have is `None`, and tools that need it say so.
pub trait Host: Send + Sync {
    /// The files.
    fn files(&self) -> &dyn Files;

    /// What time it is.
    fn clock(&self) -> &dyn Clock;

    /// Programs.
    fn processes(&self) -> Option<&dyn Processes> {
        None
    }

    /// The network.
    fn network(&self) -> Option<&dyn Network> {
        None
    }

    /// Somebody to ask.
    fn person(&self) -> Option<&dyn Person> {
        None
    }

    /// What lasts from call to call: todo lists, memory.
    fn state(&self) -> Option<&dyn State> {
        None
    }
}

/// What time it is; a fixed one in tests.
///
/// ```
/// use windlass_core::{Clock, testing::FixedClock};
/// let clock = FixedClock::at(1_000);
/// assert_eq!(clock.now(), clock.now());
/// ```
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> SystemTime;
}

/// Starts programs: the one way in which a child of ours comes to life.
pub trait Processes: Send + Sync {
    /// Runs a program to its end, handing every piece of output to `sink` as it comes.
    fn run<'a>(
        &'a self,
        request: ProcessRequest,
        sink: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<ProcessEnd, ToolError>>;
}

/// A program to run.
#[derive(Debug, Clone)]
pub struct ProcessRequest {
    /// What to run.
    pub command: CommandLine,
    /// Where.
    pub directory: Resolved,
    /// What it may read from its standard input; closed if empty.
    pub stdin: Vec<u8>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

/// Talks to other machines.
pub trait Network: Send + Sync {
    /// Sends one request and collects the answer, at most `max_bytes` of it.
    fn send(
        &self,
        request: HttpRequest,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<HttpResponse, ToolError>>;
}

/// A request of the HTTP protocol.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// `GET`, `POST` …
    pub method: String,
    /// The absolute address.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer of the HTTP protocol.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The address it finally came from.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, cut at the limit that was asked for.
    pub body: Vec<u8>,
    /// Whether the body was cut.
    pub truncated: bool,
}

/// Somebody who can be asked.
pub trait Person: Send + Sync {
    /// Asks, and waits for the answers: one list of chosen labels per question. `None` if nobody answers.
    fn ask(&self, questions: Value) -> BoxFuture<'_, Option<Value>>;
}

/// Small values that last: one JSON value per session and key.
pub trait State: Send + Sync {
    /// The value, if there is one.
    fn get(&self, session: &SessionId, key: &str) -> Result<Option<Value>, ToolError>;
    /// Replaces the value.
    fn set(&self, session: &SessionId, key: &str, value: Value) -> Result<(), ToolError>;
}
