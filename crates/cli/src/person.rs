//! The person at this terminal: shown the whole truth about a call, and asked.
//!
//! Everything that came from elsewhere is made visible first, so that no text can paint over the question. What was typed before the
//! question was there does not answer it, and one question is asked at a time.

mod question;
mod terminal;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use tokio::sync::Mutex;
use windlass::effect::Effect;
use windlass::people::{
    Answer, ApprovalRequest, Attendant, FileChange, QuestionAnswer, QuestionRequest, Reply, Scope,
};
use windlass::policy::RiskLevel;
use windlass::quote;
use windlass::tool::BoxFuture;
use windlass::tool::diff::{Look, Version, render_file};

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
        let told = told(request, self.paint);
        let choices = choices(request);
        Box::pin(self.at_turn(move |terminal| ask(terminal, &told, choices)))
    }

    fn answer<'a>(&'a self, request: &'a QuestionRequest) -> BoxFuture<'a, Reply<QuestionAnswer>> {
        let (request, paint) = (request.clone(), self.paint);
        let ask = move |terminal: &mut Terminal| question::ask(terminal, &request, paint);
        Box::pin(async move {
            self.at_turn(move |terminal| ask(terminal).map(QuestionAnswer::new)).await
        })
    }
}

/// Asks a question of ours.
pub(crate) fn yes_or_no(question: &str) -> Result<bool> {
    let answer = Terminal::open()?.line(question)?;
    Ok(matches!(answer.as_str(), "y" | "Y" | "yes"))
}

/// The whole truth about a call: who wants it, what it does to what, with which arguments, and what would become of each file.
fn told(request: &ApprovalRequest, paint: Paint) -> String {
    let mut text = String::from("\n");
    let tool = paint.bold(&quote::visible(&request.tool));
    let risk = match request.risk {
        RiskLevel::Low => paint.green("low"),
        RiskLevel::Medium => paint.yellow("medium"),
        RiskLevel::High => paint.red("high"),
    };
    add(&mut text, format_args!("{tool} wants to (risk: {risk}):\n"));
    for effect in request.effects.iter() {
        add(&mut text, format_args!("{}\n", indented(&described(effect))));
    }
    add(&mut text, format_args!("asked by {}, session {}\n", request.asker, request.session));
    if let Some(source) = &request.untrusted {
        let warning = format!("this session has read {}", quote::visible(source));
        add(&mut text, format_args!("{}\n", paint.yellow(&warning)));
    }
    for change in request.changes.iter() {
        text.push_str(&difference(change, &request.workspace, paint));
    }
    // Of a command, the changes show what it did and not what it is.
    if request.changes.is_empty() || request.input.get("command").is_some() {
        add(&mut text, format_args!("with:\n{}\n", indented(&pretty(&request.input))));
    }
    add(&mut text, format_args!("({} asks)\n", quote::visible(&request.by.to_string())));
    text
}

/// An effect, a command with all of its lines.
fn described(effect: &Effect) -> String {
    match effect {
        Effect::Exec(command) => {
            format!("exec\n{}", indented(&visible_lines(&command.text)))
        }
        other => visible_lines(&other.to_string()),
    }
}

fn pretty(input: &serde_json::Value) -> String {
    visible_lines(&serde_json::to_string_pretty(input).unwrap_or_else(|_| input.to_string()))
}

fn visible_lines(text: &str) -> String {
    text.split('\n').map(quote::visible).collect::<Vec<_>>().join("\n")
}

fn indented(text: &str) -> String {
    text.split('\n').map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Every line that would change: whoever says yes must have been able to see it.
fn difference(change: &FileChange, workspace: &Path, paint: Paint) -> String {
    let look = if paint.is_on() { Look::colour() } else { Look::plain() };
    let look = look.words(paint.is_on()).whole();
    let name = change.path.strip_prefix(workspace).unwrap_or(&change.path);
    let name = PathBuf::from(quote::path(name).into_owned());
    let version = |content| Version::of(&name, content);
    let before = change.before.as_deref().map(version);
    let after = change.after.as_deref().map(version);
    if before.is_none() && after.is_none() {
        return format!("{} {}\n", change.verb, name.display());
    }
    render_file(before.as_ref(), after.as_ref(), &look).to_string()
}

/// What can be typed, and what it means.
type Choices = &'static [(&'static str, &'static str, fn() -> Answer)];

const ONCE: Choices = &[("y", "yes", || Answer::allow()), ("n", "no", no)];
const ALL: Choices = &[
    ("y", "yes, once", || Answer::allow()),
    ("s", "whenever this session makes this very call", || Answer::allow_for(Scope::Session)),
    ("p", "in this workspace", || Answer::allow_for(Scope::Project)),
    ("a", "always", || Answer::allow_for(Scope::Always)),
    ("n", "no", no),
    ("never", "no, and never again", || Answer::deny_for(Scope::Always, "the person said no")),
];

fn no() -> Answer {
    Answer::deny("the person said no")
}

fn choices(request: &ApprovalRequest) -> Choices {
    if request.can_be_remembered { ALL } else { ONCE }
}

/// Shows what it is about, and reads one answer. Nothing that is not an answer is a yes.
fn ask(terminal: &mut Terminal, told: &str, choices: Choices) -> Result<Answer> {
    terminal.show(told)?;
    let offered: Vec<String> =
        choices.iter().map(|(key, meaning, _)| format!("[{key}] {meaning}")).collect();
    let answer = terminal.line(&format!("{}\nAllow this? ", offered.join("  ")))?;
    let chosen =
        choices.iter().find(|(key, ..)| *key == answer || (*key == "y" && answer == "yes"));
    Ok(chosen.map_or_else(no, |(.., answer)| answer()))
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
            *hear.lock().expect("nobody panicked") = told(request, Paint::none());
            false
        };
        let windlass =
            Windlass::builder(folder.path()).attendant(approver).build().expect("a workspace");
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
