//! Decisions about the effects of calls.
//!
//! A [`Policy`] takes the resolved effects of a call and returns a [`Verdict`]. Only this module can make a [`Grant`], and without one no
//! tool runs.

mod command;
mod decided_by;
mod grant;
mod hard_denies;
mod hidden;
mod keep;
mod mode;
mod offers;
mod public_paths;
mod remedy;
mod rights;
mod risk;
mod rule;
mod ruling;
mod secret_names;
mod situation;
mod verdict;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub use decided_by::{DecidedBy, ExplainedDecision};
pub use grant::Grant;
pub use hard_denies::{HardDenies, system_directory};
pub(crate) use hidden::Withheld;
pub use keep::{AskTime, KeptChanges};
pub use mode::Mode;
pub(crate) use offers::offers;
pub use rights::{DirectWrites, FileRights, OutsidePaths};
pub use risk::RiskLevel;
use rule::host_name_of;
pub use rule::{PathGlob, Resource, Rule, RuleError};
pub(crate) use rule::{authority_of, is_plain};
use ruling::InForce;
pub use ruling::{ActiveRule, Layer};
pub use secret_names::{PASS_THROUGH, SecretName, holds_credential};
pub use situation::DecisionContext;
pub(crate) use situation::untrusted_source;
pub use verdict::Verdict;

use situation::{ProgramAccess, suspicion_reason};

use crate::address::is_private_host;
use crate::effects::is_within;
use crate::{
    CommandLine, Confinement, Effect, Effects, Files, NetworkAccess, Reach, Rights, SandboxLevel,
    SimpleCommand, protected,
};

/// Decision to allow, ask or deny, in order of strictness.
///
/// ```
/// use windlass_core::Decision;
/// assert!(Decision::Deny > Decision::Ask && Decision::Ask > Decision::Allow);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may run.
    Allow,
    /// A person decides.
    Ask,
    /// It may not run.
    Deny,
}

/// The decision about changes on a stage that no rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StagedChanges {
    /// Allow: the command was allowed to make changes before it ran.
    Decided,
    /// Ask a person about the changes that no rule allows.
    Ruled,
    /// Ask a person about all changes.
    Shown,
}

/// The rules in force, and the mode that decides about effects without a rule.
///
/// ```
/// use windlass_core::{Decision, Effects, Mode, Policy};
/// let policy = Policy::new(Mode::Ask).allow("write docs/**".parse()?);
/// let workspace = "/w".as_ref();
/// let decide = |effects| policy.decide("write", effects, workspace).decision();
/// assert_eq!(decide(Effects::write("/w/docs/a.md")), Decision::Allow);
/// assert_eq!(decide(Effects::write("/w/src/a.rs")), Decision::Ask);
/// assert_eq!(decide(Effects::read("/w/id_rsa")), Decision::Deny);
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Policy {
    mode: Mode,
    rules: Vec<ActiveRule>,
    hard_denies: Arc<HardDenies>,
    /// The confinement of programs.
    confinement: Confinement,
    /// Asks about a command before it runs, also where its changes could be asked about afterwards.
    asks_before: bool,
    /// Asks about more effects once the session has read untrusted content.
    provenance: bool,
    /// Rules and modes of a session's rights. The strictest of this policy and of these decides.
    layers: Vec<Arc<Policy>>,
    /// Hosts that may be reached at most, whatever the rules say; `None` for no such bound.
    net: Option<NetworkAccess>,
    /// True if it decides about calls that a person makes, so that no mode is the cause.
    is_for_person: bool,
}

impl Policy {
    /// Makes a policy without rules and with the usual hard denies.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            rules: Vec::new(),
            hard_denies: Arc::new(HardDenies::default()),
            confinement: Confinement::default(),
            asks_before: false,
            provenance: true,
            layers: Vec::new(),
            net: None,
            is_for_person: false,
        }
    }

    /// Sets the mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Adds a rule that allows.
    #[must_use]
    pub fn allow(self, rule: Rule) -> Self {
        self.with(Decision::Allow, rule)
    }

    /// Adds a rule that denies. It overrides every rule that allows.
    #[must_use]
    pub fn deny(self, rule: Rule) -> Self {
        self.with(Decision::Deny, rule)
    }

    /// Adds a rule with this decision.
    #[must_use]
    pub fn with(self, decision: Decision, rule: Rule) -> Self {
        self.with_ruling(ActiveRule::new(decision, rule))
    }

    /// Adds a rule with its decision, layer, reason and end.
    #[must_use]
    pub fn with_ruling(mut self, ruling: ActiveRule) -> Self {
        self.rules.push(ruling);
        self
    }

    /// Replaces the hard denies.
    #[must_use]
    pub fn with_hard_denies(mut self, hard_denies: HardDenies) -> Self {
        self.hard_denies = Arc::new(hard_denies);
        self
    }

    /// Returns the policy for calls that a person makes: the same hard denies, no rules, and the mode `yolo`.
    pub(crate) fn for_person(&self) -> Self {
        let hard_denies = self.hard_denies.clone();
        Self { hard_denies, is_for_person: true, ..Self::new(Mode::Yolo) }
    }

    /// Sets the confinement of programs. Without the whole sandbox, or with a network, commands ask more often.
    #[must_use]
    pub fn with_confinement(mut self, confinement: Confinement) -> Self {
        self.confinement = confinement;
        self
    }

    /// Sets the time at which a command is asked about: before it runs (`true`), or after, with its changes on a stage (`false`).
    #[must_use]
    pub fn asking_before(mut self, asks_before: bool) -> Self {
        self.asks_before = asks_before;
        self
    }

    /// Returns the confinement of programs as decisions use it.
    fn program_access(&self) -> ProgramAccess {
        ProgramAccess {
            confined: self.confinement.is_whole(),
            connected: self.confinement.network != NetworkAccess::None,
        }
    }

    /// Returns the rules that deny, as texts, also those of the rights that narrow this policy and those that have ended.
    pub(crate) fn deny_rules(&self) -> Vec<String> {
        let layers = self.layers.iter().flat_map(|layer| layer.rules.iter());
        let denies = self.rules.iter().chain(layers);
        let denies = denies.filter(|ruling| ruling.decision == Decision::Deny);
        denies.map(|ruling| ruling.rule.to_string()).collect()
    }

    /// Sets if sessions ask more once they have read untrusted content. Default: they do.
    #[must_use]
    pub fn with_provenance(mut self, provenance: bool) -> Self {
        self.provenance = provenance;
        self
    }

    /// Narrows the policy to the rights of a session: a decision is the strictest of this policy and of each layer of the rights.
    #[must_use]
    pub(crate) fn narrowed(&self, rights: &Rights) -> Self {
        // Hard denies and the checks for risky effects are the same for all layers.
        let confinement = rights.confine(&self.confinement);
        let layer = |layer: &Arc<Self>| {
            Arc::new(Self {
                hard_denies: self.hard_denies.clone(),
                confinement: confinement.clone(),
                asks_before: self.asks_before,
                provenance: self.provenance,
                ..Self::clone(layer)
            })
        };
        Self {
            layers: self.layers.iter().cloned().chain(rights.layers().iter().map(layer)).collect(),
            net: rights.net().cloned(),
            confinement: confinement.clone(),
            ..self.clone()
        }
    }

    /// Returns this policy and the layers that narrow it.
    fn all_layers(&self) -> impl Iterator<Item = &Self> + Clone {
        std::iter::once(self).chain(self.layers.iter().map(|layer| &**layer))
    }

    /// Returns the rules of all layers. A rule that denies or asks binds; one that allows does so only within its own layer.
    fn all_rules(&self) -> impl Iterator<Item = &ActiveRule> + Clone {
        self.all_layers().flat_map(|layer| &layer.rules)
    }

    /// Returns whether any layer is in the mode `plan`, which keeps no changes of programs.
    pub(crate) fn is_plan(&self) -> bool {
        self.all_layers().any(|layer| layer.mode == Mode::Plan)
    }

    /// Returns whether every layer allows an effect without asking.
    fn allows(&self, effect: Effect, workspace: &Path, situation: &DecisionContext) -> bool {
        let effects = Arc::new(Effects::from(effect));
        self.decide_in("", effects, workspace, situation).decision == Decision::Allow
    }

    /// Returns whether a call would run without a question if these rules allowed as well; for a command that has run, with the changes
    /// that it made.
    pub(crate) fn allows_run_with(
        &self,
        rules: &[Rule],
        tool: &str,
        effects: &Effects,
        changes: Option<&Arc<Effects>>,
        workspace: &Path,
        situation: &DecisionContext,
    ) -> bool {
        let ruling =
            |rule: &Rule| ActiveRule::new(Decision::Allow, rule.clone()).in_layer(Layer::Session);
        let policy = rules.iter().map(ruling).fold(self.clone(), Self::with_ruling);
        let verdict = policy.decide_in(tool, effects.clone(), workspace, situation);
        let keeps_changes = || match (verdict.keeps(), changes) {
            (KeptChanges::All, _) => true,
            (KeptChanges::Asked, Some(changes)) => {
                let usual = StagedChanges::Ruled;
                let kept = policy.decide_changes(changes, workspace, usual, situation, &|_| None);
                kept.decision() == Decision::Allow
            }
            (KeptChanges::Asked | KeptChanges::Nothing, _) => false,
        };
        verdict.decision_to_run() == Decision::Allow && keeps_changes()
    }

    /// Returns the mode, which decides about effects without a rule.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the rules, in order.
    pub fn rules(&self) -> &[ActiveRule] {
        &self.rules
    }

    /// Returns whether sessions ask more once they have read untrusted content.
    pub fn provenance(&self) -> bool {
        self.provenance
    }

    /// Returns how much harm a call with these effects could do.
    pub fn risk(&self, effects: &Effects, workspace: &Path) -> RiskLevel {
        self.risk_of(effects, workspace, &DecisionContext::default())
    }

    /// Returns how much harm a call with these effects could do in a session that has these files.
    pub(crate) fn risk_in(&self, effects: &Effects, files: &dyn Files) -> RiskLevel {
        self.risk_of(effects, files.workspace(), &DecisionContext::in_session(files))
    }

    /// Returns the risk of the effects, taking the session's `/tmp` and protected paths into account.
    fn risk_of(
        &self,
        effects: &Effects,
        workspace: &Path,
        situation: &DecisionContext,
    ) -> RiskLevel {
        let is_inside =
            |path: &Path| path.starts_with(workspace) || situation.is_tmp(path, workspace);
        let is_protected =
            |effect: &Effect| self.protection_reason(effect, workspace, situation).is_some();
        risk::highest_risk(effects, self.program_access(), &is_inside, &is_protected)
    }

    /// Returns the denials that no rule and no mode can lift.
    pub fn hard_denies(&self) -> &Arc<HardDenies> {
        &self.hard_denies
    }

    /// Decides about one call of `tool`. Paths in `effects` must be absolute and resolved. The strictest decision about an effect counts.
    pub fn decide(
        &self,
        tool: &str,
        effects: impl Into<Arc<Effects>>,
        workspace: &Path,
    ) -> Verdict {
        self.decide_in(tool, effects, workspace, &DecisionContext::default())
    }

    /// Decides like [`Policy::decide`], at a known time and for a session whose earlier reads are known. The strictest of this policy and
    /// its layers decides; a host outside the session's rights is denied.
    pub fn decide_in(
        &self,
        tool: &str,
        effects: impl Into<Arc<Effects>>,
        workspace: &Path,
        situation: &DecisionContext,
    ) -> Verdict {
        let effects = effects.into();
        let mut verdict = self.decide_layer(tool, &effects, workspace, situation);
        for layer in &self.layers {
            let narrower = layer.decide_layer(tool, &effects, workspace, situation);
            let keeps = verdict.keeps.max(narrower.keeps);
            let tells_more =
                narrower.decision == verdict.decision && narrower.keeps > verdict.keeps;
            if narrower.decision > verdict.decision || tells_more {
                verdict = narrower;
            }
            verdict.keeps = keeps;
        }
        if let Some(net) = &self.net {
            let is_out = |effect: &&Effect| {
                let Effect::Net { origin, .. } = effect else { return false };
                !net.admits(rule::authority_of(origin))
            };
            if let Some(out) = effects.iter().find(is_out) {
                let by = DecidedBy::HardDeny {
                    reason: "the session has no right to reach that host".to_owned(),
                };
                verdict = Verdict::new(Decision::Deny, by, Some(out.clone()), &effects);
            }
        }
        verdict
    }

    /// Decides by this layer alone.
    fn decide_layer(
        &self,
        tool: &str,
        effects: &Arc<Effects>,
        workspace: &Path,
        situation: &DecisionContext,
    ) -> Verdict {
        let mut verdict = self.decide_tool(tool, effects, situation);
        let (mut open, mut all_keeps) = (Vec::new(), KeptChanges::All);
        // The verdict names the change of a file rather than the reading that the change needs.
        let is_needed = |effect: &&Effect| change_of_read(effect, effects.iter()).is_some();
        let (needed, own): (Vec<_>, Vec<_>) = effects.iter().partition(is_needed);
        for effect in own.into_iter().chain(needed) {
            let (decision, by, keeps) =
                self.decide_effect(tool, effect, effects, workspace, situation);
            let is_open =
                by.is_without_rule() && (decision != Decision::Allow || keeps != KeptChanges::All);
            if is_open {
                open.push((effect.clone(), self.open_parts(effect, situation)));
            }
            // Of two that are equally strict, a rule says more than the mode, and changes that are not kept say more than those that are.
            let tells_more = verdict.effect.is_none()
                || (verdict.by.is_without_rule() && !by.is_without_rule())
                || keeps > all_keeps;
            if decision > verdict.decision || (decision == verdict.decision && tells_more) {
                verdict = Verdict::new(decision, by, Some(effect.clone()), effects);
            }
            all_keeps = all_keeps.max(keeps);
        }
        (verdict.open, verdict.keeps) = (open, all_keeps);
        verdict
    }

    /// Decides about the changes that a program has made on its stage. Rules that deny always count, other rules only with
    /// [`StagedChanges::Ruled`]; `usual` decides about the rest. `protected` returns the reason to ask about a path that no rule denies.
    pub(crate) fn decide_changes(
        &self,
        effects: &Arc<Effects>,
        workspace: &Path,
        usual: StagedChanges,
        situation: &DecisionContext,
        protected: &dyn Fn(&Path) -> Option<&'static str>,
    ) -> Verdict {
        let reason = |effect: &Effect| protected(&effect.changed_path()?.path);
        let (decision, by) = match usual {
            StagedChanges::Decided | StagedChanges::Ruled => (Decision::Allow, DecidedBy::Command),
            StagedChanges::Shown => (Decision::Ask, DecidedBy::Staged),
        };
        let mut verdict = Verdict::new(decision, by, None, effects);
        for effect in effects.iter() {
            let ruled = self
                .all_layers()
                .filter_map(|layer| {
                    layer.rule_decision(situation, |ruling| ruling.is_about(effect, workspace))
                })
                .max_by_key(|(decision, _)| *decision);
            let (decision, by) = match (ruled, reason(effect)) {
                (Some((Decision::Deny, rule)), _) => (Decision::Deny, rule),
                (_, Some(reason)) => (Decision::Ask, always_ask(reason)),
                (Some(ruled), None) if usual == StagedChanges::Ruled => ruled,
                (None, None) if usual == StagedChanges::Ruled => {
                    verdict.open.push((effect.clone(), Vec::new()));
                    (Decision::Ask, self.as_cause())
                }
                _ => continue,
            };
            if decision > verdict.decision
                || (decision == verdict.decision && verdict.effect.is_none())
            {
                let open = std::mem::take(&mut verdict.open);
                verdict = Verdict::new(decision, by, Some(effect.clone()), effects);
                verdict.open = open;
            }
        }
        verdict
    }

    /// Decides by the parts that do not depend on single effects: rules about the tool itself, and the mode `deny` for a call without
    /// effects.
    fn decide_tool(
        &self,
        tool: &str,
        effects: &Arc<Effects>,
        situation: &DecisionContext,
    ) -> Verdict {
        let named = self.rule_decision(
            situation,
            |ruling| matches!(ruling.rule.resource(), Resource::Tool(name) if name.matches(tool)),
        );
        let (decision, by) = match named {
            Some(rule_decision) => rule_decision,
            // With effects, rules can allow these, or the mode denies them.
            None if self.mode == Mode::Deny && effects.is_empty() => {
                (Decision::Deny, self.as_cause())
            }
            None => (Decision::Allow, self.as_cause()),
        };
        Verdict::new(decision, by, None, effects)
    }

    /// Decides about one effect: hard denies, then rules, then the mode, then reasons to ask anyway. Also returns which changes are kept.
    fn decide_effect(
        &self,
        tool: &str,
        effect: &Effect,
        effects: &Effects,
        workspace: &Path,
        situation: &DecisionContext,
    ) -> (Decision, DecidedBy, KeptChanges) {
        if let Some(reason) =
            self.hard_denies.denies_unless_harmless(effect, workspace, &situation.harmless)
        {
            return (
                Decision::Deny,
                DecidedBy::HardDeny { reason: reason.to_string() },
                KeptChanges::All,
            );
        }
        let of_mode = || {
            let decision = self.decide_by_mode(effect, workspace, situation);
            let staged = (decision != Decision::Allow)
                .then(|| self.kept_if_staged(effect, effects, workspace))
                .flatten();
            match staged {
                Some(keeps) => (Decision::Allow, self.as_cause(), keeps),
                None => (decision, self.as_cause(), KeptChanges::All),
            }
        };
        let (decision, by, keeps) = self
            .decide_by_rules(tool, effect, workspace, situation, &of_mode)
            .or_else(|| self.decide_by_change(effect, effects, workspace, situation))
            .or_else(|| self.decide_by_command(effect, effects, workspace, situation))
            .or_else(|| self.decide_by_public_path(effect, effects))
            .unwrap_or_else(of_mode);
        if decision == Decision::Deny {
            return (decision, by, keeps);
        }
        // Changes of a staged command to protected paths are decided on after the run.
        let protected = if keeps == KeptChanges::All {
            self.protection_reason(effect, workspace, situation)
        } else {
            None
        };
        let always = protected.map(str::to_owned).or_else(|| match decision {
            Decision::Allow => self.reason_to_ask_anyway(effect, situation),
            _ => None,
        });
        match always {
            Some(reason) => (Decision::Ask, always_ask(reason), keeps),
            None => (decision, by, keeps),
        }
    }

    /// Returns which changes of a command are kept if it may run on a stage where the mode would ask or deny: in the whole sandbox,
    /// its changes reach the workspace only when they are kept. `None` if it may not.
    fn kept_if_staged(
        &self,
        effect: &Effect,
        effects: &Effects,
        workspace: &Path,
    ) -> Option<KeptChanges> {
        let mut commands = effects.iter().filter_map(|effect| match effect {
            Effect::Exec(command) => Some(command),
            _ => None,
        });
        let command = commands.next().filter(|_| self.confinement.is_whole())?;
        let is_of_command = match effect {
            Effect::Exec(_) => true,
            other => other.changed_path().is_some_and(|at| at.path.starts_with(workspace)),
        };
        let is_job = command.is_job || commands.any(|command| command.is_job);
        let is_connected = self.program_access().connected
            || effects.iter().any(|effect| matches!(effect, Effect::Net { .. }));
        match self.mode {
            _ if !is_of_command => None,
            Mode::Plan => Some(KeptChanges::Nothing),
            Mode::Ask if is_connected || self.asks_before => None,
            Mode::Ask if self.confinement.level >= SandboxLevel::Discard => {
                Some(KeptChanges::Nothing)
            }
            Mode::Ask if !is_job => Some(KeptChanges::Asked),
            Mode::Ask | Mode::Auto | Mode::Deny | Mode::Yolo => None,
        }
    }

    /// Returns the reason why a change always asks, if it does. The session's `/tmp` is exempt, because only programs of the session use it
    /// and they can write there themselves.
    fn protection_reason(
        &self,
        effect: &Effect,
        workspace: &Path,
        situation: &DecisionContext,
    ) -> Option<&'static str> {
        let at = effect.changed_path()?;
        if situation.is_tmp(&at.path, workspace) {
            return None;
        }
        let is_git = || situation.git_places.contains(&at.path).then_some(protected::GIT_REASON);
        protected::protected_reason(&at.path, self.hard_denies.homes()).or_else(is_git)
    }

    /// Returns the reason why an effect asks although a rule or the mode allows it, if there is one: an unseen program, the network, or
    /// untrusted content.
    fn reason_to_ask_anyway(&self, effect: &Effect, situation: &DecisionContext) -> Option<String> {
        if let Some((why, rule)) = self.unseen_and_denied(effect, situation) {
            return Some(format!("{why}, and `{rule}` may bind it"));
        }
        if let Some(reason) = self.network_reason(effect, situation) {
            return Some(reason);
        }
        if !self.provenance || self.mode == Mode::Yolo {
            return None;
        }
        suspicion_reason(effect, situation, self.program_access())
    }

    /// Returns whether a rule of the person allows this host by its own name. Rules of a session's rights only narrow, and a rule with
    /// a `*` names no host.
    pub(crate) fn names_host(&self, effect: &Effect, situation: &DecisionContext) -> bool {
        let Effect::Net { origin, .. } = effect else { return false };
        self.in_force(situation).iter().any(|ruling| {
            let names = |host: &String| !host.contains('*') && rule::origin_matches(host, origin);
            ruling.decision == Decision::Allow
                && matches!(ruling.rule.resource(), Resource::Net(host) if names(host))
        })
    }

    /// Decides by the rules about the effect and about the tool, and by the mode for parts of a command without a rule. `None` if no rule
    /// applies.
    fn decide_by_rules(
        &self,
        tool: &str,
        effect: &Effect,
        workspace: &Path,
        situation: &DecisionContext,
        of_mode: &dyn Fn() -> (Decision, DecidedBy, KeptChanges),
    ) -> Option<(Decision, DecidedBy, KeptChanges)> {
        let whole = |(decision, by)| (decision, by, KeptChanges::All);
        let names_tool = |ruling: &ActiveRule| matches!(ruling.rule.resource(), Resource::Tool(name) if name.matches(tool));
        let Effect::Exec(command) = effect else {
            let applies =
                |ruling: &ActiveRule| ruling.is_about(effect, workspace) || names_tool(ruling);
            return self.rule_decision(situation, applies).map(whole);
        };
        let of_command = command::strictest(self.in_force(situation), command, |part| {
            self.passes_without_rule(part)
        });
        let of_tool = self.rule_decision(situation, names_tool);
        // The mode may deny a part without a rule although a rule only asks about another part.
        let is_open =
            || command.unclear.is_some() || !self.open_parts(effect, situation).is_empty();
        let of_mode =
            of_command.as_ref().filter(|_| of_tool.is_none() && is_open()).map(|_| of_mode());
        let keeps = of_mode.as_ref().map_or(KeptChanges::All, |(.., keeps)| *keeps);
        let rule_decision = of_tool.into_iter().chain(of_command).map(whole);
        let (decision, by, _) =
            of_mode.into_iter().chain(rule_decision).max_by_key(|(decision, ..)| *decision)?;
        Some((decision, by, keeps))
    }

    /// Allows the reading of a file if a rule allows the change of the same file in this call; otherwise `None`.
    fn decide_by_change(
        &self,
        effect: &Effect,
        effects: &Effects,
        workspace: &Path,
        situation: &DecisionContext,
    ) -> Option<(Decision, DecidedBy, KeptChanges)> {
        let change = change_of_read(effect, effects.iter())?;
        let rule_decision =
            self.rule_decision(situation, |ruling| ruling.is_about(change, workspace));
        let (decision, by) = rule_decision.filter(|(decision, _)| *decision == Decision::Allow)?;
        Some((decision, by, KeptChanges::All))
    }

    /// Allows a change in the workspace if a rule allows the command whose words make it; otherwise `None`.
    fn decide_by_command(
        &self,
        effect: &Effect,
        effects: &Effects,
        workspace: &Path,
        situation: &DecisionContext,
    ) -> Option<(Decision, DecidedBy, KeptChanges)> {
        let at = effect.changed_path()?;
        let rule = command::allows_change(self.in_force(situation), effects, at)?;
        at.path.starts_with(workspace).then_some((Decision::Allow, rule, KeptChanges::All))
    }

    /// Allows a command to read files that every program of the machine may read, except in the mode `deny`; otherwise `None`.
    fn decide_by_public_path(
        &self,
        effect: &Effect,
        effects: &Effects,
    ) -> Option<(Decision, DecidedBy, KeptChanges)> {
        let Effect::Read(at) = effect else { return None };
        let reads_it = |other: &Effect| matches!(other, Effect::Exec(command) if command.reads(at));
        let is_public =
            effects.iter().any(reads_it) && public_paths::is_public(at, self.hard_denies.homes());
        (is_public && self.mode != Mode::Deny)
            .then(|| (Decision::Allow, self.as_cause(), KeptChanges::All))
    }

    /// Returns whether a part of a command needs no rule in this mode.
    fn passes_without_rule(&self, part: &SimpleCommand) -> bool {
        self.mode != Mode::Deny && command::part_only_reads(part, self.program_access().confined)
    }

    /// Returns the indexes of the parts of a command that neither a rule nor [`Policy::passes_without_rule`] allows.
    fn open_parts(&self, effect: &Effect, situation: &DecisionContext) -> Vec<usize> {
        let Effect::Exec(command) = effect else { return Vec::new() };
        command::open_parts(self.in_force(situation), command, |part| {
            self.passes_without_rule(part)
        })
    }

    /// Returns the reason why a command may run an unseen program, and the first rule that could deny that program. `None` if it runs none
    /// or no rule denies commands.
    fn unseen_and_denied(
        &self,
        effect: &Effect,
        situation: &DecisionContext,
    ) -> Option<(String, String)> {
        let Effect::Exec(command) = effect else { return None };
        let why = command::unseen_program_reason(self.in_force(situation), command)?;
        let denies = |ruling: &&ActiveRule| {
            ruling.decision == Decision::Deny
                && matches!(ruling.rule.resource(), Resource::Exec { .. })
        };
        self.in_force(situation).iter().find(denies).map(|rule| (why, rule.to_string()))
    }

    /// Returns the reason why a command asks because it can use the network: the mode is `plan`, or a rule denies a host that the command
    /// could reach, since the hosts are not known before it runs. `None` without network and for commands that only read.
    fn network_reason(&self, effect: &Effect, situation: &DecisionContext) -> Option<String> {
        let Effect::Exec(command) = effect else { return None };
        let network = self.permitted_network(&self.confinement.network, situation.now);
        if network == NetworkAccess::None || self.only_reads(command) {
            return None;
        }
        if self.mode == Mode::Plan {
            return Some("the network is open to it".to_owned());
        }
        let denies = |ruling: &&ActiveRule| {
            ruling.decision == Decision::Deny
                && matches!(ruling.rule.resource(), Resource::Net(host) if network.admits(host))
        };
        let ruling = self.in_force(situation).iter().find(denies)?;
        Some(format!("the network is open to it, and `{ruling}` may bind it"))
    }

    /// Returns the hosts of a confinement without those that rules deny. A pattern stays if a rule denies only some of its hosts, and the
    /// full network unless a rule denies all hosts.
    pub(crate) fn permitted_network(
        &self,
        confined: &NetworkAccess,
        now: Option<SystemTime>,
    ) -> NetworkAccess {
        let in_force =
            self.all_layers().flat_map(|layer| InForce { rulings: &layer.rules, now }.iter());
        let denied = in_force.filter(|ruling| ruling.decision == Decision::Deny);
        let mut denied = denied.filter_map(|ruling| match ruling.rule.resource() {
            Resource::Net(host) => Some(host.as_str()),
            _ => None,
        });
        match confined {
            NetworkAccess::Full if denied.any(|host| host == "*") => NetworkAccess::None,
            NetworkAccess::Hosts(listed) => {
                let denied: Vec<&str> = denied.collect();
                let is_denied =
                    |host: &&String| denied.iter().any(|rule| rule::origin_matches(rule, host));
                NetworkAccess::of_hosts(listed.iter().filter(|host| !is_denied(host)).cloned())
            }
            other => other.clone(),
        }
    }

    /// Returns whether a command does nothing but read, as far as its words tell and the sandbox enforces it.
    fn only_reads(&self, command: &CommandLine) -> bool {
        let confined = self.program_access().confined;
        command.unclear.is_none()
            && command.commands.iter().all(|part| command::part_only_reads(part, confined))
    }

    /// Returns the rules of this layer that have not ended.
    fn in_force(&self, situation: &DecisionContext) -> InForce<'_> {
        InForce { rulings: &self.rules, now: situation.now }
    }

    /// Returns the decision of the rule that counts among those that apply.
    fn rule_decision(
        &self,
        situation: &DecisionContext,
        applies: impl Fn(&ActiveRule) -> bool,
    ) -> Option<(Decision, DecidedBy)> {
        self.in_force(situation).deciding(applies)
    }

    /// Returns the cause of a decision without a rule: the mode, or the person who makes the call.
    fn as_cause(&self) -> DecidedBy {
        if self.is_for_person { DecidedBy::Person } else { DecidedBy::Mode { mode: self.mode } }
    }

    /// Returns the decision of the mode about an effect.
    fn decide_by_mode(
        &self,
        effect: &Effect,
        workspace: &Path,
        situation: &DecisionContext,
    ) -> Decision {
        use Decision::{Allow, Ask, Deny};
        let is_tmp = |path: &Path| situation.is_tmp(path, workspace);
        let [ask, auto, plan] = match effect {
            Effect::State(_) | Effect::Ask | Effect::Agent(_) => [Allow, Allow, Allow],
            Effect::Read(at) if is_within(&at.path, workspace) => [Allow, Allow, Allow],
            Effect::Read(at) | Effect::Write(at) | Effect::Delete(at) if is_tmp(&at.path) => {
                [Allow, Allow, Allow]
            }
            Effect::Write(at) | Effect::Delete(at) if is_within(&at.path, workspace) => {
                [Ask, Allow, Deny]
            }
            // Outside the workspace.
            Effect::Read(_) | Effect::Write(_) | Effect::Delete(_) | Effect::Secret(_) => {
                [Ask, Ask, Deny]
            }
            Effect::Exec(command) if self.only_reads(command) => [Allow, Allow, Allow],
            Effect::Exec(_) if !self.program_access().confined => [Ask, Ask, Deny],
            Effect::Exec(_) | Effect::Mcp { .. } | Effect::Plugin(_) => [Ask, Allow, Deny],
            Effect::Net { origin, .. }
                if host_name_of(origin).is_some_and(|host| is_private_host(&host)) =>
            {
                [Ask, Ask, Deny]
            }
            Effect::Net { .. } => [Ask, Allow, Ask],
        };
        match self.mode {
            Mode::Ask => ask,
            Mode::Auto => auto,
            Mode::Plan => plan,
            Mode::Deny => Deny,
            Mode::Yolo => Allow,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new(Mode::Ask)
    }
}

/// Returns the change that a call makes to the file that `read` reads, if it makes one. `None` if `read` is about a whole tree.
fn change_of_read<'e>(
    read: &Effect,
    mut effects: impl Iterator<Item = &'e Effect>,
) -> Option<&'e Effect> {
    let Effect::Read(at) = read else { return None };
    let is_it = |other: &&Effect| other.changed_path().is_some_and(|other| other.path == at.path);
    effects.find(|other| at.reach != Reach::Tree && is_it(other))
}

/// Makes the cause of a decision that asks each time.
fn always_ask(reason: impl Into<String>) -> DecidedBy {
    DecidedBy::AlwaysAsk { reason: reason.into() }
}

/// Returns the word for a decision in rules and messages.
fn decision_word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

#[cfg(test)]
mod tests;
