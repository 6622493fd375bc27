//! The git commands that can only read, with the option tables of the tool `git`; see [`options`](super::super::options) for the marks.

use crate::git::verbs::{BLAME, BRANCH, DIFF, HISTORY, STATUS};

/// A git command that only reads under a condition.
pub(super) struct ReadOnlyCommand {
    pub(super) name: &'static str,
    /// Option tables with every option that is known to be harmless.
    pub(super) options: &'static [&'static str],
    /// The condition under which the command only reads.
    pub(super) read_only_if: ReadOnlyIf,
    /// The kind of things that its operands name.
    pub(super) names: OperandNames,
}

/// The kind of things that the operands of a git command name.
#[derive(Clone, Copy)]
pub(super) enum OperandNames {
    /// Revisions, branches, settings: no content of a file is shown.
    Nothing,
    /// Revisions and files. Git takes a word for a file if it is no revision.
    Files,
    /// Files only.
    Paths,
    /// A pattern unless an option gives it, then revisions and files.
    PatternThenFiles,
}

/// The condition under which a git command only reads.
#[derive(Clone, Copy)]
pub(super) enum ReadOnlyIf {
    /// Always.
    Any,
    /// With at most this many operands.
    AtMost(usize),
    /// Without operands.
    None,
    /// Without operands, or with the name of a setting.
    Setting,
    /// Without operands, or with one of these options.
    NoneOr(&'static [&'static str]),
    /// If the word behind the command is one of these.
    First(&'static [&'static str]),
    /// Without operands, or if the first one is one of these.
    FirstOrNone(&'static [&'static str]),
}

/// Options that most commands with a diff have.
const COLOR: &str = "color? no-color cached staged merge-base";
/// The commands that can only read.
pub(super) const READ_ONLY_COMMANDS: &[ReadOnlyCommand] = &[
    ReadOnlyCommand {
        name: "status",
        options: &[STATUS, "v,verbose z ignore-submodules? column? no-column"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Paths,
    },
    ReadOnlyCommand {
        name: "diff",
        options: &[DIFF, COLOR, "z"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "diff-tree",
        options: &[DIFF, COLOR, "r t root stdin no-commit-id z c pretty?"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "diff-index",
        options: &[DIFF, COLOR, "z"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "diff-files",
        options: &[DIFF, COLOR, "z"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Paths,
    },
    ReadOnlyCommand {
        name: "log",
        options: &[HISTORY, DIFF, COLOR, "z c no-patch remerge-diff! show-signature! stdin!"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "show",
        options: &[HISTORY, DIFF, COLOR, "z c no-patch show-signature!"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "whatchanged",
        options: &[HISTORY, DIFF, COLOR],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "shortlog",
        options: &[
            "s,summary n,numbered e,email w? c,committer group= no-merges since= after= until= before= all",
        ],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "reflog",
        options: &[HISTORY, DIFF, COLOR],
        read_only_if: ReadOnlyIf::FirstOrNone(&["show", "HEAD"]),
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "blame",
        options: &[BLAME, "color-lines color-by-age"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "annotate",
        options: &[BLAME],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "grep",
        options: &["\
            NUMBER cached untracked no-exclude-standard exclude-standard a,text i,ignore-case I textconv! no-textconv r,recursive no-recursive \
            max-depth= w,word-regexp v,invert-match h H full-name E,extended-regexp G,basic-regexp P,perl-regexp F,fixed-strings n,line-number \
            column l,files-with-matches,name-only L,files-without-match z,null o,only-matching c,count color? no-color break heading p,show-function \
            C,context= A,after-context= B,before-context= W,function-context m,max-count= threads= f=< e= and or not all-match q,quiet \
            O! open-files-in-pager!"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::PatternThenFiles,
    },
    ReadOnlyCommand {
        name: "ls-files",
        options: &["\
            z t v f c,cached d,deleted o,others i,ignored s,stage u,unmerged k,killed m,modified directory no-empty-directory eol x,exclude= \
            exclude-standard error-unmatch full-name recurse-submodules abbrev? debug deduplicate format="],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Paths,
    },
    ReadOnlyCommand {
        name: "ls-tree",
        options: &[
            "d r t l,long z name-only name-status object-only full-name full-tree format= abbrev?",
        ],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "cat-file",
        options: &["t s e p batch-check? batch-all-objects unordered"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "rev-parse",
        options: &["\
            show-toplevel abbrev-ref? short? verify q,quiet git-dir absolute-git-dir git-common-dir is-inside-work-tree is-inside-git-dir \
            is-bare-repository is-shallow-repository show-prefix show-cdup show-superproject-working-tree symbolic symbolic-full-name all branches? tags? \
            remotes? not revs-only no-revs flags no-flags default= path-format= git-path="],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "rev-list",
        options: &[
            HISTORY,
            "count objects max-age= min-age= header timestamp quiet use-bitmap-index disk-usage? not",
        ],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Files,
    },
    ReadOnlyCommand {
        name: "merge-base",
        options: &["a,all octopus independent is-ancestor fork-point"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "describe",
        options: &[
            "all tags contains abbrev= candidates= exact-match debug long match= exclude= always first-parent dirty? broken?",
        ],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "name-rev",
        options: &["tags refs= exclude= all name-only no-undefined always"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "show-ref",
        options: &["head heads tags branches d,dereference s,hash? verify abbrev? q,quiet exists"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "for-each-ref",
        options: &[
            "count= s,shell sort= format= color? points-at= merged~ no-merged~ contains~ no-contains~ ignore-case exclude=",
        ],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "show-branch",
        options: &[
            "a,all r,remotes current topo-order date-order list sha1-name no-name topics more? merge-base",
        ],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "cherry",
        options: &["v abbrev?"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "count-objects",
        options: &["v,verbose H,human-readable"],
        read_only_if: ReadOnlyIf::None,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "check-ignore",
        options: &["q,quiet v,verbose z n,non-matching no-index"],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Paths,
    },
    ReadOnlyCommand {
        name: "check-attr",
        options: &["a,all cached z source="],
        read_only_if: ReadOnlyIf::Any,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "version",
        options: &["build-options"],
        read_only_if: ReadOnlyIf::None,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "branch",
        options: &[BRANCH, "color? column? no-column"],
        read_only_if: ReadOnlyIf::NoneOr(&[
            "l",
            "list",
            "contains",
            "no-contains",
            "merged",
            "no-merged",
            "points-at",
        ]),
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "tag",
        options: &[
            "n? l,list sort= contains~ no-contains~ merged~ no-merged~ points-at= format= i,ignore-case color? column? no-column",
        ],
        read_only_if: ReadOnlyIf::NoneOr(&[
            "l",
            "list",
            "contains",
            "no-contains",
            "merged",
            "no-merged",
            "points-at",
        ]),
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "remote",
        options: &["v,verbose all push"],
        read_only_if: ReadOnlyIf::FirstOrNone(&["get-url"]),
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "stash",
        options: &[HISTORY, DIFF, COLOR, "include-untracked only-untracked"],
        read_only_if: ReadOnlyIf::First(&["list", "show"]),
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "worktree",
        options: &["porcelain v,verbose z"],
        read_only_if: ReadOnlyIf::First(&["list"]),
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "config",
        options: &[
            "l,list get get-all get-regexp global system local worktree show-origin show-scope name-only z,null bool int type= includes default=",
        ],
        read_only_if: ReadOnlyIf::Setting,
        names: OperandNames::Nothing,
    },
    ReadOnlyCommand {
        name: "symbolic-ref",
        options: &["q,quiet short no-recurse"],
        read_only_if: ReadOnlyIf::AtMost(1),
        names: OperandNames::Nothing,
    },
];
