//! The person at this terminal: sees a call with all its details, and answers approvals and questions.
//!
//! Control characters in text from elsewhere are made visible first, so that no text can paint over the prompt. Input that was typed
//! before the prompt was there does not answer it, and one prompt is shown at a time.

mod question;
mod terminal;

use std::io::IsTerminal as _;
use std::sync::Arc;

use anyhow::Result;
use tokio::sync::Mutex;
use windlass::effect::Effect;
use windlass::people::{
    Answer, ApprovalRequest, Attendant, AttendantReply, CommandEnd, Difference, QuestionAnswer,
    QuestionRequest, Scope,
};
use windlass::policy::RiskLevel;
use windlass::quote;
use windlass::tool::BoxFuture;
use windlass::tool::diff::DiffFormat;

use self::terminal::{ReadingEnd, Terminal};
use crate::terminal::{Paint, add};

/// The attendant that asks at this terminal. It exists only if stderr is a terminal, so that the person sees our output.
pub(crate) struct Person {
    paint: Paint,
    /// Locked while a prompt is open.
    prompt_lock: Arc<Mutex<()>>,
}

impl Person {
    /// Returns the person, if stderr is a terminal and `/dev/tty` can be opened.
    pub(crate) fn at_terminal(paint: Paint) -> Option<Self> {
        let is_there = std::io::stderr().is_terminal() && Terminal::open().is_ok();
        is_there.then(|| Self { paint, prompt_lock: Arc::default() })
    }

    /// Runs `ask` with the terminal once no other prompt is open. Stops asking when the future is dropped.
    async fn with_terminal<A: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Terminal) -> Result<A> + Send + 'static,
    ) -> AttendantReply<A> {
        let turn = self.prompt_lock.clone().lock_owned().await;
        let unavailable = |why: &dyn std::fmt::Display| {
            AttendantReply::Unavailable(format!("the terminal could not be asked: {why}"))
        };
        let (mut terminal, guard) = match Terminal::open_stoppable() {
            Ok(opened) => opened,
            Err(error) => return unavailable(&format!("{error:#}")),
        };
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            ask(&mut terminal)
        });
        let asked = asked.await;
        guard.finish();
        match asked {
            Ok(Ok(answer)) => AttendantReply::Answered(answer),
            Ok(Err(error)) => unavailable(&format!("{error:#}")),
            Err(error) => unavailable(&error),
        }
    }
}

impl Attendant for Person {
    fn approve<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, AttendantReply<Answer>> {
        let (text, choices) = approval_question(request, self.paint);
        Box::pin(self.with_terminal(move |terminal| ask(terminal, &text, &choices)))
    }

    fn answer<'a>(
        &'a self,
        request: &'a QuestionRequest,
    ) -> BoxFuture<'a, AttendantReply<QuestionAnswer>> {
        let (request, paint) = (request.clone(), self.paint);
        let ask = move |terminal: &mut Terminal| question::ask(terminal, &request, paint);
        Box::pin(async move {
            self.with_terminal(move |terminal| ask(terminal).map(QuestionAnswer::new)).await
        })
    }
}

/// Returns the text of an approval as it appears at a terminal, with the answers that can be typed.
pub(crate) fn approval_prompt(request: &ApprovalRequest, paint: Paint) -> String {
    let (text, choices) = approval_question(request, paint);
    format!("{text}{}", prompt(&choices))
}

/// Returns the text of an approval, and the answers that can be typed.
fn approval_question(request: &ApprovalRequest, paint: Paint) -> (String, Vec<Choice>) {
    let difference = whole_diff(request, paint);
    (approval_text(request, &difference.shown(), paint), choices(request, &difference))
}

/// Shows a text at the terminal, even if the output is redirected, and returns whether the person says yes to a question about it.
pub(crate) fn show_and_ask(text: &str, question: &str) -> Result<bool> {
    let mut terminal = Terminal::open()?;
    if matches!(terminal.show(text, &["n"])?, ReadingEnd::Denied(_)) {
        return Ok(false);
    }
    let answer = terminal.read_line(question)?;
    Ok(matches!(answer.as_str(), "y" | "Y" | "yes"))
}

/// Returns the text of an approval: the tool, its risk, effects, arguments, asker, untrusted sources, the diff, and the deciding rule.
fn approval_text(request: &ApprovalRequest, difference: &str, paint: Paint) -> String {
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
            add(&mut text, format_args!("{}\n", indented(&effect_text(effect))));
        }
    }
    text.push_str(&other_arguments_text(request));
    add(&mut text, format_args!("asked by {}, session {}\n", request.asker, request.session));
    if let Some(source) = &request.untrusted {
        let warning = format!("this session has read {}", quote::visible(source));
        add(&mut text, format_args!("{}\n", paint.yellow(&warning)));
    }
    if let Some(end) = &request.ended {
        text.push_str(&command_end_text(end, paint));
    }
    if !difference.is_empty() {
        let title = if request.has_run { "it changed:" } else { "it would change:" };
        add(&mut text, format_args!("{title}\n{difference}"));
    }
    let asks = quote::visible(&request.by.to_string()).into_owned();
    add(&mut text, format_args!("({asks} asks; {})\n", request.confinement));
    text
}

/// Returns the exit of a command that has run, and the last lines of its output. Empty if it exited with 0 and printed nothing.
pub(crate) fn command_end_text(end: &CommandEnd, paint: Paint) -> String {
    let Some(headline) = end.headline() else { return String::new() };
    let headline = if end.is_success() { headline } else { paint.yellow(&headline) };
    if end.last_lines.is_empty() {
        return format!("{headline}\n");
    }
    format!("{headline}\n{}\n", indented(&indented(&visible_lines(&end.last_lines))))
}

/// Returns the arguments that are shown nowhere else: a command is among the effects, and a file's content in the diff.
fn other_arguments_text(request: &ApprovalRequest) -> String {
    let mut shown = String::new();
    let command = request.command();
    if let Some(command) = command.filter(|_| request.has_run) {
        add(&mut shown, format_args!("{}\n", indented(&indented(&visible_lines(command)))));
    }
    // The diff of a tool that changes files shows more than its arguments.
    let is_shown = command.is_none() && !request.changes.is_empty();
    if let Some(others) = request.other_arguments().filter(|_| !is_shown) {
        add(&mut shown, format_args!("with:\n{}\n", indented(&pretty_json(&others))));
    }
    shown
}

/// Returns the text of an effect; a command is shown with all of its lines.
fn effect_text(effect: &Effect) -> String {
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

/// Returns JSON on several lines, with control characters made visible.
fn pretty_json(input: &serde_json::Value) -> String {
    visible_lines(&serde_json::to_string_pretty(input).unwrap_or_else(|_| input.to_string()))
}

/// Makes the control characters of a text visible, except line breaks.
fn visible_lines(text: &str) -> String {
    quote::undisguised(&text.split('\n').map(quote::visible).collect::<Vec<_>>().join("\n"))
}

/// Indents each line by two spaces.
fn indented(text: &str) -> String {
    text.split('\n').map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Returns the diff of a call with every changed line: a person who says yes must have been able to see it.
fn whole_diff(request: &ApprovalRequest, paint: Paint) -> Difference {
    let look = if paint.is_on() { DiffFormat::colour() } else { DiffFormat::plain() };
    Difference::of(request, &look.words(paint.is_on()).whole())
}

/// An entry of the prompt that a person can type.
struct Choice {
    /// The text to type.
    key: String,
    /// The text beside it.
    meaning: String,
    effect: ChoiceEffect,
}

impl Choice {
    /// Returns whether the choice denies the call or drops its changes.
    fn is_denial(&self) -> bool {
        matches!(&self.effect, ChoiceEffect::Answer(answer) if !answer.is_yes())
    }
}

/// The consequence of a choice.
enum ChoiceEffect {
    /// Answers the approval.
    Answer(Answer),
    /// Shows the whole diff, and asks again.
    Show(String),
}

/// Returns the answer of a person who says no once.
fn denial() -> Answer {
    Answer::deny("the person said no")
}

/// Returns the answers that an approval offers: yes, offered rules, scopes, no, never, and the whole diff if it was shortened.
fn choices(request: &ApprovalRequest, difference: &Difference) -> Vec<Choice> {
    let choice = |key: &str, meaning: &str, answer: Answer| Choice {
        key: key.to_owned(),
        meaning: meaning.to_owned(),
        effect: ChoiceEffect::Answer(answer),
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
    choices.push(choice("n", if request.has_run { "no, drop it" } else { "no" }, denial()));
    if request.can_be_denied_always() {
        let never = Answer::deny_for(Scope::Always, "the person said no");
        choices.push(choice("never", "no, and never again", never));
    }
    if difference.is_long() {
        choices.push(Choice {
            key: "d".to_owned(),
            meaning: "show every line".to_owned(),
            effect: ChoiceEffect::Show(difference.whole.clone()),
        });
    }
    choices
}

/// Returns the last part of an approval's text: the choices, one per line, and `Allow this?`.
fn prompt(choices: &[Choice]) -> String {
    let offered: Vec<String> =
        choices.iter().map(|choice| format!("[{}] {}", choice.key, choice.meaning)).collect();
    format!("{}\nAllow this? ", offered.join("\n"))
}

/// The number of unclear answers after which the answer is no.
const MAX_UNCLEAR_ANSWERS: usize = 3;

/// Shows an approval and reads the answer. An unclear answer is never a yes: the person is asked again, and after `MAX_UNCLEAR_ANSWERS` of
/// them the answer is no. An empty line is a no, too.
fn ask(terminal: &mut Terminal, text: &str, choices: &[Choice]) -> Result<Answer> {
    let denials: Vec<&str> =
        choices.iter().filter(|one| one.is_denial()).map(|one| &*one.key).collect();
    let mut reading = terminal.show(text, &denials)?;
    let prompt = prompt(choices);
    let mut unclear = 0;
    let mut note = String::new();
    loop {
        let answer = match &reading {
            ReadingEnd::Denied(key) => key.clone(),
            ReadingEnd::Whole => terminal.read_line(&format!("{note}{prompt}"))?,
            ReadingEnd::Left => terminal.read_line(&format!(
                "{note}[r] show again what was left before its end\n{prompt}"
            ))?,
        };
        let answer = answer.to_lowercase();
        note.clear();
        if answer == "r" && reading == ReadingEnd::Left {
            reading = terminal.show(text, &denials)?;
            continue;
        }
        let key = match answer.as_str() {
            "yes" => "y",
            "no" => "n",
            key => key,
        };
        match choices.iter().find(|one| one.key == key).map(|choice| &choice.effect) {
            Some(ChoiceEffect::Answer(answer)) => return Ok(answer.clone()),
            Some(ChoiceEffect::Show(whole)) => {
                let end = terminal.show(whole, &denials)?;
                if matches!(end, ReadingEnd::Denied(_)) {
                    reading = end;
                }
            }
            None => {
                unclear += 1;
                if answer.is_empty() || unclear == MAX_UNCLEAR_ANSWERS {
                    return Ok(denial());
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

    /// Returns the approval text of a call in this session, in a workspace with a file `a`.
    fn approval_text_of(session: Session, tool: &str, input: Value) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a"), "one\ntwo\n").expect("a file");
        let shown_text = Arc::new(StdMutex::new(String::new()));
        let shown_text_writer = shown_text.clone();
        let approver = move |request: &ApprovalRequest| {
            let difference = whole_diff(request, Paint::none()).shown();
            *shown_text_writer.lock().expect("the lock is not poisoned") =
                approval_text(request, &difference, Paint::none());
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
        let text = shown_text.lock().expect("the lock is not poisoned").clone();
        assert!(!text.is_empty(), "the approver was not called");
        text
    }

    /// Returns `count` lines: the word and the line's number.
    fn lines(count: usize, word: &str) -> String {
        let lines: Vec<String> = (0..count).map(|line| format!("{word} {line}\n")).collect();
        lines.concat()
    }

    fn session() -> Session {
        Session::new(SessionId::new("s1"))
    }

    #[test]
    fn approval_names_the_asker() {
        let write = json!({"path": "b", "content": "x\n"});
        let text = approval_text_of(session(), "write", write.clone());
        assert!(text.contains("asked by the session's own model, session s1"), "{text}");
        let child = session().child(SessionId::new("s2"), Predicate::All, &Overrides::default());
        let text = approval_text_of(child.with_agent("rev\u{202e}iewer"), "write", write);
        assert!(
            text.contains("asked by agent rev\\u{202e}iewer, 1 below session s1, session s2"),
            "{text}"
        );
    }

    #[test]
    fn approval_names_untrusted_sources_of_the_session() {
        let session = session();
        session.mark_untrusted("https://example.org/\x1b[2K");
        let text = approval_text_of(session, "write", json!({"path": "b", "content": "x\n"}));
        assert!(text.contains("this session has read https://example.org/\\x1b[2K"), "{text}");
    }

    #[test]
    fn control_characters_in_a_call_are_made_visible() {
        let hidden = "\x1b[2K\r\u{202e}\u{200b}\u{7}";
        for (tool, input) in [
            ("bash", json!({"command": format!("make {hidden}\nrm -r x")})),
            ("write", json!({"path": format!("b{hidden}"), "content": hidden})),
            ("edit", json!({"path": "a", "old_string": "one", "new_string": hidden})),
            ("bash", json!({"command": "make", "description": hidden})),
        ] {
            let text = approval_text_of(session(), tool, input.clone());
            let acts = |c: char| quote::is_invisible(c) && c != '\n';
            assert!(!text.contains(acts), "{tool} {input}: {text:?}");
        }
    }

    #[test]
    fn approval_shows_every_line_of_a_command() {
        let command = lines(300, "make line");
        let text = approval_text_of(session(), "bash", json!({"command": command}));
        for line in 0..300 {
            assert!(text.contains(&format!("\n    make line {line}\n")), "line {line}");
        }
    }

    #[test]
    fn approval_shows_every_changed_line() {
        let content = lines(500, "new");
        let text = approval_text_of(session(), "write", json!({"path": "b", "content": content}));
        for line in 0..500 {
            assert!(text.contains(&format!("+new {line}\n")), "line {line}: {text}");
        }
        let edit = json!({"path": "a", "old_string": "two", "new_string": "2"});
        let text = approval_text_of(session(), "edit", edit);
        assert!(text.contains("-two\n+2\n"), "{text}");
    }
}
