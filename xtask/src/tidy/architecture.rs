//! Checks that ARCHITECTURE.md names every crate, and that its paths and those of docs/map.md exist.

use std::collections::BTreeSet;

use super::File;

/// The pages that name files of crates by their path below `crates/`.
const PAGES: [&str; 2] = ["ARCHITECTURE.md", "docs/map.md"];

/// The crates that the page does not name, and the paths that lead nowhere.
pub(super) fn find(files: &[File]) -> Vec<String> {
    let mut found = missing_crates(files);
    for page in files.iter().filter(|file| PAGES.contains(&file.path.as_str())) {
        let dead = paths(&page.text).filter(|path| !leads_somewhere(files, path));
        found.extend(dead.map(|path| format!("{}: there is no crates/{path}", page.path)));
    }
    found
}

/// The paths in backticks that have a `src` in them.
fn paths(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2).filter(|text| text.contains("/src/"))
}

fn leads_somewhere(files: &[File], path: &str) -> bool {
    let whole = format!("crates/{}", path.trim_start_matches("crates/"));
    files
        .iter()
        .any(|file| file.path == whole || (whole.ends_with('/') && file.path.starts_with(&whole)))
}

fn missing_crates(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
        return Vec::new();
    };
    let crates: BTreeSet<&str> = files.iter().filter_map(|file| crate_of(&file.path)).collect();
    crates
        .into_iter()
        .filter(|name| !names(&page.text, name))
        .map(|name| format!("crates/{name} is not mentioned"))
        .collect()
}

fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml").filter(|name| !name.contains('/'))
}

fn names(page: &str, name: &str) -> bool {
    [format!("`{name}`"), format!("{name}/")].iter().any(|spelling| page.contains(spelling))
        || page.contains(&format!("crates/{name}"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_crate_that_is_not_mentioned_is_found() {
        let crates = ["crates/core/Cargo.toml", "crates/mcp/Cargo.toml"];
        for (page, expected) in [
            ("`core` and `mcp`", &[][..]),
            ("crates/core\n  mcp/   speaks MCP", &[]),
            ("`core` alone", &["crates/mcp is not mentioned"]),
        ] {
            let files = [file("ARCHITECTURE.md", page), file(crates[0], ""), file(crates[1], "")];
            assert_eq!(find(&files), expected, "{page}");
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_is_found() {
        let page = "`core/src/engine.rs`, `core/src/engine/`, `core/src/gone.rs`, `windlass undo`";
        let there = "crates/core/src/engine.rs";
        let files =
            [file("docs/map.md", page), file(there, ""), file("crates/core/src/engine/run.rs", "")];
        assert_eq!(find(&files), ["docs/map.md: there is no crates/core/src/gone.rs"]);
    }
}
