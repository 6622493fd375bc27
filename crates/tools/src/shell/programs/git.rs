//! `git`: the commands that look, with the options that are known to do no more; of the others, the words that make git run
//! something else.
//!
//! What the configuration of a repository makes git do (filters, external diffs, `core.fsmonitor`) cannot be seen in the words, so
//! even what looks is run in a sandbox where nothing can be changed.

mod looks;

use windlass_core::{OnlyReads, PathPattern, Search};

use self::looks::{LOOKS, Look, Operands};
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

/// Commands that change something. What is not a command of git may be an alias of the repository.
const CHANGES: &[&str] = &[
    "add",
    "am",
    "apply",
    "archive",
    "bisect",
    "bundle",
    "checkout",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "fetch",
    "format-patch",
    "gc",
    "init",
    "merge",
    "mv",
    "notes",
    "pull",
    "push",
    "rebase",
    "reset",
    "restore",
    "revert",
    "rm",
    "sparse-checkout",
    "submodule",
    "switch",
    "update-index",
    "update-ref",
    "ls-remote",
    "fsck",
    "prune",
    "repack",
    "maintenance",
    "read-tree",
    "write-tree",
    "commit-tree",
    "hash-object",
    "checkout-index",
];

/// Options of `branch` with which it does more than list.
const CHANGES_BRANCHES: &[&str] =
    &["d", "delete", "D", "m", "move", "M", "c", "copy", "C", "f", "force"];

pub(super) fn git(words: &[Word], found: &mut Found) {
    let Some((at, place)) = command(words, found) else { return };
    let Some(word) = words.get(at) else { return };
    if word.is_open || word.pattern.is_some() {
        found.risk(at, "is a pattern");
    }
    let look = LOOKS.iter().find(|look| look.name == word.text);
    let before = found.risks.len();
    let only_looks = look.is_some_and(|look| looks(look, words, at, &place, found));
    if only_looks {
        found.reads(OnlyReads::InSandbox);
        return;
    }
    // It changes something: then only what makes it run or write something else is a risk.
    if look.is_none_or(|look| !matches!(look.operands, Operands::Any)) {
        found.risks.truncate(before);
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
    let first = sorted
        .operands
        .first()
        .and_then(|first| words.get(*first))
        .map_or("", |word| word.text.as_str());
    let fits = match look.operands {
        Operands::Any => true,
        Operands::AtMost(most) => sorted.operands.len() <= most,
        Operands::NoneOr(options) => {
            (sorted.operands.is_empty() || sorted.has(options)) && !sorted.has(CHANGES_BRANCHES)
        }
        Operands::First(known) => {
            // Without a word `stash` puts away, and `worktree` says how it is used.
            let is_usual = first.is_empty() && known.first() != Some(&"list");
            is_usual || known.contains(&first)
        }
    };
    note_files(words, &sorted, place, found);
    if matches!(look.name, "grep" | "ls-files") {
        let place = if place.is_empty() { "." } else { place };
        found.searches.push(Search::tree(place));
    }
    is_known && fits
}

/// Whatever a word of it could be as a file, it may show: also `HEAD:path`.
fn note_files(words: &[Word], sorted: &Sorted, place: &str, found: &mut Found) {
    for word in sorted.operands.iter().filter_map(|at| words.get(*at)) {
        if is_remote(&word.text) {
            continue;
        }
        let text = word.text.rsplit_once(':').map_or(word.text.as_str(), |(_, path)| path);
        for name in [word.text.as_str(), text] {
            let path = if name.starts_with('/') || place.is_empty() {
                name.to_owned()
            } else {
                format!("{place}/{name}")
            };
            if !name.is_empty() && !name.starts_with('!') && !name.starts_with('^') {
                found.touch(Touch::Read, PathPattern::tree(path));
            }
        }
    }
}

/// An address of another machine, which is no file.
fn is_remote(text: &str) -> bool {
    ["https://", "http://", "ssh://", "git://"].iter().any(|scheme| text.starts_with(scheme))
}

/// Words of a command that changes something, with which it does something else too.
fn changes(words: &[Word], at: usize, found: &mut Found) {
    const OPTIONS: &[&str] = &[
        "-c",
        "--config",
        "--exec",
        "-x",
        "--extcmd",
        "--upload-pack",
        "--receive-pack",
        "--output",
        "--template",
        "--textconv",
        "--ext-diff",
        "--open-files-in-pager",
        "-O",
        "--run",
        "--edit-description",
        "--remote",
        "--separate-git-dir",
        "--reference",
        "-u",
        "--hook",
        "--index-filter",
        "--tree-filter",
        "--msg-filter",
        "--command",
        "-o",
        "-S",
        "--gpg-sign",
        "--git-dir",
        "--work-tree",
        "--recurse-submodules",
        "--file",
        "-F",
    ];
    let name = words.get(at).map_or("", |word| word.text.as_str());
    for (index, word) in words.iter().enumerate().skip(at + 1) {
        let text = word.text.as_str();
        let is_option = |option: &str| match option.strip_prefix("--") {
            // The names of long options can be cut short.
            Some(long) => text.strip_prefix("--").is_some_and(|given| {
                let given = given.split('=').next().unwrap_or(given);
                given.len() > 1 && long.starts_with(given)
            }),
            None => text.starts_with(option) && !(name == "push" && option == "-u"),
        };
        if OPTIONS.iter().any(|option| is_option(option)) || text.contains("::") {
            found.risk(index, "makes git run or write something else");
        }
        if word.could_be_option() {
            found.risk(index, "could become an option");
        }
    }
    if matches!(name, "rm" | "clean") {
        found.acts_as.push("rm");
    }
    let second = words.get(at + 1).map_or("", |word| word.text.as_str());
    match (name, second) {
        ("bisect", "run") | ("submodule", "foreach") => {
            found.risk(at + 1, "runs another program");
            let inner = words.get(at + 2..).unwrap_or_default();
            found.runs.push(Run { words: inner.to_vec(), more: true });
        }
        // To name the setting is not enough: it is the value that can be a program.
        ("config", _) => found.risk(words.len() - 1, "can make git run other programs later"),
        (
            "remote" | "stash" | "branch" | "tag" | "worktree" | "reflog" | "submodule" | "notes"
            | "bisect",
            verb,
        ) if !verb.is_empty() => {
            found.risk(at + 1, "changes the repository");
        }
        (
            "difftool" | "mergetool" | "filter-branch" | "instaweb" | "help" | "gui" | "citool"
            | "daemon" | "shell",
            _,
        ) => {
            found.risk(at, "runs another program");
        }
        (name, _) if !CHANGES.contains(&name) && LOOKS.iter().all(|look| look.name != name) => {
            found.risk(at, "may be another name for anything");
        }
        _ => {}
    }
}
