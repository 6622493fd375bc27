//! Rules in the form in which people write them: `EFFECT RESOURCE`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};

use crate::{Effect, HostName, PathPattern, Reach, SimpleCommand, program_name};

/// One rule, without its decision to allow, ask or deny.
///
/// ```
/// use windlass_core::{CommandLine, Effect, Rule};
/// let rule: Rule = "exec git status".parse()?;
/// let runs = |words: &[&str]| rule.matches(&Effect::Exec(CommandLine::words(words.to_vec())), "/w".as_ref());
/// assert!(runs(&["git", "status", "-s"]));
/// assert!(!runs(&["git", "push"]));
/// assert!("fly me".parse::<Rule>().is_err());
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Rule {
    text: String,
    resource: Resource,
}

/// The effects that a rule is about.
///
/// ```
/// use windlass_core::{Resource, Rule};
/// let rule: Rule = "exec =make test".parse()?;
/// let Resource::Exec { words, exact } = rule.resource() else { panic!("it is about a program") };
/// assert_eq!((words.join(" ").as_str(), *exact), ("make test", true));
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub enum Resource {
    /// `read PATTERN`.
    Read(PathGlob),
    /// `write PATTERN`: creating, changing and removing.
    Write(PathGlob),
    /// `exec WORDS`: commands that begin with these words; `exec =WORDS`: exactly these.
    Exec {
        /// The words; the first is a program by its [name](program_name).
        words: Vec<String>,
        /// True if no further words may follow.
        exact: bool,
    },
    /// `net HOST` or `net HOST:PORT`: whole labels, `*.` for any subdomain, `*` for any host; without a port, every port.
    Net(String),
    /// `tool NAME`.
    Tool(NamePattern),
    /// `agent NAME`.
    Agent(NamePattern),
    /// `mcp SERVER/TOOL`.
    Mcp(NamePattern),
}

/// Error about a text that is not a rule.
///
/// ```
/// use windlass_core::Rule;
/// let error = "wriet docs/**".parse::<Rule>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`wriet docs/**` is not a rule: there is no effect `wriet`; did you mean `write`?"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a rule: {why}")]
#[non_exhaustive]
pub struct RuleError {
    /// The given text.
    pub text: String,
    /// The mistake, and a correction.
    pub why: String,
}

/// A pattern for paths, relative to the workspace or absolute.
///
/// ```
/// use windlass_core::{Effect, PathPattern, Rule};
/// let rule: Rule = "read docs/*.md".parse()?;
/// let reads = |path: &str| rule.matches(&Effect::Read(PathPattern::file(path)), "/w".as_ref());
/// assert!(reads("/w/docs/a.md"));
/// assert!(!reads("/w/docs/old/a.md"), "a star does not cross a slash");
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PathGlob {
    /// The pattern as it was written.
    text: PathBuf,
    is_absolute: bool,
    matcher: PathMatcher,
    /// Matcher for the directories themselves, if the pattern means everything below them.
    directory: Option<GlobMatcher>,
}

/// Compiled form of a pattern.
#[derive(Debug, Clone)]
enum PathMatcher {
    /// A path without special characters: means this path and everything below it.
    Literal(PathBuf),
    Glob(GlobMatcher),
}

impl PathGlob {
    /// Parses a pattern. The error says why it is none.
    fn new(text: &str) -> Result<Self, String> {
        if text == "~" || text.starts_with("~/") {
            return Err("`~` is not expanded here: write the whole path of the directory, or `./~` for one of \
                        this name in the workspace"
                .to_owned());
        }
        let whole = PathBuf::from(text);
        let (text, below) = match text {
            "." | "./" => ("**", true),
            _ => (text.strip_prefix("./").unwrap_or(text), text.ends_with('/')),
        };
        let plain = text.trim_end_matches('/');
        if !text.contains(['*', '?', '[', '{']) {
            return Ok(Self { text: whole, ..Self::from(crate::quote::unpath(plain)) });
        }
        let pattern = if below && text != "**" { format!("{plain}/**") } else { text.to_owned() };
        let directory = directory_of(&pattern).map(matcher).transpose()?;
        let matcher = PathMatcher::Glob(matcher(&pattern)?);
        Ok(Self { text: whole, is_absolute: text.starts_with('/'), matcher, directory })
    }

    /// Returns the text of the pattern.
    pub(super) fn as_path(&self) -> &Path {
        &self.text
    }

    /// Returns the directory or file that contains every match, and whether the pattern means all of it.
    pub(super) fn root(&self, workspace: &Path) -> Option<(PathBuf, bool)> {
        let (root, is_whole) = self.plain_root()?;
        Some((if self.is_absolute { root } else { workspace.join(root) }, is_whole))
    }

    /// Returns the same, relative to the workspace if the pattern is relative.
    fn plain_root(&self) -> Option<(PathBuf, bool)> {
        let text = match &self.matcher {
            PathMatcher::Literal(literal) => return Some((literal.clone(), true)),
            PathMatcher::Glob(matcher) => matcher.glob().glob(),
        };
        let special = text.find(['*', '?', '[', '{'])?;
        let (head, tail) = text.split_at_checked(special)?;
        let Some(cut) = head.rfind('/') else { return Some((PathBuf::new(), text == "**")) };
        let root = if cut == 0 { "/" } else { head.get(..cut)? };
        Some((root.into(), tail == "**" && cut + 1 == special))
    }

    /// Returns whether the pattern means every file of `pattern`.
    fn covers(&self, pattern: &PathPattern, workspace: &Path) -> bool {
        match pattern.reach {
            Reach::Exact | Reach::Entry => self.covers_file(&pattern.path, workspace),
            // A tree is covered if any entry in it would be.
            Reach::Tree => self.covers_file(&pattern.path.join("\u{1}/\u{1}"), workspace),
        }
    }

    /// Returns whether the pattern means this file.
    pub(super) fn covers_file(&self, path: &Path, workspace: &Path) -> bool {
        let Some(subject) = self.subject(path, workspace) else { return false };
        match &self.matcher {
            PathMatcher::Literal(literal) => subject.starts_with(literal),
            PathMatcher::Glob(matcher) => matcher.is_match(subject),
        }
    }

    /// Returns whether a rule that denies or asks binds changes of this path: the pattern means it, or everything below it. Replacing a
    /// directory, moving it or taking its permissions away changes the files below it.
    pub(super) fn guards(&self, path: &Path, workspace: &Path) -> bool {
        let is_directory = || {
            let directory = self.directory.as_ref()?;
            Some(directory.is_match(self.subject(path, workspace)?))
        };
        self.covers_file(path, workspace) || is_directory().unwrap_or(false)
    }

    /// Returns the part of a path that the pattern is compared with; `None` if the pattern cannot mean it.
    fn subject<'p>(&self, path: &'p Path, workspace: &Path) -> Option<&'p Path> {
        if self.is_absolute { Some(path) } else { path.strip_prefix(workspace).ok() }
    }
}

/// Compiles a glob in which `*` does not match `/`.
fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    Ok(glob.map_err(|error| error.kind().to_string())?.compile_matcher())
}

/// Returns the directories below which a pattern means everything. `None` if the last name of the pattern is a wildcard, which also
/// means files.
fn directory_of(pattern: &str) -> Option<&str> {
    let directory = pattern.strip_suffix("/**/*").or_else(|| pattern.strip_suffix("/**"))?;
    let name = directory.rsplit('/').next()?;
    (!name.is_empty() && !name.contains(['*', '?', '['])).then_some(directory)
}

/// Makes a pattern for this path and everything below it, whatever characters it has.
impl From<PathBuf> for PathGlob {
    fn from(path: PathBuf) -> Self {
        Self {
            is_absolute: path.is_absolute(),
            text: path.clone(),
            matcher: PathMatcher::Literal(path),
            directory: None,
        }
    }
}

impl FromStr for PathGlob {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        Self::new(text).map_err(|why| RuleError {
            text: text.to_owned(),
            why: format!("the pattern does not parse: {why}"),
        })
    }
}

/// A name with at most one `*` in it.
///
/// ```
/// use windlass_core::{Resource, Rule};
/// let rule: Rule = "tool web_*".parse()?;
/// let Resource::Tool(name) = rule.resource() else { panic!("it is about tools") };
/// assert!(name.matches("web_fetch") && !name.matches("write"));
/// # Ok::<(), windlass_core::RuleError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// Returns whether the pattern means `name`.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.split_once('*') {
            None => self.0 == name,
            Some((head, tail)) => {
                name.len() >= head.len() + tail.len()
                    && name.starts_with(head)
                    && name.ends_with(tail)
            }
        }
    }
}

impl Rule {
    /// Returns the effects that the rule is about.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns whether the rule is about this effect. `tool` rules are about whole calls, never about a single effect.
    pub fn matches(&self, effect: &Effect, workspace: &Path) -> bool {
        let resource = &self.resource;
        match effect {
            Effect::Read(at) => {
                matches!(resource, Resource::Read(glob) if glob.covers(at, workspace))
            }
            Effect::Write(at) | Effect::Delete(at) => {
                matches!(resource, Resource::Write(glob) if glob.covers(at, workspace))
            }
            // A rule never covers a command that is not understood.
            Effect::Exec(command) => {
                matches!(resource, Resource::Exec { .. })
                    && command.unclear.is_none()
                    && !command.commands.is_empty()
                    && command.commands.iter().all(|simple| self.covers(simple))
            }
            Effect::Net { origin, .. } => {
                matches!(resource, Resource::Net(host) if origin_matches(host, origin))
            }
            Effect::Agent(agent) => {
                matches!(resource, Resource::Agent(name) if name.matches(agent))
            }
            Effect::Mcp { server, tool } => {
                matches!(resource, Resource::Mcp(name) if name.matches(&format!("{server}/{tool}")))
            }
            // No rule can be written about these.
            Effect::Secret(_) | Effect::Ask | Effect::Plugin(_) | Effect::State(_) => false,
        }
    }

    /// Returns whether the rule would restrict an effect if it denies or asks. `write X/**` then also binds changes of the directory `X`
    /// itself.
    pub(super) fn restricts(&self, effect: &Effect, workspace: &Path) -> bool {
        let guards = |at: &PathPattern| match &self.resource {
            Resource::Write(glob) => glob.guards(&at.path, workspace),
            _ => false,
        };
        self.matches(effect, workspace) || effect.changed_path().is_some_and(guards)
    }

    /// Returns whether the rule is about commands and binds this one: the command begins with the rule's words (or equals them),
    /// wherever its options stand, or does the work of the program that the rule names.
    ///
    /// ```
    /// use windlass_core::{Rule, SimpleCommand};
    /// let mut push = SimpleCommand::new(["git", "-C", ".", "push"]);
    /// push.bare = vec![vec!["git".into(), "push".into()]];
    /// let binds = |rule: &str| rule.parse::<Rule>().is_ok_and(|rule| rule.binds(&push));
    /// assert!(binds("exec git push") && !binds("exec git pull"));
    /// ```
    pub fn binds(&self, simple: &SimpleCommand) -> bool {
        let acts_as = match &self.resource {
            Resource::Exec { words, .. } => matches!(words.as_slice(), [program]
                if simple.acts_as.iter().any(|other| other == program)),
            _ => false,
        };
        let starts = |words: &[String]| {
            self.starts_with_words(words) || self.starts_with_program_path(words)
        };
        acts_as || starts(&simple.words) || simple.bare.iter().any(|words| starts(words))
    }

    /// Returns whether the command starts the rule's program by a path. A path can lead to the same program in many ways
    /// (`/usr/../bin/rm`, `/proc/self/root/bin/rm`), so a rule that restricts binds all of them, and other programs of that name too. A
    /// program of the workspace has a path of its own (`./rm`) and is another one.
    fn starts_with_program_path(&self, given: &[String]) -> bool {
        let Resource::Exec { words, exact } = &self.resource else { return false };
        let (Some((program, rest)), Some((rule, rule_rest))) =
            (given.split_first(), words.split_first())
        else {
            return false;
        };
        let is_in_workspace = program.starts_with("./") && !program.contains("/../");
        let has_name = program.rsplit_once('/').is_some_and(|(_, name)| name == rule);
        has_name
            && !is_in_workspace
            && rest.starts_with(rule_rest)
            && (!exact || rest.len() == rule_rest.len())
    }

    /// Returns whether the command's words begin with the rule's words, or equal them if the rule is exact.
    fn starts_with_words(&self, given: &[String]) -> bool {
        let Resource::Exec { words, exact } = &self.resource else { return false };
        given.starts_with(words) && (!exact || given.len() == words.len())
    }

    /// Returns whether the rule covers all that this command does: the command begins with its words, and they include every risky word.
    ///
    /// ```
    /// use windlass_core::{Rule, SimpleCommand};
    /// let find = SimpleCommand::new(["find", ".", "-delete"]).risk(2, "removes files");
    /// let covers = |rule: &str| rule.parse::<Rule>().is_ok_and(|rule| rule.covers(&find));
    /// assert!(!covers("exec find") && covers("exec find . -delete"));
    /// ```
    pub fn covers(&self, simple: &SimpleCommand) -> bool {
        let Resource::Exec { words, .. } = &self.resource else { return false };
        self.starts_with_words(&simple.words) && simple.is_within(words.len())
    }
}

/// Returns the host and port of `scheme://host:port`, as written.
pub(crate) fn authority_of(origin: &str) -> &str {
    origin.split_once("://").map_or(origin, |(_, rest)| rest)
}

/// Returns the host of `scheme://host:port`, with brackets if there are any.
pub(super) fn host_of(origin: &str) -> &str {
    split_port(authority_of(origin)).0
}

/// Returns the parsed host of `scheme://host:port`.
pub(super) fn host_name_of(origin: &str) -> Option<HostName> {
    HostName::parse(unbracketed(host_of(origin)))
}

/// Returns whether the host of an origin is visibly this machine or a plain address.
pub(crate) fn is_plain(origin: &str) -> bool {
    host_name_of(origin).is_some_and(|host| host.is_plain())
}

/// Splits off `:port`, if there is one. Colons of an address without brackets belong to the address.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port))
            if !port.is_empty()
                && port.bytes().all(|byte| byte.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']')) =>
        {
            (host, Some(port))
        }
        _ => (text, None),
    }
}

/// Returns whether a host of a rule, with or without a port, matches an origin. Without a port it matches every port.
pub(super) fn origin_matches(rule: &str, origin: &str) -> bool {
    let (host, port) = split_port(rule);
    let usual = match origin.split_once("://") {
        Some(("https", _)) => Some("443"),
        Some(("http", _)) => Some("80"),
        _ => None,
    };
    let (of_origin, port_of_origin) = split_port(authority_of(origin));
    host_matches(unbracketed(host), unbracketed(of_origin))
        && (port.is_none() || port == port_of_origin.or(usual))
}

/// Removes the brackets around an address.
fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// Returns whether a host matches `*`, `*.domain` or the same name, ignoring case.
fn host_matches(rule: &str, host: &str) -> bool {
    let host = host.trim_end_matches('.');
    match rule.strip_prefix("*.") {
        Some(domain) => host.len().checked_sub(domain.len() + 1).is_some_and(|cut| {
            host.as_bytes()[cut] == b'.' && host[cut + 1..].eq_ignore_ascii_case(domain)
        }),
        None => rule == "*" || rule.eq_ignore_ascii_case(host),
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let error = |why: String| RuleError { text: text.to_owned(), why };
        let (effect, rest) =
            text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let rest = rest.trim();
        if rest.is_empty() {
            return Err(error("it is `EFFECT RESOURCE`, for example `write docs/**`".into()));
        }
        let glob = || {
            PathGlob::new(rest).map_err(|why| error(format!("the pattern does not parse: {why}")))
        };
        let resource = match effect {
            "read" => Resource::Read(glob()?),
            "write" => Resource::Write(glob()?),
            "exec" => {
                let exact = rest.starts_with('=');
                let rest = rest.strip_prefix('=').unwrap_or(rest);
                let mut words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
                match words.first_mut() {
                    Some(program) => *program = program_name(program).into_owned(),
                    None => return Err(error("it names no program".into())),
                }
                Resource::Exec { words, exact }
            }
            "net" => Resource::Net(rest.to_ascii_lowercase()),
            "tool" => Resource::Tool(NamePattern(rest.to_owned())),
            "agent" => Resource::Agent(NamePattern(rest.to_owned())),
            "mcp" => Resource::Mcp(NamePattern(rest.to_owned())),
            other => {
                let known = ["read", "write", "exec", "net", "tool", "agent", "mcp"];
                let hint = crate::nearest(other, known).map_or_else(
                    || format!("effects are {}", known.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
                return Err(error(format!("there is no effect `{other}`; {hint}")));
            }
        };
        Ok(Self { text: text.trim().to_owned(), resource })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;

    #[test]
    fn rule_matches_the_effects_that_it_is_about() {
        let file = |path: &str| Effect::Read(PathPattern::file(path));
        let tree = |path: &str| Effect::Read(PathPattern::tree(path));
        let net = |origin: &str| Effect::Net { origin: origin.into(), method: "GET".into() };
        let exec = |text: &str| Effect::Exec(CommandLine::words(text.split(' ')));
        let mcp = Effect::Mcp { server: "github".into(), tool: "search".into() };
        for (rule, effect, matches) in [
            ("read src/**", file("/w/src/a/b.rs"), true),
            ("read src/**", tree("/w/src"), true),
            ("read src/**", file("/w/srcs/a"), false),
            ("read src", file("/w/src/a"), true),
            ("read src/", file("/w/src/a"), true),
            ("read src", file("/w/src2"), false),
            ("read .", file("/w/x"), true),
            ("read *.md", file("/w/a.md"), true),
            ("read *.md", file("/w/d/a.md"), false),
            ("read **/*.md", file("/w/d/a.md"), true),
            ("read *.md", tree("/w"), false),
            ("read src/**", file("/etc/src/a"), false),
            ("read /etc/**", file("/etc/hosts"), true),
            ("read $'a\\x01'", file("/w/a\u{1}"), true),
            ("exec git status", exec("git status -s"), true),
            ("exec git status", exec("git stash"), false),
            ("exec =make", exec("make"), true),
            ("exec =make", exec("make all"), false),
            ("exec git", Effect::Exec(CommandLine::opaque("git status; x", "?")), false),
            ("exec /bin/git", exec("git"), true),
            ("exec scripts/t.sh", exec("./scripts/t.sh -v"), true),
            ("exec git", exec("./git"), false),
            ("net docs.rs", net("https://docs.rs:443"), true),
            ("net docs.rs", net("https://evil-docs.rs"), false),
            ("net *.docs.rs", net("https://a.docs.rs"), true),
            ("net *.docs.rs", net("https://docs.rs"), false),
            ("net *.docs.rs", net("https://xdocs.rs"), false),
            ("net *", net("http://[::1]:80"), true),
            ("net 127.0.0.1:8080", net("http://127.0.0.1:8080"), true),
            ("net 127.0.0.1:8080", net("http://127.0.0.1:8081"), false),
            ("net 127.0.0.1", net("http://127.0.0.1:8081"), true),
            ("net docs.rs:443", net("https://docs.rs"), true),
            ("net docs.rs:443", net("http://docs.rs"), false),
            ("net *.docs.rs:443", net("https://a.docs.rs:443"), true),
            ("net *.docs.rs:443", net("https://a.docs.rs:8443"), false),
            ("net *:443", net("https://a.docs.rs:8443"), false),
            ("net *:443", net("https://a.docs.rs"), true),
            ("net ::1", net("http://[::1]:8080"), true),
            ("net [::1]:8080", net("http://[::1]:8080"), true),
            ("net [::1]:8080", net("http://[::1]:80"), false),
            ("agent *", Effect::Agent("general".into()), true),
            ("mcp github/*", mcp.clone(), true),
            ("mcp git/*", mcp, false),
        ] {
            let parsed: Rule = rule.parse().expect(rule);
            assert_eq!(parsed.matches(&effect, Path::new("/w")), matches, "{rule} | {effect}");
        }
    }

    #[test]
    fn rule_that_restricts_all_below_a_directory_binds_the_directory() {
        let (write, delete) = (
            |at: &str| Effect::Write(PathPattern::entry(at)),
            |at: &str| Effect::Delete(PathPattern::entry(at)),
        );
        for (rule, effect, is_bound) in [
            ("write docs/infra/**", write("/w/docs/infra"), true),
            ("write docs/infra/**", delete("/w/docs/infra"), true),
            ("write docs/infra/**/*", write("/w/docs/infra"), true),
            ("write docs/infra/**", write("/w/docs"), false),
            ("write docs/infra/**", write("/w/docs/infra2"), false),
            ("write docs/infra/*.md", write("/w/docs/infra"), false),
            ("write **/infra/**", write("/w/a/b/infra"), true),
            ("write {a,b}/**", write("/w/b"), true),
            ("write docs/*/**", write("/w/docs/readme.md"), false),
            ("write /data/**", write("/data"), true),
            ("read docs/infra/**", write("/w/docs/infra"), false),
            ("write docs/infra/**", Effect::Read(PathPattern::entry("/w/docs/infra")), false),
        ] {
            let rule: Rule = rule.parse().expect(rule);
            assert_eq!(rule.restricts(&effect, Path::new("/w")), is_bound, "{rule} | {effect}");
            let is_widened = rule.matches(&effect, Path::new("/w"));
            assert!(!is_widened, "an allow does not reach further: {rule} | {effect}");
        }
    }

    #[test]
    fn error_says_why_a_text_is_not_a_rule() {
        for (text, why) in [
            ("", "EFFECT RESOURCE"),
            ("read", "EFFECT RESOURCE"),
            ("exec =", "names no program"),
            ("raed src", "did you mean `read`?"),
            ("read [a", "does not parse"),
            ("read ~/.ssh/**", "write the whole path"),
            ("write ~", "write the whole path"),
        ] {
            let error = text.parse::<Rule>().expect_err(text);
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn rule_that_restricts_binds_a_program_by_every_path() {
        let binds = |rule: &str, words: &[&str]| {
            rule.parse::<Rule>().unwrap().binds(&SimpleCommand::new(words.iter().copied()))
        };
        for path in ["rm", "/usr/../bin/rm", "/proc/self/root/bin/rm", "./../../bin/rm"] {
            assert!(binds("exec rm", &[path, "a"]), "{path}");
            assert!(binds("exec rm -r", &[path, "-r", "a"]), "{path}");
            assert!(!binds("exec rm -r", &[path, "a"]), "{path}");
            assert!(!binds("exec =rm", &[path, "a"]), "{path}");
        }
        assert!(!binds("exec rm", &["/bin/xrm", "a"]));
        assert!(!binds("exec rm", &["./rm", "a"]), "a program of the workspace");
    }
}
