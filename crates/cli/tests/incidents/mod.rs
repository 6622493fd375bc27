//! What went wrong in systems like this one, done to the binary: one test or more for each public incident, by its number in our list
//! of guarantees. What can be shown with the library, and the table of what is not re-enacted, is in
//! `crates/windlass/tests/incidents/`.

mod machine;
mod trust;

use std::path::Path;

/// Somebody puts a file there.
fn write_file(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(path, content).expect("a file");
}

/// A command file.
fn command_tool_file(name: &str, command: &str) -> String {
    format!("---\nname: {name}\ncommand: {command}\n---\nTry something.\n")
}
