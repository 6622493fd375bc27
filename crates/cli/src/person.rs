//! The person at this terminal: shown the whole truth about a call, and asked.
//!
//! Everything that came from elsewhere is made visible first, so that no text can paint over the question. What was typed before the
//! question was there does not answer it, and one question is asked at a time.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::sync::Mutex;
use windlass::diff::{Look, Version, render_file};
use windlass_core::{
    Answer, ApprovalRequest, Approver, BoxFuture, Effect, FileChange, RiskLevel, Scope, quote,
};

use crate::terminal::{Paint, add};

/// How many lines fit where nobody says how large the terminal is.
const USUAL_ROWS: usize = 24;
/// And how many characters on a line.
const USUAL_COLUMNS: usize = 80;

/// The person at this terminal. There is one only if what we write to stderr can be seen.
pub(crate) struct Person {
    paint: Paint,
    /// Held by whoever asks.
    asking: Arc<Mutex<()>>,
}

impl Person {
    pub(crate) fn at_terminal(paint: Paint) -> Option<Self> {
        let is_there = std::io::stderr().is_terminal() && open_terminal().is_ok();
        is_there.then(|| Self { paint, asking: Arc::default() })
    }
}

impl Approver for Person {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        let told = told(request, self.paint);
        let choices = choices(request);
        Box::pin(async move {
            let turn = self.asking.clone().lock_owned().await;
            let asked = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                ask(&told, choices)
            });
            match asked.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => {
                    Answer::Deny(format!("the terminal could not be asked: {error:#}"))
                }
                Err(error) => Answer::Deny(format!("the question was broken off: {error}")),
            }
        })
    }
}

fn open_terminal() -> Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty").context("there is no terminal")
}

/// Asks a question of ours.
pub(crate) fn yes_or_no(question: &str) -> Result<bool> {
    let terminal = open_terminal()?;
    let answer = line(&terminal, &mut BufReader::new(terminal.try_clone()?), question)?;
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

const ONCE: Choices = &[("y", "yes", || Answer::Allow), ("n", "no", no)];
const ALL: Choices = &[
    ("y", "yes, once", || Answer::Allow),
    ("s", "whenever this session makes this very call", || Answer::AllowFor(Scope::Session)),
    ("p", "in this workspace", || Answer::AllowFor(Scope::Project)),
    ("a", "always", || Answer::AllowFor(Scope::Always)),
    ("n", "no", no),
    ("never", "no, and never again", || {
        Answer::DenyFor(Scope::Always, "the person said no".into())
    }),
];

fn no() -> Answer {
    Answer::Deny("the person said no".into())
}

fn choices(request: &ApprovalRequest) -> Choices {
    if request.can_be_remembered { ALL } else { ONCE }
}

/// Shows it, screen by screen if it is long, and reads one answer. Nothing that is not an answer is a yes.
fn ask(told: &str, choices: Choices) -> Result<Answer> {
    let terminal = open_terminal()?;
    let mut input = BufReader::new(terminal.try_clone()?);
    show(told, &terminal, &mut input)?;
    let offered: Vec<String> =
        choices.iter().map(|(key, meaning, _)| format!("[{key}] {meaning}")).collect();
    let answer = line(&terminal, &mut input, &format!("{}\nAllow this? ", offered.join("  ")))?;
    let chosen =
        choices.iter().find(|(key, ..)| *key == answer || (*key == "y" && answer == "yes"));
    Ok(chosen.map_or_else(no, |(.., answer)| answer()))
}

fn show(told: &str, mut terminal: &File, input: &mut BufReader<File>) -> Result<()> {
    let size = rustix::termios::tcgetwinsize(terminal).ok();
    let size = size.map_or((0, 0), |size| (usize::from(size.ws_row), usize::from(size.ws_col)));
    let screens = screens(told, size);
    for (at, screen) in screens.iter().enumerate() {
        if at > 0 {
            let of = screens.len();
            line(terminal, input, &format!("-- {at} of {of} screens: Enter shows more --"))?;
        }
        terminal.write_all(screen.as_bytes())?;
    }
    Ok(())
}

/// A text in parts that fit on a screen, long lines counted as the rows that they take: nothing scrolls away before it was seen.
fn screens(told: &str, (rows, columns): (usize, usize)) -> Vec<String> {
    let rows = if rows == 0 { USUAL_ROWS } else { rows }.saturating_sub(4).max(4);
    let columns = if columns == 0 { USUAL_COLUMNS } else { columns };
    let mut screens = vec![String::new()];
    let mut filled = 0;
    for piece in told.lines().flat_map(|line| pieces(line, rows * columns)) {
        let taken = piece.chars().count().div_ceil(columns).max(1);
        if filled > 0 && filled + taken > rows {
            screens.push(String::new());
            filled = 0;
        }
        filled += taken;
        if let Some(screen) = screens.last_mut() {
            screen.push_str(piece);
            screen.push('\n');
        }
    }
    screens
}

/// A line in pieces of at most so many characters. One with colours in it stays whole: a colour cannot be cut in two.
fn pieces(line: &str, most: usize) -> Vec<&str> {
    if line.contains('\x1b') {
        return vec![line];
    }
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((at, _)) = rest.char_indices().nth(most) {
        let (piece, after) = rest.split_at(at);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Asks for one line. What was typed before the question was there is not an answer to it.
fn line(mut terminal: &File, input: &mut BufReader<File>, question: &str) -> Result<String> {
    terminal.write_all(question.as_bytes())?;
    terminal.flush()?;
    rustix::termios::tcflush(terminal, rustix::termios::QueueSelector::IFlush)?;
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        anyhow::bail!("it was closed");
    }
    Ok(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;

    use serde_json::{Value, json};
    use windlass::Windlass;
    use windlass_core::{Outcome, Overrides, Predicate, Session, SessionId, ToolCall};

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
            Windlass::builder(folder.path()).approver(approver).build().expect("a workspace");
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

    #[test]
    fn screens_hold_everything_and_none_is_too_high() {
        let short = lines(50, "line");
        let long = format!("begin\n{}\nend\n", "0123456789".repeat(100));
        for (told, size) in
            [(&short, (12, 80)), (&long, (12, 20)), (&short, (0, 0)), (&long, (1, 1))]
        {
            let screens = screens(told, size);
            let unbroken = |text: &str| text.replace('\n', "");
            assert_eq!(unbroken(&screens.concat()), unbroken(told));
            let (rows, columns) = if size.0 == 0 { (24, 80) } else { size };
            for screen in &screens {
                let taken = |line: &str| line.chars().count().div_ceil(columns).max(1);
                let high: usize = screen.lines().map(taken).sum();
                assert!(high <= rows.saturating_sub(4).max(4), "{high} of {rows}: {screen}");
            }
        }
    }
}
