//! The commands that `git` offers, with tables of their options. An option that is not in a table is refused.
//!
//! An option is in a table only if it starts no program, names no file outside the repository, opens no editor and writes no output
//! elsewhere. So these are missing: `--ext-diff`, `--textconv`, `--output`, `--no-index`, `-O`, `--show-signature`, `--remerge-diff`
//! (it runs merge drivers), `--patch` for `add` (it asks), `--contents` and `--pathspec-from-file` (they read any file), and
//! `--recurse-submodules` (a submodule has its own configuration).
//!
//! A table is a text with one word for each option: all its names, the short one first. `n,max-count=` needs a value, `stat?` may have a
//! value joined to it, `merged~` takes a commit, which is HEAD if none follows.

/// A command of git and its permitted arguments.
#[derive(Debug)]
pub(super) struct Verb {
    /// Name in git: a command, or a command and its subcommand (`stash list`).
    pub(super) name: &'static str,
    /// Tables of its options.
    pub(super) options: &'static [&'static str],
    /// Condition under which the command changes nothing.
    pub(super) read_only: ReadOnly,
    /// Meaning of its words.
    pub(super) words: WordKind,
    /// True if the command moves file contents into or out of the working tree: then git runs filters.
    pub(super) runs_filters: bool,
    /// Options that are always added, so that the repository's configuration does not decide them.
    pub(super) fixed_options: &'static str,
}

/// The condition under which a command changes nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOnly {
    Always,
    Never,
    /// Read-only with none of the options in `none_of`, and with either no word or one of the options in `one_of`.
    With {
        one_of: &'static [&'static str],
        none_of: &'static [&'static str],
    },
}

/// The meaning of the words of a command, besides its options.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WordKind {
    /// Revisions, names of branches, or paths that git can tell apart from them.
    Revisions,
    /// Paths.
    Paths,
    /// Like `Revisions`; in addition, `-` is the previous branch.
    Branches,
}

/// Marks, in a table, that a number such as `-20` is an option.
pub(super) const NUMBER_OPTION: &str = "NUMBER";

/// Options of `diff`.
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

/// Options of `log`.
pub(crate) const HISTORY: &str = "\
    NUMBER n,max-count= skip= since= after= until= before= author= committer= grep= all-match \
    invert-grep i,regexp-ignore-case E,extended-regexp F,fixed-strings P,perl-regexp merges no-merges \
    min-parents= max-parents= first-parent all branches? tags? remotes? glob= exclude= g,walk-reflogs \
    oneline pretty? format= abbrev-commit no-abbrev-commit graph decorate? no-decorate decorate-refs= \
    date= follow full-diff L= reverse topo-order date-order author-date-order left-right left-only \
    right-only cherry cherry-pick cherry-mark boundary ancestry-path? simplify-by-decoration \
    full-history no-walk? notes? no-notes source parents children";

/// Options of `status`.
pub(crate) const STATUS: &str = "\
    s,short b,branch porcelain? long u,untracked-files? ignored? ahead-behind no-ahead-behind renames \
    no-renames find-renames? show-stash";

/// Options of `add`.
const ADD: &str = "\
    A,all u,update n,dry-run v,verbose f,force N,intent-to-add refresh ignore-errors ignore-missing \
    chmod= renormalize";

/// Options of `commit`.
const COMMIT: &str = "\
    m,message= a,all amend no-edit allow-empty allow-empty-message s,signoff no-signoff author= date= \
    reset-author q,quiet dry-run short fixup= squash= C,reuse-message= n,no-verify i,include o,only \
    cleanup= no-gpg-sign";

/// Options of `branch`.
pub(crate) const BRANCH: &str = "\
    a,all r,remotes l,list v,verbose contains~ no-contains~ merged~ no-merged~ points-at= sort= format= \
    show-current i,ignore-case abbrev= no-abbrev no-color d,delete D m,move M c,copy C f,force no-track \
    q,quiet";

/// Options of `checkout`.
const CHECKOUT: &str = "\
    b= B= f,force q,quiet d,detach no-track ours theirs m,merge conflict= orphan= overlay no-overlay \
    guess no-guess";

/// Options of `switch`.
const SWITCH: &str = "\
    c,create= C,force-create= d,detach guess no-guess f,force discard-changes m,merge conflict= q,quiet \
    no-track orphan=";

/// Options of `restore`.
const RESTORE: &str = "\
    s,source= S,staged W,worktree q,quiet ours theirs m,merge conflict= ignore-unmerged overlay \
    no-overlay";

/// Options of `blame`.
pub(crate) const BLAME: &str = "\
    L= l t s e,show-email w f,show-name n,show-number p,porcelain line-porcelain root M? C? reverse \
    date= since= ignore-rev= abbrev= first-parent b c";

/// Options of `stash push`.
const STASH_PUSH: &str = "\
    m,message= k,keep-index no-keep-index u,include-untracked a,all S,staged q,quiet";

/// Options of `worktree add`.
const WORKTREE_ADD: &str = "\
    b= B= f,force d,detach checkout no-checkout orphan lock reason= q,quiet no-track";

/// Options against external diffs and text conversions.
const NO_PROGRAMS: &str = "--no-ext-diff --no-textconv";

/// Defaults of a read-only command.
const READ_ONLY_VERB: Verb = Verb {
    name: "",
    options: &[],
    read_only: ReadOnly::Always,
    words: WordKind::Revisions,
    runs_filters: false,
    fixed_options: "",
};

/// Defaults of a command that changes files or the repository.
const CHANGING_VERB: Verb =
    Verb { read_only: ReadOnly::Never, runs_filters: true, ..READ_ONLY_VERB };

/// All offered commands.
pub(super) const VERBS: &[Verb] = &[
    Verb {
        name: "status",
        options: &[STATUS],
        words: WordKind::Paths,
        runs_filters: true,
        // Git would run itself in a submodule to find out whether it has changes.
        fixed_options: "--ignore-submodules=dirty",
        ..READ_ONLY_VERB
    },
    Verb {
        name: "diff",
        options: &[DIFF, "cached staged merge-base"],
        runs_filters: true,
        fixed_options: "--no-ext-diff --no-textconv --ignore-submodules=dirty",
        ..READ_ONLY_VERB
    },
    Verb { name: "log", options: &[HISTORY, DIFF], fixed_options: NO_PROGRAMS, ..READ_ONLY_VERB },
    Verb { name: "show", options: &[HISTORY, DIFF], fixed_options: NO_PROGRAMS, ..READ_ONLY_VERB },
    Verb { name: "add", options: &[ADD], words: WordKind::Paths, ..CHANGING_VERB },
    Verb { name: "commit", options: &[COMMIT], words: WordKind::Paths, ..CHANGING_VERB },
    Verb {
        name: "branch",
        options: &[BRANCH],
        read_only: ReadOnly::With {
            one_of: &["list", "contains", "no-contains", "merged", "no-merged", "points-at"],
            none_of: &["delete", "D", "move", "M", "copy", "C", "force"],
        },
        ..READ_ONLY_VERB
    },
    Verb { name: "checkout", options: &[CHECKOUT], words: WordKind::Branches, ..CHANGING_VERB },
    Verb { name: "switch", options: &[SWITCH], words: WordKind::Branches, ..CHANGING_VERB },
    Verb {
        name: "stash list",
        options: &[HISTORY, DIFF],
        fixed_options: NO_PROGRAMS,
        ..READ_ONLY_VERB
    },
    Verb {
        name: "stash show",
        options: &[DIFF, "include-untracked only-untracked"],
        fixed_options: NO_PROGRAMS,
        ..READ_ONLY_VERB
    },
    Verb { name: "stash push", options: &[STASH_PUSH], words: WordKind::Paths, ..CHANGING_VERB },
    Verb { name: "stash pop", options: &["index q,quiet"], ..CHANGING_VERB },
    Verb { name: "stash apply", options: &["index q,quiet"], ..CHANGING_VERB },
    Verb { name: "stash drop", options: &["q,quiet"], runs_filters: false, ..CHANGING_VERB },
    Verb { name: "stash clear", runs_filters: false, ..CHANGING_VERB },
    Verb { name: "stash branch", ..CHANGING_VERB },
    Verb { name: "restore", options: &[RESTORE], words: WordKind::Paths, ..CHANGING_VERB },
    Verb {
        name: "blame",
        options: &[BLAME],
        runs_filters: true,
        fixed_options: "--no-textconv",
        ..READ_ONLY_VERB
    },
    Verb { name: "worktree list", options: &["porcelain v,verbose"], ..READ_ONLY_VERB },
    Verb { name: "worktree add", options: &[WORKTREE_ADD], ..CHANGING_VERB },
    Verb { name: "worktree remove", options: &["f,force"], ..CHANGING_VERB },
    Verb { name: "worktree prune", options: &["n,dry-run v,verbose expire="], ..CHANGING_VERB },
    Verb { name: "worktree move", options: &["f,force"], ..CHANGING_VERB },
    Verb { name: "worktree lock", options: &["reason="], runs_filters: false, ..CHANGING_VERB },
    Verb { name: "worktree unlock", runs_filters: false, ..CHANGING_VERB },
];

/// An option of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GitOption {
    /// All its names, the short one first, separated by commas.
    names: &'static str,
    pub(super) takes: OptionValue,
}

/// The kind of value that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionValue {
    Nothing,
    /// The value follows the option, or is joined to it.
    Value,
    /// A value may be joined to the option.
    MaybeValue,
    /// A commit follows the option, or is joined to it; the default is HEAD.
    Commit,
}

impl GitOption {
    /// Parses one word of a table.
    fn of(row: &'static str) -> Self {
        let kinds =
            [('=', OptionValue::Value), ('?', OptionValue::MaybeValue), ('~', OptionValue::Commit)];
        let marked =
            kinds.iter().find_map(|(mark, takes)| Some((row.strip_suffix(*mark)?, *takes)));
        let (names, takes) = marked.unwrap_or((row, OptionValue::Nothing));
        Self { names, takes }
    }

    /// Returns all names of the option.
    fn names(self) -> impl Iterator<Item = &'static str> {
        self.names.split(',')
    }

    /// Returns the name by which the option is queried: the long one if there is one.
    pub(super) fn name(self) -> &'static str {
        self.names().last().unwrap_or(self.names)
    }
}

impl Verb {
    /// Returns the words of the command, such as `stash` and `list`.
    pub(super) fn command_words(&self) -> impl Iterator<Item = &'static str> {
        self.name.split(' ')
    }

    /// Returns all options of the command.
    fn options_of_tables(&self) -> impl Iterator<Item = GitOption> {
        self.options.iter().flat_map(|table| table.split_whitespace()).map(GitOption::of)
    }

    /// Finds the option with this name, without dashes.
    pub(super) fn option(&self, name: &str) -> Option<GitOption> {
        self.options_of_tables().find(|option| option.names().any(|known| known == name))
    }

    /// Returns whether a number such as `-20` is an option.
    pub(super) fn takes_numbers(&self) -> bool {
        self.option(NUMBER_OPTION).is_some()
    }

    /// Returns every option as it is written, with dashes.
    pub(super) fn option_spellings(&self) -> Vec<String> {
        let dashed = |name: &str| match name {
            NUMBER_OPTION => "-NUMBER".to_owned(),
            one if one.len() == 1 => format!("-{one}"),
            long => format!("--{long}"),
        };
        self.options_of_tables().flat_map(GitOption::names).map(dashed).collect()
    }
}
