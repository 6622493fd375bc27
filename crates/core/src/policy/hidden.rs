//! What no tool sees, also in the middle of a search: secret files, our own, and what a rule denies to be read.
//!
//! A search is decided on by the tree that it looks through. A rule about a part of that tree does not bind the search as a whole, so
//! each entry is held against it: what a rule keeps from being read is not found either, and what a person is to be asked about is
//! not read by the way. Whoever names it is asked, and then it is there.

use std::path::Path;
use std::time::SystemTime;

use super::{Decision, Policy, Resource, Ruling, Situation};
use crate::{Effect, Effects, PathPattern};

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

    /// What a search for which this was granted is not shown.
    pub(crate) fn withheld<'p>(
        &'p self,
        granted: &'p Effects,
        workspace: &'p Path,
        now: SystemTime,
    ) -> Withheld<'p> {
        let asks = |ruling: &Ruling| {
            ruling.decision == Decision::Ask && matches!(ruling.rule.resource(), Resource::Read(_))
        };
        Withheld { policy: self, granted, workspace, now, has_asks: self.rules.iter().any(asks) }
    }

    /// What the rules say about reading this.
    fn ruled_reading(
        &self,
        pattern: PathPattern,
        workspace: &Path,
        now: SystemTime,
    ) -> Option<(Decision, String)> {
        let effect = Effect::Read(pattern);
        let situation = Situation { now: Some(now), ..Situation::default() };
        self.ruled(&situation, |rule| rule.matches(&effect, workspace))
    }
}

/// What a search is not shown of what is in the places that it looks through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Withheld<'p> {
    policy: &'p Policy,
    granted: &'p Effects,
    workspace: &'p Path,
    now: SystemTime,
    /// Whether any rule asks about reading: asked for every entry, so what can be known before is.
    has_asks: bool,
}

impl Withheld<'_> {
    /// Whether something in a directory that is shown is not.
    pub(crate) fn hides_entry(&self, path: &Path) -> bool {
        self.policy.hides_entry(path, self.workspace, self.now) || self.asks(path).is_some()
    }

    /// The same for something of which nothing else is known.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        self.policy.hides(path, self.workspace, self.now) || self.asks(path).is_some()
    }

    /// Whether a rule denies whatever is or will be below a directory, so that the directory stands for all of it.
    pub(crate) fn hides_all_below(&self, path: &Path) -> bool {
        let denies = |ruling: &Ruling| match ruling.rule.resource() {
            Resource::Read(glob) if ruling.decision == Decision::Deny => {
                let names = ["\u{1}", "\u{1}/\u{1}", "\u{1}/\u{1}/\u{1}"];
                let mut below = names.iter().map(|name| path.join(name));
                below.all(|path| glob.covers_file(&path, self.workspace))
                    && ruling.holds(Some(self.now))
            }
            _ => false,
        };
        self.policy.rules.iter().any(denies)
    }

    /// The rule that wants a person to be asked about this file, if they were not.
    pub(crate) fn asks(&self, path: &Path) -> Option<String> {
        if !self.has_asks {
            return None;
        }
        let asked = |pattern: PathPattern| {
            let ruled = self.policy.ruled_reading(pattern, self.workspace, self.now)?;
            (ruled.0 == Decision::Ask).then_some(ruled.1)
        };
        let rule = asked(PathPattern::file(path))?;
        let was_asked = self.granted.iter().any(|effect| {
            matches!(effect, Effect::Read(at) if at.covers(path) && asked(at.clone()).is_some())
        });
        (!was_asked).then_some(rule)
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

    #[test]
    fn what_is_asked_about_is_not_read_by_the_way() {
        use crate::Layer;
        let ruling = |decision, text: &str, layer| {
            Ruling::new(decision, text.parse::<Rule>().expect("a rule")).in_layer(layer)
        };
        let policy = Policy::new(Mode::Yolo)
            .with_ruling(ruling(Decision::Ask, "read plans/**", Layer::User))
            .with_ruling(ruling(Decision::Ask, "read notes", Layer::User))
            .with_ruling(ruling(Decision::Allow, "read plans/open/**", Layer::Flags))
            .with_ruling(ruling(Decision::Deny, "read plans/never", Layer::User));
        for (granted, path, is_hidden) in [
            (Effects::read_tree("/w"), "/w/plans/a", true),
            (Effects::read_tree("/w"), "/w/plans/open/a", false),
            (Effects::read_tree("/w"), "/w/plans/never", true),
            (Effects::read_tree("/w"), "/w/src/a", false),
            (Effects::read_tree("/w"), "/w/notes", true),
            // Whoever names it was asked.
            (Effects::read_tree("/w/plans"), "/w/plans/a", false),
            (Effects::read_tree("/w/plans"), "/w/plans/never", true),
            (Effects::read_tree("/w/plans"), "/w/notes", true),
            (Effects::read("/w/plans/a"), "/w/plans/a", false),
            (Effects::read("/w/plans/a"), "/w/plans/b", true),
        ] {
            let workspace = Path::new("/w");
            let withheld = policy.withheld(&granted, workspace, SystemTime::UNIX_EPOCH);
            assert_eq!(withheld.hides_entry(Path::new(path)), is_hidden, "{granted} | {path}");
            assert_eq!(withheld.hides(Path::new(path)), is_hidden, "{granted} | {path}");
        }
    }

    #[test]
    fn a_directory_stands_for_all_that_is_denied_in_it() {
        let rule = |text: &str| text.parse::<Rule>().expect("a rule");
        let policy = Policy::new(Mode::Ask)
            .deny(rule("read private/**"))
            .deny(rule("read src/*/*"))
            .deny(rule("read **/*.sql"));
        let granted = Effects::none();
        let withheld = policy.withheld(&granted, Path::new("/w"), SystemTime::UNIX_EPOCH);
        for (path, is_whole) in
            [("/w/private", true), ("/w/private/a", true), ("/w/src", false), ("/w/db", false)]
        {
            assert_eq!(withheld.hides_all_below(Path::new(path)), is_whole, "{path}");
        }
    }
}
