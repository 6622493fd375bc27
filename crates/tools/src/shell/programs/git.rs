//! `git`: for commands that only read, the options that are known to be harmless; for the others, the words that make git run another
//! program.
//!
//! The configuration of a repository can make git run programs (filters, external diffs, `core.fsmonitor`), and the words do not show it.
//! So even a command that only reads runs in a sandbox in which it can change nothing.

mod changes;
mod read_only;

use windlass_core::{CommandSearch, OnlyReads, PathPattern};

use self::changes::{CHANGING_COMMANDS, PROGRAM_STARTING_COMMANDS, REMOTE_COMMANDS};
use self::read_only::{OperandNames, READ_ONLY_COMMANDS, ReadOnlyCommand, ReadOnlyIf};
use super::bare_forms;
use super::options::{self, ParsedOptions};
use crate::shell::command_facts::{CommandFacts, FileAccess, InnerCommand};
use crate::shell::syntax::Word;

/// Options before the subcommand that do not change which programs run.
const HARMLESS_GLOBAL_FLAGS: &[&str] = &[
    "--no-pager",
    "-P",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--no-replace-objects",
    "--icase-pathspecs",
];

/// The table of all options before the subcommand.
const GLOBAL_OPTIONS: &str = "\
    C= c= git-dir= work-tree= namespace= exec-path? config-env= super-prefix= P,no-pager p,paginate no-replace-objects no-lazy-fetch \
    no-optional-locks no-advice bare literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs html-path man-path info-path \
    attr-source= h,help v,version list-cmds=";

/// Options of `git branch` that change branches.
const BRANCH_CHANGE_OPTIONS: &[&str] =
    &["d", "delete", "D", "m", "move", "M", "c", "copy", "C", "f", "force"];

/// Adds the facts about a `git` command.
pub(super) fn git(words: &[Word], facts: &mut CommandFacts) {
    bare_forms::note(Some(GLOBAL_OPTIONS), words, facts);
    let Some((at, base_directory)) = find_subcommand(words, facts) else { return };
    let Some(word) = words.get(at) else { return };
    if word.is_incomplete || word.glob_at.is_some() {
        facts.add_risk(at, "is a pattern");
        facts.mark_unseen("gets a subcommand that is not literal");
    }
    let row = READ_ONLY_COMMANDS.iter().find(|row| row.name == word.text);
    let (before, unseen) = (facts.risks.len(), facts.unseen.clone());
    let only_reads = row.is_some_and(|row| is_read_only(row, words, at, &base_directory, facts));
    if only_reads {
        facts.set_only_reads(OnlyReads::InSandbox);
        return;
    }
    // The command changes something: then only words that make it run or write something else are a risk.
    if row.is_none_or(|row| !matches!(row.read_only_if, ReadOnlyIf::Any)) {
        facts.risks.truncate(before);
        facts.unseen = unseen;
    }
    note_change_risks(words, at, facts);
}

/// Returns the index of the subcommand and the directory of `-C`, which is empty without that option; `None` without a subcommand.
fn find_subcommand(words: &[Word], facts: &mut CommandFacts) -> Option<(usize, String)> {
    let mut base_directory = String::new();
    let mut at = 1;
    loop {
        let word = words.get(at)?;
        let text = word.text.as_str();
        match text {
            "--version" | "-v" => {
                facts.set_only_reads(OnlyReads::InSandbox);
                return None;
            }
            "-C" => {
                let directory = words.get(at + 1)?;
                if directory.glob_at.is_some() {
                    facts.add_risk(at + 1, "could be more than one word");
                    facts.mark_unseen("gets a subcommand that is not literal");
                }
                base_directory = if directory.text.starts_with('/') || base_directory.is_empty() {
                    directory.text.clone()
                } else {
                    format!("{base_directory}/{}", directory.text)
                };
                facts.add_access(FileAccess::Read, PathPattern::tree(&base_directory));
                at += 2;
            }
            _ if HARMLESS_GLOBAL_FLAGS.contains(&text) => at += 1,
            _ if text.starts_with('-') || word.could_be_option() => {
                facts.add_risk(at, "changes what git runs");
                facts.mark_unseen("is told to run something else");
                // The next word may be the value of the option: `-c` is the usual one.
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
            _ => return Some((at, base_directory)),
        }
    }
}

/// Returns whether the command only reads, according to its row and its words, and notes the files that it shows.
fn is_read_only(
    row: &ReadOnlyCommand,
    words: &[Word],
    at: usize,
    base_directory: &str,
    facts: &mut CommandFacts,
) -> bool {
    let before = facts.risks.len();
    let parsed = options::parse(row.options, words, at + 1, facts);
    let is_known = facts.risks.len() == before;
    let fits = operands_fit(row, words, at, &parsed);
    let mut options = words.iter().skip(at + 1).take_while(|word| word.text != "--");
    if let Some(index) = options.position(Word::could_be_option) {
        facts.add_risk(at + 1 + index, "could become an option");
        facts.mark_unseen("gets arguments that could become options");
    }
    note_files(row, words, &parsed, base_directory, facts);
    if matches!(row.name, "grep" | "ls-files") {
        let base_directory = if base_directory.is_empty() { "." } else { base_directory };
        facts.searches.push(CommandSearch::tree(base_directory));
    }
    is_known && fits
}

/// Returns whether the operands meet the condition under which the command only reads.
fn operands_fit(row: &ReadOnlyCommand, words: &[Word], at: usize, parsed: &ParsedOptions) -> bool {
    let operand = |index: usize| parsed.operands.get(index).and_then(|at| words.get(*at));
    match row.read_only_if {
        ReadOnlyIf::Any => true,
        ReadOnlyIf::None => parsed.operands.is_empty(),
        // A name has a section: `git config edit` is a command.
        ReadOnlyIf::Setting => {
            let is_setting = operand(0).is_none_or(|word| word.text.contains('.'));
            parsed.operands.len() <= 1 && is_setting
        }
        ReadOnlyIf::AtMost(most) => parsed.operands.len() <= most,
        ReadOnlyIf::NoneOr(options) => {
            (parsed.operands.is_empty() || parsed.has(options))
                && !parsed.has(BRANCH_CHANGE_OPTIONS)
        }
        // Behind an option or two dashes it may be no command: `git stash -- list` puts away the file `list`.
        ReadOnlyIf::First(known) => {
            words.get(at + 1).is_some_and(|word| known.contains(&&*word.text))
        }
        ReadOnlyIf::FirstOrNone(known) => {
            operand(0).is_none_or(|word| known.contains(&&*word.text)) && parsed.dashes.is_none()
        }
    }
}

/// Adds reads of the files that the command may show: those that its operands name, and the path in `HEAD:path`.
fn note_files(
    row: &ReadOnlyCommand,
    words: &[Word],
    parsed: &ParsedOptions,
    base_directory: &str,
    facts: &mut CommandFacts,
) {
    let (skip, are_paths) = match row.names {
        OperandNames::Nothing => return,
        OperandNames::Files => (0, false),
        OperandNames::Paths => (0, true),
        OperandNames::PatternThenFiles => (usize::from(!parsed.has(&["e", "f"])), false),
    };
    for at in parsed.operands.iter().skip(skip) {
        let Some(word) = words.get(*at) else { continue };
        // Before two dashes only revisions can stand.
        let is_revision = parsed.dashes.is_some_and(|dashes| *at < dashes);
        let is_path = are_paths || (parsed.dashes.is_some() && !is_revision);
        let named = if is_path {
            Some(pathspec(&word.text))
        } else {
            file_in_revision(&word.text).or((!is_revision).then_some(&*word.text))
        };
        let Some(name) = named.filter(|name| !name.is_empty() && !name.starts_with('^')) else {
            continue;
        };
        let path = if name.starts_with('/') || base_directory.is_empty() {
            name.to_owned()
        } else {
            format!("{base_directory}/{name}")
        };
        facts.add_access(FileAccess::Read, PathPattern::tree(path));
    }
}

/// Returns the path in `HEAD:path`, `:path` or `:0:path`; `None` without a colon.
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

/// Returns the path in a pathspec such as `:/path` or `:(top)path`; empty if the pathspec excludes the path.
fn pathspec(text: &str) -> &str {
    let Some(magic) = text.strip_prefix(':') else { return text };
    if let Some((words, path)) = magic.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        return if words.contains("exclude") { "" } else { path };
    }
    let path = magic.trim_start_matches(['/', '!', '^', ':']);
    let signs = magic.get(..magic.len() - path.len()).unwrap_or_default();
    if signs.contains(['!', '^']) { "" } else { path }
}

/// Adds the risks of a command that changes something: words that make git run another program.
fn note_change_risks(words: &[Word], at: usize, facts: &mut CommandFacts) {
    let name = words.get(at).map_or("", |word| word.text.as_str());
    let known = CHANGING_COMMANDS.iter().find(|(known, _)| *known == name);
    if let Some((_, tables)) = known {
        options::parse(tables, words, at + 1, facts);
    }
    for (index, word) in words.iter().enumerate().skip(at + 1) {
        if REMOTE_COMMANDS.contains(&name) && word.text.contains("::") {
            facts.add_risk(index, "makes git run something else");
            facts.mark_unseen("is told to run something else");
        }
        if word.could_be_option() {
            facts.add_risk(index, "could become an option");
            facts.mark_unseen("gets arguments that could become options");
        }
    }
    if matches!(name, "rm" | "clean") {
        facts.acts_as.push("rm");
    }
    let is_other = known.is_none() && READ_ONLY_COMMANDS.iter().all(|row| row.name != name);
    if PROGRAM_STARTING_COMMANDS.contains(&name) || is_other {
        facts.add_risk(
            at,
            if is_other { "may be an alias for any command" } else { "runs another program" },
        );
        facts.mark_unseen("runs another program");
    }
    note_verb_risks(name, words, at, facts);
}

/// Adds the risks of commands whose next word is a verb, such as `git bisect run`.
fn note_verb_risks(name: &str, words: &[Word], at: usize, facts: &mut CommandFacts) {
    let second = words.get(at + 1).map_or("", |word| word.text.as_str());
    match (name, second) {
        ("bisect", "run") => {
            facts.add_risk(at + 1, "runs another program");
            let inner = words.get(at + 2..).unwrap_or_default();
            facts.inner_commands.push(InnerCommand {
                words: inner.to_vec(),
                has_unknown_words: false,
                unknown_words_are_paths: false,
            });
        }
        // Git joins these words into a script for a shell.
        ("submodule", "foreach") => {
            facts.add_risk(at + 1, "runs another program");
            let inner = words.get(at + 2..).unwrap_or_default();
            let is_incomplete =
                inner.iter().any(|word| word.is_incomplete || word.glob_at.is_some());
            let inner = inner.iter().skip_while(|word| word.text.starts_with('-'));
            let text: Vec<&str> = inner.map(|word| word.text.as_str()).collect();
            facts.scripts.push(Word { is_incomplete, ..Word::literal(&text.join(" ")) });
        }
        // A rule that names the setting is not enough: its value can be a program.
        ("config", _) => {
            facts.add_risk(words.len() - 1, "can make git run other programs later");
            facts.mark_unseen("can make git run other programs later");
        }
        (
            "remote" | "stash" | "branch" | "tag" | "worktree" | "reflog" | "submodule" | "notes"
            | "bisect",
            verb,
        ) if !verb.is_empty() => {
            facts.add_risk(at + 1, "changes the repository");
        }
        _ => {}
    }
}
