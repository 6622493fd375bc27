//! Stage 2: repairs arguments that are unambiguous, and checks them against the schema.

use serde_json::Value;

use super::Call;
use crate::toolbox::Slot;
use crate::{ToolError, schema};

/// Refuses arguments that are too deep or too large, before any other code reads them. Replaces them by a note, so that they do not
/// reach the record either.
pub(super) fn refuse_oversized(call: &mut Call) -> Result<(), ToolError> {
    schema::check_size(&call.input).inspect_err(|error| {
        let note = Value::String(format!("[left out: {}]", error.message().text));
        schema::discard(std::mem::replace(&mut call.input, note));
    })
}

/// Checks the arguments against the schema of the tool and repairs them where there is one way to do it.
pub(super) fn check_arguments(slot: &Slot, call: &mut Call) -> Result<(), ToolError> {
    let spec = slot.spec();
    schema::check(&spec.input_schema, &mut call.input).map_err(|error| {
        match (&spec.about.beyond, &error.message().hint) {
            (Some(beyond), None) => error.hint(beyond.clone()),
            _ => error,
        }
    })
}
