//! What was decided about a call, why, and what would have decided otherwise.

use std::sync::Arc;

use super::{Decided, DecidedBy, Decision, Grant, Keep, When, remedy, secret_names};
use crate::{CommandLine, Effect, Effects, ToolError};

/// What was decided, and why. A verdict can become a [`Grant`]: at once if it allows, by an approval if it asks.
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
    /// The decision whether it may run.
    pub(super) decision: Decision,
    /// The part of what it then changes that is kept.
    pub(super) keeps: Keep,
    pub(super) by: DecidedBy,
    pub(super) effect: Option<Effect>,
    pub(super) effects: Arc<Effects>,
    /// What the mode alone decided on: each effect, and of a command the parts that no rule allows.
    pub(super) open: Vec<(Effect, Vec<usize>)>,
    /// The commands that made the changes which it is about.
    commands: Vec<CommandLine>,
}

impl Verdict {
    pub(super) fn new(
        decision: Decision,
        by: DecidedBy,
        effect: Option<Effect>,
        effects: &Arc<Effects>,
    ) -> Self {
        let keeps = Keep::All;
        let (open, commands) = (Vec::new(), Vec::new());
        Self { decision, keeps, by, effect, effects: effects.clone(), open, commands }
    }

    /// The same about changes that the commands among these effects made.
    pub(crate) fn made_by(mut self, effects: &Effects) -> Self {
        let commands = effects.iter().filter_map(|effect| match effect {
            Effect::Exec(command) => Some(command.clone()),
            _ => None,
        });
        self.commands = commands.collect();
        self
    }

    /// Allow, ask or deny. A command that runs first and is asked about afterwards counts as asked.
    pub fn decision(&self) -> Decision {
        match self.when() {
            When::Before => self.decision,
            When::After => Decision::Ask,
        }
    }

    /// The decision whether it may run.
    pub(crate) fn decision_to_run(&self) -> Decision {
        self.decision
    }

    /// The part of what it then changes that is kept.
    pub fn keeps(&self) -> Keep {
        self.keeps
    }

    /// The time at which a person is asked, if one is.
    pub fn when(&self) -> When {
        let is_after = self.decision == Decision::Allow && self.keeps == Keep::Asked;
        if is_after { When::After } else { When::Before }
    }

    /// The rule, mode or hard deny that decided.
    pub fn decided_by(&self) -> &DecidedBy {
        &self.by
    }

    /// The same in words: the rule as it was written, `mode ask`, or the name of a hard deny.
    pub fn rule(&self) -> String {
        self.by.to_string()
    }

    /// The effect that made the verdict as strict as it is.
    pub fn effect(&self) -> Option<&Effect> {
        self.effect.as_ref()
    }

    /// All effects that it is about, paths resolved.
    pub fn effects(&self) -> &Arc<Effects> {
        &self.effects
    }

    /// The right to run, if no person has to be asked before. What [`keeps`](Self::keeps) says holds for it.
    pub fn grant(&self) -> Option<Grant> {
        (self.decision == Decision::Allow).then(|| self.grant_settled(None))
    }

    /// The decision as it is kept on record, with who settled it.
    pub(crate) fn decided(&self, settled_by: Option<DecidedBy>) -> Decided {
        Decided { decision: self.decision(), by: self.by.clone(), settled_by }
    }

    pub(super) fn grant_settled(&self, settled_by: Option<DecidedBy>) -> Grant {
        let keeps = match self.keeps {
            // Who said yes to the command is not asked again about what it did.
            Keep::Asked if settled_by.is_some() => Keep::All,
            keeps => keeps,
        };
        Grant::new(self.effects.clone(), self.decided(settled_by), keeps)
    }

    /// The right to run that a person's answer gives.
    pub(crate) fn grant_by_person(&self, by: DecidedBy) -> Grant {
        self.grant_settled(Some(by))
    }

    /// The right to try it out where nothing can change.
    pub(crate) fn trial(&self) -> Grant {
        self.grant_settled(Some(DecidedBy::Trial))
    }

    /// Whether it is asked about each time, so that no answer is remembered.
    pub(crate) fn is_asked_always(&self) -> bool {
        self.by.is_always_ask()
    }

    /// The right to run where a hook of the person's own says that nobody needs to be asked. What is always asked stays asked, and
    /// what is denied stays denied.
    pub(crate) fn grant_by_hook(&self, hook: &str) -> Option<Grant> {
        let may = self.decision == Decision::Ask && !self.is_asked_always();
        let hook = || DecidedBy::Hook { name: hook.to_owned(), reason: None };
        may.then(|| self.grant_settled(Some(hook())))
    }

    /// The same, but a person is asked where the policy allows: `by` says who wants that.
    pub(crate) fn asked_by(mut self, by: DecidedBy) -> Self {
        if self.decision == Decision::Allow {
            self.decision = Decision::Ask;
            self.by = by;
        }
        self
    }

    /// The same, but a person is asked each time because the tool needs one, unless it is denied anyway.
    pub(crate) fn needing_person(mut self) -> Self {
        if self.decision != Decision::Deny {
            (self.decision, self.by) = (Decision::Ask, DecidedBy::NeedsPerson);
        }
        self
    }

    /// The same, but a person is asked each time, unless it is denied anyway.
    pub(crate) fn asked_always(mut self, reason: String, effect: Option<&Effect>) -> Self {
        if self.decision != Decision::Deny {
            self.decision = Decision::Ask;
            self.by = DecidedBy::AlwaysAsk { reason };
            self.effect = effect.cloned().or(self.effect);
        }
        self
    }

    /// Why not, and what would allow it: the text that a model or a person reads.
    pub fn refusal(&self) -> String {
        let what = self.effect.as_ref().map_or_else(|| "the call".to_owned(), ToString::to_string);
        let because = self.because().map(|why| format!("; {why}")).unwrap_or_default();
        format!("not allowed: {what} (decided by {}{because})", self.by)
    }

    /// The refusal as an error, with the reason that a person or a front door gave, and what would allow it.
    pub(crate) fn denial(&self, why: Option<&str>) -> ToolError {
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let error = ToolError::denied(format!("{}{why}", self.refusal()));
        match self.remedy() {
            Some(remedy) => error.hint(remedy),
            None => error,
        }
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

    /// What a person could do so that it is allowed; `None` for hard denies that nothing lifts.
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
            | DecidedBy::Staged
            | DecidedBy::Command
            | DecidedBy::Trial
            | DecidedBy::Words { .. } => {
                Some(remedy::remedy(effect, &self.open, &self.commands, self.when()))
            }
        }
    }
}
