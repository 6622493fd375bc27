//! Checks that every file that implements `Tool` is in the table of built-in tools.

use super::File;
use super::source::{self, Part};

const DIRECTORY: &str = "crates/tools/src/";
const TABLE: &str = "crates/tools/src/lib.rs";

/// The files whose tool is not in the table. One tool is one file, so the module's name is enough.
pub(super) fn find(files: &[File]) -> Vec<String> {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else {
        return vec![format!("{TABLE}, which has the table of built-in tools, is not there")];
    };
    let table = built_in(&table.text);
    files
        .iter()
        .filter(|file| is_tool_file(file) && defines_tool(&file.text))
        .filter(|file| !table.contains(&format!("&{}::", module(file))))
        .map(|file| format!("the tool in {} is not in BUILTIN", file.path))
        .collect()
}

fn module(file: &File) -> &str {
    file.path.trim_start_matches(DIRECTORY).trim_end_matches(".rs")
}

/// A file of the directory itself; those below it are parts of a tool.
fn is_tool_file(file: &File) -> bool {
    let name = file.path.strip_prefix(DIRECTORY);
    file.is_rust() && file.path != TABLE && name.is_some_and(|name| !name.contains('/'))
}

/// The entries of the table.
fn built_in(table: &str) -> String {
    let code = source::only(Part::Code, table);
    let after = code.split_once("const BUILTIN").map_or("", |(_, after)| after);
    let value = after.split_once('=').map_or("", |(_, value)| value);
    value.split_once(';').map_or("", |(entries, _)| entries).to_owned()
}

fn defines_tool(text: &str) -> bool {
    let code = source::only(Part::Code, text);
    ["impl Tool for ", "impl PlannedTool for "].iter().any(|words| code.contains(words))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn check(table: &str, tool: (&str, &str), expected: &[&str]) {
        let files = [file(TABLE, table), file(tool.0, tool.1)];
        assert_eq!(find(&files), expected, "{table}");
    }

    #[test]
    fn a_tool_must_be_in_the_table() {
        let table = "pub const BUILTIN: &[&dyn AnyTool] = &[&read::READ, &list::List];";
        let in_lines =
            "pub const BUILTIN: &[&dyn AnyTool] = &[\n    &read::Read,\n    &list::List,\n];";
        let read = ("crates/tools/src/read.rs", "impl Tool for Read {");
        let list = ("crates/tools/src/list.rs", "impl Tool for List {");
        let lost = ("crates/tools/src/lost.rs", "impl Tool for Lost {");
        let planned = ("crates/tools/src/lost.rs", "impl PlannedTool for Lost {");
        for table in [table, in_lines] {
            check(table, planned, &["the tool in crates/tools/src/lost.rs is not in BUILTIN"]);
            check(table, read, &[]);
            check(table, list, &[]);
            check(table, lost, &["the tool in crates/tools/src/lost.rs is not in BUILTIN"]);
        }
    }

    #[test]
    fn helpers_comments_and_parts_of_tools_are_no_tools() {
        let table = "pub const BUILTIN: &[&dyn AnyTool] = &[];";
        check(table, ("crates/tools/src/text.rs", "fn cut() {} // impl Tool for Unused"), &[]);
        check(table, ("crates/tools/src/read/pages.rs", "impl Tool for Inner {"), &[]);
        check(table, ("crates/core/src/tool.rs", "impl Tool for Shout {"), &[]);
    }

    #[test]
    fn a_missing_table_is_a_finding() {
        assert_eq!(find(&[]).len(), 1);
    }
}
