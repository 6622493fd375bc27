//! Stages 2 and 14: what a call takes from the budget of its session, and whether the session goes round in a circle.

use super::{Call, Shared};
use crate::budget::{Answered, answer_key, call_key};
use crate::{CallResult, Content, Decided, DecidedBy, Outcome, ToolError};

/// Counts the call, unless the session has spent what it may or asks the same again and again.
pub(super) fn begin(call: &mut Call) -> Result<(), ToolError> {
    let ledger = call.session.ledger();
    if let Err(error) = ledger.begin_call() {
        call.decided = Some(Decided::denied(DecidedBy::Budget));
        return Err(error);
    }
    ledger.check_repeats(|| call_key(&call.name, &call.input))
}

/// Adds up what the call took, and tells the model if it has had this very answer before.
pub(super) fn end(engine: &Shared, call: &Call, result: &mut CallResult) {
    let ledger = call.session.ledger();
    // The time of an inner call is part of the outer one's, and its text goes to the outer call, not to the model.
    let counted = call.lineage.outer.as_ref().map(|outer| &*outer.ledger);
    let readable = result.output.content.iter().filter_map(Content::readable);
    let bytes = readable.map(|text| text.len() as u64).sum();
    ledger.end_call(result.duration, bytes, counted);
    let answer = || Answered {
        call: call_key(&call.name, &call.input),
        answer: answer_key(result),
        changes: result.outcome == Outcome::Ok && has_side_effects(engine, call),
    };
    if let Some(count) = ledger.note_answer(answer) {
        let note = format!(
            "[this very call has given this same answer {count} times; it will not become another one]"
        );
        result.output.content.push(Content::text(note));
        result.output.metadata.insert("repeats".into(), count.into());
    }
}

fn has_side_effects(engine: &Shared, call: &Call) -> bool {
    if call.for_person.is_some() {
        return true;
    }
    engine
        .toolbox(&call.session)
        .slot(&call.name)
        .is_none_or(|slot| slot.tool.kinds().has_side_effects())
}
