//! The commands of git that look. The tables of the tool `git` serve here too; see [`options`](super::super::options) for the marks.

use crate::git::verbs::{BLAME, BRANCH, DIFF, HISTORY, STATUS};

/// A command that looks.
pub(super) struct Look {
    pub(super) name: &'static str,
    pub(super) options: &'static [&'static str],
    pub(super) operands: Operands,
    pub(super) words: Names,
}

/// The things that the words of a command name, besides its options.
#[derive(Clone, Copy)]
pub(super) enum Names {
    /// Revisions, branches, settings: nothing of a file is shown.
    Nothing,
    /// Revisions and files. Git takes a word for a file if it is no revision.
    Files,
    /// Files.
    Paths,
    /// A pattern unless an option gives it, then the same.
    PatternThenFiles,
}

/// When a command of this name only looks.
#[derive(Clone, Copy)]
pub(super) enum Operands {
    /// Whatever its words are.
    Any,
    /// With at most so many.
    AtMost(usize),
    /// With none.
    None,
    /// With none, or with the name of a setting.
    Setting,
    /// With none, or with one of these options.
    NoneOr(&'static [&'static str]),
    /// If the word behind it is one of these.
    First(&'static [&'static str]),
    /// With none, or if the first is one of these.
    FirstOrNone(&'static [&'static str]),
}

const COLOR: &str = "color? no-color cached staged merge-base";
/// Every command that looks, with the options that are known to do no more.
pub(super) const LOOKS: &[Look] = &[
    Look {
        name: "status",
        options: &[STATUS, "v,verbose z ignore-submodules? column? no-column"],
        operands: Operands::Any,
        words: Names::Paths,
    },
    Look {
        name: "diff",
        options: &[DIFF, COLOR, "z"],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look {
        name: "diff-tree",
        options: &[DIFF, COLOR, "r t root stdin no-commit-id z c pretty?"],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look {
        name: "diff-index",
        options: &[DIFF, COLOR, "z"],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look {
        name: "diff-files",
        options: &[DIFF, COLOR, "z"],
        operands: Operands::Any,
        words: Names::Paths,
    },
    Look {
        name: "log",
        options: &[HISTORY, DIFF, COLOR, "z c no-patch remerge-diff! show-signature! stdin!"],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look {
        name: "show",
        options: &[HISTORY, DIFF, COLOR, "z c no-patch show-signature!"],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look {
        name: "whatchanged",
        options: &[HISTORY, DIFF, COLOR],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look {
        name: "shortlog",
        options: &[
            "s,summary n,numbered e,email w? c,committer group= no-merges since= after= until= before= all",
        ],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "reflog",
        options: &[HISTORY, DIFF, COLOR],
        operands: Operands::FirstOrNone(&["show", "HEAD"]),
        words: Names::Nothing,
    },
    Look {
        name: "blame",
        options: &[BLAME, "color-lines color-by-age"],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look { name: "annotate", options: &[BLAME], operands: Operands::Any, words: Names::Files },
    Look {
        name: "grep",
        options: &["\
            NUMBER cached untracked no-exclude-standard exclude-standard a,text i,ignore-case I textconv! no-textconv r,recursive no-recursive \
            max-depth= w,word-regexp v,invert-match h H full-name E,extended-regexp G,basic-regexp P,perl-regexp F,fixed-strings n,line-number \
            column l,files-with-matches,name-only L,files-without-match z,null o,only-matching c,count color? no-color break heading p,show-function \
            C,context= A,after-context= B,before-context= W,function-context m,max-count= threads= f=< e= and or not all-match q,quiet \
            O! open-files-in-pager!"],
        operands: Operands::Any,
        words: Names::PatternThenFiles,
    },
    Look {
        name: "ls-files",
        options: &["\
            z t v f c,cached d,deleted o,others i,ignored s,stage u,unmerged k,killed m,modified directory no-empty-directory eol x,exclude= \
            exclude-standard error-unmatch full-name recurse-submodules abbrev? debug deduplicate format="],
        operands: Operands::Any,
        words: Names::Paths,
    },
    Look {
        name: "ls-tree",
        options: &[
            "d r t l,long z name-only name-status object-only full-name full-tree format= abbrev?",
        ],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look {
        name: "cat-file",
        options: &["t s e p batch-check? batch-all-objects unordered"],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look {
        name: "rev-parse",
        options: &["\
            show-toplevel abbrev-ref? short? verify q,quiet git-dir absolute-git-dir git-common-dir is-inside-work-tree is-inside-git-dir \
            is-bare-repository is-shallow-repository show-prefix show-cdup show-superproject-working-tree symbolic symbolic-full-name all branches? tags? \
            remotes? not revs-only no-revs flags no-flags default= path-format= git-path="],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "rev-list",
        options: &[
            HISTORY,
            "count objects max-age= min-age= header timestamp quiet use-bitmap-index disk-usage? not",
        ],
        operands: Operands::Any,
        words: Names::Files,
    },
    Look {
        name: "merge-base",
        options: &["a,all octopus independent is-ancestor fork-point"],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "describe",
        options: &[
            "all tags contains abbrev= candidates= exact-match debug long match= exclude= always first-parent dirty? broken?",
        ],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "name-rev",
        options: &["tags refs= exclude= all name-only no-undefined always"],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "show-ref",
        options: &["head heads tags branches d,dereference s,hash? verify abbrev? q,quiet exists"],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "for-each-ref",
        options: &[
            "count= s,shell sort= format= color? points-at= merged~ no-merged~ contains~ no-contains~ ignore-case exclude=",
        ],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "show-branch",
        options: &[
            "a,all r,remotes current topo-order date-order list sha1-name no-name topics more? merge-base",
        ],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "cherry",
        options: &["v abbrev?"],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "count-objects",
        options: &["v,verbose H,human-readable"],
        operands: Operands::None,
        words: Names::Nothing,
    },
    Look {
        name: "check-ignore",
        options: &["q,quiet v,verbose z n,non-matching no-index"],
        operands: Operands::Any,
        words: Names::Paths,
    },
    Look {
        name: "check-attr",
        options: &["a,all cached z source="],
        operands: Operands::Any,
        words: Names::Nothing,
    },
    Look {
        name: "version",
        options: &["build-options"],
        operands: Operands::None,
        words: Names::Nothing,
    },
    Look {
        name: "branch",
        options: &[BRANCH, "color? column? no-column"],
        operands: Operands::NoneOr(&[
            "l",
            "list",
            "contains",
            "no-contains",
            "merged",
            "no-merged",
            "points-at",
        ]),
        words: Names::Nothing,
    },
    Look {
        name: "tag",
        options: &[
            "n? l,list sort= contains~ no-contains~ merged~ no-merged~ points-at= format= i,ignore-case color? column? no-column",
        ],
        operands: Operands::NoneOr(&[
            "l",
            "list",
            "contains",
            "no-contains",
            "merged",
            "no-merged",
            "points-at",
        ]),
        words: Names::Nothing,
    },
    Look {
        name: "remote",
        options: &["v,verbose all push"],
        operands: Operands::FirstOrNone(&["get-url"]),
        words: Names::Nothing,
    },
    Look {
        name: "stash",
        options: &[HISTORY, DIFF, COLOR, "include-untracked only-untracked"],
        operands: Operands::First(&["list", "show"]),
        words: Names::Nothing,
    },
    Look {
        name: "worktree",
        options: &["porcelain v,verbose z"],
        operands: Operands::First(&["list"]),
        words: Names::Nothing,
    },
    Look {
        name: "config",
        options: &[
            "l,list get get-all get-regexp global system local worktree show-origin show-scope name-only z,null bool int type= includes default=",
        ],
        operands: Operands::Setting,
        words: Names::Nothing,
    },
    Look {
        name: "symbolic-ref",
        options: &["q,quiet short no-recurse"],
        operands: Operands::AtMost(1),
        words: Names::Nothing,
    },
];
