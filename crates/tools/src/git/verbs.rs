//! The commands that `git` offers, and for each the options that it takes. What is not in these tables is refused.
//!
//! An option is in its table only if it starts no program, names no file outside the repository, opens no editor and leaves no
//! output elsewhere: so there is no `--ext-diff`, `--textconv`, `--output`, `--no-index`, `-O`, `--show-signature`, `--remerge-diff`
//! (it runs merge drivers), `--patch` for `add` (it asks), `--contents` or `--pathspec-from-file` (they read any file), and no
//! `--recurse-submodules` (a submodule has a configuration of its own).
//!
//! A table is a text with a word for each option, all names of it, the short one first: `n,max-count=` needs a value, `stat?` may have one joined to it,
//! `merged~` is about a commit, the present one if none follows.

/// A command of git, as far as it is offered here.
#[derive(Debug)]
pub(super) struct Verb {
    /// As git calls it: a command, or a command and what it is to do (`stash list`).
    pub(super) name: &'static str,
    /// The options that it takes.
    pub(super) options: &'static [&'static str],
    /// Whether it only looks.
    pub(super) looks: Looks,
    /// What its words are.
    pub(super) words: Words,
    /// Whether it takes the content of files out of the working tree or puts it there: that is when git runs filters.
    pub(super) filters: bool,
    /// What is always said, so that the configuration of the repository does not decide it.
    pub(super) always: &'static str,
}

/// Whether a command only looks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looks {
    Always,
    Never,
    /// If it is given no word, or one of these options, and none of the others.
    With {
        one_of: &'static [&'static str],
        none_of: &'static [&'static str],
    },
}

/// What the words of a command are, besides its options.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// Revisions, names of branches, or paths where git can tell them apart.
    Revisions,
    /// Paths.
    Paths,
    /// The same, where `-` is the branch that was there before.
    Branches,
}

/// In a table: a number is an option too, `-20`.
pub(super) const NUMBER: &str = "NUMBER";

pub(crate) const DIFF: &str = "\
    p,u,patch s,no-patch U,unified= W,function-context raw stat? numstat shortstat summary dirstat? \
    compact-summary patch-with-stat name-only name-status minimal patience histogram diff-algorithm= \
    anchored= indent-heuristic no-indent-heuristic word-diff? word-diff-regex= no-color no-renames \
    M,find-renames? C,find-copies? find-copies-harder B,break-rewrites? D,irreversible-delete l= \
    diff-filter= S= G= find-object= pickaxe-all pickaxe-regex R relative? no-relative a,text \
    ignore-cr-at-eol ignore-space-at-eol b,ignore-space-change w,ignore-all-space ignore-blank-lines \
    I,ignore-matching-lines= inter-hunk-context= exit-code quiet check full-index binary abbrev? \
    no-prefix default-prefix src-prefix= dst-prefix= stat-width= stat-count= m cc no-ext-diff \
    no-textconv";

pub(crate) const HISTORY: &str = "\
    NUMBER n,max-count= skip= since= after= until= before= author= committer= grep= all-match \
    invert-grep i,regexp-ignore-case E,extended-regexp F,fixed-strings P,perl-regexp merges no-merges \
    min-parents= max-parents= first-parent all branches? tags? remotes? glob= exclude= g,walk-reflogs \
    oneline pretty? format= abbrev-commit no-abbrev-commit graph decorate? no-decorate decorate-refs= \
    date= follow full-diff L= reverse topo-order date-order author-date-order left-right left-only \
    right-only cherry cherry-pick cherry-mark boundary ancestry-path? simplify-by-decoration \
    full-history no-walk? notes? no-notes source parents children";

pub(crate) const STATUS: &str = "\
    s,short b,branch porcelain? long u,untracked-files? ignored? ahead-behind no-ahead-behind renames \
    no-renames find-renames? show-stash";

const ADD: &str = "\
    A,all u,update n,dry-run v,verbose f,force N,intent-to-add refresh ignore-errors ignore-missing \
    chmod= renormalize";

const COMMIT: &str = "\
    m,message= a,all amend no-edit allow-empty allow-empty-message s,signoff no-signoff author= date= \
    reset-author q,quiet dry-run short fixup= squash= C,reuse-message= n,no-verify i,include o,only \
    cleanup= no-gpg-sign";

pub(crate) const BRANCH: &str = "\
    a,all r,remotes l,list v,verbose contains~ no-contains~ merged~ no-merged~ points-at= sort= format= \
    show-current i,ignore-case abbrev= no-abbrev no-color d,delete D m,move M c,copy C f,force no-track \
    q,quiet";

const CHECKOUT: &str = "\
    b= B= f,force q,quiet d,detach no-track ours theirs m,merge conflict= orphan= overlay no-overlay \
    guess no-guess";

const SWITCH: &str = "\
    c,create= C,force-create= d,detach guess no-guess f,force discard-changes m,merge conflict= q,quiet \
    no-track orphan=";

const RESTORE: &str = "\
    s,source= S,staged W,worktree q,quiet ours theirs m,merge conflict= ignore-unmerged overlay \
    no-overlay";

pub(crate) const BLAME: &str = "\
    L= l t s e,show-email w f,show-name n,show-number p,porcelain line-porcelain root M? C? reverse \
    date= since= ignore-rev= abbrev= first-parent b c";

const STASH_PUSH: &str = "\
    m,message= k,keep-index no-keep-index u,include-untracked a,all S,staged q,quiet";

const WORKTREE_ADD: &str = "\
    b= B= f,force d,detach checkout no-checkout orphan lock reason= q,quiet no-track";

const NO_PROGRAMS: &str = "--no-ext-diff --no-textconv";

const LOOK: Verb = Verb {
    name: "",
    options: &[],
    looks: Looks::Always,
    words: Words::Revisions,
    filters: false,
    always: "",
};

const CHANGE: Verb = Verb { looks: Looks::Never, filters: true, ..LOOK };

/// Every command.
pub(super) const VERBS: &[Verb] = &[
    Verb {
        name: "status",
        options: &[STATUS],
        words: Words::Paths,
        filters: true,
        // To know whether a submodule has changes, git would run itself in there.
        always: "--ignore-submodules=dirty",
        ..LOOK
    },
    Verb {
        name: "diff",
        options: &[DIFF, "cached staged merge-base"],
        filters: true,
        always: "--no-ext-diff --no-textconv --ignore-submodules=dirty",
        ..LOOK
    },
    Verb { name: "log", options: &[HISTORY, DIFF], always: NO_PROGRAMS, ..LOOK },
    Verb { name: "show", options: &[HISTORY, DIFF], always: NO_PROGRAMS, ..LOOK },
    Verb { name: "add", options: &[ADD], words: Words::Paths, ..CHANGE },
    Verb { name: "commit", options: &[COMMIT], words: Words::Paths, ..CHANGE },
    Verb {
        name: "branch",
        options: &[BRANCH],
        looks: Looks::With {
            one_of: &["list", "contains", "no-contains", "merged", "no-merged", "points-at"],
            none_of: &["delete", "D", "move", "M", "copy", "C", "force"],
        },
        ..LOOK
    },
    Verb { name: "checkout", options: &[CHECKOUT], words: Words::Branches, ..CHANGE },
    Verb { name: "switch", options: &[SWITCH], words: Words::Branches, ..CHANGE },
    Verb { name: "stash list", options: &[HISTORY, DIFF], always: NO_PROGRAMS, ..LOOK },
    Verb {
        name: "stash show",
        options: &[DIFF, "include-untracked only-untracked"],
        always: NO_PROGRAMS,
        ..LOOK
    },
    Verb { name: "stash push", options: &[STASH_PUSH], words: Words::Paths, ..CHANGE },
    Verb { name: "stash pop", options: &["index q,quiet"], ..CHANGE },
    Verb { name: "stash apply", options: &["index q,quiet"], ..CHANGE },
    Verb { name: "stash drop", options: &["q,quiet"], filters: false, ..CHANGE },
    Verb { name: "stash clear", filters: false, ..CHANGE },
    Verb { name: "stash branch", ..CHANGE },
    Verb { name: "restore", options: &[RESTORE], words: Words::Paths, ..CHANGE },
    Verb { name: "blame", options: &[BLAME], filters: true, always: "--no-textconv", ..LOOK },
    Verb { name: "worktree list", options: &["porcelain v,verbose"], ..LOOK },
    Verb { name: "worktree add", options: &[WORKTREE_ADD], ..CHANGE },
    Verb { name: "worktree remove", options: &["f,force"], ..CHANGE },
    Verb { name: "worktree prune", options: &["n,dry-run v,verbose expire="], ..CHANGE },
    Verb { name: "worktree move", options: &["f,force"], ..CHANGE },
    Verb { name: "worktree lock", options: &["reason="], filters: false, ..CHANGE },
    Verb { name: "worktree unlock", filters: false, ..CHANGE },
];

/// An option of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// All its names, the short one first.
    names: &'static str,
    pub(super) takes: Takes,
}

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// Behind it, or joined to it.
    Value,
    /// Only joined to it.
    MaybeValue,
    /// A commit behind it, or joined to it; none is the present one.
    Commit,
}

impl Choice {
    fn of(row: &'static str) -> Self {
        let kinds = [('=', Takes::Value), ('?', Takes::MaybeValue), ('~', Takes::Commit)];
        let marked =
            kinds.iter().find_map(|(mark, takes)| Some((row.strip_suffix(*mark)?, *takes)));
        let (names, takes) = marked.unwrap_or((row, Takes::Nothing));
        Self { names, takes }
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        self.names.split(',')
    }

    /// The name that it is asked for by: the long one if there is one.
    pub(super) fn name(self) -> &'static str {
        self.names().last().unwrap_or(self.names)
    }
}

impl Verb {
    /// The command and its first words, as git is told them.
    pub(super) fn head(&self) -> impl Iterator<Item = &'static str> {
        self.name.split(' ')
    }

    fn choices(&self) -> impl Iterator<Item = Choice> {
        self.options.iter().flat_map(|table| table.split_whitespace()).map(Choice::of)
    }

    /// The option of this name, without its dashes.
    pub(super) fn option(&self, name: &str) -> Option<Choice> {
        self.choices().find(|choice| choice.names().any(|known| known == name))
    }

    /// Whether it takes numbers as options.
    pub(super) fn takes_numbers(&self) -> bool {
        self.option(NUMBER).is_some()
    }

    /// Every option as it is written, dashes and all.
    pub(super) fn spelled(&self) -> Vec<String> {
        let dashed = |name: &str| match name {
            NUMBER => "-NUMBER".to_owned(),
            one if one.len() == 1 => format!("-{one}"),
            long => format!("--{long}"),
        };
        self.choices().flat_map(Choice::names).map(dashed).collect()
    }
}
