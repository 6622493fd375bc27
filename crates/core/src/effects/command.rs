//! A command, understood: what it runs as literal words, and what is known about that. Never a string to match a pattern against.
//!
//! Who understands a text is not decided here: a tool that runs one says what it found, and whatever it did not understand is said
//! too, so that nothing can be allowed by a rule that does not cover all of it.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::PathPattern;
use crate::Shell;

/// A command as it will be executed, and what is known of it.
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
    /// What it runs, in the order of the text, also what is run by something else in it. Where not all is understood, those
    /// that are certain.
    pub commands: Vec<SimpleCommand>,
    /// Why it is not understood in full; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclear: Option<String>,
    /// The files that the shell itself writes to: rules about programs do not speak of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirected: Vec<PathPattern>,
    /// The files that the shell itself reads, and the directories that it goes to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shell_reads: Vec<PathPattern>,
    /// Where it finds out only while it runs what it reads: what no tool may see has to be kept from it there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<Search>,
    /// The shell that runs it, where that is another than bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// It goes on as a job when the call has ended, and works on the real workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_job: bool,
}

/// A place that a command looks through: a tree, or as far below it as the names reach that a pattern can mean.
///
/// ```
/// use windlass_core::Search;
/// let all = Search::tree("src");
/// assert_eq!(all.depth, None, "`grep -r x src` reads whatever there is");
/// let some = Search::names("src", 2);
/// assert_eq!(some.depth, Some(2), "`cat src/*/mod.rs` does not");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// Where.
    pub place: PathPattern,
    /// How far below it; `None` for all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
}

impl Search {
    /// All that is below a place.
    pub fn tree(path: impl Into<PathBuf>) -> Self {
        Self { place: PathPattern::tree(path), depth: None }
    }

    /// What is at most so far below it.
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
    /// The program, by the [name](program_name) that rules use, and its arguments; without what runs it (`env`, `timeout` …).
    pub words: Vec<String>,
    /// Whether it is known to do nothing but read.
    #[serde(default)]
    pub only_reads: OnlyReads,
    /// The words with which it does more than its name says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<Risk>,
    /// Its words without the options that stand before or between its subcommands, for rules that restrict: `git -C . push` is
    /// `git push` too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bare: Vec<Vec<String>>,
    /// The reason why it may run programs that are no commands of the line; `None` if it runs none, or what the repository
    /// describes (`make`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<Cow<'static, str>>,
    /// Programs whose work it does by these words, so that whoever denies them denies this too: `find -delete` is `rm`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acts_as: Vec<Cow<'static, str>>,
    /// The files that its words say it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<PathPattern>,
    /// The files that its words say it changes: whoever allows the command allows that too, in the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PathPattern>,
}

/// A word with which a program does more than its name says: runs another, writes a file, loads code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// Which word, the program being 0.
    pub word: usize,
    /// What it does: `runs another program`.
    pub why: Cow<'static, str>,
}

/// Whether a command is known to do nothing but read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnlyReads {
    /// It is not.
    #[default]
    No,
    /// By its words, it is; what files configure (of a repository, say) could make it do more, so it needs a sandbox.
    InSandbox,
    /// It is, whatever is in the files.
    Always,
}

impl CommandLine {
    /// One program with literal arguments, run without a shell.
    pub fn words<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        let command = SimpleCommand::new(words);
        let text = command.words.join(" ");
        Self::understood(text, [command])
    }

    /// A text of which it is known what it runs.
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

    /// The same command as a job.
    #[must_use]
    pub fn as_job(self, is_job: bool) -> Self {
        Self { is_job, ..self }
    }

    /// The same command, run by this shell.
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

    /// A text that nobody has understood, and why: every rule that could bind it asks.
    pub fn opaque(text: impl Into<String>, why: impl Into<String>) -> Self {
        Self { unclear: Some(why.into()), ..Self::understood(text, []) }
    }

    /// Whether all of it is known to do nothing but read, so that it can be run where nothing can be changed.
    pub fn only_reads(&self) -> bool {
        self.unclear.is_none()
            && self.redirected.is_empty()
            && self.commands.iter().all(|command| command.only_reads != OnlyReads::No)
    }

    /// Returns whether its words say that it reads this.
    pub(crate) fn reads(&self, at: &PathPattern) -> bool {
        self.shell_reads.contains(at) || self.commands.iter().any(|part| part.reads.contains(at))
    }

    /// Every path in it.
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
    /// A program and its arguments, of which nothing else is known.
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

    /// Known to do nothing but read, or not.
    #[must_use]
    pub fn reading(mut self, only_reads: OnlyReads) -> Self {
        self.only_reads = only_reads;
        self
    }

    /// With a word that does more than the name of the program says.
    #[must_use]
    pub fn risk(mut self, word: usize, why: impl Into<Cow<'static, str>>) -> Self {
        self.risks.push(Risk { word, why: why.into() });
        self
    }

    /// Whether every risk is among the first `words`.
    pub fn is_within(&self, words: usize) -> bool {
        self.risks.iter().all(|risk| risk.word < words)
    }
}

impl fmt::Display for SimpleCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}

/// Where programs of the system are: one of these is known by its name alone.
const SYSTEM: &[&str] = &[
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
    "/usr/local/sbin/",
    "/opt/homebrew/bin/",
];

/// The name by which rules know a program: `/bin/rm` is `rm`. One in the workspace is its path, always in the same spelling, so that
/// it is never taken for one of the system.
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
    // What is above a link is not above its target, so `..` behind a name stays as it is.
    let root = if word.starts_with('/') { "/" } else { "./" };
    let path = format!("{root}{}", parts.join("/"));
    let of_system = SYSTEM.iter().find_map(|place| path.strip_prefix(place));
    let name = of_system.filter(|name| !name.contains('/') && !matches!(*name, "" | ".."));
    Cow::Owned(name.map(str::to_owned).unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs() {
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
