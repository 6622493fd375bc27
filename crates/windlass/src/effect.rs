//! Effects: what one call reads, writes, runs and reaches, as data.
//!
//! Permission, schedule, cache, undo and the record follow from them. A call that does more than it declared is refused.
//!
//! ```
//! use windlass::effect::{Effect, Effects};
//! let effects = Effects::read("src/lib.rs").and(Effect::Net { origin: "https://docs.rs".into(), method: "GET".into() });
//! assert_eq!(effects.to_string(), "read src/lib.rs, net GET https://docs.rs");
//! ```
//!
//! | to | see |
//! |---|---|
//! | declare what a call does | [`Effects`], [`Effect`], [`PathPattern`] |
//! | declare what a tool can do at most | [`Kinds`] |
//! | declare a command | [`CommandLine`], [`SimpleCommand`] |

pub use windlass_core::{
    CommandLine, Effect, Effects, Kinds, OnlyReads, PathPattern, Reach, Risk, Search,
    SimpleCommand, normalize, program_name,
};
