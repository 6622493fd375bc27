//! Follows the links on the way to a protected path: a mount cannot lie beneath a link, and a link that a program could replace would lead
//! elsewhere.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Maximum links and objects on the way of one path. The kernel follows 40 links.
const MAX_OBJECTS: usize = 80;

/// Returns the links on the way to a path and the objects to which they lead, or the path itself without links on its way.
pub(super) fn links_or_path(workspace: &Path, path: &Path) -> Vec<PathBuf> {
    let mut follower = links_on_path(workspace, path);
    if follower.is_empty() {
        follower.push(path.to_owned());
    }
    follower
}

/// Returns the links on the way to a path, and the objects to which they lead, as long as they stay in the workspace. All paths are
/// relative to the workspace, and no directory above any of them is a link.
pub(super) fn links_on_path(workspace: &Path, path: &Path) -> Vec<PathBuf> {
    let waiting = parts(path);
    let mut follower = LinkFollower {
        workspace,
        waiting,
        here: PathBuf::new(),
        open: Vec::new(),
        found: Vec::new(),
    };
    while let Some(part) = follower.waiting.pop_front() {
        if follower.found.len() > MAX_OBJECTS || !follower.follow_part(&part) {
            break;
        }
    }
    follower.found.retain(|path| !path.as_os_str().is_empty());
    follower.found
}

/// A path that is followed part by part.
struct LinkFollower<'a> {
    workspace: &'a Path,
    waiting: VecDeque<OsString>,
    /// Path of the followed parts, without links.
    here: PathBuf,
    /// For each link that is being followed, the number of parts after it.
    open: Vec<usize>,
    found: Vec<PathBuf>,
}

impl LinkFollower<'_> {
    /// Follows one part. Returns false if the path leaves the workspace.
    fn follow_part(&mut self, part: &OsString) -> bool {
        if part == ".." {
            let is_inside = self.here.pop();
            self.record_target();
            return is_inside;
        }
        let next = self.here.join(part);
        let Ok(target) = self.workspace.join(&next).read_link() else {
            self.here = next;
            self.record_target();
            return true;
        };
        self.found.push(next);
        self.open.push(self.waiting.len());
        if target.is_absolute() {
            self.here = PathBuf::new();
        }
        // An object outside of the workspace is read-only for every program that works on the workspace itself.
        let inside = target.strip_prefix(self.workspace).unwrap_or(&target);
        for part in parts(inside).into_iter().rev() {
            self.waiting.push_front(part);
        }
        !inside.is_absolute()
    }

    /// Records the current object if a link leads to it.
    fn record_target(&mut self) {
        while self.open.pop_if(|behind| *behind >= self.waiting.len()).is_some() {
            if self.found.last() != Some(&self.here) {
                self.found.push(self.here.clone());
            }
        }
    }
}

/// Splits a path into its names and `..`.
fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_link_is_returned_with_its_target() {
        let ground = tempfile::tempdir().unwrap();
        let workspace = fs::canonicalize(ground.path()).unwrap();
        fs::create_dir_all(workspace.join("conf/editor")).unwrap();
        fs::create_dir_all(workspace.join("sub/deep")).unwrap();
        let absolute = workspace.join("conf/editor");
        for (link, target) in [
            ("plain", Path::new("conf")),
            ("sub/up", Path::new("../conf/editor")),
            ("twice", Path::new("sub/up")),
            ("absolute", &absolute),
            ("out", Path::new("../elsewhere")),
            ("away", Path::new("/etc/passwd")),
            ("round", Path::new("round")),
            ("gone", Path::new("conf/missing")),
            // `sub/up` leads to `conf/editor`, whose parent is `conf`.
            ("crooked", Path::new("sub/up/../editor")),
            ("self", Path::new(".")),
        ] {
            symlink(target, workspace.join(link)).unwrap();
        }
        for (path, follower) in [
            ("conf/editor", &[][..]),
            ("missing/too", &[]),
            ("plain", &["plain", "conf"]),
            ("plain/editor/x.json", &["plain", "conf"]),
            ("sub/up", &["sub/up", "conf/editor"]),
            ("twice/x", &["twice", "sub/up", "conf/editor"]),
            ("absolute", &["absolute", "conf/editor"]),
            ("out/x", &["out"]),
            ("away", &["away"]),
            ("gone", &["gone", "conf/missing"]),
            ("crooked", &["crooked", "sub/up", "conf/editor"]),
            ("self/conf", &["self", "conf"]),
        ] {
            let expected: Vec<PathBuf> = follower.iter().map(PathBuf::from).collect();
            assert_eq!(links_on_path(&workspace, Path::new(path)), expected, "{path}");
        }
        assert!(links_on_path(&workspace, Path::new("round")).len() <= MAX_OBJECTS + 1);
    }
}
