//! Events: what happens, as it happens, by session, by call or for the whole engine.
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

pub use windlass_core::{Event, EventKind, Filter, Started, Subscription};
