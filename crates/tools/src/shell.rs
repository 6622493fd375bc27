//! Analyzes a shell script without running it: the commands that it runs and the files that they read, write or delete.
//!
//! If the grammar of the shell is known, the [`reader`] parses the script as bash does, as far as every word is literal. The [`programs`]
//! module knows the options of each program, [`wrappers`] finds the command behind programs such as `env` or `timeout`, and [`analysis`]
//! joins paths to the directory in which they are used. A script that cannot be analyzed in full is marked unclear, with the reason: then
//! no rule allows it and a person is asked. The analysis is never the only protection: every command also runs in the sandbox.

mod analysis;
mod bash_only;
mod command_facts;
mod programs;
mod reader;
mod syntax;
#[cfg(test)]
mod tests;
mod variables;
mod wrappers;

use windlass_core::{CommandLine, Effect, Effects, Grammar, OnlyReads, Shell};

pub(crate) use self::analysis::{RunLocation, ScriptAnalysis};
use self::command_facts::FileAccess;

/// Analyzes a script for this shell. A script for a shell with an unknown grammar is not parsed and is unclear.
pub(crate) fn analyze(text: &str, shell: &Shell, location: RunLocation<'_>) -> ScriptAnalysis {
    let mut understood = match shell.grammar() {
        Grammar::Bash => analysis::analyze(text, location),
        Grammar::Posix => match bash_only::find(text) {
            None => analysis::analyze(text, location),
            Some(syntax) => {
                ScriptAnalysis::nothing(text, format!("`{syntax}` means something else to {shell}"))
            }
        },
        _ => ScriptAnalysis::nothing(text, format!("commands for the shell {shell} are not read")),
    };
    understood.line = understood.line.in_shell(shell);
    understood
}

impl ScriptAnalysis {
    /// Returns an analysis that lists no commands and no files, with the reason why the script is unclear.
    fn nothing(text: &str, why: String) -> Self {
        Self { line: CommandLine::opaque(text, why), file_accesses: Vec::new() }
    }

    /// Returns whether one of the commands is this program.
    pub(crate) fn runs(&self, program: &str) -> bool {
        let is_it = |word: &String| word == program;
        self.line.commands.iter().any(|command| command.words.first().is_some_and(is_it))
    }

    /// Returns the command line without the marks that it only reads, for a tool that runs it where it may change files.
    pub(crate) fn line_that_may_change(&self) -> CommandLine {
        let mut line = self.line.clone();
        line.searches.clear();
        for command in &mut line.commands {
            command.only_reads = OnlyReads::No;
        }
        line
    }

    /// Returns the effects of the script: the execution of the command line and an access to every file that it names.
    pub(crate) fn into_effects(self) -> Effects {
        let files: Vec<Effect> = self.files().collect();
        std::iter::once(Effect::Exec(self.line)).chain(files).collect()
    }

    /// Returns a read, write or delete effect for every file that the script names.
    pub(crate) fn files(&self) -> impl Iterator<Item = Effect> + '_ {
        self.file_accesses.iter().map(|(access, path)| match access {
            FileAccess::Read => Effect::Read(path.clone()),
            FileAccess::Write => Effect::Write(path.clone()),
            FileAccess::Delete => Effect::Delete(path.clone()),
        })
    }
}
