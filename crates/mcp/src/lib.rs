//! The front door for agent hosts: an MCP server over a pair of byte streams, most often the standard ones.
//!
//! This is the only crate that knows MCP. It lists the tools that an [`Engine`](windlass_core::Engine) offers a session and runs
//! the calls of a client through it; it decides nothing itself. Both wires are served by one process: 2025-11-25 and older, which
//! open with `initialize`, and 2026-07-28, where every request stands on its own.
//!
//! The protocol's types, its lifecycles and its dispatch are `rmcp`'s. Ours is what lies below: lines, messages, the table of
//! requests in flight. `rmcp` brings those too, but a line that it cannot read gets no answer, a request whose parameters do not
//! fit is taken for an unknown method, and the late answer to a cancelled request can be taken for that to another. Calls take a
//! shorter way than the other requests, because they are nearly all of them.
//!
//! Start with [`serve()`].

mod calls;
mod connection;
mod content;
mod definition;
mod elicitation;
mod ended;
mod in_flight;
mod lines;
mod message;
mod outgoing;
mod progress;
mod serve;
mod server;
mod stdio;
mod transport;
mod wire;

pub use definition::{Annotations, annotations, definition, definitions};
pub use serve::{McpError, Options, serve, serve_stdio};
