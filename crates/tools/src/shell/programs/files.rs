//! Programs that change files: that is what they are for, so it is no risk but an effect, by the paths that they name.

use std::path::Path;

use super::options::{self, Sorted};
use crate::shell::found::Found;
use crate::shell::syntax::Word;

/// What a program does with the files that it names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Remove,
    Create,
    /// The first word is no file.
    SetAttributes,
    /// The last word is where it goes, unless an option says it.
    Copy,
    /// The same, but a symbolic link reads nothing.
    Link,
}

/// Every such program with all its options.
const PROGRAMS: &[(&str, Does, &str)] = &[
    (
        "rm",
        Does::Remove,
        "f,force i I interactive? one-file-system no-preserve-root preserve-root? r,R,recursive d,dir v,verbose",
    ),
    ("rmdir", Does::Remove, "ignore-fail-on-non-empty p,parents v,verbose"),
    ("unlink", Does::Remove, ""),
    (
        "shred",
        Does::Remove,
        "f,force n,iterations= random-source=< s,size= u remove? v,verbose x,exact z,zero",
    ),
    ("mkdir", Does::Create, "m,mode= p,parents v,verbose Z context?"),
    ("touch", Does::Create, "a c,no-create d,date= f h,no-dereference m r,reference=< t= time="),
    ("tee", Does::Create, "a,append i,ignore-interrupts p output-error?"),
    ("truncate", Does::Create, "c,no-create o,io-blocks r,reference=< s,size="),
    ("mkfifo", Does::Create, "m,mode= Z context?"),
    (
        "chmod",
        Does::SetAttributes,
        "c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference=< R,recursive h,no-dereference dereference H L P r w x X s t u g o a",
    ),
    (
        "chown",
        Does::SetAttributes,
        "c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference=< R,recursive h,no-dereference dereference from= H L P",
    ),
    (
        "chgrp",
        Does::SetAttributes,
        "c,changes f,silent,quiet v,verbose no-preserve-root preserve-root reference=< R,recursive h,no-dereference dereference H L P",
    ),
    (
        "cp",
        Does::Copy,
        "a,archive attributes-only backup? b copy-contents d f,force i,interactive H l,link L,dereference n,no-clobber P,no-dereference p \
        preserve? no-preserve= parents R,r,recursive reflink? remove-destination sparse= strip-trailing-slashes s,symbolic-link S,suffix= \
        t,target-directory= T,no-target-directory u update? v,verbose x,one-file-system Z context? debug keep-directory-symlink",
    ),
    (
        "mv",
        Does::Copy,
        "backup? b f,force i,interactive n,no-clobber no-copy exchange strip-trailing-slashes S,suffix= t,target-directory= \
        T,no-target-directory u update? v,verbose Z,context debug",
    ),
    (
        "ln",
        Does::Link,
        "backup? b d,F,directory f,force i,interactive L,logical n,no-dereference P,physical r,relative s,symbolic S,suffix= \
        t,target-directory= T,no-target-directory v,verbose",
    ),
    (
        "install",
        Does::Copy,
        "backup? b c C,compare d,directory D g,group= m,mode= o,owner= p,preserve-timestamps s,strip strip-program=! S,suffix= \
        t,target-directory= T,no-target-directory v,verbose Z context? preserve-context debug",
    ),
];

/// Notes what such a program changes; the answer is whether it is one.
pub(super) fn changes(name: &str, words: &[Word], found: &mut Found) -> bool {
    let Some((_, does, table)) = PROGRAMS.iter().find(|(known, ..)| *known == name) else {
        return false;
    };
    let sorted = options::sort(&[table], words, 1, found);
    let operands: Vec<&Word> = sorted.operands.iter().filter_map(|at| words.get(*at)).collect();
    match does {
        Does::Remove => {
            // What removes nothing but empty directories is another thing.
            if name != "rmdir" {
                found.acts_as.push("rm");
            }
            for word in operands {
                found.delete(word);
            }
        }
        Does::Create => operands.iter().for_each(|word| found.write(word)),
        Does::SetAttributes => {
            // `chmod -x f` has its mode among the options.
            let has_mode =
                sorted.has(&["r", "w", "x", "X", "s", "t", "u", "g", "o", "a", "reference"]);
            operands.iter().skip(usize::from(!has_mode)).for_each(|word| found.write_tree(word));
        }
        Does::Link if sorted.has(&["symbolic"]) => link(&sorted, operands, found),
        Does::Copy | Does::Link => copy(name, &sorted, operands, found),
    }
    true
}

/// `cp`, `mv`, `ln`, `install`.
fn copy(name: &str, sorted: &Sorted, mut operands: Vec<&Word>, found: &mut Found) {
    let mut has_target = false;
    for (at, place) in sorted.values("t") {
        has_target = true;
        found.risk(at, "names where it goes");
        found.write_tree(place);
    }
    if name == "install" && sorted.has(&["directory"]) {
        for word in operands {
            found.write_tree(word);
        }
        return;
    }
    if !has_target
        && operands.len() > 1
        && let Some(to) = operands.pop()
    {
        found.write_tree(to);
    }
    for from in operands {
        found.read_tree(from);
        if name == "mv" {
            found.delete(from);
        }
    }
}

/// `ln -s`: it makes the links and reads nothing. A later command of the line may read through them.
fn link(sorted: &Sorted, mut targets: Vec<&Word>, found: &mut Found) {
    let mut places = Vec::new();
    for (at, place) in sorted.values("t") {
        found.risk(at, "names where it goes");
        places.push(place);
    }
    if places.is_empty() && targets.len() > 1 {
        places.extend(targets.pop());
    }
    for place in &places {
        found.write_tree(place);
    }
    for target in targets {
        let name = target.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if places.is_empty() {
            found.write(&Word { text: name.to_owned(), ..target.clone() });
            found.links.push((name.into(), target.text.clone().into()));
        }
        for place in &places {
            // It goes into a directory of this name, if there is one.
            if !matches!(name, "" | "." | "..") {
                let inside = Path::new(&place.text).join(name);
                found.links.push((inside, target.text.clone().into()));
            }
            found.links.push((place.text.clone().into(), target.text.clone().into()));
        }
    }
}

/// `dd`.
pub(super) fn dd(words: &[Word], found: &mut Found) {
    for (at, word) in words.iter().enumerate().skip(1) {
        let of = |key: &str| word.text.strip_prefix(key).filter(|_| !word.is_open);
        if let Some(from) = of("if=") {
            found.read(&Word::literal(from));
        }
        if let Some(to) = of("of=") {
            found.risk(at, "writes a file");
            found.write(&Word::literal(to));
        }
    }
}
