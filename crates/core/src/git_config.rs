//! Git's configuration files: a parser, and the table of keys that make git run nothing and obey nobody else.
//!
//! The parser follows git's `config.c`, so that it sees the keys that git would see; a file that it does not understand is an error,
//! and no such file is inert. A key that is not in the table is not inert either.

mod inert;

use std::collections::BTreeMap;
use std::path::Path;

/// A key with its values in order. Section and key are in lower case, the subsection is as written.
type Key = (String, Option<String>, String);

/// One `key = value`. A key without `=` has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigEntry {
    pub(crate) section: String,
    pub(crate) subsection: Option<String>,
    pub(crate) key: String,
    pub(crate) value: Option<String>,
}

/// A text that git would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not git's configuration syntax")]
pub(crate) struct ConfigError {
    pub(crate) line: usize,
}

/// The places that a value is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigPlaces<'a> {
    /// The git directory that the file belongs to.
    pub(crate) directory: &'a Path,
    pub(crate) workspace: &'a Path,
}

/// Tells whether all that a new configuration has over an old one is inert. Keys may be removed, but for those of the
/// repository's format; a key whose list of values is
/// another must be inert with all of its new values, since the last one counts.
pub(crate) fn is_inert_change(
    old: Option<&[u8]>,
    new: &[u8],
    places: ConfigPlaces<'_>,
) -> Result<bool, ConfigError> {
    // An old file that git refuses sets nothing.
    let old = by_key(old.and_then(|old| parse(old).ok()).unwrap_or_default());
    let new = by_key(parse(new)?);
    let is_same = |key: &Key, values: &Vec<Option<String>>| old.get(key) == Some(values);
    // Without these the repository would be another one.
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
            inert::is_inert(section, subsection.as_deref(), key, value.as_deref(), places)
        };
        values.iter().all(is_inert) && !redirects(&old, name)
    }))
}

/// Tells whether a changed key sends what the person pushes or fetches next to another place than before. A remote that was not there
/// and the upstream of a branch that had none do not.
fn redirects(old: &BTreeMap<Key, Vec<Option<String>>>, name: &Key) -> bool {
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

fn by_key(entries: Vec<ConfigEntry>) -> BTreeMap<Key, Vec<Option<String>>> {
    let mut keys: BTreeMap<Key, Vec<Option<String>>> = BTreeMap::new();
    for ConfigEntry { section, subsection, key, value } in entries {
        keys.entry((section, subsection, key)).or_default().push(value);
    }
    keys
}

/// Reads a configuration file.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<ConfigEntry>, ConfigError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    // Git would end a value at a zero byte.
    let text = std::str::from_utf8(text).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or(ConfigError { line: 0 })?;
    let mut reader = Reader { rest: text, line: 1 };
    reader.entries().map_err(|()| ConfigError { line: reader.line })
}

/// The text that is still to be read.
struct Reader<'t> {
    rest: &'t str,
    line: usize,
}

impl Reader<'_> {
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

    /// `[section]`, `[section "subsection"]`, or the old form `[section.subsection]`, which git reads in lower case.
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
        // A section with a dot and a quoted part would be two subsections; git joins them.
        let (section, first) = match name.split_once('.') {
            Some((section, first)) => (section.to_owned(), format!("{first}.")),
            None => (name, String::new()),
        };
        Ok((section, Some(first + &self.subsection()?)))
    }

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

    fn value(&mut self) -> Result<String, ()> {
        let (mut value, mut is_quoted) = (String::new(), false);
        // Spaces at the end do not count, unless they are quoted.
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

    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    fn peek(&self) -> Option<char> {
        let mut rest = Reader { rest: self.rest, line: 0 };
        rest.next()
    }

    /// The next character; a line may end as on Windows.
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
