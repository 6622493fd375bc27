//! Finds the paths that failure messages name. It works on text only: the host decides later which of them are absent.

use windlass_core::PathUse;

/// Limit of paths from one output.
const MAX_MENTIONS: usize = 20;
/// Limit of a line's length; a longer line is data.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Number of lines before a message that are searched for its path.
const LINES_BEFORE: usize = 3;

/// A path in a failure message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathMention {
    /// The path as it was printed.
    pub(super) path: String,
    pub(super) used: PathUse,
    pub(super) symptom: Symptom,
}

/// The kind of failure that a message names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symptom {
    Missing,
    Denied,
    ReadOnly,
    /// The error of an overlay that cannot copy the owner or group of a file.
    Overflow,
    Chown,
}

/// Phrases in lower case that name a failure, the most specific first.
const SYMPTOMS: &[(&str, Symptom)] = &[
    ("value too large for defined data type", Symptom::Overflow),
    ("eoverflow", Symptom::Overflow),
    ("os error 75)", Symptom::Overflow),
    ("read-only file system", Symptom::ReadOnly),
    ("erofs", Symptom::ReadOnly),
    ("os error 30)", Symptom::ReadOnly),
    ("permission denied", Symptom::Denied),
    ("eacces", Symptom::Denied),
    ("os error 13)", Symptom::Denied),
    ("no such file or directory", Symptom::Missing),
    ("enoent", Symptom::Missing),
    ("os error 2)", Symptom::Missing),
    ("filenotfounderror", Symptom::Missing),
    ("directory nonexistent", Symptom::Missing),
    ("no rule to make target", Symptom::Missing),
    ("cannot open", Symptom::Missing),
    ("can't open", Symptom::Missing),
    ("could not open", Symptom::Missing),
    ("couldn't open", Symptom::Missing),
    ("unable to open", Symptom::Missing),
    ("does not exist", Symptom::Missing),
    ("not found", Symptom::Missing),
];

/// Words that tell that the program wanted to change the path.
const WRITE_WORDS: &[&str] = &[
    "create",
    "creating",
    "touch",
    "mkdir",
    "write",
    "writing",
    "remove",
    "removing",
    "unlink",
    "rmdir",
    "rename",
    "move",
    "truncate",
    "save",
    "tee",
    "install",
    "permissions",
];

/// Returns the paths in the failure messages of an output, in the order in which they were printed. If there are too many, the last ones
/// are kept.
pub(super) fn mentions(text: &str, command: &str) -> Vec<PathMention> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found: Vec<PathMention> = Vec::new();
    for (number, line) in lines.iter().enumerate().rev() {
        let Some((symptom, at)) = find_symptom(line) else { continue };
        let mut paths = paths_in(line, at);
        if paths.is_empty() {
            let before = lines.get(number.saturating_sub(LINES_BEFORE)..number);
            paths = before
                .unwrap_or_default()
                .iter()
                .rev()
                .flat_map(|line| paths_without_symptom(line))
                .collect();
        }
        for path in paths.into_iter().rev() {
            let used = path_use(line, path, symptom, command);
            let mention = PathMention { path: path.to_owned(), used, symptom };
            if found.len() < MAX_MENTIONS && found.iter().all(|known| known.path != path) {
                found.push(mention);
            }
        }
    }
    found.reverse();
    found
}

/// Returns the symptom that a line names, and the index of its phrase.
fn find_symptom(line: &str) -> Option<(Symptom, usize)> {
    if line.len() > MAX_LINE_BYTES {
        return None;
    }
    // Only ASCII letters change, so indexes are the same in both texts.
    let lower = line.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["changing ownership", "changing group", "chown"])
        && has(&["invalid argument", "operation not permitted", "einval", "eperm"])
    {
        return Some((Symptom::Chown, lower.len()));
    }
    SYMPTOMS.iter().find_map(|(words, symptom)| lower.find(words).map(|at| (*symptom, at)))
}

/// Returns the paths in a line. `at` is the index of the failure phrase.
fn paths_in(line: &str, at: usize) -> Vec<&str> {
    let mut paths = quoted_texts(line);
    if paths.is_empty() {
        for word in fields_around(line, at) {
            add_path(&mut paths, word);
        }
    }
    add_absolute(&mut paths, line);
    paths
}

/// Returns the fields before and behind the failure phrase, which may be paths: `cat: PATH: No such file`, `open PATH: No such file`, `No
/// such file: PATH`.
fn fields_around(line: &str, at: usize) -> impl Iterator<Item = &str> {
    let (before, behind) = line.split_at_checked(at).unwrap_or((line, ""));
    let before = before.trim_end_matches([':', ' ', '(', ',', '-']);
    let field = before.rsplit(": ").next().unwrap_or(before).trim();
    let last = field.rsplit(' ').next().unwrap_or(field);
    // A path may contain spaces, unless the last word is a path by itself.
    let whole = (!is_absolute(last)).then_some(field);
    let after = behind.split_once(": ").map(|(_, after)| after.trim());
    [Some(last), whole, after].into_iter().flatten()
}

/// Returns the paths in a line without a failure phrase.
fn paths_without_symptom(line: &str) -> Vec<&str> {
    let mut paths = Vec::new();
    if line.len() <= MAX_LINE_BYTES {
        paths = quoted_texts(line);
        add_absolute(&mut paths, line);
    }
    paths
}

/// Returns the texts in quotation marks of any kind.
fn quoted_texts(line: &str) -> Vec<&str> {
    let marks = [('\'', '\''), ('"', '"'), ('`', '`'), ('`', '\''), ('‘', '’'), ('“', '”')];
    let mut paths = Vec::new();
    for (open, close) in marks {
        for text in texts_between(line, open, close) {
            add_path(&mut paths, text);
        }
    }
    paths
}

/// Adds the words that begin like a path, except for the name of the program at the beginning of the line.
fn add_absolute<'t>(paths: &mut Vec<&'t str>, line: &'t str) {
    let is_program = |word: &str| word.ends_with(':');
    let rest = match line.split_once(char::is_whitespace) {
        Some((first, rest)) if is_program(first) => rest,
        _ => line,
    };
    for word in rest.split(|c: char| c.is_whitespace() || matches!(c, '=' | '\'' | '"' | '`')) {
        let marks = ['(', ')', '[', ']', '{', '}', '<', '>', ',', ';', ':', '‘', '’', '“', '”'];
        let word = word.trim_matches(marks);
        let word = word.strip_suffix('.').unwrap_or(word);
        // A path with spaces was already found as a whole.
        let is_part = |path: &&str| path.contains(' ') && path.contains(word);
        if is_absolute(word) && !paths.iter().any(is_part) {
            add_path(paths, word);
        }
    }
}

/// Returns whether a word begins like a path: with `/`, `~/`, `./` or `../`.
fn is_absolute(word: &str) -> bool {
    ["/", "~/", "./", "../"].iter().any(|start| word.starts_with(start))
}

/// Returns the texts between two quotation marks. An apostrophe within a word does not count as one.
fn texts_between(line: &str, open: char, close: char) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once(open) {
        rest = behind;
        if before.ends_with(char::is_alphanumeric) {
            continue;
        }
        let mut ends = behind.match_indices(close).filter_map(|(end, mark)| {
            let after = behind.get(end + mark.len()..)?;
            (!after.starts_with(char::is_alphanumeric)).then_some((behind.get(..end)?, after))
        });
        if let Some((text, after)) = ends.next() {
            found.push(text);
            rest = after;
        }
    }
    found
}

/// Adds a word to the paths if it can be one and is new.
fn add_path<'t>(paths: &mut Vec<&'t str>, word: &'t str) {
    let is_path = !word.is_empty()
        && word.chars().any(char::is_alphanumeric)
        && !word.contains("://")
        && !word.contains(char::is_control);
    if is_path && !paths.contains(&word) {
        paths.push(word);
    }
}

/// Returns the use of the path that failed, by the words around it and the redirections of the command.
fn path_use(line: &str, path: &str, symptom: Symptom, command: &str) -> PathUse {
    match symptom {
        Symptom::Chown => return PathUse::Chown,
        Symptom::ReadOnly | Symptom::Overflow => return PathUse::Write,
        Symptom::Missing | Symptom::Denied => {}
    }
    let contexts = line.replace(path, " ").to_ascii_lowercase();
    let mut words = contexts.split(|c: char| !c.is_ascii_alphabetic());
    let is_written = words.any(|word| WRITE_WORDS.contains(&word)) || is_redirected(command, path);
    if is_written { PathUse::Write } else { PathUse::Read }
}

/// Returns whether a command contains `> PATH`.
fn is_redirected(command: &str, path: &str) -> bool {
    let before = command.match_indices(path).filter_map(|(at, _)| command.get(..at));
    let mut before = before.map(|before| before.trim_end_matches([' ', '\'', '"']));
    before.any(|before| before.ends_with('>'))
}

#[cfg(test)]
mod tests;
