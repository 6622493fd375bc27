//! What a text for the shell is made of, as far as it is read here.

use windlass_core::Search;

/// A word after the quotes are taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Where in the text the first character stands that makes it a pattern for names of files.
    pub(super) pattern: Option<usize>,
    /// Whether it expands something, so that the text is not all of it.
    pub(super) is_open: bool,
    /// Whether any of it was quoted: then it is no reserved word.
    pub(super) is_quoted: bool,
    /// The variables that belong into it, in the order of the text.
    pub(super) holes: Vec<Hole>,
}

/// A place in a word where the value of a variable belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hole {
    /// Where in the text of the word.
    pub(super) at: usize,
    pub(super) name: String,
    /// Whether the value stays one word whatever is in it.
    pub(super) is_quoted: bool,
    /// Where in the script it stands, for people.
    pub(super) column: usize,
}

/// `name=value`.
#[derive(Debug, Clone)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: Word,
}

impl Word {
    /// A word that means itself.
    pub(super) fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Leaves a place for the value of a variable at its end.
    pub(super) fn leave_hole(&mut self, name: &str, is_quoted: bool, column: usize) {
        let (at, name) = (self.text.len(), name.to_owned());
        self.holes.push(Hole { at, name, is_quoted, column });
    }

    /// Whether it is this word, unquoted: what the shell would take for one of its own.
    pub(super) fn is_bare(&self, text: &str) -> bool {
        !self.is_quoted && !self.is_open && self.holes.is_empty() && self.text == text
    }

    /// Where the shell looks for names, if it is a pattern: below its literal part, as deep as it has parts.
    pub(super) fn search(&self) -> Option<Search> {
        let literal = self.text.get(..self.pattern?)?;
        let place = literal.get(..=literal.rfind('/').unwrap_or(0)).filter(|it| it.ends_with('/'));
        let place = place.unwrap_or_default();
        let rest = self.text.get(place.len()..)?;
        let parts = || rest.split('/').filter(|part| !part.is_empty());
        // Behind a pattern it may lead out of wherever the pattern led to.
        let up = parts().filter(|part| *part == "..").count();
        let place = if place.is_empty() { "./" } else { place };
        Some(Search::names(format!("{place}{}", "../".repeat(up)), parts().count()))
    }

    /// Whether it could become something that begins with a dash.
    pub(super) fn could_be_option(&self) -> bool {
        self.is_open
            || self.pattern == Some(0)
            || self.holes.first().is_some_and(|hole| hole.at == 0)
    }
}

/// Commands one after the other.
pub(super) type List = Vec<AndOr>;

/// Pipelines that depend on how the one before ended.
#[derive(Debug, Default)]
pub(super) struct AndOr {
    pub(super) first: Pipeline,
    pub(super) rest: Vec<(Connector, Pipeline)>,
    /// Whether it runs beside what follows, in a shell of its own.
    pub(super) in_background: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connector {
    And,
    Or,
}

/// Commands that hand on what they print.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    pub(super) is_negated: bool,
    pub(super) commands: Vec<Command>,
}

impl Command {
    pub(super) fn new(body: Body) -> Self {
        Self { assignments: Vec::new(), body, redirects: Vec::new(), inside: Vec::new() }
    }
}

#[derive(Debug)]
pub(super) struct Command {
    /// The variables that are set before its words.
    pub(super) assignments: Vec<Assignment>,
    pub(super) body: Body,
    pub(super) redirects: Vec<Redirect>,
    /// What is run to make its words.
    pub(super) inside: Vec<List>,
}

#[derive(Debug)]
pub(super) enum Body {
    Simple(Vec<Word>),
    /// `( … )`.
    Subshell(List),
    /// `{ …; }`.
    Group(List),
    /// `if …; then …; fi`: the conditions, and what follows from each.
    If(Vec<List>),
    /// `while …; do …; done`.
    Loop(Vec<List>),
    /// `for name in values; do …; done`.
    For {
        name: String,
        values: Vec<Word>,
        body: List,
    },
}

/// A file in place of what a command reads or prints.
#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) kind: RedirectKind,
    pub(super) target: Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedirectKind {
    Read,
    Write,
}
