//! The syntax tree of a shell script, as far as the reader parses it.

use windlass_core::CommandSearch;

/// A word of a script after its quotes are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Index in `text` of the first glob character, if there is one.
    pub(super) glob_at: Option<usize>,
    /// True if the word contains an expansion that is not known, so that `text` is not all of it.
    pub(super) is_incomplete: bool,
    /// True if a part of the word was quoted: then it is no reserved word.
    pub(super) is_quoted: bool,
    /// References to variables in the word, in the order of the text.
    pub(super) variable_refs: Vec<VariableRef>,
}

/// A reference to a variable in a word. Its name is not part of the word's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VariableRef {
    /// Index in the text of the word at which the value is inserted.
    pub(super) at: usize,
    pub(super) name: String,
    /// True if the reference is quoted, so that the value is never split into words.
    pub(super) is_quoted: bool,
    /// Column in the script, for messages.
    pub(super) column: usize,
}

/// An assignment `name=value`.
#[derive(Debug, Clone)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: Word,
}

impl Word {
    /// Returns a word of this text without quotes, globs or variables.
    pub(super) fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Appends a reference to a variable.
    pub(super) fn push_variable_ref(&mut self, name: &str, is_quoted: bool, column: usize) {
        let (at, name) = (self.text.len(), name.to_owned());
        self.variable_refs.push(VariableRef { at, name, is_quoted, column });
    }

    /// Returns whether this is the given word, unquoted and without variables, as reserved words have to be.
    pub(super) fn is_bare(&self, text: &str) -> bool {
        !self.is_quoted && !self.is_incomplete && self.variable_refs.is_empty() && self.text == text
    }

    /// Returns the directory walk by which the shell expands a glob pattern: from its literal directory, as deep as the pattern has parts.
    pub(super) fn glob_search(&self) -> Option<CommandSearch> {
        let literal = self.text.get(..self.glob_at?)?;
        let directory =
            literal.get(..=literal.rfind('/').unwrap_or(0)).filter(|it| it.ends_with('/'));
        let directory = directory.unwrap_or_default();
        let rest = self.text.get(directory.len()..)?;
        let parts = || rest.split('/').filter(|part| !part.is_empty());
        // Behind a glob, each `..` may lead out of the matched directory.
        let up = parts().filter(|part| *part == "..").count();
        let directory = if directory.is_empty() { "./" } else { directory };
        Some(CommandSearch::names(format!("{directory}{}", "../".repeat(up)), parts().count()))
    }

    /// Returns whether the expanded word may begin with a dash.
    pub(super) fn could_be_option(&self) -> bool {
        self.is_incomplete
            || self.glob_at == Some(0)
            || self.variable_refs.first().is_some_and(|variable_ref| variable_ref.at == 0)
    }
}

/// Commands in sequence.
pub(super) type List = Vec<AndOr>;

/// Pipelines joined by `&&` and `||`.
#[derive(Debug, Default)]
pub(super) struct AndOr {
    pub(super) first: Pipeline,
    pub(super) rest: Vec<(Connector, Pipeline)>,
    /// True if the list ends in `&` and runs in its own shell.
    pub(super) in_background: bool,
}

/// The operator between two pipelines: `&&` or `||`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connector {
    And,
    Or,
}

/// Commands joined by `|`.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    pub(super) is_negated: bool,
    pub(super) commands: Vec<Command>,
}

impl Command {
    /// Returns a command without assignments, redirections and substitutions.
    pub(super) fn new(body: CommandBody) -> Self {
        Self { assignments: Vec::new(), body, redirects: Vec::new(), substitutions: Vec::new() }
    }
}

/// One command of any form, with its assignments and redirections.
#[derive(Debug)]
pub(super) struct Command {
    /// Assignments before the first word: `A=b ls`.
    pub(super) assignments: Vec<Assignment>,
    pub(super) body: CommandBody,
    pub(super) redirects: Vec<Redirect>,
    /// Command substitutions `$(…)` in its words.
    pub(super) substitutions: Vec<List>,
}

/// The form of a command.
#[derive(Debug)]
pub(super) enum CommandBody {
    /// A program and its arguments.
    Simple(Vec<Word>),
    /// `( … )`.
    Subshell(List),
    /// `{ …; }`.
    Group(List),
    /// `if …; then …; fi`: the conditions and branches, in order.
    If(Vec<List>),
    /// `while …; do …; done`.
    Loop(Vec<List>),
    /// `for name in values; do …; done`.
    For { name: String, values: Vec<Word>, body: List },
}

/// A redirection of a command's input or output to a file.
#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) kind: RedirectKind,
    pub(super) target: Word,
}

/// The direction of a redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedirectKind {
    Read,
    Write,
}
