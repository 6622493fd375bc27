//! A parsed command: its programs as literal words, and the facts known about them. A rule never matches a pattern against the text.
//!
//! The text is not parsed here. A tool that runs a text describes what it found, and also what it did not understand, so that no rule
//! can allow a command that it does not cover in full.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::PathPattern;
use crate::Shell;

/// A command as it will be executed, and the facts known about it.
///
/// ```
/// use windlass_core::CommandLine;
/// assert_eq!(CommandLine::words(["git", "status"]).to_string(), "git status");
/// let opaque = CommandLine::opaque("$x", "it expands a variable");
/// assert!(opaque.unclear.is_some() && !opaque.only_reads());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// The text as it will be executed.
    pub text: String,
    /// The programs that it runs, in the order of the text, including those that another of them runs. If the text is not understood
    /// in full, only the certain ones.
    pub commands: Vec<SimpleCommand>,
    /// The reason why it is not understood in full; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclear: Option<String>,
    /// The files that the shell itself writes to. Rules about programs do not apply to these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirected: Vec<PathPattern>,
    /// The files that the shell itself reads, and the directories that it changes to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shell_reads: Vec<PathPattern>,
    /// The directories in which it reads files that are known only while it runs. Files that no tool may see have to be kept from it
    /// there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<CommandSearch>,
    /// The shell that runs it, if that is not bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// The command goes on as a job after the call has ended, and works on the real workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_job: bool,
}

/// A directory in which a command may read any file, down to a depth.
///
/// ```
/// use windlass_core::CommandSearch;
/// let all = CommandSearch::tree("src");
/// assert_eq!(all.depth, None, "`grep -r x src` reads whatever there is");
/// let some = CommandSearch::names("src", 2);
/// assert_eq!(some.depth, Some(2), "`cat src/*/mod.rs` does not");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSearch {
    /// The directory.
    pub place: PathPattern,
    /// Maximum depth below the directory; `None` for the whole tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
}

impl CommandSearch {
    /// Makes the search of a whole tree.
    pub fn tree(path: impl Into<PathBuf>) -> Self {
        Self { place: PathPattern::tree(path), depth: None }
    }

    /// Makes the search down to a depth.
    pub fn names(path: impl Into<PathBuf>, depth: usize) -> Self {
        Self { place: PathPattern::tree(path), depth: Some(depth) }
    }
}

/// One program with literal arguments.
///
/// ```
/// use windlass_core::{OnlyReads, SimpleCommand};
/// let find = SimpleCommand::new(["find", ".", "-delete"]).risk(2, "removes files");
/// assert!(!find.is_within(1) && find.is_within(3), "only a rule that names the risk covers it");
/// assert_eq!(find.only_reads, OnlyReads::No);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimpleCommand {
    /// The program, by the [name](program_name) that rules use, and its arguments. Without a program that only starts it (`env`,
    /// `timeout` …).
    pub words: Vec<String>,
    /// Says if the program is known to only read.
    #[serde(default)]
    pub only_reads: OnlyReads,
    /// The words that make the program do more than its name says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<CommandRisk>,
    /// The words without options before or between subcommands, for rules that restrict: `git -C . push` is `git push` too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bare: Vec<Vec<String>>,
    /// The reason why it may run programs that are not in `commands`; `None` if it runs none, or only those that the repository
    /// describes (`make`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<Cow<'static, str>>,
    /// Programs whose work it does with these words, so that a rule that denies them denies this command too: `find -delete` is `rm`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acts_as: Vec<Cow<'static, str>>,
    /// The files that it reads according to its words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<PathPattern>,
    /// The files that it changes according to its words. A rule that allows the command allows these changes too, in the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PathPattern>,
}

/// A word that makes a program do more than its name says: run another program, write a file, load code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRisk {
    /// The index of the word; the program is 0.
    pub word: usize,
    /// The risk in words: `runs another program`.
    pub why: Cow<'static, str>,
}

/// States if a command is known to only read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnlyReads {
    /// It may change something.
    #[default]
    No,
    /// By its words it only reads. Configuration files (of a repository, say) could make it do more, so it needs a sandbox.
    InSandbox,
    /// It only reads, with any configuration.
    Always,
}

impl CommandLine {
    /// Makes the command of one program with literal arguments, run without a shell.
    pub fn words<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        let command = SimpleCommand::new(words);
        let text = command.words.join(" ");
        Self::understood(text, [command])
    }

    /// Makes the command of a text that is understood in full.
    pub fn understood(
        text: impl Into<String>,
        commands: impl IntoIterator<Item = SimpleCommand>,
    ) -> Self {
        let commands = commands.into_iter().collect();
        Self {
            text: text.into(),
            commands,
            unclear: None,
            redirected: Vec::new(),
            shell_reads: Vec::new(),
            searches: Vec::new(),
            shell: None,
            is_job: false,
        }
    }

    /// Marks the command as a job, or as none.
    #[must_use]
    pub fn as_job(self, is_job: bool) -> Self {
        Self { is_job, ..self }
    }

    /// Sets the shell that runs the command.
    ///
    /// ```
    /// use windlass_core::{CommandLine, Effect, Shell};
    /// let line = CommandLine::opaque("ls | first 3", "it is not read").in_shell(&Shell::new("/usr/bin/nu"));
    /// assert_eq!(Effect::Exec(line).to_string(), "exec ls | first 3 (in /usr/bin/nu)");
    /// ```
    #[must_use]
    pub fn in_shell(self, shell: &Shell) -> Self {
        let named = (!shell.is_usual()).then(|| shell.to_string());
        Self { shell: named, ..self }
    }

    /// Makes the command of a text that is not understood, for the reason `why`. Every rule that could apply to it asks.
    pub fn opaque(text: impl Into<String>, why: impl Into<String>) -> Self {
        Self { unclear: Some(why.into()), ..Self::understood(text, []) }
    }

    /// Returns whether all of it is known to only read, so that it can be run in a sandbox where nothing can be changed.
    pub fn only_reads(&self) -> bool {
        self.unclear.is_none()
            && self.redirected.is_empty()
            && self.commands.iter().all(|command| command.only_reads != OnlyReads::No)
    }

    /// Returns whether the shell or a program of it reads this pattern, according to its words.
    pub(crate) fn reads(&self, at: &PathPattern) -> bool {
        self.shell_reads.contains(at) || self.commands.iter().any(|part| part.reads.contains(at))
    }

    /// Iterates over all paths of the command, to change them.
    pub(super) fn patterns_mut(&mut self) -> impl Iterator<Item = &mut PathPattern> {
        let named = self
            .commands
            .iter_mut()
            .flat_map(|command| command.reads.iter_mut().chain(&mut command.changes));
        let searched = self.searches.iter_mut().map(|search| &mut search.place);
        named.chain(&mut self.redirected).chain(&mut self.shell_reads).chain(searched)
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl SimpleCommand {
    /// Makes the command of a program and its arguments, with no other facts known.
    pub fn new<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        Self {
            words: words.into_iter().map(Into::into).collect(),
            only_reads: OnlyReads::No,
            risks: Vec::new(),
            bare: Vec::new(),
            unseen: None,
            acts_as: Vec::new(),
            reads: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Sets the [`only_reads`](Self::only_reads) field.
    #[must_use]
    pub fn reading(mut self, only_reads: OnlyReads) -> Self {
        self.only_reads = only_reads;
        self
    }

    /// Adds a word that makes the program do more than its name says.
    #[must_use]
    pub fn risk(mut self, word: usize, why: impl Into<Cow<'static, str>>) -> Self {
        self.risks.push(CommandRisk { word, why: why.into() });
        self
    }

    /// Returns whether every risk is among the first `words` words.
    pub fn is_within(&self, words: usize) -> bool {
        self.risks.iter().all(|risk| risk.word < words)
    }
}

impl fmt::Display for SimpleCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

/// The directories of the system's programs. A program in one of these is known by its name alone.
const SYSTEM_PROGRAM_DIRECTORIES: &[&str] = &[
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
    "/usr/local/sbin/",
    "/opt/homebrew/bin/",
];

/// Returns the name by which rules know a program: `/bin/rm` is `rm`. A program elsewhere is known by its path, always in the same
/// spelling, so that it is never taken for one of the system.
///
/// ```
/// use windlass_core::program_name;
/// assert_eq!(program_name("/usr/bin/git"), "git");
/// assert_eq!(program_name("scripts//test.sh"), "./scripts/test.sh");
/// assert_eq!(program_name("/tmp/git"), "/tmp/git");
/// ```
pub fn program_name(word: &str) -> Cow<'_, str> {
    if !word.contains('/') {
        return Cow::Borrowed(word);
    }
    let parts: Vec<&str> = word.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    // The parent of a link is not the parent of its target, so `..` after a name stays as it is.
    let root = if word.starts_with('/') { "/" } else { "./" };
    let path = format!("{root}{}", parts.join("/"));
    let of_system = SYSTEM_PROGRAM_DIRECTORIES.iter().find_map(|place| path.strip_prefix(place));
    let name = of_system.filter(|name| !name.contains('/') && !matches!(*name, "" | ".."));
    Cow::Owned(name.map(str::to_owned).unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_programs_have_plain_names_and_others_paths() {
        for (word, name) in [
            ("rm", "rm"),
            ("/bin/rm", "rm"),
            ("/usr/bin/../../w/rm", "/usr/bin/../../w/rm"),
            ("/usr/bin/..", "/usr/bin/.."),
            ("//bin/rm", "rm"),
            ("/bin//rm", "rm"),
            ("/usr/./bin/rm", "rm"),
            ("./rm", "./rm"),
            ("a/./b", "./a/b"),
            ("./scripts/../evil.sh", "./scripts/../evil.sh"),
            ("../rm", "./../rm"),
        ] {
            assert_eq!(program_name(word), name, "{word}");
        }
    }
}
