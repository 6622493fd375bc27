//! Hooks: code or programs that receive calls and other events and may change or refuse them.
//!
//! ```
//! use windlass::hooks::{HookFile, HookShape};
//! use windlass::tool::Author;
//! let text = "[[hooks]]\nevent = \"pre_tool\"\nmatch = { effect = \"write\" }\ncommand = \"./gate.sh\"\n";
//! let file = HookFile { path: "hooks.toml".into(), text: text.into(), author: Author::Person, shape: HookShape::Windlass };
//! let (definitions, problems) = file.read();
//! assert_eq!((definitions.len(), problems.len()), (1, 0));
//! ```
//!
//! | to | see |
//! |---|---|
//! | write a hook in code | [`Hook`], [`HookEvent`], [`HookPayload`], [`HookAnswer`], [`Builder::hook`](crate::Builder::hook) |
//! | run programs as hooks | [`HookFile`], [`HookDefinition`], [`Builder::hooks`](crate::Builder::hooks) |
//! | notice that a program changed since it was trusted | [`Pin`], [`named_files`], [`reached_files`] |

pub use windlass_core::{
    Hook, HookAnswer, HookCall, HookEvent, HookOutcome, HookPayload, HookPoint, HookVerdict,
};
pub use windlass_hooks::{
    HookCommand, HookDefinition, HookFile, HookFileError, HookMatcher, HookShape, PINNABLE, Pin,
    PinError, ReachError, named_files, reached_files,
};
