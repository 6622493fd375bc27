//! Checks that there is no unsafe code, and no permission for it, outside `crates/sandbox`.
//!
//! The compiler denies it by a workspace lint already; this catches the attribute that would lift the lint.

use super::source::{self, Part};
use super::{File, numbered};

const HOME: &str = "crates/sandbox/";

pub(super) fn find(files: &[File]) -> Vec<String> {
    let elsewhere = files.iter().filter(|file| !file.path.starts_with(HOME));
    elsewhere
        .flat_map(|file| if file.is_rust() { in_rust(file) } else { in_manifest(file) })
        .collect()
}

fn in_rust(file: &File) -> Vec<String> {
    let code = source::only(Part::Code, &file.text);
    let mut findings = Vec::new();
    for (number, line) in numbered(&code) {
        if source::occurrences(line, "unsafe").next().is_some() {
            findings.push(format!("{}:{number}: unsafe code belongs in {HOME}", file.path));
        }
        if lifts_the_lint(line) {
            findings.push(format!("{}:{number}: only {HOME} may allow unsafe code", file.path));
        }
    }
    findings
}

/// Returns whether a line names the lint without denying or forbidding it.
fn lifts_the_lint(line: &str) -> bool {
    source::occurrences(line, "unsafe_code").next().is_some()
        && !line.contains("deny(unsafe_code")
        && !line.contains("forbid(unsafe_code")
}

fn in_manifest(file: &File) -> Vec<String> {
    if !file.path.ends_with("Cargo.toml") {
        return Vec::new();
    }
    let lifted = |line: &str| {
        line.trim_start().starts_with("unsafe_code")
            && !line.contains("deny")
            && !line.contains("forbid")
    };
    numbered(&file.text)
        .filter(|(_, line)| lifted(line))
        .map(|(number, _)| format!("{}:{number}: only {HOME} may allow unsafe code", file.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn unsafe_code_is_found_where_it_must_not_be() {
        for (path, text, findings) in [
            ("crates/core/src/a.rs", "fn a() { unsafe { b() } }", 1),
            ("crates/core/src/a.rs", "unsafe impl Send for A {}", 1),
            ("crates/core/src/a.rs", "// unsafe\nlet unsafety = \"unsafe\";", 0),
            ("crates/core/src/a.rs", "#![allow(unsafe_code, reason = \"speed\")]", 1),
            ("crates/core/src/a.rs", "#![expect(\n    unsafe_code,\n)]", 1),
            ("crates/core/src/a.rs", "#![forbid(unsafe_code)]", 0),
            ("crates/sandbox/src/a.rs", "#![allow(unsafe_code)] unsafe fn a() {}", 0),
            ("crates/core/Cargo.toml", "[lints.rust]\nunsafe_code = \"allow\"", 1),
            ("Cargo.toml", "unsafe_code = \"deny\"", 0),
            ("README.md", "No unsafe code.", 0),
        ] {
            assert_eq!(find(&[file(path, text)]).len(), findings, "{path}: {text}");
        }
    }
}
