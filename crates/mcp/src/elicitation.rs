//! Asks the person behind an MCP client, by `elicitation/create`. If the client does not support that, the answer is deferred: the
//! approval or question stays open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::RequestId;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use windlass_core::{
    Answer, ApprovalRequest, Attendant, AttendantReply, BoxFuture, CommandEnd, Question,
    QuestionAnswer, QuestionRequest, Scope, Selection, quote,
};

use crate::connection::Connection;
use crate::outgoing::Outgoing;

/// Prefix of the ids of our requests, so that people who read a log can distinguish them from the client's.
const ID_PREFIX: &str = "windlass-";

/// Requests of this server that the client has not answered.
#[derive(Default)]
pub(crate) struct ClientRequests {
    /// True if the client can show forms.
    can_elicit: AtomicBool,
    count: AtomicU64,
    waiting: Mutex<HashMap<String, oneshot::Sender<ClientResponse>>>,
}

/// Reason why a request of this server got no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("the client is gone")]
    Gone,
    #[error("the client answered with a result and an error")]
    ResultAndError,
    #[error("the client answered nothing")]
    NoAnswer,
    /// The message of the client's error.
    #[error("{0}")]
    Refused(String),
    /// The client's error cannot be parsed.
    #[error("{0}")]
    UnreadableError(serde_json::Error),
}

/// Response of the client: the text of a result, or an error.
pub(crate) type ClientResponse = Result<String, ClientError>;

impl ClientRequests {
    /// Records whether the client can show forms.
    pub(crate) fn set_can_elicit(&self, can: bool) {
        self.can_elicit.store(can, Ordering::Relaxed);
    }

    /// Passes a response to the task that waits for it. Drops a response that no task waits for.
    pub(crate) fn answer(&self, id: &RequestId, answered: ClientResponse) {
        let waiting = self.take(&id.to_string());
        if let Some(waiting) = waiting {
            drop(waiting.send(answered));
        }
    }

    /// Removes a waiting request.
    fn take(&self, id: &str) -> Option<oneshot::Sender<ClientResponse>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Sends a request, and waits for its response. If the future is dropped, the client is notified that the request is cancelled.
    async fn ask(&self, outgoing: &Outgoing, method: &str, params: Value) -> ClientResponse {
        let id = format!("{ID_PREFIX}{}", self.count.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), sender);
        let cancel = CancelIfDropped { asked: self, outgoing, id: &id };
        outgoing.queue(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answered = receiver.await;
        drop(cancel);
        answered.unwrap_or(Err(ClientError::Gone))
    }
}

/// Notifies the client on drop that a response is no longer needed, unless it has arrived.
struct CancelIfDropped<'a> {
    asked: &'a ClientRequests,
    outgoing: &'a Outgoing,
    id: &'a str,
}

impl Drop for CancelIfDropped<'_> {
    fn drop(&mut self) {
        if self.asked.take(self.id).is_some() {
            let params =
                json!({"requestId": self.id, "reason": "answered elsewhere, or no longer asked"});
            let method = "notifications/cancelled";
            self.outgoing.queue(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }
}

/// The person behind the client of a connection.
pub(crate) struct Elicitation {
    connection: Arc<Connection>,
    describe_changes: fn(&ApprovalRequest) -> String,
}

impl Elicitation {
    pub(crate) fn new(
        connection: Arc<Connection>,
        describe_changes: fn(&ApprovalRequest) -> String,
    ) -> Self {
        Self { connection, describe_changes }
    }

    /// Shows a form, and passes its content to `read`, or `None` if the person declined.
    async fn elicit<A>(
        &self,
        form: Form,
        read: impl FnOnce(Option<Map<String, Value>>) -> AttendantReply<A>,
    ) -> AttendantReply<A> {
        let asked = &self.connection.asked;
        if !asked.can_elicit.load(Ordering::Relaxed) {
            return AttendantReply::Deferred;
        }
        let params = json!({"message": form.message, "requestedSchema": {
            "type": "object", "properties": form.properties, "required": form.required,
        }});
        let answered = asked.ask(&self.connection.outgoing, "elicitation/create", params).await;
        let answered = match answered.map(|text| serde_json::from_str::<ElicitationResult>(&text)) {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => {
                return unavailable(&format!("the client's answer is not understood: {error}"));
            }
            Err(error) => return unavailable(&format!("the client could not ask: {error}")),
        };
        match answered.action {
            ElicitationAction::Accept => read(Some(answered.content)),
            ElicitationAction::Decline => read(None),
            ElicitationAction::Cancel => {
                unavailable("the person closed the question without an answer")
            }
        }
    }
}

/// The form that the client shows to the person.
struct Form {
    message: String,
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

/// The result of an elicitation. Only an object without duplicate fields is accepted: an unclear answer must not count as an
/// approval.
struct ElicitationResult {
    action: ElicitationAction,
    content: Map<String, Value>,
}

/// The person's action: `accept`, `decline` or `cancel`.
enum ElicitationAction {
    Accept,
    Decline,
    Cancel,
}

impl<'de> Deserialize<'de> for ElicitationResult {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let UniqueFields(mut fields) = UniqueFields::deserialize(from)?;
        let action = match fields.remove("action").as_ref().and_then(Value::as_str) {
            Some("accept") => ElicitationAction::Accept,
            Some("decline") => ElicitationAction::Decline,
            Some("cancel") => ElicitationAction::Cancel,
            _ => return Err(D::Error::custom("`action` must be accept, decline or cancel")),
        };
        let content = match fields.remove("content") {
            Some(Value::Object(content)) => content,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(D::Error::custom("`content` must be an object")),
        };
        Ok(Self { action, content })
    }
}

/// An object without duplicate fields, also in its `content`.
struct UniqueFields(Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueFields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = UniqueFields;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueFields, A::Error> {
                let mut fields = Map::new();
                while let Some(name) = map.next_key::<String>()? {
                    let value = if name == "content" {
                        let content: Option<UniqueFields> = map.next_value()?;
                        content.map_or(Value::Null, |UniqueFields(fields)| Value::Object(fields))
                    } else {
                        map.next_value()?
                    };
                    if fields.insert(name, value).is_some() {
                        return Err(A::Error::custom("a field is there twice"));
                    }
                }
                Ok(UniqueFields(fields))
            }
        }
        from.deserialize_map(Reader)
    }
}

impl Attendant for Elicitation {
    fn approve<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, AttendantReply<Answer>> {
        let changes = (self.describe_changes)(request);
        Box::pin(self.elicit(approval_form(request, &changes), |content| match content {
            Some(content) => read_approval(request, &content),
            None => AttendantReply::Answered(Answer::deny("")),
        }))
    }

    fn answer<'a>(
        &'a self,
        request: &'a QuestionRequest,
    ) -> BoxFuture<'a, AttendantReply<QuestionAnswer>> {
        Box::pin(self.elicit(question_form(request), |content| {
            let Some(content) = content else {
                return unavailable("the person declined to answer");
            };
            let selection = |(at, question)| read_selection(&content, at, question);
            let selections = request.questions.iter().enumerate().map(selection);
            AttendantReply::Answered(QuestionAnswer::new(selections))
        }))
    }
}

/// Makes the reply for a person who cannot be asked or gave no answer.
fn unavailable<A>(why: &str) -> AttendantReply<A> {
    AttendantReply::Unavailable(quote::visible(why).into_owned())
}

/// Name of the form field with the decision.
const DECISION: &str = "decision";
/// Name of the form field with the reason.
const REASON: &str = "reason";
/// Value of the decision that denies once.
const DENY: &str = "deny";
/// Value of the decision that denies now and later.
const ALWAYS_DENY: &str = "always deny";

/// Decisions that a form offers.
const DECISIONS: [(&str, Scope); 4] = [
    ("allow once", Scope::Once),
    ("allow in this session", Scope::Session),
    ("allow in this workspace", Scope::Project),
    ("always allow", Scope::Always),
];

/// Makes the form of an approval.
fn approval_form(request: &ApprovalRequest, changes: &str) -> Form {
    let offered = if request.can_be_remembered { &DECISIONS[..] } else { &DECISIONS[..1] };
    let mut decisions: Vec<String> = offered.iter().map(|(name, _)| (*name).to_owned()).collect();
    decisions.extend(request.offers.iter().map(|rule| with_rule(rule)));
    decisions.push(DENY.to_owned());
    if request.can_be_denied_always() {
        decisions.push(ALWAYS_DENY.to_owned());
    }
    let properties = json!({
        DECISION: {"type": "string", "title": "Decision", "enum": decisions},
        REASON: {"type": "string", "title": "Reason", "description": "The model reads it."},
    });
    Form {
        message: describe_request(request, changes),
        properties: into_map(properties),
        required: vec![DECISION],
    }
}

/// Describes everything about a call that a person needs for the decision. Text from the model has a bar before every line, so that
/// it cannot be mistaken for a part of the question, and contains no control characters for a terminal.
fn describe_request(request: &ApprovalRequest, changes: &str) -> String {
    let mut text = format!(
        "{} asks for a person's decision (risk: {}).\nAsked by {}, session {}; {} asks; {}.\n",
        quote::visible(&request.tool),
        request.risk,
        request.asker,
        request.session,
        quote::visible(&request.by.to_string()),
        request.confinement,
    );
    if let Some(source) = &request.untrusted {
        append(&mut text, format_args!("This session has read {}.\n", quote::visible(source)));
    }
    if request.has_run {
        text.push_str("It has run, and nothing that it changed is kept yet.\n");
        text.push_str(&request.ended.as_ref().map(describe_end).unwrap_or_default());
        text.push_str("It changed:\n");
    } else {
        text.push_str("It wants to:\n");
        for effect in request.effects.iter() {
            text.push_str(&with_bars(&effect.to_string()));
        }
        if !changes.is_empty() {
            text.push_str("It would change:\n");
        }
    }
    if !changes.is_empty() {
        text.push_str(&with_bars(changes.trim_end()));
    }
    if let Some(command) = request.command().filter(|_| request.has_run) {
        append(&mut text, format_args!("by the command:\n{}", with_bars(command)));
    }
    if let Some(others) = request.other_arguments() {
        let input = serde_json::to_string_pretty(&others).unwrap_or_default();
        append(&mut text, format_args!("with the arguments:\n{}", with_bars(&input)));
    }
    text
}

/// Describes the end of a command that has run, with the last lines of its output. Empty if it exited with 0 and printed nothing.
fn describe_end(end: &CommandEnd) -> String {
    let Some(headline) = end.headline() else { return String::new() };
    let headline = headline.replacen("it ", "It ", 1);
    let is_silent = end.last_lines.is_empty();
    let output = if is_silent { String::new() } else { with_bars(&end.last_lines) };
    format!("{headline}\n{output}")
}

/// Puts a bar before every line of a model's text, and adds the number of lines if there are many.
fn with_bars(text: &str) -> String {
    let text = quote::undisguised(&quote::visible(text));
    let lines: Vec<String> = text.split('\n').map(|line| format!("  | {line}\n")).collect();
    let count = match lines.len() {
        0..=8 => String::new(),
        many => format!("  ({many} lines)\n"),
    };
    format!("{count}{}", lines.concat())
}

/// Returns the text of the decision that allows a call and adds a rule.
fn with_rule(rule: &str) -> String {
    format!("allow, and add the rule `{}` for this session", quote::visible(rule))
}

/// Reads the answer from the content of an approval form.
fn read_approval(
    request: &ApprovalRequest,
    content: &Map<String, Value>,
) -> AttendantReply<Answer> {
    let decision = content.get(DECISION).and_then(Value::as_str).unwrap_or_default();
    let reason = match content.get(REASON) {
        None | Some(Value::Null) => None,
        Some(Value::String(reason)) => Some(reason.trim()).filter(|reason| !reason.is_empty()),
        Some(_) => return unavailable("the client's reason is no text"),
    };
    let answer = match DECISIONS.iter().find(|(name, _)| *name == decision) {
        Some((_, scope)) => Answer::allow_for(*scope),
        None if decision == DENY => Answer::deny(""),
        None if decision == ALWAYS_DENY => Answer::deny_for(Scope::Always, ""),
        None => match request.offers.iter().find(|rule| with_rule(rule) == decision) {
            Some(rule) => Answer::allow().with_rule(rule.as_str()),
            None => return unavailable("the client's answer has no decision"),
        },
    };
    AttendantReply::Answered(match reason {
        Some(reason) => answer.because(reason),
        None => answer,
    })
}

/// Makes the form of a tool's questions.
fn question_form(request: &QuestionRequest) -> Form {
    let mut properties = Map::new();
    let mut message = format!("{} asks:", quote::visible(&request.tool));
    for (at, question) in request.questions.iter().enumerate() {
        let title = quote::visible(&question.question).into_owned();
        append(&mut message, format_args!("\n{title}"));
        for option in &question.options {
            let about = option.description.as_deref().unwrap_or_default();
            let separator = if about.is_empty() { "" } else { ": " };
            let label = quote::visible(&option.label);
            append(&mut message, format_args!("\n  {label}{separator}{}", quote::visible(about)));
        }
        if question.multi_select {
            for (number, option) in question.options.iter().enumerate() {
                let shown = format!("{title} {}", quote::visible(&option.label));
                let field = json!({"type": "boolean", "title": shown, "default": false});
                properties.insert(option_field(at, number), field);
            }
        } else {
            let labels: Vec<&str> = question.options.iter().map(|one| one.label.as_str()).collect();
            let field = json!({"type": "string", "title": title, "enum": labels});
            properties.insert(answer_field(at), field);
        }
        let other = json!({"type": "string", "title": format!("{title} (in other words)")});
        properties.insert(other_field(at), other);
    }
    Form { message: quote::undisguised(&message), properties, required: Vec::new() }
}

/// Returns the field name for the answer to a question.
fn answer_field(question: usize) -> String {
    format!("answer_{}", question + 1)
}

/// Returns the field name for an answer in free text.
fn other_field(question: usize) -> String {
    format!("answer_{}_other", question + 1)
}

/// Returns the field name for one option of a question with several choices.
fn option_field(question: usize, option: usize) -> String {
    format!("answer_{}_option_{}", question + 1, option + 1)
}

/// Reads the answer to one question from the content of a form.
fn read_selection(content: &Map<String, Value>, at: usize, question: &Question) -> Selection {
    let text = |name: &str| content.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_chosen = |number: usize| {
        content.get(&option_field(at, number)).and_then(Value::as_bool).unwrap_or(false)
    };
    let chosen = question.options.iter().enumerate().filter(|(number, _)| is_chosen(*number));
    let selected =
        chosen.map(|(_, option)| option.label.clone()).chain(text(&answer_field(at))).collect();
    Selection { selected, other: text(&other_field(at)).filter(|other| !other.is_empty()) }
}

/// Appends formatted text to a string.
fn append(text: &mut String, piece: std::fmt::Arguments<'_>) {
    use std::fmt::Write as _;
    // Writing to a string cannot fail.
    let _infallible = text.write_fmt(piece);
}

/// Returns the fields of an object; none for another value.
fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
