//! Hints how a person could allow a call. A rule is suggested only if it really matches the effect: a name may contain characters with a
//! special meaning in patterns, and some effects have no rule at all. A command needs a rule for each part that none allows, long enough to
//! include every risky word.

use std::borrow::Cow;
use std::path::Path;

use super::rule::host_of;
use super::{Rule, change_of_read};
use crate::{
    AskTime, CommandLine, Effect, GitRecord, PathPattern, Reach, SimpleCommand, git_record, quote,
};

/// Returns the options that would allow a call of which the mode decided on the effects `open`; `effect` is the one that the refusal names.
/// For changes, `commands` made them. If a command is asked about after it ran, rules for its changes would also allow it.
pub(super) fn remedy(
    effect: &Effect,
    open: &[(Effect, Vec<usize>)],
    commands: &[CommandLine],
    when: AskTime,
) -> String {
    let alone = [(effect.clone(), Vec::new())];
    let open = if open.iter().any(|(one, _)| one == effect) { open } else { &alone };
    let mut rules = Vec::new();
    if let Some(rules) = rules_for_git(open.iter().map(|(effect, _)| effect), commands) {
        return allow_options(&rules);
    }
    // A rule for the change of a file covers the reading that the change needs.
    let changes = || open.iter().map(|(effect, _)| effect);
    let needs_rule = |effect: &Effect| change_of_read(effect, changes()).is_none();
    let together = one_rule_for_many_changes(changes());
    rules.extend(together.clone());
    for (effect, parts) in open.iter().filter(|(effect, _)| needs_rule(effect)) {
        match effect {
            Effect::Write(_) | Effect::Delete(_) if together.is_some() => {}
            Effect::Exec(command) => match rules_for_command(command, parts) {
                Ok(more) => rules.extend(more),
                Err(why) if when == AskTime::After => return hint_about_changes(&why),
                Err(why) => return format!("another --mode would allow it; no rule can: {why}"),
            },
            other => match rule_for(other) {
                Some(rule) => rules.push(rule),
                None => return "another --mode would allow it".to_owned(),
            },
        }
    }
    rules.dedup();
    allow_options(&rules)
}

/// Returns the command-line options for rules.
fn allow_options(rules: &[String]) -> String {
    let option = |rule: &String| format!("--allow '{}'", rule.replace('\'', r"'\''"));
    format!("to allow it: {}", rules.iter().map(option).collect::<Vec<_>>().join(" "))
}

/// Returns rules for commands that wrote objects into git's store. Each object has a new name, so a rule about one would never match
/// again.
fn rules_for_git<'e>(
    mut changes: impl Iterator<Item = &'e Effect>,
    commands: &[CommandLine],
) -> Option<Vec<String>> {
    let is_object = |at: &PathPattern| {
        matches!(git_record(&at.path), Some(GitRecord::Object | GitRecord::ObjectDirectory))
    };
    changes.find(|effect| effect.changed_path().is_some_and(is_object))?;
    let rules = commands.iter().map(|command| rules_for_command(command, &[]));
    let rules: Vec<Vec<String>> = rules.collect::<Result<_, _>>().ok()?;
    Some(rules.concat()).filter(|rules| !rules.is_empty())
}

/// Returns the hint for a command that no rule can name, and whose changes are asked about after it ran.
fn hint_about_changes(why: &str) -> String {
    format!(
        "another --mode would allow it, and so would rules for what it changes, since the question comes after the run: \
         --allow 'write **' for all of the workspace, --allow 'write PATH' for a file; no rule can name the command itself: {why}"
    )
}

/// More changes than this get one rule about their common directory.
const MAX_SINGLE_CHANGES: usize = 5;

/// Returns one rule for changes that are too many to be named one by one.
fn one_rule_for_many_changes<'e>(effects: impl Iterator<Item = &'e Effect>) -> Option<String> {
    let changed: Vec<&Path> =
        effects.filter_map(Effect::changed_path).map(|at| at.path.as_path()).collect();
    let directory = common_directory(&changed).filter(|_| changed.len() > MAX_SINGLE_CHANGES)?;
    rule_for(&Effect::Write(PathPattern::tree(directory)))
}

/// Returns the innermost directory that contains all paths.
pub(super) fn common_directory<'p>(paths: &[&'p Path]) -> Option<&'p Path> {
    let mut common = paths.first()?.parent()?;
    while !paths.iter().all(|path| path.starts_with(common)) {
        common = common.parent()?;
    }
    Some(common)
}

/// Returns a rule for each of these parts of a command, or for all parts if none is given. The error says why there is none.
pub(super) fn rules_for_command(
    command: &CommandLine,
    parts: &[usize],
) -> Result<Vec<String>, String> {
    if let Some(why) = &command.unclear {
        return Err(why.clone());
    }
    let is_meant = |at: usize| parts.is_empty() || parts.contains(&at);
    let meant = command.commands.iter().enumerate().filter(|(at, _)| is_meant(*at));
    meant
        .map(|(_, part)| {
            rule_for_part(part).ok_or_else(|| format!("`{part}` cannot be written as one"))
        })
        .collect()
}

/// Returns a rule with as many of the part's words as a rule can contain, if these include every risky word.
fn rule_for_part(part: &SimpleCommand) -> Option<String> {
    let is_plain = |word: &&String| {
        !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || quote::is_invisible(c))
    };
    let plain: Vec<&str> = part.words.iter().take_while(is_plain).map(String::as_str).collect();
    let text = format!("exec {}", plain.join(" "));
    let rule: Rule = text.parse().ok()?;
    rule.covers(part).then_some(text)
}

/// Returns the rule that allows this effect and as little else as possible.
pub(super) fn rule_for(effect: &Effect) -> Option<String> {
    let text = match effect {
        Effect::Read(pattern) => format!("read {}", escaped_glob(pattern)),
        // Creating, changing and removing are one thing to a rule.
        Effect::Write(pattern) | Effect::Delete(pattern) => {
            format!("write {}", escaped_glob(pattern))
        }
        Effect::Net { origin, .. } => format!("net {}", host_of(origin)),
        other => other.to_string(),
    };
    let rule: Rule = text.parse().ok()?;
    // The paths of a decision are absolute, so the workspace does not matter here.
    rule.matches(effect, Path::new("/")).then_some(text)
}

/// Returns the path as a glob that matches nothing else.
pub(super) fn escaped_glob(pattern: &PathPattern) -> String {
    let mut text = match quote::path(&pattern.path) {
        Cow::Owned(quoted) => quoted,
        Cow::Borrowed(plain) => plain.chars().fold(String::new(), |mut text, c| {
            match c {
                '*' | '?' | '[' | '{' | '}' | '\\' => text.extend(['[', c, ']']),
                _ => text.push(c),
            }
            text
        }),
    };
    if pattern.reach == Reach::Tree {
        text.push_str("/**");
    }
    text
}
