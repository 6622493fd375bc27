//! The grant to run one call. Only a decision of the policy makes one.

use std::path::Path;
use std::sync::Arc;

use super::{DecidedBy, ExplainedDecision, KeptChanges};
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
/// A grant comes from a verdict:
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
    decided: ExplainedDecision,
    /// Part of the changes of programs on a stage that is kept.
    keeps: KeptChanges,
    /// Further grants that the call was given while it ran.
    more: Lock<Vec<Grant>>,
}

impl Grant {
    /// Makes a grant with the effects of the call's plan.
    pub(super) fn new(
        effects: Arc<Effects>,
        decided: ExplainedDecision,
        keeps: KeptChanges,
    ) -> Self {
        Self { effects, decided, keeps, more: Lock::default() }
    }

    /// Returns which changes of the call's programs are kept.
    pub fn keeps(&self) -> KeptChanges {
        self.more.lock().iter().fold(self.keeps, |keeps, more| keeps.max(more.keeps))
    }

    /// Returns the effects that the plan of the call declared, without those that it was given later.
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Returns the same effects as a shared pointer.
    pub(super) fn shared(&self) -> &Arc<Effects> {
        &self.effects
    }

    /// Returns the decision behind the grant: the rule, mode, hook or person that let the call run.
    pub fn decided(&self) -> &ExplainedDecision {
        &self.decided
    }

    /// Adds a further grant to the same call.
    pub(crate) fn add(&self, more: Self) {
        self.more.lock().push(more);
    }

    /// Returns whether a person approved the call, now, by an earlier answer that counts for it or with all calls in advance, or made it
    /// where the policy asks.
    pub(crate) fn is_of_person(&self) -> bool {
        let by = &self.decided.settled_by;
        matches!(by, Some(DecidedBy::Approval { .. } | DecidedBy::Beforehand | DecidedBy::Person))
    }

    /// Returns whether the call is a trial run.
    pub(crate) fn is_trial(&self) -> bool {
        self.decided.settled_by == Some(DecidedBy::Trial)
    }

    /// Returns whether this file may be read.
    pub fn may_read(&self, path: &Path) -> bool {
        self.has_effect(|effect| matches!(effect, Effect::Read(pattern) if pattern.covers(path)))
    }

    /// Returns whether this file may be created or changed. If the changes of the call are asked about afterwards, or not kept, only its
    /// programs may change files, on their stage.
    pub fn may_write(&self, path: &Path) -> bool {
        self.keeps == KeptChanges::All
            && self.has_effect(
                |effect| matches!(effect, Effect::Write(pattern) if pattern.covers(path)),
            )
    }

    /// Returns whether this file may be removed.
    pub fn may_delete(&self, path: &Path) -> bool {
        self.keeps == KeptChanges::All
            && self.has_effect(
                |effect| matches!(effect, Effect::Delete(pattern) if pattern.covers(path)),
            )
    }

    /// Returns whether this part of the session's state may be used.
    pub fn may_use_state(&self, key: &str) -> bool {
        self.has_effect(|effect| matches!(effect, Effect::State(granted) if granted == key))
    }

    /// Returns whether exactly this effect was granted, by the plan or later.
    pub fn covers(&self, effect: &Effect) -> bool {
        self.deciding(effect, |_| ()).is_some()
    }

    /// Passes the decision that allows an effect to `read`. Returns `None` if the effect is not granted.
    pub(crate) fn deciding<T>(
        &self,
        effect: &Effect,
        read: impl FnOnce(&ExplainedDecision) -> T,
    ) -> Option<T> {
        let has = |grant: &Self| grant.has_effect(|granted| granted == effect);
        if has(self) {
            return Some(read(&self.decided));
        }
        let more = self.more.lock();
        more.iter().find(|grant| has(grant)).map(|grant| read(&grant.decided))
    }

    /// Returns whether the plan has an effect with this property.
    fn has_effect(&self, is: impl Fn(&Effect) -> bool) -> bool {
        self.effects.iter().any(is)
    }
}
