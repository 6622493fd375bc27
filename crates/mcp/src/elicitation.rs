//! Asks the person behind an MCP client, by `elicitation/create`. A client that cannot do that defers: the question stays on record.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use windlass_core::{
    Answer, ApprovalRequest, Attendant, BoxFuture, Question, QuestionAnswer, QuestionRequest,
    Reply, Scope, Selection, quote,
};

use crate::connection::Connection;
use crate::outgoing::Outgoing;

/// Begins the ids of our requests, so that people who read a log tell them from the client's.
const ID_PREFIX: &str = "windlass-";

/// The requests of this server that the client has not answered.
#[derive(Default)]
pub(crate) struct Asked {
    /// The client said that it can show forms.
    can_elicit: AtomicBool,
    count: AtomicU64,
    waiting: Mutex<HashMap<String, oneshot::Sender<Answered>>>,
}

/// The client's answer: a result, or the message of an error.
pub(crate) type Answered = Result<Value, String>;

impl Asked {
    pub(crate) fn set_can_elicit(&self, can: bool) {
        self.can_elicit.store(can, Ordering::Relaxed);
    }

    /// Hands an answer to the one who waits for it. One that nobody waits for is dropped.
    pub(crate) fn answer(&self, id: &RequestId, answered: Answered) {
        let waiting = self.take(&id.to_string());
        if let Some(waiting) = waiting {
            drop(waiting.send(answered));
        }
    }

    fn take(&self, id: &str) -> Option<oneshot::Sender<Answered>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Sends a request, and waits for its answer. If the future is dropped, the client is told that the request is cancelled.
    async fn ask(&self, outgoing: &Outgoing, method: &str, params: Value) -> Answered {
        let id = format!("{ID_PREFIX}{}", self.count.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), sender);
        let cancel = CancelIfDropped { asked: self, outgoing, id: &id };
        outgoing.put(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answered = receiver.await;
        drop(cancel);
        answered.unwrap_or_else(|_| Err("the client is gone".to_owned()))
    }
}

/// Tells the client that an answer is not needed any more, unless it came.
struct CancelIfDropped<'a> {
    asked: &'a Asked,
    outgoing: &'a Outgoing,
    id: &'a str,
}

impl Drop for CancelIfDropped<'_> {
    fn drop(&mut self) {
        if self.asked.take(self.id).is_some() {
            let params =
                json!({"requestId": self.id, "reason": "answered elsewhere, or no longer asked"});
            let method = "notifications/cancelled";
            self.outgoing.put(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }
}

/// The person behind the client of a connection.
pub(crate) struct Elicitation(pub(crate) Arc<Connection>);

impl Elicitation {
    async fn elicit<A>(
        &self,
        form: Form,
        read: impl FnOnce(Map<String, Value>) -> Reply<A>,
    ) -> Reply<A> {
        let asked = &self.0.asked;
        if !asked.can_elicit.load(Ordering::Relaxed) {
            return Reply::Deferred;
        }
        let params = json!({"message": form.message, "requestedSchema": {
            "type": "object", "properties": form.properties, "required": form.required,
        }});
        let answered = asked.ask(&self.0.outgoing, "elicitation/create", params).await;
        let answered = match answered.map(serde_json::from_value::<Elicited>) {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => {
                return unavailable(&format!("the client's answer is not understood: {error}"));
            }
            Err(error) => return unavailable(&format!("the client could not ask: {error}")),
        };
        match answered.action {
            Action::Accept => read(answered.content),
            Action::Decline => read(Map::from_iter([(DECISION.to_owned(), DENY.into())])),
            Action::Cancel => unavailable("the person closed the question without an answer"),
        }
    }
}

/// What the client shows to the person.
struct Form {
    message: String,
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

#[derive(Deserialize)]
struct Elicited {
    action: Action,
    #[serde(default)]
    content: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    Cancel,
}

impl Attendant for Elicitation {
    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Reply<Answer>> {
        Box::pin(self.elicit(approval_form(request), |content| read_approval(&content)))
    }

    fn answer<'a>(&'a self, request: &'a QuestionRequest) -> BoxFuture<'a, Reply<QuestionAnswer>> {
        Box::pin(self.elicit(question_form(request), |content| {
            if content.contains_key(DECISION) {
                return unavailable("the person declined to answer");
            }
            let selection = |(at, question)| read_selection(&content, at, question);
            let selections = request.questions.iter().enumerate().map(selection);
            Reply::Answered(QuestionAnswer::new(selections))
        }))
    }
}

fn unavailable<A>(why: &str) -> Reply<A> {
    Reply::Unavailable(quote::visible(why).into_owned())
}

const DECISION: &str = "decision";
const REASON: &str = "reason";
const DENY: &str = "deny";

/// The answers that a form offers.
const DECISIONS: [(&str, Scope); 4] = [
    ("allow once", Scope::Once),
    ("allow in this session", Scope::Session),
    ("allow in this workspace", Scope::Project),
    ("always allow", Scope::Always),
];

fn approval_form(request: &ApprovalRequest) -> Form {
    let offered = if request.can_be_remembered { &DECISIONS[..] } else { &DECISIONS[..1] };
    let decisions: Vec<&str> = offered.iter().map(|(name, _)| *name).chain([DENY]).collect();
    let properties = json!({
        DECISION: {"type": "string", "title": "Decision", "enum": decisions},
        REASON: {"type": "string", "title": "Reason", "description": "The model reads it."},
    });
    Form { message: told(request), properties: object(properties), required: vec![DECISION] }
}

/// Everything about a call that a person decides on, with nothing in it that acts on a terminal.
fn told(request: &ApprovalRequest) -> String {
    let visible = |text: &str| {
        text.split('\n')
            .map(|line| quote::visible(line).into_owned())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let mut text = format!("{} wants to (risk: {}):\n", visible(&request.tool), request.risk);
    for effect in request.effects.iter() {
        add(&mut text, format_args!("  {}\n", visible(&effect.to_string())));
    }
    for change in request.changes.iter() {
        add(&mut text, format_args!("  {} {}\n", change.verb, quote::path(&change.path)));
    }
    let input = serde_json::to_string_pretty(&request.input).unwrap_or_default();
    add(&mut text, format_args!("with:\n{}\n", visible(&input)));
    add(&mut text, format_args!("asked by {}, session {}", request.asker, request.session));
    if let Some(source) = &request.untrusted {
        add(&mut text, format_args!("; this session has read {}", quote::visible(source)));
    }
    add(&mut text, format_args!(" ({} asks)", visible(&request.by.to_string())));
    text
}

fn read_approval(content: &Map<String, Value>) -> Reply<Answer> {
    let field = |name: &str| content.get(name).and_then(Value::as_str);
    let reason = field(REASON).filter(|reason| !reason.is_empty());
    let decision = field(DECISION).unwrap_or_default();
    let answer = match DECISIONS.iter().find(|(name, _)| *name == decision) {
        Some((_, scope)) => Answer::allow_for(*scope),
        None if decision == DENY => Answer::deny(""),
        None => return unavailable("the client's answer has no decision"),
    };
    Reply::Answered(match reason {
        Some(reason) => answer.because(reason),
        None => answer,
    })
}

fn question_form(request: &QuestionRequest) -> Form {
    let mut properties = Map::new();
    let mut message = format!("{} asks:", quote::visible(&request.tool));
    for (at, question) in request.questions.iter().enumerate() {
        let title = quote::visible(&question.question).into_owned();
        add(&mut message, format_args!("\n{title}"));
        for option in &question.options {
            let about = option.description.as_deref().unwrap_or_default();
            let separator = if about.is_empty() { "" } else { ": " };
            let label = quote::visible(&option.label);
            add(&mut message, format_args!("\n  {label}{separator}{}", quote::visible(about)));
        }
        if question.multi_select {
            for (number, option) in question.options.iter().enumerate() {
                let shown = format!("{title} {}", quote::visible(&option.label));
                let field = json!({"type": "boolean", "title": shown, "default": false});
                properties.insert(option_name(at, number), field);
            }
        } else {
            let labels: Vec<&str> = question.options.iter().map(|one| one.label.as_str()).collect();
            let field = json!({"type": "string", "title": title, "enum": labels});
            properties.insert(name(at), field);
        }
        let other = json!({"type": "string", "title": format!("{title} (in other words)")});
        properties.insert(other_name(at), other);
    }
    Form { message, properties, required: Vec::new() }
}

fn name(question: usize) -> String {
    format!("answer_{}", question + 1)
}

fn other_name(question: usize) -> String {
    format!("answer_{}_other", question + 1)
}

fn option_name(question: usize, option: usize) -> String {
    format!("answer_{}_option_{}", question + 1, option + 1)
}

fn read_selection(content: &Map<String, Value>, at: usize, question: &Question) -> Selection {
    let text = |name: &str| content.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_chosen = |number: usize| {
        content.get(&option_name(at, number)).and_then(Value::as_bool).unwrap_or(false)
    };
    let chosen = question.options.iter().enumerate().filter(|(number, _)| is_chosen(*number));
    let selected = chosen.map(|(_, option)| option.label.clone()).chain(text(&name(at))).collect();
    Selection { selected, other: text(&other_name(at)).filter(|other| !other.is_empty()) }
}

fn add(text: &mut String, piece: std::fmt::Arguments<'_>) {
    use std::fmt::Write as _;
    // A string takes everything.
    let _infallible = text.write_fmt(piece);
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
