//! Parses git's configuration files, and decides if a change to one is inert: makes git run no program and trust no other person or
//! file.
//!
//! The parser follows git's `config.c`, so that it sees the keys that git sees. A file that it cannot parse is an error and never
//! inert. A key that is not in the table is not inert either.

mod inert;

use std::collections::BTreeMap;
use std::path::Path;

/// The name of a key. Section and key are in lower case, the subsection is as written.
type Key = (String, Option<String>, String);

/// One entry `key = value`. A key without `=` has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigEntry {
    pub(crate) section: String,
    pub(crate) subsection: Option<String>,
    pub(crate) key: String,
    pub(crate) value: Option<String>,
}

/// The error for a text that git would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not git's configuration syntax")]
pub(crate) struct ConfigError {
    pub(crate) line: usize,
}

/// The paths against which values are checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigPaths<'a> {
    /// The git directory that the file belongs to.
    pub(crate) directory: &'a Path,
    pub(crate) workspace: &'a Path,
}

/// Returns whether all entries that a new configuration adds to or changes in an old one are inert. Keys may be removed, except those
/// of the repository's format. A key with other values than before must be inert with each of its new values, since the last one
/// counts.
pub(crate) fn is_inert_change(
    old: Option<&[u8]>,
    new: &[u8],
    paths: ConfigPaths<'_>,
) -> Result<bool, ConfigError> {
    // An old file that git refuses sets no values.
    let old = group_by_key(old.and_then(|old| parse(old).ok()).unwrap_or_default());
    let new = group_by_key(parse(new)?);
    let is_same = |key: &Key, values: &Vec<Option<String>>| old.get(key) == Some(values);
    // Without these keys git would read the repository in another format or place.
    let is_kept = |key: &Key| {
        let is_format = match (key.0.as_str(), key.2.as_str()) {
            ("core", name) => matches!(name, "repositoryformatversion" | "bare" | "worktree"),
            (section, _) => section == "extensions",
        };
        !is_format || new.contains_key(key)
    };
    if !old.keys().all(is_kept) {
        return Ok(false);
    }
    Ok(new.iter().filter(|(key, values)| !is_same(key, values)).all(|(name, values)| {
        let (section, subsection, key) = name;
        let is_inert = |value: &Option<String>| {
            inert::is_inert(section, subsection.as_deref(), key, value.as_deref(), paths)
        };
        values.iter().all(is_inert) && !redirects_remote(&old, name)
    }))
}

/// Returns whether a changed key makes the person's next push or fetch go to another place than before. A new remote does not, nor
/// does the upstream of a branch that had none.
fn redirects_remote(old: &BTreeMap<Key, Vec<Option<String>>>, name: &Key) -> bool {
    let (section, subsection, key) = name;
    match (section.as_str(), key.as_str()) {
        ("remote", "url" | "pushurl" | "push") => {
            old.keys().any(|known| (&known.0, &known.1) == (section, subsection))
        }
        ("branch", "remote") => old.contains_key(name),
        ("branch", "pushremote") | ("remote", "pushdefault") => true,
        _ => false,
    }
}

/// Groups the values of entries by key.
fn group_by_key(entries: Vec<ConfigEntry>) -> BTreeMap<Key, Vec<Option<String>>> {
    let mut keys: BTreeMap<Key, Vec<Option<String>>> = BTreeMap::new();
    for ConfigEntry { section, subsection, key, value } in entries {
        keys.entry((section, subsection, key)).or_default().push(value);
    }
    keys
}

/// Parses a configuration file.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<ConfigEntry>, ConfigError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    // Git would end a value at a zero byte.
    let text = std::str::from_utf8(text).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or(ConfigError { line: 0 })?;
    let mut reader = ConfigReader { rest: text, line: 1 };
    reader.entries().map_err(|()| ConfigError { line: reader.line })
}

/// The unread rest of the text, and its line number.
struct ConfigReader<'t> {
    rest: &'t str,
    line: usize,
}

impl ConfigReader<'_> {
    /// Reads all entries.
    fn entries(&mut self) -> Result<Vec<ConfigEntry>, ()> {
        let mut entries = Vec::new();
        let mut heading = None;
        while let Some(next) = self.next() {
            match next {
                c if is_space(c) => {}
                '#' | ';' => self.skip_line(),
                '[' => heading = Some(self.heading()?),
                c if c.is_ascii_alphabetic() => {
                    let (section, subsection) = heading.clone().ok_or(())?;
                    let (key, value) = self.assignment(c)?;
                    entries.push(ConfigEntry { section, subsection, key, value });
                }
                _ => return Err(()),
            }
        }
        Ok(entries)
    }

    /// Reads a heading after its `[`: `[section]`, `[section "subsection"]`, or the old form `[section.subsection]`, which git reads
    /// in lower case.
    fn heading(&mut self) -> Result<(String, Option<String>), ()> {
        let mut name = String::new();
        loop {
            match self.next().ok_or(())? {
                ']' => {
                    return match name.split_once('.') {
                        Some((section, rest)) => Ok((section.to_owned(), Some(rest.to_owned()))),
                        None => Ok((name, None)),
                    };
                }
                c if c.is_ascii_alphanumeric() || c == '-' || c == '.' => {
                    name.push(c.to_ascii_lowercase());
                }
                '\n' => return Err(()),
                c if is_space(c) => break,
                _ => return Err(()),
            }
        }
        // A heading with a dot and a quoted part would have two subsections; git joins them.
        let (section, first) = match name.split_once('.') {
            Some((section, first)) => (section.to_owned(), format!("{first}.")),
            None => (name, String::new()),
        };
        Ok((section, Some(first + &self.subsection()?)))
    }

    /// Reads a quoted subsection and the `]` after it.
    fn subsection(&mut self) -> Result<String, ()> {
        let mut next = self.next().ok_or(())?;
        while is_space(next) {
            if next == '\n' {
                return Err(());
            }
            next = self.next().ok_or(())?;
        }
        if next != '"' {
            return Err(());
        }
        let mut name = String::new();
        loop {
            match self.next().ok_or(())? {
                '\n' => return Err(()),
                '"' => break,
                '\\' => match self.next().ok_or(())? {
                    '\n' => return Err(()),
                    c => name.push(c),
                },
                c => name.push(c),
            }
        }
        if self.next() == Some(']') { Ok(name) } else { Err(()) }
    }

    /// Reads a key, whose first character was read, and its value.
    fn assignment(&mut self, first: char) -> Result<(String, Option<String>), ()> {
        let mut key = String::from(first.to_ascii_lowercase());
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '-') {
            self.next();
            key.push(c.to_ascii_lowercase());
        }
        while self.peek().is_some_and(|c| c == ' ' || c == '\t') {
            self.next();
        }
        match self.next() {
            None | Some('\n') => Ok((key, None)),
            Some('=') => Ok((key, Some(self.value()?))),
            Some(_) => Err(()),
        }
    }

    /// Reads a value up to the end of its line, with quotation marks and escapes resolved.
    fn value(&mut self) -> Result<String, ()> {
        let (mut value, mut is_quoted) = (String::new(), false);
        // Spaces at the end are dropped, unless they are quoted.
        let mut kept = 0;
        loop {
            match self.next() {
                None | Some('\n') if is_quoted => return Err(()),
                None | Some('\n') => break,
                Some('"') => is_quoted = !is_quoted,
                Some('#' | ';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some(c) if is_space(c) && !is_quoted => {
                    if !value.is_empty() {
                        value.push(c);
                    }
                    continue;
                }
                Some('\\') => match self.next().ok_or(())? {
                    '\n' => {}
                    't' => value.push('\t'),
                    'b' => value.push('\u{8}'),
                    'n' => value.push('\n'),
                    c @ ('\\' | '"') => value.push(c),
                    _ => return Err(()),
                },
                Some(c) => value.push(c),
            }
            kept = value.len();
        }
        value.truncate(kept);
        Ok(value)
    }

    /// Reads up to the end of the line.
    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    /// Returns the next character without reading it.
    fn peek(&self) -> Option<char> {
        let mut rest = ConfigReader { rest: self.rest, line: 0 };
        rest.next()
    }

    /// Reads the next character. Returns `\n` for a Windows line end.
    fn next(&mut self) -> Option<char> {
        if let Some(rest) = self.rest.strip_prefix("\r\n") {
            self.rest = rest;
            self.line += 1;
            return Some('\n');
        }
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        self.line += usize::from(next == '\n');
        Some(next)
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests;
