//! Descriptions of records that are neither the start nor the end of a call: approvals, questions, messages, model requests, state, tasks.

use windlass::journal::{
    ApprovalAsked, JournalRow, MessageNote, QuestionAsked, RequestNote, StateNote, StoredKind,
    TaskNote,
};
use windlass::people::{ApprovalAnswered, QuestionAnswered};
use windlass::quote;

use super::one_line;
use crate::terminal::Paint;

/// Describes such a record on one line; `None` for other kinds, or if the record's session was deleted.
pub(super) fn describe(row: &JournalRow, paint: Paint) -> Option<String> {
    Some(match row.kind {
        StoredKind::Approval => approval_asked(&row.body_as()?, paint),
        StoredKind::ApprovalAnswered => approval_answered(&row.body_as()?, paint),
        StoredKind::Question => {
            let body: QuestionAsked = row.body_as()?;
            let texts: Vec<&str> = body.questions.iter().map(|one| one.question.as_str()).collect();
            let (tool, texts) =
                (bold_visible(&body.tool, paint), one_line(&texts.join(" / ").into()));
            format!("{} {tool} {texts}  {}", paint.yellow("?"), paint.dim(body.id.as_str()))
        }
        StoredKind::QuestionAnswered => {
            let body: QuestionAnswered = row.body_as()?;
            let said =
                body.answer.selections.iter().flat_map(|one| one.selected.iter().chain(&one.other));
            let said: Vec<&str> = said.map(String::as_str).collect();
            let said = one_line(&said.join(", ").into());
            format!(
                "{} {said} {}",
                paint.green("!"),
                answerer(&body.answer.who, body.id.as_str(), paint)
            )
        }
        StoredKind::Message => {
            let MessageNote { role, name, text, .. } = row.body_as()?;
            let name = name.map(|name| format!(" {}", quote::visible(&name))).unwrap_or_default();
            format!("{} {}", paint.bold(&format!("{role}{name}:")), one_line(&text.into()))
        }
        StoredKind::Request => {
            let RequestNote { model, messages, tools, .. } = row.body_as()?;
            let (model, messages, tools) = (quote::visible(&model), messages.len(), tools.len());
            paint.dim(&format!("→ {model}: {messages} messages, {tools} tools"))
        }
        StoredKind::State => {
            let StateNote { key, value, .. } = row.body_as()?;
            format!("{} {} {}", paint.dim("state"), bold_visible(&key, paint), one_line(&value))
        }
        StoredKind::Task => {
            let TaskNote { task, state, text, .. } = row.body_as()?;
            let text = text.map(|text| format!("  {}", one_line(&text.into()))).unwrap_or_default();
            format!("{} {} {}{text}", paint.dim("task"), bold_visible(&task, paint), state.as_str())
        }
        _ => return None,
    })
}

/// Describes an approval that was asked: tool, arguments, rule, id.
fn approval_asked(body: &ApprovalAsked, paint: Paint) -> String {
    let (tool, input) = (bold_visible(&body.tool, paint), one_line(&body.input));
    let (rule, id) = (quote::visible(&body.by.to_string()).into_owned(), body.id.as_str());
    format!("{} {tool} {input}  {}", paint.yellow("?"), paint.dim(&format!("{rule}  {id}")))
}

/// Describes the answer to an approval: tool, allowed or denied, scope, reason, answerer.
fn approval_answered(body: &ApprovalAnswered, paint: Paint) -> String {
    let word = if body.allowed { paint.green("allowed") } else { paint.red("denied") };
    let reason = body.reason.as_ref().map(|why| format!(": {}", one_line(&why.as_str().into())));
    format!(
        "! {} {word} ({}){} {}",
        bold_visible(&body.tool, paint),
        body.scope,
        reason.unwrap_or_default(),
        answerer(&body.who, body.id.as_str(), paint)
    )
}

/// Returns the answerer and the id of an answer, dimmed.
fn answerer(who: &windlass::session::Principal, id: &str, paint: Paint) -> String {
    let who = who.to_string();
    format!(" {}", paint.dim(&format!("{}  {}", quote::visible(&who), quote::visible(id))))
}

/// Returns a name in bold, with control characters made visible.
fn bold_visible(name: &str, paint: Paint) -> String {
    paint.bold(&quote::visible(name))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::{Value, json};

    use super::*;

    fn row(kind: StoredKind, body: Option<&Value>) -> JournalRow {
        JournalRow {
            seq: 1,
            at: SystemTime::UNIX_EPOCH,
            session: None,
            turn: None,
            call: None,
            tool: None,
            kind,
            outcome: None,
            body: body.map(ToString::to_string),
            hash: String::new(),
        }
    }

    #[test]
    fn each_kind_of_note_has_its_line() {
        let paint = Paint::none();
        for (kind, body, line) in [
            (
                StoredKind::Approval,
                json!({"id": "a1", "call": "c1", "tool": "bash", "input": {"command": "make"},
                    "by": {"by": "mode", "mode": "ask"}, "risk": "low"}),
                r#"? bash {"command":"make"}  mode ask  a1"#,
            ),
            (
                StoredKind::ApprovalAnswered,
                json!({"id": "a1", "tool": "bash", "allowed": false, "scope": "once", "reason": "no\nnever"}),
                "! bash denied (once): no never  a person  a1",
            ),
            (
                StoredKind::Question,
                json!({"id": "q1", "call": "c1", "tool": "ask", "questions": [{"question": "Which?", "options": []}]}),
                "? ask Which?  q1",
            ),
            (
                StoredKind::QuestionAnswered,
                json!({"id": "q1", "call": "c1", "tool": "ask", "answer": {"selections": [{"selected": ["a"], "other": "b"}]}}),
                "! a, b  a person  q1",
            ),
            (
                StoredKind::Message,
                json!({"role": "agent", "name": "x", "text": "hi\u{1b}"}),
                "agent x: hi\\x1b",
            ),
            (
                StoredKind::Request,
                json!({"model": "m", "messages": [{}], "tools": ["a", "b"]}),
                "→ m: 1 messages, 2 tools",
            ),
            (StoredKind::State, json!({"key": "todo", "value": [1]}), "state todo [1]"),
            (
                StoredKind::Task,
                json!({"task": "k1", "state": "failed", "text": "why"}),
                "task k1 failed  why",
            ),
        ] {
            assert_eq!(super::describe(&row(kind, Some(&body)), paint).as_deref(), Some(line));
            assert_eq!(super::describe(&row(kind, None), paint), None, "a deleted session");
        }
    }
}
