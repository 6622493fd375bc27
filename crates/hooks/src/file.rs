//! The files in which people write hooks: ours, and those of Claude Code, Hex and Hygge.
//!
//! Nothing is passed over in silence. What is not known is a warning with its place; a gate that is written so badly that it cannot
//! run stays a gate, and refuses.

mod entry;

use std::path::PathBuf;

use serde_json::{Map, Value};
use windlass_core::{Author, Moment, quote};

use super::telling::claude_moment;
use super::{HookDefinition, HookShape};

/// How many hooks a file may have.
const MOST_HOOKS: usize = 256;

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

/// What is left of an entry to look at; what nobody took is not known.
type Fields = Map<String, Value>;

impl HookFile {
    /// The hooks in the order of the file, and what is to be said of what is not understood.
    pub fn read(&self) -> (Vec<HookDefinition>, Vec<String>) {
        let mut reader = Reader { file: self, hooks: Vec::new(), warnings: Vec::new() };
        match self.parse() {
            Ok(top) => reader.top(top),
            Err(why) => reader.warn("", &why),
        }
        if reader.hooks.len() > MOST_HOOKS {
            reader.warn("", &format!("only the first {MOST_HOOKS} hooks are used"));
            reader.hooks.truncate(MOST_HOOKS);
        }
        (reader.hooks, reader.warnings)
    }

    fn parse(&self) -> Result<Fields, String> {
        let is_json = self.path.extension().is_some_and(|extension| extension == "json");
        let parsed = if is_json {
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
}

impl Reader<'_> {
    fn warn(&mut self, place: &str, why: &str) {
        let path = quote::path(&self.file.path);
        let colon = if place.is_empty() { "" } else { ": " };
        self.warnings.push(format!("{path}: {place}{colon}{why}"));
    }

    fn top(&mut self, mut top: Fields) {
        if top.get("disableAllHooks") == Some(&Value::Bool(true)) {
            return self.warn("", "`disableAllHooks` is set: its hooks are not used");
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
            Some(_) => self.warn("hooks", "it is neither a list nor an object"),
        }
    }

    /// An entry that says itself of which events it wants to hear.
    fn named(&mut self, place: &str, name: Option<String>, entry: Value) {
        let Value::Object(mut entry) = entry else {
            return self.warn(place, "a hook is an object with `event` and `command`");
        };
        if let Some(name) = name {
            entry.entry("name").or_insert(name.into());
        }
        let events = match entry.remove("event").or_else(|| entry.remove("events")) {
            Some(Value::String(event)) => vec![event],
            Some(Value::Array(events)) => {
                events.iter().filter_map(|event| event.as_str().map(str::to_owned)).collect()
            }
            _ => return self.warn(place, "it has no `event`, so it is left out"),
        };
        for event in events {
            match moment(&event) {
                Ok(moment) => self.entry(place, moment, self.file.shape, entry.clone(), None),
                Err(why) => self.warn(place, &format!("{why}; it is left out")),
            }
        }
    }

    /// The entries of one event: one or many, each a hook or a group of them with a matcher.
    fn event(&mut self, place: &str, event: &str, entries: Value) {
        let moment = match moment(event) {
            Ok(moment) => moment,
            Err(why) => return self.warn(place, &format!("{why}; it is left out")),
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
                _ => self.warn(&place, "a hook is an object with `command`"),
            }
        }
    }

    fn group(&mut self, place: &str, moment: Moment, mut group: Fields) {
        let matcher = match group.remove("matcher") {
            None | Some(Value::Null) => None,
            Some(Value::String(matcher)) => Some(matcher),
            Some(_) => {
                self.warn(place, "`matcher` is not a text; the hooks are told of every call");
                None
            }
        };
        let Some(Value::Array(hooks)) = group.remove("hooks") else {
            return self.warn(place, "`hooks` is not a list");
        };
        self.unknown(place, &group);
        for (at, hook) in hooks.into_iter().enumerate() {
            let place = format!("{place}.hooks[{at}]");
            match hook {
                Value::Object(hook) => {
                    self.entry(&place, moment, HookShape::Claude, hook, matcher.as_deref());
                }
                _ => self.warn(&place, "a hook is an object with `command`"),
            }
        }
    }
}

/// A moment by our name or by that of others.
fn moment(name: &str) -> Result<Moment, String> {
    let of_others = Moment::NAMES.iter().find(|(_, moment)| claude_moment(*moment) == name);
    of_others.map_or_else(|| name.parse(), |(_, moment)| Ok(*moment))
}
