//! Stage 2: arguments repaired where that is unambiguous, and held against the schema.

use serde_json::Value;

use super::Call;
use crate::toolbox::Slot;
use crate::{ToolError, schema};

/// Refuses arguments that are too deep or too large, before anybody looks at them, and keeps only a note of them: what is too much
/// to look at is too much to put on record.
pub(super) fn weigh(call: &mut Call) -> Result<(), ToolError> {
    schema::check_size(&call.input).inspect_err(|error| {
        let note = Value::String(format!("[left out: {}]", error.message().text));
        schema::discard(std::mem::replace(&mut call.input, note));
    })
}

pub(super) fn check(slot: &Slot, call: &mut Call) -> Result<(), ToolError> {
    let spec = slot.spec();
    schema::check(&spec.input_schema, &mut call.input).map_err(|error| {
        match (&spec.about.beyond, &error.message().hint) {
            (Some(beyond), None) => error.hint(beyond.clone()),
            _ => error,
        }
    })
}
