//! Checks that traits and entry points of the embeddable libraries have an example.
//!
//! Entry points are public functions outside of `impl` blocks. Types, methods and items inside of macros need no example, because one that
//! only makes a value and compares its fields proves nothing. An example is a block of the item's doc comment that `cargo test --doc` runs.
//! The lint `unreachable_pub` ensures that a `pub` item can be reached from outside.

use super::source::is_name;
use super::{File, numbered};

/// Source directories that are checked. Of the tools, only the re-exported module.
const DIRECTORIES: &[&str] =
    &["crates/core/src/", "crates/hooks/src/", "crates/windlass/src/", "crates/tools/src/diff"];

/// Kinds of items that need an example.
const KINDS: &[&str] = &["trait", "fn"];

/// Words that may stand between `pub` and the kind of an item.
const QUALIFIERS: &[&str] = &["async", "const"];

/// Finds public top-level traits and functions without an example.
pub(super) fn find(files: &[File]) -> Vec<String> {
    let is_library = |file: &&File| DIRECTORIES.iter().any(|place| file.path.starts_with(place));
    files.iter().filter(|file| file.is_rust()).filter(is_library).flat_map(in_file).collect()
}

/// Finds the items of one file that need an example and have none.
fn in_file(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    let mut comment = Vec::new();
    for (number, line) in numbered(&file.text) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text);
        } else if !is_between(line) {
            if let Some(item) = item(line).filter(|_| !has_example(&comment)) {
                findings.push(format!("{}:{number}: {item} has no example that runs", file.path));
            }
            comment.clear();
        }
    }
    findings
}

/// Returns whether a line may stand between a doc comment and its item: another comment, an attribute or a further line of one.
fn is_between(line: &str) -> bool {
    line.starts_with(['/', '#', ' ', ')', ']'])
}

/// Returns kind and name of the public item that begins on a line, if it needs an example.
fn item(line: &str) -> Option<String> {
    let mut words = line.strip_prefix("pub ")?.split(|c: char| !is_name(c));
    let kind = words.find(|word| !QUALIFIERS.contains(word)).filter(|word| KINDS.contains(word))?;
    Some(format!("{kind} {}", words.next()?))
}

/// Returns whether a comment has a block that runs. Every second fence closes a block.
fn has_example(comment: &[&str]) -> bool {
    let fences = comment.iter().filter_map(|line| line.trim().strip_prefix("```"));
    fences.step_by(2).any(|language| matches!(language, "" | "rust"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const EXAMPLE: &str = "/// Text.\n///\n/// ```\n/// assert!(true);\n/// ```\n";

    fn check(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(find(&[file(path, text)]), expected, "{path}: {text}");
    }

    #[test]
    fn trait_or_function_without_an_example_is_found() {
        for (line, name) in [
            ("pub trait A: Send {", "trait A"),
            ("pub trait A<'a, T> {", "trait A"),
            ("pub fn a(b: u8) -> u8 {", "fn a"),
            ("pub async fn a() {", "fn a"),
            ("pub const fn a() {", "fn a"),
        ] {
            let finding = format!("crates/core/src/a.rs:2: {name} has no example that runs");
            check("crates/core/src/a.rs", &format!("/// Text.\n{line}"), &[&finding]);
            check("crates/core/src/a.rs", &format!("{EXAMPLE}{line}"), &[]);
        }
    }

    #[test]
    fn other_items_need_no_example() {
        for line in [
            "trait A {",
            "pub struct A;",
            "pub struct A<'a, T>(&'a T);",
            "pub enum A {",
            "pub type A<T> = Vec<T>;",
            "pub(crate) trait A {",
            "pub use a::A;",
            "pub mod a;",
            "pub const A: u8 = 1;",
            "    pub fn method(&self) {",
            "/// pub trait A {",
        ] {
            check("crates/core/src/a.rs", line, &[]);
        }
        check("crates/host/src/a.rs", "pub trait A {", &[]);
        check("crates/core/tests/a.rs", "pub trait A {", &[]);
        check("crates/core/src/a.md", "pub trait A {", &[]);
    }

    #[test]
    fn example_counts_for_its_own_item_only() {
        let attributes = "#[derive(Debug)]\n// Why.\n#[error(\n    \"{0}\"\n)]\n";
        check("crates/windlass/src/lib.rs", &format!("{EXAMPLE}{attributes}pub trait A {{"), &[]);
        for between in ["", "\n", "struct Other {\n    a: u8,\n}\n\n/// Text.\n", "mod other;\n"] {
            let text = format!("{EXAMPLE}pub trait A {{\n{between}pub trait B {{");
            let found = find(&[file("crates/windlass/src/lib.rs", &text)]);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found.iter().all(|finding| finding.contains("trait B ")), "{found:?}");
        }
    }

    #[test]
    fn example_must_run() {
        for (fences, findings) in [
            ("/// ```rust\n/// ```", 0),
            ("/// ```text\n/// ```\n/// ```\n/// ```", 0),
            ("/// ```text\n/// ```", 1),
            ("/// ```ignore\n/// ```", 1),
            ("/// ```no_run\n/// ```", 1),
            ("/// ```compile_fail\n/// ```", 1),
        ] {
            let text = format!("{fences}\npub trait A {{");
            assert_eq!(find(&[file("crates/core/src/a.rs", &text)]).len(), findings, "{text}");
        }
    }
}
