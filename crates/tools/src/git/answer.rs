//! The output of a run of git: its own text, its end, and the files that it changed outside of `.git`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use windlass_core::{Context, Job, JobEnd, Output, ProcessEnd, ProgramChangeReport, ToolError};

use super::hidden;
use super::plan::{DEFAULT_COMMITS, GitPlan};
use crate::format::push_line;
use crate::program::changed::{self, Base};
use crate::program::missing::Missing;
use crate::program::{answer, closing, facts};

/// Limit of the printed bytes that are read.
const MAX_READ_BYTES: u64 = 16 << 20;

/// Remark for a command whose view, with its changes to the repository, was discarded.
const NOT_KEPT: &str = "nothing that git did in the repository is kept";

/// Makes the output of a finished run of git.
pub(super) fn answer(
    cx: &Context,
    plan: &GitPlan,
    top: &Path,
    job: &Job,
    end: &JobEnd,
) -> Result<Output, ToolError> {
    let (mut text, is_cut) = printed_text(cx, job);
    if plan.read_only {
        text = without_hidden_files(cx, plan, top, &text);
    }
    text.truncate(text.trim_end().len());
    let kept_config = remove_config_complaint(plan, &mut text);
    let succeeded = end.cut_off().is_none() && (plan.is_success(end.how) || kept_config);
    if text.is_empty() && succeeded {
        text.push_str(text_for_no_output(plan));
    }
    let end = &without_git_directory(end);
    let mut remarks = Vec::new();
    if kept_config {
        remarks.push(
            "what the configuration of the repository says of the branch was left as it is"
                .to_owned(),
        );
    } else {
        remarks.extend(end_remark(job, end));
    }
    if is_cut {
        remarks.push("the rest was left out".to_owned());
    }
    if plan.has_default_limit() && text.lines().count() >= DEFAULT_COMMITS {
        remarks.push(format!("{DEFAULT_COMMITS} commits at most: `-n` in `args` for more"));
    }
    if let Some(hint) = hint(&text).filter(|_| !succeeded) {
        remarks.push(hint.to_owned());
    }
    if let Ok(changed) = &end.changed {
        remarks.extend(changed::phrases(changed, &Base::of(cx)));
        remarks.extend((changed.is_dropped && !plan.read_only).then(|| NOT_KEPT.to_owned()));
    }
    let closing = closing::line(&remarks);
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

/// Returns the printed text, and whether it was cut at the limit.
fn printed_text(cx: &Context, job: &Job) -> (String, bool) {
    let end = job.printed().min(MAX_READ_BYTES);
    let text = cx.printed(job, 0..end).map(|piece| piece.text).collect();
    (text, end < job.printed())
}

/// Returns the text without the lines of files that are hidden from tools.
fn without_hidden_files(cx: &Context, plan: &GitPlan, top: &Path, text: &str) -> String {
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
    hidden::omit_hidden_files(text, plan.has_graph(), &is_hidden)
}

/// Removes git's complaints about the protected configuration after it renamed or deleted a branch. Returns whether there were any.
fn remove_config_complaint(plan: &GitPlan, text: &mut String) -> bool {
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

/// Returns the text for a successful command that printed nothing.
fn text_for_no_output(plan: &GitPlan) -> &'static str {
    match plan.verb.name {
        "diff" => "no differences",
        "log" => "no commits",
        "stash list" => "no stashes",
        "branch" if plan.read_only => "no branches",
        _ if plan.read_only => "nothing to show",
        _ => "done",
    }
}

/// Returns the end of a run without changes in `.git`, which are git's own.
fn without_git_directory(end: &JobEnd) -> JobEnd {
    let changed = match &end.changed {
        Ok(changed) => {
            let is_own = |path: &Path| path.components().any(|part| part.as_os_str() == ".git");
            let paths = changed.paths.iter().filter(|(path, _)| !is_own(path)).cloned().collect();
            Ok(ProgramChangeReport { paths, ..changed.clone() })
        }
        Err(error) => Err(error.same_kind(error.message().clone())),
    };
    JobEnd { changed, ..*end }
}

/// Describes the end of the run, unless it exited with 0.
fn end_remark(job: &Job, end: &JobEnd) -> Option<String> {
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

/// Returns advice for an error of git, for cases in which git itself gives none.
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

impl GitPlan {
    /// Returns whether an end is a success. With some options exit code 1 is an answer.
    fn is_success(&self, how: ProcessEnd) -> bool {
        match how {
            ProcessEnd::Exited(0) => true,
            ProcessEnd::Exited(1) => self.exit_code_is_answer(),
            _ => false,
        }
    }
}
