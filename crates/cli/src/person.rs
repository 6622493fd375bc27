//! The person at this terminal: shown the whole truth about a call, and asked.
//!
//! Everything that came from elsewhere is made visible first, so that no text can paint over the question. What was typed before the
//! question was there does not answer it, and one question is asked at a time.

mod question;
mod terminal;

use std::io::IsTerminal as _;
use std::sync::Arc;

use anyhow::Result;
use tokio::sync::Mutex;
use windlass::effect::Effect;
use windlass::people::{
    Answer, ApprovalRequest, Attendant, Difference, QuestionAnswer, QuestionRequest, Reply, Scope,
};
use windlass::policy::RiskLevel;
use windlass::quote;
use windlass::tool::BoxFuture;
use windlass::tool::diff::Look;

use self::terminal::Terminal;
use crate::terminal::{Paint, add};

/// The person at this terminal. There is one only if what we write to stderr can be seen.
pub(crate) struct Person {
    paint: Paint,
    /// Held by whoever asks.
    asking: Arc<Mutex<()>>,
}

impl Person {
    pub(crate) fn at_terminal(paint: Paint) -> Option<Self> {
        let is_there = std::io::stderr().is_terminal() && Terminal::open().is_ok();
        is_there.then(|| Self { paint, asking: Arc::default() })
    }

    /// Asks when no other question is asked at this terminal, and stops asking when the future is dropped.
    async fn at_turn<A: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Terminal) -> Result<A> + Send + 'static,
    ) -> Reply<A> {
        let turn = self.asking.clone().lock_owned().await;
        let unavailable = |why: &dyn std::fmt::Display| {
            Reply::Unavailable(format!("the terminal could not be asked: {why}"))
        };
        let (mut terminal, keep_asking) = match Terminal::open_stoppable() {
            Ok(opened) => opened,
            Err(error) => return unavailable(&format!("{error:#}")),
        };
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            ask(&mut terminal)
        });
        let asked = asked.await;
        keep_asking.end();
        match asked {
            Ok(Ok(answer)) => Reply::Answered(answer),
            Ok(Err(error)) => unavailable(&format!("{error:#}")),
            Err(error) => unavailable(&error),
        }
    }
}

impl Attendant for Person {
    fn approve<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Reply<Answer>> {
        let (told, choices) = question(request, self.paint);
        Box::pin(self.at_turn(move |terminal| ask(terminal, &told, &choices)))
    }

    fn answer<'a>(&'a self, request: &'a QuestionRequest) -> BoxFuture<'a, Reply<QuestionAnswer>> {
        let (request, paint) = (request.clone(), self.paint);
        let ask = move |terminal: &mut Terminal| question::ask(terminal, &request, paint);
        Box::pin(async move {
            self.at_turn(move |terminal| ask(terminal).map(QuestionAnswer::new)).await
        })
    }
}

/// The question about a call as a person at a terminal sees it.
pub(crate) fn shown(request: &ApprovalRequest, paint: Paint) -> String {
    let (told, choices) = question(request, paint);
    format!("{told}{}", prompt(&choices))
}

/// The question about a call as a person sees it, with the answers that can be typed.
fn question(request: &ApprovalRequest, paint: Paint) -> (String, Vec<Choice>) {
    let difference = difference(request, paint);
    (told(request, &difference.shown(), paint), choices(request, &difference))
}

/// Shows a text at the terminal, wherever the output goes, and asks a question about it.
pub(crate) fn show_and_ask(text: &str, question: &str) -> Result<bool> {
    let mut terminal = Terminal::open()?;
    terminal.show(text)?;
    let answer = terminal.line(question)?;
    Ok(matches!(answer.as_str(), "y" | "Y" | "yes"))
}

/// The whole truth about a call: who wants it, what it does to what, with which arguments, and what becomes of each file.
fn told(request: &ApprovalRequest, difference: &str, paint: Paint) -> String {
    let mut text = String::from("\n");
    let tool = paint.bold(&quote::visible(&request.tool));
    let risk = match request.risk {
        RiskLevel::Low => paint.green("low"),
        RiskLevel::Medium => paint.yellow("medium"),
        RiskLevel::High => paint.red("high"),
    };
    if request.has_run {
        add(
            &mut text,
            format_args!("{tool} has run, and nothing it changed is kept yet (risk: {risk}):\n"),
        );
    } else {
        add(&mut text, format_args!("{tool} wants to (risk: {risk}):\n"));
        for effect in request.effects.iter() {
            add(&mut text, format_args!("{}\n", indented(&described(effect))));
        }
    }
    text.push_str(&arguments(request));
    add(&mut text, format_args!("asked by {}, session {}\n", request.asker, request.session));
    if let Some(source) = &request.untrusted {
        let warning = format!("this session has read {}", quote::visible(source));
        add(&mut text, format_args!("{}\n", paint.yellow(&warning)));
    }
    if !difference.is_empty() {
        let title = if request.has_run { "it changed:" } else { "it would change:" };
        add(&mut text, format_args!("{title}\n{difference}"));
    }
    let asks = quote::visible(&request.by.to_string()).into_owned();
    add(&mut text, format_args!("({asks} asks; {})\n", request.confinement));
    text
}

/// The arguments that are not shown otherwise: a command stands among the effects, and a file's content in the difference.
fn arguments(request: &ApprovalRequest) -> String {
    let mut shown = String::new();
    let command = request.command();
    if let Some(command) = command.filter(|_| request.has_run) {
        add(&mut shown, format_args!("{}\n", indented(&indented(&visible_lines(command)))));
    }
    // Of a tool that changes files, the difference shows more than the arguments.
    let is_shown = command.is_none() && !request.changes.is_empty();
    if let Some(others) = request.other_arguments().filter(|_| !is_shown) {
        add(&mut shown, format_args!("with:\n{}\n", indented(&pretty(&others))));
    }
    shown
}

/// An effect, a command with all of its lines.
fn described(effect: &Effect) -> String {
    match effect {
        Effect::Exec(command) => {
            let shell =
                command.shell.as_ref().map(|shell| format!(" in {}", quote::visible(shell)));
            let shell = shell.unwrap_or_default();
            format!("exec{shell}\n{}", indented(&visible_lines(&command.text)))
        }
        other => visible_lines(&other.to_string()),
    }
}

fn pretty(input: &serde_json::Value) -> String {
    visible_lines(&serde_json::to_string_pretty(input).unwrap_or_else(|_| input.to_string()))
}

fn visible_lines(text: &str) -> String {
    quote::undisguised(&text.split('\n').map(quote::visible).collect::<Vec<_>>().join("\n"))
}

fn indented(text: &str) -> String {
    text.split('\n').map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Every line that changes: whoever says yes must have been able to see it.
fn difference(request: &ApprovalRequest, paint: Paint) -> Difference {
    let look = if paint.is_on() { Look::colour() } else { Look::plain() };
    Difference::of(request, &look.words(paint.is_on()).whole())
}

/// An answer that can be typed.
struct Choice {
    key: String,
    meaning: String,
    answer: Chosen,
}

/// The effect of a choice.
enum Chosen {
    Answer(Answer),
    /// Shows the whole difference, and asks again.
    Show(String),
}

fn no() -> Answer {
    Answer::deny("the person said no")
}

fn choices(request: &ApprovalRequest, difference: &Difference) -> Vec<Choice> {
    let choice = |key: &str, meaning: &str, answer: Answer| Choice {
        key: key.to_owned(),
        meaning: meaning.to_owned(),
        answer: Chosen::Answer(answer),
    };
    let yes = if request.has_run { "yes, keep it" } else { "yes, once" };
    let mut choices = vec![choice("y", yes, Answer::allow())];
    for (number, rule) in request.offers.iter().enumerate() {
        let meaning = format!("yes, and `{}` for this session", quote::visible(rule));
        let answer = Answer::allow().with_rule(rule.as_str());
        choices.push(choice(&(number + 1).to_string(), &meaning, answer));
    }
    if request.can_be_remembered {
        let meaning = "whenever this session makes this very call";
        choices.push(choice("s", meaning, Answer::allow_for(Scope::Session)));
        choices.push(choice("p", "in this workspace", Answer::allow_for(Scope::Project)));
        choices.push(choice("a", "always", Answer::allow_for(Scope::Always)));
    }
    choices.push(choice("n", if request.has_run { "no, drop it" } else { "no" }, no()));
    if request.can_be_denied_always() {
        let never = Answer::deny_for(Scope::Always, "the person said no");
        choices.push(choice("never", "no, and never again", never));
    }
    if difference.is_long() {
        choices.push(Choice {
            key: "d".to_owned(),
            meaning: "show every line".to_owned(),
            answer: Chosen::Show(difference.whole.clone()),
        });
    }
    choices
}

/// The answers that can be typed, and the place to type one.
fn prompt(choices: &[Choice]) -> String {
    let offered: Vec<String> =
        choices.iter().map(|choice| format!("[{}] {}", choice.key, choice.meaning)).collect();
    format!("{}\nAllow this? ", offered.join("\n"))
}

/// The number of answers that are read before one that cannot be understood is a no.
const TRIES: usize = 3;

/// Shows what it is about, and reads an answer. One that cannot be understood is never a yes: it is asked for again, and a no in the end. So
/// is an empty line.
fn ask(terminal: &mut Terminal, told: &str, choices: &[Choice]) -> Result<Answer> {
    let mut is_seen = terminal.show(told)?;
    let prompt = prompt(choices);
    let mut tries = 0;
    let mut note = String::new();
    loop {
        let again = if is_seen { "" } else { "[r] show again what was left before its end\n" };
        let answer = terminal.line(&format!("{note}{again}{prompt}"))?.to_lowercase();
        note.clear();
        if answer == "r" && !is_seen {
            is_seen = terminal.show(told)?;
            continue;
        }
        let key = match answer.as_str() {
            "yes" => "y",
            "no" => "n",
            key => key,
        };
        match choices.iter().find(|one| one.key == key).map(|choice| &choice.answer) {
            Some(Chosen::Answer(answer)) => return Ok(answer.clone()),
            Some(Chosen::Show(whole)) => {
                terminal.show(whole)?;
            }
            None => {
                tries += 1;
                if answer.is_empty() || tries == TRIES {
                    return Ok(no());
                }
                note = format!("`{}` is none of the answers\n", quote::undisguised(&answer));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;

    use serde_json::{Value, json};
    use windlass::Windlass;
    use windlass::session::SessionId;
    use windlass::tool::{Overrides, Predicate};
    use windlass::{Outcome, Session, ToolCall};

    use super::*;

    /// What a person is told about a call of this session, in a workspace with a file `a`.
    fn told_of(session: Session, tool: &str, input: Value) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a"), "one\ntwo\n").expect("a file");
        let heard = Arc::new(StdMutex::new(String::new()));
        let hear = heard.clone();
        let approver = move |request: &ApprovalRequest| {
            let difference = difference(request, Paint::none()).shown();
            *hear.lock().expect("nobody panicked") = told(request, &difference, Paint::none());
            false
        };
        let windlass = Windlass::builder(folder.path())
            .ask_before(true)
            .attendant(approver)
            .build()
            .expect("a workspace");
        let call = ToolCall::new(tool, input);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let session = Arc::new(session);
        let result = runtime.expect("a runtime").block_on(windlass.call(&session, call));
        assert_eq!(result.outcome, Outcome::Denied, "{}", result.output.to_text());
        let told = heard.lock().expect("nobody panicked").clone();
        assert!(!told.is_empty(), "nobody was asked");
        told
    }

    fn lines(count: usize, word: &str) -> String {
        let lines: Vec<String> = (0..count).map(|line| format!("{word} {line}\n")).collect();
        lines.concat()
    }

    fn session() -> Session {
        Session::new(SessionId::new("s1"))
    }

    #[test]
    fn who_asks_is_named() {
        let write = json!({"path": "b", "content": "x\n"});
        let told = told_of(session(), "write", write.clone());
        assert!(told.contains("asked by the session's own model, session s1"), "{told}");
        let child = session().child(SessionId::new("s2"), Predicate::All, &Overrides::default());
        let told = told_of(child.with_agent("rev\u{202e}iewer"), "write", write);
        assert!(
            told.contains("asked by agent rev\\u{202e}iewer, 1 below session s1, session s2"),
            "{told}"
        );
    }

    #[test]
    fn what_a_session_has_read_is_told() {
        let session = session();
        session.mark_untrusted("https://example.org/\x1b[2K");
        let told = told_of(session, "write", json!({"path": "b", "content": "x\n"}));
        assert!(told.contains("this session has read https://example.org/\\x1b[2K"), "{told}");
    }

    #[test]
    fn nothing_in_a_call_can_paint_over_the_question() {
        let hidden = "\x1b[2K\r\u{202e}\u{200b}\u{7}";
        for (tool, input) in [
            ("bash", json!({"command": format!("make {hidden}\nrm -r x")})),
            ("write", json!({"path": format!("b{hidden}"), "content": hidden})),
            ("edit", json!({"path": "a", "old_string": "one", "new_string": hidden})),
            ("bash", json!({"command": "make", "description": hidden})),
        ] {
            let told = told_of(session(), tool, input.clone());
            let acts = |c: char| quote::is_invisible(c) && c != '\n';
            assert!(!told.contains(acts), "{tool} {input}: {told:?}");
        }
    }

    #[test]
    fn a_command_is_shown_with_all_its_lines() {
        let command = lines(300, "make line");
        let told = told_of(session(), "bash", json!({"command": command}));
        for line in 0..300 {
            assert!(told.contains(&format!("\n    make line {line}\n")), "line {line}");
        }
    }

    #[test]
    fn a_change_is_shown_line_by_line() {
        let content = lines(500, "new");
        let told = told_of(session(), "write", json!({"path": "b", "content": content}));
        for line in 0..500 {
            assert!(told.contains(&format!("+new {line}\n")), "line {line}: {told}");
        }
        let edit = json!({"path": "a", "old_string": "two", "new_string": "2"});
        let told = told_of(session(), "edit", edit);
        assert!(told.contains("-two\n+2\n"), "{told}");
    }
}
