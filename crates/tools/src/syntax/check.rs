//! One change, looked at from both sides.
//!
//! The new text is parsed first: mostly there is no error in it, and then nothing else is to be done. Otherwise its tree, with
//! the change undone, makes the parse of the old text cheap.

mod brackets;
mod difference;
mod errors;
mod languages;
mod limits;
mod parse;
mod preprocessor;
mod words;

use std::path::Path;

use tree_sitter::Tree;

use self::brackets::{Bracket, Verdict};
use self::difference::Difference;
use self::errors::Error;
use self::languages::{Language, Trust};
use super::NewError;

/// One of the two texts, with what was found in it.
struct Side<'a> {
    text: &'a str,
    errors: Vec<Error>,
    brackets: Vec<Bracket>,
}

/// The first error in a file that its text did not have before; a file that is new had none.
pub(crate) fn new_error(path: &Path, before: &str, after: &str) -> Option<NewError> {
    let language = languages::of(path, after)?;
    let is_allowed = |text| limits::allow(language, text);
    if before == after || !is_allowed(before) || !is_allowed(after) {
        return None;
    }
    compare(language, before, after)
}

fn compare(language: &Language, before: &str, after: &str) -> Option<NewError> {
    let mut tree = parse::tree(language, after, None)?;
    if !tree.root_node().has_error() {
        return None;
    }
    let difference = Difference::between(before, after);
    let new = Side::of(language.trust, &tree, after);
    tree.edit(&difference.undone(before, after));
    let tree = parse::tree(language, before, Some(&tree))?;
    let old = Side::of(language.trust, &tree, before);
    judge(language.trust, &old, &new, &difference)
}

fn judge(
    trust: Trust,
    old: &Side<'_>,
    new: &Side<'_>,
    difference: &Difference,
) -> Option<NewError> {
    match brackets::compare(&old.brackets, &new.brackets, new.text, difference) {
        Verdict::NoWorse if trust == Trust::Brackets => None,
        Verdict::Worse(fault) => Some(words::of_fault(fault, new.text, difference)),
        Verdict::NoWorse | Verdict::Unclear => {
            words::of_errors(&errors::new(old, new, difference), new.text, difference)
        }
    }
}

impl<'a> Side<'a> {
    fn of(trust: Trust, tree: &Tree, text: &'a str) -> Self {
        Self { text, errors: errors::of(tree), brackets: brackets::of(trust, tree, text) }
    }
}
