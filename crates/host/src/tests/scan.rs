//! Two scans of a workspace report the changes between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::TestWorkspace;
use super::staged::told;
use crate::Scan;

fn base() -> TestWorkspace {
    let ground = TestWorkspace::with(&[
        ("a", "a\n"),
        ("b/c", "c\n"),
        ("b/d/e", "e\n"),
        (".git/HEAD", "ref: refs/heads/main"),
        (".git/objects/00/1", "x"),
        (".git/lfs/objects/1", "x"),
        (".git/modules/m/HEAD", "x"),
        (".git/modules/m/objects/00/1", "x"),
        ("objects/HEAD", "x"),
        ("objects/objects/x", "x"),
        ("target/x", "x"),
        ("b/target/x", "x"),
    ]);
    ground.link("a", "work/link");
    ground
}

#[test]
fn changes_between_scans_are_reported() {
    type Case = (&'static str, &'static [&'static str]);
    let cases: &[Case] = &[
        ("true", &[]),
        ("cat a; ls -R", &[]),
        ("echo x > a", &["~ a 644"]),
        ("echo x >> b/c", &["~ b/c 644"]),
        ("touch a", &["~ a 644"]),
        ("chmod 755 a", &["a a 755"]),
        ("chmod 700 b", &["a b 700"]),
        ("ln a x", &["a a 644", "+ x 644"]),
        (
            "echo x > new; mkdir -p n/m; echo x > n/m/o",
            &["+ n/ 755", "+ n/m/ 755", "+ n/m/o 644", "+ new 644"],
        ),
        ("rm -r b/d a", &["- b/d/e", "- b/d", "- a"]),
        ("mv a b/a", &["- a", "+ b/a 644"]),
        ("mv b/d d", &["- b/d/e", "- b/d", "+ d/ 755", "+ d/e 644"]),
        ("rm a; mkdir a; echo x > a/x", &["~ a/ 755", "+ a/x 644"]),
        ("rm -r b/d; echo x > b/d", &["- b/d/e", "~ b/d 644"]),
        ("ln -sfn b link", &["~ link -> b"]),
        ("rm link; ln -s a link", &[]),
        ("rm link; echo x > link", &["~ link 644"]),
        ("mkfifo p", &[]),
        (
            "echo x > target/x; echo x > b/target/y; rm b/target/x",
            &["- b/target/x", "+ b/target/y 644"],
        ),
        ("echo x > .git/objects/00/2; echo x > .git/lfs/y; echo x > .git/modules/m/objects/y", &[]),
        (
            "echo x > .git/HEAD; echo x > .git/modules/m/HEAD",
            &["~ .git/HEAD 644", "~ .git/modules/m/HEAD 644"],
        ),
        ("echo x > objects/objects/x", &["~ objects/objects/x 644"]),
        (
            "rm -r -- *",
            &[
                "- objects/objects/x",
                "- objects/objects",
                "- objects/HEAD",
                "- objects",
                "- link",
                "- b/target/x",
                "- b/target",
                "- b/d/e",
                "- b/d",
                "- b/c",
                "- b",
                "- a",
            ],
        ),
    ];
    for (program, expected) in cases {
        let ground = base();
        let workspace = ground.path("work");
        let exclude = [workspace.join("target")];
        let before = Scan::of(&workspace, &exclude).unwrap();
        let run =
            Command::new("sh").arg("-ec").arg(program).current_dir(&workspace).output().unwrap();
        assert!(run.status.success(), "{program}: {}", String::from_utf8_lossy(&run.stderr));
        let changes = before.difference(&Scan::of(&workspace, &exclude).unwrap());
        let all: Vec<String> = changes.iter().map(|change| told(change, &workspace)).collect();
        assert_eq!(all, *expected, "{program}");
    }
}

#[test]
fn removed_file_is_reported_with_its_fingerprint() {
    let ground = base();
    let workspace = ground.path("work");
    let files = ground.files(crate::kernel::Lookup::Openat2);
    let seen = super::seen(&files, "a");
    let before = Scan::of(&workspace, &[]).unwrap();
    fs::remove_file(ground.work("a")).unwrap();
    let changes = before.difference(&Scan::of(&workspace, &[]).unwrap());
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].before, Some(seen));
}

#[test]
fn a_workspace_that_is_not_there_is_an_error() {
    let error = Scan::of(Path::new("/nowhere/at/all"), &[PathBuf::new()]).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}
