//! Events: messages about calls, jobs, approvals and warnings, for one session, one call or the whole engine.
//!
//! An event about a journal record carries the number of that record (`seq`), and is published once the record is safe and numbered: with
//! a state directory this can be shortly after the call has returned. The events of a call come in order. A slow listener delays no
//! call; beyond 1,024 waiting events it may lose output and progress, which [`Subscription::lost`] counts, and nothing else.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! use windlass::event::EventKind;
//! use windlass::{ToolCall, Windlass};
//! # let folder = tempfile::tempdir().unwrap();
//! let windlass = Windlass::builder(folder.path()).build()?;
//! let mut events = windlass.subscribe();
//! windlass.call(&windlass.new_session(), ToolCall::new("list", serde_json::json!({}))).await;
//! assert!(matches!(events.next().await.kind, EventKind::Started(started) if started.tool == "list"));
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | listen to everything | [`Windlass::subscribe`](crate::Windlass::subscribe), [`Subscription`] |
//! | listen to a session or a call | [`Engine::subscribe_to`](crate::engine::Engine::subscribe_to), [`EventFilter`] |
//! | read an event, or write it as JSON | [`Event`], [`EventKind`], [`CallStart`] |

pub use windlass_core::{CallStart, Event, EventFilter, EventKind, Subscription};
