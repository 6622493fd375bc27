//! The JSON of providers: tool calls in, answers and definitions of tools out. Nothing here speaks HTTP or knows a model.
//!
//! A call is recognised by its own shape and answered in it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use serde_json::json;
//! use windlass::Windlass;
//! use windlass::wire::{RequestedCall, Format, answer, read_calls};
//! # let folder = tempfile::tempdir()?;
//! # std::fs::write(folder.path().join("a.txt"), "hello\n")?;
//! let windlass = Windlass::builder(folder.path()).build()?;
//! let message = json!({"role": "assistant", "content": [
//!     {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.txt"}},
//! ]});
//! let calls = read_calls(message)?.into_iter().map(RequestedCall::into_call).collect();
//! let results = windlass.turn(&windlass.new_session(), calls).await;
//! let reply = &answer(Format::Anthropic, &results)[0];
//! assert_eq!(reply["content"][0]["tool_use_id"], "toolu_1");
//! # Ok(())
//! # }
//! ```
//!
//! | to | see |
//! |---|---|
//! | offer tools | [`definitions`], [`definition`], [`check_definition`] |
//! | read calls | [`read_calls`], [`read_turn`], [`RequestedCall`], [`BadCall`] |
//! | answer | [`answer`] for a turn, [`to_api`] for a call, [`to_line`] for a log |
//! | go the other way | [`write_call`], [`read_reply`], [`CallResponse`] |
//! | fit a schema to a provider | [`subset`], [`SchemaKeywords`] |

pub use windlass_wire::{
    BadCall, CallResponse, Format, RequestedCall, SchemaKeywords, WireDefinitionError, WireError,
    answer, check_definition, definition, definitions, read_calls, read_reply, read_turn, subset,
    to_api, to_line, write_call,
};
