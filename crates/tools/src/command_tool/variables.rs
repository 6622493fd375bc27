//! Passes arguments as variables, for commands that do not parse JSON.
//!
//! A value is never put into the text of the command, so it cannot become a part of it. An argument that cannot be a variable is refused if
//! the command names that variable, because an empty one could have another meaning: `rm -r "$ARG_DIR"/*`.

use serde_json::{Map, Value};
use windlass_core::ToolError;

use super::DefinitionError;
use super::node::SourcePosition;

/// Prefix of the variables, so that an argument can never replace a variable such as `PATH`.
pub(super) const PREFIX: &str = "ARG_";
/// Limit of one variable. Linux accepts 128 KiB with name and end.
const MAX_VARIABLE_BYTES: usize = 64 << 10;
/// Limit of all variables together, as a part of the kernel's space for variables and words.
const MAX_TOTAL_BYTES: usize = 512 << 10;

/// Returns the variable for each parameter of a schema. Returns an error if two parameters would get the same one.
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

/// Returns the name of the variable for a parameter.
fn name(parameter: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    PREFIX.chars().chain(parameter.chars().map(letter)).collect()
}

/// Returns the variables with the values of the arguments. Returns an error if the command names a variable whose value cannot be one.
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

/// Returns the text of a simple value. Lists and objects are passed on standard input only.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
