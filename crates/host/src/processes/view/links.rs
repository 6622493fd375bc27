//! Follows the links on the way to a protected path: a mount cannot lie beneath a link, and a link that a program could replace would
//! lead elsewhere.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The most links and objects on the way of one path. The kernel follows 40 links.
const MOST_OBJECTS: usize = 80;

/// The links on the way to a path and the objects that they lead to, or the path itself if no link is on its way.
pub(super) fn resolved(workspace: &Path, path: &Path) -> Vec<PathBuf> {
    let mut way = through_links(workspace, path);
    if way.is_empty() {
        way.push(path.to_owned());
    }
    way
}

/// The links on the way to a path, and the objects that they lead to, as long as they stay in the workspace. All paths are relative
/// to the workspace, and no directory above any of them is a link.
pub(super) fn through_links(workspace: &Path, path: &Path) -> Vec<PathBuf> {
    let waiting = parts(path);
    let mut way =
        Way { workspace, waiting, here: PathBuf::new(), open: Vec::new(), met: Vec::new() };
    while let Some(part) = way.waiting.pop_front() {
        if way.met.len() > MOST_OBJECTS || !way.step(&part) {
            break;
        }
    }
    way.met.retain(|path| !path.as_os_str().is_empty());
    way.met
}

/// A path that is followed part by part.
struct Way<'a> {
    workspace: &'a Path,
    waiting: VecDeque<OsString>,
    /// The part that was followed, without links.
    here: PathBuf,
    /// Of each link that is being followed, the number of parts behind it.
    open: Vec<usize>,
    met: Vec<PathBuf>,
}

impl Way<'_> {
    /// Follows one part. Returns false where the way leaves the workspace.
    fn step(&mut self, part: &OsString) -> bool {
        if part == ".." {
            let is_inside = self.here.pop();
            self.arrive();
            return is_inside;
        }
        let next = self.here.join(part);
        let Ok(target) = self.workspace.join(&next).read_link() else {
            self.here = next;
            self.arrive();
            return true;
        };
        self.met.push(next);
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

    /// Notes the object here if a link leads to it.
    fn arrive(&mut self) {
        while self.open.pop_if(|behind| *behind >= self.waiting.len()).is_some() {
            if self.met.last() != Some(&self.here) {
                self.met.push(self.here.clone());
            }
        }
    }
}

/// The names of a path, and its `..`.
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
    fn each_link_is_met_with_the_object_behind_it() {
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
        for (path, way) in [
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
            let expected: Vec<PathBuf> = way.iter().map(PathBuf::from).collect();
            assert_eq!(through_links(&workspace, Path::new(path)), expected, "{path}");
        }
        assert!(through_links(&workspace, Path::new("round")).len() <= MOST_OBJECTS + 1);
    }
}
