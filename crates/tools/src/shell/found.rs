//! What is found out about one simple command by its words.

use std::borrow::Cow;
use std::path::PathBuf;

use windlass_core::{OnlyReads, PathPattern, Risk, Search};

use super::syntax::Word;

/// What is known about one command. Paths are as the command has them, not joined to where it runs.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// As what it is known, if there were no risks.
    pub(super) only_reads: OnlyReads,
    pub(super) risks: Vec<Risk>,
    /// The reason why it may run programs that are not in [`Found::runs`] and [`Found::scripts`].
    pub(super) unseen: Option<Cow<'static, str>>,
    /// Its words without the options around its subcommands.
    pub(super) bare: Vec<Vec<String>>,
    /// Programs whose work it does.
    pub(super) acts_as: Vec<&'static str>,
    pub(super) touches: Vec<(Touch, PathPattern)>,
    /// The symbolic links that it makes, each with its target.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Where it finds out only while it runs what it reads.
    pub(super) searches: Vec<Search>,
    /// What it runs itself.
    pub(super) runs: Vec<Run>,
    /// Scripts that it gives to a shell.
    pub(super) scripts: Vec<Word>,
    /// What makes the whole line hard to understand.
    pub(super) unclear: Option<String>,
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    Read,
    Write,
    Delete,
}

/// A command that another one runs.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) words: Vec<Word>,
    /// Whether it is given words that are not known here.
    pub(super) more: bool,
    /// Whether these are paths that cannot be options.
    pub(super) paths: bool,
}

impl Found {
    /// Known to do nothing but read, unless there is a risk.
    pub(super) fn reads(&mut self, how: OnlyReads) {
        self.only_reads = how;
    }

    pub(super) fn risk(&mut self, word: usize, why: impl Into<Cow<'static, str>>) {
        self.risks.push(Risk { word, why: why.into() });
    }

    pub(super) fn unseen(&mut self, why: impl Into<Cow<'static, str>>) {
        self.unseen.get_or_insert_with(|| why.into());
    }

    pub(super) fn unclear(&mut self, why: impl Into<String>) {
        self.unclear.get_or_insert(why.into());
    }

    pub(super) fn touch(&mut self, touch: Touch, path: PathPattern) {
        self.touches.push((touch, path));
    }

    pub(super) fn read(&mut self, word: &Word) {
        self.touch_word(Touch::Read, word, PathPattern::file);
        self.searches.extend(word.search());
    }

    pub(super) fn read_tree(&mut self, word: &Word) {
        self.touch_word(Touch::Read, word, PathPattern::tree);
        self.searches.extend(word.search());
    }

    /// Reads whatever there is below.
    pub(super) fn search(&mut self, word: &Word) {
        self.touch_word(Touch::Read, word, PathPattern::tree);
        let place = word.search().map(|search| search.place.path);
        self.searches.push(Search::tree(place.unwrap_or_else(|| word.text.clone().into())));
    }

    /// The same of the directory that it is in.
    pub(super) fn search_here(&mut self) {
        self.searches.push(Search::tree("."));
    }

    pub(super) fn write(&mut self, word: &Word) {
        self.touch_word(Touch::Write, word, PathPattern::file);
    }

    pub(super) fn write_tree(&mut self, word: &Word) {
        self.touch_word(Touch::Write, word, PathPattern::tree);
    }

    pub(super) fn delete(&mut self, word: &Word) {
        self.touch_word(Touch::Delete, word, PathPattern::tree);
    }

    /// A word that expands something names no place that is known here, and must not be told as one: the line is unclear anyway.
    fn touch_word(&mut self, touch: Touch, word: &Word, pattern: fn(String) -> PathPattern) {
        if !word.is_open {
            self.touch(touch, pattern(word.text.clone()));
        }
    }
}
