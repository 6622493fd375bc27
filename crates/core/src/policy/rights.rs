//! The file access of a call, as far as the view of its programs depends on it.
//!
//! A program's view depends on this alone, whatever its command line says: masked files are absent, and outside the workspace the view
//! contains only the paths that a rule or the call's own grant names.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::rule::PathGlob;
use super::{Decision, DecisionContext, Grant, Mode, Policy, Resource, SecretName, remedy};
use crate::{Effect, Effects, FileKind, PathPattern};

/// Directories that every view has of its own, independent of the machine's.
const VIEW_OWN_DIRECTORIES: [&str; 5] = ["/dev", "/proc", "/sys", "/tmp", "/var/tmp"];

/// Returns whether a path is below a directory that every view has of its own.
fn is_view_own(path: &Path) -> bool {
    VIEW_OWN_DIRECTORIES.iter().any(|own| path.starts_with(own))
}

/// Access of a call's programs to files: its policy, grant and workspace.
///
/// ```
/// use windlass_core::{FileKind, FileRights, Mode, Policy, SecretName};
/// let policy = Policy::new(Mode::Auto).deny("read private/**".parse()?).allow("read /data/**".parse()?);
/// let rights = FileRights::new(policy.into(), "/w".into(), std::time::SystemTime::now());
/// let is_masked = |path: &str| rights.masks(path.as_ref(), FileKind::File) != SecretName::No;
/// assert!(is_masked("/w/.env") && is_masked("/w/private/plan") && !is_masked("/w/README.md"));
/// assert_eq!(rights.readable()[0].root, std::path::Path::new("/data"));
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct FileRights {
    policy: Arc<Policy>,
    granted: Arc<Effects>,
    /// True if a person approved this very call.
    is_agreed: bool,
    workspace: PathBuf,
    now: SystemTime,
    /// True if some rule asks about reading.
    has_asks: bool,
    /// Files that the caller wants the program to read.
    named: Vec<PathBuf>,
}

/// Files outside the workspace that a program may see.
///
/// ```
/// use windlass_core::{FileRights, Mode, Policy};
/// let policy = Policy::new(Mode::Ask).allow("read /data/*.csv".parse()?);
/// let rights = FileRights::new(policy.into(), "/w".into(), std::time::SystemTime::now());
/// let [data] = &rights.readable()[..] else { panic!("one rule") };
/// assert!(data.covers("/data/a.csv".as_ref()) && !data.covers("/data/a.txt".as_ref()));
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct OutsidePaths {
    /// File or directory that contains all of them.
    pub root: PathBuf,
    /// Pattern for the files below the root; `None` for all of them.
    pattern: Option<PathGlob>,
}

impl OutsidePaths {
    /// Returns whether the program may see a file below the root.
    pub fn covers(&self, path: &Path) -> bool {
        self.pattern.as_ref().is_none_or(|glob| glob.covers_file(path, Path::new("/")))
    }

    /// Returns whether the program may see everything below the root.
    pub fn is_whole(&self) -> bool {
        self.pattern.is_none()
    }

    /// Makes paths that cover all of a file or directory.
    fn all(root: &Path) -> Self {
        Self { root: root.to_owned(), pattern: None }
    }
}

/// The parts of the workspace that a program may change directly, without a stage and so without a later decision. All paths are
/// absolute.
///
/// ```
/// use std::path::PathBuf;
/// use windlass_core::{FileRights, Mode, Policy};
/// let policy = Policy::new(Mode::Ask).allow("write logs/**".parse()?).deny("write docs/*.md".parse()?);
/// let writes = FileRights::new(policy.into(), "/w".into(), std::time::SystemTime::now()).direct_writes();
/// assert_eq!((writes.allowed, writes.denied), (vec![PathBuf::from("/w/logs")], vec![PathBuf::from("/w/docs")]));
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectWrites {
    /// Files and directories that it may change: the whole workspace if the mode allows that.
    pub allowed: Vec<PathBuf>,
    /// Files and directories in these that it must not change. A pattern denies the whole directory that it is about, since a mount cannot
    /// select files by name.
    pub denied: Vec<PathBuf>,
}

impl DirectWrites {
    /// Returns whether a path must not be changed.
    pub fn denies(&self, path: &Path) -> bool {
        self.denied.iter().any(|denied| path.starts_with(denied))
    }
}

impl FileRights {
    /// Makes the rights that a policy gives to every call.
    pub fn new(policy: Arc<Policy>, workspace: PathBuf, now: SystemTime) -> Self {
        let has_asks = policy.has_reads_to_ask_about();
        let (granted, named) = (Arc::default(), Vec::new());
        Self { policy, granted, is_agreed: false, workspace, now, has_asks, named }
    }

    /// Sets the effects that were granted to one call, and whether a person approved it.
    pub(crate) fn granted(mut self, grant: &Grant) -> Self {
        self.granted = grant.shared().clone();
        self.is_agreed = grant.is_of_person();
        self
    }

    /// Sets the files that the caller wants the program to read.
    #[must_use]
    pub fn with_named(mut self, files: Vec<PathBuf>) -> Self {
        self.named = files;
        self
    }

    /// Returns a number that changes when the answers of [`masks`](Self::masks) may change. An index of masks is valid for one number.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.policy.masks_fingerprint(&self.workspace).hash(&mut hasher);
        for ruling in self.policy.all_rules() {
            if matches!(ruling.rule.resource(), Resource::Read(_)) && ruling.holds(Some(self.now)) {
                (ruling.decision as u8, ruling.rule.to_string()).hash(&mut hasher);
            }
        }
        // A file that was granted by name is not masked by a rule that asks.
        let reads = self.granted.iter().filter(|effect| matches!(effect, Effect::Read(_)));
        for effect in reads.filter(|_| self.has_asks) {
            effect.to_string().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns whether an entry of a directory is masked from programs; the directory itself must not be masked. Called for every
    /// entry of a tree.
    pub fn masks(&self, path: &Path, kind: FileKind) -> SecretName {
        let (policy, workspace, now) = (&self.policy, &self.workspace, self.now);
        let is_whole =
            || kind == FileKind::Directory && policy.denies_reading_below(path, workspace, now);
        let asks = || policy.asks_before_reading(path, &self.granted, workspace, now).is_some();
        match policy.entry_secrecy(path, workspace, now) {
            SecretName::No | SecretName::IfCredential(_) if is_whole() => {
                SecretName::Yes("a rule denies it")
            }
            SecretName::No if self.has_asks && asks() => SecretName::Yes("a rule asks about it"),
            other => other,
        }
    }

    /// Returns the files outside the workspace that rules, the call's grant or its caller let programs read.
    pub fn readable(&self) -> Vec<OutsidePaths> {
        let mut readable = self.allowed(|resource| match resource {
            Resource::Read(glob) => Some(glob),
            _ => None,
        });
        readable.retain(|paths| self.is_in_all_layers(paths, Effect::Read));
        readable.extend(self.granted.iter().filter_map(|effect| {
            let Effect::Read(at) = effect else { return None };
            Some(OutsidePaths::all(&at.path))
        }));
        readable.extend(self.named.iter().map(|path| OutsidePaths::all(path)));
        self.outside(readable)
    }

    /// Returns the files and directories, in any place, that a rule denies to be read as a whole. Rules whose pattern selects only some
    /// files of a directory are left out.
    pub fn denied(&self) -> Vec<PathBuf> {
        let rulings = self.policy.all_rules();
        let denied = rulings
            .filter(|ruling| ruling.decision == Decision::Deny && ruling.holds(Some(self.now)));
        let roots = denied.filter_map(|ruling| match ruling.rule.resource() {
            Resource::Read(glob) => glob.root(&self.workspace).filter(|(_, is_whole)| *is_whole),
            _ => None,
        });
        roots.map(|(root, _)| root).collect()
    }

    /// Returns the files outside the workspace that a rule lets programs write, or that the call's grant lets them write or delete.
    pub fn writable(&self) -> Vec<OutsidePaths> {
        let mut writable = self.allowed(|resource| match resource {
            Resource::Write(glob) => Some(glob),
            _ => None,
        });
        writable.retain(|paths| self.is_in_all_layers(paths, Effect::Write));
        let changed = self.granted.iter().filter_map(Effect::changed_path);
        writable.extend(changed.map(|at| OutsidePaths::all(&at.path)));
        self.outside(writable)
    }

    /// Returns the parts of the workspace that a program may change without a stage: those that the mode, rules or the grant allow, and
    /// those in them that a rule denies or asks about.
    pub fn direct_writes(&self) -> DirectWrites {
        let is_inside = |path: &PathBuf| path.starts_with(&self.workspace);
        let mut allowed = Vec::new();
        let lets_write = |layer: &Policy| match layer.mode() {
            Mode::Auto | Mode::Yolo => true,
            // The approval of a job says that it may write.
            Mode::Ask => self.is_agreed,
            Mode::Plan | Mode::Deny => false,
        };
        if self.policy.all_layers().all(lets_write) {
            allowed.push(self.workspace.clone());
        }
        let ruled = self.allowed(|resource| match resource {
            Resource::Write(glob) => Some(glob),
            _ => None,
        });
        let ruled = ruled
            .into_iter()
            .filter(|paths| paths.is_whole() && self.is_in_all_layers(paths, Effect::Write))
            .map(|paths| paths.root);
        let granted = self.granted.iter().filter_map(|effect| {
            let Effect::Write(at) = effect else { return None };
            Some(at.path.clone())
        });
        allowed.extend(ruled.chain(granted).filter(is_inside));
        let rulings = self.policy.all_rules();
        let narrowing = rulings
            .filter(|ruling| ruling.decision != Decision::Allow && ruling.holds(Some(self.now)));
        let denied = narrowing.filter_map(|ruling| match ruling.rule.resource() {
            Resource::Write(glob) => {
                Some(glob.root(&self.workspace).map_or_else(|| "/".into(), |(root, _)| root))
            }
            _ => None,
        });
        let touches = |path: &PathBuf| is_inside(path) || self.workspace.starts_with(path);
        DirectWrites { allowed, denied: denied.filter(touches).collect() }
    }

    /// Returns whether no rule can let a program see a path: it is secret by name, ours, or denied by a rule.
    pub fn is_closed(&self, path: &Path) -> bool {
        self.policy.hard_denies().hidden(path, &self.workspace).is_some()
            || self.policy.denies_reading(path, &self.workspace, self.now)
    }

    /// Returns the rule that would let programs read a file or directory outside the workspace, if one can.
    ///
    /// ```
    /// use windlass_core::{FileKind, FileRights, Mode, Policy};
    /// let rights = FileRights::new(Policy::new(Mode::Ask).into(), "/w".into(), std::time::SystemTime::now());
    /// let rule = |path: &str, kind| rights.rule_to_read(path.as_ref(), kind);
    /// assert_eq!(rule("/data", FileKind::Directory).as_deref(), Some("read /data/**"));
    /// assert_eq!(rule("/home/ada/.ssh/config", FileKind::File), None);
    /// ```
    pub fn rule_to_read(&self, path: &Path, kind: FileKind) -> Option<String> {
        let is_open = !self.is_closed(path) && !is_view_own(path);
        is_open.then(|| remedy::rule_for(&Effect::Read(pattern(path, kind)))).flatten()
    }

    /// Returns the rule that would let programs change a file or directory outside the workspace, if one can.
    pub fn rule_to_write(&self, path: &Path, kind: FileKind) -> Option<String> {
        let effect = Effect::Write(pattern(path, kind));
        let is_denied = self.policy.hard_denies().denies(&effect, &self.workspace).is_some()
            || is_view_own(path)
            || self.is_closed(path)
            || self.policy.denies_changing(path, &self.workspace, self.now);
        (!is_denied).then(|| remedy::rule_for(&effect)).flatten()
    }

    /// Returns the paths of the rules that allow now, for the globs that `glob` selects. Rules of the session's rights only narrow, so they
    /// add none; neither does a glob without a fixed root.
    fn allowed(&self, glob: impl Fn(&Resource) -> Option<&PathGlob>) -> Vec<OutsidePaths> {
        let rulings = self.policy.rules.iter();
        let allowed = rulings
            .filter(|ruling| ruling.decision == Decision::Allow && ruling.holds(Some(self.now)));
        let paths = allowed.filter_map(|ruling| {
            let glob = glob(ruling.rule.resource())?;
            let (root, is_whole) = glob.root(&self.workspace)?;
            Some(OutsidePaths { root, pattern: (!is_whole).then(|| glob.clone()) })
        });
        paths.collect()
    }

    /// Returns whether each layer that narrows the policy allows all of these paths without asking.
    fn is_in_all_layers(&self, paths: &OutsidePaths, effect: fn(PathPattern) -> Effect) -> bool {
        let situation = DecisionContext { now: Some(self.now), ..DecisionContext::default() };
        self.policy.layers.iter().all(|layer| {
            layer.allows(effect(PathPattern::tree(&paths.root)), &self.workspace, &situation)
        })
    }

    /// Returns those of the paths that are absolute and outside the workspace and the directories that every view has of its own.
    fn outside(&self, mut paths: Vec<OutsidePaths>) -> Vec<OutsidePaths> {
        paths.retain(|paths| {
            let root = &paths.root;
            root.is_absolute() && !root.starts_with(&self.workspace) && !is_view_own(root)
        });
        paths
    }
}

/// Returns the pattern for a file, or for a directory with everything below it.
fn pattern(path: &Path, kind: FileKind) -> PathPattern {
    if kind == FileKind::Directory { PathPattern::tree(path) } else { PathPattern::file(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(rules: &[(Decision, &str)]) -> FileRights {
        let policy = rules.iter().fold(Policy::new(Mode::Ask), |policy, (decision, rule)| {
            policy.with(*decision, rule.parse().expect("a rule"))
        });
        FileRights::new(policy.into(), "/w".into(), SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn rules_add_paths_to_the_view() {
        for (rule, roots, is_whole) in [
            ("read /data/**", vec!["/data"], true),
            ("read /data", vec!["/data"], true),
            ("read /data/", vec!["/data"], true),
            ("read /data/*.csv", vec!["/data"], false),
            ("read /data/**/x", vec!["/data"], false),
            ("read src/**", vec![], true),
            ("read /w/src/**", vec![], true),
            ("write /data/**", vec![], true),
            ("read /tmp/**", vec![], true),
            ("read /var/tmp/a", vec![], true),
            ("read /tmpfs/a", vec!["/tmpfs/a"], true),
        ] {
            let readable = rights(&[(Decision::Allow, rule)]).readable();
            let found: Vec<_> = readable.iter().map(|paths| paths.root.as_path()).collect();
            assert_eq!(found, roots.iter().map(Path::new).collect::<Vec<_>>(), "{rule}");
            assert!(readable.iter().all(|paths| paths.is_whole() == is_whole), "{rule}");
        }
        assert_eq!(rights(&[(Decision::Allow, "write /data/**")]).writable().len(), 1);
        assert!(rights(&[(Decision::Allow, "write /tmp/a")]).writable().is_empty());
        assert!(rights(&[(Decision::Deny, "read /data/**")]).readable().is_empty());
    }

    #[test]
    fn rule_is_offered_only_if_it_would_help() {
        let rights =
            rights(&[(Decision::Deny, "read /private/**"), (Decision::Deny, "write /kept/**")]);
        let (file, directory) = (FileKind::File, FileKind::Directory);
        for (path, kind, read, write) in [
            ("/data/a.csv", file, Some("read /data/a.csv"), Some("write /data/a.csv")),
            ("/data", directory, Some("read /data/**"), Some("write /data/**")),
            ("/data/a[1]", file, Some("read /data/a[[]1]"), Some("write /data/a[[]1]")),
            ("/usr/x", file, Some("read /usr/x"), None),
            ("/kept/a", file, Some("read /kept/a"), None),
            ("/private/a", file, None, None),
            ("/home/ada/.ssh/id", file, None, None),
            ("/srv/.env", file, None, None),
        ] {
            let path = Path::new(path);
            assert_eq!(rights.rule_to_read(path, kind).as_deref(), read, "{}", path.display());
            assert_eq!(rights.rule_to_write(path, kind).as_deref(), write, "{}", path.display());
            assert_eq!(rights.is_closed(path), read.is_none(), "{}", path.display());
        }
    }

    #[test]
    fn fingerprint_changes_with_the_rules() {
        let none = rights(&[]).fingerprint();
        assert_ne!(none, rights(&[(Decision::Deny, "read a")]).fingerprint());
        assert_ne!(
            rights(&[(Decision::Deny, "read a")]).fingerprint(),
            rights(&[(Decision::Deny, "read b")]).fingerprint()
        );
    }
}
