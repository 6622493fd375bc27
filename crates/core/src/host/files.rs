//! The door to files: resolve, open, walk, alter.
//!
//! All methods block, like file systems do; a tool that walks a tree does so in [`Context::blocking`](crate::Context::blocking).

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use super::ContentSource;
use crate::{ContentHash, FailureReason, SessionId, ToolError, quote};

/// The files of one machine, seen from one workspace.
///
/// No method decides whether an access is allowed. Every method that takes a [`Resolved`] fails if another object is at that path
/// by now: the check and the use are one operation of the kernel.
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
    /// Returns the workspace: an absolute path without symbolic links.
    fn workspace(&self) -> &Path;

    /// Returns the session whose own directory `/tmp` and `/var/tmp` refer to; `None` if they refer to the machine's.
    fn session_tmp(&self) -> Option<&SessionId> {
        None
    }

    /// Resolves all symbolic links of a path; a relative one starts at the workspace. The last component, and parents, need not
    /// exist.
    fn resolve(&self, path: &Path) -> Result<Resolved, FileError>;

    /// Returns facts about an object, without opening it.
    fn stat(&self, path: &Resolved) -> Result<Stat, FileError>;

    /// Opens a regular file for reading; fails for anything else before opening it.
    fn open(&self, path: &Resolved) -> Result<OpenFile, FileError>;

    /// Visits everything below a directory (or the one file that `root` is), one visitor per thread.
    fn walk<'a>(
        &self,
        root: &Resolved,
        options: &WalkOptions<'a>,
        visitors: &(dyn Fn() -> Box<dyn Visitor + 'a> + Sync + 'a),
    ) -> Result<WalkReport, FileError>;

    /// Inspects the object at a path, following no link; `None` if there is none. A regular file is returned open for reading;
    /// nothing else is opened.
    fn inspect(&self, path: &Resolved) -> Result<Option<FoundEntry>, FileError>;

    /// Returns a hash of the entries in the bytes of a git index, without the facts about files on disk that git refreshes. `None` if
    /// the bytes are no index that can be read.
    fn hash_index_entries(&self, _index: &[u8]) -> Option<ContentHash> {
        None
    }

    /// Alters one object, if it is the expected one. After success it is all new, after a failure all old.
    fn alter(&self, path: &Resolved, alteration: &Alteration<'_>) -> Result<Altered, FileError>;

    /// Returns the mode that a new file in this directory gets if none is given: it follows from the umask and from defaults that
    /// the directory passes on. `None` if it cannot be known before the file is made.
    fn new_file_mode(&self, directory: &Resolved) -> Result<Option<u32>, FileError> {
        let _ = directory;
        Ok(None)
    }

    /// Begins a batch of changes that are synced to the disk together; `None` if each change is synced by itself. `contents` are
    /// private files that will be new contents, as [`ContentSource::At`]: they are on the disk when this returns.
    fn batch(&self, contents: &[&Path]) -> Result<Option<Box<dyn Batch + '_>>, FileError> {
        let _ = contents;
        Ok(None)
    }

    /// Returns the `.aiexclude` file that hides this object, if one does.
    fn excluded_by(&self, path: &Resolved) -> Result<Option<PathBuf>, FileError>;

    /// Returns the existing path that was probably meant.
    fn nearest(&self, path: &Path) -> Option<PathBuf>;
}

/// Files during a batch of changes. A change is visible at once, but a loss of power may undo it until [`sync_all`](Batch::sync_all);
/// contents are safe.
///
/// ```
/// use windlass_core::{Batch, FileError, Files};
///
/// fn change_many(files: &dyn Files, change: impl Fn(&dyn Files) -> Result<(), FileError>) -> Result<(), FileError> {
///     match files.batch(&[])? {
///         None => change(files),
///         Some(batch) => {
///             change(&*batch)?;
///             batch.sync_all()
///         }
///     }
/// }
/// ```
pub trait Batch: Files {
    /// Writes the new content of an alteration to a temporary file next to its path, under the given name. Returns the path of that
    /// file: as [`ContentSource::At`] it becomes the file without being written again. `None` if it cannot be written yet, since its
    /// directory does not exist.
    fn prepare(
        &self,
        path: &Resolved,
        alteration: &Alteration<'_>,
    ) -> Result<Option<PathBuf>, FileError>;

    /// Waits until all prepared contents are on the disk.
    fn sync_contents(&self) -> Result<(), FileError>;

    /// Waits until all changes are on the disk.
    fn sync_all(&self) -> Result<(), FileError>;
}

/// A resolved path.
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
    /// Absolute path with every symbolic link resolved.
    pub path: PathBuf,
    /// Path relative to the workspace, if it is inside.
    pub inside: Option<PathBuf>,
    /// True if an object existed when the path was resolved.
    pub exists: bool,
}

impl Resolved {
    /// Returns the shortest path for people and models: relative inside the workspace, absolute outside, quoted if needed.
    pub fn display(&self) -> Cow<'_, str> {
        match &self.inside {
            Some(inside) if inside.as_os_str().is_empty() => Cow::Borrowed("."),
            Some(inside) => quote::path(inside),
            None => quote::path(&self.path),
        }
    }
}

/// Kind of an object.
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
    /// Kind of the object.
    pub kind: FileKind,
    /// Number of bytes.
    pub len: u64,
    /// Permission bits.
    pub mode: u32,
    /// Number of hard links.
    pub links: u64,
    /// Identity and times.
    pub fingerprint: Fingerprint,
}

/// Identity and times of an object: equal fingerprints mean equal content, except for changes within the resolution of the kernel's
/// clock.
///
/// ```
/// use windlass_core::Fingerprint;
/// let seen = Fingerprint { device: 1, inode: 7, len: 12, modified: 1_000, changed: 1_000 };
/// let now = Fingerprint { modified: 2_000, changed: 2_000, ..seen };
/// assert_ne!(seen, now, "as long as before, but written to since");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Device number of its file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Number of bytes.
    pub len: u64,
    /// Time of the last change of content, in nanoseconds since 1970.
    pub modified: i64,
    /// Time of the last change of any kind, in nanoseconds since 1970.
    pub changed: i64,
}

impl Fingerprint {
    /// Returns whether both are of one object, even if it changed in between.
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
    /// Facts about the file at the time it was opened.
    pub stat: Stat,
}

/// Options of a walk.
///
/// ```
/// use std::path::Path;
/// use windlass_core::WalkOptions;
/// let hidden = |path: &Path| path.ends_with(".env");
/// let options = WalkOptions { max_depth: 3, hidden: &hidden, ..WalkOptions::default() };
/// assert!((options.hidden)("/w/.env".as_ref()) && !(options.cancelled)());
/// ```
#[derive(Clone, Copy)]
pub struct WalkOptions<'a> {
    /// Maximum depth; the root's own entries are at depth 1.
    pub max_depth: usize,
    /// True if `.gitignore`, `.ignore` and `.rgignore` hide entries. `.aiexclude` always does.
    pub ignore_files: bool,
    /// True if the directories of version control, such as `.git`, are walked.
    pub version_control: bool,
    /// Number of threads; 0 for a number that suits the machine.
    pub threads: usize,
    /// Returns whether an absolute path is left out regardless of the other options: secret files and the like.
    pub hidden: &'a (dyn Fn(&Path) -> bool + Sync),
    /// Called with the absolute path of each entry that `hidden` or an ignore file leaves out.
    pub left_out: &'a (dyn Fn(&Path, FileKind) + Sync),
    /// Called regularly; the walk stops when it returns true.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// Walks the whole tree without ignored files and directories of version control, with a suitable number of threads, until its end.
impl Default for WalkOptions<'_> {
    fn default() -> Self {
        Self {
            max_depth: usize::MAX,
            ignore_files: true,
            version_control: false,
            threads: 0,
            hidden: &|_| false,
            left_out: &|_, _| {},
            cancelled: &|| false,
        }
    }
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

/// Receives the entries of a walk.
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
    /// Inspects one entry and decides how the walk continues.
    fn visit(&mut self, entry: &Entry<'_>) -> Walk;
}

/// Continuation of a walk after an entry.
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
    /// Continues with the next entry, and below this one if it is a directory.
    Continue,
    /// Continues with the next entry, but not below this one.
    Skip,
    /// Ends the walk.
    Stop,
}

/// An entry of a walk.
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
/// /// Returns the length of a file. Makes no system call for other entries.
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
    /// Path relative to the root of the walk; empty if the root is itself a file.
    pub path: &'a Path,
    /// Kind of the entry, without following a symbolic link.
    pub kind: FileKind,
    /// Depth, from 1 for the root's own entries.
    pub depth: usize,
    /// Opens the entry or reads its facts, through the handle of its directory.
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

/// Opens an entry of a walk through the handle of its directory, so that no other object can take its place.
///
/// ```
/// use windlass_core::{FileError, FileErrorKind, OpenFile, Opener, Stat};
///
/// /// An entry that was removed after its directory had been listed.
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
    /// Returns facts about the entry, following no link.
    fn stat(&self) -> Result<Stat, FileError>;
}

/// Result of a walk.
///
/// ```
/// use windlass_core::{SkippedPath, WalkReport};
/// let note = SkippedPath { path: "private".into(), why: "the file system's permissions do not allow it".into() };
/// let report = WalkReport { notes: vec![note], ..WalkReport::default() };
/// assert!(report.observed.is_none(), "such a result is not cached");
/// ```
#[derive(Debug, Default)]
pub struct WalkReport {
    /// Paths that could not be read, and why.
    pub notes: Vec<SkippedPath>,
    /// Directories that were listed and ignore files that were read, by absolute path, with their fingerprints; `None` if there
    /// were more than [`WalkReport::MAX_OBSERVED`]. A cached result is valid until one of them changes.
    pub observed: Option<Vec<(PathBuf, Fingerprint)>>,
}

impl WalkReport {
    /// Maximum number of observed objects.
    pub const MAX_OBSERVED: usize = 512;
}

/// A path that a walk had to leave out.
///
/// ```
/// use windlass_core::{SkippedPath, quote};
/// let note = SkippedPath { path: "a\n".into(), why: "no such file or directory".into() };
/// let line = format!("{}: {}", quote::path(&note.path), note.why);
/// assert_eq!(line, r"$'a\n': no such file or directory");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedPath {
    /// Path relative to the root of the walk.
    pub path: PathBuf,
    /// Reason.
    pub why: String,
}

/// A change of one object.
///
/// ```
/// use windlass_core::{Alteration, ExpectedState, Host, TargetState, testing::EmptyHost};
/// let host = EmptyHost::default();
/// let path = host.files().resolve("hello.txt".as_ref())?;
/// let hello = TargetState::File { content: b"hello\n".as_slice().into(), attributes: None };
/// let alteration = Alteration { expect: ExpectedState::Absent, to: hello, temporary: None };
/// assert!(host.files().alter(&path, &alteration).is_err(), "this machine takes no files");
/// # Ok::<(), windlass_core::FileError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Alteration<'a> {
    /// State that must be at the path; checked at the last moment.
    pub expect: ExpectedState,
    /// State after the change.
    pub to: TargetState<'a>,
    /// Name of the temporary file for new content, in the same directory; a random name if `None`.
    pub temporary: Option<&'a str>,
}

/// Target state of an alteration.
///
/// ```
/// use windlass_core::TargetState;
///
/// fn told(to: &TargetState<'_>) -> &'static str {
///     match to {
///         TargetState::File { .. } => "written",
///         TargetState::Attributes(_) => "changed in mode",
///         TargetState::Moved { .. } => "moved",
///         TargetState::Linked { .. } => "named once more",
///         TargetState::Symlink(_) => "linked",
///         TargetState::Directory { .. } => "made",
///         TargetState::Nothing => "removed",
///     }
/// }
/// assert_eq!(told(&TargetState::Nothing), "removed");
/// ```
#[derive(Debug, Clone, Copy)]
pub enum TargetState<'a> {
    /// A regular file; parents are created. An existing file keeps attributes that `attributes` does not set.
    File {
        /// All bytes of the file.
        content: ContentSource<'a>,
        /// Attributes to set.
        attributes: Option<&'a Attributes>,
    },
    /// The same file or directory with other attributes.
    Attributes(&'a Attributes),
    /// The file from another path, which must have the fingerprint `seen`; parents are created. It stays the same inode, with all
    /// attributes. A directory is moved with everything in it, if the new path is free.
    Moved {
        /// Present path.
        from: &'a Resolved,
        /// Fingerprint that it must have.
        seen: Fingerprint,
    },
    /// A further hard link of the file at another path, which must have the fingerprint `seen`.
    Linked {
        /// Path of the file.
        with: &'a Resolved,
        /// Fingerprint that it must have.
        seen: Fingerprint,
    },
    /// A symbolic link with this target.
    Symlink(&'a Path),
    /// An empty directory.
    Directory {
        /// Attributes to set; defaults if `None`.
        attributes: Option<&'a Attributes>,
    },
    /// No object. A directory is removed only if it is empty.
    Nothing,
}

/// The object that [`Files::inspect`] found at a path.
#[derive(Debug)]
pub struct FoundEntry {
    /// Facts about the object.
    pub stat: Stat,
    /// Attributes of the object.
    pub attributes: Attributes,
    /// Content of the object.
    pub body: FoundBody,
}

/// Content of a found object.
#[derive(Debug)]
pub enum FoundBody {
    /// A regular file, open for reading.
    File(File),
    /// Target of a symbolic link, as stored in it.
    Symlink(PathBuf),
    /// Names in a directory.
    Directory(Vec<OsString>),
    /// A FIFO, a socket or a device.
    Other,
}

/// Mode, time, owner and extended attributes. `None` leaves an attribute as it is, or says that it is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// Permission bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Time of the last change of content, in nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
    /// User id and group id. Set only as far as the process may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<(u32, u32)>,
    /// Extended attributes: access control lists, labels and those of users. Set only as far as the process may; existing access
    /// control lists and attributes of users that are not in the list are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended: Option<Vec<(String, Vec<u8>)>>,
}

impl Attributes {
    /// Returns whether no attribute is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether an extended attribute belongs to the object: access control lists and attributes of users do. Labels belong
    /// to the system, and overlayfs keeps attributes for itself.
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

/// Precondition of an [`Alteration`].
///
/// ```
/// use windlass_core::{ExpectedState, Fingerprint};
///
/// /// Replaces what was seen, or creates what was not there.
/// fn expect(seen: Option<Fingerprint>) -> ExpectedState {
///     seen.map_or(ExpectedState::Absent, ExpectedState::Same)
/// }
/// assert_eq!(expect(None), ExpectedState::Absent);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedState {
    /// No object is at the path.
    Absent,
    /// The object has this fingerprint.
    Same(Fingerprint),
}

/// Result of an alteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Altered {
    /// Facts about the object now; `None` if it was removed.
    pub stat: Option<Stat>,
    /// True if the bytes were written into the old inode, because the owner must stay the same.
    pub in_place: bool,
}

/// A failed file operation.
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
    /// Operation that failed: `read`, `list`, `write` …
    pub doing: &'static str,
    /// Path of the operation.
    pub path: PathBuf,
    /// Cause of the failure.
    pub kind: FileErrorKind,
}

/// Cause of a failed file operation.
///
/// ```
/// use windlass_core::{FileError, FileErrorKind};
/// let is_normal = |kind| FileError::new("write", "a.txt", kind).is_normal();
/// assert!(is_normal(FileErrorKind::Stale), "the model reads the file again");
/// assert!(!is_normal(FileErrorKind::Io(std::io::Error::other("the disk is broken"))));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum FileErrorKind {
    /// No object of that name exists.
    #[error("no such file or directory")]
    NotFound,
    /// The object is not a regular file.
    #[error("it is {0}, not a regular file")]
    NotRegular(FileKind),
    /// A component of the path is not a directory.
    #[error("a part of the path is not a directory")]
    NotADirectory,
    /// The machine's permissions forbid the operation.
    #[error("the file system's permissions do not allow it")]
    Permission,
    /// The file system is mounted read-only.
    #[error("the file system is read-only")]
    ReadOnly,
    /// The disk, or the quota, is full.
    #[error("no space is left on the device")]
    NoSpace,
    /// The path is invalid: it contains a NUL, or is too long.
    #[error("{0}")]
    BadName(&'static str),
    /// The path leads through a link that the kernel made up, such as `/proc/self/root`.
    #[error("the path leads through a link of /proc")]
    MagicLink,
    /// Another object is at the path than when the call was decided on.
    #[error("it changed while the call was under way")]
    Changed,
    /// The file changed since it was read.
    #[error("stale: the file changed since it was read")]
    Stale,
    /// The path exists already.
    #[error("it exists already")]
    Exists,
    /// A directory cannot be removed because it is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// Any other error of the kernel.
    #[error("{0}")]
    Io(#[source] io::Error),
}

impl FileError {
    /// Makes an error of the operation `doing` on `path`.
    pub fn new(doing: &'static str, path: impl Into<PathBuf>, kind: FileErrorKind) -> Self {
        Self { doing, path: path.into(), kind }
    }

    /// Returns whether the error is about this file, so that the model can act on it, rather than about the machine.
    pub fn is_normal(&self) -> bool {
        !matches!(self.kind, FileErrorKind::Io(_))
    }

    fn describe(&self) -> String {
        format!("cannot {} {}: {}", self.doing, quote::path(&self.path), self.kind)
    }
}

/// Returns whether the last character of a path marks it as a directory.
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
