//! Builds the input of a hook's program: one JSON object for all formats, with the tool and argument names of the hook's format.

use std::path::Path;

use serde_json::{Map, Value, json};
use windlass_core::{HookCall, HookEvent, HookPayload, HookPoint, Reach, quote};

use super::matcher::{claude_tool_name, touched_paths};
use super::{HookDefinition, HookShape};

/// Maximum inputs for one call, one for each file.
const MAX_FILES_PER_CALL: usize = 64;

/// Error of a call that touches more files than a hook can be asked about one by one.
#[derive(Debug, thiserror::Error)]
#[error(
    "the call touches {count} files; a hook of {shape} is asked about each, and {MAX_FILES_PER_CALL} are the most"
)]
pub(super) struct TooManyFilesError {
    count: usize,
    shape: HookShape,
}

/// Input of one run of a hook's program.
#[derive(Debug)]
pub(super) struct HookInput {
    pub(super) json: Value,
    pub(super) environment: Vec<(String, String)>,
}

/// Returns the inputs for an event, with secrets redacted. A call that touches several files becomes one input for each file if the
/// hook's format knows only calls about one file: a check of the first file must not be enough.
pub(super) fn hook_inputs(
    hook: &HookDefinition,
    event: &HookEvent<'_>,
) -> Result<Vec<HookInput>, TooManyFilesError> {
    let Some(call) = event.what.call() else { return Ok(vec![hook_input(hook, event, None)]) };
    let input = shaped_arguments(hook.shape, call, event.workspace);
    let files = match (hook.shape, call.tool) {
        (HookShape::Claude | HookShape::Hex, "patch") => touched_file_paths(call, event.workspace),
        _ => Vec::new(),
    };
    if files.is_empty() {
        return Ok(vec![hook_input(hook, event, Some(input))]);
    }
    let one = |path: &String| {
        let mut input = input.clone();
        if let Value::Object(input) = &mut input {
            input.insert("file_path".into(), path.as_str().into());
        }
        hook_input(hook, event, Some(input))
    };
    if files.len() > MAX_FILES_PER_CALL {
        return Err(TooManyFilesError { count: files.len(), shape: hook.shape });
    }
    Ok(files.iter().map(one).collect())
}

/// Builds the input of one run: the JSON object, with secrets redacted, and the environment.
fn hook_input(hook: &HookDefinition, event: &HookEvent<'_>, input: Option<Value>) -> HookInput {
    let point = event.what.point();
    let workspace = path_text(event.workspace);
    let mut json = Map::new();
    let mut set = |key: &str, value: Value| {
        json.insert(key.to_owned(), value);
    };
    set("event", point.to_string().into());
    set("hook_event_name", claude_point(point).into());
    // Not its command: a hook that searches its input for a text would often find the text there.
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
        HookPayload::PostTool(_, output) => {
            let text = output.to_text();
            set("tool_result", text.as_str().into());
            let response =
                json!({"content": text, "is_error": output.is_error, "metadata": output.metadata});
            set("tool_response", response);
        }
        HookPayload::PermissionRequest { by, .. } => set("rule", by.to_string().into()),
        HookPayload::PromptSubmit { text } => set("prompt", text.into()),
        HookPayload::Stop | HookPayload::SubagentStop => set("stop_hook_active", false.into()),
        _ => {}
    }
    if let Some(text) = event.what.text() {
        set("message", text.into());
    }
    let mut json = Value::Object(json);
    event.secrets.redact_json(&mut json);
    let environment = environment(hook, event, &json, workspace);
    HookInput { json, environment }
}

/// Returns the environment variables of one run.
fn environment(
    hook: &HookDefinition,
    event: &HookEvent<'_>,
    json: &Value,
    workspace: String,
) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut set = |name: &str, value: String| {
        // An environment variable ends at the first zero byte.
        variables.push((name.to_owned(), value.replace('\0', "")));
    };
    set("WINDLASS_EVENT", event.what.point().to_string());
    set("WINDLASS_SESSION", event.session.id().to_string());
    set("CLAUDE_PROJECT_DIR", workspace.clone());
    if hook.shape == HookShape::Hex {
        let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
        set("CLAUDE_EVENT", claude_point(event.what.point()).to_owned());
        set("CLAUDE_PROJECT_PATH", workspace);
        set("CLAUDE_IS_SUBAGENT", event.session.parent().is_some().to_string());
        if let Some(tool) = text("tool_name") {
            set("CLAUDE_TOOL_NAME", tool);
        }
        if let Some(path) = json.pointer("/tool_input/file_path").and_then(Value::as_str) {
            set("CLAUDE_TOOL_FILE_PATH", path.to_owned());
        }
        if let HookPayload::PostTool(_, output) = event.what {
            set("CLAUDE_TOOL_SUCCESS", (!output.is_error).to_string());
        }
        if let Some(message) = text("message") {
            set("CLAUDE_MESSAGE", message);
        }
    }
    variables
}

/// Returns the name of an event in Claude Code, which Hex uses too.
pub(super) fn claude_point(point: HookPoint) -> &'static str {
    match point {
        HookPoint::SessionStart => "SessionStart",
        HookPoint::SessionEnd => "SessionEnd",
        HookPoint::PromptSubmit => "UserPromptSubmit",
        HookPoint::PreTool => "PreToolUse",
        HookPoint::PostTool => "PostToolUse",
        HookPoint::PermissionRequest => "PermissionRequest",
        HookPoint::Notification => "Notification",
        HookPoint::Stop => "Stop",
        HookPoint::SubagentStop => "SubagentStop",
        HookPoint::PreCompact => "PreCompact",
        HookPoint::PreMessage => "PreMessage",
        HookPoint::PostMessage => "PostMessage",
    }
}

/// Returns the tool's name in the hook's format.
fn tool_name(shape: HookShape, tool: &str) -> &str {
    match (shape, tool) {
        (HookShape::Claude, _) => claude_tool_name(tool),
        (HookShape::Hex, "read") => "read_file",
        (HookShape::Hex, "write") => "write_file",
        _ => tool,
    }
}

/// Returns whether the tool's `path` is called `file_path` in the hook's format.
fn is_about_file(shape: HookShape, tool: &str) -> bool {
    matches!(shape, HookShape::Claude | HookShape::Hex) && matches!(tool, "read" | "write" | "edit")
}

/// Returns the arguments of a call under the names of the hook's format.
fn shaped_arguments(shape: HookShape, call: HookCall<'_>, workspace: &Path) -> Value {
    let mut input = call.input.clone();
    if !is_about_file(shape, call.tool) {
        return input;
    }
    if let Value::Object(fields) = &mut input
        && let Some(path) = fields.remove("path")
    {
        let resolved = touched_file_paths(call, workspace).into_iter().next().map(Value::String);
        fields.insert("file_path".into(), resolved.unwrap_or(path));
    }
    input
}

/// Returns the absolute paths of the files that a call touches.
fn touched_file_paths(call: HookCall<'_>, workspace: &Path) -> Vec<String> {
    let mut paths: Vec<String> = touched_paths(call.effects)
        .filter(|at| at.reach != Reach::Tree)
        .map(|at| path_text(&workspace.join(&at.path)))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns a path as text; quoted only if it is not UTF-8.
fn path_text(path: &Path) -> String {
    path.to_str().map_or_else(|| quote::path(path).into_owned(), str::to_owned)
}

/// Translates arguments that a hook returned back to our names, and puts secrets back for the placeholders that it left unchanged.
pub(super) fn restore_arguments(
    hook: &HookDefinition,
    event: &HookEvent<'_>,
    mut input: Value,
) -> Value {
    let Some(call) = event.what.call() else { return input };
    let shown = shaped_arguments(hook.shape, call, event.workspace);
    let mut redacted = shown.clone();
    event.secrets.redact_json(&mut redacted);
    restore_unchanged(&mut input, &redacted, &shown);
    if is_about_file(hook.shape, call.tool)
        && let Value::Object(fields) = &mut input
        && let Some(path) = fields.remove("file_path")
    {
        fields.insert("path".into(), path);
    }
    input
}

/// Replaces each part of `value` that still equals `shown` by the original.
fn restore_unchanged(value: &mut Value, shown: &Value, original: &Value) {
    if value == shown {
        value.clone_from(original);
        return;
    }
    match (value, shown, original) {
        (Value::Object(values), Value::Object(shown), Value::Object(original)) => {
            for (key, value) in values {
                if let (Some(shown), Some(original)) = (shown.get(key), original.get(key)) {
                    restore_unchanged(value, shown, original);
                }
            }
        }
        (Value::Array(values), Value::Array(shown), Value::Array(original)) => {
            for ((value, shown), original) in values.iter_mut().zip(shown).zip(original) {
                restore_unchanged(value, shown, original);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_placeholders_get_their_secrets_back() {
        let shown = json!({"a": "[secret X]", "b": ["one", "[secret X]"], "c": 1});
        let original = json!({"a": "hunter2!", "b": ["one", "hunter2!"], "c": 1});
        let mut given = json!({"a": "[secret X]", "b": ["two", "[secret X]"], "d": "[secret X]"});
        restore_unchanged(&mut given, &shown, &original);
        assert_eq!(given, json!({"a": "hunter2!", "b": ["two", "hunter2!"], "d": "[secret X]"}));
    }
}
