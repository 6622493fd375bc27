//! Reads the ignore files of one directory.
//!
//! They are ordinary files of the tree and as untrusted as the tree: opening one never blocks, its size is limited, and a line that
//! is not a pattern is skipped. An `.aiexclude` that cannot be read is an error rather than an empty file.

use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{FileKind, Fingerprint};

use crate::ignore_rules::{AddedRules, IgnoreFileKind};
use crate::inputs::{Input, InputState};
use crate::kernel::{FOR_READING, Lookup, as_path, stat};

/// Name of the ignore file that hides files from this program alone.
pub(crate) const AI_EXCLUDE: &str = ".aiexclude";

/// Maximum bytes of an ignore file. A larger file is not a list of patterns.
const MAX_IGNORE_FILE_BYTES: u64 = 1 << 20;

/// Names of ignore files. The position in this list (continued by [`REPOSITORY_NAMES`]) is the bit in [`PresentNames`].
const IGNORE_FILE_NAMES: [(&str, IgnoreFileKind); 4] = [
    (AI_EXCLUDE, IgnoreFileKind::AiExclude),
    (".rgignore", IgnoreFileKind::RgIgnore),
    (".ignore", IgnoreFileKind::Ignore),
    (".gitignore", IgnoreFileKind::GitIgnore),
];
/// Names of directories that mark the root of a repository.
const REPOSITORY_NAMES: [&str; 2] = [".git", ".jj"];

/// Set of the ignore file and repository names that exist in a directory, so that the others need not be looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PresentNames(u8);

impl PresentNames {
    /// Any of the names may exist.
    pub(crate) const UNKNOWN: Self = Self(u8::MAX);

    /// Adds a name if it is one of them.
    pub(crate) fn add(&mut self, name: &[u8]) {
        if name.first() != Some(&b'.') {
            return;
        }
        if let Some(at) = all_names().position(|known| known.as_bytes() == name) {
            self.0 |= 1 << at;
        }
    }

    /// Returns the names that are not in `others`.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Returns whether the name may exist.
    fn has(self, name: &str) -> bool {
        all_names().position(|known| known == name).is_some_and(|at| self.0 & (1 << at) != 0)
    }
}

/// Iterates over the names of ignore files and of repository directories.
fn all_names() -> impl Iterator<Item = &'static str> {
    IGNORE_FILE_NAMES.iter().map(|(name, _)| *name).chain(REPOSITORY_NAMES)
}

/// Reads the ignore files of directories, and records which files it read.
#[derive(Debug)]
pub(crate) struct IgnoreFileReader {
    lookup: Lookup,
    /// True if ignore files other than `.aiexclude` apply.
    ignoring: bool,
    /// Files that were read, with their fingerprints at that time.
    pub(crate) fingerprints: Vec<(PathBuf, Fingerprint)>,
    /// Every file whose presence, absence or content decided something.
    pub(crate) inputs: Vec<Input>,
}

/// An `.aiexclude` file that could not be read. What it would hide is unknown, so everything that it could hide stays hidden.
#[derive(Debug)]
pub(crate) struct UnusableExcludeFile {
    pub(crate) path: PathBuf,
    pub(crate) why: io::Error,
}

/// Content of a small file.
struct SmallFile {
    bytes: Vec<u8>,
    fingerprint: Fingerprint,
}

impl IgnoreFileReader {
    pub(crate) fn new(lookup: Lookup, ignoring: bool) -> Self {
        Self { lookup, ignoring, fingerprints: Vec::new(), inputs: Vec::new() }
    }

    /// Reads the rules that the directory at `within`, beneath the handle `from`, adds. Its absolute path is `path`.
    pub(crate) fn read(
        &mut self,
        from: BorrowedFd<'_>,
        within: &Path,
        path: &[u8],
        present: PresentNames,
    ) -> Result<AddedRules, UnusableExcludeFile> {
        let mut added = AddedRules::default();
        if present == PresentNames::default() {
            return Ok(added);
        }
        for (name, kind) in IGNORE_FILE_NAMES {
            if !present.has(name) || !(self.ignoring || kind == IgnoreFileKind::AiExclude) {
                continue;
            }
            let path = as_path(path).join(name);
            match self.matcher(from, &within.join(name), &path) {
                Ok(matcher) => added.matchers.extend(matcher.map(|matcher| (kind, matcher))),
                Err(why) if kind == IgnoreFileKind::AiExclude => {
                    return Err(UnusableExcludeFile { path, why });
                }
                Err(_) => {}
            }
        }
        if self.ignoring {
            self.add_repository(from, within, as_path(path), present, &mut added);
        }
        Ok(added)
    }

    /// Adds the rules of a repository if this directory is the root of one.
    fn add_repository(
        &mut self,
        from: BorrowedFd<'_>,
        within: &Path,
        path: &Path,
        present: PresentNames,
        added: &mut AddedRules,
    ) {
        let mut there = |name| {
            let found = present.has(name) && exists(from, &within.join(name));
            if present.has(name) {
                self.inputs.push(Input::new(path.join(name), InputState::Exists(found)));
            }
            found
        };
        if there(".git") {
            added.repository = true;
            let exclude = self.git_exclude(from, within, path);
            added.matchers.extend(exclude.map(|matcher| (IgnoreFileKind::GitExclude, matcher)));
        } else {
            added.repository = there(".jj");
        }
    }

    /// Reads `.git/info/exclude`, the rules of one clone of a repository. A linked worktree uses the file of its main repository.
    fn git_exclude(
        &mut self,
        from: BorrowedFd<'_>,
        within: &Path,
        path: &Path,
    ) -> Option<Gitignore> {
        const EXCLUDE: &str = ".git/info/exclude";
        match self.matcher(from, &within.join(EXCLUDE), &path.join(EXCLUDE)) {
            Ok(None) => {}
            found => return found.ok().flatten(),
        }
        let pointer = read_small_file(self.lookup, from, &within.join(".git"));
        let pointer = self.record_input(path.join(".git"), pointer).ok()??;
        let pointer = std::str::from_utf8(&pointer.bytes).ok()?.strip_prefix("gitdir:")?;
        let git = path.join(pointer.trim());
        let common = match self.read_outside_tree(&git.join("commondir")) {
            Some(text) => git.join(std::str::from_utf8(&text.bytes).ok()?.trim()),
            None => git,
        };
        let exclude = common.join("info/exclude");
        let text = self.read_outside_tree(&exclude)?;
        self.fingerprints.push((exclude, text.fingerprint));
        parse(&text.bytes).ok().flatten()
    }

    /// Reads and parses one ignore file, and records it as an input.
    fn matcher(
        &mut self,
        from: BorrowedFd<'_>,
        within: &Path,
        path: &Path,
    ) -> io::Result<Option<Gitignore>> {
        let text = read_small_file(self.lookup, from, within);
        let Some(text) = self.record_input(path.to_owned(), text)? else { return Ok(None) };
        self.fingerprints.push((path.to_owned(), text.fingerprint));
        parse(&text.bytes)
    }

    /// Reads a file that a `.git` file points to. It is outside the tree, and only its patterns are used.
    fn read_outside_tree(&mut self, path: &Path) -> Option<SmallFile> {
        let text = match open_linked(rustix::fs::CWD, path) {
            Ok(handle) => read_regular(handle),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(errno.into()),
        };
        self.record_input(path.to_owned(), text).ok()?
    }

    /// Records a file that was read, or not found, as an input.
    fn record_input(
        &mut self,
        path: PathBuf,
        text: io::Result<Option<SmallFile>>,
    ) -> io::Result<Option<SmallFile>> {
        let state = match &text {
            Ok(text) => InputState::Followed(text.as_ref().map(|text| text.fingerprint)),
            Err(_) => InputState::Unknown,
        };
        self.inputs.push(Input::new(path, state));
        text
    }
}

/// Reads a small regular file; `None` if it does not exist.
fn read_small_file(
    lookup: Lookup,
    from: BorrowedFd<'_>,
    path: &Path,
) -> io::Result<Option<SmallFile>> {
    let opened = match lookup.open(from, path, FOR_READING) {
        // Follows links, because a user may keep one list and link to it, as git and ripgrep allow.
        Err(Errno::LOOP) => open_linked(from, path),
        opened => opened,
    };
    match opened {
        Ok(handle) => read_regular(handle),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a file, following links, if it is a regular file.
fn open_linked(from: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let target = rustix::fs::statat(from, path, AtFlags::empty())?;
    if FileType::from_raw_mode(target.st_mode) != FileType::RegularFile {
        return Err(Errno::NOENT);
    }
    rustix::fs::openat(from, path, FOR_READING.difference(OFlags::NOFOLLOW), Mode::empty())
}

/// Reads the whole file; `None` if it is not a regular file. Fails if it is too large.
fn read_regular(handle: OwnedFd) -> io::Result<Option<SmallFile>> {
    let stat = stat(&handle)?;
    if stat.kind != FileKind::File {
        return Ok(None);
    }
    if stat.len > MAX_IGNORE_FILE_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.len).unwrap_or(0) + 1);
    std::fs::File::from(handle).take(MAX_IGNORE_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(SmallFile { bytes, fingerprint: stat.fingerprint }))
}

/// Parses the patterns of a file; `None` if it has none.
fn parse(bytes: &[u8]) -> io::Result<Option<Gitignore>> {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    // Paths are made relative to the file's directory before they are matched, so the matcher needs no root of its own.
    let mut builder = GitignoreBuilder::new("");
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(line) = std::str::from_utf8(line) {
            drop(builder.add_line(None, line));
        }
    }
    let matcher = builder.build().map_err(io::Error::other)?;
    Ok((!matcher.is_empty()).then_some(matcher))
}

/// Returns whether an entry of any kind exists at the path.
fn exists(from: BorrowedFd<'_>, path: &Path) -> bool {
    rustix::fs::statat(from, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}
