//! Effects: the paths, commands, hosts and people that one call needs, as data.
//!
//! Permission, scheduling, caching, undo and the journal use them. A call that does more than it declared is refused.
//!
//! ```
//! use windlass::effect::{Effect, Effects};
//! let effects = Effects::read("src/lib.rs").and(Effect::Net { origin: "https://docs.rs".into(), method: "GET".into() });
//! assert_eq!(effects.to_string(), "read src/lib.rs, net GET https://docs.rs");
//! ```
//!
//! | to | see |
//! |---|---|
//! | declare the effects of a call | [`Effects`], [`Effect`], [`PathPattern`] |
//! | declare the kinds of effects that a tool can have | [`EffectKinds`] |
//! | declare a command | [`CommandLine`], [`SimpleCommand`] |

pub use windlass_core::{
    CommandLine, CommandRisk, CommandSearch, Effect, EffectKinds, Effects, OnlyReads, PathPattern,
    Reach, SimpleCommand, normalize, program_name,
};
