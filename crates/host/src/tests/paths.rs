//! Spellings of paths, and the real paths that they resolve to.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use proptest::prelude::*;
use windlass_core::{Files, Resolved};

use super::{LOOKUPS, TestWorkspace, error, read};
use crate::{Durability, LocalFiles};

fn ground() -> TestWorkspace {
    let ground = TestWorkspace::with(&[
        ("file", "content"),
        ("directory/file", "below"),
        ("directory/deeper/file", "deep"),
        ("name (deleted)", "still here"),
        ("...", "dots"),
    ]);
    ground.put("outside/secret", "secret");
    ground.put("workplace/file", "a neighbour whose name begins alike");
    ground.link("file", "work/to_file");
    ground.link("directory", "work/to_directory");
    ground.link("to_to_file", "work/chain");
    ground.link("to_file", "work/to_to_file");
    ground.link("../outside", "work/out");
    ground.link(ground.path("outside/secret"), "work/out_absolute");
    ground.link(ground.work("file"), "work/in_absolute");
    ground.link("nowhere/at/all", "work/dangling");
    ground.link("../outside/new", "work/dangling_out");
    ground.link("circle_b", "work/circle_a");
    ground.link("circle_a", "work/circle_b");
    ground.link("self/inner", "work/self");
    ground.link("/proc/self", "work/process");
    ground
}

/// Checks that `asked` resolves to `expected`: `work/…` or `outside/…` below the test directory, with `?` after it if nothing exists there,
/// or an error's name.
fn check(ground: &TestWorkspace, files: &LocalFiles, asked: &str, expected: &str) {
    let asked = asked.replace("GROUND", ground.path("").to_str().unwrap());
    let found = files.resolve(Path::new(&asked));
    let shown = match found {
        Err(error) => super::name(&error.kind),
        Ok(Resolved { path, inside, exists }) => {
            assert_eq!(inside, path.strip_prefix(files.workspace()).ok().map(Path::to_owned));
            let path = path.strip_prefix(ground.path("")).unwrap_or(&path).to_owned();
            format!("{}{}", path.display(), if exists { "" } else { "?" })
        }
    };
    assert_eq!(shown, expected, "{asked}");
}

#[test]
fn paths_resolve_to_real_paths() {
    let ground = ground();
    let cases = [
        ("file", "work/file"),
        ("./file", "work/file"),
        (".//./file", "work/file"),
        ("directory//file", "work/directory/file"),
        ("directory/", "work/directory"),
        ("directory/.", "work/directory"),
        ("directory/..", "work"),
        ("directory/../file", "work/file"),
        ("", "work"),
        (".", "work"),
        ("..", ""),
        ("...", "work/..."),
        ("../work/file", "work/file"),
        ("../workplace/file", "workplace/file"),
        ("../outside/secret", "outside/secret"),
        ("GROUND/work/file", "work/file"),
        ("GROUND//work/./file", "work/file"),
        ("//GROUND/work/file", "work/file"),
        ("GROUND/outside/secret", "outside/secret"),
        ("/", "/"),
        ("/..", "/"),
        ("name (deleted)", "work/name (deleted)"),
        // Links.
        ("to_file", "work/file"),
        ("to_directory/file", "work/directory/file"),
        ("to_directory/../file", "work/file"),
        ("chain", "work/file"),
        ("in_absolute", "work/file"),
        ("out", "outside"),
        ("out/secret", "outside/secret"),
        ("out/../work/file", "work/file"),
        ("out_absolute", "outside/secret"),
        ("dangling", "work/nowhere/at/all?"),
        ("dangling_out", "outside/new?"),
        ("circle_a", "BadName"),
        ("self", "BadName"),
        // Missing files.
        ("new", "work/new?"),
        ("new/", "work/new?"),
        ("new/deeper/./file", "work/new/deeper/file?"),
        ("directory/new", "work/directory/new?"),
        ("to_directory/new", "work/directory/new?"),
        ("out/new", "outside/new?"),
        ("new/../file", "NotFound"),
        ("new/deeper/..", "NotFound"),
        ("~/file", "work/~/file?"),
        ("%2e%2e/outside", "work/%2e%2e/outside?"),
        // Components that are not directories.
        ("file/", "NotADirectory"),
        ("file/.", "NotADirectory"),
        ("file/..", "NotADirectory"),
        ("file/below", "NotADirectory"),
        ("to_file/below", "NotADirectory"),
        ("to_file/", "NotADirectory"),
        // Links that the kernel generates.
        ("/proc/self/root/etc/passwd", "MagicLink"),
        ("/proc/self/root", "MagicLink"),
        ("/proc/self/cwd", "MagicLink"),
        ("/proc/self/exe", "MagicLink"),
        ("/proc/thread-self/cwd/file", "MagicLink"),
        ("/proc/self/fd/0", "MagicLink"),
        ("/dev/fd/0", "MagicLink"),
        ("/dev/stdin", "MagicLink"),
        ("process/root", "MagicLink"),
        ("process/cwd/file", "MagicLink"),
        // Strings that cannot be paths.
        ("a\0b", "BadName"),
        ("\0", "BadName"),
    ];
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        for (asked, expected) in cases {
            check(&ground, &files, asked, expected);
        }
    }
}

#[test]
fn ordinary_links_of_proc_are_followed() {
    let ground = ground();
    let own = format!("/proc/{}/status", std::process::id());
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        for path in ["/proc/self/status", "process/status"] {
            assert_eq!(files.resolve(Path::new(path)).unwrap().path, Path::new(&own));
        }
        assert!(read(&files, "/proc/self/status").unwrap().contains("Pid:"));
    }
}

#[test]
fn paths_of_any_length() {
    let ground = ground();
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        for (long, expected) in [
            ("a/".repeat(500_000), "BadName"),
            ("x".repeat(1 << 20), "BadName"),
            ("../".repeat(2_000), "BadName"),
            ("n".repeat(256), "BadName"),
        ] {
            let result = files.resolve(Path::new(&long));
            assert!(result.as_ref().unwrap_err().to_string().len() < 1_000);
            assert_eq!(error(result), expected, "{}…", &long[..8]);
        }
        let many_dots = format!("{}file", "./".repeat(2_000));
        assert_eq!(read(&files, many_dots).unwrap(), "content");
        assert!(!files.resolve(Path::new(&"n".repeat(255))).unwrap().exists);
    }
}

#[test]
fn non_utf8_names_resolve() {
    let ground = ground();
    let odd = OsStr::from_bytes(b"caf\xe9 \n\x1b[1m\xff");
    fs::write(ground.work("").join(odd), "odd").unwrap();
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        assert_eq!(read(&files, odd).unwrap(), "odd");
        let missing = OsStr::from_bytes(b"directory/\xff\xfe");
        assert!(!files.resolve(Path::new(missing)).unwrap().exists);
    }
}

#[test]
fn reading_agrees_with_resolving() {
    let ground = ground();
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        assert_eq!(read(&files, "chain").unwrap(), "content");
        assert_eq!(read(&files, "to_directory/deeper/../file").unwrap(), "below");
        assert_eq!(read(&files, "name (deleted)").unwrap(), "still here");
        // Policy decides about paths outside the workspace; the host opens any path that it gets.
        assert_eq!(read(&files, "out/secret").unwrap(), "secret");
        assert_eq!(error(read(&files, "new")), "NotFound");
        assert_eq!(error(read(&files, "directory")), "NotRegular");
        assert_eq!(error(read(&files, "/")), "NotRegular");
    }
}

#[test]
fn path_swapped_after_resolving_is_not_opened() {
    for lookup in LOOKUPS {
        let ground = ground();
        let files = ground.files(lookup);
        let [file, deep] =
            ["file", "directory/deeper/file"].map(|path| files.resolve(path.as_ref()).unwrap());
        fs::remove_file(ground.work("file")).unwrap();
        ground.link("../outside/secret", "work/file");
        fs::rename(ground.work("directory"), ground.work("moved")).unwrap();
        ground.link("moved", "work/directory");
        for path in [&file, &deep] {
            assert_eq!(error(files.open(path)), "Changed");
            assert_eq!(error(files.stat(path)), "Changed");
        }
        fs::remove_file(ground.work("directory")).unwrap();
        assert_eq!(error(files.open(&deep)), "NotFound");
        ground.put("work/directory", "");
        assert_eq!(error(files.open(&deep)), "NotADirectory");
    }
}

#[test]
fn forged_path_does_not_lead_outside() {
    let ground = ground();
    for lookup in LOOKUPS {
        let files = ground.files(lookup);
        for inside in
            ["../outside/secret", "out/secret", "/etc/passwd", "directory/../../outside/secret"]
        {
            let forged =
                Resolved { path: ground.work(inside), inside: Some(inside.into()), exists: true };
            assert_eq!(error(files.open(&forged)), "Changed", "{inside}");
        }
    }
}

#[test]
fn workspace_is_opened_by_its_real_path() {
    let ground = ground();
    ground.link("work", "by_link");
    for lookup in LOOKUPS {
        let files = LocalFiles::open_by(&ground.path("by_link"), lookup, Durability::Disk).unwrap();
        assert_eq!(files.workspace(), ground.path("work"));
        assert_eq!(read(&files, "file").unwrap(), "content");
        for (path, expected) in
            [("none", "NotFound"), ("work/file", "NotADirectory"), ("work/circle_a", "BadName")]
        {
            assert_eq!(
                error(LocalFiles::open_by(&ground.path(path), lookup, Durability::Disk)),
                expected,
                "{path}"
            );
        }
        let root = LocalFiles::open_by(Path::new("/"), lookup, Durability::Disk).unwrap();
        let etc = root.resolve(Path::new("etc")).unwrap();
        assert_eq!(
            (etc.path.as_path(), etc.inside.as_deref()),
            (Path::new("/etc"), Some(Path::new("etc")))
        );
        assert!(root.stat(&etc).is_ok());
    }
}

/// Components that form interesting paths in the workspace above.
fn component() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "file",
        "directory",
        "deeper",
        "to_file",
        "to_directory",
        "chain",
        "out",
        "secret",
        "work",
        "dangling",
        "in_absolute",
        "circle_a",
        "self",
        "new",
        "..",
        "..",
        ".",
        "",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Both ways of lookup agree with each other, and with the kernel about which paths exist.
    #[test]
    fn both_lookups_agree(paths in prop::collection::vec(prop::collection::vec(component(), 1..7), 32)) {
        let ground = ground();
        let [kernel, component] = LOOKUPS.map(|lookup| ground.files(lookup));
        for path in paths {
            let path = path.join("/");
            let path = Path::new(path.trim_start_matches('/'));
            let show = |found: Result<Resolved, _>| found.map_err(|error: windlass_core::FileError| super::name(&error.kind));
            let (a, b) = (show(kernel.resolve(path)), show(component.resolve(path)));
            prop_assert_eq!(&a, &b, "{}", path.display());
            match fs::canonicalize(ground.work("").join(path)) {
                Ok(real) => prop_assert_eq!(a.map(|found| found.path), Ok(real)),
                Err(_) => prop_assert!(a.is_err() || a.is_ok_and(|found| !found.exists)),
            }
        }
    }
}
