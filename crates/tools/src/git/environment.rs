//! The environment variables for git: they switch off everything that it could start.
//!
//! Configuration is given by environment variables rather than by `-c`: its effect is the same, and the words of the command, which
//! rules and approvals are about, stay those of the model.

use std::path::Path;

/// Configuration that overrides those of the repository, its owner and the machine.
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
    // Git would quote lines of the file that is named here if it is not a list of revisions.
    ("blame.ignoreRevsFile", ""),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "dirty"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    // A bare repository among the files of another may have been made by an attacker.
    ("safe.bareRepository", "explicit"),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    // Work in the background would be ended with the command.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // The configuration of a repository cannot be changed from here, so a new branch has no upstream.
    ("branch.autoSetupMerge", "false"),
    ("advice.detachedHead", "false"),
    ("color.ui", "false"),
    ("column.ui", "never"),
];

/// Returns all variables that git gets in addition to those of every program. `top` is the working tree, so that the repository cannot
/// claim that its files are elsewhere.
pub(super) fn variables(top: &Path, read_only: bool) -> Vec<(String, String)> {
    let fixed = [
        ("GIT_WORK_TREE", top.to_string_lossy().into_owned()),
        // Git's messages are parsed here.
        ("LC_ALL", "C.UTF-8".into()),
        ("LANGUAGE", "en".into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
        ("GIT_PAGER", "cat".into()),
        ("GIT_EDITOR", "true".into()),
        ("GIT_SEQUENCE_EDITOR", "true".into()),
        ("GIT_ASKPASS", "true".into()),
        ("SSH_ASKPASS", "true".into()),
        // An empty list forbids all transports, so git cannot fetch missing objects.
        ("GIT_ALLOW_PROTOCOL", String::new()),
        ("GIT_NO_LAZY_FETCH", "1".into()),
        ("GIT_OPTIONAL_LOCKS", if read_only { "0" } else { "1" }.into()),
        ("GIT_CONFIG_COUNT", CONFIG.len().to_string()),
    ];
    fixed
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .chain(numbered_config())
        .collect()
}

/// Returns the variables for git in a read-only shell command: for any repository and language.
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
    fixed.chain([count]).chain(numbered_config()).collect()
}

/// Returns the variables `GIT_CONFIG_KEY_n` and `GIT_CONFIG_VALUE_n` for the configuration.
fn numbered_config() -> impl Iterator<Item = (String, String)> {
    CONFIG.iter().enumerate().flat_map(|(at, (key, value))| {
        [
            (format!("GIT_CONFIG_KEY_{at}"), (*key).to_owned()),
            (format!("GIT_CONFIG_VALUE_{at}"), (*value).to_owned()),
        ]
    })
}
