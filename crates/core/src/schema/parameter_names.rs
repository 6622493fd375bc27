//! Checks the names of parameters, and finds the one that a wrong name stands for: by meaning first, since `cmd` and `command` share few
//! letters, then by spelling.

use serde_json::{Map, Value};

use super::Place;
use crate::ToolError;
use crate::nearest::{likeness, nearest};

/// The names of an object's parameters: those that there are, and those that were given.
pub(super) struct Names<'a> {
    pub(super) known: &'a Map<String, Value>,
    pub(super) required: &'a [&'a str],
    pub(super) given: &'a Map<String, Value>,
    pub(super) place: &'a Place<'a>,
}

impl<'a> Names<'a> {
    /// So many unknown parameters are named.
    const MOST_NAMED: usize = 5;

    /// Refuses a parameter that is missing, and one that is unknown where the object `is_closed`; both in one error, so that one
    /// more attempt is enough.
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
            (true, false) => Err(self.missing(&missing, &unknown)),
            (false, _) => Err(self.unknown(&unknown, &missing)),
        }
    }

    fn missing(&self, missing: &[&str], unknown: &[&str]) -> ToolError {
        let error = ToolError::invalid_args(format!("{}{}", are_missing(missing), self.inside()));
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

    fn unknown(&self, unknown: &[&str], missing: &[&str]) -> ToolError {
        let shown: Vec<String> = unknown
            .iter()
            .take(Self::MOST_NAMED)
            .map(|name| format!("`{}`", crate::quote::visible(name)))
            .collect();
        let more = unknown.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let plural = if unknown.len() == 1 { "" } else { "s" };
        let mut words =
            format!("unknown parameter{plural} {}{more}{}", shown.join(", "), self.inside());
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

    /// The parameters among `candidates` that unknown names probably stand for, each of them once.
    fn corrections(&self, unknown: &[&'a str], candidates: &[&'a str]) -> Vec<(&'a str, &'a str)> {
        let (given, mut free): (Vec<&str>, Vec<&str>) =
            candidates.iter().partition(|name| self.given.contains_key(**name));
        // Where two could be meant, it is the one that must be there.
        free.sort_by_key(|name| !self.required.contains(name));
        let mut corrections = Vec::new();
        for name in unknown.iter().take(Self::MOST_NAMED) {
            if let Some(near) = meant(name, &free, &given) {
                free.retain(|free| *free != near);
                corrections.push((*name, near));
            }
        }
        corrections
    }

    fn inside(&self) -> String {
        match self.place {
            Place::Root => String::new(),
            place => format!(" in {place}"),
        }
    }
}

fn did_you_mean(corrections: &[(&str, &str)]) -> String {
    let words: Vec<String> = corrections
        .iter()
        .map(|(wrong, right)| format!("`{right}` instead of `{}`", crate::quote::visible(wrong)))
        .collect();
    format!("did you mean {}?", words.join(", "))
}

fn are_missing(missing: &[&str]) -> String {
    let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb} missing", names.join(", "))
}

/// Names that other systems use for one thing, in lower case and without `_`. A name may be in several groups; the first group with a
/// parameter of the tool counts.
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

/// A spelling this like a known name is a typing mistake, whatever else it could mean.
const TYPO: f64 = 0.8;

/// The parameter that `wanted` was probably meant to be. `free` parameters, which the call has not given, come before those that it
/// has: a call that gives `pattern` and `query` does not mean `pattern` twice.
fn meant<'a>(wanted: &str, free: &[&'a str], given: &[&'a str]) -> Option<&'a str> {
    let spelled = nearest(wanted, free.iter().copied());
    spelled
        .filter(|name| likeness(wanted, name) >= TYPO)
        .or_else(|| synonym(wanted, free))
        .or(spelled)
        .or_else(|| nearest(wanted, given.iter().copied()))
}

fn synonym<'a>(wanted: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let wanted = plain(wanted);
    let groups = SYNONYMS.iter().filter(|group| group.contains(&wanted.as_str()));
    groups
        .flat_map(|group| candidates.iter().filter(|name| group.contains(&plain(name).as_str())))
        .copied()
        .next()
}

fn plain(name: &str) -> String {
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
    fn a_name_of_another_system_is_understood() {
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
            assert_eq!(meant(wanted, names, &[]), expected, "{wanted} among {names:?}");
        }
    }

    #[test]
    fn what_is_given_already_is_not_meant_again() {
        assert_eq!(meant("query", &["path"], &["pattern"]), None);
        assert_eq!(meant("patern", &["path"], &["pattern"]), Some("pattern"), "a typing mistake");
    }

    #[test]
    fn every_synonym_is_written_as_it_is_compared() {
        for name in SYNONYMS.iter().copied().flatten() {
            assert_eq!(plain(name), *name);
        }
    }
}
