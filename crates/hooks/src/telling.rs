//! What a hook's program is told: one JSON object for everybody, with the names that its kind of file is used to.

use std::path::Path;

use serde_json::{Map, Value, json};
use windlass_core::{Happening, HookCall, HookEvent, Moment, Reach, quote};

use super::matching::{claude_name, touched};
use super::{HookDefinition, HookShape};

/// In how many pieces one call is told at most.
const MOST_FILES: usize = 64;

/// What one run of a program is told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) json: Value,
    pub(super) environment: Vec<(String, String)>,
}

/// What the event is, secrets taken out. A call that touches several files is told one file at a time to a hook that only knows calls
/// about one: it must not be enough to look at the first.
pub(super) fn tellings(hook: &HookDefinition, event: &HookEvent<'_>) -> Result<Vec<Told>, String> {
    let Some(call) = event.what.call() else { return Ok(vec![told(hook, event, None)]) };
    let input = shaped(hook.shape, call, event.workspace);
    let files = match (hook.shape, call.tool) {
        (HookShape::Claude | HookShape::Hex, "patch") => paths(call, event.workspace),
        _ => Vec::new(),
    };
    if files.is_empty() {
        return Ok(vec![told(hook, event, Some(input))]);
    }
    let one = |path: &String| {
        let mut input = input.clone();
        if let Value::Object(input) = &mut input {
            input.insert("file_path".into(), path.as_str().into());
        }
        told(hook, event, Some(input))
    };
    if files.len() > MOST_FILES {
        return Err(format!(
            "the call touches {} files; a hook of {} is asked about each, and {MOST_FILES} are the most",
            files.len(),
            hook.shape
        ));
    }
    Ok(files.iter().map(one).collect())
}

fn told(hook: &HookDefinition, event: &HookEvent<'_>, input: Option<Value>) -> Told {
    let moment = event.what.moment();
    let workspace = text_of(event.workspace);
    let mut json = Map::new();
    let mut set = |key: &str, value: Value| {
        json.insert(key.to_owned(), value);
    };
    set("event", moment.to_string().into());
    set("hook_event_name", claude_moment(moment).into());
    // Not its command: what a hook looks for in what it is told would often be found there.
    set("hook_name", hook.given_name.clone().into());
    set("session_id", event.session.id().as_str().into());
    set("agent", event.session.agent().into());
    set("cwd", workspace.as_str().into());
    set("pwd", workspace.as_str().into());
    if let (Some(call), Some(input)) = (event.what.call(), input) {
        set("call_id", call.id.as_str().into());
        set("tool_use_id", call.id.as_str().into());
        set("tool_name", tool_name(hook.shape, call.tool).into());
        set("tool_input", input);
        let effects: Vec<String> = call.effects.iter().map(ToString::to_string).collect();
        set("effects", effects.into());
    }
    match event.what {
        Happening::PostTool(_, output) => {
            let text = output.to_text();
            set("tool_result", text.as_str().into());
            let response =
                json!({"content": text, "is_error": output.is_error, "metadata": output.metadata});
            set("tool_response", response);
        }
        Happening::PermissionRequest { by, .. } => set("rule", by.to_string().into()),
        Happening::PromptSubmit { text } => set("prompt", text.into()),
        Happening::Stop | Happening::SubagentStop => set("stop_hook_active", false.into()),
        _ => {}
    }
    if let Some(text) = event.what.text() {
        set("message", text.into());
    }
    let mut json = Value::Object(json);
    event.secrets.redact_json(&mut json);
    let environment = environment(hook, event, &json, workspace);
    Told { json, environment }
}

fn environment(
    hook: &HookDefinition,
    event: &HookEvent<'_>,
    json: &Value,
    workspace: String,
) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: String| {
        // A variable ends at the first zero byte.
        variables.push((name.to_owned(), value.replace('\0', "")));
    };
    set("WINDLASS_EVENT", event.what.moment().to_string());
    set("WINDLASS_SESSION", event.session.id().to_string());
    set("CLAUDE_PROJECT_DIR", workspace.clone());
    if hook.shape == HookShape::Hex {
        let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
        set("CLAUDE_EVENT", claude_moment(event.what.moment()).to_owned());
        set("CLAUDE_PROJECT_PATH", workspace);
        set("CLAUDE_IS_SUBAGENT", event.session.parent().is_some().to_string());
        if let Some(tool) = text("tool_name") {
            set("CLAUDE_TOOL_NAME", tool);
        }
        if let Some(path) = json.pointer("/tool_input/file_path").and_then(Value::as_str) {
            set("CLAUDE_TOOL_FILE_PATH", path.to_owned());
        }
        if let Happening::PostTool(_, output) = event.what {
            set("CLAUDE_TOOL_SUCCESS", (!output.is_error).to_string());
        }
        if let Some(message) = text("message") {
            set("CLAUDE_MESSAGE", message);
        }
    }
    variables
}

/// What Claude Code, and Hex after it, call a moment.
pub(super) fn claude_moment(moment: Moment) -> &'static str {
    match moment {
        Moment::SessionStart => "SessionStart",
        Moment::SessionEnd => "SessionEnd",
        Moment::PromptSubmit => "UserPromptSubmit",
        Moment::PreTool => "PreToolUse",
        Moment::PostTool => "PostToolUse",
        Moment::PermissionRequest => "PermissionRequest",
        Moment::Notification => "Notification",
        Moment::Stop => "Stop",
        Moment::SubagentStop => "SubagentStop",
        Moment::PreCompact => "PreCompact",
        Moment::PreMessage => "PreMessage",
        Moment::PostMessage => "PostMessage",
    }
}

fn tool_name(shape: HookShape, tool: &str) -> &str {
    match (shape, tool) {
        (HookShape::Claude, _) => claude_name(tool),
        (HookShape::Hex, "read") => "read_file",
        (HookShape::Hex, "write") => "write_file",
        _ => tool,
    }
}

/// Whether a tool's `path` is the `file_path` of others.
fn is_about_file(shape: HookShape, tool: &str) -> bool {
    matches!(shape, HookShape::Claude | HookShape::Hex) && matches!(tool, "read" | "write" | "edit")
}

/// The arguments under the names that a hook of this shape looks for.
fn shaped(shape: HookShape, call: HookCall<'_>, workspace: &Path) -> Value {
    let mut input = call.input.clone();
    if !is_about_file(shape, call.tool) {
        return input;
    }
    if let Value::Object(fields) = &mut input
        && let Some(path) = fields.remove("path")
    {
        let resolved = paths(call, workspace).into_iter().next().map(Value::String);
        fields.insert("file_path".into(), resolved.unwrap_or(path));
    }
    input
}

/// The files that a call touches, absolute.
fn paths(call: HookCall<'_>, workspace: &Path) -> Vec<String> {
    let mut paths: Vec<String> = touched(call.effects)
        .filter(|at| at.reach != Reach::Tree)
        .map(|at| text_of(&workspace.join(&at.path)))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// A path as it is, quoted only where it is no text.
fn text_of(path: &Path) -> String {
    path.to_str().map_or_else(|| quote::path(path).into_owned(), str::to_owned)
}

/// Arguments that a hook gave, under our names again, and with the secrets that it was not shown where it left their places alone.
pub(super) fn restored(hook: &HookDefinition, event: &HookEvent<'_>, mut input: Value) -> Value {
    let Some(call) = event.what.call() else { return input };
    let shown = shaped(hook.shape, call, event.workspace);
    let mut redacted = shown.clone();
    event.secrets.redact_json(&mut redacted);
    restore(&mut input, &redacted, &shown);
    if is_about_file(hook.shape, call.tool)
        && let Value::Object(fields) = &mut input
        && let Some(path) = fields.remove("file_path")
    {
        fields.insert("path".into(), path);
    }
    input
}

/// Puts `original` wherever `value` is still what was shown in its place.
fn restore(value: &mut Value, shown: &Value, original: &Value) {
    if value == shown {
        value.clone_from(original);
        return;
    }
    match (value, shown, original) {
        (Value::Object(values), Value::Object(shown), Value::Object(original)) => {
            for (key, value) in values {
                if let (Some(shown), Some(original)) = (shown.get(key), original.get(key)) {
                    restore(value, shown, original);
                }
            }
        }
        (Value::Array(values), Value::Array(shown), Value::Array(original)) => {
            for ((value, shown), original) in values.iter_mut().zip(shown).zip(original) {
                restore(value, shown, original);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_alone_is_what_it_was() {
        let shown = json!({"a": "[secret X]", "b": ["one", "[secret X]"], "c": 1});
        let original = json!({"a": "hunter2!", "b": ["one", "hunter2!"], "c": 1});
        let mut given = json!({"a": "[secret X]", "b": ["two", "[secret X]"], "d": "[secret X]"});
        restore(&mut given, &shown, &original);
        assert_eq!(given, json!({"a": "hunter2!", "b": ["two", "hunter2!"], "d": "[secret X]"}));
    }
}
