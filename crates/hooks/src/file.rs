//! Reads the files in which people write hooks: our own, and those of Claude Code, Hex and Hygge.
//!
//! Nothing is ignored silently. [`HookFile::check`] refuses a file in which a typing mistake could disable a gate; anything else
//! that is unknown is a warning with its place. In files of other programs, events that do not exist here are warnings.

mod entry;
mod lines;

use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Map, Value};
use windlass_core::{Author, HookPoint, likeness, quote};

use super::hook_input::claude_point;
use super::{HookDefinition, HookShape};

/// Maximum hooks in one file.
const MAX_HOOKS: usize = 256;

/// Minimum likeness to a known word at which another word counts as a misspelling of it.
const MIN_MISSPELLING_LIKENESS: f64 = 0.75;

/// A file that may define hooks, with its content.
///
/// ```
/// use windlass_core::Author;
/// use windlass_hooks::{HookFile, HookShape};
/// let text = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]}}"#;
/// let path = ".claude/settings.json".into();
/// let file = HookFile { path, text: text.into(), author: Author::Workspace, shape: HookShape::Claude };
/// let (hooks, warnings) = file.read();
/// assert_eq!(hooks[0].name, "./check.sh (.claude/settings.json)");
/// assert!(hooks[0].matcher.is_for_tool("bash") && warnings.is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct HookFile {
    /// Path of the file, for messages.
    pub path: PathBuf,
    /// Content of the file: JSON if its name ends in `.json`, TOML otherwise.
    pub text: String,
    /// Author of the file.
    pub author: Author,
    /// Format of the hooks in it.
    pub shape: HookShape,
}

/// A part of a hook file that cannot be understood.
///
/// ```
/// use windlass_hooks::HookFileError;
/// let (path, line) = ("hooks.toml".into(), Some(2));
/// let error = HookFileError { path, line, place: "hooks[0]".into(), why: "`x` is no event".into() };
/// assert_eq!(error.to_string(), "in hooks.toml, line 2: hooks[0]: `x` is no event");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("in {}{}: {place}{}{why}", quote::path(path), line.map(|line| format!(", line {line}")).unwrap_or_default(), if place.is_empty() { "" } else { ": " })]
pub struct HookFileError {
    /// The file.
    pub path: PathBuf,
    /// The line of the part, if it is known.
    pub line: Option<usize>,
    /// The place of the part in the structure of the file, as in `hooks[2]`; empty for the whole file.
    pub place: String,
    /// The reason, which names the word.
    pub why: String,
}

/// Error of a text that is not one JSON or TOML object.
#[derive(Debug, thiserror::Error)]
enum SyntaxError {
    #[error("it is not JSON: {0}")]
    Json(serde_json::Error),
    #[error("it is not TOML: {0}")]
    Toml(toml::de::Error),
    #[error("it is not an object")]
    NotAnObject,
}

/// Error of an unknown event name, with the names that exist or the nearest one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UnknownEventError(<HookPoint as FromStr>::Err);

/// Fields of an entry that are not read yet. Fields that remain at the end are unknown.
type Fields = Map<String, Value>;

impl HookFile {
    /// Returns the hooks in the order of the file, and warnings about everything that cannot be understood.
    pub fn read(&self) -> (Vec<HookDefinition>, Vec<String>) {
        let reader = self.reader();
        (reader.hooks, reader.warnings)
    }

    /// Returns the first part that cannot be understood, if a hook that its author relies on could be lost by it. Such a file must
    /// not be used.
    ///
    /// ```
    /// use windlass_core::Author;
    /// use windlass_hooks::{HookFile, HookShape};
    /// let text = "[[hooks]]\nevent = \"pre_tol\"\ncommand = \"./check.sh\"\n".to_owned();
    /// let file = HookFile { path: "c.toml".into(), text, author: Author::Person, shape: HookShape::Windlass };
    /// let why = "in c.toml, line 2: hooks[0]: there is no event `pre_tol`; did you mean `pre_tool`?";
    /// assert_eq!(file.check().unwrap_err().to_string(), why);
    /// ```
    pub fn check(&self) -> Result<(), HookFileError> {
        self.reader().error.map_or(Ok(()), Err)
    }

    /// Reads the whole file.
    fn reader(&self) -> HookFileReader<'_> {
        let mut reader =
            HookFileReader { file: self, hooks: Vec::new(), warnings: Vec::new(), error: None };
        match self.parse() {
            Ok(top) => reader.read_top(top),
            Err(error) => reader.report_error("", None, &error.to_string(), ""),
        }
        if reader.hooks.len() > MAX_HOOKS {
            let most = format!("it has more than {MAX_HOOKS} hooks");
            reader.report_error("", None, &most, "; only the first are used");
            reader.hooks.truncate(MAX_HOOKS);
        }
        reader
    }

    /// Returns whether the file's name ends in `.json`.
    fn is_json(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "json")
    }

    /// Parses the text as JSON or TOML.
    fn parse(&self) -> Result<Fields, SyntaxError> {
        let parsed = if self.is_json() {
            serde_json::from_str(&self.text).map_err(SyntaxError::Json)
        } else {
            toml::from_str(&self.text).map_err(SyntaxError::Toml)
        };
        match parsed? {
            Value::Object(fields) => Ok(fields),
            _ => Err(SyntaxError::NotAnObject),
        }
    }
}

/// Collects the hooks, warnings and the first error of a file.
struct HookFileReader<'f> {
    file: &'f HookFile,
    hooks: Vec<HookDefinition>,
    warnings: Vec<String>,
    error: Option<HookFileError>,
}

impl HookFileReader<'_> {
    /// Adds a warning about a place in the file.
    fn warn(&mut self, place: &str, why: &str) {
        let path = quote::path(&self.file.path);
        let colon = if place.is_empty() { "" } else { ": " };
        self.warnings.push(format!("{path}: {place}{colon}{why}"));
    }

    /// Reports a part that cannot be understood as an error of the file, and as a warning. `otherwise` says in the warning what
    /// happens if the file is used all the same.
    fn report_error(&mut self, place: &str, word: Option<&str>, why: &str, otherwise: &str) {
        self.warn(place, &format!("{why}{otherwise}"));
        if self.error.is_none() {
            let line = lines::line_of(self.file, place, word);
            let (path, place) = (self.file.path.clone(), place.to_owned());
            self.error = Some(HookFileError { path, line, place, why: why.to_owned() });
        }
    }

    /// Reports an unknown word: an error in a file of ours, where all words are known; a warning in a file of another program,
    /// where it may be new.
    fn report_unknown_word(&mut self, place: &str, word: &str, why: &str, otherwise: &str) {
        if self.file.shape == HookShape::Windlass {
            self.report_error(place, Some(word), why, otherwise);
        } else {
            self.warn(place, &format!("{why}{otherwise}"));
        }
    }

    /// Reports an unknown event.
    fn report_unknown_event(&mut self, place: &str, event: &str, why: &str) {
        if is_misspelt_gate(event) {
            self.report_error(place, Some(event), why, "; it is left out");
        } else {
            self.report_unknown_word(place, event, why, "; it is left out");
        }
    }

    /// Reads the top-level object of the file.
    fn read_top(&mut self, mut top: Fields) {
        if top.get("disableAllHooks") == Some(&Value::Bool(true)) {
            return self.warn("", "`disableAllHooks` is set: its hooks are not used");
        }
        if let Some(key) = top.keys().find(|key| is_misspelt(key, "hooks")).cloned() {
            let why = format!("unknown field `{}`; did you mean `hooks`?", quote::visible(&key));
            self.report_error("", Some(&key), &why, "");
        }
        match top.remove("hooks") {
            None => {}
            Some(Value::Array(entries)) => {
                for (at, entry) in entries.into_iter().enumerate() {
                    self.read_named_entry(&format!("hooks[{at}]"), None, entry);
                }
            }
            Some(Value::Object(entries)) if self.file.shape == HookShape::Hygge => {
                for (name, entry) in entries {
                    self.read_named_entry(&format!("hooks.{name}"), Some(name), entry);
                }
            }
            Some(Value::Object(events)) => {
                for (event, entries) in events {
                    self.read_event(&format!("hooks.{event}"), &event, entries);
                }
            }
            Some(_) => self.report_error("hooks", None, "it is neither a list nor an object", ""),
        }
    }

    /// Reads an entry that names its events itself.
    fn read_named_entry(&mut self, place: &str, name: Option<String>, entry: Value) {
        let Value::Object(mut entry) = entry else {
            return self.report_error(
                place,
                None,
                "a hook is an object with `event` and `command`",
                "",
            );
        };
        if let Some(name) = name {
            entry.entry("name").or_insert(name.into());
        }
        let events = match entry.remove("event").or_else(|| entry.remove("events")) {
            Some(Value::String(event)) => vec![event],
            Some(Value::Array(events)) => {
                let text =
                    |event: &Value| event.as_str().map_or_else(|| event.to_string(), str::to_owned);
                events.iter().map(text).collect()
            }
            _ => Vec::new(),
        };
        if events.is_empty() {
            return self.report_error(place, None, "it has no `event`", ", so it is left out");
        }
        for event in events {
            match parse_point(&event) {
                Ok(point) => self.read_hook(place, point, self.file.shape, entry.clone(), None),
                Err(error) => self.report_unknown_event(place, &event, &error.to_string()),
            }
        }
    }

    /// Reads the entries of one event: one or several, each a hook or a group of hooks with a matcher.
    fn read_event(&mut self, place: &str, event: &str, entries: Value) {
        let point = match parse_point(event) {
            Ok(point) => point,
            Err(error) => {
                return self.report_unknown_event(place, event, &error.to_string());
            }
        };
        let entries = match entries {
            Value::Array(entries) => entries,
            one => vec![one],
        };
        for (at, entry) in entries.into_iter().enumerate() {
            let place = format!("{place}[{at}]");
            match entry {
                Value::Object(entry) if entry.contains_key("hooks") => {
                    self.read_group(&place, point, entry);
                }
                Value::Object(entry) => {
                    let shape = match self.file.shape {
                        HookShape::Claude => HookShape::Hex,
                        shape => shape,
                    };
                    self.read_hook(&place, point, shape, entry, None);
                }
                _ => self.report_error(&place, None, "a hook is an object with `command`", ""),
            }
        }
    }

    /// Reads a group of hooks that share a matcher, in Claude Code's format.
    fn read_group(&mut self, place: &str, point: HookPoint, mut group: Fields) {
        let matcher = match group.remove("matcher") {
            None | Some(Value::Null) => None,
            Some(Value::String(matcher)) => Some(matcher),
            Some(_) => {
                let why = "`matcher` is not a text";
                self.report_unknown_word(
                    place,
                    "matcher",
                    why,
                    "; the hooks are told of every call",
                );
                None
            }
        };
        let Some(Value::Array(hooks)) = group.remove("hooks") else {
            return self.report_error(place, None, "`hooks` is not a list", "");
        };
        self.report_unknown_fields(place, &group);
        for (at, hook) in hooks.into_iter().enumerate() {
            let place = format!("{place}.hooks[{at}]");
            match hook {
                Value::Object(hook) => {
                    self.read_hook(&place, point, HookShape::Claude, hook, matcher.as_deref());
                }
                _ => self.report_error(&place, None, "a hook is an object with `command`", ""),
            }
        }
    }
}

/// Parses an event name, in our spelling or in that of Claude Code.
fn parse_point(name: &str) -> Result<HookPoint, UnknownEventError> {
    let of_others = HookPoint::NAMES.iter().find(|(_, point)| claude_point(*point) == name);
    match of_others {
        Some((_, point)) => Ok(*point),
        None => name.parse().map_err(UnknownEventError),
    }
}

/// Returns whether a word is another one with a typing mistake or two.
fn is_misspelt(word: &str, known: &str) -> bool {
    word != known && likeness(word, known) >= MIN_MISSPELLING_LIKENESS
}

/// Returns whether an unknown event name is probably a misspelled gate event, in our spelling or in that of Claude Code.
fn is_misspelt_gate(event: &str) -> bool {
    let gates = HookPoint::NAMES.iter().filter(|(_, point)| point.is_gate());
    gates
        .into_iter()
        .any(|(name, point)| is_misspelt(event, name) || is_misspelt(event, claude_point(*point)))
}
