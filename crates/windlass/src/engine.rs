//! The engine below [`Windlass`](crate::Windlass), for embedders with a host of their own or that handle calls by id.
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
//!
//! The policy and the cache can be read and changed while calls run:
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! use windlass::{Mode, Windlass};
//! let windlass = Windlass::builder(folder.path()).mode(Mode::Plan).build()?;
//! let engine = windlass.engine();
//! assert_eq!(engine.policy().mode(), Mode::Plan);
//! let stats = engine.cache_stats();
//! println!("{} of {} kept, {} dropped, {:.0} % served", stats.entries, stats.capacity, stats.evictions, stats.hit_rate() * 100.0);
//! engine.clear_cache();
//! engine.set_cache_enabled(false);
//! # Ok::<(), windlass::Error>(())
//! ```
//!
//! | to | see |
//! |---|---|
//! | start and stop calls by id | [`Engine::start`], [`Engine::cancel`], [`Engine::interrupt`] |
//! | ask for the decision about a call | [`Engine::explain`], [`Engine::try_changes`] |
//! | read or replace the policy | [`Engine::policy`], [`Engine::set_policy`] |
//! | register attendants, and pass on their answers | [`Engine::attend`], [`Engine::approvals`], [`Engine::answer`], [`Engine::resume`] |
//! | replace the tools of a source | [`Engine::replace_tools`], [`Engine::load_toolset`] |
//! | control the cache | [`Engine::cache_stats`], [`Engine::clear_cache`], [`Engine::set_cache_enabled`] |
//! | build an engine from parts | [`Engine::builder`], [`EngineBuilder`] |

pub use windlass_core::{CacheStats, Engine, EngineBuilder};
