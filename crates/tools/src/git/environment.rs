//! The surroundings in which git runs: nothing that it could start is left switched on.
//!
//! Configuration is given by environment variables rather than by `-c`: it counts as much, and the words of the command, which rules
//! are about and which people are asked about, stay those of the command.

use std::path::Path;

/// What is configured, whatever the repository, its owner or the machine say.
pub(super) const CONFIG: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "true"),
    ("core.askPass", "true"),
    ("core.quotePath", "false"),
    ("core.sshCommand", "false"),
    ("commit.gpgSign", "false"),
    ("commit.verbose", "false"),
    ("log.showSignature", "false"),
    ("log.diffMerges", "separate"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", ""),
    ("merge.verifySignatures", "false"),
    // A file that it names would be quoted where it is not what it should be.
    ("blame.ignoreRevsFile", ""),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "dirty"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    // A repository that lies among the files of another is one that somebody else set up.
    ("safe.bareRepository", "explicit"),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    // What would go on in the background is ended with the command.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // The configuration of a repository cannot be changed from here, so a new branch follows none.
    ("branch.autoSetupMerge", "false"),
    ("advice.detachedHead", "false"),
    ("color.ui", "false"),
    ("column.ui", "never"),
];

/// Every variable that git gets besides those that every program gets. `top` is where the files of the repository are: it may not
/// say itself that they are elsewhere.
pub(super) fn variables(top: &Path, looks: bool) -> Vec<(String, String)> {
    let fixed = [
        ("GIT_WORK_TREE", top.to_string_lossy().into_owned()),
        // What git says is read here too.
        ("LC_ALL", "C.UTF-8".into()),
        ("LANGUAGE", "en".into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
        ("GIT_PAGER", "cat".into()),
        ("GIT_EDITOR", "true".into()),
        ("GIT_SEQUENCE_EDITOR", "true".into()),
        ("GIT_ASKPASS", "true".into()),
        ("SSH_ASKPASS", "true".into()),
        // An empty list: no transport at all, also where objects are missing and git would fetch them by itself.
        ("GIT_ALLOW_PROTOCOL", String::new()),
        ("GIT_NO_LAZY_FETCH", "1".into()),
        ("GIT_OPTIONAL_LOCKS", if looks { "0" } else { "1" }.into()),
        ("GIT_CONFIG_COUNT", CONFIG.len().to_string()),
    ];
    fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(numbered()).collect()
}

/// The same for a git that is run by a command which only looks: wherever the repository is, and in whatever language.
pub(crate) fn looking() -> Vec<(String, String)> {
    let fixed = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_PAGER", "cat"),
        ("GIT_ALLOW_PROTOCOL", ""),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_OPTIONAL_LOCKS", "0"),
    ];
    let fixed = fixed.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let count = ("GIT_CONFIG_COUNT".to_owned(), CONFIG.len().to_string());
    fixed.chain([count]).chain(numbered()).collect()
}

/// The configuration, one variable for each name and each value.
fn numbered() -> impl Iterator<Item = (String, String)> {
    CONFIG.iter().enumerate().flat_map(|(at, (key, value))| {
        [
            (format!("GIT_CONFIG_KEY_{at}"), (*key).to_owned()),
            (format!("GIT_CONFIG_VALUE_{at}"), (*value).to_owned()),
        ]
    })
}
