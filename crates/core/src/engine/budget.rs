//! Stages 2 and 14: charges a call to the budget of its session, and detects a session that repeats itself.

use super::{Call, Shared};
use crate::budget::{RecordedAnswer, answer_key, call_key};
use crate::{CallResult, Content, DecidedBy, ExplainedDecision, Outcome, ToolError};

/// Counts the call. Fails if the budget of the session is spent, or if it repeats the same call without a change.
pub(super) fn begin_call(call: &mut Call) -> Result<(), ToolError> {
    let ledger = call.session.ledger();
    if let Err(error) = ledger.begin_call() {
        call.decided = Some(ExplainedDecision::denied(DecidedBy::Budget));
        return Err(error);
    }
    ledger.check_repeats(|| call_key(&call.name, &call.input))
}

/// Charges the time and output of the call, and tells the model if it has had the same answer before.
pub(super) fn end_call(engine: &Shared, call: &Call, result: &mut CallResult) {
    let ledger = call.session.ledger();
    // The time of an inner call is part of the outer call's, and its text goes to the outer call, not to the model.
    let counted = call.lineage.outer.as_ref().map(|outer| &*outer.ledger);
    let readable = result.output.content.iter().filter_map(Content::readable);
    let bytes = readable.map(|text| text.len() as u64).sum();
    ledger.end_call(result.duration, bytes, counted);
    let answer = || RecordedAnswer {
        call: call_key(&call.name, &call.input),
        answer: answer_key(result),
        changes: result.outcome == Outcome::Ok && may_change_something(engine, call),
    };
    if let Some(count) = ledger.note_answer(answer) {
        let note = format!(
            "[this very call has given this same answer {count} times; it will not become another one]"
        );
        result.output.content.push(Content::text(note));
        result.output.metadata.insert("repeats".into(), count.into());
    }
}

/// Returns whether a call may change something: calls of people, and calls of tools with such kinds.
fn may_change_something(engine: &Shared, call: &Call) -> bool {
    if call.for_person.is_some() {
        return true;
    }
    engine
        .toolbox(&call.session)
        .slot(&call.name)
        .is_none_or(|slot| slot.tool.kinds().has_side_effects())
}
