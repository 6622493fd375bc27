//! What was decided about a call, why, and what would have decided otherwise.

use std::sync::Arc;

use super::{Decision, Grant, remedy};
use crate::{Effect, Effects};

/// What was decided, and why. A verdict can become a [`Grant`]: at once if it allows, by an approval if it asks.
///
/// ```
/// use windlass_core::{Decision, Effects, Mode, Policy};
/// let verdict = Policy::new(Mode::Ask).decide("write", Effects::write("/w/a.md"), "/w".as_ref());
/// assert_eq!((verdict.decision(), verdict.rule()), (Decision::Ask, "mode ask"));
/// assert!(verdict.grant().is_none(), "a person has to be asked first");
/// assert_eq!(verdict.remedy().as_deref(), Some("to allow it: --allow 'write /w/a.md'"));
/// ```
#[derive(Debug, Clone)]
pub struct Verdict {
    pub(super) decision: Decision,
    pub(super) rule: String,
    pub(super) effect: Option<Effect>,
    pub(super) effects: Arc<Effects>,
    /// What the mode alone decided on: each effect, and of a command the parts that no rule allows.
    pub(super) open: Vec<(Effect, Vec<usize>)>,
}

impl Verdict {
    pub(super) fn new(
        decision: Decision,
        rule: String,
        effect: Option<Effect>,
        effects: &Arc<Effects>,
    ) -> Self {
        Self { decision, rule, effect, effects: effects.clone(), open: Vec::new() }
    }

    /// Allow, ask or deny.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// The rule that decided: as it was written, `mode ask`, or the name of a hard deny.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// The effect that made the verdict as strict as it is.
    pub fn effect(&self) -> Option<&Effect> {
        self.effect.as_ref()
    }

    /// All effects that it is about, paths resolved.
    pub fn effects(&self) -> &Arc<Effects> {
        &self.effects
    }

    /// The right to run, if nobody needs to be asked.
    pub fn grant(&self) -> Option<Grant> {
        (self.decision == Decision::Allow)
            .then(|| Grant::new(self.effects.clone(), format!("allowed by {}", self.rule)))
    }

    /// The right to try it out where nothing can change.
    pub(crate) fn trial(&self) -> Grant {
        Grant::new(self.effects.clone(), "a trial".to_owned())
    }

    /// Whether it is asked about each time, so that no answer is remembered.
    pub(crate) fn is_asked_always(&self) -> bool {
        self.rule.starts_with("always asked")
    }

    /// The right to run where a hook of the person's own says that nobody needs to be asked. What is always asked stays asked, and
    /// what is denied stays denied.
    pub(crate) fn grant_by_hook(&self, hook: &str) -> Option<Grant> {
        let may = self.decision == Decision::Ask && !self.is_asked_always();
        let decided_by = format!("allowed by the hook {hook}, where {} asks", self.rule);
        may.then(|| Grant::new(self.effects.clone(), decided_by))
    }

    /// The same, but a person is asked where nobody would have been: `by` says who wants that.
    pub(crate) fn asked_by(mut self, by: &str) -> Self {
        if self.decision == Decision::Allow {
            self.decision = Decision::Ask;
            by.clone_into(&mut self.rule);
        }
        self
    }

    /// The same, but a person is asked each time, unless it is denied anyway.
    pub(crate) fn asked_always(mut self, why: &str, effect: Option<&Effect>) -> Self {
        if self.decision != Decision::Deny {
            self.decision = Decision::Ask;
            self.rule = format!("always asked: {why}");
            self.effect = effect.cloned().or(self.effect);
        }
        self
    }

    /// Why not, and what would allow it: the text that a model or a person reads.
    pub fn refusal(&self) -> String {
        let what = self.effect.as_ref().map_or_else(|| "the call".to_owned(), ToString::to_string);
        let because = self.because().map(|why| format!("; {why}")).unwrap_or_default();
        format!("not allowed: {what} (decided by {}{because})", self.rule)
    }

    /// What it is about a command that a person has to look at: the part that no rule allows, the word that does more than the
    /// rule says, or what could not be understood.
    pub fn because(&self) -> Option<String> {
        let Some(Effect::Exec(command)) = &self.effect else { return None };
        if let Some(why) = &command.unclear {
            return Some(format!("the command is not understood: {why}"));
        }
        let (_, parts) =
            self.open.iter().find(|(effect, _)| Some(effect) == self.effect.as_ref())?;
        let part = command.commands.get(*parts.first()?)?;
        let spoken = crate::quote::visible(&part.words.join(" ")).into_owned();
        let is_all = spoken == command.text;
        match part.risks.first() {
            Some(risk) => {
                let word = part.words.get(risk.word).map_or("", String::as_str);
                Some(format!("`{}` in `{spoken}` {}", crate::quote::visible(word), risk.why))
            }
            None => (!is_all).then(|| format!("no rule allows `{spoken}`")),
        }
    }

    /// What a person could do so that it is allowed; `None` for hard denies.
    pub fn remedy(&self) -> Option<String> {
        let effect = self.effect.as_ref()?;
        if self.rule.starts_with("hard deny") {
            return None;
        }
        if self.is_asked_always() {
            return Some("a person has to say yes to this each time (or --yes)".to_owned());
        }
        if self.rule.starts_with("the hook ") {
            return Some("a person has to say yes to this (or --yes)".to_owned());
        }
        if self.rule.starts_with("deny ") {
            return Some(format!("the rule `{}` would have to be removed", self.rule));
        }
        if self.rule.starts_with("ask ") {
            return Some(format!("a person has to say yes, or the rule `{}` to go", self.rule));
        }
        Some(remedy::remedy(effect, &self.open))
    }
}
