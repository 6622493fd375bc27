//! Files that no tool sees, also in the middle of a search: secret files, our own files, and files that a rule denies to be read.
//!
//! The decision about a search is about the tree that it reads. A rule about a part of that tree does not bind the search as a whole, so
//! each entry is compared with the rules: a search skips files that a rule denies, and also files that a person would be asked about. A
//! call that names such a file asks, and then may read it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{
    ActiveRule, DecidedBy, Decision, DecisionContext, Policy, Resource, SecretName,
    holds_credential,
};
use crate::changes::commit;
use crate::{Effect, Effects, FileErrorKind, Files, PathPattern};

/// Maximum size of a settings file that is searched for a credential; a larger file counts as having one.
const MAX_SETTINGS_BYTES: u64 = 64 << 10;

impl Policy {
    /// Returns whether a file is hidden from tools: by its name, or by its content if the name leaves it open. Blocking.
    pub(crate) fn hides(&self, path: &Path, files: &dyn Files, now: SystemTime) -> bool {
        let secret = self.hard_denies.secret_name(path, files.workspace());
        is_secret(secret, path, files) || self.denies_reading(path, files.workspace(), now)
    }

    /// Returns the same for an entry of a directory that is not hidden itself. Called for every entry of a walk. Blocking.
    pub(crate) fn hides_entry_of(&self, path: &Path, files: &dyn Files, now: SystemTime) -> bool {
        is_secret(self.entry_secrecy(path, files.workspace(), now), path, files)
    }

    /// Returns the secrecy of an entry by its name and the rules. Allocates nothing.
    pub(crate) fn entry_secrecy(
        &self,
        path: &Path,
        workspace: &Path,
        now: SystemTime,
    ) -> SecretName {
        match self.hard_denies.secret_entry(path, workspace) {
            SecretName::Yes(reason) => SecretName::Yes(reason),
            _ if self.denies_reading(path, workspace, now) => SecretName::Yes("a rule denies it"),
            secret => secret,
        }
    }

    /// Returns the files of these effects with names that may be secret, but whose content holds no credential. Blocking, for a small file.
    pub(crate) fn harmless(&self, effects: &Effects, files: &dyn Files) -> Vec<PathBuf> {
        let named = effects.iter().filter_map(|effect| Some(&effect.path()?.path));
        let is_harmless = |path: &&PathBuf| {
            let name = self.hard_denies.secret_name(path, files.workspace());
            matches!(name, SecretName::IfCredential(_)) && !may_hold_credential(path, files)
        };
        named.filter(is_harmless).cloned().collect()
    }

    /// Returns a hash of everything that decides which entries of a workspace are hidden. Rules that have ended still count: an index made
    /// with them hides too much rather than too little.
    pub(crate) fn masks_fingerprint(&self, workspace: &Path) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.hard_denies.fingerprint(), workspace).hash(&mut hasher);
        for ruling in self.all_rules() {
            if ruling.decision == Decision::Deny
                && matches!(ruling.rule.resource(), Resource::Read(_))
            {
                (ruling.rule.to_string(), ruling.until).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// Returns whether a rule denies reading a file.
    pub(super) fn denies_reading(&self, path: &Path, workspace: &Path, now: SystemTime) -> bool {
        let denies = |ruling: &ActiveRule| match ruling.rule.resource() {
            Resource::Read(glob) if ruling.decision == Decision::Deny => {
                glob.covers_file(path, workspace) && ruling.holds(Some(now))
            }
            _ => false,
        };
        self.all_rules().any(denies)
    }

    /// Returns whether a rule denies changing a file, or a directory with everything below it.
    pub(crate) fn denies_changing(&self, path: &Path, workspace: &Path, now: SystemTime) -> bool {
        let denies = |ruling: &ActiveRule| match ruling.rule.resource() {
            Resource::Write(glob) if ruling.decision == Decision::Deny => {
                glob.guards(path, workspace) && ruling.holds(Some(now))
            }
            _ => false,
        };
        self.all_rules().any(denies)
    }

    /// Returns whether any rule denies changes of files.
    pub(crate) fn has_changes_to_deny(&self, now: SystemTime) -> bool {
        self.all_rules().any(|ruling| {
            let is_deny = ruling.decision == Decision::Deny && ruling.holds(Some(now));
            is_deny && matches!(ruling.rule.resource(), Resource::Write(_))
        })
    }

    /// Returns whether a rule denies reading everything that is or will be below a directory.
    pub(super) fn denies_reading_below(
        &self,
        path: &Path,
        workspace: &Path,
        now: SystemTime,
    ) -> bool {
        let denies = |ruling: &ActiveRule| match ruling.rule.resource() {
            Resource::Read(glob) if ruling.decision == Decision::Deny => {
                let names = ["\u{1}", "\u{1}/\u{1}", "\u{1}/\u{1}/\u{1}"];
                let mut below = names.iter().map(|name| path.join(name));
                below.all(|path| glob.covers_file(&path, workspace)) && ruling.holds(Some(now))
            }
            _ => false,
        };
        self.all_rules().any(denies)
    }

    /// Returns whether any rule asks about reading. Few policies have one, and a search for the rule that binds a file is slow.
    pub(super) fn has_reads_to_ask_about(&self) -> bool {
        self.all_rules().any(|ruling| {
            ruling.decision == Decision::Ask && matches!(ruling.rule.resource(), Resource::Read(_))
        })
    }

    /// Returns the rule that asks a person before this file is read, unless the call was granted it by name.
    pub(super) fn asks_before_reading(
        &self,
        path: &Path,
        granted: &Effects,
        workspace: &Path,
        now: SystemTime,
    ) -> Option<DecidedBy> {
        let asked = |pattern: PathPattern| {
            let ruled = self.decide_reading(pattern, workspace, now)?;
            (ruled.0 == Decision::Ask).then_some(ruled.1)
        };
        let rule = asked(PathPattern::file(path))?;
        let was_asked = granted.iter().any(|effect| {
            matches!(effect, Effect::Read(at) if at.covers(path) && asked(at.clone()).is_some())
        });
        (!was_asked).then_some(rule)
    }

    /// Returns the filter for a search with these granted effects.
    pub(crate) fn withheld<'p>(
        &'p self,
        granted: &'p Effects,
        files: &'p dyn Files,
        now: SystemTime,
    ) -> Withheld<'p> {
        Withheld { policy: self, granted, files, now, has_asks: self.has_reads_to_ask_about() }
    }

    /// Returns the strictest decision of the rules about reading a path, with the rule.
    fn decide_reading(
        &self,
        pattern: PathPattern,
        workspace: &Path,
        now: SystemTime,
    ) -> Option<(Decision, DecidedBy)> {
        let effect = Effect::Read(pattern);
        let situation = DecisionContext { now: Some(now), ..DecisionContext::default() };
        self.all_layers()
            .filter_map(|layer| {
                layer.rule_decision(&situation, |ruling| ruling.is_about(&effect, workspace))
            })
            .max_by_key(|(decision, _)| *decision)
    }
}

/// Filter of a search: the files in its tree that it must skip.
#[derive(Clone, Copy)]
pub(crate) struct Withheld<'p> {
    policy: &'p Policy,
    granted: &'p Effects,
    files: &'p dyn Files,
    now: SystemTime,
    /// True if any rule asks about reading. Computed once, because it is needed for every entry.
    has_asks: bool,
}

impl Withheld<'_> {
    /// Returns whether the search must skip an entry of a directory that it may read.
    pub(crate) fn hides_entry(&self, path: &Path) -> bool {
        self.policy.hides_entry_of(path, self.files, self.now) || self.asks(path).is_some()
    }

    /// Returns the same for a path of whose directory nothing is known.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        self.policy.hides(path, self.files, self.now) || self.asks(path).is_some()
    }

    /// Returns whether a rule denies everything below a directory, so that the search can skip it as a whole.
    pub(crate) fn hides_all_below(&self, path: &Path) -> bool {
        self.policy.denies_reading_below(path, self.files.workspace(), self.now)
    }

    /// Returns the rule that asks a person about this file, unless the call was granted it by name.
    pub(crate) fn asks(&self, path: &Path) -> Option<DecidedBy> {
        if !self.has_asks {
            return None;
        }
        self.policy.asks_before_reading(path, self.granted, self.files.workspace(), self.now)
    }
}

/// Returns whether a settings file may hold a credential: it does, or cannot be read, or is too large. A missing file holds none.
/// Blocking.
fn may_hold_credential(path: &Path, files: &dyn Files) -> bool {
    let opened = match files.open(&commit::recorded_path(files, path)) {
        Ok(opened) => opened,
        Err(error) => return !matches!(error.kind, FileErrorKind::NotFound),
    };
    let mut bytes = Vec::new();
    let read = opened.file.take(MAX_SETTINGS_BYTES + 1).read_to_end(&mut bytes);
    read.is_err() || bytes.len() as u64 > MAX_SETTINGS_BYTES || holds_credential(&bytes)
}

/// Returns whether a file is secret, reading its content if the name leaves it open. Blocking.
fn is_secret(name: SecretName, path: &Path, files: &dyn Files) -> bool {
    match name {
        SecretName::No => false,
        SecretName::Yes(_) => true,
        SecretName::IfCredential(_) => may_hold_credential(path, files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::EmptyHost;
    use crate::{Host as _, Mode, Rule};

    #[test]
    fn file_that_a_rule_denies_is_hidden() {
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
            let host = EmptyHost::default();
            assert_eq!(policy.hides(path, host.files(), now), is_hidden, "{}", path.display());
            let secrecy = policy.entry_secrecy(path, workspace, now);
            assert_eq!(secrecy != SecretName::No, is_hidden, "{}", path.display());
        }
    }

    #[test]
    fn search_skips_files_that_ask() {
        use crate::Layer;
        let ruling = |decision, text: &str, layer| {
            ActiveRule::new(decision, text.parse::<Rule>().expect("a rule")).in_layer(layer)
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
            // The call names it, so a person was asked.
            (Effects::read_tree("/w/plans"), "/w/plans/a", false),
            (Effects::read_tree("/w/plans"), "/w/plans/never", true),
            (Effects::read_tree("/w/plans"), "/w/notes", true),
            (Effects::read("/w/plans/a"), "/w/plans/a", false),
            (Effects::read("/w/plans/a"), "/w/plans/b", true),
        ] {
            let host = EmptyHost::default();
            let withheld = policy.withheld(&granted, host.files(), SystemTime::UNIX_EPOCH);
            assert_eq!(withheld.hides_entry(Path::new(path)), is_hidden, "{granted} | {path}");
            assert_eq!(withheld.hides(Path::new(path)), is_hidden, "{granted} | {path}");
        }
    }

    #[test]
    fn directory_is_hidden_as_a_whole_if_everything_below_it_is_denied() {
        let rule = |text: &str| text.parse::<Rule>().expect("a rule");
        let policy = Policy::new(Mode::Ask)
            .deny(rule("read private/**"))
            .deny(rule("read src/*/*"))
            .deny(rule("read **/*.sql"));
        let granted = Effects::none();
        let host = EmptyHost::default();
        let withheld = policy.withheld(&granted, host.files(), SystemTime::UNIX_EPOCH);
        for (path, is_whole) in
            [("/w/private", true), ("/w/private/a", true), ("/w/src", false), ("/w/db", false)]
        {
            assert_eq!(withheld.hides_all_below(Path::new(path)), is_whole, "{path}");
        }
    }

    #[test]
    fn fingerprint_of_masks_changes_with_the_rules_that_hide() {
        let rule = |text: &str| text.parse::<Rule>().expect("a rule");
        let (w, usual) = (Path::new("/w"), || Policy::new(Mode::Ask));
        let of = |policy: Policy| policy.masks_fingerprint(w);
        assert_eq!(of(usual()), of(usual().with_mode(Mode::Yolo).allow(rule("read a"))));
        assert_ne!(of(usual()), of(usual().deny(rule("read a"))));
        assert_ne!(of(usual()), usual().masks_fingerprint(Path::new("/v")));
        assert_ne!(
            of(usual()),
            of(usual().with_hard_denies(crate::HardDenies::default().home("/h".into())))
        );
    }
}
