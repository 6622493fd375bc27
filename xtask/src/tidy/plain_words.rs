//! Places where the words may be hard to understand: doc comments that begin with an interrogative, words that name no actor, and type
//! names that two crates export. Nothing fails here; STYLE.md has the rule.

use std::collections::BTreeMap;

use super::source::{self, Part};
use super::{File, numbered};

const MAX_LISTED: usize = 10;

const INTERROGATIVES: &[&str] = &[
    "how",
    "what",
    "whatever",
    "when",
    "where",
    "wherever",
    "whether",
    "which",
    "who",
    concat!("who", "ever"),
    "whom",
    "whose",
    "why",
];

/// Words for an actor that the sentence should name. Written in pieces, so that this file is not a finding.
const UNNAMED_ACTORS: &[&str] = &[
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("who", "ever"),
    concat!("any", "body"),
];

pub(super) fn report(files: &[File]) -> String {
    let comments: Vec<DocComment> = files.iter().flat_map(doc_comments).collect();
    let interrogative = comments.iter().filter(|comment| comment.is_interrogative());
    let interrogative: Vec<String> = interrogative.map(DocComment::to_string).collect();
    let unnamed: Vec<String> = files.iter().flat_map(unnamed_actors).collect();
    let total = comments.len();
    list(&format!("of {total} doc comments begin with an interrogative"), &interrogative)
        + &list(&format!("words that name no actor ({})", UNNAMED_ACTORS.join(", ")), &unnamed)
        + &list("type names that two crates export", &shared_exports(files))
}

fn list(title: &str, findings: &[String]) -> String {
    let mut report = format!("{:>6} {title}\n", findings.len());
    for finding in findings.iter().take(MAX_LISTED) {
        report += "        ";
        report += finding;
        report.push('\n');
    }
    report
}

/// The first line of a doc comment.
#[derive(Debug)]
struct DocComment<'f> {
    path: &'f str,
    line: usize,
    text: &'f str,
}

impl DocComment<'_> {
    fn is_interrogative(&self) -> bool {
        let first = self.text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        INTERROGATIVES.contains(&first.to_lowercase().as_str())
    }
}

impl std::fmt::Display for DocComment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

fn doc_comments(file: &File) -> Vec<DocComment<'_>> {
    if !file.is_rust() {
        return Vec::new();
    }
    let mut comments = Vec::new();
    let mut is_inside = false;
    for (line, text) in numbered(&file.text) {
        let text = text.trim_start();
        let text = text.strip_prefix("///").or_else(|| text.strip_prefix("//!")).map(str::trim);
        if let Some(text) = text.filter(|text| !is_inside && !text.is_empty()) {
            comments.push(DocComment { path: &file.path, line, text });
        }
        is_inside = text.is_some();
    }
    comments
}

/// Lines of code, comments and pages with a word for an actor that is not named.
fn unnamed_actors(file: &File) -> Vec<String> {
    if !file.is_rust() && !file.is_page() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in numbered(&file.text) {
        let lower = line.to_lowercase();
        for word in UNNAMED_ACTORS {
            let found = source::occurrences(&lower, word);
            findings.extend(found.map(|_| format!("{}:{number}: {}", file.path, line.trim())));
        }
    }
    findings
}

/// Type names that the roots of two crates export, unless one crate exports the type of the other.
fn shared_exports(files: &[File]) -> Vec<String> {
    let mut crates_by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for root in files {
        let Some(name) = root.path.strip_prefix("crates/").and_then(crate_of_root) else {
            continue;
        };
        for exported in exports(files, root) {
            let crates = crates_by_name.entry(exported).or_default();
            if !crates.iter().any(|other| other == name) {
                crates.push(name.to_owned());
            }
        }
    }
    let shared = crates_by_name.into_iter().filter(|(_, crates)| crates.len() > 1);
    shared.map(|(name, crates)| format!("{name}: {}", crates.join(", "))).collect()
}

fn crate_of_root(path: &str) -> Option<&str> {
    path.strip_suffix("/src/lib.rs")
}

/// Types that a crate root declares or re-exports from its own modules, and those of its public modules.
fn exports(files: &[File], root: &File) -> Vec<String> {
    let code = source::only(Part::Code, &root.text);
    let mut names = declared_and_reexported(&code);
    let directory = root.path.trim_end_matches("lib.rs");
    for module in code.lines().filter_map(|line| line.strip_prefix("pub mod ")) {
        let path = format!("{directory}{}.rs", module.trim_end_matches([';', ' ', '{']));
        let module = files.iter().find(|file| file.path == path);
        let module = module.map(|file| source::only(Part::Code, &file.text));
        names.extend(module.iter().flat_map(|code| declared_and_reexported(code)));
    }
    names
}

fn declared_and_reexported(code: &str) -> Vec<String> {
    let declared = code.lines().filter_map(declared_type).map(str::to_owned);
    let uses = code.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let own = uses.filter(|path| !path.starts_with("windlass_"));
    let reexported = own.flat_map(|path| path.split([',', '{', '}', ':', ' ', '\n']));
    let reexported = reexported.filter(|name| is_type_name(name)).map(str::to_owned);
    declared.chain(reexported).collect()
}

fn declared_type(line: &str) -> Option<&str> {
    let declaration = line.strip_prefix("pub ")?;
    let (keyword, rest) = declaration.split_once(' ')?;
    let is_type = matches!(keyword, "struct" | "enum" | "trait" | "type" | "union");
    is_type.then(|| rest.split(|c| !source::is_name(c)).next().unwrap_or_default())
}

/// Returns whether a name is in camel case, as types are; constants have no small letter.
fn is_type_name(name: &str) -> bool {
    name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn interrogative_doc_comments_are_found_at_their_beginning() {
        let text =
            "//! What it is.\n\n/// The name.\n/// What follows.\nfn a() {}\n/// Whether so.\n";
        let file = file("a.rs", text);
        let found: Vec<usize> = doc_comments(&file)
            .into_iter()
            .filter(DocComment::is_interrogative)
            .map(|comment| comment.line)
            .collect();
        assert_eq!(found, [1, 6]);
    }

    #[test]
    fn unnamed_actors_are_found_in_code_and_pages() {
        let word = UNNAMED_ACTORS[0];
        for (path, count) in [("a.rs", 1), ("a.md", 1), ("a.toml", 0)] {
            assert_eq!(unnamed_actors(&file(path, &format!("x {word} y"))).len(), count, "{path}");
        }
    }

    #[test]
    fn a_name_that_two_crates_export_is_found_and_a_re_export_is_none() {
        let files = [
            file(
                "crates/a/src/lib.rs",
                "mod x;\npub mod y;\npub use x::{One, Two, THREE, four};\n",
            ),
            file("crates/a/src/y.rs", "pub struct Four<T>(T);\nstruct Five;\n"),
            file(
                "crates/b/src/lib.rs",
                "pub use windlass_a::One;\npub enum Two {}\npub struct Four;\n",
            ),
        ];
        assert_eq!(shared_exports(&files), ["Four: a, b", "Two: a, b"]);
    }
}
