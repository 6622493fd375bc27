//! The table of inert keys: keys that make git run no program, read no other file, trust no other person and start no helper.
//!
//! Left out on purpose: `alias.*` (an alias may pass `-c core.pager=…`), `include.*`, `url.*.insteadof`, `core.hookspath`,
//! `core.fsmonitor`, `core.attributesfile`, `filter.*`, `diff.*.textconv`, `credential.*`, `gpg.*`, `http.*`, `protocol.*`, `safe.*`,
//! `submodule.*.update`, `remote.*.vcs`, `branch.*.mergeoptions` (a strategy is a program), `log.showsignature`, `core.protecthfs` and
//! `core.protectntfs`, which disable a protection.

use super::ConfigPaths;
use crate::normalize;

/// The values with which a key is inert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedValues {
    Any,
    /// The name of a remote, or a URL for which git starts no helper.
    Url,
    /// A path relative to the git directory that stays in the workspace.
    Inside,
    /// One of these values.
    OneOf(&'static [&'static str]),
}

use AllowedValues::{Any, Inside, OneOf, Url};

/// The rows: section, presence of a subsection, key (`*` for any), and values.
const INERT_KEYS: &[(&str, bool, &str, AllowedValues)] = &[
    ("core", false, "repositoryformatversion", Any),
    ("core", false, "filemode", Any),
    ("core", false, "bare", Any),
    ("core", false, "logallrefupdates", Any),
    ("core", false, "ignorecase", Any),
    ("core", false, "symlinks", Any),
    ("core", false, "precomposeunicode", Any),
    ("core", false, "autocrlf", Any),
    ("core", false, "safecrlf", Any),
    ("core", false, "eol", Any),
    ("core", false, "quotepath", Any),
    ("core", false, "abbrev", Any),
    ("core", false, "compression", Any),
    ("core", false, "trustctime", Any),
    ("core", false, "checkstat", Any),
    ("core", false, "untrackedcache", Any),
    ("core", false, "preloadindex", Any),
    ("core", false, "longpaths", Any),
    ("core", false, "sparsecheckout", Any),
    ("core", false, "sparsecheckoutcone", Any),
    ("core", false, "worktree", Inside),
    ("extensions", false, "objectformat", OneOf(&["sha1", "sha256"])),
    ("extensions", false, "refstorage", OneOf(&["files", "reftable"])),
    ("extensions", false, "worktreeconfig", Any),
    ("extensions", false, "relativeworktrees", Any),
    ("remote", true, "url", Url),
    ("remote", true, "pushurl", Url),
    ("remote", true, "fetch", Any),
    ("remote", true, "push", Any),
    ("remote", true, "tagopt", OneOf(&["--tags", "--no-tags"])),
    ("remote", true, "prune", Any),
    ("remote", true, "prunetags", Any),
    ("remote", true, "skipdefaultupdate", Any),
    ("remote", true, "skipfetchall", Any),
    ("remote", false, "pushdefault", Url),
    ("branch", true, "remote", Url),
    ("branch", true, "pushremote", Url),
    ("branch", true, "merge", Any),
    ("branch", true, "rebase", Any),
    ("branch", true, "description", Any),
    ("branch", true, "vscode-merge-base", Any),
    ("branch", true, "gh-merge-base", Any),
    ("branch", false, "autosetupmerge", Any),
    ("branch", false, "autosetuprebase", Any),
    ("branch", false, "sort", Any),
    ("user", false, "name", Any),
    ("user", false, "email", Any),
    ("author", false, "name", Any),
    ("author", false, "email", Any),
    ("committer", false, "name", Any),
    ("committer", false, "email", Any),
    ("init", false, "defaultbranch", Any),
    ("pull", false, "rebase", Any),
    ("pull", false, "ff", Any),
    ("push", false, "default", Any),
    ("push", false, "autosetupremote", Any),
    ("push", false, "followtags", Any),
    ("fetch", false, "prune", Any),
    ("fetch", false, "prunetags", Any),
    ("fetch", false, "parallel", Any),
    ("merge", false, "conflictstyle", Any),
    ("merge", false, "ff", Any),
    ("merge", false, "renames", Any),
    ("rebase", false, "autosquash", Any),
    ("rebase", false, "autostash", Any),
    ("rebase", false, "updaterefs", Any),
    ("rerere", false, "enabled", Any),
    ("commit", false, "gpgsign", OneOf(&["false"])),
    ("tag", false, "gpgsign", OneOf(&["false"])),
    ("tag", false, "sort", Any),
    ("diff", false, "algorithm", Any),
    ("diff", false, "renames", Any),
    ("diff", false, "colormoved", Any),
    ("diff", false, "mnemonicprefix", Any),
    ("diff", false, "noprefix", Any),
    ("gc", false, "auto", Any),
    ("maintenance", false, "auto", Any),
    ("i18n", false, "commitencoding", Any),
    ("i18n", false, "logoutputencoding", Any),
    ("submodule", false, "active", Any),
    ("submodule", false, "recurse", Any),
    ("submodule", true, "url", Url),
    ("submodule", true, "active", Any),
    ("submodule", true, "branch", Any),
    ("submodule", true, "ignore", Any),
    ("submodule", true, "fetchrecursesubmodules", Any),
    ("submodule", true, "shallow", Any),
    ("lfs", false, "repositoryformatversion", Any),
    ("color", false, "*", Any),
    ("color", true, "*", Any),
    ("column", false, "*", Any),
    ("advice", false, "*", Any),
    ("status", false, "*", Any),
    ("log", false, "date", Any),
    ("log", false, "decorate", Any),
    ("log", false, "abbrevcommit", Any),
    ("log", false, "follow", Any),
    ("log", false, "graphcolors", Any),
    ("log", false, "showroot", Any),
];

/// URL schemes that git itself implements. For another scheme it starts the program `git-remote-SCHEME`.
const NATIVE_SCHEMES: &[&str] =
    &["https", "http", "ssh", "git", "file", "ftp", "ftps", "git+ssh", "ssh+git"];

/// Returns whether a key is inert with this value. Section and key are in lower case.
pub(super) fn is_inert(
    section: &str,
    subsection: Option<&str>,
    key: &str,
    value: Option<&str>,
    paths: ConfigPaths<'_>,
) -> bool {
    let matches_row = |(of, has_subsection, name, _): &&(&str, bool, &str, AllowedValues)| {
        section == *of && subsection.is_some() == *has_subsection && (key == *name || *name == "*")
    };
    let Some((_, _, _, values)) = INERT_KEYS.iter().find(matches_row) else { return false };
    match (values, value) {
        (Any, _) => true,
        (Url, Some(value)) => is_plain_url(value),
        (Inside, Some(value)) => {
            normalize(&paths.directory.join(value)).starts_with(paths.workspace)
        }
        (OneOf(known), Some(value)) => known.iter().any(|known| value.eq_ignore_ascii_case(known)),
        (_, None) => false,
    }
}

/// Returns whether a URL or the name of a remote starts no helper and passes no option to a program.
fn is_plain_url(url: &str) -> bool {
    if url.starts_with('-') || url.chars().any(char::is_control) {
        return false;
    }
    // `ext::sh -c …`: the name before the colons selects a helper.
    let after = url.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "+.-".contains(c));
    if after.starts_with("::") {
        return false;
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        // `user@-oProxyCommand=…:path`, in the syntax of scp.
        let host = url.split([':', '/']).next().unwrap_or(url);
        return !host.contains("@-");
    };
    let authority = rest.split('/').next().unwrap_or(rest);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    NATIVE_SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
        && !authority.starts_with('-')
        && !host.starts_with('-')
}
