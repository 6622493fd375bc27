//! ARCHITECTURE.md knows every crate.

use std::collections::BTreeSet;

use super::File;

/// The crates that the page does not name.
pub(super) fn find(files: &[File]) -> Vec<String> {
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
}
