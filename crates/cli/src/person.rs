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
    if request.changes.is_empty() {
        add(&mut text, format_args!("with:\n{}\n", indented(&pretty(&request.input))));
    }
    add(&mut text, format_args!("({} asks)\n", quote::visible(&request.rule)));
    text
}

/// An effect, a command with all of its lines.
fn described(effect: &Effect) -> String {
    match effect {
        Effect::Exec(command) => {
            format!("exec\n{}", indented(&visible_lines(&command.text)))
        }
        other => other.to_string(),
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
    let rows = rustix::termios::tcgetwinsize(terminal).map_or(0, |size| usize::from(size.ws_row));
    let screen = if rows == 0 { USUAL_ROWS } else { rows }.saturating_sub(4).max(4);
    let lines: Vec<&str> = told.lines().collect();
    for (at, portion) in lines.chunks(screen).enumerate() {
        if at > 0 {
            let shown = at * screen;
            let more = format!("-- {shown} of {} lines: Enter shows more --", lines.len());
            line(terminal, input, &more)?;
        }
        terminal.write_all(format!("{}\n", portion.join("\n")).as_bytes())?;
    }
    Ok(())
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
