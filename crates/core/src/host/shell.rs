//! The shell that runs the texts of commands: its program, its arguments, and whether its grammar is known.
//!
//! Commands are read before they run, as bash reads them. A text for a shell with another grammar is not read at all: it counts as
//! not understood, so no rule allows it and whatever asks about such a command asks.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::Program;

/// The shell that runs commands.
///
/// Its arguments keep it from reading start files of the person. Those of a shell that is not known here are `-c`, or what
/// [`Shell::with_arguments`] says.
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
    /// The file that the program is, links followed.
    file: Option<PathBuf>,
    /// Those that a person gave in place of the usual ones.
    arguments: Option<Vec<String>>,
}

/// The rules by which a shell reads a command.
///
/// ```
/// use windlass_core::{Grammar, Shell};
/// assert_eq!(Shell::new("/bin/dash").grammar(), Grammar::Posix);
/// assert_eq!(Shell::new("/bin/zsh").grammar(), Grammar::Unknown);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grammar {
    /// Those of bash.
    Bash,
    /// Those that all shells of POSIX share: `sh`, `dash`, `ash` and `busybox`.
    Posix,
    /// Others: nothing is concluded from the text of a command.
    Unknown,
}

/// The shells that are known, by name: their grammar, and the arguments before the text.
const KNOWN: &[(&str, Grammar, &[&str])] = &[
    ("bash", Grammar::Bash, &["--norc", "--noprofile", "-c", "--"]),
    ("sh", Grammar::Posix, &["-c", "--"]),
    ("dash", Grammar::Posix, &["-c", "--"]),
    ("ash", Grammar::Posix, &["-c", "--"]),
    ("busybox", Grammar::Posix, &["sh", "-c", "--"]),
    ("zsh", Grammar::Unknown, &["-f", "-c", "--"]),
    ("fish", Grammar::Unknown, &["--no-config", "-c"]),
];

fn known(name: &str) -> Option<(Grammar, &'static [&'static str])> {
    let found = KNOWN.iter().find(|(known, ..)| *known == name);
    found.map(|(_, grammar, arguments)| (*grammar, *arguments))
}

impl Default for Shell {
    /// The bash of the machine.
    fn default() -> Self {
        Self::new("bash")
    }
}

impl Shell {
    /// A shell by its path, or by the name under which it is in `PATH`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), file: None, arguments: None }
    }

    /// Gives it these arguments before the text of a command. They can change what a text means, so its grammar is then unknown.
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

    /// The same shell once a machine has found it: the path of the program, and the file that this is when links are followed.
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

    /// The program as a person named it, or its path once it is found.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The file to execute.
    pub fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(&self.program)
    }

    /// The name of the program, without its directory.
    pub fn name(&self) -> Cow<'_, str> {
        self.program.file_name().unwrap_or_default().to_string_lossy()
    }

    /// The grammar of its commands. The name and the file must both be of a known shell.
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

    /// The name of the program and its arguments before the text of a command, for the machine that starts it.
    pub fn words(&self) -> Vec<OsString> {
        let name = self.program.file_name().unwrap_or_default().to_owned();
        let usual = || known(&self.name()).map_or(&["-c"][..], |(_, arguments)| arguments);
        let arguments: Vec<OsString> = match &self.arguments {
            Some(given) => given.iter().map(Into::into).collect(),
            None => usual().iter().map(Into::into).collect(),
        };
        std::iter::once(name).chain(arguments).collect()
    }

    /// A command for this shell.
    pub fn command(&self, text: impl Into<String>) -> Program {
        if self.is_usual() {
            return Program::Shell(text.into());
        }
        Program::InShell(self.clone(), text.into())
    }

    /// Tells whether it is the bash of the machine, which effects and records do not mention.
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
