//! `cargo xtask docs`: the generated pages of the manual, which the binary prints. They are kept in the repository for readers and
//! reviewers.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// A page, and the arguments that make `windlass` print it.
struct Page {
    path: &'static str,
    arguments: &'static [&'static str],
}

const PAGES: &[Page] = &[
    Page { path: "docs/tools.md", arguments: &["tools", "--format", "markdown"] },
    Page { path: "docs/cli.md", arguments: &["docs", "cli"] },
    Page { path: "docs/config.md", arguments: &["docs", "config"] },
];

/// `cargo xtask docs [--check]`.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    match arguments {
        [] => write(workspace),
        [only] if only == "--check" => match stale(workspace)?.as_slice() {
            [] => Ok(()),
            findings => bail!("{}", findings.join("\n")),
        },
        _ => bail!("usage: cargo xtask docs [--check]"),
    }
}

/// The pages that differ from the output of the binary.
pub(crate) fn stale(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (page, wanted) in print_all(workspace)? {
        let kept = fs::read_to_string(workspace.file(page.path)).unwrap_or_default();
        if kept != wanted {
            findings.push(format!("{} is stale: run `cargo xtask docs`", page.path));
        }
    }
    Ok(findings)
}

fn write(workspace: &Workspace) -> Result<()> {
    for (page, text) in print_all(workspace)? {
        let path = workspace.file(page.path);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("{}", page.path);
    }
    Ok(())
}

fn print_all(workspace: &Workspace) -> Result<Vec<(&'static Page, String)>> {
    process::run(&mut workspace.cargo(&["build", "--quiet", "--package", "windlass-cli"]))?;
    PAGES.iter().map(|page| Ok((page, print(workspace, page)?))).collect()
}

/// The page as the binary prints it, ending in exactly one newline.
fn print(workspace: &Workspace, page: &Page) -> Result<String> {
    let mut command = workspace.command(workspace.target("debug/windlass"));
    // The pages tell the defaults, so the person's own configuration must not be found.
    let nowhere = workspace.target("docs-home");
    command.env("HOME", &nowhere).env("XDG_CONFIG_HOME", &nowhere).env("XDG_STATE_HOME", &nowhere);
    let text = process::capture(command.args(page.arguments))?;
    if text.trim().is_empty() {
        bail!("{} printed nothing for {}", process::line(&command), page.path);
    }
    Ok(format!("{}\n", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_a_markdown_file_of_its_own_under_docs() {
        let mut paths: Vec<&str> = PAGES.iter().map(|page| page.path).collect();
        let is_markdown = |path: &&str| matches!(path.rsplit_once('.'), Some((_, "md")));
        assert!(paths.iter().all(|path| path.starts_with("docs/") && is_markdown(path)));
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), PAGES.len());
    }
}
