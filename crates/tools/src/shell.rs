//! What a text for the shell would do, without running it.
//!
//! A text is read as bash reads it, as far as every word of it is literal ([`reader`]); each simple command in it is looked at by
//! what is known about its program ([`programs`]), wrappers looked through ([`wrappers`]), paths joined to where they are used
//! ([`meaning`]). What cannot be understood in full is said so, with the reason: then no rule allows it and a person is asked. What is
//! understood is never the only wall: the sandbox stands around every command.
//!
//! Answers are kept for a while, by text and place: the same text is looked at when it is decided on, when it is explained and when it is run.

mod found;
mod meaning;
mod programs;
mod reader;
mod syntax;
#[cfg(test)]
mod tests;
mod wrappers;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_core::{CommandLine, Effect, Effects, OnlyReads};

use self::found::Touch;
pub(crate) use self::meaning::{Place, Understood};

/// How many answers each thread keeps.
const KEPT: usize = 64;

/// A text in its place, and what it does; the oldest first.
type Kept = Vec<(String, PathBuf, PathBuf, Arc<Understood>)>;

thread_local! {
    static KNOWN: RefCell<Kept> = const { RefCell::new(Vec::new()) };
}

/// What a text does in this place.
pub(crate) fn understand(text: &str, place: Place<'_>) -> Arc<Understood> {
    KNOWN.with_borrow_mut(|known| {
        let is_it =
            |(of, workspace, directory, _): &(String, PathBuf, PathBuf, Arc<Understood>)| {
                of == text && workspace == place.workspace && directory == place.directory
            };
        if let Some((.., understood)) = known.iter().rev().find(|kept| is_it(kept)) {
            return understood.clone();
        }
        let understood = Arc::new(meaning::understand(text, place));
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push((
            text.to_owned(),
            place.workspace.to_owned(),
            place.directory.to_owned(),
            understood.clone(),
        ));
        understood
    })
}

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
    pub(crate) fn effects(&self) -> Effects {
        std::iter::once(Effect::Exec(self.line.clone())).chain(self.files()).collect()
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
