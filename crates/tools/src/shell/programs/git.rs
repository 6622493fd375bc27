//! `git`: the commands that look, with the options that are known to do no more; of the others, the words that make git run
//! something else.
//!
//! What the configuration of a repository makes git do (filters, external diffs, `core.fsmonitor`) cannot be seen in the words, so
//! even what looks is run in a sandbox where nothing can be changed.

mod changes;
mod looks;

use windlass_core::{OnlyReads, PathPattern, Search};

use self::changes::{CHANGES, STARTS, TALKS};
use self::looks::{LOOKS, Look, Names, Operands};
use super::bare;
use super::options::{self, Sorted};
use crate::shell::found::{Found, Run, Touch};
use crate::shell::syntax::Word;

/// Options before the command that change nothing about what is run.
const GLOBAL: &[&str] = &[
    "--no-pager",
    "-P",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--no-replace-objects",
    "--icase-pathspecs",
];

/// The options before the command, with those that change what is run.
const GLOBAL_OPTIONS: &str = "\
    C= c= git-dir= work-tree= namespace= exec-path? config-env= super-prefix= P,no-pager p,paginate no-replace-objects no-lazy-fetch \
    no-optional-locks no-advice bare literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs html-path man-path info-path \
    attr-source= h,help v,version list-cmds=";

/// Options of `branch` with which it does more than list.
const CHANGES_BRANCHES: &[&str] =
    &["d", "delete", "D", "m", "move", "M", "c", "copy", "C", "f", "force"];

pub(super) fn git(words: &[Word], found: &mut Found) {
    bare::note(Some(GLOBAL_OPTIONS), words, found);
    let Some((at, place)) = command(words, found) else { return };
    let Some(word) = words.get(at) else { return };
    if word.is_open || word.pattern.is_some() {
        found.risk(at, "is a pattern");
        found.unseen("is given a command that is not literal");
    }
    let look = LOOKS.iter().find(|look| look.name == word.text);
    let (before, unseen) = (found.risks.len(), found.unseen.clone());
    let only_looks = look.is_some_and(|look| looks(look, words, at, &place, found));
    if only_looks {
        found.reads(OnlyReads::InSandbox);
        return;
    }
    // It changes something: then only what makes it run or write something else is a risk.
    if look.is_none_or(|look| !matches!(look.operands, Operands::Any)) {
        found.risks.truncate(before);
        found.unseen = unseen;
    }
    changes(words, at, found);
}

/// Where the command stands, and in which directory it works.
fn command(words: &[Word], found: &mut Found) -> Option<(usize, String)> {
    let mut place = String::new();
    let mut at = 1;
    loop {
        let word = words.get(at)?;
        let text = word.text.as_str();
        match text {
            "--version" | "-v" => {
                found.reads(OnlyReads::InSandbox);
                return None;
            }
            "-C" => {
                let directory = words.get(at + 1)?;
                if directory.pattern.is_some() {
                    found.risk(at + 1, "could be more than one word");
                    found.unseen("is given a command that is not literal");
                }
                place = if directory.text.starts_with('/') || place.is_empty() {
                    directory.text.clone()
                } else {
                    format!("{place}/{}", directory.text)
                };
                found.touch(Touch::Read, PathPattern::tree(&place));
                at += 2;
            }
            _ if GLOBAL.contains(&text) => at += 1,
            _ if text.starts_with('-') || word.could_be_option() => {
                found.risk(at, "changes what git runs");
                found.unseen("is told to run something else");
                // Whatever follows may be its value: `-c` is the usual one.
                at += if matches!(
                    text,
                    "-c" | "--git-dir"
                        | "--work-tree"
                        | "--namespace"
                        | "--exec-path"
                        | "--config-env"
                        | "--super-prefix"
                ) {
                    2
                } else {
                    1
                };
            }
            _ => return Some((at, place)),
        }
    }
}

/// Whether a command of this name does nothing but look, by its words.
fn looks(look: &Look, words: &[Word], at: usize, place: &str, found: &mut Found) -> bool {
    let before = found.risks.len();
    let sorted = options::sort(look.options, words, at + 1, found);
    let is_known = found.risks.len() == before;
    let fits = fits(look, words, at, &sorted);
    let mut options = words.iter().skip(at + 1).take_while(|word| word.text != "--");
    if let Some(index) = options.position(Word::could_be_option) {
        found.risk(at + 1 + index, "could become an option");
        found.unseen("is given words that could become options");
    }
    note_files(look, words, &sorted, place, found);
    if matches!(look.name, "grep" | "ls-files") {
        let place = if place.is_empty() { "." } else { place };
        found.searches.push(Search::tree(place));
    }
    is_known && fits
}

/// Tells whether the words of a command that may change something say that it only looks.
fn fits(look: &Look, words: &[Word], at: usize, sorted: &Sorted) -> bool {
    let operand = |index: usize| sorted.operands.get(index).and_then(|at| words.get(*at));
    match look.operands {
        Operands::Any => true,
        Operands::None => sorted.operands.is_empty(),
        // A name has a section: `git config edit` is a command.
        Operands::Setting => {
            let is_setting = operand(0).is_none_or(|word| word.text.contains('.'));
            sorted.operands.len() <= 1 && is_setting
        }
        Operands::AtMost(most) => sorted.operands.len() <= most,
        Operands::NoneOr(options) => {
            (sorted.operands.is_empty() || sorted.has(options)) && !sorted.has(CHANGES_BRANCHES)
        }
        // Behind an option or two dashes it may be no command: `git stash -- list` puts away the file `list`.
        Operands::First(known) => {
            words.get(at + 1).is_some_and(|word| known.contains(&&*word.text))
        }
        Operands::FirstOrNone(known) => {
            operand(0).is_none_or(|word| known.contains(&&*word.text)) && sorted.dashes.is_none()
        }
    }
}

/// Notes the files that a command may show: those that its words name, and those of `HEAD:path`.
fn note_files(look: &Look, words: &[Word], sorted: &Sorted, place: &str, found: &mut Found) {
    let (skip, are_paths) = match look.words {
        Names::Nothing => return,
        Names::Files => (0, false),
        Names::Paths => (0, true),
        Names::PatternThenFiles => (usize::from(!sorted.has(&["e", "f"])), false),
    };
    for at in sorted.operands.iter().skip(skip) {
        let Some(word) = words.get(*at) else { continue };
        // Before two dashes nothing but revisions can stand.
        let is_revision = sorted.dashes.is_some_and(|dashes| *at < dashes);
        let is_path = are_paths || (sorted.dashes.is_some() && !is_revision);
        let named = if is_path {
            Some(pathspec(&word.text))
        } else {
            file_in_revision(&word.text).or((!is_revision).then_some(&*word.text))
        };
        let Some(name) = named.filter(|name| !name.is_empty() && !name.starts_with('^')) else {
            continue;
        };
        let path = if name.starts_with('/') || place.is_empty() {
            name.to_owned()
        } else {
            format!("{place}/{name}")
        };
        found.touch(Touch::Read, PathPattern::tree(path));
    }
}

/// The path in `HEAD:path`, `:path`, `:0:path`; empty in `:/text`, which looks for a message, unless it is a path from the top.
fn file_in_revision(text: &str) -> Option<&str> {
    if text.starts_with(":(") || text.starts_with(":/") || text.starts_with(":!") {
        return Some(pathspec(text));
    }
    // `HEAD^{/a:b}` has a colon of its own.
    let mut depth = 0_usize;
    let colon = text.char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (c == ':' && depth == 0).then_some(at)
    })?;
    let path = text.get(colon + 1..)?;
    let stage = path.strip_prefix(['0', '1', '2', '3']).and_then(|rest| rest.strip_prefix(':'));
    Some(stage.filter(|_| colon == 0).unwrap_or(path))
}

/// The path in `:/path`, `:(top)path` and the like; empty where it is left out by `:!path`.
fn pathspec(text: &str) -> &str {
    let Some(magic) = text.strip_prefix(':') else { return text };
    if let Some((words, path)) = magic.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        return if words.contains("exclude") { "" } else { path };
    }
    let path = magic.trim_start_matches(['/', '!', '^', ':']);
    let signs = magic.get(..magic.len() - path.len()).unwrap_or_default();
    if signs.contains(['!', '^']) { "" } else { path }
}

/// What the words of a command that changes something make git do besides.
fn changes(words: &[Word], at: usize, found: &mut Found) {
    let name = words.get(at).map_or("", |word| word.text.as_str());
    let known = CHANGES.iter().find(|(known, _)| *known == name);
    if let Some((_, tables)) = known {
        options::sort(tables, words, at + 1, found);
    }
    for (index, word) in words.iter().enumerate().skip(at + 1) {
        if TALKS.contains(&name) && word.text.contains("::") {
            found.risk(index, "makes git run something else");
            found.unseen("is told to run something else");
        }
        if word.could_be_option() {
            found.risk(index, "could become an option");
            found.unseen("is given words that could become options");
        }
    }
    if matches!(name, "rm" | "clean") {
        found.acts_as.push("rm");
    }
    let is_other = known.is_none() && LOOKS.iter().all(|look| look.name != name);
    if STARTS.contains(&name) || is_other {
        found.risk(
            at,
            if is_other { "may be another name for anything" } else { "runs another program" },
        );
        found.unseen("runs another program");
    }
    verb_of(name, words, at, found);
}

/// Commands whose next word says what is done.
fn verb_of(name: &str, words: &[Word], at: usize, found: &mut Found) {
    let second = words.get(at + 1).map_or("", |word| word.text.as_str());
    match (name, second) {
        ("bisect", "run") => {
            found.risk(at + 1, "runs another program");
            let inner = words.get(at + 2..).unwrap_or_default();
            found.runs.push(Run { words: inner.to_vec(), more: false, paths: false });
        }
        // It joins its words for a shell.
        ("submodule", "foreach") => {
            found.risk(at + 1, "runs another program");
            let inner = words.get(at + 2..).unwrap_or_default();
            let is_open = inner.iter().any(|word| word.is_open || word.pattern.is_some());
            let inner = inner.iter().skip_while(|word| word.text.starts_with('-'));
            let text: Vec<&str> = inner.map(|word| word.text.as_str()).collect();
            found.scripts.push(Word { is_open, ..Word::literal(&text.join(" ")) });
        }
        // To name the setting is not enough: it is the value that can be a program.
        ("config", _) => {
            found.risk(words.len() - 1, "can make git run other programs later");
            found.unseen("can make git run other programs later");
        }
        (
            "remote" | "stash" | "branch" | "tag" | "worktree" | "reflog" | "submodule" | "notes"
            | "bisect",
            verb,
        ) if !verb.is_empty() => {
            found.risk(at + 1, "changes the repository");
        }
        _ => {}
    }
}
