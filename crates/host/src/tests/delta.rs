//! A delta reports exactly what a program changed on a stage, in an order in which the changes can be applied.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use windlass_core::{
    Alteration, ChangedTo, ContentSource, ExpectedState, FileKind, Files, ProcessChange, Resolved,
    TargetState,
};

use super::staged::{described, run, told};
use super::{TestWorkspace, place};
use crate::{Delta, Durability, LocalFiles, PASS_THROUGH, Stage, delta};

fn base() -> TestWorkspace {
    let ground = TestWorkspace::with(&[
        ("a", "a\n"),
        ("b/c", "c\n"),
        ("b/d/e", "e\n"),
        ("b/d/f", "f\n"),
        ("empty/", ""),
        ("run", "#!/bin/sh\n"),
    ]);
    ground.link("a", "work/link");
    ground.link("b", "work/to_b");
    ground
}

fn pass() -> Vec<String> {
    PASS_THROUGH.map(str::to_owned).to_vec()
}

fn after(ground: &TestWorkspace, program: &str) -> (Stage, Delta) {
    let stage = Stage::create(&ground.path("stages")).unwrap();
    run(&stage, &ground.work(""), program);
    let delta = read(ground, &stage);
    (stage, delta)
}

fn read(ground: &TestWorkspace, stage: &Stage) -> Delta {
    delta(stage, &workspace(ground), stage.created(), &pass()).unwrap()
}

/// Returns the path of the workspace without a final slash.
fn workspace(ground: &TestWorkspace) -> PathBuf {
    ground.path("work")
}

fn check(program: &str, expected: &[&str]) {
    let ground = base();
    let before = described(&workspace(&ground));
    let (_stage, delta) = after(&ground, program);
    let changes = delta.changes.iter().map(|change| told(change, &workspace(&ground)));
    let built = delta.built.iter().map(|path| format!("built {}", inside(&ground, path)));
    let notes = delta.notes.iter().map(|note| format!("note: {note}"));
    let all: Vec<String> = changes.chain(built).chain(notes).collect();
    assert_eq!(all, expected, "{program}");
    assert!(delta.conflicts.is_empty(), "{program}: {:?}", delta.conflicts);
    assert_eq!(described(&workspace(&ground)), before, "the workspace is as it was");
    check_before(&ground, &delta.changes);
}

fn inside(ground: &TestWorkspace, path: &Path) -> String {
    path.strip_prefix(workspace(ground)).unwrap().display().to_string()
}

/// Checks that each reported fingerprint from before the change is the current one in the workspace.
fn check_before(ground: &TestWorkspace, changes: &[ProcessChange]) {
    let files = ground.files(crate::kernel::Lookup::Openat2);
    for change in changes {
        // Nothing exists below a path that is a link in the workspace.
        let found = files.inspect(&place(&files, inside(ground, &change.path))).ok().flatten();
        let now = found.map(|found| found.stat.fingerprint);
        assert_eq!(change.before, now, "{}", change.path.display());
    }
}

#[test]
fn changes_of_a_program_are_reported() {
    type Case = (&'static str, &'static [&'static str]);
    let cases: &[Case] = &[
        ("true", &[]),
        ("cat a b/c; ls -lR >/dev/null", &[]),
        ("echo x > new", &["+ new 644 x\n"]),
        ("echo x > new; rm new", &[]),
        ("echo x > a", &["~ a 644 x\n"]),
        ("echo x >> b/d/e", &["~ b/d/e 644 e\nx\n"]),
        (": >> a", &[]),
        ("exec 3<>a", &[]),
        (": > a", &["~ a 644 "]),
        ("cp -p a x; mv x a", &[]),
        ("cp a x; mv x a", &["a a modified"]),
        ("touch a", &["a a modified"]),
        ("chmod 755 run", &["a run 755"]),
        ("chmod 755 run; chmod 644 run", &[]),
        (
            "chmod 4755 run; echo x >> run; chmod 4755 run",
            &[
                "~ run 755 #!/bin/sh\nx\n",
                "note: run is not made set-user-ID or set-group-ID: no program may do that",
            ],
        ),
        (
            "chmod 2711 run",
            &[
                "a run 711",
                "note: run is not made set-user-ID or set-group-ID: no program may do that",
            ],
        ),
        (
            "cp run new; chmod 6755 new",
            &[
                "+ new 755 #!/bin/sh\n",
                "note: new is not made set-user-ID or set-group-ID: no program may do that",
            ],
        ),
        ("mkdir new; chmod 2755 new", &["+ new/ 2755"]),
        ("chmod 600 a; echo x > a", &["~ a 600 x\n"]),
        ("rm a", &["- a"]),
        ("rm -rf b", &["- b/d/f", "- b/d/e", "- b/d", "- b/c", "- b"]),
        ("rm -rf b/d", &["- b/d/f", "- b/d/e", "- b/d"]),
        (
            "rm -rf *",
            &[
                "- to_b", "- run", "- link", "- empty", "- b/d/f", "- b/d/e", "- b/d", "- b/c",
                "- b", "- a",
            ],
        ),
        ("rmdir empty", &["- empty"]),
        ("mkdir -p x/y/z", &["+ x/ 755", "+ x/y/ 755", "+ x/y/z/ 755"]),
        ("mkdir -m 700 x; echo 1 > x/y", &["+ x/ 700", "+ x/y 644 1\n"]),
        ("chmod 700 b", &["a b 700"]),
        ("chmod 555 b; echo x > b/new", &["+ b/new 644 x\n", "a b 555"]),
        ("chmod 700 b; echo x > b/new; rm b/c", &["a b 700", "- b/c", "+ b/new 644 x\n"]),
        ("touch b", &[]),
        ("mv a z", &["- a", "+ z 644 a\n"]),
        ("mv a b/c", &["- a", "~ b/c 644 a\n"]),
        (
            "mv b z",
            &[
                "- b/d/f",
                "- b/d/e",
                "- b/d",
                "- b/c",
                "- b",
                "+ z/ 755",
                "+ z/c 644 c\n",
                "+ z/d/ 755",
                "+ z/d/e 644 e\n",
                "+ z/d/f 644 f\n",
            ],
        ),
        ("mv a x; mv x a", &[]),
        ("mv empty other", &["- empty", "+ other/ 755"]),
        ("ln -s nowhere x", &["+ x -> nowhere"]),
        ("ln -sfn b link", &["~ link -> b"]),
        ("rm link; ln -s a link", &["a link modified"]),
        ("touch -h -d @1000000000 link", &["a link modified"]),
        ("rm link; echo x > link", &["~ link 644 x\n"]),
        ("rm a; ln -s b a", &["~ a -> b"]),
        ("rm a; mkdir a; echo x > a/x", &["~ a/ 755", "+ a/x 644 x\n"]),
        ("rm to_b; mkdir to_b; echo x > to_b/c", &["~ to_b/ 755", "+ to_b/c 644 x\n"]),
        ("rm -r b/d; echo x > b/d", &["- b/d/f", "- b/d/e", "~ b/d 644 x\n"]),
        ("rm -r b; ln -s empty b", &["- b/d/f", "- b/d/e", "- b/d", "- b/c", "~ b -> empty"]),
        ("rmdir empty; echo x > empty", &["~ empty 644 x\n"]),
        ("rm -r b; mkdir b", &["- b/d/f", "- b/d/e", "- b/d", "- b/c"]),
        ("rm -r b; mkdir -m 700 b", &["a b 700", "- b/d/f", "- b/d/e", "- b/d", "- b/c"]),
        (
            "rm -r b; mkdir -p b/d; echo x > b/d/e; echo n > b/d/n",
            &["- b/d/f", "- b/c", "~ b/d/e 644 x\n", "+ b/d/n 644 n\n"],
        ),
        ("rm -r b/d; mkdir b/d; echo e > b/d/e", &["- b/d/f", "a b/d/e modified"]),
        ("rm -r b; mkdir b; echo x > b/d", &["- b/d/f", "- b/d/e", "- b/c", "~ b/d 644 x\n"]),
        (
            "echo x > x; ln x y; mkdir s; ln x s/z",
            &["+ s/ 755", "+ s/z 644 x\n", "+ x = s/z", "+ y = s/z"],
        ),
        ("ln a x", &["+ x = a"]),
        ("ln a 0", &["+ 0 = a"]),
        ("chmod 600 a; ln a 0; ln a x", &["+ 0 600 a\n", "~ a = 0", "+ x = 0"]),
        ("ln -f a run", &["~ run = a"]),
        ("cp -p a x; ln x y; mv x a", &["+ y = a"]),
        ("echo x >> a; ln a x", &["~ a 644 a\nx\n", "+ x = a"]),
        ("echo x > x; ln -f x a; ln x y", &["~ a 644 x\n", "+ x = a", "+ y = a"]),
        ("echo x > x; chmod 0 x; ln x y", &["+ x 0 x\n", "+ y = x"]),
        ("echo x > x; chmod 0 x; ln x y; ln -f x a", &["~ a 0 x\n", "+ x = a", "+ y = a"]),
        ("mkfifo p", &["note: p is a FIFO, which is left out"]),
        ("rm a; mkfifo a", &["- a", "note: a is a FIFO, which is left out"]),
        (
            "rm -r b; mkfifo b",
            &[
                "- b/d/f",
                "- b/d/e",
                "- b/d",
                "- b/c",
                "- b",
                "note: b is a FIFO, which is left out",
            ],
        ),
        (
            "mkdir node_modules; echo x > node_modules/y; echo 1 > z",
            &["+ z 644 1\n", "built node_modules"],
        ),
        ("mkdir -p n/.venv/bin", &["+ n/ 755", "built n/.venv"]),
        ("mkdir target; echo x > target/y", &["+ target/ 755", "+ target/y 644 x\n"]),
        (
            "mkdir -p n/target; echo x > n/target/y; echo target > n/.gitignore",
            &["+ n/ 755", "+ n/.gitignore 644 target\n", "built n/target"],
        ),
        (
            "mkdir build dist; echo 'Signature: 8a477f597d28d172789f06886806bc55' > build/CACHEDIR.TAG; echo no > dist/CACHEDIR.TAG",
            &["+ dist/ 755", "+ dist/CACHEDIR.TAG 644 no\n", "built build"],
        ),
        (
            "rm a; mkdir a; ln -s a target; echo x > node_modules",
            &["~ a/ 755", "+ node_modules 644 x\n", "+ target -> a"],
        ),
    ];
    for (program, expected) in cases {
        check(program, expected);
    }
}

/// Existing set-id bits stay with the content that they were given to, and with nothing else.
#[test]
fn set_id_bits_stay_only_on_unchanged_content() {
    let note = "run is not made set-user-ID or set-group-ID: no program may do that";
    for (program, expected, notes) in [
        ("chmod 4711 run", "a run 4711", &[][..]),
        ("chmod 6755 run", "", &[note]),
        ("chmod 755 run", "a run 755", &[]),
        ("echo x >> run; chmod 4755 run", "~ run 755 #!/bin/sh\nx\n", &[note]),
    ] {
        let ground = base();
        fs::set_permissions(ground.work("run"), fs::Permissions::from_mode(0o4755)).unwrap();
        let (_stage, delta) = after(&ground, program);
        let changes = delta.changes.iter().map(|change| told(change, &workspace(&ground)));
        assert_eq!(changes.collect::<String>(), expected, "{program}");
        assert_eq!(delta.notes, notes, "{program}");
    }
}

#[test]
fn delta_names_may_be_any_bytes() {
    let ground = base();
    let odd = |name: &[u8]| workspace(&ground).join(OsStr::from_bytes(name));
    fs::write(odd(b"\xff\n old"), "x").unwrap();
    let (_stage, delta) = after(
        &ground,
        r#"rm "$(printf '\377\n old')"; mkdir "$(printf 'd\200')"; echo 1 > "$(printf 'd\200/ \t\376')""#,
    );
    let paths: Vec<PathBuf> = delta.changes.iter().map(|change| change.path.clone()).collect();
    assert_eq!(paths, [odd(b"\xff\n old"), odd(b"d\x80"), odd(b"d\x80/ \t\xfe")]);
}

#[test]
fn change_in_the_workspace_meanwhile_is_a_conflict() {
    type Case<'a> = (&'a str, &'a dyn Fn(&Path), &'a [&'a str]);
    let swap = |work: &Path| {
        fs::rename(work.join("b"), work.with_file_name("old")).unwrap();
        fs::rename(work.with_file_name("other"), work.join("b")).unwrap();
    };
    let cases: &[Case<'_>] = &[
        ("echo x > a", &|work| fs::write(work.join("a"), "theirs").unwrap(), &["a"]),
        ("rm a", &|work| fs::write(work.join("a"), "theirs").unwrap(), &["a"]),
        ("echo x > a", &|work| fs::write(work.join("b/c"), "theirs").unwrap(), &[]),
        (
            "touch a",
            &|work| fs::set_permissions(work.join("a"), PermissionsExt::from_mode(0o600)).unwrap(),
            &["a"],
        ),
        ("echo x > new", &|work| fs::write(work.join("new"), "theirs").unwrap(), &["new"]),
        ("rm -r b", &|work| fs::write(work.join("b/d/new"), "theirs").unwrap(), &["b/d/new"]),
        ("rm -r b", &|work| fs::remove_file(work.join("b/d/e")).unwrap(), &[]),
        ("rm -r b; mkdir b", &|work| symlink("a", work.join("b/new")).unwrap(), &["b/new"]),
        ("echo x > b/d/e", &|work| fs::remove_dir_all(work.join("b")).unwrap(), &["b"]),
        ("rm a", &|work| fs::remove_file(work.join("a")).unwrap(), &[]),
        ("chmod 700 b", &|work| fs::write(work.join("b/new"), "theirs").unwrap(), &[]),
        (": >> a", &|_| {}, &[]),
        // A moved file keeps its modification time, and everything below a moved directory keeps its change times, too.
        ("echo x > a", &|work| fs::rename(work.join("run"), work.join("a")).unwrap(), &["a"]),
        ("rm a", &|work| fs::rename(work.join("run"), work.join("a")).unwrap(), &["a"]),
        ("echo x > b/c", &swap, &["b"]),
        ("rm b/c", &swap, &["b"]),
        ("rm -r b", &swap, &["b"]),
        ("rm -r b; mkdir b", &swap, &["b"]),
        ("rm -r b; echo x > b", &swap, &["b"]),
        ("chmod 700 b/d", &swap, &["b"]),
        (": >> b/c", &swap, &[]),
        ("ln a x", &|work| fs::write(work.join("a"), "theirs").unwrap(), &["a"]),
    ];
    for (program, theirs, expected) in cases {
        let ground = base();
        let mut copied = Command::new("cp");
        copied.args(["-a", "work/b", "other"]).current_dir(ground.path(""));
        assert!(copied.status().unwrap().success());
        wait_for_another_stamp(&ground, ctime(&ground.path("other")));
        let stage = Stage::create(&ground.path("stages")).unwrap();
        run(&stage, &workspace(&ground), program);
        wait_for_another_stamp(&ground, stage.created());
        theirs(&workspace(&ground));
        let delta = read(&ground, &stage);
        let conflicts: Vec<_> = delta.conflicts.iter().map(|path| inside(&ground, path)).collect();
        assert_eq!(conflicts, *expected, "{program}");
    }
}

/// Waits until a new change time is later than `than`. Time stamps are some milliseconds coarse.
fn wait_for_another_stamp(ground: &TestWorkspace, than: i64) {
    loop {
        ground.put("stamp", "x");
        if ctime(&ground.path("stamp")) > than {
            return;
        }
    }
}

fn ctime(path: &Path) -> i64 {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).unwrap();
    metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec()
}

#[test]
fn special_files_are_not_removed() {
    type Case = (&'static str, &'static [&'static str], usize);
    let cases: &[Case] = &[
        ("rm -r b", &["- b/d/f", "- b/d/e", "- b/c"], 1),
        ("rm -r b; mkdir b", &["- b/d/f", "- b/d/e", "- b/c"], 1),
        ("rm b/d/fifo", &[], 1),
        ("rm b/d/fifo; echo x > b/d/fifo", &[], 1),
        ("rm -r b; echo x > b", &[], 1),
        ("echo x > b/c", &["~ b/c 644 x\n"], 0),
    ];
    for (program, expected, notes) in cases {
        let ground = base();
        rustix::fs::mkfifoat(rustix::fs::CWD, ground.work("b/d/fifo"), rustix::fs::Mode::RWXU)
            .unwrap();
        let (_stage, delta) = after(&ground, program);
        let all: Vec<_> =
            delta.changes.iter().map(|change| told(change, &workspace(&ground))).collect();
        assert_eq!(all, *expected, "{program}");
        assert_eq!(delta.notes.len(), *notes, "{program}: {:?}", delta.notes);
    }
}

#[test]
fn extended_attributes_are_reported() {
    let ground = base();
    let set = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    set(&ground.work("a"), "user.old", b"1");
    set(&ground.work("b"), "user.old", b"1");
    let (stage, _) = after(&ground, "chmod 600 a; chmod 700 b; echo x > new; echo y >> run");
    // Sets attributes on the stage as a program there could have done.
    for name in ["a", "b", "new", "run"] {
        set(&stage.upper().join(name), "user.new", b"2");
    }
    rustix::fs::removexattr(stage.upper().join("a"), "user.old").unwrap();
    let delta = read(&ground, &stage);
    let all: Vec<_> =
        delta.changes.iter().map(|change| told(change, &workspace(&ground))).collect();
    let expected = [
        "a b 700 user.new=2 user.old=1",
        "a a 600 user.new=2",
        "+ new 644 user.new=2 x\n",
        "~ run 644 user.new=2 #!/bin/sh\ny\n",
    ];
    assert_eq!(all, expected);
    assert_eq!(delta.notes, [""; 0]);
    let files = ground.files(crate::kernel::Lookup::Openat2);
    apply(&files, &delta);
    let has = |path: &str, name: &str| {
        rustix::fs::getxattr(ground.work(path), name, &mut [0_u8; 8][..]).is_ok()
    };
    for (path, old, new) in [("a", false, true), ("b", true, true), ("run", false, true)] {
        assert_eq!((has(path, "user.old"), has(path, "user.new")), (old, new), "{path}");
    }
}

#[test]
fn a_redirected_directory_is_refused() {
    let ground = base();
    let (stage, _) = after(&ground, "mkdir x");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(stage.upper().join("x"), "user.overlay.redirect", b"/b", flags).unwrap();
    let refused = delta(&stage, &workspace(&ground), stage.created(), &[]).unwrap_err();
    assert!(refused.to_string().contains("redirect_dir"), "{refused}");
}

/// Applies the changes one after the other, as a commit does.
fn apply(files: &LocalFiles, delta: &Delta) {
    let resolved = |path: &Path| place(files, path.strip_prefix(files.workspace()).unwrap());
    for change in &delta.changes {
        let path = resolved(&change.path);
        let alter = |expect, to| {
            let alteration = Alteration { expect, to, temporary: None };
            files.alter(&path, &alteration).unwrap_or_else(|error| panic!("{error}\n{delta:#?}"));
        };
        let other: Resolved;
        let to = match &change.to {
            ChangedTo::File(content, attributes) => TargetState::File {
                content: ContentSource::At(content),
                attributes: Some(attributes),
            },
            ChangedTo::Attributes(attributes) => TargetState::Attributes(attributes),
            ChangedTo::Linked(with) => {
                other = resolved(with);
                let seen = files.inspect(&other).unwrap().unwrap().stat.fingerprint;
                TargetState::Linked { with: &other, seen }
            }
            ChangedTo::Symlink(target, _) => TargetState::Symlink(target),
            ChangedTo::Directory(attributes) => {
                TargetState::Directory { attributes: Some(attributes) }
            }
            ChangedTo::Nothing => TargetState::Nothing,
        };
        let there = files.inspect(&path).unwrap();
        let mut expect = change.before.map_or(ExpectedState::Absent, ExpectedState::Same);
        let kind = match to {
            TargetState::File { .. } | TargetState::Linked { .. } => Some(FileKind::File),
            TargetState::Symlink(_) => Some(FileKind::Symlink),
            TargetState::Directory { .. } => Some(FileKind::Directory),
            _ => None,
        };
        if there.is_some_and(|there| kind.is_some_and(|kind| there.stat.kind != kind)) {
            alter(expect, TargetState::Nothing);
            expect = ExpectedState::Absent;
        }
        alter(expect, to);
    }
}

fn path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a", "b", "b/c", "b/d", "b/d/e", "b/d/n", "empty", "empty/x", "link", "to_b", "n", "n/m",
        "n/m/o", "run",
    ])
}

fn operation() -> impl Strategy<Value = String> {
    let two = |command: &'static str| {
        (path(), path()).prop_map(move |(one, other)| format!("{command} {one} {other}"))
    };
    let one = |command: &'static str| path().prop_map(move |path| format!("{command} {path}"));
    prop_oneof![
        one("echo one >"),
        one("echo two >>"),
        one("rm -f"),
        one("rm -rf"),
        one("rmdir"),
        one("mkdir"),
        one("mkdir -p"),
        one("touch"),
        one("chmod 600"),
        one("chmod 755"),
        one("chmod 0"),
        two("mv -f"),
        two("mv -fT"),
        // In an overlay the hard links of a file have different inodes, so `cp` does not notice that it copies a file onto itself.
        two("cp -r --remove-destination")
            .prop_filter("a copy into itself depends on the order of names", |text| {
                is_target_outside_source(text)
            }),
        two("ln -f"),
        two("ln -sfn"),
        one("rm -rf b; mkdir -p b/d; echo three >"),
    ]
}

/// Returns whether the target of a command is not inside its source. The link `to_b` leads to `b`.
fn is_target_outside_source(command: &str) -> bool {
    let real = |name: &str| Path::new(if name == "to_b" { "b" } else { name }).to_owned();
    let mut words = command.split(' ').rev();
    let (to, from) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    !real(to).starts_with(real(from))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Running a program on a stage and applying its changes has the same result as running it directly.
    #[test]
    fn applied_delta_equals_direct_run(operations in prop::collection::vec(operation(), 1..12)) {
        let ground = base();
        let twin = ground.path("twin");
        let copied = Command::new("cp").arg("-a").arg(workspace(&ground)).arg(&twin).status().unwrap();
        prop_assert!(copied.success());
        let program = format!("exec 2>/dev/null\n{}\ntrue", operations.join("\n"));
        prop_assert!(Command::new("sh").arg("-c").arg(&program).current_dir(&twin).status().unwrap().success());

        let (stage, delta) = after(&ground, &program);
        prop_assert!(delta.conflicts.is_empty() && delta.notes.is_empty());
        check_before(&ground, &delta.changes);
        let files = LocalFiles::open_by(&workspace(&ground), crate::kernel::Lookup::Openat2, Durability::Kernel).unwrap();
        apply(&files, &delta);
        prop_assert_eq!(described(&workspace(&ground)), described(&twin), "{}\n{:#?}", program, delta);
        drop(stage);
        prop_assert!(ground.names("stages").is_empty());
    }
}

/// A tree can be deeper than a path can be long; nothing below that depth can be copied into the workspace.
#[test]
fn too_long_path_is_refused_with_its_beginning() {
    let ground = base();
    let deep = "import os; n = 'd' * 200\nfor _ in range(100): os.mkdir(n); os.chdir(n)";
    let stage = Stage::create(&ground.path("stages")).unwrap();
    run(&stage, &ground.work(""), &format!("python3 -c \"{deep}\""));
    let error = delta(&stage, &workspace(&ground), stage.created(), &pass()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("below ddd") && text.contains("too long to be kept"), "{text}");
    assert!(text.len() < 400, "{text}");
}
