//! Reads one hook of a file: its command, its matcher and its options.

use std::time::Duration;

use serde_json::Value;
use windlass_core::{Author, EffectKinds, HookPoint, SandboxLevel, quote};

use super::{Fields, HookFileReader, is_misspelt};
use crate::matcher::{PathMatch, regex_to_stars, tool_names};
use crate::{HookCommand, HookDefinition, HookMatcher, HookShape};

impl HookFileReader<'_> {
    /// Reads one hook for one event.
    pub(super) fn read_hook(
        &mut self,
        place: &str,
        point: HookPoint,
        shape: HookShape,
        mut entry: Fields,
        matcher: Option<&str>,
    ) {
        for known in ["description", "statusMessage", "fail_closed"] {
            entry.remove(known);
        }
        match entry.remove("type") {
            None => {}
            Some(kind) if kind == "command" => {}
            Some(kind) => return self.report_not_a_command(place, &kind),
        }
        let Some(command) = self.command(place, point, &mut entry) else { return };
        let matcher = self.matcher(place, point, &mut entry, matcher);
        let (gate, is_heard) = self.gate_and_heard(place, point, &mut entry);
        let given_name = self.text(place, &mut entry, "name");
        let called = given_name.clone().unwrap_or_else(|| command.to_string());
        let name = format!("{} ({})", short(&called), quote::path(&self.file.path));
        let hook = HookDefinition {
            name,
            given_name,
            path: self.file.path.clone(),
            author: self.file.author,
            shape,
            point,
            matcher,
            command,
            environment: self.environment(place, &mut entry),
            timeout: self.timeout(place, shape, &mut entry),
            gate,
            is_heard,
            sandbox: self.sandbox(place, &mut entry),
            pins: Vec::new(),
            unusable: None,
        };
        self.report_unknown_fields(place, &entry);
        self.hooks.push(hook);
    }

    /// Reports a hook that is not a command. A misspelled `command` is an error in files of other programs, too.
    fn report_not_a_command(&mut self, place: &str, kind: &Value) {
        let why = format!("hooks of the type {kind} are not run; only commands are");
        match kind.as_str() {
            Some(word) if !is_misspelt(word, "command") => {
                self.report_unknown_word(place, word, &why, "");
            }
            word => self.report_error(place, word, &why, ""),
        }
    }

    /// Reads the command. An unreadable one becomes an empty command at a gate, which then refuses, and leaves out any other hook.
    fn command(
        &mut self,
        place: &str,
        point: HookPoint,
        entry: &mut Fields,
    ) -> Option<HookCommand> {
        let words = |values: &[Value]| -> Option<Vec<String>> {
            values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        };
        let command = match (entry.remove("command"), entry.remove("args")) {
            (Some(Value::String(text)), None) if !text.trim().is_empty() => {
                Some(HookCommand::Shell(text))
            }
            (Some(Value::String(program)), Some(Value::Array(arguments))) => {
                words(&arguments).map(|mut all| {
                    all.insert(0, program);
                    HookCommand::Words(all)
                })
            }
            (Some(Value::Array(all)), None) if !all.is_empty() => {
                words(&all).map(HookCommand::Words)
            }
            _ => None,
        };
        if command.is_some() {
            return command;
        }
        let why = "its `command` is neither a text nor a list of words";
        if point.is_gate() {
            self.report_unknown_word(
                place,
                "command",
                why,
                "; it refuses everything that it is asked",
            );
            return Some(HookCommand::Words(Vec::new()));
        }
        self.report_unknown_word(place, "command", why, "; it is left out");
        None
    }

    /// Reads the matcher, from `match` and from the tools of the group.
    fn matcher(
        &mut self,
        place: &str,
        point: HookPoint,
        entry: &mut Fields,
        tools: Option<&str>,
    ) -> HookMatcher {
        let is_call = matches!(
            point,
            HookPoint::PreTool | HookPoint::PostTool | HookPoint::PermissionRequest
        );
        let mut matcher = HookMatcher::default();
        if let Some(tools) = tools {
            if is_call {
                matcher.tools = self.names(place, tools);
            } else if !matches!(tools, "" | "*") {
                self.warn(place, &format!("`matcher` says nothing about {point}"));
            }
        }
        let mut given = match entry.remove("match") {
            None => return matcher,
            Some(Value::Object(given)) => given,
            Some(_) => {
                let why = "`match` is not an object";
                self.report_unknown_word(place, "match", why, "; the hook is told of everything");
                return matcher;
            }
        };
        for key in ["tool", "toolName"] {
            if let Some(tool) = self.text(place, &mut given, key) {
                matcher.tools = self.names(place, &tool);
            }
        }
        if let Some(agent) = self.text(place, &mut given, "agent") {
            matcher.agents = self.names(place, &agent);
        }
        if let Some(effect) = self.text(place, &mut given, "effect") {
            matcher.effects = self.effects(place, &effect);
        }
        if let Some(path) = self.text(place, &mut given, "path") {
            match PathMatch::rule(&path) {
                Ok(path) => matcher.paths.push(path),
                Err(why) => {
                    let why = format!("`path`: {why}");
                    self.report_unknown_word(
                        place,
                        "match",
                        &why,
                        "; the hook is told of every path",
                    );
                }
            }
        }
        if let Some(regex) = self.text(place, &mut given, "filePattern") {
            match regex_to_stars(&regex) {
                Some(stars) => matcher.paths.push(PathMatch::Stars(stars)),
                None => self.warn(
                    place,
                    &format!("`filePattern`: `{regex}` is more than letters and `.*`; the hook is told of every path"),
                ),
            }
        }
        match given.remove("isSubagent") {
            None => {}
            Some(Value::Bool(is)) => matcher.subagent = Some(is),
            Some(_) => self.report_unknown_word(
                place,
                "match",
                "`isSubagent` is neither true nor false",
                "",
            ),
        }
        self.report_unknown_fields(&format!("{place}.match"), &given);
        matcher
    }

    /// Returns whether the hook must agree (`None` for the default), and whether its answer counts.
    fn gate_and_heard(
        &mut self,
        place: &str,
        point: HookPoint,
        entry: &mut Fields,
    ) -> (Option<bool>, bool) {
        let mut gate = self.flag(place, entry, "gate");
        if self.flag(place, entry, "ignoreFailure") == Some(true) {
            gate = Some(false);
        }
        let is_async = self.flag(place, entry, "async") == Some(true)
            || entry.remove("mode").is_some_and(|mode| mode == "async");
        if is_async && point.is_gate() {
            self.warn(place, &format!("at {point} it is waited for, although it says `async`"));
            return (gate, true);
        }
        (if is_async { Some(false) } else { gate }, !is_async)
    }

    /// Reads the time limit.
    fn timeout(&mut self, place: &str, shape: HookShape, entry: &mut Fields) -> Duration {
        let given = match entry.remove("timeout") {
            None => return HookDefinition::USUAL_TIMEOUT,
            Some(Value::Number(number)) if shape == HookShape::Hex => {
                number.as_f64().map(|milliseconds| milliseconds / 1000.0)
            }
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => seconds(&text),
            Some(_) => None,
        };
        let given = given
            .filter(|seconds| *seconds > 0.0)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match given {
            Some(given) if given <= HookDefinition::LONGEST_TIMEOUT => given,
            Some(_) => {
                self.warn(place, "`timeout` is more than 60 s, which is the most; it gets 60 s");
                HookDefinition::LONGEST_TIMEOUT
            }
            None => {
                self.report_unknown_word(
                    place,
                    "timeout",
                    "`timeout` is not a number of seconds",
                    "; it gets 5 s",
                );
                HookDefinition::USUAL_TIMEOUT
            }
        }
    }

    /// Reads the confinement. Hooks of a workspace are always read-only.
    fn sandbox(&mut self, place: &str, entry: &mut Fields) -> SandboxLevel {
        let Some(text) = self.text(place, entry, "sandbox") else { return SandboxLevel::ReadOnly };
        match text.parse() {
            Ok(SandboxLevel::ReadOnly) => SandboxLevel::ReadOnly,
            Ok(_) if self.file.author == Author::Workspace => {
                self.warn(
                    place,
                    "`sandbox`: a hook of a workspace cannot change anything; it is read-only",
                );
                SandboxLevel::ReadOnly
            }
            Ok(SandboxLevel::Staged | SandboxLevel::Discard) => {
                self.warn(
                    place,
                    "`sandbox`: changes by a hook cannot be approved; it is read-only",
                );
                SandboxLevel::ReadOnly
            }
            Ok(level) => level,
            Err(why) => {
                self.report_unknown_word(place, &text, &why, "; it is read-only");
                SandboxLevel::ReadOnly
            }
        }
    }

    /// Reads the environment variables.
    fn environment(&mut self, place: &str, entry: &mut Fields) -> Vec<(String, String)> {
        let given = match entry.remove("env") {
            None => return Vec::new(),
            Some(Value::Object(given)) => given,
            Some(_) => {
                self.report_unknown_word(place, "env", "`env` is not an object", "");
                return Vec::new();
            }
        };
        let mut variables = Vec::new();
        for (name, value) in given {
            let is_name = !name.is_empty() && !name.contains(['=', '\0']);
            match value.as_str() {
                Some(value) if is_name && !value.contains('\0') => {
                    variables.push((name, value.to_owned()));
                }
                _ => {
                    let why =
                        format!("`env`: `{}` is no variable with a text", quote::visible(&name));
                    self.report_unknown_word(place, "env", &why, "; it is left out");
                }
            }
        }
        variables
    }

    /// Parses a list of names; `None` (everything) if it cannot be understood.
    fn names(&mut self, place: &str, text: &str) -> Option<Vec<String>> {
        tool_names(text).unwrap_or_else(|error| {
            let why = error.to_string();
            self.report_unknown_word(place, "match", &why, "; the hook is told of everything");
            None
        })
    }

    /// Parses a list of effects; `None` (everything) if one is unknown.
    fn effects(&mut self, place: &str, text: &str) -> Option<EffectKinds> {
        let mut kinds = EffectKinds::NONE;
        for name in text.split('|').map(str::trim) {
            let Some(kind) = EffectKinds::named(name) else {
                let known = EffectKinds::ALL.names().join(", ");
                let why = format!("there is no effect `{name}`: it is one of {known}");
                self.report_unknown_word(
                    place,
                    "match",
                    &why,
                    "; the hook is told of every effect",
                );
                return None;
            };
            kinds = kinds | kind;
        }
        Some(kinds)
    }

    /// Takes a string field.
    fn text(&mut self, place: &str, fields: &mut Fields, key: &str) -> Option<String> {
        let value = fields.remove(key)?;
        if !value.is_string() {
            self.report_unknown_word(place, key, &format!("`{key}` is not a text"), "");
        }
        value.as_str().map(str::to_owned)
    }

    /// Takes a boolean field.
    fn flag(&mut self, place: &str, fields: &mut Fields, key: &str) -> Option<bool> {
        let value = fields.remove(key)?;
        if !value.is_boolean() {
            self.report_unknown_word(place, key, &format!("`{key}` is neither true nor false"), "");
        }
        value.as_bool()
    }

    /// Reports the fields that remain unread.
    pub(super) fn report_unknown_fields(&mut self, place: &str, rest: &Fields) {
        for key in rest.keys() {
            let why = format!("unknown field `{}`", quote::visible(key));
            self.report_unknown_word(place, key, &why, "");
        }
    }
}

/// Returns the first line of a name or command, cut to fit into a message.
fn short(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let line = quote::visible(text.lines().next().unwrap_or_default()).into_owned();
    match line.char_indices().nth(MAX_CHARS) {
        Some((cut, _)) => format!("{}…", line.get(..cut).unwrap_or_default()),
        None => line,
    }
}

/// Parses a duration in seconds: `5`, `5s`, `500ms`, `1m`.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * factor)
}
