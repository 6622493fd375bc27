//! The checked content of a command file. Behind this module only the command itself can be wrong.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::{EffectKinds, nearest, quote};

use super::front_matter::{self, FrontMatter};
use super::node::{Node, NodeEntry, NodeMap, SourcePosition};
use super::{schema, variables};

/// Keys of the front matter, in the order of the manual.
const FRONT_MATTER_KEYS: [&str; 7] =
    ["name", "description", "schema", "command", "env", "timeout", "effects"];
/// Names that other systems use for our keys.
const KEY_SYNONYMS: [(&str, &str); 5] = [
    ("parameters", "schema"),
    ("input_schema", "schema"),
    ("inputSchema", "schema"),
    ("timeout_sec", "timeout"),
    ("script", "command"),
];
/// Time limit without `timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
/// Limit of `timeout` in seconds.
const MAX_TIMEOUT_SECONDS: f64 = 3_600.0;
/// Limit of a description's length, which every provider accepts.
const MAX_DESCRIPTION_CHARACTERS: usize = 1_024;

/// A parsed command file. See `docs/command-tools.md` for its syntax.
///
/// ```
/// use windlass_tools::CommandDefinition;
/// let file = "---\nname: today\ncommand: date +%F\n---\nWhich day it is.\n";
/// let definition = CommandDefinition::parse(file)?;
/// assert_eq!((definition.name(), definition.command()), ("today", "date +%F"));
/// assert_eq!(definition.description(), "Which day it is.");
/// # Ok::<(), windlass_tools::DefinitionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct CommandDefinition {
    name: String,
    description: String,
    pub(super) schema: Value,
    command: String,
    pub(super) env: Vec<(String, String)>,
    timeout: Duration,
    effects: Option<EffectKinds>,
    /// Parameters, each with the variable in which the command gets it.
    pub(super) variables: Vec<(String, String)>,
}

/// An error in a command file, with its position.
///
/// ```
/// use windlass_tools::CommandDefinition;
/// let error = CommandDefinition::parse("---\nname: Today\n---\n").unwrap_err();
/// assert_eq!((error.line, error.column), (2, 7));
/// assert!(error.to_string().starts_with("line 2, column 7: `Today` cannot be the name of a tool"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The message.
    pub message: String,
}

impl std::fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for DefinitionError {}

impl CommandDefinition {
    /// Parses a file. It does not depend on the machine.
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        let FrontMatter { node, body } = front_matter::parse(text)?;
        let Some(entries) = node.map() else { return Err(node.at.error("it must be a map")) };
        if let Some(unknown) =
            entries.iter().find(|entry| !FRONT_MATTER_KEYS.contains(&&*entry.key))
        {
            return Err(unknown_key(unknown));
        }
        let schema =
            entries.get("schema").map_or_else(|| Ok(no_parameters()), schema::from_node)?;
        if let Some(node) = entries.get("schema") {
            refuse_invisible_in(&schema, node.at)?;
        }
        Ok(Self {
            name: name(entries)?,
            description: description(entries, &body)?,
            command: command(entries)?,
            env: entries.get("env").map_or_else(|| Ok(Vec::new()), env)?,
            timeout: entries.get("timeout").map_or(Ok(DEFAULT_TIMEOUT), timeout)?,
            effects: entries.get("effects").map(effects).transpose()?,
            variables: variables::for_parameters(
                &schema,
                entries.get("schema").map_or(node.at, |node| node.at),
            )?,
            schema,
        })
    }

    /// Returns the name that models call.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description for models.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the script for the shell.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns the time limit.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the effects that the file declares, if it does.
    pub fn effects(&self) -> Option<EffectKinds> {
        self.effects
    }

    /// Returns whether the file declares that the command changes nothing: the workspace is then read-only for it.
    pub(super) fn changes_nothing(&self) -> bool {
        self.effects
            .is_some_and(|effects| !effects.intersects(EffectKinds::WRITE | EffectKinds::EXEC))
    }

    /// Returns whether the file declares no effects but `read`.
    pub(super) fn only_reads(&self) -> bool {
        self.effects.is_some_and(|effects| EffectKinds::READ.contains(effects))
    }
}

/// Returns an error with a similar key or all known ones.
fn unknown_key(entry: &NodeEntry) -> DefinitionError {
    let key = &*entry.key;
    let known = KEY_SYNONYMS.iter().find(|(other, _)| *other == key).map(|(_, ours)| *ours);
    let hint = match known.or_else(|| nearest(key, FRONT_MATTER_KEYS)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", FRONT_MATTER_KEYS.join(", ")),
    };
    entry.at.error(format!("there is no key `{key}`; {hint}"))
}

/// Returns the schema of a tool without parameters.
fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// Returns the text of a required key and its position.
fn required<'e>(
    entries: &'e NodeMap,
    key: &str,
) -> Result<(&'e str, SourcePosition), DefinitionError> {
    let Some(node) = entries.get(key) else {
        return Err(front_matter::START_OF_FILE.error(format!("`{key}` is missing")));
    };
    text(node, key).map(|text| (text, node.at))
}

/// Returns the text of a value, or an error that names the key.
fn text<'n>(node: &'n Node, key: &str) -> Result<&'n str, DefinitionError> {
    node.text()
        .ok_or_else(|| node.at.error(format!("`{key}` is {}; it must be a text", node.kind())))
}

/// Returns the checked name of the tool.
fn name(entries: &NodeMap) -> Result<String, DefinitionError> {
    let (name, at) = required(entries, "name")?;
    let is_name = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
    if !is_name {
        return Err(at.error(format!(
            "`{name}` cannot be the name of a tool: it must be [a-z][a-z0-9_]*, at most 64 characters"
        )));
    }
    if crate::BUILTIN.iter().any(|tool| tool.name() == name) {
        return Err(at.error(format!("`{name}` is a built-in tool, which nothing can replace")));
    }
    Ok(name.to_owned())
}

/// Returns the checked description: of the key, or the text below the front matter.
fn description(entries: &NodeMap, body: &str) -> Result<String, DefinitionError> {
    let (text, at) = match entries.get("description") {
        Some(node) => (text(node, "description")?.trim(), node.at),
        None => (body, front_matter::START_OF_FILE),
    };
    if text.is_empty() {
        return Err(at.error("`description` is missing, and nothing stands below the front matter"));
    }
    refuse_invisible(text, at)?;
    let characters = text.chars().count();
    if characters > MAX_DESCRIPTION_CHARACTERS {
        return Err(at.error(format!(
            "the description has {characters} characters; {MAX_DESCRIPTION_CHARACTERS} are the most. What models need is said in `description`, the rest below"
        )));
    }
    Ok(text.to_owned())
}

/// Returns the checked command.
fn command(entries: &NodeMap) -> Result<String, DefinitionError> {
    let (command, at) = required(entries, "command")?;
    if command.trim().is_empty() {
        return Err(at.error("the command is empty"));
    }
    refuse_nul(command, at)?;
    Ok(command.trim_end().to_owned())
}

/// Refuses a text with a NUL character, which no program can be given.
fn refuse_nul(text: &str, at: SourcePosition) -> Result<(), DefinitionError> {
    if !text.contains('\0') {
        return Ok(());
    }
    Err(at.error("there is a NUL character in it, which no program can be given"))
}

/// Refuses a text with invisible characters, which a model would read and a person would not see.
fn refuse_invisible(text: &str, at: SourcePosition) -> Result<(), DefinitionError> {
    let is_hidden = |c: &char| quote::is_invisible(*c) && !matches!(c, '\n' | '\t');
    text.chars().find(is_hidden).map_or(Ok(()), |hidden| {
        Err(at.error(format!("there is an invisible character in it, U+{:04X}", u32::from(hidden))))
    })
}

/// Refuses invisible characters in any text of a schema.
fn refuse_invisible_in(value: &Value, at: SourcePosition) -> Result<(), DefinitionError> {
    match value {
        Value::String(text) => refuse_invisible(text, at),
        Value::Array(items) => items.iter().try_for_each(|item| refuse_invisible_in(item, at)),
        Value::Object(entries) => entries.iter().try_for_each(|(name, value)| {
            refuse_invisible(name, at)?;
            refuse_invisible_in(value, at)
        }),
        _ => Ok(()),
    }
}

/// Returns the variables of the key `env`.
fn env(node: &Node) -> Result<Vec<(String, String)>, DefinitionError> {
    let wanted = "it must be a map of names and values";
    let entries =
        node.map().ok_or_else(|| node.at.error(format!("`env` is {}; {wanted}", node.kind())))?;
    let variable = |entry: &NodeEntry| {
        if !is_variable(&entry.key) {
            return Err(entry
                .at
                .error(format!("`{}` cannot be the name of a variable", entry.key)));
        }
        if entry.key.starts_with(variables::PREFIX) {
            return Err(entry.at.error("names that begin with `ARG_` are those of the arguments"));
        }
        let value = entry.value.spelling().ok_or_else(|| {
            let kind = entry.value.kind();
            entry.value.at.error(format!("`{}` is {kind}; it must be a text", entry.key))
        })?;
        refuse_nul(&value, entry.value.at)?;
        Ok((entry.key.clone(), value))
    };
    entries.iter().map(variable).collect()
}

/// Returns whether a name is valid for a variable.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// Returns the time limit of the key `timeout`.
fn timeout(node: &Node) -> Result<Duration, DefinitionError> {
    let seconds = node.to_json().as_f64();
    seconds
        .filter(|seconds| *seconds > 0.0 && *seconds <= MAX_TIMEOUT_SECONDS)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| {
            node.at.error("`timeout` must be a number of seconds, more than 0 and at most 3600")
        })
}

/// Returns the effects that the key `effects` lists.
fn effects(node: &Node) -> Result<EffectKinds, DefinitionError> {
    const KNOWN: [(&str, EffectKinds); 4] = [
        ("read", EffectKinds::READ),
        ("write", EffectKinds::WRITE),
        ("net", EffectKinds::NET),
        ("exec", EffectKinds::EXEC),
    ];
    let wanted = "it must be a list of read, write, net, exec";
    let items = node
        .list()
        .ok_or_else(|| node.at.error(format!("`effects` is {}; {wanted}", node.kind())))?;
    let mut effects = EffectKinds::NONE;
    for item in items {
        let text = item.text().unwrap_or_default();
        let known = KNOWN.iter().find(|(name, _)| *name == text);
        let kind = known.ok_or_else(|| item.at.error(no_effect(text)))?;
        effects = effects | kind.1;
    }
    Ok(effects)
}

/// Returns a message about an unknown effect.
fn no_effect(text: &str) -> String {
    match text.split_once(' ') {
        Some((kind, _)) => format!(
            "`{text}`: a program cannot be held to a part of the workspace; write `{kind}` alone, and bind it by a rule such as `deny write docs/**`"
        ),
        None => "an effect is one of read, write, net, exec".into(),
    }
}
