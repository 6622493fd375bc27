//! What a text for the shell would do, without running it.
//!
//! A text is read as bash reads it, as far as every word of it is literal ([`reader`]); each simple command in it is looked at by
//! what is known about its program ([`programs`]), wrappers looked through ([`wrappers`]), paths joined to where they are used
//! ([`meaning`]). What cannot be understood in full is said so, with the reason: then no rule allows it and a person is asked. What is
//! understood is never the only wall: the sandbox stands around every command.

mod found;
mod meaning;
mod programs;
mod reader;
mod syntax;
#[cfg(test)]
mod tests;
mod variables;
mod wrappers;

use windlass_core::{CommandLine, Effect, Effects, OnlyReads};

use self::found::Touch;
pub(crate) use self::meaning::{Place, Understood, understand};

impl Understood {
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
