//! Variables: which of them change what is run, and the values that are known where a word is used.

use std::collections::BTreeMap;

use super::syntax::{Body, Command, Hole, List, Word};

/// The longest text that is made of values.
const LONGEST: usize = 16 * 1024;

/// Variables that change which programs run, what they load or which options they take. A star stands for any letters.
const CHANGE_WHAT_RUNS: &[&str] = &[
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
    // Bash calculates the values of these, which may run commands, or replaces them by its own.
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

/// Returns whether a variable of this name changes what is run.
pub(super) fn changes_what_runs(name: &str) -> bool {
    let fits = |pattern: &&str| match pattern.split_once('*') {
        None => *pattern == name,
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    };
    CHANGE_WHAT_RUNS.iter().any(fits)
}

/// The values of variables, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables {
    known: BTreeMap<String, Word>,
    /// How often the script sets each: one that is set twice is not followed.
    set: BTreeMap<String, usize>,
}

impl Variables {
    /// Those of a script that begins.
    pub(super) fn of(script: &List) -> Self {
        let mut variables = Self::default();
        variables.count(script);
        variables
    }

    fn count(&mut self, list: &List) {
        let pipelines = list.iter().flat_map(|and_or| {
            std::iter::once(&and_or.first).chain(and_or.rest.iter().map(|(_, next)| next))
        });
        for command in pipelines.flat_map(|pipeline| &pipeline.commands) {
            self.count_in(command);
        }
    }

    fn count_in(&mut self, command: &Command) {
        let lists: Vec<&List> = match &command.body {
            Body::Simple(words) => {
                let is_export = words.first().is_some_and(|word| word.text == "export");
                let exported = words.iter().skip(1).filter(|_| is_export);
                let exported = exported.map(|word| word.text.split('=').next().unwrap_or_default());
                // Before some commands of the shell an assignment stays.
                let assigned = command.assignments.iter().map(|it| it.name.as_str());
                let names: Vec<&str> = assigned.chain(exported).collect();
                for name in names {
                    *self.set.entry(name.to_owned()).or_default() += 1;
                }
                Vec::new()
            }
            Body::Subshell(list) | Body::Group(list) => vec![list],
            Body::If(lists) | Body::Loop(lists) => lists.iter().collect(),
            Body::For { name, body, .. } => {
                *self.set.entry(name.clone()).or_default() += 1;
                vec![body]
            }
        };
        for list in lists.into_iter().chain(&command.inside) {
            self.count(list);
        }
    }

    /// Notes that a variable has this value from here on. One that the script sets elsewhere too, or perhaps does not set, is
    /// not known.
    pub(super) fn set(&mut self, name: &str, value: Word, is_certain: bool) {
        let is_only = self.set.get(name).is_none_or(|times| *times < 2) && name != LAST_WORD;
        if is_certain && is_only && !value.is_open {
            self.known.insert(name.to_owned(), value);
        } else {
            self.known.remove(name);
        }
    }

    /// The variables inside a loop that gives one of them this value each time. A body that sets it too does not keep it.
    pub(super) fn in_loop(&self, name: &str, value: Word, body: &List) -> Self {
        let mut inside = self.clone();
        let mut of_body = Self::default();
        of_body.count(body);
        inside.known.remove(name);
        let is_kept = !of_body.set.contains_key(name) && name != LAST_WORD;
        if !value.is_open && is_kept {
            inside.known.insert(name.to_owned(), value);
        }
        inside
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// The word with its holes filled, and the first hole whose value is not known. `given` has the values that do not come from the
    /// script.
    pub(super) fn fill<'w>(
        &self,
        word: &'w Word,
        given: impl Fn(&str) -> Option<String>,
    ) -> (Word, Option<&'w Hole>) {
        let mut filled = Word { text: String::new(), holes: Vec::new(), ..word.clone() };
        filled.pattern = None;
        let (mut from, mut unknown) = (0, None);
        for hole in &word.holes {
            push(&mut filled, word, from..hole.at);
            from = hole.at;
            let value = self.known.get(&hole.name).cloned();
            let value = value.or_else(|| given(&hole.name).map(|text| Word::literal(&text)));
            let fits = |value: &Word| filled.text.len() + value.text.len() <= LONGEST;
            let value = value.and_then(|value| expanded(value, hole));
            let Some(value) = value.filter(fits) else {
                filled.is_open = true;
                unknown = unknown.or(Some(hole));
                continue;
            };
            let at = filled.text.len();
            filled.text.push_str(&value.text);
            if let Some(pattern) = value.pattern {
                filled.pattern.get_or_insert(if hole.is_quoted { at + pattern } else { 0 });
            }
        }
        push(&mut filled, word, from..word.text.len());
        (filled, unknown)
    }
}

/// Adds a part of a word's own text.
fn push(filled: &mut Word, word: &Word, part: std::ops::Range<usize>) {
    let at = filled.text.len();
    filled.text.push_str(word.text.get(part.clone()).unwrap_or_default());
    if let Some(pattern) = word.pattern.filter(|pattern| part.contains(pattern)) {
        filled.pattern.get_or_insert(at + pattern - part.start);
    }
}

/// A value in its place. Unquoted, it is split at blanks and read as a pattern; what could become more than one word by that, or
/// none, is not followed.
fn expanded(value: Word, hole: &Hole) -> Option<Word> {
    if hole.is_quoted {
        return Some(value);
    }
    let text = value.text.as_str();
    let is_split = text.is_empty() || text.contains([' ', '\t', '\n', '\\']);
    let special = value.pattern.or_else(|| text.find(['*', '?', '[']));
    // The name of a file may have blanks in it: then each piece is a word, and must stay in the same directory.
    let leads_away =
        special.is_some_and(|at| text.get(at..).is_some_and(|rest| rest.contains('/')));
    (!is_split && !leads_away).then_some(Word { pattern: special, ..value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_change_what_runs() {
        for name in
            ["PATH", "LD_PRELOAD", "GIT_DIR", "MANPAGER", "EDITOR", "BASH_ENV", "IFS", "RUSTFLAGS"]
        {
            assert!(changes_what_runs(name), "{name}");
        }
        for name in
            ["A", "LANG", "LC_ALL", "RUST_BACKTRACE", "NODE_ENV", "CI", "TZ", "DEBUG", "RUST_LOG"]
        {
            assert!(!changes_what_runs(name), "{name}");
        }
    }
}
