//! Arguments as variables: the easy way to them for a command that does not want to parse JSON.
//!
//! A value is never put into the text of the command, so nothing in it can be taken for a part of the command. What cannot be a
//! variable is refused where the command names that variable, because an empty one could mean something else: `rm -r "$ARG_DIR"/*`.

use serde_json::{Map, Value};
use windlass_core::ToolError;

use super::DefinitionError;
use super::node::SourcePosition;

/// What their names begin with, so that no argument can be taken for `PATH`.
pub(super) const PREFIX: &str = "ARG_";
/// Linux takes 128 KiB for one, the name and the end included.
const MAX_VARIABLE_BYTES: usize = 64 << 10;
/// All of them together, of what the kernel has for variables and words.
const MAX_TOTAL_BYTES: usize = 512 << 10;

/// The name of the variable for each parameter that a schema names.
pub(super) fn for_parameters(
    schema: &Value,
    at: SourcePosition,
) -> Result<Vec<(String, String)>, DefinitionError> {
    let mut names: Vec<(String, String)> = Vec::new();
    for parameter in schema["properties"].as_object().into_iter().flat_map(Map::keys) {
        let variable = name(parameter);
        if let Some((other, _)) = names.iter().find(|(_, known)| *known == variable) {
            return Err(at.error(format!(
                "the parameters `{other}` and `{parameter}` would both be the variable {variable}"
            )));
        }
        names.push((parameter.clone(), variable));
    }
    Ok(names)
}

fn name(parameter: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    PREFIX.chars().chain(parameter.chars().map(letter)).collect()
}

/// The variables for these arguments.
pub(super) fn for_arguments(
    names: &[(String, String)],
    arguments: &Map<String, Value>,
    command: &str,
) -> Result<Vec<(String, String)>, ToolError> {
    let mut variables = Vec::new();
    let mut left = MAX_TOTAL_BYTES;
    for (parameter, variable) in names {
        let Some(text) = arguments.get(parameter).and_then(text) else { continue };
        let why = if text.contains('\0') {
            "has a NUL character in it"
        } else if text.len() > MAX_VARIABLE_BYTES.min(left) {
            "is too long"
        } else {
            left -= text.len();
            variables.push((variable.clone(), text));
            continue;
        };
        if command.contains(variable.as_str()) {
            return Err(ToolError::invalid_args(format!(
                "`{parameter}` {why}: the command gets it as a variable"
            )));
        }
    }
    Ok(variables)
}

/// The text of a value that is one word or text; lists and objects are on standard input only.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
