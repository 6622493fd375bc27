//! The door to files: resolve, open, walk, alter.
//!
//! All of it is blocking: file systems are, and a tool that walks a tree does so in [`Context::blocking`](crate::Context::blocking).

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use super::Source;
use crate::{FailureReason, SessionId, ToolError, quote};

/// The files of one machine, seen from one workspace.
///
/// No method decides whether something is allowed. Every method that takes a [`Resolved`] refuses to touch an object that is
/// no longer at that very place: the check and the use are one operation of the kernel.
///
/// ```
/// use windlass_core::{Host, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let files = host.files();
/// let resolved = files.resolve("src/../README.md".as_ref())?;
/// assert_eq!(resolved.path, files.workspace().join("README.md"));
/// assert!(files.stat(&resolved).is_err(), "a path can be resolved without anything being there");
/// # Ok::<(), windlass_core::FileError>(())
/// ```
pub trait Files: Send + Sync {
    /// The workspace: absolute, with no symlink in it.
    fn workspace(&self) -> &Path;

    /// The session whose own directory is meant by `/tmp` and `/var/tmp`; `None` if these are the machine's.
    fn session_tmp(&self) -> Option<&SessionId> {
        None
    }

    /// Where a path really leads, from the workspace if it is relative. The last part, and parents, need not exist.
    fn resolve(&self, path: &Path) -> Result<Resolved, FileError>;

    /// Facts about an object, without opening it.
    fn stat(&self, path: &Resolved) -> Result<Stat, FileError>;

    /// Opens a regular file for reading; anything else is refused before it is opened.
    fn open(&self, path: &Resolved) -> Result<OpenFile, FileError>;

    /// Visits everything below a directory (or the one file that `root` is), one visitor per thread.
    fn walk<'a>(
        &self,
        root: &Resolved,
        options: &WalkOptions<'a>,
        visitors: &(dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a),
    ) -> Result<WalkReport, FileError>;

    /// All there is to know about what is at a place, following no link; `None` if nothing is. A regular file is open for
    /// reading afterwards; nothing else is opened.
    fn look(&self, path: &Resolved) -> Result<Option<Found>, FileError>;

    /// Makes one object what it should be, if it still is what was seen: afterwards it is all of the new or all of the old.
    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError>;

    /// Returns the mode that a new file in this directory gets if none is told: it follows from the umask and from what the
    /// directory hands down. `None` if nobody can say it before the file is made.
    fn new_file_mode(&self, directory: &Resolved) -> Result<Option<u32>, FileError> {
        let _ = directory;
        Ok(None)
    }

    /// Begins many changes that wait for the disk together; `None` if each is to wait for itself. `contents` are files of ours
    /// that will be new contents, as [`Source::At`]: the disk has them when this returns.
    fn batch(&self, contents: &[&Path]) -> Result<Option<Box<dyn Batch + '_>>, FileError> {
        let _ = contents;
        Ok(None)
    }

    /// The `.aiexclude` file that hides this object, if one does.
    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError>;

    /// An existing path that was probably meant.
    fn nearest(&self, path: &Path) -> Option<PathBuf>;
}

/// Files while many of them are changed together. A change is made at once, but may be lost with the power until all are settled;
/// its content is not.
///
/// ```
/// use windlass_core::{Batch, FileError, Files};
///
/// fn change_many(files: &dyn Files, change: impl Fn(&dyn Files) -> Result<(), FileError>) -> Result<(), FileError> {
///     match files.batch(&[])? {
///         None => change(files),
///         Some(batch) => {
///             change(&*batch)?;
///             batch.settle()
///         }
///     }
/// }
/// ```
pub trait Batch: Files {
    /// Writes the new content of an alteration beside the place where it will be, under the name that it gives. Returns where it
    /// is: as [`Source::At`] it becomes the file without being written again. `None` if it cannot be written before its turn
    /// comes, since its directory is not there yet.
    fn prepare(
        &self,
        path: &Resolved,
        alteration: &Alteration<'_>,
    ) -> Result<Option<PathBuf>, FileError>;

    /// Waits until the disk has all contents that were prepared.
    fn secure(&self) -> Result<(), FileError>;

    /// Waits until the disk has all that was changed.
    fn settle(&self) -> Result<(), FileError>;
}

/// Where a path really leads.
///
/// ```
/// use windlass_core::{Host, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let resolve = |path: &str| host.files().resolve(path.as_ref());
/// assert_eq!(resolve("src/lib.rs")?.display(), "src/lib.rs");
/// assert_eq!(resolve("src/..")?.display(), ".");
/// assert_eq!(resolve("../etc/hosts")?.display(), "/etc/hosts");
/// # Ok::<(), windlass_core::FileError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Absolute, every symlink followed.
    pub path: PathBuf,
    /// The same relative to the workspace, if it is inside.
    pub inside: Option<PathBuf>,
    /// Whether there was something when it was resolved.
    pub exists: bool,
}

impl Resolved {
    /// The shortest name for people and models: relative inside the workspace, absolute outside, quoted where needed.
    pub fn display(&self) -> Cow<'_, str> {
        match &self.inside {
            Some(inside) if inside.as_os_str().is_empty() => Cow::Borrowed("."),
            Some(inside) => quote::path(inside),
            None => quote::path(&self.path),
        }
    }
}

/// What kind of thing is at a path.
///
/// ```
/// use windlass_core::{FileErrorKind, FileKind};
/// assert_eq!(FileKind::Directory.to_string(), "a directory");
/// assert_eq!(FileErrorKind::NotRegular(FileKind::Fifo).to_string(), "it is a FIFO, not a regular file");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::Device => "a device",
        })
    }
}

/// Facts about an object.
///
/// ```
/// use windlass_core::{FileKind, Fingerprint, Stat};
///
/// fn describe(stat: &Stat) -> String {
///     format!("{} of {} bytes", stat.kind, stat.len)
/// }
/// # let fingerprint = Fingerprint { device: 1, inode: 7, len: 12, modified: 1_000, changed: 1_000 };
/// let stat = Stat { kind: FileKind::File, len: 12, mode: 0o644, links: 1, fingerprint };
/// assert_eq!(describe(&stat), "a file of 12 bytes");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub len: u64,
    /// Permission bits.
    pub mode: u32,
    /// How many names it has.
    pub links: u64,
    /// Identity and last change.
    pub fingerprint: Fingerprint,
}

/// Which object it is and when it last changed: equal fingerprints, equal content, except within the clock's own resolution.
///
/// ```
/// use windlass_core::Fingerprint;
/// let seen = Fingerprint { device: 1, inode: 7, len: 12, modified: 1_000, changed: 1_000 };
/// let now = Fingerprint { modified: 2_000, changed: 2_000, ..seen };
/// assert_ne!(seen, now, "as long as before, but written to since");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The device.
    pub device: u64,
    /// The object on that device.
    pub inode: u64,
    /// Bytes.
    pub len: u64,
    /// Last change of content, in nanoseconds since 1970.
    pub modified: i64,
    /// Last change of anything, in nanoseconds since 1970.
    pub changed: i64,
}

impl Fingerprint {
    /// Whether both are of one object, whatever happened to it in between.
    pub fn is_same_object(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// A regular file, open for reading.
///
/// ```
/// use std::io::{self, Read};
/// use windlass_core::OpenFile;
/// # use windlass_core::{FileKind, Fingerprint, Stat};
///
/// /// Reads what was there when the file was opened, also if it has grown since.
/// fn bytes(opened: OpenFile) -> io::Result<Vec<u8>> {
///     let mut bytes = Vec::new();
///     opened.file.take(opened.stat.len).read_to_end(&mut bytes)?;
///     Ok(bytes)
/// }
/// # let file = std::fs::File::open("Cargo.toml")?;
/// # let fingerprint = Fingerprint { device: 1, inode: 7, len: 9, modified: 1_000, changed: 1_000 };
/// # let stat = Stat { kind: FileKind::File, len: 9, mode: 0o644, links: 1, fingerprint };
/// # let opened = OpenFile { file, stat };
/// assert_eq!(bytes(opened)?, b"[package]");
/// # Ok::<(), io::Error>(())
/// ```
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub file: File,
    /// What it was when it was opened.
    pub stat: Stat,
}

/// How to walk.
///
/// ```
/// use std::path::Path;
/// use windlass_core::WalkOptions;
/// let hidden = |path: &Path| path.ends_with(".env");
/// let options = WalkOptions {
///     max_depth: 3,
///     ignore_files: true,
///     version_control: false,
///     threads: 0,
///     hidden: &hidden,
///     left_out: &|_, _| {},
///     cancelled: &|| false,
/// };
/// assert!((options.hidden)("/w/.env".as_ref()) && !(options.cancelled)());
/// ```
#[derive(Clone, Copy)]
pub struct WalkOptions<'a> {
    /// How deep; the root's own entries are at depth 1.
    pub max_depth: usize,
    /// Whether `.gitignore`, `.ignore` and `.rgignore` hide things. `.aiexclude` always does.
    pub ignore_files: bool,
    /// Whether the directories of version control are looked into: they belong to no project.
    pub version_control: bool,
    /// How many threads; 0 for as many as are useful here.
    pub threads: usize,
    /// What is left out whatever the options say: secret files and the like, by absolute path.
    pub hidden: &'a (dyn Fn(&Path) -> bool + Sync),
    /// Is told, by absolute path, what is left out for that, or because a rule file says so.
    pub left_out: &'a (dyn Fn(&Path, FileKind) + Sync),
    /// Asked now and then: whether to stop.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl fmt::Debug for WalkOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalkOptions")
            .field("max_depth", &self.max_depth)
            .field("ignore_files", &self.ignore_files)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// Is shown what a walk finds.
///
/// ```
/// use std::path::PathBuf;
/// use windlass_core::{Entry, Visitor, Walk};
/// # use windlass_core::{FileError, FileErrorKind, FileKind, OpenFile, Opener, Stat};
/// # struct Gone;
/// # impl Opener for Gone {
/// #     fn open(&self) -> Result<OpenFile, FileError> { Err(FileError::new("read", "a", FileErrorKind::NotFound)) }
/// #     fn stat(&self) -> Result<Stat, FileError> { Err(FileError::new("look at", "a", FileErrorKind::NotFound)) }
/// # }
///
/// #[derive(Default)]
/// struct Sources(Vec<PathBuf>);
///
/// impl Visitor for Sources {
///     fn visit(&mut self, entry: &Entry<'_>) -> Walk {
///         if entry.path.extension().is_some_and(|extension| extension == "rs") {
///             self.0.push(entry.path.to_owned());
///         }
///         Walk::Continue
///     }
/// }
/// # let entry = |path: &'static str| Entry { path: path.as_ref(), kind: FileKind::File, depth: 1, opener: &Gone };
///
/// let mut sources = Sources::default();
/// sources.visit(&entry("lib.rs"));
/// sources.visit(&entry("notes.md"));
/// assert_eq!(sources.0, [PathBuf::from("lib.rs")]);
/// ```
pub trait Visitor: Send {
    /// Looks at one entry and says how to go on.
    fn visit(&mut self, entry: &Entry<'_>) -> Walk;
}

/// How a walk goes on after an entry.
///
/// ```
/// use std::path::Path;
/// use windlass_core::Walk;
///
/// fn go_on(path: &Path, found: usize) -> Walk {
///     match found {
///         100.. => Walk::Stop,
///         _ if path.ends_with("target") => Walk::Skip,
///         _ => Walk::Continue,
///     }
/// }
/// assert_eq!(go_on("crates/core/target".as_ref(), 3), Walk::Skip);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// With the next one, and below this one if it is a directory.
    Continue,
    /// With the next one, but not below this one.
    Skip,
    /// Not at all.
    Stop,
}

/// Something that a walk found.
///
/// ```
/// use windlass_core::{Entry, FileError, FileKind};
/// # use windlass_core::{FileErrorKind, OpenFile, Opener, Stat};
/// # struct Gone;
/// # impl Opener for Gone {
/// #     fn open(&self) -> Result<OpenFile, FileError> { Err(FileError::new("read", "a", FileErrorKind::NotFound)) }
/// #     fn stat(&self) -> Result<Stat, FileError> { Err(FileError::new("look at", "a", FileErrorKind::NotFound)) }
/// # }
///
/// /// How long a file is; nothing is asked of the kernel for what is none.
/// fn length(entry: &Entry<'_>) -> Result<Option<u64>, FileError> {
///     match entry.kind {
///         FileKind::File => entry.opener.stat().map(|stat| Some(stat.len)),
///         _ => Ok(None),
///     }
/// }
/// # let opener = &Gone;
/// let entry = Entry { path: "src".as_ref(), kind: FileKind::Directory, depth: 1, opener };
/// assert_eq!(length(&entry)?, None);
/// # Ok::<(), FileError>(())
/// ```
pub struct Entry<'a> {
    /// Relative to the root of the walk; empty if the root is itself a file.
    pub path: &'a Path,
    /// What it is, without following a symlink.
    pub kind: FileKind,
    /// How deep, from 1 for the root's own entries.
    pub depth: usize,
    /// Opens it and tells more, by its directory's handle.
    pub opener: &'a dyn Opener,
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("path", &self.path)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Opens what a walk found, by the handle of its directory: no other object can slip in under its name.
///
/// ```
/// use windlass_core::{FileError, FileErrorKind, OpenFile, Opener, Stat};
///
/// /// What was removed after its directory had been listed.
/// struct Gone(&'static str);
///
/// impl Opener for Gone {
///     fn open(&self) -> Result<OpenFile, FileError> {
///         Err(FileError::new("read", self.0, FileErrorKind::NotFound))
///     }
///     fn stat(&self) -> Result<Stat, FileError> {
///         Err(FileError::new("look at", self.0, FileErrorKind::NotFound))
///     }
/// }
///
/// let error = Gone("a.txt").open().unwrap_err();
/// assert_eq!(error.to_string(), "cannot read a.txt: no such file or directory");
/// ```
pub trait Opener {
    /// Opens a regular file for reading, following no link.
    fn open(&self) -> Result<OpenFile, FileError>;
    /// Facts, following no link.
    fn stat(&self) -> Result<Stat, FileError>;
}

/// How a walk ended.
///
/// ```
/// use windlass_core::{Note, WalkReport};
/// let note = Note { path: "private".into(), why: "the file system's permissions do not allow it".into() };
/// let report = WalkReport { notes: vec![note], ..WalkReport::default() };
/// assert!(report.observed.is_none(), "such a result is not cached");
/// ```
#[derive(Debug, Default)]
pub struct WalkReport {
    /// What could not be looked at, and why.
    pub notes: Vec<Note>,
    /// The directories that were listed and the ignore files that were read, by absolute path, as they were then; `None` if
    /// there were more than [`WalkReport::MAX_OBSERVED`]. With it a result can be trusted until one of them changes.
    pub observed: Option<Vec<(PathBuf, Fingerprint)>>,
}

impl WalkReport {
    /// How many observed objects are worth keeping.
    pub const MAX_OBSERVED: usize = 512;
}

/// Something that a walk had to leave out.
///
/// ```
/// use windlass_core::{Note, quote};
/// let note = Note { path: "a\n".into(), why: "no such file or directory".into() };
/// let line = format!("{}: {}", quote::path(&note.path), note.why);
/// assert_eq!(line, r"$'a\n': no such file or directory");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Relative to the root of the walk.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// What one object should become.
///
/// ```
/// use windlass_core::{Alteration, Expect, Host, To, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let path = host.files().resolve("hello.txt".as_ref())?;
/// let hello = To::File { content: b"hello\n".as_slice().into(), attributes: None };
/// let alteration = Alteration { expect: Expect::Absent, to: hello, temporary: None };
/// assert!(host.files().alter(&path, &alteration).is_err(), "this machine takes no files");
/// # Ok::<(), windlass_core::FileError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Alteration<'a> {
    /// What must be there for the change to be made; looked at again at the last moment.
    pub expect: Expect,
    /// What will be there.
    pub to: To<'a>,
    /// The name that new content has beside its place before it gets there, if it needs one; a random one if none is given.
    pub temporary: Option<&'a str>,
}

/// What will be at a path.
///
/// ```
/// use windlass_core::To;
///
/// fn told(to: &To<'_>) -> &'static str {
///     match to {
///         To::File { .. } => "written",
///         To::Attributes(_) => "changed in mode",
///         To::Moved { .. } => "moved",
///         To::Linked { .. } => "named once more",
///         To::Symlink(_) => "linked",
///         To::Directory { .. } => "made",
///         To::Nothing => "removed",
///     }
/// }
/// assert_eq!(told(&To::Nothing), "removed");
/// ```
#[derive(Debug, Clone, Copy)]
pub enum To<'a> {
    /// A regular file; parents are created. One that exists keeps what `attributes` do not say.
    File {
        /// All of the bytes.
        content: Source<'a>,
        /// What it has besides.
        attributes: Option<&'a Attributes>,
    },
    /// The same file or directory with other attributes.
    Attributes(&'a Attributes),
    /// The file that is at another place now and is exactly what was seen there; parents are created. It stays the same
    /// object, with its mode and all else. So does a directory, with all that is in it; nothing may be at its new place.
    Moved {
        /// Where it is now.
        from: &'a Resolved,
        /// What it is.
        seen: Fingerprint,
    },
    /// One more name for the file at another place, which is exactly what was seen there.
    Linked {
        /// Its other name.
        with: &'a Resolved,
        /// What it is.
        seen: Fingerprint,
    },
    /// A symbolic link that points there.
    Symlink(&'a Path),
    /// An empty directory.
    Directory {
        /// What it has besides; the usual if not given.
        attributes: Option<&'a Attributes>,
    },
    /// Nothing. A directory is removed only if nothing is in it.
    Nothing,
}

/// What was found at a place.
///
/// ```
/// use windlass_core::{Attributes, Found, FoundBody};
/// # use windlass_core::{FileKind, Fingerprint, Stat};
/// # let fingerprint = Fingerprint { device: 1, inode: 7, len: 4, modified: 1_000, changed: 1_000 };
/// # let stat = Stat { kind: FileKind::Symlink, len: 4, mode: 0o777, links: 1, fingerprint };
/// let found = Found { stat, attributes: Attributes::default(), body: FoundBody::Symlink("../a".into()) };
/// assert!(matches!(found.body, FoundBody::Symlink(target) if target.ends_with("a")));
/// ```
#[derive(Debug)]
pub struct Found {
    /// Facts.
    pub stat: Stat,
    /// What it has besides its content.
    pub attributes: Attributes,
    /// Its content.
    pub body: FoundBody,
}

/// The content of what was found.
///
/// ```
/// use windlass_core::FoundBody;
/// let can_be_restored = |body: &FoundBody| !matches!(body, FoundBody::Other);
/// assert!(can_be_restored(&FoundBody::Directory(Vec::new())));
/// ```
#[derive(Debug)]
pub enum FoundBody {
    /// A regular file, open for reading.
    File(File),
    /// Where a symbolic link points to, as it is written in it.
    Symlink(PathBuf),
    /// The names of all that is in a directory.
    Directory(Vec<OsString>),
    /// A FIFO, a socket or a device.
    Other,
}

/// What an object has besides its content. What is `None`, or not there, is left as it is.
///
/// ```
/// use windlass_core::Attributes;
/// let script = Attributes { mode: Some(0o755), ..Attributes::default() };
/// assert_eq!(script.owner, None, "whoever makes it owns it");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// Permission bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Last change of content, in nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
    /// The numbers of user and group. Given as far as our rights go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<(u32, u32)>,
    /// Extended attributes: access control lists, labels and what people attach to files. Given as far as our rights go; those of
    /// people and access control lists that are not among them are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended: Option<Vec<(String, Vec<u8>)>>,
}

impl Attributes {
    /// Returns whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether an extended attribute belongs to its object: those of people and access control lists do. Labels are the system's
    /// to give, and what overlayfs notes is its own.
    ///
    /// ```
    /// use windlass_core::Attributes;
    /// assert!(Attributes::is_told(b"user.origin") && !Attributes::is_told(b"security.selinux"));
    /// ```
    pub fn is_told(name: &[u8]) -> bool {
        let is_users = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
        is_users || name.starts_with(b"system.posix_acl_")
    }
}

/// What must be at a path for an [`Alteration`] to be made.
///
/// ```
/// use windlass_core::{Expect, Fingerprint};
///
/// /// Replaces what was seen, or creates what was not there.
/// fn expect(seen: Option<Fingerprint>) -> Expect {
///     seen.map_or(Expect::Absent, Expect::Same)
/// }
/// assert_eq!(expect(None), Expect::Absent);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// Exactly what was seen before.
    Same(Fingerprint),
}

/// What became of an object.
///
/// ```
/// use windlass_core::Altered;
/// let removed = Altered { stat: None, in_place: false };
/// assert!(removed.stat.is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Altered {
    /// What is there now; `None` if nothing is.
    pub stat: Option<Stat>,
    /// Whether the bytes were written into the old object, because its owner must keep it.
    pub in_place: bool,
}

/// A file operation that did not work.
///
/// ```
/// use windlass_core::{FileError, FileErrorKind, ToolError};
/// let error = FileError::new("read", "notes.md", FileErrorKind::NotFound);
/// assert_eq!(error.to_string(), "cannot read notes.md: no such file or directory");
/// assert!(!ToolError::from(error).is_fault(), "the model can act on it");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{}", self.describe())]
pub struct FileError {
    /// What was tried: `read`, `list`, `write` …
    pub doing: &'static str,
    /// On what.
    pub path: PathBuf,
    /// Why it failed.
    pub kind: FileErrorKind,
}

/// Why a file operation did not work.
///
/// ```
/// use windlass_core::{FileError, FileErrorKind};
/// let is_normal = |kind| FileError::new("write", "a.txt", kind).is_normal();
/// assert!(is_normal(FileErrorKind::Stale), "the model reads the file again");
/// assert!(!is_normal(FileErrorKind::Io(std::io::Error::other("the disk is broken"))));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum FileErrorKind {
    /// There is nothing of that name.
    #[error("no such file or directory")]
    NotFound,
    /// It is not a regular file.
    #[error("it is {0}, not a regular file")]
    NotRegular(FileKind),
    /// A part of the path that should be a directory is not.
    #[error("a part of the path is not a directory")]
    NotADirectory,
    /// The machine's permissions forbid it.
    #[error("the file system's permissions do not allow it")]
    Permission,
    /// The file system is mounted read-only.
    #[error("the file system is read-only")]
    ReadOnly,
    /// The disk, or the quota, is full.
    #[error("no space is left on the device")]
    NoSpace,
    /// The path cannot be a path: a NUL in it, or too long.
    #[error("{0}")]
    BadName(&'static str),
    /// It leads through a link that the kernel made up, such as `/proc/self/root`.
    #[error("the path leads through a link of /proc")]
    MagicLink,
    /// Something else is there now than when the call was decided on.
    #[error("it changed while the call was under way")]
    Changed,
    /// The file is not what was seen before.
    #[error("stale: the file changed since it was read")]
    Stale,
    /// There is something already.
    #[error("it exists already")]
    Exists,
    /// A directory cannot be removed because something is in it.
    #[error("the directory is not empty")]
    NotEmpty,
    /// Anything else that a kernel can answer.
    #[error("{0}")]
    Io(#[source] io::Error),
}

impl FileError {
    /// An error of the operation `doing` on `path`.
    pub fn new(doing: &'static str, path: impl Into<PathBuf>, kind: FileErrorKind) -> Self {
        Self { doing, path: path.into(), kind }
    }

    /// Whether it is about this file, so that the model can act on it, rather than about the machine.
    pub fn is_normal(&self) -> bool {
        !matches!(self.kind, FileErrorKind::Io(_))
    }

    fn describe(&self) -> String {
        format!("cannot {} {}: {}", self.doing, quote::path(&self.path), self.kind)
    }
}

/// Tells whether a path can only be a directory's, by its last character.
fn ends_as_directory(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

impl From<FileError> for ToolError {
    fn from(error: FileError) -> Self {
        let text = error.describe();
        match error.kind {
            FileErrorKind::Stale => {
                Self::failed(text).hint("read it again").because(FailureReason::Stale)
            }
            FileErrorKind::NotADirectory if ends_as_directory(&error.path) => Self::failed(text)
                .hint("a path that ends in `/` is a directory: leave out the `/` to name a file"),
            _ if error.is_normal() => Self::failed(text),
            _ => Self::host_failed(text),
        }
    }
}
