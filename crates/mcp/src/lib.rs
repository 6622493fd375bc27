//! The front door for agent hosts: an MCP server over a pair of byte streams, usually standard input and output.
//!
//! This is the only crate that knows MCP. It lists the tools that an [`Engine`](windlass_core::Engine) offers to a session and runs
//! the calls of a client through it; it makes no decisions itself. One process serves both lifecycles of the protocol: versions up
//! to 2025-11-25, which begin with `initialize`, and 2026-07-28, with stateless requests.
//!
//! The types, lifecycles and dispatch of the protocol come from `rmcp`. The layers below are ours: lines, messages, the table of
//! requests in flight. `rmcp` has those too, but it does not respond to an unreadable line, treats a request with invalid
//! parameters as an unknown method, and the late response to a cancelled request can be taken for that to another one. Calls take a
//! shorter path than other requests, because nearly all requests are calls.
//!
//! Start with [`serve()`].

mod calls;
mod connection;
mod content;
mod definition;
mod elicitation;
mod end_signal;
mod in_flight;
mod lifecycle;
mod lines;
mod message;
mod outgoing;
mod progress;
mod serve;
mod server;
mod stdio;
mod transport;

pub use definition::{Annotations, annotations, definition, definitions};
pub use serve::{McpError, Options, serve, serve_stdio};
