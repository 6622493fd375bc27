//! From a text to its tree, with an end to the effort.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

use super::languages::Language;

/// How long a text may take. Source takes a fraction of it, what is not source at all may take any time.
const MAX_TIME: Duration = Duration::from_millis(50);
/// How much is done before anyone looks at the clock, so that what is said of a small text does not depend on the machine.
const FREE_EFFORT: usize = 100;
/// How much of a text the parser is given at once.
const CHUNK: usize = 4 << 10;

/// The tree of a text. One of nearly the same text makes it cheap.
pub(super) fn tree(language: &Language, text: &str, similar: Option<&Tree>) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).ok()?;
    let watch = Watch { start: Instant::now(), effort: Cell::new(0), is_over: Cell::new(false) };
    // A token can be as long as the text and be read again and again, so that reading is an effort, too.
    let mut read = |at: usize, _| {
        let rest = text.as_bytes().get(at..).filter(|_| watch.may_go_on(1)).unwrap_or_default();
        rest.get(..CHUNK).unwrap_or(rest)
    };
    // Called after every hundred actions of the parser.
    let mut progress = |_: &ParseState| {
        if watch.may_go_on(10) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let tree = parser.parse_with_options(&mut read, similar, Some(options))?;
    (!watch.is_over.get()).then_some(tree)
}

/// When to give up.
struct Watch {
    start: Instant,
    effort: Cell<usize>,
    is_over: Cell<bool>,
}

impl Watch {
    fn may_go_on(&self, effort: usize) -> bool {
        self.effort.set(self.effort.get() + effort);
        if self.effort.get() > FREE_EFFORT && self.start.elapsed() > MAX_TIME {
            self.is_over.set(true);
        }
        !self.is_over.get()
    }
}
