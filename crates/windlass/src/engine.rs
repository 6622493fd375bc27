//! The engine below [`Windlass`](crate::Windlass), for embedders that bring their own machine or run calls by id.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! use windlass::{Outcome, ToolCall, Windlass, testing::MockTool};
//! # let folder = tempfile::tempdir().unwrap();
//! let wait = MockTool::named("wait").answering(|_, _| std::future::pending());
//! let windlass = Windlass::builder(folder.path()).tool(wait).build()?;
//! let call = ToolCall::new("wait", serde_json::json!({}));
//! let (id, running) = windlass.engine().start(&windlass.new_session(), call);
//! assert!(windlass.engine().cancel(&id));
//! assert_eq!(running.await.outcome, Outcome::Cancelled);
//! # Ok(())
//! # }
//! ```

pub use windlass_core::{CacheStats, Engine, EngineBuilder};
