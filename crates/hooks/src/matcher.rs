//! Decides at which events a hook runs: by tool, by effect, by path, by agent.
//!
//! It uses names and paths with stars, not regular expressions. A pattern that cannot be understood matches everything, because a
//! gate that runs too often does less harm than one that does not run.

use std::path::{Path, PathBuf};

use windlass_core::{Effect, EffectKinds, Effects, HookEvent, PathPattern, Reach, Rule};

/// Filter for events. Every given condition must match.
///
/// ```
/// use windlass_hooks::HookMatcher;
/// assert!(HookMatcher::default().is_for_tool("bash"), "everything");
/// ```
#[derive(Debug, Clone, Default)]
pub struct HookMatcher {
    /// Names of tools, with stars.
    pub(super) tools: Option<Vec<String>>,
    pub(super) effects: Option<EffectKinds>,
    pub(super) paths: Vec<PathMatch>,
    /// Names of agents, with stars.
    pub(super) agents: Option<Vec<String>>,
    /// `Some(true)` for sub-agents only, `Some(false)` for main agents only.
    pub(super) subagent: Option<bool>,
}

/// Error of a list of names, or of a path pattern, that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub(super) enum PatternError {
    #[error("`{0}` is not a list of names with stars, such as `Edit|Write` or `mcp__*`")]
    Names(String),
    /// The reason that the parser of rules gives.
    #[error("{0}")]
    Path(String),
}

/// A pattern for paths.
#[derive(Debug, Clone)]
pub(super) enum PathMatch {
    /// A pattern as in a rule, and its part before the first star.
    Rule(Box<Rule>, PathBuf),
    /// A text in which stars match any characters, also slashes.
    Stars(String),
}

impl HookMatcher {
    /// Returns whether the hook runs at calls of this tool.
    pub fn is_for_tool(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|names| names.iter().any(|name| matches_stars(name, tool)))
    }

    /// Returns whether the hook runs at this event.
    pub(super) fn matches(&self, event: &HookEvent<'_>) -> bool {
        let agent = event.session.agent();
        let is_agent = self
            .agents
            .as_ref()
            .is_none_or(|names| names.iter().any(|name| matches_stars(name, agent)));
        let is_below =
            self.subagent.is_none_or(|wanted| wanted == event.session.parent().is_some());
        let Some(call) = event.what.call() else { return is_agent && is_below };
        is_agent
            && is_below
            && self.is_for_tool(call.tool)
            && self.effects.is_none_or(|kinds| call.effects.kinds().intersects(kinds))
            && self.is_for_paths(call.effects, event.workspace)
    }

    /// Returns whether a call touches a matching path.
    fn is_for_paths(&self, effects: &Effects, workspace: &Path) -> bool {
        if self.paths.is_empty() {
            return true;
        }
        touched_paths(effects).any(|at| self.paths.iter().any(|path| path.matches(at, workspace)))
    }
}

/// Returns the paths in the declared effects of a call.
pub(super) fn touched_paths(effects: &Effects) -> impl Iterator<Item = &PathPattern> {
    effects.iter().filter_map(Effect::path)
}

impl PathMatch {
    /// Parses a pattern in the syntax of rules.
    pub(super) fn rule(pattern: &str) -> Result<Self, PatternError> {
        let rule: Rule = format!("read {pattern}")
            .parse()
            .map_err(|error: windlass_core::RuleError| PatternError::Path(error.why))?;
        let plain = pattern.split(['*', '?', '[', '{']).next().unwrap_or_default();
        // The last component before a star may continue with what the star matches, so it is left out.
        let fixed = if plain.len() == pattern.len() {
            plain
        } else {
            plain.rsplit_once('/').map_or("", |(above, _)| above)
        };
        Ok(Self::Rule(Box::new(rule), PathBuf::from(fixed)))
    }

    /// Returns whether the pattern may match a path in an effect.
    fn matches(&self, at: &PathPattern, workspace: &Path) -> bool {
        match self {
            Self::Rule(rule, fixed) => {
                // A tree may contain a matching file.
                let may_hold = || {
                    at.overlaps(&PathPattern::tree(windlass_core::normalize(
                        &workspace.join(fixed),
                    )))
                };
                rule.matches(&Effect::Read(at.clone()), workspace)
                    || (at.reach == Reach::Tree && may_hold())
            }
            Self::Stars(pattern) => {
                let inside = at.path.strip_prefix(workspace).unwrap_or(&at.path);
                at.reach == Reach::Tree
                    || [&at.path, inside]
                        .iter()
                        .any(|path| matches_stars(pattern, &path.to_string_lossy()))
            }
        }
    }
}

/// Returns whether a text matches a pattern in which every star stands for any characters.
pub(super) fn matches_stars(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Tool names of other systems, with our names for these tools.
const FOREIGN_TOOL_NAMES: &[(&str, &[&str])] = &[
    ("Bash", &["bash"]),
    ("Read", &["read"]),
    ("Write", &["write", "patch"]),
    ("Edit", &["edit", "patch"]),
    ("MultiEdit", &["edit", "patch"]),
    ("Grep", &["grep"]),
    ("Glob", &["glob"]),
    ("LS", &["list"]),
    ("WebFetch", &["web_fetch"]),
    ("WebSearch", &["web_search"]),
    ("TodoWrite", &["todo"]),
    ("Task", &["task"]),
    ("read_file", &["read"]),
    ("write_file", &["write", "patch"]),
    ("edit_file", &["edit", "patch"]),
    ("list_directory", &["list"]),
    ("webfetch", &["web_fetch"]),
];

/// Returns Claude Code's name for one of our tools.
pub(super) fn claude_tool_name(tool: &str) -> &str {
    match tool {
        // The most similar tool of Claude Code, which has none that changes several files.
        "patch" => "Edit",
        _ => FOREIGN_TOOL_NAMES
            .iter()
            .find(|(name, ours)| {
                ours.first() == Some(&tool) && name.starts_with(|first: char| first.is_uppercase())
            })
            .map_or(tool, |(name, _)| name),
    }
}

/// Parses the names in `a|b` and adds our names for them. Returns `None` for all tools, and an error for a part that cannot be
/// understood.
pub(super) fn tool_names(text: &str) -> Result<Option<Vec<String>>, PatternError> {
    let text = text.trim();
    let text = text.strip_prefix('^').unwrap_or(text);
    let text = text.strip_suffix('$').unwrap_or(text);
    let text = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
    if matches!(text, "" | "*" | ".*") {
        return Ok(None);
    }
    let mut names = Vec::new();
    for name in text.split('|') {
        let name = name.trim().replace(".*", "*");
        if name.is_empty() || name.contains(|c: char| !(c.is_alphanumeric() || "_-*/:".contains(c)))
        {
            return Err(PatternError::Names(text.to_owned()));
        }
        let ours = FOREIGN_TOOL_NAMES
            .iter()
            .filter(|(known, _)| matches_stars(&name, known))
            .flat_map(|(_, ours)| *ours);
        names.extend(ours.map(ToString::to_string));
        names.push(name);
    }
    Ok(Some(names))
}

/// Converts a regular expression for paths to a text with stars; `None` if it needs more than stars.
pub(super) fn regex_to_stars(regex: &str) -> Option<String> {
    let (begins, rest) = regex.strip_prefix('^').map_or((false, regex), |rest| (true, rest));
    let (ends, rest) = rest.strip_suffix('$').map_or((false, rest), |rest| (true, rest));
    let mut stars = String::from(if begins { "" } else { "*" });
    let mut letters = rest.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                escaped if escaped.is_alphanumeric() => return None,
                '*' => return None,
                escaped => stars.push(escaped),
            },
            '.' => match letters.peek() {
                Some('*' | '+') => {
                    letters.next();
                    stars.push('*');
                }
                _ => return None,
            },
            '*' | '+' | '?' | '[' | ']' | '(' | ')' | '{' | '}' | '|' | '^' | '$' => return None,
            other => stars.push(other),
        }
    }
    stars.push_str(if ends { "" } else { "*" });
    Some(stars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_characters() {
        for (pattern, text, fits) in [
            ("bash", "bash", true),
            ("bash", "bash2", false),
            ("*", "", true),
            ("web_*", "web_fetch", true),
            ("*_fetch", "web_fetch", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches_stars(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn foreign_tool_names_match_our_tools() {
        let is_for = |text: &str, tool: &str| {
            let tools = tool_names(text).expect(text);
            HookMatcher { tools, ..HookMatcher::default() }.is_for_tool(tool)
        };
        for (text, tool, is) in [
            ("Bash", "bash", true),
            ("Edit|Write", "write", true),
            ("Edit|Write", "patch", true),
            ("^(Edit|MultiEdit)$", "edit", true),
            ("Write", "bash", false),
            ("", "bash", true),
            ("*", "bash", true),
            ("mcp__.*", "mcp__github__search", true),
            ("Web.*", "web_fetch", true),
            ("read_file", "read", true),
        ] {
            assert_eq!(is_for(text, tool), is, "{text} {tool}");
        }
        assert!(tool_names("Edit[").is_err());
    }

    #[test]
    fn simple_regular_expressions_become_stars() {
        for (regex, stars) in [
            (r"\.go$", Some("*.go")),
            (r"^src/.*\.rs$", Some("src/*.rs")),
            ("test", Some("*test*")),
            (r"\d+", None),
            ("a|b", None),
            ("a.b", None),
        ] {
            assert_eq!(regex_to_stars(regex).as_deref(), stars, "{regex}");
        }
    }

    #[test]
    fn path_patterns_match_paths_of_calls() {
        let workspace = Path::new("/w");
        let file = |path: &str| PathPattern::file(path);
        let tree = |path: &str| PathPattern::tree(path);
        for (pattern, at, is) in [
            ("src/**", file("/w/src/a/b.rs"), true),
            ("src/**", file("/w/docs/a"), false),
            ("src/*.rs", tree("/w"), true),
            ("src/*.rs", tree("/w/docs"), false),
            ("src", file("/w/src/a"), true),
            ("/etc/**", file("/etc/hosts"), true),
            ("**/*.pem", tree("/w/keys"), true),
        ] {
            let path = PathMatch::rule(pattern).expect(pattern);
            assert_eq!(path.matches(&at, workspace), is, "{pattern} {at:?}");
        }
    }
}
