//! Trees of source-like files, the same on every machine: a fixed recipe and a small generator of numbers.
//!
//! They are shaped like a repository: nested directories, several languages, `.gitignore` files at the root and below, ignored
//! directories and files, dotfiles. A few hundred files, whatever the size of the tree, hold the words that the bench looks for;
//! so do some ignored ones, which must not be found.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// The version of the recipe; a change of the files must change it.
pub(super) const RECIPE: &str = "tree 1";

/// The word that only some files contain.
pub(super) const NEEDLE: &str = "reconcile_ledger";

/// The approximate number of files that contain it.
const WITH_NEEDLE: u64 = 400;

const EXTENSIONS: &[&str] =
    &["rs", "rs", "rs", "py", "py", "ts", "ts", "go", "c", "h", "md", "json", "toml", "txt"];
const NOUNS: &[&str] = &[
    "account", "buffer", "cache", "channel", "cursor", "entry", "frame", "header", "index",
    "journal", "ledger", "message", "node", "packet", "policy", "queue", "record", "request",
    "session", "token",
];
const VERBS: &[&str] = &[
    "apply", "build", "check", "close", "decode", "encode", "find", "flush", "merge", "open",
    "parse", "sort",
];
const AREAS: &[&str] =
    &["api", "cli", "core", "db", "net", "parser", "storage", "ui", "util", "web"];

/// Fills an empty directory with `count` files, and some ignored ones.
pub(super) fn make(root: &Path, count: u64) -> Result<()> {
    let mut numbers = Numbers::from(count);
    fs::write(root.join(".gitignore"), "*.log\n/build/\nnode_modules/\n")?;
    fs::write(root.join(".editorconfig"), "root = true\n")?;
    for index in 0..count {
        let directory = directory(index);
        let path = root.join(&directory);
        if index % FILES_IN_DIRECTORY == 0 {
            fs::create_dir_all(&path)?;
            make_ignored(&path, index, &mut numbers)?;
        }
        let noun = numbers.pick(NOUNS);
        let extension = numbers.pick(EXTENSIONS);
        let has_needle = index % (count / WITH_NEEDLE).max(1) == 0;
        fs::write(
            path.join(format!("{noun}_{index}.{extension}")),
            text(&mut numbers, has_needle),
        )?;
    }
    let build = root.join("build/objects");
    fs::create_dir_all(&build)?;
    fs::write(build.join("generated.rs"), text(&mut numbers, true))?;
    Ok(())
}

const FILES_IN_DIRECTORY: u64 = 20;

/// The directory of a file: below an area, with twenty files each.
fn directory(index: u64) -> String {
    let number = index / FILES_IN_DIRECTORY;
    let area = pick(AREAS, number);
    let noun = pick(NOUNS, number / 10);
    format!("src/{area}/{noun}/part_{}", number / 200 * 10 + number % 10)
}

/// Writes a `.gitignore` and ignored files into every fiftieth directory.
fn make_ignored(directory: &Path, index: u64, numbers: &mut Numbers) -> Result<()> {
    if !(index / FILES_IN_DIRECTORY).is_multiple_of(50) {
        return Ok(());
    }
    fs::write(directory.join(".gitignore"), "generated/\n*.tmp\n!kept.tmp\n")?;
    fs::create_dir_all(directory.join("generated"))?;
    for name in ["generated/tables.rs", "scratch.tmp", "kept.tmp", "trace.log"] {
        fs::write(directory.join(name), text(numbers, true))?;
    }
    Ok(())
}

/// Lines that look like code: between a few and a few hundred of them, mostly few.
fn text(numbers: &mut Numbers, has_needle: bool) -> String {
    let lines = 5 + numbers.below(40) + numbers.below(40) * numbers.below(6);
    let needle_at = numbers.below(lines);
    let mut text = String::with_capacity(usize::try_from(lines).unwrap_or_default() * 40);
    for at in 0..lines {
        if has_needle && at == needle_at {
            text.push_str("    let total = ");
            text.push_str(&spelling(numbers));
            text.push_str("(&mut book, 7);\n");
        }
        text.push_str(&line(numbers));
    }
    text
}

/// Lines of about `bytes` bytes in all, with the needle in one or two of them.
pub(super) fn block(seed: u64, bytes: usize) -> String {
    let mut numbers = Numbers::from(seed);
    let mut text = String::with_capacity(bytes + 200);
    let needles = 1 + seed % 2;
    for part in 1..=needles {
        let end = usize::try_from(part).unwrap_or_default() * bytes
            / usize::try_from(needles).unwrap_or(1);
        while text.len() < end {
            text.push_str(&line(&mut numbers));
        }
        text.push_str("    let total = ");
        text.push_str(&spelling(&mut numbers));
        text.push_str("(&mut book, 7);\n");
    }
    text
}

/// The needle, now and then in another case or with something appended.
fn spelling(numbers: &mut Numbers) -> String {
    match numbers.below(6) {
        0 => NEEDLE.to_uppercase(),
        1 => format!("{NEEDLE}_again"),
        _ => NEEDLE.to_owned(),
    }
}

fn line(numbers: &mut Numbers) -> String {
    let (verb, noun, other) = (numbers.pick(VERBS), numbers.pick(NOUNS), numbers.pick(NOUNS));
    let number = numbers.below(1000);
    match numbers.below(8) {
        0 => format!("pub fn {verb}_{noun}({other}: &str) -> Result<u64, Error> {{\n"),
        1 => format!("    let {noun} = {other}.{verb}({number})?;\n"),
        2 => format!("    if {noun}.len() > {number} {{ return {other}; }}\n"),
        3 => format!("    // The {noun} must {verb} before the {other} does.\n"),
        4 => format!("    self.{noun}.{verb}(\"{other}-{number}\");\n"),
        5 => "}\n\n".to_owned(),
        6 => format!("    for {noun} in {other}s.iter().take({number}) {{\n"),
        _ => format!("        {noun}: {other}::{verb}(0x{number:04x}),\n"),
    }
}

/// A linear congruential generator: poor randomness, the same everywhere.
#[derive(Debug)]
struct Numbers(u64);

impl Numbers {
    fn from(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }

    fn pick(&mut self, words: &[&'static str]) -> &'static str {
        let number = self.below(words.len() as u64);
        pick(words, number)
    }
}

fn pick(words: &[&'static str], number: u64) -> &'static str {
    let index = usize::try_from(number).unwrap_or_default() % words.len().max(1);
    words.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_text() {
        let make = || text(&mut Numbers::from(7), true);
        assert_eq!(make(), make());
        assert!(make().to_lowercase().contains(NEEDLE));
        assert!(!text(&mut Numbers::from(7), false).to_lowercase().contains(NEEDLE));
    }

    #[test]
    fn directories_hold_twenty_files_each() {
        let mut directories: Vec<String> = (0..100_000).map(directory).collect();
        directories.dedup();
        let in_a_row = directories.len();
        directories.sort();
        directories.dedup();
        assert_eq!((in_a_row, directories.len()), (5_000, 5_000));
    }
}
