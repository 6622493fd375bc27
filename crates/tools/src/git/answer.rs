//! What is said of a run of git: its own text, how it ended, and which files it changed besides its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use windlass_core::{Changed, Context, Job, JobEnd, Output, ProcessEnd, ToolError};

use super::hidden;
use super::plan::{COMMITS, Plan};
use crate::format::push_line;
use crate::program::changed::{self, Base};
use crate::program::missing::Missing;
use crate::program::{answer, closing, facts};

/// How much of what git printed is looked at.
const LOOKED_AT: u64 = 16 << 20;

/// Said where git worked on a view that was thrown away.
const NOT_KEPT: &str = "nothing that git did in the repository is kept";

pub(super) fn answer(
    cx: &Context,
    plan: &Plan,
    top: &Path,
    job: &Job,
    end: &JobEnd,
) -> Result<Output, ToolError> {
    let (mut text, is_cut) = printed(cx, job);
    if plan.looks {
        text = visible(cx, plan, top, &text);
    }
    text.truncate(text.trim_end().len());
    let kept_config = take_config_complaint(plan, &mut text);
    let succeeded = end.cut_off().is_none() && (plan.is_success(end.how) || kept_config);
    if text.is_empty() && succeeded {
        text.push_str(silence(plan));
    }
    let end = &without_its_own(end);
    let mut said = Vec::new();
    if kept_config {
        said.push(
            "what the configuration of the repository says of the branch was left as it is"
                .to_owned(),
        );
    } else {
        said.extend(how(job, end));
    }
    if is_cut {
        said.push("the rest was left out".to_owned());
    }
    if plan.is_cut() && text.lines().count() >= COMMITS {
        said.push(format!("{COMMITS} commits at most: `-n` in `args` for more"));
    }
    if let Some(hint) = hint(&text).filter(|_| !succeeded) {
        said.push(hint.to_owned());
    }
    if let Ok(changed) = &end.changed {
        said.extend(changed::phrases(changed, &Base::of(cx)));
        said.extend((changed.is_dropped && !plan.looks).then(|| NOT_KEPT.to_owned()));
    }
    let closing = closing::line(&said);
    if !closing.is_empty() {
        push_line(&mut text, &closing);
    }
    let missing = if succeeded { Missing::default() } else { Missing::of(cx, job) };
    missing.append_to(&mut text);
    let dropped = end.changed.as_ref().err();
    if let Some(error) = dropped {
        answer::append_drop_reason(&mut text, error)?;
    }
    let output = Output {
        is_error: !succeeded || dropped.is_some(),
        outcome: end.cut_off(),
        ..Output::text(text)
    };
    let output = answer::with_refusal(output, dropped);
    Ok(missing.facts(facts(output, cx, Some(end))).with("truncated", is_cut))
}

/// What was printed, and whether that is not all.
fn printed(cx: &Context, job: &Job) -> (String, bool) {
    let end = job.printed().min(LOOKED_AT);
    let text = cx.printed(job, 0..end).map(|piece| piece.text).collect();
    (text, end < job.printed())
}

/// The text without the lines of files that no tool may see.
fn visible(cx: &Context, plan: &Plan, top: &Path, text: &str) -> String {
    let known: RefCell<HashMap<PathBuf, bool>> = RefCell::default();
    let is_hidden = |name: &Path| {
        let path = top.join(name);
        if let Some(is) = known.borrow().get(&path) {
            return *is;
        }
        let is = !name.as_os_str().is_empty() && cx.files().is_hidden(&path);
        known.borrow_mut().insert(path, is);
        is
    };
    hidden::leave_out(text, plan.has_graph(), &is_hidden)
}

/// Takes out what git says of the configuration, which is protected, when it has renamed or deleted a branch; whether it did so.
fn take_config_complaint(plan: &Plan, text: &mut String) -> bool {
    const COMPLAINTS: [&str; 4] = [
        "error: could not write config file",
        "error: could not lock config file",
        "warning: update of config-file failed",
        "fatal: branch is renamed, but update of config-file failed",
    ];
    let is_complaint = |line: &&str| COMPLAINTS.iter().any(|begin| line.starts_with(begin));
    let has_complained =
        plan.verb.name == "branch" && text.contains("update of config-file failed");
    if has_complained {
        let rest: Vec<&str> = text.lines().filter(|line| !is_complaint(line)).collect();
        *text = rest.join("\n");
    }
    has_complained
}

/// What is said where git says nothing.
fn silence(plan: &Plan) -> &'static str {
    match plan.verb.name {
        "diff" => "no differences",
        "log" => "no commits",
        "stash list" => "no stashes",
        "branch" if plan.looks => "no branches",
        _ if plan.looks => "nothing to show",
        _ => "done",
    }
}

/// The end of a run without what changed in `.git`: that is git's own affair.
fn without_its_own(end: &JobEnd) -> JobEnd {
    let changed = match &end.changed {
        Ok(changed) => {
            let is_own = |path: &Path| path.components().any(|part| part.as_os_str() == ".git");
            let paths = changed.paths.iter().filter(|(path, _)| !is_own(path)).cloned().collect();
            Ok(Changed { paths, ..changed.clone() })
        }
        Err(error) => Err(error.same_kind(error.message().clone())),
    };
    JobEnd { changed, ..*end }
}

/// How it ended, if not as it should.
fn how(job: &Job, end: &JobEnd) -> Option<String> {
    match end.how {
        _ if end.timed_out => {
            let after = job.limit().map(closing::limit_seconds).unwrap_or_default();
            Some(format!("timed out after {after}"))
        }
        _ if end.is_interrupted => {
            Some(format!("interrupted after {}", closing::seconds(end.duration)))
        }
        ProcessEnd::Exited(0) => None,
        how => Some(how.to_string()),
    }
}

/// What to do about what git complains of, where that is not what git itself advises.
fn hint(text: &str) -> Option<&'static str> {
    const HINTS: [(&str, &str); 5] = [
        (
            "identity",
            "whose commits these are must be configured by a person: `git config --global user.name` and `user.email`",
        ),
        ("empty ident name", "`git config --global user.name` must be set, by a person"),
        (
            "could not lock config file",
            "the configuration of a repository can only be changed by a person",
        ),
        (
            "Read-only file system",
            "the repository lies outside of the workspace, or is protected, and cannot be changed from here",
        ),
        (
            "index.lock': File exists",
            "another git is at work, or one was killed: then remove the file",
        ),
    ];
    HINTS.iter().find(|(words, _)| text.contains(words)).map(|(_, hint)| *hint)
}

impl Plan {
    /// Whether an end is a good one: with some options git answers by its exit code.
    fn is_success(&self, how: ProcessEnd) -> bool {
        match how {
            ProcessEnd::Exited(0) => true,
            ProcessEnd::Exited(1) => self.answers_by_code(),
            _ => false,
        }
    }
}
