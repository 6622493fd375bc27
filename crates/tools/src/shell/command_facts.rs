//! The facts about one simple command that its program and its words reveal.

use std::borrow::Cow;
use std::path::PathBuf;

use windlass_core::{CommandRisk, CommandSearch, OnlyReads, PathPattern};

use super::syntax::Word;

/// All that is known about one simple command. Paths are as the command spells them, relative to its working directory.
#[derive(Debug, Default)]
pub(super) struct CommandFacts {
    /// Says whether the command only reads, provided that there are no risks.
    pub(super) only_reads: OnlyReads,
    /// Words with which the command does more than its name says, each with a reason.
    pub(super) risks: Vec<CommandRisk>,
    /// The reason why the command may run programs other than those in `inner_commands` and `scripts`.
    pub(super) unseen: Option<Cow<'static, str>>,
    /// Forms of the command without the options around its subcommands, so that a rule for `git push` covers `git -C . push`.
    pub(super) bare: Vec<Vec<String>>,
    /// Names of programs that do the same work, such as `rm` for `find -delete`.
    pub(super) acts_as: Vec<&'static str>,
    /// The files that the words name, with the kind of access.
    pub(super) file_accesses: Vec<(FileAccess, PathPattern)>,
    /// Symbolic links that the command creates, as pairs of link and target.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Directories that the command walks to find the files that it reads.
    pub(super) searches: Vec<CommandSearch>,
    /// Commands in its words that the command runs.
    pub(super) inner_commands: Vec<InnerCommand>,
    /// Scripts in its words that the command gives to a shell.
    pub(super) scripts: Vec<Word>,
    /// The reason why the whole script is unclear because of this command.
    pub(super) unclear: Option<String>,
}

/// The kind of access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileAccess {
    Read,
    Write,
    Delete,
}

/// A command that another command runs, such as the one behind `find -exec`.
#[derive(Debug)]
pub(super) struct InnerCommand {
    /// The program and its arguments.
    pub(super) words: Vec<Word>,
    /// True if the outer command adds arguments that are not known.
    pub(super) has_unknown_words: bool,
    /// True if the added arguments are paths that cannot be taken for options.
    pub(super) unknown_words_are_paths: bool,
}

impl CommandFacts {
    /// Marks the command as one that only reads, unless there is a risk.
    pub(super) fn set_only_reads(&mut self, how: OnlyReads) {
        self.only_reads = how;
    }

    /// Adds a risk: the index of the word (the program is 0) and the reason.
    pub(super) fn add_risk(&mut self, word: usize, why: impl Into<Cow<'static, str>>) {
        self.risks.push(CommandRisk { word, why: why.into() });
    }

    /// Notes that the command may run programs that are not known. The first reason is kept.
    pub(super) fn mark_unseen(&mut self, why: impl Into<Cow<'static, str>>) {
        self.unseen.get_or_insert_with(|| why.into());
    }

    /// Notes that the whole script is unclear. The first reason is kept.
    pub(super) fn mark_unclear(&mut self, why: impl Into<String>) {
        self.unclear.get_or_insert(why.into());
    }

    /// Adds an access to a path.
    pub(super) fn add_access(&mut self, access: FileAccess, path: PathPattern) {
        self.file_accesses.push((access, path));
    }

    /// Adds a read of the file that a word names, and the directory walk of its glob pattern.
    pub(super) fn add_read(&mut self, word: &Word) {
        self.add_word_access(FileAccess::Read, word, PathPattern::file);
        self.searches.extend(word.glob_search());
    }

    /// Adds a read of a file or a whole directory tree, and the directory walk of the word's glob pattern.
    pub(super) fn add_tree_read(&mut self, word: &Word) {
        self.add_word_access(FileAccess::Read, word, PathPattern::tree);
        self.searches.extend(word.glob_search());
    }

    /// Adds a recursive search, such as `grep -r`: a read of the tree and a walk through all of it.
    pub(super) fn add_tree_search(&mut self, word: &Word) {
        self.add_word_access(FileAccess::Read, word, PathPattern::tree);
        let directory = word.glob_search().map(|search| search.place.path);
        self.searches
            .push(CommandSearch::tree(directory.unwrap_or_else(|| word.text.clone().into())));
    }

    /// Adds a recursive search of the working directory.
    pub(super) fn add_search_here(&mut self) {
        self.searches.push(CommandSearch::tree("."));
    }

    /// Adds a write to the file that a word names.
    pub(super) fn add_write(&mut self, word: &Word) {
        self.add_word_access(FileAccess::Write, word, PathPattern::file);
    }

    /// Adds a write to a file or anywhere in a directory tree.
    pub(super) fn add_tree_write(&mut self, word: &Word) {
        self.add_word_access(FileAccess::Write, word, PathPattern::tree);
    }

    /// Adds the deletion of a file or of a directory tree.
    pub(super) fn add_tree_delete(&mut self, word: &Word) {
        self.add_word_access(FileAccess::Delete, word, PathPattern::tree);
    }

    /// Adds an access to the path that a word names. An incomplete word names no known path; it makes the script unclear anyway.
    fn add_word_access(
        &mut self,
        access: FileAccess,
        word: &Word,
        pattern: fn(String) -> PathPattern,
    ) {
        if !word.is_incomplete {
            self.add_access(access, pattern(word.text.clone()));
        }
    }
}
