//! The index of a survey: it saves work, and no damage to it changes a result.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::TestWorkspace;
use super::survey::{
    MaskByName, RULE, TAG, much_later, names, next_stamp, survey_with_index, survey_without_index,
};
use crate::survey::{SurveyEffort, survey, survey_at};

/// Creates a tree of `a`, `b` and five more directories that are walked.
fn seven_directories() -> TestWorkspace {
    TestWorkspace::with(&[
        (".gitignore", "target\n"),
        (".git/info/exclude", ""),
        ("a/.aiexclude", "x\n"),
        ("a/x", ""),
        ("a/b/c/.npmrc", "registry=r"),
        ("d/target/CACHEDIR.TAG", ""),
        ("d/build/CACHEDIR.TAG", ""),
        ("d/e/", ""),
    ])
}

#[test]
fn only_changed_directories_are_listed() {
    type Change = fn(&TestWorkspace);
    let cases: &[(&str, usize, Change)] = &[
        ("nothing", 0, |_| {}),
        ("a new file", 1, |ground| ground.put("work/a/b/new", "")),
        ("a new directory", 2, |ground| ground.put("work/a/b/new/", "")),
        ("a file rewritten", 0, |ground| ground.put("work/a/x", "other")),
        ("a file in a build directory", 0, |ground| ground.put("work/d/target/x", "")),
        ("a directory removed", 1, |ground| fs::remove_dir(ground.work("d/e")).unwrap()),
        // Lists its parent, itself, and the directory below it.
        ("a directory renamed", 3, |ground| {
            fs::rename(ground.work("a/b"), ground.work("a/z")).unwrap();
        }),
        ("a directory replaced by a link", 1, |ground| {
            fs::remove_dir(ground.work("d/e")).unwrap();
            ground.link("../a", "work/d/e");
        }),
        ("`.gitignore` rewritten", 7, |ground| ground.put("work/.gitignore", "build\n")),
        ("`.git/info/exclude` rewritten", 6, |ground| {
            ground.put("work/.git/info/exclude", "build");
        }),
        ("`.aiexclude` rewritten", 3, |ground| ground.put("work/a/.aiexclude", "y\n")),
        ("`.aiexclude` added", 2, |ground| ground.put("work/a/b/.aiexclude", "x\n")),
        ("`.npmrc` rewritten", 1, |ground| ground.put("work/a/b/c/.npmrc", "_auth=x")),
        ("an ignore file in a possible build directory", 1, |ground| {
            ground.put("work/d/build/.gitignore", "*\n");
        }),
        // The file has no meaning in a repository.
        ("`CACHEDIR.TAG` rewritten", 0, |ground| ground.put("work/d/build/CACHEDIR.TAG", TAG)),
    ];
    for (name, listed, change) in cases {
        let ground = seven_directories();
        let (root, index) = (ground.path("work"), ground.path("outside/index"));
        assert_eq!(survey_with_index(&root, &index).1, SurveyEffort { listed: 7, saved: true });
        next_stamp(&ground);
        change(&ground);
        let (found, effort) = survey_with_index(&root, &index);
        assert_eq!(found, survey_without_index(&ground), "{name}");
        assert_eq!(effort, SurveyEffort { listed: *listed, saved: *listed > 0 }, "{name}");
        assert_eq!(
            survey_with_index(&root, &index),
            (found, SurveyEffort { listed: 0, saved: false }),
            "{name}"
        );
    }
}

#[test]
fn recent_stamp_is_not_trusted() {
    let ground = seven_directories();
    let (root, index) = (ground.path("work"), ground.path("outside/index"));
    let stamp = |path: &Path| {
        let found = fs::symlink_metadata(path).unwrap();
        found.ctime() * 1_000_000_000 + found.ctime_nsec()
    };
    let youngest = || stamp(&ground.work("a"));
    let at = |clock: &dyn Fn() -> i64| survey_at(&root, &RULE, &names(), &index, clock).unwrap().1;
    assert_eq!(at(&youngest).listed, 7);
    assert_eq!(at(&much_later).listed, 7, "none of them is trusted");
    assert_eq!(at(&much_later).listed, 0);
    // With the real clock the number of listed directories is not predictable, but the result is the same.
    assert_eq!(survey(&root, &RULE, &names(), &index).unwrap(), survey_without_index(&ground));
}

#[test]
fn index_is_valid_only_for_its_rule_names_and_tree() {
    let ground = seven_directories();
    ground.put("second/.env", "");
    let (root, index) = (ground.path("work"), ground.path("outside/index"));
    let listed = |root: &Path, rule: u64, names: &[String]| {
        let rule = MaskByName { fingerprint: rule };
        survey_at(root, &rule, names, &index, &much_later).unwrap().1.listed
    };
    assert_eq!(listed(&root, 1, &names()), 7);
    assert_eq!(listed(&root, 1, &names()), 0);
    assert_eq!(listed(&root, 2, &names()), 7);
    assert_eq!(listed(&root, 2, &[]), 8, "with `d/target`");
    assert_eq!(listed(&ground.path("second"), 2, &[]), 1);
    assert_eq!(listed(&root, 2, &[]), 8);
}

#[test]
fn a_damaged_index_is_not_used() {
    let ground = seven_directories();
    let (root, index) = (ground.path("work"), ground.path("outside/index"));
    let (expected, _) = survey_with_index(&root, &index);
    let good = fs::read(&index).unwrap();
    let mut damaged: Vec<Vec<u8>> =
        (0..good.len()).step_by(7).map(|at| good[..at].into()).collect();
    damaged.extend((0..good.len()).step_by(5).map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    }));
    damaged.push([good.as_slice(), b"\0"].concat());
    damaged.push(vec![0xff; 4096]);
    for bytes in damaged {
        fs::write(&index, &bytes).unwrap();
        assert_eq!(
            survey_with_index(&root, &index),
            (expected.clone(), SurveyEffort { listed: 7, saved: true })
        );
        assert_eq!(fs::read(&index).unwrap(), good);
    }
}

#[test]
fn index_is_private_and_leaves_no_temporary_file() {
    let ground = seven_directories();
    let (root, index) = (ground.path("work"), ground.path("outside/new/index"));
    survey_with_index(&root, &index);
    assert_eq!(fs::metadata(&index).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(ground.names("outside/new"), ["index"]);
    // An index that cannot be written is not an error.
    ground.put("outside/other/index/x", "");
    let effort = survey_with_index(&root, &ground.path("outside/other/index")).1;
    assert_eq!(effort, SurveyEffort { listed: 7, saved: false });
    assert_eq!(ground.names("outside/other"), ["index"]);
    assert!(survey(&ground.path("nowhere"), &RULE, &names(), &index).is_err());
}

#[test]
fn concurrent_surveys_agree() {
    let ground = seven_directories();
    let (root, index) = (ground.path("work"), ground.path("outside/state/index"));
    let expected = survey_without_index(&ground);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (root, index, expected) = (&root, &index, &expected);
            scope.spawn(move || {
                for round in 0..50 {
                    // Each survey uses one of two rules, so that all of them write all the time.
                    let rule = MaskByName { fingerprint: (number + round) % 2 };
                    let found = survey_at(root, &rule, &names(), index, &much_later).unwrap().0;
                    assert_eq!(found, *expected);
                }
            });
        }
    });
    assert_eq!(ground.names("outside/state"), ["index"]);
    survey_with_index(&root, &index);
    assert_eq!(
        survey_with_index(&root, &index),
        (expected, SurveyEffort { listed: 0, saved: false })
    );
}

#[test]
fn a_tree_may_be_deeper_than_a_path() {
    let ground = TestWorkspace::new();
    let name = "d".repeat(250);
    let mut at = fs::File::open(ground.path("work")).unwrap();
    for _ in 0..20 {
        rustix::fs::mkdirat(&at, &name, 0o700.into()).unwrap();
        at = crate::kernel::open_child(
            std::os::fd::AsFd::as_fd(&at),
            name.as_ref(),
            crate::kernel::FOR_LISTING,
        )
        .unwrap()
        .into();
    }
    rustix::fs::mkdirat(&at, ".env", 0o700.into()).unwrap();
    let (root, index) = (ground.path("work"), ground.path("outside/index"));
    let (found, effort) = survey_with_index(&root, &index);
    assert_eq!((found.masked.len(), effort.listed), (1, 21));
    assert_eq!(survey_with_index(&root, &index), (found, SurveyEffort { listed: 0, saved: false }));
}

/// Prints how long surveys of 10,000 files in 1,000 directories take: `cargo nextest run -p windlass-host --run-ignored only
/// how_long --no-capture`.
#[test]
#[expect(clippy::print_stdout, reason = "printing is all it does")]
#[ignore = "a measurement, which asserts nothing about time"]
fn how_long_surveys_take() {
    let ground = TestWorkspace::new();
    for number in 0..10_000 {
        let directory = number % 1_000;
        let path = format!("work/{}/{}/{directory}/{number}.rs", directory % 10, directory % 100);
        ground.put(&path, "");
    }
    ground.put("work/1/1/1/.env", "");
    ground.put("work/.gitignore", "target\n");
    let (root, index) = (ground.path("work"), ground.path("outside/index"));
    let time = |what: &str, index: &Path| {
        let start = std::time::Instant::now();
        let (found, effort) = survey_with_index(&root, index);
        println!(
            "{what}: {:?}, {} listed, {} masked",
            start.elapsed(),
            effort.listed,
            found.masked.len()
        );
    };
    time("cold", &index);
    for _ in 0..30 {
        time("warm", &index);
    }
    println!("index: {} bytes", fs::metadata(&index).unwrap().len());
}
