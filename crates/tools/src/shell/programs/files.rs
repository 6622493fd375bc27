//! Programs that change files. That is their purpose, so a change is no risk but an effect on the paths that they name.

use std::path::Path;

use super::options::{self, ParsedOptions};
use crate::shell::command_facts::CommandFacts;
use crate::shell::syntax::Word;

/// The use that a program makes of the files in its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileUse {
    Remove,
    Create,
    /// Changes attributes. The first operand is a mode or an owner.
    SetAttributes,
    /// Reads the operands and writes the last one, unless an option names the target.
    Copy,
    /// Links the operands to the last one. A symbolic link reads nothing.
    Link,
}

/// The programs by name, with the use of their operands and their option table.
const FILE_PROGRAMS: &[(&str, FileUse, &str)] = &[
    (
        "rm",
        FileUse::Remove,
        "f,force i I interactive? one-file-system no-preserve-root preserve-root? r,R,recursive d,dir v,verbose",
    ),
    ("rmdir", FileUse::Remove, "ignore-fail-on-non-empty p,parents v,verbose"),
    ("unlink", FileUse::Remove, ""),
    (
        "shred",
        FileUse::Remove,
        "f,force n,iterations= random-source=< s,size= u remove? v,verbose x,exact z,zero",
    ),
    ("mkdir", FileUse::Create, "m,mode= p,parents v,verbose Z context?"),
    ("touch", FileUse::Create, "a c,no-create d,date= f h,no-dereference m r,reference=< t= time="),
    ("tee", FileUse::Create, "a,append i,ignore-interrupts p output-error?"),
    ("truncate", FileUse::Create, "c,no-create o,io-blocks r,reference=< s,size="),
    ("mkfifo", FileUse::Create, "m,mode= Z context?"),
    (
        "chmod",
        FileUse::SetAttributes,
        "c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference=< R,recursive h,no-dereference dereference H L P r w x X s t u g o a",
    ),
    (
        "chown",
        FileUse::SetAttributes,
        "c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference=< R,recursive h,no-dereference dereference from= H L P",
    ),
    (
        "chgrp",
        FileUse::SetAttributes,
        "c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference=< R,recursive h,no-dereference dereference H L P",
    ),
    (
        "cp",
        FileUse::Copy,
        "a,archive attributes-only backup? b copy-contents d f,force i,interactive H l,link L,dereference n,no-clobber P,no-dereference p \
        preserve? no-preserve= parents R,r,recursive reflink? remove-destination sparse= strip-trailing-slashes s,symbolic-link S,suffix= \
        t,target-directory= T,no-target-directory u update? v,verbose x,one-file-system Z context? debug keep-directory-symlink",
    ),
    (
        "mv",
        FileUse::Copy,
        "backup? b f,force i,interactive n,no-clobber no-copy exchange strip-trailing-slashes S,suffix= t,target-directory= \
        T,no-target-directory u update? v,verbose Z,context debug",
    ),
    (
        "ln",
        FileUse::Link,
        "backup? b d,F,directory f,force i,interactive L,logical n,no-dereference P,physical r,relative s,symbolic S,suffix= \
        t,target-directory= T,no-target-directory v,verbose",
    ),
    (
        "install",
        FileUse::Copy,
        "backup? b c C,compare d,directory D g,group= m,mode= o,owner= p,preserve-timestamps s,strip strip-program=! S,suffix= \
        t,target-directory= T,no-target-directory v,verbose Z context? preserve-context debug",
    ),
];

/// Adds the file accesses of such a program. Returns whether the program is one.
pub(super) fn note_changes(name: &str, words: &[Word], facts: &mut CommandFacts) -> bool {
    let Some((_, does, table)) = FILE_PROGRAMS.iter().find(|(known, ..)| *known == name) else {
        return false;
    };
    let parsed = options::parse(&[table], words, 1, facts);
    let operands: Vec<&Word> = parsed.operands.iter().filter_map(|at| words.get(*at)).collect();
    match does {
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
    true
}

/// Adds the accesses of `cp`, `mv`, `install` and `ln` with hard links.
fn note_copy(
    name: &str,
    parsed: &ParsedOptions,
    mut operands: Vec<&Word>,
    facts: &mut CommandFacts,
) {
    let mut has_target = false;
    for (at, place) in parsed.values("t") {
        has_target = true;
        facts.add_risk(at, "names where it goes");
        facts.add_tree_write(place);
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
    let mut places = Vec::new();
    for (at, place) in parsed.values("t") {
        facts.add_risk(at, "names where it goes");
        places.push(place);
    }
    if places.is_empty() && targets.len() > 1 {
        places.extend(targets.pop());
    }
    for place in &places {
        facts.add_tree_write(place);
    }
    for target in targets {
        let name = target.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if places.is_empty() {
            facts.add_write(&Word { text: name.to_owned(), ..target.clone() });
            facts.links.push((name.into(), target.text.clone().into()));
        }
        for place in &places {
            // The link goes into a directory of this name, if there is one.
            if !matches!(name, "" | "." | "..") {
                let inside = Path::new(&place.text).join(name);
                facts.links.push((inside, target.text.clone().into()));
            }
            facts.links.push((place.text.clone().into(), target.text.clone().into()));
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
