//! The compiled query of a search: the pattern and the filters for names.

use std::path::{Path, PathBuf};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};

use ignore::types::{Types, TypesBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::{ToolError, nearest};

use super::Args;
use super::first_hits::{FileHits, LimitUnit};
use crate::pattern::Pattern;

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    #[default]
    Content,
    Files,
    Count,
}

impl Mode {
    /// Returns the unit that `limit` counts.
    pub(super) fn unit(self) -> LimitUnit {
        match self {
            Self::Content => LimitUnit::Match,
            Self::Files | Self::Count => LimitUnit::File,
        }
    }
}

/// A compiled search.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) matcher: RegexMatcher,
    pub(super) line_terminator: LineTerminator,
    pub(super) mode: Mode,
    pub(super) multiline: bool,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) limit: usize,
    glob: Option<NameFilter>,
    types: Option<Types>,
}

/// A filter for the names of searched files.
#[derive(Debug)]
struct NameFilter {
    pattern: Pattern,
    /// True if matching files are left out, false if others are left out.
    excludes: bool,
    /// Directory of the search: a pattern with a directory may also be relative to the workspace.
    root: Option<PathBuf>,
}

impl Query {
    /// Compiles the arguments; `root` is the directory of the search as the model would write it.
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
            glob: args.glob.as_deref().map(|glob| NameFilter::new(glob, root)).transpose()?,
            types: args.file_type.as_deref().map(select_type).transpose()?,
        })
    }

    /// Returns whether a file of this name is searched. A file that is itself the path of the call always is.
    pub(super) fn includes_file(&self, path: &Path) -> bool {
        path.as_os_str().is_empty()
            || (self.glob.as_ref().is_none_or(|glob| glob.accepts(path))
                && self.types.as_ref().is_none_or(|types| !types.matched(path, false).is_ignore()))
    }

    /// Returns whether lines around the matches are shown.
    pub(super) fn has_context(&self) -> bool {
        self.before > 0 || self.after > 0
    }

    /// Returns whether no more hits of a file are needed.
    pub(super) fn is_enough(&self, hits: &FileHits) -> bool {
        match self.mode {
            Mode::Content => hits.is_enough(self.limit),
            Mode::Files => hits.matches > 0,
            Mode::Count => false,
        }
    }

    /// Returns whether some files are left out by their names.
    pub(super) fn is_filtered(&self) -> bool {
        self.glob.is_some() || self.types.is_some()
    }
}

impl NameFilter {
    /// Compiles a filter; a leading `!` excludes.
    fn new(glob: &str, root: PathBuf) -> Result<Self, ToolError> {
        let (excludes, pattern) = match glob.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, glob),
        };
        let root = Some(root).filter(|root| pattern.contains('/') && !root.as_os_str().is_empty());
        Ok(Self { pattern: Pattern::filter(pattern)?, excludes, root })
    }

    /// Returns whether a file of this name is searched.
    fn accepts(&self, path: &Path) -> bool {
        let matches = self.pattern.matches(path)
            || self.root.as_ref().is_some_and(|root| self.pattern.matches(&root.join(path)));
        matches != self.excludes
    }
}

/// Limit of the bytes of a compiled pattern, because patterns are untrusted input.
const MAX_PATTERN_BYTES: usize = 32 << 20;
/// Limit of the bytes of the DFA cache of a pattern, per thread.
const MAX_DFA_BYTES: usize = 64 << 20;

/// Compiles the pattern and chooses the line terminator.
fn compile(args: &Args) -> Result<(RegexMatcher, LineTerminator), ToolError> {
    check_pattern(args)?;
    // `$` matches before CRLF as well as before LF, unless the pattern names the carriage return itself.
    if !args.pattern.contains('\r') && !args.pattern.contains("\\r") {
        let matcher = build_matcher(args, LineTerminator::crlf())?;
        // In this mode the searcher removes only CRLF from a line, so `\z` would not match at the end of a line that ends in LF.
        if args.multiline || matcher.line_terminator().is_some() {
            return Ok((matcher, LineTerminator::crlf()));
        }
    }
    let line_feed = LineTerminator::byte(b'\n');
    Ok((build_matcher(args, line_feed)?, line_feed))
}

/// Refuses an invalid pattern before `grep-regex` puts it in parentheses: `a)|(b` would become valid, and positions in errors would be
/// off by three characters.
fn check_pattern(args: &Args) -> Result<(), ToolError> {
    if args.pattern.is_empty() {
        return Err(ToolError::invalid_args("the pattern is empty: it would match every line")
            .hint("`read` shows a file, `glob` finds files by name"));
    }
    if args.pattern.contains('\0') {
        return Err(nul_error());
    }
    if args.literal {
        return Ok(());
    }
    let mut parser = regex_syntax::ParserBuilder::new().utf8(false).multi_line(true).build();
    match parser.parse(&args.pattern) {
        Ok(_) => Ok(()),
        Err(error) => Err(invalid_regex_error(&error.to_string())),
    }
}

/// Builds the matcher for a line terminator.
fn build_matcher(args: &Args, line_terminator: LineTerminator) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .fixed_strings(args.literal)
        .case_insensitive(args.ignore_case)
        .word(args.word)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_DFA_BYTES)
        .ban_byte(Some(0))
        .crlf(line_terminator.is_crlf());
    if args.multiline {
        builder.line_terminator(None);
    } else if !line_terminator.is_crlf() {
        builder.line_terminator(Some(line_terminator.as_byte()));
    }
    builder.build(&args.pattern).map_err(|error| explain_pattern_error(&error))
}

/// Returns the error for a pattern that `grep-regex` refuses.
fn explain_pattern_error(error: &grep_regex::Error) -> ToolError {
    match error.kind() {
        ErrorKind::NotAllowed(_) => ToolError::invalid_args(
            "the pattern has a line break in it, and lines are searched one by one",
        )
        .hint("`multiline:true` searches across lines"),
        ErrorKind::Banned(_) => nul_error(),
        _ => invalid_regex_error(&error.to_string()),
    }
}

/// Returns the error for a pattern with a NUL.
fn nul_error() -> ToolError {
    ToolError::invalid_args("the pattern has a NUL in it, and files with a NUL are not searched")
}

/// Returns the error for an invalid pattern.
fn invalid_regex_error(why: &str) -> ToolError {
    ToolError::invalid_args(format!("the pattern cannot be used: {why}"))
        .hint("`literal:true` takes it as plain text")
}

/// Selects the files of a ripgrep type; an unknown name is an error with a near miss.
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
