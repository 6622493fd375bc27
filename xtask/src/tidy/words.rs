//! Checks for words that must not stay: paths of one machine, hosts of package registries, marks of unfinished work.

use super::source::{self, Part};
use super::{File, numbered};

/// Hosts that package clients are set up with; naming one here would bypass the person's own setting. Written in pieces, so
/// that this file is not a finding.
const HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("deb.debian", ".org"),
];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wor", "k/"), concat!("/roo", "t/"), concat!("/hom", "e/"), concat!("/User", "s/")];

/// User names that are clearly examples; a single letter is one too.
const SAMPLE_USERS: &[&str] =
    &["ada", "alice", "bob", "me", concat!("some", "body"), "user", "you"];

/// Macros that are for the moment of writing.
const MACROS: &[&str] = &["todo!", "dbg!", "unimplemented!"];

const MARK: &str = concat!("FIX", "ME");

pub(super) fn find(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| file.path != "Cargo.lock").flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    let mut report = |number: usize, what: String| {
        findings.push(format!("{}:{number}: {what}", file.path));
    };
    for (number, line) in numbered(&file.text) {
        for host in hosts(line) {
            report(number, format!("the registry host `{host}`; clients find it by themselves"));
        }
        for prefix in machine_paths(line) {
            report(number, format!("`{prefix}` is a path of one machine"));
        }
    }
    let (code, comments) = if file.is_rust() {
        (source::only(Part::Code, &file.text), source::only(Part::Comment, &file.text))
    } else {
        (String::new(), file.text.clone())
    };
    for (number, line) in numbered(&code) {
        for name in MACROS.iter().filter(|name| calls(line, name)) {
            report(number, format!("`{name}` is for the moment of writing"));
        }
    }
    for (number, line) in numbered(&comments) {
        if source::occurrences(line, MARK).next().is_some() {
            report(number, format!("`{MARK}`: do it now, or write an issue"));
        }
    }
    findings
}

fn hosts(line: &str) -> Vec<&'static str> {
    HOSTS.iter().copied().filter(|host| source::occurrences(line, host).next().is_some()).collect()
}

/// Paths in `line` below a directory of one machine.
fn machine_paths(line: &str) -> Vec<&str> {
    let starts = MACHINE_PATHS.iter().flat_map(|prefix| line.match_indices(prefix));
    starts.filter_map(|(at, prefix)| machine_path_at(line, at, prefix)).collect()
}

fn machine_path_at<'a>(line: &'a str, at: usize, prefix: &str) -> Option<&'a str> {
    // In `/proc/self/root/etc` or `https://host/home/x` it is only a part of another path.
    let before = line.get(..at)?.chars().next_back();
    if before.is_some_and(|c| source::is_name(c) || "/.-}*~".contains(c)) {
        return None;
    }
    let path = line.get(at..)?;
    let end = path.find(|c: char| !source::is_name(c) && !"/.-".contains(c)).unwrap_or(path.len());
    let path = path.get(..end)?;
    let next = path.get(prefix.len()..)?.split('/').next()?;
    (next.len() > 1 && !SAMPLE_USERS.contains(&next)).then_some(path)
}

/// Returns whether a line calls a macro; a longer name that ends with it does not count.
fn calls(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        !line.get(..at).and_then(|before| before.chars().next_back()).is_some_and(source::is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn check(path: &str, text: &str, findings: usize) {
        assert_eq!(find(&[file(path, text)]).len(), findings, "{path}: {text}");
    }

    #[test]
    fn places_of_one_machine_are_found() {
        for (text, findings) in [
            (concat!("see /wor", "k/main/x"), 1),
            (concat!("cd /roo", "t/.cargo; ls /hom", "e/carol/x"), 2),
            (concat!("/hom", "e/user/x and /hom", "e/a/x"), 0),
            (concat!("/proc/self/roo", "t/etc"), 0),
            (concat!("https://host.example/hom", "e/carol"), 0),
            ("cargo:/roots/x and ~/work/x", 0),
            (concat!("the directory /roo", "t/ itself"), 0),
        ] {
            check("docs/a.md", text, findings);
        }
    }

    #[test]
    fn registry_hosts_are_found() {
        check("deny.toml", concat!("https://registry.npmjs", ".org/x"), 1);
        check("README.md", concat!("from pypi", ".org"), 1);
        check("Cargo.lock", concat!("crates", ".io"), 0);
        check("README.md", "docs.rs and pypi", 0);
    }

    #[test]
    fn marks_of_unfinished_work_are_found() {
        check("src/a.rs", concat!("fn a() { to", "do!() }"), 1);
        check("src/a.rs", concat!("let x = dbg", "!(1);"), 1);
        check("src/a.rs", concat!("// to", "do!() in a comment"), 0);
        check("src/a.rs", concat!("let text = \"FIX", "ME\";"), 0);
        check("src/a.rs", concat!("// FIX", "ME later"), 1);
        check("docs/a.md", concat!("FIX", "ME later"), 1);
    }
}
