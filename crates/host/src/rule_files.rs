//! Reads the ignore files of one directory.
//!
//! They are files of the tree like any other, written by whoever wrote the tree: read without waiting, bounded in size, and a
//! line that is not a pattern is passed over. A `.aiexclude` that cannot be understood is an error rather than an empty one.

use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use windlass_core::{FileKind, Fingerprint};

use crate::inputs::{Input, InputState};
use crate::kernel::{FOR_READING, Lookup, as_path, stat};
use crate::rules::{Additions, Kind};

/// The name of the file that hides things from us alone.
pub(crate) const AI_EXCLUDE: &str = ".aiexclude";

/// More than this is not a list of patterns.
const MAX_BYTES: u64 = 1 << 20;

/// The names that mean something here, each with its bit in [`Signs`].
const NAMES: [(&str, Kind); 4] = [
    (AI_EXCLUDE, Kind::AiExclude),
    (".rgignore", Kind::RgIgnore),
    (".ignore", Kind::Ignore),
    (".gitignore", Kind::GitIgnore),
];
const REPOSITORIES: [&str; 2] = [".git", ".jj"];

/// Which of those names are in a directory, so that nobody needs to look for the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Signs(u8);

impl Signs {
    /// Any of them may be there.
    pub(crate) const UNKNOWN: Self = Self(u8::MAX);

    /// Takes note of a name.
    pub(crate) fn see(&mut self, name: &[u8]) {
        if name.first() != Some(&b'.') {
            return;
        }
        if let Some(at) = all_names().position(|known| known.as_bytes() == name) {
            self.0 |= 1 << at;
        }
    }

    /// Those that others have not.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    fn has(self, name: &str) -> bool {
        all_names().position(|known| known == name).is_some_and(|at| self.0 & (1 << at) != 0)
    }
}

fn all_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name).chain(REPOSITORIES)
}

/// Reads the ignore files of directories, and keeps what it read.
#[derive(Debug)]
pub(crate) struct RuleFiles {
    lookup: Lookup,
    /// Whether anything but `.aiexclude` counts.
    ignoring: bool,
    /// The files that were read, as they were then.
    pub(crate) seen: Vec<(PathBuf, Fingerprint)>,
    /// All files that decided something, also by not being there.
    pub(crate) inputs: Vec<Input>,
}

/// A `.aiexclude` that could not be used. What it would hide is not known, so all that it could hide stays hidden.
#[derive(Debug)]
pub(crate) struct Unusable {
    pub(crate) path: PathBuf,
    pub(crate) why: io::Error,
}

/// The content of a small file.
struct Text {
    bytes: Vec<u8>,
    fingerprint: Fingerprint,
}

impl RuleFiles {
    pub(crate) fn new(lookup: Lookup, ignoring: bool) -> Self {
        Self { lookup, ignoring, seen: Vec::new(), inputs: Vec::new() }
    }

    /// What the directory at `within`, beneath the handle `from`, adds to the rules. Its absolute path is `path`.
    pub(crate) fn read(
        &mut self,
        from: BorrowedFd<'_>,
        within: &Path,
        path: &[u8],
        signs: Signs,
    ) -> Result<Additions, Unusable> {
        let mut added = Additions::default();
        if signs == Signs::default() {
            return Ok(added);
        }
        for (name, kind) in NAMES {
            if !signs.has(name) || !(self.ignoring || kind == Kind::AiExclude) {
                continue;
            }
            let path = as_path(path).join(name);
            match self.matcher(from, &within.join(name), &path) {
                Ok(matcher) => added.matchers.extend(matcher.map(|matcher| (kind, matcher))),
                Err(why) if kind == Kind::AiExclude => return Err(Unusable { path, why }),
                Err(_) => {}
            }
        }
        if self.ignoring {
            self.add_repository(from, within, as_path(path), signs, &mut added);
        }
        Ok(added)
    }

    fn add_repository(
        &mut self,
        from: BorrowedFd<'_>,
        within: &Path,
        path: &Path,
        signs: Signs,
        added: &mut Additions,
    ) {
        let mut there = |name| {
            let found = signs.has(name) && exists(from, &within.join(name));
            if signs.has(name) {
                self.inputs.push(Input::new(path.join(name), InputState::Exists(found)));
            }
            found
        };
        if there(".git") {
            added.repository = true;
            let exclude = self.git_exclude(from, within, path);
            added.matchers.extend(exclude.map(|matcher| (Kind::GitExclude, matcher)));
        } else {
            added.repository = there(".jj");
        }
    }

    /// The rules that belong to one clone of a repository. In a linked worktree they are in the main one.
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
        let pointer = read_text(self.lookup, from, &within.join(".git"));
        let pointer = self.depend(path.join(".git"), pointer).ok()??;
        let pointer = std::str::from_utf8(&pointer.bytes).ok()?.strip_prefix("gitdir:")?;
        let git = path.join(pointer.trim());
        let common = match self.read_anywhere(&git.join("commondir")) {
            Some(text) => git.join(std::str::from_utf8(&text.bytes).ok()?.trim()),
            None => git,
        };
        let exclude = common.join("info/exclude");
        let text = self.read_anywhere(&exclude)?;
        self.seen.push((exclude, text.fingerprint));
        parse(&text.bytes).ok().flatten()
    }

    fn matcher(
        &mut self,
        from: BorrowedFd<'_>,
        within: &Path,
        path: &Path,
    ) -> io::Result<Option<Gitignore>> {
        let text = read_text(self.lookup, from, within);
        let Some(text) = self.depend(path.to_owned(), text)? else { return Ok(None) };
        self.seen.push((path.to_owned(), text.fingerprint));
        parse(&text.bytes)
    }

    /// Reads a file that a `.git` file points to. It is outside the tree, and read for patterns only.
    fn read_anywhere(&mut self, path: &Path) -> Option<Text> {
        let text = match open_linked(rustix::fs::CWD, path) {
            Ok(handle) => take_text(handle),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(errno.into()),
        };
        self.depend(path.to_owned(), text).ok()?
    }

    /// Takes note of a file that was read, or not found.
    fn depend(
        &mut self,
        path: PathBuf,
        text: io::Result<Option<Text>>,
    ) -> io::Result<Option<Text>> {
        let state = match &text {
            Ok(text) => InputState::Followed(text.as_ref().map(|text| text.fingerprint)),
            Err(_) => InputState::Unknown,
        };
        self.inputs.push(Input::new(path, state));
        text
    }
}

/// Reads a small regular file; `None` if there is none.
fn read_text(lookup: Lookup, from: BorrowedFd<'_>, path: &Path) -> io::Result<Option<Text>> {
    let opened = match lookup.open(from, path, FOR_READING) {
        // Like git's and ripgrep's users, ours may keep one list and link to it.
        Err(Errno::LOOP) => open_linked(from, path),
        opened => opened,
    };
    match opened {
        Ok(handle) => take_text(handle),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn open_linked(from: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let target = rustix::fs::statat(from, path, AtFlags::empty())?;
    if FileType::from_raw_mode(target.st_mode) != FileType::RegularFile {
        return Err(Errno::NOENT);
    }
    rustix::fs::openat(from, path, FOR_READING.difference(OFlags::NOFOLLOW), Mode::empty())
}

fn take_text(handle: OwnedFd) -> io::Result<Option<Text>> {
    let stat = stat(&handle)?;
    if stat.kind != FileKind::File {
        return Ok(None);
    }
    if stat.len > MAX_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.len).unwrap_or(0) + 1);
    std::fs::File::from(handle).take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(Text { bytes, fingerprint: stat.fingerprint }))
}

/// The patterns of a file; `None` if there are none in it.
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

fn exists(from: BorrowedFd<'_>, path: &Path) -> bool {
    rustix::fs::statat(from, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}
