//! Checks the names of parameters, and finds the known parameter that a wrong name stands for: first by meaning, since `cmd` and
//! `command` share few letters, then by spelling.

use serde_json::{Map, Value};

use super::ArgumentPath;
use crate::ToolError;
use crate::nearest::{likeness, nearest};

/// The parameter names of an object: those that its schema has, and those that a call gives.
pub(super) struct ParameterNames<'a> {
    pub(super) known: &'a Map<String, Value>,
    pub(super) required: &'a [&'a str],
    pub(super) given: &'a Map<String, Value>,
    pub(super) position: &'a ArgumentPath<'a>,
}

impl<'a> ParameterNames<'a> {
    /// Maximum unknown parameters that an error names.
    const MAX_NAMED: usize = 5;

    /// Refuses missing parameters and, if the object `is_closed`, unknown ones. One error names both, so that one more attempt is
    /// enough.
    pub(super) fn check(&self, is_closed: bool) -> Result<(), ToolError> {
        let unknown: Vec<&str> = self
            .given
            .keys()
            .map(String::as_str)
            .filter(|name| !self.known.contains_key(*name))
            .collect();
        let missing: Vec<&str> =
            self.required.iter().copied().filter(|name| !self.given.contains_key(*name)).collect();
        match (unknown.is_empty() || !is_closed, missing.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(self.missing_error(&missing, &unknown)),
            (false, _) => Err(self.unknown_error(&unknown, &missing)),
        }
    }

    /// Makes the error about missing parameters. Its hint names the parameters that unknown ones stand for, or describes the missing
    /// ones.
    fn missing_error(&self, missing: &[&str], unknown: &[&str]) -> ToolError {
        let error =
            ToolError::invalid_args(format!("{}{}", are_missing(missing), self.location_suffix()));
        let meant = self.corrections(unknown, missing);
        if !meant.is_empty() {
            return error.hint(did_you_mean(&meant));
        }
        let description = |name: &&str| {
            let text = self.known.get(*name)?.get("description")?.as_str()?;
            Some(format!("{name}: {text}"))
        };
        let described: Vec<String> = missing.iter().filter_map(description).collect();
        if described.is_empty() { error } else { error.hint(described.join("\n")) }
    }

    /// Makes the error about unknown and missing parameters. Its hint names the parameters that were probably meant, or all
    /// parameters.
    fn unknown_error(&self, unknown: &[&str], missing: &[&str]) -> ToolError {
        let shown: Vec<String> = unknown
            .iter()
            .take(Self::MAX_NAMED)
            .map(|name| format!("`{}`", crate::quote::visible(name)))
            .collect();
        let more = unknown.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let plural = if unknown.len() == 1 { "" } else { "s" };
        let mut words = format!(
            "unknown parameter{plural} {}{more}{}",
            shown.join(", "),
            self.location_suffix()
        );
        if !missing.is_empty() {
            words = format!("{words}; {}", are_missing(missing));
        }
        let error = ToolError::invalid_args(words);
        let names: Vec<&str> = self.known.keys().map(String::as_str).collect();
        let meant = self.corrections(unknown, &names);
        match meant.as_slice() {
            [] if names.is_empty() => error.hint("this tool takes no parameters"),
            [] => error.hint(format!("it takes: {}", names.join(", "))),
            [(_, only)] if unknown.len() == 1 => error.hint(format!("did you mean `{only}`?")),
            several => error.hint(did_you_mean(several)),
        }
    }

    /// Pairs unknown names with the parameters among `candidates` that they probably stand for. Uses each parameter once.
    fn corrections(&self, unknown: &[&'a str], candidates: &[&'a str]) -> Vec<(&'a str, &'a str)> {
        let (given, mut free): (Vec<&str>, Vec<&str>) =
            candidates.iter().partition(|name| self.given.contains_key(**name));
        // A required parameter is more likely meant than an optional one.
        free.sort_by_key(|name| !self.required.contains(name));
        let mut corrections = Vec::new();
        for name in unknown.iter().take(Self::MAX_NAMED) {
            if let Some(near) = probable_parameter(name, &free, &given) {
                free.retain(|free| *free != near);
                corrections.push((*name, near));
            }
        }
        corrections
    }

    /// Returns the words that say in which part of the arguments the names are.
    fn location_suffix(&self) -> String {
        match self.position {
            ArgumentPath::Root => String::new(),
            position => format!(" in {position}"),
        }
    }
}

/// Formats corrections as a question.
fn did_you_mean(corrections: &[(&str, &str)]) -> String {
    let words: Vec<String> = corrections
        .iter()
        .map(|(wrong, right)| format!("`{right}` instead of `{}`", crate::quote::visible(wrong)))
        .collect();
    format!("did you mean {}?", words.join(", "))
}

/// Formats the statement that parameters are missing.
fn are_missing(missing: &[&str]) -> String {
    let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb} missing", names.join(", "))
}

/// Groups of names that other systems use for the same thing, in lower case and without `_`. A name may be in several groups; the
/// first group with a parameter of the tool counts.
const SYNONYMS: &[&[&str]] = &[
    &[
        "path",
        "file",
        "filename",
        "filepath",
        "pathname",
        "absolutepath",
        "relativepath",
        "targetfile",
        "directory",
        "dir",
        "dirpath",
        "directorypath",
        "folder",
        "notebookpath",
        "root",
        "location",
        "target",
    ],
    &["cwd", "workdir", "workingdir", "workingdirectory", "currentdir", "directory", "dir"],
    &["command", "cmd", "commandline", "shellcommand", "bash", "shell", "script", "code"],
    &[
        "pattern",
        "query",
        "regex",
        "regexp",
        "search",
        "searchpattern",
        "searchterm",
        "expression",
        "keyword",
        "keywords",
        "needle",
        "q",
        "glob",
        "globpattern",
        "text",
    ],
    &["glob", "include", "includepattern", "includes", "globs", "globpattern", "filepattern"],
    &[
        "content",
        "contents",
        "text",
        "filetext",
        "filecontent",
        "filecontents",
        "newcontent",
        "body",
        "data",
        "memory",
        "fact",
        "note",
    ],
    &["oldstring", "oldstr", "oldtext", "old", "original", "search", "find", "before", "oldcode"],
    &[
        "newstring",
        "newstr",
        "newtext",
        "new",
        "replacement",
        "replace",
        "replacewith",
        "with",
        "after",
        "updated",
        "newcode",
    ],
    &["replaceall", "all", "global", "allowmultiple", "everyoccurrence"],
    &["edits", "changes", "replacements", "operations"],
    &["patch", "diff", "unifieddiff", "patchtext", "input", "content"],
    &[
        "offset",
        "start",
        "startline",
        "linestart",
        "startlineonebased",
        "from",
        "firstline",
        "line",
    ],
    &[
        "limit",
        "max",
        "maxresults",
        "maxcount",
        "maxlines",
        "maxmatches",
        "headlimit",
        "count",
        "numlines",
        "numresults",
        "n",
        "topk",
        "lines",
    ],
    &["timeout", "timeoutms", "timeoutsecs", "timeoutseconds", "timelimit", "maxtime"],
    &["wait", "timeout", "waitms", "waitseconds", "block"],
    &["background", "runinbackground", "isbackground", "async", "detach", "daemon"],
    &["stdin", "input"],
    &["ignorecase", "caseinsensitive", "nocase", "insensitive", "-i"],
    &["literal", "fixedstrings", "fixedstring", "plain", "-f"],
    &["word", "wholeword", "wordregexp", "-w"],
    &["before", "beforecontext", "linesbefore", "-b"],
    &["after", "aftercontext", "linesafter", "-a"],
    &["context", "contextlines", "surroundinglines", "-c"],
    &["mode", "outputmode", "format"],
    &["type", "filetype", "language", "lang"],
    &["numbers", "linenumbers", "showlinenumbers", "-n"],
    &["all", "includeignored", "noignore", "hidden", "includehidden", "showhidden", "ignore"],
    &["depth", "maxdepth", "levels", "level", "recursive"],
    &["job", "jobid", "bashid", "shellid", "processid", "taskid", "pid", "id"],
    &["call", "callid", "tooluseid", "toolcallid", "id"],
    &["tail", "lines", "last", "taillines"],
    &["args", "arguments", "argv", "options", "flags"],
    &["message", "msg", "commitmessage"],
    &["paths", "files", "path", "file", "filepaths"],
    &["dryrun", "preview", "simulate"],
    &["url", "uri", "link", "href", "address"],
    &["prompt", "task", "instructions", "instruction"],
    &["items", "todos", "todolist", "tasks"],
    &["name", "skill", "skillname", "title"],
    &["title", "name"],
];

/// Minimum likeness of a name that counts as a typing mistake, whatever else it could mean.
const MIN_TYPO_LIKENESS: f64 = 0.8;

/// Returns the parameter that `wanted` probably stands for. Prefers `free` parameters, which the call does not give, to `given` ones:
/// a call that gives `pattern` and `query` does not mean `pattern` twice.
fn probable_parameter<'a>(wanted: &str, free: &[&'a str], given: &[&'a str]) -> Option<&'a str> {
    let spelled = nearest(wanted, free.iter().copied());
    spelled
        .filter(|name| likeness(wanted, name) >= MIN_TYPO_LIKENESS)
        .or_else(|| find_synonym(wanted, free))
        .or(spelled)
        .or_else(|| nearest(wanted, given.iter().copied()))
}

/// Returns the candidate that shares a group of synonyms with `wanted`.
fn find_synonym<'a>(wanted: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let wanted = normalized(wanted);
    let groups = SYNONYMS.iter().filter(|group| group.contains(&wanted.as_str()));
    groups
        .flat_map(|group| {
            candidates.iter().filter(|name| group.contains(&normalized(name).as_str()))
        })
        .copied()
        .next()
}

/// Returns a name in lower case and without `_`.
fn normalized(name: &str) -> String {
    name.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDIT: &[&str] = &["path", "old_string", "new_string", "replace_all", "edits"];
    const GREP: &[&str] = &[
        "pattern",
        "path",
        "glob",
        "type",
        "mode",
        "ignore_case",
        "literal",
        "multiline",
        "word",
        "before",
        "after",
        "context",
        "all",
        "limit",
    ];
    const BASH: &[&str] = &["command", "timeout", "cwd", "background", "stdin", "pty", "net"];

    #[test]
    fn names_of_other_systems_find_their_parameter() {
        for (names, wanted, expected) in [
            (BASH, "cmd", Some("command")),
            (BASH, "script", Some("command")),
            (BASH, "workdir", Some("cwd")),
            (BASH, "working_directory", Some("cwd")),
            (BASH, "timeout_ms", Some("timeout")),
            (BASH, "run_in_background", Some("background")),
            (BASH, "input", Some("stdin")),
            (EDIT, "file", Some("path")),
            (EDIT, "filename", Some("path")),
            (EDIT, "file_path", Some("path")),
            (EDIT, "filePath", Some("path")),
            (EDIT, "target_file", Some("path")),
            (EDIT, "old_str", Some("old_string")),
            (EDIT, "oldText", Some("old_string")),
            (EDIT, "search", Some("old_string")),
            (EDIT, "find", Some("old_string")),
            (EDIT, "replace", Some("new_string")),
            (EDIT, "replacement", Some("new_string")),
            (EDIT, "new_str", Some("new_string")),
            (EDIT, "changes", Some("edits")),
            (GREP, "query", Some("pattern")),
            (GREP, "regex", Some("pattern")),
            (GREP, "dir", Some("path")),
            (GREP, "include", Some("glob")),
            (GREP, "-A", Some("after")),
            (GREP, "-i", Some("ignore_case")),
            (GREP, "case_insensitive", Some("ignore_case")),
            (GREP, "output_mode", Some("mode")),
            (GREP, "head_limit", Some("limit")),
            (GREP, "max_results", Some("limit")),
            (&["path", "content", "mode"], "text", Some("content")),
            (&["path", "content", "mode"], "file_text", Some("content")),
            (&["path", "content", "mode"], "contents", Some("content")),
            (&["patch"], "diff", Some("patch")),
            (&["path", "offset", "limit"], "start_line", Some("offset")),
            (&["job", "cursor"], "bash_id", Some("job")),
            (&["path", "depth", "all"], "max_depth", Some("depth")),
            // The parameter of a tool that is not ours.
            (&["file_path"], "path", Some("file_path")),
            (&["path"], "pth", Some("path")),
            (&["path"], "colour", None),
        ] {
            assert_eq!(
                probable_parameter(wanted, names, &[]),
                expected,
                "{wanted} among {names:?}"
            );
        }
    }

    #[test]
    fn given_parameters_are_suggested_only_for_typing_mistakes() {
        assert_eq!(probable_parameter("query", &["path"], &["pattern"]), None);
        assert_eq!(
            probable_parameter("patern", &["path"], &["pattern"]),
            Some("pattern"),
            "a typing mistake"
        );
    }

    #[test]
    fn synonyms_are_normalized() {
        for name in SYNONYMS.iter().copied().flatten() {
            assert_eq!(normalized(name), *name);
        }
    }
}
