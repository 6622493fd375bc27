//! Shell variables: the names that change the execution of programs, and the values that a script gives to variables.

use std::collections::BTreeMap;

use super::syntax::{Command, CommandBody, List, VariableRef, Word};

/// Limit of a word's length after variables are expanded.
const MAX_EXPANDED_BYTES: usize = 16 * 1024;

/// Variables that change which programs run, what they load or which options they take. `*` stands for any characters.
const EXECUTION_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "PWD",
    "OLDPWD",
    "IFS",
    "ENV",
    "CDPATH",
    "GLOBIGNORE",
    "FPATH",
    "ZDOTDIR",
    "SHELL",
    "SHELLOPTS",
    "BASH*",
    "PS4",
    "PROMPT_COMMAND",
    "POSIXLY_CORRECT",
    "LD_*",
    "DYLD_*",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "LOCPATH",
    "NLSPATH",
    "GIT_*",
    "SSH_*",
    "SUDO_ASKPASS",
    "*PAGER",
    "*EDITOR",
    "VISUAL",
    "BROWSER",
    "LESS*",
    "*_RSH",
    "XDG_CONFIG_*",
    "MAKE*",
    "GNUMAKEFLAGS",
    "*FLAGS",
    "CC",
    "CXX",
    "CPP",
    "LD",
    "AS",
    "AR",
    "*_CC",
    "*_CXX",
    "*_LINKER",
    "*_RUNNER",
    "*_WRAPPER",
    "*LAUNCHER",
    "RUSTC",
    "RUSTDOC",
    "RUSTFMT",
    "CARGO",
    "CARGO_ALIAS_*",
    "CARGO_BUILD_RUST*",
    "CARGO_HOME",
    "RUSTUP_*",
    "NODE_OPTIONS",
    "npm_config_*",
    "NPM_CONFIG_*",
    "PERL5*",
    "PERLLIB",
    "RUBYOPT",
    "RUBYLIB",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONBREAKPOINT",
    "PYTHONWARNINGS",
    "PYTHONUSERBASE",
    "PYTEST_*",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_*",
    "*_OPTS",
    "CLASSPATH",
    "GEM_*",
    "BUNDLE_*",
    "TAR_OPTIONS",
    "GREP_OPTIONS",
    "RIPGREP_CONFIG_PATH",
    "FZF_*",
    "OPENSSL_*",
    "PKG_CONFIG*",
    "DOCKER_*",
    "KUBECONFIG",
    "TERMINFO*",
    "VIMINIT",
    "EXINIT",
    "MYVIMRC",
    "COMSPEC",
    "*_COMMAND",
    "*_PRELOAD",
    "HISTFILE",
    "HISTFILESIZE",
    "HISTSIZE",
    "TMOUT",
    "MANPATH",
    "MANOPT",
    "EXECIGNORE",
    "*_OPT",
    "*_OPTIONS",
    "XZ_DEFAULTS",
    "GZIP",
    "BZIP*",
    "ZIPOPT",
    "UNZIP*",
    "TAPE",
    "MAGIC",
    "PERLIO_*",
    "GNUPGHOME",
    "DEBUGINFOD_*",
    // Bash evaluates the values of these, which may run commands, or replaces them by its own.
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "OPTIND",
    "OPTERR",
    "HISTCMD",
    "LINENO",
    "EPOCH*",
    "GROUPS",
    "DIRSTACK",
    "FUNCNAME",
    "PIPESTATUS",
    "EUID",
    "UID",
    "PPID",
];

/// The variable that bash sets to the last word of each command.
const LAST_WORD: &str = "_";

/// Returns whether a variable of this name changes the execution of programs.
pub(super) fn affects_execution(name: &str) -> bool {
    let fits = |pattern: &&str| match pattern.split_once('*') {
        None => *pattern == name,
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    };
    EXECUTION_VARIABLES.iter().any(fits)
}

/// The values of variables, as far as they are known at one point of a script.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables {
    known: BTreeMap<String, Word>,
    /// Number of assignments to each variable in the script. The value of a variable with more than one is not tracked.
    assignment_counts: BTreeMap<String, usize>,
}

impl Variables {
    /// Returns the variables at the start of a script: no values, and all assignments counted.
    pub(super) fn of_script(script: &List) -> Self {
        let mut variables = Self::default();
        variables.count_assignments(script);
        variables
    }

    /// Counts the assignments in a list of commands, including nested ones.
    fn count_assignments(&mut self, list: &List) {
        let pipelines = list.iter().flat_map(|and_or| {
            std::iter::once(&and_or.first).chain(and_or.rest.iter().map(|(_, next)| next))
        });
        for command in pipelines.flat_map(|pipeline| &pipeline.commands) {
            self.count_in_command(command);
        }
    }

    /// Counts the assignments in one command, including nested ones.
    fn count_in_command(&mut self, command: &Command) {
        let lists: Vec<&List> = match &command.body {
            CommandBody::Simple(words) => {
                let is_export = words.first().is_some_and(|word| word.text == "export");
                let exported = words.iter().skip(1).filter(|_| is_export);
                let exported = exported.map(|word| word.text.split('=').next().unwrap_or_default());
                // Before some commands of the shell an assignment stays.
                let assigned = command.assignments.iter().map(|it| it.name.as_str());
                let names: Vec<&str> = assigned.chain(exported).collect();
                for name in names {
                    *self.assignment_counts.entry(name.to_owned()).or_default() += 1;
                }
                Vec::new()
            }
            CommandBody::Subshell(list) | CommandBody::Group(list) => vec![list],
            CommandBody::If(lists) | CommandBody::Loop(lists) => lists.iter().collect(),
            CommandBody::For { name, body, .. } => {
                *self.assignment_counts.entry(name.clone()).or_default() += 1;
                vec![body]
            }
        };
        for list in lists.into_iter().chain(&command.substitutions) {
            self.count_assignments(list);
        }
    }

    /// Records the value of a variable from here on. The value becomes unknown if the script also sets it elsewhere or may not set it.
    pub(super) fn set(&mut self, name: &str, value: Word, is_certain: bool) {
        let is_only =
            self.assignment_counts.get(name).is_none_or(|times| *times < 2) && name != LAST_WORD;
        if is_certain && is_only && !value.is_incomplete {
            self.known.insert(name.to_owned(), value);
        } else {
            self.known.remove(name);
        }
    }

    /// Returns the variables for one iteration of a `for` loop. A loop variable that the body also sets is unknown.
    pub(super) fn for_iteration(&self, name: &str, value: Word, body: &List) -> Self {
        let mut inside = self.clone();
        let mut of_body = Self::default();
        of_body.count_assignments(body);
        inside.known.remove(name);
        let is_kept = !of_body.assignment_counts.contains_key(name) && name != LAST_WORD;
        if !value.is_incomplete && is_kept {
            inside.known.insert(name.to_owned(), value);
        }
        inside
    }

    /// Makes the value of a variable unknown.
    pub(super) fn forget(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// Returns the word with its variables replaced, and the first variable whose value is unknown. `given` returns values that do not come
    /// from the script.
    pub(super) fn expand<'w>(
        &self,
        word: &'w Word,
        given: impl Fn(&str) -> Option<String>,
    ) -> (Word, Option<&'w VariableRef>) {
        let mut expanded = Word { text: String::new(), variable_refs: Vec::new(), ..word.clone() };
        expanded.glob_at = None;
        let (mut from, mut unknown) = (0, None);
        for variable_ref in &word.variable_refs {
            push_own_text(&mut expanded, word, from..variable_ref.at);
            from = variable_ref.at;
            let value = self.known.get(&variable_ref.name).cloned();
            let value =
                value.or_else(|| given(&variable_ref.name).map(|text| Word::literal(&text)));
            let fits = |value: &Word| expanded.text.len() + value.text.len() <= MAX_EXPANDED_BYTES;
            let value = value.and_then(|value| expand_value(value, variable_ref));
            let Some(value) = value.filter(fits) else {
                expanded.is_incomplete = true;
                unknown = unknown.or(Some(variable_ref));
                continue;
            };
            let at = expanded.text.len();
            expanded.text.push_str(&value.text);
            if let Some(pattern) = value.glob_at {
                expanded.glob_at.get_or_insert(if variable_ref.is_quoted {
                    at + pattern
                } else {
                    0
                });
            }
        }
        push_own_text(&mut expanded, word, from..word.text.len());
        (expanded, unknown)
    }
}

/// Appends a part of the original word's own text to the expanded word.
fn push_own_text(expanded: &mut Word, word: &Word, part: std::ops::Range<usize>) {
    let at = expanded.text.len();
    expanded.text.push_str(word.text.get(part.clone()).unwrap_or_default());
    if let Some(pattern) = word.glob_at.filter(|pattern| part.contains(pattern)) {
        expanded.glob_at.get_or_insert(at + pattern - part.start);
    }
}

/// Returns a value as it reads at the reference. Unquoted, bash splits it at blanks and reads it as a glob pattern; returns `None` if that
/// could make several words or none.
fn expand_value(value: Word, variable_ref: &VariableRef) -> Option<Word> {
    if variable_ref.is_quoted {
        return Some(value);
    }
    let text = value.text.as_str();
    let is_split = text.is_empty() || text.contains([' ', '\t', '\n', '\\']);
    let special = value.glob_at.or_else(|| text.find(['*', '?', '[']));
    // The name of a matching file may contain blanks: then each piece is a word, and must stay in the same directory.
    let leads_away =
        special.is_some_and(|at| text.get(at..).is_some_and(|rest| rest.contains('/')));
    (!is_split && !leads_away).then_some(Word { glob_at: special, ..value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_affect_execution_are_recognized() {
        for name in
            ["PATH", "LD_PRELOAD", "GIT_DIR", "MANPAGER", "EDITOR", "BASH_ENV", "IFS", "RUSTFLAGS"]
        {
            assert!(affects_execution(name), "{name}");
        }
        for name in
            ["A", "LANG", "LC_ALL", "RUST_BACKTRACE", "NODE_ENV", "CI", "TZ", "DEBUG", "RUST_LOG"]
        {
            assert!(!affects_execution(name), "{name}");
        }
    }
}
