//! Stage 2: arguments repaired where that is unambiguous, and held against the schema.

use super::Call;
use crate::toolbox::Slot;
use crate::{ToolError, schema};

pub(super) fn check(slot: &Slot, call: &mut Call) -> Result<(), ToolError> {
    schema::check(&slot.spec().input_schema, &mut call.input)
}
