//! What is searched for, made of the arguments once and for all: the compiled pattern and the filters.

use std::path::{Path, PathBuf};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};

use ignore::types::{Types, TypesBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::{ToolError, nearest};

use super::Args;
use super::found::{Hits, Unit};
use crate::pattern::Pattern;

/// What the answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    #[default]
    Content,
    Files,
    Count,
}

impl Mode {
    /// What `limit` counts.
    pub(super) fn unit(self) -> Unit {
        match self {
            Self::Content => Unit::Match,
            Self::Files | Self::Count => Unit::File,
        }
    }
}

/// A search, ready to run.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) matcher: RegexMatcher,
    pub(super) line_terminator: LineTerminator,
    pub(super) mode: Mode,
    pub(super) multiline: bool,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) limit: usize,
    glob: Option<Filter>,
    types: Option<Types>,
}

/// Which names are searched.
#[derive(Debug)]
struct Filter {
    pattern: Pattern,
    /// Leaves out what matches, instead of what does not.
    excludes: bool,
    /// Where the search begins: a pattern with a directory may also be meant from the workspace.
    root: Option<PathBuf>,
}

impl Query {
    /// Understands the arguments; `root` is where the search begins, as the model would write it.
    pub(super) fn new(args: &Args, root: PathBuf) -> Result<Self, ToolError> {
        let (matcher, line_terminator) = compile(args)?;
        Ok(Self {
            matcher,
            line_terminator,
            mode: args.mode,
            multiline: args.multiline,
            before: args.before.max(args.context),
            after: args.after.max(args.context),
            limit: args.limit,
            glob: args.glob.as_deref().map(|glob| Filter::new(glob, root)).transpose()?,
            types: args.file_type.as_deref().map(select_type).transpose()?,
        })
    }

    /// Whether a file of this name is searched. One that was asked for by its own path always is.
    pub(super) fn wants(&self, path: &Path) -> bool {
        path.as_os_str().is_empty()
            || (self.glob.as_ref().is_none_or(|glob| glob.lets_through(path))
                && self.types.as_ref().is_none_or(|types| !types.matched(path, false).is_ignore()))
    }

    /// Returns whether lines around the matches are shown.
    pub(super) fn has_context(&self) -> bool {
        self.before > 0 || self.after > 0
    }

    /// Whether there is no need for more out of one file.
    pub(super) fn is_enough(&self, hits: &Hits) -> bool {
        match self.mode {
            Mode::Content => hits.is_enough(self.limit),
            Mode::Files => hits.matches > 0,
            Mode::Count => false,
        }
    }

    /// Whether some files are left out by their names.
    pub(super) fn is_filtered(&self) -> bool {
        self.glob.is_some() || self.types.is_some()
    }
}

impl Filter {
    fn new(glob: &str, root: PathBuf) -> Result<Self, ToolError> {
        let (excludes, pattern) = match glob.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, glob),
        };
        let root = Some(root).filter(|root| pattern.contains('/') && !root.as_os_str().is_empty());
        Ok(Self { pattern: Pattern::filter(pattern)?, excludes, root })
    }

    fn lets_through(&self, path: &Path) -> bool {
        let matches = self.pattern.matches(path)
            || self.root.as_ref().is_some_and(|root| self.pattern.matches(&root.join(path)));
        matches != self.excludes
    }
}

/// What a compiled pattern may take, in bytes: a pattern is somebody's input.
const MOST_PATTERN: usize = 32 << 20;
/// What a search may take to remember the states of a pattern, in bytes and per thread.
const MOST_STATES: usize = 64 << 20;

fn compile(args: &Args) -> Result<(RegexMatcher, LineTerminator), ToolError> {
    check(args)?;
    // `$` stands before CRLF as well as before LF, unless the pattern speaks of the carriage return itself.
    if !args.pattern.contains('\r') && !args.pattern.contains("\\r") {
        let matcher = build(args, LineTerminator::crlf())?;
        // The searcher takes only CRLF off a line then, so that `\z` would not find the end of one that ends in LF.
        if args.multiline || matcher.line_terminator().is_some() {
            return Ok((matcher, LineTerminator::crlf()));
        }
    }
    let line_feed = LineTerminator::byte(b'\n');
    Ok((build(args, line_feed)?, line_feed))
}

/// Refuses what is no pattern, before `grep-regex` puts it in parentheses: `a)|(b` would become one, and every place would be
/// off by three characters.
fn check(args: &Args) -> Result<(), ToolError> {
    if args.pattern.is_empty() {
        return Err(ToolError::invalid_args("the pattern is empty: it would match every line")
            .hint("`read` shows a file, `glob` finds files by name"));
    }
    if args.pattern.contains('\0') {
        return Err(has_nul());
    }
    if args.literal {
        return Ok(());
    }
    let mut parser = regex_syntax::ParserBuilder::new().utf8(false).multi_line(true).build();
    match parser.parse(&args.pattern) {
        Ok(_) => Ok(()),
        Err(error) => Err(no_regex(&error.to_string())),
    }
}

fn build(args: &Args, line_terminator: LineTerminator) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .fixed_strings(args.literal)
        .case_insensitive(args.ignore_case)
        .word(args.word)
        .size_limit(MOST_PATTERN)
        .dfa_size_limit(MOST_STATES)
        .ban_byte(Some(0))
        .crlf(line_terminator.is_crlf());
    if args.multiline {
        builder.line_terminator(None);
    } else if !line_terminator.is_crlf() {
        builder.line_terminator(Some(line_terminator.as_byte()));
    }
    builder.build(&args.pattern).map_err(|error| explain(&error))
}

fn explain(error: &grep_regex::Error) -> ToolError {
    match error.kind() {
        ErrorKind::NotAllowed(_) => ToolError::invalid_args(
            "the pattern has a line break in it, and lines are searched one by one",
        )
        .hint("`multiline:true` searches across lines"),
        ErrorKind::Banned(_) => has_nul(),
        _ => no_regex(&error.to_string()),
    }
}

fn has_nul() -> ToolError {
    ToolError::invalid_args("the pattern has a NUL in it, and files with a NUL are not searched")
}

fn no_regex(why: &str) -> ToolError {
    ToolError::invalid_args(format!("the pattern cannot be used: {why}"))
        .hint("`literal:true` takes it as plain text")
}

fn select_type(name: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known = builder.definitions();
    if !known.iter().any(|known| known.name() == name) {
        let error = ToolError::invalid_args(format!("there is no file type `{name}`"));
        return Err(match nearest(name, known.iter().map(ignore::types::FileTypeDef::name)) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error
                .hint("types are ripgrep's, such as `rust`, `py`, `ts`; `glob` takes any pattern"),
        });
    }
    builder.select(name).build().map_err(|error| ToolError::invalid_args(error.to_string()))
}
