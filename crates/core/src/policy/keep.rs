//! The part of a command's changes that is kept when it has ended.

use serde::{Deserialize, Serialize};

/// The part of a command's changes that is kept when it has ended; the later, the stricter.
///
/// ```
/// use windlass_core::{CommandLine, Effect, Effects, KeptChanges, Mode, Policy};
/// let make = || Effects::from(Effect::Exec(CommandLine::words(["make"])));
/// let keeps = |mode| Policy::new(mode).decide("bash", make(), "/w".as_ref()).keeps();
/// assert_eq!([keeps(Mode::Auto), keeps(Mode::Ask), keeps(Mode::Plan)], [KeptChanges::All, KeptChanges::Asked, KeptChanges::Nothing]);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptChanges {
    /// Everything that no rule denies.
    #[default]
    All,
    /// The changes that a rule allows; the rest once a person has seen and approved them.
    Asked,
    /// Nothing.
    Nothing,
}

/// The time at which a person is asked about a call.
///
/// ```
/// use windlass_core::{CommandLine, Effect, Effects, Mode, Policy, AskTime};
/// let policy = Policy::new(Mode::Ask);
/// let decide = |effects: Effects| policy.decide("t", effects, "/w".as_ref()).when();
/// assert_eq!(decide(Effects::write("/w/a")), AskTime::Before);
/// assert_eq!(decide(Effect::Exec(CommandLine::words(["make"])).into()), AskTime::After);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskTime {
    /// Before it runs.
    Before,
    /// After it has run, with its changes on a stage. Nothing is kept before the answer.
    After,
}
