//! Build directories: recognized by more than their name, and merged into the workspace as the program left them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_core::{ApprovalId, CallId, CommitState, StageStorage as _};

use super::TestWorkspace;
use super::staged::{described, run};
use super::survey::survey_without_index;
use crate::stage::{BuildDirectories, Layers, delta_of};
use crate::{PASS_THROUGH, Stage};

const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# more";

type Files = &'static [(&'static str, &'static str)];

fn found(files: Files) -> Vec<String> {
    let found = survey_without_index(&TestWorkspace::with(files)).build_directories;
    found.iter().map(|path| path.display().to_string()).collect()
}

#[test]
fn name_alone_makes_no_build_directory_outside_a_repository() {
    let cases: &[(Files, &[&str])] = &[
        (&[], &[]),
        (&[("target/x", ""), ("build/x", ""), ("src/dist/x", "")], &[]),
        (&[("node_modules/", ""), ("a/b/__pycache__/", "")], &["a/b/__pycache__", "node_modules"]),
        (&[("node_modules/a/node_modules/", "")], &["node_modules"]),
        (&[("target/CACHEDIR.TAG", TAG)], &["target"]),
        (&[("target/CACHEDIR.TAG", "Signature")], &[]),
        (&[("sources/CACHEDIR.TAG", TAG)], &[]),
        (&[(".gitignore", "/target\n"), ("target/", ""), ("a/target/", "")], &["target"]),
        (
            &[(".gitignore", "target\n"), ("target/", ""), ("a/target/", "")],
            &["a/target", "target"],
        ),
        (&[(".gitignore", "target\n"), ("a/.gitignore", "!target\n"), ("a/target/", "")], &[]),
        (&[(".ignore", "build/\n"), ("build/", "")], &["build"]),
        (&[(".gitignore", "out\n"), ("out/a/build/", ""), ("out/src/", "")], &["out/a/build"]),
        (&[(".aiexclude", "target\n"), ("target/", "")], &[]),
        (&[("a/.gitignore", "target\n"), ("b/target/", ""), ("a/target/", "")], &["a/target"]),
        (&[("1/2/3/4/5/6/7/.venv/", ""), ("1/2/3/4/5/6/7/8/.venv/", "")], &["1/2/3/4/5/6/7/.venv"]),
        (&[("node_modules", "a file")], &[]),
        (&[("build/.gitignore", "*\n")], &["build"]),
        (&[("build/.gitignore", "# all\n*\n!keep\n")], &[]),
    ];
    for (files, expected) in cases {
        assert_eq!(found(files), *expected, "{files:?}");
    }
}

#[test]
fn build_directory_in_a_repository_must_be_ignored() {
    let cases: &[(Files, &[&str])] = &[
        (&[(".git/HEAD", ""), ("node_modules/", ""), ("a/__pycache__/", "")], &[]),
        (&[(".git/HEAD", ""), ("target/CACHEDIR.TAG", TAG)], &[]),
        (
            &[(".git/HEAD", ""), (".gitignore", "node_modules\n"), ("node_modules/", "")],
            &["node_modules"],
        ),
        (&[(".git/info/exclude", "dist\n"), ("dist/", ""), (".git/node_modules/", "")], &["dist"]),
        (&[(".git/HEAD", ""), (".venv/.gitignore", "*\n")], &[".venv"]),
        (
            &[("a/.git/HEAD", ""), ("a/node_modules/", ""), ("b/node_modules/", "")],
            &["b/node_modules"],
        ),
    ];
    for (files, expected) in cases {
        assert_eq!(found(files), *expected, "{files:?}");
    }
}

#[test]
fn outer_repository_counts_unless_it_ignores_the_workspace() {
    for (ignored, tagged, expected) in [("build\n", "", 1), ("", TAG, 0), ("/work\n", TAG, 1)] {
        let ground = TestWorkspace::with(&[("build/CACHEDIR.TAG", tagged)]);
        ground.put(".git/HEAD", "");
        ground.put(".gitignore", ignored);
        let found = survey_without_index(&ground).build_directories;
        assert_eq!(found.len(), expected, "{ignored:?}: {found:?}");
    }
}

#[test]
fn a_link_is_no_build_directory() {
    let ground = TestWorkspace::new();
    ground.put("outside/x", "");
    ground.link("../outside", "work/node_modules");
    assert!(survey_without_index(&ground).build_directories.is_empty());
}

/// Creates a workspace in which `target` and `app/node_modules` are build directories.
fn base() -> TestWorkspace {
    let ground = TestWorkspace::with(&[
        (".gitignore", "target\nnode_modules\n"),
        ("src/main.c", "main"),
        ("target/debug/app", "old"),
        ("target/debug/deps/a.o", "a"),
        ("target/debug/deps/b.o", "b"),
        ("target/stamp", "1"),
        ("app/node_modules/left/index.js", "left"),
        ("app/node_modules/right/index.js", "right"),
    ]);
    ground.link("debug/app", "work/target/link");
    ground
}

fn names() -> Vec<String> {
    PASS_THROUGH.map(str::to_owned).to_vec()
}

/// Runs a program on a stage and keeps its changes to build directories. It must not change anything else.
fn keep(ground: &TestWorkspace, state: &Path, program: &str) -> Stage {
    let work = ground.path("work");
    let mut stage = Stage::create(state).unwrap();
    run(&stage, &work, program);
    let known = survey_without_index(ground).build_directories;
    let build = BuildDirectories { names: &names(), known: &known };
    let layers = Layers { upper: stage.upper(), lower: &work };
    let delta = delta_of(layers, stage.created(), build).unwrap();
    assert!(delta.changes.is_empty(), "{program}: {:?}", delta.changes);
    stage.keep_built(&work, &delta.built);
    stage
}

/// Programs that change build directories.
const PROGRAMS: &[&str] = &[
    "true",
    "cat target/stamp app/node_modules/*/index.js",
    "echo new > target/debug/app",
    "echo 2 >> target/stamp; rm target/debug/deps/a.o; echo c > target/debug/deps/c.o",
    "rm -rf target",
    "rm -rf target && mkdir target && echo x > target/x",
    "rm -rf app/node_modules && mkdir -p app/node_modules/left && echo 1 > app/node_modules/left/a",
    "rm -rf target/debug/deps; echo file > target/debug/deps",
    "rm target/debug/app; mkdir target/debug/app; echo x > target/debug/app/x",
    "rm target/link; ln -s stamp target/link",
    "ln target/stamp target/second; ln target/debug/deps/b.o target/third",
    "cp -a target/debug target/release; rm -rf target/debug",
    "mkdir src/target; echo x > src/target/x",
    "chmod 555 target/debug/deps; chmod 600 target/stamp",
    "mkdir -p target/ro/x; echo y > target/ro/x/y; chmod 555 target/ro/x target/ro",
    "touch -d @1 target/debug/deps target/stamp",
    "echo 2 > target/debug/app; rm target/debug/deps/a.o; chmod 0 target/debug/deps target/debug target/stamp",
    "mkfifo target/pipe",
];

/// Checks that a merge leaves the same files as the program without a stage, except for FIFOs.
fn check_merges(state: impl Fn(&TestWorkspace) -> PathBuf) {
    for program in PROGRAMS {
        let (plain, ground) = (base(), base());
        let done =
            Command::new("sh").args(["-c", program]).current_dir(plain.path("work")).status();
        assert!(done.unwrap().success());
        drop(fs::remove_file(plain.work("target/pipe")));
        let stage = keep(&ground, &state(&ground), program);
        assert_eq!(stage.keep_unrecorded().len(), 0, "{program}");
        let kept = described(&ground.path("work"));
        assert_eq!(kept, described(&plain.path("work")), "{program}");
        assert_eq!(stage.keep_unrecorded().len(), 0, "{program}: repeated");
        drop(stage);
        assert_eq!(described(&ground.path("work")), kept, "{program}: repeated");
    }
}

#[test]
fn a_merge_leaves_what_the_program_left() {
    check_merges(|ground| ground.path("stages"));
}

#[test]
fn a_merge_from_another_file_system_leaves_the_same() {
    let memory = tempfile::TempDir::new_in("/dev/shm")
        .expect("a file system besides that of the temporary files");
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    let here = TestWorkspace::new();
    assert_ne!(device(memory.path()), device(&here.path("work")), "/dev/shm is no other one");
    check_merges(|_| memory.path().to_owned());
}

#[test]
fn a_new_tree_moves_with_its_modes_times_and_hard_links() {
    let ground = base();
    let program = "rm -rf target; mkdir -p target/a; echo x > target/a/x; ln target/a/x target/y; \
                   touch -d @7 target/a/x; chmod 755 target/a/x; chmod 555 target";
    keep(&ground, &ground.path("stages"), program).keep_unrecorded();
    let [one, other] = ["a/x", "y"].map(|path| fs::metadata(ground.work("target").join(path)));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!((one.ino(), one.nlink(), one.mtime()), (other.ino(), 2, 7));
    assert_eq!(one.permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::metadata(ground.work("target")).unwrap().mode() & 0o777, 0o555);
}

/// The attributes that overlayfs sets never leave the stage, at any depth: in the workspace, which is a lower layer of the next
/// overlay, they would hide files or prevent their opening.
#[test]
fn no_note_of_the_overlay_reaches_the_workspace() {
    let plant = "import os; [os.setxattr(p, 'user.overlay.' + n, b'y') for n in \
                 ('opaque', 'whiteout', 'redirect', 'metacopy') for p in \
                 ('target/new', 'target/new/deep', 'target/new/deep/x', 'target/stamp')]";
    let program = format!(
        "mkdir -p target/new/deep target/aside; echo x > target/new/deep/x
         mv target/aside target/debug/app target/new/; python3 -c \"{plant}\" || true
         chmod 444 target/new/deep/x; chmod 0 target/new/deep; mv target/stamp target/new/; chmod 500 target/new"
    );
    for state in ["stages", "/dev/shm"] {
        let ground = base();
        let memory = tempfile::TempDir::new_in("/dev/shm").unwrap();
        let state = if state == "stages" { ground.path(state) } else { memory.path().to_owned() };
        assert_eq!(keep(&ground, &state, &program).keep_unrecorded().len(), 0);
        let (new, deep) = (ground.work("target/new"), ground.work("target/new/deep"));
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o777, 0o500);
        assert_eq!(fs::metadata(&deep).unwrap().mode() & 0o777, 0);
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(fs::metadata(deep.join("x")).unwrap().mode() & 0o777, 0o444);
        for path in ["", "aside", "app", "stamp", "deep", "deep/x"].map(|path| new.join(path)) {
            let mut names = [0; 1024];
            let length = rustix::fs::llistxattr(&path, &mut names[..]).unwrap();
            let names = String::from_utf8_lossy(&names[..length]);
            assert!(!names.contains("overlay"), "{}: {names:?}", path.display());
        }
    }
}

#[test]
fn changed_paths_in_build_directories_are_reported() {
    let cases: &[(&str, &[&str])] = &[
        ("true", &[]),
        ("echo 2 > target/stamp", &["target", "target/stamp"]),
        (
            "rm -rf target/debug",
            &[
                "target",
                "target/debug",
                "target/debug/app",
                "target/debug/deps",
                "target/debug/deps/a.o",
                "target/debug/deps/b.o",
            ],
        ),
        (
            "rm -rf app/node_modules; mkdir app/node_modules; echo x > app/node_modules/left",
            &[
                "app/node_modules",
                "app/node_modules/left",
                "app/node_modules/left/index.js",
                "app/node_modules/right",
                "app/node_modules/right/index.js",
            ],
        ),
    ];
    for (program, expected) in cases {
        let ground = base();
        let stage = keep(&ground, &ground.path("stages"), program);
        let mut changed = stage.changed_in_build_directories().unwrap();
        changed.sort();
        let expected: Vec<PathBuf> = expected.iter().map(|path| ground.work(path)).collect();
        assert_eq!(changed, expected, "{program}");
    }
}

/// A file that is moved out of a build directory is reported like every move; the build directory itself is reported only if more
/// changed in it.
#[test]
fn move_out_of_a_build_directory_is_reported() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("mv target/debug/app src/app", &["target/debug/app", "src/app"], &[]),
        (
            "mv target/debug/app src/app; echo 2 > target/stamp",
            &["target/debug/app", "src/app"],
            &["target"],
        ),
        ("mv target/debug/app src/app; echo new > target/debug/app", &["src/app"], &["target"]),
        ("mv target/link src/link", &["target/link", "src/link"], &[]),
        (
            "mv app/node_modules/left src/left; rm -r target/debug/deps",
            &[
                "app/node_modules/left/index.js",
                "app/node_modules/left",
                "src/left",
                "src/left/index.js",
            ],
            &["target"],
        ),
        ("cp target/debug/app src/app; rm target/debug/app", &["src/app"], &["target"]),
        (": 3<>target/stamp; : 3<>target/debug/app; mkdir target/x; rmdir target/x", &[], &[]),
        (": 3<>target/stamp; touch -d @1 target/debug/app", &[], &["target"]),
        (": 3<>target/stamp; chmod 600 target/debug/app", &[], &["target"]),
        ("echo two > target/debug/app; touch -r target/stamp target/debug/app", &[], &["target"]),
        (
            "printf new > target/debug/app; touch -r app/node_modules/left target/debug/app",
            &[],
            &["target"],
        ),
        ("mkdir src/target; mv target/stamp src/target/stamp", &[], &["src/target", "target"]),
    ];
    for (program, changed, built) in cases {
        let ground = base();
        let work = ground.path("work");
        let stage = Stage::create(&ground.path("stages")).unwrap();
        run(&stage, &work, program);
        let known = survey_without_index(&ground).build_directories;
        let build = BuildDirectories { names: &names(), known: &known };
        let layers = Layers { upper: stage.upper(), lower: &work };
        let mut delta = delta_of(layers, stage.created(), build).unwrap();
        let inside = |path: &Path| path.strip_prefix(&work).unwrap().display().to_string();
        let told: Vec<_> = delta.changes.iter().map(|change| inside(&change.path)).collect();
        assert_eq!(told, *changed, "{program}");
        delta.built.sort();
        let told: Vec<_> = delta.built.iter().map(|path| inside(path)).collect();
        assert_eq!(told, *built, "{program}");
    }
}

const PROGRAM: &str =
    "rm -rf target/debug; echo 2 > target/stamp; mkdir target/new; echo x > target/new/x";

/// Writes the records that a process has written on its stage before it is killed.
type Record = fn(&Stage);

/// Leaves a stage as a killed process does: the stage stays, and no process holds its lock. Returns the directory that it is in.
fn leave(ground: &TestWorkspace, record: Record) -> PathBuf {
    let stage = keep(ground, &ground.path("stages"), PROGRAM);
    let stage = stage.of_state(Some(&ground.path("stages")));
    record(&stage);
    let copy = ground.path("copy");
    fs::create_dir(&copy).unwrap();
    let from = stage.upper().parent().unwrap();
    assert!(Command::new("cp").arg("-a").arg(from).arg(&copy).status().unwrap().success());
    drop(stage);
    assert!(ground.work("target/debug").exists(), "a stage that is dropped changes nothing");
    copy
}

/// Returns whether all changes of [`PROGRAM`] are made. Panics if only a part is.
fn is_kept(ground: &TestWorkspace) -> bool {
    let found = ["target/debug", "target/new/x"].map(|path| ground.work(path).exists());
    let stamp = fs::read(ground.work("target/stamp")).unwrap();
    match (found, stamp.as_slice()) {
        ([false, true], b"2\n") => true,
        ([true, false], b"1") => false,
        part => panic!("a part is made: {part:?}"),
    }
}

fn tie(stage: &Stage) {
    stage.tie_to(&CallId::new("c1")).unwrap();
}

fn record(stage: &Stage) {
    stage.record_built().unwrap();
}

fn tie_and_record(stage: &Stage) {
    tie(stage);
    record(stage);
}

#[test]
fn a_merge_that_was_interrupted_is_finished_by_the_next_sweep() {
    for record in [record, tie_and_record] {
        let ground = base();
        let copy = leave(&ground, record);
        assert_eq!(Stage::sweep(&copy).unwrap(), 1);
        assert!(is_kept(&ground));
        assert_eq!(fs::read_dir(&copy).unwrap().count(), 0);
    }
}

#[test]
fn recovery_of_a_left_stage_depends_on_its_call() {
    use CommitState::{Made, NotMade, Unknown};
    let nothing: Record = |_| {};
    let cases: &[(Record, CommitState, bool, &str, usize)] = &[
        (nothing, Made, false, "", 1),
        (
            tie,
            Made,
            true,
            "c1 was cut off before its changes of build directories were kept; they are kept now: ",
            1,
        ),
        (
            tie,
            NotMade,
            false,
            "c1 was cut off before its changes were made; its changes of build directories were dropped",
            1,
        ),
        (tie, Unknown, false, "", 0),
        (
            record,
            NotMade,
            true,
            "a command was cut off before its changes of build directories were kept; they are kept now: ",
            1,
        ),
        (tie_and_record, NotMade, true, "they are kept now: ", 1),
    ];
    for (number, (record, state, kept, word, swept)) in cases.iter().enumerate() {
        let ground = base();
        let copy = leave(&ground, *record);
        let state_of = |call: &CallId| {
            assert_eq!(call.as_str(), "c1");
            *state
        };
        let close = |id: &ApprovalId| unreachable!("{id}: it is held for no question");
        let told = Stage::recover(&copy, &ground.path("stages"), &state_of, &close);
        assert_eq!(is_kept(&ground), *kept, "{number}: {told:?}");
        assert_eq!(told.len(), usize::from(!word.is_empty()), "{number}: {told:?}");
        let target = ground.work("target").display().to_string();
        let is_told = |line: &String| line.contains(word) && line.contains(&target);
        assert!(told.iter().all(is_told), "{number}: {told:?}");
        assert_eq!(Stage::sweep(&copy).unwrap(), *swept, "{number}");
        assert_eq!(is_kept(&ground), *kept, "{number}");
    }
}

#[test]
fn stage_of_an_unfinished_call_stays_for_the_next_start() {
    let ground = base();
    let stages = ground.path("stages");
    let stage = keep(&ground, &stages, PROGRAM).of_state(Some(&stages));
    tie(&stage);
    stage.leave();
    drop(stage);
    assert_eq!((Stage::sweep(&stages).unwrap(), is_kept(&ground)), (0, false));
    assert_eq!(Stage::recover(&stages, &stages, &|_| CommitState::Made, &|_| true).len(), 1);
    assert_eq!((Stage::sweep(&stages).unwrap(), is_kept(&ground)), (1, true));
}

#[test]
fn stage_is_recovered_only_by_its_own_state_directory() {
    let ground = base();
    let copy = leave(&ground, tie);
    let told =
        Stage::recover(&copy, &ground.path("other"), &|_| unreachable!("not its call"), &|_| true);
    assert_eq!((told, Stage::sweep(&copy).unwrap()), (Vec::new(), 0));
    fs::remove_dir_all(ground.path("stages")).unwrap();
    assert_eq!(Stage::sweep(&copy).unwrap(), 1, "its state directory is gone");
    assert!(!is_kept(&ground));
}

#[test]
fn build_directories_that_cannot_be_kept_after_a_kill_are_named() {
    let ground = base();
    let copy = leave(&ground, tie);
    fs::rename(ground.work("target"), ground.work("moved")).unwrap();
    ground.link("moved", "work/target");
    let told = Stage::recover(&copy, &ground.path("stages"), &|_| CommitState::Made, &|_| true);
    assert!(told[0].contains("not kept: ") && told[0].contains("target"), "{told:?}");
    assert_eq!(Stage::sweep(&copy).unwrap(), 1, "it was told");
    assert_eq!(fs::read(ground.work("moved/stamp")).unwrap(), b"1");
}

#[test]
fn a_build_directory_that_became_a_link_meanwhile_is_not_followed() {
    let ground = base();
    let stage =
        keep(&ground, &ground.path("stages"), "rm target/debug/app; echo x > target/debug/y");
    fs::rename(ground.work("target"), ground.work("moved")).unwrap();
    ground.put("outside/debug/app", "theirs");
    ground.link("../outside", "work/target");
    stage.keep_unrecorded();
    assert_eq!(fs::read(ground.path("outside/debug/app")).unwrap(), b"theirs");
    assert!(!ground.path("outside/debug/y").exists());
}
