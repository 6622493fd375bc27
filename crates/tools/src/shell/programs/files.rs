//! Programs that change files. That is their purpose, so a change is no risk but an effect on the paths that they name.

use std::path::Path;

use super::options::{self, ParsedOptions};
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// The use that a program makes of the files in its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::shell) enum FileUse {
    Remove,
    Create,
    /// Changes attributes. The first operand is a mode or an owner.
    SetAttributes,
    /// Reads the operands and writes the last one, unless an option names the target.
    Copy,
    /// Links the operands to the last one. A symbolic link reads nothing.
    Link,
}

/// Adds the file accesses of such a program. `file_use` and `options` are those of its row.
pub(super) fn note_changes(
    name: &str,
    file_use: FileUse,
    options: &'static str,
    words: &[Word],
    facts: &mut CommandFacts,
) {
    let parsed = options::parse(&[options], words, 1, facts);
    let operands: Vec<&Word> = parsed.operands.iter().filter_map(|at| words.get(*at)).collect();
    match file_use {
        FileUse::Remove => {
            // `rmdir` removes only empty directories, so a rule for `rm` does not cover it.
            if name != "rmdir" {
                facts.acts_as.push("rm");
            }
            for word in operands {
                facts.add_tree_delete(word);
            }
        }
        FileUse::Create => operands.iter().for_each(|word| facts.add_write(word)),
        FileUse::SetAttributes => {
            // `chmod -x f` has its mode among the options.
            let has_mode =
                parsed.has(&["r", "w", "x", "X", "s", "t", "u", "g", "o", "a", "reference"]);
            operands
                .iter()
                .skip(usize::from(!has_mode))
                .for_each(|word| facts.add_tree_write(word));
        }
        FileUse::Link if parsed.has(&["symbolic"]) => note_symlinks(&parsed, operands, facts),
        FileUse::Copy | FileUse::Link => note_copy(name, &parsed, operands, facts),
    }
}

/// Adds the accesses of `cp`, `mv`, `install` and `ln` with hard links.
fn note_copy(
    name: &str,
    parsed: &ParsedOptions,
    mut operands: Vec<&Word>,
    facts: &mut CommandFacts,
) {
    let mut has_target = false;
    for (at, target) in parsed.values("t") {
        has_target = true;
        facts.add_risk(at, "names the target directory");
        facts.add_tree_write(target);
    }
    if name == "install" && parsed.has(&["directory"]) {
        for word in operands {
            facts.add_tree_write(word);
        }
        return;
    }
    if !has_target
        && operands.len() > 1
        && let Some(to) = operands.pop()
    {
        facts.add_tree_write(to);
    }
    for from in operands {
        facts.add_tree_read(from);
        if name == "mv" {
            facts.add_tree_delete(from);
        }
    }
}

/// Adds the links of `ln -s`, which reads nothing. A later command of the script may read through them.
fn note_symlinks(parsed: &ParsedOptions, mut targets: Vec<&Word>, facts: &mut CommandFacts) {
    let mut destinations = Vec::new();
    for (at, destination) in parsed.values("t") {
        facts.add_risk(at, "names the target directory");
        destinations.push(destination);
    }
    if destinations.is_empty() && targets.len() > 1 {
        destinations.extend(targets.pop());
    }
    for destination in &destinations {
        facts.add_tree_write(destination);
    }
    for target in targets {
        let name = target.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if destinations.is_empty() {
            facts.add_write(&Word { text: name.to_owned(), ..target.clone() });
            facts.links.push((name.into(), target.text.clone().into()));
        }
        for destination in &destinations {
            // The link goes into a directory of this name, if there is one.
            if !matches!(name, "" | "." | "..") {
                let inside = Path::new(&destination.text).join(name);
                facts.links.push((inside, target.text.clone().into()));
            }
            facts.links.push((destination.text.clone().into(), target.text.clone().into()));
        }
    }
}

/// Adds the accesses of `dd`: `if=` is read, `of=` is written.
pub(super) fn dd(words: &[Word], facts: &mut CommandFacts) {
    for (at, word) in words.iter().enumerate().skip(1) {
        let of = |key: &str| word.text.strip_prefix(key).filter(|_| !word.is_incomplete);
        if let Some(from) = of("if=") {
            facts.add_read(&Word::literal(from));
        }
        if let Some(to) = of("of=") {
            facts.add_risk(at, "writes a file");
            facts.add_write(&Word::literal(to));
        }
    }
}
