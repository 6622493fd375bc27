//! Public incidents of similar systems, repeated against the binary: one test or more for each incident, by its number in our list
//! of guarantees. What can be shown with the library, and the table of what is not re-enacted, is in
//! `crates/windlass/tests/incidents/`.

mod machine;
mod trust;

use std::path::Path;

/// Writes a file and creates its directory.
fn write_file(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(path, content).expect("a file");
}

/// Returns the text of a command tool's file.
fn command_tool_file(name: &str, command: &str) -> String {
    format!("---\nname: {name}\ncommand: {command}\n---\nTry something.\n")
}
