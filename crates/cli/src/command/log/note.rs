//! The lines of records that are neither the beginning nor the end of a call: people, messages, requests, state and tasks.

use windlass::journal::{
    ApprovalAsked, JournalRow, Kind, MessageNote, QuestionAsked, RequestNote, StateNote, TaskNote,
};
use windlass::people::{ApprovalAnswered, QuestionAnswered};
use windlass::quote;

use super::short;
use crate::terminal::Paint;

/// Describes a note on one line; `None` if the record is none, or its session was deleted.
pub(super) fn line(row: &JournalRow, paint: Paint) -> Option<String> {
    Some(match row.kind {
        Kind::Approval => asked(&row.body_as()?, paint),
        Kind::ApprovalAnswered => answered(&row.body_as()?, paint),
        Kind::Question => {
            let body: QuestionAsked = row.body_as()?;
            let texts: Vec<&str> = body.questions.iter().map(|one| one.question.as_str()).collect();
            let (tool, texts) = (visible(&body.tool, paint), short(&texts.join(" / ").into()));
            format!("{} {tool} {texts}  {}", paint.yellow("?"), paint.dim(body.id.as_str()))
        }
        Kind::QuestionAnswered => {
            let body: QuestionAnswered = row.body_as()?;
            let said =
                body.answer.selections.iter().flat_map(|one| one.selected.iter().chain(&one.other));
            let said: Vec<&str> = said.map(String::as_str).collect();
            let said = short(&said.join(", ").into());
            format!(
                "{} {said} {}",
                paint.green("!"),
                about(&body.answer.who, body.id.as_str(), paint)
            )
        }
        Kind::Message => {
            let MessageNote { role, name, text, .. } = row.body_as()?;
            let name = name.map(|name| format!(" {}", quote::visible(&name))).unwrap_or_default();
            format!("{} {}", paint.bold(&format!("{role}{name}:")), short(&text.into()))
        }
        Kind::Request => {
            let RequestNote { model, messages, tools, .. } = row.body_as()?;
            let (model, messages, tools) = (quote::visible(&model), messages.len(), tools.len());
            paint.dim(&format!("→ {model}: {messages} messages, {tools} tools"))
        }
        Kind::State => {
            let StateNote { key, value, .. } = row.body_as()?;
            format!("{} {} {}", paint.dim("state"), visible(&key, paint), short(&value))
        }
        Kind::Task => {
            let TaskNote { task, state, text, .. } = row.body_as()?;
            let text = text.map(|text| format!("  {}", short(&text.into()))).unwrap_or_default();
            format!("{} {} {}{text}", paint.dim("task"), visible(&task, paint), state.as_str())
        }
        _ => return None,
    })
}

fn asked(body: &ApprovalAsked, paint: Paint) -> String {
    let (tool, input) = (visible(&body.tool, paint), short(&body.input));
    let (rule, id) = (quote::visible(&body.by.to_string()).into_owned(), body.id.as_str());
    format!("{} {tool} {input}  {}", paint.yellow("?"), paint.dim(&format!("{rule}  {id}")))
}

fn answered(body: &ApprovalAnswered, paint: Paint) -> String {
    let word = if body.allowed { paint.green("allowed") } else { paint.red("denied") };
    let reason = body.reason.as_ref().map(|why| format!(": {}", short(&why.as_str().into())));
    format!(
        "! {} {word} ({}){} {}",
        visible(&body.tool, paint),
        body.scope,
        reason.unwrap_or_default(),
        about(&body.who, body.id.as_str(), paint)
    )
}

fn about(who: &windlass::session::Principal, id: &str, paint: Paint) -> String {
    let who = who.to_string();
    format!(" {}", paint.dim(&format!("{}  {}", quote::visible(&who), quote::visible(id))))
}

fn visible(name: &str, paint: Paint) -> String {
    paint.bold(&quote::visible(name))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::{Value, json};

    use super::*;

    fn row(kind: Kind, body: Option<&Value>) -> JournalRow {
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
    fn each_kind_has_its_line() {
        let paint = Paint::none();
        for (kind, body, line) in [
            (
                Kind::Approval,
                json!({"id": "a1", "call": "c1", "tool": "bash", "input": {"command": "make"},
                    "by": {"by": "mode", "mode": "ask"}, "risk": "low"}),
                r#"? bash {"command":"make"}  mode ask  a1"#,
            ),
            (
                Kind::ApprovalAnswered,
                json!({"id": "a1", "tool": "bash", "allowed": false, "scope": "once", "reason": "no\nnever"}),
                "! bash denied (once): no never  a person  a1",
            ),
            (
                Kind::Question,
                json!({"id": "q1", "call": "c1", "tool": "ask", "questions": [{"question": "Which?", "options": []}]}),
                "? ask Which?  q1",
            ),
            (
                Kind::QuestionAnswered,
                json!({"id": "q1", "call": "c1", "tool": "ask", "answer": {"selections": [{"selected": ["a"], "other": "b"}]}}),
                "! a, b  a person  q1",
            ),
            (
                Kind::Message,
                json!({"role": "agent", "name": "x", "text": "hi\u{1b}"}),
                "agent x: hi\\x1b",
            ),
            (
                Kind::Request,
                json!({"model": "m", "messages": [{}], "tools": ["a", "b"]}),
                "→ m: 1 messages, 2 tools",
            ),
            (Kind::State, json!({"key": "todo", "value": [1]}), "state todo [1]"),
            (
                Kind::Task,
                json!({"task": "k1", "state": "failed", "text": "why"}),
                "task k1 failed  why",
            ),
        ] {
            assert_eq!(super::line(&row(kind, Some(&body)), paint).as_deref(), Some(line));
            assert_eq!(super::line(&row(kind, None), paint), None, "a deleted session");
        }
    }
}
