//! The settings of a person's git configuration that a program's home keeps.
//!
//! A setting is in the table if it is a matter of taste or identity. Not in the table are settings that name a program (`core.pager`,
//! `core.fsmonitor`, `merge.NAME.driver`), a file that does not exist in the home (`commit.template`), a key (`user.signingkey`,
//! `commit.gpgsign`), or a way to a server (`credential`, `http`, `url`, `remote`).

use super::config::Setting;

/// Kind of section: with or without a subsection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subsection {
    Without,
    Any,
}
use Subsection::{Any, Without};

/// Kept keys of each section; all keys if none is listed.
const ALLOWED: &[(&str, Subsection, &[&str])] = &[
    ("add", Without, &["ignoreerrors"]),
    ("advice", Without, &[]),
    ("alias", Without, &[]),
    ("apply", Without, &["ignorewhitespace", "whitespace"]),
    ("author", Without, &["email", "name"]),
    ("blame", Without, &["blankboundary", "coloring", "date", "showemail", "showroot"]),
    ("branch", Without, &["autosetupmerge", "autosetuprebase", "sort"]),
    ("branch", Any, &["description", "merge", "pushremote", "rebase", "remote"]),
    ("checkout", Without, &["defaultremote", "guess", "workers"]),
    ("clean", Without, &["requireforce"]),
    ("color", Without, &[]),
    ("color", Any, &[]),
    ("column", Without, &[]),
    ("commit", Without, &["cleanup", "status", "verbose"]),
    ("committer", Without, &["email", "name"]),
    ("core", Without, CORE),
    ("diff", Without, DIFF),
    ("diff", Any, &["algorithm", "binary", "funcname", "wordregex", "xfuncname"]),
    ("feature", Without, &["experimental", "manyfiles"]),
    ("fetch", Without, FETCH),
    ("format", Without, &["pretty"]),
    ("gc", Without, &["auto", "autodetach"]),
    ("grep", Without, GREP),
    ("help", Without, &["autocorrect"]),
    ("i18n", Without, &["commitencoding", "logoutputencoding"]),
    ("index", Without, &["skiphash", "sparse", "threads", "version"]),
    ("init", Without, &["defaultbranch", "defaultobjectformat", "defaultrefformat"]),
    ("interactive", Without, &["singlekey"]),
    ("log", Without, LOG),
    ("maintenance", Without, &["auto"]),
    ("merge", Without, MERGE),
    ("pretty", Without, &[]),
    ("protocol", Without, &["version"]),
    ("pull", Without, &["ff", "rebase"]),
    ("push", Without, PUSH),
    ("rebase", Without, REBASE),
    ("remote", Without, &["pushdefault"]),
    ("rerere", Without, &["autoupdate", "enabled"]),
    ("safe", Without, &["barerepository", "directory"]),
    ("showbranch", Without, &["default"]),
    ("stash", Without, &["showincludeuntracked", "showpatch", "showstat"]),
    ("status", Without, &[]),
    ("submodule", Without, &["fetchjobs", "recurse"]),
    ("tag", Without, &["sort"]),
    ("transfer", Without, &["fsckobjects"]),
    ("user", Without, &["email", "name", "useconfigonly"]),
    ("versionsort", Without, &["suffix"]),
    ("worktree", Without, &["guessremote"]),
];

/// Kept keys of `core`.
const CORE: &[&str] = &[
    "abbrev",
    "autocrlf",
    "bigfilethreshold",
    "checkstat",
    "commentchar",
    "commentstring",
    "compression",
    "eol",
    "ignorecase",
    "logallrefupdates",
    "precomposeunicode",
    "preloadindex",
    "protecthfs",
    "protectntfs",
    "quotepath",
    "safecrlf",
    "symlinks",
    "trustctime",
    "untrackedcache",
    "whitespace",
];

/// Kept keys of `diff`.
const DIFF: &[&str] = &[
    "algorithm",
    "colormoved",
    "colormovedws",
    "context",
    "dirstat",
    "dstprefix",
    "ignoresubmodules",
    "indentheuristic",
    "interhunkcontext",
    "mnemonicprefix",
    "noprefix",
    "relative",
    "renamelimit",
    "renames",
    "srcprefix",
    "statgraphwidth",
    "statnamewidth",
    "submodule",
    "suppressblankempty",
    "wordregex",
    "wserrorhighlight",
];

/// Kept keys of `fetch`.
const FETCH: &[&str] = &[
    "all",
    "fsckobjects",
    "output",
    "parallel",
    "prune",
    "prunetags",
    "recursesubmodules",
    "showforcedupdates",
    "writecommitgraph",
];

/// Kept keys of `grep`.
const GREP: &[&str] =
    &["column", "extendedregexp", "fallbacktonoindex", "fullname", "linenumber", "patterntype"];

/// All but `showsignature`, which starts gpg.
const LOG: &[&str] = &[
    "abbrevcommit",
    "date",
    "decorate",
    "diffmerges",
    "excludedecoration",
    "follow",
    "graphcolors",
    "initialdecorationset",
    "mailmap",
    "showroot",
];

/// Kept keys of `merge`.
const MERGE: &[&str] = &[
    "autostash",
    "branchdesc",
    "conflictstyle",
    "defaulttoupstream",
    "directoryrenames",
    "ff",
    "log",
    "renamelimit",
    "renames",
    "renormalize",
    "stat",
    "suppressdest",
    "verbosity",
];

/// Kept keys of `push`.
const PUSH: &[&str] =
    &["autosetupremote", "default", "followtags", "recursesubmodules", "useforceifincludes"];

/// Kept keys of `rebase`.
const REBASE: &[&str] = &[
    "abbreviatecommands",
    "autosquash",
    "autostash",
    "backend",
    "forkpoint",
    "instructionformat",
    "missingcommitscheck",
    "rebasemerges",
    "reschedulefailedexec",
    "stat",
    "updaterefs",
];

/// Values of the filter of `git-lfs`, as `git lfs install` writes them. Without the filter, `git add` stores whole files in place of
/// pointers.
const LARGE_FILES: &[(&str, &[&str])] = &[
    ("clean", &["git-lfs clean -- %f"]),
    ("smudge", &["git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"]),
    ("process", &["git-lfs filter-process", "git-lfs filter-process --skip"]),
    ("required", &["true"]),
];

/// Words that stand beside credentials in a value.
const CREDENTIALS: &[&str] =
    &["authorization", "credential", "extraheader", "passw", "secret", "token"];

/// Returns whether a program's home keeps this setting.
pub(super) fn is_allowed(setting: &Setting) -> bool {
    if setting.section == "filter" {
        return is_large_files(setting);
    }
    let subsection = if setting.subsection.is_some() { Any } else { Without };
    let is_listed = ALLOWED.iter().any(|(section, allowed, keys)| {
        *section == setting.section
            && *allowed == subsection
            && (keys.is_empty() || keys.contains(&setting.key.as_str()))
    });
    is_listed && setting.value.as_deref().is_none_or(|value| is_plain(setting, value))
}

/// Returns whether the value holds no credential and, in an alias, no shell command.
fn is_plain(setting: &Setting, value: &str) -> bool {
    let is_alias = setting.section == "alias";
    let lower = value.to_lowercase();
    let is_secret = is_alias && CREDENTIALS.iter().any(|word| lower.contains(word));
    let runs_shell = is_alias && value.trim_start().starts_with('!');
    let has_user = value.contains("://") && value.contains('@');
    !is_secret && !runs_shell && !has_user
}

/// Returns whether a setting is part of the filter of `git-lfs`.
fn is_large_files(setting: &Setting) -> bool {
    let is_known = |(key, values): &(&str, &[&str])| {
        *key == setting.key && setting.value.as_deref().is_some_and(|value| values.contains(&value))
    };
    setting.subsection.as_deref() == Some("lfs") && LARGE_FILES.iter().any(is_known)
}
