//! The right to run one call: made by a decision, and by nothing else.

use std::path::Path;
use std::sync::Arc;

use super::{Decided, DecidedBy, Keep};
use crate::sync::Lock;
use crate::{Effect, Effects};

/// The right to run one call with these effects.
///
/// Its fields are private and only the policy module can make one, so running a tool without a decision does not compile:
///
/// ```compile_fail
/// let grant = windlass_core::Grant { effects: Default::default(), decided };
/// ```
///
/// ```compile_fail
/// let grant = windlass_core::Grant::new(Default::default(), decided);
/// ```
///
/// The only way is through a verdict:
///
/// ```
/// use windlass_core::{Effects, Mode, Policy};
/// let verdict = Policy::new(Mode::Auto).decide("read", Effects::read("/w/a"), "/w".as_ref());
/// let grant = verdict.grant().expect("reads in the workspace are allowed");
/// assert_eq!(grant.decided().to_string(), "allowed by mode auto");
/// ```
#[derive(Debug)]
pub struct Grant {
    effects: Arc<Effects>,
    decided: Decided,
    /// The part of what programs change on a stage that is kept.
    keeps: Keep,
    /// Further grants that the call was given while it ran.
    more: Lock<Vec<Grant>>,
}

impl Grant {
    pub(super) fn new(effects: Arc<Effects>, decided: Decided, keeps: Keep) -> Self {
        Self { effects, decided, keeps, more: Lock::default() }
    }

    /// The part of what the programs of the call change that is kept.
    pub fn keeps(&self) -> Keep {
        self.more.lock().iter().fold(self.keeps, |keeps, more| keeps.max(more.keeps))
    }

    /// The effects that the plan of the call declared. Those that it was given later are not among them.
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    pub(super) fn shared(&self) -> &Arc<Effects> {
        &self.effects
    }

    /// The decision that it rests on: which rule, mode, hook or person let the call run.
    pub fn decided(&self) -> &Decided {
        &self.decided
    }

    /// Adds what another decision allows the same call.
    pub(crate) fn add(&self, more: Self) {
        self.more.lock().push(more);
    }

    /// Returns whether a person said yes to the call, now, before in an answer that counts for it, or to all calls beforehand.
    pub(crate) fn is_of_person(&self) -> bool {
        let by = &self.decided.settled_by;
        matches!(by, Some(DecidedBy::Approval { .. } | DecidedBy::Beforehand))
    }

    /// Returns whether the call is only tried out.
    pub(crate) fn is_trial(&self) -> bool {
        self.decided.settled_by == Some(DecidedBy::Trial)
    }

    /// Returns whether this file may be looked at.
    pub fn may_read(&self, path: &Path) -> bool {
        self.any(|effect| matches!(effect, Effect::Read(pattern) if pattern.covers(path)))
    }

    /// Returns whether this file may be created or changed. A call whose changes are asked about afterwards, or not kept, may change
    /// files by its programs alone, on their stage.
    pub fn may_write(&self, path: &Path) -> bool {
        self.keeps == Keep::All
            && self.any(|effect| matches!(effect, Effect::Write(pattern) if pattern.covers(path)))
    }

    /// Returns whether this file may be removed.
    pub fn may_delete(&self, path: &Path) -> bool {
        self.keeps == Keep::All
            && self.any(|effect| matches!(effect, Effect::Delete(pattern) if pattern.covers(path)))
    }

    /// Returns whether this part of the session's state may be used.
    pub fn may_use_state(&self, key: &str) -> bool {
        self.any(|effect| matches!(effect, Effect::State(granted) if granted == key))
    }

    /// Returns whether an effect of this very kind and resource was granted, by the plan or later.
    pub fn covers(&self, effect: &Effect) -> bool {
        self.deciding(effect, |_| ()).is_some()
    }

    /// Passes the decision that allows an effect to `look`.
    pub(crate) fn deciding<T>(
        &self,
        effect: &Effect,
        look: impl FnOnce(&Decided) -> T,
    ) -> Option<T> {
        let has = |grant: &Self| grant.any(|granted| granted == effect);
        if has(self) {
            return Some(look(&self.decided));
        }
        let more = self.more.lock();
        more.iter().find(|grant| has(grant)).map(|grant| look(&grant.decided))
    }

    fn any(&self, is: impl Fn(&Effect) -> bool) -> bool {
        self.effects.iter().any(is)
    }
}
