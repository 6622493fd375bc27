//! `find` and `fd`: they search, unless an option runs, removes or writes something.

use windlass_core::OnlyReads;

use super::options;
use crate::shell::command_facts::{CommandFacts, InnerCommand};
use crate::shell::syntax::Word;

/// Words of an expression of `find` that take no value.
const WITHOUT_VALUE: &[&str] = &[
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

/// Words of an expression of `find` that take one value.
const WITH_VALUE: &[&str] = &[
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

/// Words of an expression of `find` whose value is a file that is only examined.
const WITH_FILE: &[&str] = &["-newer", "-anewer", "-cnewer", "-samefile"];

/// Adds the searches of `find`, and a risk for each action that does more than print.
pub(super) fn find(words: &[Word], facts: &mut CommandFacts) {
    facts.set_only_reads(OnlyReads::Always);
    let mut at = 1;
    while let Some(word) = words.get(at).filter(|word| is_start_path(&word.text)) {
        if word.could_be_option() {
            facts.add_risk(at, "could become an option");
            facts.mark_unseen("gets arguments that could become options");
        }
        if !matches!(word.text.as_str(), "-H" | "-L" | "-P") {
            facts.add_tree_search(word);
        }
        at += 1;
    }
    if facts.searches.is_empty() {
        facts.add_search_here();
    }
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        if word.could_be_option() {
            facts.add_risk(at, "could become an option");
            facts.mark_unseen("gets arguments that could become options");
        }
        at += match text {
            _ if WITHOUT_VALUE.contains(&text) => 1,
            _ if WITH_FILE.contains(&text) => {
                words.get(at + 1).inspect(|file| facts.add_read(file));
                2
            }
            _ if WITH_VALUE.contains(&text) || text.starts_with("-newer") => {
                if words.get(at + 1).is_some_and(Word::could_be_option) {
                    facts.add_risk(at + 1, "could become an option");
                    facts.mark_unseen("gets arguments that could become options");
                }
                2
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => note_exec(words, at, facts),
            "-delete" => {
                facts.add_risk(at, "removes what it finds");
                facts.acts_as.push("rm");
                1
            }
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                facts.add_risk(at, "writes a file");
                words.get(at + 1).inspect(|file| facts.add_write(file));
                2
            }
            _ => {
                facts.add_risk(at, "is not known here");
                facts.mark_unseen("has options that are not known here");
                1
            }
        };
    }
}

/// Returns whether a word stands before the expression: a start directory or an option about links.
fn is_start_path(text: &str) -> bool {
    matches!(text, "-H" | "-L" | "-P")
        || !(text.starts_with('-') || matches!(text, "(" | ")" | "!" | ","))
}

/// Adds the command behind `-exec`. Returns the number of words up to its end.
fn note_exec(words: &[Word], at: usize, facts: &mut CommandFacts) -> usize {
    facts.add_risk(at, "runs another program");
    let rest = words.get(at + 1..).unwrap_or_default();
    let ends = |(index, word): (usize, &Word)| {
        let is_plus = word.text == "+"
            && index > 0
            && rest.get(index - 1).is_some_and(|before| before.text == "{}");
        (word.text == ";" || is_plus).then_some(index)
    };
    let end = rest.iter().enumerate().find_map(ends).unwrap_or(rest.len());
    let inner = rest.get(..end).unwrap_or_default();
    // The paths in place of `{}` are not known, but each begins with a start directory or `./`, so none is taken for an option.
    facts.inner_commands.push(InnerCommand {
        words: inner.to_vec(),
        has_unknown_words: true,
        unknown_words_are_paths: true,
    });
    end + 2
}

/// The option table of `fd`.
const FD_OPTIONS: &str = "\
    H,hidden I,no-ignore u,unrestricted no-ignore-vcs s,case-sensitive i,ignore-case g,glob F,fixed-strings a,absolute-path \
    l,list-details L,follow p,full-path d,max-depth= min-depth= exact-depth= E,exclude= t,type= e,extension= S,size= \
    changed-within= changed-before= max-results= 1 q,quiet c,color= 0,print0 x,exec! X,exec-batch! base-directory=^ search-path=^";

/// Adds the searches of `fd`: the first operand is a pattern, the others are directories.
pub(super) fn fd(words: &[Word], facts: &mut CommandFacts) {
    facts.set_only_reads(OnlyReads::Always);
    let parsed = options::parse(&[FD_OPTIONS], words, 1, facts);
    for word in parsed.operands.iter().skip(1).filter_map(|at| words.get(*at)) {
        facts.add_tree_search(word);
    }
    if parsed.operands.len() < 2 {
        facts.add_search_here();
    }
}
