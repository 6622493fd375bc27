//! Rules about commands: each part of a command is compared with the rules by itself, and the strictest decision about a part counts.
//!
//! A rule that denies or asks binds a command if any part begins with its words, also a certain part of a text that is not fully
//! understood. Rules that allow must together cover every part; parts that do nothing but read need no rule where the mode permits that.
//! A rule covers a part only if its own words include every word that makes the program do more than its name says.

use super::ruling::InForce;
use super::{DecidedBy, Decision};
use crate::{CommandLine, Effect, Effects, OnlyReads, PathPattern, SimpleCommand};

/// Returns the strictest decision of the rules about a command, with the rule; `None` if they do not cover all of it. A rule that asks or
/// denies counts although another part is not covered: then the mode may be stricter still.
pub(super) fn strictest(
    rules: InForce<'_>,
    command: &CommandLine,
    passes: impl Fn(&SimpleCommand) -> bool,
) -> Option<(Decision, DecidedBy)> {
    let mut allowed = None;
    let mut strict = None;
    let mut open = command.unclear.is_some() || command.commands.is_empty();
    for part in &command.commands {
        match decide_part(rules, part) {
            Some((Decision::Allow, rule)) => {
                allowed.get_or_insert((Decision::Allow, rule));
            }
            Some(stricter) => {
                strict = strict
                    .filter(|known: &(Decision, DecidedBy)| known.0 >= stricter.0)
                    .or(Some(stricter));
            }
            None => open |= !passes(part),
        }
    }
    strict.or(allowed.filter(|_| !open))
}

/// Returns the decision of the rules about one part of a command, with the rule.
fn decide_part(rules: InForce<'_>, part: &SimpleCommand) -> Option<(Decision, DecidedBy)> {
    rules.deciding(|ruling| match ruling.decision {
        Decision::Allow => ruling.rule.covers(part),
        Decision::Ask | Decision::Deny => ruling.rule.binds(part),
    })
}

/// Returns the indexes of the parts that no rule is about and for which `passes` is false.
pub(super) fn open_parts(
    rules: InForce<'_>,
    command: &CommandLine,
    passes: impl Fn(&SimpleCommand) -> bool,
) -> Vec<usize> {
    let is_open = |part: &SimpleCommand| decide_part(rules, part).is_none() && !passes(part);
    let parts = command.commands.iter().enumerate();
    parts.filter(|(_, part)| is_open(part)).map(|(at, _)| at).collect()
}

/// Returns the reason why a command may run a program that its words do not show: it is not understood, or a part that no rule allows runs
/// such a program.
pub(super) fn unseen_program_reason(rules: InForce<'_>, command: &CommandLine) -> Option<String> {
    if command.unclear.is_some() {
        return Some("the command is not understood".to_owned());
    }
    let is_allowed =
        |part: &SimpleCommand| matches!(decide_part(rules, part), Some((Decision::Allow, _)));
    command.commands.iter().find_map(|part| {
        let why = part.unseen.as_ref().filter(|_| !is_allowed(part))?;
        Some(format!("`{}` {why}", part.words.first()?))
    })
}

/// Returns the rule that allows a command whose own words make this change. Redirections of the shell do not count.
pub(super) fn allows_change(
    rules: InForce<'_>,
    effects: &Effects,
    change: &PathPattern,
) -> Option<DecidedBy> {
    effects.iter().find_map(|effect| {
        let Effect::Exec(command) = effect else { return None };
        if command.unclear.is_some() || command.redirected.contains(change) {
            return None;
        }
        let mut makers = command.commands.iter().filter(|part| part.changes.contains(change));
        let first = decide_part(rules, makers.next()?)?;
        let all = makers.all(|part| matches!(decide_part(rules, part), Some((Decision::Allow, _))));
        (first.0 == Decision::Allow && all).then_some(first.1)
    })
}

/// Returns whether a part does nothing but read. Some programs count only if the sandbox enforces it.
pub(super) fn part_only_reads(part: &SimpleCommand, is_confined: bool) -> bool {
    match part.only_reads {
        OnlyReads::No => false,
        OnlyReads::InSandbox => is_confined,
        OnlyReads::Always => true,
    }
}
