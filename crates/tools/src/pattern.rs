//! Glob patterns as models write them: a bare name for any depth, a path with wildcards, an absolute path, or one after `./`.
//!
//! The directories before the first wildcard are literal: a walk starts there rather than at the root of the tree. Wildcards are those of
//! `globset`: `*` and `?` match within one directory, `**` matches across directories; `{a,b}`, `[a-z]`, and `\` for a literal
//! character.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet};
use windlass_core::ToolError;

/// Characters with a special meaning in a pattern.
const SPECIAL_CHARACTERS: [char; 5] = ['*', '?', '[', '{', '\\'];

/// A compiled pattern that matches paths below its directory.
#[derive(Debug)]
pub(crate) struct Pattern {
    set: GlobSet,
    /// Maximum number of components of a matching path; `None` if it is unbounded.
    depth: Option<usize>,
}

/// Splits a pattern into its literal directories and the rest.
///
/// `src/**/*.rs` is `**/*.rs` in `src`; `*.rs` and `a.rs` are in no directory.
pub(crate) fn split(pattern: &str) -> (PathBuf, &str) {
    let wild = pattern.find(SPECIAL_CHARACTERS).unwrap_or(pattern.len());
    match pattern[..wild].rfind('/') {
        Some(0) => (PathBuf::from("/"), &pattern[1..]),
        Some(slash) => (PathBuf::from(&pattern[..slash]), &pattern[slash + 1..]),
        None => (PathBuf::new(), pattern),
    }
}

impl Pattern {
    /// Compiles the pattern for paths below the directory that [`split`] returns.
    pub(crate) fn below(pattern: &str) -> Result<Self, ToolError> {
        let (_, rest) = split(pattern);
        if rest.split('/').any(|part| part == "..") {
            return Err(ToolError::invalid_args(format!(
                "the pattern `{pattern}` has `..` after a wildcard, which matches nothing"
            ))
            .hint("give the directory as `path`"));
        }
        // A pattern that ends with `/` matches everything below the directory.
        let everything = if rest.is_empty() || rest.ends_with('/') { "**" } else { "" };
        if pattern.contains('/') {
            Self::new(pattern, &format!("{rest}{everything}"))
        } else {
            Self::new(pattern, &format!("**/{rest}"))
        }
    }

    /// Compiles a pattern that filters the files of a search, like `rg -g`: relative to the directory of the search.
    pub(crate) fn filter(pattern: &str) -> Result<Self, ToolError> {
        let relative = pattern.trim_start_matches("./").trim_start_matches('/');
        if pattern.contains('/') {
            let everything = if relative.is_empty() || relative.ends_with('/') { "**" } else { "" };
            Self::new(pattern, &format!("{relative}{everything}"))
        } else {
            Self::new(pattern, &format!("**/{relative}"))
        }
    }

    /// Compiles a glob; errors name the pattern as `written` by the model.
    fn new(written: &str, glob: &str) -> Result<Self, ToolError> {
        if written.is_empty() {
            return Err(ToolError::invalid_args("the pattern is empty")
                .hint("`**` matches every file, `*.rs` every Rust file"));
        }
        let wrong = |error: globset::Error| {
            ToolError::invalid_args(format!(
                "`{written}` is not a pattern for file names: {}",
                error.kind()
            ))
            .hint("write `\\` before a character that is meant literally, such as `\\[`")
        };
        let glob = GlobBuilder::new(glob)
            .literal_separator(true)
            .empty_alternates(true)
            .build()
            .map_err(wrong)?;
        let depth = (!glob.glob().contains("**")).then(|| glob.glob().matches('/').count() + 1);
        // A set with one glob is faster than a single glob: it matches suffixes and extensions without a regex.
        let set = GlobSet::builder().add(glob).build().map_err(wrong)?;
        Ok(Self { set, depth })
    }

    /// Returns whether the pattern matches a relative path.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.set.is_match(path)
    }

    /// Returns the maximum number of components of a matching path, if it is bounded.
    pub(crate) fn depth(&self) -> Option<usize> {
        self.depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_directories_are_split_off() {
        for (pattern, directory, rest) in [
            ("*.rs", "", "*.rs"),
            ("a.rs", "", "a.rs"),
            ("./*.rs", ".", "*.rs"),
            ("src/a.rs", "src", "a.rs"),
            ("src/**/*.rs", "src", "**/*.rs"),
            ("a/b/{c,d}/*", "a/b", "{c,d}/*"),
            ("a/{b/c,d}", "a", "{b/c,d}"),
            ("a/[id]/x", "a", "[id]/x"),
            (r"a/\[id\]/x", "a", r"\[id\]/x"),
            ("/w/src/*.rs", "/w/src", "*.rs"),
            ("/*.rs", "/", "*.rs"),
            ("../x/*.rs", "../x", "*.rs"),
            ("src/", "src", ""),
            ("**", "", "**"),
        ] {
            assert_eq!(split(pattern), (PathBuf::from(directory), rest), "{pattern}");
        }
    }

    #[test]
    fn patterns_match_paths() {
        for (pattern, path, expected) in [
            ("*.rs", "a.rs", true),
            ("*.rs", "x/y/a.rs", true),
            ("a.rs", "x/a.rs", true),
            ("./*.rs", "a.rs", true),
            ("./*.rs", "x/a.rs", false),
            ("src/*.rs", "a.rs", true),
            ("src/*.rs", "x/a.rs", false),
            ("src/", "x/a.rs", true),
            ("**/test/*.go", "a/b/test/x.go", true),
            ("**/test/*.go", "test/x.go", true),
            ("**/test/*.go", "a/test/b/x.go", false),
            ("**/a/**/b/**/*.c", "x/a/y/z/b/w/q.c", true),
            ("*.{ts,tsx}", "x/a.tsx", true),
            ("*.{ts,tsx}", "x/a.js", false),
            ("{a,b}/**", "b/x/y", true),
            ("a{,.txt}", "a", true),
            ("[a-c].rs", "b.rs", true),
            ("[!a-c].rs", "b.rs", false),
            (r"\[id\].ts", "[id].ts", true),
            ("[id].ts", "[id].ts", false),
            (".*", ".github", true),
            ("*", ".hidden", true),
            ("-e", "-e", true),
        ] {
            let pattern = (Pattern::below(pattern).unwrap(), pattern);
            assert_eq!(pattern.0.matches(path.as_ref()), expected, "{} {path}", pattern.1);
        }
    }

    #[test]
    fn filters_are_relative_to_the_search() {
        for (pattern, path, expected) in [
            ("*.rs", "x/a.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "a.rs", false),
            ("/src/*.rs", "src/a.rs", true),
            ("./src/**", "src/x/a.rs", true),
            ("src/", "src/x/a.rs", true),
            ("**/*.rs", "a.rs", true),
        ] {
            let filter = Pattern::filter(pattern).unwrap();
            assert_eq!(filter.matches(path.as_ref()), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn depth_of_a_pattern() {
        for (pattern, depth) in [
            ("*.rs", None),
            ("./*.rs", Some(1)),
            ("src/*/*.rs", Some(2)),
            ("src/**/*.rs", None),
            ("{a/b,c}/*", Some(3)),
        ] {
            assert_eq!(Pattern::below(pattern).unwrap().depth(), depth, "{pattern}");
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for (pattern, expected) in [
            ("", "the pattern is empty"),
            ("[", "unclosed character class"),
            ("a/{b", "unclosed alternate"),
            ("*/../x", "`..` after a wildcard"),
            ("x\\", "dangling"),
        ] {
            let error = Pattern::below(pattern).unwrap_err().to_string();
            assert!(error.contains(expected), "{pattern}: {error}");
        }
    }
}
