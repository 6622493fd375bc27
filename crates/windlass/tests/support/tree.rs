//! The complete content of a directory, for comparison: names, bytes, permissions, times, extended attributes, link targets, and hard
//! links.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A directory with all files and directories below it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    objects: BTreeMap<PathBuf, TreeObject>,
    /// Modification time of the directory itself; none if it is not compared.
    modified: Option<(i64, i64)>,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum TreeObject {
    File {
        bytes: Vec<u8>,
        mode: u32,
        modified: (i64, i64),
        extended_attributes: ExtendedAttributes,
        /// The first of its hard links, if it has several.
        names: Option<PathBuf>,
    },
    Directory {
        mode: u32,
        modified: (i64, i64),
        extended_attributes: ExtendedAttributes,
    },
    Symlink {
        target: PathBuf,
        modified: (i64, i64),
    },
}

/// Names and values of the extended attributes that users set.
type ExtendedAttributes = Vec<(String, Vec<u8>)>;

/// Reads the `user.` attributes of a path.
fn extended_attributes(path: &Path) -> ExtendedAttributes {
    let (mut names, mut all) = ([0_u8; 4096], Vec::new());
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    for name in names[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        let (mut value, name) = ([0_u8; 4096], std::str::from_utf8(name).expect("text"));
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("its value");
        all.push((name.to_owned(), value[..length].to_vec()));
    }
    all.sort();
    all
}

/// Reads an object whose mode may deny its owner access: adds the permission for the moment.
fn with_read_permission<T>(path: &Path, mode: u32, read: impl FnOnce() -> T) -> T {
    let is_unreadable = mode & 0o500 != 0o500;
    let set_mode =
        |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    if is_unreadable {
        set_mode(mode | 0o500);
    }
    let seen = read();
    if is_unreadable {
        set_mode(mode);
    }
    seen
}

impl Tree {
    pub(crate) fn of(root: &Path) -> Self {
        let facts = fs::metadata(root).expect("a directory");
        let modified = Some((facts.mtime(), facts.mtime_nsec()));
        let mut tree = Self { objects: BTreeMap::new(), modified };
        let mut first_names = HashMap::new();
        tree.add(root, root, &mut first_names);
        tree
    }

    fn add(&mut self, root: &Path, at: &Path, first_names: &mut HashMap<u64, PathBuf>) {
        let mut paths: Vec<PathBuf> = fs::read_dir(at)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        for path in paths {
            let name = path.strip_prefix(root).expect("it is inside").to_owned();
            let facts = fs::symlink_metadata(&path).expect("it is there");
            let mode = facts.permissions().mode() & 0o7777;
            let object = if facts.is_symlink() {
                let modified = (facts.mtime(), facts.mtime_nsec());
                TreeObject::Symlink { target: fs::read_link(&path).expect("a link"), modified }
            } else if facts.is_dir() {
                let modified = (facts.mtime(), facts.mtime_nsec());
                let extended_attributes = with_read_permission(&path, mode, || {
                    self.add(root, &path, first_names);
                    extended_attributes(&path)
                });
                TreeObject::Directory { mode, modified, extended_attributes }
            } else {
                let names = (facts.nlink() > 1).then(|| {
                    first_names.entry(facts.ino()).or_insert_with(|| name.clone()).clone()
                });
                let read = || (fs::read(&path).expect("a file"), extended_attributes(&path));
                let (bytes, extended_attributes) = with_read_permission(&path, mode, read);
                let modified = (facts.mtime(), facts.mtime_nsec());
                TreeObject::File { bytes, mode, modified, extended_attributes, names }
            };
            self.objects.insert(name, object);
        }
    }

    /// Lists the paths of all objects that match.
    fn names(&self, matches_kind: impl Fn(&TreeObject) -> bool) -> Vec<PathBuf> {
        let meant = self.objects.iter().filter(|(_, object)| matches_kind(object));
        meant.map(|(path, _)| path.clone()).collect()
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.names(|object| matches!(object, TreeObject::File { .. }))
    }

    /// Lists the files that have several hard links in the tree.
    pub(crate) fn linked_files(&self) -> Vec<PathBuf> {
        self.names(|object| matches!(object, TreeObject::File { names: Some(_), .. }))
    }

    /// Lists all hard links of the file at a path.
    pub(crate) fn all_names(&self, path: &Path) -> Vec<PathBuf> {
        match self.objects.get(path) {
            Some(TreeObject::File { names: Some(first), .. }) => self.names(
                |object| matches!(object, TreeObject::File { names: Some(other), .. } if other == first),
            ),
            _ => vec![path.to_owned()],
        }
    }

    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        self.names(|object| matches!(object, TreeObject::Directory { .. }))
    }

    pub(crate) fn symlinks(&self) -> Vec<PathBuf> {
        self.names(|object| matches!(object, TreeObject::Symlink { .. }))
    }

    /// Lists the paths below a directory, children before parents.
    pub(crate) fn below(&self, directory: &Path) -> Vec<PathBuf> {
        let mut below = self.names(|_| true);
        below.retain(|path| path.starts_with(directory) && path != directory);
        below.reverse();
        below
    }

    pub(crate) fn has(&self, path: &Path) -> bool {
        self.objects.contains_key(path)
    }

    pub(crate) fn bytes(&self, path: &Path) -> Option<&[u8]> {
        match self.objects.get(path) {
            Some(TreeObject::File { bytes, .. }) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn mode(&self, path: &Path) -> Option<u32> {
        match self.objects.get(path)? {
            TreeObject::File { mode, .. } | TreeObject::Directory { mode, .. } => Some(*mode),
            TreeObject::Symlink { .. } => None,
        }
    }

    /// Leaves out a directory and all files in it.
    pub(crate) fn without(mut self, directory: &Path) -> Self {
        self.objects.retain(|path, _| !path.starts_with(directory));
        self.modified = None;
        self
    }

    /// Leaves out the modification time of the directory itself.
    pub(crate) fn but_for_own_time(mut self) -> Self {
        self.modified = None;
        self
    }

    /// Leaves out the modification times of all directories.
    pub(crate) fn but_for_directory_times(mut self) -> Self {
        self.modified = None;
        for object in self.objects.values_mut() {
            if let TreeObject::Directory { modified, .. } = object {
                *modified = (0, 0);
            }
        }
        self
    }

    /// Lists the paths whose objects differ, ignoring times.
    pub(crate) fn changed(&self, now: &Self) -> Vec<PathBuf> {
        let timeless = |object: Option<&TreeObject>| {
            let mut object = object.cloned();
            match &mut object {
                Some(
                    TreeObject::File { modified, .. }
                    | TreeObject::Directory { modified, .. }
                    | TreeObject::Symlink { modified, .. },
                ) => *modified = (0, 0),
                None => {}
            }
            object
        };
        let all: std::collections::BTreeSet<&PathBuf> =
            self.objects.keys().chain(now.objects.keys()).collect();
        let is_other =
            |path: &&PathBuf| timeless(self.objects.get(*path)) != timeless(now.objects.get(*path));
        all.into_iter().filter(is_other).cloned().collect()
    }

    /// Describes the differences, with lines for each path; `None` if the trees are equal.
    pub(crate) fn describe_differences(&self, now: &Self) -> Option<String> {
        if self == now {
            return None;
        }
        let all: std::collections::BTreeSet<&PathBuf> =
            self.objects.keys().chain(now.objects.keys()).collect();
        let show = |object: Option<&TreeObject>| {
            object.map_or_else(|| "nothing".to_owned(), |object| format!("{object:?}"))
        };
        let root = (self.modified != now.modified).then(|| {
            format!("the directory itself: {:?}\n    is now {:?}", self.modified, now.modified)
        });
        let lines: Vec<String> = all
            .into_iter()
            .filter(|path| self.objects.get(*path) != now.objects.get(*path))
            .map(|path| {
                let (then, now) = (show(self.objects.get(path)), show(now.objects.get(path)));
                format!("{}: {then}\n    is now {now}", path.display())
            })
            .chain(root)
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Panics with the differences if the trees are not equal.
    #[track_caller]
    pub(crate) fn assert_same(&self, now: &Self, when: &str) {
        if let Some(difference) = self.describe_differences(now) {
            panic!("{when}\n{difference}");
        }
    }
}

impl fmt::Debug for TreeObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { bytes, mode, modified, extended_attributes, names } => {
                let shown = bytes.get(..80).unwrap_or(bytes).escape_ascii();
                write!(f, "file {mode:o} of {} bytes \"{shown}\" {modified:?}", bytes.len())?;
                write!(f, " {extended_attributes:?}")?;
                names.as_ref().map_or(Ok(()), |first| write!(f, " also {}", first.display()))
            }
            Self::Directory { mode, modified, extended_attributes } => {
                write!(f, "directory {mode:o} {modified:?} {extended_attributes:?}")
            }
            Self::Symlink { target, modified } => {
                write!(f, "link to {} {modified:?}", target.display())
            }
        }
    }
}
