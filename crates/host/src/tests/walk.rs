//! The entries that a walk shows, their order, and the cost of stopping it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, Mode, OFlags};
use windlass_core::{
    Entry, FileError, FileKind, Files, Resolved, Visitor, Walk, WalkOptions, WalkReport,
};

use super::{LOOKUPS, TestWorkspace, error};
use crate::LocalFiles;

pub(super) const PLAIN: WalkOptions<'_> = WalkOptions {
    max_depth: usize::MAX,
    ignore_files: true,
    version_control: false,
    threads: 1,
    hidden: &|_| false,
    left_out: &|_, _| {},
    cancelled: &|| false,
};

struct Closure<F>(F);

impl<F: Fn(&Entry<'_>) -> Walk + Send> Visitor for Closure<F> {
    fn visit(&mut self, entry: &Entry<'_>) -> Walk {
        (self.0)(entry)
    }
}

fn visit(
    files: &LocalFiles,
    root: &Resolved,
    options: &WalkOptions<'_>,
    see: impl Fn(&Entry<'_>) -> Walk + Sync,
) -> Result<WalkReport, FileError> {
    files.walk(root, options, &|| Box::new(Closure(&see)))
}

/// Passes every entry of a tree to a function, on two threads.
pub(crate) fn visit_all(
    files: &LocalFiles,
    root: &Resolved,
    see: impl Fn(&Entry<'_>) -> Walk + Sync,
) -> Result<WalkReport, FileError> {
    visit(files, root, &WalkOptions { threads: 2, ..PLAIN }, see)
}

/// Returns the paths that a walk shows, in its order; directories end in `/`, links in `@`.
pub(crate) fn shown(
    files: &LocalFiles,
    root: &str,
    options: &WalkOptions<'_>,
) -> (Vec<String>, WalkReport) {
    let root = files.resolve(Path::new(root)).unwrap();
    let paths = Mutex::new(Vec::new());
    let report = visit(files, &root, options, |entry| {
        assert_eq!(entry.path.components().count(), entry.depth);
        let sign = match entry.kind {
            FileKind::Directory => "/",
            FileKind::Symlink => "@",
            _ => "",
        };
        let path = format!("{}{sign}", entry.path.to_str().unwrap());
        paths.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        Walk::Continue
    });
    (paths.into_inner().unwrap(), report.unwrap())
}

/// Checks that a walk of `root` shows `expected`: in this order on one thread, in any order on several.
fn check(ground: &TestWorkspace, root: &str, options: &WalkOptions<'_>, expected: &[&str]) {
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        let (paths, _) = shown(&files, root, &WalkOptions { threads: 1, ..*options });
        assert_eq!(paths, expected, "{root}");
        let (mut paths, _) = shown(&files, root, &WalkOptions { threads: 3, ..*options });
        let mut expected = expected.to_vec();
        paths.sort();
        expected.sort_unstable();
        assert_eq!(paths, expected, "{root}");
    }
}

fn tree() -> TestWorkspace {
    let ground = TestWorkspace::with(&[
        ("b/2", ""),
        ("b/1", ""),
        ("b/c/d/e", ""),
        ("a", ""),
        ("b.txt", ""),
        (".hidden/x", ""),
        (".git/config", ""),
        ("b/.git/config", ""),
        ("z/CVS/Root", ""),
        ("z/.jj/y", ""),
        ("empty/", ""),
    ]);
    ground.put("outside/secret", "");
    ground.link("../outside", "work/out");
    ground.link("a", "work/link");
    ground.link("nowhere", "work/dangling");
    ground
}

#[test]
fn left_out_paths_are_reported() {
    let ground = TestWorkspace::with(&[
        (".aiexclude", "private/\n"),
        ("a/.env", ""),
        ("a/b/x", ""),
        ("c", ""),
        (".git/y", ""),
        ("private/z/1", ""),
    ]);
    for (version_control, wanted) in
        [(false, vec!["a/.env", "private"]), (true, vec![".git/y", "a/.env", "private"])]
    {
        let told = Mutex::new(Vec::new());
        let root = ground.work("").canonicalize().unwrap();
        let options = WalkOptions {
            version_control,
            hidden: &|path| path.ends_with(".env") || path.ends_with("y"),
            left_out: &|path, kind| {
                assert_eq!(kind == FileKind::Directory, path.ends_with("private"));
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                told.lock().unwrap().push(name);
            },
            ..PLAIN
        };
        shown(&ground.files(LOOKUPS[0]), "", &options);
        let mut told = told.into_inner().unwrap();
        told.sort();
        assert_eq!(told, wanted);
    }
}

#[test]
fn walk_is_sorted_and_follows_no_links() {
    check(
        &tree(),
        "",
        &PLAIN,
        &[
            ".hidden/",
            ".hidden/x",
            "a",
            "b/",
            "b/1",
            "b/2",
            "b/c/",
            "b/c/d/",
            "b/c/d/e",
            "b.txt",
            "dangling@",
            "empty/",
            "link@",
            "out@",
            "z/",
        ],
    );
}

#[test]
fn walk_may_begin_at_any_path() {
    let ground = tree();
    check(&ground, "b/c", &PLAIN, &["d/", "d/e"]);
    check(&ground, "out", &PLAIN, &["secret"]);
    check(&ground, "empty", &PLAIN, &[]);
    check(&ground, ".git", &PLAIN, &["config"]);
    check(&ground, "a", &PLAIN, &[""]);
    check(&ground, "link", &PLAIN, &[""]);
}

#[test]
fn walk_stops_at_max_depth() {
    let ground = tree();
    let deep = |max_depth| WalkOptions { max_depth, ..PLAIN };
    check(&ground, "b", &deep(0), &[]);
    check(&ground, "b", &deep(1), &["1", "2", "c/"]);
    check(&ground, "b", &deep(2), &["1", "2", "c/", "c/d/"]);
    check(&ground, "b", &deep(3), &["1", "2", "c/", "c/d/", "c/d/e"]);
}

#[test]
fn paths_hidden_by_the_caller_are_left_out() {
    let ground = tree();
    let (b, a) = (ground.work("b/c"), ground.work("a"));
    let hidden = |path: &Path| path == b || path == a;
    check(&ground, "b", &WalkOptions { hidden: &hidden, ..PLAIN }, &["1", "2"]);
    check(&ground, "a", &WalkOptions { hidden: &hidden, ..PLAIN }, &[]);
}

#[test]
fn visitor_may_skip_and_stop() {
    let ground = tree();
    for (lookup, threads) in LOOKUPS.into_iter().flat_map(|lookup| [(lookup, 1), (lookup, 4)]) {
        let files = ground.files(lookup);
        let root = files.resolve(Path::new("")).unwrap();
        let options = WalkOptions { threads, ..PLAIN };
        let below = AtomicUsize::new(0);
        let skip = |entry: &Entry<'_>| {
            below.fetch_add(usize::from(entry.depth > 1), Ordering::Relaxed);
            Walk::Skip
        };
        visit(&files, &root, &options, skip).unwrap();
        assert_eq!(below.into_inner(), 0);
        let seen = AtomicUsize::new(0);
        let stop = |_: &Entry<'_>| {
            seen.fetch_add(1, Ordering::Relaxed);
            Walk::Stop
        };
        visit(&files, &root, &options, stop).unwrap();
        assert_eq!(seen.into_inner(), 1);
        let cancelled = AtomicBool::new(true);
        let options = WalkOptions { cancelled: &|| cancelled.load(Ordering::Relaxed), ..options };
        let report = visit(&files, &root, &options, |_| Walk::Continue).unwrap();
        assert!(report.notes.is_empty());
    }
}

#[test]
fn walk_can_be_cancelled_midway() {
    let ground = TestWorkspace::new();
    for number in 0..2_000 {
        fs::write(ground.work(&number.to_string()), "").unwrap();
    }
    for threads in [1, 4] {
        let files = ground.files(LOOKUPS[0]);
        let root = files.resolve(Path::new("")).unwrap();
        let seen = AtomicUsize::new(0);
        let cancelled = || seen.load(Ordering::Relaxed) >= 200;
        let options = WalkOptions { threads, cancelled: &cancelled, ..PLAIN };
        visit(&files, &root, &options, |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            Walk::Continue
        })
        .unwrap();
        assert!(seen.into_inner() < 200 + 4 * 128);
    }
}

#[test]
fn entries_can_be_opened() {
    let ground = TestWorkspace::with(&[("a/file", "content")]);
    ground.put("outside/secret", "secret");
    ground.link("../../outside/secret", "work/a/link");
    rustix::fs::mkfifoat(CWD, ground.work("a/fifo"), Mode::RWXU).unwrap();
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        for root in ["", "a", "a/file"] {
            let root = files.resolve(Path::new(root)).unwrap();
            visit_all(&files, &root, |entry| {
                if entry.kind == FileKind::File {
                    let mut opened = entry.opener.open().unwrap();
                    let mut text = String::new();
                    opened.file.read_to_string(&mut text).unwrap();
                    assert_eq!(text, "content");
                    assert_eq!(opened.stat, entry.opener.stat().unwrap());
                } else {
                    assert_eq!(error(entry.opener.open()), "NotRegular");
                    assert_eq!(entry.opener.stat().unwrap().kind, entry.kind);
                }
                Walk::Continue
            })
            .unwrap();
        }
    }
}

#[test]
fn a_file_exchanged_for_a_link_is_not_opened() {
    let ground = TestWorkspace::with(&[("file", "content")]);
    ground.put("outside/secret", "secret");
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        let root = files.resolve(Path::new("")).unwrap();
        ground.put("work/file", "content");
        visit(&files, &root, &PLAIN, |entry| {
            fs::remove_file(ground.work("file")).unwrap();
            ground.link("../outside/secret", "work/file");
            assert_eq!(error(entry.opener.open()), "Changed");
            fs::remove_file(ground.work("file")).unwrap();
            assert_eq!(error(entry.opener.open()), "NotFound");
            Walk::Continue
        })
        .unwrap();
    }
}

#[test]
fn a_missing_root_is_an_error_and_an_unreadable_directory_a_note() {
    let ground = TestWorkspace::with(&[("locked/x", ""), ("open/y", "")]);
    let files = ground.files(LOOKUPS[0]);
    let missing = files.resolve(Path::new("missing")).unwrap();
    assert_eq!(error(visit_all(&files, &missing, |_| Walk::Continue)), "NotFound");
    fs::set_permissions(ground.work("locked"), fs::Permissions::from_mode(0o0)).unwrap();
    // Root may read every directory: then there is no note.
    let readable = fs::read_dir(ground.work("locked")).is_ok();
    let (paths, report) = shown(&files, "", &PLAIN);
    if readable {
        assert_eq!(paths, ["locked/", "locked/x", "open/", "open/y"]);
        assert!(report.notes.is_empty());
    } else {
        assert_eq!(paths, ["locked/", "open/", "open/y"]);
        assert_eq!(report.notes[0].path, Path::new("locked"));
        let locked = files.resolve(Path::new("locked")).unwrap();
        assert_eq!(error(visit_all(&files, &locked, |_| Walk::Continue)), "Permission");
    }
    fs::set_permissions(ground.work("locked"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn observed_directories_and_ignore_files_are_reported() {
    let ground = TestWorkspace::with(&[(".gitignore", "*.o"), ("a/b/x", ""), ("a/.ignore", "y")]);
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        for root in ["", "a/b"] {
            let (_, report) = shown(&files, root, &PLAIN);
            let mut paths: Vec<_> =
                report.observed.unwrap().into_iter().map(|(path, _)| path).collect();
            paths.sort();
            let expected =
                ["", ".gitignore", "a", "a/.ignore", "a/b"].map(|name| ground.work(name));
            assert_eq!(
                paths,
                expected.map(|path| path.components().collect::<PathBuf>()),
                "{root}"
            );
        }
    }
    for number in 0..=WalkReport::MAX_OBSERVED {
        fs::create_dir(ground.work(&number.to_string())).unwrap();
    }
    assert!(shown(&ground.files(LOOKUPS[0]), "", &PLAIN).1.observed.is_none());
}

#[test]
fn panic_of_a_visitor_reaches_the_caller() {
    let ground = TestWorkspace::new();
    for number in 0..2_000 {
        ground.put(&format!("work/{}/{number}", number % 20), "");
    }
    let files = ground.files(LOOKUPS[0]);
    let root = files.resolve(Path::new("")).unwrap();
    for (threads, at) in [(1, 5), (4, 5), (4, 1_000), (4, 1_900)] {
        let seen = AtomicUsize::new(0);
        let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            visit(&files, &root, &WalkOptions { threads, ..PLAIN }, |_| {
                assert_ne!(seen.fetch_add(1, Ordering::Relaxed), at, "as told");
                Walk::Continue
            })
        }));
        let panic = walked.unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("as told"));
    }
}

#[test]
fn directory_larger_than_one_buffer() {
    let ground = TestWorkspace::with(&[(".gitignore", "*5\n")]);
    let long = "x".repeat(200);
    for number in 0..1_000 {
        fs::write(ground.work(&format!("{long}_{number}")), "").unwrap();
    }
    for lookup in LOOKUPS {
        for threads in [1, 3] {
            let (paths, _) = shown(&ground.files(lookup), "", &WalkOptions { threads, ..PLAIN });
            assert_eq!(paths.len(), 901);
        }
    }
}

/// Creates directories below each other, by handle because no path is long enough. Creates `beside` at every level.
fn make_nested_directories(ground: &TestWorkspace, depth: usize, name: &str, beside: &[&str]) {
    let mut at = rustix::fs::open(ground.work(""), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..depth {
        for name in beside.iter().chain([&name]) {
            rustix::fs::mkdirat(&at, *name, Mode::RWXU).unwrap();
        }
        at = rustix::fs::openat(&at, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
}

fn check_deep(ground: &TestWorkspace, depth: usize, per_level: usize) {
    for (lookup, threads) in LOOKUPS.into_iter().flat_map(|lookup| [(lookup, 1), (lookup, 3)]) {
        let files = ground.files(lookup);
        let root = files.resolve(Path::new("")).unwrap();
        let (seen, deepest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let options = WalkOptions { threads, ..PLAIN };
        let report = visit(&files, &root, &options, |entry| {
            seen.fetch_add(1, Ordering::Relaxed);
            deepest.fetch_max(entry.depth, Ordering::Relaxed);
            Walk::Continue
        });
        assert_eq!(report.unwrap().notes, []);
        assert_eq!((seen.into_inner(), deepest.into_inner()), (per_level * depth, depth));
    }
    // The standard library would remove it by recursion.
    let removed = std::process::Command::new("rm").arg("-rf").arg(ground.path("work")).status();
    assert!(removed.unwrap().success());
}

#[test]
fn deep_chain_of_directories() {
    let ground = TestWorkspace::new();
    make_nested_directories(&ground, 2_500, "d", &[]);
    check_deep(&ground, 2_500, 1);
}

#[test]
fn tree_deeper_than_path_and_open_file_limits() {
    let ground = TestWorkspace::new();
    // A sibling before and after each directory keeps every level waiting.
    make_nested_directories(&ground, 300, "name_of_twenty_bytes", &["a", "z"]);
    check_deep(&ground, 300, 3);
}
