//! The files in which people write hooks: ours, and those of Claude Code, Hex and Hygge.
//!
//! Nothing is passed over in silence. [`HookFile::check`] refuses a file in which a gate could be lost to a typing mistake; what else is
//! not known is a warning with its place. In the files of others, events that there are not here are warnings.

mod entry;
mod lines;

use std::path::PathBuf;

use serde_json::{Map, Value};
use windlass_core::{Author, Moment, likeness, quote};

use super::telling::claude_moment;
use super::{HookDefinition, HookShape};

/// How many hooks a file may have.
const MOST_HOOKS: usize = 256;

/// A word that is as like a known one as this is that word misspelt.
const MISSPELT: f64 = 0.75;

/// A file that may have hooks in it, and what is in it.
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
    /// Where it is, for messages.
    pub path: PathBuf,
    /// What is in it: JSON if its name says so, TOML otherwise.
    pub text: String,
    /// Who wrote it.
    pub author: Author,
    /// In whose words.
    pub shape: HookShape,
}

/// A part of a file of hooks that cannot be understood.
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

/// What is left of an entry to look at; what nobody took is not known.
type Fields = Map<String, Value>;

impl HookFile {
    /// The hooks in the order of the file, and what is to be said of what is not understood.
    pub fn read(&self) -> (Vec<HookDefinition>, Vec<String>) {
        let reader = self.reader();
        (reader.hooks, reader.warnings)
    }

    /// The first part that cannot be understood, so that a hook that its author relies on could be missing. Such a file is not to be used.
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

    fn reader(&self) -> Reader<'_> {
        let mut reader =
            Reader { file: self, hooks: Vec::new(), warnings: Vec::new(), error: None };
        match self.parse() {
            Ok(top) => reader.top(top),
            Err(why) => reader.wrong("", None, &why, ""),
        }
        if reader.hooks.len() > MOST_HOOKS {
            let most = format!("it has more than {MOST_HOOKS} hooks");
            reader.wrong("", None, &most, "; only the first are used");
            reader.hooks.truncate(MOST_HOOKS);
        }
        reader
    }

    fn is_json(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "json")
    }

    fn parse(&self) -> Result<Fields, String> {
        let parsed = if self.is_json() {
            serde_json::from_str(&self.text).map_err(|error| format!("it is not JSON: {error}"))
        } else {
            toml::from_str(&self.text).map_err(|error| format!("it is not TOML: {error}"))
        };
        match parsed? {
            Value::Object(fields) => Ok(fields),
            _ => Err("it is not an object".to_owned()),
        }
    }
}

struct Reader<'f> {
    file: &'f HookFile,
    hooks: Vec<HookDefinition>,
    warnings: Vec<String>,
    error: Option<HookFileError>,
}

impl Reader<'_> {
    fn warn(&mut self, place: &str, why: &str) {
        let path = quote::path(&self.file.path);
        let colon = if place.is_empty() { "" } else { ": " };
        self.warnings.push(format!("{path}: {place}{colon}{why}"));
    }

    /// Notes a part that cannot be understood: an error of the file. A reader who goes on all the same is told what happens otherwise.
    fn wrong(&mut self, place: &str, word: Option<&str>, why: &str, otherwise: &str) {
        self.warn(place, &format!("{why}{otherwise}"));
        if self.error.is_none() {
            let line = lines::of(self.file, place, word);
            let (path, place) = (self.file.path.clone(), place.to_owned());
            self.error = Some(HookFileError { path, line, place, why: why.to_owned() });
        }
    }

    /// Notes a word that is not known: an error in a file of ours, where all words are known. In those of others it may be new there.
    fn unclear(&mut self, place: &str, word: &str, why: &str, otherwise: &str) {
        if self.file.shape == HookShape::Windlass {
            self.wrong(place, Some(word), why, otherwise);
        } else {
            self.warn(place, &format!("{why}{otherwise}"));
        }
    }

    /// Notes an event that there is not.
    fn no_event(&mut self, place: &str, event: &str, why: &str) {
        if is_misspelt_gate(event) {
            self.wrong(place, Some(event), why, "; it is left out");
        } else {
            self.unclear(place, event, why, "; it is left out");
        }
    }

    fn top(&mut self, mut top: Fields) {
        if top.get("disableAllHooks") == Some(&Value::Bool(true)) {
            return self.warn("", "`disableAllHooks` is set: its hooks are not used");
        }
        if let Some(key) = top.keys().find(|key| is_misspelt(key, "hooks")).cloned() {
            let why = format!("unknown field `{}`; did you mean `hooks`?", quote::visible(&key));
            self.wrong("", Some(&key), &why, "");
        }
        match top.remove("hooks") {
            None => {}
            Some(Value::Array(entries)) => {
                for (at, entry) in entries.into_iter().enumerate() {
                    self.named(&format!("hooks[{at}]"), None, entry);
                }
            }
            Some(Value::Object(entries)) if self.file.shape == HookShape::Hygge => {
                for (name, entry) in entries {
                    self.named(&format!("hooks.{name}"), Some(name), entry);
                }
            }
            Some(Value::Object(events)) => {
                for (event, entries) in events {
                    self.event(&format!("hooks.{event}"), &event, entries);
                }
            }
            Some(_) => self.wrong("hooks", None, "it is neither a list nor an object", ""),
        }
    }

    /// An entry that says itself of which events it wants to hear.
    fn named(&mut self, place: &str, name: Option<String>, entry: Value) {
        let Value::Object(mut entry) = entry else {
            return self.wrong(place, None, "a hook is an object with `event` and `command`", "");
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
            return self.wrong(place, None, "it has no `event`", ", so it is left out");
        }
        for event in events {
            match moment(&event) {
                Ok(moment) => self.entry(place, moment, self.file.shape, entry.clone(), None),
                Err(why) => self.no_event(place, &event, &why),
            }
        }
    }

    /// The entries of one event: one or many, each a hook or a group of them with a matcher.
    fn event(&mut self, place: &str, event: &str, entries: Value) {
        let moment = match moment(event) {
            Ok(moment) => moment,
            Err(why) => return self.no_event(place, event, &why),
        };
        let entries = match entries {
            Value::Array(entries) => entries,
            one => vec![one],
        };
        for (at, entry) in entries.into_iter().enumerate() {
            let place = format!("{place}[{at}]");
            match entry {
                Value::Object(entry) if entry.contains_key("hooks") => {
                    self.group(&place, moment, entry);
                }
                Value::Object(entry) => {
                    let shape = match self.file.shape {
                        HookShape::Claude => HookShape::Hex,
                        shape => shape,
                    };
                    self.entry(&place, moment, shape, entry, None);
                }
                _ => self.wrong(&place, None, "a hook is an object with `command`", ""),
            }
        }
    }

    fn group(&mut self, place: &str, moment: Moment, mut group: Fields) {
        let matcher = match group.remove("matcher") {
            None | Some(Value::Null) => None,
            Some(Value::String(matcher)) => Some(matcher),
            Some(_) => {
                let why = "`matcher` is not a text";
                self.unclear(place, "matcher", why, "; the hooks are told of every call");
                None
            }
        };
        let Some(Value::Array(hooks)) = group.remove("hooks") else {
            return self.wrong(place, None, "`hooks` is not a list", "");
        };
        self.unknown(place, &group);
        for (at, hook) in hooks.into_iter().enumerate() {
            let place = format!("{place}.hooks[{at}]");
            match hook {
                Value::Object(hook) => {
                    self.entry(&place, moment, HookShape::Claude, hook, matcher.as_deref());
                }
                _ => self.wrong(&place, None, "a hook is an object with `command`", ""),
            }
        }
    }
}

/// A moment by our name or by that of others.
fn moment(name: &str) -> Result<Moment, String> {
    let of_others = Moment::NAMES.iter().find(|(_, moment)| claude_moment(*moment) == name);
    of_others.map_or_else(|| name.parse(), |(_, moment)| Ok(*moment))
}

/// Tells whether a word is another one with a slip or two.
fn is_misspelt(word: &str, known: &str) -> bool {
    word != known && likeness(word, known) >= MISSPELT
}

/// Tells whether the name of an event that there is not is meant for a gate, ours or that of others.
fn is_misspelt_gate(event: &str) -> bool {
    let gates = Moment::NAMES.iter().filter(|(_, moment)| moment.is_gate());
    gates.into_iter().any(|(name, moment)| {
        is_misspelt(event, name) || is_misspelt(event, claude_moment(*moment))
    })
}
