//! What rules say about a command: each part of it is held against them by itself, and the strictest part decides for all.
//!
//! A rule that denies or asks binds a command if any part begins with its words, also one that is certain in a text that is not
//! understood in full. Rules that allow must together cover every part: one by one rule, another by another, or by being known to
//! do nothing but read where the mode lets that pass. A rule covers a part only if its own words reach past every word with which
//! the program does more than its name says.

use super::ruling::InForce;
use super::{DecidedBy, Decision};
use crate::{CommandLine, Effect, Effects, OnlyReads, PathPattern, SimpleCommand};

/// The strictest that rules say about a command, and which one; `None` where they do not cover all of it. What asks or denies counts
/// although another part is open: then the mode may be stricter still.
pub(super) fn strictest(
    rules: InForce<'_>,
    command: &CommandLine,
    passes: impl Fn(&SimpleCommand) -> bool,
) -> Option<(Decision, DecidedBy)> {
    let mut allowed = None;
    let mut strict = None;
    let mut open = command.unclear.is_some() || command.commands.is_empty();
    for part in &command.commands {
        match of_part(rules, part) {
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

/// The strictest that rules say about one part of a command.
fn of_part(rules: InForce<'_>, part: &SimpleCommand) -> Option<(Decision, DecidedBy)> {
    rules.deciding(|ruling| match ruling.decision {
        Decision::Allow => ruling.rule.covers(part),
        Decision::Ask | Decision::Deny => ruling.rule.binds(part),
    })
}

/// The parts that no rule allows and that do not pass by themselves.
pub(super) fn open_parts(
    rules: InForce<'_>,
    command: &CommandLine,
    passes: impl Fn(&SimpleCommand) -> bool,
) -> Vec<usize> {
    let is_open = |part: &SimpleCommand| of_part(rules, part).is_none() && !passes(part);
    let parts = command.commands.iter().enumerate();
    parts.filter(|(_, part)| is_open(part)).map(|(at, _)| at).collect()
}

/// Returns why a command may run a program that is not seen: it is not understood, or a part of it runs what its words do not say and
/// no rule allows that part.
pub(super) fn unseen(rules: InForce<'_>, command: &CommandLine) -> Option<String> {
    if command.unclear.is_some() {
        return Some("the command is not understood".to_owned());
    }
    let is_allowed =
        |part: &SimpleCommand| matches!(of_part(rules, part), Some((Decision::Allow, _)));
    command.commands.iter().find_map(|part| {
        let why = part.unseen.as_ref().filter(|_| !is_allowed(part))?;
        Some(format!("`{}` {why}", part.words.first()?))
    })
}

/// The rule that allows a command which by its own words makes this very change; what the shell writes is no part of that.
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
        let first = of_part(rules, makers.next()?)?;
        let all = makers.all(|part| matches!(of_part(rules, part), Some((Decision::Allow, _))));
        (first.0 == Decision::Allow && all).then_some(first.1)
    })
}

/// Whether a part does nothing but read, as far as the sandbox must see to it.
pub(super) fn reads(part: &SimpleCommand, is_confined: bool) -> bool {
    match part.only_reads {
        OnlyReads::No => false,
        OnlyReads::InSandbox => is_confined,
        OnlyReads::Always => true,
    }
}
