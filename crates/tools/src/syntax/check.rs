//! Compares the syntax errors of a file before and after a change.
//!
//! The new text is parsed first: usually it has no errors, and nothing else is done. Otherwise its tree is edited back to the old text,
//! which makes the parse of the old text cheap.

mod brackets;
mod errors;
mod languages;
mod limits;
mod parse;
mod preprocessor;
mod span;
mod words;

use std::path::Path;

use tree_sitter::Tree;

use self::brackets::{Bracket, BracketVerdict};
use self::errors::SyntaxError;
use self::languages::{GrammarTrust, Language};
use self::span::ChangedSpan;
use super::NewSyntaxError;

/// One version of the text, with its errors and brackets.
struct ParsedVersion<'a> {
    text: &'a str,
    errors: Vec<SyntaxError>,
    brackets: Vec<Bracket>,
}

/// Returns the first error that the old text did not have; the old text of a new file is empty.
pub(crate) fn new_error(path: &Path, before: &str, after: &str) -> Option<NewSyntaxError> {
    let language = languages::language_of(path, after)?;
    let is_allowed = |text| limits::may_parse(language, text);
    if before == after || !is_allowed(before) || !is_allowed(after) {
        return None;
    }
    find_new_error(language, before, after)
}

/// Parses both texts and compares their errors, unless the new text has none.
fn find_new_error(language: &Language, before: &str, after: &str) -> Option<NewSyntaxError> {
    let mut tree = parse::parse_tree(language, after, None)?;
    if !tree.root_node().has_error() {
        return None;
    }
    let span = ChangedSpan::between(before, after);
    let new = ParsedVersion::of(language.trust, &tree, after);
    tree.edit(&span.reverse_edit(before, after));
    let tree = parse::parse_tree(language, before, Some(&tree))?;
    let old = ParsedVersion::of(language.trust, &tree, before);
    choose_error(language.trust, &old, &new, &span)
}

/// Chooses the error to report: unpaired brackets if they are clear, otherwise the first new error of the grammar.
fn choose_error(
    trust: GrammarTrust,
    old: &ParsedVersion<'_>,
    new: &ParsedVersion<'_>,
    span: &ChangedSpan,
) -> Option<NewSyntaxError> {
    match brackets::compare_brackets(&old.brackets, &new.brackets, new.text, span) {
        BracketVerdict::NoWorse if trust == GrammarTrust::Brackets => None,
        BracketVerdict::Worse(fault) => Some(words::describe_bracket_fault(fault, new.text, span)),
        BracketVerdict::NoWorse | BracketVerdict::Unclear => {
            words::describe_errors(&errors::new_errors(old, new, span), new.text, span)
        }
    }
}

impl<'a> ParsedVersion<'a> {
    /// Collects the errors and brackets of a parsed text.
    fn of(trust: GrammarTrust, tree: &Tree, text: &'a str) -> Self {
        Self {
            text,
            errors: errors::errors_of(tree),
            brackets: brackets::brackets_of(trust, tree, text),
        }
    }
}
