//! After random edits a survey with an index has the same result as one without.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::TestWorkspace;
use super::survey::{next_stamp, survey_with_index, survey_without_index};

#[derive(Debug, Clone)]
enum Edit {
    Write(PathBuf, &'static str),
    MakeDirectory(PathBuf),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
    ReplaceByLink(PathBuf, PathBuf),
}

impl Edit {
    /// Edits the tree at `root`. An edit that is not possible there does nothing.
    fn make(&self, root: &Path) {
        match self {
            Self::Write(path, content) => {
                let path = root.join(path);
                drop(fs::create_dir_all(path.parent().unwrap()));
                drop(fs::write(path, content));
            }
            Self::MakeDirectory(path) => drop(fs::create_dir_all(root.join(path))),
            Self::Remove(path) => remove(&root.join(path)),
            Self::Rename(from, to) => drop(fs::rename(root.join(from), root.join(to))),
            Self::Exchange(one, other) => drop(renameat_with(
                CWD,
                root.join(one),
                CWD,
                root.join(other),
                RenameFlags::EXCHANGE,
            )),
            Self::ReplaceByLink(path, target) => {
                remove(&root.join(path));
                drop(std::os::unix::fs::symlink(root.join(target), root.join(path)));
            }
        }
    }
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => drop(fs::remove_dir_all(path)),
        Ok(_) => drop(fs::remove_file(path)),
        Err(_) => {}
    }
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a",
        "b",
        "c",
        "src",
        "target",
        "build",
        "node_modules",
        "secrets",
        ".env",
        "x.pem",
        "HEAD",
        "objects",
        "refs",
        ".git",
    ])
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec(name(), 1..4).prop_map(|names| names.into_iter().collect())
}

/// A directory with few names, so that edits hit the same paths.
fn directory() -> impl Strategy<Value = PathBuf> {
    let name = prop::sample::select(vec!["a", "b", "src", "target", "build"]);
    prop::collection::vec(name, 0..3).prop_map(|names| names.into_iter().collect())
}

/// A file whose content decides something.
fn input() -> impl Strategy<Value = Edit> {
    let file = prop::sample::select(vec![
        (".aiexclude", "a\n"),
        (".aiexclude", "/b\n!src\n"),
        (".aiexclude", "target/\nx.pem\n"),
        (".aiexclude", ""),
        (".gitignore", "target\nbuild\n"),
        (".gitignore", "a\n!target\n"),
        (".gitignore", ""),
        (".ignore", "!target\n"),
        (".git/info/exclude", "build\n"),
        (".git/HEAD", ""),
        (".npmrc", "_auth=x"),
        (".npmrc", "registry=x"),
        ("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55"),
        ("CACHEDIR.TAG", "Signature"),
    ]);
    (directory(), file).prop_map(|(at, (name, content))| Edit::Write(at.join(name), content))
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        2 => path().prop_map(|path| Edit::Write(path, "")),
        2 => path().prop_map(Edit::MakeDirectory),
        6 => input(),
        1 => path().prop_map(Edit::Remove),
        1 => directory().prop_map(|path| Edit::Remove(path.join("a"))),
        1 => (directory(), path()).prop_map(|(from, to)| Edit::Rename(from.join("a"), to)),
        1 => (directory(), name()).prop_map(|(at, to)| Edit::Rename(at.join(".npmrc"), to.into())),
        2 => (directory(), directory())
            .prop_map(|(one, other)| Edit::Exchange(one.join("a"), other.join("b"))),
        1 => (path(), directory()).prop_map(|(path, target)| Edit::ReplaceByLink(path, target)),
        1 => directory().prop_map(|at| Edit::ReplaceByLink(at.join("b"), at.join("a"))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn index_does_not_change_the_result(edits in prop::collection::vec(edit(), 1..24)) {
        let ground = TestWorkspace::new();
        let (root, index) = (ground.path("work"), ground.path("outside/index"));
        for (number, edit) in edits.iter().enumerate() {
            next_stamp(&ground);
            edit.make(&root);
            // Several edits may lie between two surveys.
            if number % 3 != 1 {
                prop_assert_eq!(survey_with_index(&root, &index).0, survey_without_index(&ground), "after {:?}", edit);
            }
        }
        let (found, _) = survey_with_index(&root, &index);
        prop_assert_eq!(&found, &survey_without_index(&ground));
        let (again, effort) = survey_with_index(&root, &index);
        prop_assert_eq!(again, found);
        prop_assert!(!effort.saved);
    }
}
