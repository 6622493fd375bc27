//! On random trees with random ignore files a walk shows the same paths as ripgrep's walk.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use windlass_core::WalkOptions;

use super::walk::shown;
use super::{LOOKUPS, TestWorkspace};

/// A file: its directories, its name, and its content if it is an ignore file.
type File = (Vec<&'static str>, &'static str, Vec<String>);

fn directory() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "src", "target", ".config", "a.d"])
}

fn file_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a", "b", "main.rs", "x.o", "y.log", "target", ".hidden", "src", "a b", "[x]", "#c",
    ])
}

fn ignore_file() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![".gitignore", ".ignore", ".rgignore"])
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a", "b", "src", "target", "*.rs", "*.o", "*", "**", "?", ".*", "a*", "[ab]", "x.{o,a}",
        "main.rs", "\\#c", "a b",
    ]);
    let parts = prop::collection::vec(part, 1..3).prop_map(|parts| parts.join("/"));
    let before = prop::sample::select(vec!["", "", "", "!", "/", "!/", "**/", "#"]);
    let after = prop::sample::select(vec!["", "", "", "/", "/**", " ", "\r"]);
    (before, parts, after).prop_map(|(before, parts, after)| format!("{before}{parts}{after}"))
}

fn file() -> impl Strategy<Value = File> {
    let directories = || prop::collection::vec(directory(), 0..4);
    prop_oneof![
        3 => (directories(), file_name(), Just(Vec::new())),
        1 => (directories(), ignore_file(), prop::collection::vec(pattern(), 1..4)),
    ]
}

fn build(files: &[File]) -> TestWorkspace {
    let ground = TestWorkspace::new();
    for (directories, name, lines) in files {
        let directory = ground.work(&directories.join("/"));
        // Skipped if an earlier file or directory is in the way.
        if std::fs::create_dir_all(&directory).is_ok() && !directory.join(name).is_dir() {
            std::fs::write(directory.join(name), lines.join("\n")).unwrap();
        }
    }
    ground
}

fn paths_by_ripgrep(ground: &TestWorkspace, root: &str, ignoring: bool) -> BTreeSet<String> {
    let root = ground.work(root);
    let mut builder = ignore::WalkBuilder::new(&root);
    builder.standard_filters(ignoring).hidden(false).require_git(false).git_global(false);
    if ignoring {
        builder.add_custom_ignore_filename(".rgignore");
    }
    let entries = builder.build().map(Result::unwrap).filter(|entry| entry.depth() > 0);
    entries
        .map(|entry| {
            let sign = if entry.file_type().unwrap().is_dir() { "/" } else { "" };
            format!("{}{sign}", entry.path().strip_prefix(&root).unwrap().display())
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_files_as_ripgrep(files in prop::collection::vec(file(), 1..24), ignoring in prop::bool::weighted(0.9)) {
        let ground = build(&files);
        let roots: Vec<String> = std::iter::once(String::new())
            .chain(files.iter().map(|(directories, ..)| directories.join("/")).take(2))
            .collect();
        for root in roots {
            if !ground.work(&root).is_dir() {
                continue;
            }
            let expected = paths_by_ripgrep(&ground, &root, ignoring);
            for (lookup, threads) in LOOKUPS.into_iter().zip([1, 2]) {
                let options = WalkOptions {
                    max_depth: usize::MAX,
                    ignore_files: ignoring,
                    version_control: false,
                    threads,
                    hidden: &|_: &Path| false,
                    left_out: &|_, _| {},
                    cancelled: &|| false,
                };
                let (paths, report) = shown(&ground.files(lookup), &root, &options);
                prop_assert!(report.notes.is_empty());
                prop_assert_eq!(paths.iter().cloned().collect::<BTreeSet<_>>(), expected.clone(), "{}", root);
                prop_assert_eq!(paths.len(), expected.len());
            }
        }
    }
}
