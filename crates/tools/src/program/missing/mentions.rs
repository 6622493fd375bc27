//! Finds the paths that messages of failure name. Pure text: the machine decides later which of them mean anything.

use windlass_core::PathUse;

/// Paths that are taken from one output.
const MOST_MENTIONS: usize = 20;
/// Bytes of a line; a longer one is data.
const LINE_BYTES: usize = 4 << 10;
/// Lines before a message without a path of its own in which the path may stand.
const LINES_BEFORE: usize = 3;

/// A path in a message of failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mention {
    /// As it was printed.
    pub(super) path: String,
    pub(super) used: PathUse,
    pub(super) symptom: Symptom,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symptom {
    Missing,
    Denied,
    ReadOnly,
    /// The kernel's answer of an overlay that cannot copy the owner or group of a file.
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

/// Words that tell that a path was to be changed.
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

/// The paths in the messages of an output, in the order in which they were printed. The last ones count where there are many.
pub(super) fn mentions(text: &str, command: &str) -> Vec<Mention> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found: Vec<Mention> = Vec::new();
    for (number, line) in lines.iter().enumerate().rev() {
        let Some((symptom, at)) = symptom(line) else { continue };
        let mut paths = paths_in(line, at);
        if paths.is_empty() {
            let before = lines.get(number.saturating_sub(LINES_BEFORE)..number);
            paths =
                before.unwrap_or_default().iter().rev().flat_map(|line| spelled(line)).collect();
        }
        for path in paths.into_iter().rev() {
            let used = used(line, path, symptom, command);
            let mention = Mention { path: path.to_owned(), used, symptom };
            if found.len() < MOST_MENTIONS && found.iter().all(|known| known.path != path) {
                found.push(mention);
            }
        }
    }
    found.reverse();
    found
}

/// The symptom that a line names, and the place of its words.
fn symptom(line: &str) -> Option<(Symptom, usize)> {
    if line.len() > LINE_BYTES {
        return None;
    }
    // Only ASCII letters change, so places in the two texts are the same.
    let lower = line.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["changing ownership", "changing group", "chown"])
        && has(&["invalid argument", "operation not permitted", "einval", "eperm"])
    {
        return Some((Symptom::Chown, lower.len()));
    }
    SYMPTOMS.iter().find_map(|(words, symptom)| lower.find(words).map(|at| (*symptom, at)))
}

/// The paths in a line whose words of failure are at a place.
fn paths_in(line: &str, at: usize) -> Vec<&str> {
    let mut paths = marked(line);
    if paths.is_empty() {
        for word in beside(line, at) {
            add(&mut paths, word);
        }
    }
    add_absolute(&mut paths, line);
    paths
}

/// The fields before and behind the words of failure: `cat: PATH: No such file`, `open PATH: No such file`, `No such file: PATH`.
fn beside(line: &str, at: usize) -> impl Iterator<Item = &str> {
    let (before, behind) = line.split_at_checked(at).unwrap_or((line, ""));
    let before = before.trim_end_matches([':', ' ', '(', ',', '-']);
    let field = before.rsplit(": ").next().unwrap_or(before).trim();
    let last = field.rsplit(' ').next().unwrap_or(field);
    // A path may have spaces in it, unless the last word is a path by itself.
    let whole = (!is_absolute(last)).then_some(field);
    let after = behind.split_once(": ").map(|(_, after)| after.trim());
    [Some(last), whole, after].into_iter().flatten()
}

/// The paths of a line that has no words of failure.
fn spelled(line: &str) -> Vec<&str> {
    let mut paths = Vec::new();
    if line.len() <= LINE_BYTES {
        paths = marked(line);
        add_absolute(&mut paths, line);
    }
    paths
}

/// The texts in quotes.
fn marked(line: &str) -> Vec<&str> {
    let marks = [('\'', '\''), ('"', '"'), ('`', '`'), ('`', '\''), ('‘', '’'), ('“', '”')];
    let mut paths = Vec::new();
    for (open, close) in marks {
        for text in quoted(line, open, close) {
            add(&mut paths, text);
        }
    }
    paths
}

/// Adds the words that are paths by themselves, but for the name of the program at the beginning.
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
        // A path that has spaces was found as a whole.
        let is_part = |path: &&str| path.contains(' ') && path.contains(word);
        if is_absolute(word) && !paths.iter().any(is_part) {
            add(paths, word);
        }
    }
}

fn is_absolute(word: &str) -> bool {
    ["/", "~/", "./", "../"].iter().any(|start| word.starts_with(start))
}

/// The texts between two quotation marks. An apostrophe within a word is none.
fn quoted(line: &str, open: char, close: char) -> Vec<&str> {
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

fn add<'t>(paths: &mut Vec<&'t str>, word: &'t str) {
    let is_path = !word.is_empty()
        && word.chars().any(char::is_alphanumeric)
        && !word.contains("://")
        && !word.contains(char::is_control);
    if is_path && !paths.contains(&word) {
        paths.push(word);
    }
}

/// The use that failed, by the words around the path and the redirections of the command.
fn used(line: &str, path: &str, symptom: Symptom, command: &str) -> PathUse {
    match symptom {
        Symptom::Chown => return PathUse::Chown,
        Symptom::ReadOnly | Symptom::Overflow => return PathUse::Write,
        Symptom::Missing | Symptom::Denied => {}
    }
    let around = line.replace(path, " ").to_ascii_lowercase();
    let mut words = around.split(|c: char| !c.is_ascii_alphabetic());
    let is_written = words.any(|word| WRITE_WORDS.contains(&word)) || is_redirected(command, path);
    if is_written { PathUse::Write } else { PathUse::Read }
}

/// Returns whether a command has `> PATH`.
fn is_redirected(command: &str, path: &str) -> bool {
    let before = command.match_indices(path).filter_map(|(at, _)| command.get(..at));
    let mut before = before.map(|before| before.trim_end_matches([' ', '\'', '"']));
    before.any(|before| before.ends_with('>'))
}

#[cfg(test)]
mod tests;
