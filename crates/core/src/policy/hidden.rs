//! What no tool sees, also in the middle of a search: secret files, our own, and what a rule denies to be read.
//!
//! A search is decided on by the tree that it looks through. A rule about a part of that tree does not bind the search as a whole, so
//! each entry is held against it: what a rule keeps from being read is not found either.

use std::path::Path;
use std::time::SystemTime;

use super::{Decision, Policy, Resource, Ruling};

impl Policy {
    /// Whether no tool may see what is in this file.
    pub(crate) fn hides(&self, path: &Path, workspace: &Path, now: SystemTime) -> bool {
        self.hard_denies.hidden(path).is_some() || self.denies_reading(path, workspace, now)
    }

    /// The same for something in a directory that is not hidden itself. Asked for every entry of a walk.
    pub(crate) fn hides_entry(&self, path: &Path, workspace: &Path, now: SystemTime) -> bool {
        self.hard_denies.hidden_entry(path) || self.denies_reading(path, workspace, now)
    }

    fn denies_reading(&self, path: &Path, workspace: &Path, now: SystemTime) -> bool {
        let denies = |ruling: &Ruling| match ruling.rule.resource() {
            Resource::Read(glob) if ruling.decision == Decision::Deny => {
                glob.covers_file(path, workspace) && ruling.holds(Some(now))
            }
            _ => false,
        };
        self.rules.iter().any(denies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Rule};

    #[test]
    fn what_a_rule_keeps_from_being_read_is_hidden() {
        let rule = |text: &str| text.parse::<Rule>().expect("a rule");
        let policy = Policy::new(Mode::Yolo)
            .deny(rule("read private/**"))
            .deny(rule("read notes"))
            .deny(rule("read /etc/*.conf"))
            .deny(rule("write src/**"))
            .allow(rule("read private/open"));
        for (path, is_hidden) in [
            ("/w/private/a", true),
            ("/w/private/b/c", true),
            ("/w/private/open", true),
            ("/w/private", false),
            ("/w/privately", false),
            ("/w/notes", true),
            ("/w/notes/a", true),
            ("/w/src/a", false),
            ("/etc/a.conf", true),
            ("/w/.env", true),
            ("/w/a", false),
        ] {
            let (path, workspace) = (Path::new(path), Path::new("/w"));
            let now = SystemTime::UNIX_EPOCH;
            assert_eq!(policy.hides(path, workspace, now), is_hidden, "{}", path.display());
            assert_eq!(policy.hides_entry(path, workspace, now), is_hidden, "{}", path.display());
        }
    }
}
