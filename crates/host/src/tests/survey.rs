//! Surveys of small trees, without and with an index.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use windlass_core::FileKind;

use super::TestWorkspace;
use crate::PASS_THROUGH;
use crate::survey::{MaskRule, Masking, Survey, SurveyEffort, survey_at};

pub(crate) const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n";

/// Masks `.env`, `*.pem` and directories named `secrets`, and `.npmrc` if it has a credential.
pub(crate) struct MaskByName {
    pub(crate) fingerprint: u64,
}

impl MaskRule for MaskByName {
    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn masks(&self, path: &Path, kind: FileKind) -> Masking {
        let name = path.file_name().unwrap().to_str().unwrap_or_default();
        match name {
            ".npmrc" => Masking::IfCredential,
            ".env" => Masking::Mask,
            "secrets" if kind == FileKind::Directory => Masking::Mask,
            _ if path.extension().is_some_and(|ending| ending == "pem") => Masking::Mask,
            _ => Masking::Show,
        }
    }
}

pub(crate) const RULE: MaskByName = MaskByName { fingerprint: 1 };

pub(crate) fn names() -> Vec<String> {
    PASS_THROUGH.map(str::to_owned).to_vec()
}

/// A clock by which every time stamp is old enough to be trusted.
pub(crate) fn much_later() -> i64 {
    i64::MAX / 2
}

/// Waits until the next change gets a time stamp that no earlier change has.
pub(crate) fn next_stamp(ground: &TestWorkspace) {
    let probe = ground.path("probe");
    let stamp = || {
        fs::write(&probe, "").unwrap();
        let found = fs::metadata(&probe).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let first = stamp();
    while stamp() == first {}
}

pub(crate) fn survey_with_index(root: &Path, index: &Path) -> (Survey, SurveyEffort) {
    survey_at(root, &RULE, &names(), index, &much_later).unwrap()
}

/// A survey without an index.
pub(crate) fn survey_without_index(ground: &TestWorkspace) -> Survey {
    let state = tempfile::tempdir_in(ground.path("outside")).unwrap();
    survey_with_index(&ground.path("work"), &state.path().join("index")).0
}

fn lines(survey: &Survey) -> Vec<String> {
    let Survey { masked, build_directories, sockets, git, other_devices, protected: _ } = survey;
    let masked = masked.iter().map(|(path, kind)| format!("masked {} {kind:?}", path.display()));
    let lists =
        [("build", build_directories), ("socket", sockets), ("git", git), ("mount", other_devices)];
    let others = lists.into_iter().flat_map(|(word, paths)| {
        paths.iter().map(move |path| format!("{word} {}", path.display()))
    });
    masked.chain(others).collect()
}

type Files = &'static [(&'static str, &'static str)];

#[test]
fn trees_and_their_surveys() {
    let cases: &[(Files, &[&str])] = &[
        (&[], &[]),
        (&[("a", ""), ("b/c", "")], &[]),
        (
            &[("b/.env", ""), ("a/x.pem", ""), ("a.d/.env", "")],
            &["masked a/x.pem File", "masked a.d/.env File", "masked b/.env File"],
        ),
        (&[("a/secrets/.env", ""), ("secrets", "")], &["masked a/secrets Directory"]),
        (&[("x.pem/.env", "")], &["masked x.pem Directory"]),
        (
            &[(".npmrc", "registry=https://r.example"), ("a/.npmrc", "_auth=x")],
            &["masked a/.npmrc File"],
        ),
        (&[(".npmrc/x", "")], &[]),
        (
            &[
                (".aiexclude", "private/\n*.key\n"),
                ("private/x", ""),
                ("a/b.key", ""),
                ("a/private", ""),
            ],
            &["masked a/b.key File", "masked private Directory"],
        ),
        (&[("a/.aiexclude", "b"), ("a/b", ""), ("b", "")], &["masked a/b File"]),
        (
            &[(".aiexclude", "*.txt"), ("a/.aiexclude", "!*.txt"), ("a/x.txt", ""), ("x.txt", "")],
            &["masked x.txt File"],
        ),
        // An ignored path is not excluded, but `.aiexclude` applies in an ignored directory too.
        (&[(".gitignore", "out"), ("out/.aiexclude", "x"), ("out/x", "")], &["masked out/x File"]),
        // An unusable `.aiexclude` masks everything that it might mask.
        (
            &[("a/.aiexclude", "\0TOO LARGE"), ("a/x", ""), ("a/b/c", ""), ("d", "")],
            &["masked a/.aiexclude File", "masked a/b Directory", "masked a/x File"],
        ),
        // Build directories are not entered, but may be masked themselves.
        (
            &[("node_modules/a/.env", ""), ("a/__pycache__/", "")],
            &["build a/__pycache__", "build node_modules"],
        ),
        (
            &[(".aiexclude", "node_modules"), ("node_modules/x", "")],
            &["masked node_modules Directory"],
        ),
        (
            &[("target/.env", ""), ("build/.env", "")],
            &["masked build/.env File", "masked target/.env File"],
        ),
        (&[(".gitignore", "target"), ("a/target/.env", "")], &["build a/target"]),
        (&[("target/CACHEDIR.TAG", TAG), ("target/.env", "")], &["build target"]),
        (
            &[("1/2/3/4/5/6/7/.venv/.env", ""), ("1/2/3/4/5/6/7/8/.venv/.env", "")],
            &["masked 1/2/3/4/5/6/7/8/.venv/.env File", "build 1/2/3/4/5/6/7/.venv"],
        ),
        (
            &[
                (".git/.env", ""),
                ("a/.git", "gitdir: x"),
                (".jj/.env", ""),
                ("b/.hg/.env", ""),
                ("c/.hg", ""),
            ],
            &["git .git", "git .jj", "git a/.git", "git b/.hg"],
        ),
        (
            &[
                ("r.git/HEAD", ""),
                ("r.git/objects/", ""),
                ("r.git/refs/", ""),
                ("r.git/hooks/.env", ""),
            ],
            &["masked r.git/hooks/.env File", "git r.git"],
        ),
        (&[("HEAD", ""), ("objects/", ""), ("refs/", "")], &["git "]),
        (&[("HEAD/", ""), ("objects/", ""), ("refs/", "")], &[]),
        (&[(".git/info/exclude", "dist"), ("dist/.env", "")], &["build dist", "git .git"]),
    ];
    for (files, expected) in cases {
        let ground = TestWorkspace::new();
        for (name, content) in *files {
            let large = content.replace("\0TOO LARGE", &"#".repeat((1 << 20) + 1));
            ground.put(&format!("work/{name}"), &large);
        }
        assert_eq!(lines(&survey_without_index(&ground)), *expected, "{files:?}");
        let index = ground.path("outside/index");
        let first = survey_with_index(&ground.path("work"), &index).0;
        assert_eq!(
            survey_with_index(&ground.path("work"), &index).0,
            first,
            "with an index: {files:?}"
        );
    }
}

#[test]
fn kinds_and_links() {
    let ground = TestWorkspace::with(&[("a/", "")]);
    ground.put("outside/.env", "");
    ground.put("outside/x", "");
    ground.link("../outside", "work/link");
    ground.link("../outside/x", "work/.env");
    ground.link("../outside", "work/.git");
    ground.link("../outside", "work/node_modules");
    ground.link(".npmrc", "work/a/.npmrc");
    let _socket = UnixListener::bind(ground.work("a/s")).unwrap();
    let _masked = UnixListener::bind(ground.work("a/x.pem")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, ground.work("a/y.pem"), 0o600.into()).unwrap();
    let expected = [
        "masked .env Symlink",
        "masked a/x.pem Socket",
        "masked a/y.pem Fifo",
        "socket a/s",
        "git .git",
    ];
    assert_eq!(lines(&survey_without_index(&ground)), expected);
}

#[test]
fn mount_points_are_reported_and_not_entered() {
    let ground = TestWorkspace::new();
    let (survey, _) = survey_with_index(Path::new("/dev"), &ground.path("outside/index"));
    assert!(survey.other_devices.contains(&"shm".into()), "/dev/shm is no file system of its own");
    assert!(lines(&survey).iter().all(|line| !line.contains(" shm/")), "{survey:?}");
}

/// Root may list every directory; any other user sees that the survey continues.
#[test]
fn a_directory_that_cannot_be_listed_is_shown() {
    let ground = TestWorkspace::with(&[("a/.env", ""), ("b/.env", "")]);
    let set = |mode| fs::set_permissions(ground.work("a"), PermissionsExt::from_mode(mode));
    set(0o300).unwrap();
    let may_list = fs::read_dir(ground.work("a")).is_ok();
    let index = ground.path("outside/index");
    let found = survey_with_index(&ground.path("work"), &index).0;
    let all: &[&str] = &["masked a/.env File", "masked b/.env File"];
    assert_eq!(lines(&found), if may_list { all } else { &all[1..] });
    set(0o700).unwrap();
    assert_eq!(lines(&survey_with_index(&ground.path("work"), &index).0), all);
}

#[test]
fn rules_above_the_root() {
    // Without a repository around it, the root's parents do not count.
    let cases: &[(Files, &[&str])] = &[
        (&[(".aiexclude", "x"), (".gitignore", "build")], &[]),
        (&[(".git/HEAD", ""), (".gitignore", "build")], &["build build"]),
        (&[(".git/HEAD", ""), (".aiexclude", "x")], &["masked x File"]),
        (
            &[(".git/HEAD", ""), (".aiexclude", "part")],
            &["masked build Directory", "masked x File"],
        ),
    ];
    for (files, expected) in cases {
        let ground = TestWorkspace::with(&[("part/x", ""), ("part/build/", "")]);
        let (root, index) = (ground.path("work/part"), ground.path("outside/index"));
        assert!(lines(&survey_with_index(&root, &index).0).is_empty());
        next_stamp(&ground);
        for (name, content) in *files {
            ground.put(&format!("work/{name}"), content);
        }
        assert_eq!(lines(&survey_with_index(&root, &index).0), *expected, "{files:?}");
        assert_eq!(survey_with_index(&root, &index).1.listed, 0, "{files:?}");
    }
}

#[test]
fn protected_paths_are_found_at_any_depth() {
    let ground = TestWorkspace::with(&[
        (".envrc", ""),
        ("a/.ENVRC", ""),
        ("a/b/.vscode/tasks.json", ""),
        ("a/.husky/x/.envrc", ""),
        ("node_modules/.envrc", ""),
        (".bashrc", ""),
        ("envrc", ""),
    ]);
    let found = survey_without_index(&ground).protected;
    let expected = [".envrc", "a/.ENVRC", "a/.husky", "a/.husky/x/.envrc", "a/b/.vscode"];
    assert_eq!(found, expected.map(std::path::PathBuf::from));
}
