//! What a person could write so that an effect is allowed. A rule is promised only if it really is about that effect: a name may
//! hold characters that mean something else in a pattern, and some effects have no rule at all.

use std::borrow::Cow;
use std::path::Path;

use super::Rule;
use super::rule::host_of;
use crate::{Effect, PathPattern, Reach, quote};

/// The rule that allows this effect and as little else as possible.
pub(super) fn rule_for(effect: &Effect) -> Option<String> {
    let text = match effect {
        Effect::Read(pattern) => format!("read {}", spelled(pattern)),
        // Creating, changing and removing are one thing to a rule.
        Effect::Write(pattern) | Effect::Delete(pattern) => format!("write {}", spelled(pattern)),
        Effect::Net { origin, .. } => format!("net {}", host_of(origin)),
        other => other.to_string(),
    };
    let rule: Rule = text.parse().ok()?;
    // The paths of a decision are absolute, so it does not matter from where the rule is read.
    rule.matches(effect, Path::new("/")).then_some(text)
}

/// The path as a pattern that matches nothing else.
fn spelled(pattern: &PathPattern) -> String {
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
