//! `find` and `fd`: they look, unless they are told to do something with what they find.

use windlass_core::OnlyReads;

use super::options;
use crate::shell::found::{Found, Run};
use crate::shell::syntax::Word;

/// What takes no word behind it.
const ALONE: &[&str] = &[
    "!",
    "(",
    ")",
    ",",
    "-a",
    "-and",
    "-o",
    "-or",
    "-not",
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
    "-empty",
    "-true",
    "-false",
    "-depth",
    "-d",
    "-mount",
    "-xdev",
    "-daystart",
    "-follow",
    "-noleaf",
    "-nouser",
    "-nogroup",
    "-readable",
    "-writable",
    "-executable",
    "-warn",
    "-nowarn",
    "-ignore_readdir_race",
    "-noignore_readdir_race",
    "-H",
    "-L",
    "-P",
];

/// What takes one word behind it.
const WITH_WORD: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-lname",
    "-ilname",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-atime",
    "-ctime",
    "-mmin",
    "-amin",
    "-cmin",
    "-maxdepth",
    "-mindepth",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-fstype",
    "-used",
    "-printf",
    "-context",
];

/// What takes one word behind it, which is a file that it looks at.
const WITH_FILE: &[&str] = &["-newer", "-anewer", "-cnewer", "-samefile"];

pub(super) fn find(words: &[Word], found: &mut Found) {
    found.reads(OnlyReads::Always);
    let mut at = 1;
    while let Some(word) = words.get(at).filter(|word| is_place(&word.text)) {
        if word.could_be_option() {
            found.risk(at, "could become an option");
            found.unseen("is given words that could become options");
        }
        if !matches!(word.text.as_str(), "-H" | "-L" | "-P") {
            found.search(word);
        }
        at += 1;
    }
    if found.searches.is_empty() {
        found.search_here();
    }
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        if word.could_be_option() {
            found.risk(at, "could become an option");
            found.unseen("is given words that could become options");
        }
        at += match text {
            _ if ALONE.contains(&text) => 1,
            _ if WITH_FILE.contains(&text) => {
                words.get(at + 1).inspect(|file| found.read(file));
                2
            }
            _ if WITH_WORD.contains(&text) || text.starts_with("-newer") => {
                if words.get(at + 1).is_some_and(Word::could_be_option) {
                    found.risk(at + 1, "could become an option");
                    found.unseen("is given words that could become options");
                }
                2
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => runs(words, at, found),
            "-delete" => {
                found.risk(at, "removes what it finds");
                found.acts_as.push("rm");
                1
            }
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                found.risk(at, "writes a file");
                words.get(at + 1).inspect(|file| found.write(file));
                2
            }
            _ => {
                found.risk(at, "is not known here");
                found.unseen("has options that are not known here");
                1
            }
        };
    }
}

fn is_place(text: &str) -> bool {
    matches!(text, "-H" | "-L" | "-P")
        || !(text.starts_with('-') || matches!(text, "(" | ")" | "!" | ","))
}

/// Takes the command behind `-exec`, and says how many words that were.
fn runs(words: &[Word], at: usize, found: &mut Found) -> usize {
    found.risk(at, "runs another program");
    let rest = words.get(at + 1..).unwrap_or_default();
    let ends = |(index, word): (usize, &Word)| {
        let is_plus = word.text == "+"
            && index > 0
            && rest.get(index - 1).is_some_and(|before| before.text == "{}");
        (word.text == ";" || is_plus).then_some(index)
    };
    let end = rest.iter().enumerate().find_map(ends).unwrap_or(rest.len());
    let inner = rest.get(..end).unwrap_or_default();
    // What it is given instead of `{}` is not known.
    // It begins with a place, or with `./`.
    found.runs.push(Run { words: inner.to_vec(), more: true, paths: true });
    end + 2
}

const FD: &str = "\
    H,hidden I,no-ignore u,unrestricted no-ignore-vcs s,case-sensitive i,ignore-case g,glob F,fixed-strings a,absolute-path \
    l,list-details L,follow p,full-path d,max-depth= min-depth= exact-depth= E,exclude= t,type= e,extension= S,size= \
    changed-within= changed-before= max-results= 1 q,quiet c,color= 0,print0 x,exec! X,exec-batch! base-directory=^ search-path=^";

/// `fd`: a pattern, then places.
pub(super) fn fd(words: &[Word], found: &mut Found) {
    found.reads(OnlyReads::Always);
    let sorted = options::sort(&[FD], words, 1, found);
    for word in sorted.operands.iter().skip(1).filter_map(|at| words.get(*at)) {
        found.search(word);
    }
    if sorted.operands.len() < 2 {
        found.search_here();
    }
}
