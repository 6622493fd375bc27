//! The built-in tools, one file each, in one table.
//!
//! A tool reaches the machine only through its [`Context`](windlass_core::Context); `clippy.toml` bans other ways.

mod bash;
mod command_tool;
mod cut;
pub mod diff;
mod document;
mod edit;
mod encoding;
mod format;
mod git;
mod glob;
mod grep;
mod jobs;
mod kill;
mod list;
mod output;
mod parameter_defaults;
mod patch;
mod pattern;
mod person_tools;
mod program;
mod read;
mod redaction_guard;
mod shell;
mod syntax;
mod test;
#[cfg(test)]
mod testing;
mod undo;
mod write;

pub use command_tool::{CommandDefinition, CommandTool, DefinitionError};
pub use format::size as format_size;
pub use person_tools::{Apply, Restore};
use windlass_core::{AnyTool, Shell};

/// All built-in tools, in the order in which models see them.
pub const BUILTIN: &[&dyn AnyTool] = &[
    &read::READ,
    &write::Write,
    &edit::Edit,
    &patch::Patch,
    &list::List,
    &glob::Glob,
    &grep::Grep,
    &undo::Undo,
    &bash::Bash,
    &output::Output,
    &kill::Kill,
    &jobs::Jobs,
    &git::Git,
    &test::Test,
];

/// Returns the descriptions of built-in tools that differ for a shell other than bash, with the name of the tool.
///
/// ```
/// use windlass_core::Shell;
/// assert!(windlass_tools::descriptions_for(&Shell::default()).is_empty());
/// let [(tool, text)] = &windlass_tools::descriptions_for(&Shell::new("/usr/bin/fish"))[..] else { panic!() };
/// assert!(*tool == "bash" && text.contains("/usr/bin/fish"));
/// ```
pub fn descriptions_for(shell: &Shell) -> Vec<(&'static str, String)> {
    if shell.is_usual() {
        return Vec::new();
    }
    vec![(bash::Bash.name(), bash::description(shell))]
}

/// The undo tool for people, who may undo the changes of any session. The one for models undoes only those of its own session.
pub const UNDO_ANY: &dyn AnyTool = &undo::UndoAny;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_tool_is_described() {
        for tool in BUILTIN {
            let spec = tool.spec();
            assert!(!spec.description.is_empty(), "{} has no description", spec.name);
            assert!(spec.description.len() <= 400, "{}: {}", spec.name, spec.description);
            assert!(spec.about.title.is_some(), "{} has no title", spec.name);
            check_object(&spec.name, &spec.input_schema);
        }
    }

    /// Checks that unknown parameters are refused and every known one is described, at every level.
    fn check_object(place: &str, schema: &Value) {
        assert_eq!(schema["additionalProperties"], false, "{place} takes unknown parameters");
        for (name, property) in schema["properties"].as_object().unwrap() {
            let place = format!("{place}.{name}");
            let description = property["description"].as_str().unwrap_or_default();
            assert!(!description.is_empty(), "{place} has no description");
            assert!(description.len() <= 200, "{place}: {description}");
            if property["items"]["type"] == "object" {
                check_object(&place, &property["items"]);
            }
        }
    }

    #[test]
    fn names_are_well_formed_and_unique() {
        let mut names: Vec<&str> = BUILTIN.iter().map(|tool| tool.name()).collect();
        for name in &names {
            assert!(name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_lowercase()));
            assert!(name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_')), "{name}");
        }
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "two tools have the same name");
    }

    #[test]
    fn every_tool_file_is_in_the_table() {
        let mut files = tool_files();
        let mut names: Vec<String> = BUILTIN.iter().map(|tool| tool.name().to_owned()).collect();
        files.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, files, "a tool is a file of its own name, and is in `BUILTIN`");
    }

    /// The names of the files that define a tool.
    #[expect(clippy::disallowed_methods, reason = "the test reads our own source, not a workspace")]
    fn tool_files() -> Vec<String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let paths = std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path());
        let defines_tool = |path: &PathBuf| {
            let text = std::fs::read_to_string(path).unwrap();
            let kinds = ["impl Tool for ", "impl PlannedTool for "];
            text.lines().any(|line| kinds.iter().any(|kind| line.starts_with(kind)))
        };
        paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
            .filter(defines_tool)
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_list_of_tools_is_small() {
        let list: Vec<Value> = BUILTIN
            .iter()
            .map(|tool| {
                let spec = tool.spec();
                json!({"name": spec.name, "description": spec.description, "input_schema": spec.input_schema})
            })
            .collect();
        let bytes = serde_json::to_string(&list).unwrap().len();
        assert!(bytes < 10_000, "{bytes} bytes");
    }
}
