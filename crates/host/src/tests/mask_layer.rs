//! Layers of whiteouts, tested in mounted overlays.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::XattrFlags;
use windlass_core::FileKind;

use super::TestWorkspace;
use super::survey::survey_without_index;
use crate::Stage;
use crate::stage::mask_layer::build;

/// Script that mounts a view of the workspace with its masks, and runs a program there.
const IN_VIEW: &str = r#"
mount -t overlay overlay -o "userxattr,lowerdir=$MASKS:$LOWER,upperdir=$UPPER,workdir=$WORK" "$LOWER" || exit 99
cd "$LOWER" || exit 99
exec sh -euc "$PROGRAM"
"#;

/// A workspace with its masks, ready to be mounted.
struct View {
    ground: TestWorkspace,
    stage: Stage,
}

impl View {
    fn new(ground: TestWorkspace, masked: &[(PathBuf, FileKind)]) -> Self {
        let stage = Stage::create(&ground.path("stages")).unwrap();
        build(&ground.path("work"), masked, &ground.path("masks")).unwrap();
        Self { ground, stage }
    }

    /// Masks the entries that a survey finds.
    fn surveyed(ground: TestWorkspace) -> Self {
        let masked = survey_without_index(&ground).masked;
        Self::new(ground, &masked)
    }

    /// Runs a shell script in the view and returns its output.
    fn run(&self, program: &str) -> String {
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", IN_VIEW])
            .env("MASKS", self.ground.path("masks"))
            .env("LOWER", self.ground.path("work"))
            .env("UPPER", self.stage.upper())
            .env("WORK", self.stage.work())
            .env("PROGRAM", program)
            .output()
            .expect("`unshare` of util-linux is needed to mount an overlay");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{program}: {} (99: no overlay could be mounted in a user namespace, which these tests need): {said}",
            output.status,
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

fn tree() -> TestWorkspace {
    TestWorkspace::with(&[
        (".env", "SECRET"),
        ("readme", ""),
        ("a/b/x.pem", "SECRET"),
        ("a/b/y", "shown"),
        ("a/secrets/key", "SECRET"),
        ("a/z", ""),
        ("only/.env", "SECRET"),
    ])
}

#[test]
fn masked_entries_are_absent() {
    let view = View::surveyed(tree());
    let all = "./a\n./a/b\n./a/b/y\n./a/z\n./only\n./readme\n";
    assert_eq!(view.run("find . -mindepth 1 | LC_ALL=C sort"), all);
    for path in [".env", "a/b/x.pem", "a/secrets", "a/secrets/key", "only/.env"] {
        assert_eq!(
            view.run(&format!("! test -e {path} && ! cat {path} 2>&1 | grep SECRET")),
            "",
            "{path}"
        );
    }
    assert_eq!(view.run("cat a/b/y"), "shown");
    assert!(!view.run("grep -r . . || true").contains("SECRET"));
}

#[test]
fn masked_names_can_be_created() {
    type Case = (&'static str, &'static str);
    let cases: &[Case] = &[
        ("echo mine > .env; cat .env", "mine\n"),
        (
            "mkdir a/secrets; ls -A a/secrets; echo mine > a/secrets/key; cat a/secrets/key",
            "mine\n",
        ),
        ("mkdir .env; ls -A .env", ""),
        ("mv a/b/y a/b/x.pem; cat a/b/x.pem", "shown"),
        ("rm -rf a; ls -A", "only\nreadme\n"),
        ("rmdir only; mkdir only; ls -A only", ""),
        ("rm -rf a/b; mkdir a/b; ls -A a/b", ""),
        ("echo mine > only/.env; rm only/.env; ls -A only; rmdir only; ls -A", "a\nreadme\n"),
        ("cp -r a copy; find copy | LC_ALL=C sort", "copy\ncopy/b\ncopy/b/y\ncopy/z\n"),
    ];
    for (program, expected) in cases {
        let view = View::surveyed(tree());
        assert_eq!(view.run(program), *expected, "{program}");
        assert_eq!(fs::read(view.ground.work("a/secrets/key")).unwrap(), b"SECRET", "{program}");
    }
}

#[test]
fn layer_directories_copy_workspace_attributes() {
    let ground = tree();
    let modes = [("a", 0o750), ("a/b", 0o2551), ("only", 0o1777), ("", 0o705)];
    for (number, (path, mode)) in modes.into_iter().enumerate() {
        let directory = fs::File::open(ground.work(path)).unwrap();
        rustix::fs::fsetxattr(&directory, "user.note", path.as_bytes(), XattrFlags::empty())
            .unwrap();
        rustix::fs::fsetxattr(&directory, "user.overlay.opaque", b"y", XattrFlags::empty())
            .unwrap();
        directory.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        let time = i64::try_from(number).unwrap() * 1_000_000_000 + 123_456_789;
        crate::attributes::give_time(&directory, Some(time)).unwrap();
    }
    let masked = survey_without_index(&ground).masked;
    build(&ground.path("work"), &masked, &ground.path("masks")).unwrap();
    for (path, mode) in modes {
        let of = |root: &str| fs::metadata(ground.path(root).join(path)).unwrap();
        let (ours, theirs) = (of("masks"), of("work"));
        assert_eq!(ours.mode() & 0o7777, mode, "{path}");
        let time = |of: &fs::Metadata| (of.mtime(), of.mtime_nsec());
        assert_eq!(time(&ours), time(&theirs), "{path}");
        assert_eq!((ours.uid(), ours.gid()), (theirs.uid(), theirs.gid()), "{path}");
        let value = |name: &str| {
            let mut value = [0; 64];
            let path = ground.path("masks").join(path);
            rustix::fs::getxattr(path, name, &mut value).map(|length| value[..length].to_vec())
        };
        assert_eq!(value("user.note").as_deref(), Ok(path.as_bytes()));
        assert_eq!(value("user.overlay.opaque"), Err(rustix::io::Errno::NODATA), "{path}");
    }
}

#[test]
fn the_view_shows_the_attributes() {
    let ground = tree();
    fs::set_permissions(ground.work("a/b"), fs::Permissions::from_mode(0o2751)).unwrap();
    crate::attributes::give_time(fs::File::open(ground.work("a/b")).unwrap(), Some(1_000_000_000))
        .unwrap();
    let view = View::surveyed(ground);
    assert_eq!(view.run("stat -c '%a %Y' a/b"), "2751 1\n");
}

#[test]
fn unreachable_entry_is_left_out() {
    let ground = tree();
    let masked = survey_without_index(&ground).masked;
    fs::rename(ground.work("a"), ground.path("outside/a")).unwrap();
    ground.link("only", "work/a");
    let view = View::new(ground, &masked);
    assert_eq!(view.ground.names("masks"), [".env", "only"]);
    assert_eq!(view.run("readlink a; ls -A a"), "only\n");
    assert!(
        build(&view.ground.path("work"), &[(PathBuf::new(), FileKind::Directory)], Path::new(""))
            .is_err()
    );
    // A layer is created only once: old whiteouts must not stay in it.
    let again = build(&view.ground.path("work"), &masked, &view.ground.path("masks"));
    assert!(again.unwrap_err().to_string().contains(".env"));
}

#[test]
fn no_masks_make_an_empty_layer() {
    let view = View::new(TestWorkspace::with(&[("x", "y")]), &[]);
    assert!(view.ground.names("masks").is_empty());
    assert_eq!(view.run("cat x"), "y");
}
