//! The shell that runs commands: its program, its arguments, and its grammar.
//!
//! Policy parses commands before they run, by the grammar of bash. A command for a shell with another grammar is not parsed: it
//! counts as not understood, so no rule allows it, and every rule that asks about unknown commands applies.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::Program;

/// The shell that runs commands.
///
/// Its default arguments prevent it from reading start files of the person. An unknown shell gets `-c`, or the arguments of
/// [`Shell::with_arguments`].
///
/// ```
/// use windlass_core::{Grammar, Shell};
/// let fish = Shell::new("/usr/bin/fish");
/// assert_eq!((fish.name(), fish.grammar()), ("fish".into(), Grammar::Unknown));
/// assert_eq!(Shell::default().to_string(), "bash");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    program: PathBuf,
    /// File of the program, with links resolved.
    file: Option<PathBuf>,
    /// Arguments that a person gave in place of the default ones.
    arguments: Option<Vec<String>>,
}

/// The grammar of a shell's commands.
///
/// ```
/// use windlass_core::{Grammar, Shell};
/// assert_eq!(Shell::new("/bin/dash").grammar(), Grammar::Posix);
/// assert_eq!(Shell::new("/bin/zsh").grammar(), Grammar::Unknown);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grammar {
    /// The grammar of bash.
    Bash,
    /// The grammar that all POSIX shells share: `sh`, `dash`, `ash` and `busybox`.
    Posix,
    /// An unknown grammar: nothing is concluded from the text of a command.
    Unknown,
}

/// Known shells by name, with their grammar and the arguments before the command.
const KNOWN_SHELLS: &[(&str, Grammar, &[&str])] = &[
    ("bash", Grammar::Bash, &["--norc", "--noprofile", "-c", "--"]),
    ("sh", Grammar::Posix, &["-c", "--"]),
    ("dash", Grammar::Posix, &["-c", "--"]),
    ("ash", Grammar::Posix, &["-c", "--"]),
    ("busybox", Grammar::Posix, &["sh", "-c", "--"]),
    ("zsh", Grammar::Unknown, &["-f", "-c", "--"]),
    ("fish", Grammar::Unknown, &["--no-config", "-c"]),
];

/// Returns the grammar and default arguments of a known shell.
fn known(name: &str) -> Option<(Grammar, &'static [&'static str])> {
    let found = KNOWN_SHELLS.iter().find(|(known, ..)| *known == name);
    found.map(|(_, grammar, arguments)| (*grammar, *arguments))
}

impl Default for Shell {
    /// Returns the machine's bash.
    fn default() -> Self {
        Self::new("bash")
    }
}

impl Shell {
    /// Makes a shell from its path, or from its name in `PATH`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), file: None, arguments: None }
    }

    /// Sets the arguments before a command. They can change the meaning of a command, so its grammar is unknown then.
    ///
    /// ```
    /// use windlass_core::{Grammar, Shell};
    /// let node = Shell::new("/usr/bin/node").with_arguments(["-e"]);
    /// assert_eq!((node.to_string(), node.grammar()), ("/usr/bin/node -e".into(), Grammar::Unknown));
    /// ```
    #[must_use]
    pub fn with_arguments<S: Into<String>>(
        mut self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        self.arguments = Some(arguments.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the shell after the machine found it: `program` is its path, `file` the same with links resolved.
    ///
    /// ```
    /// use windlass_core::{Grammar, Shell};
    /// let shell = Shell::new("sh").found("/bin/sh", "/usr/bin/mksh");
    /// assert_eq!(shell.grammar(), Grammar::Unknown, "a name alone does not make it a known shell");
    /// ```
    #[must_use]
    pub fn found(self, program: impl Into<PathBuf>, file: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), file: Some(file.into()), arguments: self.arguments }
    }

    /// Returns the program as a person named it, or its path once it is found.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the file to execute.
    pub fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(&self.program)
    }

    /// Returns the name of the program, without its directory.
    pub fn name(&self) -> Cow<'_, str> {
        self.program.file_name().unwrap_or_default().to_string_lossy()
    }

    /// Returns the grammar of its commands. It is unknown unless both the name and the file are of a known shell.
    pub fn grammar(&self) -> Grammar {
        if self.arguments.is_some() {
            return Grammar::Unknown;
        }
        let of = |name: &str| known(name).map_or(Grammar::Unknown, |(grammar, _)| grammar);
        let file = self.file().file_name().unwrap_or_default().to_string_lossy();
        match (of(&self.name()), of(&file)) {
            (Grammar::Unknown, _) | (_, Grammar::Unknown) => Grammar::Unknown,
            (grammar, _) => grammar,
        }
    }

    /// Returns the name of the program and the arguments before a command, for the machine that starts it.
    pub fn words(&self) -> Vec<OsString> {
        let name = self.program.file_name().unwrap_or_default().to_owned();
        let usual = || known(&self.name()).map_or(&["-c"][..], |(_, arguments)| arguments);
        let arguments: Vec<OsString> = match &self.arguments {
            Some(given) => given.iter().map(Into::into).collect(),
            None => usual().iter().map(Into::into).collect(),
        };
        std::iter::once(name).chain(arguments).collect()
    }

    /// Makes a command for this shell.
    pub fn command(&self, text: impl Into<String>) -> Program {
        if self.is_usual() {
            return Program::Shell(text.into());
        }
        Program::InShell(self.clone(), text.into())
    }

    /// Returns whether it is the machine's bash, which effects and records do not mention.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::quote::path(&self.program))?;
        for argument in self.arguments.iter().flatten() {
            write!(f, " {}", crate::quote::visible(argument))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammars_and_arguments() {
        use Grammar::{Bash, Posix, Unknown};
        for (program, file, grammar, words) in [
            ("bash", "bash", Bash, "bash --norc --noprofile -c --"),
            ("/bin/sh", "/usr/bin/dash", Posix, "sh -c --"),
            ("/bin/sh", "/usr/bin/bash", Posix, "sh -c --"),
            ("/bin/sh", "/bin/busybox", Posix, "sh -c --"),
            ("/bin/busybox", "/bin/busybox", Posix, "busybox sh -c --"),
            ("/bin/sh", "/usr/bin/zsh", Unknown, "sh -c --"),
            ("/home/a/odd", "/usr/bin/bash", Unknown, "odd -c"),
            ("/bin/zsh", "/bin/zsh", Unknown, "zsh -f -c --"),
            ("/bin/fish", "/bin/fish", Unknown, "fish --no-config -c"),
            ("/opt/nu", "/opt/nu", Unknown, "nu -c"),
        ] {
            let shell = Shell::new(program).found(program, file);
            let told: Vec<_> =
                shell.words().iter().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!((shell.grammar(), told.join(" ").as_str()), (grammar, words), "{program}");
        }
        let own = Shell::new("/bin/bash").with_arguments(["-O", "extglob", "-c"]);
        assert_eq!(own.grammar(), Unknown, "arguments can change what a text means");
    }
}
