//! Changes of a program: made in the workspace, kept on an overlay, or refused; and the mounts of a view.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;

use windlass_sandbox::{Ending, Mount, MountSource};

use crate::support::{TestSandbox, object, overlay};

const CHANGE: &str = "set -e; echo b > a.txt; echo new > new.txt; mkdir -p d/e; echo c > .git/index; \
                      mv new.txt d/e/; rm link; chmod 600 a.txt; cat a.txt d/e/new.txt";

#[test]
fn writable_workspace_is_changed() {
    let sandbox = TestSandbox::confined();
    assert_eq!(sandbox.run(CHANGE), (Ending::Exited(0), "b\nnew\n".into()));
    assert_eq!(fs::read_to_string(sandbox.path("workspace/a.txt")).unwrap(), "b\n");
    assert_eq!(fs::read_to_string(sandbox.path("workspace/d/e/new.txt")).unwrap(), "new\n");
    assert!(sandbox.path("workspace/link").symlink_metadata().is_err());
}

#[test]
fn overlay_takes_the_changes() {
    let sandbox = TestSandbox::staged();
    assert_eq!(sandbox.run(CHANGE), (Ending::Exited(0), "b\nnew\n".into()));
    assert_eq!(fs::read_to_string(sandbox.path("workspace/a.txt")).unwrap(), "a\n");
    assert!(
        !sandbox.path("workspace/d").exists() && !sandbox.path("workspace/.git/index").exists()
    );
    assert!(sandbox.path("workspace/link").symlink_metadata().is_ok());
    assert_eq!(fs::read_to_string(sandbox.path("upper/a.txt")).unwrap(), "b\n");
    assert_eq!(fs::read_to_string(sandbox.path("upper/d/e/new.txt")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(sandbox.path("upper/.git/index")).unwrap(), "c\n");
    let gone = sandbox.path("upper/link").symlink_metadata().unwrap().file_type();
    assert!(gone.is_char_device(), "a whiteout");
}

#[test]
fn everything_can_be_removed_on_a_stage() {
    let sandbox = TestSandbox::staged().with_view(|view| view.protected.clear());
    assert_eq!(sandbox.run("rm -rf .git *; ls -A").1, "");
    assert_eq!(fs::read_to_string(sandbox.path("workspace/.git/config")).unwrap(), "[core]\n");
}

/// A program sees the changes of the one before it on the same overlay.
#[test]
fn overlay_keeps_changes_for_the_next_program() {
    let sandbox = TestSandbox::staged();
    assert_eq!(sandbox.run("echo 1 > number").0, Ending::Exited(0));
    assert_eq!(sandbox.run("cat number; rm number").1, "1\n");
    assert_eq!(sandbox.run("ls number 2>/dev/null").1, "");
}

#[test]
fn changes_are_refused() {
    let sandbox = TestSandbox::read_only();
    for script in ["echo b > a.txt", "touch new", "rm a.txt", "chmod 777 a.txt", "mkdir .windlass"]
    {
        let (ending, printed) = sandbox.run(script);
        assert!(printed.contains("Read-only file system"), "{script}: {printed}");
        assert_ne!(ending, Ending::Exited(0), "{script}");
    }
    assert!(!sandbox.path("workspace/.windlass").exists(), "no stand-in is created");
    assert_eq!(sandbox.run("echo x > /tmp/x && cat /tmp/x").1, "x\n");
}

/// A writable directory can be mounted in a workspace that is not writable.
#[test]
fn later_mount_lies_in_an_earlier_one() {
    for sandbox in [TestSandbox::staged(), TestSandbox::read_only()] {
        fs::create_dir_all(sandbox.path("workspace/target")).unwrap();
        let target = sandbox.path("workspace/target");
        let mut sandbox = sandbox.with_view(|view| {
            let source = MountSource::Writable(object(&target));
            view.mounts.push(Mount { at: target.clone(), source });
        });
        sandbox.fence.as_mut().unwrap().writable.push(target);
        assert_eq!(sandbox.run("echo x > target/x; cat target/x").1, "x\n");
        assert_eq!(fs::read_to_string(sandbox.path("workspace/target/x")).unwrap(), "x\n");
    }
}

#[test]
fn temporary_files_are_in_a_directory_of_the_program() {
    let sandbox = TestSandbox::confined();
    let script = "echo x > /tmp/windlass-test-x && cat /var/tmp/windlass-test-x";
    assert_eq!(sandbox.run(script).1, "x\n");
    assert_eq!(fs::read_to_string(sandbox.path("tmp/windlass-test-x")).unwrap(), "x\n");
    assert!(!std::path::Path::new("/tmp/windlass-test-x").exists());
    let tmp = std::path::Path::new("/tmp");
    let sandbox = sandbox.with_view(|view| {
        view.mounts
            .retain(|mount| mount.at != tmp || matches!(mount.source, MountSource::Directory));
    });
    let (_, printed) = sandbox.run("echo x > /tmp/windlass-test-x");
    assert!(printed.contains("Read-only file system"), "{printed}");
}

/// An object is not mounted if its path leads to another one by then.
#[test]
fn replaced_object_is_refused() {
    for how in ["another directory", "a link"] {
        let sandbox = TestSandbox::confined();
        let (workspace, other) = (sandbox.workspace(), sandbox.path("other"));
        fs::rename(&workspace, &other).unwrap();
        if how == "a link" {
            std::os::unix::fs::symlink("other", &workspace).unwrap();
        } else {
            fs::create_dir(&workspace).unwrap();
        }
        let error = sandbox.start("true").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with("a writable directory could not be mounted"), "{how}: {error}");
    }
}

/// A link in a mounted directory, which an earlier program could have made, must not lead a mount out of the view.
#[test]
fn link_on_the_path_of_a_mount_is_not_followed() {
    let sandbox = TestSandbox::confined();
    let inner = sandbox.workspace().join("inner/deep");
    std::os::unix::fs::symlink(sandbox.path("outside"), sandbox.path("workspace/inner")).unwrap();
    let sandbox = sandbox.with_view(|view| {
        view.mounts.push(Mount { at: inner, source: MountSource::Directory });
    });
    let before = sandbox.fingerprint();
    assert!(sandbox.start("true").is_err());
    assert_eq!(sandbox.fingerprint(), before);
}

/// The names have characters with a meaning in mount options.
#[test]
fn overlay_directories_may_have_any_name() {
    for name in ["a,b", "a:b", "a\\b", "a b", "a\"b", "ü", "a\nb"] {
        let sandbox = TestSandbox::staged();
        let [lower, upper, work] =
            ["lower", "upper", "work"].map(|kind| sandbox.path(&format!("{name}-{kind}")));
        for path in [&lower, &upper, &work] {
            fs::create_dir(path).unwrap();
        }
        fs::write(lower.join("file"), "lower\n").unwrap();
        let source = overlay(&lower, &upper, &work);
        let mut sandbox = sandbox.with_view(|view| {
            view.mounts.push(Mount { at: lower.clone(), source });
        });
        sandbox.fence.as_mut().unwrap().writable.push(lower.clone());
        sandbox.set("LOWER", lower.to_str().unwrap());
        let (ending, printed) = sandbox.run("cd \"$LOWER\" && cat file && echo x > file");
        assert_eq!((ending, &*printed), (Ending::Exited(0), "lower\n"), "{name:?}");
        assert_eq!(fs::read_to_string(upper.join("file")).unwrap(), "x\n", "{name:?}");
        assert_eq!(fs::read_to_string(lower.join("file")).unwrap(), "lower\n", "{name:?}");
    }
}
