//! The verdict about a call: the decision, its cause, and the rules that would have decided otherwise.

use std::sync::Arc;

use super::{
    AskTime, DecidedBy, Decision, ExplainedDecision, Grant, KeptChanges, remedy, secret_names,
};
use crate::{CommandLine, Effect, Effects, ToolError};

/// The decision about a call, and its cause. It can become a [`Grant`]: at once if it allows, by an approval if it asks.
///
/// ```
/// use windlass_core::{Decision, Effects, Mode, Policy};
/// let verdict = Policy::new(Mode::Ask).decide("write", Effects::write("/w/a.md"), "/w".as_ref());
/// assert_eq!((verdict.decision(), verdict.rule()), (Decision::Ask, "mode ask".to_owned()));
/// assert!(verdict.grant().is_none(), "a person has to be asked first");
/// assert_eq!(verdict.remedy().as_deref(), Some("to allow it: --allow 'write /w/a.md'"));
/// ```
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Decision whether the call may run.
    pub(super) decision: Decision,
    /// Part of its later changes that is kept.
    pub(super) keeps: KeptChanges,
    pub(super) by: DecidedBy,
    pub(super) effect: Option<Effect>,
    pub(super) effects: Arc<Effects>,
    /// Effects that the mode alone decided on, each with the indexes of the command's parts that no rule allows.
    pub(super) open: Vec<(Effect, Vec<usize>)>,
    /// Commands that made the changes, if the verdict is about changes.
    commands: Vec<CommandLine>,
}

impl Verdict {
    /// Makes a verdict that keeps all changes.
    pub(super) fn new(
        decision: Decision,
        by: DecidedBy,
        effect: Option<Effect>,
        effects: &Arc<Effects>,
    ) -> Self {
        let keeps = KeptChanges::All;
        let (open, commands) = (Vec::new(), Vec::new());
        Self { decision, keeps, by, effect, effects: effects.clone(), open, commands }
    }

    /// Names the commands among these effects as the makers of the changes that the verdict is about.
    pub(crate) fn made_by(mut self, effects: &Effects) -> Self {
        let commands = effects.iter().filter_map(|effect| match effect {
            Effect::Exec(command) => Some(command.clone()),
            _ => None,
        });
        self.commands = commands.collect();
        self
    }

    /// Returns the decision. A command that runs first and is asked about afterwards counts as asked.
    pub fn decision(&self) -> Decision {
        match self.when() {
            AskTime::Before => self.decision,
            AskTime::After => Decision::Ask,
        }
    }

    /// Returns the decision whether the call may run.
    pub(crate) fn decision_to_run(&self) -> Decision {
        self.decision
    }

    /// Returns which of the later changes are kept.
    pub fn keeps(&self) -> KeptChanges {
        self.keeps
    }

    /// Returns the time at which a person is asked, if one is.
    pub fn when(&self) -> AskTime {
        let is_after = self.decision == Decision::Allow && self.keeps == KeptChanges::Asked;
        if is_after { AskTime::After } else { AskTime::Before }
    }

    /// Returns the rule, mode or hard deny that decided.
    pub fn decided_by(&self) -> &DecidedBy {
        &self.by
    }

    /// Returns the cause in words: the rule as it was written, `mode ask`, or the reason of a hard deny.
    pub fn rule(&self) -> String {
        self.by.to_string()
    }

    /// Returns the effect that decided.
    pub fn effect(&self) -> Option<&Effect> {
        self.effect.as_ref()
    }

    /// Returns all effects that the verdict is about, with resolved paths.
    pub fn effects(&self) -> &Arc<Effects> {
        &self.effects
    }

    /// Returns the grant to run, if no person has to be asked before. It keeps changes as [`keeps`](Self::keeps) says.
    pub fn grant(&self) -> Option<Grant> {
        (self.decision == Decision::Allow).then(|| self.grant_settled(None))
    }

    /// Returns the decision as it is recorded, with the person or hook that settled it.
    pub(crate) fn decided(&self, settled_by: Option<DecidedBy>) -> ExplainedDecision {
        ExplainedDecision { decision: self.decision(), by: self.by.clone(), settled_by }
    }

    /// Makes the grant to run, with the cause that settled the decision.
    pub(super) fn grant_settled(&self, settled_by: Option<DecidedBy>) -> Grant {
        let keeps = match self.keeps {
            // A person who approved the command is not asked again about its changes.
            KeptChanges::Asked if settled_by.is_some() => KeptChanges::All,
            keeps => keeps,
        };
        Grant::new(self.effects.clone(), self.decided(settled_by), keeps)
    }

    /// Makes the grant that a person's answer gives.
    pub(crate) fn grant_by_person(&self, by: DecidedBy) -> Grant {
        self.grant_settled(Some(by))
    }

    /// Makes the grant of a trial run, in which nothing can change.
    pub(crate) fn trial(&self) -> Grant {
        self.grant_settled(Some(DecidedBy::Trial))
    }

    /// Returns whether a person is asked each time, so that no answer is remembered.
    pub(crate) fn is_asked_always(&self) -> bool {
        self.by.is_always_ask()
    }

    /// Returns the grant that a hook of the person's own configuration gives instead of a person; `None` if the call is denied or asks each
    /// time.
    pub(crate) fn grant_by_hook(&self, hook: &str) -> Option<Grant> {
        let may = self.decision == Decision::Ask && !self.is_asked_always();
        let hook = || DecidedBy::Hook { name: hook.to_owned(), reason: None };
        may.then(|| self.grant_settled(Some(hook())))
    }

    /// Makes the verdict ask where it allows; `by` is the cause.
    pub(crate) fn asked_by(mut self, by: DecidedBy) -> Self {
        if self.decision == Decision::Allow {
            self.decision = Decision::Ask;
            self.by = by;
        }
        self
    }

    /// Makes the verdict ask each time because the tool needs a person, unless it denies.
    pub(crate) fn needing_person(mut self) -> Self {
        if self.decision != Decision::Deny {
            (self.decision, self.by) = (Decision::Ask, DecidedBy::NeedsPerson);
        }
        self
    }

    /// Makes the verdict ask each time for this reason, unless it denies.
    pub(crate) fn asked_always(mut self, reason: String, effect: Option<&Effect>) -> Self {
        if self.decision != Decision::Deny {
            self.decision = Decision::Ask;
            self.by = DecidedBy::AlwaysAsk { reason };
            self.effect = effect.cloned().or(self.effect);
        }
        self
    }

    /// Makes the verdict deny; `by` is the cause.
    pub(crate) fn denied_by(mut self, by: DecidedBy) -> Self {
        (self.decision, self.by) = (Decision::Deny, by);
        self
    }

    /// Returns the refusal for a model or person: the effect, and the cause of the decision.
    pub fn refusal(&self) -> String {
        let what = self.effect.as_ref().map_or_else(|| "the call".to_owned(), ToString::to_string);
        let because = self.because().map(|why| format!("; {why}")).unwrap_or_default();
        format!("not allowed: {what} (decided by {}{because})", self.by)
    }

    /// Returns the refusal as an error, with the reason that a person or front door gave, and a hint how to allow the call.
    pub(crate) fn denial(&self, why: Option<&str>) -> ToolError {
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let error = ToolError::denied(format!("{}{why}", self.refusal()));
        match self.remedy() {
            Some(remedy) => error.hint(remedy),
            None => error,
        }
    }

    /// Returns the reason why a command needs a person: the part that no rule allows, the word that does more than the rule says, or the
    /// text that could not be understood.
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

    /// Returns how a person could allow the call; `None` for hard denies that cannot be lifted.
    pub fn remedy(&self) -> Option<String> {
        let effect = self.effect.as_ref()?;
        match &self.by {
            DecidedBy::HardDeny { reason } => secret_names::is_by_name(reason).then(|| {
                "if it holds no secret, a person can name it under `not_secret` in their own configuration"
                    .to_owned()
            }),
            DecidedBy::AlwaysAsk { .. } => {
                Some("a person has to say yes to this each time (or --yes)".to_owned())
            }
            DecidedBy::Hook { .. } | DecidedBy::NeedsPerson => {
                Some("a person has to say yes to this (or --yes)".to_owned())
            }
            rule @ DecidedBy::Rule { decision: Decision::Deny, .. } => {
                Some(format!("the rule `{rule}` would have to be removed"))
            }
            rule @ DecidedBy::Rule { decision: Decision::Ask, .. } => {
                Some(format!("a person has to say yes, or the rule `{rule}` to go"))
            }
            DecidedBy::Mode { .. }
            | DecidedBy::Rule { decision: Decision::Allow, .. }
            | DecidedBy::Approval { .. }
            | DecidedBy::Budget
            | DecidedBy::Beforehand
            | DecidedBy::Person
            | DecidedBy::Staged
            | DecidedBy::Command
            | DecidedBy::Trial
            | DecidedBy::Words { .. } => {
                Some(remedy::remedy(effect, &self.open, &self.commands, self.when()))
            }
        }
    }
}
