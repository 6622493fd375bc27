//! What a text for the shell would do, without running it.
//!
//! A text for a shell whose grammar is known is read as bash reads it, as far as every word of it is literal ([`reader`]); each simple command in it is looked at by
//! what is known about its program ([`programs`]), wrappers looked through ([`wrappers`]), paths joined to where they are used
//! ([`meaning`]). What cannot be understood in full is said so, with the reason: then no rule allows it and a person is asked. What is
//! understood is never the only wall: the sandbox stands around every command.

mod bash_only;
mod found;
mod meaning;
mod programs;
mod reader;
mod syntax;
#[cfg(test)]
mod tests;
mod variables;
mod wrappers;

use windlass_core::{CommandLine, Effect, Effects, Grammar, OnlyReads, Shell};

use self::found::Touch;
pub(crate) use self::meaning::{Place, Understood};

/// Finds out what a text does in a shell. Of one whose grammar is not known, nothing is read.
pub(crate) fn understand(text: &str, shell: &Shell, place: Place<'_>) -> Understood {
    let mut understood = match shell.grammar() {
        Grammar::Bash => meaning::understand(text, place),
        Grammar::Posix => match bash_only::find(text) {
            None => meaning::understand(text, place),
            Some(syntax) => {
                Understood::nothing(text, format!("`{syntax}` means something else to {shell}"))
            }
        },
        _ => Understood::nothing(text, format!("commands for the shell {shell} are not read")),
    };
    understood.line = understood.line.in_shell(shell);
    understood
}

impl Understood {
    /// A text of which nothing is known, and why.
    fn nothing(text: &str, why: String) -> Self {
        Self { line: CommandLine::opaque(text, why), touches: Vec::new() }
    }

    /// Whether a part of it is this program.
    pub(crate) fn runs(&self, program: &str) -> bool {
        let is_it = |word: &String| word == program;
        self.line.commands.iter().any(|command| command.words.first().is_some_and(is_it))
    }

    /// The command for a tool that runs it where it may change files, so that it counts as any other although it only reads.
    pub(crate) fn line_that_may_change(&self) -> CommandLine {
        let mut line = self.line.clone();
        line.searches.clear();
        for command in &mut line.commands {
            command.only_reads = OnlyReads::No;
        }
        line
    }

    /// As effects: the command itself, and every file that it names.
    pub(crate) fn into_effects(self) -> Effects {
        let files: Vec<Effect> = self.files().collect();
        std::iter::once(Effect::Exec(self.line)).chain(files).collect()
    }

    /// What is done to every file that it names.
    pub(crate) fn files(&self) -> impl Iterator<Item = Effect> + '_ {
        self.touches.iter().map(|(touch, path)| match touch {
            Touch::Read => Effect::Read(path.clone()),
            Touch::Write => Effect::Write(path.clone()),
            Touch::Delete => Effect::Delete(path.clone()),
        })
    }
}
