//! Parses a text into a tree, within a limit of time.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

use super::languages::Language;

/// Time limit of one parse. Source code takes a fraction of it; a text that is no source code may take any time.
const MAX_TIME: Duration = Duration::from_millis(50);
/// Effort before the clock is read for the first time, so that the result for a small text does not depend on the machine.
const FREE_EFFORT: usize = 100;
/// Number of bytes that the parser gets at once.
const CHUNK_BYTES: usize = 4 << 10;

/// Parses a text; the tree of a similar text makes it cheaper. `None` if the time limit is exceeded.
pub(super) fn parse_tree(language: &Language, text: &str, similar: Option<&Tree>) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).ok()?;
    let budget =
        ParseBudget { start: Instant::now(), effort: Cell::new(0), is_over: Cell::new(false) };
    // A token can be as long as the text and be read repeatedly, so reading counts as effort, too.
    let mut read = |at: usize, _| {
        let rest = text.as_bytes().get(at..).filter(|_| budget.may_go_on(1)).unwrap_or_default();
        rest.get(..CHUNK_BYTES).unwrap_or(rest)
    };
    // The parser calls this after every hundred actions.
    let mut progress = |_: &ParseState| {
        if budget.may_go_on(10) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let tree = parser.parse_with_options(&mut read, similar, Some(options))?;
    (!budget.is_over.get()).then_some(tree)
}

/// The effort and the time of one parse.
struct ParseBudget {
    start: Instant,
    effort: Cell<usize>,
    is_over: Cell<bool>,
}

/// Adds effort, and returns whether the parse may continue.
impl ParseBudget {
    fn may_go_on(&self, effort: usize) -> bool {
        self.effort.set(self.effort.get() + effort);
        if self.effort.get() > FREE_EFFORT && self.start.elapsed() > MAX_TIME {
            self.is_over.set(true);
        }
        !self.is_over.get()
    }
}
